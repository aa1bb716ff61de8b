"""What an environment may not touch while it is traced: clocks, entropy, global draws, float64."""

import _thread
import concurrent.futures
import datetime
import operator
import os
import random
import re
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FrameType, MethodType
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
_LETTERED = re.compile(r"[<>=|]?[fc](8|16)")  # "f8" and the like; "d" may be the name of an axis
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


def look(name: str) -> Forbidden:
    """A look at the process or the machine.

    Args:
      name: of the function.

    Returns:
      The breach in words.
    """
    want = "no look at the process or the machine"
    return Forbidden(f"calls {name}", want, "compute from the state and the key alone")


_THREAD = Forbidden("starts a thread", "one thread", "compute in reset or step itself")
_CONVERSIONS = ("mktime", "strptime", "struct_time", "get_clock_info")
_CLOCKS = [
    getattr(time, name)
    for name in dir(time)
    if isinstance(getattr(time, name), BuiltinFunctionType) and name not in _CONVERSIONS
]
_ENTROPY = [getattr(os, name) for name in ("urandom", "getrandom") if hasattr(os, name)]
_STARTS = [
    getattr(_thread, name)
    for name in ("start_new_thread", "start_joinable_thread")
    if hasattr(_thread, name)
]
_LOOKS = [getattr(os, name) for name in ("getpid", "getppid", "getloadavg") if hasattr(os, name)]
_BUILTINS = (
    {id(each): clock(f"time.{each.__name__}") for each in _CLOCKS}
    | {id(each): draw(f"os.{each.__name__}") for each in _ENTROPY}
    | {id(each): look(f"os.{each.__name__}") for each in _LOOKS}
    | {id(each): _THREAD for each in _STARTS}
    | {id(os.times): clock("os.times")}
)
_GLOBAL = random.random.__self__  # type: ignore[attr-defined]  # the module's own generator
# Names of all compiled functions that `builtin` can refuse.
NAMES = frozenset(
    [each.__name__ for each in [*_ENTROPY, *_CLOCKS, *_LOOKS, *_STARTS]]
    + ["random", "getrandbits", "seed", "times"]
    + [*_DATES]
)
_RANDOM = random.__file__
_POOLS = os.path.join(os.path.dirname(concurrent.futures.__file__), "")
_SEEDS = (random.Random.__init__.__code__, random.Random.seed.__code__)


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


def named(value: Any, texts: tuple[Any, ...]) -> Forbidden | None:
    """Whether a function may not so much as name a value, for its call would make no event.

    Args:
      value: what the name means.
      texts: constants of the function's code.

    Returns:
      The breach, or None.
    """
    if value is np.datetime64 and not {"now", "today"}.isdisjoint(texts):
        return clock("numpy.datetime64")
    if value is operator.methodcaller:
        found = next((each for each in texts if isinstance(each, str) and each in NAMES), None)
        return None if found is None else clock(f"operator.methodcaller of {found}")
    return builtin(value) if isinstance(value, BuiltinFunctionType | MethodType) else None


def function(frame: FrameType) -> Forbidden | None:
    """Whether a Python function of the standard library is one that draws or reads a clock.

    Args:
      frame: of a function that was just entered.

    Returns:
      The breach, or None.
    """
    code = frame.f_code
    if code is uuid.uuid1.__code__:
        return clock("uuid.uuid1")
    if code.co_filename.startswith(_POOLS) and code.co_name in ("submit", "map"):
        return _THREAD
    if code.co_filename == tempfile.__file__:
        return draw(f"tempfile.{code.co_qualname}")
    if code.co_filename != _RANDOM or not code.co_argcount:
        return None
    first, *rest = (frame.f_locals.get(name) for name in code.co_varnames[:2])
    if code in _SEEDS and first is not _GLOBAL and rest == [None]:
        return draw("random.Random without a seed")
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
    names = {name: name for name in code.co_varnames[:count]}
    if "name" in code.co_freevars and frame.f_locals.get("name") == "astype":
        names["args"] = "dtype"  # a tracer's method, which hands on what it is given
    given = [*_flat({new: frame.f_locals.get(name) for name, new in names.items()})]
    asked = [dtype for dtype in (_asked(*each) for each in given) if dtype is not None]
    wide = next((dtype for dtype in asked if _is_wide(dtype)), None)
    if wide is not None:
        return Forbidden(f"asks JAX for {wide}", "float32 or integers", NARROW)
    value = next((each for _, each in given if is_wide(each)), None)
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


def _asked(name: str, value: Any) -> np.dtype | None:
    """The type that an argument names; None for `float`, which JAX reads as float32."""
    if isinstance(value, np.dtype):
        return value
    if isinstance(value, type(jnp.float32)):
        return value.dtype
    if isinstance(value, type) and value in _NUMPY:
        return np.dtype(value)
    if isinstance(value, str) and (
        "dtype" in name or value in _TYPES or _LETTERED.fullmatch(value)
    ):
        try:
            return np.dtype(value)
        except TypeError:  # a type of JAX's alone, or none
            return None
    return None


def _flat(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Values, each with the name it has: those that tuples, lists and dicts hold, at any depth."""
    waiting = list(arguments.items())[::-1]
    seen: list[Any] = []  # what is held here, so that no identity is used twice
    known: set[int] = set()
    while waiting:
        name, value = waiting.pop()
        if not isinstance(value, dict | tuple | list):
            yield name, value
            continue
        if id(value) in known:
            continue
        known.add(id(value))
        seen.append(value)
        if isinstance(value, dict):
            waiting += reversed([(str(key), each) for key, each in value.items()])
        else:
            waiting += reversed([(name, each) for each in value])
