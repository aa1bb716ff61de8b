"""The doctor on JAX itself: versions that belong together, XLA's flags, the platform asked for."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping

from rlkjax.errors import InputError, RlkError
from rlkjax.platform import flags, xla_probe
from rlkjax.platform.doctor_findings import NOTHING, REFUSED, Finding
from rlkjax.platform.doctor_gpu import plugins, seen
from rlkjax.platform.machine import Machine

TESTED = ("0.10.2", "0.13")  # from the first, below the second
COMPILER = "any native result"
PROGRAMS = "the programs that JAX traces, so any result"
AUTOTUNE = "xla_gpu_autotune_level"
_GPU = re.compile(r"jax-(rocm|cuda)\d*-(plugin|pjrt)")
_LATE = """
import os, sys
from rlkjax.platform import flags, xla_probe
os.environ["XLA_FLAGS"] = sys.argv[1]
wrong = xla_probe.out_of_force(flags.parse(sys.argv[1]), xla_probe.options_in_force())
print(" ".join(name for name in wrong if name in {**flags.CPU, **flags.ROCM, **flags.CUDA}))
"""


def ask_xla(environment: Mapping[str, str], seconds: float = 10.0) -> str | None:
    """Lets a fresh process set our flags as a run does, and read back what XLA made of them.

    Args:
      environment: of this process.
      seconds: after which it is given up.

    Returns:
      A sentence on what is wrong; empty where every flag is in force; None where XLA_FLAGS has
      faults that can be seen without XLA, so that nothing was asked.
    """
    try:
        user = flags.parse(environment.get("XLA_FLAGS", ""))
        words = " ".join(flags.merge(flags.native_flags("cpu"), user))
    except InputError:
        return None
    try:
        done = subprocess.run(
            [sys.executable, "-c", _LATE, words],
            env={**environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            timeout=seconds,
        )
        if done.returncode == 0:
            late = done.stdout.split()
            return f"XLA read its flags before --{late[0]} could be set" if late else ""
        if "flag" in done.stderr.lower():
            xla_probe.check_accepted(words)
    except subprocess.TimeoutExpired:
        return f"XLA did not start within {seconds:g} s"
    except RlkError as error:
        return str(error)
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return f"a process that sets XLA's flags ended with {done.returncode} ({last[:160]})"


def versions(machine: Machine) -> Iterator[Finding]:
    """Whether jax, jaxlib and the plugins are of one release, and of one that was tested.

    Args:
      machine: what was seen.

    Yields:
      Findings.
    """
    jax = machine.packages.get("jax")
    if jax is None:
        fix = f"python -m pip install 'jax>={TESTED[0]},<{TESTED[1]}'"
        yield Finding("versions", True, "jax is not installed", REFUSED, REFUSED, fix)
        return
    low, high = (_release(each) for each in TESTED)
    if not low <= _release(jax) < high:
        what = f"jax {jax} is outside what was tested, {TESTED[0]} up to {TESTED[1]}"
        fix = f"python -m pip install 'jax>={TESTED[0]},<{TESTED[1]}'"
        yield Finding("versions", True, what, PROGRAMS, COMPILER, fix)
    others = {name: version for name, version in machine.packages.items() if _GPU.fullmatch(name)}
    others["jaxlib"] = machine.packages.get("jaxlib", "absent")
    for name, version in sorted(others.items()):
        if _release(version) != _release(jax):
            what = f"{name} is {version}, but jax is {jax}"
            fix = f"python -m pip install '{name}=={jax}'"
            yield Finding("versions", True, what, NOTHING, COMPILER, fix)


def xla_flags(machine: Machine) -> Iterator[Finding]:
    """Whether XLA_FLAGS can be read, agrees with the pinned flags, and is in force.

    Args:
      machine: what was seen; `xla` is what `ask_xla` returned.

    Yields:
      Findings.
    """
    text = machine.environment.get("XLA_FLAGS", "")
    try:
        user = flags.parse(text)
    except InputError as error:
        yield Finding("xla-flags", True, str(error), REFUSED, REFUSED, "unset XLA_FLAGS")
        return
    pinned: dict[str, str] = {}
    for platform in ("cpu", *seen(machine)):
        pinned |= flags.native_flags(platform)
    for name, value in user.items():
        fix = _without(user, name)
        if pinned.get(name, value) != value:
            what = f"XLA_FLAGS has --{name}={value}, where {pinned[name] or 'nothing'} is pinned"
            yield Finding("xla-flags", True, what, REFUSED, REFUSED, fix)
        elif name == AUTOTUNE and value != "0":
            what = f"XLA_FLAGS has --{name}={value}: on a GPU, kernels are chosen by timing"
            yield Finding("xla-flags", True, what, NOTHING, "any GPU result", fix)
        elif name not in pinned:
            what = f"XLA_FLAGS has --{name}, which is yours and recorded"
            yield Finding("xla-flags", False, what, NOTHING, COMPILER, fix)
    if machine.xla:
        yield Finding("xla-flags", True, machine.xla, REFUSED, REFUSED, "unset XLA_FLAGS")


def platforms(machine: Machine) -> Iterator[Finding]:
    """Whether JAX_PLATFORMS names what this machine has.

    Args:
      machine: what was seen.

    Yields:
      At most one finding.
    """
    asked = machine.environment.get("JAX_PLATFORMS", "")
    usable = ["cpu", *(name for name in seen(machine) if plugins(machine, name))]
    usable += ["gpu"] if len(usable) > 1 else []
    first = asked.split(",")[0].strip()
    if asked and first not in usable:
        what = f"JAX_PLATFORMS={asked[:40]}, but this machine can compute on {', '.join(usable)}"
        yield Finding("platforms", True, what, REFUSED, REFUSED, "unset JAX_PLATFORMS")


def kernels(machine: Machine) -> Iterator[Finding]:
    """Whether exact programs run as fast as they can on a CPU.

    Args:
      machine: what was seen.

    Yields:
      At most one finding.
    """
    if machine.kernels:
        what = f"no C++ kernels, so exact bits take longer on CPU: {machine.kernels}"
        fix = "unset RLKJAX_KERNELS" if "RLKJAX" in machine.kernels else "python -m rlkjax.kernels"
        yield Finding("kernels", False, what, NOTHING, NOTHING, fix)


def _release(version: str) -> tuple[int, ...]:
    """The first three numbers of a version, which name a release; further ones name a build."""
    return tuple(int(each) for each in re.findall(r"\d+", version.split("+")[0])[:3])


def _without(user: Mapping[str, str], name: str) -> str:
    """The command that takes one flag out of XLA_FLAGS."""
    left = " ".join(f"--{each}={value}" for each, value in user.items() if each != name)
    return f"export XLA_FLAGS='{left}'" if left else "unset XLA_FLAGS"


CHECKS = (versions, xla_flags, platforms, kernels)
