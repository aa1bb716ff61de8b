"""One sentence on the iterations that the reference computed again, out of metrics.jsonl."""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from rlkjax.audit.difference import iterations_text

_KIND = "reference"
_MEASURE = "max_scaled"  # largest error over the largest element of the buffer


def sentence(lines: Iterable[bytes]) -> str | None:
    """What the reference found over a run that passed.

    Args:
      lines: of metrics.jsonl, whose digests the ledger holds.

    Returns:
      The sentence; None where no iteration was computed again.
    """
    # Most lines are of other kinds: their text tells them apart faster than reading them.
    read = (json.loads(line) for line in lines if b'"reference"' in line)
    found = [line for line in read if line.get("kind") == _KIND]
    if not found:
        return None
    count = f"{iterations_text(len(found))} recomputed"
    distances = [
        (_distance(values), name)
        for line in found
        for name, values in line.get("buffers", {}).items()
    ]
    if not distances:
        return f"reference: {count}, every bit equal"
    largest, buffer = max(distances)
    past = sum(line.get("past", 0) for line in found)
    verdict = f"{past:,} times past tolerance, acknowledged" if past else "all within tolerance"
    return (
        f"reference: {count}, largest distance {largest:.2g} of the largest element ({buffer}), "
        f"{verdict}"
    )


def _distance(values: Mapping[str, Any]) -> float:
    """The measure of a buffer; null stands for one that is not finite."""
    value = values.get(_MEASURE)
    return math.inf if value is None else float(value)
