"""Elementary functions in float64, so close to the truth that one rounding gives float32's best.

Each function maps float64 values of float32 numbers to float64, with an error of about one part in
2^52; `rounding.py` rounds once, and lists the inputs, if any, for which that is not enough.
Whether the compiler contracts a product and a sum does not matter here: both results lie within the
error, and the exhaustive check (benchmarks/exact_functions.py) is run in both ways.

`magic` is 1.5 * 2^52, known only at run time: adding and subtracting it rounds to an integer, and a
literal would be folded away. Coefficients: benchmarks/exact_fit.py.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

Array = jax.Array
F32, F64, I32, I64 = jnp.float32, jnp.float64, jnp.int32, jnp.int64

MAGIC = 6755399441055744.0
MAGIC_BITS = 0x4338000000000000
SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
SQRT_HALF_BITS32 = 0x3F3504F4  # the first float32 number above
LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.6931471805598903, 5.497923018708371e-14
HALF_LN2 = 0.34657359027997264
TWO_OVER_PI = 0.6366197723675814
HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
EXP = (
    0.5000000000000001,
    0.16666666666666669,
    0.04166666666662413,
    0.008333333333330062,
    0.0013888888917213717,
    0.00019841269863053618,
    2.4801521295954376e-05,
    2.7557268459997064e-06,
    2.7620088445409746e-07,
    2.510038549551032e-08,
)
EXP2 = (
    0.6931471805599453,
    0.24022650695910072,
    0.055504108664821625,
    0.00961812910762848,
    0.0013333558146406436,
    0.00015403530393370715,
    1.5252733841601815e-05,
    1.3215486808727859e-06,
    1.0178057064573359e-07,
    7.054897292691627e-09,
    4.455822025014915e-10,
    2.5729344553786755e-11,
)
LOG = (
    0.3333333333333335,
    0.19999999999949722,
    0.14285714313001635,
    0.11111105565129939,
    0.09091444727837474,
    0.07665855309105386,
    0.07308292712444311,
)
TANH_ABOVE = (63.0152945042254, 7.001092410243336, 0.06664240774715367)
TANH_BELOW = (63.0152945042254, 28.006190578318428, 1.0)
SIN = (
    -0.16666666666666666,
    0.008333333333333316,
    -0.00019841269841254966,
    2.7557319219160833e-06,
    -2.505210761669045e-08,
    1.6058977292642743e-10,
    -7.643969663988074e-13,
    2.7314368769379893e-15,
)


def polynomial(coefficients: Sequence[float], x: Array) -> Array:
    """c0 + c1 x + c2 x^2 + …, by Horner's rule."""
    total = jnp.full_like(x, coefficients[-1])
    for value in coefficients[-2::-1]:
        total = lax.add(lax.mul(total, x), value)
    return total


def power_of_two(shifted: Array) -> Array:
    """2^k, where `shifted` = magic + k and |k| < 1000."""
    bits = lax.bitcast_convert_type(shifted, I64)
    return lax.bitcast_convert_type((bits + 1023) << 52, F64)


def exp_parts(x: Array, magic: Array) -> tuple[Array, Array]:
    """(2^k, w) with e^x = 2^k (1 + w) and |w| < 0.42, for |x| <= 300."""
    shifted = x * LOG2_E + magic
    k = shifted - magic
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    return power_of_two(shifted), r + (r * r) * polynomial(EXP, r)


def exp(x: Array, magic: Array) -> Array:
    """e^x for |x| <= 150."""
    scale, w = exp_parts(x, magic)
    return scale + scale * w


def exp2(x: Array, magic: Array) -> Array:
    """2^x for |x| <= 200."""
    shifted = x + magic
    r = x - (shifted - magic)
    return power_of_two(shifted) * (1.0 + r * polynomial(EXP2, r))


def expm1(x: Array, magic: Array) -> Array:
    """e^x - 1 for |x| <= 150, with a small relative error near 0 too."""
    scale, w = exp_parts(x, magic)
    return (scale - 1.0) + scale * w


def tangent(r: Array) -> tuple[Array, Array]:
    """(p, q) with p / q = tanh r, for |r| <= log(2) / 4; e^(2 r) = (q + p) / (q - p)."""
    z = r * r
    return r * polynomial(TANH_ABOVE, z), polynomial(TANH_BELOW, z)


def tanh(x: Array, magic: Array) -> Array:
    """(e^2x - 1) / (e^2x + 1) for |x| <= 22, through the half tangent of what is left of 2x.

    One part of log 2 is enough: what its rounding moves in r is damped by 1 - tanh(x)^2.
    """
    magic = magic + 1024.0  # so that one shift makes 2^(k + 1) of k
    shifted = x * (2.0 * LOG2_E) + magic
    p, q = tangent(x - (shifted - magic) * HALF_LN2)
    doubled = lax.bitcast_convert_type(lax.bitcast_convert_type(shifted, I64) << 52, F64)
    below, above = 2.0 - doubled, 2.0 + doubled
    return (above * p - below * q) / (above * q - below * p)


