"""One iteration of a run, computed again from its nearest checkpoint, beside what was recorded."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rlkjax import checkpoint, run_folder
from rlkjax.audit import merkle, tap
from rlkjax.audit.checks import LEDGER
from rlkjax.audit.inside import lines_inside, read_inside
from rlkjax.audit.notary import state_roots
from rlkjax.config import Config, parse_canonical
from rlkjax.environment import make_environment
from rlkjax.launch import TRANSFORMS
from rlkjax.learner import Stages, make_stages
from rlkjax.operations.program import Program
from rlkjax.programs import Programs, compile_stages
from rlkjax.types import TrainState, WorldState

Fields = dict[str, np.ndarray]

# What the arguments of each stage are called, in order.
ARGUMENTS = {
    "init": ("seed",),
    "rollout": ("policy", "world"),
    "rescore": ("policy", "segment"),
    "advantages": ("train", "segment", "rescored"),
    "update": ("train", "segment", "rescored", "advantages"),
    "evaluation": ("policy", "number"),
}


class Testimony(NamedTuple):
    """What a run's stage gives here.

    Attributes:
      start: first iteration that was computed again.
      departed: first iteration whose new train state is not the recorded one; None if all are.
      repeats: whether the stage has the root that the run recorded.
      fields: buffers of the stage.
      inputs: arguments of the stage by path.
      seed: of the run.
      exact: whether its bits are there by definition.
    """

    start: int
    departed: int | None
    repeats: bool
    fields: Fields
    inputs: Fields
    seed: int
    exact: bool


class Bench:
    """A run's stages, ready to answer."""

    def __init__(self, folder: Path, iteration: int, stage: str) -> None:
        """Compiles the run's programs and computes the iteration again.

        Args:
          folder: the run folder.
          iteration: the iteration that is asked for.
          stage: "init", "rollout", "rescore", "advantages", "update" or "evaluation".

        Raises:
          RlkError: the run cannot be computed here.
        """
        data = read_inside(folder.resolve(), run_folder.CONFIG)
        self._config = parse_canonical(data, str(folder / run_folder.CONFIG))
        stages = make_stages(self._config, make_environment(self._config))
        programs = compile_stages(stages, TRANSFORMS[self._config.numerics])
        self.testimony, arguments = _compute(folder, self._config, programs, iteration, stage)
        self._asked = {
            "init": (stages.init, (jnp.uint32(self._config.seed),)),
            stage: (getattr(stages, "evaluate" if stage == "evaluation" else stage), arguments),
        }
        self._programs: dict[tuple[str, bool], Program] = {}

    def program(self, stage: str, apart: bool) -> Program:
        """A stage as levels of equations, computed as the run computes it.

        Args:
          stage: the one that was asked for, or "init".
          apart: whether each equation has a program of its own.

        Returns:
          The program; made once.
        """
        key = stage, apart
        if key not in self._programs:
            transform = TRANSFORMS[self._config.numerics] or jax.jit
            alone = apart and transform is jax.jit
            self._programs[key] = Program(*self._asked[stage], transform, apart=alone)
        return self._programs[key]


def _compute(
    folder: Path, config: Config, programs: Programs, iteration: int, stage: str
) -> tuple[Testimony, tuple[Any, ...]]:
    recorded = _records(folder, iteration)
    stages, exact = programs.stages, config.numerics == "exact"
    if stage == "init":
        train, _ = stages.init(jnp.uint32(config.seed))
        policy = tap.fields(train.policy)
        root = state_roots(tap.fields(train), 0)[1]
        given = (jnp.uint32(config.seed),)
        same = root == recorded["rollout"].get(iteration, {}).get("policy")
        inputs = _named(stage, given)
        return Testimony(0, None, same, policy, inputs, config.seed, exact), given
    train, world, begin = _start(folder, config, programs, iteration)
    departed = None
    for number in range(begin, iteration):
        train, world = _iterate(stages, train, world)
        root = state_roots(tap.fields(train), number + 1)[0]
        if departed is None and root != recorded["update"].get(number, {}).get("root"):
            departed = number
    given, fields = _stage_of(stages, train, world, iteration, stage)
    same = _root(fields, iteration, stage) == recorded[stage].get(iteration, {}).get("root")
    inputs = _named(stage, given)
    return Testimony(begin, departed, same, fields, inputs, config.seed, exact), given


def _named(stage: str, given: tuple[Any, ...]) -> Fields:
    """The arguments of a stage by path, in the order in which the stage takes them."""
    return {
        path: value
        for name, each in zip(ARGUMENTS[stage], given, strict=True)
        for path, value in tap.fields({name: each}).items()
    }


def _records(folder: Path, iteration: int) -> dict[str, dict[int, dict[str, Any]]]:
    """The records of the iterations up to one, by kind and iteration."""
    found: dict[str, dict[int, dict[str, Any]]] = {
        kind: {} for kind in ("rollout", "rescore", "advantages", "update", "evaluation")
    }
    for line in lines_inside(folder.resolve(), LEDGER):
        record = json.loads(line)
        if record.get("iteration", 0) > iteration:
            break
        if record["kind"] in found:
            found[record["kind"]][record["iteration"]] = record
    return found


def _start(
    folder: Path, config: Config, programs: Programs, iteration: int
) -> tuple[TrainState, WorldState, int]:
    """The state before the nearest iteration that a checkpoint or the seed leads to."""
    train, world = programs.stages.init(jnp.uint32(config.seed))
    before = [each for each in checkpoint.available(folder) if each < iteration]
    if not before:
        return train, world, 0
    like = {"train": train, "world": world}
    tensors, _ = checkpoint.load(folder, before[-1], tap.shapes(like))
    state = tap.rebuild(like, tensors)
    return state["train"], state["world"], before[-1] + 1


def _iterate(stages: Stages, train: TrainState, world: WorldState) -> tuple[TrainState, WorldState]:
    world, segment, _ = stages.rollout(train.policy, world)
    rescored = stages.rescore(train.policy, segment)
    advantages = stages.advantages(train, segment, rescored)
    return stages.update(train, segment, rescored, advantages)[0], world


def _stage_of(
    stages: Stages, train: TrainState, world: WorldState, iteration: int, stage: str
) -> tuple[tuple[Any, ...], Fields]:
    """The arguments of a stage, and the buffers of which its record has the root."""
    given: tuple[Any, ...] = (train.policy, world)
    _, segment, _ = stages.rollout(*given)
    if stage == "rollout":
        return given, tap.fields(segment)
    given = (train.policy, segment)
    rescored = stages.rescore(*given)
    if stage == "rescore":
        return given, {name: tap.fields(rescored)[name] for name in ("log_prob", "value")}
    given = (train, segment, rescored)
    advantages = stages.advantages(*given)
    if stage == "advantages":
        bootstrap = tap.fields(rescored)["bootstrap_value"]
        return given, {**tap.fields(advantages), "bootstrap_value": bootstrap}
    given = (train, segment, rescored, advantages)
    after, _ = stages.update(*given)
    if stage == "update":
        return given, tap.fields(after)
    given = (after.policy, jnp.uint32(iteration))
    return given, tap.fields(stages.evaluate(*given))


def _root(fields: Fields, iteration: int, stage: str) -> str:
    if stage == "update":
        return state_roots(fields, iteration + 1)[0]
    leaves = merkle.tensor_leaves if stage == "evaluation" else merkle.segment_leaves
    return merkle.root(leaves(fields, iteration)).hex()
