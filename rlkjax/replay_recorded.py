"""What a replay starts from: the config, the lines and the checkpoint of a recorded run.

Needs no JAX, so that the flags of the run can be set before JAX starts.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from rlkjax.audit import ledger
from rlkjax.audit.artifacts import CHECKPOINTS, CONFIG, FINGERPRINT, fingerprint_file
from rlkjax.audit.checks import LEDGER, METRICS, Record
from rlkjax.audit.inside import lines_inside, names_inside, read_inside
from rlkjax.audit.manifest import MANIFEST, STATE, read, sha256
from rlkjax.audit.records import METRICS_KINDS
from rlkjax.config import Config, parse_canonical
from rlkjax.errors import ConsistencyError, InputError
from rlkjax.platform.fingerprint import Difference, differences


class Recorded(NamedTuple):
    """A run as its folder holds it.

    Attributes:
      folder: the resolved run folder.
      config: what was run.
      lines: whole lines of the ledger, without line ends.
      records: the same, parsed.
      metrics: whole lines of metrics.jsonl, without line ends.
    """

    folder: Path
    config: Config
    lines: list[bytes]
    records: list[Record]
    metrics: list[bytes]


class Start(NamedTuple):
    """Where a replay begins.

    Attributes:
      checkpoint: iteration of the checkpoint that it goes on from; None: from the seed.
      manifest: digest of its manifest; None: from the seed.
      taken: records that are taken as they are.
    """

    checkpoint: int | None
    manifest: str | None
    taken: int

    @property
    def first(self) -> int:
        """The first iteration that is computed."""
        return 0 if self.checkpoint is None else self.checkpoint + 1


def load(folder: Path) -> Recorded:
    """Reads what a replay is compared with.

    Args:
      folder: the run folder.

    Returns:
      The run.

    Raises:
      ConsistencyError: the chain is broken, or the config is not the one that was recorded.
      InputError: the config is of another version.
    """
    folder = folder.resolve()
    lines = _whole_lines(folder, LEDGER)
    ledger.follow(ledger.EMPTY, lines)
    records = [json.loads(line) for line in lines]
    if not records:
        raise ConsistencyError(f"{LEDGER}: got no whole record, want at least genesis")
    data = read_inside(folder, CONFIG)
    if sha256(data) != records[0]["config"]:
        raise ConsistencyError(
            f"{CONFIG}: got SHA-256 {sha256(data)}, want {records[0]['config']} as genesis says"
        )
    metrics = _whole_lines(folder, METRICS) if _has(records, METRICS_KINDS) else []
    try:
        config = parse_canonical(data)
    except InputError as error:
        # Its bytes are those that were recorded, so it is this version that reads other keys.
        raise InputError(
            f"{CONFIG}: got a config of another version ({error}), want one that this version "
            "writes; replay the run with the version of rlkjax that recorded it"
        ) from None
    return Recorded(folder, config, lines, records, metrics)


def span(recorded: Recorded, first: int | None, last: int | None) -> tuple[int, int]:
    """The iterations to compare.

    Args:
      recorded: the run.
      first: as the user asked; None: 0.
      last: as the user asked; None: the last that was begun.

    Returns:
      First and last iteration.

    Raises:
      InputError: the run has no such iterations.
    """
    begun = [each["iteration"] for each in recorded.records if each["kind"] == "rollout"]
    low, high = first or 0, max(begun, default=-1) if last is None else last
    if not begun or not 0 <= low <= high <= max(begun):
        raise InputError(
            f"--from, --to: got {low} to {high}, want iterations from 0 to {max(begun, default=-1)}"
            " that the ledger holds; name these"
        )
    return low, high


def start(recorded: Recorded, first: int) -> Start:
    """The newest whole checkpoint before an iteration.

    Args:
      recorded: the run.
      first: the iteration.

    Returns:
      Where to begin; after genesis where no such checkpoint is there.
    """
    there = set(names_inside(recorded.folder, CHECKPOINTS))
    for record in reversed(recorded.records):
        known = record["kind"] == "checkpoint" and record["iteration"] < first
        if known and f"{record['iteration']:08d}" in there and _is_whole(recorded.folder, record):
            return Start(record["iteration"], record["manifest"], record["index"] + 1)
    return Start(None, None, 1)


def metric_lines(recorded: Recorded, count: int) -> int:
    """Lines of metrics that belong to the first records.

    Args:
      recorded: the run.
      count: number of records.

    Returns:
      Number of lines.
    """
    return sum(record["kind"] in METRICS_KINDS for record in recorded.records[:count])


def changes(
    recorded: Recorded, machine: Mapping[str, str | int], first: int, last: int
) -> tuple[Difference, ...]:
    """How a machine differs from those on which some iterations were recorded.

    Args:
      recorded: the run.
      machine: fingerprint of this machine.
      first: the first iteration.
      last: the last iteration.

    Returns:
      Differences by key, of the first of those machines that differs.

    Raises:
      ConsistencyError: a fingerprint is missing or damaged.
    """
    files = [(0, FINGERPRINT, recorded.records[0]["fingerprint"])]
    for record in recorded.records:
        if record["kind"] == "resume" and record["iteration"] <= last:
            entry = (record["iteration"], fingerprint_file(record), record["fingerprint"])
            files = [entry] if entry[0] <= first else [*files, entry]
    for _, file, digest in files:
        data = read_inside(recorded.folder, file)
        if sha256(data) != digest:
            raise ConsistencyError(f"{file}: got SHA-256 {sha256(data)}, want {digest}")
        found = differences(json.loads(data), machine)
        if found:
            return tuple(found)
    return ()


def _is_whole(folder: Path, record: Record) -> bool:
    """Whether the checkpoint that a record names has the recorded bytes."""
    place = f"{CHECKPOINTS}/{record['iteration']:08d}"
    try:
        data = read_inside(folder, f"{place}/{MANIFEST}")
        state = sha256(read_inside(folder, f"{place}/{STATE}"))
        return sha256(data) == record["manifest"] and read(data, place)["state"] == state
    except ConsistencyError:
        return False


def _whole_lines(folder: Path, file: str) -> list[bytes]:
    """Lines without their ends; what a kill left unfinished at the end is no line."""
    return [line[:-1] for line in lines_inside(folder, file) if line.endswith(b"\n")]


def _has(records: list[Record], kinds: frozenset[str]) -> bool:
    return any(record["kind"] in kinds for record in records)
