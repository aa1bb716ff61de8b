"""A verified run, and every way of spoiling it that a file system or a forger has."""

import hashlib
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from rlkjax.audit import checks, ledger
from rlkjax.audit.records import CHAIN_KEYS
from rlkjax.audit.tensors import pack, unpack
from rlkjax.audit.verify import verify_run
from rlkjax.errors import InputError

LAST = "checkpoints/00000001"


def found(run, **options):
    """(file, what) of each finding."""
    return {(finding.file, finding.what) for finding in verify_run(run, **options).findings}


def write_lines(run, lines):
    (run / "ledger.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))


def forge(run, lines, change):
    """A ledger whose links are all right again after `change` was applied to its payloads."""
    chain, forged = ledger.EMPTY, []
    for line in lines:
        record = json.loads(line)
        payload = {key: value for key, value in record.items() if key not in CHAIN_KEYS}
        change(record["kind"], payload)
        chain, line = ledger.append(chain, record["kind"], payload)
        forged.append(line)
    write_lines(run, forged)


def all_files(run):
    return sorted(path for path in run.rglob("*") if path.is_file())


def test_the_golden_run_is_verified(golden, vectors):
    report = verify_run(golden)
    assert report.findings == ()
    assert report.verified
    assert (report.chain.count, report.iterations, report.halted) == (12, 2, None)
    assert (report.chain.head, report.chain.bits) == (vectors["chain"], vectors["bits"])


def flips(run, bits):
    """Verifies the run once for each flipped bit, and names the flips that were not found."""
    missed = []
    for path in all_files(run):
        data = path.read_bytes()
        for place in range(len(data)):
            for bit in bits(place):
                spoiled = data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]
                if not _caught(run, path, spoiled):
                    missed.append((path.name, place, bit))
        path.write_bytes(data)
    return missed


def links(lines):
    chain, findings = ledger.EMPTY, []
    for number, line in enumerate(lines):
        _, chain, found = checks.link(chain, line, number)
        findings += found
    return findings


def _caught(run, path, spoiled):
    # `verify_run` returns what `link` finds too; asking it first saves a minute.
    if path.name == "ledger.jsonl" and links(spoiled.split(b"\n")[:-1]):
        return True
    path.write_bytes(spoiled)
    return bool(verify_run(run).findings)


def test_a_flipped_bit_in_every_fifth_byte_is_found(run):
    assert flips(run, lambda place: [] if place % 5 else [place % 8]) == []


@pytest.mark.slow
def test_every_flipped_bit_of_every_byte_is_found(run):
    assert flips(run, lambda _: range(8)) == []


def test_every_missing_emptied_and_lengthened_file_is_found_by_name(run):
    for path in all_files(run):
        name = str(path.relative_to(run))
        data = path.read_bytes()
        for spoiled in (b"", data[:-1], data + b"\n", data + b"\0"):
            path.write_bytes(spoiled)
            assert name in {file for file, _ in found(run)}, (name, spoiled[-1:])
        path.unlink()
        assert name in {file for file, _ in found(run)}, name
        path.write_bytes(data)
    assert found(run) == set()


def test_dropped_doubled_and_swapped_records_are_found(run, lines):
    for k in range(len(lines)):
        write_lines(run, lines[:k] + lines[k + 1 :])
        assert found(run), f"record {k} dropped"
        write_lines(run, lines[: k + 1] + lines[k:])
        assert found(run), f"record {k} doubled"
        write_lines(run, [*lines[:k], *reversed(lines[k : k + 2]), *lines[k + 2 :]])
        assert k == len(lines) - 1 or found(run), f"records {k} and {k + 1} swapped"


def test_a_break_is_named_once_and_the_walk_goes_on(run, lines):
    spoiled = lines[7].replace(b'"sequence":1', b'"sequence":2')
    write_lines(run, [*lines[:7], spoiled, *lines[8:]])
    report = verify_run(run)
    assert [(finding.record, finding.what) for finding in report.findings] == [
        (8, "prev of the record"),
        (7, "rescore sequence"),
    ]


