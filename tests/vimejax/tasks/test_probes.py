"""The probe worlds: rewards and endings that a learner's tests rely on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vimejax.tasks import probes

KEYS = jax.random.split(jax.random.key(0), 1000)


def one_step(env, obs, action):
    _, ts = env.step(jnp.asarray([obs], jnp.float32), jnp.int32(action), KEYS[0])
    return float(ts.reward), bool(ts.terminated)


def test_constant_pays_one_and_ends():
    for action in (0, 1):
        assert one_step(probes.make_constant(), 0.0, action) == (1.0, True)


@pytest.mark.parametrize("obs", [-1.0, 1.0])
def test_obs_pays_what_was_seen(obs):
    for action in (0, 1):
        assert one_step(probes.make_obs(), obs, action) == (obs, True)


def test_delayed_pays_at_the_second_step():
    env = probes.make_delayed()
    state, first = env.reset(KEYS[0])
    state, second = env.step(state, jnp.int32(0), KEYS[0])
    _, third = env.step(state, jnp.int32(0), KEYS[0])
    shown = [
        (float(ts.obs[0]), float(ts.reward), bool(ts.terminated)) for ts in (first, second, third)
    ]
    assert shown == [(0.0, 0.0, False), (1.0, 0.0, False), (2.0, 1.0, True)]


def test_action_pays_for_one():
    assert one_step(probes.make_action(), 0.0, 1) == (1.0, True)
    assert one_step(probes.make_action(), 0.0, 0) == (-1.0, True)


@pytest.mark.parametrize(
    ("obs", "action", "reward"), [(1.0, 1, 1.0), (1.0, 0, -1.0), (-1.0, 0, 1.0), (-1.0, 1, -1.0)]
)
def test_both_pays_for_agreement(obs, action, reward):
    assert one_step(probes.make_both(), obs, action) == (reward, True)


@pytest.mark.parametrize("make", [probes.make_obs, probes.make_both])
def test_signs_are_drawn_evenly(make):
    obs = np.asarray(jax.vmap(lambda key: make().reset(key)[1].obs)(KEYS))[:, 0]
    assert set(obs.tolist()) == {-1.0, 1.0}
    assert abs(obs.sum()) < 150  # standard deviation of the sum is 31.6
