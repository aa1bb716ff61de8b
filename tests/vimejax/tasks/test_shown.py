"""What native tasks look like: bodies where the state says, on the scenery that belongs to it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vimejax import registry, scenes
from vimejax.tasks import cartpole, mountain_car, noisy_point, pendulum, shown, sparse_grid


def f(*values):
    return [jnp.float32(value) for value in values]


def end_of(row, length):
    """Where a body's z axis points, from its place: the turn is about y, (cos, 0, sin, 0)."""
    x, y, z, w, a, b, c = np.asarray(row, np.float64)
    assert (y, a, c) == (0, 0, 0) and w * w + b * b == pytest.approx(1)
    return x + length * 2 * w * b, z + length * (w * w - b * b)


@pytest.mark.parametrize("name", shown.TASKS)
def test_every_task_starts_inside_its_scene(name):
    scene = scenes.make(name)
    env = registry.make(name, episode_length=5)
    state, _ = env.reset(jax.random.key(1))
    poses = jax.jit(scene.poses)(state)
    assert poses.dtype == jnp.float32 and poses.shape[1] == 7 and scene.whole
    assert poses[0].tolist() == [0, 0, 0, 1, 0, 0, 0]
    assert {geom.body for geom in scene.geoms} == set(range(len(poses)))
    np.testing.assert_allclose(np.linalg.norm(poses[:, 3:], axis=1), 1, rtol=1e-6)


def test_a_pole_leans_to_the_right_for_a_positive_angle():
    scene = shown.TASKS["cartpole"]()
    _, cart, pole = scene.poses(cartpole.CartpoleState(*f(1.5, 0, 0.2, 0)))
    assert cart[:3].tolist() == [1.5, 0, 0]
    assert end_of(pole, 1.0) == pytest.approx((1.5 + np.sin(0.2), 0.1 + np.cos(0.2)), abs=1e-6)


def test_a_pendulum_turns_against_the_clock():
    _, rod = shown.TASKS["pendulum"]().poses(pendulum.PendulumState(*f(np.pi / 2, 0)))
    assert end_of(rod, 1.0) == pytest.approx((-1, 0), abs=1e-6)


def test_the_car_stands_on_the_hill():
    scene = shown.TASKS["mountain_car_continuous"]()
    for place in (-1.2, -0.5, 0.0, 0.6):
        _, car = scene.poses(mountain_car.MountainCarState(*f(place, 0)))
        assert car[2] == pytest.approx(0.45 * np.sin(3 * place), abs=1e-6)
        # Its roof points along the normal of the hill: (-slope, 1) scaled to length 1.
        slope = 1.35 * np.cos(3 * place)
        normal = np.array([-slope, 1]) / np.hypot(slope, 1)
        x, z = end_of(car, 1.0)
        assert (x - car[0], z - car[2]) == pytest.approx(normal, abs=1e-6)
    hill = [geom for geom in scene.geoms if geom.kind == "capsule" and geom.color == shown.GREY]
    assert len(hill) == shown.HILL_PARTS
    for part in hill:
        assert part.position[2] == pytest.approx(0.45 * np.sin(3 * part.position[0]), abs=0.01)


def test_points_and_cells():
    state = noisy_point.PointState(jnp.asarray([0.5, -1.5], jnp.float32), jnp.zeros(2, jnp.float32))
    assert shown.TASKS["noisy_point"]().poses(state)[1, :3].tolist() == [0.5, -1.5, 0]
    grid = shown.TASKS["sparse_grid"]()
    walker = grid.poses(sparse_grid.GridState(jnp.int32(4), jnp.int32(3)))[1]
    assert walker[:3].tolist() == [3, -4, 0]
    goals = [geom.position for geom in grid.geoms if geom.color == shown.SAND]
    assert goals == [(4, -4, 0)]
