"""The options of the train command that have to do with the reference."""

import json

import pytest

from rlkjax import verify


def kinds(folder, kind):
    lines = (folder / "ledger.jsonl").read_bytes().splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


def test_reference_is_short_for_a_key_of_the_config(command):
    _, out, _ = command("--print-config", "--reference", "every=7")
    assert json.loads(out)["audit"]["reference_every"] == 7
    assert command("--print-config", "--set", "audit.reference_every=7")[1] == out


@pytest.mark.parametrize("value", ["7", "each=7", "every=", "every=-1", "every=1.5"])
def test_a_wrong_interval_is_refused(command, value):
    status, out, err = command("--print-config", "--reference", value)
    assert (status, out) == (2, "")
    assert f"--reference: got {value!r}, want every=K, such as every=100" in err


@pytest.mark.parametrize("words", [[], ["--resume"]])
def test_an_acknowledgement_needs_a_resumed_run_and_a_reason(command, tmp_path, words):
    reason = "  " if words else "known"
    status, _, err = command("--run-dir", tmp_path / "run", *words, "--acknowledge", reason)
    assert status == 2
    assert "--acknowledge: got" in err and "want a reason, together with --resume" in err
    assert not (tmp_path / "run").exists()


def test_a_native_run_beside_the_real_reference(command, tmp_path, capsys):
    status, out, err = command("--run-dir", tmp_path, "--reference", "every=4")
    assert (status, out.split()[-1]) == (0, "verified"), err
    assert [record["iteration"] for record in kinds(tmp_path, "reference")] == [0, 4]
    assert {record["past"] for record in kinds(tmp_path, "reference")} == {0}
    said = [line for line in err.splitlines() if line.startswith("reference: ")]
    assert len(said) == 1 and said[0].startswith("reference: 2 iterations recomputed, ")
    capsys.readouterr()
    assert verify.main([str(tmp_path)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert said[0] in shown[:-1] and f"{shown[-1]}\n" == out


@pytest.mark.slow
def test_an_exact_run_beside_the_real_reference(small, python, tmp_path):
    words = ["--config", str(small), "--set", "numerics=exact", "--reference", "every=2"]
    code = "import sys; from rlkjax import cli, train; sys.exit(cli.run(train.main, sys.argv[1:]))"
    done = python(code, *words, "--run-dir", str(tmp_path))
    assert done.returncode == 0, done.stderr
    updates = {record["iteration"]: record["root"] for record in kinds(tmp_path, "update")}
    found = kinds(tmp_path, "reference")
    assert {each["iteration"]: each["state"] for each in found} == {
        n: updates[n] for n in (0, 2, 4)
    }
