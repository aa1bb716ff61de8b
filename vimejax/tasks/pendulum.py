"""pendulum: swing a rod up with a motor too weak to lift it at once, and hold it there.

Source: equations, constants, order of update and reward of Gymnasium's Pendulum-v1 (a uniform rod:
thetaacc = 3 g / (2 l) sin theta + 3 u / (m l^2), theta = 0 upright). Departures: float32 in place
of float64; the action lies in [-1, 1] and is scaled by 2 N m; with more than one substep the reward
is that of the state before the first.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from vimejax.tasks.physics import check_clock, repeat
from vimejax.types import Array, Continuous, Environment, EnvSpec, Timestep, timestep

GRAVITY = 10.0  # m/s^2
MASS = 1.0  # kg
LENGTH = 1.0  # m
MAX_TORQUE = 2.0  # N m
MAX_SPEED = 8.0  # rad/s
SPEED_COST = 0.1
TORQUE_COST = 0.001
START_ANGLE = math.pi  # theta starts in [-pi, pi)
START_SPEED = 1.0  # thetadot starts in [-1, 1)
DT = 0.05  # s


class PendulumState(NamedTuple):
    """Angle [rad, 0 is upright, not wrapped] and speed [rad/s]."""

    theta: Array
    theta_dot: Array


def wrapped(theta: Array) -> Array:
    """The same angle in [-pi, pi): theta - 2 pi floor((theta + pi) / (2 pi)).

    Args:
      theta: [] float32, rad.

    Returns:
      [] float32, rad; `theta` itself, to the bit, where it already lies in the range.
    """
    turns = jnp.floor((theta + math.pi) / (2.0 * math.pi))
    return theta - 2.0 * math.pi * turns


def _observe(state: PendulumState) -> Array:
    return jnp.stack([jnp.cos(state.theta), jnp.sin(state.theta), state.theta_dot])


def make(*, dt: float = DT, substeps: int = 1) -> Environment:
    """The task as a pair of pure functions: reward = -(theta^2 + 0.1 thetadot^2 + 0.001 u^2).

    Args:
      dt: seconds of one semi-implicit Euler substep.
      substeps: substeps in one step.

    Returns:
      An environment with obs [3] float32 (cos theta, sin theta, thetadot) and action [1] float32
      in [-1, 1], of which torque u is 2 N m times the clipped value. It never ends by itself.

    Raises:
      SpecError: `dt` or `substeps` is out of range.
    """
    check_clock("pendulum", dt, substeps)
    pull, push = 3.0 * GRAVITY / (2.0 * LENGTH), 3.0 / (MASS * LENGTH**2)

    def reset(key: Array) -> tuple[PendulumState, Timestep]:
        unit = jax.random.uniform(key, (2,), jnp.float32, -1.0, 1.0)
        state = PendulumState(START_ANGLE * unit[0], START_SPEED * unit[1])
        return state, timestep(_observe(state))

    def step(state: PendulumState, action: Array, key: Array) -> tuple[PendulumState, Timestep]:
        del key  # nothing is drawn
        torque = MAX_TORQUE * jnp.clip(action[0], -1.0, 1.0)
        angle, speed = wrapped(state.theta), state.theta_dot
        cost = angle * angle + SPEED_COST * (speed * speed) + TORQUE_COST * (torque * torque)

        def substep(now: PendulumState) -> PendulumState:
            theta_acc = pull * jnp.sin(now.theta) + push * torque
            theta_dot = jnp.clip(now.theta_dot + theta_acc * dt, -MAX_SPEED, MAX_SPEED)
            return PendulumState(now.theta + theta_dot * dt, theta_dot)

        state = repeat(substep, state, substeps)
        return state, timestep(_observe(state), -cost)

    spec = EnvSpec("pendulum", obs_size=3, action=Continuous(1), dt=dt, substeps=substeps)
    return Environment(spec, reset, step)
