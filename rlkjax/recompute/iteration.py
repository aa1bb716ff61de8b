"""One iteration on the reference executor, stage by stage, from the inputs the fast path had.

Each stage gets what the fast path gave to it, so that a difference belongs to the stage that is
named and not to one before it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from rlkjax.audit import merkle, tap, tolerance
from rlkjax.audit.elements import Place, first_of
from rlkjax.audit.notary import state_roots
from rlkjax.audit.tolerance import Alert, Limit, Measured
from rlkjax.config import Config, ToleranceConfig
from rlkjax.environment import make_environment
from rlkjax.exact.reference import reference
from rlkjax.learner import Stages, make_stages
from rlkjax.learner_arguments import stage_arguments

Fields = dict[str, np.ndarray]
Trees = dict[str, Any]

# The trees that enter an iteration, and for each stage the trees that it makes.
INPUTS = ("train", "world")
STAGES = {
    "rollout": ("segment", "world_after"),
    "rescore": ("rescored",),
    "advantages": ("advantages",),
    "update": ("after",),
}
ROLLOUT = STAGES["rollout"]
TIMED = ("segment", "rescored", "advantages")  # [T, N, ...]: the first axes are time, environment


class Judgement(NamedTuple):
    """What the reference makes of an iteration.

    Attributes:
      segment: Merkle root of the segment as the reference computes it, 64 hex digits.
      state: the same of the new train state.
      stage: of the first difference in bits; None where all bits are equal.
      place: where in that stage; None where all bits are equal.
      measured: "segment/reward" and so on -> how far it is apart.
      alerts: every threshold that a buffer is past.
    """

    segment: str
    state: str
    stage: str | None
    place: Place | None
    measured: dict[str, Measured]
    alerts: tuple[Alert, ...]


class Recompute(NamedTuple):
    """How to compute an iteration a second time.

    Attributes:
      like: name of a tree -> tree of shapes and dtypes.
      run: (trees that the fast path had and made) -> the trees that the stages make.
      tolerance: thresholds of native numerics.
    """

    like: Trees
    run: Callable[[Trees], Trees]
    tolerance: ToleranceConfig


def make_recompute(
    config: Config, transform: Callable[[Callable], Callable] = reference
) -> Recompute:
    """Prepares the second computation of a run's iterations.

    Args:
      config: the run, in either numerics.
      transform: of each stage into what computes it.

    Returns:
      The stages as the transformation computes them. They are those of exact numerics: native
      ones mean the same, but keep the policy apart for a compiler.
    """
    stages = make_stages(replace(config, numerics="exact"), make_environment(config))
    arguments = stage_arguments(stages)
    train, segment, rescored, advantages = arguments["update"]
    world = arguments["rollout"][1]
    like = {"train": train, "world": world, "world_after": world, "after": train}
    like |= {"segment": segment, "rescored": rescored, "advantages": advantages}
    computed = Stages(*map(transform, stages))
    return Recompute(like, lambda trees: run_stages(computed, trees), config.audit.tolerance)


def run_stages(stages: Stages, given: Trees) -> Trees:
    """All stages of an iteration, each from what the fast path gave to it.

    Args:
      stages: as functions or as programs.
      given: the trees of `INPUTS`, and those that the fast path's stages made.

    Returns:
      The trees of `STAGES`.
    """
    train, segment = given["train"], given["segment"]
    world, rolled, _ = stages.rollout(train.policy, given["world"])
    after, _ = stages.update(train, segment, given["rescored"], given["advantages"])
    return {
        "segment": rolled,
        "world_after": world,
        "rescored": stages.rescore(train.policy, segment),
        "advantages": stages.advantages(train, segment, given["rescored"]),
        "after": after,
    }


def flat(trees: Trees) -> Fields:
    """All leaves of named trees: "segment/reward" and so on.

    Args:
      trees: name -> tree of arrays.

    Returns:
      Name of the tree, a slash and the path of the leaf -> array on the host.
    """
    return {
        f"{name}/{path}": array
        for name, tree in trees.items()
        for path, array in tap.fields(tree).items()
    }


def nested(fields: Mapping[str, np.ndarray]) -> dict[str, Fields]:
    """The inverse of `flat`, as far as the names.

    Args:
      fields: as `flat` gives them.

    Returns:
      Name of the tree -> path -> array.
    """
    found: dict[str, Fields] = {}
    for name, array in fields.items():
        tree, _, path = name.partition("/")
        found.setdefault(tree, {})[path] = array
    return found


def judge(recompute: Recompute, iteration: int, given: Fields) -> Judgement:
    """Computes an iteration a second time and compares all that its stages made.

    Args:
      recompute: how.
      iteration: its number.
      given: all trees of the iteration, as `flat` gives them.

    Returns:
      The judgement. `expected` and `a_bits` are the reference's, `got` and `b_bits` the run's.
    """
    got = nested(given)
    trees = {name: tap.rebuild(like, got[name]) for name, like in recompute.like.items()}
    expected = {name: tap.fields(tree) for name, tree in recompute.run(trees).items()}
    stage, place = first_difference(expected, got)
    measured = {
        f"{name}/{path}": values
        for name in expected
        for path, values in tolerance.measure_all(expected[name], got[name]).items()
    }
    bounds = {key: limit_of(recompute.tolerance, key, given[key]) for key in measured}
    leaves = merkle.segment_leaves(expected["segment"], iteration)
    return Judgement(
        segment=merkle.root(leaves).hex(),
        state=state_roots(expected["after"], iteration + 1)[0],
        stage=stage,
        place=place,
        measured=measured,
        alerts=tuple(tolerance.alerts(measured, bounds)),
    )


def first_difference(
    expected: Mapping[str, Fields], got: Mapping[str, Fields]
) -> tuple[str | None, Place | None]:
    """The first element whose bits differ, in the order of the pipeline.

    Args:
      expected: tree -> path -> array, for every tree of `STAGES`.
      got: the same trees.

    Returns:
      Stage and place; None and None where all bits are equal.
    """
    for stage, names in STAGES.items():
        for name in names:
            place = first_of(expected[name], got[name], (), timed=name in TIMED)
            if place is not None:
                return stage, place
    return None, None


def limit_of(wanted: ToleranceConfig, key: str, array: np.ndarray) -> Limit:
    """The threshold of a buffer.

    Args:
      wanted: thresholds of the config.
      key: "segment/reward" and so on.
      array: the buffer.

    Returns:
      The limit; whatever is no float, so every episode end, must be equal.
    """
    tree, _, path = key.partition("/")
    if array.dtype.kind != "f":
        return tolerance.EQUAL
    if key == "segment/reward":
        return Limit(max_rel=wanted.reward_relative, differing=wanted.reward_differing)
    if key == "segment/action":
        return Limit(max_scaled=wanted.action, differing=1.0 if wanted.action else 0.0)
    return Limit(max_scaled=wanted.rollout if tree in ROLLOUT else wanted.training)
