"""Golden byte streams held against this machine: made by the reference, checked by both executors.

`check_start` is what a run does before it trusts its fast path.
"""

import functools
import platform
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from rlkjax.errors import ConsistencyError, InputError
from rlkjax.exact.certificate import certify
from rlkjax.exact.reference import reference
from rlkjax.exact.transform import exact
from vimejax import codec, golden
from vimejax.errors import CodecError
from vimejax.types import Environment

PREFIX = 12  # steps that a run checks at its start: beyond the first restart of every environment
PACKAGES = ("jax", "jaxlib", "numpy", "scipy")


def _compiled(fn: golden.Fn) -> golden.Fn:
    return jax.jit(exact(fn))


EXECUTORS: dict[str, golden.ExecutorFn] = {"reference": reference, "exact": _compiled}


class Checked(NamedTuple):
    """What a check of one task found.

    Attributes:
      task: name of the task.
      faults: phrases, each a reason to fail.
      notes: phrases about what differs without harm.
    """

    task: str
    faults: tuple[str, ...]
    notes: tuple[str, ...]


def make(task: str, folder: Path) -> golden.Golden:
    """Computes a stream by the reference, has it confirmed by the compiled program, stores it.

    Args:
      task: one of `golden.tasks()`.
      folder: where to store it.

    Returns:
      What was stored.

    Raises:
      InputError: the task has no stream.
      ConsistencyError: the compiled program gives other bytes, and nothing was stored.
    """
    env = _environment(task)
    fields = golden.make(env, reference)
    difference = golden.compare(fields, golden.make(env, _compiled))
    if difference is not None:
        raise ConsistencyError(
            f"golden stream of {task}: the compiled program differs from the reference: "
            f"{difference.text()}; nothing was stored"
        )
    origin = {
        "executor": "rlkjax.exact.reference",
        "program": program_digest(env),
        "versions": versions(),
    }
    stored = golden.pack(env.spec, fields, origin)
    golden.write(folder, task, stored)
    return stored


def check(task: str, folder: Path, executors: tuple[str, ...] = tuple(EXECUTORS)) -> Checked:
    """Recomputes a stored stream.

    Args:
      task: one of `golden.tasks()`.
      folder: where it lies.
      executors: keys of `EXECUTORS`.

    Returns:
      Faults and notes; nothing is raised for a difference.

    Raises:
      InputError: the task has no stream.
    """
    env = _environment(task)
    try:
        stored = golden.read(folder, task)
        if stored is None:
            return Checked(task, (f"got no file {task}.bin; make it",), ())
        faults = golden.faults(stored, env.spec)
        if any(fault.startswith("format") for fault in faults):
            return Checked(task, (f"{faults[0]}, which is all that is read here",), ())
        expected = codec.decode(stored.data)
    except CodecError as error:
        return Checked(task, (str(error),), ())
    for name in executors:
        difference = golden.compare(expected, golden.make(env, EXECUTORS[name]))
        faults += [] if difference is None else [f"{name}: {difference.text()}"]
    return Checked(task, tuple(faults), tuple(_notes(stored, env)))


@functools.cache
def check_start(task: str, folder: Path = golden.FOLDER) -> str | None:
    """Whether this machine and these versions reproduce the definitions, before a run begins.

    The first `PREFIX` steps of the task's golden stream are recomputed by the compiled exact
    program, in either numerics. A process checks a task once.

    Args:
      task: the task of the run.
      folder: where the golden files lie.

    Returns:
      None if the bytes are equal; a phrase if the task has no golden file.

    Raises:
      ConsistencyError: the bytes differ, or the golden file is damaged or of another task.
    """
    if task not in golden.tasks():
        return f"golden stream: none is stored for {task}, so the start of the run is unchecked"
    env = golden.environment(task)
    try:
        stored = golden.read(folder, task)
        if stored is None:
            return f"golden stream: no file of {task}, so the start of the run is unchecked"
        expected = golden.prefix(codec.decode(stored.data), PREFIX)
    except CodecError as error:
        raise ConsistencyError(f"golden stream of {task}: {error}") from None
    difference = golden.compare(expected, golden.make(env, _compiled, PREFIX))
    found = [] if difference is None else [difference.text()]
    found += golden.faults(stored, env.spec)
    if found:
        raise ConsistencyError(
            f"golden stream of {task}: {found[0]}; this machine or this code does not reproduce "
            f"the stored bytes; see python -m rlkjax.golden check {task}"
        )
    return None


def program_digest(env: Environment) -> str:
    """Digest of the stream's program as this version of JAX traces it.

    Args:
      env: wrapped environment.

    Returns:
      64 hex digits.
    """
    seed, action = np.uint32(golden.SEED), golden.actions(env.spec)
    return certify(golden.program(env), seed, action, platforms=()).jaxpr


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that a stream is computed with, by name."""
    found = {name: metadata.version(name) for name in PACKAGES}
    return {**found, "python": platform.python_version()}


def _environment(task: str) -> Environment:
    if task not in golden.tasks():
        raise InputError(
            f"TASK: got {task!r}, want one of {', '.join(golden.tasks())}; tasks of engines have "
            "no golden stream"
        )
    return golden.environment(task)


def _notes(stored: golden.Golden, env: Environment) -> list[str]:
    """What is not as it was when the stream was made, and moves no byte of it."""
    here: dict[str, Any] = versions()
    there = stored.provenance.get("versions")
    there = there if isinstance(there, dict) else {}
    notes = [
        f"{name}: stored {there.get(name)}, here {version}"
        for name, version in here.items()
        if there.get(name) != version
    ]
    if there.get("jax") == here["jax"] and stored.provenance.get("program") != program_digest(env):
        notes.append("program: not the stored one, though of the same version of jax")
    return notes
