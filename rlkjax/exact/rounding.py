"""One rounding at the end: float64 → float32, special values, and the inputs near a boundary.

A function is `UNARY[name]`: the float64 kernel, and its special values; fixes.py lists the
inputs for which one rounding of the kernel is not enough.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from rlkjax.exact import elementary, error_function, inverse
from rlkjax.exact.fixes import FIXES

Array = jax.Array
F32, F64, I32, I64 = jnp.float32, jnp.float64, jnp.int32, jnp.int64

INF = float("inf")
NAN_BITS = 0x7FC00000
SIGN, EXPONENT = -(2**31), 0x7F800000
ONE = 0x3F800000


class Opaque(NamedTuple):
    """Scalars that no compiler knows.

    Attributes:
      nothing: [] int32, 0.
      nothing64: [] int64, 0.
      zero: [] float32, -0.0.
      magic: [] float64, 1.5 * 2^52.
    """

    nothing: Array
    nothing64: Array
    zero: Array
    magic: Array


class Function(NamedTuple):
    """A unary function.

    Attributes:
      kernel: (x, magic) -> float64, for ordinary x.
      domain: (low, high); the result is NaN outside and for NaN. None: the kernel passes NaN on.
      at: (x, result) pairs that the kernel need not know; an infinite x stands for itself.
      odd: f(-x) = -f(x): the kernel and `at` see |x|, and the result gets the sign of x.
      zero: f(x) is x where x is a zero, sign included.
      limit: magnitudes beyond it are cut to it; f rounds to one number from there on.
    """

    kernel: Callable[[Array, Array], Array]
    domain: tuple[float, float] | None = None
    at: tuple[tuple[float, float], ...] = ()
    odd: bool = False
    zero: bool = False
    limit: float | None = None


ANGLE = (-(2.0**20), 2.0**20)
UNARY = {
    "exp": Function(elementary.exp, limit=150.0),
    "exp2": Function(elementary.exp2, limit=200.0),
    "expm1": Function(elementary.expm1, zero=True, limit=150.0),
    "log": Function(elementary.log, (0.0, INF), ((0.0, -INF), (INF, INF))),
    "log1p": Function(elementary.log1p, (-1.0, INF), ((-1.0, -INF), (INF, INF)), zero=True),
    "tanh": Function(elementary.tanh, limit=20.0),
    "logistic": Function(elementary.logistic, limit=150.0),
    "sin": Function(elementary.sin, ANGLE, odd=True),
    "cos": Function(elementary.cos, ANGLE),
    "tan": Function(elementary.tan, ANGLE, odd=True),
    "sinh": Function(elementary.sinh, odd=True, limit=150.0),
    "cosh": Function(elementary.cosh, limit=150.0),
    "asinh": Function(elementary.asinh, (-INF, INF), ((INF, INF),), odd=True),
    "acosh": Function(elementary.acosh, (1.0, INF), ((INF, INF),)),
    "atanh": Function(elementary.atanh, (-1.0, 1.0), ((1.0, INF),), odd=True),
    "asin": Function(inverse.asin, (-1.0, 1.0), odd=True),
    "acos": Function(inverse.acos, (-1.0, 1.0)),
    "atan": Function(inverse.atan, odd=True),
    "erf": Function(error_function.erf, odd=True),
    "rsqrt": Function(inverse.rsqrt, (0.0, INF)),
    "cbrt": Function(inverse.cbrt, None, ((0.0, 0.0), (INF, INF)), odd=True),
}


def widen(x: Array) -> Array:
    """float32 → float64, exact."""
    return lax.convert_element_type(x, F64)


def wide_dot(x: Array, y: Array, dims: lax.DotDimensionNumbers) -> Array:
    """lax.dot_general in its own precision, whatever `jax.default_matmul_precision` says."""
    return lax.dot_general(x, y, dims, precision=lax.Precision.HIGHEST)


def hidden(x: Array, opaque: Opaque) -> Array:
    """x, which the compiler cannot know or cancel: float32 or float64."""
    if x.dtype == F32:
        return lax.bitcast_convert_type(lax.bitcast_convert_type(x, I32) | opaque.nothing, F32)
    return lax.bitcast_convert_type(lax.bitcast_convert_type(x, I64) | opaque.nothing64, F64)


def flushed(x: Array, opaque: Opaque) -> Array:
    """x with zeros for its subnormal numbers, which the compiler cannot know: float32."""
    bits = lax.bitcast_convert_type(x, I32)
    bits = jnp.where((bits & EXPONENT) == 0, bits & I32(SIGN), bits)
    return lax.bitcast_convert_type(bits | opaque.nothing, F32)


def one_nan(x: Array) -> Array:
    """x with one bit pattern for every NaN: float32."""
    return jnp.where(x != x, lax.bitcast_convert_type(I32(NAN_BITS), F32), x)


def narrow(x: Array, opaque: Opaque) -> Array:
    """float64 → float32, to nearest even, in a way that the compiler cannot take back.

    Without the added run-time zero, the pair float64 → float32 → float64 between two rules is
    deleted in some fusions and not in others.
    """
    return lax.add(lax.convert_element_type(x, F32), opaque.zero)


def narrow_sum(x: Array, opaque: Opaque) -> Array:
    """float64 → float32 as `narrow`, for a sum: a zero is +0, whatever its terms were."""
    return lax.add(lax.convert_element_type(x, F32), lax.bitcast_convert_type(opaque.nothing, F32))


def unary(name: str, x: Array, opaque: Opaque) -> Array:
    """The float32 nearest to the value of function `name`.

    Args:
      name: key of `UNARY`.
      x: float32, any shape; no subnormal numbers.
      opaque: run-time scalars.

    Returns:
      float32 of the same shape.
    """
    function = UNARY[name]
    sign = lax.bitcast_convert_type(x, I32) & SIGN
    if function.odd:
        x = lax.abs(x)
    y = narrow(function.kernel(widen(cut(x, function)), opaque.magic), opaque)
    if function.domain is not None:
        low, high = function.domain
        # both ends, always: XLA takes |x| >= 0 for true, and NaN fails only at the other
        inside = (x >= low) & (x <= high)
        y = jnp.where(inside, y, F32(jnp.nan))
    for point, value in function.at:
        y = jnp.where(x == F32(point), F32(value), y)
    if function.zero:
        y = jnp.where(x == 0, x, y)
    bits = lax.bitcast_convert_type(x, I32)
    for bits_in, bits_out in FIXES.get(name, ()):
        y = jnp.where(bits == I32(signed(bits_in)), as_float(bits_out), y)
    if function.odd:
        y = lax.bitcast_convert_type(lax.bitcast_convert_type(y, I32) ^ sign, F32)
    return y


def settled(x: Array, opaque: Opaque) -> Array:
    """x / 1, where the compiler does not know the 1.

    XLA computes a value once for all its uses only if its last operation counts as expensive, as a
    division does. Sums and products, however many, are computed anew for each use. The 1 depends on
    x, since a division by one number for all elements becomes a product.
    """
    nothing = lax.bitwise_and(lax.bitcast_convert_type(x, I32), opaque.nothing)
    return lax.div(x, lax.bitcast_convert_type(lax.bitwise_or(nothing, I32(ONE)), F32))


def cut(x: Array, function: Function) -> Array:
    """x within the limits of a function; NaN stays NaN."""
    if function.limit is None:
        return x
    x = jnp.where(x > function.limit, F32(function.limit), x)
    return x if function.odd else jnp.where(x < -function.limit, F32(-function.limit), x)


def signed(bits: int) -> int:
    """32 bits read as a signed integer."""
    return bits - 2**32 if bits >= 2**31 else bits


def as_float(bits: int) -> Array:
    """32 bits read as float32."""
    return lax.bitcast_convert_type(I32(signed(bits)), F32)
