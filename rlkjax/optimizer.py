"""Gradient steps: Adam after clipping, and a learning rate that is data, not program."""

import jax.numpy as jnp
import optax

from rlkjax.config import PPOConfig
from rlkjax.types import Array, LearningRate


def make_optimizer(config: PPOConfig) -> optax.GradientTransformation:
    """Adam after clipping by the global norm; the caller applies the rate.

    Args:
      config: `max_grad_norm` (None: no clipping) and `adam_epsilon`.

    Returns:
      The transformation; it turns gradients into steps of unit rate.

    Source: Kingma and Ba, "Adam: a method for stochastic optimization" (2015), algorithm 1.
    """
    adam = optax.scale_by_adam(eps=config.adam_epsilon)
    if config.max_grad_norm is None:
        return adam
    return optax.chain(optax.clip_by_global_norm(config.max_grad_norm), adam)


def make_learning_rate(config: PPOConfig, iterations: int) -> LearningRate:
    """The schedule of a run as data.

    Args:
      config: `learning_rate`, and `learning_rate_schedule`: constant, or linear to 0.
      iterations: of the whole run.

    Returns:
      Rate of iteration 0, and its decrease per iteration.
    """
    slope = config.learning_rate / iterations if config.learning_rate_schedule == "linear" else 0.0
    return LearningRate(jnp.float32(config.learning_rate), jnp.float32(slope))


def rate(learning_rate: LearningRate, iteration: Array) -> Array:
    """initial - slope * iteration, never below 0.

    Args:
      learning_rate: the schedule.
      iteration: [] uint32.

    Returns:
      [] float32.
    """
    steps = iteration.astype(jnp.float32)
    return jnp.maximum(learning_rate.initial - learning_rate.slope * steps, 0.0)
