"""What the values of an operation show about why its two results differ.

A class is given only where the numbers prove it: a contraction where one side is the product and
sum rounded once and the other the two rounded apart; a lower precision where the sides are further
apart than any order of float32 additions can put them.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from rlkjax.certificates import CAUSES, LIBRARY, ORDER
from rlkjax.exact.interpret import Kind
from rlkjax.exact.rules.table import TABLE
from rlkjax.operations.levels import Equation
from rlkjax.operations.values import Values
from rlkjax.operations.walk import Found

EPSILON = 2.0**-24  # half a unit in the last place of 1.0: the error of one float32 rounding
LOW = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
DEFINED: tuple[Kind, ...] = ("defined", "composed")


def cause(found: Found, index: tuple[int, ...]) -> str:
    """The class of cause that an operation shows by itself.

    Args:
      found: the operation.
      index: of the element that differs in its result.

    Returns:
      One of `audit.difference.CAUSES`; "unknown" where the values prove none.
    """
    a, b = found.pair
    if found.results is None:
        low = {*a.dtypes, *b.dtypes} & set(LOW) or _precision(a) != _precision(b)
        return "precision" if low else "policy graph"
    if set(a.dtypes) & set(LOW):
        return "precision"
    kind = CAUSES.get(a.primitive, LIBRARY)
    if kind == ORDER:
        return "precision" if _too_far(found, index) else "reduction order"
    if a.primitive in ("add", "sub", "add_any") and _is_contraction(found, index):
        return "contraction"
    rounds = a.primitive in TABLE and TABLE[a.primitive].kind in DEFINED
    return "library function" if kind == LIBRARY and rounds and _is_float(found) else "unknown"


def _is_float(found: Found) -> bool:
    return found.results is not None and found.results[0].dtype.kind == "f"


def _precision(equation: Equation) -> str:
    """The precision that an equation asks for, in its own words."""
    words = equation.text.split(" ")
    return " ".join(word for word in words if word.startswith(("precision", "preferred")))


def _too_far(found: Found, index: tuple[int, ...]) -> bool:
    """Whether two sums are further apart than float32 additions in any order can put them.

    |error of a sum of n products| <= n u / (1 - n u) * sum |x y|, u = 2^-24, for each of the two.

    Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 3.1.
    """
    terms = _terms(found, index)
    if terms is None or found.results is None:
        return False
    a, b = (float(each[index]) for each in found.results)
    n = terms.size + 1
    bound = n * EPSILON / (1 - n * EPSILON) * float(np.sum(np.abs(terms)))
    return bool(np.isfinite(a) and np.isfinite(b) and abs(a - b) > 2 * bound)


def _terms(found: Found, index: tuple[int, ...]) -> np.ndarray | None:
    """The terms of one element of a sum or product, in float64; None for other operations."""
    equation, operands = found.pair[0], found.operands
    if not equation.axes or found.results is None:
        return None
    if equation.primitive == "reduce_sum":
        kept = [axis for axis in range(operands[0].ndim) if axis not in equation.axes]
        moved = np.moveaxis(operands[0], kept, range(len(kept)))
        return moved[index].astype(np.float64).reshape(-1)
    if equation.primitive != "dot_general":
        return None
    (contract, batch), (lhs, rhs) = equation.axes, operands
    count = len(batch[0])
    free = lhs.ndim - len(contract[0]) - count
    left = _row(lhs, (*batch[0],), contract[0], index[: count + free])
    right = _row(rhs, (*batch[1],), contract[1], (*index[:count], *index[count + free :]))
    return left * right


def _row(
    array: np.ndarray, batch: Sequence[int], contract: Sequence[int], index: tuple[int, ...]
) -> np.ndarray:
    """The elements of one operand that go into one element of a product, float64."""
    free = [axis for axis in range(array.ndim) if axis not in batch and axis not in contract]
    return np.transpose(array, (*batch, *free, *contract))[index].astype(np.float64).reshape(-1)


def _is_contraction(found: Found, index: tuple[int, ...]) -> bool:
    """Whether one side is p q + c rounded once, and the other has p q rounded before."""
    if found.results is None or found.results[0].dtype != np.float32:
        return False
    got = {_word(each[index]) for each in found.results}
    for place, maker in enumerate(found.makers):
        factors = _factors(maker, index)
        if factors is None:
            continue
        p, q = factors
        c = _at(found.operands[1 - place], index)
        sign_c = -1 if found.pair[0].primitive == "sub" and place == 0 else 1
        sign_pq = -1 if found.pair[0].primitive == "sub" and place == 1 else 1
        if not all(np.isfinite(each) for each in (p, q, c)):
            continue
        product = Fraction(float(p)) * Fraction(float(q))
        rounded = Fraction(float(_nearest(product)))
        apart = _nearest(sign_pq * rounded + sign_c * Fraction(float(c)))
        once = _nearest(sign_pq * product + sign_c * Fraction(float(c)))
        if _word(apart) != _word(once) and got == {_word(apart), _word(once)}:
            return True
    return False


def _factors(
    maker: tuple[Equation, Values] | None, index: tuple[int, ...]
) -> tuple[np.float32, np.float32] | None:
    """The two factors of an operand that is a product; None for any other."""
    if maker is None:
        return None
    equation, values = maker
    if equation.primitive == "mul":
        return _at(values[0], index), _at(values[1], index)
    if equation.primitive == "square":
        return _at(values[0], index), _at(values[0], index)
    return None


def _at(array: np.ndarray, index: tuple[int, ...]) -> np.float32:
    return np.float32(array[index] if array.ndim else array[()])


def _word(value: np.float32) -> int:
    return int(np.float32(value).view(np.uint32))


def _nearest(exact: Fraction) -> np.float32:
    """The float32 nearest to a fraction, ties to even."""
    guess = np.float32(float(exact))
    around = [np.nextafter(guess, np.float32(side)) for side in (-np.inf, np.inf)]
    near = [each for each in (*around, guess) if np.isfinite(each)]
    return min(near, key=lambda x: (abs(Fraction(float(x)) - exact), _word(x) & 1))
