"""Scatters that keep the largest, multiply, or apply the program's own function.

A maximum has no order. The others have one: the updates of a cell follow one another as their
indices do, first axis slowest.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from rlkjax.exact import compat
from rlkjax.exact.interpret import Rule, composed
from rlkjax.exact.rules.folds import mapped_body
from rlkjax.exact.scatter import gather_numbers, window_sizes

Array = jax.Array
Params = Mapping[str, Any]
LOWEST = -(2**31)


def to_key(x: Array, sign: int) -> Array:
    """Integers that order like float32 numbers; NaN beyond all of them on the side of `sign`."""
    bits = lax.bitcast_convert_type(x, jnp.int32)
    key = bits ^ ((bits >> 31) & jnp.int32(0x7FFFFFFF))
    return key if sign > 0 else jnp.where(x != x, jnp.int32(LOWEST), key)


def from_key(key: Array) -> Array:
    """The number of a key."""
    return lax.bitcast_convert_type(key ^ ((key >> 31) & jnp.int32(0x7FFFFFFF)), jnp.float32)


def options(params: Params) -> dict[str, Any]:
    """Keyword arguments of lax's scatters."""
    names = ("indices_are_sorted", "unique_indices", "mode")
    return {name: params[name] for name in names}


def extreme(sign: int) -> Rule:
    """Each cell keeps the largest (sign 1) or smallest: NaN wins, +0 is above -0."""

    def make(params: Params) -> Callable[[Array, Array, Array], Array]:
        def fn(operand: Array, indices: Array, updates: Array) -> Array:
            scatter = lax.scatter_max if sign > 0 else lax.scatter_min
            keys = to_key(operand, sign), to_key(updates, sign)
            numbers = params["dimension_numbers"]
            return from_key(scatter(keys[0], indices, keys[1], numbers, **options(params)))

        return fn

    by_keys = composed(make).apply

    def apply(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
        floats = eqn.invars[0].aval.dtype == jnp.float32
        return by_keys(ops, eqn, args) if floats else ops.move(eqn, args)

    return Rule("moved", apply)


def subtract(params: Params) -> Callable[[Array, Array, Array], Array]:
    """scatter-add of the negated updates."""

    def fn(operand: Array, indices: Array, updates: Array) -> Array:
        numbers = params["dimension_numbers"]
        return lax.scatter_add(operand, indices, -updates, numbers, **options(params))

    return fn


def multiply(params: Params) -> Callable[[Array, Array, Array], Array]:
    """Each cell times its updates, in order."""
    return lambda *args: one_by_one(lambda old, new: old * new, args, params)


def replace(params: Params) -> Callable[[Array, Array, Array], Array]:
    """Each cell is given to the program's own function, once for every index that names it."""
    body = mapped_body(params["update_jaxpr"], params["update_consts"])
    return lambda *args: one_by_one(lambda old, new: body(old, new)[0], args, params)


def one_by_one(fn: Callable[[Array, Array], Array], args: Sequence[Array], params: Params) -> Array:
    """Cells become fn(cell, update): at once if no index repeats, else index by index."""
    operand, indices, updates = args
    numbers, mode = params["dimension_numbers"], params["mode"]
    if params["unique_indices"]:
        return touched(fn, args, numbers, mode)
    indices, single = listed(indices, numbers)
    window = len(numbers.update_window_dims)
    batch = [a for a in range(updates.ndim) if a not in numbers.update_window_dims]
    moved = lax.transpose(updates, (*batch, *numbers.update_window_dims))
    count = indices.shape[0]
    moved = lax.reshape(moved, (count, *moved.shape[moved.ndim - window :]))

    def step(i: Array, cells: Array) -> Array:
        where = lax.dynamic_index_in_dim(indices, i, 0, keepdims=False)
        update = lax.dynamic_index_in_dim(moved, i, 0, keepdims=False)
        return touched(fn, (cells, where, update), single, mode)

    return lax.fori_loop(0, count, step, operand) if count else operand


def touched(
    fn: Callable[[Array, Array], Array], args: Sequence[Array], numbers: Any, mode: Any
) -> Array:
    """Reads windows that do not overlap, changes them and writes them back."""
    operand, indices, updates = args
    sizes = window_sizes(operand, updates, numbers)
    old = lax.gather(operand, indices, gather_numbers(numbers), sizes, mode=mode, fill_value=0)
    new = fn(old, updates)
    return lax.scatter(operand, indices, new, numbers, unique_indices=True, mode=mode)


def listed(indices: Array, numbers: Any) -> tuple[Array, Any]:
    """Indices as a list, and the dimension numbers of a single one.

    Axes that go along with those of the indices become entries of the index.

    Returns:
      ([count, depth] integers, dimension numbers).
    """
    batch = indices.shape[:-1]
    columns = [indices]
    for axis in numbers.scatter_indices_batching_dims:
        columns.append(lax.broadcasted_iota(indices.dtype, (*batch, 1), axis))
    joined = lax.concatenate(columns, len(batch))
    along = tuple(numbers.operand_batching_dims)
    single = lax.ScatterDimensionNumbers(
        update_window_dims=tuple(range(len(numbers.update_window_dims))),
        inserted_window_dims=tuple(sorted((*numbers.inserted_window_dims, *along))),
        scatter_dims_to_operand_dims=(*numbers.scatter_dims_to_operand_dims, *along),
    )
    return joined.reshape(-1, joined.shape[-1]), single


def scatter(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """Cells are replaced by their updates, or changed by the program's own function."""
    if compat.replaces(eqn.params):
        return ops.move(eqn, args)
    return composed(replace).apply(ops, eqn, args)


def rules() -> dict[str, Rule]:
    """The family's part of the table."""
    families = {
        "max": extreme(1),
        "min": extreme(-1),
        "sub": composed(subtract),
        "mul": composed(multiply),
    }
    table = {f"scatter{mark}{name}": rule for name, rule in families.items() for mark in "-_"}
    return table | {"scatter": Rule("moved", scatter)}
