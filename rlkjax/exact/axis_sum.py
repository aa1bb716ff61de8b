"""A sum along axes as one primitive: on CPUs a kernel, elsewhere the program of accumulate.

Both have the bits that accumulate.py defines; subnormal elements count as zeros, and every NaN of
the result has one bit pattern. An exported program holds no kernel.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from rlkjax.exact.accumulate import moved_size, order_free_sum
from rlkjax.exact.few import few_terms
from rlkjax.exact.kernels import library
from rlkjax.exact.kernels.primitive import LANES, is_placed, primitive
from rlkjax.exact.product import as_matrices, where_it_lies
from rlkjax.exact.rounding import F32, Opaque, flushed, one_nan
from rlkjax.exact.views import Views

Array = jax.Array

LEAST_TERMS = 16
LEAST = 2**5


def exact_sum(x: Array, axes: Sequence[int], views: Views, opaque: Opaque) -> Array:
    """Sum along axes as `accumulate.order_free_sum` defines it.

    Args:
      x: float32.
      axes: axes that vanish.
      views: of x; learns that the result is finished.
      opaque: run-time scalars.

    Returns:
      float32, the shape of x without `axes`.
    """
    axes = tuple(map(int, axes))
    if not has_kernel(x.aval, axes):
        return order_free_sum(x, axes, opaque)
    source, axes, _ = where_it_lies(views.of(x), x, axes, ())
    return views.finished(sum_p.bind(source, *opaque, axes=axes))


def has_kernel(x: Any, axes: Sequence[int]) -> bool:
    """Whether a kernel computes a sum, on CPUs; x: type of the operand."""
    return worth_a_kernel(x, axes) and library.in_use()


def worth_a_kernel(x: Any, axes: Sequence[int]) -> bool:
    """Whether a sum is large enough for a pass of its own; see `product.worth_a_kernel`."""
    if few_terms(x, axes) or is_placed(x):
        return False
    return x.size >= LEAST and moved_size(x, axes) >= LEAST_TERMS


def portable(x: Array, *opaque: Array, axes: Sequence[int]) -> Array:
    """The sum in operations of XLA."""
    scalars = Opaque(*opaque)
    with jax.enable_x64(True):
        return one_nan(order_free_sum(flushed(x, scalars), axes, scalars))


def by_kernel(x: Array, *_: Array, axes: Sequence[int], lanes: int = LANES) -> Array:
    """The sum by the kernel.

    Args:
      x: float32.
      axes: axes that vanish.
      lanes: the most numbers in a vector; the processor may have fewer.

    Returns:
      float32, the shape of x without `axes`.
    """
    rows, last = as_matrices(x, axes, ())
    shape = shape_of(x, axes=axes)
    result = jax.ffi.ffi_call("rlkjax_sum", jax.ShapeDtypeStruct((math.prod(shape),), F32))(
        lax.squeeze(rows, (0,)), terms_last=last, lanes=np.int64(lanes)
    )
    return lax.reshape(result, shape)


def shape_of(x: Any, *_: Any, axes: Sequence[int]) -> list[int]:
    """Shape of the sum."""
    return [n for a, n in enumerate(x.shape) if a not in axes]


def batch_rule(
    args: Sequence[Array], mapped: Sequence[Any], *, axes: Sequence[int]
) -> tuple[Array, int]:
    """A mapped axis is one more that stays."""
    x, *opaque = args
    x = jnp.moveaxis(x, mapped[0], 0)
    return sum_p.bind(x, *opaque, axes=tuple(a + 1 for a in axes)), 0


sum_p = primitive("exact_sum", shape_of, portable, by_kernel, batch_rule, operands=1)
