"""`python -m rlkjax.verify RUN`: is every byte of a finished run the byte that was recorded?"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rlkjax.audit.checks import Finding, Record
from rlkjax.audit.verify import Report, verify_run
from rlkjax.cli import run
from rlkjax.errors import ConsistencyError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command.

    Args:
      arguments: command line without the program's name; None: that of the process.

    Returns:
      Exit status: 0 verified, 1 damaged or halted.

    Raises:
      InputError: no run folder.
    """
    options = _parser().parse_args(arguments)
    report = verify_run(options.run, chain=options.chain)
    print(_as_json(report) if options.json else _as_text(report))
    return 0 if report.verified else ConsistencyError.exit_status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rlkjax.verify",
        description="Check a run from its files alone: the chain of records, the metrics, the "
        "checkpoints and the kept segments.",
        epilog="Exit status: 0 verified; 1 damaged, unfinished or halted; 2 wrong use.",
        allow_abbrev=False,
    )
    parser.add_argument("run", metavar="RUN", type=Path, help="the run folder")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--chain",
        metavar="HEX",
        help="chain head that the run printed, 64 hex digits; finds records cut off at the end",
    )
    return parser


def _as_json(report: Report) -> str:
    return json.dumps(
        {
            "verified": report.verified,
            "chain": report.chain.head,
            "bits": report.chain.bits,
            "iterations": report.iterations,
            "halted": report.halted,
            "findings": [finding._asdict() for finding in report.findings],
        }
    )


def _as_text(report: Report) -> str:
    lines = [_finding(finding) for finding in report.findings]
    if report.halted is not None:
        lines.append(_halt(report.halted))
    state = "verified" if report.verified else "NOT verified"
    heads = f"chain {report.chain.head} bits {report.chain.bits}"
    return "\n".join([*lines, f"{heads} iterations {report.iterations} {state}"])


def _printable(text: object) -> str:
    """Text from files, with control and non-ASCII characters escaped."""
    return ascii(str(text))[1:-1]


def _finding(finding: Finding) -> str:
    place = "" if finding.record is None else f", record {finding.record}"
    parts = (finding.file, finding.what, finding.expected, finding.got)
    file, what, expected, got = map(_printable, parts)
    return f"{file}{place}: {what}: expected {expected}, got {got}"


def _halt(record: Record) -> str:
    names = ("stage", "buffer", "step", "environment", "element", "expected", "got")
    known = [f"{name} {record[name]}" for name in names if record[name] is not None]
    return _printable(
        f"halted in iteration {record['iteration']}: {record['reason']} ({', '.join(known)})"
    )


if __name__ == "__main__":
    sys.exit(run(main))
