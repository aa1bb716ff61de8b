"""Walls around an environment: what would make its bytes depend on anything but its arguments.

`walled(env)` watches `reset` and `step` while they are traced. In code of the environment's own, a
call of a clock, of the system's entropy or of a global random generator, and a 64-bit float that is
handed to JAX, raise a `PurityError` that names the file and the line.

How it is done: a profile function of this thread (sys.setprofile) sees every call that the traced
Python makes. Nothing is replaced in any module, so that nothing can be left behind, and other
threads go on as they were. A compiled program runs no Python, so that the walls cost nothing there.

What counts as the environment's own code: every file outside the standard library and the installed
packages, and the installed package that defines its `reset` or `step`. A library may read a clock
for its own log. Tasks of an engine (vimejax.engines) are a library's code, and are left alone.

Sharp edges.
- NumPy's compiled random functions make no event, nor does a call that compiled code makes, such
  as functools.partial(time.time)(). So a function that names what is forbidden is refused when it
  is entered, wherever the name stands, called or not. NumPy's global generator reached by another
  way is found afterwards, without its line, and only where no other thread runs.
- Not caught: a forbidden function that compiled code calls and no code of the environment's own
  names, such as one from a table made at import; operator.methodcaller and numpy.datetime64 with a
  text that is not written in the same function; what files hold (/proc), variables of the
  environment and sockets; hash() of text, id() and the order of a set; a thread that runs already;
  whatever a host callback does when the compiled program runs; a 64-bit float in a class of the
  environment's own, or computed with in NumPy and made narrow before JAX sees it. Walls find
  mistakes; they do not hold in who wants out. Equal bits of two runs are what shows a pure stream.
- numpy.random.RandomState(seed) opens the system's entropy before it takes its seed, and is
  refused; default_rng(seed) is not.
- Under a C profiler (cProfile before Python 3.12) there is room for one profile function only, and
  the walls are down.
"""

import contextlib
import dataclasses
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

import jax
import numpy as np

from vimejax import walls_code, walls_forbidden
from vimejax.errors import PurityError
from vimejax.types import Environment

ENGINES = "vimejax.engines."


def walled(env: Environment) -> Environment:
    """The same environment, whose `reset` and `step` are watched while they are traced.

    Args:
      env: the environment, bare or wrapped.

    Returns:
      An environment that makes the same programs; `env` itself where an engine defines it.
    """
    functions = [*walls_code.functions(env.reset), *walls_code.functions(env.step)]
    modules = {str(getattr(fn, "__module__", "")) for fn in functions}
    if any(name.startswith(ENGINES) for name in modules):
        return env
    own = walls_code.Own(modules)
    return dataclasses.replace(
        env,
        reset=_watched(env.reset, f"reset of task {env.spec.name}", own),
        step=_watched(env.step, f"step of task {env.spec.name}", own),
    )


def _watched(fn: Callable, part: str, own: walls_code.Own) -> Callable:
    """`fn` under a watch of its own for each call."""

    @functools.wraps(fn)
    def watched(*args: Any) -> Any:
        before = _numpy_state()
        with _watch(_Watch(part, own)):
            out = fn(*args)
        _check_numpy(before, part, fn)
        _check_leaves(out, part)
        return out

    return watched


@contextlib.contextmanager
def _watch(watch: "_Watch") -> Iterator[None]:
    """Watches this thread, and raises what was found even if the environment caught it."""
    previous = sys.getprofile()
    if previous is not None and not callable(previous):
        yield
        return
    watch.previous = None if isinstance(previous, _Watch) else previous
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(previous)
    if watch.breach is not None:
        raise watch.breach


class _Watch:
    """The profile function: looks at each call and raises at the first that is forbidden."""

    def __init__(self, part: str, own: walls_code.Own) -> None:
        self.part, self.own = part, own
        self.previous: Callable | None = None
        self.breach: PurityError | None = None

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        # Called some hundred thousand times a trace, so what is harmless is told by two look-ups.
        if event == "c_call":
            if arg.__name__ in walls_forbidden.NAMES:
                self._called(frame, arg)
        elif event == "call":
            known, caller = self.own.known, frame.f_back
            if known.get(frame.f_code.co_filename, True):
                self._entered(frame)
            if caller is not None and known.get(caller.f_code.co_filename, True):
                self._called_from(caller, frame)
        if self.previous is not None:
            self.previous(frame, event, arg)

    def _called(self, frame: FrameType, function: Any) -> None:
        """A compiled function is about to be called."""
        what = walls_forbidden.builtin(function)
        owner = None if what is None else self._owner(frame)
        if what is not None and owner is not None:
            self._fail(what, owner.f_code, owner.f_lineno)

    def _entered(self, frame: FrameType) -> None:
        """A Python function, perhaps of the environment's own, was entered."""
        if self.own.holds(frame):
            for what, line in walls_code.named(frame):
                self._fail(what, frame.f_code, line)

    def _called_from(self, caller: FrameType, frame: FrameType) -> None:
        """A Python function was entered, perhaps by the environment."""
        if self.own.holds(caller):
            what = walls_forbidden.function(frame) or walls_forbidden.wide_argument(frame)
            if what is not None:
                self._fail(what, caller.f_code, caller.f_lineno)

    def _owner(self, frame: FrameType | None) -> FrameType | None:
        """The frame of the environment that makes a call, maybe through a module of randomness."""
        while frame is not None and frame.f_code.co_filename != __file__:
            if self.own.holds(frame):
                return frame
            if not walls_forbidden.passes_on(frame):
                return None
            frame = frame.f_back
        return None

    def _fail(self, what: walls_forbidden.Forbidden, code: CodeType, line: int) -> None:
        self.breach = PurityError(
            f"{self.part}: {what.got} at {code.co_filename}:{line} in {code.co_name}, "
            f"want {what.want}; {what.move}."
        )
        raise self.breach


def _numpy_state() -> tuple:
    """The state of NumPy's global generator, as plain values."""
    _, words, *rest = np.random.get_state(legacy=True)
    return (np.asarray(words).tobytes(), *rest)


def _check_numpy(before: tuple, part: str, fn: Callable) -> None:
    """Whether NumPy's global generator has moved, where nobody else can have moved it."""
    if _numpy_state() != before and threading.active_count() == 1:
        code = getattr(fn, "__code__", None)
        place = f" at {code.co_filename}:{code.co_firstlineno}" if code is not None else ""
        raise PurityError(
            f"{part}: has moved NumPy's global random state{place}, want draws from the key alone; "
            f"{walls_forbidden.DRAW}."
        )


def _check_leaves(out: Any, part: str) -> None:
    """Whether what comes out holds a 64-bit float."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(out):
        if walls_forbidden.is_wide(leaf):
            raise PurityError(
                f"{part}: returns {jax.tree_util.keystr(path)} as {leaf.dtype}, want float32 or an "
                f"integer; {walls_forbidden.NARROW}."
            )
