"""The doctor on environment variables: precision, random numbers, searches for kernels."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from rlkjax.platform.doctor_findings import NOTHING, REFUSED, Finding
from rlkjax.platform.machine import Machine

KERNELS = "any GPU result: kernels are searched for by timing, and may differ next time"
TUNED = "any GPU result: other kernels than those of the library are taken"


class Rule(NamedTuple):
    """What a variable may hold.

    Attributes:
      name: of the variable, as a pattern.
      agreeing: values in lower case that do no harm; empty: none.
      fault: whether another value is a fault.
      why: what it does, after "NAME=VALUE: ".
      exact: what it can touch.
      native: what it can touch.
    """

    name: str
    agreeing: tuple[str, ...]
    fault: bool
    why: str
    exact: str
    native: str


OFF, ON = ("0", "false"), ("1", "true")
RULES = (
    Rule("JAX_ENABLE_X64", OFF, True, "numbers become 64 bits wide", REFUSED, REFUSED),
    Rule("JAX_DISABLE_JIT", OFF, True, "programs are not compiled", REFUSED, REFUSED),
    Rule(
        "JAX_THREEFRY_PARTITIONABLE",
        ON,
        True,
        "random bits depend on how arrays are laid out",
        REFUSED,
        REFUSED,
    ),
    Rule(
        "JAX_DEFAULT_PRNG_IMPL",
        ("threefry2x32",),
        True,
        "keys made without a named generator draw other bits, by device and version",
        "draws of an environment of your own",
        "draws of an environment of your own",
    ),
    Rule(
        "JAX_DEFAULT_MATMUL_PRECISION",
        ("highest", "float32"),
        True,
        "products lose precision",
        REFUSED,
        REFUSED,
    ),
    Rule("NVIDIA_TF32_OVERRIDE", ("0",), True, "TF32 products", REFUSED, REFUSED),
    Rule("MIOPEN_FIND_ENFORCE", ("1", "none"), True, "MIOpen searches again", REFUSED, REFUSED),
    Rule("MIOPEN_FIND_MODE", ("2", "fast"), True, "MIOpen may search", NOTHING, KERNELS),
    Rule("MIOPEN_(DEBUG|DISABLE|USER_DB|SYSTEM_DB)\\w*", (), False, "set by hand", NOTHING, TUNED),
    Rule("(HIPBLASLT|ROCBLAS|TENSILE)_\\w*TUN\\w*", OFF, True, "tuned by timing", NOTHING, TUNED),
    Rule("TF_CUDNN_USE_AUTOTUNE", OFF, True, "cuDNN kernels by timing", NOTHING, KERNELS),
    Rule(
        "JAX_ENABLE_COMPILATION_CACHE|JAX_COMPILATION_CACHE_DIR",
        OFF,
        False,
        "programs compiled elsewhere; train switches the cache off",
        NOTHING,
        NOTHING,
    ),
    Rule(
        "LD_PRELOAD",
        ("",),
        False,
        "functions of the C library may be replaced",
        NOTHING,
        "what NumPy and the physics engines compute at set-up",
    ),
    Rule(
        "GLIBC_TUNABLES",
        ("",),
        False,
        "the C library may take other versions of its functions",
        NOTHING,
        "what NumPy and the physics engines compute at set-up",
    ),
)


def variables(machine: Machine) -> Iterator[Finding]:
    """Variables that undo a setting of ours, or let a library choose by timing.

    Args:
      machine: what was seen.

    Yields:
      Findings, in the order of `RULES`.
    """
    for rule in RULES:
        for name, value in sorted(machine.environment.items()):
            if re.fullmatch(rule.name, name) and value.strip().lower() not in rule.agreeing:
                what = f"{name}={_shown(value)}: {rule.why}"
                fix = f"unset {name}"
                yield Finding("variable", rule.fault, what, rule.exact, rule.native, fix)


def _shown(value: str) -> str:
    """A value without the paths in it."""
    return "<path>" if "/" in value or "\\" in value else value[:60]


CHECKS = (variables,)
