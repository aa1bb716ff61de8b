"""The reference in a process of its own, so that training goes on while it computes.

NumPy's executor holds the interpreter, so a thread would hold up whoever feeds the device.
"""

import contextlib
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np

from rlkjax.config import Config, canonical_config
from rlkjax.errors import MachineError
from rlkjax.recompute.iteration import Judgement

ROOT = Path(__file__).resolve().parents[2]
# Settings of the device that trains; the reference needs a CPU only.
_DROPPED = ("XLA_FLAGS", "JAX_PLATFORMS", "PJRT_NPROC")


class Reference:
    """Judges one iteration at a time.

    Attributes:
      pending: number of the iteration that is being judged, or None.
    """

    def __init__(self, config: Config) -> None:
        """Starts the process; it loads its libraries while others go on.

        Args:
          config: the run.

        Raises:
          MachineError: the process cannot be started.
        """
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
        kept = {name: text for name, text in os.environ.items() if name not in _DROPPED}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "rlkjax.recompute.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**kept, "PYTHONPATH": path},
                start_new_session=True,  # a Ctrl-C is for the command, which then closes this
            )
        except OSError as error:
            raise MachineError(
                f"reference: its process could not be started ({error}); free memory or processes, "
                "or set audit.reference_every=0"
            ) from None
        self.pending: int | None = None
        self._send(canonical_config(config))

    def begin(self, iteration: int, given: dict[str, np.ndarray]) -> None:
        """Hands over an iteration; nothing may be pending.

        Args:
          iteration: its number.
          given: all its trees, as `iteration.flat` gives them.

        Raises:
          MachineError: the process has ended.
        """
        self._send((iteration, given))
        self.pending = iteration

    def finish(self) -> Judgement:
        """Waits for the judgement of the pending iteration.

        Returns:
          The judgement.

        Raises:
          MachineError: the process has ended.
        """
        stream = self._process.stdout
        try:
            judgement = pickle.load(stream) if stream else None
        except (EOFError, pickle.UnpicklingError):
            judgement = None
        if not isinstance(judgement, Judgement):
            raise self._ended()
        self.pending = None
        return judgement

    def close(self) -> None:
        """Ends the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):  # what was not sent is of no use
                if stream:
                    stream.close()

    def _send(self, question: object) -> None:
        stream = self._process.stdin
        try:
            if stream:
                pickle.dump(question, stream)
                stream.flush()
        except OSError:
            raise self._ended() from None

    def _ended(self) -> MachineError:
        status = self._process.wait()
        return MachineError(
            f"reference: its process ended with status {status}, want a judgement of iteration "
            f"{self.pending}; see its message above, free memory, and resume"
        )
