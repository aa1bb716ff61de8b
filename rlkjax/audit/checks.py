"""The checks of a ledger, record by record: lines and records in, findings out. No I/O."""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from rlkjax.audit.ledger import Chain, bits_after
from rlkjax.audit.records import FORMAT, METRICS_KINDS, parse
from rlkjax.audit.tree import leaf_hash
from rlkjax.errors import ConsistencyError, InputError

LEDGER, METRICS = "ledger.jsonl", "metrics.jsonl"
LINE_LIMIT = 1 << 20  # bytes of a line that are looked at; no record comes near
Record = dict[str, Any]


class Finding(NamedTuple):
    """One thing that is wrong with a run.

    Attributes:
      file: path inside the run folder.
      record: index of the ledger record concerned, or None.
      what: what was looked at.
      expected: what the other files or records say.
      got: what is there.
    """

    file: str
    record: int | None
    what: str
    expected: str
    got: str


class Watcher(Protocol):
    """What looks at every record of a ledger, in order, and keeps no more than a few of them."""

    def see(self, record: Record) -> Sequence[Finding]:
        """Takes the next record; returns what is wrong so far and was not told yet."""
        ...

    def end(self) -> Sequence[Finding]:
        """After the last record: what is wrong and was not told yet."""
        ...


def newer_format(first: bytes, second: bytes | None) -> str | None:
    """The format that a ledger names, if it is a later one than is known here.

    One changed byte may look like another format; it breaks the link to the second record.

    Args:
      first: first line of the ledger.
      second: its second line, if there is one.

    Returns:
      The name of the format, or None.
    """
    try:
        name = json.loads(first).get("format")
        linked = second is None or json.loads(second).get("prev") == leaf_hash(first).hex()
    except (ValueError, RecursionError, AttributeError):
        return None
    known = (
        re.fullmatch(r"rlkjax-ledger/([1-9][0-9]{0,8})", name) if isinstance(name, str) else None
    )
    return name if known and linked and name != FORMAT else None


def cut_end(line: bytes, file: str, number: int) -> tuple[bytes, list[Finding]]:
    """A line without its line feed, which each must have.

    Args:
      line: as it was read.
      file: name of the file, for the finding.
      number: of the line, from 0.

    Returns:
      The line without its end; and findings.
    """
    if line.endswith(b"\n"):
        return line[:-1], []
    return line, [Finding(file, None, f"end of line {number}", "a line feed", "end of file")]


def link(chain: Chain, line: bytes, number: int) -> tuple[Record | None, Chain, Sequence[Finding]]:
    """Recomputes the links of one record. After a break it goes on from what the record says.

    Args:
      chain: where the ledger stands before it.
      line: the line, without its line end.
      number: of the line, from 0.

    Returns:
      The record, or None where it cannot be read; where the ledger stands after it; findings.
    """
    try:
        if len(line) > LINE_LIMIT:
            raise ConsistencyError(f"got a line of more than {LINE_LIMIT} bytes")
        record = parse(line)
        bits = bits_after(chain, record["kind"], record)
    except (ConsistencyError, InputError) as error:
        what = Finding(LEDGER, number, f"line {number}", "a record of the format", str(error))
        return None, Chain(number + 1, leaf_hash(line).hex(), chain.bits), [what]
    want = {"index": chain.count, "prev": chain.head, "bits": bits}
    findings = [
        Finding(LEDGER, number, f"{key} of the record", str(want[key]), str(record[key]))
        for key in want
        if record[key] != want[key]
    ]
    return record, Chain(record["index"] + 1, leaf_hash(line).hex(), record["bits"]), findings


