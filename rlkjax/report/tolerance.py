"""What the reference measured when it computed iterations again: how far each buffer is off."""

from collections.abc import Mapping, Sequence
from typing import Any

from rlkjax.audit.checks import Record
from rlkjax.report.facts import count, number
from rlkjax.report.markup import EMPTY, Html, tag
from rlkjax.report.measures import shown
from rlkjax.report.sections import block, table

KIND = "reference"
MEASURES = {
    "max_abs": "largest error",
    "max_rel": "relative",
    "max_scaled": "to the largest element",
    "max_ulp": "units in the last place",
    "differing": "elements that differ",
}
MOST = 16  # buffers on a page, those that are furthest off


def section(metrics: Sequence[Record]) -> Html:
    """The largest distance of each buffer over all iterations that were computed again.

    Args:
      metrics: lines of metrics.jsonl.

    Returns:
      Markup; nothing where no iteration was computed again.
    """
    lines = [line for line in metrics if line.get("kind") == KIND]
    if not lines:
        return EMPTY
    largest = worst(lines)
    past = sum(count(line.get("past")) or 0 for line in lines)
    compared = max(count(line.get("compared")) or 0 for line in lines)
    again = f"{len(lines):,} iteration{'' if len(lines) == 1 else 's'}"
    sentence = f"The reference computed {again} again and compared {compared:,} buffers each time"
    if largest:
        verdict = f"{past:,} times past one" if past else "all within their thresholds"
        sentence += f"; buffers that differ: {len(largest):,}, {verdict}."
    else:
        sentence += "; every bit is equal."
    ordered = sorted(largest.items(), key=_distance)
    rows = [
        (name, *(_cell(key, values.get(key)) for key in MEASURES))
        for name, values in ordered[:MOST]
    ]
    rest = len(ordered) - MOST
    return block(
        "tolerance",
        "Against the reference",
        tag("p", sentence, class_="lead"),
        table(rows, ("buffer", *MEASURES.values())),
        tag("p", f"{rest:,} more are nearer; metrics.jsonl has all.", class_="note")
        if rest > 0
        else None,
    )


def _distance(item: tuple[str, dict[str, float]]) -> tuple[float, str]:
    """Furthest first, by the error over the largest element; what is not finite leads."""
    name, values = item
    return -values.get("max_scaled", float("inf")), name


def worst(lines: Sequence[Record]) -> dict[str, dict[str, float]]:
    """The largest value of each measure over some lines.

    Args:
      lines: of kind "reference"; buffers that are equal are not in them.

    Returns:
      Buffer -> measure -> largest finite value.
    """
    found: dict[str, dict[str, float]] = {}
    for line in lines:
        for name, values in _mapping(line.get("buffers")).items():
            held = found.setdefault(name, {})
            for key in MEASURES:
                value = number(_mapping(values).get(key))
                if value is not None:
                    held[key] = max(held.get(key, value), value)
    return found


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _cell(key: str, value: float | None) -> str:
    if value is None:
        return "not finite"
    return f"{value:.3%}" if key == "differing" else shown(value)
