"""Metric lines: the shortest decimals that read back as the same float32."""

import json
import math

import numpy as np
import pytest

from rlkjax import metrics


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (np.float32(0.1), "0.1"),
        (np.float32(1 / 3), "0.33333334"),
        (np.float32(16777216.0), "16777216.0"),
        (np.int32(-7), "-7"),
        (np.uint32(2**32 - 1), "4294967295"),
        (2**62, "4611686018427387904"),
        (np.float32(-0.0), "-0.0"),
        (0.5, "0.5"),
        (np.float32(np.nan), "null"),
        (np.float32(np.inf), "null"),
        (float("-inf"), "null"),
    ],
)
def test_numbers(value, shown):
    assert json.dumps(metrics.number(value)) == shown


def test_every_float32_reads_back():
    bits = np.random.default_rng(0).integers(0, 2**32, 20_000, dtype=np.uint32)
    for value in bits.view(np.float32):
        if np.isfinite(value):
            read = np.float32(json.loads(json.dumps(metrics.number(value))))
            assert read.tobytes() == value.tobytes()


def test_a_line():
    got = metrics.line("update", 3, {"b": np.float32(0.25), "a": np.int32(1), "c": math.nan})
    assert got == b'{"a":1,"b":0.25,"c":null,"iteration":3,"kind":"update"}'


def test_means():
    assert metrics.mean(np.float32(7.0), np.int32(2)) == 3.5
    assert math.isnan(metrics.mean(np.float32(0.0), np.int32(0)))
    # In float64: 2^24 + 1 episodes of length 1 are not rounded.
    assert metrics.mean(np.int32(2**24 + 1), np.int32(1)) == 2**24 + 1