def logistic(x: Array, magic: Array) -> Array:
    """1 / (1 + e^-x) for |x| <= 150.

    x is shortened by 2^-26 of itself where |x| < 2^-16: there the true value lies below a rounding
    boundary by too little for float64 to see.
    """
    x = x * jnp.where(jnp.abs(x) < 2.0**-16, 1.0 - 2.0**-26, 1.0)
    shifted = x * LOG2_E + magic
    k = shifted - magic
    r = 0.5 * ((x - k * LN2_HIGH) - k * LN2_LOW)
    p, q = tangent(r)
    above, below = power_of_two(shifted) * (q + p), q - p
    return above / (above + below)


def log_parts(x: Array, magic: Array) -> tuple[Array, Array]:
    """(k, f) with x = 2^k (1 + f) and 1 + f in [sqrt(1/2), sqrt(2)), for positive finite x."""
    bits = lax.bitcast_convert_type(x, I64)
    k = (bits - SQRT_HALF_BITS) >> 52
    f = lax.bitcast_convert_type(bits - (k << 52), F64) - 1.0
    return lax.bitcast_convert_type(k + MAGIC_BITS, F64) - magic, f


def quotient(x: Array, y: Array, magic: Array) -> Array:
    """x / y for several uses; not -0.

    XLA writes a division of several uses to memory and reads it again. Of a sum it does not.
    """
    return x / y + (magic - MAGIC)


def log_of_parts(k: Array, f: Array, magic: Array) -> Array:
    """k log 2 + log(1 + f).

    log(1 + f) = f - s (f - 2 z LOG(z)): the first term is exact, so only the small rest rounds.
    """
    s = quotient(f, 2.0 + f, magic)
    z = s * s
    rest = s * (f - (z + z) * polynomial(LOG, z))
    return k * LN2_HIGH + (f + (k * LN2_LOW - rest))


def log_wide(x: Array, magic: Array) -> Array:
    """Natural logarithm of a positive finite number of up to 53 bits."""
    return log_of_parts(*log_parts(x, magic), magic)


def log(x: Array, magic: Array) -> Array:
    """Natural logarithm of a positive finite float32 number, taken apart as one: fewer vectors."""
    bits = lax.bitcast_convert_type(lax.convert_element_type(x, F32), I32)
    k = (bits - SQRT_HALF_BITS32) >> 23
    mantissa = lax.bitcast_convert_type(bits - (k << 23), F32)
    f = lax.convert_element_type(mantissa, F64) - 1.0
    return log_of_parts(lax.convert_element_type(k, F64), f, magic)


def log1p(x: Array, magic: Array) -> Array:
    """log(1 + x) of a float32 number x > -1; below 2^-26 the result is x."""
    return jnp.where(jnp.abs(x) < 2.0**-26, x, log_wide(1.0 + x, magic))


def log1p_wide(x: Array, magic: Array) -> Array:
    """log(1 + x) of a float64 number x >= 0, whose last bits 1 + x would lose if x is small."""
    k, f = log_parts(1.0 + x, magic)
    small = x < 0.4
    return log_of_parts(jnp.where(small, 0.0, k), jnp.where(small, x, f), magic)


def sin_quarter(x: Array, quarter: float, magic: Array) -> Array:
    """sin(x + quarter * pi / 2) for |x| <= 2^20, quarter = 0 or 1."""
    turn = (x * TWO_OVER_PI + quarter) * 0.5 + magic
    j = 2.0 * (turn - magic) - quarter
    r = ((x - j * HALF_PI[0]) - j * HALF_PI[1]) - j * HALF_PI[2]
    sign = lax.bitcast_convert_type(turn, I64) << 63
    r = lax.bitcast_convert_type(lax.bitcast_convert_type(r, I64) ^ sign, F64)
    z = r * r
    return r + (r * z) * polynomial(SIN, z)


def sin(x: Array, magic: Array) -> Array:
    """Sine of an angle in radians, |x| <= 2^20."""
    return sin_quarter(x, 0.0, magic)


def cos(x: Array, magic: Array) -> Array:
    """Cosine of an angle in radians, |x| <= 2^20."""
    return sin_quarter(x, 1.0, magic)


def tan(x: Array, magic: Array) -> Array:
    """Tangent of an angle in radians, |x| <= 2^20."""
    return sin(x, magic) / cos(x, magic)


def sinh(x: Array, magic: Array) -> Array:
    """(e^x - e^-x) / 2 for 0 <= x <= 150."""
    e = expm1(x, magic)
    return 0.5 * (e + e / (e + 1.0))


def cosh(x: Array, magic: Array) -> Array:
    """(e^x + e^-x) / 2, as 1 + (e^x - 1)^2 / (2 e^x), for |x| <= 150."""
    e = expm1(jnp.abs(x), magic)
    return 1.0 + 0.5 * (e * e) / (e + 1.0)


def asinh(x: Array, magic: Array) -> Array:
    """log(x + sqrt(x^2 + 1)) for x >= 0."""
    return log1p_wide(x + x * x / (1.0 + jnp.sqrt(x * x + 1.0)), magic)


def acosh(x: Array, magic: Array) -> Array:
    """log(x + sqrt(x^2 - 1)) for x >= 1."""
    t = x - 1.0
    return log1p_wide(t + jnp.sqrt(t * (x + 1.0)), magic)


def atanh(x: Array, magic: Array) -> Array:
    """log((1 + x) / (1 - x)) / 2 for 0 <= x < 1."""
    return 0.5 * log1p_wide(2.0 * x / (1.0 - x), magic)
