"""noisy_point: hold a point mass at the origin of a walled square while random pushes disturb it.

Written for this package, as the standard case with fresh randomness at every step. Double
integrator with drawn acceleration: v' = v + dt (6 action + push), p' = p + dt v', with push uniform
in [-3, 3) per axis: of half the motor's strength. Uniform bits, unlike a normal draw, need no
elementary function, so that the disturbance has the same bits on every device.

Scale: over 200 steps the mean return is -616 with no action, -688 with random ones and -3.0 under
the controller 20 (0 - p) - 4 v; a mean return of -10 or better counts as solved.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from vimejax.tasks.physics import check_clock, repeat
from vimejax.types import Array, Continuous, Environment, EnvSpec, Timestep, timestep

MOTOR = 6.0  # m/s^2 at full action
PUSH = 3.0  # m/s^2, largest disturbance of an axis
WALL = 2.0  # m, |position| of an axis; a wall takes the speed away
START_RANGE = 1.0  # m
DT = 0.05  # s


class PointState(NamedTuple):
    """Position [2] float32 in m, and velocity [2] float32 in m/s."""

    position: Array
    velocity: Array


def _observe(state: PointState) -> Array:
    return jnp.concatenate([state.position, state.velocity])


def make(*, dt: float = DT, substeps: int = 1) -> Environment:
    """The task as a pair of pure functions: reward = -(x^2 + y^2) after the step.

    Args:
      dt: seconds of one semi-implicit Euler substep.
      substeps: substeps in one step; the push is drawn once a step, before the first.

    Returns:
      An environment with obs [4] float32 (x, y, x speed, y speed) and action [2] float32 in
      [-1, 1]. It never ends by itself.

    Raises:
      SpecError: `dt` or `substeps` is out of range.
    """
    check_clock("noisy_point", dt, substeps)

    def reset(key: Array) -> tuple[PointState, Timestep]:
        position = jax.random.uniform(key, (2,), jnp.float32, -START_RANGE, START_RANGE)
        state = PointState(position, jnp.zeros((2,), jnp.float32))
        return state, timestep(_observe(state))

    def step(state: PointState, action: Array, key: Array) -> tuple[PointState, Timestep]:
        push = jax.random.uniform(key, (2,), jnp.float32, -PUSH, PUSH)
        acceleration = MOTOR * jnp.clip(action, -1.0, 1.0) + push

        def substep(now: PointState) -> PointState:
            velocity = now.velocity + dt * acceleration
            position = now.position + dt * velocity
            at_wall = jnp.abs(position) >= WALL
            return PointState(
                jnp.clip(position, -WALL, WALL), jnp.where(at_wall, jnp.float32(0.0), velocity)
            )

        state = repeat(substep, state, substeps)
        x, y = state.position[0], state.position[1]
        return state, timestep(_observe(state), -(x * x + y * y))

    spec = EnvSpec("noisy_point", obs_size=4, action=Continuous(2), dt=dt, substeps=substeps)
    return Environment(spec, reset, step)
