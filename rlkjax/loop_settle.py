"""Settling one iteration: wait for its outputs, hash them, write the records, halt on a difference.

All of it runs on the notary's thread, while the device computes the next iteration.
"""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from rlkjax import checkpoint, metrics, segments
from rlkjax.audit import tap
from rlkjax.audit.notary import state_roots
from rlkjax.config import Config, iterations, steps_per_iteration
from rlkjax.loop_records import Run, Settled, Work, due
from rlkjax.recompute import verdict
from rlkjax.recompute.iteration import flat


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
    _settle_reference(run, work, clock)
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
        return self.apart(lambda: tap.fields(tree))

    def apart(self, wait_fn: Callable[[], Any]) -> Any:
        """What a function returns that waits for others."""
        before = time.perf_counter()
        result = wait_fn()
        self._waited += time.perf_counter() - before
        return result

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


def _settle_reference(run: Run, work: Work, clock: _Clock) -> None:
    """Hands an iteration to the reference, and records its judgement as late as may be.

    A checkpoint vouches for all before it, and the reference holds one iteration at a time.
    """
    number, every, reference = work.iteration, run.config.audit.reference_every, run.reference
    if reference is None:
        return
    if verdict.due(number, every):
        trees = {
            "train": work.before,
            "world": work.world_before,
            "world_after": work.world,
            "segment": work.segment,
            "rescored": work.rescored,
            "advantages": work.advantages,
            "after": work.after,
        }
        reference.begin(number, clock.apart(lambda: flat(trees)))
    checkpoint_due = due(number, run.config.checkpoint.every, iterations(run.config))
    judged = reference.pending
    if judged is not None and (checkpoint_due or verdict.due(number + 1, every)):
        verdict.settle(
            run.notary,
            run.config,
            clock.apart(reference.finish),
            iteration=judged,
            folder=run.folder,
            reason=run.acknowledged,
        )


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
