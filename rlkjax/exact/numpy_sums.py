"""Grids and exact integer sums in NumPy: what the reference's sums and dots are made of."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlkjax.exact.correct import to_float32

Value = NDArray[Any]

SUM_BITS, DOT_BITS = 31, 23
LOWEST = -300


def exponent(magnitude: Value) -> Value:
    """e with 2^e <= M < 2^(e+1): -127 for zero, 128 for infinity and NaN."""
    _, power = np.frexp(np.asarray(magnitude, np.float64))
    power = np.where(magnitude == 0, -127, power - 1)
    return np.where(np.isfinite(magnitude), power, 128).astype(np.int64)


def multiples(x: Value, unit: Value) -> Value:
    """x / 2^unit to the nearest integer, ties to even: float64; infinities and NaN stay."""
    return np.rint(np.ldexp(np.asarray(x, np.float64), -unit))


def integers(whole: Value) -> Value:
    """Whole numbers in float64 as int64; 0 for infinities and NaN."""
    with np.errstate(invalid="ignore"):  # what does not fit stands beside an infinity
        return np.where(np.isfinite(whole), whole, 0).astype(np.int64)


def rounded(whole: Value, unit: Value) -> Value:
    """Integers (of any size) times 2^unit, rounded once to float32."""
    flat = [round_integer(int(w), int(u)) for w, u in zip(whole.ravel(), unit.ravel(), strict=True)]
    return np.array(flat, np.float32).reshape(whole.shape)


def round_integer(whole: int, unit: int) -> np.float32:
    """One integer times 2^unit: 24 bits are kept, ties to even; what becomes zero becomes +0."""
    extra = max(abs(whole).bit_length() - 24, 0)
    half, rest = 1 << extra >> 1, abs(whole) & ((1 << extra) - 1)
    kept = abs(whole) >> extra
    kept += rest > half or (rest == half and extra > 0 and kept & 1 == 1)
    size = math.ldexp(kept, unit + extra) if kept else 0.0
    return np.float32(to_float32(np.array(-size if whole < 0 else size))[()]) + np.float32(0)


def magnitude(x: Value, axes: Sequence[int]) -> Value:
    """Largest |x| along axes, kept as axes of length 1; NaN wins, nothing gives 0."""
    return np.max(np.abs(x), axis=tuple(axes), keepdims=True, initial=0)


def integer_division(x: Value, y: Value) -> tuple[Value, Value]:
    """Quotient toward zero and remainder; by zero: all ones, and x."""
    wide_x, wide_y = x.astype(np.int64), y.astype(np.int64)
    safe = np.where(wide_y == 0, 1, wide_y)
    quotient = np.sign(wide_x) * np.sign(safe) * (np.abs(wide_x) // np.abs(safe))
    rest = wide_x - quotient * safe
    quotient = np.where(wide_y == 0, -1, quotient)
    return quotient.astype(x.dtype), np.where(wide_y == 0, wide_x, rest).astype(x.dtype)


def arranged(x: Value, contract: Sequence[int], batch: Sequence[int]) -> Value:
    """[batch, free, contracted], each one axis."""
    rest = [a for a in range(x.ndim) if a not in contract and a not in batch]
    moved = np.transpose(x, (*batch, *rest, *contract))
    sizes = [math.prod(x.shape[a] for a in axes) for axes in (batch, rest, contract)]
    return moved.reshape(sizes)


def free(x: Value, contract: Sequence[int], batch: Sequence[int]) -> list[int]:
    """Lengths of the axes that are neither contracted nor batch."""
    return [n for a, n in enumerate(x.shape) if a not in contract and a not in batch]


def integer_product(rows: Value, columns: Value, left_unit: Value, right_unit: Value) -> Value:
    """[B, m, K] and [B, n, K] integers in float64 → [B, m, n] float32, rounded once."""
    unit = left_unit + np.swapaxes(right_unit, 1, 2)
    total = np.zeros(np.broadcast_shapes(unit.shape), object)
    plain = np.zeros(total.shape)
    for start in range(0, rows.shape[2], 2**14):
        part = slice(start, start + 2**14)
        left, right = rows[..., part], np.swapaxes(columns[..., part], 1, 2)
        with np.errstate(all="ignore"):
            plain = (
                plain + np.sum(left[..., None] * right[:, None], 2)
                if not (np.isfinite(left).all() and np.isfinite(right).all())
                else plain
            )
        total = total + np.matmul(integers(left), integers(right)).astype(object)
    return np.where(np.isfinite(plain), rounded(total, unit), plain).astype(np.float32)
