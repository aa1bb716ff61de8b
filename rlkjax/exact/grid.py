"""The grid that numbers are rounded to before they are added: a multiple of one power of two.

M = largest magnitude of those that are added together, 2^e <= M < 2^(e+1). The grid is
2^(e - bits), so that every number on it is an integer of at most 2^(bits + 1) of its units.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from rlkjax.exact.rounding import F64, I32, I64, widen

Array = jax.Array

ROW, FEW = 64, 2**13
MAGNITUDE, EXPONENT = 0x7FFFFFFF, 0x7F800000
LOWEST = 0x00800000  # 2^-126 as bits of a float32
BIAS = (1023 - 127) << 52  # between the exponents of the two formats


def binade(x: Array, axes: Sequence[int]) -> Array:
    """Bits of 2^e, where 2^e <= M < 2^(e+1) for the largest magnitude M along axes.

    Integers order like magnitudes do, and no library takes liberties with their maximum.

    Args:
      x: float32, any shape.
      axes: axes that become 1 long; of nothing, and of zeros, e is -126.

    Returns:
      int32; e is 128 if an element is infinite or NaN.
    """
    axes = tuple(axes)
    shape = [1 if a in axes else n for a, n in enumerate(x.shape)]
    if x.size == 0:
        return jnp.full(shape, LOWEST, I32)
    bits = lax.bitcast_convert_type(x, I32) & MAGNITUDE
    peak = lax.reshape(largest(bits, axes), shape)
    return lax.max(peak & EXPONENT, I32(LOWEST))


def largest(bits: Array, axes: tuple[int, ...]) -> Array:
    """Maximum of non-negative integers along axes.

    Compilers turn a reduction of the last axis into a loop that takes one element at a time.
    Here rows of 64 are met by whole vectors, and these by halves until 8 are left. Of few elements
    the plain reduction is as good, and faster to compile.

    Args:
      bits: int32, at least one element.
      axes: axes to reduce.

    Returns:
      bits without axes.
    """
    last = bits.ndim - 1
    if last not in axes or bits.size < FEW:
        return lax.reduce_max(bits, axes)
    size = bits.shape[last]
    if size > 2 * ROW:
        bits = lax.pad(bits, I32(0), [(0, 0, 0)] * last + [(0, -size % ROW, 0)])
        bits = lax.reshape(bits, (*bits.shape[:last], -(-size // ROW), ROW))
        rows = lax.reduce_max(bits, axes)
    else:
        rows = lax.reduce_max(bits, tuple(a for a in axes if a != last))
    return lax.reduce_max(halved(rows), (rows.ndim - 1,))


def halved(x: Array) -> Array:
    """Shortens the last axis: its first half meets its second, while halves of 8 can be had."""
    while (size := x.shape[-1]) > 8 and size % 2 == 0:
        low = lax.slice_in_dim(x, 0, size // 2, axis=-1)
        x = lax.max(low, lax.slice_in_dim(x, size // 2, size, axis=-1))
    return x


def power(x: Array, axes: Sequence[int]) -> Array:
    """2^e along axes (see `binade`): float32 → float64, axes 1 long."""
    return power_of(binade(x, axes))


def power_of(bits: Array) -> Array:
    """2^e from its bits as a float32, those of infinity standing for 2^128: int32 → float64."""
    wide = lax.convert_element_type(bits, I64)
    return lax.bitcast_convert_type((wide << 29) + BIAS, F64)


def to_grid(x: Array, power: Array, bits: int) -> Array:
    """Rounds to the nearest multiple of 2^(e - bits), ties to even.

    1.5 * 2^52 units, added, leave no room for smaller bits. They are subtracted again; compilers
    cancel the two only if they know how much it is.

    Args:
      x: float32.
      power: float64, 2^e, broadcastable to x.
      bits: see above.

    Returns:
      float64 of the shape of x; infinities and NaN stay.
    """
    shift = power * np.float64(1.5 * 2.0 ** (52 - bits))
    return (widen(x) + shift) - shift


def shift_of(binade: Array, bits: int) -> Array:
    """1.5 * 2^52 units of 2^(e - bits), from the bits of 2^e: int32 → float64."""
    wide = lax.convert_element_type(binade, I64)
    more = I64(BIAS + ((52 - bits) << 52) + (1 << 51))
    return lax.bitcast_convert_type(lax.add(lax.shift_left(wide, I64(29)), more), F64)
