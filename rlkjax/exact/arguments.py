"""What a function handed to `exact` must be, take and return; refusals name the user's line."""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import jax

from rlkjax.exact import compat
from rlkjax.exact.errors import (
    ExactError,
    UnsupportedArgumentError,
    UnsupportedControlFlowError,
    UnsupportedDtypeError,
)
from rlkjax.exact.interpret import ALLOWED, refuse_dtype

# Whether a program is being traced for exact or its reference.
TRACING: ContextVar[bool] = ContextVar("tracing", default=False)
WIDE = "Explicitly requested dtype (float64|complex128)"


def refuse_nesting(fn: Callable[..., Any]) -> None:
    """Refuses an exact function inside another."""
    if TRACING.get():
        raise UnsupportedArgumentError(
            f"exact({compat.defined_at(fn)}) is called inside another exact function at "
            f"{compat.current_line()}, want exact once, outermost; call the plain function there"
        )


@contextlib.contextmanager
def refuse_varying(fn: Callable[..., Any]) -> Iterator[None]:
    """What JAX says about device axes inside a checked `shard_map`, with the way out."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if "manual ax" not in str(error):
            raise
        raise UnsupportedArgumentError(
            f"exact({compat.defined_at(fn)}) is called inside a checked shard_map at "
            f"{compat.current_line()}, want exact around it: exact(jax.shard_map(f, ...)); or "
            "shard_map with check_vma=False"
        ) from error


def check_function(fn: Any, transform: str) -> None:
    """Refuses what cannot be called, or cannot be told from other functions."""
    if not callable(fn):
        raise UnsupportedArgumentError(
            f"argument fn of {transform} is {type(fn).__name__} at {compat.current_line()}, "
            "want a function of arrays; pass the function itself"
        )
    if getattr(fn, "__hash__", None) is None:
        raise UnsupportedArgumentError(
            f"argument fn of {transform} is a {type(fn).__name__} without a hash at "
            f"{compat.current_line()}, want a function; pass its method, {transform}(fn.__call__)"
        )


def check_arguments(args: Any) -> None:
    """Refuses arguments that are no arrays or hold a dtype without a definition.

    Args:
      args: (positional arguments, keyword arguments).

    Raises:
      UnsupportedArgumentError: a leaf is no array and no number.
      UnsupportedDtypeError: an array holds another dtype.
    """
    for path, value in jax.tree_util.tree_leaves_with_path(args):
        dtype = getattr(value, "dtype", None)
        if isinstance(value, bool | int | float) or (dtype is not None and dtype.name in ALLOWED):
            continue
        (kind, name), inside = path[:2], jax.tree_util.keystr(path[2:])
        own = name.key if kind.idx else name.idx
        where = f"argument {own}{inside} of the call at {compat.current_line()}"
        if dtype is None:
            raise UnsupportedArgumentError(
                f"{where} is {type(value).__name__}, want an array; bind it with "
                "functools.partial before calling exact"
            )
        refuse_dtype(dtype.name, where)


@contextlib.contextmanager
def called_here() -> Iterator[None]:
    """Gives refusals that know no line the line of the call."""
    try:
        yield
    except ExactError as error:
        if compat.UNKNOWN not in str(error):
            raise
        text = str(error).replace(compat.UNKNOWN, compat.current_line())
        raise type(error)(text) from error.__cause__


def check_results(fn: Callable[..., Any], out_shape: Any) -> None:
    """Refuses results with a dtype without a definition."""
    for path, value in jax.tree_util.tree_leaves_with_path(out_shape):
        name = jax.tree_util.keystr(path) or 0
        refuse_dtype(value.dtype.name, f"result {name} of {compat.defined_at(fn)}")


def program_of(fn: Callable[..., Any], tree: Any, leaves: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Traces a user's function.

    Args:
      fn: the function.
      tree: structure of its (positional arguments, keyword arguments).
      leaves: their leaves, arrays or shape records.

    Returns:
      (open jaxpr, its constants, tree of shape records that `fn` returns).

    Raises:
      UnsupportedArgumentError: a result is no array.
      UnsupportedControlFlowError: Python needs the value of an array.
      UnsupportedDtypeError: a result, or a number on the way, is asked to be float64.
    """

    def checked(*leaves: Any) -> Any:
        args, kwargs = jax.tree.unflatten(tree, leaves)
        results = fn(*args, **kwargs)
        refuse_objects(fn, results)
        return results

    within = TRACING.set(True)
    try:
        with refusals(fn):
            jaxpr, consts, out_shape = compat.traced(checked, leaves)
    finally:
        TRACING.reset(within)
    check_results(fn, out_shape)
    return jaxpr, consts, out_shape


def refuse_objects(fn: Callable[..., Any], results: Any) -> None:
    """Refuses results that are neither arrays nor numbers."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(results):
        if not isinstance(leaf, bool | int | float) and not hasattr(leaf, "dtype"):
            raise UnsupportedArgumentError(
                f"{compat.defined_at(fn)} returns {type(leaf).__name__} as result "
                f"{jax.tree_util.keystr(path) or 0}, want arrays; return it outside of exact"
            )


@contextlib.contextmanager
def refusals(fn: Callable[..., Any]) -> Iterator[None]:
    """What JAX says about traced values and float64, in one sentence with the user's line."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=WIDE)
        try:
            yield
        except compat.NEEDS_VALUE as error:
            if isinstance(error, TypeError | IndexError | ValueError) and not compat.about_values(
                error
            ):
                raise
            raise UnsupportedControlFlowError(
                f"Python needs the value of a traced array at {compat.raised_at(error, fn)}: the "
                "program of an exact function is traced once, without values; use jnp.where, "
                "lax.cond, lax.while_loop or a static shape there, or functools.partial"
            ) from error
        except UserWarning as error:
            if "Explicitly requested dtype" not in str(error):
                raise
            raise UnsupportedDtypeError(
                f"float64 is asked for at {compat.raised_at(error, fn)}: exact defines float32 "
                "results only; take jnp.float32 there"
            ) from error
