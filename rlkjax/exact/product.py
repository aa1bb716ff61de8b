"""A product of matrices as one primitive: on CPUs a kernel, elsewhere the program of contraction.

Both have the bits that contraction.py defines; subnormal numbers of the operands count as zeros,
and every NaN of the result has one bit pattern. An exported program holds no kernel.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from rlkjax.exact import compat
from rlkjax.exact.contraction import Dims, order_free_dot, product_shape
from rlkjax.exact.few import few_products
from rlkjax.exact.kernels import library
from rlkjax.exact.kernels.primitive import LANES, is_placed, primitive
from rlkjax.exact.rounding import F32, Opaque, flushed, one_nan
from rlkjax.exact.steady import Steady
from rlkjax.exact.views import View, Views

Array = jax.Array

LEAST = 128
LEAST_TERMS = 16
SHORT = 64  # terms of the columns that short_dots.h takes together
MOST_TERMS = 2**29


def exact_dot(
    lhs: Array, rhs: Array, dims: Dims, views: Views, steady: Steady, opaque: Opaque
) -> Array:
    """dot_general as `contraction.order_free_dot` defines it.

    Args:
      lhs: float32.
      rhs: float32.
      dims: dimension numbers of `lax.dot_general`.
      views: of the operands; learns that the result is finished.
      steady: operands that loops do not change.
      opaque: run-time scalars.

    Returns:
      float32 of the shape that `lax.dot_general` gives.
    """
    if not has_kernel(lhs.aval, rhs.aval, dims):
        return order_free_dot(lhs, rhs, dims, opaque)
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dims
    left, left_contract, left_batch = where_it_lies(views.of(lhs), lhs, lhs_contract, lhs_batch)
    right, right_contract, right_batch = where_it_lies(views.of(rhs), rhs, rhs_contract, rhs_batch)
    left, left_done = columns_on_grid(left, left_contract, left_batch, right, steady)
    right, right_done = columns_on_grid(right, right_contract, right_batch, left, steady)
    product = product_p.bind(
        left,
        right,
        *opaque,
        dimension_numbers=((left_contract, right_contract), (left_batch, right_batch)),
        on_grid=left_done or right_done,
    )
    return views.finished(product)


def columns_on_grid(
    x: Array, contract: Sequence[int], batch: Sequence[int], other: Array, steady: Steady
) -> tuple[Array, bool]:
    """One side of a product, on its grid if that is worth it.

    That takes as long as one or two products of its columns and a row. So it is worth it outside
    of a loop, and only for a kernel that has less to do then: short_dots.h.
    """
    terms, matrices = (math.prod(x.shape[a] for a in axes) for axes in (contract, batch))
    beside_a_row = other.size == matrices * terms < x.size
    if not (beside_a_row and terms <= SHORT and lie_row_by_row(x, contract, batch)):
        return x, False
    return (steady.on_grid(x, terms), True) if compat.is_outside(x) else (x, False)


def lie_row_by_row(x: Array, contract: Sequence[int], batch: Sequence[int]) -> bool:
    """Whether contracted axes come last, and batch axes first."""
    last = range(x.ndim - len(contract), x.ndim)
    return len(contract) > 0 and [*batch, *contract] == [*range(len(batch)), *last]


def where_it_lies(
    view: View, x: Array, contract: Sequence[int], batch: Sequence[int]
) -> tuple[Array, tuple[int, ...], tuple[int, ...]]:
    """An operand as it lies in memory, and its axes there.

    Args:
      view: of x.
      x: the operand.
      contract: its contracted axes.
      batch: its batch axes.

    Returns:
      (array, contracted axes, batch axes); x itself if the axes that stay would change places.
    """
    free = [view.order[a] for a in range(x.ndim) if a not in contract and a not in batch]
    source, order = view if free == sorted(free) else (x, tuple(range(x.ndim)))
    return source, tuple(order[a] for a in contract), tuple(order[a] for a in batch)


def has_kernel(lhs: Any, rhs: Any, dims: Dims) -> bool:
    """Whether a kernel computes a product, on CPUs; lhs and rhs: types of the operands."""
    return worth_a_kernel(lhs, rhs, dims) and library.in_use()


def worth_a_kernel(lhs: Any, rhs: Any, dims: Dims) -> bool:
    """Whether a product is large enough for its call, and none that loops around it take up."""
    (contract, _), (batch, _) = dims
    terms, matrices = (math.prod(lhs.shape[a] for a in axes) for axes in (contract, batch))
    if 0 in (*lhs.shape, *rhs.shape) or is_placed(lhs) or is_placed(rhs):
        return False
    rows, columns = (x.size // (matrices * terms) for x in (lhs, rhs))
    if terms > MOST_TERMS or few_products(lhs, rhs, dims[0], matrices * rows * columns):
        return False
    if min(rows, columns) == 1:
        return terms >= LEAST_TERMS
    return rows * columns * terms >= LEAST


def portable(
    lhs: Array, rhs: Array, *opaque: Array, dimension_numbers: Dims, on_grid: bool = False
) -> Array:
    """The product in operations of XLA; what is on its grid already changes nothing."""
    scalars = Opaque(*opaque)
    with jax.enable_x64(True):
        operands = flushed(lhs, scalars), flushed(rhs, scalars)
        return one_nan(order_free_dot(*operands, dimension_numbers, scalars))


def by_kernel(
    lhs: Array,
    rhs: Array,
    *_: Array,
    dimension_numbers: Dims,
    on_grid: bool = False,
    lanes: int = LANES,
    shares: int = 0,
) -> Array:
    """The product by the kernel.

    Args:
      lhs: float32.
      rhs: float32.
      dimension_numbers: of `lax.dot_general`.
      on_grid: whether the side that has columns beside one row of the other is on its grid.
      lanes: the most numbers in a vector; the processor may have fewer.
      shares: for how many threads the work is cut; 0: those that XLA has, if it is worth it.

    Returns:
      float32 of the shape that `lax.dot_general` gives.
    """
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    left, left_last = as_matrices(lhs, lhs_contract, lhs_batch)
    right, right_last = as_matrices(rhs, rhs_contract, rhs_batch)
    shape = (left.shape[0], left.shape[2 - left_last], right.shape[2 - right_last])
    result = jax.ffi.ffi_call("rlkjax_product", jax.ShapeDtypeStruct(shape, F32))(
        left,
        right,
        lhs_terms_last=left_last,
        rhs_terms_last=right_last,
        on_grid=on_grid,
        lanes=np.int64(lanes),
        shares=np.int64(shares),
    )
    return lax.reshape(result, product_shape(lhs, rhs, dimension_numbers))


def as_matrices(x: Array, contract: Sequence[int], batch: Sequence[int]) -> tuple[Array, bool]:
    """Brings axes to [batch, free, contracted] or [batch, contracted, free].

    Args:
      x: any array.
      contract: contracted axes.
      batch: batch axes.

    Returns:
      An array of 3 axes, in the order that moves less, and whether the contracted one is the last.
    """
    free = [a for a in range(x.ndim) if a not in contract and a not in batch]
    last = not free or max(free) < max(contract, default=x.ndim)
    groups = (batch, free, contract) if last else (batch, contract, free)
    sizes = [math.prod(x.shape[a] for a in axes) for axes in groups]
    return lax.reshape(lax.transpose(x, [a for axes in groups for a in axes]), sizes), last


def shape_of(lhs: Any, rhs: Any, *_: Any, dimension_numbers: Dims, **__: Any) -> tuple[int, ...]:
    """Shape of the product."""
    return product_shape(lhs, rhs, dimension_numbers)


def batch_rule(
    args: Sequence[Array], axes: Sequence[Any], *, dimension_numbers: Dims, on_grid: bool
) -> tuple[Array, int]:
    """A mapped axis is one more batch axis if both operands have it, or else a free one."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    lhs, rhs, *opaque = args
    mapped = [axis is not None for axis in axes[:2]]
    if mapped[0]:
        lhs = jnp.moveaxis(lhs, axes[0], 0)
        lhs_contract, lhs_batch = moved_up(lhs_contract), moved_up(lhs_batch)
    if mapped[1]:
        rhs = jnp.moveaxis(rhs, axes[1], 0)
        rhs_contract, rhs_batch = moved_up(rhs_contract), moved_up(rhs_batch)
    place = len(lhs_batch)
    if all(mapped):
        lhs_batch, rhs_batch, place = (0, *lhs_batch), (0, *rhs_batch), 0
    elif mapped[1]:
        place = lhs.ndim - len(lhs_contract)
    dims = (lhs_contract, rhs_contract), (lhs_batch, rhs_batch)
    return product_p.bind(lhs, rhs, *opaque, dimension_numbers=dims, on_grid=on_grid), place


def moved_up(axes: Sequence[int]) -> tuple[int, ...]:
    """Axes, counted after a new first one."""
    return tuple(a + 1 for a in axes)


product_p = primitive("exact_product", shape_of, portable, by_kernel, batch_rule, operands=2)
