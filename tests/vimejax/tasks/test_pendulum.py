"""pendulum: one step by hand, the angle's range, and the limits."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vimejax.tasks import pendulum

KEY = jax.random.key(0)


def step_from(theta, speed, action, **clock):
    state = pendulum.PendulumState(jnp.float32(theta), jnp.float32(speed))
    return pendulum.make(**clock).step(state, jnp.asarray([action], jnp.float32), KEY)


def test_a_step_from_the_side():
    # theta = pi/2, speed 1, action 0.5: torque 1.
    # reward = -(2.4674011 + 0.1 * 1 + 0.001 * 1) = -2.5684011
    # thetaacc = 15 * 1 + 3 * 1 = 18; speed = 1 + 18 * 0.05 = 1.9
    # theta = pi/2 + 1.9 * 0.05: cos = -sin 0.095 = -0.0948572, sin = cos 0.095 = 0.9954909
    _, ts = step_from(math.pi / 2, 1.0, 0.5)
    np.testing.assert_allclose(ts.reward, -2.5684011, rtol=1e-6)
    np.testing.assert_allclose(ts.obs, [-0.0948572, 0.9954909, 1.9], rtol=2e-6)
    assert not bool(ts.terminated)
    assert not bool(ts.truncated)


def test_upright_and_still_costs_nothing_and_stays():
    state, ts = step_from(0.0, 0.0, 0.0)
    assert float(ts.reward) == 0.0
    assert ts.obs.tolist() == [1.0, 0.0, 0.0]
    assert float(state.theta) == 0.0


def test_torque_is_clipped():
    # Action 7 is as good as action 1: torque 2, speed 3 * 2 * 0.05 = 0.3, cost 0.001 * 4.
    _, far = step_from(0.0, 0.0, 7.0)
    _, full = step_from(0.0, 0.0, 1.0)
    np.testing.assert_array_equal(far.obs, full.obs)
    np.testing.assert_allclose(full.obs[2], 0.3, rtol=1e-6)
    np.testing.assert_allclose(far.reward, -0.004, rtol=1e-6)


def test_speed_is_limited():
    # From 7.9 at the side: 7.9 + 15 * 0.05 = 8.65, limited to 8.
    assert float(step_from(math.pi / 2, 7.9, 0.0)[0].theta_dot) == 8.0
    assert float(step_from(-math.pi / 2, -7.9, 0.0)[0].theta_dot) == -8.0


@pytest.mark.parametrize(
    ("theta", "want"),
    [(0.5, 0.5), (-3.0, -3.0), (3.0, 3.0), (4.0, 4.0 - 2 * math.pi), (-4.0, 2 * math.pi - 4.0),
     (1.0 + 4 * math.pi, 1.0), (-1.0 - 4 * math.pi, -1.0)],
)  # fmt: skip
def test_angle_wraps_into_one_turn(theta, want):
    np.testing.assert_allclose(pendulum.wrapped(jnp.float32(theta)), want, rtol=2e-6)


def test_an_angle_in_range_keeps_its_bits():
    theta = jnp.linspace(-3.14, 3.14, 1001, dtype=jnp.float32)
    np.testing.assert_array_equal(pendulum.wrapped(theta), theta)


def test_half_steps_twice():
    # Same state as above with dt = 0.025: speed 1 + 18 * 0.025 = 1.45, theta 1.6070463,
    # sin 0.9993430; speed 1.45 + (15 * 0.9993430 + 3) * 0.025 = 1.8997536
    _, ts = step_from(math.pi / 2, 1.0, 0.5, dt=0.025, substeps=2)
    np.testing.assert_allclose(ts.obs[2], 1.8997536, rtol=1e-6)
    np.testing.assert_allclose(ts.reward, -2.5684011, rtol=1e-6)  # of the state before the step
