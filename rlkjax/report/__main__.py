"""`python -m rlkjax.report RUN`: one page that shows a run, opens offline and needs no script."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rlkjax.atomic import write_file
from rlkjax.cli import run
from rlkjax.errors import ConsistencyError
from rlkjax.report.facts import read_facts
from rlkjax.report.page import REPORT, page, read_config


def main(arguments: Sequence[str]) -> int:
    """Runs the command.

    Args:
      arguments: command line without the program's name.

    Returns:
      Exit status: 0 a page of a verified run, 1 a page of one that is not verified.

    Raises:
      RlkError: no page was made; the caller turns it into an exit status.
    """
    options = _parser().parse_args(arguments)
    facts = read_facts(options.run)
    other = read_facts(options.against) if options.against else None
    made = page(facts, read_config(options.run), other=other)
    path = options.out or options.run / REPORT
    write_file(path, made.encode())
    state = "verified" if facts.report.verified else "NOT verified"
    print(f"{path} iterations {facts.report.iterations} {state}")
    return 0 if facts.report.verified else ConsistencyError.exit_status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rlkjax.report",
        description="Write one HTML page that shows a run: verdict, iterations, curves, settings, "
        "and how to replay it. It opens offline.",
        epilog="Exit status: 0 a page of a verified run; 1 a page of a run that is not verified; "
        "2 wrong use; 3 no space.",
        allow_abbrev=False,
    )
    parser.add_argument("run", metavar="RUN", type=Path, help="the run folder")
    parser.add_argument(
        "--against", metavar="RUN_B", type=Path, help="also show what differs from this run"
    )
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help=f"where to write (default: RUN/{REPORT})"
    )
    return parser


if __name__ == "__main__":
    sys.exit(run(main))
