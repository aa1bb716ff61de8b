"""A run's own process, with the flags, variables and threads that its fingerprint names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlkjax.child import Child
from rlkjax.errors import MachineError
from rlkjax.operations.levels import Equation, Ref
from rlkjax.operations.levels import Path as LevelPath
from rlkjax.operations.values import Values
from rlkjax.platform import flags

_DROPPED = ("XLA_FLAGS", "JAX_PLATFORMS", "PJRT_NPROC", "NPROC")
_VARIABLE = "environment."
_HIDDEN = "<path>"  # what a fingerprint writes for a path


def environment_of(
    fingerprint: Mapping[str, Any], outside: Mapping[str, str], *, threads: int | None
) -> dict[str, str]:
    """The variables under which a run is computed again.

    Args:
      fingerprint: of the run.
      outside: variables of this process.
      threads: worker threads that the run's config pins, if it does.

    Returns:
      Variables: those of this process, but for what the fingerprint names.
    """
    recorded = {
        key.removeprefix(_VARIABLE): str(value)
        for key, value in fingerprint.items()
        if key.startswith(_VARIABLE) and _HIDDEN not in str(value)
    }
    kept = {name: text for name, text in outside.items() if name not in _DROPPED}
    words = [each for each in str(fingerprint.get("xla.flags", "")).split() if _HIDDEN not in each]
    made = {**kept, **recorded, "XLA_FLAGS": " ".join(words)}
    made.pop("JAX_PLATFORMS", None)
    workers = str(fingerprint.get("cpu.threads", ""))
    if threads is None and workers.isdecimal():
        made[flags.THREADS] = workers
    return made


class Witness:
    """Answers for one run, from a process of its own."""

    def __init__(
        self, folder: Path, iteration: int, stage: str, *, variables: Mapping[str, str]
    ) -> None:
        """Starts the process and asks for an iteration; `testimony` waits for the answer.

        Args:
          folder: the run folder.
          iteration: that is to be computed again.
          stage: whose buffers are asked for.
          variables: as `environment_of` gives them.

        Raises:
          MachineError: the process cannot be started.
        """
        self._folder = folder
        self._child = Child(f"run {folder}", "rlkjax.witness.worker", variables)
        self._child.send((str(folder), iteration, stage))

    def testimony(self) -> Any:
        """Waits for the iteration.

        Returns:
          A `testimony.Testimony`.

        Raises:
          MachineError: the run cannot be computed here.
        """
        return self._answer()

    def ask(self, program: tuple[str, bool], method: str, *arguments: Any) -> Any:
        """Asks a stage's program.

        Args:
          program: stage, and whether each equation has a program of its own.
          method: of `operations.program.Program`.
          *arguments: of the method.

        Returns:
          What the method returns.

        Raises:
          MachineError: the process has ended.
        """
        self._child.send((program, method, arguments))
        return self._answer()

    def close(self) -> None:
        """Ends the process, whatever it is doing."""
        self._child.close()

    def _answer(self) -> Any:
        refused, answer = self._child.receive()
        if refused is not None:
            raise MachineError(f"run {self._folder} cannot be computed here: {answer}")
        return answer


class Asked:
    """The program of a witness, as `operations.walk` asks for it."""

    def __init__(self, witness: Witness, stage: str, apart: bool) -> None:
        """Takes a witness.

        Args:
          witness: who is asked.
          stage: the one that was asked for, or "init".
          apart: whether each equation has a program of its own.
        """
        self._witness, self._program = witness, (stage, apart)
        self._outlines: dict[LevelPath, Any] = {}

    def outline(self, path: LevelPath) -> tuple[tuple[Equation, ...], tuple[Ref, ...], Values]:
        """As `Program.outline`.

        Args:
          path: the level.

        Returns:
          Equations, where results come from, constants.
        """
        if path not in self._outlines:
            self._outlines[path] = self._witness.ask(self._program, "outline", path)
        return self._outlines[path]

    def evaluate(self, path: LevelPath, inputs: Values) -> list[Values]:
        """As `Program.evaluate`.

        Args:
          path: the level.
          inputs: its inputs.

        Returns:
          All results.
        """
        return self._witness.ask(self._program, "evaluate", path, inputs)
