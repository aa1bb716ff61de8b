"""The shapes of what the stages of a run are called with, found without computing anything."""

from typing import Any

import jax
import jax.numpy as jnp

from rlkjax.learner import Stages


def stage_arguments(stages: Stages) -> dict[str, tuple[Any, ...]]:
    """What each stage takes, in the order of the pipeline.

    Args:
      stages: pure functions.

    Returns:
      Name of the stage -> its arguments as trees of shapes and dtypes.
    """
    number = jax.ShapeDtypeStruct((), jnp.uint32)
    train, world = jax.eval_shape(stages.init, number)
    world, segment, _ = jax.eval_shape(stages.rollout, train.policy, world)
    rescored = jax.eval_shape(stages.rescore, train.policy, segment)
    advantages = jax.eval_shape(stages.advantages, train, segment, rescored)
    return {
        "init": (number,),
        "rollout": (train.policy, world),
        "rescore": (train.policy, segment),
        "advantages": (train, segment, rescored),
        "update": (train, segment, rescored, advantages),
        "evaluate": (train.policy, number),
    }
