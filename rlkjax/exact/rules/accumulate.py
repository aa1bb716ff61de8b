"""Rules of sums, products of matrices and scatters: order-free."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from rlkjax.exact.interpret import Rule, composed

Array = jax.Array


def reduce_sum(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """Sum along axes."""
    return [ops.sum(args[0], eqn.params["axes"])]


def cumsum(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """Running sum."""
    return [ops.cumsum(args[0], eqn.params["axis"], eqn.params["reverse"])]


def dot_general(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """Product of matrices; for a float32 result, operands of other kinds become float32 first."""
    kind = eqn.outvars[0].aval.dtype
    if kind == jnp.float32:
        args = [x if x.dtype == kind else ops.convert(x, kind) for x in args]
    return [ops.dot(*args, eqn.params)]


def scatter_add(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """Adds updates into cells."""
    return [ops.scatter_add(args, eqn.params)]


def reduce_prod(params: Mapping[str, Any]) -> Callable[[Array], Array]:
    """Product along axes: the halves of the axis are multiplied, until one element is left."""

    def fn(x: Array) -> Array:
        for axis in sorted(params["axes"], reverse=True):
            x = product(jnp.moveaxis(x, axis, 0))
        return x

    return fn


def product(x: Array) -> Array:
    """Product along the first axis, x[i] * x[i + half] first, ones appended."""
    size = 1
    while size < x.shape[0]:
        size *= 2
    x = lax.concatenate([x, jnp.ones((size - x.shape[0], *x.shape[1:]), x.dtype)], 0)
    while x.shape[0] > 1:
        half = x.shape[0] // 2
        x = x[:half] * x[half:]
    return x[0]


def rules() -> dict[str, Rule]:
    """The family's part of the table."""
    table = {
        "reduce_sum": reduce_sum,
        "cumsum": cumsum,
        "dot_general": dot_general,
        "scatter-add": scatter_add,
        "scatter_add": scatter_add,
    }
    defined = {name: Rule("defined", fn) for name, fn in table.items()}
    return defined | {"reduce_prod": composed(reduce_prod)}
