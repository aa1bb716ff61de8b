"""What training sees of a reward: a fixed scale and, if that switch is on, a running one."""

import jax
import jax.numpy as jnp

from rlkjax import normalize
from rlkjax.config import RewardConfig
from rlkjax.types import Array, RewardScale, Segment


def init_scale(num_envs: int) -> RewardScale:
    """State of running normalisation before any reward.

    Args:
      num_envs: N.

    Returns:
      Statistics that scale by 1, and discounted returns of 0.
    """
    return RewardScale(normalize.init(1), jnp.zeros(num_envs, jnp.float32))


def scaled(config: RewardConfig, scale: RewardScale, reward: Array) -> Array:
    """reward * config.scale and, under running normalisation, / sqrt(variance + 1e-8).

    Args:
      config: the switches.
      scale: statistics, frozen within an iteration.
      reward: [T, N] float32 or float16, task reward units.

    Returns:
      [T, N] float32, scaled reward units.
    """
    reward = reward.astype(jnp.float32) * config.scale
    if config.normalize == "running":
        reward = reward * jax.lax.rsqrt(scale.stats.variance[0] + 1e-8)
    return reward


def merge(scale: RewardScale, segment: Segment, discount: float) -> RewardScale:
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
