"""Settings of the process under which no program has the bits of its definition; refused."""

import os
import re

import jax

from rlkjax.exact.errors import UnsupportedSettingError

FAST_MATH = re.compile(r"--xla_cpu_enable_fast_math(?:=(?:true|1))?(?=\s|$)", re.IGNORECASE)


def refuse_fast_math() -> None:
    """Refuses re-association, which cancels the steps that round to a grid."""
    if FAST_MATH.search(os.environ.get("XLA_FLAGS", "")):
        raise UnsupportedSettingError(
            "XLA_FLAGS holds --xla_cpu_enable_fast_math=true, want false: XLA would re-associate "
            "sums, and no operation would have its defined bits; remove the flag"
        )


def refuse_other_layouts(line: str) -> None:
    """Refuses random numbers that are laid out otherwise.

    Args:
      line: the user's, where they are drawn.
    """
    if not getattr(jax.config, "jax_threefry_partitionable", True):
        raise UnsupportedSettingError(
            f"jax_threefry_partitionable is off at {line}, want it on, which is JAX's default: "
            "exact defines the random numbers of that layout only"
        )
