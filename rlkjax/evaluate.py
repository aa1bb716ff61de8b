"""Evaluation: whole episodes with the deterministic policy, in environments of their own."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlkjax.config import Config
from rlkjax.policy import Policy
from rlkjax.rollout import init_episodes
from rlkjax.types import Array, Episodes, PolicyState
from vimejax import keys, wrap
from vimejax.types import Environment

Carry = tuple[wrap.StreamState, Episodes, Array]  # environments, totals, which still run


def make_evaluate(
    config: Config, policy: Policy, env: Environment
) -> Callable[[PolicyState, Array], Episodes]:
    """Builds the stage that measures a policy over `evaluation.episodes` first episodes.

    Args:
      config: number of episodes, and the seed.
      policy: acts by the mode of its distribution.
      env: one wrapped environment.

    Returns:
      (policy_state, number) -> episodes, [E] each. `number` ([] uint32) tells evaluations apart:
      each has environments of its own, from number * E on in the run's EVALUATE stream.
    """
    episodes = config.evaluation.episodes
    stream = wrap.stream(env, episodes)

    def evaluate(state: PolicyState, number: Array) -> Episodes:
        run = keys.run_key(config.seed, keys.Stream.EVALUATE)
        index = number * jnp.uint32(episodes) + jnp.arange(episodes, dtype=jnp.uint32)
        world, _ = stream.init(jax.vmap(keys.environment_key, (None, 0))(run, index))

        def going(carry: Carry) -> Array:
            return jnp.any(carry[2])

        def one_step(carry: Carry) -> Carry:
            world, totals, alive = carry
            outputs, _ = policy.forward(state, world.obs)
            action = policy.distribution.mode(outputs)
            world, step = stream.step(world, policy.distribution.to_env(action))
            totals = Episodes(
                jnp.where(alive, totals.return_ + step.reward, totals.return_),
                jnp.where(alive, totals.length + 1, totals.length),
            )
            return world, totals, alive & ~(step.terminated | step.truncated)

        start = (world, init_episodes(episodes), jnp.ones(episodes, jnp.bool_))
        return jax.lax.while_loop(going, one_step, start)[1]

    return evaluate
