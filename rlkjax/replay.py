"""Computes a recorded run again and compares every record; writes nothing in its folder.

A replay is a resume in a temporary folder: each line that the loop appends must be the one that
the ledger holds at that place already.
"""

import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlkjax import launch, loop, replay_recorded
from rlkjax.atomic import write_file
from rlkjax.audit import kept, ledger, tap
from rlkjax.audit import replay as compared
from rlkjax.audit.artifacts import CHECKPOINTS
from rlkjax.audit.canonical import canonical_json
from rlkjax.audit.checks import LEDGER, METRICS, Finding, Record
from rlkjax.audit.elements import Place, first_of
from rlkjax.audit.inside import read_inside
from rlkjax.audit.journal import Journal
from rlkjax.audit.manifest import STATE
from rlkjax.audit.notary import Notary, state_roots
from rlkjax.audit.records import CHAIN_KEYS, CLAIMS, parse
from rlkjax.audit.replay import Replayed
from rlkjax.audit.tensors import unpack
from rlkjax.environment import make_environment
from rlkjax.errors import ConsistencyError
from rlkjax.learner import make_stages
from rlkjax.loop import Run, Work
from rlkjax.platform import devices, fingerprint
from rlkjax.programs import Programs, compile_stages
from rlkjax.recompute.process import Reference
from rlkjax.replay_recorded import Recorded, Start
from rlkjax.run_folder import Opened

Fields = dict[str, np.ndarray]


class Differs(ConsistencyError):
    """A line was computed that is not the recorded one.

    Attributes:
      file: ledger or metrics.
      number: of the line.
      expected: the recorded line.
      got: the computed line.
      work: the iteration under way, once it is known.
    """

    def __init__(self, file: str, number: int, expected: bytes, got: bytes) -> None:
        super().__init__(f"{file}, line {number}: got another line than the recorded one")
        self.file, self.number = file, number
        self.expected, self.got = expected, got
        self.work: Work | None = None


class RepeatedJournal(Journal):
    """A copy of a recorded file, which must be appended to just as the recorded one was."""

    def __init__(self, path: Path, lines: Sequence[bytes], taken: int) -> None:
        """Writes the copy.

        Args:
          path: where it goes.
          lines: the recorded lines, without line ends.
          taken: how many of them are taken as they are.

        Raises:
          MachineError: no space.
        """
        write_file(path, b"".join(line + b"\n" for line in lines))
        super().__init__(path)
        self.take(taken)
        self._file = path.name

    def append(self, line: bytes) -> None:
        """Compares a line with the recorded one; behind the last one it is only kept.

        Args:
          line: the bytes, without a line end.

        Raises:
          Differs: the recorded line is another.
        """
        expected = self.upcoming
        if expected is not None and expected != line:
            raise Differs(self._file, self.count, expected, line)
        super().append(line)


def replay(recorded: Recorded, first: int, last: int) -> Replayed:
    """Computes iterations again, from the newest checkpoint before them.

    XLA's flags must be set, as `flags.prepare` does.

    Args:
      recorded: the run.
      first: the first iteration to compare.
      last: the last.

    Returns:
      What was found.

    Raises:
      MachineError: no space for the temporary folder, or no such platform.
      ConsistencyError: a fingerprint is damaged.
    """
    config = recorded.config
    env = make_environment(config)
    stages = make_stages(config, env)
    programs = compile_stages(stages, launch.TRANSFORMS[config.numerics])
    machine = fingerprint.collect(devices.describe())
    changes = replay_recorded.changes(recorded, machine, first, last)
    mine = launch.genesis(config, env.spec, stages, programs, machine=machine)
    findings, notes = compared.compare_genesis(recorded.records[0], mine, same_machine=not changes)
    begin = replay_recorded.start(recorded, first)
    count = 0
    if not findings:
        count, findings = _compute(recorded, programs, begin, last)
    notes += compared.explain(config.numerics, changes, differs=bool(findings))
    return Replayed(begin.first, last, count, tuple(findings), changes, tuple(notes))


def _compute(
    recorded: Recorded, programs: Programs, begin: Start, last: int
) -> tuple[int, list[Finding]]:
    """Runs the loop against the recorded lines; returns how many were equal, and findings."""
    with tempfile.TemporaryDirectory(prefix="rlkjax-replay-") as place:
        run = _open(recorded, programs, begin, Path(place))
        findings: list[Finding] = []
        journal = run.opened.journal
        try:
            # The checkpoint is read where it was recorded; everything new goes to the copy.
            state, world = loop.start(run._replace(folder=recorded.folder))
            numbers = range(begin.first, last + 1)
            for _ in loop.pipeline(run, state, world, numbers, settle_fn=_settle):
                pass
        except Differs as differs:
            findings = _describe(recorded, run, differs)
        except ConsistencyError as error:
            # A halt or a pause repeats what was recorded if the ledger ends there too.
            if journal.count != len(recorded.lines):
                findings = [Finding(LEDGER, journal.count, "replay", "no halt", str(error))]
        finally:
            if run.reference is not None:
                run.reference.close()
            journal.close()
            run.opened.metrics.close()
        return journal.count - begin.taken, findings


