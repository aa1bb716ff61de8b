"""Named arrays as one byte string in safetensors form, of which only one spelling is accepted."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as _decode
from safetensors.numpy import save as _encode

from rlkjax.audit.merkle import canonical_array
from rlkjax.errors import ConsistencyError, InputError


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
    try:
        loaded = _decode(data)
        tensors = {name: np.array(loaded[name], order="C", copy=True) for name in sorted(loaded)}
        packed = pack(tensors)
    except (SafetensorError, InputError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConsistencyError(
            f"{what}: got bytes that cannot be read as tensors ({error}), want a safetensors file; "
            "restore it from a copy"
        ) from None
    if packed != data:
        raise ConsistencyError(
            f"{what}: got another spelling of its tensors, want the bytes that were written; "
            "restore it from a copy"
        )
    return tensors
