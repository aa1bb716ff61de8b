"""The kernels as a library: where it lies, how it is built, and how XLA gets to know it.

Nothing here can change a bit: a kernel computes what contraction.py defines, in fewer passes.
Without a library the same definitions run as XLA programs.
"""

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path

import jax
import jaxlib

from rlkjax.errors import MachineError

HERE = Path(__file__).resolve().parent
SOURCES = sorted([*HERE.glob("*.h"), *HERE.glob("*.cc")])
VARIABLE = "RLKJAX_KERNELS"
HANDLERS = {"rlkjax_product": "RlkjaxProduct", "rlkjax_sum": "RlkjaxSum"}
FLAGS = ("-std=c++17", "-O3", "-fno-fast-math", "-fPIC", "-shared", "-Wall", "-Wextra")
QUIET = ("-Wno-psabi", "-Wno-unknown-pragmas")  # no vector crosses a call; Clang knows one of two


def path() -> Path:
    """Where the library of these sources and of this jaxlib lies, or would lie."""
    digest = hashlib.sha256(jaxlib.__version__.encode())
    for source in SOURCES:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return HERE / f"kernels-{digest.hexdigest()[:16]}.so"


def compiler() -> str:
    """The C++ compiler: $CXX, or the first of c++, g++, clang++.

    Raises:
      MachineError: there is none.
    """
    named = os.environ.get("CXX", "")
    for name in (named,) if named else ("c++", "g++", "clang++"):
        if shutil.which(name.split()[0]):
            return name
    raise MachineError(
        f"no C++ compiler: got {named or 'none of c++, g++, clang++'}, want one that knows C++17; "
        "install g++ or set CXX, or go on without: the same bits take longer"
    )


def build() -> Path:
    """Compiles the library, unless it is there.

    Returns:
      Its path.

    Raises:
      MachineError: there is no compiler, it fails, or the folder cannot be written.
    """
    target = path()
    if target.exists():
        return target
    command = [*compiler().split(), *FLAGS, *QUIET, "-isystem", jax.ffi.include_dir()]
    units = [str(source) for source in SOURCES if source.suffix == ".cc"]
    try:
        with tempfile.TemporaryDirectory(dir=HERE) as folder:
            made = Path(folder) / target.name
            done = subprocess.run(
                [*command, "-o", str(made), *units], capture_output=True, text=True
            )
            if done.returncode != 0:
                raise MachineError(
                    f"the kernels do not compile: {' '.join(command[:1])} exited with "
                    f"{done.returncode}; want GCC 9 or Clang 10 or newer (CXX chooses one)\n"
                    f"{done.stderr[-2000:]}"
                )
            os.replace(made, target)
    except OSError as error:
        raise MachineError(
            f"the kernels cannot be written: {error}; build as the user who owns {HERE}"
        ) from error
    return target


@functools.cache
def loaded() -> bool:
    """Makes the kernels known to XLA. Whether there are any: built, loadable and not turned off."""
    if os.environ.get(VARIABLE, "") == "off" or not path().exists():
        return False
    try:
        library = ctypes.cdll.LoadLibrary(str(path()))
        for name, symbol in HANDLERS.items():
            handler = jax.ffi.pycapsule(getattr(library, symbol))
            jax.ffi.register_ffi_target(name, handler, platform="cpu")
    except (OSError, AttributeError) as error:
        warnings.warn(
            f"the kernels of exact cannot be loaded ({error}): the same bits take longer. "
            f"Remove {path()} and build again: python -m rlkjax.kernels",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True
