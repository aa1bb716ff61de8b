"""What of a program is known while it is traced: values that follow from its constants alone.

A compiler must not know the constants of a program, or it would compute with them in its own way.
So they are computed with here, by the reference, whose bits are those of the definition. What has
no operand to begin with, such as `iota`, is left to the compiler, and so is what follows from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from rlkjax.exact.collective import COLLECTIVES
from rlkjax.exact.interpret import ALLOWED, Rule, Table
from rlkjax.exact.kernels.primitive import is_placed
from rlkjax.exact.reference import Reference

LARGEST = 4096  # elements that are computed with here; more would take long, and much room


@dataclass(frozen=True, eq=False)
class Known:
    """A value that no input changes.

    Attributes:
      value: without subnormal numbers; float32, an integer or bool.
    """

    value: NDArray[Any]


def flushed(x: NDArray[Any]) -> NDArray[Any]:
    """A constant without subnormal numbers."""
    return Reference({}).entry(x)


def is_known(value: Any) -> bool:
    """Whether the value of a constant is known: no input of a surrounding program, and small."""
    return not isinstance(value, jax.core.Tracer) and is_small(jax.typeof(value))


def is_small(aval: Any) -> bool:
    """Whether a value of this type may be known."""
    plain = getattr(getattr(aval, "dtype", None), "name", "") in ALLOWED - {"float0"}
    return plain and aval.size <= LARGEST and not is_placed(aval)


def results(
    table: Table, grid: str, rule: Rule, eqn: Any, operands: Sequence[Any]
) -> list[Known] | None:
    """The results of an equation of known operands, by the reference.

    Args:
      table: rules by name of primitive.
      grid: that `dot` uses.
      rule: of the equation.
      eqn: the equation.
      operands: its operands.

    Returns:
      One value for each result; None if they are not known.
    """
    if not operands or rule.kind == "control" or eqn.effects:
        return None
    if eqn.primitive.name in COLLECTIVES:
        return None
    if not all(isinstance(x, Known) for x in operands):
        return None
    if not all(is_small(v.aval) for v in (*eqn.invars, *eqn.outvars)):
        return None
    outs = rule.apply(Reference(table, grid), eqn, [x.value for x in operands])
    return [
        Known(np.asarray(x, v.aval.dtype).reshape(v.aval.shape))
        for x, v in zip(outs, eqn.outvars, strict=True)
    ]
