"""mountain_car_continuous: a weak car must rock back and forth to leave a valley.

Source: Moore (1990), "Efficient memory-based learning for robot control", PhD thesis, Cambridge;
continuous form, constants, order of update and reward of Gymnasium's MountainCarContinuous-v0.
Departures: float32 in place of float64; the effort in the reward is that of the clipped action;
`dt` scales both updates, and is 1 in the original's own unit of time.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from vimejax.tasks.physics import check_clock, repeat
from vimejax.types import Array, Continuous, Environment, EnvSpec, Timestep, timestep

MIN_POSITION = -1.2
MAX_POSITION = 0.6
MAX_SPEED = 0.07
GOAL_POSITION = 0.45
GOAL_REWARD = 100.0
EFFORT_COST = 0.1
POWER = 0.0015
SLOPE = 0.0025  # pull of the hill: SLOPE cos(3 position)
START_LOW, START_HIGH = -0.6, -0.4
DT = 1.0  # the original's own unit of time


class MountainCarState(NamedTuple):
    """Position in [-1.2, 0.6] and velocity in [-0.07, 0.07], in the original's own units."""

    position: Array
    velocity: Array


def _observe(state: MountainCarState) -> Array:
    return jnp.stack(state)


def make(*, dt: float = DT, substeps: int = 1) -> Environment:
    """The task as a pair of pure functions: reward = 100 at the goal - 0.1 action^2.

    Args:
      dt: units of time of one semi-implicit Euler substep.
      substeps: substeps in one step.

    Returns:
      An environment with obs [2] float32 (position, velocity) and action [1] float32 in [-1, 1].
      It terminates at position 0.45 with a velocity of 0 or more.

    Raises:
      SpecError: `dt` or `substeps` is out of range.
    """
    check_clock("mountain_car_continuous", dt, substeps)

    def reset(key: Array) -> tuple[MountainCarState, Timestep]:
        position = jax.random.uniform(key, (), jnp.float32, START_LOW, START_HIGH)
        state = MountainCarState(position, jnp.zeros((), jnp.float32))
        return state, timestep(_observe(state))

    def step(
        state: MountainCarState, action: Array, key: Array
    ) -> tuple[MountainCarState, Timestep]:
        del key  # nothing is drawn
        effort = jnp.clip(action[0], -1.0, 1.0)

        def substep(now: MountainCarState) -> MountainCarState:
            pull = effort * POWER - SLOPE * jnp.cos(3.0 * now.position)
            velocity = jnp.clip(now.velocity + dt * pull, -MAX_SPEED, MAX_SPEED)
            position = jnp.clip(now.position + dt * velocity, MIN_POSITION, MAX_POSITION)
            at_wall = (position <= MIN_POSITION) & (velocity < 0.0)  # the left wall stops the car
            return MountainCarState(position, jnp.where(at_wall, jnp.float32(0.0), velocity))

        state = repeat(substep, state, substeps)
        terminated = (state.position >= GOAL_POSITION) & (state.velocity >= 0.0)
        bonus = jnp.where(terminated, jnp.float32(GOAL_REWARD), jnp.float32(0.0))
        return state, timestep(_observe(state), bonus - EFFORT_COST * (effort * effort), terminated)

    spec = EnvSpec(
        "mountain_car_continuous", obs_size=2, action=Continuous(1), dt=dt, substeps=substeps
    )
    return Environment(spec, reset, step)
