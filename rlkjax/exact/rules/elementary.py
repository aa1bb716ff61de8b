"""Rules of the elementary functions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from rlkjax.exact import rounding
from rlkjax.exact.interpret import Rule, composed

Array = jax.Array

# Giles (2010), "Approximating the erfinv function", table 5: single precision, highest power first
CENTRE = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
TAIL = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
)


def unary(name: str) -> Rule:
    """A correctly rounded function of one number."""
    return Rule("defined", lambda ops, eqn, args: [ops.unary(name, args[0])])


def horner(coefficients: Sequence[float], w: Array) -> Array:
    """Polynomial in float32, highest power first."""
    total = jnp.full_like(w, coefficients[0])
    for value in coefficients[1:]:
        total = total * w + jnp.float32(value)
    return total


def erf_inv(params: Mapping[str, Any]) -> Callable[[Array], Array]:
    """x P(w), w = -log(1 - x^2): Giles' polynomials, every step in exact float32."""

    def fn(x: Array) -> Array:
        w = -jnp.log1p(-x * x)
        near = w < 5.0
        v = jnp.where(near, w - 2.5, jnp.sqrt(w) - 3.0)
        result = jnp.where(near, horner(CENTRE, v), horner(TAIL, v)) * x
        return jnp.where(jnp.abs(x) == 1.0, x * jnp.inf, result)

    return fn


def erfc(params: Mapping[str, Any]) -> Callable[[Array], Array]:
    """1 - erf(x), two roundings."""
    return lambda x: 1.0 - lax.erf(x)


def nextafter(params: Mapping[str, Any]) -> Callable[[Array, Array], Array]:
    """The next float32 after x on the way to y, subnormal numbers left out."""

    def fn(x: Array, y: Array) -> Array:
        bits = lax.bitcast_convert_type(x, jnp.int32)
        away = (y > x) == (x > 0)
        moved = lax.bitcast_convert_type(jnp.where(away, bits + 1, bits - 1), jnp.float32)
        smallest = jnp.where(y > 0, jnp.float32(2.0**-126), jnp.float32(-(2.0**-126)))
        result = jnp.where(x == y, y, jnp.where(x == 0, smallest, moved))
        return jnp.where((x != x) | (y != y), jnp.float32(jnp.nan), result)

    return fn


def log2(params: Mapping[str, Any]) -> Callable[[Array], Array]:
    """log(x) / log(2), two roundings and a division, as earlier versions of JAX wrote it out."""
    return lambda x: lax.log(x) / lax.log(jnp.float32(2.0))


def atan2(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """Angle of a point."""
    return [ops.atan2(*args)]


def power(ops: Any, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
    """x^y; an integer exponent is converted first."""
    return [ops.pow(args[0], ops.convert(args[1], eqn.invars[0].aval.dtype))]


def rules() -> dict[str, Rule]:
    """The family's part of the table."""
    table = {name: unary(name) for name in rounding.UNARY}
    table |= {"erf_inv": composed(erf_inv), "erfc": composed(erfc)}
    table["log2"] = composed(log2)
    table["nextafter"] = composed(nextafter)
    return table | {"atan2": Rule("defined", atan2), "pow": Rule("defined", power)}
