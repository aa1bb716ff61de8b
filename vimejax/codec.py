"""Canonical bytes of named arrays, and back. One set of arrays has exactly one encoding.

The format is written down to the byte in `docs/codec-format.md`. NumPy only: whoever checks bytes
needs no JAX. Typed keys are given as their uint32 key data.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from vimejax.errors import CodecError

MAGIC = b"VIMECDC1"  # eight bytes: format and version
MAX_RANK = 8
MAX_SPAN = (1 << 63) // 4 - 1  # product of the non-zero lengths of a shape, as NumPy can hold it
MAX_HEADER = 1 << 20  # bytes; far above any schema, far below what would hurt to allocate
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,127}")

# Name in the header -> NumPy dtype, little-endian. bool is one byte, 0 or 1.
DTYPES: dict[str, np.dtype] = {
    "bool": np.dtype("?"),
    "float16": np.dtype("<f2"),
    "float32": np.dtype("<f4"),
    "int32": np.dtype("<i4"),
    "uint32": np.dtype("<u4"),
    "uint8": np.dtype("|u1"),
}


class Field(NamedTuple):
    """One array of a schema.

    Attributes:
      name: 1 to 128 characters of A-Z a-z 0-9 _ . / -, the first a letter, a digit or _.
      dtype: one of `DTYPES`.
      shape: lengths of the axes, the slowest first; () for a scalar.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]


def _check_name(name: Any) -> str:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise CodecError(
            f"name of a field: got {name!r}, want 1 to 128 characters of A-Z a-z 0-9 _ . / - "
            "that begin with a letter, a digit or _; rename it."
        )
    return name


def _span(shape: Sequence[int]) -> int:
    return math.prod(max(n, 1) for n in shape)


def _field(name: Any, value: Any) -> Field:
    _check_name(name)
    if not isinstance(value, (np.ndarray, np.generic)):
        raise CodecError(
            f"field {name!r}: got {type(value).__name__}, want a NumPy array; "
            "convert it with numpy.asarray on a finished host copy."
        )
    dtype = value.dtype.name
    if dtype not in DTYPES:
        raise CodecError(
            f"field {name!r}: got dtype {dtype}, want one of {', '.join(DTYPES)}; "
            "cast it on purpose."
        )
    if value.ndim > MAX_RANK or _span(value.shape) > MAX_SPAN:
        raise CodecError(
            f"field {name!r}: got shape {value.shape}, want at most {MAX_RANK} axes and a product "
            f"of at most {MAX_SPAN}; reshape it."
        )
    return Field(name, dtype, tuple(int(n) for n in value.shape))


def schema(fields: Mapping[str, np.ndarray]) -> tuple[Field, ...]:
    """What the arrays are called and look like, in the order of their bytes.

    Args:
      fields: name -> array of a dtype in `DTYPES`, of any shape of at most 8 axes.

    Returns:
      One `Field` an array, sorted by name (as ASCII bytes).

    Raises:
      CodecError: a name, dtype or rank has no encoding.
    """
    return tuple(sorted(_field(name, value) for name, value in fields.items()))


def header(of: tuple[Field, ...]) -> bytes:
    """Canonical JSON of a schema: no spaces, keys in the order dtype, name, shape.

    Args:
      of: the schema, sorted by name.

    Returns:
      ASCII bytes.
    """
    rows = [{"dtype": f.dtype, "name": f.name, "shape": list(f.shape)} for f in of]
    return json.dumps(rows, separators=(",", ":"), sort_keys=True).encode("ascii")


def array_bytes(name: str, value: np.ndarray) -> bytes:
    """Little-endian C-order bytes of one array.

    Args:
      name: name of the field, for the message.
      value: array of a dtype in `DTYPES`.

    Returns:
      itemsize x size bytes.

    Raises:
      CodecError: the name, dtype or rank has no encoding, or a bool holds a byte other than 0, 1.
    """
    field = _field(name, value)
    raw = np.asarray(value).astype(DTYPES[field.dtype], order="C", copy=False).tobytes(order="C")
    if field.dtype == "bool":
        _check_bool(name, raw)
    return raw


def _check_bool(name: str, raw: bytes) -> None:
    wrong = raw.translate(None, b"\x00\x01")
    if wrong:
        raise CodecError(
            f"field {name!r}: got bool byte {wrong[0]}, want 0 or 1; the data is damaged."
        )


