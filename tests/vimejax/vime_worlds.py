"""Small worlds with one known behaviour each, and a driver of streams, for the tests beside it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from vimejax import keys
from vimejax.types import Continuous, Discrete, Environment, EnvSpec, Info, timestep
from vimejax.wrap import Stream


def counting(info_rule: str = "last") -> Environment:
    """obs = steps done; reward 1; info first: 1 at odd steps; info age: steps done. Never ends."""

    def show(step):
        info = {"age": step, "first": (step % 4 == 1).astype(jnp.float32)}
        return timestep(step.astype(jnp.float32)[None], jnp.minimum(step, 1) * 1.0, info=info)

    def reset(key):
        del key
        return jnp.int32(0), show(jnp.int32(0))

    def step(state, action, key):
        del action, key
        return state + 1, show(state + 1)

    info = (Info("age", "int32", "last"), Info("first", "float32", info_rule))
    return Environment(EnvSpec("counting", 1, Discrete(2), info), reset, step)


def drawn_start() -> Environment:
    """obs = the start, drawn uniformly; nothing moves."""

    def reset(key):
        start = jax.random.uniform(key, (1,), jnp.float32)
        return start, timestep(start)

    def step(state, action, key):
        del action, key
        return state, timestep(state)

    return Environment(EnvSpec("drawn_start", 1, Discrete(2)), reset, step)


def ends_at(limit: int) -> Environment:
    """reward 1 each step; terminates at step `limit` of an episode; obs = steps done."""

    def reset(key):
        del key
        return jnp.int32(0), timestep(jnp.zeros((1,), jnp.float32))

    def step(state, action, key):
        del action, key
        state = state + 1
        return state, timestep(state.astype(jnp.float32)[None], 1.0, state == limit)

    return Environment(EnvSpec("ends_at", 1, Discrete(2)), reset, step)


class Sums(NamedTuple):
    """A float total, and an integer that must survive untouched."""

    total: jax.Array
    count: jax.Array


def accumulator() -> Environment:
    """Adds the action to a drawn start: a non-finite action makes a non-finite state for good."""

    def reset(key):
        total = jax.random.uniform(key, (1,), jnp.float32)
        return Sums(total, jnp.int32(0)), timestep(total)

    def step(state, action, key):
        del key
        state = Sums(state.total + action, state.count + 1)
        return state, timestep(state.total, state.total[0])

    return Environment(EnvSpec("accumulator", 1, Continuous(1)), reset, step)


def environment_keys(numbers, seed: int = 7) -> jax.Array:
    """[N] keys of the environments of those numbers in the training stream of a run."""
    run = keys.run_key(seed, keys.Stream.TRAIN)
    number = jnp.asarray(numbers, jnp.int32)
    return jax.vmap(lambda i: keys.environment_key(run, i))(number)


def random_action(spec: EnvSpec, state) -> jax.Array:
    """[N, ...] actions drawn from the addresses that a policy would use."""
    draw = jax.vmap(lambda key, t: keys.step_key(key, t, keys.Purpose.ACTION))
    key = draw(state.episode_key, state.step + jnp.int32(1))
    if isinstance(spec.action, Discrete):
        n = spec.action.n
        return jax.vmap(lambda k: jax.random.randint(k, (), 0, n, jnp.int32))(key)
    size = spec.action.size
    return jax.vmap(lambda k: jax.random.uniform(k, (size,), jnp.float32, -1.0, 1.0))(key)


def roll(stream: Stream, environments: jax.Array, steps: int):
    """First timestep, then (timestep, action, episode, step) of each step, [T, N, ...]; one jit."""

    def run(environments):
        state, first = stream.init(environments)

        def one(state, _):
            action = random_action(stream.spec, state)
            state, ts = stream.step(state, action)
            return state, (ts, action, state.episode, state.step)

        return first, jax.lax.scan(one, state, None, length=steps)[1]

    return jax.jit(run)(environments)
