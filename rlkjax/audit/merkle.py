"""Leaf digests of arrays, for the trees of `tree`; first difference of two segments.

    leaf = SHA-256(0x00 || header || bytes)

The functions over digests and JSON alone stand in `tree` and `canonical`, which need no NumPy.
"""

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rlkjax.audit.canonical import canonical_json
from rlkjax.audit.tree import leaf_hash, node_hash, root
from rlkjax.errors import ConsistencyError, InputError

__all__ = [
    "DTYPES",
    "Difference",
    "canonical_array",
    "canonical_json",
    "first_difference",
    "leaf_hash",
    "node_hash",
    "root",
    "segment_leaves",
    "tensor_leaves",
]

DTYPES = ("bool", "float16", "float32", "int32", "uint8", "uint32")
_ORDERS: tuple[Literal["<", ">"], ...] = ("<", ">")
# Looked up, since NumPy takes microseconds to spell the name of a dtype.
_NAMES = {np.dtype(name).newbyteorder(order): name for name in DTYPES for order in _ORDERS}
_LITTLE = {dtype: np.dtype(name).newbyteorder("<") for dtype, name in _NAMES.items()}

# Above this size the copy that joins header and bytes costs more than a second update call.
_JOIN_LIMIT = 1 << 15


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