def test_an_appended_record_is_found_even_when_its_links_are_right(run, lines):
    chain = ledger.follow(ledger.EMPTY, lines)
    payload = {"iteration": 1, "manifest": "0" * 64}
    _, line = ledger.append(chain, "checkpoint", payload)
    write_lines(run, [*lines, line])
    assert ("ledger.jsonl", "kind after checkpoint") in found(run)


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_ledger_cut_after_any_record_is_found(run, lines, cut):
    write_lines(run, lines[:cut])
    assert found(run)


def test_only_the_printed_chain_tells_a_shorter_run(run, lines, vectors):
    assert found(run, chain=vectors["chain"]) == set()
    assert found(run, chain="0" * 64) == {("ledger.jsonl", "chain at the end")}


def test_torn_missing_and_foreign_line_ends(run, lines):
    path = run / "ledger.jsonl"
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    assert found(run) == {("ledger.jsonl", "end of line 11")}
    path.write_bytes(data[:-9])
    assert {("ledger.jsonl", "end of line 11"), ("ledger.jsonl", "line 11")} <= found(run)
    path.write_bytes(data.replace(b"\n", b"\r\n"))
    assert ("ledger.jsonl", "line 0") in found(run)
    path.write_bytes(data + b"\n")
    assert ("ledger.jsonl", "line 12") in found(run)
    path.write_bytes(b"")
    assert ("ledger.jsonl", "ledger") in found(run)


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b'{"index":' + b"9" * 100_000 + b"}",
        b'{"index":1.5}',
        b'{"a":1,"a":2}',
        b'{ "a":1}',
        b"\xff\xfe\x00",
        b"null",
        b"{}",
    ],
    ids=["deep", "huge", "float", "twice", "spaced", "binary", "null", "empty"],
)
@pytest.mark.parametrize("place", [0, 3, 11])
def test_any_malformed_line_is_a_finding(run, lines, line, place):
    write_lines(run, [*lines[:place], line, *lines[place + 1 :]])
    assert ("ledger.jsonl", f"line {place}") in found(run)


@pytest.mark.parametrize("name", ["config.json", "fingerprint.json", f"{LAST}/manifest.json"])
@pytest.mark.parametrize("data", [b"[" * 100_000, b"9" * 100_000, b'{"a":1.5}', b"\xff", b"[]"])
def test_any_malformed_file_is_a_finding(run, name, data):
    (run / name).write_bytes(data)
    assert name in {file for file, _ in found(run)}


@pytest.mark.parametrize(
    "data", [b"", b"\xff" * 8, b"\xff" * 64, (2).to_bytes(8, "little") + b"{}", b"PK\x03\x04"]
)
@pytest.mark.parametrize("name", [f"{LAST}/state.safetensors", "segments/00000000.safetensors"])
def test_any_malformed_tensor_file_is_a_finding(run, name, data):
    (run / name).write_bytes(data)
    assert name in {file for file, _ in found(run)}


def test_a_kill_between_checkpoint_files_and_record(run, lines):
    write_lines(run, lines[:-1])
    assert found(run) == {
        ("checkpoints/00000001", "file"),
        ("ledger.jsonl", "records after the last update"),
    }
    write_lines(run, lines)
    assert found(run) == set()


def test_a_kill_before_the_rename_is_no_finding(run):
    shutil.copytree(run / LAST, run / "checkpoints/00000002.part")
    assert found(run) == set()


def test_the_checkpoints_that_the_config_keeps_must_be_there(run):
    shutil.rmtree(run / "checkpoints/00000000")
    assert found(run) == {("checkpoints/00000000", "file")}


def test_foreign_names_in_the_folders_are_found(run):
    (run / LAST / "notes").write_text("x")
    (run / "segments/00000007.safetensors").write_text("x")
    (run / "checkpoints/00000005").mkdir()
    assert found(run) == {
        (f"{LAST}/notes", "file"),
        ("segments/00000007.safetensors", "file"),
        ("checkpoints/00000005", "file"),
    }


