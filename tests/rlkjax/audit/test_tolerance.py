"""Controlled tolerance: hand-worked distances, and thresholds from both sides."""

import numpy as np
import pytest

from rlkjax.audit import tolerance
from rlkjax.audit.tolerance import EQUAL, Alert, Limit, Measured
from rlkjax.errors import ConsistencyError, InputError

NOTHING = Measured(0.0, 0.0, 0.0, 0, 0.0)


def f32(*values):
    return np.array(values, np.float32)


def measured(expected, got):
    return tolerance.measure("x", expected, got)


def test_equal_bits_measure_nothing():
    x = f32(1.0, -0.0, np.nan, np.inf)
    assert measured(x, x.copy()) == NOTHING


def test_a_hand_worked_distance():
    # Steps near 1 are 2^-23 above and 2^-24 below it; 8 -> 8.5 is half of 8, in steps of 2^-20.
    expected = f32(1.0, 1.0, 8.0, 2.0)
    got = f32(1.0 + 2**-23, 1.0 - 2**-24, 8.5, 2.0)
    found = measured(expected, got)
    assert found.max_abs == 0.5
    assert found.max_rel == 0.5 / 8.5
    assert found.max_scaled == 0.5 / 8.0
    assert found.max_ulp == 2**19
    assert found.differing == 3 / 4


def test_steps_are_counted_across_zero():
    # From -2^-149 through the zeros to 3 * 2^-149: 1 + 3 steps.
    assert measured(f32(-(2**-149)), f32(3 * 2**-149)).max_ulp == 4


def test_the_two_zeros_differ_in_bits_alone():
    assert measured(f32(0.0, 1.0), f32(-0.0, 1.0)) == Measured(0.0, 0.0, 0.0, 0, 0.5)


def test_every_nan_is_equal_to_every_other_and_to_nothing_else():
    quiet, other = (
        np.array([bits], np.uint32).view(np.float32) for bits in (0x7FC00000, 0xFFFFFFFF)
    )
    assert measured(quiet, other) == NOTHING
    found = measured(f32(1.0, np.nan), f32(1.0, 5.0))
    assert (found.max_abs, found.max_rel, found.max_scaled) == (np.inf, np.inf, np.inf)
    assert found.differing == 0.5


def test_infinities():
    assert measured(f32(np.inf), f32(-np.inf)).max_rel == np.inf
    # One step beyond the largest number, yet without a finite error.
    edge = measured(f32(np.finfo(np.float32).max), f32(np.inf))
    assert (edge.max_ulp, edge.max_abs) == (1, np.inf)


def test_an_error_where_nothing_was_expected():
    found = measured(f32(0.0, 0.0), f32(0.0, 1e-30))
    assert (found.max_rel, found.max_scaled) == (1.0, np.inf)


def test_integers_and_booleans():
    words = np.array([0, 2**32 - 1], np.uint32)
    found = measured(words, words[::-1].copy())
    assert (found.max_abs, found.max_ulp, found.differing) == (2**32 - 1, 2**32 - 1, 1.0)
    flags = measured(np.array([True, False, True]), np.array([True, True, True]))
    assert (flags.max_ulp, flags.differing) == (1, 1 / 3)


def test_an_empty_buffer():
    assert measured(f32(), f32()) == NOTHING


def test_what_cannot_be_compared_is_named():
    with pytest.raises(ConsistencyError, match=r"buffer 'x': got float32\[2\], want float32\[1\]"):
        measured(f32(1), f32(1, 2))
    with pytest.raises(ConsistencyError, match=r"got int32\[1\], want float32\[1\]"):
        measured(f32(1), np.array([1], np.int32))
    with pytest.raises(InputError, match="field 'x': got dtype float64"):
        measured(np.zeros(1), np.ones(1))
    with pytest.raises(ConsistencyError, match="buffers: a, b on one side only"):
        tolerance.measure_all({"a": f32(1)}, {"b": f32(1)})


def test_all_buffers_by_name():
    found = tolerance.measure_all({"b": f32(1), "a": f32(1)}, {"a": f32(1), "b": f32(2)})
    assert list(found) == ["a", "b"]
    assert found["a"] == NOTHING and found["b"].max_abs == 1.0


# --- thresholds ----------------------------------------------------------------------------------


def past(expected, got, limit):
    return tolerance.alerts({"x": measured(expected, got)}, {"x": limit})


def test_a_threshold_is_within_and_one_step_beyond_is_past():
    expected, got = f32(1.0, 1.0), f32(1.5, 1.0)  # 0.5 / 1.5 of itself, 0.5 of the largest
    assert past(expected, got, Limit(max_rel=1 / 3)) == []
    assert past(expected, got, Limit(max_scaled=0.5)) == []
    assert past(expected, got, Limit(differing=0.5)) == []
    assert past(expected, got, Limit(max_rel=0.333)) == [Alert("x", "max_rel", 0.333, 1 / 3)]
    assert past(expected, got, Limit(max_scaled=0.49)) == [Alert("x", "max_scaled", 0.49, 0.5)]
    assert past(expected, got, Limit(differing=0.49)) == [Alert("x", "differing", 0.49, 0.5)]


def test_the_rewards_of_the_requirement():
    # 1,000 rewards: under 1e-6 of themselves, and under 1 % of them.
    limit = Limit(max_rel=1e-6, differing=0.01)
    rewards = np.full(1000, 4.0, np.float32)
    close = rewards.copy()
    close[:10] = np.nextafter(np.float32(4), np.float32(5))  # 2^-21 of 4: 1.2e-7
    assert past(rewards, close, limit) == []
    close[10] = close[0]
    assert [alert.measure for alert in past(rewards, close, limit)] == ["differing"]
    far = rewards.copy()
    far[3] = 4.00001  # 2.5e-6
    assert [alert.measure for alert in past(rewards, far, limit)] == ["max_rel"]


def test_a_buffer_without_a_limit_must_be_equal():
    action = np.array([0, 1, 1], np.int32)
    found = tolerance.alerts(tolerance.measure_all({"action": action}, {"action": 1 - action}), {})
    assert found == [Alert("action", "differing", 0.0, 1.0)]
    assert past(action, action.copy(), EQUAL) == []


def test_no_number_is_past_every_threshold():
    assert {each.measure for each in past(f32(np.nan), f32(1), Limit(1e30, 1e30, 1.0))} == {
        "max_rel",
        "max_scaled",
    }
