"""What a run's bits can depend on outside its config: machine, versions, settings.

Flat records of strings and integers, free of clock times, paths and host names, so that two runs
on one machine have one fingerprint.
"""

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from rlkjax.platform.gpu_tools import TOOLS, facts
from rlkjax.platform.machine import Machine, capture

Fingerprint = dict[str, str | int]

_PACKAGES = (
    "brax",
    "chex",
    "flax",
    "jax",
    "jaxlib",
    "ml-dtypes",
    "mujoco",
    "mujoco-mjx",
    "numpy",
    "optax",
    "playground",
    "pydantic",
    "rlkjax",
    "ruamel-yaml",
    "safetensors",
    "scipy",
)
# Plugins of JAX, and the GPU libraries that come as packages.
_GPU_PACKAGES = re.compile(r"jax-(rocm|cuda)\d*-(plugin|pjrt)|(nvidia|rocm)-[\w-]+|rocm|amdsmi")
# Variables that can move bits, or that say which devices are seen.
_VARIABLES = re.compile(
    r"(JAX|XLA|TF_XLA|TF_CUDNN|MIOPEN|HIPBLASLT|ROCBLAS|TENSILE|HSA|ROCR|HIP|AMD|GPU|NVIDIA|CUDA|"
    r"CUBLAS|CUDNN|NCCL|RCCL|OMP|KMP|GOMP|MKL|OPENBLAS|BLIS)_\w+|NPROC|PJRT_NPROC|LD_PRELOAD|"
    r"GLIBC_TUNABLES"
)
# Written elsewhere in the record, or names of machines, processes and secrets.
_LEFT_OUT = re.compile(
    r"XLA_FLAGS|\w*(COORDINATOR|ADDRESS|HOST|COMM_ID|PROCESS_ID|RANK|TOKEN|KEY|SECRET|PASS|CRED)\w*"
)
_FILES = {"driver.amdgpu": "amdgpu", "driver.nvidia": "nvidia", "rocm.version": "rocm"}
_EFFECTS = (
    ("cpu.features", "instruction set: fused multiply-add and vector width, so any native result"),
    ("cpu.model", "kernels chosen by the CPU's kind, so any native result"),
    ("cpu.family", "kernels chosen by the CPU's kind, so any native result"),
    ("cpu.threads", "how sums and products are split over threads, so any native sum"),
    ("cpu.affinity", "how many threads run, so any native sum"),
    ("cpu.cores", "how many threads run, so any native sum"),
    ("cpu.", "speed, and no bits, unless kernels are chosen by timing"),
    ("os.libc", "the C library's functions, as used by NumPy and the physics engines' set-up"),
    ("os.", "no bits that are known of"),
    ("python.", "order and constants of traced programs"),
    ("package.jax", "the compiler: any native result"),
    ("package.brax", "the physics of Brax tasks"),
    ("package.mujoco", "the physics of MuJoCo tasks"),
    ("package.playground", "the tasks of MuJoCo Playground"),
    ("package.flax", "networks and their initial parameters"),
    ("package.optax", "the update"),
    ("package.nvidia", "GPU libraries: any native result"),
    ("package.rocm", "GPU libraries: any native result"),
    ("package.", "the programs or files made by it"),
    ("xla.flags", "the compiler's settings: any native result"),
    ("driver.", "GPU kernels: any native result"),
    ("rocm.", "GPU libraries: any native result"),
    ("gpu.", "which GPU, driver and firmware compute: any native result"),
    ("device.", "what computes: any native result"),
    ("environment.", "settings of JAX, XLA or a GPU library: possibly any native result"),
)


class Difference(NamedTuple):
    """One entry in which two fingerprints differ."""

    key: str
    a: str | int
    b: str | int
    effect: str  # what the difference can change


def collect(
    device: Mapping[str, str | int] | None = None, machine: Machine | None = None
) -> Fingerprint:
    """The fingerprint of this process.

    Args:
      device: from `devices.describe`, where JAX has started.
      machine: what was seen of the machine; a new look by default.

    Returns:
      Strings and integers by dotted key, sorted.
    """
    seen = capture() if machine is None else machine
    found: Fingerprint = {**seen.system, **_cpu(seen), **_packages(seen.packages)}
    found |= {key: seen.files.get(name, "") or "unknown" for key, name in _FILES.items()}
    for name in TOOLS:
        absent = name not in seen.tools
        found[f"gpu.{name}"] = "absent" if absent else facts(name, seen.tools[name])
    return dict(sorted({**found, **_settings(seen.environment), **(device or {})}.items()))


