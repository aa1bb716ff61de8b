"""The reference in a process of its own, so that training goes on while it computes.

NumPy's executor holds the interpreter, so a thread would hold up whoever feeds the device.
"""

import os

import numpy as np

from rlkjax.child import Child
from rlkjax.config import Config, canonical_config
from rlkjax.errors import InputError
from rlkjax.recompute.iteration import Judgement

WORKER = "rlkjax.recompute.worker"
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
        kept = {name: text for name, text in os.environ.items() if name not in _DROPPED}
        self._child = Child("reference", WORKER, kept)
        self._child.send(canonical_config(config))
        self.pending: int | None = None

    def begin(self, iteration: int, given: dict[str, np.ndarray]) -> None:
        """Hands over an iteration; nothing may be pending.

        Args:
          iteration: its number.
          given: all its trees, as `iteration.flat` gives them.

        Raises:
          MachineError: the process has ended.
        """
        self._child.send((iteration, given))
        self.pending = iteration

    def finish(self) -> Judgement:
        """Waits for the judgement of the pending iteration.

        Returns:
          The judgement.

        Raises:
          MachineError: the process has ended.
          InputError: the reference does not define something that the run computes.
        """
        refused, judgement = self._child.receive()
        if refused is not None:
            raise InputError(
                f"reference: iteration {self.pending} cannot be computed by it ({refused}); set "
                "audit.reference_every=0 for this task"
            )
        self.pending = None
        return judgement

    def close(self) -> None:
        """Ends the process, whatever it is doing."""
        self._child.close()
