"""Five probe worlds: each is solved by one part of a learner alone, and its right values are known.

Source: the idea of probe environments is common in debugging of reinforcement learning; worlds,
names and values here are our own. With discount g:

    probe_constant    one step, obs 0, reward 1                        V(0) = 1
    probe_obs         one step, obs drawn from {-1, 1}, reward = obs   V(obs) = obs
    probe_delayed     two steps, obs 0 then 1, reward 0 then 1         V(0) = g, V(1) = 1
    probe_action      one step, obs 0, reward +1 for action 1, else -1 best action 1, V(0) = 1
    probe_both        one step, obs drawn from {-1, 1}, reward +1 where
                      action 1 meets obs 1 or action 0 meets obs -1,
                      else -1                                          best action (obs + 1) / 2

Every world terminates at its last step; the final observation repeats the one before it, but in
probe_delayed, where the observation counts the steps.
"""

import jax
import jax.numpy as jnp

from vimejax.types import Array, Discrete, Environment, EnvSpec, Timestep, timestep


def _spec(name: str) -> EnvSpec:
    return EnvSpec(name, obs_size=1, action=Discrete(2))


def _zero_reset(key: Array) -> tuple[Array, Timestep]:
    del key  # nothing is drawn
    obs = jnp.zeros((1,), jnp.float32)
    return obs, timestep(obs)


def _sign_reset(key: Array) -> tuple[Array, Timestep]:
    up = jax.random.bits(key, (1,), jnp.uint32) >= jnp.uint32(1 << 31)
    obs = jnp.where(up, jnp.float32(1.0), jnp.float32(-1.0))
    return obs, timestep(obs)


def make_constant() -> Environment:
    """probe_constant: reward 1 whatever happens. Tests that a value reaches a constant.

    Returns:
      An environment of one step with obs [1] float32 equal to 0, and two actions that do nothing.
    """

    def step(obs: Array, action: Array, key: Array) -> tuple[Array, Timestep]:
        del action, key
        return obs, timestep(obs, 1.0, True)

    return Environment(_spec("probe_constant"), _zero_reset, step)


def make_obs() -> Environment:
    """probe_obs: reward = obs. Tests that a value depends on the observation.

    Returns:
      An environment of one step with obs [1] float32 in {-1, 1}, and two actions that do nothing.
    """

    def step(obs: Array, action: Array, key: Array) -> tuple[Array, Timestep]:
        del action, key
        return obs, timestep(obs, obs[0], True)

    return Environment(_spec("probe_obs"), _sign_reset, step)


def make_delayed() -> Environment:
    """probe_delayed: the reward comes one step late. Tests the discount and the bootstrap.

    Returns:
      An environment of two steps with obs [1] float32 equal to the number of steps done (0, 1 and,
      at the end, 2), and two actions that do nothing.
    """

    def step(obs: Array, action: Array, key: Array) -> tuple[Array, Timestep]:
        del action, key
        second = obs[0] == 1.0
        obs = obs + 1.0
        reward = jnp.where(second, jnp.float32(1.0), jnp.float32(0.0))
        return obs, timestep(obs, reward, second)

    return Environment(_spec("probe_delayed"), _zero_reset, step)


def make_action() -> Environment:
    """probe_action: action 1 is right. Tests that a policy prefers a better action.

    Returns:
      An environment of one step with obs [1] float32 equal to 0, and two actions.
    """

    def step(obs: Array, action: Array, key: Array) -> tuple[Array, Timestep]:
        del key
        reward = jnp.where(action == 1, jnp.float32(1.0), jnp.float32(-1.0))
        return obs, timestep(obs, reward, True)

    return Environment(_spec("probe_action"), _zero_reset, step)


def make_both() -> Environment:
    """probe_both: action must agree with obs. Tests that a policy depends on the observation.

    Returns:
      An environment of one step with obs [1] float32 in {-1, 1}, and two actions.
    """

    def step(obs: Array, action: Array, key: Array) -> tuple[Array, Timestep]:
        del key
        right = (action == 1) == (obs[0] > 0.0)
        reward = jnp.where(right, jnp.float32(1.0), jnp.float32(-1.0))
        return obs, timestep(obs, reward, True)

    return Environment(_spec("probe_both"), _sign_reset, step)
