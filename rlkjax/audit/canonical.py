"""Canonical JSON: one spelling for one value. The standard library alone."""

import json
from collections.abc import Mapping
from typing import Any

from rlkjax.errors import InputError

MIN_INTEGER, MAX_INTEGER = -(2**63), 2**64 - 1


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
