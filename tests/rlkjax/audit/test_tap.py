"""The tap: names and bytes of every leaf, copies that nobody can reach, and untouched programs."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlkjax.audit import merkle, tap
from rlkjax.errors import InputError


class Pair(NamedTuple):
    left: object
    right: object


def tree():
    return {
        "a": Pair(jnp.array([1.0, -0.0], jnp.float32), (jnp.uint32(7), jnp.array([True, False]))),
        "key": jax.random.key(3),
        "none": None,
    }


def test_names_are_paths():
    assert sorted(tap.fields(tree())) == ["a/left", "a/right/0", "a/right/1", "key"]


def test_bytes_are_those_of_the_array():
    found = tap.fields(tree())
    assert found["a/left"].tobytes() == bytes.fromhex("0000803f00000080")
    assert found["key"].dtype == np.uint32  # the two words of a typed key
    assert found["key"].tobytes() == np.asarray(jax.random.key_data(jax.random.key(3))).tobytes()
    for bits in (0x7FC00001, 0xFF800000, 0x00000001):  # a NaN with a payload, -inf, a denormal
        array = np.array([bits], np.uint32).view(np.float32)
        assert tap.fields([array])["0"].tobytes() == array.tobytes()


def test_shapes_are_told_without_computing():
    found = {name: (array.dtype.name, array.shape) for name, array in tap.fields(tree()).items()}
    assert tap.shapes(tree()) == found
    assert tap.shapes(jax.eval_shape(tree)) == found


def test_two_leaves_of_one_path_are_refused():
    with pytest.raises(InputError, match="got two leaves with one path"):
        tap.fields({"a/b": jnp.zeros(1), "a": {"b": jnp.ones(1)}})


def test_rebuild_is_the_inverse():
    again = tap.rebuild(tree(), tap.fields(tree()))
    assert jax.tree.structure(again) == jax.tree.structure(tree())
    for name, array in tap.fields(again).items():
        assert array.tobytes() == tap.fields(tree())[name].tobytes()
    assert jax.dtypes.issubdtype(again["key"].dtype, jax.dtypes.prng_key)
    with pytest.raises(KeyError, match="a/left"):
        tap.rebuild(tree(), {})


def test_rebuild_needs_only_shapes():
    bare = jax.eval_shape(tree)
    again = tap.rebuild(bare, tap.fields(tree()))
    assert jax.random.key_impl(again["key"]) == "threefry2x32"
    assert {name: x.tobytes() for name, x in tap.fields(again).items()} == {
        name: x.tobytes() for name, x in tap.fields(tree()).items()
    }


def test_rebuilt_arrays_do_not_follow_the_buffers_they_came_from():
    named = {"x": np.arange(100_000, dtype=np.float32)}
    want = named["x"].tobytes()
    for _ in range(200):
        buffer = named["x"].copy()
        rebuilt = tap.rebuild({"x": jnp.zeros(100_000, jnp.float32)}, {"x": buffer})
        buffer.fill(-1)
        assert tap.fields(rebuilt)["x"].tobytes() == want


def test_host_views_of_device_arrays_cannot_be_written():
    found = tap.fields({"x": jnp.arange(5)})["x"]
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 1


def test_tapping_moves_no_bit():
    def step(x):
        y = jnp.tanh(x @ x.T) / 3.0
        return y, jnp.sum(y, 1)

    x = jax.random.normal(jax.random.key(0), (33, 33), jnp.float32)
    program = jax.jit(step)
    untapped, tapped = x, x
    for _ in range(20):
        untapped = program(untapped)[0]
    for number in range(20):
        outputs = program(tapped)
        merkle.root(merkle.tensor_leaves(tap.fields(outputs), number))
        tapped = outputs[0]
    assert np.asarray(tapped).tobytes() == np.asarray(untapped).tobytes()
