"""Named arrays as one byte string in safetensors form, of which only one spelling is accepted."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from safetensors.numpy import save as _encode

from rlkjax.audit.merkle import canonical_array
from rlkjax.audit.records import is_count
from rlkjax.errors import ConsistencyError

# Codes in the order in which safetensors lays tensors out.
_CODES: dict[str, np.dtype] = {
    "F32": np.dtype("<f4"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "F16": np.dtype("<f2"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
_RANK = {code: rank for rank, code in enumerate(_CODES)}
_LENGTH = 8  # bytes of the header's length


def pack(tensors: Mapping[str, Any]) -> bytes:
    """The bytes of a safetensors file: the same for the same names, dtypes, shapes and bits.

    Args:
      tensors: name -> array of bool, float16, float32, int32, uint8 or uint32, any shape.

    Returns:
      The whole file, without metadata.

    Raises:
      InputError: another dtype.
    """
    arrays = {name: canonical_array(name, tensors[name]) for name in sorted(tensors)}
    return _encode(arrays)


def view(data: bytes | memoryview, what: str) -> dict[str, np.ndarray]:
    """The arrays of a file that `pack` wrote, as read-only views of its bytes.

    Args:
      data: the whole file; it must stay as it is while the arrays are used.
      what: name of the file, for the message.

    Returns:
      name -> array, sorted by name.

    Raises:
      ConsistencyError: no safetensors file, a foreign dtype, or not the bytes that `pack` writes.
    """
    try:
        tensors = _parse(data)
    except (ValueError, RecursionError) as error:
        raise ConsistencyError(
            f"{what}: got bytes that cannot be read as tensors ({str(error)[:200]}), want a "
            "safetensors file; restore it from a copy"
        ) from None
    if tensors is None:
        raise ConsistencyError(
            f"{what}: got another spelling of its tensors, want the bytes that were written; "
            "restore it from a copy"
        )
    return tensors


def unpack(data: bytes, what: str) -> dict[str, np.ndarray]:
    """The arrays of a file that `pack` wrote, as fresh copies that share no memory with `data`.

    Args:
      data: the whole file.
      what: name of the file, for the message.

    Returns:
      name -> array, sorted by name.

    Raises:
      ConsistencyError: no safetensors file, a foreign dtype, or not the bytes that `pack` writes.
    """
    return {name: array.copy() for name, array in view(data, what).items()}


def _parse(data: bytes | memoryview) -> dict[str, np.ndarray] | None:
    """Views by name; None where the file is spelled otherwise than `pack` does."""
    start = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    if start > len(data):
        raise ValueError(f"a header that ends at byte {start} of {len(data)}")
    stated = bytes(data[_LENGTH:start])
    entries = _entries(json.loads(stated.decode("utf-8")))
    header, spans = _layout(entries)
    size = start + max((end for _, end in spans.values()), default=0)
    if stated != header or size != len(data):
        return None
    tensors = {}
    for name in sorted(entries):
        code, shape = entries[name]
        flat = np.frombuffer(data, _CODES[code], math.prod(shape), start + spans[name][0])
        if code == "BOOL" and flat.size and flat.view(np.uint8).max() > 1:
            return None
        tensors[name] = flat.reshape(shape)
    return tensors


def _entries(header: Any) -> dict[str, tuple[str, list[int]]]:
    """name -> (code, shape) as a header states them."""
    if not isinstance(header, dict):
        raise ValueError("a header that is no object")
    found = {}
    for name, entry in header.items():
        known = isinstance(entry, dict) and entry.get("dtype") in _CODES
        shape = entry.get("shape") if known else None
        if not isinstance(shape, list) or not all(map(is_count, shape)):
            raise ValueError(f"an entry {name[:80]!r} without a known dtype and shape")
        found[name] = (entry["dtype"], shape)
    return found


def _layout(
    entries: Mapping[str, tuple[str, list[int]]],
) -> tuple[bytes, dict[str, tuple[int, int]]]:
    """The one header for these entries, and the place of each tensor in the data."""
    spans, spelled, at = {}, {}, 0
    for name in sorted(entries, key=lambda name: (_RANK[entries[name][0]], name)):
        code, shape = entries[name]
        spans[name] = (at, at + math.prod(shape) * _CODES[code].itemsize)
        at = spans[name][1]
        spelled[name] = {"dtype": code, "shape": shape, "data_offsets": list(spans[name])}
    text = json.dumps(spelled, separators=(",", ":"), ensure_ascii=False).encode()
    return text + b" " * (-len(text) % 8), spans
