"""The only file that knows how jaxprs differ between the supported versions of JAX.

0.10 has closed and open jaxprs and counts of constants and carries on `scan`; 0.12 has merged the
two kinds and keeps records of trees instead of counts.
"""

import contextlib
import functools
import inspect
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
from jax._src import source_info_util
from jax.extend.core import set_current_trace, take_current_trace

Array = jax.Array
THREEFRY = "key<fry>"
UNKNOWN = "an unknown line"
# primitives whose body, the first jaxpr among their parameters, is evaluated in place
CALLS = frozenset(
    [
        "jit",
        "pjit",
        "closed_call",
        "core_call",
        "eval_jaxpr",
        "remat2",
        "checkpoint",
        "remat",
        "custom_jvp_call",
        "custom_vjp_call",
        "custom_vjp_call_jaxpr",
        "custom_vmap_call",
    ]
)
# kinds of error that JAX raises where Python asks for the value of a traced array
NEEDS_VALUE = (jax.errors.JAXTypeError, jax.errors.JAXIndexError, TypeError, ValueError)

# the line that a message names shall be the user's
source_info_util.register_exclusion(str(Path(__file__).parent))


def in_trace_of(x: Any) -> contextlib.AbstractContextManager[Any]:
    """Where operations are added to the trace of x; none is there under `jax.disable_jit`."""
    traced = isinstance(x, jax.core.Tracer)
    return set_current_trace(x._trace) if traced else contextlib.nullcontext()


def is_outside(x: Any) -> bool:
    """Whether x was made outside of the body that is being traced: before a loop, a branch."""
    with take_current_trace() as here:
        return isinstance(x, jax.core.Tracer) and x._trace is not here


def traced(fn: Callable[..., Any], args: Sequence[Any]) -> tuple[Any, list[Any], Any]:
    """Traces `fn` with 64-bit types off.

    Args:
      fn: function of arrays.
      args: arrays or shape records, positional.

    Returns:
      (open jaxpr, its constants, tree of shape records that `fn` returns).
    """
    with jax.enable_x64(False):
        closed, out_shape = jax.make_jaxpr(fn, return_shape=True)(*args)
    jaxpr, consts = opened(closed)
    return jaxpr, list(consts), out_shape


def opened(jaxpr: Any) -> tuple[Any, Sequence[Any]]:
    """Splits any kind of jaxpr into an open one and the values of its constants.

    Args:
      jaxpr: a jaxpr out of `make_jaxpr` or out of the parameters of an equation.

    Returns:
      (object with `invars`, `constvars`, `eqns`, `outvars`; constants).
    """
    consts = getattr(jaxpr, "consts", ())
    return getattr(jaxpr, "jaxpr", jaxpr), consts


def scan_counts(params: dict[str, Any], num_args: int) -> tuple[int, int]:
    """Number of constants and of carries among the operands of a `scan` equation.

    Args:
      params: the equation's parameters.
      num_args: how many operands it has.

    Returns:
      (constants, carries); the rest is scanned over.
    """
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].update(list(range(num_args))).unpack()
    return len(list(consts)), len(list(carry))


def as_function(jaxpr: Any, consts: Sequence[Any] = ()) -> Callable[..., list[Any]]:
    """A jaxpr as a function of its inputs.

    Args:
      jaxpr: open or closed.
      consts: values of its constants, if it is open.

    Returns:
      inputs -> list of outputs.
    """
    inner, own = opened(jaxpr)
    return lambda *args: jax.core.eval_jaxpr(inner, list(own or consts), *args)


def replaces(params: Mapping[str, Any]) -> bool:
    """Whether a `scatter` equation replaces cells by updates; if not, it applies a function."""
    jaxpr = params["update_jaxpr"]
    if jaxpr is None:
        return True
    inner, _ = opened(jaxpr)
    return not inner.eqns and list(inner.outvars) == list(inner.invars[1:])


def hi_function(params: Mapping[str, Any]) -> Callable[..., list[Any]]:
    """What a `call_hi_primitive` equation of JAX 0.12 stands for.

    Args:
      params: the equation's parameters.

    Returns:
      A function of its operands in other primitives.
    """
    prim = params["_prim"]

    def expanded(*args: Any) -> list[Any]:
        return jax.tree.leaves(prim.expand(*jax.tree.unflatten(prim.in_tree, args)))

    return expanded


def source_line(eqn: Any) -> str:
    """Where the user wrote an equation.

    Args:
      eqn: an equation of a jaxpr.

    Returns:
      "file:line:column (function)", or "an unknown line".
    """
    where = source_info_util.summarize(eqn.source_info)
    return where if where and where != "unknown" else UNKNOWN


def current_line() -> str:
    """Where the user's code stands now: "file:line (function)", or "an unknown line"."""
    return innermost(traceback.extract_stack()) or UNKNOWN


def innermost(frames: Sequence[traceback.FrameSummary]) -> str:
    """The last of the frames that are the user's own, or an empty text."""
    own = [f for f in frames if source_info_util.is_user_filename(f.filename)]
    return f"{own[-1].filename}:{own[-1].lineno} ({own[-1].name})" if own else ""


def defined_at(fn: Callable[..., Any]) -> str:
    """A function's name, with the file and line of its definition where it has them."""
    inner: Any = inspect.unwrap(fn.func if isinstance(fn, functools.partial) else fn)
    code = getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
    name = getattr(inner, "__name__", type(inner).__name__)
    return f"function {name} ({code.co_filename}:{code.co_firstlineno})" if code else name


def about_values(error: Exception) -> bool:
    """Whether an error of JAX is about a value that a trace does not have."""
    return isinstance(error, jax.errors.JAXTypeError | jax.errors.JAXIndexError) or (
        "concrete value" in str(error) or "Non-hashable static arguments" in str(error)
    )


def raised_at(error: BaseException, fn: Callable[..., Any]) -> str:
    """The innermost line of the user's own code that an error came through."""
    frames = traceback.extract_tb(error.__traceback__)
    return innermost(frames) or f"an unknown line of {defined_at(fn)}"


def varying(shape: Any) -> tuple[str, ...]:
    """Device axes along which a value differs inside `shard_map`, as its shape record has it."""
    kind = getattr(shape, "manual_axis_type", None)
    return tuple(sorted(getattr(kind, "varying", None) or getattr(shape, "vma", None) or ()))


def is_key(aval: Any) -> bool:
    """Whether a value is an array of typed random keys."""
    return jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key)


def sub_jaxprs(params: dict[str, Any]) -> list[Any]:
    """The jaxprs among the parameters of an equation, in order.

    Args:
      params: the equation's parameters.

    Returns:
      Open or closed jaxprs.
    """
    found = []
    for value in params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            if hasattr(item, "jaxpr") or hasattr(item, "eqns"):
                found.append(item)
    return found
