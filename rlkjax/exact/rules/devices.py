"""Rules of `shard_map` and of what devices compute together inside it."""

from collections.abc import Callable, Sequence
from typing import Any

from jax import lax

from rlkjax.exact.errors import UnsupportedPrimitiveError
from rlkjax.exact.interpret import Rule, composed, line_of, run
from rlkjax.exact.roots import PSUMS

DEFINED = "psum psum_invariant reduce_scatter"
MOVED = "pmax pmin all_gather all_gather_invariant ppermute all_to_all axis_index"


def shard_map(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """The body on every device, by the same rules."""
    return ops.shard_map(
        lambda inner, values: run(inner, eqn.params["jaxpr"], values), eqn.params, args
    )


def collective(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """An exchange between the devices along named axes, or along the rows of a mapped one."""
    if eqn.params.get("axis_index_groups") is not None:
        raise UnsupportedPrimitiveError(
            f"exact has no rule for '{eqn.primitive.name}' with axis_index_groups at "
            f"{line_of(ops, eqn)}: give the mesh one more axis instead"
        )
    axes = eqn.params.get("axes", ())
    mapped = [axis for axis in axes if isinstance(axis, int)]
    if not mapped:
        return ops.collective(eqn.primitive.name, eqn.params, args)
    names = tuple(axis for axis in axes if axis not in mapped)
    if eqn.primitive.name in PSUMS:
        return [ops.over(names).sum(x, mapped) for x in args]
    args = EXTREMES[eqn.primitive.name](mapped).apply(ops, eqn, args)
    params = {**eqn.params, "axes": names}
    return ops.collective(eqn.primitive.name, params, args) if names else args


def along(reduce: Callable[..., Any]) -> Callable[[Sequence[int]], Rule]:
    """The rule of an extreme along axes, what a mapped axis has become of a device axis."""
    return lambda axes: composed(lambda params: lambda *xs: [reduce(x, axes) for x in xs])


EXTREMES = {"pmax": along(lax.reduce_max), "pmin": along(lax.reduce_min)}


def rules() -> dict[str, Rule]:
    """The family's part of the table."""
    table = {"shard_map": Rule("control", shard_map)}
    table |= {name: Rule("defined", collective) for name in DEFINED.split()}
    return table | {name: Rule("moved", collective) for name in MOVED.split()}
