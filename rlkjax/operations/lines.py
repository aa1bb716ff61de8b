"""The line of an equation that its user wrote: not one of JAX, nor of a library above it."""

import re
import sysconfig
from pathlib import Path
from typing import Any

from jax._src import source_info_util

from rlkjax.exact import compat

FRAMES = 100
UNKNOWN = "an unknown line"  # as `compat.source_line` says it
ROOT = f"{Path(__file__).resolve().parents[2]}/"
_LIBRARIES = tuple(f"{sysconfig.get_paths()[name]}/" for name in ("purelib", "platlib"))
_OWN = ("rlkjax", "vimejax")  # these may be installed among the libraries
_COLUMN = re.compile(r"(:\d+):\d+")


def user_line(eqn: Any) -> str:
    """Where the user wrote an equation.

    Args:
      eqn: an equation of a jaxpr.

    Returns:
      "FILE:LINE (FUNCTION)": of the innermost frame outside the installed libraries, or of the
      innermost one of a library if there is no other; a file of this project without its folder.
    """
    frames = source_info_util.summarize(eqn.source_info, num_frames=FRAMES).split("\n")
    users = [frame for frame in reversed(frames) if frame and not _is_library(frame)]
    line = users[0] if users and users[0] != "unknown" else compat.source_line(eqn)
    return _COLUMN.sub(r"\1", line).removeprefix(ROOT)


def _is_library(frame: str) -> bool:
    for folder in _LIBRARIES:
        if frame.startswith(folder):
            return frame.removeprefix(folder).split("/")[0] not in _OWN
    return False
