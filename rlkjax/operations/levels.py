"""A traced program as levels of equations, calls inlined: one level for each body of a loop."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rlkjax.exact import compat
from rlkjax.exact.certificate import parameters
from rlkjax.operations.lines import UNKNOWN, user_line
from rlkjax.operations.values import Values, to_host

Path = tuple[tuple[int, str], ...]  # (number of the equation, name of the body), outermost first

# The bodies of the primitives that are not inlined.
SUMS = ("dot_general", "reduce_sum")
BODIES = {"scan": ("jaxpr",), "while": ("cond_jaxpr", "body_jaxpr"), "cond": ("branches",)}


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
