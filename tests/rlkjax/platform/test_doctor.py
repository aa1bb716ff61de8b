"""The doctor's checks, each on a machine that is made up."""

import re
import tomllib
from pathlib import Path

import pytest

from rlkjax import doctor
from rlkjax.platform import doctor_jax, doctor_variables, flags
from rlkjax.platform.doctor_findings import NOTHING, REFUSED, Finding
from rlkjax.platform.gpu_tools import Answer
from rlkjax.platform.machine import Machine

ROOT = Path(__file__).resolve().parents[3]
H200 = "NVIDIA H200, 570.1, 96.00, 9.0, 143771 MiB, Enabled, Disabled\n"
A100 = "NVIDIA A100, 570.1, 92.00, 8.0, 81920 MiB, Enabled, Disabled\n"
GFX942 = "Agent 1\n  Name: gfx942\n  Device Type: GPU\n"

# A healthy machine without a GPU: nothing but a pinned pool.
SOUND = Machine(
    governors=("performance",),
    environment={"PJRT_NPROC": "4"},
    packages={"jax": "0.10.2", "jaxlib": "0.10.2"},
    cores=4,
    affinity=(0, 1, 2, 3),
    xla="",
)
CUDA = {"jax-cuda12-plugin": "0.10.2", "jax-cuda12-pjrt": "0.10.2"}
ROCM = {"jax-rocm7-plugin": "0.10.2", "jax-rocm7-pjrt": "0.10.2"}


def with_variables(**variables: str) -> Machine:
    return SOUND._replace(environment={**SOUND.environment, **variables})


def with_packages(**changes: object) -> Machine:
    packages = dict(SOUND.packages)
    packages.update({name.replace("_", "-"): version for name, version in changes.items()})
    return SOUND._replace(packages=packages)


def with_gpu(platform: str, tools=None, packages=None, **variables: str) -> Machine:
    installed = {"rocm": ROCM, "cuda": CUDA}[platform] if packages is None else packages
    return with_variables(**variables)._replace(
        nodes=(platform,), packages={**SOUND.packages, **installed}, tools=tools or {}
    )


def test_a_sound_machine_has_no_finding() -> None:
    assert doctor.examine(SOUND) == []
    assert doctor.examine(with_gpu("rocm", {"rocminfo": Answer(GFX942)})) == []
    assert doctor.examine(with_gpu("cuda", {"nvidia-smi": Answer(H200)})) == []


