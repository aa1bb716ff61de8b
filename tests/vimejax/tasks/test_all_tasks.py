"""What every native task promises: types, structure, keys used once, starts without correlation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vimejax import registry
from vimejax.types import Discrete

NATIVE = sorted([*registry.PHYSICS, *registry.PLAIN])
ALLOWED = {"float32", "int32", "bool"}


def zero_action(spec):
    if isinstance(spec.action, Discrete):
        return jnp.zeros((), jnp.int32)
    return jnp.zeros((spec.action.size,), jnp.float32)


def signature(tree):
    return [(leaf.shape, str(leaf.dtype), leaf.weak_type) for leaf in jax.tree.leaves(tree)]


def reset_and_step(env, run=jax.eval_shape):
    """What reset and one step return: shapes and types, or values where `run` runs them."""

    def both(key):
        start, then = jax.random.split(key)
        state, first = env.reset(start)
        return (state, first), env.step(state, zero_action(env.spec), then)

    return run(both, jax.random.key(0))


@pytest.mark.parametrize("wide", [False, True], ids=["x32", "x64"])
@pytest.mark.parametrize("name", NATIVE)
def test_reset_and_step_agree_in_structure_and_type(name, wide):
    env = registry.make(name, episode_length=10)
    before = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", wide)
    try:
        with jax.numpy_dtype_promotion("strict"):
            reset, step = reset_and_step(env)
    finally:
        jax.config.update("jax_enable_x64", before)
    assert jax.tree.structure(reset) == jax.tree.structure(step)
    assert signature(reset) == signature(step)
    assert {dtype for _, dtype, _ in signature(step)} <= ALLOWED
    assert not any(weak for _, _, weak in signature(step))


@pytest.mark.parametrize("name", NATIVE)
def test_spec_tells_the_truth(name):
    env = registry.make(name, episode_length=10)
    (_, first), (_, ts) = reset_and_step(env)
    assert env.spec.name == name
    assert ts.obs.shape == (env.spec.obs_size,)
    assert first.obs.shape == (env.spec.obs_size,)
    declared = {entry.name: entry.dtype for entry in env.spec.info}
    assert {key: str(value.dtype) for key, value in ts.info.items()} == declared
    assert list(declared) == sorted(declared)


@pytest.mark.parametrize("name", NATIVE)
def test_no_key_is_used_twice(name):
    env = registry.make(name, episode_length=10)
    with jax.debug_key_reuse(True):
        jax.block_until_ready(reset_and_step(env, lambda both, key: jax.jit(both)(key)))


@pytest.mark.parametrize("name", NATIVE)
def test_components_of_a_start_are_not_correlated(name):
    env = registry.bare(name)
    keys = jax.random.split(jax.random.key(11), 10_000)
    state = jax.jit(jax.vmap(lambda key: env.reset(key)[0]))(keys)
    columns = [np.asarray(leaf, np.float64).reshape(10_000, -1) for leaf in jax.tree.leaves(state)]
    drawn = np.concatenate(columns, axis=1)
    drawn = drawn[:, drawn.std(axis=0) > 0]
    if drawn.shape[1] < 2:
        assert name.startswith(("probe_", "mountain_car"))  # at most one number is drawn
        return
    correlation = np.corrcoef(drawn, rowvar=False)[~np.eye(drawn.shape[1], dtype=bool)]
    # In the grid no episode starts at (4, 4): row and column have mean 46/24, mean square 134/24
    # and mean product 84/24, so covariance -0.17361, variance 1.90972 and correlation -1/11.
    known = -1 / 11 if name == "sparse_grid" else 0.0
    assert np.abs(correlation - known).max() < 0.05


@pytest.mark.parametrize("name", NATIVE)
def test_unlike_keys_give_unlike_starts_and_like_keys_like_ones(name):
    env = registry.bare(name)
    a, b, again = (env.reset(jax.random.key(seed))[1].obs for seed in (1, 2, 1))
    assert a.tobytes() == again.tobytes()
    drawn = {"cartpole", "mountain_car_continuous", "noisy_point", "pendulum", "sparse_grid"}
    if name in drawn:
        assert a.tobytes() != b.tobytes()
