"""A traced program as levels of equations, calls inlined: one level for each body of a loop."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from rlkjax.exact import compat
from rlkjax.exact.certificate import parameters
from rlkjax.operations.lines import UNKNOWN, user_line

Values = list[np.ndarray]
Transform = Callable[[Callable[..., Any]], Callable[..., Any]]
Path = tuple[tuple[int, str], ...]  # (number of the equation, name of the body), outermost first

# The bodies of the primitives that are not inlined.
BODIES = {"scan": ("jaxpr",), "while": ("cond_jaxpr", "body_jaxpr"), "cond": ("branches",)}
_KEYS = {"key<fry>": "threefry2x32", "key<rbg>": "rbg", "key<urbg>": "unsafe_rbg"}


class Ref(NamedTuple):
    """Where a value of a level comes from.

    Attributes:
      kind: "input", "literal" or "result".
      number: of the input or equation.
      place: which of the equation's results.
      value: of a literal.
    """

    kind: str
    number: int = 0
    place: int = 0
    value: Any = None


class Equation(NamedTuple):
    """One operation of a level, in plain values.

    Attributes:
      primitive: its name.
      line: "FILE:LINE (FUNCTION)" of the user.
      text: its parameters that can change bits.
      operands: where its operands come from.
      dtypes: of its results.
      loop: for a scan (length, constants, carries, reversed); for a while loop (constants of the
        condition, of the body); else empty.
      axes: dimension numbers of a product, axes of a sum; else empty.
    """

    primitive: str
    line: str
    text: str
    operands: tuple[Ref, ...]
    dtypes: tuple[str, ...]
    loop: tuple[int, ...]
    axes: tuple[Any, ...]


class Level(NamedTuple):
    """Equations without calls, and what goes in and out.

    Attributes:
      equations: in order.
      outs: where the results of the level come from.
      consts: values that follow the inputs.
      eqns: the equations as JAX has them.
      avals: shape records of inputs and constants.
    """

    equations: tuple[Equation, ...]
    outs: tuple[Ref, ...]
    consts: Values
    eqns: tuple[Any, ...]
    avals: tuple[Any, ...]


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
            is fused into it need not be stored; as many programs as equations.
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
        if not self._apart:
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


def to_host(value: Any) -> np.ndarray:
    """A value on the host; typed keys as their words.

    Args:
      value: a JAX or NumPy array.

    Returns:
      A NumPy array.
    """
    if hasattr(value, "dtype") and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.asarray(value)


def to_device(value: np.ndarray, aval: Any) -> Any:
    """The inverse of `to_host`.

    Args:
      value: a NumPy array.
      aval: shape record of the value.

    Returns:
      A JAX array.
    """
    if compat.is_key(aval):
        return jax.random.wrap_key_data(jax.numpy.asarray(value), impl=_KEYS[aval.dtype.name])
    return jax.numpy.asarray(value, aval.dtype)


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


def read(ref: Ref, inputs: Sequence[Any], results: Sequence[Sequence[Any]]) -> Any:
    """The value that a reference names.

    Args:
      ref: the reference.
      inputs: inputs of the level, then its constants.
      results: of the equations so far.

    Returns:
      The value.
    """
    if ref.kind == "literal":
        return ref.value
    return inputs[ref.number] if ref.kind == "input" else results[ref.number][ref.place]


def flatten(jaxpr: Any, consts: Sequence[Any]) -> Level:
    """A jaxpr with its calls inlined; loops and branches stay equations.

    Args:
      jaxpr: open jaxpr.
      consts: values of its constants.

    Returns:
      The level.
    """
    names: dict[Any, Ref] = {}
    invars = [*jaxpr.invars, *jaxpr.constvars]
    names.update({var: Ref("input", number) for number, var in enumerate(invars)})
    held = list(consts)
    avals = [var.aval for var in invars]
    eqns: list[Any] = []
    equations: list[Equation] = []

    def resolve(atom: Any, scope: Mapping[Any, Ref]) -> Ref:
        if hasattr(atom, "val"):
            return Ref("literal", value=np.asarray(atom.val, atom.aval.dtype))
        return scope[atom]

    def inline(body: Any, scope: dict[Any, Ref]) -> list[Ref]:
        for eqn in body.eqns:
            operands = tuple(resolve(atom, scope) for atom in eqn.invars)
            called = _called(eqn)
            if called is None:
                places = [Ref("result", len(eqns), i) for i in range(len(eqn.outvars))]
                eqns.append(eqn)
                equations.append(_describe(eqn, operands))
            else:
                inner, values = compat.opened(called)
                refs = [Ref("input", len(avals) + i) for i in range(len(values))]
                held.extend(values)
                avals.extend(var.aval for var in inner.constvars)
                own = dict(zip((*inner.constvars, *inner.invars), (*refs, *operands), strict=True))
                places = inline(inner, own)
            scope.update(zip(eqn.outvars, places, strict=True))
        return [resolve(atom, scope) for atom in body.outvars]

    outs = tuple(inline(jaxpr, names))
    # JAX gives no line to what it makes of a constant: that of the next equation is the nearest.
    for number in reversed(range(len(equations) - 1)):
        if equations[number].line == UNKNOWN:
            equations[number] = equations[number]._replace(line=equations[number + 1].line)
    return Level(tuple(equations), outs, [to_host(v) for v in held], tuple(eqns), tuple(avals))


def _called(eqn: Any) -> Any:
    """The jaxpr of a call, whose operands are those of the equation; None for anything else."""
    if eqn.primitive.name in BODIES:
        return None
    inner = compat.sub_jaxprs(eqn.params)
    if len(inner) != 1:
        return None
    opened, _ = compat.opened(inner[0])
    return inner[0] if len(opened.invars) == len(eqn.invars) else None


def _describe(eqn: Any, operands: tuple[Ref, ...]) -> Equation:
    name, params = eqn.primitive.name, eqn.params
    loop: tuple[int, ...] = ()
    if name == "scan":
        counts = compat.scan_counts(params, len(eqn.invars))
        loop = (params["length"], *counts, int(params["reverse"]))
    if name == "while":
        loop = params["cond_nconsts"], params["body_nconsts"]
    axes = params.get("dimension_numbers") if name == "dot_general" else params.get("axes")
    return Equation(
        primitive=name,
        line=user_line(eqn),
        text=parameters(params),
        operands=operands,
        dtypes=tuple(getattr(v.aval, "dtype", np.dtype(bool)).name for v in eqn.outvars),
        loop=loop,
        axes=tuple(axes) if isinstance(axes, tuple) and name in SUMS else (),
    )


SUMS = ("dot_general", "reduce_sum")
