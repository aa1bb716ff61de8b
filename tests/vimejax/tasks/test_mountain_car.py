"""mountain_car_continuous: one step by hand, the wall and the goal."""

import jax
import jax.numpy as jnp
import numpy as np

from vimejax.tasks import mountain_car

KEY = jax.random.key(0)


def step_from(position, velocity, action):
    state = mountain_car.MountainCarState(jnp.float32(position), jnp.float32(velocity))
    return mountain_car.make().step(state, jnp.asarray([action], jnp.float32), KEY)[1]


def test_a_step_at_the_valley():
    # velocity = 0.5 * 0.0015 - 0.0025 cos(3 * -0.5) = 0.00075 - 0.0025 * 0.0707372 = 0.000573157
    # position = -0.5 + 0.000573157; reward = -0.1 * 0.25
    ts = step_from(-0.5, 0.0, 0.5)
    np.testing.assert_allclose(ts.obs, [-0.499426843, 0.000573157], rtol=1e-6)
    np.testing.assert_allclose(ts.reward, -0.025, rtol=1e-6)
    assert not bool(ts.terminated)


def test_the_goal_pays_once_and_terminates():
    # From 0.44 at 0.05: velocity = 0.05 + 0.0015 - 0.0025 cos 1.32 = 0.0515 - 0.0025 * 0.2481746
    #   = 0.0508796, position 0.4908796 >= 0.45. Reward 100 - 0.1.
    ts = step_from(0.44, 0.05, 1.0)
    np.testing.assert_allclose(ts.obs, [0.4908796, 0.0508796], rtol=1e-5)
    np.testing.assert_allclose(ts.reward, 99.9, rtol=1e-6)
    assert bool(ts.terminated)


def test_the_goal_must_be_met_going_forward():
    ts = step_from(0.5, -0.01, 0.0)
    assert float(ts.obs[0]) > 0.45
    assert not bool(ts.terminated)


def test_the_left_wall_stops_the_car():
    ts = step_from(-1.19, -0.06, 0.0)
    np.testing.assert_array_equal(ts.obs, np.asarray([-1.2, 0.0], np.float32))


def test_speed_and_effort_are_limited():
    # 0.07 + 0.0015 - 0.0025 cos(-3) = 0.0740 is limited to 0.07; action 9 is as good as 1.
    ts = step_from(-1.0, 0.07, 9.0)
    np.testing.assert_array_equal(ts.obs[1], np.float32(0.07))
    np.testing.assert_allclose(ts.reward, -0.1, rtol=1e-6)


def test_starts_fill_the_valley():
    obs = jax.vmap(lambda key: mountain_car.make().reset(key)[1].obs)(jax.random.split(KEY, 1000))
    # A uniform draw leaves an outer tenth empty with probability 0.9^1000.
    assert -0.6 <= float(obs[:, 0].min()) < -0.58
    assert -0.42 < float(obs[:, 0].max()) <= -0.4
    assert not obs[:, 1].any()
