"""GPU tools: asked with a deadline, and reduced to what stays the same."""

import json
import os
import stat
import time

import pytest

from rlkjax.platform import gpu_tools
from rlkjax.platform.gpu_tools import Answer

ROCMINFO = """\
ROCk module is loaded
HSA System Attributes
Runtime Version:         1.14
*******
Agent 1
*******
  Name:                    AMD EPYC 9654
  Marketing Name:          AMD EPYC 9654
  Device Type:             CPU
*******
Agent 2
*******
  Name:                    gfx942
  Uuid:                    GPU-1234567890abcdef
  Marketing Name:          AMD Instinct MI300X
  Device Type:             GPU
  ASIC Revision:           1(0x1)
  Max Clock Freq. (MHz):   2100
  Compute Unit:            304
  Wavefront Size:          64(0x40)
  ISA Info:
    ISA 1
      Name:                    amdgcn-amd-amdhsa--gfx942
"""
MI300X = (
    "name gfx942, marketing_name AMD Instinct MI300X, compute_unit 304, wavefront_size 64(0x40), "
    "asic_revision 1(0x1)"
)
ROCM_SMI = {
    "card1": {
        "Card Series": "MI300X",
        "VBIOS version": "113-M3",
        "GUID": "9",
        "Serial Number": "S",
    },
    "card0": {"Card Series": "MI250X", "VBIOS version": "113-M2", "Unique ID": "0x1", "GUID": "8"},
    "system": {"Driver version": "6.8.5"},
}
AMD_SMI = [
    {
        "gpu": 0,
        "asic": {"market_name": "MI350X", "asic_serial": "0x7", "num_compute_units": 256},
        "bus": {"bdf": "0000:05:00.0"},
        "driver": {"name": "amdgpu", "version": "6.18.3"},
        "ifwi": {"version": "00154951", "build_date": "2025/06/19"},
    }
]
NVIDIA = "NVIDIA H200, 570.1, 96.00.61, 9.0, 143771 MiB, Enabled, Disabled\n"
H200 = (
    "name NVIDIA H200, driver_version 570.1, vbios_version 96.00.61, compute_cap 9.0, "
    "memory 143771 MiB, ecc Enabled, mig Disabled"
)


@pytest.mark.parametrize(
    ("name", "text", "kept"),
    [
        ("rocminfo", ROCMINFO, MI300X),
        (
            "rocm-smi",
            "WARNING: low power\n" + json.dumps(ROCM_SMI),
            "card_series MI250X, vbios_version 113-M2, driver 6.8.5 | "
            "card_series MI300X, vbios_version 113-M3, driver 6.8.5",
        ),
        ("amd-smi", json.dumps(AMD_SMI), "market_name MI350X, num_compute_units 256, version"),
        ("amd-smi", json.dumps({"gpu_data": AMD_SMI * 2}), "2 x market_name MI350X, "),
        ("nvidia-smi", NVIDIA, H200),
        ("nvidia-smi", NVIDIA * 8, "8 x " + H200),
        ("rocminfo", "ROCk module is NOT loaded, possibly no GPU devices", "no GPU"),
    ],
)
def test_what_stays_the_same_is_kept(name: str, text: str, kept: str) -> None:
    assert gpu_tools.facts(name, Answer(text)).startswith(kept)


def test_nothing_that_names_one_machine_is_kept() -> None:
    said = gpu_tools.facts("rocminfo", Answer(ROCMINFO))
    said += gpu_tools.facts("rocm-smi", Answer(json.dumps(ROCM_SMI)))
    said += gpu_tools.facts("amd-smi", Answer(json.dumps(AMD_SMI)))
    for secret in ("1234567890abcdef", "0x1,", "GUID", "guid", "0x7", "0000:05", "2025/06"):
        assert secret not in said


@pytest.mark.parametrize("name", sorted(gpu_tools.TOOLS))
@pytest.mark.parametrize(
    "text", ["{", "[1]", "[[]]", '{"gpu_data": 3}', "a,b\n", "\0", "Agent 1\n"]
)
def test_an_odd_answer_is_no_crash(name: str, text: str) -> None:
    assert gpu_tools.facts(name, Answer(text)) in ("an answer that cannot be read", "no GPU")


def test_gpus_are_counted_by_maker() -> None:
    answers = {
        "rocminfo": Answer("", "no answer in 5 s"),
        "rocm-smi": Answer(json.dumps(ROCM_SMI)),
        "nvidia-smi": Answer("", "failed with status 9"),
    }
    found = gpu_tools.gpus(answers)
    assert list(found) == ["rocm"] and len(found["rocm"]) == 2


def tool(folder, name: str, script: str) -> None:
    path = folder / name
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_installed_tools_are_asked_and_a_hanging_one_is_given_up(tmp_path, monkeypatch) -> None:
    pid = tmp_path / "pid"
    tool(tmp_path, "rocminfo", f"trap '' TERM INT\necho $$ > {pid}\nsleep 60 & wait\nsleep 60\n")
    tool(tmp_path, "rocm-smi", "echo partly; echo oh >&2; exit 3\n")
    tool(tmp_path, "nvidia-smi", f"printf '%s' '{NVIDIA.strip()}'\n")
    tool(tmp_path, "amd-smi", "")
    (tmp_path / "amd-smi").write_bytes(b"\x7fELF no program")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    begin = time.monotonic()
    found = gpu_tools.run(deadline=1.0)
    assert time.monotonic() - begin < 5
    assert found["rocminfo"] == Answer("", "no answer in 1 s")
    with pytest.raises(ProcessLookupError, match="No such process"):
        os.kill(int(pid.read_text()), 0)
    assert found["rocm-smi"] == Answer("", "failed with status 3")
    assert found["nvidia-smi"].text == NVIDIA.strip()
    assert found["amd-smi"].failure.startswith("cannot be started")


def test_a_tool_that_is_not_there_is_not_asked(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_tools.run({"none": ("no-such-tool",)}) == {}
