"""Gather and scatter in NumPy, for every dimension numbering and mode."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Value = NDArray[Any]
Params = Mapping[str, Any]


class Numbers(NamedTuple):
    """What gather and scatter have in common.

    Attributes:
      window: axes of the result (or the updates) that run over the window.
      collapsed: axes of the operand whose window is 1 long and is dropped.
      index_map: axis of the operand that each entry of an index moves along.
      operand_batch: axes of the operand that go along with those of the indices.
      index_batch: the axes of the indices that they go along with.
    """

    window: Sequence[int]
    collapsed: Sequence[int]
    index_map: Sequence[int]
    operand_batch: Sequence[int]
    index_batch: Sequence[int]


def of_gather(d: Any) -> Numbers:
    """From GatherDimensionNumbers."""
    return Numbers(
        d.offset_dims,
        d.collapsed_slice_dims,
        d.start_index_map,
        d.operand_batching_dims,
        d.start_indices_batching_dims,
    )


def of_scatter(d: Any) -> Numbers:
    """From ScatterDimensionNumbers."""
    return Numbers(
        d.update_window_dims,
        d.inserted_window_dims,
        d.scatter_dims_to_operand_dims,
        d.operand_batching_dims,
        d.scatter_indices_batching_dims,
    )


def places(
    indices: Value, shape: Sequence[int], sizes: Sequence[int], numbers: Numbers, *, clip: bool
) -> tuple[tuple[Value, ...], Value]:
    """Where each element of each window lies in the operand.

    Args:
      indices: [batch..., depth] integers.
      shape: of the operand.
      sizes: of the window, one for each axis of the operand.
      numbers: dimension numbers.
      clip: move a window that leaves the operand back inside; else it is marked.

    Returns:
      (for each axis of the operand the place, [batch..., window...]; [batch...] bool: inside).
    """
    indices = indices.astype(np.int64)
    batch = indices.shape[:-1]
    inside = np.ones(batch, bool)
    kept = [a for a in range(len(shape)) if a not in (*numbers.collapsed, *numbers.operand_batch)]
    found = []
    for axis, (length, size) in enumerate(zip(shape, sizes, strict=True)):
        start = np.zeros(batch, np.int64)
        if axis in numbers.index_map:
            start = indices[..., list(numbers.index_map).index(axis)]
            inside = inside & (start >= 0) & (start <= length - size)
            start = np.clip(start, 0, length - size)
        elif axis in numbers.operand_batch:
            along = numbers.index_batch[list(numbers.operand_batch).index(axis)]
            line = [-1 if a == along else 1 for a in range(len(batch))]
            start = np.broadcast_to(np.arange(length).reshape(line), batch)
        line = [-1 if a == axis else 1 for a in kept]
        offset = np.arange(size).reshape(line) if axis in kept else 0
        found.append(start.reshape(batch + (1,) * len(kept)) + offset)
    inside = np.ones(batch, bool) if clip else inside
    return tuple(np.broadcast_arrays(*found)) if found else (), inside


def layout(num_batch: int, numbers: Numbers) -> list[int]:
    """Axes of the result in the order [batch..., window...]."""
    total = num_batch + len(numbers.window)
    return [a for a in range(total) if a not in numbers.window] + list(numbers.window)


def fills(mode: Any) -> bool:
    """Whether windows that leave the operand are dropped."""
    return "FILL" in str(getattr(mode, "name", mode)).upper()


def clips(mode: Any) -> bool:
    """Whether they are moved inside."""
    return "CLIP" in str(getattr(mode, "name", mode)).upper()


def default_fill(dtype: Any) -> Any:
    """What fills the windows that leave the operand, if the program names nothing."""
    if dtype == np.float32:
        return np.uint32(0x7FC00000).view(np.float32)
    if np.issubdtype(dtype, np.signedinteger):
        return np.iinfo(dtype).min
    return np.iinfo(dtype).max if np.issubdtype(dtype, np.integer) else True


def gather(params: Params, args: Sequence[Value]) -> Sequence[Value]:
    """The windows of the operand at the indices."""
    operand, indices = args
    numbers, mode = of_gather(params["dimension_numbers"]), params["mode"]
    fill = fills(mode)
    where, inside = places(indices, operand.shape, params["slice_sizes"], numbers, clip=not fill)
    out = operand[where]
    if fill:
        value = params["fill_value"]
        value = default_fill(operand.dtype) if value is None else value
        mask = inside.reshape(inside.shape + (1,) * (out.ndim - inside.ndim))
        out = np.where(mask, out, np.asarray(value, operand.dtype))
    order = layout(indices.ndim - 1, numbers)
    return [np.transpose(out, np.argsort(order))]


def scattered(
    operand: Value, indices: Value, updates: Value, params: Params
) -> tuple[tuple[Value, ...], Value]:
    """The place of every update that hits the operand, and the updates, both flat and in order."""
    numbers = of_scatter(params["dimension_numbers"])
    window = iter(updates.shape[a] for a in numbers.window)
    single = (*numbers.collapsed, *numbers.operand_batch)
    sizes = [1 if a in single else next(window) for a in range(operand.ndim)]
    where, inside = places(indices, operand.shape, sizes, numbers, clip=clips(params["mode"]))
    moved = np.transpose(updates, layout(indices.ndim - 1, numbers))
    mask = np.broadcast_to(
        inside.reshape(inside.shape + (1,) * (moved.ndim - inside.ndim)), moved.shape
    )
    return tuple(w[mask] for w in where), moved[mask]


def scatter(params: Params, args: Sequence[Value]) -> Sequence[Value]:
    """Replaces the windows at the indices; of several updates of one cell the last one stays."""
    out = args[0].copy()
    where, values = scattered(args[0], args[1], args[2], params)
    if out.ndim == 0:
        return [values[-1].reshape(()) if values.size else out]
    for position in range(values.size):
        out[tuple(w[position] for w in where)] = values[position]
    return [out]


def folded(args: Sequence[Value], params: Params, fn: Callable[[Value, Value], Value]) -> Value:
    """Cells combined with their updates, one after the other."""
    out = np.atleast_1d(args[0]).copy()
    where, values = scattered(args[0], args[1], args[2], params)
    where = where if args[0].ndim else (np.zeros(values.shape, np.int64),)
    for position in range(values.size):
        cell = tuple(w[position] for w in where)
        out[cell] = fn(out[cell], values[position])
    return out.reshape(args[0].shape)
