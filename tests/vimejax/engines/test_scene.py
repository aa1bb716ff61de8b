"""Geometry and poses of a Brax task, held against MuJoCo's own kinematics."""

import jax
import mujoco
import numpy as np
import pytest

from vimejax import registry
from vimejax.engines import brax, scene


def test_the_solids_of_a_pendulum():
    rail, cart, pole = scene.geometry("brax/inverted_pendulum", backend="spring")
    assert [each.kind for each in (rail, cart, pole)] == ["capsule"] * 3
    assert [each.body for each in (rail, cart, pole)] == [0, 1, 2]
    assert rail.size[:2] == pytest.approx((0.02, 1.0))
    # The rail lies along x: a quarter turn takes its z there.
    assert np.abs(rail.rotation) == pytest.approx([np.sqrt(0.5), 0, np.sqrt(0.5), 0], abs=1e-6)
    assert all(len(each.color) == 4 and each.mesh is None for each in (rail, cart, pole))


@pytest.mark.parametrize("backend", ["generalized", pytest.param("mjx", marks=pytest.mark.slow)])
def test_poses_are_those_of_mujoco(backend):
    env = registry.make("brax/reacher", backend=backend, episode_length=5)
    state, _ = jax.jit(env.reset)(jax.random.key(3))
    shown = np.asarray(scene.poses(state.inner.inner))
    model = brax.build("reacher", backend, None, None).sys.mj_model
    data = mujoco.MjData(model)
    data.qpos[:] = np.asarray(state.inner.inner.pipeline_state.q)
    mujoco.mj_kinematics(model, data)
    np.testing.assert_allclose(shown[:, :3], data.xpos, atol=1e-5)
    turned = np.sign(np.sum(shown[:, 3:] * data.xquat, axis=1, keepdims=True))  # q and -q are one
    np.testing.assert_allclose(turned * shown[:, 3:], data.xquat, atol=1e-5)
