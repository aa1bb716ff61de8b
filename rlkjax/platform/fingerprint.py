"""What a run's bits can depend on outside its config: machine, versions, settings.

Flat records of strings and integers, free of clock times, paths and host names, so that two runs
on one machine have one fingerprint.
"""

import hashlib
import json
import os
import platform
import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from rlkjax.platform import devices

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
)
# Variables that can move bits, or that say which devices are seen.
_VARIABLES = re.compile(
    r"(JAX|XLA|TF_XLA|MIOPEN|HIPBLASLT|ROCBLAS|HSA|ROCR|HIP|NVIDIA|CUDA|CUBLAS|NCCL|RCCL|OMP|MKL|"
    r"OPENBLAS)_\w+|NPROC|PJRT_NPROC"
)
# Written elsewhere in the record, or names of machines and processes.
_LEFT_OUT = re.compile(r"XLA_FLAGS|\w*(COORDINATOR|ADDRESS|HOST|TOKEN|KEY|SECRET)\w*")
_FILES = {
    "cpu.governor": "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "cpu.boost": "/sys/devices/system/cpu/cpufreq/boost",
    "driver.amdgpu": "/sys/module/amdgpu/version",
    "driver.nvidia": "/sys/module/nvidia/version",
    "rocm.version": "/opt/rocm/.info/version",
}
_EFFECTS = (
    ("cpu.features", "instruction set: fused multiply-add and vector width, so any native result"),
    ("cpu.model", "kernels chosen by the CPU's kind, so any native result"),
    ("cpu.threads", "how sums and products are split over threads, so any native sum"),
    ("cpu.affinity", "how many threads run, so any native sum"),
    ("cpu.cores", "how many threads run, so any native sum"),
    ("cpu.", "speed, and no bits"),
    ("os.libc", "the C library's functions, as used by NumPy and the physics engines' set-up"),
    ("os.", "no bits that are known of"),
    ("python.", "order and constants of traced programs"),
    ("package.jax", "the compiler: any native result"),
    ("package.brax", "the physics of Brax tasks"),
    ("package.mujoco", "the physics of MuJoCo tasks"),
    ("package.playground", "the tasks of MuJoCo Playground"),
    ("package.flax", "networks and their initial parameters"),
    ("package.optax", "the update"),
    ("package.", "the programs or files made by it"),
    ("xla.flags", "the compiler's settings: any native result"),
    ("driver.", "GPU kernels: any native result"),
    ("rocm.", "GPU libraries: any native result"),
    ("device.", "what computes: any native result"),
    ("environment.", "settings of JAX, XLA or a GPU library: possibly any native result"),
)


class Difference(NamedTuple):
    """One entry in which two fingerprints differ."""

    key: str
    a: str | int
    b: str | int
    effect: str  # what the difference can change


def collect(device: Mapping[str, str | int] | None = None) -> Fingerprint:
    """The fingerprint of this process.

    Args:
      device: from `devices.describe`, where JAX has started.

    Returns:
      Strings and integers by dotted key, sorted.
    """
    found: Fingerprint = {**_system(), **_cpu(), **_packages(), **_settings(os.environ)}
    for key, path in _FILES.items():
        found[key] = _read(path) or "unknown"
    return dict(sorted({**found, **(device or {})}.items()))


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
    pairs = [(key, a.get(key, "absent"), b.get(key, "absent")) for key in keys]
    return [Difference(key, x, y, _effect(key)) for key, x, y in pairs if x != y]


def _effect(key: str) -> str:
    return next((text for start, text in _EFFECTS if key.startswith(start)), "unknown")


def _system() -> Fingerprint:
    try:
        release = platform.freedesktop_os_release()
        name = f"{release.get('ID', 'unknown')} {release.get('VERSION_ID', '')}".strip()
    except OSError:
        name = "unknown"
    return {
        "os.system": platform.system(),
        "os.kernel": platform.release(),
        "os.distribution": name,
        "os.libc": " ".join(platform.libc_ver()).strip() or "unknown",
        "os.machine": platform.machine(),
        "python.version": platform.python_version(),
        "python.implementation": platform.python_implementation(),
    }


def _cpu() -> Fingerprint:
    text = _read("/proc/cpuinfo")
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", text, re.MULTILINE)
    features = " ".join(sorted(set(flags[1].split()))) if flags else ""
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    cores = os.cpu_count() or 0
    # XLA sizes its thread pool by the first of these that is set.
    threads = os.environ.get("PJRT_NPROC") or os.environ.get("NPROC") or len(allowed) or cores
    return {
        "cpu.model": model[1].strip() if model else platform.processor() or "unknown",
        "cpu.features": hashlib.sha256(features.encode()).hexdigest() if features else "unknown",
        "cpu.cores": cores,
        "cpu.affinity": ",".join(str(each) for each in allowed) or "unknown",
        "cpu.threads": str(threads),
    }


def _packages() -> Fingerprint:
    return {f"package.{name}": _version(name) for name in {*_PACKAGES, *devices.versions()}}


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"


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


def _read(path: str) -> str:
    """Text of a small file of the system, empty where it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
