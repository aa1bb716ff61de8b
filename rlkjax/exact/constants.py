"""Known values in a program; the compiler cannot know those that are float32."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from rlkjax.exact import compat
from rlkjax.exact.known import Known
from rlkjax.exact.rounding import F32, I32

Array = jax.Array


class Constants:
    """The known values that one trace of a program has asked for.

    A float32 number, and an array whose elements are all equal, is made where it is asked for, once
    in each body. Other arrays of float32 are made once, outside of all loops, or each turn would
    make them again. Integers and bools are literals.
    """

    def __init__(self, nothing: Array, outside: dict[Any, Array] | None = None) -> None:
        """Args: the int32 0 that no compiler knows; arrays that are made already."""
        self.nothing = nothing
        self.outside = {} if outside is None else outside
        self.here: dict[Any, Array] = {}

    def inside(self) -> "Constants":
        """The same for a body with a trace of its own."""
        return Constants(self.nothing, self.outside)

    def array(self, known: Known) -> Array:
        """A known value; float32 is hidden."""
        x = known.value
        if x.dtype != F32:
            return jnp.asarray(x)
        bits = np.ascontiguousarray(x).view(np.int32).reshape(x.shape)
        first = bits.flat[:1].tobytes()
        if x.ndim == 0 or bits.tobytes() == first * x.size:
            return self.uniform(first, x.shape)
        key = x.shape, bits.tobytes()
        if key not in self.outside:
            with compat.in_trace_of(self.nothing):
                self.outside[key] = hidden_bits(bits, self.nothing)
        return self.outside[key]

    def uniform(self, bits: bytes, shape: tuple[int, ...]) -> Array:
        """One number, over a shape."""
        if (bits, shape) not in self.here:
            number = np.frombuffer(bits or bytes(4), np.int32)[0]
            self.here[bits, shape] = (
                lax.broadcast(self.uniform(bits, ()), shape)
                if shape
                else hidden_bits(number, self.nothing)
            )
        return self.here[bits, shape]


def hidden_bits(bits: Any, nothing: Array) -> Array:
    """The float32 with these bits, int32, that the compiler cannot know."""
    return lax.bitcast_convert_type(nothing | jnp.asarray(bits, I32), F32)
