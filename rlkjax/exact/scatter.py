"""Scatter-add that does not depend on the order of its updates.

M of a cell = largest magnitude among its old value and the updates that hit it. All of them are
rounded to the cell's grid, as in accumulate.py, and added exactly: up to 2^20 updates in float64,
more in int64.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from rlkjax.exact.accumulate import SUM_BITS, SUM_BLOCK, rounded, whole
from rlkjax.exact.grid import binade, power_of, to_grid
from rlkjax.exact.rounding import F32, Opaque, hidden, narrow_sum

Array = jax.Array


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
    numbers = params["dimension_numbers"]
    if operand.size == 0:
        return operand
    # unique indices that are clipped may meet at the edge
    unique = params["unique_indices"] and params["mode"] != lax.GatherScatterMode.CLIP
    if unique or math.prod(indices.shape[:-1]) == 1:
        return scatter_add_once(operand, indices, updates, params, opaque)
    options = {
        "indices_are_sorted": params["indices_are_sorted"],
        "unique_indices": params["unique_indices"],
        "mode": params["mode"],
    }
    old = binade(operand, ())
    peak = lax.scatter_max(old, indices, binade(updates, ()), numbers, **options)
    here = lax.gather(
        peak,
        indices,
        gather_numbers(numbers),
        window_sizes(operand, updates, numbers),
        mode=params["mode"],
        fill_value=0,
        indices_are_sorted=params["indices_are_sorted"],
        unique_indices=params["unique_indices"],
    )
    cells = to_grid(operand, power_of(peak), SUM_BITS)
    terms = to_grid(updates, power_of(here), SUM_BITS)
    total = lax.scatter_add(cells, indices, terms, numbers, **options)
    if math.prod(indices.shape[:-1]) > SUM_BLOCK:
        unit, unit_here = (power_of(p) * np.float64(2.0**-SUM_BITS) for p in (peak, here))
        integers = whole(cells, unit), indices, whole(terms, unit_here)
        exact = rounded(lax.scatter_add(*integers, numbers, **options)) * unit
        total = jnp.where(jnp.isfinite(total), exact, total)
    return narrow_sum(total, opaque)


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
