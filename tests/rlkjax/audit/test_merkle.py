"""Leaves and roots, against published vectors and headers written out by hand."""

import hashlib

import numpy as np
import pytest

from rlkjax.audit import merkle
from rlkjax.audit.tensors import unpack
from rlkjax.errors import ConsistencyError, InputError


def sha(data):
    return hashlib.sha256(data).digest()


def test_roots_of_the_published_trees(rfc):
    leaves = [merkle.leaf_hash(bytes.fromhex(text)) for text in rfc["inputs"]]
    for size, want in enumerate(rfc["roots"]):
        assert merkle.root(leaves[:size]).hex() == want


def test_canonical_json_spelled_out():
    value = {"b": [1, -2, True, None], "a": {"é": 'q"\n'}, "_": ""}
    want = rb'{"_":"","a":{"\u00e9":"q\"\n"},"b":[1,-2,true,null]}'
    assert merkle.canonical_json(value) == want


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": 1.0}, "got a float, want objects"),
        ([float("nan")], "got a float"),
        ({"a": 2**64}, "got an integer of 65 bits"),
        ({"a": -(2**63) - 1}, "got an integer of 64 bits"),
        ({1: 2}, "got key 1, want a string"),
        ({"a": b"x"}, "got a bytes"),
        ({"a": np.int64(1)}, "got a int64"),
    ],
)
def test_canonical_json_refuses(value, message):
    with pytest.raises(InputError, match=message):
        merkle.canonical_json(value)


def test_canonical_json_takes_the_largest_integers():
    assert merkle.canonical_json([2**64 - 1, -(2**63)]) == (
        b"[18446744073709551615,-9223372036854775808]"
    )


def test_one_leaf_by_hand():
    # 1.0 is 0x3f800000 and -2.0 is 0xc0000000: little-endian bytes below.
    x = np.array([[9.0, 9.0], [1.0, -2.0]], np.float32)
    header = b'{"dtype":"float32","field":"x","sequence":5,"shape":[2],"step":1}'
    want = sha(b"\x00" + header + bytes.fromhex("0000803f000000c0"))
    assert merkle.segment_leaves({"x": x}, 5)[1] == want


def test_tensor_leaf_by_hand():
    header = b'{"dtype":"uint32","field":"count","sequence":7,"shape":[],"step":0}'
    want = sha(b"\x00" + header + bytes.fromhex("01020000"))
    assert merkle.tensor_leaves({"count": np.uint32(513)}, 7) == [want]


def test_step_numbers_above_nine_and_names_that_need_escapes():
    leaves = merkle.segment_leaves({'a"é': np.arange(11, dtype=np.uint8)}, 0)
    header = rb'{"dtype":"uint8","field":"a\"\u00e9","sequence":0,"shape":[],"step":10}'
    assert leaves[10] == sha(b"\x00" + header + b"\x0a")


def test_leaves_are_step_major_and_sorted_by_name(golden, vectors):
    file = golden / "segments" / "00000000.safetensors"
    fields = unpack(file.read_bytes(), file.name)
    backwards = dict(reversed(fields.items()))
    leaves = merkle.segment_leaves(backwards, 0)
    assert [leaf.hex() for leaf in leaves] == vectors["segment_0_leaves"]
    assert merkle.root(leaves).hex() == vectors["segment_0_root"]
    alone = merkle.segment_leaves({"reward": fields["reward"]}, 0)
    assert alone[1] == leaves[1 * 6 + sorted(fields).index("reward")]


def test_long_rows_hash_as_short_ones_do():
    x = np.arange(2 * 20_000, dtype=np.float32).reshape(2, 20_000)  # 80,000 bytes a row
    header = b'{"dtype":"float32","field":"x","sequence":0,"shape":[20000],"step":1}'
    assert merkle.segment_leaves({"x": x}, 0)[1] == sha(b"\x00" + header + x[1].tobytes())


def test_layout_in_memory_does_not_count():
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    want = merkle.segment_leaves({"x": x}, 1)
    strided = np.asfortranarray(x)
    swapped = x.astype(">i4")
    assert merkle.segment_leaves({"x": strided}, 1) == want
    assert merkle.segment_leaves({"x": swapped}, 1) == want


