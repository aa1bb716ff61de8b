"""Controlled tolerance: how far two buffers are apart, and whether that is past a threshold.

Two devices that round differently cannot be compared by bits. So what may differ is measured, what
may not must be equal, and past a threshold the run pauses. Pure NumPy.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from rlkjax.audit.elements import as_bits
from rlkjax.errors import ConsistencyError

Fields = Mapping[str, Any]


class Measured(NamedTuple):
    """How far two buffers are apart. NaN is equal to NaN; elsewhere a missing number is infinite.

    Attributes:
      max_abs: largest |a - b|, in the unit of the buffer.
      max_rel: largest |a - b| / max(|a|, |b|) of an element, from 0 to 2.
      max_scaled: max_abs over the largest finite |a| of the buffer.
      max_ulp: most representable numbers between two elements; of integers, their distance.
      differing: share of elements whose bits differ, from 0 to 1.
    """

    max_abs: float
    max_rel: float
    max_scaled: float
    max_ulp: int
    differing: float


class Limit(NamedTuple):
    """What is still within tolerance: each number is the largest that is.

    Attributes:
      max_rel: of the error of an element relative to itself; None: not limited.
      max_scaled: of the error relative to the largest element of the buffer; None: not limited.
      differing: of the share of differing elements.
    """

    max_rel: float | None = None
    max_scaled: float | None = None
    differing: float = 1.0


EQUAL = Limit(differing=0.0)


class Alert(NamedTuple):
    """One threshold that a buffer is past.

    Attributes:
      buffer: its name.
      measure: name of the measure in `Measured`.
      limit: the largest that would be within.
      got: what was measured.
    """

    buffer: str
    measure: str
    limit: float
    got: float


def measure(name: str, expected: Any, got: Any) -> Measured:
    """How far two buffers are apart.

    Args:
      name: of the buffer, for the message.
      expected: [...] of one of the dtypes that are hashed.
      got: the same shape and dtype.

    Returns:
      The measures; all zero where the bits are equal.

    Raises:
      ConsistencyError: shapes or dtypes differ.
      InputError: a dtype that is not hashed.
    """
    a, b = np.asarray(expected), np.asarray(got)
    if a.shape != b.shape or a.dtype != b.dtype:
        raise ConsistencyError(
            f"buffer {name!r}: got {b.dtype.name}{list(b.shape)}, want "
            f"{a.dtype.name}{list(a.shape)}; check that both sides run one version"
        )
    unequal = as_bits(name, a) != as_bits(name, b)
    if a.dtype.kind == "f":
        unequal &= ~(np.isnan(a) & np.isnan(b))
    if not unequal.any():
        return Measured(0.0, 0.0, 0.0, 0, 0.0)
    wide = a.astype(np.float64)
    x, y = wide[unequal], b.astype(np.float64)[unequal]
    with np.errstate(invalid="ignore"):
        error = np.abs(x - y)
        # Where one side is no number, or the two are unlike infinities, no error is large enough.
        error = np.where(np.isfinite(error), error, np.inf)
        size = np.maximum(np.abs(x), np.abs(y))
        relative = np.where(np.isfinite(error), error / np.where(size > 0, size, 1.0), np.inf)
    scale = float(np.max(np.abs(wide), initial=0.0, where=np.isfinite(wide)))
    largest = float(error.max())
    return Measured(
        max_abs=largest,
        max_rel=float(relative.max()),
        max_scaled=largest / scale if scale > 0 else (np.inf if largest > 0 else 0.0),
        max_ulp=int(np.max(np.abs(_steps(name, a)[unequal] - _steps(name, b)[unequal]))),
        differing=float(unequal.mean()),
    )


def _steps(name: str, array: np.ndarray) -> np.ndarray:
    """Every element as an int64 whose order is that of the numbers; both zeros are 0."""
    if array.dtype.kind != "f":
        return array.astype(np.int64)
    bits = as_bits(name, array).astype(np.int64)
    sign = 1 << (8 * array.dtype.itemsize - 1)
    return np.where(bits < sign, bits, sign - bits)


def measure_all(expected: Fields, got: Fields) -> dict[str, Measured]:
    """How far all buffers of two sides are apart.

    Args:
      expected: name -> array.
      got: the same names.

    Returns:
      Name -> measures, sorted by name.

    Raises:
      ConsistencyError: names, shapes or dtypes differ.
    """
    if set(expected) != set(got):
        odd = ", ".join(sorted(set(expected) ^ set(got)))
        raise ConsistencyError(
            f"buffers: {odd} on one side only, want the same on both; check that both sides run "
            "one version"
        )
    return {name: measure(name, expected[name], got[name]) for name in sorted(expected)}


def alerts(measured: Mapping[str, Measured], limits: Mapping[str, Limit]) -> list[Alert]:
    """Every threshold that a buffer is past.

    Args:
      measured: name -> measures.
      limits: name -> limit; a buffer without one must be equal.

    Returns:
      Alerts in the order of the names; empty where all is within tolerance.
    """
    found = []
    for name, values in measured.items():
        for key, limit in limits.get(name, EQUAL)._asdict().items():
            value = getattr(values, key)
            if limit is not None and value > limit:
                found.append(Alert(name, key, limit, value))
    return found
