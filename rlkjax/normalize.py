"""Running mean and variance by a Welford merge that never forms a product of two counts."""

import jax
import jax.numpy as jnp

from rlkjax import formulas
from rlkjax.types import Array, RunningStats

TWO_32 = 2.0**32


def init(size: int) -> RunningStats:
    """Statistics of no samples: mean 0, variance 1, so that `apply` is the identity.

    Args:
      size: O, length of a sample.

    Returns:
      Statistics with count 0.
    """
    zero = jnp.zeros((), jnp.uint32)
    return RunningStats(zero, zero, jnp.zeros((size,), jnp.float32), jnp.ones((size,), jnp.float32))


def count(stats: RunningStats) -> Array:
    """Number of samples, count_high * 2^32 + count_low, rounded to float32.

    Args:
      stats: the statistics.

    Returns:
      [] float32.
    """
    return stats.count_high.astype(jnp.float32) * TWO_32 + stats.count_low.astype(jnp.float32)


def merge(stats: RunningStats, samples: Array) -> RunningStats:
    """Statistics of all samples so far, the new ones included.

    With w = n / (count + n) and d = mean(samples) - mean:
      mean' = mean + w d;  variance' = (1 - w) variance + w var(samples) + w (1 - w) d^2

    Args:
      stats: statistics so far.
      samples: [..., O] float32, n >= 1 samples; reduced over all leading axes, in XLA's order.

    Returns:
      Merged statistics. The count is exact up to 2^64.

    Source: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample
      variances" (1979), eq. 2.1, divided by the count so that no product of counts is formed.
    """
    n = samples.size // samples.shape[-1]
    axes = tuple(range(samples.ndim - 1))
    mean = jnp.mean(samples, axes)
    variance = jnp.mean(jnp.square(samples - mean), axes)
    low = stats.count_low + jnp.uint32(n)
    high = stats.count_high + (low < stats.count_low).astype(jnp.uint32)
    total = stats._replace(count_high=high, count_low=low)
    weight = jnp.float32(n) / count(total)
    delta = mean - stats.mean
    return RunningStats(
        high,
        low,
        stats.mean + weight * delta,
        (1 - weight) * stats.variance
        + weight * variance
        + weight * (1 - weight) * jnp.square(delta),
    )


def apply(stats: RunningStats, samples: Array, clip: float) -> Array:
    """Centres, scales and clips: clip((x - mean) / sqrt(variance + 1e-8), -clip, clip).

    Args:
      stats: frozen statistics.
      samples: [..., O] float32.
      clip: bound of the result, in standard deviations.

    Returns:
      [..., O] float32 in [-clip, clip].
    """
    scale = jax.lax.rsqrt(stats.variance + 1e-8)
    return formulas.clip((samples - stats.mean) * scale, -clip, clip)
