"""The fingerprint: plain values, the same twice, and a word on what each difference can change."""

import json
import re

from rlkjax.platform import fingerprint


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
