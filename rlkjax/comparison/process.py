"""A process under a condition: it gets a question on stdin and answers with its last line."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rlkjax.comparison.conditions import Condition, variables
from rlkjax.errors import ConsistencyError, InputError, MachineError

ROOT = Path(__file__).resolve().parents[2]
_ERRORS = {each.exit_status: each for each in (ConsistencyError, InputError, MachineError)}


def answer(condition: Condition, command: Sequence[str], question: str) -> str:
    """Starts a command under a condition, and waits for it.

    Args:
      condition: where it runs.
      command: name of a module, and the words that it is called with.
      question: what it reads on stdin.

    Returns:
      The last word on its stdout.

    Raises:
      ConsistencyError, InputError, MachineError: the process ended with their exit status; any
        other status is the machine's fault.
    """
    outside = variables(condition, os.environ)
    path = os.pathsep.join([str(ROOT), outside.get("PYTHONPATH", "")]).strip(os.pathsep)
    done = subprocess.run(
        [condition.python or sys.executable, "-m", *command],
        input=question,
        env={**outside, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    if done.returncode == 0:
        return done.stdout.split()[-1]
    last = (done.stderr.strip().splitlines() or ["no message"])[-1].removeprefix("rlkjax: ")
    error = _ERRORS.get(done.returncode, MachineError)
    raise error(f"condition {condition.name}: {last} (its process ended with {done.returncode})")
