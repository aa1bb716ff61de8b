"""The run folder: what it holds, how a new one is made, and where an old one is taken up."""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from rlkjax import checkpoint
from rlkjax.atomic import explain, write_file
from rlkjax.audit import ledger
from rlkjax.audit.journal import Journal
from rlkjax.audit.ledger import Chain
from rlkjax.audit.records import METRICS_KINDS
from rlkjax.errors import ConsistencyError
from rlkjax.run_folder_begin import CONFIG, check_config, check_new

FINGERPRINT = "fingerprint.json"
FINGERPRINTS = "fingerprints"  # those that resume records name
LEDGER = "ledger.jsonl"
METRICS = "metrics.jsonl"
TIMING = "timing.jsonl"


class Opened(NamedTuple):
    """A run folder that is ready to be written.

    Attributes:
      chain: where the ledger stands after the records that are taken as they are.
      journal: the ledger's file.
      metrics: the file of metric lines.
      iteration: of the checkpoint to go on from; None to start at the beginning.
      manifest: digest of that checkpoint's manifest, as recorded.
      recorded: iterations of all checkpoints up to that one.
      fingerprint: digest that the run is recorded under at present; None for a new run.
    """

    chain: Chain
    journal: Journal
    metrics: Journal
    iteration: int | None
    manifest: str | None
    recorded: tuple[int, ...]
    fingerprint: str | None


def make(folder: Path) -> None:
    """Makes the folder itself, so that it can be locked.

    Args:
      folder: a path where there is nothing, or a folder.

    Raises:
      InputError: there is a file, or the place cannot be written.
      MachineError: no space.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise explain(error, folder) from error


def create(folder: Path, config: bytes, fingerprint: bytes) -> Opened:
    """Makes a new run folder.

    Args:
      folder: a path where there is nothing, or an empty folder.
      config: canonical bytes of the config.
      fingerprint: canonical bytes of the fingerprint.

    Returns:
      The folder, with an empty ledger.

    Raises:
      InputError: the folder is not empty or cannot be made.
      MachineError: no space.
    """
    check_new(folder)
    write_file(folder / CONFIG, config)
    write_file(folder / FINGERPRINT, fingerprint)
    return Opened(
        ledger.EMPTY, Journal(folder / LEDGER), Journal(folder / METRICS), None, None, (), None
    )


def reopen(folder: Path, config: bytes, fingerprint: bytes) -> Opened:
    """Takes up a run where its last usable checkpoint left it.

    Records after that checkpoint stay in the ledger: the resumed run has to repeat them.

    Args:
      folder: a run folder.
      config: canonical bytes of the config that the caller wants to run.
      fingerprint: canonical bytes of the fingerprint, for a run that was killed before its first
        record.

    Returns:
      The folder, with all records up to the checkpoint taken as they are.

    Raises:
      InputError: no run folder, or one of another config.
      ConsistencyError: the ledger is damaged, or the run halted.
    """
    check_config(folder, config)
    journal, metrics = Journal(folder / LEDGER), Journal(folder / METRICS)
    lines = _read(folder / LEDGER).split(b"\n")[:-1]
    ledger.follow(ledger.EMPTY, lines)
    records = [json.loads(line) for line in lines]
    if records and records[-1]["kind"] == "halt":
        raise ConsistencyError(
            f"run folder {folder}: this run halted at iteration {records[-1]['iteration']} "
            f"({records[-1]['reason']}), and nothing may follow; start a new run"
        )
    if not records:
        write_file(folder / FINGERPRINT, fingerprint)  # nothing is bound to an older one yet
    count = _last_checkpoint(folder, records)
    last = records[count - 1] if count else {}
    journal.take(count)
    metrics.take(sum(record["kind"] in METRICS_KINDS for record in records[:count]))
    fingerprints = [each["fingerprint"] for each in records[:count] if "fingerprint" in each]
    return Opened(
        ledger.follow(ledger.EMPTY, lines[:count]),
        journal,
        metrics,
        last.get("iteration"),
        last.get("manifest"),
        tuple(each["iteration"] for each in records[:count] if each["kind"] == "checkpoint"),
        fingerprints[-1] if fingerprints else None,
    )


def read_fingerprint(folder: Path, wanted: str) -> bytes:
    """A fingerprint that the ledger names.

    Args:
      folder: the run folder.
      wanted: its digest, 64 hex digits.

    Returns:
      Its canonical bytes.

    Raises:
      ConsistencyError: no file of the folder has that digest.
    """
    for path in (folder / FINGERPRINT, folder / FINGERPRINTS / f"{wanted}.json"):
        if path.is_file() and digest(_read(path)) == wanted:
            return _read(path)
    raise ConsistencyError(
        f"run folder {folder}: got no fingerprint of digest {wanted}, want the file that the "
        "ledger names; restore it from a copy"
    )


def add_fingerprint(folder: Path, data: bytes) -> str:
    """Keeps the fingerprint under which a run is resumed.

    Args:
      folder: the run folder.
      data: its canonical bytes.

    Returns:
      Its digest, 64 hex digits.

    Raises:
      MachineError: no space.
      InputError: the place cannot be written.
    """
    path = folder / FINGERPRINTS / f"{digest(data)}.json"
    make(path.parent)
    write_file(path, data)
    return digest(data)


def put_aside(folder: Path, opened: Opened) -> None:
    """Moves what was recorded after the checkpoint into files of its own, out of the ledger's way.

    Args:
      folder: the run folder.
      opened: the folder, as it was reopened.

    Raises:
      MachineError: no space.
      InputError: the place cannot be written.
    """
    for journal, name in ((opened.journal, "ledger"), (opened.metrics, "metrics")):
        first = journal.count
        lines = _read(folder / f"{name}.jsonl").split(b"\n")[first:-1]
        if lines:
            aside = folder / f"{name}.aside-{first:08d}.jsonl"
            write_file(aside, b"".join(line + b"\n" for line in lines))
            journal.drop_pending()
    checkpoint.discard(folder, opened.recorded)


def _last_checkpoint(folder: Path, records: list[dict[str, Any]]) -> int:
    """Number of records up to and with the newest recorded checkpoint that is still there."""
    there = set(checkpoint.available(folder))
    for index, record in reversed(list(enumerate(records))):
        if record["kind"] == "checkpoint" and record["iteration"] in there:
            return index + 1
    return 0


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise explain(error, path) from error


def digest(data: bytes) -> str:
    """SHA-256 of a file's bytes.

    Args:
      data: the bytes.

    Returns:
      64 hex digits.
    """
    return hashlib.sha256(data).hexdigest()
