"""The compare command: equal and different conditions, and what is refused before a long run.

The conditions' processes are replaced by runs in this one, whose programs are compiled already.
"""

import json

import numpy as np
import pytest

from rlkjax import cli, compare, loop, run_folder
from rlkjax.comparison import cell, differences, process
from rlkjax.comparison.conditions import Condition
from rlkjax.errors import ConsistencyError, InputError, MachineError

MACHINE = {"device.platform": "cpu"}


def spoiled(run, train, world, iteration):
    """A dispatch whose iteration 1 has another bit in one reward."""
    work = DISPATCH(run, train, world, iteration)
    if iteration != 1:
        return work
    reward = np.array(work.segment.reward)
    reward.view(np.uint32)[5, 2] ^= 1 << 22  # 1.0 becomes 1.5
    return work._replace(segment=work.segment._replace(reward=reward))


DISPATCH = loop.dispatch


@pytest.fixture
def run(small, shared_programs, monkeypatch, capsys):
    """The command with conditions in this process; those named in `faulty` go wrong."""

    def start(*arguments, faulty=()):
        asked = []

        def ask(config, condition, folder, count):
            asked.append((condition.name, config, folder))
            if folder is None:
                return "here"
            dispatch = spoiled if condition.name in faulty else DISPATCH
            monkeypatch.setattr(loop, "dispatch", dispatch)
            run_folder.make(folder)
            return cell.run_head(config, folder, machine=MACHINE, first=count)

        monkeypatch.setattr(differences, "ask", ask)
        words = ["--config", str(small), "--set", "numerics=native", *map(str, arguments)]
        return cli.run(compare.main, words), *capsys.readouterr(), asked

    return start


def test_equal_conditions(run):
    status, out, err, asked = run("--platforms", "cpu,cpu:threads=1,cpu:cores=1")
    lines = out.splitlines()
    assert status == 0
    assert lines[-1] == "EQUAL: 3 conditions, 3 iterations"
    heads = {line.split()[2] for line in lines[:3]}
    assert len(heads) == 1 and len(heads.pop()) == 64
    assert [line.split()[-1] for line in lines[1:3]] == ["equal", "equal"]
    assert "cpu:threads=1: 3 iterations" in err
    assert [name for name, _, _ in asked] == ["cpu", "cpu:threads=1", "cpu:cores=1"]


def test_the_head_of_the_first_condition_is_that_of_a_run_of_its_config(run, command, tmp_path):
    _, trained, _ = command("--run-dir", tmp_path / "run", "--set", "numerics=native")
    _, out, _, _ = run("--platforms", "cpu,cpu", "--iterations", "6")
    assert out.splitlines()[0].split()[-1] == trained.split()[3]


def test_a_first_difference(run):
    status, out, _, _ = run("--platforms", "cpu,cpu:threads=1", faulty=("cpu:threads=1",))
    assert status == 1
    assert "DIFFERENT from iteration 1, stage rollout, buffer reward" in out
    assert "buffer reward, step 5, environment 2, 1 of its 32 elements differ" in out
    assert "3f800000 = 1.0" in out and "3fc00000 = 1.5" in out
    # 1 of 32 is 3.12 %; 0.5 of 1.5 is 0.333; half of the steps from 1 to 2.
    row = next(line for line in out.splitlines() if line.strip().startswith("rollout/reward"))
    assert row.split()[1:] == ["3.12%", "5.00e-01", "3.33e-01", "4,194,304"]
    assert out.splitlines()[-1] == "1 of 1 differ from cpu"


def test_a_difference_speaks_of_conditions_and_of_one_head_each(run, tmp_path, monkeypatch):
    # Heads from another program than the ledgers', as for native numerics beside exact.
    monkeypatch.setattr(differences, "digest_of", lambda config: "ab" * 32)
    names, kept = "cpu,cpu:threads=1", tmp_path / "kept"
    words = ["--platforms", names, "--iterations", "2", "--run-dir", kept]
    status, out, _, _ = run(*words, faulty=("cpu:threads=1",))
    first, second = (line.split()[2][:16] for line in out.splitlines()[:2])
    text = " ".join(out.split())
    assert status == 1
    assert f"run A cpu (bits {first}, native on cpu, 2 iterations)" in text
    assert f"run B cpu:threads=1 (bits {second}, native on cpu, 2 iterations)" in text
    last = (kept / "1-cpu-threads=1" / "ledger.jsonl").read_bytes().splitlines()[-1]
    own = json.loads(last)["bits"][:16]
    assert own != second
    assert "the head of B is counted from A's program" in text and f"it is {own}" in text
    assert "that it planned" not in text and str(tmp_path) not in out


def test_one_iteration_is_one(run):
    _, out, err, _ = run("--platforms", "cpu,cpu:cores=1", "--iterations", "1")
    assert out.splitlines()[-1] == "EQUAL: 2 conditions, 1 iteration"
    assert "cpu:cores=1: 1 iteration\n" in err


def test_heads_of_one_program_need_no_note(run):
    _, out, _, _ = run("--platforms", "cpu,cpu:threads=1", faulty=("cpu:threads=1",))
    assert "the head of B" not in out


