"""The records that the stages hand to one another. Axes: T time, N environments, O observation."""

from typing import Any, NamedTuple

import jax

Array = jax.Array
Params = Any  # a tree of float32 arrays


class RunningStats(NamedTuple):
    """Mean and variance of a stream of vectors, with a count of two words that never overflows.

    Attributes:
      count_high: [] uint32. Samples seen, divided by 2^32.
      count_low: [] uint32. The remainder.
      mean: [O] float32.
      variance: [O] float32, population variance.
    """

    count_high: Array
    count_low: Array
    mean: Array
    variance: Array


class PolicyState(NamedTuple):
    """All that decides which action follows an observation.

    Attributes:
      params: tree of float32 arrays.
      obs_stats: running statistics of observations, frozen within an iteration.
    """

    params: Params
    obs_stats: RunningStats


class LearningRate(NamedTuple):
    """A linear schedule as data, so that no rate is baked into a program.

    Attributes:
      initial: [] float32. Rate of iteration 0.
      slope: [] float32. Decrease from one iteration to the next; 0 keeps the rate constant.
    """

    initial: Array
    slope: Array


class RewardScale(NamedTuple):
    """State of running reward normalisation; it stays untouched while the switch is off.

    Attributes:
      stats: running statistics [1] of discounted returns.
      discounted_return: [N] float32, reward units.
    """

    stats: RunningStats
    discounted_return: Array


class TrainState(NamedTuple):
    """All that the learner carries from one iteration to the next.

    Attributes:
      policy: parameters and observation statistics.
      optimizer: state of the gradient transformation.
      learning_rate: the schedule.
      reward_scale: state of reward normalisation.
      iteration: [] uint32, iterations finished.
    """

    policy: PolicyState
    optimizer: Any
    learning_rate: LearningRate
    reward_scale: RewardScale
    iteration: Array


class Episodes(NamedTuple):
    """Running totals of the episode that each environment is in.

    Attributes:
      return_: [N] float32, reward units, undiscounted.
      length: [N] int32, steps.
    """

    return_: Array
    length: Array


class WorldState(NamedTuple):
    """All that the environments carry from one iteration to the next.

    Attributes:
      stream: state of the endless stream of episodes.
      episodes: running totals.
    """

    stream: Any
    episodes: Episodes


class Segment(NamedTuple):
    """One rollout: T steps of N environments, as the rollout claims them.

    Attributes:
      obs: [T, N, O] float32, what the policy saw.
      next_obs: [T, N, O] float32, where the action led, before any auto-reset.
      action: [T, N] int32, or [T, N, A] float32 before squashing.
      log_prob: [T, N] float32, nats.
      value: [T, N] float32, scaled reward units.
      reward: [T, N] float32 (or float16 when that switch is on), task reward units.
      terminated: [T, N] bool.
      truncated: [T, N] bool.
      info: name -> [T, N] float32 or int32.
    """

    obs: Array
    next_obs: Array
    action: Array
    log_prob: Array
    value: Array
    reward: Array
    terminated: Array
    truncated: Array
    info: dict[str, Array]


class EpisodeTotals(NamedTuple):
    """Sums over the episodes that ended inside one segment.

    Attributes:
      episodes: [] int32, how many.
      return_sum: [] float32, reward units.
      length_sum: [] int32, steps.
      nonfinite: [] int32, steps that the NaN guard replaced.
    """

    episodes: Array
    return_sum: Array
    length_sum: Array
    nonfinite: Array


class Rescore(NamedTuple):
    """What the training side's own forward pass makes of a segment.

    Attributes:
      log_prob: [T, N] float32, nats.
      value: [T, N] float32, scaled reward units.
      bootstrap_value: [T, N] float32, value of `next_obs`; without meaning after a termination.
    """

    log_prob: Array
    value: Array
    bootstrap_value: Array


class Advantages(NamedTuple):
    """What each action was worth.

    Attributes:
      advantage: [T, N] float32, scaled reward units.
      return_: [T, N] float32, advantage + value: the target of the value head.
    """

    advantage: Array
    return_: Array


class UpdateInfo(NamedTuple):
    """Diagnostics of one update: [] float32 means over its minibatches, unless they say else.

    Attributes:
      policy_loss: clipped surrogate, negated.
      value_loss: half mean squared error.
      entropy: nats.
      approx_kl: mean of ratio - 1 - log(ratio), nats.
      clip_fraction: share of ratios outside the clip range.
      grad_norm: global norm before clipping.
      learning_rate: rate used.
      first_ratio_not_one: share of ratios of the very first minibatch that are not exactly 1.
      first_ratio_ulp: [] int32, largest distance of those ratios from 1, in last-place units.
      ratio_not_one: share over all minibatches.
      ratio_ulp: [] int32, largest distance over all minibatches.
    """

    policy_loss: Array
    value_loss: Array
    entropy: Array
    approx_kl: Array
    clip_fraction: Array
    grad_norm: Array
    learning_rate: Array
    first_ratio_not_one: Array
    first_ratio_ulp: Array
    ratio_not_one: Array
    ratio_ulp: Array
