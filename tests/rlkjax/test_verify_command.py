"""The command: what it prints, and what it exits with."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rlkjax import cli, prove, verify
from rlkjax.audit import ledger
from rlkjax.errors import ConsistencyError, InputError

GOLDEN = Path(__file__).parents[1] / "data" / "ledger" / "run"
VECTORS = json.loads((GOLDEN.parent / "vectors.json").read_text())
HEADS = f"chain {VECTORS['chain']} bits {VECTORS['bits']} iterations 2"


@pytest.fixture
def run(tmp_path):
    return Path(shutil.copytree(GOLDEN, tmp_path / "run"))


def test_a_good_run(run, capsys):
    assert verify.main([str(run)]) == 0
    assert capsys.readouterr() == (f"{HEADS} verified\n", "")


def test_as_a_program(run):
    ran = subprocess.run(
        [sys.executable, "-m", "rlkjax.verify", run], capture_output=True, text=True
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"{HEADS} verified\n", "")


def test_each_finding_is_a_line(run, capsys):
    (run / "config.json").write_bytes(b"{}")
    (run / "checkpoints/00000001/notes").write_text("x")
    assert verify.main([str(run)]) == 1
    out, err = capsys.readouterr()
    first, second, last = out.splitlines()
    assert first.startswith("config.json, record 0: SHA-256: expected 3bfc0e7542")
    assert second.startswith("checkpoints/00000001/notes, record 11: file: expected no such file")
    assert last == f"{HEADS} NOT verified"
    assert err == ""


def test_json(run, capsys):
    (run / "metrics.jsonl").write_bytes(b"")
    assert verify.main([str(run), "--json"]) == 1
    out = json.loads(capsys.readouterr().out)
    assert out["verified"] is False
    assert (out["chain"], out["bits"]) == (VECTORS["chain"], VECTORS["bits"])
    assert out["findings"] == [
        {
            "file": "metrics.jsonl",
            "record": None,
            "what": "number of lines",
            "expected": "3",
            "got": "0",
        }
    ]


def test_the_printed_chain_can_be_given(run, capsys):
    assert verify.main([str(run), "--chain", VECTORS["chain"]]) == 0
    assert verify.main([str(run), "--chain", "0" * 64]) == 1
    assert "ledger.jsonl: chain at the end: expected 000" in capsys.readouterr().out


def test_a_halted_run_says_where(run, capsys):
    lines = (run / "ledger.jsonl").read_bytes().split(b"\n")[:-1]
    chain = ledger.follow(ledger.EMPTY, lines[:7])
    places = {"buffer": "obs", "step": 1, "environment": 0, "element": [2]}
    bits = {"expected": "80000000", "got": "00000000"}
    text = {"iteration": 1, "stage": "rescore", "reason": "bits differ \x1b[31m"}
    _, line = ledger.append(chain, "halt", {**places, **bits, **text})
    (run / "ledger.jsonl").write_bytes(b"\n".join([*lines[:7], line, b""]))
    assert verify.main([str(run)]) == 1
    out = capsys.readouterr().out
    want = "stage rescore, buffer obs, step 1, environment 0, element [2], expected 80000000"
    assert f"halted in iteration 1: bits differ \\x1b[31m ({want}, got 00000000)" in out


def test_no_run_folder(tmp_path, capsys):
    assert cli.run(verify.main, [str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"rlkjax: run folder: got {tmp_path}, want a folder that holds")


def test_a_file_of_a_run_is_no_run_folder(run, capsys):
    assert cli.run(verify.main, [str(run / "ledger.jsonl")]) == 2
    want = f"got {run / 'ledger.jsonl'}, a file, want a folder; give its folder, {run}\n"
    assert capsys.readouterr().err == f"rlkjax: run folder: {want}"


@pytest.mark.parametrize("arguments", [["a", "b"], ["a", "--jso"], ["a", "--platform", "tpu"]])
def test_wrong_use(arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        verify.main(arguments)
    assert "usage: python -m rlkjax.verify" in capsys.readouterr().err


def test_names_that_no_terminal_can_show(run, capsys):
    (run / "checkpoints" / "\udcff\n").mkdir()
    assert verify.main([str(run)]) == 1
    assert "checkpoints/\\udcff\\n: file" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ([], "want a run folder or --proof FILE, and not both"),
        (["a", "--proof", "b"], "want a run folder or --proof FILE, and not both"),
        (["a", "--from", "0"], "--from: got 0, want it only with --replay"),
        (["a", "--to", "0"], "--to: got 0, want it only with --replay"),
        (["a", "--platform", "cpu"], "--platform: got cpu, want it only with --replay"),
        (["--proof", "a", "--replay"], "--proof: want it without --replay and --chain"),
        (["a", "--signed-by", "b"], "--signed-by: want the --head that is signed"),
        (["a", "--chain", "ABC"], "--chain: got 'ABC', want 64 lower-case hex digits"),
        (["a", "--head", "missing"], "missing: got no such file"),
        (["--proof", "missing"], "missing: got no such file"),
    ],
)
def test_options_that_do_not_go_together(arguments, match):
    with pytest.raises(InputError, match=match):
        verify.main(arguments)


PROOFS = GOLDEN.parent / "proofs"


def test_a_head_from_elsewhere(run, tmp_path, capsys):
    head = str(PROOFS / "head.txt")
    assert verify.main([str(run), "--head", head]) == 0
    assert capsys.readouterr().out == f"{HEADS} verified\n"
    other = tmp_path / "other"
    other.write_text(Path(head).read_text().replace("chain 0", "chain 1"))
    assert verify.main([str(run), "--head", str(other)]) == 1
    want = f"ledger.jsonl: chain of the first 12 records: expected 1{VECTORS['chain'][1:]}, got 0"
    assert want in capsys.readouterr().out


@pytest.mark.parametrize("size", ["12", "99"])
def test_the_head_of_another_run_is_said_to_be_one(size, run, tmp_path, capsys):
    origin, _, *rest = (PROOFS / "head.txt").read_text().split("\n")
    other = origin[:-64] + 64 * "0"
    (tmp_path / "other").write_text("\n".join([other, size, *rest]))
    assert verify.main([str(run), "--head", str(tmp_path / "other")]) == 1
    first, last = capsys.readouterr().out.splitlines()
    said = "the head belongs to another run, or record 0 was changed; ledger"
    assert first == f"{tmp_path / 'other'}: {said}: expected {origin}, got {other}"
    assert last.endswith("NOT verified")


def test_a_ledger_that_was_cut_is_told_by_an_older_head(run, capsys):
    lines = (run / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (run / "ledger.jsonl").write_bytes(b"".join(lines[:6]))
    assert verify.main([str(run), "--head", str(PROOFS / "head.txt")]) == 1
    out = capsys.readouterr().out
    assert "ledger.jsonl: number of records: expected 12, as " in out


def test_an_older_head_is_part_of_the_ledger(run, tmp_path, capsys):
    older = json.loads((PROOFS / "consistency.json").read_text())["heads"][0]
    (tmp_path / "older").write_text(older)
    assert verify.main([str(run), "--head", str(tmp_path / "older")]) == 0


def test_both_sides_must_have_signed(run, tmp_path, capsys):
    pytest.importorskip("cryptography")
    for side in ("environment", "training"):
        assert prove.main(["--new-key", side, "--out", str(tmp_path / side)]) == 0
    signed = str(tmp_path / "signed")
    first = ["--head", "--sign-with", str(tmp_path / "environment"), "--out", signed]
    assert prove.main([str(run), *first]) == 0
    keys = [f"--signed-by={tmp_path / side}.pub" for side in ("environment", "training")]
    assert verify.main([str(run), "--head", signed, keys[0]]) == 0
    capsys.readouterr()
    assert verify.main([str(run), "--head", signed, *keys]) == 1
    assert ": no signature of this key\n" in capsys.readouterr().out
    second = ["--sign-with", str(tmp_path / "training"), "--cosign", signed, "--out", signed]
    assert prove.main([str(run), "--head", *second]) == 0
    assert verify.main([str(run), "--head", signed, *keys]) == 0
    proof = ["--proof", str(PROOFS / "record.json"), "--head", signed]
    assert verify.main([*proof, *keys]) == 0
    other = ["--new-key", "training", "--out", str(tmp_path / "other")]
    assert prove.main(other) == 0
    with pytest.raises(ConsistencyError, match="key training.*: no signature of this key"):
        verify.main([*proof, *keys, f"--signed-by={tmp_path / 'other'}.pub"])


def test_a_proof_without_a_head_says_what_to_compare(capsys):
    assert verify.main(["--proof", str(PROOFS / "leaf.json")]) == 0
    first, second, head, last = capsys.readouterr().out.splitlines()
    assert first == "record 6 (rollout, iteration 1) is in the ledger of 12 records"
    assert second.startswith("its buffer obs (float32, shape [2, 1]) had at step 1 the 8 bytes")
    assert head.startswith("head of 12 records: root b1db49d3")
    assert last.startswith("proved against that head; compare it with one that you kept")


def test_a_proof_for_another_tree(capsys, tmp_path):
    older = json.loads((PROOFS / "consistency.json").read_text())["heads"][0]
    (tmp_path / "older").write_text(older)
    proof = ["--proof", str(PROOFS / "record.json"), "--head", str(tmp_path / "older")]
    assert cli.run(verify.main, proof) == 1
    err = capsys.readouterr().err
    assert "record.json: got a proof against root b1db49d3" in err
    assert "want root 64f89e53" in err


def test_a_proof_as_json(capsys):
    proof = ["--proof", str(PROOFS / "consistency.json"), "--json"]
    assert verify.main([*proof, "--head", str(PROOFS / "head.txt")]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["trusted"] is True
    assert [head["size"] for head in shown["heads"]] == [7, 12]
