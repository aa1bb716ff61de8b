"""`python -m rlkjax.golden make|check`: the golden byte stream of every native task."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rlkjax import cli
from rlkjax.errors import ConsistencyError, InputError
from rlkjax.platform import devices, flags

if TYPE_CHECKING:
    from rlkjax.golden_streams import Checked


def parser() -> argparse.ArgumentParser:
    """The command line of `golden`."""
    made = argparse.ArgumentParser(
        prog="python -m rlkjax.golden",
        description="Make or check golden byte streams: a short roll of each native task, computed "
        "by the scalar reference. check recomputes them by the reference and by the compiled exact "
        "program and names the first element that differs.",
        epilog="exit status: 0 good; 1 bytes differ; 2 wrong use; 3 no such platform",
        allow_abbrev=False,
    )
    made.add_argument("action", choices=["make", "check"], help="make files, or check them")
    made.add_argument("tasks", metavar="TASK", nargs="*", help="names of tasks (default: all)")
    made.add_argument("--folder", type=Path, help="where the files lie (default: in the package)")
    made.add_argument(
        "--platform",
        default="cpu",
        choices=["auto", "cpu", "rocm", "cuda"],
        help="where the compiled program runs (default: cpu)",
    )
    return made


def main(arguments: Sequence[str]) -> int:
    """Runs the command, see `cli.run`. Exit status: 0 good, 1 a stream differs."""
    options = parser().parse_args(arguments)
    flags.prepare(options.platform)
    devices.choose(options.platform)
    from rlkjax import golden_streams  # late: JAX starts only after its flags are set
    from vimejax import golden

    folder = options.folder or golden.FOLDER
    if not folder.is_dir():
        raise InputError(f"--folder: got {folder}, want an existing folder; create it")
    names = options.tasks or golden.tasks()
    if options.action == "make":
        for task in names:
            print(f"{task} {golden_streams.make(task, folder).provenance['sha256']} made")
        return 0
    sound = [_report(golden_streams.check(task, folder)) for task in names]
    return 0 if all(sound) else ConsistencyError.exit_status


def _report(checked: "Checked") -> bool:
    """Prints what a check found; whether it was good."""
    for note in checked.notes:
        print(f"{checked.task}: {note}; no byte depends on it", file=sys.stderr)
    for fault in checked.faults:
        print(f"{checked.task}: {fault}")
    if not checked.faults:
        print(f"{checked.task}: equal")
    return not checked.faults


if __name__ == "__main__":
    sys.exit(cli.run(main))
