"""Operations of random programs: [N, M] float32 arrays to one of the same shape.

Together they use every primitive of the table of rules that needs no mesh of devices; what is left
stands in test_table.py.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import op_bodies
from jax import lax

Array = jax.Array


class Op(NamedTuple):
    """An operation.

    Attributes:
      arity: number of operands.
      fn: the function.
      full: it needs at least one element.
      smooth: JAX has a derivative for it, forward and backward.
    """

    arity: int
    fn: Callable[..., Array]
    full: bool = False
    smooth: bool = True


OPS: dict[str, Op] = {
    "add": Op(2, jnp.add),
    "sub": Op(2, jnp.subtract),
    "mul": Op(2, jnp.multiply),
    "muladd": Op(3, lambda x, y, z: x * y + z),
    "mulsub": Op(3, lambda x, y, z: z - x * y),
    "div": Op(2, jnp.divide),
    "div_scalar": Op(1, lambda x: x / 3.0 + 0.0),
    "div_row": Op(1, lambda x: x / x[0], full=True),
    "pow": Op(2, jnp.power),
    "atan2": Op(2, jnp.arctan2),
    "rem": Op(2, jnp.fmod),
    "max": Op(2, jnp.maximum),
    "min": Op(2, jnp.minimum),
    "where": Op(3, lambda x, y, z: jnp.where(x <= y, z, -x)),
    "nextafter": Op(2, jnp.nextafter, smooth=False),
    "scatter": Op(2, op_bodies.scattered, full=True),
    "dot": Op(2, lambda x, y: (x @ y.T) @ y),
    "einsum": Op(1, op_bodies.mixed_products),
    "neg": Op(1, jnp.negative),
    "square": Op(1, jnp.square),
    "cube": Op(1, lambda x: x**3),
    "inverse_square": Op(1, lambda x: x**-2),
    "clip": Op(1, lambda x: jnp.clip(x, -0.75, 2.0)),
    "round": Op(1, lambda x: jnp.round(x) + jnp.floor(x) - jnp.ceil(x)),
    "sign": Op(1, jnp.sign),
    "integers": Op(1, op_bodies.through_integers),
    "bits": Op(1, op_bodies.through_bits),
    "sum": Op(1, lambda x: x - x.sum()),
    "sum_rows": Op(1, lambda x: x * x.sum(1, keepdims=True)),
    "prod": Op(1, lambda x: x + x.prod(0)),
    "cumsum": Op(1, lambda x: jnp.cumsum(x, 1) - lax.cumsum(x, 0, reverse=True)),
    "cummax": Op(1, lambda x: lax.cummax(x, 0) + lax.cummin(x, 1)),
    "extremes": Op(1, lambda x: x.max(1, keepdims=True) - x.min(0), full=True),
    "arg": Op(1, lambda x: x + x.argmax(1)[:, None] - x.argmin(0), full=True),
    "sort": Op(1, op_bodies.sorted_pairs, full=True),
    "roll": Op(1, lambda x: jnp.roll(x, 1, 0)[::-1]),
    "pad": Op(1, lambda x: lax.pad(x, 0.5, ((1, -1, 0), (-1, 1, 0)))),
    "take": Op(
        1, lambda x: jnp.take(x, jnp.array([0, 7, -1]), 1, mode="fill")[:, :1] + x, full=True
    ),
    "slice": Op(1, lambda x: lax.dynamic_slice(x, (0, jnp.int32(x[0, 0] > 0)), x.shape), full=True),
    "softmax": Op(1, jax.nn.softmax, full=True),
    "logsumexp": Op(1, lambda x: x - jax.nn.logsumexp(x), full=True),
    "spread": Op(1, op_bodies.spread, full=True),
    "slope": Op(1, op_bodies.slope, full=True),
    "erf_inv": Op(1, lambda x: jax.scipy.special.erfinv(jnp.clip(x, -1.0, 1.0))),
    "scan": Op(1, op_bodies.scan_rows, full=True),
    "while": Op(1, op_bodies.halve_while, smooth=False),
    "cond": Op(1, op_bodies.branch, full=True),
    "log2": Op(1, lambda x: lax.reduce_precision(jnp.log2(x), 8, 23)),
    "noise": Op(1, op_bodies.noisy, full=True),
    "linear": Op(1, op_bodies.decomposed),
    "vmap": Op(1, lambda x: jax.vmap(lambda r: r / (1.0 + jnp.sum(r * r)))(x)),
    "checkpoint": Op(1, jax.checkpoint(lambda x: jnp.sin(x) * x)),
    "bit_tricks": Op(1, op_bodies.bit_tricks),
    "integer_arithmetic": Op(1, op_bodies.integer_arithmetic, full=True),
    "flags": Op(1, op_bodies.flags),
    "window_pools": Op(1, op_bodies.window_pools, smooth=False),
    "window_product": Op(1, op_bodies.window_product, smooth=False),
    "pool_slope": Op(1, op_bodies.pool_slope),
    "convolved": Op(1, op_bodies.convolved, full=True),
    "own_fold": Op(1, op_bodies.own_fold),
    "running": Op(1, op_bodies.running),
    "kept_extremes": Op(2, op_bodies.kept_extremes),
    "updated": Op(2, op_bodies.updated, smooth=False),
    "factored": Op(1, op_bodies.factored, full=True),
    "pieces": Op(1, op_bodies.pieces, full=True),
    "ordered_by_bits": Op(1, op_bodies.ordered_by_bits),
    "passed_on": Op(1, op_bodies.passed_on),
    "raw_keys": Op(1, op_bodies.raw_keys),
    "own_derivatives": Op(1, op_bodies.own_derivatives, smooth=False),
    "rematerialised": Op(1, op_bodies.rematerialised),
    "top_rows": Op(1, op_bodies.top_rows, full=True),
    "mixed_dot": Op(1, op_bodies.mixed_dot, smooth=False),
    "attention": Op(1, op_bodies.attention, full=True),
}
for _name in [
    "exp",
    "expm1",
    "log",
    "log1p",
    "tanh",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "arcsinh",
    "arccosh",
    "arctanh",
    "arcsin",
    "arccos",
    "arctan",
    "sqrt",
    "cbrt",
    "exp2",
]:
    OPS[_name] = Op(1, getattr(jnp, _name))
OPS["logistic"] = Op(1, jax.nn.sigmoid)
OPS["rsqrt"] = Op(1, lax.rsqrt)
OPS["erf"] = Op(1, lax.erf)
OPS["erfc"] = Op(1, lax.erfc)
