"""Rules of primitives that move, compare or order values and round nothing."""

from collections.abc import Sequence
from typing import Any

from rlkjax.exact.interpret import Rule, line_of
from rlkjax.exact.settings import refuse_other_layouts

MOVED = (
    "broadcast_in_dim reshape transpose squeeze expand_dims slice dynamic_slice "
    "dynamic_update_slice gather concatenate pad rev iota copy tile stack unstack split "
    "argmax argmin reduce_and reduce_or reduce_xor cummax cummin "
    "random_seed random_wrap random_unwrap random_fold_in random_clone "
    "threefry2x32 sharding_constraint reshard"
)
DRAWN = "random_bits random_split"
SAME = "stop_gradient device_put copy_p optimization_barrier pvary name"


def moved(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """The primitive itself."""
    return ops.move(eqn, args)


def drawn(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """Random numbers, of the one layout that is defined."""
    refuse_other_layouts(line_of(ops, eqn))
    return ops.move(eqn, args)


def same(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """Its operands, unchanged."""
    return list(args)


def platform_index(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """The branch of `lax.platform_dependent`: the default, on every platform."""
    platforms = eqn.params["platforms"]
    default = next((i for i, names in enumerate(platforms) if not names), len(platforms) - 1)
    return [ops.literal(default, eqn.outvars[0].aval.dtype)]


def empty(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """An array that the program promises to overwrite: zeros."""
    aval = eqn.outvars[0].aval
    return [ops.fill(ops.literal(0, aval.dtype), aval)]


def ordered(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """A sort is always stable; the ties of an unstable one would be the compiler's choice."""
    return ops.move(eqn, args, {"is_stable": True})


def extreme(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """Largest or smallest along axes: NaN wins, +0 is above -0."""
    return ops.extreme(eqn, args)


def by_total_order(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """Primitives that see the sign of a NaN: it is made positive first."""
    return ops.move(eqn, [ops.exit(x) for x in args])


def rules() -> dict[str, Rule]:
    """The family's part of the table."""
    table = {name: Rule("moved", moved) for name in MOVED.split()}
    table |= {name: Rule("moved", drawn) for name in DRAWN.split()}
    table |= {name: Rule("moved", same) for name in SAME.split()}
    table |= {name: Rule("moved", extreme) for name in ("reduce_max", "reduce_min")}
    table |= {"sort": Rule("moved", ordered), "empty": Rule("moved", empty)}
    table["empty2"] = Rule("moved", empty)
    table |= {name: Rule("moved", by_total_order) for name in ("top_k", "eq_to", "lt_to", "le_to")}
    return table | {"platform_index": Rule("control", platform_index)}
