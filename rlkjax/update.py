"""The update: several epochs of minibatches over one segment."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from rlkjax import normalize, optimizer, reward
from rlkjax.config import PPOConfig
from rlkjax.policy import Policy
from rlkjax.ppo import Batch, ppo_loss
from rlkjax.shuffle import permutation
from rlkjax.types import (
    Advantages,
    Array,
    Params,
    PolicyState,
    Rescore,
    Segment,
    TrainState,
    UpdateInfo,
)
from vimejax import keys

Carry = tuple[Params, Any]  # parameters, and state of the optimiser


def make_update(
    policy: Policy, config: PPOConfig, *, seed: int, normalize_reward: bool
) -> Callable[[TrainState, Segment, Rescore, Advantages], tuple[TrainState, UpdateInfo]]:
    """Builds the stage that learns from one segment.

    Args:
      policy: the pure functions.
      config: epochs, minibatches and coefficients.
      seed: of the run; epochs draw at (seed, SHUFFLE, iteration, epoch).
      normalize_reward: whether running reward normalisation is on.

    Returns:
      (train_state, segment, rescore, advantages) -> (train_state', info). Observation statistics
      are merged after the last epoch, so that the whole iteration sees frozen ones.
    """
    transformation = optimizer.make_optimizer(config)

    def update(
        state: TrainState, segment: Segment, rescored: Rescore, advantages: Advantages
    ) -> tuple[TrainState, UpdateInfo]:
        rate = optimizer.rate(state.learning_rate, state.iteration)
        samples = _samples(segment, rescored, advantages)
        step = functools.partial(
            _minibatch_step, policy=policy, config=config, state=state, optimizer=transformation
        )
        (params, opt_state), info = jax.lax.scan(
            lambda carry, rows: step(carry, jax.tree.map(lambda x: x[rows], samples), rate),
            (state.policy.params, state.optimizer),
            _minibatches(config, keys.run_key(seed, keys.Stream.SHUFFLE), state.iteration, samples),
        )
        reward_scale = state.reward_scale
        if normalize_reward:
            reward_scale = reward.merge(reward_scale, segment, config.discount)
        stats = normalize.merge(state.policy.obs_stats, segment.obs)
        after = TrainState(
            policy=PolicyState(params, stats),
            optimizer=opt_state,
            learning_rate=state.learning_rate,
            reward_scale=reward_scale,
            iteration=state.iteration + 1,
        )
        return after, _summary(info, rate)

    return update


def _minibatch_step(
    carry: Carry,
    batch: Batch,
    rate: Array,
    *,
    policy: Policy,
    config: PPOConfig,
    state: TrainState,
    optimizer: optax.GradientTransformation,
) -> tuple[Carry, dict[str, Array]]:
    """One gradient step; `state` lends its observation statistics."""
    params, opt_state = carry
    grads, info = jax.grad(ppo_loss, has_aux=True)(
        params, batch, policy, state=state.policy, config=config
    )
    info["grad_norm"] = optax.tree.norm(grads)
    steps, opt_state = optimizer.update(grads, opt_state)
    params = jax.tree.map(lambda p, s: p - rate * s, params, steps)
    return (params, opt_state), info


def _samples(segment: Segment, rescored: Rescore, advantages: Advantages) -> Batch:
    """All samples of a segment, time and environments merged into one axis, time slowest."""
    batch = Batch(
        obs=segment.obs,
        action=segment.action,
        log_prob=rescored.log_prob,
        value=rescored.value,
        advantage=advantages.advantage,
        return_=advantages.return_,
    )
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), batch)


def _minibatches(config: PPOConfig, run: Array, iteration: Array, samples: Batch) -> Array:
    """Rows of every minibatch, [epochs * minibatches, B] uint32; a new order each epoch."""
    n = samples.log_prob.shape[0]
    epochs = jnp.arange(config.epochs, dtype=jnp.uint32)
    epoch_keys = jax.vmap(keys.shuffle_key, (None, None, 0))(run, iteration, epochs)
    orders = jax.vmap(lambda key: permutation(key, n))(epoch_keys)
    return orders.reshape(config.epochs * config.minibatches, -1)


def _summary(info: dict[str, Array], rate: Array) -> UpdateInfo:
    """Folds the diagnostics of all minibatches, [epochs * minibatches] each."""
    folded = {
        name: jnp.mean(x) if x.dtype == jnp.float32 else jnp.max(x) for name, x in info.items()
    }
    return UpdateInfo(
        **folded,
        learning_rate=rate,
        first_ratio_not_one=info["ratio_not_one"][0],
        first_ratio_ulp=info["ratio_ulp"][0],
    )
