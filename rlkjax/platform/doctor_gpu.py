"""The doctor on GPUs: which are seen, which are visible, and whether JAX can use them."""

import re
from collections.abc import Iterator

from rlkjax.errors import InputError
from rlkjax.platform import devices, gpu_tools
from rlkjax.platform.doctor_findings import NOTHING, Finding
from rlkjax.platform.machine import NODES, Machine

VARIABLE = {"rocm": "ROCR_VISIBLE_DEVICES", "cuda": "CUDA_VISIBLE_DEVICES"}
EXTRA = {"rocm": "jax[rocm7-local]", "cuda": "jax[cuda12]"}
MODULE = {"rocm": "amdgpu", "cuda": "nvidia"}
WHICH = "which GPU computes, so any native result"
QUIET = "platform: auto quietly means cpu"


def seen(machine: Machine) -> list[str]:
    """The GPU platforms whose hardware is there: by device node, or by what a tool shows.

    Args:
      machine: what was seen.

    Returns:
      rocm, cuda, both or none.
    """
    shown = gpu_tools.gpus(machine.tools)
    return [name for name in NODES if name in machine.nodes or name in shown]


def plugins(machine: Machine, platform: str) -> list[str]:
    """The installed JAX plugins of a platform.

    Args:
      machine: what was seen.
      platform: rocm or cuda.

    Returns:
      Package names.
    """
    pattern = re.compile(rf"jax-{platform}\d*-plugin")
    return [name for name in machine.packages if pattern.fullmatch(name)]


def visibility(machine: Machine) -> Iterator[Finding]:
    """Whether the variables that pick GPUs agree, and leave one.

    Args:
      machine: what was seen.

    Yields:
      At most one finding a platform.
    """
    try:
        listed = devices.visible_devices(machine.environment)
    except InputError as error:
        name = re.search(r"\w+_VISIBLE_DEVICES", str(error))
        fix = f"unset {name[0] if name else 'HIP_VISIBLE_DEVICES'}"
        yield Finding("visible-devices", True, str(error), NOTHING, WHICH, fix)
        return
    shown = gpu_tools.gpus(machine.tools)
    for platform in seen(machine):
        entries = shown.get(platform, [])
        count = len(entries) if listed is None else len(listed)
        if count > 1:
            unlike = ", of different kinds" if listed is None and len(set(entries)) > 1 else ""
            what = f"{count} GPUs are visible{unlike}; a run uses the first"
            fix = f"export {VARIABLE[platform]}=0"
            yield Finding("visible-devices", True, what, NOTHING, WHICH, fix)


def plugin(machine: Machine) -> Iterator[Finding]:
    """Whether hardware and JAX's plugin for it are both there, once.

    Args:
      machine: what was seen.

    Yields:
      Findings.
    """
    there = seen(machine)
    for platform in NODES:
        installed = plugins(machine, platform)
        if platform in there and not installed:
            what = f"a {platform} GPU is there, but no JAX plugin for it, so {QUIET}"
            fix = f"python -m pip install '{EXTRA[platform]}'"
            yield Finding("plugin", True, what, NOTHING, WHICH, fix)
        if installed and platform not in there:
            what = f"{installed[0]} is installed, but no device node {NODES[platform][0]}: {QUIET}"
            fix = f"sudo modprobe {MODULE[platform]}"
            yield Finding("plugin", True, what, NOTHING, WHICH, fix)
        if len(installed) > 1:
            what = f"{' and '.join(installed)} are both installed"
            fix = f"python -m pip uninstall {installed[0]}"
            yield Finding("plugin", True, what, NOTHING, "which libraries compute", fix)


def access(machine: Machine) -> Iterator[Finding]:
    """Whether this user may open the GPU, and whether its driver answers.

    Args:
      machine: what was seen.

    Yields:
      Findings.
    """
    for platform in machine.closed:
        what = f"this user may not open {NODES[platform][0]}, so no {platform} run can start"
        fix = 'sudo usermod -aG render,video "$USER", then log in again'
        yield Finding("access", True, what, NOTHING, NOTHING, fix)
    for name, answer in machine.tools.items():
        if answer.failure:
            platform = "cuda" if name == "nvidia-smi" else "rocm"
            what = f"{name}: {answer.failure}; GPU and driver are not in the fingerprint"
            fix = f"sudo dmesg | grep -i {MODULE[platform]}"
            fault = platform in machine.nodes
            yield Finding("driver", fault, what, NOTHING, WHICH, fix)


CHECKS = (visibility, plugin, access)
