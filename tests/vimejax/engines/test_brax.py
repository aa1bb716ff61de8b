"""Brax through the world's own words. One light task here; every pair is in docs/engines.md."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vimejax import keys, registry, wrap
from vimejax.engines import brax
from vimejax.errors import EngineError, SpecError

TASK, BACKEND = "brax/inverted_pendulum", "spring"


def environments(n):
    run = keys.run_key(0, keys.Stream.TRAIN)
    return jax.vmap(lambda i: keys.environment_key(run, i))(jnp.arange(n, dtype=jnp.int32))


def signature(tree):
    return [(leaf.shape, str(leaf.dtype), leaf.weak_type) for leaf in jax.tree.leaves(tree)]


@pytest.fixture(scope="module")
def env():
    return registry.make(TASK, backend=BACKEND, episode_length=3)


@pytest.fixture(scope="module")
def rollout(env):
    """Seven steps of nine environments with a constant push; one compilation for all tests."""
    stream = wrap.stream(env, 9)
    actions = jnp.full((7, 9, 1), 0.5, jnp.float32)

    def run(environment_keys):
        state, first = stream.init(environment_keys)
        return first, state, jax.lax.scan(stream.step, state, actions)

    return jax.jit(run)(environments(9))


def test_spec(env):
    spec = env.spec
    assert (spec.name, spec.obs_size, spec.action.size) == (TASK, 4, 1)
    assert (spec.dt, spec.substeps) == (0.005, 4)  # Brax's own for this backend
    assert spec.costly_reset


def test_state_keeps_its_types_from_start_to_step(rollout):
    _, state, (after, ts) = rollout
    assert jax.tree.structure(state) == jax.tree.structure(after)
    leaves = [x for x in jax.tree.leaves(after) if not jnp.issubdtype(x.dtype, jax.dtypes.prng_key)]
    assert {str(leaf.dtype) for leaf in leaves} <= {"float32", "int32", "uint32", "bool"}
    assert ts.terminated.dtype == jnp.bool_
    assert not any(leaf.weak_type for leaf in leaves)


def test_the_limit_truncates_every_third_step_and_restarts(rollout):
    first, _, (after, ts) = rollout
    ends = [False, False, True, False, False, True, False]
    assert ts.truncated.all(axis=1).tolist() == ends
    assert not ts.terminated.any()
    assert after.episode.tolist() == [2] * 9
    starts = np.concatenate([first.obs, ts.obs[2], ts.obs[5]])
    assert len({start.tobytes() for start in starts}) == 27  # nine environments, three episodes
    assert np.abs(starts).max() <= 0.01  # Brax starts every component within 0.01
    assert np.abs(np.asarray(ts.next_obs[2])).max() > 0.01  # the push shows in the final one


def test_reward_is_one_a_step_and_all_is_finite(rollout):
    _, _, (_, ts) = rollout
    assert (np.asarray(ts.reward) == 1.0).all()
    assert not ts.info["nonfinite"].any()


def test_the_clock_of_the_config_reaches_the_physics():
    env = brax.make("inverted_pendulum", backend=BACKEND, dt=0.001, substeps=2)
    assert (env.spec.dt, env.spec.substeps) == (0.001, 2)
    start, _ = jax.jit(env.reset)(jax.random.key(0))
    state, _ = jax.jit(env.step)(start, jnp.ones((1,), jnp.float32), jax.random.key(1))
    moved = np.abs(np.asarray(state.pipeline_state.q - start.pipeline_state.q))
    # Two substeps of 1 ms: no part moves further than 2 ms at its fastest speed.
    fastest = max(np.abs(s.pipeline_state.qd).max() for s in (start, state))
    assert 0.0 < moved.max() <= 0.0021 * fastest


def test_a_task_that_brax_has_not_is_refused():
    with pytest.raises(EngineError, match="task of engine brax: got 'spider', want one of ant"):
        brax.make("spider")


def test_a_clock_that_cannot_run_is_refused():
    with pytest.raises(SpecError, match="dt of task brax/ant: got 0, want a finite number"):
        brax.make("ant", dt=0)


def test_wide_types_are_refused():
    jax.config.update("jax_enable_x64", True)
    try:
        with pytest.raises(EngineError, match="engine brax: got jax_enable_x64 on, want it off"):
            brax.make("ant")
    finally:
        jax.config.update("jax_enable_x64", False)


def test_making_a_task_says_nothing(python):
    code = (
        "import warnings; warnings.simplefilter('error')\n"
        "from vimejax import registry\n"
        f"registry.make('{TASK}', backend='{BACKEND}', episode_length=3)\n"
    )
    result = python(code)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("task", sorted(brax.TASKS))
def test_every_task_steps_under_its_cheapest_backend(task):
    backend = "spring" if "spring" in brax.TASKS[task] else "generalized"
    env = registry.make(f"brax/{task}", backend=backend, episode_length=10)
    state, first = jax.jit(env.reset)(jax.random.key(0))
    action = jnp.full((env.spec.action.size,), 0.1, jnp.float32)
    after, ts = jax.jit(env.step)(state, action, jax.random.key(1))
    assert signature((state, first)) == signature((after, ts))
    assert int(ts.info["nonfinite"]) == 0
    assert ts.obs.shape == (env.spec.obs_size,)
    assert ts.obs.tobytes() != first.obs.tobytes()


@pytest.mark.slow
def test_starts_do_not_depend_on_the_number_of_environments():
    env = registry.make("brax/ant", backend="spring", episode_length=10)
    few, many = (jax.jit(wrap.stream(env, n).init)(environments(n))[1].obs for n in (3, 50))
    assert np.asarray(many[:3]).tobytes() == np.asarray(few).tobytes()
