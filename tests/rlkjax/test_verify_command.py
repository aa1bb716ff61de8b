"""The command: what it prints, and what it exits with."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rlkjax import cli, verify
from rlkjax.audit import ledger

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


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["a", "--jso"]])
def test_wrong_use(arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        verify.main(arguments)
    assert "usage: python -m rlkjax.verify" in capsys.readouterr().err


def test_names_that_no_terminal_can_show(run, capsys):
    (run / "checkpoints" / "\udcff\n").mkdir()
    assert verify.main([str(run)]) == 1
    assert "checkpoints/\\udcff\\n: file" in capsys.readouterr().out
