"""What a report tells of a run, read from its folder. Everything here may be damaged or hostile."""

import json
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rlkjax.audit.artifacts import CONFIG, FINGERPRINT
from rlkjax.audit.checks import LEDGER, METRICS, Finding, Record
from rlkjax.audit.inside import read_inside
from rlkjax.audit.verify import Report, verify_run
from rlkjax.errors import ConsistencyError

TIMING = "timing.jsonl"


class Facts(NamedTuple):
    """A run as its files tell it.

    Attributes:
      report: what the verifier found.
      records: line of the ledger -> record; lines that cannot be read are left out.
      metrics: lines of metrics.jsonl that can be read.
      config: config.json, or empty.
      fingerprint: fingerprint.json, or empty.
      timing: lines of timing.jsonl that can be read.
    """

    report: Report
    records: dict[int, Record]
    metrics: tuple[Record, ...]
    config: Record
    fingerprint: Record
    timing: tuple[Record, ...]

    @property
    def genesis(self) -> Record:
        """The first record, or empty."""
        first = self.records.get(0, {})
        return first if first.get("kind") == "genesis" else {}


def read_facts(folder: Path) -> Facts:
    """Verifies a run folder and reads what a report shows of it.

    Args:
      folder: the run folder.

    Returns:
      The facts; what is missing or damaged is empty here and a finding in the report.

    Raises:
      InputError: the folder is no run folder.
    """
    report = verify_run(folder)
    inside = Path(folder).resolve()
    read = partial(_read, inside)
    findings = tuple(_without_path(each, str(inside)) for each in report.findings)
    return Facts(
        report=report._replace(findings=findings),
        records=dict(_lines(read(LEDGER))),
        metrics=tuple(line for _, line in _lines(read(METRICS))),
        config=_object(read(CONFIG)),
        fingerprint=_object(read(FINGERPRINT)),
        timing=tuple(line for _, line in _lines(read(TIMING))),
    )


def number(value: Any) -> float | None:
    """A value as a finite number, if it is one.

    Args:
      value: anything that JSON can hold.

    Returns:
      The number, or None.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def count(value: Any) -> int | None:
    """A value as a count, if it is one that a run can reach.

    Args:
      value: anything that JSON can hold.

    Returns:
      The integer from 0 to 2^53, or None.
    """
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 2**53
    return value if fits else None


def _without_path(finding: Finding, folder: str) -> Finding:
    """A finding that names the run folder RUN: what the system says of a file holds its path."""
    got, expected = (each.replace(folder, "RUN") for each in (finding.got, finding.expected))
    return finding._replace(got=got, expected=expected)


def _read(folder: Path, file: str) -> bytes:
    try:
        return read_inside(folder, file)
    except ConsistencyError:
        return b""  # the verifier has said so


def _object(data: bytes) -> Record:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _lines(data: bytes) -> Iterator[tuple[int, Record]]:
    for place, line in enumerate(data.split(b"\n")):
        found = _object(line) if line else {}
        if found:
            yield place, found
