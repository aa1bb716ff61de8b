"""cartpole: balance a pole on a cart that is pushed left or right.

Source: Barto, Sutton and Anderson (1983), "Neuronlike adaptive elements that can solve difficult
learning control problems", IEEE Trans. SMC 13(5), appendix; constants, explicit Euler order and
limits as in Gymnasium's CartPole-v1 (frictionless). Departures: float32 in place of float64; the
limits are tested once a step, after the last substep.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from vimejax.tasks.physics import check_clock, repeat
from vimejax.types import Array, Discrete, Environment, EnvSpec, Timestep, timestep

GRAVITY = 9.8  # m/s^2
CART_MASS = 1.0  # kg
POLE_MASS = 0.1  # kg
TOTAL_MASS = CART_MASS + POLE_MASS
HALF_LENGTH = 0.5  # m, from the hinge to the pole's centre of mass
FORCE = 10.0  # N
X_LIMIT = 2.4  # m
THETA_LIMIT = 12.0 * 2.0 * math.pi / 360.0  # rad
START_RANGE = 0.05  # every component starts in [-0.05, 0.05)
DT = 0.02  # s


class CartpoleState(NamedTuple):
    """Cart position [m], cart speed [m/s], pole angle [rad, 0 is upright], pole speed [rad/s]."""

    x: Array
    x_dot: Array
    theta: Array
    theta_dot: Array


def accelerations(state: CartpoleState, force: Array) -> tuple[Array, Array]:
    """Accelerations of cart and pole.

    temp = (F + m l thetadot^2 sin theta) / M
    thetaacc = (g sin theta - cos theta temp) / (l (4/3 - m cos^2 theta / M))
    xacc = temp - m l thetaacc cos theta / M

    Args:
      state: four [] float32.
      force: [] float32, N.

    Returns:
      xacc [] float32 in m/s^2, thetaacc [] float32 in rad/s^2.
    """
    sin, cos = jnp.sin(state.theta), jnp.cos(state.theta)
    moment = POLE_MASS * HALF_LENGTH
    temp = (force + moment * state.theta_dot * state.theta_dot * sin) / TOTAL_MASS
    inertia = HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * cos * cos / TOTAL_MASS)
    theta_acc = (GRAVITY * sin - cos * temp) / inertia
    return temp - moment * theta_acc * cos / TOTAL_MASS, theta_acc


def _observe(state: CartpoleState) -> Array:
    return jnp.stack(state)


def make(*, dt: float = DT, substeps: int = 1) -> Environment:
    """The task as a pair of pure functions; reward 1 for every step, the last one included.

    Args:
      dt: seconds of one Euler substep.
      substeps: Euler substeps in one step.

    Returns:
      An environment with obs [4] float32 (x, x_dot, theta, theta_dot) and two actions: 0 pushes
      left, 1 pushes right. It never truncates.

    Raises:
      SpecError: `dt` or `substeps` is out of range.
    """
    check_clock("cartpole", dt, substeps)

    def reset(key: Array) -> tuple[CartpoleState, Timestep]:
        start = jax.random.uniform(key, (4,), jnp.float32, -START_RANGE, START_RANGE)
        state = CartpoleState(*start)
        return state, timestep(_observe(state))

    def step(state: CartpoleState, action: Array, key: Array) -> tuple[CartpoleState, Timestep]:
        del key  # nothing is drawn
        force = jnp.where(action == 1, jnp.float32(FORCE), jnp.float32(-FORCE))

        def substep(now: CartpoleState) -> CartpoleState:
            x_acc, theta_acc = accelerations(now, force)
            return CartpoleState(
                x=now.x + dt * now.x_dot,
                x_dot=now.x_dot + dt * x_acc,
                theta=now.theta + dt * now.theta_dot,
                theta_dot=now.theta_dot + dt * theta_acc,
            )

        state = repeat(substep, state, substeps)
        terminated = (jnp.abs(state.x) > X_LIMIT) | (jnp.abs(state.theta) > THETA_LIMIT)
        return state, timestep(_observe(state), 1.0, terminated)

    spec = EnvSpec("cartpole", obs_size=4, action=Discrete(2), dt=dt, substeps=substeps)
    return Environment(spec, reset, step)
