"""Products of matrices whose value does not depend on any order.

Each row of the left and each column of the right operand is rounded to its grid (grid.py) with
q = 2^(e-23): integers less than 2^24, since the largest of a row keeps all its bits. (Why 24 bits:
docs/decisions/0106-dots-of-24-bits.md.)

32 products add to less than 2^53: exact in float64, with or without FMA, in any order. Up to 64 are
two such sums. Of more, one operand is cut in two, multiples of 2^12 units and rests, both of at
most 2^12: so that up to 2^17 products of each add to at most 2^53. Still longer sums go on in
int64, in two words.

One rounding to float32 ends it; zeros, infinities and NaN as in accumulate.py.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from rlkjax.exact.accumulate import empty_sum, moved_size, rounded
from rlkjax.exact.few import few_dot, few_products
from rlkjax.exact.grid import power, to_grid
from rlkjax.exact.pairs import Pair, two_sum
from rlkjax.exact.rounding import F64, I64, Opaque, narrow_sum, wide_dot, widen

Array = jax.Array

DOT_BITS = 23
DOT_EXACT = 32
DOT_CUT = 12
DOT_BLOCK = 2**17
DOT_WORD = 2**15
LOW_BITS = 20
Dims = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


class Operand(NamedTuple):
    """One side of a product.

    Attributes:
      values: float32, rounded to the grid where it is used; or float64, on the grid already.
      power: float64, 2^e of each row; contracted axes are 1 long.
    """

    values: Array
    power: Array

    def on_grid(self) -> Array:
        """Multiples of 2^(e - 23): float64."""
        if self.values.dtype == F64:
            return self.values
        return to_grid(self.values, self.power, DOT_BITS)


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
    shape = product_shape(lhs, rhs, dims)
    if few_products(lhs, rhs, dims[0], math.prod(shape)):
        return few_dot(lhs, rhs, dims, shape, DOT_BITS, opaque)
    left = Operand(lhs, power(lhs, lhs_contract))
    right = Operand(rhs, power(rhs, rhs_contract))
    return contract(left, right, dims, opaque)


def contract(left: Operand, right: Operand, dims: Dims, opaque: Opaque) -> Array:
    """Product of two operands: float32."""
    (lhs_contract, _), _ = dims
    size = moved_size(left.values, lhs_contract)
    if size == 0:
        return empty_sum(product_shape(left.values, right.values, dims), opaque)
    if size <= DOT_EXACT:
        return narrow_sum(wide_dot(left.on_grid(), right.on_grid(), dims), opaque)
    if size <= DOT_BLOCK:
        return narrow_sum(in_two(left, right, dims, opaque), opaque)
    return narrow_sum(blocked(*one_axis(left, right, dims)), opaque)


def product_shape(left: Array, right: Array, dims: Dims) -> tuple[int, ...]:
    """Shape that `lax.dot_general` gives."""
    return jax.eval_shape(lambda a, b: wide_dot(a, b, dims), left, right).shape


def one_axis(left: Operand, right: Operand, dims: Dims) -> tuple[Operand, Operand, Dims]:
    """The same product with all contracted axes in one, the last."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dims
    left = Operand(*(as_rows(x, lhs_contract, lhs_batch) for x in left))
    right = Operand(*(as_rows(x, rhs_contract, rhs_batch) for x in right))
    batch = tuple(range(len(lhs_batch)))
    last = ((left.values.ndim - 1,), (right.values.ndim - 1,))
    return left, right, (last, (batch, batch))


def in_two(left: Operand, right: Operand, dims: Dims, opaque: Opaque) -> Array:
    """Product of up to 2^17 terms as two sums that are both exact: → float64 to be rounded once."""
    (lhs_contract, _), _ = dims
    if len(lhs_contract) == 1 and moved_size(left.values, lhs_contract) <= 2 * DOT_EXACT:
        one, other = first_and_last(left, right, dims)
        plain = one + other
    else:
        one, other = two_products(left, right, dims)
        plain = one
    return jnp.where(jnp.isfinite(plain), to_odd(two_sum(one, other, opaque)), plain)


