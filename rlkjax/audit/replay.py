"""What a replay says: recomputed lines beside the recorded ones. Comparing only, no I/O."""

import json
from typing import Any, NamedTuple

from rlkjax.audit.canonical import canonical_json
from rlkjax.audit.checks import LEDGER, METRICS, Finding, Record
from rlkjax.audit.elements import Place
from rlkjax.audit.ledger import differing_key
from rlkjax.errors import InputError
from rlkjax.platform.fingerprint import Difference

# What of the first record speaks of the machine; all other keys follow from config and code.
MACHINE_KEYS = ("fingerprint", "platform", "versions")
# What of it speaks of the programs, which another version of JAX may trace otherwise.
PROGRAM_KEYS = ("certificate", "policy_graph")


class Replayed(NamedTuple):
    """What a replay found.

    Attributes:
      first: the first iteration that was computed again.
      last: the last that was to be.
      records: records that were computed again and are equal.
      findings: the first record that differs, and the place in its buffers; empty where none does.
      changes: how this machine differs from the one that the records were made on.
      notes: what these differences can change, and what was not compared.
      refused: why nothing was computed, or None.
    """

    first: int
    last: int
    records: int
    findings: tuple[Finding, ...] = ()
    changes: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()
    refused: str | None = None

    @property
    def equal(self) -> bool:
        """Every record was computed again and is equal."""
        return not self.findings and self.refused is None


def compare_genesis(
    recorded: Record, recomputed: dict[str, Any], *, same_machine: bool
) -> tuple[list[Finding], list[str]]:
    """Compares the first record with what this machine and this code would write.

    Args:
      recorded: the record.
      recomputed: its payload here.
      same_machine: whether the fingerprints are equal.

    Returns:
      Findings; and, for what another machine or version explains, notes.
    """
    findings, notes = [], []
    for key in sorted(recomputed):
        want, got = recorded.get(key, "absent"), recomputed[key]
        if want == got or key in MACHINE_KEYS:
            continue
        if key in PROGRAM_KEYS and not same_machine:
            notes.append(f"genesis {key} was {want}, is {got}: the traced programs differ")
            continue
        what = f"replay of genesis: {key}"
        findings.append(Finding(LEDGER, 0, what, _text(want), _text(got)))
    return findings, notes


def describe(
    file: str, record: Record, *, number: int, expected: bytes, got: bytes, place: Place | None
) -> list[Finding]:
    """The first line that differs, in words.

    Args:
      file: ledger or metrics.
      record: the ledger record that the line is, or belongs to.
      number: of the line in its file.
      expected: the recorded line.
      got: the recomputed line.
      place: the first element that differs, where the run kept the buffers.

    Returns:
      A finding for the record, and one for the element.
    """
    key, want, have = _differing(expected, got)
    stage = f"{record['kind']}"
    if "iteration" in record:
        stage += f" of iteration {record['iteration']}"
    what = f"replay of {stage}: {key}"
    if file == METRICS:
        what += f" in line {number}"
    findings = [Finding(file, record["index"], what, _text(want), _text(have))]
    if place is not None:
        known = {
            "buffer": place.buffer,
            "step": place.step,
            "environment": place.environment,
            "element": None if place.element is None else list(place.element),
        }
        where = ", ".join(f"{name} {value}" for name, value in known.items() if value is not None)
        what = f"replay of {stage}: {where}"
        findings.append(
            Finding(file, record["index"], what, f"bits {place.a_bits}", f"bits {place.b_bits}")
        )
    return findings


def _differing(expected: bytes, got: bytes) -> tuple[str, Any, Any]:
    """The key that says most: the kind, else the first that is not the digest that follows."""
    try:
        a, b = json.loads(expected), json.loads(got)
        if a.get("kind") != b.get("kind"):
            return "kind", a.get("kind"), b.get("kind")
        bare = [canonical_json({**line, "bits": ""}) for line in (a, b)]
        found = differing_key(*bare) or differing_key(expected, got)
    except (ValueError, AttributeError, InputError):
        found = differing_key(expected, got)  # a line of metrics holds floats
    return found or ("line", expected, got)


def explain(numerics: str, changes: tuple[Difference, ...], differs: bool) -> list[str]:
    """What differences of the machine mean for a replay.

    Args:
      numerics: "native" or "exact".
      changes: how the machines differ.
      differs: whether a record does.

    Returns:
      Notes.
    """
    if not changes:
        return ["same fingerprint: nothing of the machine explains it"] if differs else []
    if numerics == "exact":
        return ["exact numerics: no difference of machine or version can change a bit"]
    text = "native numerics: its bits are promised under one fingerprint only"
    return [text + (", and a difference above may be the cause" if differs else "")]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=repr)
