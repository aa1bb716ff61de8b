"""Canonical bytes: the worked example, round trips, and every kind of corruption by name."""

import json
from pathlib import Path

import numpy as np
import pytest

from vimejax import codec
from vimejax.errors import CodecError

EXAMPLE = {
    "reward": np.array([1.0, -2.0], np.float32),
    "flag": np.array([True, False]),
}
# The worked example of docs/codec-format.md, byte by byte.
EXAMPLE_HEX = (
    "56494d4543444331"  # VIMECDC1
    "5c000000"  # header of 92 bytes
    "5b7b226474797065223a22626f6f6c222c226e616d65223a22666c6167222c227368617065223a5b325d7d2c"
    "7b226474797065223a22666c6f61743332222c226e616d65223a22726577617264222c227368617065223a5b325d7d5d"
    "0100"  # True, False
    "0000803f"  # 1.0
    "000000c0"  # -2.0
)
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "codec-format.md"


def packed(rows, body=b"", header=None):
    """An encoding with a header of our choice."""
    head = json.dumps(rows, separators=(",", ":")).encode() if header is None else header
    return codec.MAGIC + len(head).to_bytes(4, "little") + head + body


def row(name="a", dtype="uint8", shape=(1,)):
    return {"dtype": dtype, "name": name, "shape": list(shape)}


def test_worked_example():
    assert codec.encode(EXAMPLE).hex() == EXAMPLE_HEX


def test_worked_example_is_the_documents():
    text = DOCUMENT.read_text()
    block = text.split("```hex\n")[1].split("```")[0]
    digits = "".join(line.split("#")[0] for line in block.splitlines())
    assert "".join(digits.split()) == EXAMPLE_HEX


def test_order_of_the_mapping_does_not_matter():
    assert codec.encode(dict(reversed(EXAMPLE.items()))) == codec.encode(EXAMPLE)


@pytest.mark.parametrize("dtype", sorted(codec.DTYPES))
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4)])
def test_round_trip_keeps_every_bit(dtype, shape):
    size = int(np.prod(shape))
    item = codec.DTYPES[dtype].itemsize
    raw = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 256, size * item)
    value = raw.astype(np.uint8).view(codec.DTYPES[dtype]).reshape(shape)
    data = codec.encode({"x": value})
    back = codec.decode(data)
    assert list(back) == ["x"]
    assert back["x"].dtype.name == dtype
    assert back["x"].shape == shape
    assert back["x"].tobytes() == value.tobytes()
    assert codec.encode(back) == data


def test_nan_payloads_and_signed_zeros_survive():
    bits = np.array([0x7FC00001, 0xFFC12345, 0x80000000, 0x00000001], np.uint32)
    back = codec.decode(codec.encode({"x": bits.view(np.float32)}))
    assert back["x"].view(np.uint32).tolist() == bits.tolist()


def test_layout_in_memory_does_not_matter():
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    want = codec.encode({"x": value})
    assert codec.encode({"x": np.asfortranarray(value)}) == want
    assert codec.encode({"x": value.astype(">f4")}) == want
    assert codec.encode({"x": np.repeat(value, 2, axis=1)[:, ::2]}) == want


def test_decoded_arrays_are_read_only():
    back = codec.decode(codec.encode(EXAMPLE))
    with pytest.raises(ValueError, match="read-only"):
        back["reward"][0] = 0.0


def test_schema_is_sorted_by_name():
    assert codec.schema(EXAMPLE) == (
        codec.Field("flag", "bool", (2,)),
        codec.Field("reward", "float32", (2,)),
    )


def test_no_fields_are_an_encoding_too():
    assert codec.decode(codec.encode({})) == {}
    assert codec.encode({}) == b"VIMECDC1\x02\x00\x00\x00[]"


@pytest.mark.parametrize("dtype", ["float64", "int64", "complex64", "U3", "O", "int16"])
def test_a_dtype_without_an_encoding_is_refused(dtype):
    with pytest.raises(CodecError, match=r"field 'x': got dtype .*, want one of bool, float16"):
        codec.encode({"x": np.zeros(2, dtype)})


def test_what_is_no_array_is_refused():
    with pytest.raises(CodecError, match="field 'x': got list, want a NumPy array"):
        codec.encode({"x": [1.0]})


@pytest.mark.parametrize("name", ["", "a b", "é", ".x", "a" * 129, 3, 'a"b'])
def test_a_bad_name_is_refused(name):
    with pytest.raises(CodecError, match="name of a field: got .*, want 1 to 128 characters"):
        codec.encode({name: np.zeros(1, np.float32)})


