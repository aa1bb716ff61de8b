"""Checks a run folder from its files alone, in one pass over the ledger.

Memory holds a few records and one kept file at a time, besides the names in the folders. Reading
stands in `inside`; what judges, in `checks` and `artifacts`, is pure.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain as joined
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from rlkjax.atomic import TEMPORARY
from rlkjax.audit import artifacts, checks
from rlkjax.audit.artifacts import (
    CHECKPOINTS,
    CONFIG,
    FINGERPRINT,
    FINGERPRINTS,
    SEGMENTS,
    Kept,
)
from rlkjax.audit.checks import LEDGER, METRICS, Finding, Record, Watcher
from rlkjax.audit.head import Head, origin_of
from rlkjax.audit.inside import Loader, lines_inside, names_inside, read_inside
from rlkjax.audit.ledger import EMPTY, Chain
from rlkjax.audit.tree import Frontier
from rlkjax.audit.trust import Trusted
from rlkjax.audit.watchers import ALL, Checkpoints, Inputs, Segments
from rlkjax.errors import ConsistencyError, InputError

COVERED = (CONFIG, FINGERPRINT, FINGERPRINTS, LEDGER, METRICS, CHECKPOINTS, SEGMENTS)
LIMIT = 1000  # findings that are listed; more are counted


class Report(NamedTuple):
    """What a verification found.

    Attributes:
      chain: where the ledger ends.
      iterations: iterations whose update was recorded.
      halted: the halt record, or None.
      findings: everything that is wrong, in the order of the records; at most `LIMIT` and one that
        counts the rest.
      root: Merkle root over the ledger's records, 64 hex digits.
      uncovered: names in the run folder that no digest covers, sorted.
    """

    chain: Chain
    iterations: int
    halted: Record | None
    findings: tuple[Finding, ...]
    root: str = Frontier().root().hex()
    uncovered: tuple[str, ...] = ()

    @property
    def verified(self) -> bool:
        """No finding, and the run did not halt."""
        return not self.findings and self.halted is None


class _Found:
    """Findings, of which only the first are kept, so that a broken run does not fill the memory."""

    def __init__(self) -> None:
        self._listed: list[Finding] = []
        self._count = 0

    def add(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self._count += 1
            if self._count <= LIMIT:
                self._listed.append(finding)

    def all(self) -> tuple[Finding, ...]:
        if self._count <= LIMIT:
            return tuple(self._listed)
        got = f"{self._count}, of which the first {LIMIT} are listed"
        return (*self._listed, Finding(LEDGER, None, "number of findings", "0", got))


class _Walked(NamedTuple):
    """What one pass over the ledger leaves behind.

    Attributes:
      end: where the ledger ends.
      tree: over its records.
      whole: whether every line could be read.
      origin: which ledger it is, from its first line; empty where there is none.
      past: the heads that it had at the sizes that were asked for.
    """

    end: Chain
    tree: Frontier
    whole: bool
    origin: str
    past: dict[int, Head]


def verify_run(folder: Path, *, chain: str | None = None, heads: Sequence[Trusted] = ()) -> Report:
    """Checks every byte that the ledger of a run speaks of.

    Args:
      folder: the run folder.
      chain: 64 hex digits that the chain must end in, as the run printed them. Only with them can
        records that are missing at the very end be told from a shorter run.
      heads: heads from elsewhere, which the ledger must have or have had.

    Returns:
      The report; damage of any kind is a finding in it.

    Raises:
      InputError: the folder is no run folder, or one of a newer format.
    """
    folder = Path(folder)
    if folder.is_file() and (folder.parent / LEDGER).is_file():
        raise InputError(
            f"run folder: got {folder}, a file, want a folder; give its folder, {folder.parent}"
        )
    if not any((folder / name).is_file() for name in (LEDGER, CONFIG, FINGERPRINT)):
        raise InputError(
            f"run folder: got {folder}, want a folder that holds {LEDGER}; "
            "name the folder that training printed"
        )
    folder = folder.resolve()
    found = _Found()
    order = checks.Order()
    kept = _kept(folder)
    inputs = Inputs(partial(read_inside, folder))
    watchers: list[Watcher] = [
        checks.Agreement(None if kept is None else kept.reference_every),
        checks.Metrics(lines_inside(folder, METRICS)),
        inputs,
        *_kept_watchers(folder, kept or Kept(), found),
    ]
    sizes = {each.head.size for each in heads}
    walked = _walk(_ledger(folder, found), sizes, order, [*watchers], found=found)
    end, tree, whole = walked.end, walked.tree, walked.whole
    # A line that cannot be read breaks the order; its own finding says so already.
    if whole and end.count:
        found.add(order.end())
    if not end.count:
        found.add([Finding(LEDGER, None, "ledger", "records", "0")])
    # A run that never updated need not have metrics.
    if not order.finished and not os.path.lexists(folder / METRICS):
        del watchers[1]
    for watcher in watchers:
        found.add(watcher.end())
    if chain is not None and chain != end.head:
        found.add([Finding(LEDGER, None, "chain at the end", chain, end.head)])
    for each in heads:
        found.add(_check_head(each, walked))
    last = order.last
    halted = last if last.get("kind") == "halt" else None
    uncovered = tuple(_uncovered(folder, inputs.named))
    return Report(end, order.finished, halted, found.all(), tree.root().hex(), uncovered)


def _walk(
    lines: Iterator[bytes],
    sizes: Collection[int],
    order: checks.Order,
    watchers: Sequence[Watcher],
    *,
    found: _Found,
) -> _Walked:
    """Shows every record to all that watch."""
    end, tree, whole, origin = EMPTY, Frontier(), True, ""
    past = {}
    for number, line in enumerate(lines):
        record, end, findings = checks.link(end, line, number)
        found.add(findings)
        tree = tree.add(bytes.fromhex(end.head))
        origin = origin or origin_of(line)
        if tree.size in sizes:
            past[tree.size] = Head(origin, tree.size, tree.root().hex(), end.head, end.bits)
        if record is None:
            whole = False
            continue
        out_of_order = order.see(record)
        found.add(out_of_order if whole else ())
        for watcher in watchers:
            found.add(watcher.see(record))
    return _Walked(end, tree, whole, origin, past)


def _check_head(trusted: Trusted, walked: _Walked) -> list[Finding]:
    """Whether the ledger has, or had when it was shorter, a head that was kept elsewhere."""
    want = "a signature of every key"
    findings = [Finding(trusted.file, None, "signature", want, each) for each in trusted.problems]
    if trusted.head.origin != walked.origin:
        what = "the head belongs to another run, or record 0 was changed; ledger"
        return [
            Finding(trusted.file, None, what, walked.origin or "none", trusted.head.origin),
            *findings,
        ]
    own = walked.past.get(trusted.head.size)
    if own is None:
        want = f"{trusted.head.size}, as {trusted.file} says"
        got = str(walked.end.count)
        return [*findings, Finding(LEDGER, None, "number of records", want, got)]
    return findings + [
        Finding(LEDGER, None, f"{key} of the first {own.size} records", str(a), str(b))
        for key, a, b in zip(Head._fields, trusted.head, own, strict=True)
        if a != b
    ]


def _ledger(folder: Path, found: _Found) -> Iterator[bytes]:
    """Lines of the ledger without their ends; nothing where it cannot be read.

    Raises:
      InputError: the ledger is of a newer format.
    """
    try:
        lines = lines_inside(folder, LEDGER)
        first = list(islice(lines, 2))
        if first:
            heads = [line.removesuffix(b"\n") for line in first]
            newer = checks.newer_format(heads[0], heads[1] if len(heads) > 1 else None)
            if newer is not None:
                raise InputError(
                    f"{folder / LEDGER}: got format {newer}, want {checks.FORMAT}; "
                    "verify it with the version of rlkjax that wrote it"
                )
        for number, line in enumerate(joined(first, lines)):
            line, torn = checks.cut_end(line, LEDGER, number)
            found.add(torn)
            yield line
    except ConsistencyError as error:
        found.add([Finding(LEDGER, None, "file", "a file of lines", str(error))])


def _kept_watchers(folder: Path, kept: Kept, found: _Found) -> list[Watcher]:
    read, load = partial(read_inside, folder), Loader(folder)
    names_fn = partial(names_inside, folder)
    segments = {"all": ALL, "last": 1}.get(kept.segments, 0)
    present = {}
    for kind in (CHECKPOINTS, SEGMENTS):
        try:
            names = names_fn(kind)
        except ConsistencyError as error:
            names = []
            found.add([Finding(kind, None, "folder", "a folder of the run", str(error))])
        present[kind] = [name for name in names if not name.endswith(TEMPORARY)]
    return [
        Checkpoints(names_fn, read, load, names=present[CHECKPOINTS], keep=kept.checkpoints),
        Segments(load, names=present[SEGMENTS], keep=segments),
    ]


def _kept(folder: Path) -> Kept | None:
    """What the config asks for; None where it cannot be read, which has its own finding."""
    try:
        return artifacts.kept(read_inside(folder, CONFIG))
    except ConsistencyError:
        return None


def _uncovered(folder: Path, named: Collection[str]) -> Iterator[str]:
    """Names that no digest covers: pictures, timings, unfinished writes, whatever is foreign."""
    for parent in ("", FINGERPRINTS, CHECKPOINTS, SEGMENTS):
        try:
            names = names_inside(folder, parent)
        except ConsistencyError:
            yield parent  # a link that leaves, or no folder
            continue
        for name in names:
            if not parent and name not in COVERED:
                yield name
            file = f"{parent}/{name}"
            if parent and (name.endswith(TEMPORARY) or parent == FINGERPRINTS):
                yield from () if file in named else (file,)
