"""Sums and products of few terms, written out: element by element instead of by reductions.

The same values as accumulate.py and contraction.py. A reduction of 2 or 3 terms is a loop of its
own for the compiler, and one more for the largest magnitude; written out, both become part of the
loops around them. Physics is full of them.
"""

import functools
from collections.abc import Iterable, Sequence

import jax
from jax import lax

from rlkjax.exact.grid import EXPONENT, shift_of
from rlkjax.exact.rounding import I32, Opaque, narrow_sum, widen

Array = jax.Array

FEW = 4
SPREAD = 4


def few_terms(x: Array, axes: Sequence[int]) -> bool:
    """Whether the sum along axes is one to be written out."""
    return len(axes) == 1 and 0 < x.shape[axes[0]] <= FEW and x.size > x.shape[axes[0]]


def few_products(lhs: Array, rhs: Array, contract: Sequence[Sequence[int]], size: int) -> bool:
    """Whether a product of matrices is one to be written out.

    Args:
      lhs: left operand.
      rhs: right operand.
      contract: contracted axes of both.
      size: number of elements of the product. Each rounds its own terms, so that it must not be
        much larger than the operands.
    """
    if not few_terms(lhs, contract[0]):
        return False
    rows_and_columns = (lhs.size + rhs.size) // lhs.shape[contract[0][0]]
    return size <= SPREAD * rows_and_columns


def terms(x: Array, axis: int) -> list[Array]:
    """The slices of x along an axis, which vanishes."""
    return [lax.index_in_dim(x, i, axis, keepdims=False) for i in range(x.shape[axis])]


def binade_of(values: Sequence[Array]) -> Array:
    """Bits of 2^e of the largest magnitude among values, element by element; of zeros 0: int32."""
    bits = [lax.bitcast_convert_type(lax.abs(v), I32) for v in values]
    return lax.bitwise_and(functools.reduce(lax.max, bits), I32(EXPONENT))


def few_sum(x: Array, axis: int, bits: int, opaque: Opaque) -> Array:
    """Sum along an axis: float32 → float32."""
    return narrow_sum(plain_sum(on_grid(x, axis, bits)), opaque)


def plain_sum(values: Iterable[Array]) -> Array:
    """The sum of arrays, element by element."""
    return functools.reduce(lax.add, values)


def on_grid(x: Array, axis: int, bits: int) -> list[Array]:
    """The slices of x along an axis, rounded to the grid of their largest magnitude: float64."""
    values = terms(x, axis)
    shift = shift_of(binade_of(values), bits)
    return [lax.sub(lax.add(widen(v), shift), shift) for v in values]


def few_dot(
    lhs: Array, rhs: Array, dims: tuple, shape: Sequence[int], bits: int, opaque: Opaque
) -> Array:
    """dot_general with one contracted axis.

    Args:
      lhs: float32.
      rhs: float32.
      dims: dimension numbers of `lax.dot_general`.
      shape: of the product.
      bits: of a grid.
      opaque: run-time scalars.

    Returns:
      float32.
    """
    ((left_axis,), (right_axis,)), batch = dims
    batch_axes = list(range(len(batch[0])))
    left = [batch_first(v, batch[0], left_axis) for v in on_grid(lhs, left_axis, bits)]
    right = [batch_first(v, batch[1], right_axis) for v in on_grid(rhs, right_axis, bits)]
    free = left[0].ndim
    left_axes = list(range(free))
    right_axes = batch_axes + list(range(free, len(shape)))
    products = [
        lax.mul(
            lax.broadcast_in_dim(a, shape, left_axes), lax.broadcast_in_dim(b, shape, right_axes)
        )
        for a, b in zip(left, right, strict=True)
    ]
    return narrow_sum(plain_sum(products), opaque)


def batch_first(x: Array, batch: Sequence[int], gone: int) -> Array:
    """Batch axes to the front; axes are counted as before axis `gone` vanished."""
    first = [a - (a > gone) for a in batch]
    return lax.transpose(x, [*first, *(a for a in range(x.ndim) if a not in first)])
