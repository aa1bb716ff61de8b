"""The checks of a ledger as pure functions: lines and records in, findings out."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from rlkjax.audit.ledger import EMPTY, Chain, append
from rlkjax.audit.merkle import leaf_hash
from rlkjax.audit.records import CHAIN_KEYS, METRICS_KINDS, parse
from rlkjax.errors import ConsistencyError, InputError

LEDGER, METRICS = "ledger.jsonl", "metrics.jsonl"
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


# What may follow each kind. None stands for the start, and for the end of a whole run.
_START_NEXT = ("rollout", "resume", "halt")
_FOLLOWERS: dict[str | None, tuple[str | None, ...]] = {
    None: ("genesis",),
    "genesis": _START_NEXT,
    "resume": _START_NEXT,
    "rollout": ("rescore", "halt"),
    "rescore": ("advantages", "halt"),
    "advantages": ("update", "halt"),
    "update": ("evaluation", "checkpoint", *_START_NEXT, None),
    "evaluation": ("checkpoint", *_START_NEXT, None),
    "checkpoint": (*_START_NEXT, None),
    "halt": (None,),
}
_OPENERS = ("rollout", "resume")


def split_lines(data: bytes, file: str) -> tuple[list[bytes], list[Finding]]:
    """The lines of a file, each of which must end in one line feed.

    Args:
      data: the whole file.
      file: its name, for the findings.

    Returns:
      The lines without their ends, a torn last one included; and findings.
    """
    lines = data.split(b"\n")
    if lines[-1] == b"":
        return lines[:-1], []
    torn = Finding(file, None, f"end of line {len(lines) - 1}", "a line feed", "end of file")
    return lines, [torn]


def check_chain(lines: Sequence[bytes]) -> tuple[list[Record], Chain, list[Finding]]:
    """Recomputes every link. After a break the walk goes on from what the record itself says.

    Args:
      lines: lines of the ledger, without line ends.

    Returns:
      The records that can be read, where the ledger ends, and findings.
    """
    records: list[Record] = []
    findings: list[Finding] = []
    chain = EMPTY
    for number, line in enumerate(lines):
        try:
            record = parse(line)
            payload = {key: value for key, value in record.items() if key not in CHAIN_KEYS}
            after, right = append(chain, record["kind"], payload)
        except (ConsistencyError, InputError) as error:
            findings.append(
                Finding(LEDGER, number, f"line {number}", "a record of the format", str(error))
            )
            chain = Chain(number + 1, leaf_hash(line).hex(), chain.bits)
            continue
        records.append(record)
        if right != line:
            want = {"index": chain.count, "prev": chain.head, "bits": after.bits}
            findings += [
                Finding(LEDGER, number, f"{key} of the record", str(want[key]), str(record[key]))
                for key in want
                if record[key] != want[key]
            ]
            after = Chain(record["index"] + 1, leaf_hash(line).hex(), record["bits"])
        chain = after
    return records, chain, findings


def check_order(records: Sequence[Record]) -> list[Finding]:
    """Whether kinds and iterations follow one another as the pipeline does.

    Args:
      records: all records, in order.

    Returns:
      Findings; a run that stopped inside an iteration is one.
    """
    findings = []
    last: str | None = None
    current, finished = 0, 0
    for record in records:
        kind, index = record["kind"], record["index"]
        allowed = _FOLLOWERS[last]
        if kind not in allowed:
            want = " or ".join(name or "the end of the ledger" for name in allowed)
            findings.append(Finding(LEDGER, index, f"kind after {last or 'nothing'}", want, kind))
        if kind in _OPENERS:
            current = finished
        # Between iterations a halt may belong to the one before it or to the one after it.
        fits = (current, finished) if kind == "halt" else (current,)
        if kind != "genesis" and record["iteration"] not in fits:
            findings.append(
                Finding(LEDGER, index, "iteration", str(fits[-1]), str(record["iteration"]))
            )
        finished += kind == "update"
        last = kind
    if None not in _FOLLOWERS[last]:
        want = "a finished iteration; resume the run to finish it"
        findings.append(
            Finding(LEDGER, len(records) - 1, "last record", want, last or "an empty ledger")
        )
    return findings


def check_end(records: Sequence[Record]) -> list[Finding]:
    """Whether the ledger has as many iterations as genesis announced, if it did, and its end.

    The last iteration is followed by an evaluation and a checkpoint, whatever their intervals.

    Args:
      records: all records, in order.

    Returns:
      Findings. A halted run is not expected to be complete.
    """
    planned = records[0].get("iterations") if records else None
    got = count_updates(records)
    if planned is None or records[-1]["kind"] == "halt":
        return []
    if got == planned:
        return _check_last(records)
    return [
        Finding(
            LEDGER,
            records[-1]["index"],
            "number of iterations",
            str(planned),
            f"{got}; resume the run if it was stopped",
        )
    ]


def _check_last(records: Sequence[Record]) -> list[Finding]:
    """Whether the evaluation and the checkpoint after the last update are there."""
    last = max(index for index, record in enumerate(records) if record["kind"] == "update")
    got = [record["kind"] for record in records[last + 1 :] if record["kind"] != "resume"]
    if got == ["evaluation", "checkpoint"]:
        return []
    return [
        Finding(
            LEDGER,
            records[-1]["index"],
            "records after the last update",
            "evaluation, checkpoint",
            ", ".join(got) or "none",
        )
    ]


def count_updates(records: Iterable[Record]) -> int:
    """Iterations whose update was recorded.

    Args:
      records: records.

    Returns:
      The count.
    """
    return sum(record["kind"] == "update" for record in records)


def check_links(records: Sequence[Record]) -> list[Finding]:
    """Whether training says that it had what the rollout claimed: seeds, graphs, roots.

    Args:
      records: all records, in order.

    Returns:
      Findings.
    """
    findings = []
    genesis = records[0] if records and records[0]["kind"] == "genesis" else {}
    rollout: Record = {}
    halted = bool(records) and records[-1]["kind"] == "halt"
    for place, record in enumerate(records):
        pairs: list[tuple[str, Any, Any]] = []
        if record["kind"] == "rollout":
            rollout = record
            graph = genesis.get("policy_graph", record["graph"])
            pairs += [("graph", graph, record["graph"])]
            pairs += [("seed", genesis.get("seed"), record["seed"])]
            pairs += [("sequence", record["iteration"], record["sequence"])]
        # A halt may follow a rescore that differs: there the difference is the news, not the fault.
        if record["kind"] == "rescore" and not (halted and place == len(records) - 2):
            pairs += [(key, rollout.get(key), record[key]) for key in ("sequence", "graph")]
            pairs += [("root against rollout_root", record["rollout_root"], record["root"])]
        findings += [
            Finding(LEDGER, record["index"], f"{record['kind']} {key}", str(want), str(got))
            for key, want, got in pairs
            if want != got
        ]
    return findings


def check_metrics(records: Sequence[Record], lines: Sequence[bytes]) -> list[Finding]:
    """Whether each update and evaluation has its line of metrics, byte for byte.

    Args:
      records: all records, in order.
      lines: lines of metrics.jsonl, without line ends.

    Returns:
      Findings.
    """
    owners = [record for record in records if record["kind"] in METRICS_KINDS]
    digests = [hashlib.sha256(line).hexdigest() for line in lines]
    findings = [
        Finding(
            METRICS, owner["index"], f"SHA-256 of line {number}", owner["metrics"], digests[number]
        )
        for number, owner in enumerate(owners[: len(lines)])
        if owner["metrics"] != digests[number]
    ]
    if len(owners) != len(lines):
        findings.append(
            Finding(METRICS, None, "number of lines", str(len(owners)), str(len(lines)))
        )
    return findings
