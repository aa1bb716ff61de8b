"""The whole key schedule: every draw has one address, and no draw depends on another.

    run key          (seed, stream)
    environment key  (seed, stream, environment)
    episode key      (seed, stream, environment, episode)
    step key         (seed, stream, environment, episode, step, purpose)

Step 0 of an episode is its reset. Keys are typed threefry keys, whose bits are the same on every
backend, under every vmap and for every number of environments or devices.
"""

from enum import IntEnum

import jax
import jax.numpy as jnp

Array = jax.Array


class Stream(IntEnum):
    """What a run draws random numbers for. The numbers are part of the format: never renumber."""

    INIT = 0  # initial parameters
    TRAIN = 1  # the environments that training steps
    SHUFFLE = 2  # order of samples in an epoch
    EVALUATE = 3  # the environments that evaluation steps


class Purpose(IntEnum):
    """What one step of one environment draws random numbers for. Never renumber."""

    PHYSICS = 0  # reset and step of the environment
    ACTION = 1  # the policy's sample


def run_key(seed: int | Array, stream: Stream) -> Array:
    """Key of one stream of a run: fold_in(key(seed), stream).

    Args:
      seed: integer in [0, 2^32).
      stream: which stream.

    Returns:
      [] typed threefry key.
    """
    root = jax.random.key(jnp.asarray(seed, jnp.uint32), impl="threefry2x32")
    return jax.random.fold_in(root, int(stream))


def environment_key(run: Array, index: Array | int) -> Array:
    """Key of environment `index`: the same among 1, 8 or 4096 environments.

    Args:
      run: [] key from `run_key`.
      index: [] int32 or uint32, number of the environment in the whole run.

    Returns:
      [] typed key.
    """
    return jax.random.fold_in(run, index)


def episode_key(environment: Array, episode: Array | int) -> Array:
    """Key of one episode of one environment.

    Args:
      environment: [] key from `environment_key`.
      episode: [] int32, 0 for the first episode.

    Returns:
      [] typed key.
    """
    return jax.random.fold_in(environment, episode)


def step_key(episode: Array, step: Array | int, purpose: Purpose) -> Array:
    """Key for one purpose at one step of one episode; to be consumed once.

    Args:
      episode: [] key from `episode_key`.
      step: [] int32; 0 is the reset, 1 the first step.
      purpose: what is drawn.

    Returns:
      [] typed key.
    """
    return jax.random.fold_in(jax.random.fold_in(episode, step), int(purpose))


def substep_key(step: Array, index: Array | int) -> Array:
    """Key of one sub-step of a step that repeats its action; to be consumed once.

    Args:
      step: [] key from `step_key`.
      index: [] int32, 0 for the first sub-step.

    Returns:
      [] typed key.
    """
    return jax.random.fold_in(step, index)


def shuffle_key(run: Array, iteration: Array | int, epoch: Array | int) -> Array:
    """Key for the order of samples in one epoch of one iteration; to be consumed once.

    Args:
      run: [] key from `run_key(seed, Stream.SHUFFLE)`.
      iteration: [] uint32.
      epoch: [] uint32.

    Returns:
      [] typed key.
    """
    return jax.random.fold_in(jax.random.fold_in(run, iteration), epoch)
