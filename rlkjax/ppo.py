"""Proximal policy optimisation: the clipped loss, and the update over epochs and minibatches."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from rlkjax import normalize
from rlkjax.config import PPOConfig
from rlkjax.policy import Policy
from rlkjax.shuffle import permutation
from rlkjax.types import (
    Advantages,
    Array,
    LearningRate,
    Params,
    PolicyState,
    Rescore,
    RewardScale,
    Segment,
    TrainState,
    UpdateInfo,
)
from vimejax import keys

Carry = tuple[Params, Any]  # parameters, and state of the optimiser

ONE_BITS = 0x3F800000  # the float32 number 1


class Batch(NamedTuple):
    """Samples of one minibatch, B of them.

    Attributes:
      obs: [B, O] float32.
      action: [B] int32 or [B, A] float32.
      log_prob: [B] float32, of the policy that acted, nats.
      value: [B] float32, of the policy that acted.
      advantage: [B] float32.
      return_: [B] float32.
    """

    obs: Array
    action: Array
    log_prob: Array
    value: Array
    advantage: Array
    return_: Array


def normalize_advantage(advantage: Array) -> Array:
    """(A - mean(A)) / (std(A) + 1e-8), with the population deviation; equal advantages give zeros.

    Args:
      advantage: [B] float32.

    Returns:
      [B] float32.
    """
    centred = advantage - jnp.mean(advantage)
    return centred / (jnp.sqrt(jnp.mean(jnp.square(centred))) + 1e-8)


def ratio_distance(ratio: Array) -> tuple[Array, Array]:
    """How far importance ratios are from exactly 1.

    Args:
      ratio: [B] float32, positive.

    Returns:
      Share that is not exactly 1, [] float32; largest distance in units in the last place, []
      int32.
    """
    bits = jax.lax.bitcast_convert_type(ratio, jnp.int32)
    ulp = jnp.abs(bits - ONE_BITS)
    return jnp.mean((ulp != 0).astype(jnp.float32)), jnp.max(ulp)


def ppo_loss(
    params: Params, batch: Batch, policy: Policy, *, state: PolicyState, config: PPOConfig
) -> tuple[Array, dict[str, Array]]:
    """Clipped surrogate, value error and entropy bonus.

      L = - mean(min(r A, clip(r, 1 - eps, 1 + eps) A)) + c_v mean((V - R)^2) / 2 - c_e mean(H)

    Means are over the minibatch, in XLA's order.

    Args:
      params: parameters to differentiate by.
      batch: one minibatch.
      policy: the pure functions.
      state: its observation statistics are used, its parameters are not.
      config: coefficients.

    Returns:
      Loss, [] float32; and diagnostics by the names of `UpdateInfo`.

    Source: Schulman et al., "Proximal policy optimization algorithms" (2017), eq. 7 and 9; value
      clipping, when on, as in the authors' code: the larger of both errors.
    """
    outputs, value = policy.forward(state._replace(params=params), batch.obs)
    log_ratio = policy.distribution.log_prob(outputs, batch.action) - batch.log_prob
    ratio = jnp.exp(log_ratio)
    advantage = batch.advantage
    if config.normalize_advantage:
        advantage = normalize_advantage(advantage)
    low, high = 1.0 - config.clip_epsilon, 1.0 + config.clip_epsilon
    surrogate = jnp.minimum(ratio * advantage, jnp.clip(ratio, low, high) * advantage)
    policy_loss = -jnp.mean(surrogate)
    error = jnp.square(value - batch.return_)
    if config.value_clip_epsilon is not None:
        step = jnp.clip(value - batch.value, -config.value_clip_epsilon, config.value_clip_epsilon)
        error = jnp.maximum(error, jnp.square(batch.value + step - batch.return_))
    value_loss = 0.5 * jnp.mean(error)
    entropy = jnp.mean(policy.distribution.entropy(outputs))
    not_one, ulp = ratio_distance(ratio)
    loss = policy_loss + config.value_cost * value_loss - config.entropy_cost * entropy
    return loss, {
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": entropy,
        "approx_kl": jnp.mean(ratio - 1.0 - log_ratio),
        "clip_fraction": jnp.mean(((ratio < low) | (ratio > high)).astype(jnp.float32)),
        "ratio_not_one": not_one,
        "ratio_ulp": ulp,
    }


def make_optimizer(config: PPOConfig) -> optax.GradientTransformation:
    """Adam on one flat vector, after clipping by the global norm; the caller applies the rate.

    Args:
      config: `max_grad_norm` (None: no clipping) and `adam_epsilon`.

    Returns:
      The transformation; it turns gradients into steps of unit rate.

    Source: Kingma and Ba, "Adam: a method for stochastic optimization" (2015), algorithm 1.
    """
    steps = [optax.scale_by_adam(eps=config.adam_epsilon)]
    if config.max_grad_norm is not None:
        steps.insert(0, optax.clip_by_global_norm(config.max_grad_norm))
    return optax.flatten(optax.chain(*steps))


def rate(learning_rate: LearningRate, iteration: Array) -> Array:
    """initial - slope * iteration, never below 0.

    Args:
      learning_rate: the schedule.
      iteration: [] uint32.

    Returns:
      [] float32.
    """
    return jnp.maximum(
        learning_rate.initial - learning_rate.slope * iteration.astype(jnp.float32), 0.0
    )


def make_update(
    policy: Policy, config: PPOConfig, *, seed: int, discount_rewards: bool
) -> Callable[[TrainState, Segment, Rescore, Advantages], tuple[TrainState, UpdateInfo]]:
    """Builds the stage that learns from one segment.

    Args:
      policy: the pure functions.
      config: epochs, minibatches and coefficients.
      seed: of the run; epochs draw at (seed, SHUFFLE, iteration, epoch).
      discount_rewards: whether running reward normalisation is on.

    Returns:
      (train_state, segment, rescore, advantages) -> (train_state', info). Observation statistics
      are merged after the last epoch, so that the whole iteration sees frozen ones.
    """
    optimizer = make_optimizer(config)

    def minibatch_step(
        carry: Carry, batch: Batch, state: TrainState, learning_rate: Array
    ) -> tuple[Carry, dict[str, Array]]:
        params, opt_state = carry
        grads, info = jax.grad(ppo_loss, has_aux=True)(
            params, batch, policy, state=state.policy, config=config
        )
        info["grad_norm"] = optax.tree.norm(grads)
        steps, opt_state = optimizer.update(grads, opt_state)
        params = jax.tree.map(lambda p, s: p - learning_rate * s, params, steps)
        return (params, opt_state), info

    def update(
        state: TrainState, segment: Segment, rescored: Rescore, advantages: Advantages
    ) -> tuple[TrainState, UpdateInfo]:
        learning_rate = rate(state.learning_rate, state.iteration)
        samples = _samples(segment, rescored, advantages)
        run = keys.run_key(seed, keys.Stream.SHUFFLE)

        def epoch(carry: Carry, number: Array) -> tuple[Carry, dict[str, Array]]:
            key = keys.shuffle_key(run, state.iteration, number)
            batches = _shuffle(key, samples, config.minibatches)
            return jax.lax.scan(
                lambda c, batch: minibatch_step(c, batch, state, learning_rate),
                carry,
                batches,
            )

        (params, opt_state), info = jax.lax.scan(
            epoch,
            (state.policy.params, state.optimizer),
            jnp.arange(config.epochs, dtype=jnp.uint32),
        )
        reward_scale = state.reward_scale
        if discount_rewards:
            reward_scale = merge_rewards(reward_scale, segment, config.discount)
        state = TrainState(
            policy=PolicyState(params, normalize.merge(state.policy.obs_stats, segment.obs)),
            optimizer=opt_state,
            learning_rate=state.learning_rate,
            reward_scale=reward_scale,
            iteration=state.iteration + 1,
        )
        return state, _summary(info, learning_rate)

    return update


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


def _shuffle(key: Array, samples: Batch, minibatches: int) -> Batch:
    """Samples in a drawn order, [minibatches, B, ...]."""
    order = permutation(key, samples.log_prob.shape[0])
    order = order.reshape(minibatches, -1)
    return jax.tree.map(lambda x: x[order], samples)


def _summary(info: dict[str, Array], learning_rate: Array) -> UpdateInfo:
    """Folds [epochs, minibatches] diagnostics."""
    folded = {
        name: jnp.mean(x) if x.dtype == jnp.float32 else jnp.max(x) for name, x in info.items()
    }
    return UpdateInfo(
        **folded,
        learning_rate=learning_rate,
        first_ratio_not_one=info["ratio_not_one"][0, 0],
        first_ratio_ulp=info["ratio_ulp"][0, 0],
    )


def merge_rewards(scale: RewardScale, segment: Segment, discount: float) -> RewardScale:
    """Adds the segment's discounted returns G_t = discount G_{t-1} + r_t to the running statistics.

    Args:
      scale: statistics, and G of each environment at the end of the last segment.
      segment: rewards and endings; G starts again at 0 after either ending.
      discount: gamma.

    Returns:
      Statistics for the next iteration.
    """

    def forward(discounted_return, step):
        reward, ended = step
        now = discount * discounted_return + reward
        return jnp.where(ended, 0.0, now), now

    ended = segment.terminated | segment.truncated
    carried, returns = jax.lax.scan(
        forward,
        scale.discounted_return,
        (segment.reward.astype(jnp.float32), ended),
    )
    return RewardScale(normalize.merge(scale.stats, returns[..., None]), carried)
