"""The central property: `exact(fn)`, jitted, and the NumPy reference agree in every bit.

Random programs are a handful in a quick run; EXACT_EXAMPLES=5000 with `-m slow` tries so many.
"""

import os

import jax
import numpy as np
import pytest
from exact_ops import OPS
from exact_programs import EMPTY, SHAPES, Node, blocks, inputs, program
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlkjax.exact import axis_sum, product
from rlkjax.exact.reference import reference
from rlkjax.exact.transform import exact


def bits(x) -> bytes:
    """The bytes of an array."""
    return np.asarray(x).tobytes()


def check(block, arrays, least=product.LEAST) -> None:
    """Asserts equal bits, naming the first node that differs.

    Products and sums of at least `least` terms go to the kernels, where there are any.
    """
    fn = program(block)
    with pytest.MonkeyPatch.context() as patch:
        for module in (product, axis_sum):
            patch.setattr(module, "LEAST", least)
            patch.setattr(module, "LEAST_TERMS", least)
        got = exact(fn)(*arrays)
    want = reference(fn)(*arrays)
    for node, a, b in zip(block, got, want, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype and a.shape == b.shape, node
        differ = np.argwhere(a.view(np.uint32) != b.view(np.uint32))
        assert len(differ) == 0, (node, a[tuple(differ[0])], b[tuple(differ[0])])


NAMES = sorted(OPS)
GROUPS = [NAMES[start : start + 8] for start in range(0, len(NAMES), 8)]


@pytest.mark.parametrize("names", GROUPS, ids=lambda names: f"{names[0]} to {names[-1]}")
def test_each_operation_on_edge_values_equals_the_reference(names):
    arrays = inputs(sum(map(ord, names[0])), (5, 4), 0.4)
    check([Node(name, (0, 1, 2)) for name in names], arrays)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES + EMPTY)
def test_each_operation_in_each_shape_equals_the_reference(shape):
    for number, names in enumerate(GROUPS):
        check([Node(name, (0, 1, 2)) for name in names], inputs(number, shape, 0.2))


CASES = given(
    blocks(2),
    st.integers(0, 2**20),
    st.sampled_from(SHAPES + EMPTY),
    st.sampled_from([0.0, 0.1, 0.5]),
    st.sampled_from([1, product.LEAST, 10**9]),
)
OPTIONS = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=10, derandomize=True, **OPTIONS)
@CASES
def test_random_programs_equal_the_reference(block, seed, shape, edge_share, least):
    check(block, inputs(seed, shape, edge_share), least)


@pytest.mark.slow
@settings(max_examples=int(os.environ.get("EXACT_EXAMPLES", "300")), **OPTIONS)
@CASES
def test_many_random_programs_equal_the_reference(block, seed, shape, edge_share, least):
    check(block, inputs(seed, shape, edge_share), least)


def test_random_keys_come_back_as_keys():
    def fn(key):
        return jax.random.split(key, 3), jax.random.bits(key, (2,), "uint8")

    got, want = exact(fn)(jax.random.key(5)), reference(fn)(jax.random.key(5))
    assert bits(jax.random.key_data(got[0])) == bits(jax.random.key_data(want[0]))
    assert bits(got[1]) == bits(want[1])
    plain = fn(jax.random.key(5))
    assert bits(jax.random.key_data(got[0])) == bits(jax.random.key_data(plain[0]))


def test_the_largest_of_rows_of_which_there_are_none():
    largest = reference(lambda x: x.max(axis=2))(np.zeros((0, 2, 4), np.float32))
    assert largest.shape == (0, 2)
