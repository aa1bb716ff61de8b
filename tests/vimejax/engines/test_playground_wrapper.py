"""What we make of MuJoCo Playground, on a stand-in for the package: its own physics is not here.

The stand-in has the names that vimejax/engines/playground.py uses, and no others. That the real
package still has them is for test_playground.py, which needs it.
"""

import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

from vimejax import registry
from vimejax.engines import playground
from vimejax.errors import EngineError, SpecError, UnknownTaskError


@struct.dataclass
class State:
    """The fields of the package's state that are read."""

    obs: Any
    reward: jax.Array
    done: jax.Array
    metrics: dict
    info: dict


class Engine:
    """A point that moves by the action: reward 2 x, done beyond 1."""

    action_size = 1

    def __init__(self, changes, named):
        self.sim_dt = changes["sim_dt"]
        self.n_substeps = round(changes["ctrl_dt"] / changes["sim_dt"])
        self.named = named

    def shown(self, x):
        return {"state": x, "privileged_state": jnp.zeros(5)} if self.named else x

    def reset(self, key):
        x = jnp.zeros(1)
        metrics = {"reward/run": jnp.float32(0), "height": jnp.float32(0)}
        return State(self.shown(x), jnp.float32(0), jnp.float32(0), metrics, {"last": x})

    def step(self, state, action):
        x = state.info["last"] + action
        state.info["last"] = x  # the package writes into the dictionaries it is given
        state.metrics["reward/run"] = 2 * x[0]
        done = jnp.where(x[0] > 1, 1.0, 0.0)
        return state.replace(obs=self.shown(x), reward=2 * x[0], done=done)


@pytest.fixture
def package(monkeypatch, tmp_path):
    """The stand-in; `asked` holds what was loaded with which changes."""
    asked = []

    def load(task, config_overrides):
        asked.append((task, config_overrides))
        return Engine(config_overrides, named=task == "Named")

    made = types.SimpleNamespace(
        ALL_ENVS=("Plain", "Named", "Robot"),
        dm_control_suite=types.SimpleNamespace(ALL_ENVS=("Plain", "Named")),
        mjx_env=types.SimpleNamespace(MENAGERIE_PATH=tmp_path / "menagerie"),
        get_default_config=lambda task: types.SimpleNamespace(sim_dt=0.01, ctrl_dt=0.02),
        load=load,
        asked=asked,
    )
    monkeypatch.setattr(playground, "_load", lambda: made)
    return made


@pytest.mark.parametrize("task", ["Plain", "Named"])
def test_a_step_clips_the_action_and_shows_what_the_package_shows(package, task):
    env = playground.make(task)
    state, first = jax.jit(env.reset)(jax.random.key(0))
    state, second = jax.jit(env.step)(state, jnp.float32([3.0]), jax.random.key(1))
    _, third = jax.jit(env.step)(state, jnp.float32([0.5]), jax.random.key(2))
    # 3 is cut to 1: x = 0 + 1, reward 2, not beyond 1; then x = 1.5, reward 3, beyond it.
    assert [t.obs.tolist() for t in (first, second, third)] == [[0.0], [1.0], [1.5]]
    assert [float(t.reward) for t in (second, third)] == [2.0, 3.0]
    assert [bool(t.terminated) for t in (first, second, third)] == [False, False, True]
    assert not any(bool(t.truncated) for t in (first, second, third))
    assert float(third.info["reward/run"]) == 3.0


def test_a_step_leaves_the_state_it_was_given_alone(package):
    env = playground.make("Plain")
    state, _ = env.reset(jax.random.key(0))
    env.step(state, jnp.float32([1.0]), jax.random.key(1))
    assert np.asarray(state.info["last"]).tolist() == [0.0]
    assert float(state.metrics["reward/run"]) == 0.0


def test_the_spec_says_what_the_package_says(package):
    spec = playground.make("Named").spec
    assert (spec.name, spec.obs_size, spec.action.size) == ("playground/Named", 1, 1)
    assert (spec.dt, spec.substeps) == (0.01, 2)  # 0.02 s in steps of 0.01 s
    assert {i.name: i.rule for i in spec.info} == {"reward/run": "sum", "height": "last"}
    assert package.asked == [("Named", {"impl": "jax", "sim_dt": 0.01, "ctrl_dt": 0.02})]


def test_the_clock_and_the_backend_reach_the_package(package):
    playground.make("Plain", backend="warp", dt=0.005, substeps=8)
    assert package.asked == [("Plain", {"impl": "warp", "sim_dt": 0.005, "ctrl_dt": 0.04})]


def test_the_registry_adds_time_limit_and_guard(package):
    env = registry.make("playground/Plain", episode_length=2)
    state, _ = env.reset(jax.random.key(0))
    seen = []
    for number in range(2):
        state, shown = env.step(state, jnp.float32([0.25]), jax.random.key(number))
        seen.append(bool(shown.truncated))
    assert seen == [False, True]


def test_what_it_has_not_is_refused_before_anything_is_loaded(package):
    with pytest.raises(UnknownTaskError, match="got 'playground/Spider', want playground/ and one"):
        playground.make("Spider")
    with pytest.raises(SpecError, match="backend of playground/Plain: got 'spring'"):
        playground.make("Plain", backend="spring")
    with pytest.raises(EngineError, match="playground/Robot: got no robot models"):
        playground.make("Robot")
    assert package.asked == []
    package.mjx_env.MENAGERIE_PATH.mkdir()
    assert playground.make("Robot").spec.name == "playground/Robot"
