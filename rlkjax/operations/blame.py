"""first_differing_operation: the first operation of two evaluations whose bits differ."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import numpy as np

from rlkjax.audit.difference import Operation
from rlkjax.errors import InputError
from rlkjax.exact.reference import reference
from rlkjax.exact.transform import exact
from rlkjax.operations import mechanism
from rlkjax.operations.levels import Ref
from rlkjax.operations.program import Program, Transform
from rlkjax.operations.values import Values, to_host
from rlkjax.operations.walk import Found, Side, Walk, same, whole

Mode = Literal["plain", "fused", "exact", "reference"]
WHOLE = ("plain", "exact", "reference")  # one result, whatever else is computed beside it
SHOWN = 6  # elements of an operand that are printed


def _plain(fn: Callable[..., Any]) -> Callable[..., Any]:
    return fn


MODES: dict[str, Transform] = {
    "plain": _plain,
    "fused": jax.jit,
    "exact": exact,
    "reference": reference,
}


def first_differing_operation(
    fn_a: Callable[..., Any],
    fn_b: Callable[..., Any],
    *args: Any,
    modes: tuple[Mode | Transform, Mode | Transform] = ("plain", "plain"),
    args_b: Sequence[Any] | None = None,
    rows: Sequence[int] | None = None,
) -> Operation | None:
    """The first operation whose results differ in bits, though its operands are equal.

    Two functions are compared, or one function under two modes:

        first_differing_operation(f, g, x)
        first_differing_operation(f, f, x, modes=("plain", "fused"))
        first_differing_operation(f, f, x, args_b=(x[3:4],), rows=[3])

    Both are traced; calls are inlined, and loops and branches are entered pass by pass, as far as a
    difference shows inside.

    Args:
      fn_a: function of trees of arrays.
      fn_b: the other function.
      *args: its arguments, for both.
      modes: how each is computed: "plain", one operation after the other; "fused", each body of a
        loop as one compiled program; "exact", by definition; "reference", the same in NumPy; or a
        transformation of functions, such as `functools.partial(jax.jit, backend="gpu")`.
      args_b: the arguments of `fn_b`, where they are of another batch size.
      rows: with `args_b`: the indices in the first batch of the rows that the second one holds.
        Where two values differ in length along an axis, these rows of the first are compared.

    Returns:
      The operation with the user's source line, its operands, and both bit patterns; None where all
      results are equal. Where the programs stop being one program before that, the operation is the
      first that is not on both sides.

    Raises:
      InputError: an unknown mode, or results that cannot be compared.

    Sharp edges: a value that mixes rows, such as a mean over the batch, differs between batch sizes
    by right. What a compiler fuses depends on what leaves its program: a difference inside a loop
    may show at the loop as a whole only.
    """
    given = args, args if args_b is None else tuple(args_b)
    leaves = tuple([to_host(leaf) for leaf in jax.tree.leaves(each)] for each in given)
    # What leaves a compiled program is stored, and what is stored may not be fused: where nothing
    # shows with all intermediate values, each operation is looked at by itself.
    for apart in (False, True):
        sides = [
            Program(fn, each, _transform(mode), apart=apart and mode not in WHOLE)
            for fn, each, mode in zip((fn_a, fn_b), given, modes, strict=True)
        ]
        found = walk(sides[0], sides[1], (leaves[0], leaves[1]), rows)
        if found is not None or all(mode in WHOLE for mode in modes):
            break
    return None if found is None else describe(found)


def _transform(mode: Mode | Transform) -> Transform:
    if callable(mode):
        return mode
    if mode not in MODES:
        raise InputError(
            f"modes: got {mode!r}, want one of {', '.join(MODES)}, or a transformation of "
            "functions; name one of them"
        )
    return MODES[mode]


def walk(
    a: Side, b: Side, inputs: tuple[Values, Values], rows: Sequence[int] | None = None
) -> Found | None:
    """The first operation that differs between two sides.

    Args:
      a: the first side.
      b: the second side.
      inputs: of each side.
      rows: as for `first_differing_operation`.

    Returns:
      The operation; None where all results of the programs are equal.

    Raises:
      InputError: results of shapes that cannot be compared.
    """
    select = whole if rows is None else _select_rows(rows)
    found, outs = Walk(a, b, select).level((), inputs, ())
    pairs = [select(*pair) for pair in zip(*outs, strict=False)]
    if len(outs[0]) == len(outs[1]) and all(same(*pair) for pair in pairs):
        return None
    return found


def _select_rows(rows: Sequence[int]) -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    wanted = list(rows)

    def select(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        odd = [axis for axis in range(min(a.ndim, b.ndim)) if a.shape[axis] != b.shape[axis]]
        fits = a.ndim == b.ndim and all(b.shape[axis] == len(wanted) for axis in odd)
        if not fits:
            raise InputError(
                f"rows: got values of shapes {a.shape} and {b.shape}, want shapes that differ in "
                f"batches of which {len(wanted)} rows are compared; give args_b those rows"
            )
        for axis in odd:
            a = np.take(a, wanted, axis)
        return a, b

    return select


def describe(found: Found) -> Operation:
    """What was found, as the record that is printed.

    Args:
      found: the operation.

    Returns:
      The record.
    """
    a, b = found.pair
    if found.results is None:
        both = a.primitive == b.primitive
        return Operation(
            primitive=a.primitive if both else f"{a.primitive} in A, {b.primitive} in B",
            line=a.line if a.line == b.line else f"{a.line} in A, {b.line} in B",
            path=found.path,
            operands=tuple(map(_either, a.operands, b.operands, found.operands))
            if both
            else tuple(map(shown, found.operands)),
            cause=mechanism.cause(found, ()),
        )
    words = [each.view(f"u{each.dtype.itemsize}") for each in map(_contiguous, found.results)]
    index = tuple(int(i) for i in np.unravel_index(np.argmax(words[0] != words[1]), words[0].shape))
    digits = 2 * words[0].dtype.itemsize
    bits = [f"{int(each[index]):0{digits}x}" for each in words]
    return Operation(
        primitive=a.primitive,
        line=a.line,
        path=found.path,
        dtype=found.results[0].dtype.name,
        element=index,
        a_bits=bits[0],
        b_bits=bits[1],
        operands=tuple(map(shown, found.operands)),
        cause=mechanism.cause(found, index),
    )


def _either(a: Ref, b: Ref, value: np.ndarray) -> str:
    """An operand of an operation that the two programs call with other things."""
    if a.value is not None and b.value is not None and not same(a.value, b.value):
        return f"the constant {a.value} in A, {b.value} in B"
    return shown(value)


def _contiguous(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(array.shape)


def shown(value: np.ndarray) -> str:
    """An operand in words: dtype, shape, and its first elements.

    Args:
      value: the operand.

    Returns:
      Text such as "float32[2, 3]: 0.5, 1.0, 2.0, ...".
    """
    flat = value.reshape(-1)[:SHOWN]
    more = ", ..." if value.size > SHOWN else ""
    return f"{value.dtype.name}{list(value.shape)}: {', '.join(map(str, flat))}{more}"
