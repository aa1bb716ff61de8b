"""Generalised advantage estimation with the two endings of an episode kept apart."""

import jax
import jax.numpy as jnp

from rlkjax.types import Advantages, Array


def gae(
    reward: Array,
    value: Array,
    bootstrap_value: Array,
    *,
    terminated: Array,
    truncated: Array,
    discount: float,
    gae_lambda: float,
) -> Advantages:
    """Advantages by the backward recursion

      delta_t = r_t + discount * V(s'_t) [not terminated] - V(s_t)
      A_t = delta_t + discount * gae_lambda * A_{t+1} [neither terminated nor truncated]

    in which s'_t is the observation before any auto-reset: a termination zeroes the bootstrap, and
    either ending cuts the recursion. Masks select; they never multiply, so that no NaN leaks.

    Args:
      reward: [T, N] float32, scaled reward units.
      value: [T, N] float32, V(s_t).
      bootstrap_value: [T, N] float32, V(s'_t).
      terminated: [T, N] bool.
      truncated: [T, N] bool.
      discount: gamma in [0, 1].
      gae_lambda: lambda in [0, 1].

    Returns:
      Advantages, and returns = advantages + value. The recursion runs from T-1 down to 0.

    Source: Schulman et al., "High-dimensional continuous control using generalized advantage
      estimation" (2016), eq. 16; the split endings follow Pardo et al., "Time limits in
      reinforcement learning" (2018), section 3.
    """
    following = jnp.where(terminated, 0.0, bootstrap_value)
    delta = reward + discount * following - value
    decay = jnp.where(terminated | truncated, 0.0, discount * gae_lambda)

    def backward(advantage_tp1, step):
        delta_t, decay_t, ended_t = step
        tail = jnp.where(ended_t, 0.0, decay_t * advantage_tp1)
        advantage_t = delta_t + tail
        return advantage_t, advantage_t

    _, advantage = jax.lax.scan(
        backward,
        jnp.zeros_like(reward[0]),
        (delta, decay, terminated | truncated),
        reverse=True,
    )
    return Advantages(advantage, advantage + value)
