"""Probe worlds: each isolates one part of the learner, and its right answer is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlkjax import launch
from rlkjax.policy import make_policy

pytestmark = pytest.mark.slow

LEARN = (
    "total_steps=3200",
    "env.episode_length=16",
    "rollout.unroll_length=8",
    "rollout.num_envs=8",
    "observations.normalize=false",
    "ppo.minibatches=1",
    "ppo.epochs=8",
    "ppo.discount=0.5",
    "ppo.entropy_cost=0.0",
    "ppo.learning_rate=1e-2",
)


@pytest.fixture
def learned(configure):
    """(policy, its state) after 100 iterations in a probe world."""
    from rlkjax.learner import make_stages

    def run(task, *changes, iterations=100):
        config = configure(*LEARN, f"task={task}", *changes)
        env = launch.make_environment(config)
        stages = make_stages(config, env)

        def iteration(carry, _):
            train, world = carry
            world, segment, _ = stages.rollout(train.policy, world)
            rescored = stages.rescore(train.policy, segment)
            advantages = stages.advantages(train, segment, rescored)
            train, _ = stages.update(train, segment, rescored, advantages)
            return (train, world), None

        def everything():
            return jax.lax.scan(iteration, stages.init(jnp.uint32(0)), length=iterations)[0][0]

        return make_policy(config, env.spec), jax.jit(everything)().policy

    return run


def values(policy, state, *obs):
    return np.asarray(policy.value(state, jnp.asarray(obs, jnp.float32)[:, None])).tolist()


def chances(policy, state, *obs):
    """Probability of action 1."""
    outputs, _ = policy.forward(state, jnp.asarray(obs, jnp.float32)[:, None])
    actions = jnp.ones(len(obs), jnp.int32)
    return np.exp(np.asarray(policy.distribution.log_prob(outputs, actions))).tolist()


def test_a_constant_reward_is_learned_by_the_value(learned):
    assert values(*learned("probe_constant"), 0.0) == pytest.approx([1.0], abs=0.02)


def test_a_reward_that_shows_in_the_observation(learned):
    assert values(*learned("probe_obs"), -1.0, 1.0) == pytest.approx([-1.0, 1.0], abs=0.05)


@pytest.mark.parametrize("gae_lambda", ["0.0", "0.95"])
def test_a_delayed_reward_is_discounted(learned, gae_lambda):
    got = values(*learned("probe_delayed", f"ppo.gae_lambda={gae_lambda}"), 0.0, 1.0)
    assert got == pytest.approx([0.5, 1.0], abs=0.05)  # discount 1/2


def test_the_better_action_is_taken(learned):
    policy, state = learned("probe_action")
    assert chances(policy, state, 0.0)[0] > 0.95
    assert values(policy, state, 0.0) == pytest.approx([1.0], abs=0.1)


def test_the_action_follows_the_observation(learned):
    policy, state = learned("probe_both")
    low, high = chances(policy, state, -1.0, 1.0)
    assert low < 0.05 and high > 0.95
    assert values(policy, state, -1.0, 1.0) == pytest.approx([1.0, 1.0], abs=0.1)


def test_the_whole_also_learns_with_everything_switched_on(learned):
    policy, state = learned(
        "probe_both",
        "observations.normalize=true",
        "reward.normalize=running",
        "reward.dtype=float16",
        "ppo.value_clip_epsilon=0.5",
        "ppo.minibatches=4",
        "ppo.epochs=2",
        "ppo.learning_rate_schedule=linear",
        "network.shared_torso=true",
    )
    low, high = chances(policy, state, -1.0, 1.0)
    assert low < 0.1 and high > 0.9


def test_a_time_limit_keeps_the_value_of_what_follows(learned):
    # Endless world of reward 1 cut after 3 steps: V = 1 / (1 - 1/2) = 2 wherever the cut falls. A
    # learner that takes the cut for an end would say 1 for the last step, 1.5 before it.
    from vimejax import registry, wrap
    from vimejax.types import Discrete, Environment, EnvSpec, timestep

    def reset(key):
        obs = jnp.zeros((1,), jnp.float32)
        return obs, timestep(obs)

    def step(obs, action, key):
        return obs + 1.0, timestep(obs + 1.0, 1.0)

    env = Environment(EnvSpec("endless", obs_size=1, action=Discrete(2)), reset, step)
    endless = wrap.time_limit(wrap.nan_guard(env), 3)
    patched = pytest.MonkeyPatch()
    patched.setattr(registry, "make", lambda *_, **__: endless)
    try:
        got = values(*learned("probe_constant", iterations=150), 0.0, 1.0, 2.0)
    finally:
        patched.undo()
    assert got == pytest.approx([2.0, 2.0, 2.0], abs=0.1)
