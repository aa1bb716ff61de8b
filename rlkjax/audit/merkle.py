"""Canonical bytes, leaf digests, Merkle roots as in RFC 6962; first difference of two segments.

    leaf = SHA-256(0x00 || header || bytes)        node = SHA-256(0x01 || left || right)

A tree of n leaves splits at the largest power of two below n, which is the same as pairing
neighbours level by level and carrying a last odd node up unchanged.
"""

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rlkjax.errors import ConsistencyError, InputError

DTYPES = ("bool", "float16", "float32", "int32", "uint8", "uint32")
_ORDERS: tuple[Literal["<", ">"], ...] = ("<", ">")
# Looked up, since NumPy takes microseconds to spell the name of a dtype.
_NAMES = {np.dtype(name).newbyteorder(order): name for name in DTYPES for order in _ORDERS}
_LITTLE = {dtype: np.dtype(name).newbyteorder("<") for dtype, name in _NAMES.items()}
MIN_INTEGER, MAX_INTEGER = -(2**63), 2**64 - 1

# Above this size the copy that joins header and bytes costs more than a second update call.
_JOIN_LIMIT = 1 << 15


def _check_json(value: Any) -> None:
    if value is None or isinstance(value, bool | str):
        return
    if isinstance(value, int):
        if not MIN_INTEGER <= value <= MAX_INTEGER:
            raise InputError(
                f"canonical JSON: got an integer of {value.bit_length()} bits, "
                "want one from -2^63 to 2^64 - 1; write larger numbers as hex strings"
            )
        return
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InputError(f"canonical JSON: got key {key!r}, want a string; convert it")
        for item in value.values():
            _check_json(item)
        return
    if isinstance(value, list | tuple):
        for item in value:
            _check_json(item)
        return
    raise InputError(
        f"canonical JSON: got a {type(value).__name__}, want objects, arrays, strings, integers, "
        "true, false or null; write floats as hex strings"
    )


