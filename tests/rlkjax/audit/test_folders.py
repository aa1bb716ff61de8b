"""Folders that are no run of ours, or try to lead outside: refused by name, nothing written."""

import hashlib
import json
import os
import tracemalloc

import pytest

from rlkjax import cli, prove, verify
from rlkjax.audit import inside, ledger
from rlkjax.audit.inside import Loader, lines_inside, names_inside, read_inside
from rlkjax.audit.records import CHAIN_KEYS
from rlkjax.audit.verify import verify_run
from rlkjax.errors import ConsistencyError, InputError


def snapshot(folder):
    """Every name, kind, size and time of change below a folder."""
    return {
        str(path): (path.lstat().st_mode, path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
    }


def relink(lines, change):
    """A ledger whose lines were changed and whose links are right again, in any format."""
    head, made = "0" * 64, []
    for line in lines:
        record = {**json.loads(line), "prev": head}
        change(record)
        made.append(json.dumps(record, sort_keys=True, separators=(",", ":")).encode())
        head = hashlib.sha256(b"\0" + made[-1]).hexdigest()
    return b"".join(line + b"\n" for line in made)


def newer(record):
    if record["kind"] == "genesis":
        record["format"] = "rlkjax-ledger/2"


@pytest.mark.parametrize("count", [1, 12])
def test_a_newer_format_is_refused_by_name(run, lines, capsys, count):
    (run / "ledger.jsonl").write_bytes(relink(lines[:count], newer))
    before = snapshot(run)
    assert cli.run(verify.main, [str(run)]) == 2
    err = capsys.readouterr().err
    assert "ledger.jsonl: got format rlkjax-ledger/2, want rlkjax-ledger/1; verify it with" in err
    assert snapshot(run) == before


def test_one_changed_byte_of_the_format_is_damage_and_no_newer_format(run, lines):
    data = b"".join(line + b"\n" for line in lines)
    (run / "ledger.jsonl").write_bytes(data.replace(b"rlkjax-ledger/1", b"rlkjax-ledger/2"))
    assert ("ledger.jsonl", "line 0") in {(f.file, f.what) for f in verify_run(run).findings}


@pytest.mark.parametrize("verb", [verify, prove])
def test_empty_foreign_and_missing_folders(tmp_path, capsys, verb):
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "notes.txt").write_text("x")
    (tmp_path / "file").write_text("x")
    before = snapshot(tmp_path)
    more = ["--head"] if verb is prove else []
    for name in ("empty", "foreign", "missing", "file"):
        assert cli.run(verb.main, [str(tmp_path / name), *more]) == 2
        err = capsys.readouterr().err
        assert f"run folder: got {tmp_path / name}, want a folder that holds ledger.jsonl" in err
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    "name", ["config.json", "fingerprint.json", "ledger.jsonl", "metrics.jsonl"]
)
def test_pipes_devices_and_links_outside_are_never_opened(run, tmp_path, name):
    outside = tmp_path / "outside"
    (run / name).rename(outside)
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.mkdir()):
        make(run / name)
        report = verify_run(run)
        assert name in {finding.file for finding in report.findings}
        assert not report.verified
        (run / name).rmdir() if (run / name).is_dir() else (run / name).unlink()
    (run / name).symlink_to(outside)
    os.chmod(outside, 0)
    before = outside.stat().st_atime_ns
    report = verify_run(run)
    got = [finding.got for finding in report.findings if finding.file == name]
    assert any("got a link that leaves the run folder" in text for text in got)
    assert outside.stat().st_atime_ns == before


def test_links_inside_the_folder_are_followed(run):
    (run / "config.json").rename(run / "moved.json")
    (run / "config.json").symlink_to("moved.json")
    report = verify_run(run)
    assert report.verified and report.uncovered == ("moved.json",)


def test_what_no_digest_covers_is_listed_and_not_opened(run, capsys):
    (run / "timing.jsonl").write_text("{}\n")
    os.mkfifo(run / "pipe")
    (run / "lock").symlink_to("/dev/zero")
    (run / "checkpoints" / "00000009.part").mkdir()
    (run / "fingerprints").mkdir()
    (run / "fingerprints" / "stray.json").write_text("{}")
    report = verify_run(run)
    assert report.verified
    assert report.uncovered == (
        "lock",
        "pipe",
        "timing.jsonl",
        "fingerprints/stray.json",
        "checkpoints/00000009.part",
    )
    assert verify.main([str(run)]) == 0
    out = capsys.readouterr().out
    # What a run writes beside its ledger on purpose is not foreign.
    names = "pipe, fingerprints/stray.json, checkpoints/00000009.part"
    assert out.splitlines()[:-1] == [f"foreign files, in no digest: {names}"]


