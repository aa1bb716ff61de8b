"""The policy graph: the one forward pass that rollout, rescoring and the update trace.

In native numerics the compiler may fuse the forward pass with whatever stands next to it, and so
round it differently in the rollout (next to the sampling) than in the rescoring. `isolate` keeps
the graph in a unit of its own, which both programs then compile alike.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlkjax import distribution, normalize
from rlkjax.config import Config
from rlkjax.distribution import Distribution
from rlkjax.network import ActorCritic
from rlkjax.types import Array, Params, PolicyState
from vimejax.types import EnvSpec


class Policy(NamedTuple):
    """A network and its distribution, as pure functions.

    Attributes:
      distribution: what the outputs mean.
      init: key -> params; consumes the key.
      forward: (policy_state, obs [..., O]) -> (outputs [..., P], value [...]), float32.
      value: (policy_state, obs [..., O]) -> value [...], float32.
    """

    distribution: Distribution
    init: Callable[[Array], Params]
    forward: Callable[[PolicyState, Array], tuple[Array, Array]]
    value: Callable[[PolicyState, Array], Array]


def make_policy(config: Config, spec: EnvSpec) -> Policy:
    """Builds the policy for one environment.

    Args:
      config: network and observation settings.
      spec: observation size and kind of action.

    Returns:
      Pure functions; the observation normaliser is part of the graph.
    """
    family = distribution.for_action(spec.action)
    net = ActorCritic(
        family.size,
        config.network.policy_hidden,
        config.network.value_hidden,
        config.network.shared_torso,
        config.network.activation,
    )

    def inputs(state: PolicyState, obs: Array) -> Array:
        if not config.observations.normalize:
            return obs
        return normalize.apply(state.obs_stats, obs, config.observations.clip)

    def init(key: Array) -> Params:
        return net.init(key, jnp.zeros((1, spec.obs_size), jnp.float32))["params"]

    def policy_forward(state: PolicyState, obs: Array) -> tuple[Array, Array]:
        return net.apply({"params": state.params}, inputs(state, obs))

    def policy_value(state: PolicyState, obs: Array) -> Array:
        return net.apply({"params": state.params}, inputs(state, obs), method="value")

    return Policy(family, init, policy_forward, policy_value)


def named(fn: Callable) -> Callable:
    """The same function as a function of its own in the lowered program, which may be inlined.

    Args:
      fn: arrays -> tree of arrays.

    Returns:
      The same mapping; its name is the one by which the audit finds it.
    """
    return jax.jit(fn)


def isolate(fn: Callable) -> Callable:
    """The same function, compiled in a unit that nothing outside is fused into.

    On CPU the unit is a branch of a conditional whose predicate is always true, which no compiler
    can prove: r * r mod 8 is never 5 for any integer r. (An optimization barrier is dropped there
    before fusion, and a call is inlined.) Other backends keep a barrier.

    Args:
      fn: arrays -> tree of arrays. Its name becomes the name of the function in the lowered
        program, by which the audit finds it. The first leaf of its last argument must be a 32-bit
        array that is not empty.

    Returns:
      The same mapping. Sharp edge: under vmap the predicate stays unbatched only if the arguments
      do; use it on whole batches.
    """
    inner = named(fn)

    def unit(*args):
        shapes = jax.eval_shape(fn, *args)
        word = jax.lax.bitcast_convert_type(jax.tree.leaves(args[-1])[0].reshape(-1)[0], jnp.uint32)
        return jax.lax.cond(
            word * word % 8 != 5,
            inner,
            lambda *_: jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes),
            *args,
        )

    def barrier(*args):
        return jax.lax.optimization_barrier(inner(*jax.lax.optimization_barrier(args)))

    def isolated(*args):
        return jax.lax.platform_dependent(*args, cpu=unit, default=barrier)

    return isolated
