"""Functions whose derivatives are written out, so that no version of a library can change them.

The bits of an exact program are those of its formulas. JAX 0.12 differentiates `tanh`, `maximum`
and `minimum` by other formulas than JAX 0.10, and adds the parts of a derivative in another order
where a value is used three times or more. So what a loss differentiates is defined by selects,
products and the derivatives below, and nothing in it is used more than twice: two parts have one
sum.
"""

import jax
import jax.numpy as jnp

from rlkjax.types import Array


@jax.custom_jvp
def tanh(x: Array) -> Array:
    """tanh(x), with the derivative 1 - tanh(x)^2.

    Args:
      x: [...] float32.

    Returns:
      [...] float32 in [-1, 1].
    """
    return jnp.tanh(x)


@tanh.defjvp
def _tanh_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    y = tanh(primals[0])
    return y, tangents[0] * (1.0 - y * y)


def maximum(x: Array, y: Array | float) -> Array:
    """x where x > y, else y; at a tie the derivative is that of y.

    Args:
      x: [...] float32.
      y: float32 that broadcasts to x.

    Returns:
      [...] float32.
    """
    return jnp.where(x > y, x, y)


def minimum(x: Array, y: Array | float) -> Array:
    """x where x < y, else y; at a tie the derivative is that of y.

    Args:
      x: [...] float32.
      y: float32 that broadcasts to x.

    Returns:
      [...] float32.
    """
    return jnp.where(x < y, x, y)


def clip(x: Array, low: float, high: float) -> Array:
    """x inside [low, high], else the nearer bound; NaN stays; the derivative is 1 on the bounds.

    Args:
      x: [...] float32.
      low: lower bound.
      high: upper bound.

    Returns:
      [...] float32.
    """
    return jnp.where(x < low, low, jnp.where(x > high, high, x))


@jax.custom_vjp
def fork(x: Array) -> tuple[Array, Array]:
    """x twice, each use with a derivative of its own; the derivative of x is their sum.

    Args:
      x: [...] float32.

    Returns:
      x and x.
    """
    return x, x


def _fork_forward(x: Array) -> tuple[tuple[Array, Array], None]:
    return (x, x), None


def _fork_backward(_: None, parts: tuple[Array, Array]) -> tuple[Array]:
    return (parts[0] + parts[1],)


fork.defvjp(_fork_forward, _fork_backward)


@jax.custom_jvp
def softplus(x: Array) -> Array:
    """log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)), with the derivative (1 + tanh(x / 2)) / 2.

    Args:
      x: [...] float32.

    Returns:
      [...] float32, without overflow.
    """
    magnitude = jnp.where(x > 0, x, -x)
    return maximum(x, 0.0) + jnp.log1p(jnp.exp(-magnitude))


@softplus.defjvp
def _softplus_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return softplus(primals[0]), tangents[0] * (0.5 + 0.5 * jnp.tanh(0.5 * primals[0]))


def swish(x: Array) -> Array:
    """x / (1 + exp(-x)), by way of tanh, which costs half as much.

    Args:
      x: [...] float32.

    Returns:
      [...] float32.

    Source: Ramachandran et al., "Searching for activation functions" (2017).
    """
    return x * (0.5 + 0.5 * tanh(0.5 * x))


def relu(x: Array) -> Array:
    """max(x, 0), with the derivative 0 at 0.

    Args:
      x: [...] float32.

    Returns:
      [...] float32.
    """
    return maximum(x, 0.0)


@jax.custom_jvp
def log_softmax(logits: Array) -> Array:
    """logits - log(sum(exp(logits))), shifted by the largest logit; the sum is over the last axis.

    The derivative is t - sum(softmax(logits) t).

    Args:
      logits: [..., n] float32.

    Returns:
      [..., n] float32, nats.
    """
    shifted = logits - jnp.max(logits, -1, keepdims=True)
    return shifted - jnp.log(jnp.sum(jnp.exp(shifted), -1, keepdims=True))


@log_softmax.defjvp
def _log_softmax_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    y, tangent = log_softmax(primals[0]), tangents[0]
    return y, tangent - jnp.sum(jnp.exp(y) * tangent, -1, keepdims=True)