def test_a_folder_of_fingerprints_that_leads_outside_is_named(run, tmp_path):
    (tmp_path / "outside").mkdir()
    (run / "fingerprints").symlink_to(tmp_path / "outside")
    assert verify_run(run).uncovered == ("fingerprints",)


def test_more_names_than_a_screen_holds_are_counted(run, capsys):
    for number in range(25):
        (run / f"{number:02d}").touch()
    assert verify.main([str(run)]) == 0
    assert "18, 19, and 5 more\n" in capsys.readouterr().out


def test_reading_inside(tmp_path):
    (tmp_path / "a").write_bytes(b"one\ntwo")
    folder = tmp_path.resolve()
    assert read_inside(folder, "a") == b"one\ntwo"
    assert list(lines_inside(folder, "a")) == [b"one\n", b"two"]
    assert names_inside(folder) == ["a"]
    assert names_inside(folder, "missing") == []
    for name in ("missing", "../a", "..", "\0"):
        with pytest.raises(ConsistencyError, match="got"):
            read_inside(folder, name)
    with pytest.raises(ConsistencyError, match="got a file that cannot be read"):
        names_inside(folder, "a")


def long_run(run, lines, count):
    """A halted ledger of many iterations, made from the records of the golden run."""
    records = {json.loads(line)["kind"]: json.loads(line) for line in lines}
    chain, made = ledger.EMPTY, []

    def add(kind, **changed):
        nonlocal chain
        payload = {key: value for key, value in records[kind].items() if key not in CHAIN_KEYS}
        chain, line = ledger.append(chain, kind, {**payload, **changed})
        made.append(line)

    metrics = (run / "metrics.jsonl").read_bytes().split(b"\n")[0]
    add("genesis", iterations=count)
    for k in range(count):
        add("rollout", iteration=k, sequence=k)
        add("rescore", iteration=k, sequence=k)
        add("advantages", iteration=k)
        add("update", iteration=k, metrics=hashlib.sha256(metrics).hexdigest())
    (run / "ledger.jsonl").write_bytes(b"".join(line + b"\n" for line in made))
    (run / "metrics.jsonl").write_bytes((metrics + b"\n") * count)


def peak(run):
    tracemalloc.start()
    try:
        assert verify_run(run).iterations > 0
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_is_flat_in_the_length_of_the_run(run, lines):
    for name in ("segments", "checkpoints"):
        for path in sorted((run / name).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    config = b'{"audit":{"keep_segments":"none"},"checkpoint":{"keep":1}}'
    (run / "config.json").write_bytes(config)
    long_run(run, lines, 100)
    verify_run(run)
    short = peak(run)
    long_run(run, lines, 1500)
    assert peak(run) < short + 64 * 1024


def test_a_folder_that_cannot_be_a_path_is_wrong_use(capsys):
    assert cli.run(verify.main, ["a\0b"]) == 2
    assert "run folder" in capsys.readouterr().err


def test_verify_needs_a_run_folder():
    with pytest.raises(InputError, match="want a run folder or --proof FILE, and not both"):
        verify.main([])


def test_large_files_are_read_into_the_same_memory(tmp_path, monkeypatch):
    folder = tmp_path.resolve()
    (folder / "a").write_bytes(b"12345")
    (folder / "b").write_bytes(b"678")
    load = Loader(folder)
    first = load("a")
    assert bytes(first) == b"12345"
    assert bytes(load("b")) == b"678"
    assert bytes(first) == b"67845"
    with pytest.raises(TypeError, match="read-only|readonly"):
        first[0] = 1
    with pytest.raises(ConsistencyError, match="c: got no such file"):
        load("c")
    for size in (2, 4):  # what the system says of the size before the file has changed
        said = os.stat_result((0,) * 6 + (size, 0, 0, 0))
        monkeypatch.setattr(inside.os, "fstat", lambda _, said=said: said)
        with pytest.raises(ConsistencyError, match="b: got a file that changes while it is read"):
            load("b")
