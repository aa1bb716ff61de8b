"""A condition under which a config runs: where it computes, how, and with how much of the machine.

cpu        cpu:native        cpu:threads=1        cpu:exact:isa=AVX:vector=512        rocm
"""

import os
from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from rlkjax.config import Config
from rlkjax.errors import InputError, MachineError
from rlkjax.platform import devices, flags

Platform = Literal["cpu", "rocm", "cuda"]
Numerics = Literal["exact", "native"]
PLATFORMS: tuple[Platform, ...] = get_args(Platform)
NUMERICS: tuple[Numerics, ...] = get_args(Numerics)
ISAS = ("SSE4_2", "AVX", "AVX2", "AVX512")
VECTORS = ("128", "256", "512")
DEVICES = "--xla_force_host_platform_device_count="
FORM = (
    "PLATFORM[:exact|native][:threads=N][:cores=N][:devices=N][:isa=" + "|".join(ISAS) + "]"
    "[:vector=" + "|".join(VECTORS) + "], PLATFORM one of " + ", ".join(PLATFORMS)
)


class Condition(NamedTuple):
    """Where a process computes.

    Attributes:
      name: as it is shown.
      flags: XLA flags; they replace pinned ones of the same name.
      cores: that the process may use; None: all.
      pinned: whether the flags of native numerics are set.
      spread: devices that the environments are spread over, by XLA's partitioner.
      python: interpreter; None: this one.
      platform: cpu, rocm or cuda.
      threads: worker threads of XLA on CPU; None: as the config says.
      numerics: "exact" or "native"; None: as the config says.
    """

    name: str
    flags: str = ""
    cores: int | None = None
    pinned: bool = True
    spread: int = 1
    python: str | None = None
    platform: Platform = "cpu"
    threads: int | None = None
    numerics: Numerics | None = None


def parse(text: str) -> list[Condition]:
    """Conditions as a user lists them.

    Args:
      text: two or more conditions, apart by commas; see `FORM`.

    Returns:
      The conditions, in order.

    Raises:
      InputError: fewer than two, or one that is not of the form.
    """
    found = [_parse(each.strip()) for each in text.split(",")]
    if len(found) < 2:
        raise InputError(
            f"--platforms: got {text[:80]!r}, want two conditions or more, such as "
            "cpu:exact,cpu:native; name what the first is compared with"
        )
    return found


def _parse(text: str) -> Condition:
    platform, *settings = text.split(":")
    if platform not in PLATFORMS:
        raise _malformed(text, f"no platform {platform[:40]!r}")
    condition, said = Condition(text, platform=platform), []
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals and name in NUMERICS:
            condition, name = condition._replace(numerics=name), "numerics"
        else:
            condition = _set(condition, text, name, value)
        said.append(name)
    if len(set(said)) != len(said):
        raise _malformed(text, "a setting that stands twice")
    return condition


def _set(condition: Condition, text: str, name: str, value: str) -> Condition:
    """A condition with one of the settings "name=value"."""
    if name in ("isa", "vector", "threads", "cores") and condition.platform != "cpu":
        raise _malformed(text, f"{name}, which is a setting of cpu alone")
    if name == "isa" and value in ISAS:
        return condition._replace(flags=f"{condition.flags} --xla_cpu_max_isa={value}".strip())
    if name == "vector" and value in VECTORS:
        word = f"--xla_cpu_prefer_vector_width={value}"
        return condition._replace(flags=f"{condition.flags} {word}".strip())
    if name not in ("threads", "cores", "devices"):
        raise _malformed(text, f"no setting {name + ('=' + value if value else '')!r}")
    if not (value.isdecimal() and 1 <= int(value) <= 1024):
        raise _malformed(text, f"{name}={value[:20]!r}, want a number from 1 to 1024")
    if name == "threads":
        return condition._replace(threads=int(value))
    if name == "cores":
        return condition._replace(cores=int(value))
    condition = condition._replace(spread=int(value))
    if condition.platform == "cpu":
        condition = condition._replace(flags=f"{condition.flags} {DEVICES}{value}".strip())
    return condition


def _malformed(text: str, what: str) -> InputError:
    return InputError(f"--platforms: got {text[:80]!r} with {what}; want {FORM}")


def check(condition: Condition, config: Config) -> None:
    """What can be told of a condition before anything is started.

    Args:
      condition: the condition.
      config: the run.

    Raises:
      MachineError: no plugin of its platform, or fewer cores than it asks for.
      InputError: its devices do not divide the environments.
    """
    if condition.platform != "cpu":
        devices.require_plugin(condition.platform)
    have = len(os.sched_getaffinity(0))
    if condition.cores is not None and condition.cores > have:
        raise MachineError(
            f"condition {condition.name}: asked for {condition.cores} cores, but this process may "
            f"use {have}; ask for at most {have}"
        )
    if config.rollout.num_envs % condition.spread:
        raise InputError(
            f"condition {condition.name}: got {condition.spread} devices, which do not divide "
            f"rollout.num_envs {config.rollout.num_envs}; want a divisor of it"
        )


def flag_words(condition: Condition) -> str:
    """XLA_FLAGS of a condition.

    Args:
      condition: its own flags replace pinned ones.

    Returns:
      Words "--name=value".
    """
    pinned = flags.native_flags(condition.platform) if condition.pinned else {}
    merged = {**pinned, **flags.parse(condition.flags)}
    return " ".join(f"--{name}={value}" for name, value in merged.items())


def variables(condition: Condition, outside: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of a condition's process.

    Args:
      condition: the condition.
      outside: variables of this process.

    Returns:
      The same, but for what decides over bits.
    """
    made = {
        **outside,
        "XLA_FLAGS": flag_words(condition),
        "JAX_PLATFORMS": "cpu" if condition.platform == "cpu" else f"{condition.platform},cpu",
        "JAX_DEFAULT_MATMUL_PRECISION": "highest",
        "JAX_ENABLE_COMPILATION_CACHE": "false",
        "JAX_ENABLE_X64": "false",
        "JAX_THREEFRY_PARTITIONABLE": "true",
    }
    if condition.threads is not None:
        made[flags.THREADS] = str(condition.threads)
    return made