def first_and_last(left: Operand, right: Operand, dims: Dims) -> tuple[Array, Array]:
    """Sums of the first 32 terms and of those that follow, along one contracted axis: float64."""
    ((left_axis,), (right_axis,)), _ = dims
    size = left.values.shape[left_axis]

    def product(first: int, length: int) -> Array:
        x, y = part(left, left_axis, first, length), part(right, right_axis, first, length)
        return wide_dot(x.on_grid(), y.on_grid(), dims)

    return product(0, DOT_EXACT), product(DOT_EXACT, size - DOT_EXACT)


def two_products(left: Operand, right: Operand, dims: Dims) -> tuple[Array, Array]:
    """Two products of up to 2^17 terms, both exact, that add to the one of the operands: float64.

    Where an operand is infinite or NaN, the first one is their product.
    """
    if left.values.size < right.values.size:
        x, y = left.on_grid(), right.on_grid()
        coarse = away(x, left.power)
        return wide_dot(coarse, y, dims), wide_dot(x - coarse, y, dims)
    x, y = left.on_grid(), right.on_grid()
    coarse = away(y, right.power)
    return wide_dot(x, coarse, dims), wide_dot(x, y - coarse, dims)


def away(x: Array, power: Array) -> Array:
    """The next multiple of 2^(e - 11), away from zero.

    So it is zero for a zero only, and infinity times it is what infinity times x is.
    """
    unit = power * np.float64(2.0 ** (DOT_CUT - DOT_BITS))
    whole = x / unit
    return jnp.where(whole < 0, jnp.floor(whole), jnp.ceil(whole)) * unit


def to_odd(value: Pair) -> Array:
    """The high part; its last bit is set if the low part counts, so that one rounding sees it.

    Source: Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums" (2008), section 2.
    """
    bits = lax.bitcast_convert_type(value.high, I64)
    counts = (jnp.abs(value.low) > 0) & (bits & 1 == 0)
    outward = (value.low > 0) == (value.high > 0)
    odd = lax.bitcast_convert_type(jnp.where(outward, bits + 1, bits - 1), F64)
    return jnp.where(counts, odd, value.high)


def blocked(left: Operand, right: Operand, dims: Dims) -> Array:
    """Product over more than one block: float64 within a block, int64 across: → float64.

    Its operands have one contracted axis.
    """
    quantum = np.float64(2.0**-DOT_BITS)
    unit = wide_dot(left.power * quantum, right.power * quantum, dims)
    plain, high, low = block_sums(left, right, 1.0 / unit, dims)
    return jnp.where(jnp.isfinite(plain), rounded_words(high, low) * unit, plain)


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


