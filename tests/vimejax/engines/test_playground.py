"""MuJoCo Playground itself, where it is installed; test_playground_wrapper.py needs no package."""

import jax
import jax.numpy as jnp
import pytest

from vimejax import registry
from vimejax.errors import EngineError, SpecError, UnknownTaskError

pytest.importorskip("mujoco_playground", reason="MuJoCo Playground is not installed")


@pytest.mark.slow
def test_a_task_of_the_control_suite_steps():
    env = registry.make("playground/CartpoleBalance", episode_length=2)
    assert (env.spec.obs_size, env.spec.action.size, env.spec.dt) == (5, 1, 0.01)
    state, first = jax.jit(env.reset)(jax.random.key(0))
    step = jax.jit(env.step)
    state, second = step(state, jnp.zeros((1,), jnp.float32), jax.random.key(1))
    _, third = step(state, jnp.zeros((1,), jnp.float32), jax.random.key(2))
    assert jax.tree.structure(first) == jax.tree.structure(third)
    assert [bool(second.truncated), bool(third.truncated)] == [False, True]
    assert int(third.info["nonfinite"]) == 0


def test_what_it_has_not_is_refused():
    with pytest.raises(UnknownTaskError, match="got 'playground/Spider', want playground/ and one"):
        registry.make("playground/Spider", episode_length=2)
    with pytest.raises(SpecError, match="backend of playground/PointMass: got 'spring'"):
        registry.make("playground/PointMass", backend="spring", episode_length=2)


def test_nothing_is_fetched_during_a_run(monkeypatch, tmp_path):
    from mujoco_playground._src import mjx_env

    monkeypatch.setattr(mjx_env, "MENAGERIE_PATH", tmp_path / "none")
    with pytest.raises(EngineError, match="got no robot models"):
        registry.make("playground/Go1Getup", episode_length=2)