def test_json(run):
    names = "cpu,cpu:cores=1,cpu:threads=1"
    status, out, _, _ = run("--platforms", names, "--json", faulty=("cpu:threads=1",))
    found = json.loads(out)
    assert (status, found["equal"], found["iterations"]) == (1, False, 3)
    heads = [each["bits"] for each in found["conditions"]]
    assert heads[0] == heads[1] != heads[2]
    (difference,) = found["differences"]
    assert difference["conditions"] == ["cpu", "cpu:threads=1"]
    assert (difference["iteration"], difference["stage"]) == (1, "rollout")
    assert (difference["step"], difference["environment"]) == (5, 2)
    assert set(difference["tolerance"]) == {"rollout/reward"}
    assert difference["tolerance"]["rollout/reward"]["max_ulp"] == 1 << 22
    status, out, _, _ = run("--platforms", "cpu,cpu", "--json", "--iterations", "1")
    assert (status, json.loads(out)["equal"], json.loads(out)["differences"]) == (0, True, [])


def test_conditions_run_the_config_with_everything_kept(run, tmp_path):
    kept = tmp_path / "kept"
    _, _, _, asked = run(
        "--platforms", "cpu:native,cpu:threads=2", "--iterations", "2", "--run-dir", kept
    )
    for _, config, folder in asked:
        assert config.audit.keep_segments == "all"
        assert (config.checkpoint.every, config.checkpoint.keep) == (1, 2)
        assert config.total_steps == 192  # the run is the config's own, cut short
        assert sorted(each.name for each in folder.iterdir() if each.is_dir()) == [
            "checkpoints",
            "segments",
        ]
    assert sorted(each.name for each in kept.iterdir()) == ["0-cpu-native", "1-cpu-threads=2"]
    status, _, err, _ = run("--platforms", "cpu,cpu", "--run-dir", kept)
    assert status == 2 and "which is not empty; name a new folder" in err


def test_a_numerics_of_a_condition_replaces_that_of_the_config(run):
    seen = run("--platforms", "cpu:exact,rocm", "--iterations", "1")
    assert seen[0] == 3  # no plugin: nothing was asked of any process
    assert seen[3] == []
    assert "asked for rocm, but no plugin for it is installed" in seen[2]
    assert ".venv/bin/pip install -e '.[rocm]'" in seen[2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--platforms", "cpu,cpu", "--iterations", "0"], "--iterations: got 0, want at least 1"),
        (["--platforms", "cpu,gpu"], "no platform 'gpu'"),
        (["--platforms", "cpu,cpu", "--set", "seed=-1"], "seed"),
    ],
)
def test_wrong_use(run, words, said):
    status, out, err, asked = run(*words)
    assert (status, out, asked) == (2, "", [])
    assert said in err


def test_a_device_that_is_not_here_is_found_before_any_run(run, monkeypatch):
    # The plugin is installed, but its process finds no device.
    monkeypatch.setattr(compare.conditions, "check", lambda condition, config: None)
    asked = run("--platforms", "cpu,rocm,cuda", "--iterations", "1")[3]
    assert [(name, folder) for name, _, folder in asked[:2]] == [("rocm", None), ("cuda", None)]
    assert [name for name, _, _ in asked[2:]] == ["cpu", "rocm", "cuda"]


# --- real processes ------------------------------------------------------------------------------


def test_a_process_says_that_it_is_here_and_that_it_lacks_devices(configure):
    config = configure("numerics=native")
    assert differences.ask(config, Condition("cpu"), None, 1) == "here"
    with pytest.raises(MachineError, match="condition more: asked for 2 devices of cpu, .* has 1"):
        differences.ask(config, Condition("more", spread=2), None, 1)


@pytest.mark.parametrize(
    ("code", "error"),
    [(1, ConsistencyError), (2, InputError), (3, MachineError), (9, MachineError)],
)
def test_the_failure_of_a_process_is_the_callers(tmp_path, monkeypatch, code, error):
    (tmp_path / "failing.py").write_text(
        f"import sys; print('x: y', file=sys.stderr); exit({code})"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(error, match=rf"condition c: x: y \(its process ended with {code}\)"):
        process.answer(Condition("c"), ("failing",), "{}")


@pytest.mark.slow
def test_native_numerics_in_real_processes(small, capsys):
    words = ["--config", str(small), "--set", "numerics=native", "--iterations", "2"]
    names = "cpu,cpu:threads=1,cpu:cores=1,cpu:exact"
    assert cli.run(compare.main, [*words, "--platforms", names, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    heads = [each["bits"] for each in found["conditions"]]
    assert heads[0] == heads[1] == heads[2] != heads[3]
    assert found["differences"][0]["cause"]["class"] == "configuration"


@pytest.mark.slow
def test_exact_numerics_in_real_processes(small, capsys):
    words = ["--config", str(small), "--set", "numerics=exact", "--iterations", "2"]
    names = "cpu,cpu:devices=2:isa=AVX,cpu:threads=1:vector=512"
    assert cli.run(compare.main, [*words, "--platforms", names]) == 0
    assert "EQUAL: 3 conditions, 2 iterations" in capsys.readouterr().out