FAULTS = [
    (with_variables(JAX_ENABLE_X64="1"), "JAX_ENABLE_X64=1", "unset JAX_ENABLE_X64"),
    (with_variables(JAX_DISABLE_JIT="true"), "not compiled", "unset JAX_DISABLE_JIT"),
    (
        with_variables(JAX_THREEFRY_PARTITIONABLE="0"),
        "depend on how arrays are laid out",
        "unset JAX_THREEFRY_PARTITIONABLE",
    ),
    (with_variables(JAX_DEFAULT_PRNG_IMPL="rbg"), "other bits", "unset JAX_DEFAULT_PRNG_IMPL"),
    (with_variables(NVIDIA_TF32_OVERRIDE="1"), "TF32", "unset NVIDIA_TF32_OVERRIDE"),
    (
        with_variables(JAX_DEFAULT_MATMUL_PRECISION="tensorfloat32"),
        "lose precision",
        "unset JAX_DEFAULT_MATMUL_PRECISION",
    ),
    (with_variables(MIOPEN_FIND_ENFORCE="SEARCH"), "MIOpen", "unset MIOPEN_FIND_ENFORCE"),
    (with_variables(MIOPEN_FIND_MODE="1"), "may search", "unset MIOPEN_FIND_MODE"),
    (with_variables(HIPBLASLT_TUNING_FILE="/a/b"), "<path>", "unset HIPBLASLT_TUNING_FILE"),
    (
        with_variables(HIP_VISIBLE_DEVICES="3", ROCR_VISIBLE_DEVICES="3"),
        "HIP_VISIBLE_DEVICES asks for device 3",
        "unset HIP_VISIBLE_DEVICES",
    ),
    (
        with_variables(HIP_VISIBLE_DEVICES="0", CUDA_VISIBLE_DEVICES="1"),
        "CUDA_VISIBLE_DEVICES is '1'",
        "unset HIP_VISIBLE_DEVICES",
    ),
    (with_variables(CUDA_VISIBLE_DEVICES=""), "is empty", "unset CUDA_VISIBLE_DEVICES"),
    (with_variables(PJRT_NPROC="two"), "PJRT_NPROC is 'two'", "unset PJRT_NPROC"),
    (with_variables(PJRT_NPROC="9" * 5000), "not a number", "unset PJRT_NPROC"),
    (with_variables(NPROC="2"), "NPROC is 2, but PJRT_NPROC is 4", "unset NPROC"),
    (
        SOUND._replace(environment={}, affinity=(1,)),
        "may use 1 of 4 cores, so XLA starts 1 worker",
        "export PJRT_NPROC=1",
    ),
    (with_variables(XLA_FLAGS="flags.txt"), "a file of flags is not read", "unset XLA_FLAGS"),
    (
        with_variables(XLA_FLAGS="--xla_cpu_enable_fast_math=true --xla_dump_to=x"),
        "--xla_cpu_enable_fast_math=true, where false is pinned",
        "export XLA_FLAGS='--xla_dump_to=x'",
    ),
    (
        with_variables(XLA_FLAGS="--xla_gpu_autotune_level=4"),
        "chosen by timing",
        "unset XLA_FLAGS",
    ),
    (
        with_gpu("rocm", XLA_FLAGS="--xla_gpu_autotune_level=4"),
        "where 0 is pinned",
        "unset XLA_FLAGS",
    ),
    (SOUND._replace(xla="XLA read its flags before"), "read its flags before", "unset XLA_FLAGS"),
    (with_variables(JAX_PLATFORMS="cuda,cpu"), "can compute on cpu", "unset JAX_PLATFORMS"),
    (
        with_gpu("rocm", packages={}),
        "a rocm GPU is there, but no JAX plugin",
        "python -m pip install 'jax[rocm7-local]'",
    ),
    (
        SOUND._replace(packages={**SOUND.packages, **ROCM}),
        "jax-rocm7-plugin is installed, but no device node /dev/kfd",
        "sudo modprobe amdgpu",
    ),
    (
        with_gpu("cuda", packages={**CUDA, "jax-cuda13-plugin": "0.10.2"}),
        "both installed",
        "python -m pip uninstall jax-cuda12-plugin",
    ),
    (
        with_gpu("cuda", packages={**CUDA, "jax-cuda12-plugin": "0.10.1"}),
        "jax-cuda12-plugin is 0.10.1, but jax is 0.10.2",
        "python -m pip install 'jax-cuda12-plugin==0.10.2'",
    ),
    (
        with_packages(jaxlib="0.10.1"),
        "jaxlib is 0.10.1",
        "python -m pip install 'jaxlib==0.10.2'",
    ),
    (
        with_packages(jax="0.13.0", jaxlib="0.13.0"),
        "outside what was tested",
        "python -m pip install 'jax>=0.10.2,<0.13'",
    ),
    (SOUND._replace(packages={}), "jax is not installed", "python -m pip install"),
    (
        with_gpu("cuda", {"nvidia-smi": Answer(H200 * 2)}),
        "2 GPUs are visible; a run uses the first",
        "export CUDA_VISIBLE_DEVICES=0",
    ),
    (
        with_gpu("cuda", {"nvidia-smi": Answer(H200 + A100)}),
        "2 GPUs are visible, of different kinds",
        "export CUDA_VISIBLE_DEVICES=0",
    ),
    (
        with_gpu("rocm", HIP_VISIBLE_DEVICES="0,1"),
        "2 GPUs are visible",
        "export ROCR_VISIBLE_DEVICES=0",
    ),
    (
        with_gpu("rocm", {"rocminfo": Answer("", "no answer in 2 s")}),
        "rocminfo: no answer in 2 s",
        "sudo dmesg | grep -i amdgpu",
    ),
    (
        with_gpu("rocm")._replace(closed=("rocm",)),
        "may not open /dev/kfd",
        "sudo usermod -aG render,video",
    ),
]