def test_empty_rows_and_empty_segments_have_leaves_or_none():
    assert len(merkle.segment_leaves({"x": np.zeros((3, 0), np.float32)}, 0)) == 3
    assert merkle.segment_leaves({"x": np.zeros((0, 3), np.float32)}, 0) == []
    assert merkle.segment_leaves({}, 0) == []


@pytest.mark.parametrize(
    "change",
    [
        {"x": np.array([[1, 2], [4, 3]], np.int32)},
        {"x": np.array([[1, 2], [3, 4]], np.uint32)},
        {"x": np.array([[[1], [2]], [[3], [4]]], np.int32)},
        {"y": np.array([[1, 2], [3, 4]], np.int32)},
        {"x": np.array([[1, 2]], np.int32)},
    ],
    ids=["elements", "dtype", "shape", "name", "steps"],
)
def test_the_root_depends_on(change):
    x = {"x": np.array([[1, 2], [3, 4]], np.int32)}
    before = merkle.root(merkle.segment_leaves(x, 0))
    assert merkle.root(merkle.segment_leaves(change, 0)) != before
    assert merkle.root(merkle.segment_leaves(x, 1)) != before


@pytest.mark.parametrize("dtype", ["float64", "int64", "complex64", "int16"])
def test_foreign_dtypes_are_refused_by_name(dtype):
    with pytest.raises(InputError, match=f"field 'x': got dtype {dtype}, want one of bool"):
        merkle.segment_leaves({"x": np.zeros((2, 2), dtype)}, 0)


def test_unequal_steps_and_scalars_are_refused():
    two, three = np.zeros((2, 1), np.float32), np.zeros((3, 1), np.float32)
    with pytest.raises(InputError, match="field 'b': got shape"):
        merkle.segment_leaves({"a": two, "b": three}, 0)
    with pytest.raises(InputError, match="field 'a': got shape"):
        merkle.segment_leaves({"a": np.float32(0)}, 0)


def fields(**changes):
    base = {
        "obs": np.zeros((3, 2, 2), np.float32),
        "ended": np.zeros((3, 2), bool),
        "reward": np.zeros((3, 2), np.float16),
    }
    for name, (place, value) in changes.items():
        base[name][place] = value
    return base


def test_the_sign_of_zero_is_a_difference():
    found = merkle.first_difference(fields(), fields(obs=((2, 1, 0), -0.0)))
    assert found == merkle.Difference("obs", 2, (1, 0), "00000000", "80000000")


def test_nan_payloads_are_compared_and_equal_ones_are_equal():
    a, b = fields(), fields()
    a["obs"].view(np.uint32)[1, 0, 1] = 0x7FC00000
    b["obs"].view(np.uint32)[1, 0, 1] = 0x7FC00001
    assert merkle.first_difference(a, a) is None
    want = merkle.Difference("obs", 1, (0, 1), "7fc00000", "7fc00001")
    assert merkle.first_difference(a, b) == want


def test_the_earliest_step_wins_then_the_name():
    late_a = fields(ended=((2, 0), True), obs=((1, 0, 0), 1.0))
    found = merkle.first_difference(fields(), late_a)
    assert (found.field, found.step, found.index) == ("obs", 1, (0, 0))
    same = fields(ended=((1, 1), True), obs=((1, 0, 0), 1.0))
    want = merkle.Difference("ended", 1, (1,), "00", "01")
    assert merkle.first_difference(fields(), same) == want


def test_the_first_element_in_c_order_is_named():
    got = fields(reward=((1, slice(None)), 1.0))
    # 1.0 in float16 is 0x3c00.
    want = merkle.Difference("reward", 1, (0,), "0000", "3c00")
    assert merkle.first_difference(fields(), got) == want


def test_unlike_fields_are_named():
    with pytest.raises(ConsistencyError, match="fields: obs on one side only"):
        merkle.first_difference({"a": np.zeros(1, bool)}, {"a": np.zeros(1, bool), "obs": 0})
    with pytest.raises(ConsistencyError, match=r"'a': got bool\[2\], want bool\[1\]"):
        merkle.first_difference({"a": np.zeros(1, bool)}, {"a": np.zeros(2, bool)})
    with pytest.raises(ConsistencyError, match=r"'a': got uint8\[1\], want bool\[1\]"):
        merkle.first_difference({"a": np.zeros(1, bool)}, {"a": np.zeros(1, np.uint8)})
