"""A primitive that is a kernel on CPUs, and a program of XLA elsewhere and for export."""

from collections.abc import Callable, Sequence
from typing import Any

from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

LANES = 8  # the most numbers in a vector; a processor may have fewer


def primitive(
    name: str,
    shape: Callable[..., Any],
    portable: Callable[..., Any],
    by_kernel: Callable[..., Any],
    batch: Callable[..., Any],
) -> Primitive:
    """Makes a primitive of one result.

    Args:
      name: of the primitive.
      shape: the abstract result.
      portable: the result in operations of XLA; an exported program has these on CPUs too, since
        other versions know no kernel.
      by_kernel: the result by a kernel, with the same bits.
      batch: its rule for `vmap`.

    Returns:
      The primitive.
    """
    made = Primitive(name)

    def on_cpu(ctx: mlir.LoweringRuleContext, *args: Any, **params: Any) -> Sequence[Any]:
        exported = ctx.module_context.lowering_parameters.for_export
        lowered = mlir.lower_fun(portable if exported else by_kernel, multiple_results=False)
        return lowered(ctx, *args, **params)

    made.def_abstract_eval(shape)
    mlir.register_lowering(made, mlir.lower_fun(portable, multiple_results=False))
    mlir.register_lowering(made, on_cpu, platform="cpu")
    batching.primitive_batchers[made] = batch
    return made
