"""One run: dispatch the stages of each iteration, and let the notary settle the one before.

The main thread only dispatches. A second thread waits for the outputs of an iteration, hashes them
and writes the records, while the device computes the next iteration; so an iteration is accepted
one step after it was dispatched, and whatever was dispatched after a halt is thrown away.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax.numpy as jnp

from rlkjax import checkpoint
from rlkjax.audit import tap
from rlkjax.audit.notary import state_roots
from rlkjax.config import iterations
from rlkjax.loop_records import Run, Settled, Work, due, first_iteration
from rlkjax.loop_settle import settle
from rlkjax.types import TrainState, WorldState

__all__ = ["Run", "Settled", "Work", "dispatch", "due", "first_iteration", "pipeline", "settle"]
__all__ += ["start", "train"]


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
    stages, world_before = run.programs.stages, world
    world, segment, totals = stages.rollout(train.policy, world)
    rescored = stages.rescore(train.policy, segment)
    advantages = stages.advantages(train, segment, rescored)
    after, info = stages.update(train, segment, rescored, advantages)
    episodes = None
    if due(iteration, run.config.evaluation.every, iterations(run.config)):
        episodes = stages.evaluate(after.policy, jnp.uint32(iteration))
    return Work(
        iteration=iteration,
        before=train,
        world_before=world_before,
        world=world,
        segment=segment,
        totals=totals,
        rescored=rescored,
        advantages=advantages,
        after=after,
        info=info,
        episodes=episodes,
    )


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
    try:
        yield from pipeline(run, state, world, left, dispatch_fn=dispatch_fn)
    finally:
        if run.reference is not None:
            run.reference.close()
