"""Values between host and device, typed keys among them."""

from typing import Any

import jax
import numpy as np

from rlkjax.exact import compat

Values = list[np.ndarray]

_KEYS = {"key<fry>": "threefry2x32", "key<rbg>": "rbg", "key<urbg>": "unsafe_rbg"}


def to_host(value: Any) -> np.ndarray:
    """A value on the host; typed keys as their words.

    Args:
      value: a JAX or NumPy array.

    Returns:
      A NumPy array.
    """
    if hasattr(value, "dtype") and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.asarray(value)


def to_device(value: np.ndarray, aval: Any) -> Any:
    """The inverse of `to_host`.

    Args:
      value: a NumPy array.
      aval: shape record of the value.

    Returns:
      A JAX array.
    """
    if compat.is_key(aval):
        return jax.random.wrap_key_data(jax.numpy.asarray(value), impl=_KEYS[aval.dtype.name])
    return jax.numpy.asarray(value, aval.dtype)
