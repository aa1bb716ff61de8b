"""The doctor as a command: exit status, one line a finding, JSON, and XLA asked afresh."""

import json
import re
import time
from pathlib import Path

from rlkjax import cli, doctor
from rlkjax.platform import doctor_jax, machine
from rlkjax.platform.machine import Machine

DOCTOR = "import sys; from rlkjax import cli, doctor; sys.exit(cli.run(doctor.main))"


def test_a_fault_is_exit_status_1_and_one_line(python) -> None:
    done = python(DOCTOR, PJRT_NPROC="2", JAX_ENABLE_X64="1")
    lines = done.stdout.splitlines()
    assert done.returncode == 1, done.stderr
    assert [line for line in lines if "JAX_ENABLE_X64" in line] == [
        "fault variable: JAX_ENABLE_X64=1: numbers become 64 bits wide; touches exact: the run is "
        "refused, native: the run is refused; fix: unset JAX_ENABLE_X64"
    ]
    assert lines[-1].startswith("doctor: faults 1, notes")


def test_notes_alone_are_exit_status_0(monkeypatch, capsys) -> None:
    sound = Machine(packages={"jax": "0.10.2", "jaxlib": "0.10.2"}, cores=2, affinity=(0, 1))
    monkeypatch.setattr(machine, "capture", lambda deadline: sound)
    monkeypatch.setattr(doctor_jax, "ask_xla", lambda environment: "")
    assert cli.run(doctor.main, []) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["note", "doctor:"]


def test_json_holds_findings_and_fingerprint(python) -> None:
    done = python(DOCTOR, "--json", MIOPEN_FIND_ENFORCE="4", PJRT_NPROC="2")
    shown = json.loads(done.stdout)
    assert done.returncode == 1 and shown["faults"] == 1
    assert [each["name"] for each in shown["findings"] if each["fault"]] == ["variable"]
    assert shown["fingerprint"]["environment.MIOPEN_FIND_ENFORCE"] == "4"


def test_a_misspelt_flag_and_a_late_one_are_found_by_asking_xla(python, tmp_path) -> None:
    done = python(DOCTOR, XLA_FLAGS="--xla_cpu_enable_fast_maht=false")
    assert "did you mean xla_cpu_enable_fast_math" in done.stdout
    done = python(DOCTOR, XLA_FLAGS="--xla_force_host_platform_device_count=two")
    assert "XLA does not accept them" in done.stdout
    # A sitecustomize that starts JAX reads XLA's flags before anyone can set them.
    early = "import jax; jax.devices()"
    (tmp_path / "sitecustomize.py").write_text(early)
    environment = {"PYTHONPATH": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    begin = time.monotonic()
    done = python("import sys; " + DOCTOR, **environment)
    assert time.monotonic() - begin < 60
    assert "XLA read its flags before --" in done.stdout and done.returncode == 1


def test_a_machine_without_a_working_xla_is_a_sentence(monkeypatch) -> None:
    monkeypatch.setattr(doctor_jax.sys, "executable", "false")
    said = doctor_jax.ask_xla({})
    assert said == "a process that sets XLA's flags ended with 1 (no message)"


def test_a_slow_xla_is_a_sentence() -> None:
    assert doctor_jax.ask_xla({}, seconds=0.001) == "XLA did not start within 0.001 s"


def test_the_table_of_symptoms_names_commands_and_lines_that_exist() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "troubleshooting.md").read_text()
    assert set(re.findall(r"python -m rlkjax\.(\w+)", text)) <= set(cli.VERBS)
    source = "".join(
        (Path(doctor_jax.__file__).parent / f"doctor_{name}.py").read_text()
        for name in ("cpu", "gpu", "jax", "variables")
    )
    known = set(re.findall(r'Finding\(\s*"([\w-]+)"', source))
    named = re.findall(r"doctor`?, lines? ((?:`[\w-]+`(?:, | and | or )?)+)", text)
    lines = {name for each in named for name in re.findall(r"`([\w-]+)`", each)}
    assert lines and lines <= known
