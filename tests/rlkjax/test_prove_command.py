"""The command: heads, proofs and keys, and what it refuses."""

import json
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from rlkjax import cli, prove, verify
from rlkjax.errors import ConsistencyError, InputError

GOLDEN = Path(__file__).parents[1] / "data" / "ledger" / "run"
PROOFS = GOLDEN.parent / "proofs"
CASES = {
    "head.txt": ["--head"],
    "record.json": ["--record", "6"],
    "leaf.json": ["--leaf", "obs,1", "--iteration", "1"],
    "consistency.json": ["--consistency", "7"],
}


@pytest.mark.parametrize("name", CASES)
def test_golden_output(name, tmp_path, capfdbinary):
    assert prove.main([str(GOLDEN), *CASES[name]]) == 0
    assert capfdbinary.readouterr() == ((PROOFS / name).read_bytes(), b"")
    out = tmp_path / "out"
    assert prove.main([str(GOLDEN), *CASES[name], "--out", str(out)]) == 0
    assert out.read_bytes() == (PROOFS / name).read_bytes()
    assert capfdbinary.readouterr() == (b"", b"")


def test_as_a_program():
    ran = subprocess.run(
        [sys.executable, "-m", "rlkjax", "prove", GOLDEN, "--head"], capture_output=True
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout == (PROOFS / "head.txt").read_bytes()


def test_an_older_head(capfdbinary):
    older = json.loads((PROOFS / "consistency.json").read_text())["heads"][0]
    assert prove.main([str(GOLDEN), "--head", "--size", "7"]) == 0
    assert capfdbinary.readouterr().out.decode() == older


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["--head"], "RUN: got nothing, want a run folder"),
        (["a", "--head"], "run folder: got a, want a folder that holds ledger.jsonl"),
        (["a", "--record", "1", "--size", "2"], "--size: got 2, want it only with --head"),
        (["a", "--head", "--iteration", "2"], "--iteration: got 2, want it only with --leaf"),
        (["a", "--leaf", "obs,0"], "--iteration: got nothing, want the iteration of the rollout"),
        (["a", "--new-key", "n", "--out", "b"], "RUN: got a, want it only with a head or a proof"),
        (["--new-key", "n"], "--out: got nothing, want the file of the new secret key"),
        ([str(GOLDEN), "--record", "12"], "record: got 12, want 0 to 11"),
        ([str(GOLDEN), "--record", "-1"], "record: got -1, want 0 to 11"),
        ([str(GOLDEN), "--consistency", "13"], "size: got 13 of 12 records, want 1 or more"),
        ([str(GOLDEN), "--consistency", "0"], "size: got 0 of 0 records"),
        ([str(GOLDEN), "--head", "--size", "-1"], "size: got -1 of 0 records"),
        ([str(GOLDEN), "--leaf", "obs", "--iteration", "0"], "--leaf: got 'obs', want FIELD,T"),
        ([str(GOLDEN), "--leaf", "o,x", "--iteration", "0"], "--leaf: got 'o,x', want FIELD,T"),
        ([str(GOLDEN), "--leaf", "o,1", "--iteration", "0"], "--leaf: got o,1, want one of action"),
        ([str(GOLDEN), "--head", "--cosign", "none"], "none: got no such file"),
        (
            [str(GOLDEN), "--head", "--out", "none/x"],
            "none/x: got no folder none, want one that exists",
        ),
    ],
)
def test_wrong_use(arguments, match):
    with pytest.raises(InputError, match=match):
        prove.main(arguments)


def test_one_kind_of_output_is_wanted(capsys):
    for arguments in ([str(GOLDEN)], [str(GOLDEN), "--head", "--record", "1"]):
        with pytest.raises(SystemExit, match="2"):
            prove.main(arguments)
    assert "usage: python -m rlkjax.prove" in capsys.readouterr().err


def test_a_damaged_ledger_is_not_vouched_for(tmp_path):
    run = Path(shutil.copytree(GOLDEN, tmp_path / "run"))
    data = (run / "ledger.jsonl").read_bytes()
    (run / "ledger.jsonl").write_bytes(data.replace(b'"nonfinite":0', b'"nonfinite":1'))
    for arguments in CASES.values():
        with pytest.raises(ConsistencyError, match="record"):
            prove.main([str(run), *arguments])
    (run / "ledger.jsonl").write_bytes(data[:-1])
    with pytest.raises(ConsistencyError, match="got a last line without a line feed"):
        prove.main([str(run), "--head"])


def test_a_head_of_another_ledger_is_not_cosigned(tmp_path):
    (tmp_path / "other").write_text((PROOFS / "head.txt").read_text().replace("chain 0", "chain 1"))
    with pytest.raises(ConsistencyError, match="got a head that is not the one of"):
        prove.main([str(GOLDEN), "--head", "--cosign", str(tmp_path / "other")])


def test_a_secret_key_is_for_its_owner_and_never_overwritten(tmp_path, capsys):
    pytest.importorskip("cryptography")
    out = tmp_path / "key"
    assert prove.main(["--new-key", "example.com/training", "--out", str(out)]) == 0
    assert capsys.readouterr().out == (tmp_path / "key.pub").read_text()
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    secret = out.read_text()
    with pytest.raises(InputError, match="key exists, and a secret key is never overwritten"):
        prove.main(["--new-key", "example.com/training", "--out", str(out)])
    assert out.read_text() == secret


def test_a_public_key_signs_nothing(tmp_path):
    pytest.importorskip("cryptography")
    prove.main(["--new-key", "n", "--out", str(tmp_path / "key")])
    with pytest.raises(InputError, match="got a text that is no secret Ed25519 key"):
        prove.main([str(GOLDEN), "--head", "--sign-with", str(tmp_path / "key.pub")])


def test_the_extra_is_named_where_it_is_missing(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    assert cli.run(prove.main, ["--new-key", "n", "--out", str(tmp_path / "key")]) == 3
    assert "want the extra `sign`; install it with pip" in capsys.readouterr().err


def test_nothing_is_written_in_the_run_folder(tmp_path):
    run = Path(shutil.copytree(GOLDEN, tmp_path / "run"))
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    for arguments in CASES.values():
        assert prove.main([str(run), *arguments, "--out", str(tmp_path / "out")]) == 0
    assert verify.main([str(run)]) == 0
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before
