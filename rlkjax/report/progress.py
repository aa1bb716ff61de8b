"""What a person sees while a run goes on: a bar on a terminal, plain lines elsewhere; on stderr."""

import math
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

LINE_EVERY = 5.0  # seconds between two plain lines


def describe(values: Mapping[str, Any], evaluation: float | None, rate: float, chain: str) -> str:
    """The numbers that people watch, in one short line.

    Args:
      values: metrics of the iteration.
      evaluation: mean return of the last evaluation, if there was one.
      rate: environment steps per second.
      chain: chain head, 64 hex digits.

    Returns:
      Plain text.
    """
    ended = float(values["episode_return"])  # NaN where no episode ended in the iteration
    shown = [f"{rate:,.0f} steps/s", "return -" if math.isnan(ended) else f"return {ended:.1f}"]
    if evaluation is not None:
        shown.append(f"eval {evaluation:.1f}")
    loss = float(values["policy_loss"]) + float(values["value_loss"])
    return "  ".join([*shown, f"loss {loss:.3g}", f"chain {chain[:8]}"])


class Watch:
    """Shows progress; use it as a context."""

    def __init__(self, total_steps: int, done_steps: int, *, quiet: bool = False) -> None:
        """Starts counting from where the run stands.

        Args:
          total_steps: environment steps of the whole run.
          done_steps: steps that a resumed run has behind it.
          quiet: show nothing.
        """
        console = Console(stderr=True)
        self._bar = None
        if console.is_terminal and not quiet:
            self._bar = Progress(
                BarColumn(bar_width=24),
                TextColumn("{task.percentage:>3.0f}%"),
                TextColumn("{task.description}"),
                TimeRemainingColumn(compact=True),
                console=console,
            )
            self._task = self._bar.add_task("", total=total_steps, completed=done_steps)
        self._quiet = quiet
        self._total = total_steps
        self._first = done_steps
        self._begin = time.monotonic()
        self._shown = self._begin
        self._evaluation: float | None = None

    def __enter__(self) -> Self:
        """Shows the bar."""
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leaves the terminal as it was."""
        if self._bar:
            self._bar.stop()

    def update(
        self, values: Mapping[str, Any], evaluation: Mapping[str, Any] | None, chain: str
    ) -> None:
        """Shows one settled iteration.

        Args:
          values: its metrics.
          evaluation: metrics of the evaluation that followed, if one did.
          chain: chain head, 64 hex digits.
        """
        if evaluation is not None:
            self._evaluation = float(evaluation["return_mean"])
        now = time.monotonic()
        rate = (values["steps"] - self._first) / max(now - self._begin, 1e-9)
        text = describe(values, self._evaluation, rate, chain)
        if self._bar:
            self._bar.update(self._task, completed=values["steps"], description=text)
        elif not self._quiet and (evaluation is not None or now - self._shown > LINE_EVERY):
            self._shown = now
            print(f"{values['steps']:>12,} / {self._total:,}  {text}", file=sys.stderr, flush=True)
