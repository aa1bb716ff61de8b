"""Random programs over the table of rules, for the comparison of `exact` with its reference."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Array = jax.Array
Op = tuple[int, Callable[..., Array]]

EDGES = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -2.5, 1e-38, -1e-39, 1e-44, 3e38, -3e38, 2.0**-126, 2.0**24]
    + [np.inf, -np.inf, np.nan, 88.7, -103.0, 1.0000001, 0.99999994, 1e5, 7e-5, 0.1],
    np.float32,
)


def scan_rows(x: Array) -> Array:
    """A loop with a float carry, from the end."""

    def body(carry: Array, row: Array) -> tuple[Array, Array]:
        carry = carry * 0.5 + row
        return carry, carry * row

    carry, ys = lax.scan(body, x[0], x, reverse=True)
    return ys + carry


def halve_while(x: Array) -> Array:
    """A loop whose length depends on the values."""
    limit = jnp.minimum(jnp.sum(jnp.abs(jnp.nan_to_num(x))), 1e3)
    _, result = lax.while_loop(
        lambda s: (s[0] > 1.0) & (s[0] < 1e6), lambda s: (s[0] * 0.3, s[1] * 0.7), (limit, x)
    )
    return result


def branch(x: Array) -> Array:
    """One of two branches."""
    return lax.cond(jnp.max(x) > 0.5, lambda v: v * v + 1.0, lambda v: v - 0.25, x)


def mixed_products(x: Array) -> Array:
    """Products with axes in an unusual order."""
    y = jnp.einsum("ij,kj->ik", x, x)
    return jnp.einsum("ik,kj->ij", y, x)


def scattered(x: Array, y: Array) -> Array:
    """Rows added into repeated rows."""
    where = jnp.arange(x.shape[0]) // 2
    return x.at[where].add(y).at[-1, 0].set(y[0, 0])


def through_integers(x: Array) -> Array:
    """To integers, and back."""
    return x.astype(jnp.int32).astype(jnp.float32) + (x > 0.5) + x.astype(jnp.uint8)


def through_bits(x: Array) -> Array:
    """The same number with its lowest bit flipped."""
    return lax.bitcast_convert_type(lax.bitcast_convert_type(x, jnp.int32) ^ 1, jnp.float32)


def noisy(x: Array) -> Array:
    """Normal noise, of a key made of a value."""
    key = jax.random.fold_in(jax.random.key(3), jnp.int32(jnp.nan_to_num(x[0, 0]) % 64.0))
    first, second = jax.random.split(key)
    order = jax.random.permutation(second, x.shape[0])
    return x[order] + jax.random.normal(first, x.shape)


def slope(x: Array) -> Array:
    """A derivative."""
    return jax.grad(lambda v: jnp.sum(jnp.tanh(v) * jax.nn.softmax(v)))(x)


def sorted_pairs(x: Array) -> Array:
    """A gather in the order of a sort, and the largest of each row."""
    top, _ = lax.top_k(x, 1)
    return jnp.take_along_axis(x, jnp.argsort(x, axis=0), 0) - top


def spread(x: Array) -> Array:
    """Mean and deviation of each row."""
    return (x - x.mean(1, keepdims=True)) / (x.std(1, keepdims=True) + 1e-3)


def decomposed(x: Array) -> Array:
    """Cholesky factor and a triangular solve, on a matrix that is positive definite or NaN."""
    bounded = jnp.tanh(jnp.nan_to_num(x))
    low = jnp.linalg.cholesky(bounded @ bounded.T + jnp.eye(len(x)))
    return jax.scipy.linalg.solve_triangular(low, bounded, lower=True)


OPS: dict[str, Op] = {
    "add": (2, jnp.add),
    "sub": (2, jnp.subtract),
    "mul": (2, jnp.multiply),
    "muladd": (3, lambda x, y, z: x * y + z),
    "mulsub": (3, lambda x, y, z: z - x * y),
    "div": (2, jnp.divide),
    "div_scalar": (1, lambda x: x / 3.0 + 0.0),
    "div_row": (1, lambda x: x / x[0]),
    "pow": (2, jnp.power),
    "atan2": (2, jnp.arctan2),
    "rem": (2, jnp.fmod),
    "max": (2, jnp.maximum),
    "min": (2, jnp.minimum),
    "where": (3, lambda x, y, z: jnp.where(x <= y, z, -x)),
    "nextafter": (2, jnp.nextafter),
    "scatter": (2, scattered),
    "dot": (2, lambda x, y: (x @ y.T) @ y),
    "einsum": (1, mixed_products),
    "neg": (1, jnp.negative),
    "square": (1, jnp.square),
    "cube": (1, lambda x: x**3),
    "inverse_square": (1, lambda x: x**-2),
    "clip": (1, lambda x: jnp.clip(x, -0.75, 2.0)),
    "round": (1, lambda x: jnp.round(x) + jnp.floor(x) - jnp.ceil(x)),
    "sign": (1, jnp.sign),
    "integers": (1, through_integers),
    "bits": (1, through_bits),
    "sum": (1, lambda x: x - x.sum()),
    "sum_rows": (1, lambda x: x * x.sum(1, keepdims=True)),
    "prod": (1, lambda x: x + x.prod(0)),
    "cumsum": (1, lambda x: jnp.cumsum(x, 1) - lax.cumsum(x, 0, reverse=True)),
    "cummax": (1, lambda x: lax.cummax(x, 0) + lax.cummin(x, 1)),
    "extremes": (1, lambda x: x.max(1, keepdims=True) - x.min(0)),
    "arg": (1, lambda x: x + x.argmax(1)[:, None] - x.argmin(0)),
    "sort": (1, sorted_pairs),
    "roll": (1, lambda x: jnp.roll(x, 1, 0)[::-1]),
    "pad": (1, lambda x: lax.pad(x, 0.5, ((1, -1, 0), (-1, 1, 0)))),
    "take": (1, lambda x: jnp.take(x, jnp.array([0, 7, -1]), 1, mode="fill")[:, :1] + x),
    "slice": (1, lambda x: lax.dynamic_slice(x, (0, jnp.int32(x[0, 0] > 0)), x.shape)),
    "softmax": (1, jax.nn.softmax),
    "logsumexp": (1, lambda x: x - jax.nn.logsumexp(x)),
    "spread": (1, spread),
    "slope": (1, slope),
    "erf_inv": (1, lambda x: jax.scipy.special.erfinv(jnp.clip(x, -1.0, 1.0))),
    "scan": (1, scan_rows),
    "while": (1, halve_while),
    "cond": (1, branch),
    "noise": (1, noisy),
    "linear": (1, decomposed),
    "vmap": (1, lambda x: jax.vmap(lambda r: r / (1.0 + jnp.sum(r * r)))(x)),
    "checkpoint": (1, jax.checkpoint(lambda x: jnp.sin(x) * x)),
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
    OPS[_name] = (1, getattr(jnp, _name))
OPS["logistic"] = (1, jax.nn.sigmoid)
OPS["rsqrt"] = (1, lax.rsqrt)
OPS["erf"] = (1, lax.erf)


def program(steps: Sequence[tuple[str, tuple[int, ...]]]) -> Callable[..., list[Array]]:
    """The program that applies operations one after the other to a growing list of arrays.

    Args:
      steps: (name of the operation, numbers that choose its operands).

    Returns:
      [N, M] float32 arrays -> every array that was made.
    """

    def run(*inputs: Array) -> list[Any]:
        values = list(inputs)
        for name, choices in steps:
            arity, fn = OPS[name]
            operands = [values[c % len(values)] for c in choices[:arity]]
            values.append(fn(*operands))
        return values[len(inputs) :]

    return run
