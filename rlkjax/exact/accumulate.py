"""Sums and products of matrices whose value does not depend on any order.

Sum. M = largest magnitude, 2^e <= M < 2^(e+1), q = 2^(e-31). Each element is rounded to the nearest
multiple of q (ties to even): an integer of at most 2^32 times q. Up to 2^20 of them add to at most
2^52 q, so that every partial sum is exact in float64; longer sums continue in int64.

Dot. Each row of the left and each column of the right operand is rounded likewise with
q = 2^(e-22): integers of at most 2^23. A product is at most 2^46, and 128 of them add to at most
2^53: exact in float64, with or without FMA, in any order. Blocks of 128 are added in int64, 1024 of
them at most; longer ones in two words. (Why 23 bits: docs/decisions/0101-bits-of-a-dot.md.)

One rounding to float32 ends both. A zero sum is +0. An element that is infinite or NaN follows IEEE
754 among the rounded elements, which again knows no order.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from rlkjax.exact.rounding import Opaque, hidden, narrow, widen

Array = jax.Array
F32, F64, I32, I64 = jnp.float32, jnp.float64, jnp.int32, jnp.int64

SUM_BITS = 31
SUM_BLOCK = 2**20
DOT_BITS = 22
DOT_BLOCK = 128
DOT_WORD = 2**17
UNROLLED = 4
# bits of 1.5 * 2^(52 - 127 - bits), to which the biased exponent is added
SHIFT_BITS = {bits: ((52 - 127 - bits + 1023) << 52) + (1 << 51) for bits in (SUM_BITS, DOT_BITS)}
Dims = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


def exponents(x: Array, axes: Sequence[int]) -> Array:
    """Biased exponent of the largest magnitude along axes; 255 if it is infinite or NaN.

    Args:
      x: float32, any shape.
      axes: axes that become 1 long; nothing gives 0.

    Returns:
      int64, in [0, 255].
    """
    if moved_size(x, axes) == 0:
        return jnp.zeros([1 if a in axes else n for a, n in enumerate(x.shape)], I64)
    peak = jnp.expand_dims(lax.reduce_max(lax.abs(x), tuple(axes)), tuple(axes))
    bits = lax.bitcast_convert_type(peak, I32)
    return lax.convert_element_type((bits >> 23) & 0xFF, I64)


def two_to(power: Array) -> Array:
    """2^power as float64, for powers in [-1022, 1023]: int64 → float64."""
    return lax.bitcast_convert_type((power + 1023) << 52, F64)


def grid_shift(power: Array, bits: int) -> Array:
    """1.5 * 2^52 units of 2^(e - bits): adding it to a number leaves no room for smaller bits.

    Args:
      power: int64, biased exponent e + 127.
      bits: how far the unit lies below 2^e.

    Returns:
      float64.
    """
    return lax.bitcast_convert_type((power << 52) + SHIFT_BITS[bits], F64)


def to_grid(x: Array, biased: Array, bits: int, opaque: Opaque) -> Array:
    """Rounds to the nearest multiple of 2^(e - bits).

    The shift that was added is subtracted again, hidden from the compiler, which would cancel
    the two.

    Args:
      x: float32.
      biased: int64, e + 127, broadcastable to x.
      bits: see above.
      opaque: run-time scalars.

    Returns:
      float64 of the shape of x; infinities and NaN stay.
    """
    shift = grid_shift(biased, bits)
    return (widen(x) + shift) - hidden(shift, opaque)


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
    if moved_size(x, axes) == 0:
        return empty_sum([n for a, n in enumerate(x.shape) if a not in axes], opaque)
    biased = exponents(x, axes)
    grid = to_grid(x, biased, SUM_BITS, opaque)
    total = lax.reduce_sum(grid, axes)
    if moved_size(x, axes) > SUM_BLOCK:
        unit = biased - 127 - SUM_BITS
        whole = lax.convert_element_type(grid * two_to(-unit), I64)
        exact = lax.reduce_sum(whole, axes)
        unit = jnp.squeeze(unit, axes)
        total = jnp.where(jnp.isfinite(total), scaled(exact, unit), total)
    return narrow(total, opaque)


def empty_sum(shape: Sequence[int], opaque: Opaque) -> Array:
    """Sums of nothing: +0, hidden, since XLA would take `0 + z` for z, which is -0."""
    return hidden(jnp.zeros(shape, F32), opaque)


def scaled(whole: Array, unit: Array) -> Array:
    """whole * 2^unit, rounded to 24 bits: int64, int64 → float64."""
    return widen(lax.convert_element_type(whole, F32)) * two_to(unit)


def order_free_cumsum(x: Array, axis: int, reverse: bool, opaque: Opaque) -> Array:
    """Running sum on one grid, that of the whole axis; at most 2^20 long.

    Args:
      x: float32, any shape.
      axis: along which.
      reverse: from the end.
      opaque: run-time scalars.

    Returns:
      float32, shape of x.
    """
    grid = to_grid(x, exponents(x, (axis,)), SUM_BITS, opaque)
    return narrow(lax.cumsum(grid, axis, reverse), opaque)


def as_rows(x: Array, contract: Sequence[int], batch: Sequence[int]) -> Array:
    """Moves axes to [batch..., free..., K], K one axis of all contracted ones."""
    free = [a for a in range(x.ndim) if a not in contract and a not in batch]
    moved = lax.transpose(x, (*batch, *free, *contract))
    return lax.reshape(moved, (*moved.shape[: len(batch) + len(free)], moved_size(x, contract)))


def moved_size(x: Array, axes: Sequence[int]) -> int:
    """Number of elements along several axes together."""
    return math.prod(x.shape[a] for a in axes)


def order_free_dot(lhs: Array, rhs: Array, dims: Dims, opaque: Opaque) -> Array:
    """dot_general as defined above.

    Args:
      lhs: float32.
      rhs: float32.
      dims: dimension numbers of `lax.dot_general`.
      opaque: run-time scalars.

    Returns:
      float32 of the shape that `lax.dot_general` gives.
    """
    (lhs_contract, rhs_contract), _ = dims
    if moved_size(lhs, lhs_contract) == 0:
        return empty_sum(
            jax.eval_shape(lambda a, b: lax.dot_general(a, b, dims), lhs, rhs).shape, opaque
        )
    left_exponent = exponents(lhs, lhs_contract)
    right_exponent = exponents(rhs, rhs_contract)
    left = to_grid(lhs, left_exponent, DOT_BITS, opaque)
    right = to_grid(rhs, right_exponent, DOT_BITS, opaque)
    return contract(left, right, (left_exponent, right_exponent), dims, opaque)


def contract(
    left: Array, right: Array, exponents: tuple[Array, Array], dims: Dims, opaque: Opaque
) -> Array:
    """Product of two operands on their grids.

    Args:
      left: float64, multiples of 2^(e - 22) of its row.
      right: float64, likewise.
      exponents: biased exponents of both, int64, contracted axes of length 1.
      dims: dimension numbers of `lax.dot_general`.
      opaque: run-time scalars.

    Returns:
      float32.
    """
    (lhs_contract, _), _ = dims
    size = moved_size(left, lhs_contract)
    if size <= DOT_BLOCK:
        return narrow(lax.dot_general(left, right, dims), opaque)
    return narrow(blocked(left, right, exponents, dims), opaque)


def blocked(left: Array, right: Array, exponents: tuple[Array, Array], dims: Dims) -> Array:
    """Product over more than one block: float64 within a block, int64 across: → float64."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dims
    if len(lhs_contract) > 1:
        rows = as_rows(left, lhs_contract, lhs_batch)
        columns = as_rows(right, rhs_contract, rhs_batch)
        powers = (
            as_rows(exponents[0], lhs_contract, lhs_batch),
            as_rows(exponents[1], rhs_contract, rhs_batch),
        )
        batch = tuple(range(len(lhs_batch)))
        inner = (((rows.ndim - 1,), (columns.ndim - 1,)), (batch, batch))
        return blocked(rows, columns, powers, inner)
    units = tuple(e - 127 - DOT_BITS for e in exponents)
    whole = (left * two_to(-units[0]), right * two_to(-units[1]))
    plain, high, low = block_sums(whole, dims)
    scale = lax.dot_general(two_to(units[0]), two_to(units[1]), dims)
    return jnp.where(jnp.isfinite(plain), rounded_words(high, low), plain) * scale


