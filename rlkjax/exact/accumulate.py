"""Sums whose value does not depend on any order.

Each element is rounded to the grid of the largest magnitude M (grid.py), q = 2^(e-31): an integer
of at most 2^32 times q. Up to 2^20 of them add to at most 2^52 q, so that every partial sum is
exact in float64; longer sums continue in int64. One rounding to float32 ends it.

A zero sum is +0. An element that is infinite or NaN follows IEEE 754 among the rounded elements,
which again knows no order.
"""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from rlkjax.exact.few import few_sum, few_terms
from rlkjax.exact.grid import power, to_grid
from rlkjax.exact.rounding import F32, I64, Opaque, hidden, narrow_sum, wide_dot, widen

Array = jax.Array

SUM_BITS = 31
SUM_BLOCK = 2**20


def order_free_sum(x: Array, axes: Sequence[int], opaque: Opaque) -> Array:
    """Sum along axes as defined above.

    Args:
      x: float32, any shape.
      axes: axes that vanish.
      opaque: run-time scalars.

    Returns:
      float32, the shape of x without `axes`.
    """
    axes = tuple(axes)
    shape = [n for a, n in enumerate(x.shape) if a not in axes]
    if x.size == 0:
        return empty_sum(shape, opaque)
    if few_terms(x, axes):
        return few_sum(x, axes[0], SUM_BITS, opaque)
    peak = power(x, axes)
    grid = to_grid(x, peak, SUM_BITS)
    total = added(grid, axes)
    if moved_size(x, axes) > SUM_BLOCK:
        unit = peak * np.float64(2.0**-SUM_BITS)
        exact = rounded(lax.reduce_sum(whole(grid, unit), axes)) * jnp.squeeze(unit, axes)
        total = jnp.where(jnp.isfinite(total), exact, total)
    return narrow_sum(total, opaque)


def added(grid: Array, axes: Sequence[int]) -> Array:
    """Sum along axes of numbers whose partial sums are exact: float64.

    Along the longest axis as a product with ones, which takes whole vectors, and half the time of a
    reduction.
    """
    if not axes:
        return grid
    longest = max(axes, key=lambda a: grid.shape[a])
    ones = jnp.ones(grid.shape[longest], grid.dtype)
    total = wide_dot(grid, ones, (((longest,), (0,)), ((), ())))
    return lax.reduce_sum(total, tuple(a - (a > longest) for a in axes if a != longest))


def empty_sum(shape: Sequence[int], opaque: Opaque) -> Array:
    """Sums of nothing: +0, hidden, since XLA would take `0 + z` for z, which is -0."""
    return hidden(jnp.zeros(shape, F32), opaque)


def whole(grid: Array, unit: Array) -> Array:
    """Numbers on a grid as integers of its unit: float64 → int64; nothing useful for infinities."""
    return lax.convert_element_type(grid / unit, I64)


def rounded(total: Array) -> Array:
    """An integer rounded to 24 bits: int64 → float64."""
    return widen(lax.convert_element_type(total, F32))


def order_free_cumsum(x: Array, axis: int, reverse: bool, opaque: Opaque) -> Array:
    """Running sum on one grid, that of the whole axis.

    Args:
      x: float32, any shape.
      axis: along which.
      reverse: from the end.
      opaque: run-time scalars.

    Returns:
      float32, shape of x.
    """
    peak = power(x, (axis,))
    grid = to_grid(x, peak, SUM_BITS)
    total = lax.cumsum(grid, axis, reverse)
    if x.shape[axis] > SUM_BLOCK:
        unit = peak * np.float64(2.0**-SUM_BITS)
        exact = rounded(lax.cumsum(whole(grid, unit), axis, reverse)) * unit
        total = jnp.where(jnp.isfinite(total), exact, total)
    return narrow_sum(total, opaque)


def moved_size(x: Array, axes: Sequence[int]) -> int:
    """Number of elements along several axes together."""
    return math.prod(x.shape[a] for a in axes)
