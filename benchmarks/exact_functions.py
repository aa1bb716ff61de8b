"""Tries exact's unary functions on every float32: `python -m benchmarks.exact_functions --all`.

Prints one line a function: inputs tried, wrong results, seconds; then the wrong inputs as pairs of
bit patterns, in the form of `fixes.FIXES`. `--every N` tries each N-th bit pattern,
`--hard` only those near a rounding boundary. `--state FILE` remembers finished functions, so that a
broken-off run goes on. XLA_FLAGS=--xla_cpu_max_isa=AVX checks the way without contraction.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from rlkjax.exact import correct, rounding

CHUNK = 2**20


def compiled(name: str) -> Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """The exact function `name`, jitted, beside one rounding of the library's float64.

    Args:
      name: key of `rounding.UNARY`.

    Returns:
      (bit patterns, library's float64 values) -> (bits of the results, which to look at again: the
      library's value rounds otherwise, or would if it were wrong by one part in 2^46).
    """

    def run(bits: jax.Array, wide: jax.Array, opaque: rounding.Opaque) -> tuple[jax.Array, ...]:
        x = jax.lax.bitcast_convert_type(bits, jnp.float32)
        y = rounding.unary(name, x, opaque)
        low = (wide * (1.0 - correct.TRUST)).astype(jnp.float32)
        high = (wide * (1.0 + correct.TRUST)).astype(jnp.float32)
        return jax.lax.bitcast_convert_type(y, jnp.uint32), (y != low) | (y != high)

    jitted = jax.jit(run)
    magic = np.float64(rounding.elementary.MAGIC)
    opaque = rounding.Opaque(np.int32(0), np.int64(0), np.float32(-0.0), magic)
    return lambda bits, wide: tuple(np.asarray(v) for v in jitted(bits, wide, opaque))


def usable(bits: np.ndarray) -> np.ndarray:
    """Without subnormal numbers, which are flushed before any function sees them, and NaN."""
    exponent = bits & 0x7F800000
    subnormal = (exponent == 0) & ((bits & 0x007FFFFF) != 0)
    return bits[~subnormal & ~((exponent == 0x7F800000) & ((bits & 0x007FFFFF) > 0))]


def wrong_inputs(name: str, every: int) -> tuple[int, list[tuple[int, int]]]:
    """Compares one function with the correctly rounded one.

    Args:
      name: key of `rounding.UNARY`.
      every: 1 tries all 2^32 bit patterns, N each N-th.

    Returns:
      (inputs tried, [(bits of input, bits of the right result), …]).
    """
    run, library = compiled(name), correct.FLOAT64[name]
    tried, wrong = 0, []
    for start in range(0, 2**32, CHUNK * every):
        stop = min(start + CHUNK * every, 2**32)
        bits = usable(np.arange(start, stop, every, dtype=np.uint64).astype(np.uint32))
        if len(bits) == 0:
            continue
        tried += len(bits)
        padded = np.pad(bits, (0, CHUNK - len(bits)), mode="edge")
        with np.errstate(all="ignore"):
            wide = library(padded.view(np.float32).astype(np.float64))
        got, again = run(padded, wide)
        bits, got = padded[again], got[again]
        want = correct.nearest(name, bits.view(np.float32)).view(np.uint32)
        bad = (got != want) & ~(np.isnan(got.view(np.float32)) & np.isnan(want.view(np.float32)))
        wrong += sorted(set(zip(bits[bad].tolist(), want[bad].tolist(), strict=True)))
    return tried, wrong


def hard_inputs(name: str) -> np.ndarray:
    """Inputs whose true value lies within 16 float64 units of a rounding boundary: a few hundred.

    Only these can go wrong in a kernel that errs by less than that, however its products are
    contracted.

    Args:
      name: key of `rounding.UNARY`.

    Returns:
      uint32 bit patterns.
    """
    library, found = correct.FLOAT64[name], []
    for start in range(0, 2**32, CHUNK):
        bits = usable(np.arange(start, start + CHUNK, dtype=np.uint64).astype(np.uint32))
        with np.errstate(all="ignore"):
            y = library(bits.view(np.float32).astype(np.float64))
        below = y.view(np.int64) & (2**29 - 1)
        found.append(bits[np.abs(below - 2**28) <= 16])
    return np.concatenate(found)


def wrong_hard_inputs(name: str) -> tuple[int, list[tuple[int, int]]]:
    """As `wrong_inputs`, for the hard inputs alone."""
    bits = hard_inputs(name)
    padded = np.pad(bits, (0, -len(bits) % 4096), mode="edge")
    wide = np.zeros(len(padded))
    got = compiled(name)(padded, wide)[0][: len(bits)]
    want = correct.nearest(name, bits.view(np.float32)).view(np.uint32)
    bad = got != want
    return len(bits), list(zip(bits[bad].tolist(), want[bad].tolist(), strict=True))


def main() -> int:
    """Runs the check; exit status 1 if any result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="every function")
    parser.add_argument("--only", default="", help="names of functions, separated by commas")
    parser.add_argument("--every", type=int, default=1, help="try each N-th bit pattern")
    parser.add_argument("--hard", action="store_true", help="only inputs near a boundary")
    parser.add_argument("--state", type=Path, help="file that remembers finished functions")
    options = parser.parse_args()
    names = sorted(rounding.UNARY) if options.all else [n for n in options.only.split(",") if n]
    unknown = [n for n in names if n not in rounding.UNARY]
    if unknown or not names:
        known = ", ".join(sorted(rounding.UNARY))
        parser.error(
            f"got {', '.join(unknown) or 'no function'}, want --all or --only with {known}"
        )
    done = json.loads(options.state.read_text()) if options.state and options.state.exists() else {}
    failures = 0
    with jax.enable_x64(True):
        for name in names:
            if name not in done:
                began = time.perf_counter()
                hard = options.hard
                tried, wrong = (
                    wrong_hard_inputs(name) if hard else wrong_inputs(name, options.every)
                )
                done[name] = [tried, wrong, round(time.perf_counter() - began, 1)]
            tried, wrong, seconds = done[name]
            failures += len(wrong)
            print(f"{name:9} tried {tried:10} wrong {len(wrong):6} seconds {seconds}", flush=True)
            for point, value in wrong[:40]:
                print(f"    (0x{point:08X}, 0x{value:08X}),")
            if options.state:
                options.state.write_text(json.dumps(done))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
