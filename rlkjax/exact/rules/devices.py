"""Rules of `shard_map` and of what devices compute together inside it."""

from collections.abc import Sequence
from typing import Any

from rlkjax.exact.errors import UnsupportedPrimitiveError
from rlkjax.exact.interpret import Rule, line_of, run

DEFINED = "psum psum_invariant reduce_scatter"
MOVED = "pmax pmin all_gather all_gather_invariant ppermute all_to_all axis_index"


def shard_map(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """The body on every device, by the same rules."""
    return ops.shard_map(
        lambda inner, values: run(inner, eqn.params["jaxpr"], values), eqn.params, args
    )


def collective(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """An exchange between the devices along named axes."""
    if eqn.params.get("axis_index_groups") is not None:
        raise UnsupportedPrimitiveError(
            f"exact has no rule for '{eqn.primitive.name}' with axis_index_groups at "
            f"{line_of(ops, eqn)}: give the mesh one more axis instead"
        )
    return ops.collective(eqn.primitive.name, eqn.params, args)


def rules() -> dict[str, Rule]:
    """The family's part of the table."""
    table = {"shard_map": Rule("control", shard_map)}
    table |= {name: Rule("defined", collective) for name in DEFINED.split()}
    return table | {name: Rule("moved", collective) for name in MOVED.split()}
