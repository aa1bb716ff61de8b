"""Operands that a loop does not change, put on their grids once, before it.

A solver multiplies one matrix by another vector in every turn. The largest number of a row has all
its bits on the row's grid, so that a row that is on its grid has the same grid again, and every
number of it stays what it is: a product has the bits it had, and its kernel has less to do.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from rlkjax.exact import compat
from rlkjax.exact.kernels.primitive import LANES, primitive
from rlkjax.exact.rounding import F32

Array = jax.Array


class Steady:
    """What was put on its grid outside of the bodies that ask for it."""

    def __init__(self) -> None:
        """Has none."""
        self._made: dict[tuple[int, int], tuple[Array, Array]] = {}

    def on_grid(self, x: Array, terms: int) -> Array:
        """An operand on its grid, for a product by the kernel.

        Args:
          x: float32, made outside of the body that is being traced.
          terms: numbers of a row; rows lie one after the other.

        Returns:
          float32 of the same shape, that stands for x.
        """
        key = id(x), terms
        if key not in self._made:
            with compat.in_trace_of(x):
                self._made[key] = x, on_grid_p.bind(x, terms=terms)
        return self._made[key][1]


def portable(x: Array, *, terms: int) -> Array:
    """x itself: no product but the kernel's gains anything."""
    return x


def by_kernel(x: Array, *, terms: int, lanes: int = LANES) -> Array:
    """Rows on their grids, if the kernel for this processor gains by it.

    Args:
      x: float32.
      terms: numbers of a row.
      lanes: the most numbers in a vector; the processor may have fewer.

    Returns:
      float32 of the same shape, without subnormal numbers; an infinity or NaN stays.
    """
    rows = jax.ShapeDtypeStruct((x.size // terms, terms), F32)
    done = jax.ffi.ffi_call("rlkjax_on_grid", rows)(
        lax.reshape(x, rows.shape), lanes=np.int64(lanes)
    )
    return lax.reshape(done, x.shape)


def shape_of(x: Any, *, terms: int) -> Sequence[int]:
    """Shape of the result."""
    return tuple(x.shape)


def batch_rule(args: Sequence[Array], axes: Sequence[Any], *, terms: int) -> tuple[Array, int]:
    """A mapped axis is one of rows."""
    return on_grid_p.bind(jnp.moveaxis(args[0], axes[0], 0), terms=terms), 0


on_grid_p = primitive("exact_on_grid", shape_of, portable, by_kernel, batch_rule, operands=1)
