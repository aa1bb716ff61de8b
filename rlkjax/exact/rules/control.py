"""Rules of control flow: the same flow, around bodies that follow the rules."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from rlkjax.exact import compat
from rlkjax.exact.interpret import Rule, composed, evaluate, run
from rlkjax.exact.microbatches import AXIS, Accumulation, accumulation
from rlkjax.exact.roots import GRID_MARK, Uses


def call(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """A call, evaluated in place; one that `named.dot` marked sets the grid inside."""
    if found := accumulation(eqn):
        return accumulate(ops, found, [ops.value(x) for x in args])
    name = eqn.params.get("name", "")
    if GRID_MARK in name:
        ops = dataclasses.replace(ops, grid="contracted")
    body = compat.sub_jaxprs(eqn.params)[0]
    return ops.call(name, lambda here, *values: evaluate(here, body, values), args)


def accumulate(ops: Any, found: Accumulation, args: Sequence[Any]) -> Sequence[Any]:
    """Sums over microbatches: each has one grid and one rounding over all of them."""
    operands = run(ops.inside(), found.operands, args, [ops.constant(c) for c in found.closed])
    outs = found.one.outvars
    consts = operands[: found.num_consts]
    batches = operands[found.num_consts + len(outs) :]
    axes = [(AXIS, *more) for more in ops.joined or ((),) * len(outs)]
    shared = (True,) * found.num_consts + (False,) * len(batches)
    uses = Uses(found.one, shared)
    behind = [uses.roots(v, a) for v, a in zip(outs, axes, strict=True)]

    def one(here: Any, batch: Sequence[Any]) -> list[Any]:
        inner = dataclasses.replace(here.inside(), joined=tuple(axes), shared=shared)
        closed = [here.constant(c) for c in found.consts]
        values = run(inner, found.one, [*consts, *batch], closed)
        return [
            v if sums else here.over(a).sum(v, ())
            for v, a, sums in zip(values, axes, behind, strict=True)
        ]

    return ops.accumulate(one, batches, found.length)


def scan(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """A loop of known length."""
    num_consts, num_carry = compat.scan_counts(eqn.params, len(args))
    consts, rest = list(args[:num_consts]), [ops.value(x) for x in args[num_consts:]]

    def body(carry: list, x: list) -> tuple[list, list]:
        outs = run(ops.inside(), eqn.params["jaxpr"], [*consts, *carry, *x])
        return outs[:num_carry], outs[num_carry:]

    return ops.scan(body, rest[:num_carry], rest[num_carry:], eqn.params)


def while_loop(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """A loop until a condition fails."""
    split = eqn.params["cond_nconsts"]
    start = split + eqn.params["body_nconsts"]
    cond_consts, body_consts = list(args[:split]), list(args[split:start])
    return ops.while_loop(
        lambda carry: run(ops.inside(), eqn.params["cond_jaxpr"], [*cond_consts, *carry])[0],
        lambda carry: run(ops.inside(), eqn.params["body_jaxpr"], [*body_consts, *carry]),
        [ops.value(x) for x in args[start:]],
    )


def branch(ops: Any, jaxpr: Any) -> Callable[..., list]:
    """One branch as a function."""
    return lambda *args: run(ops.inside(), jaxpr, args)


def cond(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """One of several branches."""
    return ops.switch(args[0], [branch(ops, j) for j in eqn.params["branches"]], args[1:])


def linear_solve(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """custom_linear_solve: its `solve` program, on that program's constants."""
    lengths = eqn.params["const_lengths"]
    start = lengths.matvec + lengths.vecmat
    consts = args[start : start + lengths.solve]
    rest = args[start + lengths.solve + lengths.transpose_solve :]
    return run(ops, eqn.params["jaxprs"].solve, [*consts, *rest])


def rules() -> dict[str, Rule]:
    """The family's part of the table."""
    flow = {"scan": scan, "while": while_loop, "cond": cond, "custom_linear_solve": linear_solve}
    table = {name: Rule("control", fn) for name, fn in flow.items()}
    table["call_hi_primitive"] = Rule("control", composed(compat.hi_function).apply)
    return table | {name: Rule("control", call) for name in compat.CALLS}
