"""Inverse circular functions, roots and the error function in float64; see elementary.py."""

import jax
import jax.numpy as jnp
from jax import lax

from rlkjax.exact.elementary import F64, I64, polynomial, quotient

Array = jax.Array

HALF_PI_HIGH, HALF_PI_LOW = 1.5707963267948966, 6.123233995736766e-17
# tan of the angle of each ray, the angle, and what float64 lost of it
ATAN = (
    -0.3333333333333333,
    0.19999999999998966,
    -0.1428571428466413,
    0.1111111071125646,
    -0.09090836510998238,
    0.0768553063628102,
    -0.06351278940814616,
)
RAYS = (
    (0.25, 0.24497866312686414),
    (0.5, 0.4636476090008061),
    (0.75, 0.6435011087932844),
    (1.0, 0.7853981633974483),
)


def atan_ratio(low: Array, high: Array, magic: Array) -> Array:
    """atan(low / high) for 0 <= low <= high, in [0, pi / 4]."""
    slope, angle = jnp.zeros_like(low), jnp.zeros_like(low)
    for ray, ray_angle in RAYS:
        beyond = low > (ray - 0.125) * high
        slope = jnp.where(beyond, ray, slope)
        angle = jnp.where(beyond, ray_angle, angle)
    t = quotient(low - slope * high, high + slope * low, magic)
    z = t * t
    return angle + (t + (t * z) * polynomial(ATAN, z))


def atan2_positive(y: Array, x: Array, magic: Array) -> Array:
    """Angle in [0, pi] of the point (x, y), y >= 0, not both 0, finite."""
    wide = jnp.abs(x)
    steep = y > wide
    base = atan_ratio(jnp.where(steep, wide, y), jnp.where(steep, y, wide), magic)
    base = jnp.where(steep, HALF_PI_HIGH - (base - HALF_PI_LOW), base)
    flipped = 2.0 * HALF_PI_HIGH - (base - 2.0 * HALF_PI_LOW)
    return jnp.where(x < 0, flipped, base)


def atan2(y: Array, x: Array, magic: Array) -> Array:
    """Angle of the point (x, y); infinities count as equal numbers, 0/0 has angle 0 or pi."""
    both = jnp.isinf(x) & jnp.isinf(y)
    wide = jnp.where(both, jnp.where(x < 0, -1.0, 1.0), x)
    tall = jnp.where(both, 1.0, jnp.abs(y))
    scale = jnp.where(jnp.isinf(wide) | jnp.isinf(tall), 0.0, 1.0)
    wide = jnp.where(jnp.isinf(wide), jnp.where(wide < 0, -1.0, 1.0), wide * scale)
    tall = jnp.where(jnp.isinf(tall), 1.0, tall * scale)
    negative = lax.bitcast_convert_type(x, I64) < 0
    origin = (wide == 0) & (tall == 0)
    wide = jnp.where(origin, jnp.where(negative, -1.0, 1.0), wide)
    angle = atan2_positive(tall, wide, magic)
    sign = lax.bitcast_convert_type(y, I64) & jnp.int64(-(2**63))
    return lax.bitcast_convert_type(lax.bitcast_convert_type(angle, I64) | sign, F64)


def atan(x: Array, magic: Array) -> Array:
    """Angle in [0, pi / 2] of slope x >= 0."""
    return atan2_positive(jnp.where(jnp.isinf(x), 1e300, x), jnp.ones_like(x), magic)


def asin(x: Array, magic: Array) -> Array:
    """Angle in [0, pi / 2] of sine x, 0 <= x <= 1."""
    return atan2_positive(x, jnp.sqrt((1.0 - x) * (1.0 + x)), magic)


def acos(x: Array, magic: Array) -> Array:
    """Angle in [0, pi] of cosine x, |x| <= 1."""
    return atan2_positive(jnp.sqrt((1.0 - x) * (1.0 + x)), x, magic)


def rsqrt(x: Array, magic: Array) -> Array:
    """1 / sqrt(x)."""
    del magic
    return 1.0 / jnp.sqrt(x)


def cbrt(x: Array, magic: Array) -> Array:
    """Cube root of x > 0, by Halley steps from a guess whose exponent is a third of x's."""
    del magic
    bits = lax.bitcast_convert_type(x, I64)
    # a third of the exponent: 0x2A9F7893782DA1CE is two thirds of the bits of 1, less a fit
    guess = lax.bitcast_convert_type(bits // 3 + 0x2A9F7893782DA1CE, F64)
    for _ in range(3):
        cube = guess * guess * guess
        guess = guess * ((cube + 2.0 * x) / (2.0 * cube + x))
    return guess
