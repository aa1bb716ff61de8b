"""What devices compute together inside `shard_map`, as JAX operations: no order of devices counts.

A sum over devices has the grid of the largest magnitude on any of them; the integers are added. So
has a sum over microbatches, which `passes` goes through.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec

from rlkjax.exact.accumulate import SUM_BITS, added, rounded, whole
from rlkjax.exact.contraction import (
    DOT_BITS,
    DOT_WORD,
    LOW_BITS,
    Dims,
    Operand,
    block_sums,
    one_axis,
    rounded_words,
)
from rlkjax.exact.grid import binade, power_of, to_grid
from rlkjax.exact.passes import Pass
from rlkjax.exact.rounding import Opaque, narrow_sum, wide_dot
from rlkjax.exact.scatter import UNIT, integers_added, peaks, plain_scatter_add

Array = jax.Array
Params = Mapping[str, Any]
F32, I32 = jnp.float32, jnp.int32


class Others(NamedTuple):
    """Who else has terms of a sum.

    Attributes:
      names: of the device axes that it goes on over.
      microbatches: the pass over those; None if it does not go on over them.
    """

    names: tuple[str, ...]
    microbatches: Pass | None = None

    def largest(self, bits: Array) -> Array:
        """The largest of these integers here and there."""
        bits = self.microbatches.largest(bits) if self.microbatches else bits
        return lax.pmax(bits, self.names) if self.names else bits

    def total(self, x: Array) -> Array:
        """The sum of these numbers, exact in any order, here and there."""
        x = self.microbatches.total(x) if self.microbatches else x
        return lax.psum(x, self.names) if self.names else x

    def size(self) -> int:
        """How many there are, this one included."""
        devices = math.prod(lax.axis_size(n) for n in self.names)
        return devices * (self.microbatches.count if self.microbatches else 1)


def device_sum(x: Array, axes: Sequence[int], others: Others, opaque: Opaque) -> Array:
    """Sum along axes and over others; float32: one rounding at the end.

    Args:
      x: float32 or integers, the part that is here.
      axes: axes that vanish; may be none.
      others: who else has terms.
      opaque: run-time scalars.

    Returns:
      The dtype of x, the same on every device of those axes.
    """
    axes = tuple(axes)
    if x.dtype != F32:
        return others.total(lax.reduce_sum(x, axes))
    peak = power_of(others.largest(binade(x, axes)))
    unit = peak * np.float64(2.0**-SUM_BITS)
    grid = to_grid(x, peak, SUM_BITS)
    plain = others.total(added(grid, axes))
    total = others.total(lax.reduce_sum(whole(grid, unit), axes))
    value = rounded(total) * jnp.squeeze(unit, axes)
    return narrow_sum(jnp.where(jnp.isfinite(plain), value, plain), opaque)


def device_dot(lhs: Array, rhs: Array, dims: Dims, others: Others, opaque: Opaque) -> Array:
    """dot_general whose contracted axes go on over others, one rounding at the end.

    Args:
      lhs: float32, the part that is here.
      rhs: float32, likewise.
      dims: dimension numbers of `lax.dot_general`.
      others: who else has terms.
      opaque: run-time scalars.

    Returns:
      float32, the same on every device of those axes.
    """
    left, right = (
        Operand(x, power_of(others.largest(binade(x, axes))))
        for x, axes in zip((lhs, rhs), dims[0], strict=True)
    )
    left, right, dims = one_axis(left, right, dims)
    scale = np.float64(2.0**-DOT_BITS)
    unit = wide_dot(left.power * scale, right.power * scale, dims)
    plain, high, low = block_sums(left, right, 1.0 / unit, dims)
    size = left.values.shape[-1]
    if size < DOT_WORD <= size * others.size():
        high, low = low >> LOW_BITS, low & (2**LOW_BITS - 1)
    plain, low = others.total(plain), others.total(low)
    high = others.total(high) if size * others.size() >= DOT_WORD else high
    return narrow_sum(
        jnp.where(jnp.isfinite(plain), rounded_words(high, low) * unit, plain), opaque
    )


def device_scatter_add(
    operand: Array,
    indices: Array,
    updates: Array,
    params: Params,
    others: Others,
    opaque: Opaque,
) -> Array:
    """scatter-add into zeros, whose updates go on over others; one rounding at the end.

    Args:
      operand: float32, zeros.
      indices: int32, start of each window here.
      updates: float32, those that are here.
      params: of the primitive.
      others: who else has updates.
      opaque: run-time scalars.

    Returns:
      float32 of the shape of operand, the same on every device of those axes.
    """
    params = dict(params)
    powers = [power_of(p) for p in peaks(operand, indices, updates, params, others.largest)]
    grids = [to_grid(x, p, SUM_BITS) for x, p in zip((operand, updates), powers, strict=True)]
    plain = others.total(plain_scatter_add(grids[0], indices, grids[1], params))
    total = others.total(integers_added(grids, powers, indices, params))
    value = rounded(total) * (powers[0] * UNIT)
    return narrow_sum(jnp.where(jnp.isfinite(plain), value, plain), opaque)


def psum(params: Params, args: Sequence[Array], opaque: Opaque) -> list[Array]:
    """Sums over devices."""
    others = Others(tuple(params["axes"]))
    return [device_sum(x, (), others, opaque) for x in args]


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
