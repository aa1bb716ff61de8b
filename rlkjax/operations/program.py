"""One evaluation of a traced function: its levels, and how they are computed."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax

from rlkjax.exact import compat
from rlkjax.operations.levels import Equation, Level, Path, Ref, flatten, read
from rlkjax.operations.values import Values, to_device, to_host

MOST = 200  # equations of a level that get a program each; compiling more takes minutes

Transform = Callable[[Callable[..., Any]], Callable[..., Any]]


class Program:
    """One evaluation of a traced function: its levels, and how they are computed."""

    def __init__(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any],
        transform: Transform,
        *,
        apart: bool = False,
    ) -> None:
        """Traces a function.

        Args:
          fn: function of trees of arrays.
          args: arrays or shape records.
          transform: applied to the function "results of a level": the identity computes one
            operation after the other, `jax.jit` a level as a whole.
          apart: each equation has a program of its own that returns its results alone, so that what
            is fused into it need not be stored; not in levels of more than `MOST` equations.
        """
        leaves, tree = jax.tree.flatten(args)
        jaxpr, consts, _ = compat.traced(lambda *flat: fn(*jax.tree.unflatten(tree, flat)), leaves)
        self._levels: dict[Path, Level] = {(): flatten(jaxpr, consts)}
        self._computed: dict[Path, Callable[..., Any]] = {}
        self._transform = transform
        self._apart = apart

    def outline(self, path: Path) -> tuple[tuple[Equation, ...], tuple[Ref, ...], Values]:
        """The equations of a level, where its results come from, and its constants.

        Args:
          path: the level; () for the outermost.

        Returns:
          Plain values.
        """
        level = self._level(path)
        return level.equations, level.outs, level.consts

    def evaluate(self, path: Path, inputs: Values) -> list[Values]:
        """All results of a level.

        Args:
          path: the level.
          inputs: as `to_host` gives them, without the constants.

        Returns:
          The results of each equation.
        """
        level = self._level(path)
        if path not in self._computed:
            self._computed[path] = self._program(level)
        given = map(to_device, [*inputs, *level.consts], level.avals)
        return [[to_host(x) for x in each] for each in self._computed[path](*given)]

    def _program(self, level: Level) -> Callable[..., list[list[Any]]]:
        if not self._apart or len(level.eqns) > MOST:
            return self._transform(functools.partial(compute, level))
        numbers = range(len(level.eqns))
        each = [self._transform(functools.partial(compute_one, level, n)) for n in numbers]
        return lambda *given: [program(*given) for program in each]

    def _level(self, path: Path) -> Level:
        if path not in self._levels:
            number, body = path[-1]
            eqn = self._level(path[:-1]).eqns[number]
            name, _, branch = body.partition(":")
            jaxpr = eqn.params[name][int(branch)] if branch else eqn.params[name]
            self._levels[path] = flatten(*compat.opened(jaxpr))
        return self._levels[path]


def compute(level: Level, *inputs: Any) -> list[list[Any]]:
    """All results of a level, by its equations in order.

    Args:
      level: the level.
      *inputs: inputs and constants.

    Returns:
      The results of each equation.
    """
    results: list[list[Any]] = []
    for eqn, equation in zip(level.eqns, level.equations, strict=True):
        operands = [read(ref, inputs, results) for ref in equation.operands]
        out = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(eqn.params))
        results.append(list(out) if eqn.primitive.multiple_results else [out])
    return results


def compute_one(level: Level, number: int, *inputs: Any) -> list[Any]:
    """The results of one equation of a level.

    Args:
      level: the level.
      number: of the equation.
      *inputs: inputs and constants.

    Returns:
      Its results.
    """
    until = level._replace(eqns=level.eqns[: number + 1], equations=level.equations[: number + 1])
    return compute(until, *inputs)[number]
