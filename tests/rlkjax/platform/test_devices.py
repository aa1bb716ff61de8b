"""Devices: what is visible, and that a named platform is never replaced (pitfalls A08, A09)."""

import pytest

from rlkjax.errors import InputError, MachineError
from rlkjax.platform import devices


@pytest.mark.parametrize(
    ("environment", "seen"),
    [
        ({}, None),
        ({"ROCR_VISIBLE_DEVICES": "2,3"}, (0, 1)),
        ({"ROCR_VISIBLE_DEVICES": "3", "HIP_VISIBLE_DEVICES": "0"}, (0,)),
        ({"ROCR_VISIBLE_DEVICES": "2,3", "HIP_VISIBLE_DEVICES": "1"}, (0,)),
        ({"HIP_VISIBLE_DEVICES": "3"}, (0,)),
        ({"CUDA_VISIBLE_DEVICES": "0, 1,5"}, (0, 1, 2)),
        ({"ROCR_VISIBLE_DEVICES": "GPU-1a2b,GPU-3c4d"}, (0, 1)),
    ],
)
def test_visible_devices_are_numbered_from_zero(
    environment: dict[str, str], seen: tuple[int, ...] | None
) -> None:
    assert devices.visible_devices(environment) == seen


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        (
            {"ROCR_VISIBLE_DEVICES": "3", "HIP_VISIBLE_DEVICES": "3"},
            "HIP_VISIBLE_DEVICES asks for device 3, but ROCR_VISIBLE_DEVICES leaves 1",
        ),
        ({"HIP_VISIBLE_DEVICES": ""}, "HIP_VISIBLE_DEVICES is empty"),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, "CUDA_VISIBLE_DEVICES: got '-1'"),
        ({"ROCR_VISIBLE_DEVICES": "0,0"}, "stands twice"),
        (
            {"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"},
            "unset one of them",
        ),
    ],
)
def test_a_conflict_names_the_variable(environment: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        devices.visible_devices(environment)


def test_an_unknown_platform_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match="got 'gpu', want one of auto, cpu, rocm, cuda"):
        devices.resolve("gpu")


@pytest.mark.parametrize("platform", ["rocm", "cuda"])
def test_a_missing_platform_is_an_error_that_lists_versions(
    platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {"jax": "0.10.2", "jaxlib": "0.10.2"}
    monkeypatch.setattr(devices, "versions", lambda: found)
    said = f"asked for {platform}, .*jax 0.10.2, jaxlib 0.10.2, no GPU plugin.*platform: cpu"
    with pytest.raises(MachineError, match=said) as caught:
        devices.choose(platform)
    assert caught.value.exit_status == 3


def test_a_plugin_without_a_device_is_no_fall_back(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"jax": "0.10.2", "jax-rocm7-plugin": "0.10.2"}
    monkeypatch.setattr(devices, "versions", lambda: found)
    with pytest.raises(MachineError, match="JAX has no rocm device .*jax-rocm7-plugin 0.10.2"):
        devices.choose("rocm")


def test_auto_needs_plugin_and_device_node(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes: set[str] = set()
    monkeypatch.setattr(devices.os.path, "exists", lambda path: path in nodes)
    monkeypatch.setattr(devices, "versions", lambda: {"jax-cuda12-plugin": "0.10.2"})
    assert devices.resolve("auto") == "cpu"
    nodes.add("/dev/nvidiactl")
    assert devices.resolve("auto") == "cuda"
    monkeypatch.setattr(devices, "versions", lambda: {})
    assert devices.resolve("auto") == "cpu"


def test_cpu_is_chosen_and_described() -> None:
    assert devices.choose("cpu") == "cpu"
    assert devices.describe("cpu")["device.platform"] == "cpu"
    assert {"jax", "jaxlib"} <= set(devices.versions())
