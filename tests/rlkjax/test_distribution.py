"""Distributions: log-probabilities against float64, bounds of actions, entropies against draws."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlkjax import distribution, formulas
from vimejax.types import Continuous, Discrete

SATURATED = [0.0, 3.0, 5.0, 8.0, 20.0, -20.0]  # where tanh rounds to 1, and beyond

RAW_ONE = float(np.log(np.expm1(0.999)))  # softplus of it, plus 0.001, is a deviation of 1


def exact_log_det(z):
    """log(1 - tanh(z)^2) = -2 log cosh(z), in float64."""
    return -2.0 * math.log(math.cosh(z))


def exact_log_prob(z, mean, std):
    normal = -0.5 * ((z - mean) / std) ** 2 - math.log(std) - 0.5 * math.log(2 * math.pi)
    return normal - exact_log_det(z)


@pytest.mark.parametrize("z", SATURATED)
def test_log_det_tanh_where_tanh_is_saturated(z):
    got = float(jax.jit(distribution.log_det_tanh)(jnp.float32(z)))
    # Near z = 0 the terms of 2 (log 2 - z - softplus(-2z)) cancel: absolute, not relative, there.
    assert got == pytest.approx(exact_log_det(z), rel=1e-5, abs=2e-7)


def test_log_det_tanh_at_8():
    assert float(distribution.log_det_tanh(jnp.float32(8.0))) == pytest.approx(-14.613706, rel=1e-7)


@pytest.mark.parametrize("z", SATURATED)
def test_log_prob_and_gradient_of_saturated_actions(z):
    gaussian = distribution.squashed_gaussian(1)
    outputs = jnp.array([0.5, RAW_ONE], jnp.float32)
    action = jnp.array([z], jnp.float32)
    got, gradient = jax.jit(jax.value_and_grad(gaussian.log_prob))(outputs, action)
    assert float(got) == pytest.approx(exact_log_prob(z, 0.5, 1.0), rel=1e-5)
    assert np.isfinite(np.asarray(gradient)).all()
    # d/d mean = (z - mean) / std^2 = z - 0.5
    assert float(gradient[0]) == pytest.approx(z - 0.5, rel=1e-5)


def test_log_prob_sums_over_dimensions():
    gaussian = distribution.squashed_gaussian(2)
    outputs = jnp.array([0.0, 0.0, RAW_ONE, RAW_ONE], jnp.float32)
    # At 0 with mean 0 and deviation 1: twice -log(2 pi) / 2 = -1.8378770664
    assert float(gaussian.log_prob(outputs, jnp.zeros(2, jnp.float32))) == pytest.approx(
        -1.8378770664, rel=1e-6
    )


def test_actions_stay_in_bounds_for_a_million_wide_draws():
    gaussian = distribution.squashed_gaussian(1)
    outputs = jnp.broadcast_to(jnp.array([0.0, 10.0], jnp.float32), (1_000_000, 2))
    action = jax.jit(gaussian.sample)(jax.random.key(3), outputs)
    env_action = np.asarray(jax.jit(gaussian.to_env)(action))
    assert float(jnp.std(action)) == pytest.approx(10.0, rel=0.01)
    assert np.abs(env_action).max() == 1.0  # bounds are reached, and never passed
    log_prob = np.asarray(jax.jit(gaussian.log_prob)(outputs, action))
    assert np.isfinite(log_prob).all()


def test_a_deviation_never_reaches_zero():
    gaussian = distribution.squashed_gaussian(1)
    outputs = jnp.array([0.0, -1000.0], jnp.float32)
    # softplus(-1000) is 0, so the deviation is 0.001: log-density at the mean is
    # -log(0.001) - log(2 pi)/2 = 6.907755279 - 0.918938533 = 5.988816746
    got = gaussian.log_prob(outputs, jnp.zeros(1, jnp.float32))
    assert float(got) == pytest.approx(5.988816746, rel=1e-6)


def test_the_mode_is_the_mean():
    gaussian = distribution.squashed_gaussian(2)
    assert gaussian.mode(jnp.array([0.25, -4.0, 1.0, 1.0], jnp.float32)).tolist() == [0.25, -4.0]


@pytest.mark.parametrize(("mean", "raw"), [(0.0, -1.0), (0.5, 0.0), (-2.0, 0.5), (1.0, 1.0)])
def test_entropy_by_quadrature_against_a_million_draws(mean, raw):
    gaussian = distribution.squashed_gaussian(1)
    outputs = jnp.array([mean, raw], jnp.float32)
    many = jnp.broadcast_to(outputs, (1_000_000, 2))
    draws = jax.jit(gaussian.sample)(jax.random.key(11), many)
    estimate = -np.asarray(jax.jit(gaussian.log_prob)(many, draws), np.float64)
    # Seven nodes integrate polynomials up to degree 13; the draws add 0.002 nats at most.
    assert estimate.std() / 1000 < 0.002
    assert float(gaussian.entropy(outputs)) == pytest.approx(estimate.mean(), abs=0.01)


def test_entropy_is_too_high_for_wide_deviations():
    # A stated limit: deviation 3.05 has -1.155 nats (integral over 200,001 points), the rule says
    # 0.15 more.
    gaussian = distribution.squashed_gaussian(1)
    got = float(gaussian.entropy(jnp.array([0.0, 3.0], jnp.float32)))
    assert got == pytest.approx(-1.1552 + 0.1464, abs=1e-3)


def test_entropy_gradient_is_finite_far_out():
    gaussian = distribution.squashed_gaussian(1)
    for outputs in ([30.0, 5.0], [-30.0, -50.0], [0.0, 80.0]):
        gradient = jax.grad(gaussian.entropy)(jnp.array(outputs, jnp.float32))
        assert np.isfinite(np.asarray(gradient)).all()


def test_categorical_by_hand():
    # Logits log 1, log 2, log 5: probabilities 1/8, 2/8, 5/8.
    family = distribution.categorical(3)
    logits = jnp.log(jnp.array([1.0, 2.0, 5.0], jnp.float32))
    got = [float(family.log_prob(logits, jnp.int32(action))) for action in range(3)]
    assert np.exp(got).tolist() == pytest.approx([0.125, 0.25, 0.625], rel=1e-6)
    # H = 1/8 log 8 + 1/4 log 4 + 5/8 log(8/5) = 0.9002560...
    assert float(family.entropy(logits)) == pytest.approx(0.9002560, rel=1e-6)
    assert int(family.mode(logits)) == 2
    assert family.mode(logits).dtype == jnp.int32


def test_categorical_far_apart_stays_finite():
    family = distribution.categorical(3)
    logits = jnp.array([1e4, 0.0, -1e4], jnp.float32)
    assert float(family.log_prob(logits, jnp.int32(0))) == 0.0
    assert float(family.log_prob(logits, jnp.int32(2))) == -2e4
    assert float(family.entropy(logits)) == 0.0
    gradient = jax.grad(lambda x: family.log_prob(x, jnp.int32(2)))(logits)
    assert gradient.tolist() == [-1.0, 0.0, 1.0]  # one-hot minus probabilities


def test_categorical_draws_follow_the_probabilities():
    family = distribution.categorical(3)
    n = 100_000
    logits = jnp.broadcast_to(jnp.log(jnp.array([1.0, 2.0, 5.0], jnp.float32)), (n, 3))
    draws = np.asarray(jax.jit(family.sample)(jax.random.key(0), logits))
    counts = np.bincount(draws, minlength=3)
    expected = np.array([1, 2, 5]) / 8 * n
    # Chi-square with 2 degrees of freedom: above 13.8 once in 1000 keys; this key is fixed.
    assert ((counts - expected) ** 2 / expected).sum() < 13.8


def test_the_family_fits_the_action():
    assert distribution.for_action(Discrete(4)).size == 4
    assert distribution.for_action(Continuous(3)).size == 6


def test_softplus_at_both_ends():
    got = formulas.softplus(jnp.array([-200.0, 0.0, 200.0], jnp.float32))
    assert got.tolist() == [0.0, float(np.float32(np.log(2.0))), 200.0]
