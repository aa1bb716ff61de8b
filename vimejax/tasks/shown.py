"""What the native tasks look like: a few solids, and where they are in a state."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from vimejax.geometry import Geom
from vimejax.tasks import cartpole, mountain_car, noisy_point, pendulum, sparse_grid
from vimejax.types import Array, State

UNIT = (1.0, 0.0, 0.0, 0.0)
ALONG_X = (math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0)  # takes z to x
GREY, CLAY, SAND = (0.60, 0.62, 0.64, 1.0), (0.80, 0.47, 0.31, 1.0), (0.87, 0.68, 0.47, 1.0)
GREEN = (0.44, 0.62, 0.47, 1.0)
HILL_PARTS = 30


class Shown(NamedTuple):
    """How a task is shown.

    Attributes:
      geoms: its solids.
      poses: state -> [B, 7] float32: position (metres) and unit quaternion (w, x, y, z) of each
        body in the world; row 0 is the world itself.
    """

    geoms: tuple[Geom, ...]
    poses: Callable[[State], Array]


def _pose(x: Array, y: Array, z: Array, angle: Array) -> Array:
    """A place, and a turn about y that takes z towards x; [7] float32."""
    zero = jnp.zeros((), jnp.float32)
    half = angle * jnp.float32(0.5)
    return jnp.stack([x, y, z, jnp.cos(half), zero, jnp.sin(half), zero])


def _world_and(*bodies: Array) -> Array:
    return jnp.stack([jnp.asarray([0, 0, 0, 1, 0, 0, 0], jnp.float32), *bodies])


def _floor(height: float) -> Geom:
    return Geom("plane", 0, (0.0, 0.0, height), UNIT, (0.0, 0.0, 1.0), GREY)


def _cartpole() -> Shown:
    length = 2 * cartpole.HALF_LENGTH
    geoms = (
        _floor(-0.2),
        Geom("capsule", 0, (0, 0, 0), ALONG_X, (0.02, cartpole.X_LIMIT), GREY),
        Geom("box", 1, (0, 0, 0), UNIT, (0.2, 0.12, 0.1), CLAY),
        Geom("capsule", 2, (0, 0, length / 2), UNIT, (0.035, length / 2), SAND),
    )

    def poses(state: cartpole.CartpoleState) -> Array:
        zero = jnp.zeros((), jnp.float32)
        cart = _pose(state.x, zero, zero, zero)
        return _world_and(cart, _pose(state.x, zero, jnp.float32(0.1), state.theta))

    return Shown(geoms, poses)


def _pendulum() -> Shown:
    geoms = (
        _floor(-1.25),
        Geom("sphere", 0, (0, 0, 0), UNIT, (0.07, 0, 0), GREY),
        Geom("capsule", 1, (0, 0, pendulum.LENGTH / 2), UNIT, (0.05, pendulum.LENGTH / 2), CLAY),
    )

    def poses(state: pendulum.PendulumState) -> Array:
        zero = jnp.zeros((), jnp.float32)
        return _world_and(_pose(zero, zero, zero, -state.theta))

    return Shown(geoms, poses)


def _height(position: float) -> float:
    """Height of the hill, of which `mountain_car.SLOPE` cos(3 position) is the pull."""
    return 0.45 * math.sin(3 * position)


def _mountain_car() -> Shown:
    low, high = mountain_car.MIN_POSITION, mountain_car.MAX_POSITION
    parts = []
    for k in range(HILL_PARTS):
        a, b = (low + (high - low) * each / HILL_PARTS for each in (k, k + 1))
        x, z = b - a, _height(b) - _height(a)
        half = math.atan2(x, z) / 2
        middle = ((a + b) / 2, 0.0, (_height(a) + _height(b)) / 2)
        turn = (math.cos(half), 0.0, math.sin(half), 0.0)
        parts.append(Geom("capsule", 0, middle, turn, (0.02, math.hypot(x, z) / 2), GREY))
    goal = mountain_car.GOAL_POSITION
    flag = Geom("capsule", 0, (goal, 0, _height(goal) + 0.15), UNIT, (0.012, 0.15), GREEN)
    car = Geom("box", 1, (0, 0, 0.06), UNIT, (0.07, 0.04, 0.03), CLAY)

    def poses(state: mountain_car.MountainCarState) -> Array:
        zero, three = jnp.zeros((), jnp.float32), jnp.float32(3)
        height = jnp.float32(0.45) * jnp.sin(three * state.position)
        slope = jnp.arctan(jnp.float32(1.35) * jnp.cos(three * state.position))
        return _world_and(_pose(state.position, zero, height, -slope))

    return Shown((_floor(-0.6), *parts, flag, car), poses)


def _noisy_point() -> Shown:
    wall = noisy_point.WALL
    sides = [(wall, 0.0, 0.03, wall), (-wall, 0.0, 0.03, wall)]
    sides += [(y, x, length, half) for x, y, half, length in sides]
    walls = [
        Geom("box", 0, (x, y, 0.04), UNIT, (half_x, half_y, 0.04), GREY)
        for x, y, half_x, half_y in sides
    ]
    target = Geom("cylinder", 0, (0, 0, 0.01), UNIT, (0.15, 0.01), GREEN)
    point = Geom("sphere", 1, (0, 0, 0.1), UNIT, (0.1, 0, 0), CLAY)

    def poses(state: noisy_point.PointState) -> Array:
        zero = jnp.zeros((), jnp.float32)
        return _world_and(_pose(state.position[0], state.position[1], zero, zero))

    return Shown((_floor(0.0), *walls, target, point), poses)


def _sparse_grid() -> Shown:
    size = sparse_grid.SIZE
    tiles = [
        Geom("box", 0, (column, -row, 0), UNIT, (0.46, 0.46, 0.04), SAND if last else GREY)
        for row in range(size)
        for column in range(size)
        for last in [row == column == size - 1]
    ]
    walker = Geom("sphere", 1, (0, 0, 0.3), UNIT, (0.26, 0, 0), CLAY)

    def poses(state: sparse_grid.GridState) -> Array:
        zero = jnp.zeros((), jnp.float32)
        x, y = (each.astype(jnp.float32) for each in (state.column, -state.row))
        return _world_and(_pose(x, y, zero, zero))

    return Shown((*tiles, walker), poses)


TASKS: dict[str, Callable[[], Shown]] = {
    "cartpole": _cartpole,
    "mountain_car_continuous": _mountain_car,
    "noisy_point": _noisy_point,
    "pendulum": _pendulum,
    "sparse_grid": _sparse_grid,
}
