"""Operands that a loop does not change, put on their grids once, before it.

A solver multiplies one matrix by another vector in every turn. The largest number of a row has all
its bits on the row's grid, so that a row that is on its grid has the same grid again, and every
number of it stays what it is: a product has the bits it had, and its kernel has less to do.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from rlkjax.exact import compat, grid
from rlkjax.exact.contraction import DOT_BITS
from rlkjax.exact.rounding import Opaque, flushed, narrow

Array = jax.Array


class Steady:
    """What was put on its grid outside of the bodies that ask for it."""

    def __init__(self) -> None:
        """Has none."""
        self._made: dict[tuple[int, tuple[int, ...]], tuple[Array, Array]] = {}

    def on_grid(self, x: Array, axes: Sequence[int], opaque: Opaque) -> Array:
        """An operand on its grid.

        Args:
          x: float32, made outside of the body that is being traced.
          axes: those that are contracted.
          opaque: run-time scalars.

        Returns:
          float32, without subnormal numbers; an infinity or NaN stays.
        """
        key = id(x), tuple(axes)
        if key not in self._made:
            with compat.in_trace_of(x):
                self._made[key] = x, rounded(x, axes, opaque)
        return self._made[key][1]


def rounded(x: Array, axes: Sequence[int], opaque: Opaque) -> Array:
    """Each row along axes on its grid.

    Beside an infinity the largest finite numbers would become infinite, and stay as they are: it
    does not matter then what they are, if they are not zero.
    """
    numbers = flushed(x, opaque)
    done = narrow(grid.to_grid(numbers, grid.power(numbers, axes), DOT_BITS), opaque)
    return jnp.where(jnp.isinf(done), numbers, done)
