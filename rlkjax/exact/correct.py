"""Correctly rounded functions in NumPy, by another way than the kernels: the library's float64, and
mpmath for the inputs whose float64 value lies too near a rounding boundary to decide.

Slow, and used by the reference executor and by the exhaustive check only. Needs mpmath and scipy.
"""

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

# float64 libraries are trusted to one part in 2^46, far more than any of them errs
TRUST = 2.0**-46
SMALLEST = 2.0**-126
# a magnitude from here on rounds up to the smallest normal number, so it is not flushed
KEPT = SMALLEST * (1.0 - 2.0**-25)
ANGLE_LIMIT = 2.0**20
NAN = np.uint32(0x7FC00000).view(np.float32)
DIGITS = 60


def logistic(x: Float64) -> Float64:
    """1 / (1 + e^-x)."""
    return 1.0 / (1.0 + np.exp(-x))


def erf(x: Float64) -> Float64:
    """Error function."""
    return np.asarray(importlib.import_module("scipy.special").erf(x))


FLOAT64: dict[str, Callable[..., Float64]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "logistic": logistic,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "cbrt": np.cbrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sqrt": np.sqrt,
    "erf": erf,
    "atan2": np.arctan2,
    "pow": np.power,
    "div": np.divide,
}


def precise(name: str, args: tuple[float, ...]) -> Any:
    """The value of a function with 60 digits.

    Args:
      name: key of `FLOAT64`.
      args: its arguments.

    Returns:
      mpmath number.
    """
    mp: ModuleType = importlib.import_module("mpmath")
    special: dict[str, Callable[..., Any]] = {
        "exp2": lambda x: mp.mpf(2) ** x,
        "logistic": lambda x: 1 / (1 + mp.exp(-x)),
        "rsqrt": lambda x: 1 / mp.sqrt(x),
        "pow": lambda x, y: mp.power(abs(x), y) * (-1 if x < 0 and int(y) % 2 else 1),
        "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
        "div": lambda x, y: x / y,
    }
    with mp.workdps(DIGITS):
        values = [mp.mpf(float(a)) for a in args]
        fn: Callable[..., Any] = special.get(name) or getattr(mp, name)
        return fn(*values)


def to_float32(y: Float64) -> Float32:
    """float64 → float32: nearest even as if exponents had no lower bound, then flushed.

    Args:
      y: float64, any shape.

    Returns:
      float32 of the same shape; NaN is 0x7fc00000; subnormal results are zeros that keep the sign.
    """
    with np.errstate(all="ignore"):
        rounded = np.asarray(y, np.float64).astype(np.float32)
        size = np.abs(y)
        tiny = np.where(size >= KEPT, np.float32(SMALLEST), np.float32(0))
        flushed = np.copysign(tiny, rounded)
        rounded = np.where(size < SMALLEST, flushed, rounded)
        return np.where(np.isnan(y), NAN, rounded)


def nearest(name: str, *args: Float32) -> Float32:
    """The float32 nearest to the true value of a function.

    Args:
      name: key of `FLOAT64`.
      *args: float32, one shape, no subnormal numbers.

    Returns:
      float32 of the same shape, as `to_float32` rounds.
    """
    with np.errstate(all="ignore"):
        wide = [np.asarray(a, np.float64) for a in args]
        y = np.asarray(FLOAT64[name](*wide), np.float64)
        if name in ("sin", "cos", "tan"):
            y = np.where(np.abs(wide[0]) <= ANGLE_LIMIT, y, np.nan)
        slack = np.where(np.isfinite(y), np.abs(y) * TRUST, 0.0)
        low, high = to_float32(y - slack), to_float32(y + slack)
    result = np.atleast_1d(to_float32(y)).copy()
    unsure = np.atleast_1d((low != high) & ~np.isnan(y))
    for index in zip(*np.nonzero(unsure), strict=True):
        here = tuple(float(np.atleast_1d(a)[index]) for a in wide)
        ends = (float(np.atleast_1d(low)[index]), float(np.atleast_1d(high)[index]))
        result[index] = decide(precise(name, here), *ends)
    return result.reshape(y.shape)


def decide(value: Any, low: float, high: float) -> np.float32:
    """Which of two neighbours in float32 is nearer to an mpmath number; ties go to even."""
    if np.isinf(low) or np.isinf(high):
        limit = 2.0**128 - 2.0**103
        return np.float32(low if np.isfinite(low) == (abs(value) < limit) else high)
    middle = (low + high) / 2.0
    if min(abs(low), abs(high)) == 0.0:
        middle = np.copysign(KEPT, middle)
    if value != middle:
        return np.float32(high if value > middle else low)
    even = int(np.float32(low).view(np.uint32)) % 2 == 0
    return np.float32(low if even else high)
