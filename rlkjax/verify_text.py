"""What `verify` prints, for people and for scripts. Imports neither NumPy nor JAX."""

import json
from typing import TYPE_CHECKING, Any

from rlkjax.audit.checks import Finding, Record
from rlkjax.audit.proof_files import Proved
from rlkjax.audit.trust import Trusted

if TYPE_CHECKING:
    from rlkjax.audit.replay import Replayed
    from rlkjax.audit.verify import Report

SHOWN = 20  # names of files that are listed
# What runs and reports write that no digest covers, on purpose.
DERIVED = {"alert.json", "learning_curve.svg", "lock", "report.html", "timing.jsonl"}


def run_json(report: "Report", replayed: "Replayed | None") -> str:
    """One JSON object.

    Args:
      report: of the files.
      replayed: of the replay, if there was one.

    Returns:
      Its text.
    """
    shown: dict[str, Any] = {
        "verified": report.verified and (replayed is None or replayed.equal),
        "chain": report.chain.head,
        "bits": report.chain.bits,
        "records": report.chain.count,
        "root": report.root,
        "iterations": report.iterations,
        "halted": report.halted,
        "findings": [finding._asdict() for finding in report.findings],
        "uncovered": list(report.uncovered),
    }
    if replayed is not None:
        shown["replay"] = {
            "equal": replayed.equal,
            "first": replayed.first,
            "last": replayed.last,
            "records": replayed.records,
            "refused": replayed.refused,
            "findings": [finding._asdict() for finding in replayed.findings],
            "fingerprint": [change._asdict() for change in replayed.changes],
            "notes": list(replayed.notes),
        }
    return json.dumps(shown)


def run_text(report: "Report", replayed: "Replayed | None") -> str:
    """Lines: each finding, foreign files, what the replay says, and the verdict.

    Args:
      report: of the files.
      replayed: of the replay, if there was one.

    Returns:
      Lines of text.
    """
    lines = [_finding(finding) for finding in report.findings]
    if report.halted is not None:
        lines.append(_halt(report.halted))
    foreign = [name for name in report.uncovered if name not in DERIVED]
    if foreign:
        names = [_printable(name) for name in foreign[:SHOWN]]
        more = len(foreign) - SHOWN
        names += [f"and {more} more"] if more > 0 else []
        lines.append(f"foreign files, in no digest: {', '.join(names)}")
    if replayed is not None:
        lines += _replayed(replayed)
    good = report.verified and (replayed is None or replayed.equal)
    heads = f"chain {report.chain.head} bits {report.chain.bits}"
    state = "verified" if good else "NOT verified"
    return "\n".join([*lines, f"{heads} iterations {report.iterations} {state}"])


def proof_json(proved: Proved, trusted: Trusted | None) -> str:
    """One JSON object.

    Args:
      proved: what the proof shows.
      trusted: the head that it was held against, if one was given.

    Returns:
      Its text.
    """
    return json.dumps(
        {
            "proved": list(proved.sentences),
            "heads": [head._asdict() for head in proved.heads],
            "trusted": trusted is not None,
        }
    )


def proof_text(proved: Proved, trusted: Trusted | None) -> str:
    """Lines: what is proved, and against which head.

    Args:
      proved: what the proof shows.
      trusted: the head that it was held against, if one was given.

    Returns:
      Lines of text.
    """
    lines = [_printable(sentence) for sentence in proved.sentences]
    for head in proved.heads:
        lines.append(f"head of {head.size} records: root {head.root} chain {head.chain}")
    if trusted is None:
        lines.append("proved against that head; compare it with one that you kept, or give --head")
    else:
        lines.append(f"proved against the head of {_printable(trusted.file)}")
    return "\n".join(lines)


def _replayed(replayed: "Replayed") -> list[str]:
    lines = [
        f"fingerprint: {change.key} was {change.a}, is {change.b}; {change.effect}"
        for change in replayed.changes
    ]
    lines = [_printable(line) for line in (*lines, *replayed.notes)]
    lines += [_finding(finding) for finding in replayed.findings]
    if replayed.refused is not None:
        return [*lines, f"not replayed: {_printable(replayed.refused)}"]
    span = f"iterations {replayed.first} to {replayed.last}"
    if replayed.equal:
        return [*lines, f"replay of {span}: all {replayed.records} records are equal"]
    count = f"{replayed.records} records are equal before the first that is not"
    return [*lines, f"replay of {span}: {count}"]


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
