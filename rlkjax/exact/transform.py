"""exact(fn): the same function, with one mathematically defined result for every operation."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax

from rlkjax.exact import compat
from rlkjax.exact.arguments import (
    called_here,
    check_arguments,
    check_function,
    program_of,
    refuse_nesting,
    refuse_varying,
)
from rlkjax.exact.constants import Constants
from rlkjax.exact.errors import UnsupportedDerivativeError
from rlkjax.exact.interpret import run
from rlkjax.exact.known import is_known
from rlkjax.exact.lower import Lowering, opaque_scalars
from rlkjax.exact.rules.table import TABLE
from rlkjax.exact.settings import refuse_fast_math

Array = jax.Array
Fn = TypeVar("Fn", bound=Callable[..., Any])


def exact(fn: Fn, *, kept: Sequence[str] = ()) -> Fn:
    """Transforms `fn` so that its bits depend on its inputs alone: `y = exact(f)(x)`.

    To be applied outermost, after `grad` and `vmap`. The result can be jitted, scanned, mapped,
    sharded and exported, but not differentiated: `exact(jax.grad(f))` is the derivative, and
    not nested.

    Args:
      fn: function of trees of float32, integer (up to 32 bits), bool and typed-key arrays.
      kept: names of jitted functions inside `fn` that stay functions of the lowered program, so
        that their graphs can be found in it. The others are inlined; the bits are the same.

    Returns:
      A function of the same signature; its results are arrays.

    Raises:
      UnsupportedPrimitiveError: on the first call, a primitive has no rule.
      UnsupportedDtypeError: on the first call, a dtype has no definition.
      UnsupportedArgumentError: `fn` is no function; on the first call, an argument or a result is
        no array.
      UnsupportedControlFlowError: on the first call, Python needs the value of an array.
      UnsupportedDerivativeError: the result is differentiated.
      UnsupportedSettingError: XLA_FLAGS asks for fast math, or JAX for another layout of random
        numbers.

    Sharp edges: subnormal inputs count as zeros and every NaN comes out as 0x7fc00000.
    """

    check_function(fn, "exact")

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        refuse_nesting(fn)
        refuse_fast_math()
        leaves, tree = jax.tree.flatten((args, kwargs))
        check_arguments((args, kwargs))
        with called_here():
            return compiled(fn, tree, frozenset(kept))(leaves)

    return wrapped  # type: ignore[return-value]


@functools.lru_cache(maxsize=1024)
def compiled(fn: Callable[..., Any], tree: Any, kept: frozenset[str]) -> Callable[[list[Any]], Any]:
    """The jitted exact program of `fn` for one structure of arguments."""

    def call(leaves: list[Array]) -> Any:
        jaxpr, consts, out_shape = program_of(fn, tree, leaves)
        with refuse_varying(fn):
            outs = emit(jaxpr, consts, leaves, kept)
        return jax.tree.unflatten(jax.tree.structure(out_shape), outs)

    call.__name__ = call.__qualname__ = f"exact_{getattr(fn, '__name__', 'fn')}"
    guarded = jax.custom_jvp(jax.jit(call))
    guarded.defjvp(functools.partial(refuse_derivative, fn))
    return guarded


def refuse_derivative(fn: Callable[..., Any], primals: Any, tangents: Any) -> Any:
    """Exact arithmetic works on bits, whose derivative would silently be zero."""
    raise UnsupportedDerivativeError(
        f"exact({compat.defined_at(fn)}) is differentiated, want exact outermost: "
        "exact(jax.grad(f)) instead of jax.grad(exact(f))"
    )


def emit(
    jaxpr: Any, consts: Sequence[Any], leaves: Sequence[Any], kept: frozenset[str]
) -> list[Array]:
    """Re-emits a jaxpr by the rules, with 64-bit types on inside.

    Args:
      jaxpr: open jaxpr.
      consts: values of its constants.
      leaves: values of its inputs.
      kept: names of functions that are not inlined.

    Returns:
      Values of its outputs.
    """

    def program(consts: list[Any], leaves: list[Array]) -> list[Array]:
        opaque = opaque_scalars()
        ops = Lowering(opaque, Constants(opaque.nothing), TABLE, kept)
        closed = [
            ops.constant(known if x is None else x) for known, x in zip(small, consts, strict=True)
        ]
        return [ops.exit(x) for x in run(ops, jaxpr, [ops.entry(v) for v in leaves], closed)]

    small = [c if is_known(c) else None for c in consts]
    others = [None if is_known(c) else c for c in consts]  # inputs: no literals of the program
    with jax.enable_x64(True):
        return jax.jit(program)(others, list(leaves))