class Sums(NamedTuple):
    """Sums of the products of blocks.

    Attributes:
      plain: float64, for infinities and NaN.
      high: int64, the products shifted right by 20 bits; 0 if `low` holds all of them.
      low: int64, their last 20 bits, or all of them.
    """

    plain: Array
    high: Array
    low: Array


def block_sums(whole: tuple[Array, Array], dims: Dims) -> Sums:
    """Adds the products of the blocks along one contracted axis, integers in float64, exactly.

    1024 blocks fit int64. With more, each integer is split at 2^20.
    """
    ((left_axis,), (right_axis,)), _ = dims
    size = whole[0].shape[left_axis]
    blocks = -(-size // DOT_BLOCK)

    def add(sums: Sums, pair: tuple[Array, Array]) -> Sums:
        product = lax.dot_general(*pair, dims)
        integer = lax.convert_element_type(product, I64)
        if size <= DOT_WORD:
            return Sums(sums.plain + product, sums.high, sums.low + integer)
        low = sums.low + (integer & (2**20 - 1))
        return Sums(sums.plain + product, sums.high + (integer >> 20), low)

    shape = jax.eval_shape(lambda a, b: lax.dot_general(a, b, dims), *whole).shape
    start = Sums(jnp.zeros(shape, F64), jnp.zeros(shape, I64), jnp.zeros(shape, I64))
    if blocks <= UNROLLED:
        for first in range(0, size, DOT_BLOCK):
            stop = min(first + DOT_BLOCK, size)
            start = add(
                start,
                (
                    lax.slice_in_dim(whole[0], first, stop, axis=left_axis),
                    lax.slice_in_dim(whole[1], first, stop, axis=right_axis),
                ),
            )
        return start
    missing = blocks * DOT_BLOCK - size
    left, right = padded(whole[0], left_axis, missing), padded(whole[1], right_axis, missing)

    def step(i: Array, sums: Sums) -> Sums:
        first = i * DOT_BLOCK
        pair = (
            lax.dynamic_slice_in_dim(left, first, DOT_BLOCK, left_axis),
            lax.dynamic_slice_in_dim(right, first, DOT_BLOCK, right_axis),
        )
        return add(sums, pair)

    return lax.fori_loop(0, blocks, step, start)


def padded(x: Array, axis: int, missing: int) -> Array:
    """Zeros appended along an axis."""
    if missing == 0:
        return x
    return lax.pad(x, F64(0), [(0, missing * (a == axis), 0) for a in range(x.ndim)])


def rounded_words(high: Array, low: Array) -> Array:
    """high * 2^20 + low, rounded to 24 bits: int64, int64 → float64.

    What low holds beyond 20 bits is carried. If the sum does not fit one word, high keeps more than
    24 bits of it, so that only whether anything is below them matters.
    """
    small = widen(lax.convert_element_type((high << 20) + low, F32))
    high = high + (low >> 20)
    below = lax.convert_element_type((low & (2**20 - 1)) != 0, I64)
    big = widen(lax.convert_element_type((high << 1) | below, F32)) * 2.0**19
    return jnp.where(jnp.abs(high) < 2**30, small, big)


def contracted_grid_dot(lhs: Array, rhs: Array, dims: Dims, opaque: Opaque) -> Array:
    """dot_general whose right operand has one exponent for each contracted index.

    The power of two of rhs's slice k is folded into column k of lhs, exactly, and rhs's mantissas
    are rounded to one fixed grid. So a term whose left factor is zero changes nothing, whatever
    finite value its right factor holds: a masked position, a future one, a padded one.

    Args:
      lhs: float32, weights.
      rhs: float32, what is weighted; its free axes share one exponent for each contracted index.
      dims: dimension numbers of `lax.dot_general`.
      opaque: run-time scalars.

    Returns:
      float32 of the shape that `lax.dot_general` gives.
    """
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dims
    kept = (*rhs_batch, *rhs_contract)
    free = tuple(a for a in range(rhs.ndim) if a not in kept)
    power = exponents(rhs, free)
    right = to_grid(rhs, power, DOT_BITS, opaque) * two_to(127 - power)
    folded = jnp.squeeze(power, free)
    order = [sorted(kept).index(a) for a in (*rhs_batch, *rhs_contract)]
    folded = lax.transpose(folded, order)
    target = (*lhs_batch, *lhs_contract)
    spread = lax.broadcast_in_dim(
        lax.transpose(folded, sorted(range(len(target)), key=lambda i: target[i])),
        lhs.shape,
        tuple(sorted(target)),
    )
    weights = widen(lhs) * two_to(spread - 127)
    peak = jnp.max(jnp.abs(weights), axis=tuple(lhs_contract), keepdims=True, initial=0.0)
    left_exponent = exponent64(peak)
    shift = two_to(left_exponent - DOT_BITS + 52) * 1.5
    left = (weights + shift) - hidden(shift, opaque)
    ones = jnp.full([1 if a in rhs_contract else n for a, n in enumerate(rhs.shape)], 127, I64)
    return contract(left, right, (left_exponent + 127, ones), dims, opaque)


def exponent64(magnitude: Array) -> Array:
    """Exponent e of a float64 in [2^e, 2^(e+1)), at least -300: grids stay normal numbers."""
    return jnp.maximum((lax.bitcast_convert_type(magnitude, I64) >> 52) - 1023, -300)