@pytest.mark.parametrize(("machine", "what", "fix"), FAULTS, ids=[each[1] for each in FAULTS])
def test_a_fault_is_found_alone_with_its_fix(machine: Machine, what: str, fix: str) -> None:
    faults = [finding for finding in doctor.examine(machine) if finding.fault]
    assert len(faults) == 1, faults
    assert what in faults[0].what
    assert faults[0].fix.startswith(fix)
    assert faults[0].exact and faults[0].native


NOTES = [
    (SOUND._replace(environment={}), "4 worker threads", "export PJRT_NPROC=4"),
    (SOUND._replace(quota=1.5), "allows 1.5 cores to 4", "export PJRT_NPROC=1"),
    (with_variables(PJRT_NPROC="8"), "8 worker threads share 4", "export PJRT_NPROC=4"),
    (SOUND._replace(governors=("performance", "powersave")), "powersave", "sudo cpupower"),
    (SOUND._replace(files={"boost": "1"}), "boost is on", "echo 0 | sudo tee"),
    (SOUND._replace(files={"no_turbo": "0"}), "boost is on", "echo 1 | sudo tee"),
    (with_variables(XLA_FLAGS="--xla_own=1"), "--xla_own, which is yours", "unset XLA_FLAGS"),
    (with_variables(LD_PRELOAD="libm.so"), "C library", "unset LD_PRELOAD"),
    (SOUND._replace(kernels="not built"), "longer on CPU: not built", "python -m rlkjax.kernels"),
    (SOUND._replace(kernels="RLKJAX_KERNELS=off"), "RLKJAX_KERNELS=off", "unset RLKJAX_KERNELS"),
    (
        SOUND._replace(tools={"rocm-smi": Answer("", "failed with status 1")}),
        "failed with status 1",
        "sudo dmesg",
    ),
]


@pytest.mark.parametrize(("machine", "what", "fix"), NOTES, ids=[each[1] for each in NOTES])
def test_a_note_is_no_fault(machine: Machine, what: str, fix: str) -> None:
    (note,) = doctor.examine(machine)
    assert not note.fault and what in note.what and note.fix.startswith(fix)


def test_exact_bits_are_touched_by_nothing_but_refusals_and_own_draws() -> None:
    touched = {finding.exact for machine, _, _ in FAULTS for finding in doctor.examine(machine)}
    assert touched - {NOTHING, REFUSED} == {
        "draws of an environment of your own",
        doctor_jax.PROGRAMS,
    }


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"PJRT_NPROC": ""},
        {"XLA_FLAGS": "'"},
        {"XLA_FLAGS": "--a=1 --a=2"},
        {"JAX_PLATFORMS": ","},
    ],
)
def test_an_odd_machine_is_no_crash(variables: dict[str, str]) -> None:
    for cores in (0, 1):
        for finding in doctor.examine(Machine(environment=variables, cores=cores)):
            assert "\n" not in finding.line()


def test_every_variable_that_a_run_refuses_is_a_fault_here() -> None:
    for name, agreeing, _ in flags._VARIABLES:
        (rule,) = [each for each in doctor_variables.RULES if re.fullmatch(each.name, name)]
        assert rule.fault and rule.agreeing == agreeing and rule.native == REFUSED


def test_the_tested_versions_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"jax>={doctor_jax.TESTED[0]},<{doctor_jax.TESTED[1]}" in project["dependencies"]


def test_builds_of_one_release_belong_together() -> None:
    machine = with_packages(jax="0.12.0.1", jaxlib="0.12.0")
    assert doctor.examine(machine) == []


def test_a_finding_is_one_printable_line() -> None:
    finding = Finding("x", True, "two\nlines é '1'", NOTHING, NOTHING, "unset A")
    assert finding.line() == (
        "fault x: two lines \\xe9 '1'; touches exact: nothing, native: nothing; fix: unset A"
    )
