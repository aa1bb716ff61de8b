"""The referee: heads, iteration, stage, buffer, step, environment, element of the first difference.

It walks as deep as the files of both runs lead. Where a replay is at hand (`RecomputeFn`), it goes
on with what that computes.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from rlkjax.audit import causes, kept, pairing, settings
from rlkjax.audit.artifacts import CONFIG, FINGERPRINT, FINGERPRINTS
from rlkjax.audit.causes import Evidence, Replayed
from rlkjax.audit.checks import LEDGER
from rlkjax.audit.difference import (
    Difference,
    Operation,
    RunSummary,
    Settings,
    iterations_text,
)
from rlkjax.audit.elements import Place, first_of
from rlkjax.audit.inside import lines_inside, open_inside, read_inside
from rlkjax.audit.kept import Fields
from rlkjax.audit.pairing import END, Parting, Record, Step
from rlkjax.errors import ConsistencyError, InputError

TAIL = 1 << 16
# Why the files lead no further than the stage, by stage; `NEVER_KEPT` for all others.
NOT_KEPT = {
    "rollout": "the segment of this rollout was not kept by both runs (audit.keep_segments: all "
    "keeps it)",
    "update": "the train state after this update was not kept by both runs (checkpoint.every and "
    "checkpoint.keep say which are)",
}
NEVER_KEPT = "no run keeps the buffers of stage {stage}, only their root"
REPLAY = "so the ledgers lead no further; run with --replay to compute them again"
NOT_REPEATED = (
    "not both runs have the buffers of this stage in a file or can be repeated here, so the "
    "element cannot be told"
)


class Recomputed(NamedTuple):
    """What a replay of one stage of both runs gave.

    Attributes:
      fields: buffers of the stage in each run, or None where it could not be run.
      states: whether the replay gave the roots that each run recorded.
      operation: first operation that differs between the two, if it was found.
      notes: further sentences.
    """

    fields: tuple[Fields | None, Fields | None]
    states: tuple[Replayed, Replayed]
    operation: Operation | None
    notes: tuple[str, ...]


Folders = tuple[Path, Path]
RecomputeFn = Callable[[Folders, int, str], Recomputed]


class _Found(NamedTuple):
    """How deep the buffers led."""

    place: Place | None = None
    moved: str = ""
    states: tuple[Replayed, Replayed] = ("not run", "not run")
    operation: Operation | None = None
    notes: tuple[str, ...] = ()


def compare_runs(
    folder_a: Path, folder_b: Path, *, recompute: RecomputeFn | None = None, cut: bool = False
) -> Difference:
    """Finds the first difference of two runs.

    Args:
      folder_a: the first run folder.
      folder_b: the second one.
      recompute: replays a stage of both runs; None: the files alone.
      cut: whether the caller cut both runs short, so that no note says so.

    Returns:
      The difference, or that all numeric roots are equal.

    Raises:
      InputError: no run folder, one folder given twice, or a ledger of another format.
      ConsistencyError: files that were read are damaged.
    """
    folders = Path(folder_a), Path(folder_b)
    _check_folders(folders)
    parting = pairing.part(*(_records(folder) for folder in folders))
    summaries = tuple(
        _summary(folder, genesis) for folder, genesis in zip(folders, parting.genesis, strict=True)
    )
    told = _settings(folders, parting)
    known = Difference(
        summaries[0], summaries[1], False, told, notes=_notes(parting, summaries, cut)
    )
    if parting.equal:
        return replace(known, equal=True, notes=(*known.notes, *_other_heads(known)))
    if END in (parting.steps[0].key, parting.steps[1].key):
        return _ended(known, parting)
    record = parting.steps[0].record
    iteration, stage = record["iteration"], _stage(parting.steps)
    found = _deeper(folders, parting.steps, stage, recompute)
    evidence = Evidence(
        iteration,
        stage,
        settings=told,
        exact=all(genesis["numerics"] == "exact" for genesis in parting.genesis),
        graphs=_graphs(parting.genesis),
        place=found.place,
        moved=found.moved,
        replayed=found.states,
        operation=found.operation,
    )
    return replace(
        known,
        iteration=iteration,
        stage=stage,
        place=found.place,
        cause=causes.classify(evidence),
        operation=found.operation,
        notes=(*known.notes, *found.notes),
    )


def _check_folders(folders: Folders) -> None:
    for side, folder in zip(("first", "second"), folders, strict=True):
        if not (folder / LEDGER).is_file():
            raise InputError(
                f"{side} run: got {folder}, want a folder that holds {LEDGER}; name the folder "
                "that training printed"
            )
    if folders[0].resolve() == folders[1].resolve():
        raise InputError(
            f"second run: got {folders[1]}, the folder of the first run again, want another; "
            "name two runs"
        )


def _records(folder: Path) -> Any:
    return pairing.read_records(lines_inside(folder.resolve(), LEDGER), str(folder))


def _summary(folder: Path, genesis: Record) -> RunSummary:
    """What the last records of a ledger say of the whole run."""
    with open_inside(folder.resolve(), LEDGER) as file:
        size, wanted = file.seek(0, 2), TAIL
        records: list[Record] = []
        while not any(each["kind"] == "update" for each in records):
            file.seek(max(size - wanted, 0))
            records = pairing.last_records(file.read())
            if wanted >= size:
                break
            wanted *= 4
    last = records[0] if records else genesis
    update = next((each for each in records if each["kind"] == "update"), None)
    return RunSummary(
        name=str(folder),
        chain=last.get("leaf", ""),
        bits=str(last["bits"]),
        iterations=update["iteration"] + 1 if update else 0,
        planned=genesis.get("iterations"),
        halted=str(last["reason"]) if last["kind"] == "halt" else None,
        numerics=genesis["numerics"],
        platform=genesis["platform"],
    )


def _settings(folders: Folders, parting: Parting) -> Settings:
    configs = [
        _json(folder, CONFIG, genesis["config"])
        for folder, genesis in zip(folders, parting.genesis, strict=True)
    ]
    prints = []
    for folder, genesis, step in zip(folders, parting.genesis, parting.steps, strict=True):
        first = step.fingerprint == genesis["fingerprint"]
        file = FINGERPRINT if first else f"{FINGERPRINTS}/{step.fingerprint}.json"
        prints.append(_json(folder, file, step.fingerprint))
    return settings.compare((configs[0], configs[1]), (prints[0], prints[1]))


def _json(folder: Path, file: str, digest: str) -> Mapping[str, Any]:
    """A file that the ledger names by its digest."""
    try:
        data = read_inside(folder.resolve(), file)
        value = json.loads(data)
    except (ConsistencyError, ValueError, RecursionError):
        data, value = b"", {}
    if hashlib.sha256(data).hexdigest() != digest or not isinstance(value, dict):
        raise ConsistencyError(
            f"run {folder}: {file} is not the file that its ledger names; run "
            f"python -m rlkjax.verify {folder} to see what is wrong"
        )
    return value


def _notes(parting: Parting, summaries: tuple[RunSummary, ...], cut: bool) -> tuple[str, ...]:
    notes = []
    for name, run in zip("AB", summaries, strict=True):
        if run.halted is not None:
            count = iterations_text(run.iterations)
            notes.append(f"{name} stopped itself after {count}: {run.halted}")
        elif not cut and run.planned is not None and run.iterations < run.planned:
            notes.append(
                f"{name} has {run.iterations} of the {run.planned} iterations that it planned"
            )
    if parting.evaluations:
        notes.append(
            f"{parting.evaluations} evaluation(s) were recorded by one run alone and left out"
        )
    graphs = _graphs(parting.genesis)
    if graphs[0] != graphs[1]:
        notes.append("the lowered policy is another program in each run (policy_graph in genesis)")
    return tuple(notes)


def _other_heads(known: Difference) -> tuple[str, ...]:
    """Why the heads of two runs may differ although all their numbers are equal."""
    if known.a.bits == known.b.bits:
        return ()
    keys = ", ".join(entry.key for entry in known.settings.config) or "evaluations"
    return (f"the bits heads differ, as they cover the config as well ({keys}); no number does",)


def _graphs(genesis: tuple[Record, Record]) -> tuple[str, str]:
    a, b = (str(each.get("policy_graph", "")) for each in genesis)
    return (a, b) if a and b else ("", "")


def _ended(known: Difference, parting: Parting) -> Difference:
    """The verdict where one ledger has no more records: all that both have is equal."""
    side = 0 if parting.steps[0].key == END else 1
    name, other = "AB"[side], "AB"[1 - side]
    last, following = parting.steps[side].record, parting.steps[1 - side].record
    if last["kind"] == "halt":
        element = None if last["element"] is None else tuple(last["element"])
        place = Place(last["buffer"] or "", None, last["step"], last["environment"], element)
        bits = f": expected {last['expected']}, got {last['got']}" if last["expected"] else ""
        note = f"{name} halted in iteration {last['iteration']}, stage {last['stage']}{bits}"
        return replace(
            known,
            iteration=last["iteration"],
            stage=last["stage"],
            place=place if last["buffer"] else None,
            notes=(*known.notes, note),
        )
    note = (
        f"{name} has no record after {last['kind']} {last.get('iteration', 0)}, where {other} goes "
        f"on with {following['kind']} {following['iteration']}; all that both recorded is equal"
    )
    return replace(known, iteration=following["iteration"], stage="end", notes=(*known.notes, note))


def _stage(steps: tuple[Step, Step]) -> str:
    """The first stage that differs; a rollout of other initial parameters parted in `init`."""
    a, b = (step.record for step in steps)
    if a["kind"] == "rollout" and a["policy"] != b["policy"] and a["iteration"] == 0:
        return "init"
    return str(a["kind"])


def _deeper(
    folders: Folders, steps: tuple[Step, Step], stage: str, recompute: RecomputeFn | None
) -> _Found:
    """From the stage to the element: by kept files, and by a replay where one is asked for."""
    buffers = [_kept(folder, step, stage) for folder, step in zip(folders, steps, strict=True)]
    if recompute is None:
        return _element(buffers[0], buffers[1], stage)
    again = recompute(folders, steps[0].record["iteration"], stage)
    for side, state in enumerate(again.states):
        if buffers[side] is None and state == "equal":
            buffers[side] = again.fields[side]
    found = _element(buffers[0], buffers[1], stage)
    notes = again.notes if found.place else (*again.notes, NOT_REPEATED)
    return found._replace(states=again.states, operation=again.operation, notes=notes)


def _kept(folder: Path, step: Step, stage: str) -> Fields | None:
    if stage == "rollout":
        return kept.segment(folder, step.record)
    return kept.train_state(folder, step.record) if stage == "update" else None


def _element(a: Fields | None, b: Fields | None, stage: str) -> _Found:
    if a is None or b is None:
        missing = NOT_KEPT.get(stage, NEVER_KEPT.format(stage=stage))
        return _Found(notes=(f"{missing}, {REPLAY}",))
    odd = sorted(set(a) ^ set(b))
    if odd:
        return _Found(Place(odd[0]), notes=(f"one run alone has the buffers {', '.join(odd)}",))
    for name in sorted(a):
        if (a[name].dtype, a[name].shape) != (b[name].dtype, b[name].shape):
            shapes = " and ".join(f"{each[name].dtype}{list(each[name].shape)}" for each in (a, b))
            return _Found(Place(name), notes=(f"buffer {name} is {shapes} in A and B",))
    timed = stage in ("rollout", "rescore", "advantages")
    place = first_of(a, b, causes.order(stage, a), timed=timed)
    return _Found(place, kept.moved(a, b) if stage == "rollout" and place else "")
