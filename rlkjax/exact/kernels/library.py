"""The kernels as a library: where it lies, how it is built, and how XLA gets to know it.

Nothing here can change a bit: a kernel computes what contraction.py or accumulate.py defines.
Without a library the same definitions run as XLA programs.
"""

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import jax
import jaxlib

from rlkjax.errors import InputError, MachineError

HERE = Path(__file__).resolve().parent
SOURCES = sorted([*HERE.glob("*.h"), *HERE.glob("*.cc")])
VARIABLE = "RLKJAX_KERNELS"
HANDLERS = {
    "rlkjax_product": "RlkjaxProduct",
    "rlkjax_on_grid": "RlkjaxOnGrid",
    "rlkjax_sum": "RlkjaxSum",
}
FLAGS = ("-std=c++17", "-O3", "-fno-fast-math", "-fPIC", "-shared", "-Wall", "-Wextra")
QUIET = ("-Wno-psabi", "-Wno-unknown-pragmas")  # no vector crosses a call; Clang knows one of two


def key() -> str:
    """What a library depends on: these sources, and how this jaxlib calls it; 16 hex digits."""
    digest = hashlib.sha256(jaxlib.__version__.encode())
    for source in SOURCES:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def path() -> Path | None:
    """Where the library is; None if none was built. Its name ends with a digest of its bytes."""
    return next(iter(sorted(HERE.glob(f"kernels-{key()}-*.so"))), None)


def is_whole(library: Path) -> bool:
    """Whether a library has the bytes that it was built with: half of one kills who loads it."""
    return library.stem.endswith(f"-{content(library)}")


def content(library: Path) -> str:
    """Digest of the bytes of a library, 16 hex digits."""
    return hashlib.sha256(library.read_bytes()).hexdigest()[:16]


def compiler() -> list[str]:
    """The command of the C++ compiler: $CXX, or the first of c++, g++, clang++.

    Raises:
      MachineError: there is none.
    """
    named = os.environ.get("CXX", "").split()
    for command in [named] if named else [["c++"], ["g++"], ["clang++"]]:
        if shutil.which(command[0]):
            return command
    raise MachineError(
        f"no C++ compiler: got {' '.join(named) or 'none of c++, g++, clang++'}, want one that "
        "knows C++17; install g++ or set CXX, or go on without: the same bits take longer"
    )


def build(again: bool = False) -> Path:
    """Compiles the library, unless it is there.

    Args:
      again: also if it is there, for instance with another compiler.

    Returns:
      Its path.

    Raises:
      MachineError: there is no compiler, it fails, or the folder cannot be written.
    """
    there = path()
    if there and is_whole(there) and not again:
        return there
    command = [*compiler(), *FLAGS, *QUIET, "-isystem", jax.ffi.include_dir()]
    try:
        with tempfile.TemporaryDirectory(dir=HERE) as folder:
            made = Path(folder) / "kernels.so"
            compile_to(made, command)
            target = HERE / f"kernels-{key()}-{content(made)}.so"
            os.replace(made, target)
            if there and there != target:
                there.unlink(missing_ok=True)
    except OSError as error:
        raise MachineError(
            f"the kernels cannot be written: {error}; build as the user who owns {HERE}"
        ) from error
    return target


def compile_to(made: Path, command: Sequence[str]) -> None:
    """Runs the compiler, and loads what it made in a process of its own.

    Raises:
      MachineError: one of the two fails.
    """
    units = [str(source) for source in SOURCES if source.suffix == ".cc"]
    probe = "import ctypes, sys; [getattr(ctypes.CDLL(sys.argv[1]), s) for s in sys.argv[2:]]"
    steps = {
        "compile": [*command, "-o", str(made), *units],
        "load": [sys.executable, "-c", probe, str(made), *HANDLERS.values()],
    }
    for step, words in steps.items():
        try:
            done = subprocess.run(words, capture_output=True, text=True, errors="replace")
        except OSError as error:
            raise MachineError(
                f"the C++ compiler cannot be run: {error}; set CXX to one that can"
            ) from error
        if done.returncode != 0 or not made.exists():
            raise MachineError(
                f"the kernels do not {step}: {command[0]} made nothing of use (status "
                f"{done.returncode}); want GCC 9 or Clang 10 or newer, CXX chooses one\n"
                f"{done.stderr[-2000:]}".rstrip()
            )


def why_not() -> str:
    """Why this process uses no kernels on CPUs; empty if it does.

    Raises:
      InputError: the variable that turns them off has another value.
    """
    turned = os.environ.get(VARIABLE, "")
    if turned not in ("", "off"):
        raise InputError(f"{VARIABLE}={turned}: want off, or no such variable, to use kernels")
    if turned == "off":
        return f"{VARIABLE}=off"
    there = path()
    if there is None:
        return "not built for these sources and this jaxlib"
    return "" if is_whole(there) else f"{there} has not the bytes that were built"


@functools.cache
def loaded() -> bool:
    """Makes the kernels known to XLA. Whether there are any: built, whole and not turned off.

    Looks once: what is built later, the next process uses.

    Raises:
      InputError: the variable that turns them off has another value.
    """
    missing, there = why_not(), path()
    if there is None or missing == f"{VARIABLE}=off":
        return False
    try:
        if missing:
            raise OSError(missing)
        library = ctypes.cdll.LoadLibrary(str(there))
        for name, symbol in HANDLERS.items():
            handler = jax.ffi.pycapsule(getattr(library, symbol))
            jax.ffi.register_ffi_target(name, handler, platform="cpu")
    except (OSError, AttributeError) as error:
        warnings.warn(
            f"the kernels of exact cannot be loaded ({error}): the same bits take longer. "
            "Build them again: python -m rlkjax.kernels --rebuild",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True


def in_use() -> bool:
    """Whether programs are made with kernels: there are some, and JAX computes on a CPU."""
    return jax.default_backend() == "cpu" and loaded()
