"""What devices compute together inside `shard_map`, as JAX operations: no order of devices counts.

A sum over devices has the grid of the largest magnitude on any of them; the integers are added.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec

from rlkjax.exact.accumulate import SUM_BITS, added, rounded, whole
from rlkjax.exact.contraction import (
    DOT_BITS,
    DOT_WORD,
    Dims,
    Operand,
    block_sums,
    one_axis,
    rounded_words,
)
from rlkjax.exact.grid import binade, power_of, to_grid
from rlkjax.exact.rounding import Opaque, narrow_sum

Array = jax.Array
Params = Mapping[str, Any]
F32, I32 = jnp.float32, jnp.int32
LOW_BITS = 20


def device_sum(x: Array, axes: Sequence[int], devices: Sequence[str], opaque: Opaque) -> Array:
    """Sum along axes and over devices, one rounding at the end.

    Args:
      x: float32, this device's part.
      axes: axes that vanish; may be none.
      devices: names of the device axes.
      opaque: run-time scalars.

    Returns:
      float32, the same on every device of those axes.
    """
    axes, names = tuple(axes), tuple(devices)
    peak = power_of(lax.pmax(binade(x, axes), names))
    unit = peak * np.float64(2.0**-SUM_BITS)
    grid = to_grid(x, peak, SUM_BITS)
    plain = lax.psum(added(grid, axes), names)
    total = lax.psum(lax.reduce_sum(whole(grid, unit), axes), names)
    value = rounded(total) * jnp.squeeze(unit, axes)
    return narrow_sum(jnp.where(jnp.isfinite(plain), value, plain), opaque)


def device_dot(lhs: Array, rhs: Array, dims: Dims, devices: Sequence[str], opaque: Opaque) -> Array:
    """dot_general whose contracted axes go on over devices, one rounding at the end.

    Args:
      lhs: float32, this device's part.
      rhs: float32, likewise.
      dims: dimension numbers of `lax.dot_general`.
      devices: names of the device axes.
      opaque: run-time scalars.

    Returns:
      float32, the same on every device of those axes.
    """
    names = tuple(devices)
    left, right = (
        Operand(x, power_of(lax.pmax(binade(x, axes), names)))
        for x, axes in zip((lhs, rhs), dims[0], strict=True)
    )
    left, right, dims = one_axis(left, right, dims)
    scale = np.float64(2.0**-DOT_BITS)
    unit = lax.dot_general(left.power * scale, right.power * scale, dims)
    plain, high, low = block_sums(left, right, 1.0 / unit, dims)
    size = left.values.shape[-1]
    if size < DOT_WORD <= size * math.prod(lax.axis_size(n) for n in names):
        high, low = low >> LOW_BITS, low & (2**LOW_BITS - 1)
    plain, high, low = (lax.psum(v, names) for v in (plain, high, low))
    return narrow_sum(
        jnp.where(jnp.isfinite(plain), rounded_words(high, low) * unit, plain), opaque
    )


def psum(params: Params, args: Sequence[Array], opaque: Opaque) -> list[Array]:
    """Sums over devices."""
    names = tuple(params["axes"])
    return [
        device_sum(x, (), names, opaque) if x.dtype == F32 else lax.psum(x, names) for x in args
    ]


def extreme(sign: int) -> Callable[[Params, Sequence[Array], Opaque], list[Array]]:
    """Largest (sign 1) or smallest over devices: NaN wins, +0 is above -0."""
    choose = lax.pmax if sign > 0 else lax.pmin

    def fn(params: Params, args: Sequence[Array], opaque: Opaque) -> list[Array]:
        names, outs = tuple(params["axes"]), []
        for x in args:
            if x.dtype != F32:
                outs.append(choose(x, names))
                continue
            bits = lax.bitcast_convert_type(x, I32)
            key = bits ^ ((bits >> 31) & 0x7FFFFFFF)
            key = choose(jnp.where(x != x, I32(sign * 0x7FFFFFFF), key), names)
            outs.append(lax.bitcast_convert_type(key ^ ((key >> 31) & 0x7FFFFFFF), F32))
        return outs

    return fn


def all_gather(params: Params, args: Sequence[Array], opaque: Opaque) -> list[Array]:
    """The parts of all devices, side by side or along a new axis."""
    place, tiled = params["all_gather_dimension"], params["tiled"]
    return [lax.all_gather(x, params["axis_name"], axis=place, tiled=tiled) for x in args]


def reduce_scatter(params: Params, args: Sequence[Array], opaque: Opaque) -> list[Array]:
    """Each device's piece of the sum over devices."""
    (total,) = psum({"axes": params["axis_name"]}, args, opaque)
    place = params["scatter_dimension"]
    size = total.shape[place] // params["axis_size"]
    start = lax.axis_index(params["axis_name"]) * size
    piece = lax.dynamic_slice_in_dim(total, start, size, place)
    return [piece if params["tiled"] else lax.squeeze(piece, (place,))]


def ppermute(params: Params, args: Sequence[Array], opaque: Opaque) -> list[Array]:
    """The part of another device, zeros if none sends."""
    return [lax.ppermute(x, params["axis_name"], params["perm"]) for x in args]


def all_to_all(params: Params, args: Sequence[Array], opaque: Opaque) -> list[Array]:
    """Piece i of every device goes to device i."""
    places = params["split_axis"], params["concat_axis"]
    return [lax.all_to_all(x, params["axis_name"], *places, tiled=True) for x in args]


def axis_index(params: Params, args: Sequence[Array], opaque: Opaque) -> list[Array]:
    """Number of this device along an axis."""
    return [lax.convert_element_type(lax.axis_index(params["axis_name"]), I32)]


COLLECTIVES: dict[str, Callable[[Params, Sequence[Array], Opaque], list[Array]]] = {
    "psum": psum,
    "psum_invariant": psum,
    "pmax": extreme(1),
    "pmin": extreme(-1),
    "all_gather": all_gather,
    "all_gather_invariant": all_gather,
    "reduce_scatter": reduce_scatter,
    "ppermute": ppermute,
    "all_to_all": all_to_all,
    "axis_index": axis_index,
}


def shard_map(
    body: Callable[[Opaque, Sequence[Array]], list[Array]],
    params: Params,
    args: Sequence[Array],
    opaque: Opaque,
) -> list[Array]:
    """The body on every device, each on its parts.

    Args:
      body: (run-time scalars, parts of the operands) -> parts of the results.
      params: of the `shard_map` primitive.
      args: the operands.
      opaque: run-time scalars, handed to the devices as operands.

    Returns:
      The results.
    """
    count = len(opaque)

    def local(*values: Array) -> tuple[Array, ...]:
        return tuple(body(Opaque(*values[:count]), values[count:]))

    mapped = jax.shard_map(
        local,
        mesh=params["mesh"],
        in_specs=(*(PartitionSpec(),) * count, *params["in_specs"]),
        out_specs=tuple(params["out_specs"]),
        axis_names=set(params["newly_manual_axes"]),
        check_vma=False,
    )
    return list(mapped(*opaque, *args))
