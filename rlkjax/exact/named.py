"""Operations that a program calls by name, where the default definition does not fit.

They have their plain meaning outside `exact` (and in `native` numerics).
"""

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from rlkjax.exact import compat
from rlkjax.exact.errors import UnsupportedArgumentError

Array = jax.Array
Grid = Literal["output", "contracted"]
Tree = TypeVar("Tree")


def exact_contracted_grid(
    lhs: Array, rhs: Array, dimension_numbers: lax.DotDimensionNumbers
) -> Array:
    """lax.dot_general; the rules know the call by the name of this function."""
    return lax.dot_general(lhs, rhs, dimension_numbers)


CONTRACTED = jax.jit(exact_contracted_grid, static_argnums=2)


def dot(
    lhs: Array,
    rhs: Array,
    dimension_numbers: lax.DotDimensionNumbers = (((1,), (0,)), ((), ())),
    *,
    grid: Grid = "output",
) -> Array:
    """dot_general with a choice of the grid that `exact` rounds the operands to.

    "output": each row of lhs and each column of rhs has the grid of its own largest element.
    "contracted": rhs has one exponent for each contracted index, which is folded into lhs; a term
    whose left factor is zero then changes nothing, whatever finite value its right factor holds.
    For attention, p . V: masked, padded and future positions do not touch the result.

    Args:
      lhs: float32, weights.
      rhs: float32.
      dimension_numbers: as for `lax.dot_general`; the default is the product of two matrices.
      grid: see above.

    Returns:
      float32 of the shape that `lax.dot_general` gives.

    Raises:
      UnsupportedArgumentError: no such grid.

    Sharp edges: a derivative contracts another axis and is on the grid of that one.
    """
    if grid not in ("output", "contracted"):
        raise UnsupportedArgumentError(
            f"argument grid of dot is {grid!r}, want 'output' or 'contracted'; pass one of them"
        )
    if grid == "output":
        return lax.dot_general(lhs, rhs, dimension_numbers)
    return CONTRACTED(lhs, rhs, freeze(dimension_numbers))


def freeze(numbers: lax.DotDimensionNumbers) -> lax.DotDimensionNumbers:
    """Dimension numbers as tuples, so that they can be a static argument."""
    (lhs, rhs), (lhs_batch, rhs_batch) = numbers
    return (tuple(lhs), tuple(rhs)), (tuple(lhs_batch), tuple(rhs_batch))


def accumulate(fn: Callable[[Any], Tree], batches: Any) -> Tree:
    """Sum of what `fn` gives for each microbatch: sum_i fn(batches[i]), one after the other.

    In `exact` a sum or product of matrices that ends `fn` goes on over the microbatches: one grid,
    one rounding, as if they were one batch. So a gradient does not depend on how the batch was cut.
    It takes two passes: the magnitudes, then the sums. Any other result counts as one number a
    microbatch, and these are added on one grid.

    Args:
      fn: one microbatch -> tree of float32 or integer arrays. A mean must divide by the size of the
        whole batch, which is the same for every cut.
      batches: tree of arrays whose first axis counts the microbatches.

    Returns:
      The tree of sums.

    Raises:
      UnsupportedArgumentError: there are no arrays, or they do not agree on the number of
        microbatches, or `fn` returns another dtype.
    """
    check_batches(batches)
    shapes = jax.eval_shape(lambda batches: fn(jax.tree.map(lambda x: x[0], batches)), batches)
    for each in jax.tree.leaves(shapes):
        if not (each.dtype == jnp.float32 or jnp.issubdtype(each.dtype, jnp.integer)):
            raise UnsupportedArgumentError(
                f"argument fn of accumulate returns {each.dtype}, want float32 or integers; "
                "convert it"
            )

    def exact_accumulated(batches: Any) -> Tree:
        def add(sums: Tree, batch: Any) -> tuple[Tree, None]:
            return jax.tree.map(lax.add, sums, fn(batch)), None

        return lax.scan(add, jax.tree.map(zeros, shapes), batches)[0]

    return jax.jit(exact_accumulated)(batches)


def check_batches(batches: Any) -> None:
    """Refuses microbatches that do not agree on their number."""
    found = jax.tree_util.tree_leaves_with_path(batches)
    lengths = {x.shape[0] if getattr(x, "ndim", 0) else 0 for _, x in found}
    if len(lengths) != 1 or 0 in lengths:
        shapes = [
            f"{jax.tree_util.keystr(at)} {getattr(x, 'shape', ())}".strip() for at, x in found
        ]
        raise UnsupportedArgumentError(
            f"argument batches of accumulate at {compat.current_line()} holds "
            f"{', '.join(shapes) or 'no array'}, want arrays whose first axes count the "
            "microbatches, one number, at least 1; reshape them to (microbatches, size, ...)"
        )


def zeros(shape: Any) -> Array:
    """Zeros like a shape record; inside `shard_map` they differ between devices if it says so."""
    array = jnp.zeros(shape.shape, shape.dtype)
    varying = compat.varying(shape)
    return lax.pcast(array, varying, to="varying") if varying else array


@jax.custom_jvp
def tanh(x: Array) -> Array:
    """Hyperbolic tangent whose derivative is written out as g (1 - t^2), t = tanh x.

    JAX 0.10 writes (g + g t)(1 - t) and 0.12 writes g (1 - t^2): other bits. A program that must
    keep its bits over versions takes this one.

    Args:
      x: float32, any shape.

    Returns:
      float32 of the same shape.
    """
    return lax.tanh(x)


@tanh.defjvp
def tanh_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """Value and derivative of `tanh`."""
    t = tanh(primals[0])
    return t, tangents[0] * (1.0 - t * t)
