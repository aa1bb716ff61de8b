"""Environment -> environment (action repeat, time limit, NaN guard), and environment -> stream.

The first three take one environment and return another, with a spec that says what changed; their
right order is that of `registry.make`. `stream` makes N of them step side by side for ever.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from vimejax import walls
from vimejax.errors import SpecError
from vimejax.keys import Purpose, episode_key, step_key, substep_key
from vimejax.restart import begin, restart, select
from vimejax.types import Array, Environment, EnvSpec, Info, InfoRule, State, Timestep

NONFINITE = Info("nonfinite", "int32", "max")
REPEATS = Info("repeats", "int32", "sum")


def _check_count(wrapper: str, argument: str, value: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SpecError(f"{argument} of {wrapper}: got {value!r}, want an integer of 1 or more.")


def _with_info(spec: EnvSpec, entry: Info) -> EnvSpec:
    if any(known.name == entry.name for known in spec.info):
        raise SpecError(
            f"info of {spec.name}: already has an entry {entry.name!r}; apply each wrapper once."
        )
    info = sorted((*spec.info, entry), key=lambda known: known.name)
    return dataclasses.replace(spec, info=tuple(info))


# --- action repeat -------------------------------------------------------------------------------


class _Group(NamedTuple):
    """State after a sub-step, what the group has shown so far, and whether it has ended."""

    state: State
    shown: Timestep
    ended: Array


def _fold_entry(rule: InfoRule, old: Array, new: Array) -> Array:
    if rule == "sum":
        return old + new
    return jnp.maximum(old, new) if rule == "max" else new


def _fold(rules: dict[str, InfoRule], old: Timestep, new: Timestep) -> Timestep:
    info = {name: _fold_entry(rules[name], old.info[name], new.info[name]) for name in new.info}
    return new._replace(reward=old.reward + new.reward, info=info)


def _zeros(shape: jax.ShapeDtypeStruct) -> Array:
    return jnp.zeros(shape.shape, shape.dtype)


def action_repeat(env: Environment, n: int) -> Environment:
    """Applies every action `n` times; one step of the result is a group of `n` sub-steps.

    The reward is the sum, from the first sub-step to the last; each info entry follows its declared
    rule (sum, last or max). After an ending inside the group nothing moves and nothing is added.
    Sub-step i draws with substep_key(key of the group, i).

    Args:
      env: the environment.
      n: sub-steps in a group; 1 gives `env` back unchanged.

    Returns:
      An environment with one more info entry, `repeats` (int32): sub-steps done in the group.

    Raises:
      SpecError: `n` is no integer of 1 or more.
    """
    _check_count("action_repeat", "n", n)
    if n == 1:
        return env
    rules = {entry.name: entry.rule for entry in env.spec.info}
    spec = _with_info(env.spec, REPEATS)

    def count(ts: Timestep, repeats: Array) -> Timestep:
        return ts._replace(info={**ts.info, REPEATS.name: repeats})

    def reset(key: Array) -> tuple[State, Timestep]:
        state, ts = env.reset(key)
        return state, count(ts, jnp.zeros((), jnp.int32))

    def step(state: State, action: Array, key: Array) -> tuple[State, Timestep]:
        def substep(carry: tuple[_Group, Array], index: Array) -> tuple[tuple[_Group, Array], None]:
            group, repeats = carry
            new_state, new = env.step(group.state, action, substep_key(key, index))
            shown = select(index == 0, new, _fold(rules, group.shown, new))
            now = _Group(new_state, shown, new.terminated | new.truncated)
            one_more = repeats + jnp.where(group.ended, jnp.int32(0), jnp.int32(1))
            return (select(group.ended, group, now), one_more), None

        shape = jax.eval_shape(env.step, state, action, key)[1]
        start = _Group(state, jax.tree.map(_zeros, shape), jnp.zeros((), jnp.bool_))
        indices = jnp.arange(n, dtype=jnp.int32)
        (group, repeats), _ = jax.lax.scan(substep, (start, jnp.zeros((), jnp.int32)), indices)
        return group.state, count(group.shown, repeats)

    return Environment(spec, reset, step)


# --- time limit ----------------------------------------------------------------------------------


class LimitState(NamedTuple):
    """The wrapped environment's state, and [] int32 steps done in this episode."""

    inner: State
    step: Array


def time_limit(env: Environment, steps: int) -> Environment:
    """Truncates an episode at its `steps`-th step, unless that step terminates it.

    Args:
      env: the environment.
      steps: steps of `env` (groups, if it repeats actions) after which an episode is cut.

    Returns:
      An environment that never terminates and truncates at once.

    Raises:
      SpecError: `steps` is no integer of 1 or more.
    """
    _check_count("time_limit", "steps", steps)

    def reset(key: Array) -> tuple[LimitState, Timestep]:
        state, ts = env.reset(key)
        return LimitState(state, jnp.zeros((), jnp.int32)), ts

    def step(state: LimitState, action: Array, key: Array) -> tuple[LimitState, Timestep]:
        inner, ts = env.step(state.inner, action, key)
        count = state.step + jnp.int32(1)
        truncated = (ts.truncated | (count >= steps)) & ~ts.terminated
        return LimitState(inner, count), ts._replace(truncated=truncated)

    return Environment(env.spec, reset, step)


# --- NaN guard -----------------------------------------------------------------------------------


class GuardState(NamedTuple):
    """The wrapped environment's state, and its last observation [O] float32."""

    inner: State
    obs: Array


def _all_finite(tree: State) -> Array:
    floats = [x for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.floating)]
    flag = jnp.ones((), jnp.bool_)
    for leaf in floats:
        flag = flag & jnp.all(jnp.isfinite(leaf))
    return flag


