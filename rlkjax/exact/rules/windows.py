"""Convolutions and windowed reductions, composed from slices, sums, maxima and dots.

Every window becomes a row of numbers; what is done with the row is defined by the rules of sums,
maxima and dots. So a window does not see its neighbours, and padding is a row of appended zeros.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from rlkjax.exact.interpret import Rule, composed
from rlkjax.exact.rules.folds import fold_halves, mapped_body

Array = jax.Array
Params = Mapping[str, Any]


class Axis(NamedTuple):
    """How windows lie along one axis.

    Attributes:
      size: elements of a window.
      stride: distance from window to window.
      low: elements of padding before; negative ones are cut.
      high: elements of padding after.
      gap: distance between the elements of the array, once spread.
      step: distance between the elements of a window.
    """

    size: int
    stride: int
    low: int
    high: int
    gap: int
    step: int


def window_axes(params: Params) -> list[Axis]:
    """The axes of a windowed reduction."""
    ones = (1,) * len(params["window_dimensions"])
    return [
        Axis(size, stride, low, high, gap, step)
        for size, stride, (low, high), gap, step in zip(
            params["window_dimensions"],
            params["window_strides"],
            params["padding"],
            params.get("base_dilation") or ones,
            params.get("window_dilation") or ones,
            strict=True,
        )
    ]


def windows(x: Array, axes: Sequence[Axis], fill: Any) -> Array:
    """The windows along the last axes.

    Args:
      x: [leading..., spatial...], one spatial axis for each of `axes`.
      axes: how the windows lie.
      fill: scalar of x's dtype in the padding and in the gaps.

    Returns:
      [leading..., windows..., elements of a window...].
    """
    lead = x.ndim - len(axes)
    edges = [(0, 0, 0)] * lead + [(a.low, a.high, a.gap - 1) for a in axes]
    x = lax.pad(x, jnp.asarray(fill, x.dtype), edges)
    for number, axis in enumerate(axes):
        x = along(x, lead + 2 * number, axis)
    counts = [lead + 2 * i for i in range(len(axes))]
    return lax.transpose(x, (*range(lead), *counts, *(c + 1 for c in counts)))


def along(x: Array, place: int, axis: Axis) -> Array:
    """Splits one axis into [windows, elements of a window], by as few slices as possible."""
    reach = (axis.size - 1) * axis.step + 1
    length = x.shape[place]
    count = (length - reach) // axis.stride + 1 if 0 < reach <= length else 0
    if count * axis.size == 0:
        count = count if reach > 0 else length // axis.stride + 1
        shape = (*x.shape[:place], count, axis.size, *x.shape[place + 1 :])
        return jnp.zeros(shape, x.dtype)
    if axis.size <= count:
        span = (count - 1) * axis.stride + 1
        starts = [j * axis.step for j in range(axis.size)]
        parts = [lax.slice_in_dim(x, s, s + span, axis.stride, place) for s in starts]
        return lax.concatenate([lax.expand_dims(p, (place + 1,)) for p in parts], place + 1)
    starts = [i * axis.stride for i in range(count)]
    parts = [lax.slice_in_dim(x, s, s + reach, axis.step, place) for s in starts]
    return lax.concatenate([lax.expand_dims(p, (place,)) for p in parts], place)


def rows(x: Array, params: Params, fill: Any) -> Array:
    """The windows over all axes, each one row: [windows..., elements of a window]."""
    parts = windows(x, window_axes(params), fill)
    return lax.reshape(parts, (*parts.shape[: x.ndim], math.prod(params["window_dimensions"])))


def lowest(dtype: Any, sign: int) -> Any:
    """What loses against every number in a maximum (sign 1) or a minimum (sign -1)."""
    if dtype == np.bool_:
        return sign < 0
    if jnp.issubdtype(dtype, jnp.integer):
        return np.iinfo(dtype).min if sign > 0 else np.iinfo(dtype).max
    return -sign * np.inf


def window_sum(params: Params) -> Callable[[Array], Array]:
    """Sum of each window, on the window's own grid."""

    def fn(x: Array) -> Array:
        return lax.reduce_sum(rows(x, params, 0), (x.ndim,))

    return fn


def window_extreme(sign: int) -> Callable[[Params], Callable[[Array], Array]]:
    """Largest (sign 1) or smallest (sign -1) of each window."""

    def make(params: Params) -> Callable[[Array], Array]:
        def fn(x: Array) -> Array:
            reduce = lax.reduce_max if sign > 0 else lax.reduce_min
            return reduce(rows(x, params, lowest(x.dtype, sign)), (x.ndim,))

        return fn

    return make


