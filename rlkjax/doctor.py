"""`python -m rlkjax.doctor`: find the settings that break bits, and say what mends them."""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from rlkjax import cli
from rlkjax.errors import ConsistencyError
from rlkjax.exact.kernels import library
from rlkjax.platform import (
    doctor_cpu,
    doctor_gpu,
    doctor_jax,
    doctor_variables,
    fingerprint,
    machine,
)
from rlkjax.platform.doctor_findings import Finding
from rlkjax.platform.machine import Machine

DEADLINE = 2.0  # seconds for a GPU tool to answer
CHECKS = (
    *doctor_jax.CHECKS,
    *doctor_gpu.CHECKS,
    *doctor_variables.CHECKS,
    *doctor_cpu.CHECKS,
)


def parser() -> argparse.ArgumentParser:
    """The command line of `doctor`."""
    made = argparse.ArgumentParser(
        prog="python -m rlkjax.doctor",
        description="Look at this machine and say which settings can move bits or stop a run: one "
        "line each, with what it can touch in each kind of numerics and the command that mends it. "
        "Faults come first; notes are for your information.",
        epilog="exit status: 0 no fault; 1 a fault. docs/troubleshooting.md goes from symptoms to "
        "causes.",
        allow_abbrev=False,
    )
    made.add_argument("--json", action="store_true", help="print one JSON object")
    return made


def examine(seen: Machine) -> list[Finding]:
    """All findings on a machine.

    Args:
      seen: what was seen of it.

    Returns:
      Faults first, each kind in the order of the checks.
    """
    found = [finding for check in CHECKS for finding in check(seen)]
    return sorted(found, key=lambda finding: not finding.fault)


def main(arguments: Sequence[str]) -> int:
    """Runs the command, see `cli.run`. Exit status: 0 no fault, 1 a fault."""
    options = parser().parse_args(arguments)
    seen = look()
    found = examine(seen)
    print(as_json(found, seen) if options.json else as_text(found))
    return ConsistencyError.exit_status if any(finding.fault for finding in found) else 0


def look() -> Machine:
    """Looks at the machine and asks XLA for its flags, side by side.

    Returns:
      What was seen.
    """
    with ThreadPoolExecutor(max_workers=1) as pool:
        xla = pool.submit(doctor_jax.ask_xla, dict(os.environ))
        seen = machine.capture(deadline=DEADLINE)._replace(kernels=library.why_not())
        return seen._replace(xla=xla.result())


def as_text(found: Iterable[Finding]) -> str:
    """What the command prints for people.

    Args:
      found: from `examine`.

    Returns:
      One line a finding, and one that counts them.
    """
    lines = [finding.line() for finding in found]
    faults = sum(line.startswith("fault") for line in lines)
    return "\n".join([*lines, f"doctor: faults {faults}, notes {len(lines) - faults}"])


def as_json(found: Iterable[Finding], seen: Machine) -> str:
    """What the command prints for scripts.

    Args:
      found: from `examine`.
      seen: the machine.

    Returns:
      One JSON object: faults (their number), findings, and the fingerprint.
    """
    listed = [finding._asdict() for finding in found]
    return json.dumps(
        {
            "faults": sum(each["fault"] for each in listed),
            "findings": listed,
            "fingerprint": fingerprint.collect(machine=seen),
        },
        sort_keys=True,
    )


if __name__ == "__main__":
    sys.exit(cli.run(main))
