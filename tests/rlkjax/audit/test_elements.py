"""Bits, their values and distances, and which of several differences is the first."""

import numpy as np
import pytest

from rlkjax.audit.elements import first_of, ulp_distance, value_text

F32 = np.float32


@pytest.mark.parametrize(
    ("dtype", "bits", "text"),
    [
        ("float32", "3f800000", "1.0"),
        ("float32", "80000000", "-0.0"),
        ("float32", "7fc00000", "nan"),
        ("float32", "ff800000", "-inf"),
        ("float16", "3c00", "1.0"),
        ("int32", "ffffffff", "-1"),
        ("uint32", "ffffffff", "4294967295"),
        ("bool", "01", "True"),
    ],
)
def test_a_bit_pattern_reads_as_its_number(dtype, bits, text):
    assert value_text(dtype, bits) == text


@pytest.mark.parametrize(
    ("a", "b", "distance"),
    [
        ("3f800000", "3f800001", 1),  # 1 and the next number above it
        ("3f800000", "3f7fffff", 1),  # and below
        ("00000000", "80000000", 0),  # the two zeros
        ("00000001", "80000001", 2),  # the smallest numbers on both sides of zero
        ("7f7fffff", "7f800000", 1),  # the largest number and infinity
        ("3f800000", "40000000", 1 << 23),  # 2^23 numbers from 1 up to 2
        ("7fc00000", "3f800000", None),  # NaN
    ],
)
def test_the_distance_counts_numbers(a, b, distance):
    assert ulp_distance("float32", a, b) == distance == ulp_distance("float32", b, a)


def test_integers_have_no_ulp():
    assert ulp_distance("int32", "00000001", "00000002") is None


def fields():
    return {
        "action": np.zeros((3, 2), np.int32),
        "obs": np.zeros((3, 2, 4), F32),
        "reward": np.zeros((3, 2), F32),
    }


ORDER = ("obs", "action", "reward")


def test_the_earliest_step_counts_before_the_buffer():
    a, b = fields(), fields()
    b["obs"][2, 0, 0] = 1
    b["reward"][1, 1] = 1
    place = first_of(a, b, ORDER, timed=True)
    assert (place.buffer, place.step, place.environment, place.element) == ("reward", 1, 1, ())


def test_within_a_step_the_buffer_that_is_made_first_counts():
    a, b = fields(), fields()
    b["action"][1, 0] = 1
    b["obs"][1, 1, 3] = 1
    b["obs"][2, 0, 0] = 1
    place = first_of(a, b, ORDER, timed=True)
    assert (place.buffer, place.step, place.environment, place.element) == ("obs", 1, 1, (3,))
    assert (place.a_bits, place.b_bits) == ("00000000", "3f800000")
    assert (place.differing, place.elements) == (2, 24)
    # without an order, names decide
    assert first_of(a, b, (), timed=True).buffer == "action"


def test_bits_are_compared_and_not_values():
    a, b = fields(), fields()
    b["reward"][0, 0] = -0.0
    assert first_of(a, b, (), timed=True).b_bits == "80000000"
    a["reward"][0, 0] = b["reward"][0, 0] = np.nan
    assert first_of(a, b, (), timed=True) is None


def test_a_tensor_has_no_step():
    a, b = {"w": np.zeros((2, 3), F32)}, {"w": np.zeros((2, 3), F32)}
    b["w"][1, 2] = 5
    place = first_of(a, b, (), timed=False)
    assert (place.step, place.environment, place.element) == (None, None, (1, 2))
