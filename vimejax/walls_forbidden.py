"""What an environment may not touch while it is traced: clocks, entropy, global draws, float64."""

import datetime
import os
import random
import time
from collections.abc import Iterable, Iterator
from types import BuiltinFunctionType, FrameType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

DRAW = "draw with jax.random from the key that reset or step is given"
NARROW = "write jnp.float32(...), or a plain Python number"
COUNT = "count steps in the state instead"

# Modules that hand a call on: what they reach, their caller has asked for.
_PASS_ON = ("random", "secrets", "uuid", "datetime", "numpy.random", "numpy._core", "threading")
_DATES = ("now", "utcnow", "today")
_TYPES = (
    "float64",
    "double",
    "complex128",
    "float32",
    "float16",
    "int32",
    "uint32",
    "int8",
    "bool",
)
_NUMPY = frozenset(np.sctypeDict.values())
_JAX = os.path.dirname(jax.__file__) + os.sep


class Forbidden(NamedTuple):
    """A breach in words: what was got, what is wanted, the next move."""

    got: str
    want: str
    move: str


def clock(name: str) -> Forbidden:
    """The reading of a clock.

    Args:
      name: of the function.

    Returns:
      The breach in words.
    """
    return Forbidden(f"calls {name}", "no clock", COUNT)


def draw(name: str) -> Forbidden:
    """A draw that no key decides.

    Args:
      name: of the function.

    Returns:
      The breach in words.
    """
    return Forbidden(f"calls {name}", "draws from the key alone", DRAW)


_CONVERSIONS = ("mktime", "strptime", "struct_time", "get_clock_info")
_CLOCKS = [
    getattr(time, name)
    for name in dir(time)
    if isinstance(getattr(time, name), BuiltinFunctionType) and name not in _CONVERSIONS
]
_ENTROPY = [getattr(os, name) for name in ("urandom", "getrandom") if hasattr(os, name)]
_BUILTINS = {id(each): clock(f"time.{each.__name__}") for each in _CLOCKS} | {
    id(each): draw(f"os.{each.__name__}") for each in _ENTROPY
}
_GLOBAL = random.random.__self__  # type: ignore[attr-defined]  # the module's own generator
# Names of all compiled functions that `builtin` can refuse.
NAMES = frozenset(
    [each.__name__ for each in _ENTROPY]
    + [each.__name__ for each in _CLOCKS]
    + ["random", "getrandbits", "seed"]
    + [*_DATES]
)
_RANDOM = random.__file__


def builtin(function: Any) -> Forbidden | None:
    """Whether a compiled function may not be called.

    Args:
      function: what the interpreter is about to call.

    Returns:
      The breach, or None.
    """
    owner = getattr(function, "__self__", None)
    if owner is _GLOBAL:
        return draw(f"random.{function.__name__}")
    if isinstance(owner, type):
        if function.__name__ in _DATES and issubclass(owner, datetime.date):
            return clock(f"datetime.{owner.__name__}.{function.__name__}")
        return None
    return _BUILTINS.get(id(function))


def method(frame: FrameType) -> Forbidden | None:
    """Whether a Python function is a method of the global generator of `random`.

    Args:
      frame: of a function that was just entered.

    Returns:
      The breach, or None.
    """
    code = frame.f_code
    if code.co_filename != _RANDOM or not code.co_argcount:
        return None
    first = frame.f_locals.get(code.co_varnames[0])
    return draw(f"random.{code.co_name}") if first is _GLOBAL else None


def passes_on(frame: FrameType) -> bool:
    """Whether a library's frame only hands on what its caller asked for.

    Args:
      frame: of a library.

    Returns:
      True for the modules of randomness and dates.
    """
    name = str(frame.f_globals.get("__name__", ""))
    return any(name == each or name.startswith(each + ".") for each in _PASS_ON)


def wide_argument(frame: FrameType) -> Forbidden | None:
    """Whether a function of JAX was entered with a 64-bit float, or asked for one.

    Args:
      frame: of a function that was just entered.

    Returns:
      The breach, or None.
    """
    code = frame.f_code
    if not code.co_filename.startswith(_JAX):
        return None
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)  # *args and **kwargs
    given = [*_one_level(frame.f_locals.get(name) for name in code.co_varnames[:count])]
    asked = [dtype for dtype in map(_asked, given) if dtype is not None]
    wide = next((dtype for dtype in asked if _is_wide(dtype)), None)
    if wide is not None:
        return Forbidden(f"asks JAX for {wide}", "float32 or integers", NARROW)
    value = next((each for each in given if is_wide(each)), None)
    if value is None or asked:  # converted to what was asked for, which is how it is mended
        return None
    return Forbidden(f"gives JAX a {value.dtype}", "float32 or integers", NARROW)


def is_wide(value: Any) -> bool:
    """Whether a value is an array or scalar of floats wider than 32 bits.

    Args:
      value: anything; a plain Python number is not wide, for JAX takes it at the width of the rest.

    Returns:
      True for float64, longdouble and complex128.
    """
    return isinstance(value, np.ndarray | np.generic | jax.Array) and _is_wide(value.dtype)


def _is_wide(dtype: Any) -> bool:
    kind = getattr(dtype, "kind", "")  # types of JAX's own, such as keys, have none
    return dtype.itemsize > 4 if kind == "f" else kind == "c" and dtype.itemsize > 8


def _asked(value: Any) -> np.dtype | None:
    """The type that a value names; None for `float`, which JAX reads as float32."""
    if isinstance(value, np.dtype):
        return value
    if isinstance(value, type(jnp.float32)):
        return value.dtype
    if isinstance(value, type) and value in _NUMPY:
        return np.dtype(value)
    if isinstance(value, str) and value in _TYPES:
        return np.dtype(value)
    return None


def _one_level(values: Iterable[Any]) -> Iterator[Any]:
    """Values, and what tuples, lists and dicts among them hold."""
    for value in values:
        if isinstance(value, dict):
            yield from value.values()
        elif isinstance(value, tuple | list):
            yield from value
        else:
            yield value
