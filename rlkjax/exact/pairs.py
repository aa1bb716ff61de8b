"""x^y through pairs (high, low) of float64 numbers, whose sum carries about 100 bits.

A product's rounding error comes from products of halves, which are exact, so that FMA changes
nothing; the product itself is guarded by the run-time zero. The result is good to about 2^-62: it
is the nearest float32 unless the true value lies closer than that to a rounding boundary without
being on it, once in 2^34 random cases.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from rlkjax.exact.elementary import (
    I64,
    LN2_HIGH,
    LN2_LOW,
    LOG2_E,
    log_parts,
    polynomial,
    power_of_two,
)
from rlkjax.exact.rounding import Opaque, hidden, narrow, widen

Array = jax.Array
F32, F64 = jnp.float32, jnp.float64

HALF_MASK = -(2**27)
THIRD = (0.6666666666666666, 3.700743415417188e-17)
FIFTH = (0.4, -2.2204460492503132e-17)
# log((1 + s) / (1 - s)) = 2 s + 2/3 s^3 + 2/5 s^5 + s z^3 TAIL(z), z = s^2
TAIL = tuple(2.0 / (2 * j + 7) for j in range(11))
LN2_REST = 1.94704509238075e-31
# e^w = 1 + w + w^2 / 2 + w^3 CUBE(w), |w| < 0.0434
CUBE = (1 / 6, 1 / 24, 1 / 120, 1 / 720, 1 / 5040, 1 / 40320, 1 / 362880)
CLOSE = 2.0**-59
LIMIT = 150.0


class Pair(NamedTuple):
    """An unevaluated sum of two float64 numbers, |low| <= ulp(high) / 2."""

    high: Array
    low: Array


def halves(x: Array) -> tuple[Array, Array]:
    """x as a sum of two numbers of at most 27 bits."""
    upper = lax.bitcast_convert_type(lax.bitcast_convert_type(x, I64) & HALF_MASK, F64)
    return upper, x - upper


def ordered_sum(x: Array, y: Array, opaque: Opaque) -> Pair:
    """x + y without loss, for |x| >= |y|."""
    total = hidden(x + y, opaque)
    return Pair(total, y - (total - x))


def two_sum(x: Array, y: Array, opaque: Opaque) -> Pair:
    """x + y without loss; beside an infinity or NaN the low part is NaN."""
    total = hidden(x + y, opaque)
    part = total - x
    return Pair(total, (x - (total - part)) + (y - part))


def product(x: Array, y: Array, opaque: Opaque) -> Pair:
    """x * y without loss."""
    minus_zero = lax.bitcast_convert_type(opaque.nothing64 | I64(-(2**63)), F64)
    total = x * y + minus_zero
    (x1, x2), (y1, y2) = halves(x), halves(y)
    return Pair(total, ((x1 * y1 - total) + x1 * y2 + x2 * y1) + x2 * y2)


def times(a: Pair, b: Pair, opaque: Opaque) -> Pair:
    """a * b, good to 2^-100."""
    high, low = product(a.high, b.high, opaque)
    return ordered_sum(high, low + (a.high * b.low + a.low * b.high), opaque)


def plus(a: Pair, b: Pair, opaque: Opaque) -> Pair:
    """a + b for |a| >= |b|."""
    high, low = ordered_sum(a.high, b.high, opaque)
    return ordered_sum(high, low + (a.low + b.low), opaque)


def constant(pair: tuple[float, float], like: Array) -> Pair:
    """A pair of literals, spread over the shape of `like`."""
    return Pair(jnp.full_like(like, pair[0]), jnp.full_like(like, pair[1]))


def log_pair(x: Array, opaque: Opaque) -> Pair:
    """Natural logarithm of a positive float32 number."""
    k, f = log_parts(x, opaque.magic)
    divisor = 2.0 + f
    s_high = hidden(f / divisor, opaque)
    back = product(s_high, divisor, opaque)
    s = Pair(s_high, ((f - back.high) - back.low) / divisor)
    z = times(s, s, opaque)
    fifth = times(constant(FIFTH, f), z, opaque)
    tail = z.high * z.high * polynomial(TAIL, z.high)
    inner = plus(constant(THIRD, f), Pair(fifth.high, fifth.low + tail), opaque)
    series = times(times(z, inner, opaque), s, opaque)
    mantissa = plus(Pair(2.0 * s.high, 2.0 * s.low), series, opaque)
    low = product(k, jnp.full_like(k, LN2_LOW), opaque)
    with_k = plus(ordered_sum(k * LN2_HIGH, low.high, opaque), Pair(low.low, k * LN2_REST), opaque)
    total = plus(with_k, mantissa, opaque)
    return Pair(
        jnp.where(k == 0, mantissa.high, total.high), jnp.where(k == 0, mantissa.low, total.low)
    )


def exp_pair(t: Pair, opaque: Opaque) -> tuple[Array, Pair]:
    """(2^k, 1 + E as a pair) with e^t = 2^k (1 + E), for |t| <= 150."""
    shifted = t.high * LOG2_E + opaque.magic
    k = shifted - opaque.magic
    part = product(k, jnp.full_like(k, LN2_LOW), opaque)
    first = ordered_sum(t.high - k * LN2_HIGH, -part.high, opaque)
    rest = t.low - part.low - k * LN2_REST
    w = ordered_sum(first.high * 0.125, (first.low + rest) * 0.125, opaque)
    square = times(w, w, opaque)
    cube = square.high * w.high * polynomial(CUBE, w.high)
    e = plus(w, Pair(0.5 * square.high, 0.5 * square.low + cube), opaque)
    for _ in range(3):
        e = plus(Pair(2.0 * e.high, 2.0 * e.low), times(e, e, opaque), opaque)
    return power_of_two(shifted), plus(constant((1.0, 0.0), k), e, opaque)


def round_odd(value: Pair) -> Array:
    """The high part, its last bit set if the low part counts: one rounding to come sees it."""
    bits = lax.bitcast_convert_type(value.high, I64)
    counts = (jnp.abs(value.low) > CLOSE * value.high) & (bits & 1 == 0)
    step = jnp.where(value.low > 0, I64(1), I64(-1))
    return lax.bitcast_convert_type(jnp.where(counts, bits + step, bits), F64)


def power(x: Array, y: Array, opaque: Opaque) -> Array:
    """x^y to the nearest float32; special values as IEEE 754's pow.

    Args:
      x: float32.
      y: float32, the same shape.
      opaque: run-time scalars.

    Returns:
      float32.
    """
    x, y = jnp.broadcast_arrays(x, y)
    size = jnp.abs(x)
    plain = (size > 0) & (size < jnp.inf) & (jnp.abs(y) < jnp.inf)
    base = widen(jnp.where(plain, size, F32(1)))
    exponent = widen(jnp.where(plain, y, F32(0)))
    log_x = log_pair(base, opaque)
    t = times(log_x, Pair(exponent, jnp.zeros_like(exponent)), opaque)
    far = jnp.abs(t.high) > LIMIT
    t = Pair(
        jnp.where(far, jnp.where(t.high > 0, LIMIT, -LIMIT), t.high), jnp.where(far, 0.0, t.low)
    )
    scale, value = exp_pair(t, opaque)
    result = narrow(round_odd(value) * scale, opaque)
    return special_power(x, y, jnp.where(plain, result, F32(1)), plain)


def special_power(x: Array, y: Array, result: Array, plain: Array) -> Array:
    """Signs, zeros, infinities and NaN of x^y, given |x|^y where both are plain numbers."""
    size = jnp.abs(x)
    whole = (jnp.floor(y) == y) & (jnp.abs(y) < jnp.inf)
    odd = whole & (jnp.abs(y) < 2.0**24) & (jnp.floor(y * 0.5) != y * 0.5)
    grows = (size > 1) == (y > 0)
    edge = jnp.where(grows, F32(jnp.inf), F32(0))
    edge = jnp.where((size == 1) & (jnp.abs(y) == jnp.inf), F32(1), edge)
    result = jnp.where(plain, result, edge)
    negative = lax.bitcast_convert_type(x, jnp.int32) < 0
    result = jnp.where(negative & odd, -result, result)
    result = jnp.where(
        (x < 0) & (size < jnp.inf) & ~whole & (jnp.abs(y) < jnp.inf), F32(jnp.nan), result
    )
    result = jnp.where((x != x) | (y != y), F32(jnp.nan), result)
    return jnp.where((y == 0) | (x == 1), F32(1), result)
