"""Runs of one config under several conditions, side by side: heads, and where the bits part."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from rlkjax.audit import kept, tolerance
from rlkjax.audit.checks import LEDGER
from rlkjax.audit.difference import Difference
from rlkjax.audit.inside import lines_inside
from rlkjax.audit.ledger import first_bits, next_bits
from rlkjax.audit.pairing import Record, read_records
from rlkjax.audit.records import BITS_KINDS
from rlkjax.audit.referee import RecomputeFn, compare_runs
from rlkjax.audit.tolerance import Measured
from rlkjax.comparison import process
from rlkjax.comparison.conditions import Condition
from rlkjax.config import Config, canonical_config, program_config

CELL = ("rlkjax.comparison.cell",)


class Cell(NamedTuple):
    """What one condition gave.

    Attributes:
      condition: its name.
      folder: its run folder.
      bits: head over the numeric roots, from the program of the first condition on; 64 hex digits.
    """

    condition: str
    folder: Path
    bits: str


class Apart(NamedTuple):
    """The first condition and another one, whose bits differ.

    Attributes:
      a: name of the first condition.
      b: name of the other.
      difference: as the referee found it.
      measured: "rollout/reward" and so on -> how far it is apart, for what differs of the kept
        buffers of that iteration.
    """

    a: str
    b: str
    difference: Difference
    measured: dict[str, Measured]


def ask(config: Config, condition: Condition, folder: Path | None, count: int) -> str:
    """Has a condition's process answer.

    Args:
      config: the run, as the condition has it.
      condition: where it is computed.
      folder: its run folder; None: only whether the condition can be had.
      count: iterations.

    Returns:
      What `cell.answer` returns.

    Raises:
      RlkError: of the process.
    """
    question = {
        "config": canonical_config(config).decode(),
        "folder": None if folder is None else str(folder),
        "iterations": count,
        "cores": condition.cores,
        "spread": condition.spread,
    }
    return process.answer(condition, CELL, json.dumps(question))


def head(folder: Path, program: str) -> str:
    """The `bits` head that a run would have, had its program been another of equal roots.

    Args:
      folder: its run folder.
      program: digest of the program config to start from, 64 hex digits.

    Returns:
      64 hex digits; equal for two runs whose numeric roots are equal.

    Raises:
      ConsistencyError: the ledger is damaged.
    """
    bits = ""
    for record in _records(folder):
        if record["kind"] == "genesis":
            bits = first_bits(program, record["seed"])
        if record["kind"] in BITS_KINDS:
            bits = next_bits(bits, record["kind"], record["root"])
    return bits


def apart(a: Cell, b: Cell, recompute: RecomputeFn | None) -> Apart:
    """Where two conditions part.

    Args:
      a: the first.
      b: another one.
      recompute: replays a stage of both runs; None: the files alone.

    Returns:
      The difference; its runs are called by their conditions, and have the heads of the cells.

    Raises:
      ConsistencyError: files are damaged.
    """
    found = compare_runs(a.folder, b.folder, recompute=recompute, cut=True)
    sides = [_buffers(cell.folder, found.iteration) for cell in (a, b)]
    shared = sorted(set(sides[0]) & set(sides[1]))
    measured = {name: tolerance.measure(name, sides[0][name], sides[1][name]) for name in shared}
    differing = {name: each for name, each in measured.items() if each.differing > 0}
    return Apart(a.condition, b.condition, _as_conditions(found, a, b), differing)


def _as_conditions(found: Difference, a: Cell, b: Cell) -> Difference:
    notes = found.notes
    if found.b.bits != b.bits:
        text = (
            "the head of B is counted from A's program, so that numbers alone can move it; in its "
            f"own ledger, which starts from another config, it is {found.b.bits[:16]}"
        )
        notes = (*notes, text)
    return replace(
        found,
        a=replace(found.a, name=a.condition, bits=a.bits),
        b=replace(found.b, name=b.condition, bits=b.bits),
        notes=notes,
    )


def digest_of(config: Config) -> str:
    """Digest of what can move a bit of a run.

    Args:
      config: the run.

    Returns:
      64 hex digits.
    """
    return hashlib.sha256(program_config(config)).hexdigest()


def _records(folder: Path) -> Iterator[Record]:
    return read_records(lines_inside(folder.resolve(), LEDGER), str(folder))


def _buffers(folder: Path, iteration: int | None) -> dict[str, Any]:
    """What a run kept of an iteration: its rollout, and the train state after it."""
    found: dict[str, Any] = {}
    for record in _records(folder):
        if record.get("iteration") == iteration and record["kind"] in ("rollout", "update"):
            read = kept.segment if record["kind"] == "rollout" else kept.train_state
            fields = read(folder, record) or {}
            found |= {f"{record['kind']}/{name}": array for name, array in fields.items()}
    return found
