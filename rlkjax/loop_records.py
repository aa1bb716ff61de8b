"""What the loop hands around: the run itself, an iteration under way, and what is known of it."""

from pathlib import Path
from typing import Any, NamedTuple

from rlkjax.audit.notary import Notary
from rlkjax.config import Config
from rlkjax.programs import Programs
from rlkjax.recompute.process import Reference
from rlkjax.run_folder import Opened
from rlkjax.types import (
    Advantages,
    Episodes,
    EpisodeTotals,
    Rescore,
    Segment,
    TrainState,
    UpdateInfo,
    WorldState,
)


class Work(NamedTuple):
    """All outputs of one iteration, dispatched but perhaps not yet computed.

    Attributes:
      iteration: its number.
      before: the train state that acted.
      world_before: state of the environments before it acted.
      world: state of the environments afterwards.
      segment: what the rollout claims.
      totals: its episode statistics.
      rescored: the training side's forward pass.
      advantages: advantages and returns.
      after: the new train state.
      info: diagnostics of the update.
      episodes: of the evaluation that follows, if one does.
    """

    iteration: int
    before: TrainState
    world_before: WorldState
    world: WorldState
    segment: Segment
    totals: EpisodeTotals
    rescored: Rescore
    advantages: Advantages
    after: TrainState
    info: UpdateInfo
    episodes: Episodes | None


class Settled(NamedTuple):
    """What is known of an iteration once its records are written.

    Attributes:
      iteration: its number.
      steps: environment steps of the whole run so far.
      chain: chain head, 64 hex digits.
      values: metrics by name, without clock times.
      evaluation: metrics of the evaluation that followed, if one did.
      audit_seconds: time that hashing and recording took on the notary's thread.
    """

    iteration: int
    steps: int
    chain: str
    values: dict[str, Any]
    evaluation: dict[str, Any] | None
    audit_seconds: float


class Run(NamedTuple):
    """One run, ready to go.

    Attributes:
      config: what to do.
      config_digest: digest of its canonical bytes, 64 hex digits.
      folder: where it is kept.
      programs: the compiled stages.
      opened: ledger and metrics files.
      notary: writes the records.
      reference: computes iterations a second time, if the config asks for it.
      acknowledged: why a recorded pause shall not stop the run; None: it shall.
    """

    config: Config
    config_digest: str
    folder: Path
    programs: Programs
    opened: Opened
    notary: Notary
    reference: Reference | None = None
    acknowledged: str | None = None


def due(iteration: int, every: int, total: int) -> bool:
    """Whether something that happens every so often happens after an iteration.

    Args:
      iteration: its number, from 0.
      every: iterations between two times; 0: only after the last.
      total: iterations of the run.

    Returns:
      True after the last iteration, and after each `every`-th.
    """
    return iteration + 1 == total or (every > 0 and (iteration + 1) % every == 0)


def first_iteration(run: Run) -> int:
    """Number of the iteration that comes next.

    Args:
      run: the run, as it was opened.

    Returns:
      0, or one more than the checkpoint's.
    """
    return 0 if run.opened.iteration is None else run.opened.iteration + 1
