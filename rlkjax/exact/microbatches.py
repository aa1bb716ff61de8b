"""Sums that go on over microbatches, which come one after the other.

`named.accumulate` writes a loop that adds; here it is recognised and taken apart.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rlkjax.exact import compat
from rlkjax.exact.errors import UnsupportedControlFlowError

MARK = "exact_accumulated"  # in the name of a call: it adds over microbatches
AXIS = "exact microbatches"  # among the device axes of a sum: it goes on over microbatches


class Program(NamedTuple):
    """Part of a jaxpr, to be evaluated like one."""

    constvars: Sequence[Any]
    invars: Sequence[Any]
    eqns: Sequence[Any]
    outvars: Sequence[Any]


class Accumulation(NamedTuple):
    """A loop that adds over microbatches, taken apart.

    Attributes:
      operands: the call's operands -> those of the loop: constants, zeros, microbatches.
      one: constants and one microbatch -> the values that are added.
      consts: what `one` closes over.
      closed: what the call closes over.
      num_consts: how many of the loop's operands are constants.
      length: number of microbatches.
    """

    operands: Program
    one: Program
    consts: Sequence[Any]
    closed: Sequence[Any]
    num_consts: int
    length: int


def accumulation(eqn: Any) -> Accumulation | None:
    """Takes a call apart that `named.accumulate` wrote.

    Args:
      eqn: a call.

    Returns:
      Its parts; None if it is no such call, or a transformation has made something else of it.
    """
    if MARK not in eqn.params.get("name", ""):
        return None
    call, closed = compat.opened(compat.sub_jaxprs(eqn.params)[0])
    *before, loop = call.eqns
    if loop.primitive.name != "scan" or list(call.outvars) != list(loop.outvars):
        return None
    first, carried = compat.scan_counts(loop.params, len(loop.invars))
    body, consts = compat.opened(loop.params["jaxpr"])
    sums = body.invars[first : first + carried]
    adds = added(body, sums)
    start = loop.invars[first : first + carried]
    if adds is None or not all(is_zero(v, makers(call)) for v in start):
        return None
    inputs = [*body.invars[:first], *body.invars[first + carried :]]
    rest = [each for each in body.eqns if not any(each is add for add in adds)]
    one = Program(body.constvars, inputs, rest, [add.invars[1] for add in adds])
    operands = Program(call.constvars, call.invars, before, loop.invars)
    return Accumulation(operands, one, consts, closed, first, loop.params["length"])


def added(body: Any, sums: Sequence[Any]) -> list[Any] | None:
    """The equations `sum + value` that end the body of a loop; None if it does anything else."""
    made = makers(body)
    adds = [made.get(v) for v in body.outvars if not hasattr(v, "val")]
    read = [v for eqn in body.eqns for v in eqn.invars] + list(body.outvars)
    fits = len(adds) == len(sums) and all(
        add is not None and add.primitive.name == "add" and add.invars[0] is own
        for add, own in zip(adds, sums, strict=True)
    )
    once = all(sum(v is own for v in read) == 1 for own in sums)
    return [add for add in adds if add is not None] if fits and once else None


def refuse_nesting(nested: bool, line: str) -> None:
    """Refuses an accumulation inside another: a sum has one loop that it goes on over."""
    if nested:
        raise UnsupportedControlFlowError(
            f"accumulate is called inside accumulate at {line or compat.UNKNOWN}, want one of "
            "them; reshape both first axes of the microbatches into one"
        )


def makers(jaxpr: Any) -> Mapping[Any, Any]:
    """Variable -> the equation that makes it."""
    return {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}


def is_zero(atom: Any, made: Mapping[Any, Any]) -> bool:
    """Whether a value is a literal 0, spread over a shape or over devices."""
    if hasattr(atom, "val"):
        return bool(np.all(np.asarray(atom.val) == 0))
    eqn = made.get(atom)
    return (
        eqn is not None
        and eqn.primitive.name in ("broadcast_in_dim", "pvary")
        and is_zero(eqn.invars[0], made)
    )
