"""Beginning new episodes in some of many environments: all at once, or eight at a time.

`dense` resets every environment and keeps what is asked for: right where a reset costs no more than
a step. `chunked` resets only the ended ones, in groups of exactly `CHUNK`, so that the program that
makes a start, and with it the bits of the start, is the same for any number of environments.
"""

import jax
import jax.numpy as jnp

from vimejax.keys import Purpose, step_key
from vimejax.types import Array, Environment, State

CHUNK = 8

Start = tuple[State, Array]  # state tree and obs [O] float32; with a leading axis [N] when batched


def select(flag: Array, on_true: State, on_false: State) -> State:
    """Leaf by leaf `on_true` where the flag holds, else `on_false`; a NaN not chosen never leaks.

    Args:
      flag: [] bool, or [N] bool for trees whose leaves all have a leading axis N.
      on_true: tree of arrays.
      on_false: tree of the same structure, shapes and dtypes.

    Returns:
      A tree of the same structure.
    """

    def pick(a: Array, b: Array) -> Array:
        return jnp.where(flag.reshape(flag.shape + (1,) * (a.ndim - flag.ndim)), a, b)

    return jax.tree.map(pick, on_true, on_false)


def _start(env: Environment, episode_key: Array) -> Start:
    state, ts = env.reset(step_key(episode_key, 0, Purpose.PHYSICS))
    return state, ts.obs


def dense(env: Environment, episode_keys: Array, ended: Array, old: Start) -> Start:
    """Resets all environments and keeps the starts of the ended ones; nothing, if none has ended.

    Args:
      env: the environment.
      episode_keys: [N] typed keys, of the episode that begins where `ended` holds.
      ended: [N] bool.
      old: state tree [N, ...] and obs [N, O] float32 to keep elsewhere.

    Returns:
      State tree [N, ...] and obs [N, O] float32.
    """

    def some(now: Start) -> Start:
        fresh = jax.vmap(lambda key: _start(env, key))(episode_keys)
        return select(ended, fresh, now)

    # Most steps end no episode, and the draws of a reset cost as much as a step.
    return jax.lax.cond(jnp.any(ended), some, lambda now: now, old)


def chunked(env: Environment, episode_keys: Array, ended: Array, old: Start) -> Start:
    """Resets the ended environments only, `CHUNK` at a time, in order of their number.

    Args:
      env: the environment.
      episode_keys: [N] typed keys, of the episode that begins where `ended` holds.
      ended: [N] bool.
      old: state tree [N, ...] and obs [N, O] float32 to keep elsewhere.

    Returns:
      State tree [N, ...] and obs [N, O] float32.
    """
    n = ended.shape[0]
    size = -(-n // CHUNK) * CHUNK
    count = jnp.sum(ended, dtype=jnp.int32)
    order = jnp.argsort(~ended, stable=True).astype(jnp.int32)
    order = jnp.concatenate([order, jnp.zeros((size - n,), jnp.int32)])
    # Lanes past the count point out of range, each elsewhere: dropped, and the rest stays unique.
    places = jnp.arange(size, dtype=jnp.int32)
    targets = jnp.where(places < count, order, size + places)

    # The counter goes up by one: XLA of jaxlib 0.10.2 skips a loop of stride 8 and constant end 1.
    def go_on(carry: tuple[Array, Start]) -> Array:
        return carry[0] * CHUNK < count

    def body(carry: tuple[Array, Start]) -> tuple[Array, Start]:
        chunk, now = carry
        lanes = jax.lax.dynamic_slice(targets, (chunk * CHUNK,), (CHUNK,))
        chosen = episode_keys[jnp.minimum(lanes, n - 1)]
        fresh = jax.vmap(lambda key: _start(env, key))(chosen)
        put = jax.tree.map(
            lambda a, b: a.at[lanes].set(b, mode="drop", unique_indices=True), now, fresh
        )
        return chunk + jnp.int32(1), put

    return jax.lax.while_loop(go_on, body, (jnp.zeros((), jnp.int32), old))[1]


def begin(env: Environment, episode_keys: Array) -> Start:
    """Starts an episode in every environment, by the same program that later restarts them.

    Args:
      env: the environment.
      episode_keys: [N] typed keys.

    Returns:
      State tree [N, ...] and obs [N, O] float32.
    """
    n = episode_keys.shape[0]
    shapes = jax.eval_shape(lambda key: _start(env, key), episode_keys[0])
    blank = jax.tree.map(lambda shape: jnp.zeros((n, *shape.shape), shape.dtype), shapes)
    return restart(env, episode_keys, jnp.ones((n,), jnp.bool_), blank)


def restart(env: Environment, episode_keys: Array, ended: Array, old: Start) -> Start:
    """`chunked` for an environment whose spec says `costly_reset`, else `dense`.

    Args:
      env: the environment.
      episode_keys: [N] typed keys, of the episode that begins where `ended` holds.
      ended: [N] bool.
      old: state tree [N, ...] and obs [N, O] float32 to keep elsewhere.

    Returns:
      State tree [N, ...] and obs [N, O] float32.
    """
    how = chunked if env.spec.costly_reset else dense
    return how(env, episode_keys, ended, old)
