"""Metric lines: what an iteration or an evaluation measured, as JSON without clock times."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np


def number(value: Any) -> int | float | None:
    """A scalar as JSON shows it.

    Args:
      value: [] float32, an integer, or a Python number.

    Returns:
      The integer; the shortest decimal that reads back as the same float32; None if not finite.
    """
    scalar = np.asarray(value)
    if scalar.dtype.kind in "iu":
        return int(scalar)
    return float(str(scalar.astype(np.float32))) if np.isfinite(scalar) else None


def line(kind: str, iteration: int, values: dict[str, Any]) -> bytes:
    """One line of metrics.jsonl, without its line end.

    Args:
      kind: "update", "evaluation" or "reference".
      iteration: number of the iteration.
      values: name -> scalar, or a mapping of the same form.

    Returns:
      JSON with sorted keys; a value that is not finite is null.
    """
    record = {"kind": kind, "iteration": iteration, **_numbers(values)}
    return json.dumps(record, sort_keys=True, separators=(",", ":")).encode()


def _numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _numbers(value) if isinstance(value, Mapping) else number(value)
        for name, value in values.items()
    }


def mean(total: Any, count: Any) -> float:
    """total / count in float64, NaN when nothing was counted.

    Args:
      total: [] number.
      count: [] number.

    Returns:
      The mean.
    """
    return float(total) / float(count) if count else float("nan")
