"""The fingerprint: plain values, the same twice, and a word on what each difference can change."""

import json
import re
import time

import pytest

from rlkjax.platform import fingerprint, machine
from rlkjax.platform.gpu_tools import Answer
from rlkjax.platform.machine import Machine


def test_it_is_flat_plain_and_the_same_twice() -> None:
    first, second = fingerprint.collect(), fingerprint.collect()
    assert fingerprint.canonical(first) == fingerprint.canonical(second)
    assert {type(value) for value in first.values()} <= {str, int}
    assert json.loads(fingerprint.canonical(first)) == first
    assert list(first) == sorted(first)


def test_it_holds_what_bits_can_depend_on() -> None:
    found = fingerprint.collect()
    for key in ("os.libc", "cpu.model", "cpu.features", "cpu.threads", "cpu.affinity", "xla.flags"):
        assert found[key] != ""
    for name in ("jax", "jaxlib", "flax", "optax", "numpy", "brax", "mujoco", "safetensors"):
        assert re.fullmatch(r"\d.*|absent", str(found[f"package.{name}"]))


def test_no_path_host_or_secret_is_in_it(monkeypatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_ftz=true --xla_dump_to=/somewhere/else")
    monkeypatch.setenv("MIOPEN_USER_DB_PATH", "/somewhere/else")
    monkeypatch.setenv("JAX_COORDINATOR_ADDRESS", "machine.example:1234")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    found = fingerprint.collect()
    assert found["xla.flags"] == "--xla_gpu_ftz=true --xla_dump_to=<path>"
    assert found["environment.MIOPEN_USER_DB_PATH"] == "<path>"
    assert found["environment.OMP_NUM_THREADS"] == "3"
    text = fingerprint.canonical(found).decode()
    assert "somewhere" not in text and "machine.example" not in text


def test_threads_follow_the_variable_that_xla_reads(monkeypatch) -> None:
    monkeypatch.setenv("NPROC", "5")
    assert fingerprint.collect()["cpu.threads"] == "5"
    monkeypatch.setenv("PJRT_NPROC", "7")
    assert fingerprint.collect()["cpu.threads"] == "7"


def test_canonical_bytes_are_written_out() -> None:
    assert fingerprint.canonical({"b": 1, "a": "é"}) == b'{"a":"\\u00e9","b":1}'


def test_differences_name_both_sides_and_the_effect() -> None:
    a = {"cpu.threads": "1", "package.jaxlib": "0.10.2", "os.kernel": "6.1", "gone": 1}
    b = {"cpu.threads": "2", "package.jaxlib": "0.12.0", "os.kernel": "6.1", "new": 2}
    found = fingerprint.differences(a, b)
    assert [(each.key, each.a, each.b) for each in found] == [
        ("cpu.threads", "1", "2"),
        ("gone", 1, "absent"),
        ("new", "absent", 2),
        ("package.jaxlib", "0.10.2", "0.12.0"),
    ]
    assert "threads" in found[0].effect and "compiler" in found[3].effect


def test_every_key_has_an_effect() -> None:
    found = fingerprint.collect({"device.kind": "cpu"})
    changed = {key: "other" for key in found}
    unknown = [
        each.key for each in fingerprint.differences(found, changed) if each.effect == "unknown"
    ]
    assert unknown == []


def test_two_looks_are_cheap_and_equal(monkeypatch) -> None:
    monkeypatch.setattr(machine.gpu_tools, "run", lambda deadline: {})
    begin = time.perf_counter()
    first = machine.capture()
    assert time.perf_counter() - begin < 1  # 0.08 s on two quiet cores,
    assert fingerprint.collect(machine=first) == fingerprint.collect()


def test_a_made_up_machine_is_written_down() -> None:
    cpuinfo = "cpu family\t: 6\nmodel\t\t: 85\nmodel name\t: Xeon\nflags\t\t: sse fma avx sse\n"
    seen = Machine(
        files={"cpuinfo": cpuinfo, "no_turbo": "1", "rocm": "7.0.0-1"},
        governors=("performance", "powersave"),
        quota=1.5,
        environment={"PJRT_NPROC": "3", "HIP_VISIBLE_DEVICES": "0", "NCCL_COMM_ID": "10.0.0.1:1"},
        packages={"jax": "0.12.0", "nvidia-cublas-cu12": "12.9"},
        cores=8,
        affinity=(0, 2),
        tools={"rocminfo": Answer("", "no answer in 5 s")},
    )
    found = fingerprint.collect({"device.kind": "MI300X"}, seen)
    assert found["cpu.model"] == "Xeon" and found["cpu.family"] == "6 85"
    assert found["cpu.features"] == "avx fma sse"
    assert found["cpu.boost"] == "0" and found["cpu.governor"] == "performance,powersave"
    assert found["cpu.quota"] == "1.5 cores" and found["cpu.affinity"] == "0,2"
    assert found["cpu.threads"] == "3" and found["rocm.version"] == "7.0.0-1"
    assert found["package.nvidia-cublas-cu12"] == "12.9" and found["package.optax"] == "absent"
    assert found["gpu.rocminfo"] == "no answer in 5 s" and found["gpu.nvidia-smi"] == "absent"
    assert found["environment.HIP_VISIBLE_DEVICES"] == "0"
    assert "environment.NCCL_COMM_ID" not in found
    assert found["device.kind"] == "MI300X"


def test_a_machine_that_shows_nothing_has_a_fingerprint() -> None:
    found = fingerprint.collect(machine=Machine())
    assert found["cpu.model"] == found["cpu.threads"] == found["cpu.boost"] == "unknown"


def test_of_two_lists_of_features_only_the_difference_is_shown() -> None:
    common = " ".join(f"f{number:02}" for number in range(30))
    a, b = {"cpu.features": common + " fma"}, {"cpu.features": common}
    assert fingerprint.differences(a, b)[0][1:3] == ("fma", "without")


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"/proc/self/cgroup": "0::/", "/sys/fs/cgroup/cpu.max": "150000 100000"}, 1.5),
        ({"/proc/self/cgroup": "0::/", "/sys/fs/cgroup/cpu.max": "max 100000"}, None),
        (
            {
                "/proc/self/cgroup": "0::/user/session",
                "/sys/fs/cgroup/user/cpu.max": "50000 100000",
                "/sys/fs/cgroup/user/session/cpu.max": "200000 100000",
            },
            0.5,
        ),
        (
            {
                "/proc/self/cgroup": "4:cpu,cpuacct:/job\n3:memory:/job",
                "/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "400000",
                "/sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000",
            },
            4.0,
        ),
        ({"/proc/self/cgroup": "odd\n::\n0"}, None),
        ({}, None),
    ],
)
def test_the_quota_of_a_control_group(files: dict[str, str], cores: float | None) -> None:
    assert machine.quota(lambda path: files.get(path, "")) == cores
