"""cartpole: one Euler step by hand."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vimejax.errors import SpecError
from vimejax.tasks import cartpole

KEY = jax.random.key(0)


def state_of(*numbers):
    return cartpole.CartpoleState(*(jnp.float32(number) for number in numbers))


@pytest.mark.parametrize(("action", "sign"), [(1, 1.0), (0, -1.0)])
def test_a_push_from_rest(action, sign):
    # sin = 0, cos = 1, F = 10, M = 1.1, m l = 0.05.
    # temp = 10 / 1.1 = 100/11; inertia = 0.5 (4/3 - 0.1/1.1) = 0.5 * 41/33 = 41/66
    # thetaacc = -(100/11)(66/41) = -600/41; xacc = 100/11 + 0.05 (600/41) / 1.1 = 400/41
    # one step of 0.02 s: x_dot = 8/41, theta_dot = -12/41; x and theta still 0. Left mirrors right.
    env = cartpole.make()
    state, ts = env.step(state_of(0, 0, 0, 0), jnp.int32(action), KEY)
    np.testing.assert_allclose(ts.obs, [0.0, sign * 8 / 41, 0.0, -sign * 12 / 41], rtol=1e-6)
    assert float(ts.reward) == 1.0
    assert not bool(ts.terminated)
    np.testing.assert_array_equal(jnp.stack(state), ts.obs)


def test_a_step_from_thirty_degrees():
    # sin = 1/2, cos = sqrt(3)/2, theta_dot = 2, F = -10.
    # temp = (-10 + 0.05 * 4 * 0.5) / 1.1 = -9
    # thetaacc = (4.9 + 9 * 0.8660254) / (0.5 (1.3333333 - 0.1 * 0.75 / 1.1))
    #          = 12.6942286 / 0.6325758 = 20.0675184
    # xacc = -9 - 0.05 * 20.0675184 * 0.8660254 / 1.1 = -9.7899495
    # x = 0.02 * 1; x_dot = 1 - 0.1957990; theta = 0.5235988 + 0.04; theta_dot = 2 + 0.4013504
    env = cartpole.make()
    _, ts = env.step(state_of(0, 1, math.pi / 6, 2), jnp.int32(0), KEY)
    np.testing.assert_allclose(ts.obs, [0.02, 0.8042010, 0.5635988, 2.4013504], rtol=1e-6)
    assert bool(ts.terminated)  # beyond 12 degrees
    assert float(ts.reward) == 1.0  # the last step counts too


@pytest.mark.parametrize(
    ("x", "theta", "ends"),
    [
        (2.39, 0.0, False),
        (2.41, 0.0, True),
        (-2.41, 0.0, True),
        (0.0, 0.209, False),
        (0.0, 0.21, True),
    ],
)
def test_the_limits(x, theta, ends):
    # 12 degrees are 0.20944 rad. From rest, position and angle do not change in the first step.
    _, ts = cartpole.make().step(state_of(x, 0, theta, 0), jnp.int32(1), KEY)
    assert bool(ts.terminated) is ends
    assert not bool(ts.truncated)


def test_substeps_are_steps_of_the_shorter_clock():
    twice = cartpole.make(dt=0.01, substeps=2)
    once = cartpole.make(dt=0.01)
    action = jnp.int32(1)
    state, _ = once.step(once.step(state_of(0, 0, 0.1, 0), action, KEY)[0], action, KEY)
    np.testing.assert_allclose(
        twice.step(state_of(0, 0, 0.1, 0), action, KEY)[1].obs, jnp.stack(state), rtol=1e-6
    )
    assert (twice.spec.dt, twice.spec.substeps) == (0.01, 2)


def test_starts_fill_their_range():
    obs = jax.vmap(lambda key: cartpole.make().reset(key)[1].obs)(jax.random.split(KEY, 1000))
    assert float(jnp.abs(obs).max()) <= 0.05
    # A uniform draw leaves the outer tenth of a range empty with probability 0.9^1000.
    assert float(obs.min()) < -0.045
    assert float(obs.max()) > 0.045


@pytest.mark.parametrize("dt", [0.0, -0.02, math.nan, math.inf, True, "0.02"])
def test_a_clock_that_cannot_run_is_refused(dt):
    with pytest.raises(SpecError, match=r"dt of task cartpole: got .*, want a finite number"):
        cartpole.make(dt=dt)


@pytest.mark.parametrize("substeps", [0, -1, 1.5, True])
def test_substeps_must_be_a_positive_integer(substeps):
    with pytest.raises(SpecError, match=r"substeps of task cartpole: got .*, want an integer"):
        cartpole.make(substeps=substeps)
