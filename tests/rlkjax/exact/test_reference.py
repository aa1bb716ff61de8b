"""The central property: `exact(fn)`, jitted, and the NumPy reference agree in every bit."""

import jax
import numpy as np
import pytest
from exact_programs import EDGES, OPS, program
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlkjax.exact.reference import reference
from rlkjax.exact.transform import exact


def bits(x) -> bytes:
    """The bytes of an array."""
    return np.asarray(x).tobytes()


def inputs(seed: int, shape: tuple[int, int], edge_share: float) -> list[np.ndarray]:
    """Three arrays of normal numbers with some edge values among them."""
    rng = np.random.default_rng(seed)
    arrays = []
    for _ in range(3):
        normal = rng.normal(size=shape).astype(np.float32)
        chosen = rng.choice(EDGES, size=shape)
        arrays.append(np.where(rng.random(shape) < edge_share, chosen, normal))
    return arrays


def check(steps, arrays) -> None:
    """Asserts equal bits, naming the first operation that differs."""
    fn = program(steps)
    got, want = exact(fn)(*arrays), reference(fn)(*arrays)
    for (name, _), a, b in zip(steps, got, want, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype and a.shape == b.shape, name
        differ = np.argwhere(a.view(np.uint32) != b.view(np.uint32))
        assert len(differ) == 0, (name, a[tuple(differ[0])], b[tuple(differ[0])], steps)


@pytest.mark.parametrize("name", sorted(OPS))
def test_each_operation_on_edge_values_equals_the_reference(name):
    arrays = inputs(sum(map(ord, name)), (5, 4), 0.4)
    check([(name, (0, 1, 2))], arrays)


STEP = st.tuples(st.sampled_from(sorted(OPS)), st.tuples(*[st.integers(0, 8)] * 3))


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    st.lists(STEP, min_size=2, max_size=7),
    st.integers(0, 2**20),
    st.tuples(st.sampled_from([1, 2, 5, 8]), st.sampled_from([1, 3, 4, 17])),
    st.sampled_from([0.0, 0.1]),
)
def test_random_programs_equal_the_reference(steps, seed, shape, edge_share):
    check(steps, inputs(seed, shape, edge_share))


def test_random_keys_come_back_as_keys():
    def fn(key):
        return jax.random.split(key, 3), jax.random.bits(key, (2,), "uint8")

    got, want = exact(fn)(jax.random.key(5)), reference(fn)(jax.random.key(5))
    assert bits(jax.random.key_data(got[0])) == bits(jax.random.key_data(want[0]))
    assert bits(got[1]) == bits(want[1])
    plain = fn(jax.random.key(5))
    assert bits(jax.random.key_data(got[0])) == bits(jax.random.key_data(plain[0]))