def block_sums(left: Operand, right: Operand, per_unit: Array, dims: Dims) -> Sums:
    """Adds the products of the blocks along one contracted axis, as whole units, exactly.

    Fewer than 2^15 terms fit int64. With more, each integer is split at 2^20.
    """
    ((left_axis,), (right_axis,)), _ = dims
    size = left.values.shape[left_axis]
    block = min(size, DOT_BLOCK)

    def integer(x: Array, below: int = 0) -> Array:
        """x as whole numbers of 2^below units."""
        return lax.convert_element_type(x * (per_unit * 2.0**-below), I64)

    def add(i: int | Array, sums: Sums) -> Sums:
        pair = part(left, left_axis, i * block, block), part(right, right_axis, i * block, block)
        if size <= DOT_EXACT:
            coarse = wide_dot(pair[0].on_grid(), pair[1].on_grid(), dims)
            return Sums(coarse, sums.high, integer(coarse))
        coarse, fine = two_products(*pair, dims)
        plain, high, low = sums.plain + coarse, integer(coarse, DOT_CUT), integer(fine)
        if size < DOT_WORD:
            return Sums(plain, sums.high, sums.low + (high << DOT_CUT) + low)
        high = high + (low >> DOT_CUT)
        rest = LOW_BITS - DOT_CUT
        low = (high & (2**rest - 1)) << DOT_CUT | low & (2**DOT_CUT - 1)
        return Sums(plain, sums.high + (high >> rest), sums.low + low)

    shape = per_unit.shape
    sums = Sums(jnp.zeros(shape, F64), jnp.zeros(shape, I64), jnp.zeros(shape, I64))
    if size <= DOT_BLOCK:
        return add(0, sums) if size else sums
    blocks = -(-size // DOT_BLOCK)
    missing = blocks * DOT_BLOCK - size
    left, right = padded(left, left_axis, missing), padded(right, right_axis, missing)
    return lax.fori_loop(0, blocks, add, sums)


def part(side: Operand, axis: int, first: int | Array, length: int) -> Operand:
    """A block of an operand."""
    return side._replace(values=lax.dynamic_slice_in_dim(side.values, first, length, axis))


def padded(side: Operand, axis: int, missing: int) -> Operand:
    """Zeros appended along an axis."""
    if missing == 0:
        return side
    x = side.values
    widths = [(0, missing * (a == axis), 0) for a in range(x.ndim)]
    return side._replace(values=lax.pad(x, x.dtype.type(0), widths))


def as_rows(x: Array, contract: Sequence[int], batch: Sequence[int]) -> Array:
    """Moves axes to [batch..., free..., K], K one axis of all contracted ones."""
    free = [a for a in range(x.ndim) if a not in contract and a not in batch]
    moved = lax.transpose(x, (*batch, *free, *contract))
    return lax.reshape(moved, (*moved.shape[: len(batch) + len(free)], moved_size(x, contract)))


def rounded_words(high: Array, low: Array) -> Array:
    """high * 2^20 + low, rounded to 24 bits: int64, int64 → float64.

    What low holds beyond 20 bits is carried. If the sum does not fit one word, high keeps more than
    24 bits of it, so that only whether anything is below them matters.
    """
    small = rounded((high << LOW_BITS) + low)
    high = high + (low >> LOW_BITS)
    below = lax.convert_element_type((low & (2**LOW_BITS - 1)) != 0, I64)
    big = rounded((high << 1) | below) * 2.0 ** (LOW_BITS - 1)
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
    scale = power(rhs, free)
    right = to_grid(rhs, scale, DOT_BITS) / scale
    folded = jnp.squeeze(scale, free)
    order = [sorted(kept).index(a) for a in (*rhs_batch, *rhs_contract)]
    folded = lax.transpose(folded, order)
    target = (*lhs_batch, *lhs_contract)
    spread = lax.broadcast_in_dim(
        lax.transpose(folded, sorted(range(len(target)), key=lambda i: target[i])),
        lhs.shape,
        tuple(sorted(target)),
    )
    weights = widen(lhs) * spread
    peak = jnp.max(jnp.abs(weights), axis=tuple(lhs_contract), keepdims=True, initial=0.0)
    left_power = power64(peak)
    shift = left_power * np.float64(1.5 * 2.0 ** (52 - DOT_BITS))
    left = (weights + shift) - shift
    ones = jnp.ones([1 if a in rhs_contract else n for a, n in enumerate(rhs.shape)], F64)
    return contract(Operand(left, left_power), Operand(right, ones), dims, opaque)


def power64(magnitude: Array) -> Array:
    """2^e of a float64 in [2^e, 2^(e+1)), e at least -300: grids stay normal numbers.

    Of an infinity or NaN e is 128; other magnitudes are below 2^256.
    """
    exponent = lax.max(lax.bitcast_convert_type(magnitude, I64) >> 52, I64(1023 - 300))
    exponent = jnp.where(exponent == 2047, I64(1023 + 128), exponent)
    return lax.bitcast_convert_type(exponent << 52, F64)
