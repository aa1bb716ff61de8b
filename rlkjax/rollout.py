"""Rollout and rescoring: two programs around one policy graph."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlkjax.policy import Policy
from rlkjax.types import (
    Array,
    Episodes,
    EpisodeTotals,
    PolicyState,
    Rescore,
    Segment,
    WorldState,
)
from vimejax import keys
from vimejax.types import Timestep
from vimejax.wrap import Stream, StreamState

step_keys = jax.vmap(keys.step_key, (0, 0, None))


class PolicyGraph(NamedTuple):
    """The units of the policy that rollout and rescoring share, each compiled in isolation.

    Attributes:
      forward: (policy_state, obs [N, O]) -> (outputs [N, P], value [N]).
      log_prob: (outputs [N, P], action [N, ...]) -> [N].
      value: (policy_state, obs [N, O]) -> [N].
    """

    forward: Callable[[PolicyState, Array], tuple[Array, Array]]
    log_prob: Callable[[Array, Array], Array]
    value: Callable[[PolicyState, Array], Array]


RolloutFn = Callable[[PolicyState, WorldState], tuple[WorldState, Segment, EpisodeTotals]]
RescoreFn = Callable[[PolicyState, Segment], Rescore]


def policy_graph(policy: Policy, isolate: Callable[[Callable], Callable]) -> PolicyGraph:
    """Puts each unit of the policy behind `isolate`.

    Args:
      policy: the pure functions.
      isolate: `policy.isolate` in native numerics; the identity where the bits are defined.

    Returns:
      The shared units.
    """

    def policy_log_prob(outputs: Array, action: Array) -> Array:
        return policy.distribution.log_prob(outputs, action)

    return PolicyGraph(isolate(policy.forward), isolate(policy_log_prob), isolate(policy.value))


def init_episodes(num_envs: int) -> Episodes:
    """Running totals at the start of every environment's episode.

    Args:
      num_envs: N.

    Returns:
      Zeros.
    """
    return Episodes(jnp.zeros(num_envs, jnp.float32), jnp.zeros(num_envs, jnp.int32))


def _count(episodes: Episodes, step: Timestep) -> tuple[Episodes, Episodes]:
    """Totals carried on, and totals of the episodes that ended at this step (zero elsewhere)."""
    ended = step.terminated | step.truncated
    now = Episodes(episodes.return_ + step.reward, episodes.length + 1)
    carried = jax.tree.map(lambda x: jnp.where(ended, jnp.zeros_like(x), x), now)
    finished = jax.tree.map(lambda x: jnp.where(ended, x, jnp.zeros_like(x)), now)
    return carried, finished


def make_rollout(
    policy: Policy,
    graph: PolicyGraph,
    stream: Stream,
    *,
    unroll_length: int,
    reward_dtype: str,
) -> RolloutFn:
    """Builds the stage that lets the policy act for `unroll_length` steps in every environment.

    Args:
      policy: for sampling.
      graph: the shared units of the policy.
      stream: N environments as an endless stream of episodes.
      unroll_length: T.
      reward_dtype: "float32", or "float16" when that switch is on.

    Returns:
      (policy_state, world_state) -> (world_state', segment, totals). Keys come from the addresses
      that the stream carries: (seed, environment, episode, step, ACTION).
    """
    sample = jax.vmap(policy.distribution.sample)

    def act(state: PolicyState, world: StreamState) -> tuple[Array, Array, Array]:
        outputs, value = graph.forward(state, world.obs)
        key = step_keys(world.episode_key, world.step + 1, keys.Purpose.ACTION)
        action = sample(key, outputs)
        return action, graph.log_prob(outputs, action), value

    def rollout(state: PolicyState, world: WorldState) -> tuple[WorldState, Segment, EpisodeTotals]:
        def one_step(carry: WorldState, _: None) -> tuple[WorldState, tuple[Segment, Episodes]]:
            action, log_prob, value = act(state, carry.stream)
            stream_state, step = stream.step(carry.stream, policy.distribution.to_env(action))
            episodes, finished = _count(carry.episodes, step)
            segment = Segment(
                obs=carry.stream.obs,
                next_obs=step.next_obs,
                action=action,
                log_prob=log_prob,
                value=value,
                reward=step.reward.astype(reward_dtype),
                terminated=step.terminated,
                truncated=step.truncated,
                info=step.info,
            )
            return WorldState(stream_state, episodes), (segment, finished)

        world, (segment, finished) = jax.lax.scan(one_step, world, length=unroll_length)
        totals = EpisodeTotals(
            episodes=jnp.sum(segment.terminated | segment.truncated, dtype=jnp.int32),
            return_sum=jnp.sum(finished.return_),
            length_sum=jnp.sum(finished.length),
            nonfinite=jnp.sum(segment.info["nonfinite"]),
        )
        return world, segment, totals

    return rollout


def make_rescore(graph: PolicyGraph) -> RescoreFn:
    """Builds the training side's own forward pass over the bytes of a segment.

    The value after a step is that of the next stored observation where the episode goes on; where
    it was truncated, and after the last step, the value of the observation before any reset. After
    a termination the value is never used, and is that of the next stored observation.

    Args:
      graph: the shared units of the policy.

    Returns:
      (policy_state, segment) -> rescore.
    """

    def rescore(state: PolicyState, segment: Segment) -> Rescore:
        def one_step(_, step):
            obs, action, next_obs, truncated = step
            outputs, value = graph.forward(state, obs)
            cut_value = jax.lax.cond(
                jnp.any(truncated),
                graph.value,
                lambda _, x: jnp.zeros(x.shape[:1], jnp.float32),
                state,
                next_obs,
            )
            return None, (graph.log_prob(outputs, action), value, cut_value)

        truncated = segment.truncated.at[-1].set(True)
        _, (log_prob, value, cut_value) = jax.lax.scan(
            one_step, None, (segment.obs, segment.action, segment.next_obs, truncated)
        )
        following = jnp.concatenate([value[1:], value[-1:]])
        return Rescore(log_prob, value, jnp.where(truncated, cut_value, following))

    return rescore