def test_a_bool_of_another_byte_is_refused():
    odd = np.array([0, 2], np.uint8).view(np.bool_)
    with pytest.raises(CodecError, match="field 'x': got bool byte 2, want 0 or 1"):
        codec.encode({"x": odd})


CORRUPTIONS = {
    "byte added at the end": (bytes.fromhex(EXAMPLE_HEX) + b"\0", "got 1 bytes after the last"),
    "last byte missing": (bytes.fromhex(EXAMPLE_HEX)[:-1], "'reward': got 7 bytes, want 8"),
    "empty": (b"", "want b'VIMECDC1'"),
    "another version": (bytes.fromhex(EXAMPLE_HEX).replace(b"DC1", b"DC2"), "another format"),
    "cut in the length": (codec.MAGIC + b"\x02\0", "got 10 bytes, want at least 12"),
    "cut in the header": (bytes.fromhex(EXAMPLE_HEX)[:40], "the end is missing or the length"),
    "huge header length": (codec.MAGIC + b"\xff\xff\xff\xff", "header length of 4294967295"),
    "names not sorted": (packed([row("b"), row("a")], b"\0\0"), "want them sorted and each once"),
    "name twice": (packed([row("a"), row("a")], b"\0\0"), "want them sorted and each once"),
    "unknown dtype": (packed([row(dtype="float64")], b"\0" * 8), "got dtype 'float64'"),
    "dtype is a list": (packed([row(dtype=["uint8"])], b"\0"), "got dtype \\['uint8'\\]"),
    "bad name": (packed([row("a b")], b"\0"), "name of a field: got 'a b'"),
    "negative length": (packed([row(shape=(-1,))]), "got shape \\[-1\\]"),
    "length is a float": (packed([row(shape=(1.0,))], b"\0"), "got shape \\[1.0\\]"),
    "length is a bool": (packed([row(shape=(True,))], b"\0"), "got shape \\[True\\]"),
    "nine axes": (packed([row(shape=(1,) * 9)], b"\0"), "at most 8 lengths"),
    "size beyond memory": (packed([row(shape=(0, 2**62, 2**62))]), "whose product is at most"),
    "missing key": (packed([{"dtype": "uint8", "name": "a"}]), "want an object of dtype"),
    "extra key": (packed([{**row(), "unit": "m"}], b"\0"), "want an object of dtype"),
    "repeated key": (
        packed(None, b"\0", b'[{"dtype":"uint8","name":"a","name":"a","shape":[1]}]'),
        "got a repeated key",
    ),
    "space in the header": (
        packed(None, b"\0", b'[{"dtype": "uint8","name":"a","shape":[1]}]'),
        "not canonical",
    ),
    "key order": (
        packed(None, b"\0", b'[{"name":"a","dtype":"uint8","shape":[1]}]'),
        "not canonical",
    ),
    "escaped letter": (
        packed(None, b"\0", b'[{"dtype":"uint8","name":"\\u0061","shape":[1]}]'),
        "not canonical",
    ),
    "no JSON": (packed(None, b"", b"[}"), "got no ASCII JSON"),
    "not ASCII": (packed(None, b"", b'["\xc3\xa9"]'), "got no ASCII JSON"),
    "nested too deep": (packed(None, b"", b"[" * 100_000), "got no ASCII JSON"),
    "an object": (packed({}), "got dict, want a list of fields"),
    "a field that is a number": (packed([3]), "got entry 3, want an object"),
    "bool byte 2": (packed([row(dtype="bool")], b"\2"), "got bool byte 2, want 0 or 1"),
}


@pytest.mark.parametrize("name", sorted(CORRUPTIONS))
def test_a_corruption_is_named(name):
    data, message = CORRUPTIONS[name]
    with pytest.raises(CodecError, match=message):
        codec.decode(data)


def test_no_changed_byte_decodes_to_the_same_arrays():
    # Of every single-byte change, each is refused or gives other arrays with their own encoding.
    good = bytes.fromhex(EXAMPLE_HEX)
    for place in range(len(good)):
        bad = bytearray(good)
        bad[place] ^= 0x41
        try:
            back = codec.decode(bytes(bad))
        except CodecError:
            continue
        assert codec.encode(back) == bytes(bad) != good


def test_the_codec_needs_no_jax(python):
    code = "import sys, vimejax.codec; print(sorted({'jax', 'brax'} & set(sys.modules)))"
    assert python(code).stdout.strip() == "[]"
