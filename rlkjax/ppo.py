"""Proximal policy optimisation: the clipped loss of one minibatch."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlkjax.config import PPOConfig
from rlkjax.formulas import clip, fork, maximum, minimum
from rlkjax.policy import Policy
from rlkjax.types import Array, Params, PolicyState

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
    to_score, to_spread = fork(outputs)
    log_ratio = policy.distribution.log_prob(to_score, batch.action) - batch.log_prob
    ratio = jnp.exp(log_ratio)
    advantage = batch.advantage
    if config.normalize_advantage:
        advantage = normalize_advantage(advantage)
    low, high = 1.0 - config.clip_epsilon, 1.0 + config.clip_epsilon
    surrogate = minimum(ratio * advantage, clip(ratio, low, high) * advantage)
    policy_loss = -jnp.mean(surrogate)
    error = jnp.square(value - batch.return_)
    if config.value_clip_epsilon is not None:
        step = clip(value - batch.value, -config.value_clip_epsilon, config.value_clip_epsilon)
        error = maximum(error, jnp.square(batch.value + step - batch.return_))
    value_loss = 0.5 * jnp.mean(error)
    entropy = jnp.mean(policy.distribution.entropy(to_spread))
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
