"""Primitives that move, compare or order values, in NumPy: (params, operands) -> results.

Typed random keys are uint64 numbers here, the first word high. Gather and scatter: numpy_gather.py;
random bits: numpy_random.py.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlkjax.exact import numpy_gather, numpy_random

Value = NDArray[Any]
Params = Mapping[str, Any]
Move = Callable[[Params, Sequence[Value]], Sequence[Value]]

TOP = np.int64(2**31)


def order_key(x: Value) -> Value:
    """int64 that orders like x: -inf < ... < -0 < +0 < ... < inf < NaN."""
    if x.dtype != np.float32:
        return x.astype(np.int64)
    bits = x.view(np.int32).astype(np.int64)
    key = np.where(bits < 0, -(bits & 0x7FFFFFFF) - 1, bits)
    return np.where(np.isnan(x), TOP, key)


def larger(x: Value, y: Value) -> Value:
    """Maximum; NaN wins, +0 is larger than -0."""
    return np.where(order_key(x) >= order_key(y), x, y)


def smaller(x: Value, y: Value) -> Value:
    """Minimum; NaN wins, -0 is smaller than +0."""
    keep = (order_key(x) <= order_key(y)) | np.isnan(x)
    return np.where(keep & ~np.isnan(y), x, y)


def reduced(fn: Callable[[Value, Value], Value], empty: float) -> Move:
    """A reduction along `axes`, one element after the other."""

    def move(params: Params, args: Sequence[Value]) -> Sequence[Value]:
        x = args[0]
        axes = tuple(params["axes"])
        moved = np.moveaxis(x, axes, range(len(axes)))
        length = math.prod(moved.shape[: len(axes)])
        flat = moved.reshape((length, *moved.shape[len(axes) :]))
        start = extreme(x.dtype, empty)
        total = np.full(flat.shape[1:], start, x.dtype)
        for row in flat:
            total = fn(total, row)
        return [total]

    return move


def extreme(dtype: Any, empty: float) -> Any:
    """The neutral element of a maximum (-inf) or a minimum (+inf) for a dtype."""
    if dtype == np.bool_:
        return empty > 0
    if np.issubdtype(dtype, np.integer):
        return np.iinfo(dtype).max if empty > 0 else np.iinfo(dtype).min
    return np.float32(empty)


def running(fn: Callable[[Value, Value], Value]) -> Move:
    """A running reduction along `axis`."""

    def move(params: Params, args: Sequence[Value]) -> Sequence[Value]:
        x = np.moveaxis(args[0], params["axis"], 0)
        x = x[::-1] if params["reverse"] else x
        out = x.copy()
        for i in range(1, len(x)):
            out[i] = fn(out[i - 1], x[i])
        out = out[::-1] if params["reverse"] else out
        return [np.moveaxis(out, 0, params["axis"])]

    return move


def broadcast_in_dim(params: Params, args: Sequence[Value]) -> Sequence[Value]:
    """Spreads an array over a larger shape."""
    shape = params["shape"]
    middle = [1] * len(shape)
    for axis, target in enumerate(params["broadcast_dimensions"]):
        middle[target] = args[0].shape[axis]
    return [np.broadcast_to(args[0].reshape(middle), shape)]


def reshape(params: Params, args: Sequence[Value]) -> Sequence[Value]:
    """The same elements in another shape, after a transposition if the equation asks for one."""
    x = args[0] if params["dimensions"] is None else np.transpose(args[0], params["dimensions"])
    return [x.reshape(params["new_sizes"])]


def slice_(params: Params, args: Sequence[Value]) -> Sequence[Value]:
    """A box with strides."""
    strides = params["strides"] or [1] * args[0].ndim
    bounds = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return [args[0][tuple(slice(*b) for b in bounds)]]


def start_box(shape: Sequence[int], sizes: Sequence[int], starts: Sequence[Value]) -> tuple:
    """The box of these sizes whose start is clamped into the array."""
    first = [
        int(np.clip(int(s), 0, n - size)) for s, n, size in zip(starts, shape, sizes, strict=True)
    ]
    return tuple(slice(f, f + size) for f, size in zip(first, sizes, strict=True))


def dynamic_slice(params: Params, args: Sequence[Value]) -> Sequence[Value]:
    """A box at a start known at run time."""
    return [args[0][start_box(args[0].shape, params["slice_sizes"], args[1:])]]


def dynamic_update_slice(params: Params, args: Sequence[Value]) -> Sequence[Value]:
    """Replaces such a box."""
    out = args[0].copy()
    out[start_box(out.shape, args[1].shape, args[2:])] = args[1]
    return [out]


def pad(params: Params, args: Sequence[Value]) -> Sequence[Value]:
    """Edges and gaps filled with a value; negative edges cut."""
    x, value = args
    config = params["padding_config"]
    shape = [
        low + high + n + max(n - 1, 0) * gap
        for n, (low, high, gap) in zip(x.shape, config, strict=True)
    ]
    out = np.full([max(s, 0) for s in shape], value, x.dtype)
    source, target = [], []
    for n, size, (low, _, gap) in zip(x.shape, shape, config, strict=True):
        places = low + np.arange(n) * (gap + 1)
        good = (places >= 0) & (places < size)
        source.append(np.arange(n)[good])
        target.append(places[good])
    out[np.ix_(*target)] = x[np.ix_(*source)]
    return [out]


def iota(params: Params, args: Sequence[Value]) -> Sequence[Value]:
    """0, 1, 2, … along one axis."""
    shape, axis = params["shape"], params["dimension"]
    line = np.arange(shape[axis]).astype(params["dtype"])
    return [
        np.broadcast_to(line.reshape([-1 if a == axis else 1 for a in range(len(shape))]), shape)
    ]


def sort(params: Params, args: Sequence[Value]) -> Sequence[Value]:
    """Stable ascending sort by the first keys; both zeros are equal, NaN comes last."""
    keys = [order_key(np.where(a == 0, np.zeros_like(a), a)) for a in args[: params["num_keys"]]]
    order = np.lexsort(keys[::-1], axis=params["dimension"])
    return [np.take_along_axis(a, order, params["dimension"]) for a in args]


def top_k(params: Params, args: Sequence[Value]) -> Sequence[Value]:
    """The k largest along the last axis, NaN first, +0 before -0; the first of equals first."""
    order = np.argsort(-order_key(args[0]), axis=-1, kind="stable")[..., : params["k"]]
    return [np.take_along_axis(args[0], order, -1), order.astype(np.int32)]


def arg(fn: Callable[..., Value]) -> Move:
    """Place of the first largest or smallest; NaN wins."""
    return lambda params, args: [fn(args[0], axis=params["axes"][0]).astype(params["index_dtype"])]


def select_n(params: Params, args: Sequence[Value]) -> Sequence[Value]:
    """The case that the selector names."""
    which, *cases = args
    return (
        [np.choose(np.broadcast_to(which.astype(np.int64), cases[0].shape), cases)]
        if len(cases) > 2
        else [np.where(which.astype(bool), cases[-1], cases[0])]
    )


def clamp(params: Params, args: Sequence[Value]) -> Sequence[Value]:
    """x cut to [low, high]: first at low, then at high, which counts if the two are crossed."""
    low, x, high = args
    return [smaller(larger(np.broadcast_to(low, x.shape), x), np.broadcast_to(high, x.shape))]


def rounded(params: Params, args: Sequence[Value]) -> Sequence[Value]:
    """To an integer: halves away from zero, or to even."""
    x = args[0]
    if int(params["rounding_method"]) == 1:
        return [np.rint(x)]
    whole = np.trunc(x)
    away = np.abs(x - whole) >= 0.5
    return [np.copysign(np.abs(whole) + away.astype(np.float32), x)]


def sign(params: Params, args: Sequence[Value]) -> Sequence[Value]:
    """-1, 1, or x itself where x is a zero or NaN."""
    x = args[0]
    if x.dtype != np.float32:
        return [np.sign(x)]
    return [np.where((x == 0) | np.isnan(x), x, np.copysign(np.float32(1), x))]


def shifted(fn: Callable[[Value, Value], Value], arithmetic: bool) -> Move:
    """Shifts; a distance beyond the width gives 0, or the sign for arithmetic ones."""

    def move(params: Params, args: Sequence[Value]) -> Sequence[Value]:
        x, distance = args
        width = 8 * x.dtype.itemsize
        unsigned = distance.astype(np.int64) & (2**width - 1)
        inside = unsigned < width
        steps = np.where(inside, unsigned, width - 1).astype(x.dtype)
        return [fn(x, steps) if arithmetic else np.where(inside, fn(x, steps), np.zeros_like(x))]

    return move


def logical_right(x: Value, steps: Value) -> Value:
    """Shift right that fills with zeros."""
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    return (x.view(unsigned) >> steps.view(unsigned)).view(x.dtype)


def arithmetic_right(x: Value, steps: Value) -> Value:
    """Shift right that repeats the highest bit, of unsigned integers too."""
    signed = np.dtype(f"i{x.dtype.itemsize}")
    return (x.view(signed) >> steps.view(signed)).view(x.dtype)


def ones(x: Value) -> Value:
    """Number of bits that are 1; NumPy itself counts those of |x|."""
    return np.bitwise_count(x.view(np.dtype(f"u{x.dtype.itemsize}"))).astype(x.dtype)


def leading_zeros(x: Value) -> Value:
    """Number of zero bits above the highest one."""
    width = 8 * x.dtype.itemsize
    value = x.astype(np.int64) & (2**width - 1)
    return (width - np.ceil(np.log2(value + 1.0))).astype(x.dtype)


def simple(fn: Callable[..., Value]) -> Move:
    """A NumPy function of the operands."""
    return lambda params, args: [fn(*args)]


def compared(fn: Callable[..., Value]) -> Move:
    """A comparison by total order."""
    return lambda params, args: [fn(order_key(args[0]), order_key(args[1]))]


def invert(x: Value) -> Value:
    """Bitwise, or logical for bool."""
    return np.logical_not(x) if x.dtype == np.bool_ else np.invert(x)


def split(params: Params, args: Sequence[Value]) -> Sequence[Value]:
    """Pieces of given sizes."""
    return np.split(args[0], np.cumsum(params["sizes"])[:-1], params["axis"])


MOVES: dict[str, Move] = {
    "broadcast_in_dim": broadcast_in_dim,
    "reshape": reshape,
    "transpose": lambda p, a: [np.transpose(a[0], p["permutation"])],
    "squeeze": lambda p, a: [np.squeeze(a[0], tuple(p["dimensions"]))],
    "expand_dims": lambda p, a: [np.expand_dims(a[0], tuple(p["dimensions"]))],
    "slice": slice_,
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
    "gather": numpy_gather.gather,
    "scatter": numpy_gather.scatter,
    "scatter-max": lambda p, a: [numpy_gather.folded(a, p, larger)],
    "scatter-min": lambda p, a: [numpy_gather.folded(a, p, smaller)],
    "scatter_max": lambda p, a: [numpy_gather.folded(a, p, larger)],
    "scatter_min": lambda p, a: [numpy_gather.folded(a, p, smaller)],
    "sharding_constraint": simple(np.asarray),
    "reshard": simple(np.asarray),
    "concatenate": lambda p, a: [np.concatenate(a, p["dimension"])],
    "pad": pad,
    "rev": lambda p, a: [np.flip(a[0], tuple(p["dimensions"]))],
    "iota": iota,
    "copy": simple(np.copy),
    "tile": lambda p, a: [np.tile(a[0], p["reps"])],
    "stack": lambda p, a: [np.stack(a, p["axis"])],
    "unstack": lambda p, a: list(np.moveaxis(a[0], p["axis"], 0)),
    "split": split,
    "sort": sort,
    "top_k": top_k,
    "argmax": arg(np.argmax),
    "argmin": arg(np.argmin),
    "reduce_max": reduced(larger, -np.inf),
    "reduce_min": reduced(smaller, np.inf),
    "reduce_and": lambda p, a: [np.bitwise_and.reduce(a[0], tuple(p["axes"]))],
    "reduce_or": lambda p, a: [np.bitwise_or.reduce(a[0], tuple(p["axes"]))],
    "reduce_xor": lambda p, a: [np.bitwise_xor.reduce(a[0], tuple(p["axes"]))],
    "cummax": running(larger),
    "cummin": running(smaller),
    "neg": simple(np.negative),
    "abs": simple(np.abs),
    "sign": sign,
    "max": simple(larger),
    "min": simple(smaller),
    "floor": simple(np.floor),
    "ceil": simple(np.ceil),
    "round": rounded,
    "clamp": clamp,
    "is_finite": simple(np.isfinite),
    "eq": simple(np.equal),
    "ne": simple(np.not_equal),
    "lt": simple(np.less),
    "le": simple(np.less_equal),
    "gt": simple(np.greater),
    "ge": simple(np.greater_equal),
    "eq_to": compared(np.equal),
    "lt_to": compared(np.less),
    "le_to": compared(np.less_equal),
    "and": simple(np.bitwise_and),
    "or": simple(np.bitwise_or),
    "xor": simple(np.bitwise_xor),
    "not": simple(invert),
    "shift_left": shifted(np.left_shift, False),
    "shift_right_logical": shifted(logical_right, False),
    "shift_right_arithmetic": shifted(arithmetic_right, True),
    "population_count": simple(ones),
    "clz": simple(leading_zeros),
    "select_n": select_n,
} | numpy_random.MOVES
