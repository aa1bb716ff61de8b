"""A Python process of our own that answers questions: pickles over its pipes."""

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from rlkjax.errors import MachineError

ROOT = Path(__file__).resolve().parents[1]


class Child:
    """A running process; whoever starts it closes it."""

    def __init__(self, name: str, module: str, variables: Mapping[str, str]) -> None:
        """Starts `python -m module`.

        Args:
          name: of what it does, for the messages.
          module: with a `__main__` part that answers.
          variables: its environment; this project's folder is put on its path.

        Raises:
          MachineError: it cannot be started.
        """
        path = os.pathsep.join([str(ROOT), variables.get("PYTHONPATH", "")]).strip(os.pathsep)
        self._name = name
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**variables, "PYTHONPATH": path},
                start_new_session=True,  # a Ctrl-C is for the command, which then closes this
            )
        except OSError as error:
            raise MachineError(
                f"{name}: its process could not be started ({error}); free memory or processes"
            ) from None

    def send(self, question: object) -> None:
        """Hands over a question.

        Args:
          question: anything that can be pickled.

        Raises:
          MachineError: the process has ended.
        """
        stream = self._process.stdin
        try:
            if stream:
                pickle.dump(question, stream)
                stream.flush()
        except OSError:
            raise self._ended() from None

    def receive(self) -> Any:
        """Waits for an answer.

        Returns:
          The answer.

        Raises:
          MachineError: the process has ended.
        """
        stream = self._process.stdout
        try:
            return pickle.load(stream) if stream else None
        except (EOFError, pickle.UnpicklingError):
            raise self._ended() from None

    def close(self) -> None:
        """Ends the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):  # what was not sent is of no use
                if stream:
                    stream.close()

    def _ended(self) -> MachineError:
        status = self._process.wait()
        return MachineError(
            f"{self._name}: its process ended with status {status}, want an answer; see its "
            "message above"
        )


def answers() -> BinaryIO:
    """In the child: where answers go. Whatever a library prints goes to stderr from then on.

    Returns:
      A stream that the parent receives from.
    """
    stream = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return stream
