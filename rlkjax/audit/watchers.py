"""The watchers of files that a run keeps: inputs, checkpoints, segments. Files come in by name."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from rlkjax.audit import artifacts
from rlkjax.audit.artifacts import CHECKPOINTS, SEGMENTS, Around, LoadFn, ReadFn
from rlkjax.audit.checks import LEDGER, Finding, Record
from rlkjax.errors import ConsistencyError

ALL = -1  # every file of the kind is kept
NamesFn = Callable[[str], list[str]]


class Shelf:
    """The files in one folder: which are there, which must be, and which no record names."""

    def __init__(self, folder: str, names: Iterable[str], keep: int) -> None:
        """Starts with what lies in the folder.

        Args:
          folder: its name inside the run folder.
          names: what lies in it.
          keep: how many of the last recorded must be there; `ALL` for every one.
        """
        self._folder = folder
        self._unnamed = set(names)
        self._every = keep == ALL
        # The last recorded that must be there, as (name, index of the record, whether it is there).
        most = min(max(keep, 0), 1 << 20)
        self._wanted: deque[tuple[str, int, bool]] = deque(maxlen=most)

    def take(self, name: str, record: Record) -> tuple[bool, list[Finding]]:
        """Notes that a record speaks of a file.

        Args:
          name: of the file or folder.
          record: the record.

        Returns:
          Whether it is there and was not taken before; and findings.
        """
        there = name in self._unnamed
        self._unnamed.discard(name)
        self._wanted.append((name, record["index"], there))
        if there or not self._every:
            return there, []
        return there, [self._missing(name, record["index"])]

    def end(self) -> list[Finding]:
        """What is missing, and what no record names.

        Returns:
          Findings.
        """
        missing = [self._missing(name, index) for name, index, there in self._wanted if not there]
        want, got = f"a name that {LEDGER} records", "no such record"
        return missing + [
            Finding(f"{self._folder}/{name}", None, "file", want, got)
            for name in sorted(self._unnamed)
        ]

    def _missing(self, name: str, index: int) -> Finding:
        return Finding(f"{self._folder}/{name}", index, "file", "a kept file", "no such file")


class Inputs:
    """Whether config.json and the fingerprints are the files that the records name.

    Attributes:
      named: fingerprints that resume records named, as paths inside the run folder.
    """

    def __init__(self, read: ReadFn) -> None:
        """Sets how files are read.

        Args:
          read: reads a file of the run folder.
        """
        self.named: set[str] = set()
        self._read = read

    def see(self, record: Record) -> list[Finding]:
        """Compares the digests that a record names.

        Args:
          record: the next record.

        Returns:
          Findings.
        """
        if record["kind"] == "resume":
            self.named.add(artifacts.fingerprint_file(record))
        return artifacts.check_input(record, self._read)

    def end(self) -> list[Finding]:
        """Nothing is left to say."""
        return []


class _Waiting(NamedTuple):
    """A checkpoint record whose next rollout has not come yet."""

    record: Record
    update: Record


class Checkpoints:
    """Whether each checkpoint on disk is the one that a record names, to the last byte."""

    def __init__(
        self, names_fn: NamesFn, read: ReadFn, load: LoadFn, *, names: list[str], keep: int
    ) -> None:
        """Starts with what lies in the folder.

        Args:
          names_fn: names in a folder of the run; raises ConsistencyError where it is refused.
          read: reads a file of the run folder.
          load: reads a large one.
          names: checkpoints that are there.
          keep: how many of the last recorded must be there.
        """
        self._names_fn, self._read, self._load = names_fn, read, load
        self._shelf = Shelf(CHECKPOINTS, names, keep)
        self._genesis: Record = {}
        self._update: Record = {}
        self._waiting: _Waiting | None = None

    def see(self, record: Record) -> list[Finding]:
        """Checks a checkpoint once the rollout after it is known.

        Args:
          record: the next record.

        Returns:
          Findings.
        """
        kind = record["kind"]
        if kind == "genesis":
            self._genesis = record
        if kind == "update":
            self._update = record
        if kind == "rollout":
            return self._check(record)
        if kind != "checkpoint":
            return []
        findings = self._check({})
        there, missing = self._shelf.take(f"{record['iteration']:08d}", record)
        if there:
            self._waiting = _Waiting(record, _of(record["iteration"], self._update))
        return findings + missing

    def end(self) -> list[Finding]:
        """Checks the last checkpoint, and what the folder holds.

        Returns:
          Findings.
        """
        return self._check({}) + self._shelf.end()

    def _check(self, rollout: Record) -> list[Finding]:
        if self._waiting is None:
            return []
        (record, update), self._waiting = self._waiting, None
        around = Around(self._genesis, update, _of(record["iteration"] + 1, rollout))
        folder = f"{CHECKPOINTS}/{record['iteration']:08d}"
        try:
            names = self._names_fn(folder)
        except ConsistencyError as error:
            return [Finding(folder, record["index"], "folder", "a folder", str(error))]
        return artifacts.check_checkpoint(record, around, names, read=self._read, load=self._load)


class Segments:
    """Whether each kept segment has the root, the leaves and the claims that were recorded."""

    def __init__(self, load: LoadFn, *, names: list[str], keep: int) -> None:
        """Starts with what lies in the folder.

        Args:
          load: reads a large file of the run folder.
          names: segments that are there.
          keep: how many of the last recorded must be there; `ALL` for every one.
        """
        self._load = load
        self._shelf = Shelf(SEGMENTS, names, keep)
        self._waiting: Record | None = None

    def see(self, record: Record) -> list[Finding]:
        """Checks a segment once the record after its rollout is known.

        Args:
          record: the next record.

        Returns:
          Findings.
        """
        findings = self._check(record)
        if record["kind"] != "rollout":
            return findings
        there, missing = self._shelf.take(f"{record['iteration']:08d}.safetensors", record)
        self._waiting = record if there else None
        return findings + missing

    def end(self) -> list[Finding]:
        """Checks the last segment, and what the folder holds.

        Returns:
          Findings.
        """
        return self._check({}) + self._shelf.end()

    def _check(self, following: Record) -> list[Finding]:
        if self._waiting is None:
            return []
        record, self._waiting = self._waiting, None
        rescore = _of(record["iteration"], following) if _is_rescore(following) else {}
        file = f"{SEGMENTS}/{record['iteration']:08d}.safetensors"
        return artifacts.check_segment(record, rescore, file, load=self._load)


def _is_rescore(record: Record) -> bool:
    return record.get("kind") == "rescore"


def _of(iteration: int, record: Record) -> Record:
    """The record, if it is of that iteration; else an empty one."""
    return record if record.get("iteration") == iteration else {}