def canonical(fingerprint: Mapping[str, str | int]) -> bytes:
    """The bytes of a fingerprint that are hashed: JSON, keys sorted, no spaces, ASCII.

    Args:
      fingerprint: from `collect`.

    Returns:
      ASCII bytes without a newline at the end.
    """
    return json.dumps(fingerprint, sort_keys=True, separators=(",", ":")).encode("ascii")


def differences(a: Mapping[str, str | int], b: Mapping[str, str | int]) -> list[Difference]:
    """Where two fingerprints differ, and what that can change.

    Args:
      a: one fingerprint.
      b: the other.

    Returns:
      Differences by key; an entry that one side lacks is "absent" there.
    """
    keys = sorted({*a, *b})
    pairs = [(key, *_told_apart(a.get(key, "absent"), b.get(key, "absent"))) for key in keys]
    return [Difference(key, x, y, _effect(key)) for key, x, y in pairs if x != y]


def threads(machine: Machine) -> int:
    """Worker threads that XLA starts on CPU.

    Args:
      machine: its variables and cores.

    Returns:
      The number; 0 where it cannot be told.
    """
    # XLA sizes its thread pool by the first of these that is set.
    for name in ("PJRT_NPROC", "NPROC"):
        if re.fullmatch("[0-9]{1,9}", machine.environment.get(name, "")):
            return int(machine.environment[name])
    return len(machine.affinity) or machine.cores


def boost(machine: Machine) -> str:
    """Whether the CPU may raise its clock above the nominal one.

    Args:
      machine: its system files.

    Returns:
      "1" or "0" as the kernel says; "unknown" where it does not.
    """
    turned_off = {"0": "1", "1": "0"}.get(machine.files.get("no_turbo", ""), "")
    return machine.files.get("boost", "") or turned_off or "unknown"


def _effect(key: str) -> str:
    return next((text for start, text in _EFFECTS if key.startswith(start)), "unknown")


def _told_apart(a: str | int, b: str | int) -> tuple[str | int, str | int]:
    """Long lists of words without the words that both have."""
    if not (isinstance(a, str) and isinstance(b, str) and a.count(" ") > 20 < b.count(" ")):
        return a, b
    words = [set(text.split()) for text in (a, b)]
    only = (" ".join(sorted(words[0] - words[1])), " ".join(sorted(words[1] - words[0])))
    return (only[0] or "without", only[1] or "without") if only != ("", "") else (a, b)


def _cpu(machine: Machine) -> Fingerprint:
    text = machine.files.get("cpuinfo", "")
    model = re.search(r"^(?:model name|cpu)\s*:\s*(.+)$", text, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", text, re.MULTILINE)
    names = ("cpu family", "model", "stepping", "CPU implementer", "CPU part")
    found = [re.search(rf"^{name}\s*:\s*(\S+)$", text, re.MULTILINE) for name in names]
    return {
        "cpu.model": model[1].strip() if model else "unknown",
        "cpu.family": " ".join(each[1] for each in found if each) or "unknown",
        "cpu.features": " ".join(sorted(set(flags[1].split()))) if flags else "unknown",
        "cpu.cores": machine.cores,
        "cpu.affinity": ",".join(str(each) for each in machine.affinity) or "unknown",
        "cpu.threads": str(threads(machine) or "unknown"),
        "cpu.quota": "none" if machine.quota is None else f"{machine.quota:g} cores",
        "cpu.governor": ",".join(machine.governors) or "unknown",
        "cpu.boost": boost(machine),
    }


def _packages(installed: Mapping[str, str]) -> Fingerprint:
    names = {*_PACKAGES, *(name for name in installed if _GPU_PACKAGES.fullmatch(name))}
    return {f"package.{name}": installed.get(name, "absent") for name in names}


def _settings(environment: Mapping[str, str]) -> Fingerprint:
    """Flags and variables, without the paths in them."""
    flags = [_without_path(each) for each in environment.get("XLA_FLAGS", "").split()]
    found: Fingerprint = {"xla.flags": " ".join(flags)}
    for name, value in environment.items():
        if _VARIABLES.fullmatch(name) and not _LEFT_OUT.fullmatch(name):
            found[f"environment.{name}"] = _without_path(value)
    return found


def _without_path(text: str) -> str:
    """`text`, with "<path>" for a value that holds a path."""
    if "/" not in text and "\\" not in text:
        return text
    name, equals, _ = text.partition("=")
    return f"{name}=<path>" if equals and "/" not in name else "<path>"
