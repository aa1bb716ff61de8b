"""Real runs, spoiled in every way that keeps each file in its own form: found and located."""

import random
import shutil
from pathlib import Path

import pytest

from rlkjax import loop
from rlkjax.audit.verify import COVERED, verify_run

KEEP = "audit.keep_segments=all"


def covered(run):
    """Files of a run that a digest covers."""
    return sorted(
        path.relative_to(run)
        for path in run.rglob("*")
        if path.is_file() and path.relative_to(run).parts[0] in COVERED
    )


@pytest.fixture
def runs(prepare, tmp_path):
    """Two runs of two seeds, and a copy of the first to spoil."""
    for name, seed in (("a", 0), ("b", 1)):
        (tmp_path / name).mkdir()
        run = prepare(tmp_path / name, KEEP, f"seed={seed}", "checkpoint.keep=9")
        list(loop.train(run))
        run.opened.journal.close()
        run.opened.metrics.close()
    return tmp_path / "a", tmp_path / "b", Path(shutil.copytree(tmp_path / "a", tmp_path / "c"))


def test_each_file_of_another_run_is_found_by_name(runs):
    a, b, spoiled = runs
    exchanged = 0
    for name in covered(a):
        if (a / name).read_bytes() == (b / name).read_bytes():
            continue  # the fingerprint: one machine
        shutil.copyfile(b / name, spoiled / name)
        report = verify_run(spoiled)
        if str(name) == "ledger.jsonl":
            # Another chain is whole in itself; all that it speaks of is another run's.
            assert {"config.json", "metrics.jsonl"} <= {each.file for each in report.findings}
        else:
            assert str(name) in {each.file for each in report.findings}, name
        shutil.copyfile(a / name, spoiled / name)
        exchanged += 1
    assert exchanged == 3 + 6 + 2 * 3  # config, ledger, metrics; segments; checkpoints
    assert verify_run(spoiled).verified


def test_each_folder_of_another_run_is_found_by_name(runs):
    a, b, spoiled = runs
    for name in ("checkpoints", "segments"):
        shutil.rmtree(spoiled / name)
        shutil.copytree(b / name, spoiled / name)
        found = {each.file for each in verify_run(spoiled).findings}
        assert all(file.startswith(name) for file in found)
        assert len({Path(file).parts[1] for file in found}) == len(list((a / name).iterdir()))
        shutil.rmtree(spoiled / name)
        shutil.copytree(a / name, spoiled / name)


def test_each_record_dropped_doubled_swapped_or_cut_is_located(runs):
    a, b, spoiled = runs
    lines = (a / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    other = (b / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    for k in range(len(lines)):
        cases = {
            "dropped": lines[:k] + lines[k + 1 :],
            "doubled": lines[: k + 1] + lines[k:],
            "swapped": [*lines[:k], *reversed(lines[k : k + 2]), *lines[k + 2 :]],
            "cut": lines[:k],
            "torn": [*lines[:k], lines[k][: len(lines[k]) // 2]],
            "of another run": [*lines[:k], other[k], *lines[k + 1 :]],
        }
        for what, kept in cases.items():
            if kept == lines:
                continue  # nothing follows the last one
            (spoiled / "ledger.jsonl").write_bytes(b"".join(kept))
            places = {each.record for each in verify_run(spoiled).findings}
            # What is gone from the end is missed at the record that is now the last.
            near = {k - 1, k, None} if kept == lines[:k] or what == "torn" else {k, k + 1}
            assert places & near, (what, k, places)


def test_an_appended_record_is_located(runs):
    a, b, spoiled = runs
    lines = (a / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    for extra in ((b / "ledger.jsonl").read_bytes().splitlines(keepends=True)[-1], b"\n", b"{}\n"):
        (spoiled / "ledger.jsonl").write_bytes(b"".join([*lines, extra]))
        assert len(lines) in {each.record for each in verify_run(spoiled).findings}


def test_random_flips_are_found_in_their_file(runs):
    a, _, spoiled = runs
    rng = random.Random(0)
    for _ in range(150):
        name = rng.choice(covered(a))
        data = (a / name).read_bytes()
        place = rng.randrange(len(data))
        flipped = bytes([data[place] ^ 1 << rng.randrange(8)])
        (spoiled / name).write_bytes(data[:place] + flipped + data[place + 1 :])
        findings = verify_run(spoiled).findings
        line = data[:place].count(b"\n")
        own = str(name) in {each.file for each in findings}
        near = {line, line + 1} & {each.record for each in findings}
        assert near if str(name) == "ledger.jsonl" else own, (name, place)
        (spoiled / name).write_bytes(data)