def encode(fields: Mapping[str, np.ndarray]) -> bytes:
    """The one encoding of named arrays: magic, header length, header, then each array's bytes.

    Args:
      fields: name -> array of a dtype in `DTYPES`; the order of the mapping does not matter.

    Returns:
      Bytes that `decode` takes back.

    Raises:
      CodecError: a name, dtype, rank or bool byte has no encoding.
    """
    rows = schema(fields)
    head = header(rows)
    if len(head) > MAX_HEADER:
        raise CodecError(
            f"fields: got a header of {len(head)} bytes, want at most {MAX_HEADER}; split them."
        )
    body = [array_bytes(row.name, fields[row.name]) for row in rows]
    return b"".join([MAGIC, len(head).to_bytes(4, "little"), head, *body])


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        raise CodecError(
            f"header: got a repeated key in {pairs}, want each once; the data is damaged."
        )
    return row


def _parse_row(row: Any) -> Field:
    if not isinstance(row, dict) or set(row) != {"dtype", "name", "shape"}:
        raise CodecError(f"header: got entry {row!r}, want an object of dtype, name and shape.")
    name = _check_name(row["name"])
    if not isinstance(row["dtype"], str) or row["dtype"] not in DTYPES:
        raise CodecError(
            f"field {name!r}: got dtype {row['dtype']!r}, want one of {', '.join(DTYPES)}."
        )
    shape = row["shape"]
    sound = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
    if not sound or len(shape) > MAX_RANK or _span(shape) > MAX_SPAN:
        raise CodecError(
            f"field {name!r}: got shape {shape!r}, want a list of at most {MAX_RANK} lengths of 0 "
            f"or more whose product is at most {MAX_SPAN}; the data is damaged."
        )
    return Field(name, row["dtype"], tuple(shape))


def _parse_header(head: bytes) -> tuple[Field, ...]:
    try:
        rows = json.loads(head.decode("ascii"), object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"header: got no ASCII JSON ({error}); the data is damaged.") from error
    if not isinstance(rows, list):
        raise CodecError(f"header: got {type(rows).__name__}, want a list of fields.")
    fields = tuple(_parse_row(row) for row in rows)
    names = [field.name for field in fields]
    if any(a >= b for a, b in zip(names, names[1:], strict=False)):
        raise CodecError(f"header: got the names {names}, want them sorted and each once.")
    if header(fields) != head:
        raise CodecError("header: got JSON that is not canonical (spaces, escapes or key order).")
    return fields


def _split(data: bytes) -> tuple[tuple[Field, ...], int]:
    if data[:8] != MAGIC:
        raise CodecError(
            f"data: got the first bytes {data[:8]!r}, want {MAGIC!r}; this is another format."
        )
    if len(data) < 12:
        raise CodecError(f"data: got {len(data)} bytes, want at least 12; the end is missing.")
    length = int.from_bytes(data[8:12], "little")
    if length > MAX_HEADER or len(data) < 12 + length:
        raise CodecError(
            f"data: got {len(data)} bytes and a header length of {length}, want at most "
            f"{MAX_HEADER} and the whole header; the end is missing or the length is damaged."
        )
    return _parse_header(data[12 : 12 + length]), 12 + length


def decode(data: bytes) -> dict[str, np.ndarray]:
    """The arrays of an encoding, sorted by name. Accepts nothing that `encode` would not write.

    Args:
      data: bytes of `encode`.

    Returns:
      name -> read-only array in the machine's own byte order.

    Raises:
      CodecError: any byte is missing, added, out of order or not canonical.
    """
    data = bytes(data)
    fields, start = _split(data)
    arrays = {}
    for field in fields:
        dtype = DTYPES[field.dtype]
        size = dtype.itemsize * math.prod(field.shape)
        raw = data[start : start + size]
        if len(raw) != size:
            raise CodecError(
                f"field {field.name!r}: got {len(raw)} bytes, want {size}; the end is missing."
            )
        if field.dtype == "bool":
            _check_bool(field.name, raw)
        array = np.frombuffer(raw, dtype).astype(dtype.newbyteorder("="), copy=False)
        array = array.reshape(field.shape)
        array.flags.writeable = False
        arrays[field.name] = array
        start += size
    if start != len(data):
        raise CodecError(
            f"data: got {len(data) - start} bytes after the last field, want none; "
            "something was added."
        )
    return arrays
