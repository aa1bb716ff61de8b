"""Which values a compiler would compute again and again.

XLA on CPU puts a value into every loop that uses it, unless its last operation counts as expensive.
A value that is used several times and takes several operations is therefore to be computed once
(`rounding.settled`). `uses` counts the one, `work` the other.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rlkjax.exact import axis_sum, compat, product, roots
from rlkjax.exact.few import few_products, few_terms
from rlkjax.exact.rounding import F32, UNARY

LIMIT = 4
FUNCTION, FEW_TERMS, DIVISION, ROUNDING = 20, 12, 4, 2
MOVES = roots.MOVES | {"concatenate"}
READ_TWICE = frozenset(["reduce_sum", "dot_general", "cumsum", "scatter-add", "scatter_add"])


def uses(jaxpr: Any, of_results: Sequence[int] = ()) -> Mapping[Any, int]:
    """How many loops read each value.

    A sum reads twice, for the largest magnitude and to add, unless a kernel does it. An element
    that meets several others is read for each of them. What only moves a value is no loop: who
    reads the moved one reads it.

    Args:
      jaxpr: open jaxpr.
      of_results: the same of its results; empty: once each.

    Returns:
      variable -> number; a variable that is never read is missing.
    """
    counts: dict[Any, int] = {}
    results = zip(jaxpr.outvars, of_results, strict=True) if of_results else once(jaxpr.outvars)
    for atom, number in results:
        add(counts, atom, number)
    for eqn in reversed(jaxpr.eqns):
        for atom, number in zip(eqn.invars, reads_of(eqn, counts), strict=True):
            add(counts, atom, number)
    return counts


def once(atoms: Sequence[Any]) -> list[tuple[Any, int]]:
    """Each of the variables with one use: what is written to memory is written once."""
    return [(v, 1) for v in dict.fromkeys(a for a in atoms if not hasattr(a, "val"))]


def add(counts: dict[Any, int], atom: Any, number: int) -> None:
    """Adds to the count of a variable; a literal has none."""
    if not hasattr(atom, "val"):
        counts[atom] = counts.get(atom, 0) + number


def reads_of(eqn: Any, counts: Mapping[Any, int]) -> list[int]:
    """How many loops read each operand of an equation on its account."""
    of_results = [counts.get(v, 0) for v in eqn.outvars]
    name = eqn.primitive.name
    if name in compat.CALLS:
        inner, _ = compat.opened(compat.sub_jaxprs(eqn.params)[0])
        below = uses(inner, of_results)
        return [below.get(v, 0) for v in inner.invars]
    size = max((size_of(v) for v in eqn.outvars), default=0)
    if name in MOVES:
        grows = size > sum(map(size_of, eqn.invars))
        return [of_results[0] + grows] * len(eqn.invars)
    if has_kernel(eqn):
        return [1] * len(eqn.invars)
    return [2 if name in READ_TWICE or size_of(a) < size else 1 for a in eqn.invars]


def has_kernel(eqn: Any) -> bool:
    """Whether an equation is a kernel's, which reads its operands once, from memory."""
    shapes = [atom.aval for atom in eqn.invars]
    if not all(getattr(shape, "dtype", None) == F32 for shape in shapes):
        return False
    if eqn.primitive.name == "reduce_sum":
        return axis_sum.has_kernel(shapes[0], eqn.params["axes"])
    if eqn.primitive.name == "dot_general":
        return product.has_kernel(shapes[0], shapes[1], eqn.params["dimension_numbers"])
    return False


def size_of(atom: Any) -> int:
    """Number of elements; 1 for what is no array, such as a token."""
    return getattr(atom.aval, "size", 1)


def work(eqn: Any, below: Sequence[int]) -> int:
    """Operations that a loop repeats for an element of the results of an equation.

    Args:
      eqn: the equation.
      below: the same for each of its distinct operands.
    """
    name = eqn.primitive.name
    if has_kernel(eqn):
        return 0
    if name in MOVES:
        return max(below)
    if name in READ_TWICE:
        return sum(below) + FEW_TERMS if few(eqn) else ROUNDING
    own = FUNCTION if name in UNARY else DIVISION if name in ("div", "sqrt") else 1
    return sum(below) + own


def few(eqn: Any) -> bool:
    """Whether a sum is written out; see few.py."""
    shapes = [atom.aval for atom in eqn.invars]
    if eqn.primitive.name == "reduce_sum":
        return few_terms(shapes[0], eqn.params["axes"])
    if eqn.primitive.name == "dot_general":
        contract, _ = eqn.params["dimension_numbers"]
        return few_products(shapes[0], shapes[1], contract, eqn.outvars[0].aval.size)
    return False
