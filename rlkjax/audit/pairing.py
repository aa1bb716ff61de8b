"""Walks two ledgers side by side, record by record, to the first numeric root that differs.

Each line is read once and let go, so that memory does not grow with the run, and every link of
both chains is recomputed on the way: what is said here rests on records that nobody changed.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from rlkjax.audit.ledger import first_bits, next_bits
from rlkjax.audit.records import BITS_KINDS, FORMAT, PAYLOADS, is_count, parse
from rlkjax.audit.tree import leaf_hash
from rlkjax.errors import ConsistencyError, InputError, RlkError

Record = dict[str, Any]
Key = tuple[int, int]  # iteration, place of the stage in the pipeline

STAGES = ("rollout", "rescore", "advantages", "update", "evaluation")
END = (2**64, 0)


class Step(NamedTuple):
    """One numeric record, and what was in force when it was made.

    Attributes:
      key: by which the records of two runs are matched; `END` after the last.
      record: the record; the last of the ledger after the last.
      fingerprint: digest of the fingerprint of that part of the run.
      checkpoints: the newest checkpoint record before it, as (iteration, digest of its manifest).
    """

    key: Key
    record: Record
    fingerprint: str
    checkpoint: tuple[int, str] | None


class Parting(NamedTuple):
    """Where two ledgers part.

    Attributes:
      genesis: first record of each.
      steps: the first pair that differs; both at `END` where none does.
      evaluations: evaluations that one run alone recorded, up to there.
    """

    genesis: tuple[Record, Record]
    steps: tuple[Step, Step]
    evaluations: int

    @property
    def equal(self) -> bool:
        """Whether both ledgers ended without a difference."""
        return self.steps[0].key == END and self.steps[1].key == END


def read_records(lines: Iterable[bytes], name: str) -> Iterator[Record]:
    """The records of a ledger, each link recomputed.

    Args:
      lines: lines with their line ends; an unfinished last one is left out.
      name: of the run, for the messages.

    Yields:
      Records, in order.

    Raises:
      InputError: no ledger, or one of another format.
      ConsistencyError: a record is damaged.
    """
    head, bits, waiting = "0" * 64, "", None
    for index, line in enumerate(lines):
        if not line.endswith(b"\n"):
            break
        line = line[:-1]
        try:
            record = _first(line, name) if index == 0 else json.loads(line)
            kind = record["kind"]
            if index == 0:
                bits = first_bits(record["program"], record["seed"])
            elif kind in BITS_KINDS:
                bits = next_bits(bits, kind, record["root"])
            linked = (record["index"], record["prev"], record["bits"]) == (index, head, bits)
            linked = linked and PAYLOADS[kind].keys() <= record.keys()
            linked = linked and is_count(record.get("iteration", 0))
        except InputError:
            raise
        except (RlkError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            linked = False
        if not linked:
            after = f" or {index - 1}" if index else ""
            raise ConsistencyError(
                f"run {name}: record {index}{after} of its ledger is damaged, want records that "
                f"follow from one another; run python -m rlkjax.verify {name} to see what is wrong"
            )
        head = leaf_hash(line).hex()
        # A record is believed once the next one holds its digest; nothing holds that of the last.
        if waiting is not None:
            yield waiting
        waiting = record
    if waiting is not None:
        yield waiting


def _first(line: bytes, name: str) -> Record:
    """The genesis record, read strictly; a ledger of another format is wrong input, not damage."""
    try:
        found = json.loads(line).get("format", FORMAT)
    except (ValueError, AttributeError, RecursionError):
        found = FORMAT
    if found != FORMAT:
        raise InputError(
            f"run {name}: got a ledger of format {ascii(str(found)[:40])}, want {FORMAT}; compare "
            "it with the version of rlkjax that wrote it"
        )
    record = parse(line)
    if record["kind"] != "genesis":
        raise ConsistencyError(f"got kind {record['kind']!r}, want genesis")
    return record


def steps(records: Iterator[Record], genesis: Record) -> Iterator[Step]:
    """The numeric records of a run, each with what was in force; `END` at last, and again.

    Args:
      records: the records after genesis.
      genesis: the first record.

    Yields:
      Steps, without end.
    """
    fingerprint, checkpoint, last = genesis["fingerprint"], None, genesis
    for record in records:
        last = record
        if record["kind"] == "resume":
            fingerprint = record["fingerprint"]
        elif record["kind"] == "checkpoint":
            checkpoint = record["iteration"], record["manifest"]
        elif record["kind"] in STAGES:
            key = record["iteration"], STAGES.index(record["kind"])
            yield Step(key, record, fingerprint, checkpoint)
    while True:
        yield Step(END, last, fingerprint, checkpoint)


def part(records_a: Iterator[Record], records_b: Iterator[Record]) -> Parting:
    """Walks two ledgers to the first pair of records whose roots differ, or to their ends.

    Args:
      records_a: of the first run.
      records_b: of the second run.

    Returns:
      Where they part. Where one ledger ends before the other, that is where.

    Raises:
      InputError: an empty ledger, or one of another format.
      ConsistencyError: a record up to there is damaged.
    """
    genesis = next(records_a, None), next(records_b, None)
    if genesis[0] is None or genesis[1] is None:
        side = "first" if genesis[0] is None else "second"
        raise InputError(
            f"{side} run: got a ledger without a record, want a run that has begun; start it again"
        )
    sides = [steps(records_a, genesis[0]), steps(records_b, genesis[1])]
    pair, alone = [next(side) for side in sides], 0
    while True:
        (a, b) = pair
        if a.key != b.key and STAGES[min(a.key, b.key)[1]] == "evaluation":
            # How often the policy is evaluated feeds nothing back into training.
            early = 0 if a.key < b.key else 1
            pair[early], alone = next(sides[early]), alone + 1
            continue
        if a.key != b.key or a.key == END or _numeric(a.record) != _numeric(b.record):
            return Parting((genesis[0], genesis[1]), (a, b), alone)
        pair = [next(side) for side in sides]


def _numeric(record: Record) -> tuple[Any, ...]:
    return tuple(record.get(key) for key in ("policy", "root", "rollout_root", "nonfinite"))


def last_records(tail: bytes) -> list[Record]:
    """The whole records in the last bytes of a ledger, newest first.

    Args:
      tail: the last bytes of the file; the first line in them may be torn.

    Returns:
      Records that can be read as JSON objects, without a check of their links.
    """
    found = []
    for line in reversed(tail.split(b"\n")[:-1]):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            break
        if not isinstance(record, dict) or "kind" not in record:
            break
        record["leaf"] = hashlib.sha256(b"\x00" + line).hexdigest()
        found.append(record)
    return found
