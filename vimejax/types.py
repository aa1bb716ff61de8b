"""An environment as a pair of pure functions, with its timestep and its specs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

Array = jax.Array
State = Any  # a tree of float32, int32, uint32, bool and typed-key arrays

InfoRule = Literal["sum", "last", "max"]


class Timestep(NamedTuple):
    """What one step shows. `reset` returns the same structure, so that both fit one scan.

    Attributes:
      obs: [O] float32. The observation to act on next; after an auto-reset, of the new episode.
      next_obs: [O] float32. The observation that the action led to, before any auto-reset.
      reward: [] float32, reward units of the task; 0 after `reset`.
      terminated: [] bool. The task ended the episode: its value is zero from here.
      truncated: [] bool. A time limit cut the episode: its value goes on.
      info: name -> [] float32 or int32, as declared by `EnvSpec.info`.
    """

    obs: Array
    next_obs: Array
    reward: Array
    terminated: Array
    truncated: Array
    info: dict[str, Array]


@dataclass(frozen=True)
class Discrete:
    """An action that is one of `n` choices: [] int32 in [0, n)."""

    n: int


@dataclass(frozen=True)
class Continuous:
    """An action of `size` numbers: [size] float32 in [-1, 1]; the task scales them to its units."""

    size: int


@dataclass(frozen=True)
class Info:
    """One entry of `Timestep.info`, and how action repeat folds it: sum, last or max of a group."""

    name: str
    dtype: Literal["float32", "int32"] = "float32"
    rule: InfoRule = "last"


@dataclass(frozen=True)
class EnvSpec:
    """What an environment promises about its arrays and its clock.

    Attributes:
      name: the registry's name of the task.
      obs_size: O, the length of the observation.
      action: the kind of action.
      info: the entries of `Timestep.info`, sorted by name.
      dt: seconds of simulated time that one physics substep advances.
      substeps: physics substeps in one step.
      costly_reset: a reset costs more than a step, so that only ended episodes should be reset.
      backend: the engine's backend; empty for a native task.
    """

    name: str
    obs_size: int
    action: Discrete | Continuous
    info: tuple[Info, ...] = ()
    dt: float = 1.0
    substeps: int = 1
    costly_reset: bool = False
    backend: str = ""


ResetFn = Callable[[Array], tuple[State, Timestep]]
StepFn = Callable[[State, Array, Array], tuple[State, Timestep]]


@dataclass(frozen=True)
class Environment:
    """One episode of a task, as two pure functions.

    Attributes:
      spec: the promised shapes and the clock.
      reset: key -> (state, timestep). Consumes the key.
      step: (state, action, key) -> (state, timestep). Consumes the key; all draws precede physics.
    """

    spec: EnvSpec
    reset: ResetFn
    step: StepFn


def timestep(
    obs: Array,
    reward: Array | float = 0.0,
    terminated: Array | bool = False,
    truncated: Array | bool = False,
    info: dict[str, Array] | None = None,
) -> Timestep:
    """Builds the timestep of a single episode, in which `next_obs` and `obs` are one array.

    Args:
      obs: [O] float32.
      reward: [] float32, reward units.
      terminated: [] bool.
      truncated: [] bool.
      info: name -> [] float32 or int32.

    Returns:
      A `Timestep` whose leaves are strongly typed arrays, so that `scan` never retraces.
    """
    return Timestep(
        obs=obs,
        next_obs=obs,
        reward=jnp.asarray(reward, jnp.float32),
        terminated=jnp.asarray(terminated, jnp.bool_),
        truncated=jnp.asarray(truncated, jnp.bool_),
        info={} if info is None else info,
    )
