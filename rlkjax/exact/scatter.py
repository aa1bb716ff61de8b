"""Scatter-add that does not depend on the order of its updates.

M of a cell = largest magnitude among its old value and the updates that hit it. All of them are
rounded to the cell's grid, as in accumulate.py, and added exactly: up to 2^20 updates in float64,
more in int64.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from rlkjax.exact.accumulate import SUM_BITS, SUM_BLOCK, rounded, whole
from rlkjax.exact.grid import binade, power_of, to_grid
from rlkjax.exact.rounding import F32, Opaque, hidden, narrow_sum

Array = jax.Array
UNIT = np.float64(2.0**-SUM_BITS)


def gather_numbers(numbers: Any) -> lax.GatherDimensionNumbers:
    """The gather that reads what a scatter with these dimension numbers writes."""
    return lax.GatherDimensionNumbers(
        offset_dims=numbers.update_window_dims,
        collapsed_slice_dims=numbers.inserted_window_dims,
        start_index_map=numbers.scatter_dims_to_operand_dims,
        operand_batching_dims=numbers.operand_batching_dims,
        start_indices_batching_dims=numbers.scatter_indices_batching_dims,
    )


def window_sizes(operand: Array, updates: Array, numbers: Any) -> tuple[int, ...]:
    """Shape of the window of the operand that one index addresses."""
    window = iter(updates.shape[d] for d in numbers.update_window_dims)
    single = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    return tuple(1 if d in single else next(window) for d in range(operand.ndim))


def order_free_scatter_add(
    operand: Array, indices: Array, updates: Array, params: dict[str, Any], opaque: Opaque
) -> Array:
    """Adds updates into cells, as defined above.

    Args:
      operand: float32.
      indices: int32, start of each window.
      updates: float32.
      params: parameters of the `scatter-add` primitive.
      opaque: run-time scalars.

    Returns:
      float32, shape of operand.
    """
    if operand.size == 0:
        return operand
    # unique indices that are clipped may meet at the edge
    unique = params["unique_indices"] and params["mode"] != lax.GatherScatterMode.CLIP
    if unique or math.prod(indices.shape[:-1]) == 1:
        return scatter_add_once(operand, indices, updates, params, opaque)
    peak, here = peaks(operand, indices, updates, params, lambda bits: bits)
    cells, terms = power_of(peak), power_of(here)
    grids = to_grid(operand, cells, SUM_BITS), to_grid(updates, terms, SUM_BITS)
    total = plain_scatter_add(grids[0], indices, grids[1], params)
    if math.prod(indices.shape[:-1]) > SUM_BLOCK:
        total = jnp.where(
            jnp.isfinite(total),
            rounded(integers_added(grids, (cells, terms), indices, params)) * (cells * UNIT),
            total,
        )
    return narrow_sum(total, opaque)


def peaks(
    operand: Array,
    indices: Array,
    updates: Array,
    params: dict[str, Any],
    largest: Callable[[Array], Array],
) -> tuple[Array, Array]:
    """Binades of the largest magnitude in each cell.

    Args:
      operand: float32.
      indices: int32.
      updates: float32.
      params: of the primitive.
      largest: what others have in a cell, and this, to the larger of the two.

    Returns:
      int32: (for each cell, for each update).
    """
    numbers = params["dimension_numbers"]
    peak = lax.scatter_max(
        binade(operand, ()), indices, binade(updates, ()), numbers, **options(params)
    )
    peak = largest(peak)
    here = lax.gather(
        peak,
        indices,
        gather_numbers(numbers),
        window_sizes(operand, updates, numbers),
        fill_value=0,
        **options(params),
    )
    return peak, here


def integers_added(
    grids: Sequence[Array], powers: Sequence[Array], indices: Array, params: dict[str, Any]
) -> Array:
    """What each cell holds in the end, in units of its grid: int64.

    Args:
      grids: float64 on their grids: cells, updates.
      powers: float64, 2^e of each.
      indices: int32.
      params: of the primitive.
    """
    cells, terms = (whole(x, power * UNIT) for x, power in zip(grids, powers, strict=True))
    return plain_scatter_add(cells, indices, terms, params)


def plain_scatter_add(cells: Array, indices: Array, terms: Array, params: dict[str, Any]) -> Array:
    """lax.scatter_add."""
    return lax.scatter_add(cells, indices, terms, params["dimension_numbers"], **options(params))


def options(params: dict[str, Any]) -> dict[str, Any]:
    """What `lax` takes besides arrays and dimension numbers."""
    return {k: params[k] for k in ("indices_are_sorted", "unique_indices", "mode")}


def scatter_add_once(
    operand: Array, indices: Array, updates: Array, params: dict[str, Any], opaque: Opaque
) -> Array:
    """The same sums where no cell is hit twice: cells are read, added to, and written back."""
    numbers, mode = params["dimension_numbers"], params["mode"]
    sizes = window_sizes(operand, updates, numbers)
    old = lax.gather(operand, indices, gather_numbers(numbers), sizes, mode=mode, fill_value=0.0)
    peak = power_of(jnp.maximum(binade(old, ()), binade(updates, ())))
    total = to_grid(old, peak, SUM_BITS) + to_grid(updates, peak, SUM_BITS)
    untouched = operand + hidden(F32(0.0), opaque)
    return lax.scatter(
        untouched, indices, narrow_sum(total, opaque), numbers, unique_indices=True, mode=mode
    )