def test_checkpoints_of_two_iterations_cannot_be_exchanged(run):
    one, two = run / "checkpoints/00000000", run / "checkpoints/00000001"
    one.rename(run / "aside")
    two.rename(one)
    (run / "aside").rename(two)
    assert {file for file, what in found(run) if what == "SHA-256"} == {
        "checkpoints/00000000/manifest.json",
        "checkpoints/00000001/manifest.json",
    }


def test_segments_of_two_iterations_cannot_be_exchanged(run):
    one, two = run / "segments/00000000.safetensors", run / "segments/00000001.safetensors"
    data = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(data)
    assert {file for file, what in found(run) if what == "root"} == {
        "segments/00000000.safetensors",
        "segments/00000001.safetensors",
    }


def test_metrics_lines_changed_swapped_added_and_removed(run):
    path = run / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[1], lines[0], lines[2]]))
    assert {what for _, what in found(run)} == {"SHA-256 of line 0", "SHA-256 of line 1"}
    path.write_bytes(b"".join(lines[:2]))
    assert found(run) == {("metrics.jsonl", "number of lines")}
    path.write_bytes(b"".join(lines) + b"{}\n")
    assert found(run) == {("metrics.jsonl", "number of lines")}


def test_a_forged_rollout_root_is_held_against_the_segment(run, lines):
    def change(kind, payload):
        if kind == "rollout":
            payload["root"] = "0" * 64

    forge(run, lines, change)
    assert ("segments/00000000.safetensors", "root") in found(run)


def test_a_forged_update_root_is_held_against_the_checkpoint(run, lines):
    def change(kind, payload):
        if kind == "update":
            payload["root"] = "0" * 64

    forge(run, lines, change)
    assert (f"{LAST}/state.safetensors", "update root") in found(run)


def test_a_forged_policy_is_held_against_the_checkpoint_before(run, lines):
    def change(kind, payload):
        if kind == "rollout":
            payload["policy"] = "0" * 64

    forge(run, lines, change)
    assert ("checkpoints/00000000/state.safetensors", "rollout policy") in found(run)


@pytest.mark.parametrize(
    ("kind", "key", "value", "what"),
    [
        ("rescore", "root", "0" * 64, "rescore root against rollout_root"),
        ("rescore", "graph", "0" * 64, "rescore graph"),
        ("rescore", "sequence", 9, "rescore sequence"),
        ("rollout", "graph", "0" * 64, "rollout graph"),
        ("rollout", "seed", 9, "rollout seed"),
        ("rollout", "sequence", 9, "rollout sequence"),
        ("rollout", "leaves", 9, "number of leaves"),
        ("rollout", "iteration", 9, "iteration"),
        ("update", "metrics", "0" * 64, "SHA-256 of line 0"),
        ("genesis", "config", "0" * 64, "SHA-256"),
        ("genesis", "fingerprint", "0" * 64, "SHA-256"),
        ("genesis", "iterations", 3, "number of iterations"),
        ("checkpoint", "manifest", "0" * 64, "SHA-256"),
    ],
)
def test_a_forged_value_is_found_though_all_links_are_right(run, lines, kind, key, value, what):
    def change(of, payload):
        if of == kind:
            payload[key] = value

    forge(run, lines, change)
    assert what in {name for _, name in found(run)}


def test_a_forged_segment_needs_its_claims(run, lines):
    path = run / "segments/00000000.safetensors"
    fields = unpack(path.read_bytes(), path.name)
    fields["log_prob"] = fields["log_prob"] + np.float32(1)
    path.write_bytes(pack(fields))
    assert {what for _, what in found(run)} == {"root", "root of the claims"}


