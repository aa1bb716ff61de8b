"""The sentence on the iterations that the reference computed again."""

import json

import pytest

from rlkjax.audit.recomputed import sentence

UPDATE = {"kind": "update", "iteration": 0}
EQUAL = {"kind": "reference", "iteration": 0, "past": 0, "buffers": {}}
NEAR = {**EQUAL, "buffers": {"a": {"max_scaled": 1.25e-7}, "b": {"max_scaled": 3e-8}}}
FAR = {**EQUAL, "past": 2, "buffers": {"c": {"max_scaled": None}}}


@pytest.mark.parametrize(
    ("records", "want"),
    [
        ([], None),
        ([UPDATE, {**UPDATE, "note": "reference"}], None),
        ([UPDATE, EQUAL], "reference: 1 iteration recomputed, every bit equal"),
        (
            [NEAR, UPDATE, EQUAL],
            "reference: 2 iterations recomputed, largest distance 1.2e-07 of the largest element "
            "(a), all within tolerance",
        ),
        (
            [NEAR, FAR],
            "reference: 2 iterations recomputed, largest distance inf of the largest element (c), "
            "2 times past tolerance, acknowledged",
        ),
    ],
)
def test_the_sentence(records, want):
    assert sentence([json.dumps(record).encode() + b"\n" for record in records]) == want
