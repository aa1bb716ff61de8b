"""Largest error of exact products over that of plain float32.

`python -m benchmarks.exact_accuracy`: 256 x K times K x 64, normal numbers, 20 draws, against
float64. "scaled": the first feature is as many times larger as its weights are smaller. The last
column is `named.dot(..., grid="contracted")`.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rlkjax.exact import named
from rlkjax.exact.transform import exact

SIZES = (1, 2, 3, 4, 8, 16, 32, 64, 256, 2048)
DRAWS = 20
SCALED = ((64, 1e3), (64, 1e4), (2048, 1e3))


def errors(size: int, scale: float) -> list[float]:
    """Largest error of (plain, exact, exact on contracted grids).

    Args:
      size: K.
      scale: by which the first feature is multiplied, and its weights are divided.
    """
    programs = (
        jax.jit(jnp.matmul),
        exact(jnp.matmul),
        exact(lambda a, b: named.dot(a, b, grid="contracted")),
    )
    draws = [drawn(seed, size, scale) for seed in range(DRAWS)]
    return [max(error(program, *each) for each in draws) for program in programs]


def drawn(seed: int, size: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Two matrices of normal numbers."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((256, size)).astype(np.float32)
    w = rng.standard_normal((size, 64)).astype(np.float32)
    x[:, 0] *= np.float32(scale)
    w[0] /= np.float32(scale)
    return x, w


def error(program: Callable[..., Any], x: np.ndarray, w: np.ndarray) -> float:
    """Largest difference from the product in float64."""
    true = x.astype(np.float64) @ w.astype(np.float64)
    return float(np.abs(np.asarray(program(x, w), np.float64) - true).max())


def main() -> None:
    """Prints one line a product."""
    for size, scale in [*((size, 1.0) for size in SIZES), *SCALED]:
        plain, ours, contracted = errors(size, scale)
        print(
            f"K {size:5} scaled {scale:7.0f}  plain {plain:.1e}  exact {ours / plain:8.2f} times  "
            f"contracted {contracted / plain:5.2f} times"
        )


if __name__ == "__main__":
    main()
