"""Evaluation: whole episodes with the deterministic policy, in environments of their own."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlkjax.config import Config
from rlkjax.policy import Policy
from rlkjax.rollout import init_episodes, step_keys
from rlkjax.types import Array, Episodes, PolicyState
from vimejax import keys
from vimejax.restart import begin
from vimejax.types import Environment, State

Carry = tuple[State, Array, Episodes, Array, Array]  # state, obs, totals, still running, step


def episode_keys(config: Config, number: Array) -> Array:
    """The keys of the episodes of one evaluation.

    Args:
      config: number of episodes, and the seed.
      number: [] uint32, of the evaluation.

    Returns:
      [E] typed keys, each the first episode of an environment that no other evaluation has.
    """
    episodes = config.evaluation.episodes
    run = keys.run_key(config.seed, keys.Stream.EVALUATE)
    index = number * jnp.uint32(episodes) + jnp.arange(episodes, dtype=jnp.uint32)
    environments = jax.vmap(keys.environment_key, (None, 0))(run, index)
    return jax.vmap(keys.episode_key, (0, None))(environments, jnp.int32(0))


def make_evaluate(
    config: Config, policy: Policy, env: Environment
) -> Callable[[PolicyState, Array], Episodes]:
    """Builds the stage that measures a policy over `evaluation.episodes` episodes.

    Args:
      config: number of episodes, and the seed.
      policy: acts by the mode of its distribution.
      env: one wrapped environment.

    Returns:
      (policy_state, number) -> episodes, [E] each. `number` ([] uint32) tells evaluations apart:
      each has environments of its own, from number * E on in the run's EVALUATE stream. No
      environment begins a second episode, so the program holds no restart.
    """
    episodes = config.evaluation.episodes

    def evaluate(state: PolicyState, number: Array) -> Episodes:
        episode = episode_keys(config, number)

        def going(carry: Carry) -> Array:
            return jnp.any(carry[3])

        def one_step(carry: Carry) -> Carry:
            world, obs, totals, alive, count = carry
            outputs, _ = policy.forward(state, obs)
            action = policy.distribution.to_env(policy.distribution.mode(outputs))
            count = count + jnp.int32(1)
            physics = step_keys(episode, jnp.broadcast_to(count, episodes), keys.Purpose.PHYSICS)
            world, step = jax.vmap(env.step)(world, action, physics)
            totals = Episodes(
                jnp.where(alive, totals.return_ + step.reward, totals.return_),
                jnp.where(alive, totals.length + 1, totals.length),
            )
            alive = alive & ~(step.terminated | step.truncated)
            return world, step.obs, totals, alive, count

        alive = jnp.ones(episodes, jnp.bool_)
        start = (*begin(env, episode), init_episodes(episodes), alive, jnp.int32(0))
        return jax.lax.while_loop(going, one_step, start)[2]

    return evaluate
