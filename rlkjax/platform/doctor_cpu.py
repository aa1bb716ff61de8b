"""The doctor on the CPU: worker threads, the cores they may use, and clocks."""

import re
from collections.abc import Iterator

from rlkjax.platform import fingerprint
from rlkjax.platform.doctor_findings import NOTHING, Finding
from rlkjax.platform.machine import Machine

SUMS = "every sum, which is split over the worker threads"
TIMING = "no bits, unless kernels are chosen by timing"
POOL = ("PJRT_NPROC", "NPROC")  # XLA's thread pool follows the first that is set


def threads(machine: Machine) -> Iterator[Finding]:
    """How many worker threads XLA starts, and what decides it.

    Args:
      machine: what was seen.

    Yields:
      Findings.
    """
    given = {name: machine.environment[name] for name in POOL if name in machine.environment}
    odd = [name for name, value in given.items() if not re.fullmatch("0*[1-9][0-9]{0,5}", value)]
    for name in odd:
        what = f"{name} is {given[name][:40]!r}, not a number of worker threads"
        yield Finding("threads", True, what, NOTHING, SUMS, f"unset {name}")
    if odd:
        return
    if len(set(given.values())) == 2:
        what = f"NPROC is {given['NPROC']}, but PJRT_NPROC is {given['PJRT_NPROC']}, and counts"
        yield Finding("threads", True, what, NOTHING, SUMS, "unset NPROC")
    count = fingerprint.threads(machine)
    if given:
        usable = len(machine.affinity) or machine.cores
        if usable and count > usable:
            what = f"{count} worker threads share {usable} cores"
            fix = f"export PJRT_NPROC={usable}"
            yield Finding("threads", False, what, NOTHING, "speed alone", fix)
        return
    fix = f"export PJRT_NPROC={count or 1}"
    if machine.affinity and len(machine.affinity) < machine.cores:
        what = (
            f"this process may use {len(machine.affinity)} of {machine.cores} cores, so XLA starts "
            f"{count} worker threads, and another number elsewhere"
        )
        yield Finding("affinity", True, what, NOTHING, SUMS, fix)
    else:
        what = f"{count or 'an unknown number of'} worker threads, one a core; no variable pins it"
        yield Finding("threads", False, what, NOTHING, SUMS, fix)
    if "OMP_NUM_THREADS" in machine.environment:
        what = "OMP_NUM_THREADS is set, but XLA's pool does not follow it"
        yield Finding("threads", False, what, NOTHING, SUMS, fix)


def quota(machine: Machine) -> Iterator[Finding]:
    """Whether a control group gives the threads less time than they would use.

    Args:
      machine: what was seen.

    Yields:
      At most one note.
    """
    count = fingerprint.threads(machine)
    if machine.quota is not None and machine.quota < count:
        what = f"the control group allows {machine.quota:g} cores to {count} worker threads"
        native = "speed; with the pool made smaller, " + SUMS
        fix = f"export PJRT_NPROC={max(int(machine.quota), 1)}"
        yield Finding("quota", False, what, NOTHING, native, fix)


def clocks(machine: Machine) -> Iterator[Finding]:
    """Frequency governor and boost.

    Args:
      machine: what was seen.

    Yields:
      Notes.
    """
    slow = [name for name in machine.governors if name and name != "performance"]
    if slow:
        what = f"the frequency governor is {', '.join(slow)}, so timings vary"
        fix = "sudo cpupower frequency-set -g performance"
        yield Finding("governor", False, what, NOTHING, TIMING, fix)
    if fingerprint.boost(machine) == "1":
        what = "boost is on, so the clock follows the temperature and timings vary"
        intel = bool(machine.files.get("no_turbo"))
        value, place = ("1", "intel_pstate/no_turbo") if intel else ("0", "cpufreq/boost")
        fix = f"echo {value} | sudo tee /sys/devices/system/cpu/{place}"
        yield Finding("boost", False, what, NOTHING, TIMING, fix)


CHECKS = (threads, quota, clocks)
