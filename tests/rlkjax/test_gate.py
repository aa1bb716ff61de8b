"""The gate: what is judged against stored heads, what has changed since, and the command."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from rlkjax import cli, gate, gate_heads, gate_runs
from rlkjax.config import load_config, program_config
from rlkjax.errors import InputError, MachineError
from rlkjax.gate_heads import Made

ROOT = Path(__file__).resolve().parents[2]
OLD, NEW = "a" * 64, "b" * 64
CPU = {"cpu.model": "EPYC", "cpu.features": "avx fma ht", "cpu.threads": "2", "device.kind": "cpu"}


def made(bits: str = OLD, numerics: str = "native", **changes) -> Made:
    """A run as it may come out; changes: fingerprint, code, config, failure, name."""
    machine = {**CPU, "package.jaxlib": "0.10.2", "xla.flags": "--f=1"}
    origin = {
        "code": changes.get("code", {"rlkjax.gae": "11", "rlkjax.ppo": "22"}),
        "fingerprint": {**machine, **changes.get("fingerprint", {})},
    }
    config = {"task": "cartpole", "ppo": {"epochs": 1}, **changes.get("config", {})}
    failure = changes.get("failure", "")
    return Made(changes.get("name", "run"), numerics, bits, failure, config, origin)


def stored(*runs: Made) -> dict:
    """What is read back of a file with the heads of some runs."""
    found = gate_heads.empty()
    for each in runs or (made(),):
        found = gate_heads.accept(found, each)
    return gate_heads.parse(gate_heads.text(found), "heads.json")


@pytest.mark.parametrize("numerics", ["exact", "native"])
def test_an_equal_head_is_good_and_a_moved_one_is_not(numerics: str) -> None:
    heads = stored(made(numerics=numerics))
    assert gate_heads.judge(heads, made(numerics=numerics)).state == "equal"
    verdict = gate_heads.judge(heads, made(NEW, numerics))
    assert (verdict.state, verdict.stored, verdict.got) == ("moved", OLD, NEW)
    assert verdict.changes == ()


def test_what_has_changed_since_is_named() -> None:
    now = made(
        NEW,
        code={"rlkjax.gae": "33", "rlkjax.new": "44"},
        fingerprint={"package.jaxlib": "0.12.0", "xla.flags": "--f=2"},
        config={"ppo": {"epochs": 3}},
    )
    assert gate_heads.judge(stored(), now).changes == (
        "config ppo.epochs 1 -> 3",
        "package.jaxlib 0.10.2 -> 0.12.0",
        "xla.flags --f=1 -> --f=2",
        "code rlkjax.gae, rlkjax.new, rlkjax.ppo",
    )


def test_native_heads_are_those_of_the_hardware_and_of_no_other() -> None:
    heads = stored()
    other = made(NEW, fingerprint={"cpu.model": "Xeon"})
    assert gate_heads.judge(heads, other).state == "unknown"
    both = stored(made(), other)
    assert gate_heads.judge(both, made()).state == gate_heads.judge(both, other).state == "equal"
    # A version, a flag, or a feature that no arithmetic uses, is the same hardware.
    for change in ({"package.jaxlib": "9"}, {"cpu.features": "avx fma ibpb"}, {"os.kernel": "7"}):
        assert gate_heads.judge(heads, made(NEW, fingerprint=change)).state == "moved"
    for change in (
        {"cpu.features": "avx"},
        {"cpu.threads": "1"},
        {"device.kind": "MI300X"},
        {"python.version": "3.12.1"},
    ):
        assert gate_heads.judge(heads, made(NEW, fingerprint=change)).state == "unknown"


def test_an_exact_head_is_judged_on_any_hardware() -> None:
    other = made(NEW, "exact", fingerprint={"cpu.model": "Xeon"})
    assert gate_heads.judge(stored(made(numerics="exact")), other).state == "moved"


def test_a_run_without_any_head_is_new_and_a_failed_one_failed() -> None:
    assert gate_heads.judge(stored(), made(name="other")).state == "new"
    assert gate_heads.judge(stored(), made(numerics="exact")).state == "new"
    verdict = gate_heads.judge(stored(), made("", failure="halt: a bit differs"))
    assert (verdict.state, verdict.changes) == ("failed", ("halt: a bit differs",))


def test_configs_and_origins_that_no_head_needs_are_dropped() -> None:
    again = gate_heads.accept(stored(), made(NEW, config={"ppo": {"epochs": 9}}))
    kept = json.loads(gate_heads.text(again))
    assert [each["ppo"]["epochs"] for each in kept["configs"].values()] == [9]
    assert json.loads(gate_heads.text(gate_heads.without(again, {"run"})))["configs"] == {}


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-20],
        lambda text: text.replace("rlkjax-gate/1", "rlkjax-gate/2"),
        lambda text: text.replace(OLD, OLD[:-1]),
        lambda text: re.sub('"origin": "[0-9a-f]+"', '"origin": "0"', text),
        lambda text: "[]",
        lambda text: "",
        lambda text: '{"format": "rlkjax-gate/1", "heads": 3}',
    ],
)
def test_a_damaged_file_is_a_sentence(damage) -> None:
    with pytest.raises(InputError, match="heads.json: got no heads of rlkjax-gate/1"):
        gate_heads.parse(damage(gate_heads.text(stored())), "heads.json")


# --- the command, with runs that are made up ------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A folder with one config; its two runs come out as `bits.json` says."""
    (tmp_path / "run.yaml").write_text("# A run.\ntask: cartpole\ntotal_steps: 1024\n")
    (tmp_path / "bits.json").write_text(json.dumps({"exact": OLD, "native": OLD}))

    def run(planned):
        bits = json.loads((tmp_path / "bits.json").read_text())
        return [
            made(bits[numerics], numerics, name=name, failure="" if bits[numerics] else "halted")
            for name, numerics in planned
        ]

    monkeypatch.setattr(gate_runs, "run", run)
    return tmp_path


