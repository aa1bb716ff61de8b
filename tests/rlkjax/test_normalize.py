"""Running statistics: counts past every word, hand-worked merges, parts against the whole."""

import jax.numpy as jnp
import numpy as np
import pytest

from rlkjax import normalize
from rlkjax.types import RunningStats


def stats(count, mean=0.0, variance=1.0):
    return RunningStats(
        jnp.uint32(count >> 32),
        jnp.uint32(count & 0xFFFFFFFF),
        jnp.array([mean], jnp.float32),
        jnp.array([variance], jnp.float32),
    )


def whole_count(got):
    return (int(got.count_high) << 32) + int(got.count_low)


def test_no_samples_is_the_identity_within_the_clip():
    empty = normalize.init(2)
    assert whole_count(empty) == 0
    x = jnp.array([[0.5, -3.0], [11.0, -12.0]], jnp.float32)
    # 1 / sqrt(1 + 1e-8) is 1 in float32, since 1e-8 is below half of its last place 2^-23.
    assert normalize.apply(empty, x, 10.0).tolist() == [[0.5, -3.0], [10.0, -10.0]]


def test_a_first_merge_gives_the_statistics_of_the_samples():
    # 1, 2, 3, 6: mean 12/4 = 3, variance (4 + 1 + 0 + 9)/4 = 3.5
    got = normalize.merge(normalize.init(1), jnp.array([[1.0], [2.0], [3.0], [6.0]], jnp.float32))
    assert (whole_count(got), got.mean.tolist(), got.variance.tolist()) == (4, [3.0], [3.5])


def test_a_merge_by_hand():
    # 4 samples of mean 3 and variance 3.5; then 4 of mean 7 and variance 1 (6, 6, 8, 8).
    # w = 4/8, d = 4: mean 3 + 2 = 5; variance 3.5/2 + 1/2 + 16/4 = 6.25
    got = normalize.merge(stats(4, 3.0, 3.5), jnp.array([[6.0], [6.0], [8.0], [8.0]], jnp.float32))
    assert (whole_count(got), got.mean.tolist(), got.variance.tolist()) == (8, [5.0], [6.25])


def test_the_weight_after_two_million_samples():
    # w = 40,960 / 2,040,960 = 0.0200690...; a 32-bit product of the counts would wrap to
    # 315,621,376 in the place of 81,920,000,000. Old mean 0, new samples all 1: the mean is w.
    got = normalize.merge(stats(2_000_000), jnp.ones((40_960, 1), jnp.float32))
    assert whole_count(got) == 2_040_960
    assert float(got.mean[0]) == pytest.approx(40_960 / 2_040_960, rel=1e-6)
    # variance (1 - w) 1 + w 0 + w (1 - w) 1 = 1 - w^2
    assert float(got.variance[0]) == pytest.approx(1 - (40_960 / 2_040_960) ** 2, rel=1e-6)


@pytest.mark.parametrize(
    ("before", "added"),
    [(2**24, 1), (2**31 - 10, 40_960), (2**32 - 1, 1), (2**32 - 5, 12), (2**40 + 2**32 - 1, 3)],
)
def test_counts_never_stop_or_wrap(before, added):
    got = normalize.merge(stats(before), jnp.ones((added, 1), jnp.float32))
    assert whole_count(got) == before + added
    assert 0.0 < float(got.mean[0]) <= 1.0
    assert np.isfinite(np.asarray(got.variance)).all()


def test_the_count_in_float32():
    # 3 * 2^32 + 2^31 = 3.5 * 2^32 is exact in float32.
    assert float(normalize.count(stats(3 * 2**32 + 2**31))) == 3.5 * 2.0**32


@pytest.mark.parametrize("parts", [1, 2, 7, 50])
def test_parts_and_the_whole_agree(parts):
    samples = np.random.default_rng(parts).normal(3.0, 2.0, (700, 4)).astype(np.float32)
    got = normalize.init(4)
    for part in np.split(samples, parts):
        got = normalize.merge(got, jnp.asarray(part))
    exact = samples.astype(np.float64)
    assert whole_count(got) == 700
    # Each merge rounds a handful of times at relative 2^-24; 50 merges stay below 2e-5.
    np.testing.assert_allclose(np.asarray(got.mean), exact.mean(0), rtol=2e-5)
    np.testing.assert_allclose(np.asarray(got.variance), exact.var(0), rtol=2e-5)


def test_leading_axes_are_all_reduced():
    samples = jnp.arange(24, dtype=jnp.float32).reshape(2, 4, 3)
    flat = normalize.merge(normalize.init(3), samples.reshape(8, 3))
    split = normalize.merge(normalize.init(3), samples)
    # Column j holds j, j + 3, ..., j + 21: mean j + 10.5, variance 9 (8^2 - 1) / 12 = 47.25
    for got in (flat, split):
        assert got.mean.tolist() == [10.5, 11.5, 12.5]
        assert got.variance.tolist() == [47.25, 47.25, 47.25]


def test_a_constant_column_is_centred_and_stays_finite():
    got = normalize.merge(normalize.init(1), jnp.full((16, 1), 5.0, jnp.float32))
    assert got.variance.tolist() == [0.0]
    assert normalize.apply(got, jnp.full((3, 1), 5.0, jnp.float32), 10.0).tolist() == [[0.0]] * 3
    assert normalize.apply(got, jnp.full((1, 1), 6.0, jnp.float32), 10.0).tolist() == [[10.0]]
