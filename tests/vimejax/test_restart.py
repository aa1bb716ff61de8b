"""Restarting some of many environments: both ways must agree, for every number of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import vime_worlds as worlds

from vimejax import keys, restart

ENV = worlds.drawn_start()


def episode_keys(n):
    return jax.vmap(lambda key: keys.episode_key(key, 0))(worlds.environment_keys(range(n)))


def marked(n):
    """States that no reset makes: all -9."""
    state, ts = jax.vmap(ENV.reset)(jax.random.split(jax.random.key(0), n))
    return jax.tree.map(lambda leaf: jnp.full_like(leaf, -9.0), (state, ts.obs))


# 1 is here for a loop that XLA dropped, the others for the edges of a chunk of eight.
@pytest.mark.parametrize("n", [1, 7, 8, 9, 17])
def test_chunks_equal_a_full_reset_for_every_set_of_ended_environments(n):
    draw = np.random.default_rng(n)
    run, full_run = (jax.jit(f, static_argnums=0) for f in (restart.chunked, restart.dense))
    for ended in [np.zeros(n, bool), np.ones(n, bool), draw.random(n) < 0.4, np.arange(n) == n - 1]:
        arguments = (ENV, episode_keys(n), jnp.asarray(ended), marked(n))
        chunks, full = run(*arguments), full_run(*arguments)
        for a, b in zip(jax.tree.leaves(chunks), jax.tree.leaves(full), strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
        kept = np.asarray(chunks[1])[~ended]
        assert (kept == -9.0).all()


@pytest.mark.parametrize("n", [1, 8, 9])
def test_a_constant_set_of_ended_environments_is_reset_too(n):
    # The loop's end is a constant here, which is when XLA may unroll, fold or drop it.
    def all_ended(key):
        return restart.chunked(ENV, key, jnp.ones((n,), jnp.bool_), marked(n))

    obs = jax.jit(all_ended)(episode_keys(n))[1]
    assert (np.asarray(obs) != -9.0).all()


def test_a_state_that_holds_a_key_can_be_begun():
    def reset(key):
        kept, used = jax.random.split(key)
        state, ts = ENV.reset(used)
        return (state, kept), ts

    env = type(ENV)(ENV.spec, reset, ENV.step)
    (_, kept), obs = restart.begin(env, episode_keys(3))
    assert kept.shape == (3,)
    assert jnp.issubdtype(kept.dtype, jax.dtypes.prng_key)
    assert obs.shape == (3, 1)


def test_select_never_leaks_a_nan():
    bad, good = jnp.asarray([np.nan, 1.0], jnp.float32), jnp.asarray([2.0, 3.0], jnp.float32)
    chosen = restart.select(jnp.asarray([False, True]), bad, good)
    assert chosen.tolist() == [2.0, 1.0]
