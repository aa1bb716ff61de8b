"""Advantages: hand-worked numbers that are exact in float32, and relations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlkjax.gae import gae

# Four steps of one environment. All numbers are multiples of powers of two, so float32 is exact.
REWARD = [1.0, 1.0, 1.0, 1.0]
VALUE = [2.0, 4.0, 3.0, 5.0]
NEXT_VALUE = [4.0, 10.0, 5.0, 6.0]  # of the observation before any reset

NOWHERE = [False] * 4
AT_STEP_1 = [False, True, False, False]


def column(numbers, dtype=jnp.float32):
    return jnp.asarray(numbers, dtype)[:, None]


def advantages(
    reward=REWARD,
    *,
    value=VALUE,
    following=NEXT_VALUE,
    terminated=NOWHERE,
    truncated=NOWHERE,
    discount=0.5,
    gae_lambda=0.5,
):
    return gae(
        column(reward),
        column(value),
        column(following),
        terminated=column(terminated, jnp.bool_),
        truncated=column(truncated, jnp.bool_),
        discount=discount,
        gae_lambda=gae_lambda,
    )


def flat(array):
    return np.asarray(array)[:, 0].tolist()


def test_truncated_at_step_1():
    # gamma = lambda = 1/2, so the recursion decays by 1/4.
    # delta_3 = 1 + 6/2 - 5 = -1              A_3 = -1
    # delta_2 = 1 + 5/2 - 3 = 1/2             A_2 = 1/2 - 1/4 = 1/4
    # delta_1 = 1 + 10/2 - 4 = 2  (bootstrap) A_1 = 2          (cut: nothing from step 2)
    # delta_0 = 1 + 4/2 - 2 = 1               A_0 = 1 + 2/4 = 3/2
    got = advantages(truncated=AT_STEP_1)
    assert flat(got.advantage) == [1.5, 2.0, 0.25, -1.0]
    assert flat(got.return_) == [3.5, 6.0, 3.25, 4.0]


def test_terminated_at_step_1():
    # As above, but delta_1 = 1 + 0 - 4 = -3, so A_1 = -3 and A_0 = 1 - 3/4 = 1/4.
    got = advantages(terminated=AT_STEP_1)
    assert flat(got.advantage) == [0.25, -3.0, 0.25, -1.0]
    assert flat(got.return_) == [2.25, 1.0, 3.25, 4.0]


def test_known_wrong_answers_are_told_apart():
    right = flat(advantages(truncated=AT_STEP_1).advantage)
    # Bootstrapped from the value 3 of the observation after the reset.
    from_reset = flat(advantages(following=[4.0, 3.0, 5.0, 6.0], truncated=AT_STEP_1).advantage)
    assert from_reset == [0.625, -1.5, 0.25, -1.0]
    # The end of the episode ignored.
    ignored = flat(advantages().advantage)
    assert ignored == [1.515625, 2.0625, 0.25, -1.0]
    assert right[:2] != [1.0, 0.0]  # the delta of the truncated step forced to zero
    assert right not in (from_reset, ignored)


def test_both_flags_at_once_count_as_terminated():
    both = advantages(terminated=AT_STEP_1, truncated=AT_STEP_1)
    assert flat(both.advantage) == flat(advantages(terminated=AT_STEP_1).advantage)


def random_segment(seed, steps=7, width=3):
    generator = np.random.default_rng(seed)
    reward, value, following = generator.normal(size=(3, steps, width)).astype(np.float32)
    ends = generator.integers(0, 4, (steps, width))
    return reward, value, following, ends == 1, ends == 2


@pytest.mark.parametrize("seed", range(3))
def test_lambda_zero_is_the_td_error(seed):
    reward, value, following, terminated, truncated = random_segment(seed)
    got = gae(
        *map(jnp.asarray, (reward, value, following)),
        terminated=jnp.asarray(terminated),
        truncated=jnp.asarray(truncated),
        discount=0.75,
        gae_lambda=0.0,
    )
    td_error = reward + np.float32(0.75) * np.where(terminated, 0, following) - value
    np.testing.assert_array_equal(np.asarray(got.advantage), td_error)


def test_lambda_one_is_the_discounted_sum():
    # Rewards 1, 2, 3, 4 and gamma 1/2. Terminated at step 1, truncated at step 3 with V = 8 there:
    # returns: step 1: 2; step 0: 1 + 2/2 = 2; step 3: 4 + 8/2 = 8; step 2: 3 + 8/2 = 7
    # Values cancel as long as V(s') is the next value inside an episode.
    got = advantages(
        [1.0, 2.0, 3.0, 4.0],
        value=[16.0, 32.0, 64.0, 128.0],
        following=[32.0, 7.0, 128.0, 8.0],
        terminated=AT_STEP_1,
        truncated=[False, False, False, True],
        gae_lambda=1.0,
    )
    assert flat(got.return_) == [2.0, 2.0, 7.0, 8.0]


def test_environments_do_not_mix():
    reward, value, following, terminated, truncated = map(jnp.asarray, random_segment(5))

    def run(columns):
        return gae(
            reward[:, columns],
            value[:, columns],
            following[:, columns],
            terminated=terminated[:, columns],
            truncated=truncated[:, columns],
            discount=0.9,
            gae_lambda=0.8,
        ).advantage

    together = run(slice(None))
    for index in range(3):
        alone = run(slice(index, index + 1))
        np.testing.assert_array_equal(np.asarray(together[:, index]), np.asarray(alone[:, 0]))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_value_that_is_masked_never_leaks(bad):
    # The bootstrap after a termination, and everything after an ending, is somebody else's.
    following = [4.0, bad, 5.0, 6.0]
    got = advantages(following=following, terminated=AT_STEP_1)
    assert flat(got.advantage) == [0.25, -3.0, 0.25, -1.0]
    later = advantages([1.0, 1.0, bad, 1.0], truncated=AT_STEP_1)
    assert flat(later.advantage)[:2] == [1.5, 2.0]


def test_masks_stop_nan_in_the_gradient_too():
    def total(following):
        got = gae(
            column(REWARD),
            column(VALUE),
            following[:, None],
            terminated=column(AT_STEP_1, jnp.bool_),
            truncated=column(NOWHERE, jnp.bool_),
            discount=0.5,
            gae_lambda=0.5,
        )
        return jnp.sum(got.advantage)

    gradient = jax.grad(total)(jnp.array([4.0, jnp.nan, 5.0, 6.0], jnp.float32))
    # V(s'_3) reaches A_3 by 1/2, A_2 by 1/8; V(s'_2) A_2 by 1/2; V(s'_0) A_0 by 1/2.
    assert gradient.tolist() == [0.5, 0.0, 0.5, 0.625]


def test_dtypes_are_float32():
    got = advantages(truncated=AT_STEP_1)
    assert got.advantage.dtype == got.return_.dtype == jnp.float32
