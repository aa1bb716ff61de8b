"""Rollout and rescoring: equal bits, true final observations, and keys by address."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlkjax import normalize, rollout
from rlkjax.config import Config, NetworkConfig, ObservationConfig
from rlkjax.policy import Policy, isolate, make_policy
from rlkjax.types import PolicyState, WorldState
from vimejax import keys, registry, wrap
from vimejax.types import Continuous, Discrete, Environment, EnvSpec, timestep

TASKS = ["cartpole", "pendulum", "sparse_grid", "noisy_point"]
STEPS = 12


def config(task, hidden=(16,)):
    network = NetworkConfig(policy_hidden=hidden, value_hidden=hidden)
    return Config(task=task, total_steps=1, network=network, observations=ObservationConfig())


def spread(state, key):
    """Parameters and statistics as after some training: nothing is near zero, or special."""
    leaves, tree = jax.tree.flatten(state.params)
    noise = [
        x + 0.3 * jax.random.normal(jax.random.fold_in(key, i), x.shape, jnp.float32)
        for i, x in enumerate(leaves)
    ]
    size = state.obs_stats.mean.shape[0]
    stats = state.obs_stats._replace(
        mean=jnp.linspace(-0.1, 0.13, size, dtype=jnp.float32),
        variance=jnp.linspace(0.3, 1.7, size, dtype=jnp.float32),
    )
    return PolicyState(jax.tree.unflatten(tree, noise), stats)


def start(policy, env, num_envs):
    stream = wrap.stream(env, num_envs)
    run = keys.run_key(0, keys.Stream.TRAIN)
    index = jnp.arange(num_envs, dtype=jnp.uint32)
    world, _ = jax.jit(stream.init)(jax.vmap(keys.environment_key, (None, 0))(run, index))
    key = keys.run_key(0, keys.Stream.INIT)
    state = PolicyState(policy.init(key), normalize.init(env.spec.obs_size))
    return spread(state, jax.random.key(5)), WorldState(world, rollout.init_episodes(num_envs))


@functools.cache
def played(task, num_envs, apart=isolate, episode_length=7):
    """(segment, rescore) of a few steps, by two programs."""
    env = registry.make(task, episode_length=episode_length)
    policy = make_policy(config(task), env.spec)
    graph = rollout.policy_graph(policy, apart)
    act = rollout.make_rollout(
        policy, graph, wrap.stream(env, num_envs), unroll_length=STEPS, reward_dtype="float32"
    )
    state, world = start(policy, env, num_envs)
    world, segment, _ = jax.jit(act)(state, world)
    world, segment, totals = jax.jit(act)(state, world)
    rescored = jax.jit(rollout.make_rescore(graph))(state, segment)
    return jax.tree.map(np.asarray, (segment, rescored))


def bits(array):
    return np.asarray(array).view(np.uint32)


def assert_same_bits(segment, rescored):
    for name in ("log_prob", "value"):
        claimed, scored = getattr(segment, name), getattr(rescored, name)
        assert np.isfinite(claimed).all()
        np.testing.assert_array_equal(bits(claimed), bits(scored), err_msg=name)


@pytest.mark.parametrize(
    ("task", "num_envs"),
    [("cartpole", 8), ("pendulum", 1), ("pendulum", 8), ("sparse_grid", 8), ("noisy_point", 8)],
)
def test_rescoring_gives_the_claimed_bits(task, num_envs):
    assert_same_bits(*played(task, num_envs))


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("num_envs", [1, 2, 5, 64, 256])
def test_rescoring_gives_the_claimed_bits_at_more_widths(task, num_envs):
    assert_same_bits(*played(task, num_envs))


@pytest.mark.parametrize("task", ["cartpole", "pendulum"])
def test_bootstrap_values_are_those_of_the_true_next_observation(task):
    segment, rescored = played(task, 8)
    env = registry.make(task, episode_length=7)
    policy = make_policy(config(task), env.spec)
    state, _ = start(policy, env, 8)
    value = np.asarray(jax.jit(jax.vmap(policy.value, (None, 0)))(state, segment.next_obs))
    used = ~segment.terminated
    assert segment.truncated.any(), "the case that matters must occur"
    np.testing.assert_allclose(rescored.bootstrap_value[used], value[used], rtol=1e-5, atol=1e-5)


def test_actions_of_an_environment_do_not_depend_on_how_many_there_are():
    # A row's logits may round differently in another batch; draws are equal until they do.
    few, _ = played("cartpole", 8)
    many, _ = played("cartpole", 64)
    np.testing.assert_array_equal(few.obs[0], many.obs[0, :8])
    np.testing.assert_allclose(few.log_prob[0], many.log_prob[0, :8], rtol=1e-5)
    np.testing.assert_array_equal(few.action[0], many.action[0, :8])


# --- an environment that counts ------------------------------------------------------------------


def counting(limit=4, terminates=False, action=None):
    """obs = steps done in this episode, which ends after `limit` steps."""

    def reset(key):
        obs = jnp.zeros((1,), jnp.float32)
        return obs, timestep(obs)

    def step(obs, action, key):
        obs = obs + 1.0
        terminated = (obs[0] >= limit) & terminates
        return obs, timestep(obs, obs[0], terminated)

    spec = EnvSpec("counting", obs_size=1, action=action or Discrete(2))
    env = wrap.nan_guard(Environment(spec, reset, step))
    return wrap.time_limit(env, 1000 if terminates else limit)


def value_is_obs(spec):
    """A policy whose value is ten times the observation, and which prefers nothing."""
    base = make_policy(config("counting", ()), spec)

    def policy_forward(state, obs):
        return jnp.zeros((*obs.shape[:-1], 2), jnp.float32), obs[..., 0] * 10.0

    return Policy(
        base.distribution, base.init, policy_forward, lambda state, obs: obs[..., 0] * 10.0
    )


@functools.cache
def counted(terminates=False, dtype="float32"):
    """Six steps of one counting environment."""
    return count(counting(terminates=terminates), dtype=dtype)


def count(env, steps=6, dtype="float32"):
    policy = value_is_obs(env.spec)
    graph = rollout.policy_graph(policy, isolate)
    act = rollout.make_rollout(
        policy, graph, wrap.stream(env, 1), unroll_length=steps, reward_dtype=dtype
    )
    state, world = start(make_policy(config("counting", ()), env.spec), env, 1)
    world, segment, totals = jax.jit(act)(state, world)
    return segment, jax.jit(rollout.make_rescore(graph))(state, segment), totals, world


def column(array):
    return np.asarray(array).reshape(len(array)).tolist()


def test_truncation_keeps_the_final_observation():
    segment, rescored, totals, world = counted()
    assert column(segment.obs) == [0, 1, 2, 3, 0, 1]
    assert column(segment.next_obs) == [1, 2, 3, 4, 1, 2]
    assert column(segment.truncated) == [False, False, False, True, False, False]
    assert column(segment.terminated) == [False] * 6
    # V(s') = 10 s': at the cut 40 and not 0; after the last step 20, of where it led.
    assert column(rescored.value) == [0, 10, 20, 30, 0, 10]
    assert column(rescored.bootstrap_value) == [10, 20, 30, 40, 10, 20]
    # One episode ended: rewards 1 + 2 + 3 + 4 = 10 in 4 steps; 1 + 2 are carried on.
    assert [int(x) for x in totals] == [1, 10, 4, 0]
    assert [column(x) for x in world.episodes] == [[3], [2]]


def test_a_cut_in_one_environment_leaves_the_others_alone():
    # The rescoring looks at next_obs for all environments where any is cut: the result must not.
    env = counting(limit=3)
    policy = value_is_obs(env.spec)
    graph = rollout.policy_graph(policy, isolate)
    act = rollout.make_rollout(
        policy, graph, wrap.stream(env, 2), unroll_length=4, reward_dtype="float32"
    )
    state, world = start(make_policy(config("counting", ()), env.spec), env, 2)
    inner = world.stream.state
    ahead = jnp.array([0, 2], jnp.int32)  # the second environment is two steps ahead
    moved = inner._replace(
        step=ahead,
        inner=inner.inner._replace(
            inner=ahead.astype(jnp.float32)[:, None], obs=ahead.astype(jnp.float32)[:, None]
        ),
    )
    stream = world.stream._replace(state=moved, obs=ahead.astype(jnp.float32)[:, None])
    _, segment, _ = jax.jit(act)(state, world._replace(stream=stream))
    rescored = jax.jit(rollout.make_rescore(graph))(state, segment)
    assert np.asarray(segment.truncated).T.tolist() == [
        [False, False, True, False],
        [True, False, False, True],
    ]
    assert np.asarray(rescored.bootstrap_value).T.tolist() == [[10, 20, 30, 10], [30, 10, 20, 30]]


def test_a_termination_is_no_truncation():
    segment, _, totals, _ = counted(terminates=True)
    assert column(segment.terminated) == [False, False, False, True, False, False]
    assert column(segment.truncated) == [False] * 6
    assert int(totals.episodes) == 1


def test_rewards_in_half_precision():
    segment, _, totals, _ = counted(dtype="float16")
    assert segment.reward.dtype == jnp.float16
    assert column(segment.reward) == [1, 2, 3, 4, 1, 2]
    assert float(totals.return_sum) == 10.0  # statistics are those of the task's own reward


def test_each_action_draws_from_its_own_address():
    # The same draws, one by one, from (seed, TRAIN, environment, episode, step, ACTION): the policy
    # prefers nothing, so the action is the larger of two Gumbel draws.
    segment, _, _, _ = counted()
    environment = keys.environment_key(keys.run_key(0, keys.Stream.TRAIN), 0)
    addresses = [(0, 1), (0, 2), (0, 3), (0, 4), (1, 1), (1, 2)]
    drawn = [
        jax.random.gumbel(
            keys.step_key(keys.episode_key(environment, episode), step, keys.Purpose.ACTION),
            (2,),
            jnp.float32,
        )
        for episode, step in addresses
    ]
    assert column(segment.action) == [int(jnp.argmax(each)) for each in drawn]


def test_key_reuse_checking_passes_over_a_rollout():
    with jax.debug_key_reuse(True):
        segment, _, _, _ = count(counting(), steps=5)
    assert column(segment.obs) == [0, 1, 2, 3, 0]


def test_continuous_actions_are_stored_before_squashing():
    segment, _ = played("pendulum", 8)
    assert segment.action.dtype == np.float32
    assert np.abs(segment.action).max() > 1.0  # what the environment got is at most 1


def test_nan_from_an_environment_is_counted_and_replaced():
    def reset(key):
        obs = jnp.zeros((1,), jnp.float32)
        return obs, timestep(obs)

    def step(obs, action, key):
        obs = jnp.where(obs == 2.0, jnp.nan, obs + 1.0)
        return obs, timestep(obs, 1.0)

    spec = EnvSpec("faulty", obs_size=1, action=Discrete(2))
    env = wrap.time_limit(wrap.nan_guard(Environment(spec, reset, step)), 100)
    segment, rescored, totals, _ = count(env)
    assert column(segment.info["nonfinite"]) == [0, 0, 1, 0, 0, 1]
    assert column(segment.terminated) == [False, False, True, False, False, True]
    assert int(totals.nonfinite) == 2
    for name in ("obs", "next_obs", "reward", "value", "log_prob"):
        assert np.isfinite(np.asarray(getattr(segment, name))).all()
    assert np.isfinite(np.asarray(rescored.bootstrap_value)).all()


def test_specs_of_continuous_worlds_count_too():
    env = counting(action=Continuous(1))
    policy = make_policy(config("counting", ()), env.spec)
    graph = rollout.policy_graph(policy, isolate)
    act = rollout.make_rollout(
        policy, graph, wrap.stream(env, 3), unroll_length=2, reward_dtype="float32"
    )
    _, segment, _ = jax.eval_shape(act, *start(policy, env, 3))
    assert (segment.action.shape, segment.log_prob.shape) == ((2, 3, 1), (2, 3))


# --- one program, however it is looped ------------------------------------------------------------


@pytest.mark.parametrize("task", ["pendulum", "cartpole"])
def test_a_scan_a_loop_and_an_unrolled_scan_give_equal_bits(task):
    env = registry.make(task, episode_length=30)
    stream = wrap.stream(env, 8)
    run = keys.run_key(0, keys.Stream.TRAIN)
    first, _ = jax.jit(stream.init)(
        jax.vmap(keys.environment_key, (None, 0))(run, jnp.arange(8, dtype=jnp.uint32))
    )
    action = jnp.ones(8, jnp.int32)
    if isinstance(env.spec.action, Continuous):
        action = jnp.full((8, env.spec.action.size), 0.3, jnp.float32)

    def step(state, _):
        state, shown = stream.step(state, action)
        return state, (shown.obs, shown.reward)

    def scanned(unroll):
        return jax.jit(lambda x: jax.lax.scan(step, x, length=100, unroll=unroll)[1])(first)

    looped, state, jitted = [], first, jax.jit(step)
    for _ in range(100):
        state, shown = jitted(state, None)
        looped.append(shown)
    for index in range(2):
        want = np.stack([np.asarray(each[index]) for each in looped]).tobytes()
        assert np.asarray(scanned(1)[index]).tobytes() == want
        assert np.asarray(scanned(5)[index]).tobytes() == want
