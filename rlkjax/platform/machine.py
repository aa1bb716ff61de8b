"""One look at the machine: everything that the fingerprint and the doctor judge, in one record.

`capture` is the only part that reads the system; whatever reads a `Machine` is a pure function, and
can be tried on a machine that is made up.
"""

import glob
import os
import platform
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from rlkjax.platform import gpu_tools
from rlkjax.platform.gpu_tools import Answer

CPU = "/sys/devices/system/cpu"
CGROUP = "/sys/fs/cgroup"
FILES = {
    "cpuinfo": "/proc/cpuinfo",
    "boost": f"{CPU}/cpufreq/boost",
    "no_turbo": f"{CPU}/intel_pstate/no_turbo",
    "amdgpu": "/sys/module/amdgpu/version",
    "nvidia": "/sys/module/nvidia/version",
    "rocm": "/opt/rocm/.info/version",
}
NODES = {"rocm": ("/dev/kfd",), "cuda": ("/dev/nvidiactl", "/dev/nvidia0")}


class Machine(NamedTuple):
    """What was seen.

    Attributes:
      system: keys of the fingerprint such as os.libc and python.version, with their values.
      files: text of the small system files, by the names of `FILES`; empty where unreadable.
      governors: what the cores' frequency governors are set to, sorted, each once.
      quota: CPU time that the control group allows, in cores; None: no limit.
      environment: the process's variables.
      packages: version of every installed package, by name in lower case with hyphens.
      cores: of the machine; 0 where unknown.
      affinity: numbers of the cores that this process may use; empty where unknown.
      nodes: GPU platforms of which a device node exists: rocm, cuda.
      closed: those of them whose node this user may not open.
      tools: what the GPU tools answered, by name; only those that are installed.
      xla: what a fresh XLA finds wrong with the flags; empty: nothing; None: it was not asked.
      kernels: why exact programs use no kernels; empty: they do; None: nobody looked.
    """

    system: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    governors: tuple[str, ...] = ()
    quota: float | None = None
    environment: Mapping[str, str] = {}
    packages: Mapping[str, str] = {}
    cores: int = 0
    affinity: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    tools: Mapping[str, Answer] = {}
    xla: str | None = None
    kernels: str | None = None


def capture(deadline: float = gpu_tools.DEADLINE) -> Machine:
    """Looks at the machine, once.

    Args:
      deadline: seconds after which a GPU tool is given up.

    Returns:
      What was seen. Nothing is raised for what cannot be read, and a GPU tool that hangs costs its
      deadline.
    """
    present = {
        name: [node for node in nodes if os.path.exists(node)] for name, nodes in NODES.items()
    }
    seen = tuple(name for name, nodes in present.items() if nodes)
    return Machine(
        system=_system(),
        files={name: _read(path) for name, path in FILES.items()},
        governors=tuple(
            sorted({_read(path) for path in glob.glob(f"{CPU}/cpu[0-9]*/cpufreq/scaling_governor")})
        ),
        quota=quota(_read),
        environment=dict(os.environ),
        packages=packages(),
        cores=os.cpu_count() or 0,
        affinity=tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else (),
        nodes=seen,
        closed=tuple(name for name in seen if not os.access(present[name][0], os.R_OK | os.W_OK)),
        tools=gpu_tools.run(deadline=deadline),
    )


def packages() -> dict[str, str]:
    """Versions of the installed packages, by name in lower case with hyphens, sorted."""
    found: dict[str, str] = {}
    for each in metadata.distributions():
        name = (each.metadata["Name"] or "").lower().replace("_", "-").replace(".", "-")
        if name:
            found.setdefault(name, each.version or "unknown")
    return dict(sorted(found.items()))


def quota(read: Callable[[str], str]) -> float | None:
    """CPU time that the control groups of this process allow it.

    Args:
      read: path -> text of a file, empty where there is none.

    Returns:
      Cores, the least that any group on the way to the root allows; None: no limit.
    """
    limits = []
    for line in read("/proc/self/cgroup").splitlines():
        number, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if number == "0":
            steps = [step for step in path.split("/") if step and step != ".."]
            for depth in range(len(steps) + 1):
                text = read("/".join([CGROUP, *steps[:depth], "cpu.max"]))
                limits.append(text.split())
        elif "cpu" in controllers.split(","):
            names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            limits += [[read(f"{CGROUP}/cpu{place}/{n}") for n in names] for place in ("", path)]
    cores = [
        int(limit[0]) / int(limit[1])
        for limit in limits
        if len(limit) == 2 and all(each.isdecimal() and int(each) > 0 for each in limit)
    ]
    return min(cores, default=None)


def _system() -> dict[str, str]:
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


def _read(path: str) -> str:
    """Text of a small file of the system, empty where it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
