"""The executor in JAX: each instruction of the closed set as operations that XLA cannot change."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from rlkjax.exact import (
    accumulate,
    axis_sum,
    collective,
    contraction,
    inverse,
    known,
    microbatches,
    pairs,
    passes,
    product,
    rounding,
    scatter,
    sharing,
)
from rlkjax.exact.constants import Constants
from rlkjax.exact.interpret import Rule, Table
from rlkjax.exact.joins import Axes
from rlkjax.exact.known import Known
from rlkjax.exact.rounding import Opaque, narrow, widen
from rlkjax.exact.steady import Steady
from rlkjax.exact.views import Views

Array = jax.Array
F32, F64, I32, I64 = jnp.float32, jnp.float64, jnp.int32, jnp.int64
EXPONENT, SIGN = 0x7F800000, -(2**31)


def unfolded() -> Array:
    """An integer that no compiler knows: what a loop of 111 steps has passed through.

    Compilers run loops no further than 100 steps, and the condition that ends this one does not
    name the result.
    """

    def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
        n, passed = state
        return lax.select(n & 1 == 0, n >> 1, 3 * n + 1), 3 * passed + n

    return lax.while_loop(lambda state: state[0] != 1, step, (jnp.int32(27), jnp.int32(0)))[1]


def opaque_scalars() -> Opaque:
    """Scalars that no compiler knows, from the number r of `unfolded`.

    The inputs of a program would not do: they can be constants of a surrounding jit, or start with
    one. v = r * r mod 8 is 0, 1 or 4 for every integer r, so v & (v >> 2) is 0; no compiler sees
    that. Only integer operations make the scalars: a select between two constants would be moved
    out of the loops, and the arm with -0.0 simplified.

    Returns:
      The scalars, 64-bit types included: to be called with 64-bit types on.
    """
    r = unfolded()
    v = (r * r) & 7
    nothing = v & (v >> 2)
    nothing64 = lax.convert_element_type(nothing, I64)
    zero = lax.bitcast_convert_type(nothing | I32(SIGN), F32)
    magic = lax.bitcast_convert_type(nothing64 | I64(rounding.elementary.MAGIC_BITS), F64)
    return Opaque(nothing, nothing64, zero, magic)


@dataclass(frozen=True)
class Lowering:
    """Carries out instructions on traced arrays.

    Attributes:
      opaque: run-time scalars.
      constants: known values as arrays; see known.py.
      table: rules by name of primitive.
      kept: names of functions that are not inlined.
      grid: "output" or "contracted": the grid that `dot` uses; see named.py.
      work: id of a value -> the value, and its `sharing.work`, which is 0 if it is missing.
      views: how values came about that only moved others; see views.py.
      steady: operands that loops do not change; see steady.py.
      uses: `sharing.uses` of the results of the equation at hand; empty: once each.
      joined: device axes that the sums behind the results of a call go on over; see joins.py.
      shared: which inputs of a call are the same in all microbatches; see joins.py.
      devices: names of the device axes that `sum` and `dot` go on over; see joins.py.
      step: the pass over microbatches, which are one of these axes; see passes.py.
      line: the user's line of the call that surrounds the program, for messages.
    """

    opaque: Opaque
    constants: Constants
    table: Table
    kept: frozenset[str] = frozenset()
    grid: str = "output"
    work: dict[int, tuple[Array, int]] = field(default_factory=dict)
    views: Views = field(default_factory=Views)
    steady: Steady = field(default_factory=Steady)
    uses: tuple[int, ...] = ()
    joined: Axes = ()
    shared: tuple[bool, ...] = ()
    devices: tuple[str, ...] = ()
    step: passes.Pass | None = None
    line: str = ""

    def over(self, devices: tuple[str, ...]) -> "Lowering":
        """The same executor, whose sums go on over devices."""
        return replace(self, devices=devices)

    def inside(self) -> "Lowering":
        """The same executor for a body with a trace of its own, whose values nobody else sees."""
        return replace(
            self,
            work={},
            constants=self.constants.inside(),
            views=Views(self.views),
            uses=(),
            joined=(),
            shared=(),
        )

    def others(self) -> collective.Others:
        """Who else has terms of a sum."""
        names = tuple(n for n in self.devices if n != microbatches.AXIS)
        return collective.Others(names, self.step if names != self.devices else None)

    def accumulate(
        self, one: Callable[..., list], batches: Sequence[Array], count: int
    ) -> list[Array]:
        """Sums over microbatches; one: (executor, one microbatch) -> what is added."""
        microbatches.refuse_nesting(self.step is not None, self.line)
        return passes.accumulated(
            lambda step, batch: one(replace(self, step=step), batch), batches, count
        )

    def collective(self, name: str, params: dict[str, Any], args: Sequence[Array]) -> list[Array]:
        """What devices compute together."""
        return collective.COLLECTIVES[name](params, args, self.opaque)

    def shard_map(
        self, body: Callable[..., list], params: dict[str, Any], args: Sequence[Array]
    ) -> list[Array]:
        """The body on every device."""

        def local(opaque: Opaque, values: Sequence[Array]) -> list[Array]:
            constants = Constants(opaque.nothing)
            return body(replace(self.inside(), opaque=opaque, constants=constants), values)

        return collective.shard_map(local, params, args, self.opaque)

    def results(self, eqn: Any, operands: Sequence[Array], outs: Sequence[Array]) -> list[Array]:
        """Results of an equation; what several loops would compute again is computed once."""
        distinct = {id(x): x for x in operands}
        work = sharing.work(eqn, [self.work.get(key, (x, 0))[1] for key, x in distinct.items()])
        return [self.result(x, work, n) for x, n in zip(outs, self.uses, strict=True)]

    def result(self, x: Array, work: int, uses: int) -> Array:
        """A value that takes some work and is used some times."""
        known = self.work.get(id(x), (x, work))[1]
        if known >= sharing.LIMIT and uses > 1 and x.dtype == F32 and x.ndim > 0:
            x, known = rounding.settled(x, self.opaque), 0
        self.work[id(x)] = (x, known)
        return x

    def literal(self, value: Any, dtype: Any) -> Array:
        """A constant of a rule."""
        return self.value(self.constant(np.asarray(value, dtype)))

    def constant(self, value: Any) -> Known | Array:
        """A constant of the program."""
        if not known.is_known(value):
            return self.entry(value if isinstance(value, jax.Array) else jnp.asarray(value))
        return Known(known.flushed(np.asarray(value)))

    def known(self, rule: Rule, eqn: Any, operands: Sequence[Any]) -> list[Known] | None:
        """The results of an equation that follow from constants."""
        return None if self.devices else known.results(self.table, self.grid, rule, eqn, operands)

    def value(self, x: Known | Array) -> Array:
        """A value in the program."""
        return self.constants.array(x) if isinstance(x, Known) else x

    def entry(self, x: Array) -> Array:
        """An input: its subnormal numbers become zeros, and XLA must not know its value."""
        if x.dtype != F32:
            return x
        return self.views.flushed(rounding.flushed(x, self.opaque), x)

    def exit(self, x: Array) -> Array:
        """An output: one bit pattern for every NaN."""
        done = x.dtype != F32 or self.views.is_finished(x)
        return x if done else rounding.one_nan(x)

    def fill(self, value: Array, like: Array) -> Array:
        """A scalar spread over the shape of `like`."""
        return jnp.broadcast_to(value, like.shape)

    def add(self, x: Array, y: Array) -> Array:
        """x + y; float32: nearest even."""
        return lax.add(x, y)

    def sub(self, x: Array, y: Array) -> Array:
        """x - y; float32: nearest even."""
        return lax.sub(x, y)

    def mul(self, x: Array, y: Array) -> Array:
        """x * y; float32: nearest even. Adding the run-time zero keeps it out of an FMA."""
        product = lax.mul(x, y)
        return lax.add(product, self.opaque.zero) if product.dtype == F32 else product

    def div(self, x: Array, y: Array) -> Array:
        """x / y; float32: nearest even."""
        if x.dtype != F32:
            return lax.div(x, y)
        return narrow(lax.div(widen(x), widen(y)), self.opaque)

    def sqrt(self, x: Array) -> Array:
        """Square root, nearest even."""
        return narrow(lax.sqrt(widen(x)), self.opaque)

    def rem(self, x: Array, y: Array) -> Array:
        """Remainder with the sign of x, exact."""
        rest = lax.rem(x, y)
        return rest + self.opaque.zero if rest.dtype == F32 else rest

    def unary(self, name: str, x: Array) -> Array:
        """A function of `rounding.UNARY`, nearest even."""
        return rounding.unary(name, x, self.opaque)

    def atan2(self, y: Array, x: Array) -> Array:
        """Angle of (x, y), nearest even."""
        angle = narrow(inverse.atan2(widen(y), widen(x), self.opaque.magic), self.opaque)
        return jnp.where((x != x) | (y != y), F32(jnp.nan), angle)

    def pow(self, x: Array, y: Array) -> Array:
        """x to the power y, nearest even."""
        return pairs.power(x, y, self.opaque)

    def convert(self, x: Array, dtype: Any) -> Array:
        """Another dtype. Float to integer: toward zero, clamped, NaN gives 0."""
        if x.dtype == F32 and jnp.issubdtype(dtype, jnp.integer):
            info = np.iinfo(dtype)
            wide = widen(x)
            wide = jnp.where(wide < info.min, F64(info.min), wide)
            wide = jnp.where(wide > info.max, F64(info.max), wide)
            return lax.convert_element_type(jnp.where(wide == wide, wide, 0.0), dtype)
        if dtype != F32 or x.dtype == F32:
            return lax.convert_element_type(x, dtype)
        return rounding.hidden(lax.convert_element_type(x, F32), self.opaque)

    def bitcast(self, x: Array, dtype: Any) -> Array:
        """The same bits as another dtype; NaN and subnormal numbers as in `entry` and `exit`."""
        if x.dtype == dtype:
            return x
        return self.entry(lax.bitcast_convert_type(self.exit(x), dtype))

    def sum(self, x: Array, axes: Sequence[int]) -> Array:
        """Sum along axes; float32: order-free."""
        if self.devices:
            return collective.device_sum(x, axes, self.others(), self.opaque)
        if x.dtype != F32:
            return lax.reduce_sum(x, tuple(axes))
        return axis_sum.exact_sum(x, axes, self.views, self.opaque)

    def cumsum(self, x: Array, axis: int, reverse: bool) -> Array:
        """Running sum; float32: on the grid of the whole axis."""
        if x.dtype != F32:
            return lax.cumsum(x, axis, reverse)
        return accumulate.order_free_cumsum(x, axis, reverse, self.opaque)

    def dot(self, lhs: Array, rhs: Array, params: dict[str, Any]) -> Array:
        """dot_general; float32: order-free."""
        dims = params["dimension_numbers"]
        if lhs.dtype != F32:
            kind = params["preferred_element_type"]
            own = lax.Precision.HIGHEST
            return lax.dot_general(lhs, rhs, dims, own, preferred_element_type=kind)
        if self.devices:
            return collective.device_dot(lhs, rhs, dims, self.others(), self.opaque)
        if self.grid == "contracted":
            return contraction.contracted_grid_dot(lhs, rhs, dims, self.opaque)
        return product.exact_dot(lhs, rhs, dims, self.views, self.steady, self.opaque)

    def scatter_add(self, args: Sequence[Array], params: dict[str, Any]) -> Array:
        """scatter-add; float32: order-free."""
        operand, indices, updates = args
        if operand.dtype != F32:
            return scatter.plain_scatter_add(operand, indices, updates, params)
        if self.devices:
            return collective.device_scatter_add(
                operand, indices, updates, params, self.others(), self.opaque
            )
        return scatter.order_free_scatter_add(operand, indices, updates, params, self.opaque)

    def move(self, eqn: Any, args: Sequence[Any], changed: dict | None = None) -> Sequence[Any]:
        """A primitive that rounds nothing: as JAX has it, but for `changed` parameters."""
        outs = eqn.primitive.bind(*args, **{**eqn.params, **(changed or {})})
        if eqn.primitive.name == "transpose":
            return [self.views.transposed(outs, args[0], eqn.params["permutation"])]
        return outs if eqn.primitive.multiple_results else [outs]

    def extreme(self, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Largest or smallest along axes, by integers that order like the numbers.

        XLA may hand a maximum of floats to a library that drops NaN and the sign of zero.
        """
        (x,) = args
        if x.dtype != F32 or math.prod(x.shape[a] for a in eqn.params["axes"]) == 0:
            return self.move(eqn, args)
        largest = eqn.primitive.name == "reduce_max"
        bits = lax.bitcast_convert_type(x, I32)
        key = bits ^ ((bits >> 31) & 0x7FFFFFFF)
        winner = I32(0x7FFFFFFF) if largest else I32(SIGN)
        key = jnp.where(x != x, winner, key)
        reduce = lax.reduce_max if largest else lax.reduce_min
        best = reduce(key, tuple(eqn.params["axes"]))
        return [lax.bitcast_convert_type(best ^ ((best >> 31) & 0x7FFFFFFF), F32)]

    def call(self, name: str, fn: Callable[..., list], args: Sequence[Any]) -> list[Any]:
        """A call of a named function, inlined unless it is to be kept."""
        if name not in self.kept or self.step:
            return fn(self, *args)

        def kept(*args: Any) -> list[Any]:
            inner = replace(self.inside(), joined=self.joined, shared=self.shared)
            return [inner.value(x) for x in fn(inner, *args)]

        kept.__name__ = kept.__qualname__ = name
        return jax.jit(kept)(*map(self.value, args))

    def scan(
        self,
        body: Callable[[list, list], tuple[list, list]],
        carry: Sequence[Array],
        xs: Sequence[Array],
        params: dict[str, Any],
    ) -> list[Array]:
        """A loop of known length; body: (carry, x) → (carry, y).

        What would take a pass over all xs before it, or over all ys after it, is done step by step.
        """
        unflushed = [self.views.unflushed(x) for x in xs]
        sources = [x if raw is None else raw for x, raw in zip(xs, unflushed, strict=True)]

        def step(carry: list[Array], sources: list[Array]) -> tuple[list[Array], list[Array]]:
            x = [
                part if raw is None else rounding.flushed(part, self.opaque)
                for part, raw in zip(sources, unflushed, strict=True)
            ]
            new, y = body(carry, x)
            return list(new), [self.exit(part) for part in y]

        last, ys = lax.scan(
            step,
            list(carry),
            sources,
            length=params["length"],
            reverse=params["reverse"],
            unroll=params["unroll"],
        )
        return [*last, *map(self.views.finished, ys)]

    def while_loop(
        self, cond: Callable[[list], Any], body: Callable[[list], list], carry: Sequence[Array]
    ) -> list[Array]:
        """A loop until `cond` fails; of a mapped loop, each row until its own condition fails."""

        def step(carry: Sequence[Array]) -> list[Array]:
            going, new = cond(list(carry)), body(list(carry))
            if going.ndim == 0:
                return new
            return [jnp.where(leading(going, n), n, o) for n, o in zip(new, carry, strict=True)]

        return lax.while_loop(lambda c: jnp.any(cond(list(c))), step, list(carry))

    def switch(
        self, index: Array, branches: Sequence[Callable[..., list]], args: Sequence[Array]
    ) -> list[Array]:
        """One of several branches; the index is clamped."""
        return lax.switch(index, branches, *args)


def leading(flags: Array, like: Array) -> Array:
    """Flags of the first axes, with axes of length 1 for the others."""
    return jnp.reshape(flags, flags.shape + (1,) * (like.ndim - flags.ndim))