def run_gate(capsys, folder: Path, *arguments: str) -> tuple[int, str, str]:
    status = cli.run(gate.main, [*arguments, "--config-dir", str(folder)])
    return status, *capsys.readouterr()


def test_check_accept_check(folder, capsys) -> None:
    status, out, _ = run_gate(capsys, folder, "check")
    assert status == 1 and out.splitlines()[-1] == "gate: 0 equal, 0 moved, 0 unknown, 2 new"
    assert run_gate(capsys, folder, "accept", "--reason", "first heads")[0] == 0
    status, out, _ = run_gate(capsys, folder, "check")
    assert status == 0 and out.splitlines()[-1] == "gate: 2 equal, 0 moved, 0 unknown, 0 new"
    (folder / "bits.json").write_text(json.dumps({"exact": OLD, "native": NEW}))
    status, out, _ = run_gate(capsys, folder, "check")
    assert status == 1
    assert "moved    run native aaaaaaaaaaaa -> bbbbbbbbbbbb; changed since:\n  nothing that" in out
    assert run_gate(capsys, folder, "accept", "--reason", "another\n order")[0] == 0
    assert (folder / "ACCEPTED.md").read_text() == (
        "# Accepted heads\n\nWritten by `python -m rlkjax.gate accept`, newest last.\n"
        "\n## first heads\n\n- run, exact: none -> aaaaaaaaaaaa\n- run, native: none -> "
        "aaaaaaaaaaaa\n\n## another order\n\n- run, native: aaaaaaaaaaaa -> bbbbbbbbbbbb\n"
    )
    assert run_gate(capsys, folder, "check")[0] == 0
    before = (folder / "ACCEPTED.md").read_text()
    assert "nothing has moved" in run_gate(capsys, folder, "accept", "--reason", "no need")[2]
    assert (folder / "ACCEPTED.md").read_text() == before


def test_accept_needs_a_reason_and_check_takes_none(folder, capsys) -> None:
    for reason in ([], ["--reason", " \n"]):
        status, _, err = run_gate(capsys, folder, "accept", *reason)
        assert status == 2 and "--reason: got none, want why heads may move" in err
    status, _, err = run_gate(capsys, folder, "check", "--reason", "x")
    assert status == 2 and "leave it out" in err
    assert not (folder / "heads.json").exists()


def test_accept_stores_nothing_where_a_run_fails(folder, capsys) -> None:
    (folder / "bits.json").write_text(json.dumps({"exact": OLD, "native": ""}))
    status, out, err = run_gate(capsys, folder, "accept", "--reason", "x")
    assert status == 1 and "failed   run native: halted" in out and "nothing was stored" in err
    assert not (folder / "heads.json").exists() and not (folder / "ACCEPTED.md").exists()


def test_a_head_without_a_config_fails_until_it_is_accepted(folder, capsys) -> None:
    run_gate(capsys, folder, "accept", "--reason", "first")
    (folder / "run.yaml").rename(folder / "other.yaml")
    status, out, _ = run_gate(capsys, folder, "check")
    assert status == 1 and "gone     run: a head is stored, but there is no config" in out
    run_gate(capsys, folder, "accept", "--reason", "renamed")
    assert run_gate(capsys, folder, "check")[0] == 0
    assert "- run: no longer among the configs" in (folder / "ACCEPTED.md").read_text()


def test_another_machine_is_said_and_is_strict_if_asked(folder, capsys, monkeypatch) -> None:
    run_gate(capsys, folder, "accept", "--reason", "first")
    monkeypatch.setitem(CPU, "cpu.model", "another")
    status, out, _ = run_gate(capsys, folder, "check")
    assert (
        status == 0 and "unknown  run native aaaaaaaaaaaa: no stored head for this machine" in out
    )
    assert run_gate(capsys, folder, "check", "--strict")[0] == 1