# What may follow each kind. None stands for the start, and for the end of a whole run.
_START_NEXT = ("rollout", "resume", "halt")
_FOLLOWERS: dict[str | None, tuple[str | None, ...]] = {
    None: ("genesis",),
    "genesis": _START_NEXT,
    "resume": _START_NEXT,
    "rollout": ("rescore", "halt"),
    "rescore": ("advantages", "halt"),
    "advantages": ("update", "halt"),
    "update": ("evaluation", "reference", "checkpoint", *_START_NEXT, None),
    "evaluation": ("reference", "checkpoint", *_START_NEXT, None),
    "reference": ("checkpoint", *_START_NEXT, None),
    "acknowledge": ("checkpoint", *_START_NEXT, None),
    "checkpoint": (*_START_NEXT, None),
    "halt": (None,),
}
_OPENERS = ("rollout", "resume")
_LAST = ("evaluation", "checkpoint")  # what follows the last update, whatever their intervals
_BESIDE = ("resume", "reference", "acknowledge")  # what may stand between them


class Order:
    """Whether kinds and iterations follow one another as the pipeline does, to the planned end.

    Attributes:
      finished: iterations whose update was recorded.
      last: the last record; empty before the first.
    """

    def __init__(self) -> None:
        self.finished = 0
        self.last: Record = {}
        self._planned: int | None = None
        self._current = 0
        self._tail: list[str] = []  # kinds since the last update, a few at most

    def see(self, record: Record) -> list[Finding]:
        """Compares a record with the one before it.

        Args:
          record: the next record.

        Returns:
          Findings.
        """
        findings = []
        kind, index, before = record["kind"], record["index"], self.last.get("kind")
        if not self.last:
            self._planned = record.get("iterations")
        allowed = _after(self.last)
        if kind not in allowed:
            want = " or ".join(name or "the end of the ledger" for name in allowed)
            findings.append(Finding(LEDGER, index, f"kind after {before or 'nothing'}", want, kind))
        if kind in _OPENERS:
            self._current = self.finished
        low, high = self._fitting(kind)
        if kind != "genesis" and not low <= record["iteration"] <= high:
            want = str(low) if low == high else f"{low} to {high}"
            findings.append(Finding(LEDGER, index, "iteration", want, str(record["iteration"])))
        if kind == "update":
            self.finished, self._tail = self.finished + 1, []
        elif kind not in _BESIDE and len(self._tail) <= len(_LAST):
            self._tail.append(kind)
        self.last = record
        return findings

    def _fitting(self, kind: str) -> tuple[int, int]:
        """First and last iteration that a record of a kind may be about."""
        if kind == "halt":
            # It may belong to the iteration before or after it, or to one that was recomputed.
            return 0, self.finished
        if kind == "reference":
            return 0, self._current
        if kind == "acknowledge":
            return (self.last.get("iteration", 0),) * 2
        return self._current, self._current

    def end(self) -> list[Finding]:
        """Whether the last iteration is finished, and as many as genesis announced.

        Returns:
          Findings. A halted run is not expected to be complete.
        """
        findings = []
        kind, index = self.last.get("kind"), self.last.get("index")
        if None not in _after(self.last):
            want = "a finished iteration; resume the run to finish it"
            findings.append(Finding(LEDGER, index, "last record", want, kind or "an empty ledger"))
        if self._planned is None or kind == "halt":
            return findings
        if self.finished != self._planned:
            got = f"{self.finished}; resume the run if it was stopped"
            what = "number of iterations"
            return [*findings, Finding(LEDGER, index, what, str(self._planned), got)]
        if tuple(self._tail) != _LAST:
            got, want = ", ".join(self._tail) or "none", ", ".join(_LAST)
            what = "records after the last update"
            return [*findings, Finding(LEDGER, index, what, want, got)]
        return findings


def _after(record: Record) -> tuple[str | None, ...]:
    """What may follow a record."""
    if record.get("past"):
        return ("acknowledge", None)  # a run past a threshold is paused until it is told to go on
    return _FOLLOWERS[record.get("kind")]


