"""The product's own programs: every stage of an iteration, and Brax steps, equal the reference."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlkjax import launch, learner
from rlkjax.exact.reference import reference
from rlkjax.exact.transform import exact
from vimejax import golden, registry

pytestmark = pytest.mark.slow


def words(tree) -> list[bytes]:
    """The bytes of every leaf."""
    leaves = []
    for leaf in jax.tree.leaves(tree):
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        leaves.append(np.asarray(leaf).tobytes())
    return leaves


def agreed(fn, *args):
    """The result of `exact(fn)`, after a comparison with the reference."""
    got = exact(fn)(*args)
    assert words(got) == words(reference(fn)(*args))
    return got


def iterate(stages, seed) -> None:
    """Compares each stage of one iteration, on the exact results of those before."""
    train, world = agreed(stages.init, jnp.uint32(seed))
    world, segment, _ = agreed(stages.rollout, train.policy, world)
    rescored = agreed(stages.rescore, train.policy, segment)
    advantages = agreed(stages.advantages, train, segment, rescored)
    agreed(stages.update, train, segment, rescored, advantages)


@pytest.mark.parametrize("task", ["cartpole", "pendulum"])
def test_every_stage_of_an_iteration_equals_the_reference(task, configure):
    config = configure(f"task={task}")
    iterate(learner.make_stages(config, launch.make_environment(config)), config.seed)


@pytest.mark.parametrize("name", sorted([*registry.PHYSICS, *registry.PLAIN]))
def test_every_native_task_steps_as_the_reference_does(name):
    env = registry.make(name, episode_length=3)
    got = golden.make(env, exact, steps=8)
    want = golden.make(env, reference, steps=8)
    assert golden.compare(want, got) is None


def test_an_iteration_of_a_brax_task_equals_the_reference(configure):
    pytest.importorskip("brax.envs")
    config = configure("task=brax/inverted_pendulum", "env.backend=generalized")
    stages = learner.make_stages(config, launch.make_environment(config))
    iterate(stages, config.seed)


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("reacher", "mjx"),
        ("ant", "spring"),
        ("ant", "positional"),
        ("ant", "generalized"),
        ("halfcheetah", "spring"),
        ("hopper", "generalized"),
        ("inverted_pendulum", "generalized"),
        ("inverted_double_pendulum", "mjx"),
    ],
)
def test_a_brax_step_equals_the_reference_in_any_batch(name, backend):
    envs = pytest.importorskip("brax.envs")
    env = envs.get_environment(name, backend=backend)
    keys = jax.random.split(jax.random.key(1), 16)
    actions = jnp.tanh(jax.random.normal(jax.random.key(2), (16, env.action_size)))
    state = agreed(env.reset, keys[3])
    alone = agreed(env.step, state, actions[3])

    def both(key, action):
        return env.step(env.reset(key), action)

    batch = exact(jax.vmap(both))(keys, actions)
    assert words(jax.tree.map(lambda x: x[3], batch)) == words(alone)
