"""The executor in NumPy: one operation after the other, no XLA, no fusion, no threads.

It shares the table of rules with `exact` and nothing else. Sums and dots are carried out on
Python's and NumPy's integers, elementary functions come from the library and mpmath (correct.py).
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import jax
import numpy as np
from numpy.typing import NDArray

from rlkjax.exact import compat, numpy_devices, numpy_gather, numpy_moves
from rlkjax.exact.arguments import called_here, check_arguments, check_function, program_of
from rlkjax.exact.correct import NAN, nearest, to_float32
from rlkjax.exact.errors import UnsupportedArgumentError
from rlkjax.exact.interpret import Table, run
from rlkjax.exact.joins import Axes
from rlkjax.exact.microbatches import AXIS, refuse_nesting
from rlkjax.exact.numpy_random import to_numpy, words
from rlkjax.exact.numpy_sums import (
    DOT_BITS,
    LOWEST,
    SUM_BITS,
    arranged,
    exponent,
    free,
    integer_division,
    integer_product,
    integers,
    magnitude,
    multiples,
    rounded,
)
from rlkjax.exact.rules.table import TABLE

Value = NDArray[Any]
Fn = TypeVar("Fn", bound=Callable[..., Any])


@dataclass(frozen=True)
class Reference:
    """Carries out instructions on NumPy arrays.

    Attributes:
      table: rules by name of primitive.
      grid: "output" or "contracted", the grid that `dot` uses.
      device: the one that runs, inside `shard_map`.
      devices: names of the device axes that `sum` and `dot` go on over; see joins.py.
      line: the user's line of the call that surrounds the program, for messages.
      joined: device axes that the sums behind the results of a call go on over; see joins.py.
      shared: which inputs of a call are the same in all microbatches; see joins.py.
      uses: how often the results of the equation at hand are used; nothing here depends on it.
    """

    table: Table
    grid: str = "output"
    device: numpy_devices.Device | None = None
    devices: tuple[str, ...] = ()
    line: str = ""
    uses: tuple[int, ...] = ()
    joined: Axes = ()
    shared: tuple[bool, ...] = ()

    def results(
        self, eqn: Any, operands: Sequence[Value], outs: Sequence[Value]
    ) -> Sequence[Value]:
        """Results of an equation, which NumPy computes once anyway."""
        return outs

    def known(self, rule: Any, eqn: Any, operands: Sequence[Value]) -> None:
        """Nothing is computed ahead of time."""

    def value(self, x: Value) -> Value:
        """A value as it is."""
        return x

    def over(self, devices: tuple[str, ...]) -> "Reference":
        """The same executor, whose sums go on over devices."""
        return replace(self, devices=devices)

    def inside(self) -> "Reference":
        """The same executor for a body."""
        return replace(self, uses=(), joined=(), shared=())

    def gathered(self, x: Value) -> Value:
        """The parts of all devices along `self.devices`, on a new first axis."""
        return np.stack(self.here().along(self.devices, x)[1])

    def here(self) -> numpy_devices.Device:
        """The device that runs."""
        if self.device is None:
            raise UnsupportedArgumentError(
                "a collective stands outside of shard_map; put it inside"
            )
        return self.device

    def collective(self, name: str, params: dict[str, Any], args: Sequence[Value]) -> list[Value]:
        """What devices compute together."""
        return numpy_devices.collective(name, self.here(), self.sum, params, args)

    def accumulate(
        self, one: Callable[..., list], batches: Sequence[Value], count: int
    ) -> list[Value]:
        """Sums over microbatches, each of which is a device; one: (executor, batch) -> values."""
        refuse_nesting(self.device is not None and AXIS in self.device.sizes, self.line)
        devices = numpy_devices.one_more(self.device, AXIS, count)
        parts = [[x[i] for x in batches] for i in range(count)]
        return numpy_devices.run_all(
            lambda device, batch: one(replace(self, device=device), batch), devices, parts
        )[0]

    def shard_map(
        self, body: Callable[..., list], params: dict[str, Any], args: Sequence[Value]
    ) -> list[Value]:
        """The body on every device."""
        return numpy_devices.shard_map(
            lambda device, values: body(replace(self, device=device), values), params, args
        )

    def literal(self, value: Any, dtype: Any) -> Value:
        """A constant of a rule."""
        return self.entry(np.asarray(value, dtype))

    def constant(self, value: Any) -> Value:
        """A constant of the program."""
        return self.entry(to_numpy(value))

    def entry(self, x: Value) -> Value:
        """An input: subnormal numbers become zeros, and no NaN is a signalling one."""
        if x.dtype != np.float32:
            return x
        bits = self.exit(x).view(np.uint32)
        small = (bits & np.uint32(0x7F800000)) == 0
        return np.where(small, bits & np.uint32(0x80000000), bits).view(np.float32)

    def exit(self, x: Value) -> Value:
        """An output: one bit pattern for every NaN."""
        return np.where(np.isnan(x), NAN, x) if x.dtype == np.float32 else x

    def fill(self, value: Value, like: Value) -> Value:
        """A scalar spread over the shape of `like`."""
        return np.broadcast_to(value, like.shape)

    def arithmetic(self, fn: Callable[..., Value], x: Value, y: Value) -> Value:
        """float32 through float64, which rounds as if it were done once; integers wrap."""
        with np.errstate(all="ignore"):
            if x.dtype != np.float32:
                return np.asarray(fn(x, y)).astype(x.dtype)
            return to_float32(fn(x.astype(np.float64), y.astype(np.float64)))

    def add(self, x: Value, y: Value) -> Value:
        """x + y."""
        return self.arithmetic(np.add, x, y)

    def sub(self, x: Value, y: Value) -> Value:
        """x - y."""
        return self.arithmetic(np.subtract, x, y)

    def mul(self, x: Value, y: Value) -> Value:
        """x * y."""
        return self.arithmetic(np.multiply, x, y)

    def div(self, x: Value, y: Value) -> Value:
        """x / y; integers: toward zero, x / 0 = -1."""
        if x.dtype == np.float32:
            return self.arithmetic(np.divide, x, y)
        return integer_division(x, y)[0]

    def rem(self, x: Value, y: Value) -> Value:
        """Remainder with the sign of x; integers: x rem 0 = x."""
        if x.dtype == np.float32:
            return self.arithmetic(np.fmod, x, y)
        return integer_division(x, y)[1]

    def sqrt(self, x: Value) -> Value:
        """Square root."""
        with np.errstate(all="ignore"):
            return to_float32(np.sqrt(x.astype(np.float64)))

    def unary(self, name: str, x: Value) -> Value:
        """The float32 nearest to the true value; a zero keeps its sign where the value is zero."""
        return nearest(name, x)

    def atan2(self, y: Value, x: Value) -> Value:
        """Angle of (x, y)."""
        return nearest("atan2", y, x)

    def pow(self, x: Value, y: Value) -> Value:
        """x^y."""
        return nearest("pow", *np.broadcast_arrays(x, y))

    def convert(self, x: Value, dtype: Any) -> Value:
        """Another dtype. Float to integer: toward zero, clamped, NaN gives 0."""
        if x.dtype == np.float32 and np.issubdtype(dtype, np.integer):
            info = np.iinfo(dtype)
            wide = np.where(np.isnan(x), 0.0, x.astype(np.float64))
            return np.trunc(np.clip(wide, info.min, info.max)).astype(np.int64).astype(dtype)
        if np.issubdtype(x.dtype, np.integer) and np.issubdtype(dtype, np.integer):
            return x.astype(np.int64).astype(dtype)
        return x.astype(dtype)

    def bitcast(self, x: Value, dtype: Any) -> Value:
        """The same bits as another dtype; a narrower one adds an axis, a wider one takes one."""
        old, new = x.dtype.itemsize, np.dtype(dtype).itemsize
        shape = x.shape if old == new else (*x.shape, old // new) if old > new else x.shape[:-1]
        return self.entry(np.ascontiguousarray(self.exit(x)).view(dtype).reshape(shape))

    def sum(self, x: Value, axes: Sequence[int]) -> Value:
        """Sum along axes; float32: integers on the grid of the largest magnitude."""
        axes = tuple(axes)
        if self.devices:
            return self.over(()).sum(self.gathered(x), (0, *(a + 1 for a in axes)))
        if x.dtype != np.float32:
            return np.sum(x, axis=axes, dtype=x.dtype)
        unit = exponent(magnitude(x, axes)) - SUM_BITS
        whole = multiples(x, unit)
        with np.errstate(all="ignore"):
            plain = np.asarray(np.sum(whole, axis=axes))
        exact = np.sum(integers(whole), axis=axes)
        return np.where(np.isfinite(plain), rounded(exact, np.squeeze(unit, axes)), plain).astype(
            np.float32
        )

    def cumsum(self, x: Value, axis: int, reverse: bool) -> Value:
        """Running sum; float32: on the grid of the whole axis."""
        x = np.flip(x, axis) if reverse else x
        if x.dtype != np.float32:
            out = np.cumsum(x, axis, dtype=x.dtype)
        else:
            unit = exponent(magnitude(x, (axis,))) - SUM_BITS
            whole = multiples(x, unit)
            with np.errstate(all="ignore"):
                plain = np.cumsum(whole, axis)
            exact = np.cumsum(integers(whole), axis)
            value = rounded(exact, np.broadcast_to(unit, x.shape))
            out = np.where(np.isfinite(plain), value, plain).astype(np.float32)
        return np.flip(out, axis) if reverse else out

    def dot(self, lhs: Value, rhs: Value, params: dict[str, Any]) -> Value:
        """dot_general; float32: integers on the grids of rows and columns."""
        if self.devices:
            sides = self.gathered(lhs), self.gathered(rhs)
            return self.over(()).dot(*sides, numpy_devices.one_more_axis(params))
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = params["dimension_numbers"]
        left, right = arranged(lhs, lhs_contract, lhs_batch), arranged(rhs, rhs_contract, rhs_batch)
        batch = tuple(lhs.shape[a] for a in lhs_batch)
        shape = (*batch, *free(lhs, lhs_contract, lhs_batch), *free(rhs, rhs_contract, rhs_batch))
        if lhs.dtype != np.float32:
            kind = params["preferred_element_type"] or lhs.dtype
            product = np.matmul(left.astype(np.int64), np.swapaxes(right, 1, 2).astype(np.int64))
            return product.astype(kind).reshape(shape)
        wide_left, wide_right = left.astype(np.float64), right.astype(np.float64)
        if self.grid == "contracted":
            power = np.maximum(exponent(magnitude(right, (1,))), -126)
            wide_right = np.ldexp(wide_right, -power)
            wide_left = np.ldexp(wide_left, power)
            right_unit = np.full((right.shape[0], right.shape[1], 1), -DOT_BITS)
        else:
            right_unit = exponent(magnitude(wide_right, (2,))) - DOT_BITS
        left_unit = np.maximum(exponent(magnitude(wide_left, (2,))), LOWEST) - DOT_BITS
        rows, columns = multiples(wide_left, left_unit), multiples(wide_right, right_unit)
        return integer_product(rows, columns, left_unit, right_unit).reshape(shape)

    def scatter_add(self, args: Sequence[Value], params: dict[str, Any]) -> Value:
        """scatter-add; float32: integers on the grid of each cell."""
        operand, indices, updates = args
        if operand.dtype != np.float32:
            with np.errstate(all="ignore"):
                return numpy_gather.folded(args, params, np.add)
        parts = [(indices, updates)]
        if self.devices:
            parts = self.here().along(self.devices, (indices, updates))[1]
        size = np.abs(operand)
        for places, terms in parts:
            with np.errstate(all="ignore"):
                size = numpy_gather.folded((size, places, np.abs(terms)), params, np.fmax)
        unit = np.where(np.isnan(operand), 128, np.atleast_1d(exponent(size))) - SUM_BITS
        cells = np.atleast_1d(multiples(operand, unit))
        exact = integers(cells)
        for part in parts:
            where, values = numpy_gather.scattered(operand, *part, params)
            where = where if operand.ndim else (np.zeros(values.shape, np.int64),)
            terms = multiples(values, unit[where])
            np.add.at(exact, where, integers(terms))
            with np.errstate(all="ignore"):
                np.add.at(cells, where, terms)
        result = np.where(np.isfinite(cells), rounded(exact, unit), cells).astype(np.float32)
        return result.reshape(operand.shape)

    def move(self, eqn: Any, args: Sequence[Value], changed: dict | None = None) -> Sequence[Value]:
        """A primitive that rounds nothing; its sort is stable anyway."""
        with np.errstate(all="ignore"):
            return numpy_moves.MOVES[eqn.primitive.name](eqn.params, args)

    def extreme(self, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Largest or smallest along axes: NaN wins, +0 is above -0."""
        return self.move(eqn, args)

    def call(self, name: str, fn: Callable[..., list], args: Sequence[Any]) -> list[Any]:
        """A call of a named function."""
        return fn(self, *args)

    def scan(
        self,
        body: Callable[[list, list], tuple[list, list]],
        carry: Sequence[Value],
        xs: Sequence[Value],
        params: dict[str, Any],
    ) -> list[Value]:
        """A loop of known length."""
        order = range(params["length"])
        carry, rows = list(carry), []
        for i in reversed(order) if params["reverse"] else order:
            carry, row = body(carry, [x[i] for x in xs])
            rows.append(row)
        if not rows:
            outs = compat.opened(params["jaxpr"])[0].outvars[len(carry) :]
            return [*carry, *(np.zeros((0, *v.aval.shape), kept_dtype(v.aval)) for v in outs)]
        rows = rows[::-1] if params["reverse"] else rows
        return [*carry, *(np.stack(column) for column in zip(*rows, strict=True))]

    def while_loop(
        self, cond: Callable[[list], Any], body: Callable[[list], list], carry: Sequence[Value]
    ) -> list[Value]:
        """A loop until `cond` fails; of a mapped loop, each row until its own condition fails."""
        carry = list(carry)
        while np.any(going := cond(carry)):
            rows = [going.reshape(going.shape + (1,) * (c.ndim - going.ndim)) for c in carry]
            new = body(carry)
            carry = [np.where(r, n, o) for r, n, o in zip(rows, new, carry, strict=True)]
        return carry

    def switch(
        self, index: Value, branches: Sequence[Callable[..., list]], args: Sequence[Value]
    ) -> list[Value]:
        """One of several branches; the index is clamped."""
        return branches[int(np.clip(int(index), 0, len(branches) - 1))](*args)


