"""Running products and folds by the program's own function, composed: their order is stated."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from rlkjax.exact import compat
from rlkjax.exact.interpret import Rule, composed

Array = jax.Array
Params = Mapping[str, Any]
Body = Callable[..., Sequence[Array]]
Step = Callable[[Array, Array], tuple[Array, Array]]


def mapped_body(jaxpr: Any, consts: Sequence[Any] = ()) -> Body:
    """A function of scalars as one of arrays of equal shapes."""
    scalar = compat.as_function(jaxpr, consts)

    def body(*args: Array) -> Sequence[Array]:
        flat = jax.vmap(scalar)(*(a.reshape(-1) for a in args))
        return [x.reshape(args[0].shape) for x in flat]

    return body


def fold_halves(body: Body, parts: Sequence[Array], starts: Sequence[Array]) -> list[Array]:
    """Folds the first axis: x[i] with x[i + half] first, until one is left.

    Args:
      body: (left..., right...) -> folded..., of arrays.
      parts: arrays with the same first axis.
      starts: scalars appended up to a power of two, once at least if the axis is empty.

    Returns:
      The arrays without their first axis.
    """
    size = 1
    while size < parts[0].shape[0]:
        size *= 2
    values = [
        lax.concatenate([x, jnp.full((size - x.shape[0], *x.shape[1:]), start, x.dtype)], 0)
        for x, start in zip(parts, starts, strict=True)
    ]
    while values[0].shape[0] > 1:
        half = values[0].shape[0] // 2
        values = list(body(*(v[:half] for v in values), *(v[half:] for v in values)))
    return [v[0] for v in values]


def reduce(params: Params) -> Callable[..., list[Array]]:
    """Axes folded by the program's own function, in row-major order of the elements."""

    def fn(*args: Array) -> list[Array]:
        operands, starts = args[: len(args) // 2], args[len(args) // 2 :]
        axes = tuple(params["dimensions"])
        body = mapped_body(params["jaxpr"], params.get("consts", ()))
        moved = [jnp.moveaxis(x, axes, range(len(axes))) for x in operands]
        parts = [m.reshape(-1, *m.shape[len(axes) :]) if m.size else empty(m, axes) for m in moved]
        return fold_halves(body, parts, starts)

    return fn


def empty(x: Array, axes: Sequence[int]) -> Array:
    """An empty array whose first axes are made one."""
    length = 1
    for size in x.shape[: len(axes)]:
        length *= size
    return jnp.zeros((length, *x.shape[len(axes) :]), x.dtype)


def running(step: Callable[[Array, Array], Array], start: float) -> Any:
    """A running fold along an axis, one element after the other, from the side of the start."""

    def body(carry: Array, row: Array) -> tuple[Array, Array]:
        carry = step(carry, row)
        return carry, carry

    def make(params: Params) -> Callable[[Array], Array]:
        return lambda x: scanned(body, start, x, params)

    return make


def scanned(body: Step, start: float, x: Array, params: Params) -> Array:
    """The values that a loop over one axis passes through."""
    moved = jnp.moveaxis(x, params["axis"], 0)
    first = jnp.full(moved.shape[1:], start, x.dtype)
    _, out = lax.scan(body, first, moved, reverse=params["reverse"])
    return jnp.moveaxis(out, 0, params["axis"])


def log_add_exp(x: Array, y: Array) -> Array:
    """log(e^x + e^y) = max + log1p(e^-|x - y|); equal infinities and NaN: x + y."""
    distance = x - y
    result = jnp.maximum(x, y) + jnp.log1p(jnp.exp(-jnp.abs(distance)))
    return jnp.where(distance != distance, x + y, result)


def rules() -> dict[str, Rule]:
    """The family's part of the table."""
    return {
        "reduce": composed(reduce),
        "cumprod": composed(running(jnp.multiply, 1)),
        "cumlogsumexp": composed(running(log_add_exp, -jnp.inf)),
    }