def reduce_window(params: Params) -> Callable[..., list[Array]]:
    """A window folded by the program's own function: halves first, initial values appended."""

    def fn(*args: Array) -> list[Array]:
        operands, starts = args[: len(args) // 2], args[len(args) // 2 :]
        body = mapped_body(params["jaxpr"], params.get("consts", ()))
        pairs = zip(operands, starts, strict=True)
        parts = [jnp.moveaxis(rows(x, params, start), -1, 0) for x, start in pairs]
        return fold_halves(body, parts, starts)

    return fn


def chosen(operand: Array, params: Params) -> tuple[Array, Array]:
    """Which element of each window is selected: the first largest (or smallest); NaN wins.

    Args:
      operand: float32 or integers.
      params: of the primitive; `select_prim` tells largest from smallest.

    Returns:
      ([windows..., 1] int32 place in the row, [windows...] bool: the window has an element).
    """
    sign = 1 if params["select_prim"].name == "ge" else -1
    parts = rows(operand, params, lowest(operand.dtype, sign))
    inside = rows(jnp.ones(operand.shape, jnp.bool_), params, False)
    reduce = lax.reduce_max if sign > 0 else lax.reduce_min
    best = lax.expand_dims(reduce(parts, (operand.ndim,)), (operand.ndim,))
    hit = inside & ((parts == best) | (parts != parts))
    place = lax.argmax(hit, operand.ndim, jnp.int32)
    return lax.expand_dims(place, (operand.ndim,)), lax.reduce_or(inside, (operand.ndim,))


def select_and_gather_add(params: Params) -> Callable[[Array, Array], Array]:
    """The value that lies where the window's selected element lies; 0 of a window of padding."""

    def fn(values: Array, operand: Array) -> Array:
        place, full = chosen(operand, params)
        picked = jnp.take_along_axis(rows(values, params, 0), place, -1, mode="clip")
        return jnp.where(full, lax.squeeze(picked, (operand.ndim,)), jnp.zeros((), values.dtype))

    return fn


def select_and_scatter_add(params: Params) -> Callable[[Array, Array], Array]:
    """Each source is added where its window's selected element lies: a scatter-add."""

    def fn(source: Array, operand: Array) -> Array:
        place, _ = chosen(operand, params)
        numbers = lax.reshape(lax.iota(jnp.int32, operand.size), operand.shape)
        where = jnp.take_along_axis(rows(numbers, params, operand.size), place, -1, mode="clip")
        cells = jnp.zeros(operand.size, source.dtype)
        added = cells.at[where.reshape(-1)].add(source.reshape(-1), mode="drop")
        return added.reshape(operand.shape)

    return fn


def convolution(params: Params) -> Callable[[Array, Array], Array]:
    """conv_general_dilated: a product of matrices, a row for each window.

    So the grid of the left operand is that of one window (of one group of channels), that of the
    right operand belongs to one output channel.
    """
    numbers = params["dimension_numbers"]
    groups = max(params["feature_group_count"], params["batch_group_count"])

    def fn(lhs: Array, rhs: Array) -> Array:
        x, kernel = lax.transpose(lhs, numbers.lhs_spec), lax.transpose(rhs, numbers.rhs_spec)
        parts = grouped(windows(x, convolution_axes(kernel.shape[2:], params), 0), params)
        weights = kernel.reshape(groups, kernel.shape[0] // groups, *kernel.shape[1:])
        spatial = kernel.ndim - 2
        left = (2, *range(3 + spatial, 3 + 2 * spatial))
        dims = ((left, tuple(range(2, weights.ndim))), ((0,), (0,)))
        out = lax.dot_general(
            parts, weights, dims, preferred_element_type=params["preferred_element_type"]
        )
        out = jnp.moveaxis(out, (0, -1), (1, 2))
        out = out.reshape(out.shape[0], kernel.shape[0], *out.shape[3:])
        return lax.transpose(out, np.argsort(numbers.out_spec))

    return fn


def convolution_axes(sizes: Sequence[int], params: Params) -> list[Axis]:
    """How the windows of a convolution lie along its spatial axes."""
    names = ("window_strides", "padding", "lhs_dilation", "rhs_dilation")
    return [
        Axis(size, stride, low, high, gap, step)
        for size, stride, (low, high), gap, step in zip(
            sizes, *(params[name] for name in names), strict=True
        )
    ]


def grouped(parts: Array, params: Params) -> Array:
    """[batch, channel, rest...] → [group, batch, channel, rest...], groups taken from either."""
    batch, channels, *rest = parts.shape
    count = params["batch_group_count"]
    if count > 1:
        return parts.reshape(count, batch // count, channels, *rest)
    count = params["feature_group_count"]
    return jnp.moveaxis(parts.reshape(batch, count, channels // count, *rest), 1, 0)


def rules() -> dict[str, Rule]:
    """The family's part of the table."""
    makers: dict[str, Callable[[Params], Callable[..., Any]]] = {
        "conv_general_dilated": convolution,
        "reduce_window_sum": window_sum,
        "reduce_window_max": window_extreme(1),
        "reduce_window_min": window_extreme(-1),
        "reduce_window": reduce_window,
        "select_and_gather_add": select_and_gather_add,
        "select_and_scatter_add": select_and_scatter_add,
    }
    return {name: composed(make) for name, make in makers.items()}
