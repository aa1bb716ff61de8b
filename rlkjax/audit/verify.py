"""Checks a run folder from its files alone. Reading happens here; what judges is pure."""

import os
import stat
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rlkjax.atomic import TEMPORARY
from rlkjax.audit import artifacts, checks
from rlkjax.audit.artifacts import CHECKPOINTS, CONFIG, FINGERPRINT, SEGMENTS, Around, ReadFn
from rlkjax.audit.checks import LEDGER, METRICS, Finding, Record
from rlkjax.audit.ledger import EMPTY, Chain
from rlkjax.audit.records import PAYLOADS
from rlkjax.errors import ConsistencyError, InputError

Kept = dict[int, Record]  # iteration -> the record that speaks of a file
Index = dict[str, Kept]
AroundFn = Callable[[int], Around]


class Report(NamedTuple):
    """What a verification found.

    Attributes:
      chain: where the ledger ends.
      iterations: iterations whose update was recorded.
      halted: the halt record, or None.
      findings: everything that is wrong, in the order of the files.
    """

    chain: Chain
    iterations: int
    halted: Record | None
    findings: tuple[Finding, ...]

    @property
    def verified(self) -> bool:
        """No finding, and the run did not halt."""
        return not self.findings and self.halted is None


def verify_run(folder: Path, *, chain: str | None = None) -> Report:
    """Checks every byte that the ledger of a run speaks of.

    Args:
      folder: the run folder.
      chain: 64 hex digits that the chain must end in, as the run printed them. Only with them can
        records that are missing at the very end be told from a shorter run.

    Returns:
      The report; damage of any kind is a finding in it.

    Raises:
      InputError: the folder is no run folder.
    """
    folder = Path(folder)
    if not any((folder / name).is_file() for name in (LEDGER, CONFIG, FINGERPRINT)):
        raise InputError(
            f"run folder: got {folder}, want a folder that holds {LEDGER}; "
            "name the folder that training printed"
        )
    read = partial(read_inside, folder.resolve())
    lines, findings = _read_lines(read, LEDGER)
    records, end, broken = checks.check_chain(lines)
    findings += broken
    if not lines:
        return Report(EMPTY, 0, None, (*findings, Finding(LEDGER, None, "ledger", "records", "0")))
    # A line that cannot be read breaks the order; its own finding says so already.
    if len(records) == len(lines):
        findings += checks.check_order(records)
        findings += checks.check_end(records)
    findings += checks.check_links(records)
    metrics, torn = _read_lines(read, METRICS) if _has_metrics(folder, records) else ([], [])
    findings += [*torn, *checks.check_metrics(records, metrics)]
    findings += artifacts.check_inputs(records, read)
    findings += _check_kept(folder, records, read)
    if chain is not None and chain != end.head:
        findings.append(Finding(LEDGER, None, "chain at the end", chain, end.head))
    last = records[-1] if records else {"kind": ""}
    halted = last if last["kind"] == "halt" else None
    return Report(end, checks.count_updates(records), halted, tuple(findings))


def read_inside(folder: Path, file: str) -> bytes:
    """Reads a regular file that lies inside a folder, following no link out of it.

    Args:
      folder: the resolved run folder.
      file: path inside it.

    Returns:
      All bytes.

    Raises:
      ConsistencyError: missing, no regular file, not readable, or a link that leads outside.
    """
    path = folder / file
    try:
        target = path.resolve(strict=True)
        if not target.is_relative_to(folder):
            raise ConsistencyError(f"{file}: got a link that leaves the run folder, want a file")
        if not stat.S_ISREG(target.stat().st_mode):
            raise ConsistencyError(f"{file}: got something other than a file, want a file")
        return target.read_bytes()
    except FileNotFoundError:
        raise ConsistencyError(f"{file}: got no such file, want one") from None
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
        raise ConsistencyError(f"{file}: got a file that cannot be read ({error})") from None


def _read_lines(read: ReadFn, file: str) -> tuple[list[bytes], list[Finding]]:
    try:
        return checks.split_lines(read(file), file)
    except ConsistencyError as error:
        return [], [Finding(file, None, "file", "a file of lines", str(error))]


def _has_metrics(folder: Path, records: Sequence[Record]) -> bool:
    """A run that never updated need not have the file."""
    return checks.count_updates(records) > 0 or os.path.lexists(folder / METRICS)


def _names(folder: Path, file: str) -> tuple[list[str], list[Finding]]:
    """Names in a folder of the run; unfinished writes do not count."""
    path = folder / file
    if not os.path.lexists(path):
        return [], []
    try:
        if not path.resolve(strict=True).is_relative_to(folder.resolve()):
            return [], [Finding(file, None, "folder", "a folder", "a link that leaves the run")]
        names = sorted(entry.name for entry in path.iterdir())
    except (OSError, RuntimeError) as error:
        return [], [Finding(file, None, "folder", "a folder that can be read", str(error))]
    return [name for name in names if not name.endswith(TEMPORARY)], []


def _by_kind(records: Sequence[Record]) -> Index:
    index: Index = {kind: {} for kind in PAYLOADS}
    for record in records:
        if "iteration" in record and record["kind"] != "genesis":
            index[record["kind"]][record["iteration"]] = record
    return index


def _around(genesis: Record, index: Index, iteration: int) -> Around:
    return Around(
        genesis=genesis,
        update=index["update"].get(iteration, {}),
        rescore=index["rescore"].get(iteration, {}),
        next_rollout=index["rollout"].get(iteration + 1, {}),
    )


def _last(items: dict[int, Record], count: int) -> dict[int, Record]:
    return dict(sorted(items.items())[-count:])


def _check_kept(folder: Path, records: Sequence[Record], read: ReadFn) -> list[Finding]:
    if not records:
        return []
    try:
        keep, keep_segments = artifacts.kept(read(CONFIG))
    except ConsistencyError:
        keep, keep_segments = 1, "none"  # the missing config has its own finding
    index = _by_kind(records)
    rollouts = index["rollout"]
    segments = {"all": rollouts, "last": _last(rollouts, 1)}.get(keep_segments, {})
    around = partial(_around, records[0], index)
    saved = index["checkpoint"]
    return [
        *_check_checkpoints(folder, saved, read, around=around, wanted=_last(saved, keep)),
        *_check_segments(folder, rollouts, read, around=around, wanted=segments),
    ]


def _check_checkpoints(
    folder: Path, saved: Kept, read: ReadFn, *, around: AroundFn, wanted: Kept
) -> list[Finding]:
    present, findings = _names(folder, CHECKPOINTS)
    names = {iteration: f"{iteration:08d}" for iteration in saved}
    findings += artifacts.check_presence(CHECKPOINTS, saved, present, names=names, wanted=wanted)
    for iteration, record in sorted(saved.items()):
        if names[iteration] in present:
            files, refused = _names(folder, f"{CHECKPOINTS}/{names[iteration]}")
            findings += refused
            findings += artifacts.check_checkpoint(record, around(iteration), files, read=read)
    return findings


def _check_segments(
    folder: Path, rollouts: Kept, read: ReadFn, *, around: AroundFn, wanted: Kept
) -> list[Finding]:
    present, findings = _names(folder, SEGMENTS)
    names = {iteration: f"{iteration:08d}.safetensors" for iteration in rollouts}
    findings += artifacts.check_presence(SEGMENTS, rollouts, present, names=names, wanted=wanted)
    for iteration, record in sorted(rollouts.items()):
        if names[iteration] in present:
            file = f"{SEGMENTS}/{names[iteration]}"
            findings += artifacts.check_segment(record, around(iteration), file, read=read)
    return findings
