"""Rules between the keys of a config, checked before anything compiles.

Each message shows the numbers that do not fit and the nearest ones that do.
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

from rlkjax.config_schema import Config
from rlkjax.config_yaml import Problem

_TINY = 2.0**-126  # smallest normal float32: XLA flushes what is below to zero
_HUGE = float.fromhex("0x1.fffffep+127")


def check(config: Config) -> list[Problem]:
    """All rules that a config breaks.

    Args:
      config: a config whose fields are each in range.

    Returns:
      Problems, in the order of the keys; empty when the config can run.
    """
    return [
        *_float32(config),
        *_batch(config),
        *_lengths(config),
        *_networks(config),
        *_numerics(config),
    ]


def samples(config: Config) -> int:
    """Samples of one iteration: num_envs * unroll_length."""
    return config.rollout.num_envs * config.rollout.unroll_length


def steps_per_iteration(config: Config) -> int:
    """Environment steps of one iteration: num_envs * unroll_length * action_repeat."""
    return samples(config) * config.env.action_repeat


def nearest_divisors(total: int, near: int, smallest_part: int) -> list[int]:
    """Divisors of `total` next to `near` on both sides, with parts of at least `smallest_part`.

    Args:
      total: a positive integer.
      near: the number asked for.
      smallest_part: the least that total // divisor may be.

    Returns:
      At most two divisors, ascending; empty when there is none.
    """
    small = [each for each in range(1, math.isqrt(total) + 1) if total % each == 0]
    valid = [each for each in {*small, *(total // part for part in small)}]
    valid = sorted(each for each in valid if total // each >= smallest_part)
    below = [each for each in valid if each <= near]
    above = [each for each in valid if each > near]
    return below[-1:] + above[:1]


def _float32(record: Any, path: tuple[str, ...] = ()) -> Iterator[Problem]:
    """Numbers that float32 would turn into infinity or, flushed, into zero."""
    for field in dataclasses.fields(record):
        value, key = getattr(record, field.name), (*path, field.name)
        if dataclasses.is_dataclass(value):
            yield from _float32(value, key)
        elif isinstance(value, float) and value != 0 and not _TINY <= abs(value) <= _HUGE:
            yield Problem(
                key,
                None,
                f"got {value!r}, which float32 cannot hold; want 0 or a size from {_TINY:.3g} to "
                f"{_HUGE:.3g}",
            )


def _batch(config: Config) -> Iterator[Problem]:
    """Minibatches divide the samples, and none is too small for what is asked."""
    total, parts = samples(config), config.ppo.minibatches
    product = f"{config.rollout.num_envs} x {config.rollout.unroll_length} = {total} samples"
    key = ("ppo", "minibatches")
    if total > 2**31 - 1:
        yield Problem(
            ("rollout", "num_envs"),
            None,
            f"num_envs x unroll_length is {product}, want at most {2**31 - 1}; lower one of them",
        )
        return
    least = 2 if config.ppo.normalize_advantage else 1
    near = " or ".join(str(each) for each in nearest_divisors(total, parts, least))
    move = f"nearest that divide: {near}" if near else "raise rollout.unroll_length"
    if total % parts:
        yield Problem(
            key,
            None,
            f"got {parts}, which does not divide num_envs x unroll_length = {product} "
            f"(remainder {total % parts}); {move}",
        )
    elif config.ppo.normalize_advantage and total == parts:
        yield Problem(
            key,
            None,
            f"got {parts} for num_envs x unroll_length = {product}, a minibatch of 1 sample, whose "
            f"advantages cannot be normalised; {move}, or set ppo.normalize_advantage: false",
        )


def _lengths(config: Config) -> Iterator[Problem]:
    """Unroll, episode, action repeat and run length fit together."""
    unroll, episode = config.rollout.unroll_length, config.env.episode_length
    repeat, each = config.env.action_repeat, steps_per_iteration(config)
    if unroll > episode:
        yield Problem(
            ("rollout", "unroll_length"),
            None,
            f"got {unroll}, longer than env.episode_length {episode}; want at most {episode}, or "
            f"raise env.episode_length to {unroll}",
        )
    if repeat > episode:
        yield Problem(
            ("env", "action_repeat"),
            None,
            f"got {repeat}, longer than env.episode_length {episode}; want at most {episode}",
        )
    if config.total_steps < each:
        yield Problem(
            ("total_steps",),
            None,
            f"got {config.total_steps}, less than one iteration of num_envs x unroll_length x "
            f"action_repeat = {each} steps; want at least {each}",
        )
    elif -(-config.total_steps // each) > 2**31 - 1:
        yield Problem(
            ("total_steps",),
            None,
            f"got {config.total_steps}, which is more than {2**31 - 1} iterations of {each} "
            "steps; lower it or raise rollout.num_envs",
        )


def _numerics(config: Config) -> Iterator[Problem]:
    """Exact arithmetic is defined on float32 alone."""
    if config.numerics == "exact" and config.reward.dtype != "float32":
        yield Problem(
            ("reward", "dtype"),
            None,
            f"got {config.reward.dtype} with numerics: exact, which defines float32 only; want "
            "float32, or numerics: native",
        )
    elif config.audit.reference_every and config.reward.dtype != "float32":
        yield Problem(
            ("audit", "reference_every"),
            None,
            f"got {config.audit.reference_every} with reward.dtype {config.reward.dtype}, which "
            "the reference does not define; want 0, or reward.dtype: float32",
        )


def _networks(config: Config) -> Iterator[Problem]:
    """A shared torso has one list of layers."""
    network = config.network
    if network.shared_torso and network.value_hidden != network.policy_hidden:
        policy, value = list(network.policy_hidden), list(network.value_hidden)
        yield Problem(
            ("network", "value_hidden"),
            None,
            f"got {value} with shared_torso: true and policy_hidden {policy}; want both equal, or "
            "shared_torso: false",
        )
