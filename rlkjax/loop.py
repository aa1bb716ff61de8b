"""One run: dispatch the stages of each iteration, and let the notary settle the one before.

The main thread only dispatches. A second thread waits for the outputs of an iteration, hashes them
and writes the records, while the device computes the next iteration; so an iteration is accepted
one step after it was dispatched, and whatever was dispatched after a halt is thrown away.
"""

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from rlkjax import checkpoint, metrics, segments
from rlkjax.audit import tap
from rlkjax.audit.notary import Notary, state_roots
from rlkjax.config import Config, iterations, steps_per_iteration
from rlkjax.programs import Programs
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
    """

    config: Config
    config_digest: str
    folder: Path
    programs: Programs
    opened: Opened
    notary: Notary


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


def start(run: Run) -> tuple[TrainState, WorldState]:
    """The state to begin with: from the seed, or from a checkpoint.

    Args:
      run: the run.

    Returns:
      Train state and world state.

    Raises:
      ConsistencyError: the checkpoint is damaged.
    """
    train, world = run.programs.stages.init(jnp.uint32(run.config.seed))
    if run.opened.iteration is None:
        return train, world
    like = {"train": train, "world": world}
    tensors, _ = checkpoint.load(
        run.folder,
        run.opened.iteration,
        tap.shapes(like),
        config=run.config_digest,
        manifest=run.opened.manifest,
    )
    state = tap.rebuild(like, tensors)
    return state["train"], state["world"]


def dispatch(run: Run, train: TrainState, world: WorldState, iteration: int) -> Work:
    """Starts all stages of one iteration, in the order of the pipeline.

    Args:
      run: the run.
      train: state of the learner.
      world: state of the environments.
      iteration: its number.

    Returns:
      The outputs; none of them is waited for.
    """
    stages = run.programs.stages
    world, segment, totals = stages.rollout(train.policy, world)
    rescored = stages.rescore(train.policy, segment)
    advantages = stages.advantages(train, segment, rescored)
    after, info = stages.update(train, segment, rescored, advantages)
    episodes = None
    if due(iteration, run.config.evaluation.every, iterations(run.config)):
        episodes = stages.evaluate(after.policy, jnp.uint32(iteration))
    return Work(iteration, world, segment, totals, rescored, advantages, after, info, episodes)


def settle(run: Run, work: Work, policy: str) -> tuple[Settled, str]:
    """Hashes and records one iteration, as its outputs are finished; halts on any difference.

    Args:
      run: the run.
      work: the iteration.
      policy: Merkle root of the policy that acted.

    Returns:
      What is known of it, and the Merkle root of the policy that it made.

    Raises:
      ConsistencyError: a bit differs, or the update is not finite.
      MachineError: no space.
    """
    clock = _Clock()
    notary, number = run.notary, work.iteration
    segment = clock.wait(work.segment)
    claim = notary.rollout(
        number,
        segment,
        seed=run.config.seed,
        policy=policy,
        graph=run.programs.rollout_graph,
        nonfinite=int(clock.wait(work.totals)["nonfinite"]),
    )
    rescored = clock.wait(work.rescored)
    bootstrap = rescored.pop("bootstrap_value")
    notary.rescore(number, claim, rescored, run.programs.rescore_graph)
    advantages = clock.wait(work.advantages)
    notary.advantages(number, {**advantages, "bootstrap_value": bootstrap})
    after = clock.wait(work.after)
    notary.used(number, claim)
    values = _values(run.config, work)
    if not math.isfinite(values["grad_norm"]):
        notary.halt(number, "update", "the gradient is not finite")
    for name, array in after.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            notary.halt(number, "update", "the new state is not finite", buffer=name)
    root, policy = state_roots(after, number + 1)
    notary.update(number, root, metrics.line("update", number, values))
    segments.keep(run.folder, number, segment, run.config.audit.keep_segments)
    evaluation = _settle_evaluation(run, work, clock)
    if due(number, run.config.checkpoint.every, iterations(run.config)):
        _settle_checkpoint(run, work)
    settled = Settled(
        number,
        values["steps"],
        notary.chain.head,
        values,
        evaluation,
        clock.busy(),
    )
    return settled, policy


class _Clock:
    """Tells the time spent working from the time spent waiting for the device."""

    def __init__(self) -> None:
        self._begin = time.perf_counter()
        self._waited = 0.0

    def wait(self, tree: Any) -> dict[str, Any]:
        """Fields of a tree once they are computed."""
        before = time.perf_counter()
        fields = tap.fields(tree)
        self._waited += time.perf_counter() - before
        return fields

    def busy(self) -> float:
        """Seconds since the start that were not spent waiting."""
        return time.perf_counter() - self._begin - self._waited


def _values(config: Config, work: Work) -> dict[str, Any]:
    totals = work.totals
    return {
        **work.info._asdict(),
        "steps": (work.iteration + 1) * steps_per_iteration(config),
        "episodes": totals.episodes,
        "episode_return": metrics.mean(totals.return_sum, totals.episodes),
        "episode_length": metrics.mean(totals.length_sum, totals.episodes),
        "nonfinite": totals.nonfinite,
    }


def _settle_evaluation(run: Run, work: Work, clock: _Clock) -> dict[str, Any] | None:
    if work.episodes is None:
        return None
    fields = clock.wait(work.episodes)
    values = {
        "steps": (work.iteration + 1) * steps_per_iteration(run.config),
        "return_mean": fields["return_"].mean(dtype="float64"),
        "return_min": fields["return_"].min(),
        "return_max": fields["return_"].max(),
        "length_mean": fields["length"].mean(dtype="float64"),
    }
    line = metrics.line("evaluation", work.iteration, values)
    run.notary.evaluation(work.iteration, fields, line)
    return values


def _settle_checkpoint(run: Run, work: Work) -> None:
    chain = run.notary.chain
    manifest = checkpoint.save(
        run.folder,
        work.iteration,
        tap.fields({"train": work.after, "world": work.world}),
        {
            "config": run.config_digest,
            "count": chain.count,
            "head": chain.head,
            "bits": chain.bits,
        },
    )
    run.notary.record("checkpoint", {"iteration": work.iteration, "manifest": manifest})
    run.opened.journal.fsync()
    run.opened.metrics.fsync()
    checkpoint.prune(run.folder, run.config.checkpoint.keep)


def pipeline(
    run: Run,
    state: TrainState,
    world: WorldState,
    numbers: range,
    *,
    dispatch_fn: Callable[..., Work] = dispatch,
    settle_fn: Callable[..., tuple[Any, str]] = settle,
) -> Iterator[Any]:
    """Dispatches iterations while a second thread settles the one before.

    Args:
      run: the run.
      state: of the learner before the first of them.
      world: of the environments before the first of them.
      numbers: iterations to run.
      dispatch_fn: starts one iteration.
      settle_fn: waits for one iteration and accepts it.

    Yields:
      What `settle_fn` says of each iteration, in order.

    Raises:
      ConsistencyError: a bit differs; the ledger ends with a halt record.
      MachineError: no space.
    """
    _, policy = state_roots(tap.fields(state), numbers.start)
    pending: Future | None = None
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="notary") as notary:
        for iteration in numbers:
            work = dispatch_fn(run, state, world, iteration)
            state, world = work.after, work.world
            if pending is not None:
                settled, policy = pending.result()
                yield settled
            pending = notary.submit(settle_fn, run, work, policy)
        if pending is not None:
            yield pending.result()[0]


def train(run: Run, dispatch_fn: Callable[..., Work] = dispatch) -> Iterator[Settled]:
    """Runs all iterations that are left, yielding each once it is settled.

    Args:
      run: the run.
      dispatch_fn: starts one iteration; tests put a faulty one here.

    Yields:
      Settled iterations, in order.

    Raises:
      ConsistencyError: a bit differs; the ledger ends with a halt record.
      MachineError: no space.
    """
    state, world = start(run)
    left = range(first_iteration(run), iterations(run.config))
    yield from pipeline(run, state, world, left, dispatch_fn=dispatch_fn)