def test_json_and_another_changelog(folder, capsys) -> None:
    log = folder / "CHANGELOG.md"
    log.write_text("# Changelog\n")
    run_gate(capsys, folder, "accept", "--reason", "first", "--changelog", str(log))
    assert log.read_text().startswith("# Changelog\n\n## first\n\n- run, exact: none -> ")
    shown = json.loads(run_gate(capsys, folder, "check", "--json")[1])
    assert [(each["name"], each["state"]) for each in shown["runs"]] == [("run", "equal")] * 2


def test_wrong_folders_and_names_are_sentences(folder, capsys, tmp_path) -> None:
    status, _, err = run_gate(capsys, folder, "check", "rnu")
    assert status == 2 and "NAME: got 'rnu', want one of run" in err
    status, _, err = run_gate(capsys, tmp_path / "none", "check")
    assert status == 2 and "want a folder with files NAME.yaml" in err
    (folder / "bad.yaml").write_text("task: cartpole\ntotal_stepz: 3\n")
    status, _, err = run_gate(capsys, folder, "check")
    assert status == 2 and "total_stepz" in err


# --- the standard set -----------------------------------------------------------------------------


def test_the_standard_set_is_what_it_should_be() -> None:
    planned = gate_runs.plan(gate.FOLDER)
    by_name = {name: config for (name, _), config in planned.items()}
    assert {config.task for config in by_name.values()} == {
        *("noisy_point", "cartpole", "sparse_grid", "pendulum")
    }
    off = by_name["control"]
    switches = {
        "control_f16_rewards": {"reward": dataclasses.replace(off.reward, dtype="float16")},
        "control_running_rewards": {"reward": dataclasses.replace(off.reward, normalize="running")},
        "control_autotune": {"autotune": True},
    }
    for name, change in switches.items():
        numerics = by_name[name].numerics
        assert by_name[name] == dataclasses.replace(off, numerics=numerics, **change)
    both = {name for name, numerics in planned if numerics == "exact"}
    assert both == {"noise", "endings", "sparse", "control", "control_running_rewards"}
    assert {name for name, numerics in planned if numerics == "native"} == set(by_name)


def test_every_run_of_the_standard_set_has_a_stored_head_of_its_config() -> None:
    heads = gate.read(gate.FOLDER)
    for (name, numerics), config in gate_runs.plan(gate.FOLDER).items():
        for entry in heads["heads"][name][numerics].values():
            kept = heads["configs"][entry["config"]]
            program = json.loads(program_config(config))
            assert {key: kept.get(key) for key in program} == program
    assert (gate.FOLDER / "ACCEPTED.md").exists()


def test_a_part_of_the_standard_set_has_its_stored_heads(capsys) -> None:
    status = cli.run(gate.main, ["check", "endings"])
    out, err = capsys.readouterr()
    assert status == 0, out + err
    assert re.search(r"^equal    endings exact [0-9a-f]{12}$", out, re.MULTILINE)
    assert re.search(r"^gate: endings exact ended after \d+ s$", err, re.MULTILINE)


def test_each_run_is_told_when_it_ends_and_not_at_the_end_of_all(capsys) -> None:
    failed = made("", failure="halted")
    lines = [json.dumps(made(OLD, "exact")._asdict()), "noise", json.dumps(failed._asdict())]
    coming = gate_runs.answers(iter(lines))
    assert next(coming) == made(OLD, "exact")
    assert capsys.readouterr().err == "gate: run exact ended after 0 s\n"
    assert list(coming) == [failed]
    assert capsys.readouterr().err == "gate: run native failed after 0 s\n"


@pytest.mark.slow
def test_the_whole_standard_set_has_its_stored_heads(capsys) -> None:
    status = cli.run(gate.main, ["check"])
    assert status == 0, capsys.readouterr()


def test_a_platform_that_is_not_here_is_exit_status_3(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("JAX_PLATFORMS")  # of the tests' own process
    text = (gate.FOLDER / "sparse.yaml").read_text().replace("platform: cpu", "platform: rocm")
    (tmp_path / "there.yaml").write_text(text)
    planned = gate_runs.plan(tmp_path)
    one = {key: config for key, config in planned.items() if key[1] == "native"}
    with pytest.raises(MachineError, match="gate: platform: asked for rocm, but no plugin"):
        gate_runs.run(one)


def test_the_workflow_runs_commands_that_exist() -> None:
    text = (ROOT / "docs" / "github-actions-gate.yml").read_text()
    assert re.findall(r"python -m rlkjax\.(\w+) (check|accept)", text)[-1] == ("gate", "check")
    assert set(re.findall(r"python -m rlkjax\.(\w+)", text)) <= set(cli.VERBS)
    for config in ("configs/gate", "requirements/lock-py3.11.txt"):
        assert (ROOT / config).exists()
    load_config(gate.FOLDER / "noise.yaml")