def reference(fn: Fn) -> Fn:
    """The exact meaning of `fn`, computed in NumPy.

    Args:
      fn: as for `exact`.

    Returns:
      A function of the same signature that takes and returns NumPy arrays (typed keys come back as
      JAX keys). Its bits are those of `exact(fn)`.

    Raises:
      UnsupportedPrimitiveError: a primitive has no rule.
      UnsupportedDtypeError: a dtype has no definition.
    """

    check_function(fn, "reference")

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = jax.tree.flatten((args, kwargs))
        check_arguments((args, kwargs))
        leaves = [narrow_scalar(v) for v in leaves]
        jaxpr, consts, out_shape = program_of(fn, tree, leaves)
        ops = Reference(TABLE)
        inputs = [ops.entry(to_numpy(v)) for v in leaves]
        with called_here():
            outs = run(ops, jaxpr, inputs, [ops.constant(c) for c in consts])
        shapes, out_tree = jax.tree.flatten(out_shape)
        results = [finished(ops, x, s) for x, s in zip(outs, shapes, strict=True)]
        return jax.tree.unflatten(out_tree, results)

    return wrapped  # type: ignore[return-value]


def kept_dtype(aval: Any) -> Any:
    """The NumPy dtype that holds a value: typed keys are uint64."""
    return np.uint64 if compat.is_key(aval) else aval.dtype


def narrow_scalar(value: Any) -> Any:
    """Python numbers as JAX reads them with 64-bit types off; arrays as they are."""
    kinds = {bool: np.bool_, int: np.int32, float: np.float32}
    return kinds[type(value)](value) if type(value) in kinds else value


def finished(ops: Reference, x: Value, shape: Any) -> Any:
    """A result in the dtype that the program has."""
    if compat.is_key(shape):
        data = np.stack(words(x), -1)
        return jax.random.wrap_key_data(jax.numpy.asarray(data), impl="threefry2x32")
    return np.ascontiguousarray(ops.exit(x)).reshape(shape.shape)
