"""An episode is played as the evaluation plays it, and what cannot be shown is refused."""

from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlkjax import config as configs
from rlkjax import normalize
from rlkjax.errors import ConsistencyError, InputError
from rlkjax.evaluate import make_evaluate
from rlkjax.policy import make_policy
from rlkjax.render.trajectory import check, make_play
from rlkjax.types import PolicyState
from vimejax import scenes
from vimejax.engines.scene import poses
from vimejax.errors import SpecError
from vimejax.types import Continuous, Environment, EnvSpec, timestep
from vimejax.wrap import nan_guard, time_limit


class Links(NamedTuple):
    pos: jax.Array
    rot: jax.Array


class Pipeline(NamedTuple):
    x: Links


class Body(NamedTuple):
    """A body on a line, in the form of an engine's state."""

    pipeline_state: Pipeline


def body(place) -> Body:
    turn = jnp.asarray([[1.0, 0.0, 0.0, 0.0]], jnp.float32)
    return Body(Pipeline(Links(jnp.stack([place, 0 * place, 0 * place])[None], turn)))


def line_poses(state):
    return poses(scenes.innermost(state))


def line(end: float) -> Environment:
    """Each action moves the body; past `end` the task ends. It starts at a drawn place."""

    def reset(key):
        place = jax.random.uniform(key, (), jnp.float32)
        return body(place), timestep(place[None])

    def step(state, action, key):
        place = state.pipeline_state.x.pos[0, 0] + jnp.float32(0.25) + 0 * action[0]
        return body(place), timestep(place[None], place, place > end)

    spec = EnvSpec("line", 1, Continuous(1))
    return time_limit(nan_guard(Environment(spec, reset, step)), 12)


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    path = tmp_path_factory.mktemp("config") / "line.yaml"
    path.write_text(
        "task: pendulum\ntotal_steps: 48\nenv: {episode_length: 12}\n"
        "rollout: {num_envs: 2, unroll_length: 12}\nnetwork: {policy_hidden: [4], "
        "value_hidden: [4]}\nppo: {minibatches: 2}\nevaluation: {episodes: 3}\nseed: 5\n"
    )
    return configs.load_config(path)


@pytest.mark.parametrize("end", [1.9, 99.0])
def test_the_episode_is_the_first_of_the_evaluation(setting, end):
    env = line(end)
    policy = make_policy(setting, env.spec)
    state = PolicyState(policy.init(jax.random.key(1)), normalize.init(env.spec.obs_size))
    number = jnp.uint32(7)
    episodes = jax.jit(make_evaluate(setting, policy, env))(state, number)
    shown, reward, alive, terminated = map(
        np.asarray, jax.jit(make_play(setting, policy, env, poses=line_poses))(state, number)
    )
    steps = int(episodes.length[0])
    assert shown.shape == (13, 2, 7) and alive.sum() == steps and alive[:steps].all()
    assert reward[:steps].sum(dtype=np.float32) == pytest.approx(float(episodes.return_[0]))
    assert terminated[steps - 1] == (end == 1.9) and (steps == 12) == (end == 99.0)
    # Body 1 goes on by 0.25 at each step; body 0 is the world.
    np.testing.assert_allclose(np.diff(shown[: steps + 1, 1, 0]), 0.25, rtol=1e-6)
    assert (shown[:, 0] == [0, 0, 0, 1, 0, 0, 0]).all()
    assert 0 <= shown[0, 1, 0] < 1


def test_poses_of_both_engines():
    brax = line_poses(SimpleNamespace(inner=SimpleNamespace(inner=body(jnp.float32(0.5)))))
    assert brax.tolist() == [[0, 0, 0, 1, 0, 0, 0], [0.5, 0, 0, 1, 0, 0, 0]]
    data = SimpleNamespace(xpos=jnp.ones((2, 3)), xquat=jnp.zeros((2, 4)))
    assert poses(SimpleNamespace(data=data)).tolist() == [[1, 1, 1, 0, 0, 0, 0]] * 2
    with pytest.raises(SpecError, match="state to show: got SimpleNamespace, want one of an eng"):
        poses(SimpleNamespace())


@pytest.mark.parametrize("task", ["brax/ants", "brax", "playground/", "probe_obs", ""])
def test_a_task_without_bodies(task):
    with pytest.raises(SpecError, match=f"task to show: got '{task}', want a task with bodies"):
        scenes.make(task)


def test_what_cannot_be_shown():
    good = np.ones((5, 2, 7), np.float32)
    check(good)
    with pytest.raises(InputError, match=r"got shape \(4, 5, 2, 7\), want \(steps, bodies, 7\)"):
        check(np.ones((4, 5, 2, 7)))
    for empty in ((0, 2, 7), (1, 2, 7), (5, 0, 7)):
        with pytest.raises(InputError, match="want at least two moments and one body"):
            check(np.ones(empty))
    good[3, 1, 2] = np.nan
    with pytest.raises(ConsistencyError, match="not finite at moment 3, body 1, want finite"):
        check(good)
