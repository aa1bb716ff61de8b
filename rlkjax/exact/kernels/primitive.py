"""A primitive that is a kernel on CPUs, and a program of XLA elsewhere and for export."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir
from jax.sharding import AxisType

LANES = 16  # the most numbers in a vector: 8 of float64, 16 halves; a processor may have fewer


def is_placed(aval: Any) -> bool:
    """Whether a type says where its value lies or varies: XLA checks that, and knows no kernel."""
    spread = getattr(aval, "sharding", None)
    kinds = getattr(getattr(spread, "mesh", None), "axis_types", None) or ()
    return bool(getattr(aval, "vma", ())) or AxisType.Explicit in kinds


def primitive(
    name: str,
    shape: Callable[..., Sequence[int]],
    portable: Callable[..., Any],
    by_kernel: Callable[..., Any],
    batch: Callable[..., Any],
    operands: int,
) -> Primitive:
    """Makes a primitive of one result.

    Args:
      name: of the primitive.
      shape: operands and parameters -> shape of the result, float32.
      portable: the result in operations of XLA; an exported program has these on CPUs too, since
        other versions know no kernel.
      by_kernel: the result by a kernel, with the same bits.
      batch: its rule for `vmap`, of operands of which one at least is mapped.
      operands: how many there are; what follows them are the run-time scalars.

    Returns:
      The primitive.
    """
    made = Primitive(name)

    def on_cpu(ctx: mlir.LoweringRuleContext, *args: Any, **params: Any) -> Sequence[Any]:
        exported = ctx.module_context.lowering_parameters.for_export
        lowered = mlir.lower_fun(portable if exported else by_kernel, multiple_results=False)
        return lowered(ctx, *args, **params)

    def abstract(*args: Any, **params: Any) -> Any:
        return jax.core.ShapedArray(tuple(shape(*args, **params)), np.dtype(np.float32))

    def batch_rule(args: Sequence[Any], axes: Sequence[Any], /, **params: Any) -> tuple[Any, Any]:
        # a mapped condition maps all that its branches see, the scalars too: each row has the same
        scalars = [
            x if axis is None else lax.index_in_dim(x, 0, axis, keepdims=False)
            for x, axis in zip(args[operands:], axes[operands:], strict=True)
        ]
        args, axes = [*args[:operands], *scalars], axes[:operands]
        if all(axis is None for axis in axes):
            return made.bind(*args, **params), None
        return batch(args, axes, **params)

    made.def_abstract_eval(abstract)
    made.def_impl(portable)  # what jax.disable_jit leaves to do one operation after the other
    mlir.register_lowering(made, mlir.lower_fun(portable, multiple_results=False))
    mlir.register_lowering(made, on_cpu, platform="cpu")
    batching.primitive_batchers[made] = batch_rule
    return made
