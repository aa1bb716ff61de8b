"""One iteration as pure functions: rollout, rescore, advantages, update; and evaluation.

`make_stages` builds them, `programs.compile_stages` turns them into programs. A transformation of
arithmetic belongs between the two: every stage is a pure function of arrays.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlkjax import normalize, optimizer, reward
from rlkjax.config import Config, iterations
from rlkjax.evaluate import make_evaluate
from rlkjax.gae import gae
from rlkjax.policy import Policy, isolate, make_policy, named
from rlkjax.rollout import init_episodes, make_rescore, make_rollout, policy_graph
from rlkjax.types import (
    Advantages,
    Array,
    PolicyState,
    Rescore,
    Segment,
    TrainState,
    WorldState,
)
from rlkjax.update import make_update
from vimejax import keys, wrap
from vimejax.types import Environment


class Stages(NamedTuple):
    """The stages of a run, in the order of the pipeline.

    Attributes:
      init: (seed [] uint32) -> (train_state, world_state).
      rollout: (policy_state, world_state) -> (world_state', segment, totals).
      rescore: (policy_state, segment) -> rescore.
      advantages: (train_state, segment, rescore) -> advantages.
      update: (train_state, segment, rescore, advantages) -> (train_state', info).
      evaluate: (policy_state, number [] uint32) -> episodes.
    """

    init: Callable
    rollout: Callable
    rescore: Callable
    advantages: Callable
    update: Callable
    evaluate: Callable


def make_stages(config: Config, env: Environment) -> Stages:
    """Builds the stages of a run as pure functions of arrays.

    Args:
      config: the whole run.
      env: one wrapped environment.

    Returns:
      The stages, not compiled.
    """
    policy = make_policy(config, env.spec)
    # Exact arithmetic does not depend on what the compiler fuses, so nothing need be kept apart.
    graph = policy_graph(policy, isolate if config.numerics == "native" else named)
    stream = wrap.stream(env, config.rollout.num_envs)
    return Stages(
        init=_make_init(config, policy, stream),
        rollout=make_rollout(
            policy,
            graph,
            stream,
            unroll_length=config.rollout.unroll_length,
            reward_dtype=config.reward.dtype,
        ),
        rescore=make_rescore(graph),
        advantages=_make_advantages(config),
        update=make_update(
            policy,
            config.ppo,
            seed=config.seed,
            normalize_reward=config.reward.normalize == "running",
        ),
        evaluate=make_evaluate(config, policy, env),
    )


def _make_init(config: Config, policy: Policy, stream: wrap.Stream) -> Callable:
    """The stage that makes the state of iteration 0 from the seed alone."""
    num_envs = config.rollout.num_envs

    def environment_keys(seed: Array) -> Array:
        run = keys.run_key(seed, keys.Stream.TRAIN)
        return jax.vmap(keys.environment_key, (None, 0))(
            run, jnp.arange(num_envs, dtype=jnp.uint32)
        )

    # The seed comes in at run time: a program of constants would be folded by the compiler.
    def init(seed: Array) -> tuple[TrainState, WorldState]:
        params = policy.init(keys.run_key(seed, keys.Stream.INIT))
        state = TrainState(
            policy=PolicyState(params, normalize.init(stream.spec.obs_size)),
            optimizer=optimizer.make_optimizer(config.ppo).init(params),
            learning_rate=optimizer.make_learning_rate(config.ppo, iterations(config)),
            reward_scale=reward.init_scale(num_envs),
            iteration=jnp.zeros((), jnp.uint32),
        )
        stream_state, _ = stream.init(environment_keys(seed))
        return state, WorldState(stream_state, init_episodes(num_envs))

    return init


def _make_advantages(config: Config) -> Callable:
    """The stage that turns rewards and values into advantages."""

    def advantages(state: TrainState, segment: Segment, rescored: Rescore) -> Advantages:
        return gae(
            reward.scaled(config.reward, state.reward_scale, segment.reward),
            rescored.value,
            rescored.bootstrap_value,
            terminated=segment.terminated,
            truncated=segment.truncated,
            discount=config.ppo.discount,
            gae_lambda=config.ppo.gae_lambda,
        )

    return advantages
