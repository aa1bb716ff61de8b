"""Action repeat, time limit, NaN guard and stream: one rule each, with the value that shows it."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import vime_worlds as worlds

from vimejax import keys, wrap
from vimejax.errors import SpecError
from vimejax.tasks import noisy_point

KEY = jax.random.key(0)
ZERO = jnp.int32(0)


def run_groups(env, groups):
    """Timesteps of the first `groups` steps of one episode."""
    state, _ = env.reset(KEY)
    shown = []
    for _ in range(groups):
        state, ts = env.step(state, ZERO, KEY)
        shown.append(ts)
    return shown


# --- action repeat (metrics lost under action repeat) ---------------------------------------------


@pytest.mark.parametrize(("rule", "value"), [("sum", 1.0), ("max", 1.0), ("last", 0.0)])
def test_repeat_folds_a_metric_of_the_first_substep_by_its_rule(rule, value):
    # Sub-steps 1..4 show 1, 0, 0, 0: sum 1, max 1, last 0; the next group shows the same again.
    env = wrap.action_repeat(worlds.counting(rule), 4)
    first, second = run_groups(env, 2)
    assert float(first.info["first"]) == value
    assert float(second.info["first"]) == value
    assert float(first.reward) == 4.0
    assert int(first.info["age"]) == 4
    assert int(second.info["age"]) == 8


def test_repeat_stops_at_a_termination_inside_the_group():
    # Ends at sub-step 2 of 4 with reward 1 a sub-step: reward 1 + 1 = 2, two sub-steps, obs 2.
    (ts,) = run_groups(wrap.action_repeat(worlds.ends_at(2), 4), 1)
    assert float(ts.reward) == 2.0
    assert int(ts.info["repeats"]) == 2
    assert ts.obs.tolist() == [2.0]
    assert bool(ts.terminated)
    assert not bool(ts.truncated)


def test_repeat_ends_in_the_group_that_holds_the_ending():
    # Ends at sub-step 6: group 1 is whole (reward 4), group 2 stops after two (reward 2).
    first, second = run_groups(wrap.action_repeat(worlds.ends_at(6), 4), 2)
    assert [float(first.reward), float(second.reward)] == [4.0, 2.0]
    assert [bool(first.terminated), bool(second.terminated)] == [False, True]


def test_repeat_of_one_is_the_environment_itself():
    env = worlds.counting()
    assert wrap.action_repeat(env, 1) is env


def test_each_substep_of_a_group_draws_anew():
    # With no motor, speed changes by dt * push. One push for all four would give equal changes.
    env = noisy_point.make()
    state, _ = env.reset(jax.random.key(1))
    grouped = wrap.action_repeat(env, 4)
    after, _ = grouped.step(state, jnp.zeros((2,), jnp.float32), KEY)
    once, _ = env.step(state, jnp.zeros((2,), jnp.float32), jax.random.fold_in(KEY, 0))
    assert not np.allclose(after.velocity, 4.0 * once.velocity, rtol=1e-3)


# --- time limit -----------------------------------------------------------------------------------


def test_time_limit_truncates_at_its_step_only():
    shown = run_groups(wrap.time_limit(worlds.counting(), 3), 3)
    assert [bool(ts.truncated) for ts in shown] == [False, False, True]
    assert not any(bool(ts.terminated) for ts in shown)


def test_termination_wins_over_the_limit_in_the_same_step():
    shown = run_groups(wrap.time_limit(worlds.ends_at(3), 3), 3)
    assert [bool(ts.terminated) for ts in shown] == [False, False, True]
    assert not any(bool(ts.truncated) for ts in shown)


@pytest.mark.parametrize("value", [0, -1, 2.0, True])
def test_counts_must_be_positive_integers(value):
    with pytest.raises(
        SpecError, match=r"steps of time_limit: got .* want an integer of 1 or more"
    ):
        wrap.time_limit(worlds.counting(), value)
    with pytest.raises(SpecError, match=r"n of action_repeat: got .* want an integer of 1 or more"):
        wrap.action_repeat(worlds.counting(), value)
    with pytest.raises(SpecError, match=r"num_envs of stream: got .* want an integer of 1 or more"):
        wrap.stream(worlds.counting(), value)


def test_a_wrapper_is_refused_twice():
    with pytest.raises(SpecError, match="already has an entry 'nonfinite'"):
        wrap.nan_guard(wrap.nan_guard(worlds.counting()))


# --- NaN guard ------------------------------------------------------------------------------------


@functools.cache
def faulty_run(value, costly=False, num_envs=8, steps=10):
    """Eight accumulators; environment 3 gets `value` as its action at step 5."""
    env = wrap.time_limit(wrap.nan_guard(worlds.accumulator()), 50)
    env = dataclasses.replace(env, spec=dataclasses.replace(env.spec, costly_reset=costly))
    stream = wrap.stream(env, num_envs)
    action = np.full((steps, num_envs, 1), 0.25, np.float32)
    action[4, 3] = value

    def run(environments, action):
        state, _ = stream.init(environments)
        return jax.lax.scan(stream.step, state, action)

    return jax.jit(run)(worlds.environment_keys(range(num_envs)), jnp.asarray(action))


@pytest.mark.parametrize("costly", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_fault_ends_its_own_environment_and_touches_no_other(value, costly):
    state, ts = faulty_run(value, costly)
    _, clean = faulty_run(0.25, costly)
    others = [0, 1, 2, 4, 5, 6, 7]
    for faulty_leaf, clean_leaf in zip(jax.tree.leaves(ts), jax.tree.leaves(clean), strict=True):
        assert (
            np.asarray(faulty_leaf)[:, others].tobytes()
            == np.asarray(clean_leaf)[:, others].tobytes()
        )
    assert np.argwhere(np.asarray(ts.info["nonfinite"])).tolist() == [[4, 3]]
    assert np.argwhere(np.asarray(ts.terminated)).tolist() == [[4, 3]]
    assert state.episode.tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    for leaf in jax.tree.leaves((ts.obs, ts.next_obs, ts.reward)):
        assert np.isfinite(np.asarray(leaf)).all()


def test_a_fault_shows_the_observation_before_it_and_no_reward():
    _, ts = faulty_run(np.nan)
    assert float(ts.reward[4, 3]) == 0.0
    assert ts.next_obs[4, 3].tobytes() == ts.obs[3, 3].tobytes()
    assert ts.obs[4, 3].tobytes() != ts.obs[3, 3].tobytes()  # a new start


def test_a_fault_keeps_the_state_before_it():
    env = wrap.nan_guard(worlds.accumulator())
    state, _ = env.reset(KEY)
    after, ts = env.step(state, jnp.asarray([np.nan], jnp.float32), KEY)
    assert after.inner.total.tobytes() == state.inner.total.tobytes()
    assert int(after.inner.count) == 0
    assert int(ts.info["nonfinite"]) == 1


def test_a_fault_inside_a_group_ends_the_group_and_is_counted_once():
    env = wrap.action_repeat(wrap.nan_guard(worlds.accumulator()), 4)
    state, _ = env.reset(KEY)
    _, ts = env.step(state, jnp.asarray([np.inf], jnp.float32), KEY)
    assert int(ts.info["nonfinite"]) == 1
    assert int(ts.info["repeats"]) == 1
    assert bool(ts.terminated)


def test_a_nonfinite_start_shows_zeros_and_ends_at_its_first_step():
    sick = worlds.accumulator()

    def reset(key):
        state, ts = sick.reset(key)
        bad = state._replace(total=state.total * np.float32(np.nan))
        return bad, ts._replace(obs=bad.total, next_obs=bad.total)

    env = wrap.nan_guard(dataclasses.replace(sick, reset=reset))
    state, first = env.reset(KEY)
    assert first.obs.tolist() == [0.0]
    assert int(first.info["nonfinite"]) == 1
    _, ts = env.step(state, jnp.zeros((1,), jnp.float32), KEY)
    assert bool(ts.terminated)
    assert ts.obs.tolist() == [0.0]


# --- stream ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("costly", [False, True])
def test_the_final_observation_survives_a_truncation(costly):
    # Observation = step number, limit 4: at the 4th step the final observation is 4, the next is 0.
    env = wrap.time_limit(worlds.counting(), 4)
    env = dataclasses.replace(env, spec=dataclasses.replace(env.spec, costly_reset=costly))
    _, (ts, _, episode, step) = worlds.roll(wrap.stream(env, 1), worlds.environment_keys([0]), 6)
    assert ts.truncated[:, 0].tolist() == [False, False, False, True, False, False]
    assert not ts.terminated.any()
    assert ts.next_obs[:, 0, 0].tolist() == [1.0, 2.0, 3.0, 4.0, 1.0, 2.0]
    assert ts.obs[:, 0, 0].tolist() == [1.0, 2.0, 3.0, 0.0, 1.0, 2.0]
    assert episode[:, 0].tolist() == [0, 0, 0, 1, 1, 1]
    assert step[:, 0].tolist() == [1, 2, 3, 0, 1, 2]
    # A counter in info belongs to the episode: 4 at its end, 1 at the first step of the next.
    assert ts.info["age"][:, 0].tolist() == [1, 2, 3, 4, 1, 2]


def test_every_episode_has_a_new_start_that_its_key_alone_decides():
    env = wrap.time_limit(worlds.drawn_start(), 2)
    same_twice = jnp.concatenate([worlds.environment_keys([5]), worlds.environment_keys([5])])
    first, (ts, *_) = worlds.roll(wrap.stream(env, 2), same_twice, 6)
    starts = np.concatenate([first.obs[None], ts.obs[1:4:2]])[:, :, 0]
    assert len(set(starts[:, 0].tolist())) == 3
    assert starts[:, 0].tobytes() == starts[:, 1].tobytes()


def test_a_start_comes_from_its_address():
    env = wrap.time_limit(noisy_point.make(), 3)
    _, (ts, _, _, _) = worlds.roll(wrap.stream(env, 2), worlds.environment_keys([0, 1]), 3)
    episode = keys.episode_key(worlds.environment_keys([1])[0], 1)
    _, start = env.reset(keys.step_key(episode, 0, keys.Purpose.PHYSICS))
    assert ts.obs[2, 1].tobytes() == start.obs.tobytes()


def test_reset_and_step_have_one_structure():
    stream = wrap.stream(wrap.time_limit(wrap.nan_guard(worlds.counting()), 4), 3)
    before = stream.init(worlds.environment_keys(range(3)))
    after = stream.step(before[0], jnp.zeros((3,), jnp.int32))
    assert jax.tree.structure(before) == jax.tree.structure(after)
    assert jax.tree.map(lambda x: (x.shape, str(x.dtype)), before) == jax.tree.map(
        lambda x: (x.shape, str(x.dtype)), after
    )


def test_stream_wants_one_key_an_environment():
    stream = wrap.stream(worlds.counting(), 4)
    with pytest.raises(
        SpecError, match=r"environment_keys of stream: got shape \(3,\), want \(4,\)"
    ):
        stream.init(worlds.environment_keys(range(3)))


def test_step_is_traced_once():
    stream = wrap.stream(wrap.time_limit(worlds.counting(), 4), 3)
    traces = []

    def step(state, action):
        traces.append(1)
        return stream.step(state, action)

    jitted = jax.jit(step)
    state, _ = jax.jit(stream.init)(worlds.environment_keys(range(3)))
    for _ in range(5):
        state, _ = jitted(state, jnp.zeros((3,), jnp.int32))
    assert len(traces) == 1