def _open(recorded: Recorded, programs: Programs, begin: Start, place: Path) -> Run:
    """The run, as if it were resumed, with copies of its files in a folder of its own."""
    config, count = recorded.config, begin.taken
    taken = replay_recorded.metric_lines(recorded, count)
    journal = RepeatedJournal(place / LEDGER, recorded.lines, count)
    metrics = RepeatedJournal(place / METRICS, recorded.metrics, taken)
    chain = ledger.follow(ledger.EMPTY, recorded.lines[:count])
    # The programs of another version may have other digests; compared with genesis above.
    graph = recorded.records[0].get("policy_graph", programs.rollout_graph)
    return Run(
        config=dataclasses.replace(
            config, audit=dataclasses.replace(config.audit, keep_segments="none")
        ),
        config_digest=recorded.records[0]["config"],
        folder=place,
        programs=programs._replace(rollout_graph=graph, rescore_graph=graph),
        opened=Opened(
            chain=chain,
            journal=journal,
            metrics=metrics,
            iteration=begin.checkpoint,
            manifest=begin.manifest,
            recorded=(),
            fingerprint=None,
        ),
        notary=Notary(chain, journal, metrics),
        reference=Reference(config) if config.audit.reference_every else None,
    )


def _settle(run: Run, work: Work, policy: str) -> tuple[Any, str]:
    """Settles an iteration; tells which one it was when a line differs."""
    try:
        _repeat_resumes(run)
        return loop.settle(run, work, policy)
    except Differs as differs:
        differs.work = work
        raise


def _repeat_resumes(run: Run) -> None:
    """Records that another machine took the run up are not computed, but stand in the chain."""
    journal = run.opened.journal
    while journal.upcoming is not None:
        record = parse(journal.upcoming)
        if record["kind"] != "resume":
            return
        payload = {key: value for key, value in record.items() if key not in CHAIN_KEYS}
        run.notary.record("resume", payload)


def _describe(recorded: Recorded, run: Run, differs: Differs) -> list[Finding]:
    """The record that differs, and where in its buffers, as far as the run kept them."""
    line = run.opened.journal.upcoming
    if line is None or differs.work is None:
        return [Finding(differs.file, differs.number, "replay", "the recorded line", str(differs))]
    record, work, got = parse(line), differs.work, differs.got
    file, number, expected = differs.file, differs.number, differs.expected
    if record["kind"] == "update" and file == METRICS:
        # The line of metrics is compared first; a state that differs is what matters.
        root, _ = state_roots(tap.fields(work.after), work.iteration + 1)
        if root != record["root"]:
            file, number, expected = LEDGER, record["index"], line
            got = canonical_json({**record, "root": root})
    place = _place(recorded.folder, record, work)
    return compared.describe(file, record, number=number, expected=expected, got=got, place=place)


def _place(folder: Path, record: Record, work: Work) -> Place | None:
    """The first element that differs from what the run kept; None where it kept nothing."""
    kind = record["kind"]
    try:
        if kind == "rollout":
            fields = kept.segment(folder, record)
            return _first(fields, tap.fields(work.segment), timed=True)
        if kind == "rescore":
            # The rollout was equal, so that its claims are the recorded ones.
            claims = {name: tap.fields(work.segment)[name] for name in CLAIMS}
            return _first(claims, tap.fields(work.rescored), timed=True)
        if kind == "update":
            state = kept.train_state(folder, record)
            return _first(state, tap.fields(work.after), timed=False)
        if kind == "checkpoint":
            file = f"{CHECKPOINTS}/{record['iteration']:08d}/{STATE}"
            state = unpack(read_inside(folder, file), file)
            trees = {"train": work.after, "world": work.world}
            return _first(state, tap.fields(trees), timed=False)
    except ConsistencyError:
        pass  # what is kept is damaged or gone: the record alone is named
    return None


def _first(expected: Fields | None, got: Fields, *, timed: bool) -> Place | None:
    if expected is None:
        return None
    same = {
        name: got[name]
        for name in expected
        if name in got
        and (got[name].dtype, got[name].shape) == (expected[name].dtype, expected[name].shape)
    }
    return first_of({name: expected[name] for name in same}, same, (), timed=timed)
