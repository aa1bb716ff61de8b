"""Which code is an environment's own, and what its bytecode names."""

import datetime
import dis
import functools
import os
import sys
import sysconfig
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from vimejax import walls_forbidden
from vimejax.types import Environment
from vimejax.walls_forbidden import Forbidden, draw

_LIBRARIES = tuple(os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib"))
_INSTALLED = ("site-packages", "dist-packages")
_WALLS = os.path.join(os.path.dirname(__file__), "walls")
_TYPED = ("<string>", "<stdin>")  # code given to python -c, or typed; generated code has it too


class Own:
    """Tells the code of one environment from that of libraries."""

    def __init__(self, modules: set[str]) -> None:
        """Args:
        modules: names of the modules that define the environment's functions.
        """
        roots = {name.partition(".")[0] for name in modules if name}
        self._folders = tuple(each for name in roots for each in _places(sys.modules.get(name)))
        self.known: dict[str, bool] = {}  # by name of a file; names of typed code are not in it

    def holds(self, frame: FrameType) -> bool:
        """Whether a frame runs the environment's own code.

        Args:
          frame: any frame.

        Returns:
          False for libraries, generated code and this package's walls.
        """
        name = frame.f_code.co_filename
        if name in _TYPED:
            return frame.f_globals.get("__name__") == "__main__"
        if name not in self.known:
            self.known[name] = self._is_own(name)
        return self.known[name]

    def _is_own(self, name: str) -> bool:
        if name.startswith(_WALLS):
            return False
        if name.startswith("<"):
            return name.startswith("<ipython-input")
        if self._folders and name.startswith(self._folders):
            return True
        installed = any(f"{os.sep}{each}{os.sep}" in name for each in _INSTALLED)
        return not installed and not name.startswith(_LIBRARIES)


def functions(fn: Any) -> list[Any]:
    """A function and those that it wraps, itself or by the environments in its closure.

    Args:
      fn: a callable.

    Returns:
      Callables, each once.
    """
    found: list[Any] = []
    waiting = [fn]
    while waiting:
        each = waiting.pop()
        if any(each is known for known in found):
            continue
        found.append(each)
        waiting += [inner for inner in _inside(each) if callable(inner)]
    return found


def _inside(fn: Any) -> Iterator[Any]:
    if isinstance(fn, MethodType):
        yield fn.__func__
    if isinstance(fn, functools.partial):
        yield fn.func
    if hasattr(fn, "__wrapped__"):
        yield fn.__wrapped__
    for cell in (fn.__closure__ or ()) if isinstance(fn, FunctionType) else ():
        try:
            held = cell.cell_contents
        except ValueError:  # not yet filled
            continue
        if isinstance(held, Environment):
            yield from (held.reset, held.step)


def _places(module: ModuleType | None) -> list[str]:
    """The folders of a package, or the file of a module."""
    folders = list(getattr(module, "__path__", []))
    file = getattr(module, "__file__", None)
    return [os.path.join(each, "") for each in folders] or ([file] if file else [])


def named(frame: FrameType) -> list[tuple[Forbidden, int]]:
    """What is forbidden and a function names, with the lines.

    Args:
      frame: of a function that was just entered.

    Returns:
      Breaches and line numbers, in the order of the code.
    """
    found = []
    for line, path in _names(frame.f_code):
        start = path[0]
        value = sys.modules.get(start[1:]) if start.startswith(":") else _value(frame, start)
        for name in path[1:]:
            value = _member(value, name)
        what = walls_forbidden.named(value, frame.f_code.co_consts)
        if what is not None:
            found.append((what, line))
        elif getattr(value, "__self__", None) is _GLOBAL or any(value is each for each in _LOOSE):
            found.append((draw(f"numpy.random.{getattr(value, '__name__', path[-1])}"), line))
    return found


_GLOBAL = np.random.mtrand._rand  # type: ignore[attr-defined]  # the module's own generator
_LOOSE = [  # functions that reach it without being bound to it
    getattr(np.random, name)
    for name in ("seed", "sample", "ranf", "get_bit_generator", "set_bit_generator")
    if hasattr(np.random, name)
]


def _is_numpy(value: Any) -> bool:
    return isinstance(value, ModuleType) and value.__name__.partition(".")[0] == "numpy"


def _member(value: Any, name: str) -> Any:
    """A member of a module or of a class of dates; others are not looked into, for that may act."""
    if _is_numpy(value) or (isinstance(value, type) and issubclass(value, datetime.date)):
        return getattr(value, name, None)
    return vars(value).get(name) if isinstance(value, ModuleType) else None


def _value(frame: FrameType, name: str) -> Any:
    """What a name means to a function that was just entered: of its closure, or a global."""
    free = name in frame.f_code.co_freevars
    return frame.f_locals.get(name) if free else frame.f_globals.get(name)


@functools.cache
def _names(code: CodeType) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Dotted names that a function looks up, each with its line; ":numpy" is an imported module."""
    found, line = [], code.co_firstlineno
    path: tuple[str, ...] = ()
    imported = ""
    local: dict[str, tuple[str, ...]] = {}
    for each in dis.get_instructions(code):
        start = each.starts_line
        line = start if isinstance(start, int) and not isinstance(start, bool) else line
        match each.opname:
            case "LOAD_GLOBAL" | "LOAD_NAME" | "LOAD_DEREF":
                path = (each.argval,)
            case "LOAD_FAST" if each.argval in local:
                path = local[each.argval]
            case "IMPORT_NAME":
                path = (":" + each.argval.partition(".")[0],)
                imported = each.argval
            case "IMPORT_FROM":
                path = (":" + imported, each.argval)
            case "STORE_FAST" | "STORE_NAME" if path and path[0].startswith(":"):
                local[each.argval] = path
                path = ()
            case "LOAD_ATTR" | "LOAD_METHOD" if path:
                path = (*path, each.argval)
            case "CACHE":
                pass
            case _:
                path = ()
        if len(path) > 0:
            found.append((line, path))
    return tuple(found)