def test_an_unfinished_iteration_says_so(run, lines):
    write_lines(run, lines[:8])
    report = verify_run(run)
    wants = {finding.what: finding.expected for finding in report.findings}
    assert wants["last record"].startswith("a finished iteration; resume")
    assert not report.verified


def test_a_halted_run_is_not_verified_and_names_the_place(run, lines):
    chain = ledger.follow(ledger.EMPTY, lines[:7])
    payload = {
        "iteration": 1,
        "stage": "rescore",
        "buffer": "log_prob",
        "step": 1,
        "environment": 0,
        "element": [],
        "expected": "80000000",
        "got": "00000000",
        "reason": "rescored bits differ",
    }
    chain, line = ledger.append(chain, "halt", payload)
    write_lines(run, [*lines[:7], line])
    (run / "metrics.jsonl").write_bytes(
        (run / "metrics.jsonl").read_bytes().split(b"\n")[0] + b"\n"
    )
    shutil.rmtree(run / LAST)
    report = verify_run(run)
    assert report.findings == ()
    assert report.halted["buffer"] == "log_prob"
    assert not report.verified
    after, line_after = ledger.append(chain, "rollout", rollout_payload(lines[6]))
    write_lines(run, [*lines[:7], line, line_after])
    assert ("ledger.jsonl", "kind after halt") in found(run)


def rollout_payload(line):
    return {key: value for key, value in json.loads(line).items() if key not in CHAIN_KEYS}


def test_a_resume_record_needs_its_fingerprint(run, lines):
    data = b'{"os":"Other"}'
    digest = hashlib.sha256(data).hexdigest()
    chain = ledger.follow(ledger.EMPTY, lines[:6])
    kept = lines[:6]
    payload = {"iteration": 1, "fingerprint": digest}
    chain, line = ledger.append(chain, "resume", payload)
    write_lines(run, [*kept, line])
    file = f"fingerprints/{digest}.json"
    assert (file, "file") in found(run)
    (run / "fingerprints").mkdir()
    (run / file).write_bytes(data)
    assert file not in {name for name, _ in found(run)}
    (run / file).write_bytes(b"{}")
    assert (file, "SHA-256") in found(run)


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", f"{LAST}/state.safetensors"])
def test_links_that_leave_the_folder_are_refused_by_name(run, tmp_path, name):
    outside = tmp_path / "outside"
    (run / name).rename(outside)
    (run / name).symlink_to(outside)
    report = verify_run(run)
    got = [finding.got for finding in report.findings if finding.file == name]
    assert any("a link that leaves the run folder" in text for text in got)


def test_a_linked_folder_that_leaves_is_refused_by_name(run, tmp_path):
    (run / "segments").rename(tmp_path / "outside")
    (run / "segments").symlink_to(tmp_path / "outside")
    assert ("segments", "folder") in found(run)


def test_loops_pipes_and_folders_in_place_of_files(run):
    for name in ("config.json", f"{LAST}/manifest.json"):
        path = run / name
        data = path.read_bytes()
        path.unlink()
        path.symlink_to(path.name)
        assert name in {file for file, _ in found(run)}
        path.unlink()
        os.mkfifo(path)
        assert name in {file for file, _ in found(run)}
        path.unlink()
        path.mkdir()
        assert name in {file for file, _ in found(run)}
        path.rmdir()
        path.write_bytes(data)
    assert found(run) == set()


def test_the_run_folder_itself_may_be_reached_by_a_link(run, tmp_path):
    (tmp_path / "link").symlink_to(run)
    assert found(tmp_path / "link") == set()


def test_no_run_folder_is_wrong_use(tmp_path):
    with pytest.raises(InputError, match=r"want a folder that holds ledger\.jsonl"):
        verify_run(tmp_path)
    with pytest.raises(InputError, match="run folder: got .*missing"):
        verify_run(tmp_path / "missing")


def test_the_verifier_needs_no_jax():
    code = "import sys, rlkjax.verify, rlkjax.checkpoint; sys.exit('jax' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert (ran.returncode, ran.stderr) == (0, b"")
