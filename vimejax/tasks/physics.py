"""What tasks with simulated time share: the check of their clock, and the loop over substeps."""

import math
from collections.abc import Callable
from typing import TypeVar

import jax

from vimejax.errors import SpecError

T = TypeVar("T")


def check_clock(task: str, dt: float, substeps: int) -> None:
    """Refuses a clock that no physics can run on.

    Args:
      task: name of the task, for the message.
      dt: seconds of one substep; finite and positive.
      substeps: substeps of one step; a positive integer.

    Raises:
      SpecError: `dt` or `substeps` is out of range.
    """
    number = isinstance(dt, (int, float)) and not isinstance(dt, bool)
    if not number or not math.isfinite(dt) or dt <= 0:
        raise SpecError(
            f"dt of task {task}: got {dt!r}, want a finite number of seconds above 0; "
            "leave it out to take the task's own."
        )
    if not isinstance(substeps, int) or isinstance(substeps, bool) or substeps < 1:
        raise SpecError(
            f"substeps of task {task}: got {substeps!r}, want an integer of 1 or more; "
            "leave it out to take the task's own."
        )


def repeat(substep_fn: Callable[[T], T], state: T, substeps: int) -> T:
    """Applies `substep_fn` `substeps` times, one after the other.

    Args:
      substep_fn: one physics substep, a pure function of the state.
      state: tree of arrays.
      substeps: static count, at least 1.

    Returns:
      The state after the last substep, of the same structure.
    """
    if substeps == 1:  # no loop to pay for in the common case
        return substep_fn(state)
    return jax.lax.fori_loop(0, substeps, lambda _, inner: substep_fn(inner), state)
