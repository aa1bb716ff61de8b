"""Elements compared bit by bit: the first that differs, and how far apart its two values are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlkjax.audit.merkle import canonical_array

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32}


@dataclass(frozen=True)
class Place:
    """The first element that differs, or the buffer alone where the files do not lead to one.

    Attributes:
      buffer: name of the buffer or tensor.
      dtype: its dtype; None if unknown.
      step: time index in the segment; None for a tensor without a time axis.
      environment: index of the environment; None for a tensor without one.
      element: index of the element inside the step and environment, or inside the tensor.
      a_bits: bits of the element in the first run, hex digits of one unsigned number.
      b_bits: bits of the element in the second run.
      differing: elements of the buffer that differ.
      elements: elements of the buffer.
    """

    buffer: str
    dtype: str | None = None
    step: int | None = None
    environment: int | None = None
    element: tuple[int, ...] | None = None
    a_bits: str | None = None
    b_bits: str | None = None
    differing: int | None = None
    elements: int | None = None


def _scalar(dtype: str, bits: str) -> np.ndarray:
    kind = np.dtype(dtype)
    return np.array(int(bits, 16), _UNSIGNED[kind.itemsize]).view(kind)


def value_text(dtype: str, bits: str) -> str:
    """The number that a bit pattern stands for, in the fewest digits that tell it from others.

    Args:
      dtype: "bool", "float16", "float32", "int32", "uint8" or "uint32".
      bits: hex digits of one unsigned number.

    Returns:
      Text such as "0.1", "-0.0", "nan", "17" or "True".
    """
    return str(_scalar(dtype, bits)[()])


def ulp_distance(dtype: str, a: str, b: str) -> int | None:
    """How many floating-point numbers lie from one bit pattern to the other.

    The two zeros are 0 apart; infinity is one step beyond the largest number.

    Args:
      dtype: as for `value_text`.
      a: hex digits.
      b: hex digits.

    Returns:
      The distance in units in the last place; None for integers, booleans and NaN.
    """
    values = [_scalar(dtype, bits) for bits in (a, b)]
    if values[0].dtype.kind != "f" or any(np.isnan(value) for value in values):
        return None
    sign = 1 << (8 * values[0].dtype.itemsize - 1)
    steps = [int(bits, 16) for bits in (a, b)]
    places = [step if step < sign else sign - step for step in steps]
    return abs(places[0] - places[1])


def first_of(
    fields_a: Mapping[str, Any], fields_b: Mapping[str, Any], order: Sequence[str], *, timed: bool
) -> Place | None:
    """The first element that differs: earliest step, then buffers in the order they are made.

    Bits are compared, not values: -0.0 differs from 0.0, and a NaN equals only its own pattern.

    Args:
      fields_a: name -> array, of one of the dtypes that are hashed.
      fields_b: name -> array; same names, shapes and dtypes.
      order: names in the order in which a step makes them; others follow by name.
      timed: whether the first axis is time and the second the environment.

    Returns:
      The place, or None where all bits are equal.
    """
    rank = {name: number for number, name in enumerate(order)}
    found = []
    for name in sorted(fields_a):
        place = _first(name, fields_a[name], fields_b[name], timed)
        if place is not None:
            found.append((place.step or 0, rank.get(name, len(rank)), name, place))
    return min(found, key=lambda each: each[:3])[3] if found else None


def _first(name: str, a: Any, b: Any, timed: bool) -> Place | None:
    bits_a, bits_b = (as_bits(name, each) for each in (a, b))
    unequal = bits_a != bits_b
    count = int(np.count_nonzero(unequal))
    if not count:
        return None
    index = tuple(int(i) for i in np.unravel_index(np.argmax(unequal), unequal.shape))
    step, environment, element = None, None, index
    if timed and len(index) > 1:
        step, environment, element = index[0], index[1], index[2:]
    digits = 2 * bits_a.dtype.itemsize
    return Place(
        buffer=name,
        dtype=canonical_array(name, a).dtype.name,
        step=step,
        environment=environment,
        element=element,
        a_bits=f"{int(bits_a[index]):0{digits}x}",
        b_bits=f"{int(bits_b[index]):0{digits}x}",
        differing=count,
        elements=unequal.size,
    )


def as_bits(name: str, array: Any) -> np.ndarray:
    """The bits of an array as unsigned integers of its shape.

    Args:
      name: of the field, for the message.
      array: of one of the dtypes that are hashed.

    Returns:
      Array of uint8, uint16 or uint32.

    Raises:
      InputError: another dtype.
    """
    canonical = canonical_array(name, array)
    return canonical.view(np.dtype(f"<u{canonical.dtype.itemsize}"))
