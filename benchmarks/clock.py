"""Wall, CPU and compile clocks, and peak memory, of one process."""

import resource
import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple, Self

import jax

_compile_seconds = {"total": 0.0}


def _listen(name: str, seconds: float, **_: object) -> None:
    if name.startswith("/jax/core/compile/"):
        _compile_seconds["total"] += seconds


jax.monitoring.register_event_duration_secs_listener(_listen)


class Moment(NamedTuple):
    """A point in time: wall and CPU seconds (all threads), and seconds spent compiling so far."""

    wall: float
    cpu: float
    compile: float

    @classmethod
    def now(cls) -> Self:
        """The present moment."""
        return cls(time.perf_counter(), time.process_time(), _compile_seconds["total"])

    def since(self, other: Self) -> "Moment":
        """Time that went by since an earlier moment."""
        return Moment(*(a - b for a, b in zip(self, other, strict=True)))


def peak_mebibytes() -> float:
    """Largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def rates(marks: Sequence[tuple[int, Moment]]) -> dict[str, float]:
    """Steps per second between neighbouring marks.

    Args:
      marks: (environment steps so far, moment), oldest first; at least two.

    Returns:
      Medians over the spans: `per_wall_second` and `per_cpu_second`.
    """
    spans = [
        (steps - before, moment.since(then))
        for (before, then), (steps, moment) in zip(marks, marks[1:], strict=False)
    ]
    return {
        "per_wall_second": statistics.median(steps / span.wall for steps, span in spans),
        "per_cpu_second": statistics.median(steps / span.cpu for steps, span in spans),
    }