def nan_guard(env: Environment) -> Environment:
    """Ends an episode whose new state, observation, reward or info holds a NaN or an infinity.

    In that step the state and the observation stay those of the step before, the reward and the
    info are 0, `terminated` is set, and `info["nonfinite"]` is 1; otherwise it is 0. Values are
    chosen by select, so that nothing non-finite goes on. A start that is non-finite shows a zero
    observation and `nonfinite` 1, and terminates at its first step unless that step mends it.

    Args:
      env: the environment.

    Returns:
      An environment with one more info entry, `nonfinite` (int32, 0 or 1).

    Raises:
      SpecError: the environment is guarded already.
    """
    spec = _with_info(env.spec, NONFINITE)

    def count(ts: Timestep, sound: Array) -> Timestep:
        nonfinite = jnp.where(sound, jnp.int32(0), jnp.int32(1))
        return ts._replace(info={**ts.info, NONFINITE.name: nonfinite})

    def reset(key: Array) -> tuple[GuardState, Timestep]:
        inner, ts = env.reset(key)
        sound = _all_finite((inner, ts))
        obs = jnp.where(sound, ts.obs, jnp.zeros_like(ts.obs))
        return GuardState(inner, obs), count(ts._replace(obs=obs, next_obs=obs), sound)

    def step(state: GuardState, action: Array, key: Array) -> tuple[GuardState, Timestep]:
        inner, ts = env.step(state.inner, action, key)
        sound = _all_finite((inner, ts))
        zero = jax.tree.map(jnp.zeros_like, (ts.reward, ts.info))
        safe = Timestep(state.obs, state.obs, zero[0], ~sound, jnp.zeros_like(sound), zero[1])
        ts = select(sound, ts, safe)
        return GuardState(select(sound, inner, state.inner), ts.obs), count(ts, sound)

    return Environment(spec, reset, step)


# --- stream of episodes --------------------------------------------------------------------------


class StreamState(NamedTuple):
    """N environments in the middle of their episodes.

    Attributes:
      state: tree of the environment's state, leaves [N, ...].
      obs: [N, O] float32, the observation to act on.
      environment_key: [N] typed keys, never consumed.
      episode_key: [N] typed keys of the present episodes, never consumed.
      episode: [N] int32, episodes ended so far.
      step: [N] int32, steps done in the present episode.
    """

    state: State
    obs: Array
    environment_key: Array
    episode_key: Array
    episode: Array
    step: Array


@dataclasses.dataclass(frozen=True)
class Stream:
    """N environments side by side, each beginning a new episode when one ends.

    Attributes:
      spec: of one environment.
      num_envs: N.
      init: environment keys [N] -> (StreamState, Timestep [N, ...]).
      step: (StreamState, action [N, ...]) -> (StreamState, Timestep [N, ...]). `obs` is the one to
        act on next; `next_obs` is the one that the action led to, before any restart.
    """

    spec: EnvSpec
    num_envs: int
    init: Callable[[Array], tuple[StreamState, Timestep]]
    step: Callable[[StreamState, Array], tuple[StreamState, Timestep]]


def stream(env: Environment, num_envs: int) -> Stream:
    """Batches an environment, with a new start for every episode.

    Episode e of environment key k starts from step_key(episode_key(k, e), 0, PHYSICS), and its t-th
    step (t = 1, 2, ...) draws from step_key(episode_key(k, e), t, PHYSICS). A policy draws its t-th
    action from step_key(state.episode_key, state.step + 1, ACTION), with the state before the step.

    Args:
      env: the environment; without a time limit some tasks never end.
      num_envs: N.

    Returns:
      A pair of pure functions. The timestep of `init` holds 0 but for its observations.

    Raises:
      SpecError: `num_envs` is no integer of 1 or more, or `init` gets another number of keys.
      PurityError: by `init` and `step`, as `walls.walled` says.
    """
    _check_count("stream", "num_envs", num_envs)
    env = walls.walled(env)

    def init(environment_keys: Array) -> tuple[StreamState, Timestep]:
        if environment_keys.shape != (num_envs,):
            raise SpecError(
                f"environment_keys of stream: got shape {environment_keys.shape}, want "
                f"{(num_envs,)}, one typed key an environment."
            )
        zero = jnp.zeros((num_envs,), jnp.int32)
        keys = jax.vmap(episode_key)(environment_keys, zero)
        state, obs = begin(env, keys)
        off = jnp.zeros((num_envs,), jnp.bool_)
        info = {entry.name: jnp.zeros((num_envs,), entry.dtype) for entry in env.spec.info}
        ts = Timestep(obs, obs, jnp.zeros((num_envs,), jnp.float32), off, off, info)
        return StreamState(state, obs, environment_keys, keys, zero, zero), ts

    def step(now: StreamState, action: Array) -> tuple[StreamState, Timestep]:
        count = now.step + jnp.int32(1)
        physics = jax.vmap(lambda key, t: step_key(key, t, Purpose.PHYSICS))(now.episode_key, count)
        state, ts = jax.vmap(env.step)(now.state, action, physics)
        ended = ts.terminated | ts.truncated
        episode = now.episode + ended.astype(jnp.int32)
        keys = jax.vmap(episode_key)(now.environment_key, episode)
        state, obs = restart(env, keys, ended, (state, ts.obs))
        count = jnp.where(ended, jnp.int32(0), count)
        after = StreamState(state, obs, now.environment_key, keys, episode, count)
        return after, ts._replace(obs=obs)

    return Stream(env.spec, num_envs, init, step)
