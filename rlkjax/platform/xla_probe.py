"""What the installed XLA knows and does: names of its flags, and the flags in force.

XLA reads XLA_FLAGS once, aborts the process on a name that it does not know, and says nothing
about a flag that is set too late. So names are looked up before it reads, and values after.
"""

import difflib
import functools
import importlib.util
import mmap
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from rlkjax.errors import InputError, MachineError

_START = "from jaxlib import xla_client; xla_client.make_cpu_client()"


def library() -> Path | None:
    """The shared library of jaxlib that holds XLA, or None where there is no such file."""
    spec = importlib.util.find_spec("jaxlib")
    if spec is None or not spec.submodule_search_locations:
        return None
    files = [*Path(spec.submodule_search_locations[0]).glob("*.so")]
    return max(files, key=lambda each: each.stat().st_size, default=None)


@functools.cache
def is_known(name: str) -> bool:
    """Whether the installed XLA has a flag of that name, by the strings of its library.

    Args:
      name: without dashes, such as xla_gpu_ftz.

    Returns:
      True also where the library cannot be found, since nothing can be said then.
    """
    path = library()
    if path is None:
        return True
    with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(name.encode("ascii") + b"\0") >= 0


@functools.cache
def names() -> tuple[str, ...]:
    """Names of all flags of the installed XLA, as its own usage text lists them."""
    # A value that is no number makes XLA print its usage.
    done = _start("--xla_cpu_prefer_vector_width=?")
    return tuple(sorted(set(re.findall(r"--(xla_\w+)=", done.stderr))))


@functools.cache
def check_accepted(flags: str) -> None:
    """Let a short-lived process read XLA_FLAGS, so that a bad one does not abort this process.

    Args:
      flags: the whole value of XLA_FLAGS.

    Raises:
      InputError: XLA knows no such flag or cannot read its value.
    """
    done = _start(flags)
    if done.returncode == 0:
        return
    unknown = re.search(r"Unknown flags? in XLA_FLAGS: *--?(\w+)", done.stderr)
    if unknown:
        near = " or ".join(difflib.get_close_matches(unknown[1], names(), n=2, cutoff=0.7))
        move = f"did you mean {near}?" if near else "remove it"
        raise InputError(f"XLA_FLAGS: the installed XLA has no flag --{unknown[1]}; {move}")
    lines = [
        line for line in done.stderr.splitlines() if "parse_flags" in line or "Couldn't" in line
    ]
    reason = lines[0].split("] ", 1)[-1][:160] if lines else "it stopped while it read them"
    raise InputError(f"XLA_FLAGS: XLA does not accept them: {reason}; mend or unset XLA_FLAGS")


def options_in_force() -> dict[str, tuple[str, ...]]:
    """Every option of XLA as this process reads it now; reads XLA_FLAGS if nothing has yet.

    Returns:
      Values by name, in order where a name has several; options at zero, false or empty may be
      absent. A key-value option is written "key=value".

    Raises:
      MachineError: this jaxlib does not show its options.
    """
    from jaxlib import xla_client  # late: it must not be loaded before XLA_FLAGS is set

    try:
        # Each is a view into the one before, so all three must stay alive while one is read.
        options = xla_client.CompileOptions()
        build = options.executable_build_options
        debug = build.debug_options
        text = str(debug)
    except AttributeError as error:
        raise MachineError(
            f"jaxlib does not show the flags in force ({error}); install a jaxlib that this "
            "version was tested with, see requirements/"
        ) from None
    return parse_options(text)


def parse_options(text: str) -> dict[str, tuple[str, ...]]:
    """Options by name from the text form of XLA's option record.

    Args:
      text: lines "name: value", and blocks "name { key: .. value: .. }".

    Returns:
      Values by name without quotes; "key=value" for a block.
    """
    found: dict[str, tuple[str, ...]] = {}
    pattern = r'(xla_\w+)\s*(?::\s*("[^"]*"|\S+)|\{\s*key:\s*"([^"]*)"\s*value:\s*"([^"]*)"\s*\})'
    for name, plain, key, value in re.findall(pattern, text):
        said = plain.strip('"') if plain else f"{key}={value}"
        found[name] = (*found.get(name, ()), said)
    return found


def out_of_force(
    wanted: Mapping[str, str], options: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Flags that do not have the wanted value.

    Args:
      wanted: flag name to value, as written in XLA_FLAGS.
      options: from `options_in_force`.

    Returns:
      Name to the values that it has instead.
    """
    wrong = {}
    for name, value in wanted.items():
        have = options.get(name, ())
        parts = tuple(part for part in value.split(",") if part)
        empty = value in ("", "false", "0")
        holds = have in ((), (value,)) if empty else set(parts) <= set(have)
        if not holds:
            wrong[name] = have
    return wrong


def _start(flags: str) -> subprocess.CompletedProcess[str]:
    """A process that reads `flags` as XLA_FLAGS and ends."""
    environment = {**os.environ, "XLA_FLAGS": flags, "TF_CPP_MIN_LOG_LEVEL": "0"}
    return subprocess.run(
        [sys.executable, "-c", _START], env=environment, capture_output=True, text=True, timeout=60
    )
