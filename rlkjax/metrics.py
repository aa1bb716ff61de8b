"""Metric lines: what an iteration or an evaluation measured, as JSON without clock times."""

import json
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
      kind: "update" or "evaluation".
      iteration: number of the iteration.
      values: name -> scalar.

    Returns:
      JSON with sorted keys; a value that is not finite is null.
    """
    numbers = {name: number(value) for name, value in values.items()}
    record = {"kind": kind, "iteration": iteration, **numbers}
    return json.dumps(record, sort_keys=True, separators=(",", ":")).encode()


def mean(total: Any, count: Any) -> float:
    """total / count in float64, NaN when nothing was counted.

    Args:
      total: [] number.
      count: [] number.

    Returns:
      The mean.
    """
    return float(total) / float(count) if count else float("nan")
