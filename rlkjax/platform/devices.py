"""Which device computes: asked for by name, never replaced by another."""

import os
import re
from collections.abc import Mapping

from rlkjax.errors import InputError, MachineError
from rlkjax.platform.machine import NODES, packages

PLATFORMS = ("auto", "cpu", "rocm", "cuda")
_STACK = re.compile(r"(jax|jaxlib|jax-(rocm|cuda)\d*-(plugin|pjrt))")


def versions() -> dict[str, str]:
    """Versions of the installed jax, jaxlib, plugins and PJRT libraries, by package name."""
    return {name: version for name, version in packages().items() if _STACK.fullmatch(name)}


def versions_line() -> str:
    """The installed versions in words, for messages."""
    found = versions()
    listed = ", ".join(f"{name} {version}" for name, version in found.items())
    plugins = [name for name in found if name.endswith("plugin")]
    return (listed or "no jax") + ("" if plugins else ", no GPU plugin")


def resolve(platform: str) -> str:
    """What a config's platform means on this machine, before JAX starts.

    Args:
      platform: auto, cpu, rocm or cuda. auto is rocm or cuda where both its plugin is installed
        and its device node exists, cpu otherwise.

    Returns:
      cpu, rocm or cuda.

    Raises:
      InputError: another word.
    """
    if platform not in PLATFORMS:
        raise InputError(f"platform: got {platform!r}, want one of {', '.join(PLATFORMS)}")
    if platform != "auto":
        return platform
    for name, nodes in NODES.items():
        if _has_plugin(name) and any(os.path.exists(node) for node in nodes):
            return name
    return "cpu"


def require_plugin(platform: str) -> None:
    """That JAX's plugin for a GPU platform is installed.

    Args:
      platform: rocm or cuda.

    Raises:
      MachineError: it is not; lists the versions found.
    """
    if not _has_plugin(platform):
        raise MachineError(
            f"platform: asked for {platform}, but no plugin for it is installed (found "
            f"{versions_line()}); run .venv/bin/pip install -e '.[{platform}]' in this project's "
            "folder, or set platform: cpu"
        )


def choose(platform: str) -> str:
    """The JAX platform that will compute; starts JAX.

    Args:
      platform: auto, cpu, rocm or cuda, as given to `flags.prepare` before.

    Returns:
      cpu, rocm or cuda; `jax.devices` takes the word.

    Raises:
      MachineError: no such device; lists the versions found. Never another platform instead.
    """
    resolved = resolve(platform)
    if resolved != "cpu":
        require_plugin(resolved)
    import jax  # late: choosing by name must work without JAX

    try:
        found = jax.devices(resolved)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise MachineError(
            f"platform: asked for {platform}, but JAX has no {resolved} device ({reason}); found "
            f"{versions_line()}; mend the driver, or set platform: cpu"
        ) from None
    if jax.default_backend() not in (found[0].platform, resolved):
        raise MachineError(
            f"platform: asked for {platform}, but JAX computes on {jax.default_backend()} by "
            "default; call rlkjax.platform.flags.prepare before JAX starts"
        )
    return resolved


def describe(resolved: str | None = None) -> dict[str, str | int]:
    """What computes, in words for the fingerprint; starts JAX.

    Args:
      resolved: cpu, rocm or cuda, from `choose`; JAX's default by default.

    Returns:
      platform, kind of the device, how many there are, and version of its runtime.
    """
    import jax  # late: see `choose`

    found = jax.devices(resolved)
    runtime = " ".join(str(found[0].client.platform_version).split())
    return {
        "device.platform": resolved or found[0].platform,
        "device.kind": found[0].device_kind,
        "device.count": len(found),
        "device.runtime": runtime,
    }


def visible_devices(environment: Mapping[str, str]) -> tuple[int, ...] | None:
    """The GPUs that a process will see, as it numbers them itself: 0 .. N-1.

    ROCR_VISIBLE_DEVICES picks physical GPUs; HIP_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES count
    inside that list.

    Args:
      environment: variables by name.

    Returns:
      Numbers 0 .. N-1, or None where nothing limits them.

    Raises:
      InputError: a list is empty or malformed, or the two layers conflict.
    """
    lists = {}
    for name in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        if name in environment:
            lists[name] = _device_list(name, environment[name])
    physical = lists.get("ROCR_VISIBLE_DEVICES")
    hip, cuda = lists.get("HIP_VISIBLE_DEVICES"), lists.get("CUDA_VISIBLE_DEVICES")
    if hip is not None and cuda is not None and hip != cuda:
        raise InputError(
            f"HIP_VISIBLE_DEVICES is {','.join(hip)!r} but CUDA_VISIBLE_DEVICES is "
            f"{','.join(cuda)!r}; unset one of them"
        )
    inner = hip if hip is not None else cuda
    if inner is None:
        return None if physical is None else tuple(range(len(physical)))
    for each in inner if physical is not None else ():
        if each.isdigit() and int(each) >= len(physical or ()):
            name = "HIP_VISIBLE_DEVICES" if hip is not None else "CUDA_VISIBLE_DEVICES"
            raise InputError(
                f"{name} asks for device {each}, but ROCR_VISIBLE_DEVICES leaves "
                f"{len(physical or ())} (0 to {len(physical or ()) - 1}); number inside that list, "
                "or unset one"
            )
    return tuple(range(len(inner)))


def _has_plugin(platform: str) -> bool:
    return any(name.startswith(f"jax-{platform}") for name in versions())


def _device_list(name: str, text: str) -> tuple[str, ...]:
    """Entries of one variable: numbers, or identifiers such as GPU-1a2b."""
    entries = tuple(part.strip() for part in text.split(","))
    if entries == ("",):
        raise InputError(f"{name} is empty, which hides every GPU; unset it or list devices")
    for each in entries:
        if not re.fullmatch(r"\d+|(GPU|MIG)-[\w/-]+", each):
            raise InputError(f"{name}: got {text!r}, want numbers such as 0,1; mend {each!r}")
    if len(set(entries)) != len(entries):
        raise InputError(f"{name}: got {text!r}, where a device stands twice; list each once")
    return entries
