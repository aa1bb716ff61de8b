"""x^y through pairs of float64 numbers, whose sum carries about 100 bits."""

import jax
import jax.numpy as jnp

from rlkjax.exact.rounding import Opaque, narrow, widen

Array = jax.Array


def power(x: Array, y: Array, opaque: Opaque) -> Array:
    """placeholder"""
    return narrow(jnp.power(widen(x), widen(y)), opaque)
