"""noisy_point: the push is drawn before the physics, from the step's key alone."""

import jax
import jax.numpy as jnp
import numpy as np

from vimejax.tasks import noisy_point

KEY = jax.random.key(3)


def step_from(position, velocity, action, key=KEY, **clock):
    state = noisy_point.PointState(*(jnp.asarray(v, jnp.float32) for v in (position, velocity)))
    return noisy_point.make(**clock).step(state, jnp.asarray(action, jnp.float32), key)


def test_the_motor_adds_to_the_push():
    # dt * motor = 0.05 * 6 = 0.3 m/s between action 1 and action 0, whatever was drawn.
    idle, _ = step_from([0, 0], [0, 0], [0, 0])
    driven, _ = step_from([0, 0], [0, 0], [1, -0.5])
    np.testing.assert_allclose(driven.velocity - idle.velocity, [0.3, -0.15], rtol=1e-5)


def test_position_follows_the_new_speed_and_reward_the_new_position():
    state, ts = step_from([0.5, -1.0], [2.0, 0.0], [0, 0])
    move = np.asarray(state.position) - np.asarray([0.5, -1.0], np.float32)
    np.testing.assert_allclose(move, 0.05 * np.asarray(state.velocity), rtol=1e-4)
    x, y = (float(v) for v in state.position)
    np.testing.assert_allclose(ts.reward, -(x * x + y * y), rtol=1e-6)
    np.testing.assert_array_equal(ts.obs, jnp.concatenate(state))


def test_the_push_does_not_depend_on_the_state():
    near, _ = step_from([0, 0], [0, 0], [0, 0])
    far, _ = step_from([1, 1], [1, 1], [0, 0])
    np.testing.assert_allclose(far.velocity - 1.0, near.velocity, rtol=1e-4, atol=1e-6)


def test_the_push_depends_on_the_key_and_stays_in_its_range():
    idle = jax.vmap(lambda key: step_from([0, 0], [0, 0], [0, 0], key)[0].velocity)
    velocity = np.asarray(idle(jax.random.split(KEY, 1000)))
    # |push| < 3: speeds within 0.05 * 3 = 0.15; an outer tenth stays empty with p = 0.9^1000.
    assert np.abs(velocity).max() <= 0.15 + 1e-7
    assert velocity.min() < -0.135
    assert velocity.max() > 0.135


def test_one_push_serves_all_substeps():
    # Speed after one step of 0.05 equals that after two substeps of 0.025 under the same push.
    once, _ = step_from([0, 0], [0, 0], [0.5, 0.5])
    twice, _ = step_from([0, 0], [0, 0], [0.5, 0.5], dt=0.025, substeps=2)
    np.testing.assert_allclose(twice.velocity, once.velocity, rtol=1e-6)


def test_a_wall_stops_the_point():
    state, ts = step_from([1.99, 0.0], [5.0, 0.0], [0, 0])
    assert float(state.position[0]) == 2.0
    assert float(state.velocity[0]) == 0.0
    assert not bool(ts.terminated)