class Agreement:
    """Whether training says that it had what the rollout claimed: seeds, graphs, roots.

    Where the reference recomputes an iteration, exact numerics must give it the same roots.
    """

    def __init__(self, reference_every: int | None = None) -> None:
        """Starts before the first record.

        Args:
          reference_every: interval at which iterations are recomputed; 0: none is; None: unknown.
        """
        self._every = reference_every
        self._due: dict[str, Any] = {"iteration": None}  # of the last iteration to be recomputed
        self._genesis: Record = {}
        self._rollout: Record = {}
        self._held: list[Finding] = []

    def see(self, record: Record) -> list[Finding]:
        """Compares a record with the genesis and with the rollout before it.

        Args:
          record: the next record.

        Returns:
          Findings; those of a rescore wait for the record that follows it.
        """
        held, self._held = self._held, []
        kind = record["kind"]
        if kind == "halt":
            # Where a halt follows a rescore that differs, that is the news and not the fault.
            return []
        if kind == "genesis":
            self._genesis = record
        if self._every and record.get("iteration", 1) % self._every == 0:
            self._note(record)
        if kind == "reference" and self._every is not None:
            return held + self._recomputed(record)
        if kind == "rollout":
            self._rollout = record
            graph = self._genesis.get("policy_graph", record["graph"])
            return held + _unequal(
                record,
                ("graph", graph, record["graph"]),
                ("seed", self._genesis.get("seed"), record["seed"]),
                ("sequence", record["iteration"], record["sequence"]),
            )
        if kind == "rescore":
            self._held = _unequal(
                record,
                ("sequence", self._rollout.get("sequence"), record["sequence"]),
                ("graph", self._rollout.get("graph"), record["graph"]),
                ("root against rollout_root", record["rollout_root"], record["root"]),
            )
        return held

    def _note(self, record: Record) -> None:
        """Keeps the roots of an iteration that is going to be recomputed."""
        if record["kind"] == "rollout":
            self._due = {"iteration": record["iteration"], "segment": record["root"]}
        if record["kind"] == "update" and record["iteration"] == self._due["iteration"]:
            self._due["state"] = record["root"]

    def _recomputed(self, record: Record) -> list[Finding]:
        exact = self._genesis.get("numerics") == "exact"
        keys = ("iteration", "segment", "state") if exact else ("iteration",)
        return _unequal(record, *((key, self._due.get(key), record[key]) for key in keys))

    def end(self) -> list[Finding]:
        """What still waited.

        Returns:
          Findings.
        """
        return self._held


def _unequal(record: Record, *pairs: tuple[str, Any, Any]) -> list[Finding]:
    return [
        Finding(LEDGER, record["index"], f"{record['kind']} {key}", str(want), str(got))
        for key, want, got in pairs
        if want != got
    ]


class Metrics:
    """Whether each update and evaluation has its line of metrics, byte for byte."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        """Starts at the first line.

        Args:
          lines: lines of metrics.jsonl with their ends; read only as records ask for them.
        """
        self._lines = lines
        self._owners = self._taken = 0

    def see(self, record: Record) -> list[Finding]:
        """Takes the next line, if the record is one that has a line.

        Args:
          record: the next record.

        Returns:
          Findings.
        """
        if record["kind"] not in METRICS_KINDS:
            return []
        self._owners += 1
        line, findings = self._next()
        if line is None:
            return findings
        digest, number = hashlib.sha256(line).hexdigest(), self._taken - 1
        if digest != record["metrics"]:
            what = f"SHA-256 of line {number}"
            findings.append(Finding(METRICS, record["index"], what, record["metrics"], digest))
        return findings

    def end(self) -> list[Finding]:
        """Whether there are as many lines as records that have one.

        Returns:
          Findings.
        """
        findings: list[Finding] = []
        line: bytes | None = b""
        while line is not None:
            line, found = self._next()
            findings += found
        if self._owners != self._taken:
            want, got = str(self._owners), str(self._taken)
            findings.append(Finding(METRICS, None, "number of lines", want, got))
        return findings

    def _next(self) -> tuple[bytes | None, list[Finding]]:
        try:
            line = next(self._lines, None)
        except ConsistencyError as error:
            self._lines = iter(())
            return None, [Finding(METRICS, None, "file", "a file of lines", str(error))]
        if line is None:
            return None, []
        self._taken += 1
        return cut_end(line, METRICS, self._taken - 1)
