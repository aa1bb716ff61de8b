"""Walks a jaxpr, equation by equation, with one table of rules and one executor.

The table says what each primitive means in terms of a small instruction set; an executor says how
an instruction is carried out: `lower.Lowering` as JAX operations, `reference.Reference` in NumPy.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from rlkjax.exact import compat
from rlkjax.exact.errors import UnsupportedDtypeError, UnsupportedPrimitiveError
from rlkjax.exact.joins import device_sums
from rlkjax.exact.sharing import uses

Kind = Literal["defined", "moved", "composed", "control"]
ALLOWED = frozenset(
    ["float32", "int8", "int16", "int32", "uint8", "uint16", "uint32", "bool", "float0"]
)
REASONS = {
    "float64": "exact defines float32 results only",
    "float16": "exact defines float32 results only",
    "bfloat16": "exact defines float32 results only",
    "complex64": "complex arithmetic has no definition here",
    "key<rbg>": "only threefry keys give the same bits everywhere",
    "key<urbg>": "only threefry keys give the same bits everywhere",
}


class Rule(NamedTuple):
    """What a primitive means.

    Attributes:
      kind: "defined": a rounding of the definitions; "moved": values are copied, compared or are
        integers, so no rounding happens; "composed": written in other primitives; "control".
      apply: (executor, equation, operands) -> results.
    """

    kind: Kind
    apply: Callable[[Any, Any, Sequence[Any]], Sequence[Any]]


Table = Mapping[str, Rule]
LOOPS = frozenset(["scan", "while"])  # which, like calls, take what is known into their bodies


def run(
    ops: Any, jaxpr: Any, args: Sequence[Any], consts: Sequence[Any] | None = None
) -> list[Any]:
    """Evaluates a jaxpr, as `evaluate` does, to values of the executor."""
    return [ops.value(x) for x in evaluate(ops, jaxpr, args, consts)]


def evaluate(
    ops: Any, jaxpr: Any, args: Sequence[Any], consts: Sequence[Any] | None = None
) -> list[Any]:
    """Evaluates a jaxpr.

    Args:
      ops: the executor, which holds the table of rules.
      jaxpr: open or closed jaxpr.
      args: one value for each input variable.
      consts: values of the constants, if they are not those of the jaxpr.

    Returns:
      One value for each output variable, or what is known of it; see known.py.

    Raises:
      UnsupportedPrimitiveError: a primitive has no rule.
      UnsupportedDtypeError: a dtype has no definition.
    """
    opened, own = compat.opened(jaxpr)
    if consts is None:
        consts = [ops.constant(c) for c in own]
    values: dict[Any, Any] = {}
    literals: dict[tuple[str, bytes], Any] = {}

    def read(atom: Any) -> Any:
        if not hasattr(atom, "val"):
            return values[atom]
        value = np.asarray(atom.val, atom.aval.dtype)
        key = (str(value.dtype), value.tobytes())
        if value.ndim or key not in literals:
            literals[key] = ops.constant(value)
        return literals[key]

    values.update(zip(opened.constvars, consts, strict=True))
    values.update(zip(opened.invars, args, strict=True))
    joins = device_sums(opened, ops.joined, ops.shared)
    reads = uses(opened, ops.uses)
    for number, eqn in enumerate(opened.eqns):
        rule = lookup(ops, eqn)
        check_dtypes(ops, eqn)
        operands = [read(atom) for atom in eqn.invars]
        known = None if number in joins.sums else ops.known(rule, eqn, operands)
        if known is not None:
            outs: Sequence[Any] = known
        elif number in joins.done:
            outs = operands
        else:
            if eqn.primitive.name not in compat.CALLS | LOOPS:
                operands = [ops.value(x) for x in operands]
            uses_of_results = tuple(reads.get(v, 0) for v in eqn.outvars)
            here = joins.at(number, replace(within(ops, eqn), uses=uses_of_results))
            outs = rule.apply(here, eqn, operands)
            if rule.kind != "control":
                outs = here.results(eqn, operands, outs)
        values.update(zip(eqn.outvars, outs, strict=True))
    return [read(atom) for atom in opened.outvars]


def within(ops: Any, eqn: Any) -> Any:
    """The executor for what is inside an equation: it knows the user's line of the equation."""
    if not compat.sub_jaxprs(eqn.params):
        return ops
    line = compat.source_line(eqn)
    return ops if line == compat.UNKNOWN else replace(ops, line=line)


def line_of(ops: Any, eqn: Any) -> str:
    """The user's line of an equation, or of the nearest call around it that has one."""
    line = compat.source_line(eqn)
    return ops.line if line == compat.UNKNOWN and ops.line else line


def lookup(ops: Any, eqn: Any) -> Rule:
    """The rule of an equation, or the error that names its primitive and line."""
    rule: Rule | None = ops.table.get(eqn.primitive.name)
    if rule is None:
        raise UnsupportedPrimitiveError(
            f"exact has no rule for primitive '{eqn.primitive.name}' at "
            f"{line_of(ops, eqn)}; {advice(eqn.primitive.name)}"
        )
    return rule


def advice(name: str) -> str:
    """What to do about a primitive without a rule."""
    if "callback" in name or name in ("debug_print", "infeed", "outfeed"):
        return "a host callback has no defined bits: return the value instead and use it outside"
    return "write it with primitives that have one (docs/exact.md lists them), or use native"


def check_dtypes(ops: Any, eqn: Any) -> None:
    """Refuses an equation that reads or makes a dtype without a definition."""
    for atom in (*eqn.invars, *eqn.outvars):
        dtype = getattr(atom.aval, "dtype", None)
        if dtype is None or dtype.name in ALLOWED or dtype.name == compat.THREEFRY:
            continue
        refuse_dtype(dtype.name, f"'{eqn.primitive.name}' at {line_of(ops, eqn)}")


def refuse_dtype(name: str, where: str) -> None:
    """Raises if dtype `name` is not allowed.

    Args:
      name: NumPy's name of the dtype.
      where: who holds it, for the message.

    Raises:
      UnsupportedDtypeError: the dtype has no definition.
    """
    if name not in ALLOWED and name != compat.THREEFRY:
        reason = REASONS.get(name, "its arithmetic has no definition here")
        raise UnsupportedDtypeError(
            f"{where} holds {name}, want float32, integers up to 32 bits, bool or threefry keys: "
            f"{reason}; {advice_on_dtype(name)}"
        )


def advice_on_dtype(name: str) -> str:
    """What to do about a dtype without a definition."""
    if name.startswith("key<"):
        return 'make it with jax.random.key(seed, impl="threefry2x32")'
    if name.startswith("complex"):
        return "write it in real numbers, or compute it outside of exact"
    kind = "int32" if "int" in name else "float32"
    return f"keep it in jnp.{kind} there, or hand over jnp.asarray(x, jnp.{kind})"


def composed(make: Callable[[Mapping[str, Any]], Callable[..., Any]]) -> Rule:
    """The rule of a primitive that is defined as a program of other primitives.

    Args:
      make: parameters of the equation -> function of float32 and integer arrays, in `jax.lax`.

    Returns:
      A rule that traces the function and evaluates it by the same table.
    """

    def apply(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
        fn = make(eqn.params)
        shapes = [atom.aval.update(weak_type=False) for atom in eqn.invars]
        jaxpr, consts, _ = compat.traced(fn, shapes)
        return run(ops, jaxpr, args, [ops.constant(c) for c in consts])

    return Rule("composed", apply)