def canonical_json(value: Any) -> bytes:
    """The one spelling of a value: sorted keys, no spaces, ASCII, no floats.

    Args:
      value: mappings with string keys, lists, tuples, strings, integers from -2^63 to 2^64 - 1,
        booleans and None.

    Returns:
      ASCII bytes without a line end.

    Raises:
      InputError: the value holds a float, a larger integer or anything else.
    """
    _check_json(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def leaf_hash(data: bytes) -> bytes:
    """Digest of one leaf: SHA-256(0x00 || data).

    Args:
      data: any bytes.

    Returns:
      32 bytes.

    Source: RFC 6962, section 2.1.
    """
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Digest of an inner node: SHA-256(0x01 || left || right).

    Args:
      left: 32 bytes.
      right: 32 bytes.

    Returns:
      32 bytes.

    Source: RFC 6962, section 2.1.
    """
    return hashlib.sha256(b"\x01" + left + right).digest()


def root(leaves: Sequence[bytes]) -> bytes:
    """Merkle tree hash over leaf digests.

    Args:
      leaves: digests of 32 bytes, as `leaf_hash`, `segment_leaves` or `tensor_leaves` give them.

    Returns:
      32 bytes; SHA-256("") when there is no leaf.

    Source: RFC 6962, section 2.1.
    """
    sha256 = hashlib.sha256
    level = list(leaves)
    if not level:
        return sha256(b"").digest()
    while len(level) > 1:
        odd = level[-1:] if len(level) % 2 else []
        pairs = zip(level[0::2], level[1::2], strict=False)
        level = [sha256(b"\x01" + left + right).digest() for left, right in pairs] + odd
    return level[0]


def canonical_array(name: str, array: Any) -> np.ndarray:
    """The array whose memory is the canonical bytes: little-endian, C order, contiguous.

    Args:
      name: field name, for the message.
      array: anything NumPy reads, of bool, float16, float32, int32, uint8 or uint32.

    Returns:
      The array itself where it is canonical already, else a copy.

    Raises:
      InputError: another dtype.
    """
    array = np.asarray(array)
    if array.dtype not in _NAMES:
        raise InputError(
            f"field {name!r}: got dtype {array.dtype.name}, want one of {', '.join(DTYPES)}; "
            "convert it on purpose before it is hashed"
        )
    return np.asarray(array, dtype=_LITTLE[array.dtype], order="C")


@functools.lru_cache(maxsize=4096)
def _header_parts(name: str, dtype: str, shape: tuple[int, ...]) -> tuple[bytes, bytes]:
    """The bytes of a header before its sequence number, and those between it and its step."""
    head = canonical_json({"dtype": dtype, "field": name})[: -len(b"}")] + b',"sequence":'
    return head, b"," + canonical_json({"shape": shape, "step": 0})[len(b"{") : -len(b"0}")]


def _header_prefix(name: str, array: np.ndarray, shape: tuple[int, ...], sequence: int) -> bytes:
    # `step` sorts last, so that every step of a field shares all bytes before its number.
    head, tail = _header_parts(name, _NAMES[array.dtype], shape)
    return head + b"%d" % sequence + tail


def _column(prefix: bytes, tails: Sequence[bytes], array: np.ndarray) -> list[bytes]:
    """Leaf digests of one field, one a step; `array` is canonical, [T, ...]."""
    sha256 = hashlib.sha256
    view = array.reshape(-1).view(np.uint8).data
    size = len(view) // max(len(tails), 1)
    prefix = b"\x00" + prefix
    spans = [(tail, step * size) for step, tail in enumerate(tails)]
    if size <= _JOIN_LIMIT:
        return [sha256(prefix + tail + view[at : at + size]).digest() for tail, at in spans]
    column = []
    for tail, at in spans:
        digest = sha256(prefix + tail)
        digest.update(view[at : at + size])
        column.append(digest.digest())
    return column


def segment_leaves(fields: Mapping[str, Any], sequence: int) -> list[bytes]:
    """Leaf digests of a segment, step-major: leaf t * F + f is field f, by name, at step t.

    Args:
      fields: name -> [T, ...] of bool, float16, float32, int32, uint8 or uint32; one T for all.
      sequence: global number of the segment, 0 or more.

    Returns:
      T * F digests of 32 bytes.

    Raises:
      InputError: another dtype, a scalar, or unequal T.
    """
    names = sorted(fields)
    arrays = [canonical_array(name, fields[name]) for name in names]
    for name, array in zip(names, arrays, strict=True):
        if array.ndim == 0 or len(array) != len(arrays[0]):
            raise InputError(
                f"field {name!r}: got shape {array.shape}, want a first axis of the length T of "
                f"field {names[0]!r}, shape {arrays[0].shape}; stack the steps of every field"
            )
    steps = len(arrays[0]) if arrays else 0
    tails = [b"%d}" % step for step in range(steps)]
    columns = [
        _column(_header_prefix(name, array, array.shape[1:], sequence), tails, array)
        for name, array in zip(names, arrays, strict=True)
    ]
    return [leaf for row in zip(*columns, strict=True) for leaf in row]


def tensor_leaves(fields: Mapping[str, Any], sequence: int) -> list[bytes]:
    """Leaf digests of a parameter tree: one whole tensor a leaf, sorted by name, step 0.

    Args:
      fields: name -> array of any shape, of bool, float16, float32, int32, uint8 or uint32.
      sequence: number that goes into every header, such as the iteration.

    Returns:
      One digest of 32 bytes a tensor.

    Raises:
      InputError: another dtype.
    """
    leaves = []
    for name in sorted(fields):
        array = canonical_array(name, fields[name])
        prefix = _header_prefix(name, array, array.shape, sequence)
        leaves += _column(prefix, [b"0}"], array)
    return leaves


@dataclass(frozen=True)
class Difference:
    """The first place where two segments differ.

    Attributes:
      field: name of the buffer.
      step: time index.
      index: place inside the step's array; the first axis is the environment.
      expected: bits of the element in the first segment, hex digits of one unsigned number.
      got: bits of the element in the second segment.
    """

    field: str
    step: int
    index: tuple[int, ...]
    expected: str
    got: str


def _bits(name: str, array: Any) -> np.ndarray:
    array = canonical_array(name, array)
    return array.view(np.dtype(f"<u{array.dtype.itemsize}"))


def _first_in_field(name: str, expected: Any, got: Any) -> Difference | None:
    bits_e, bits_g = _bits(name, expected), _bits(name, got)
    if bits_e.tobytes() == bits_g.tobytes():
        return None
    step, *index = (int(i) for i in np.unravel_index(np.argmax(bits_e != bits_g), bits_e.shape))
    digits = 2 * bits_e.dtype.itemsize
    pair = (f"{int(bits[(step, *index)]):0{digits}x}" for bits in (bits_e, bits_g))
    return Difference(name, step, tuple(index), *pair)


def first_difference(fields_a: Mapping[str, Any], fields_b: Mapping[str, Any]) -> Difference | None:
    """The first difference in bits: earliest step, then field by name, then element in C order.

    Bits are compared, not values: -0.0 differs from 0.0, and a NaN equals only its own pattern.

    Args:
      fields_a: name -> [T, ...], the expected side.
      fields_b: name -> [T, ...], the other side; same names, shapes and dtypes.

    Returns:
      The difference, or None when all bits are equal.

    Raises:
      ConsistencyError: names, shapes or dtypes differ.
      InputError: a dtype that has no canonical bytes.
    """
    if set(fields_a) != set(fields_b):
        odd = sorted(set(fields_a) ^ set(fields_b))
        raise ConsistencyError(
            f"fields: {', '.join(odd)} on one side only, want the same fields on both; "
            "check that both sides run one version"
        )
    arrays = {name: (np.asarray(fields_a[name]), np.asarray(fields_b[name])) for name in fields_a}
    for name, (a, b) in sorted(arrays.items()):
        if a.shape != b.shape or a.dtype.name != b.dtype.name:
            raise ConsistencyError(
                f"field {name!r}: got {b.dtype.name}{list(b.shape)}, want "
                f"{a.dtype.name}{list(a.shape)}; check that both sides run one version"
            )
    found = [_first_in_field(name, a, b) for name, (a, b) in arrays.items()]
    differences = [difference for difference in found if difference is not None]
    return min(differences, key=lambda d: (d.step, d.field), default=None)
