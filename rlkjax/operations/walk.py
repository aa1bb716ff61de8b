"""Two programs in step: into calls, loops and branches, to the first result whose bits differ."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from rlkjax.operations.levels import Equation, Path, Ref, read
from rlkjax.operations.values import Values

PASSES = 100_000  # of one while loop; a longer one is named as a whole

SelectFn = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


class Side(Protocol):
    """One evaluation of a program, here or in another process; see `program.Program`."""

    def outline(self, path: Path) -> tuple[tuple[Equation, ...], tuple[Ref, ...], Values]:
        """Equations, where results come from, constants."""

    def evaluate(self, path: Path, inputs: Values) -> list[Values]:
        """All results of a level."""


class Found(NamedTuple):
    """The first operation that differs.

    Attributes:
      pair: the equation on each side; they are one unless the programs differ.
      path: loops around it, in words, outermost first.
      operands: values of its operands, which are equal on both sides; those of the first side.
      makers: for each operand the equation that made it and the values of that one's operands.
      results: the first result that differs, on each side; None where the programs differ.
    """

    pair: tuple[Equation, Equation]
    path: tuple[str, ...]
    operands: Values
    makers: tuple[tuple[Equation, Values] | None, ...]
    results: tuple[np.ndarray, np.ndarray] | None


class Pass(NamedTuple):
    """One level evaluated on both sides.

    Attributes:
      found: the first difference in it, or None.
      outs: the results of the level on each side.
    """

    found: Found | None
    outs: tuple[Values, Values]


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays have one dtype, shape and bits.

    Args:
      a: an array.
      b: an array.

    Returns:
      True for equal bits; a NaN equals only its own pattern.
    """
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def whole(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compares values as they are.

    Args:
      a: a value of the first side.
      b: the same value of the second side.

    Returns:
      Both.
    """
    return a, b


class Walk:
    """Evaluates two programs level by level."""

    def __init__(self, a: Side, b: Side, select: SelectFn = whole) -> None:
        """Takes two sides.

        Args:
          a: the first.
          b: the second.
          select: what of two values is compared, such as the rows that both batches have.
        """
        self._sides = a, b
        self._select = select

    def level(self, path: Path, inputs: tuple[Values, Values], words: tuple[str, ...]) -> Pass:
        """Evaluates one level on both sides and goes into the first equation that differs.

        Args:
          path: the level.
          inputs: of each side, without constants.
          words: the loops around it.

        Returns:
          What was found.
        """
        outlines = [side.outline(path) for side in self._sides]
        given = [[*values, *outline[2]] for values, outline in zip(inputs, outlines, strict=True)]
        results = [
            side.evaluate(path, values) for side, values in zip(self._sides, inputs, strict=True)
        ]
        outs = tuple(
            [read(ref, g, r) for ref in outline[1]]
            for outline, g, r in zip(outlines, given, results, strict=True)
        )
        found = None
        for number in range(max(len(outline[0]) for outline in outlines)):
            pair = [outline[0][number : number + 1] for outline in outlines]
            if not pair[0] or not pair[1] or not self._agree(pair[0][0], pair[1][0]):
                found = self._other_program(pair, words, given[0], results[0])
                break
            found = self._equation(number, path, words, given=given, results=results)
            if found is not None:
                break
        return Pass(found, (outs[0], outs[1]))

    def _agree(self, a: Equation, b: Equation) -> bool:
        """Whether two equations are one; of two batch sizes, lengths in parameters may differ."""
        texts = self._select is not whole or a.text == b.text
        return texts and _meaning(a) == _meaning(b)

    def _equation(
        self,
        number: int,
        path: Path,
        words: tuple[str, ...],
        *,
        given: list[Values],
        results: list[list[Values]],
    ) -> Found | None:
        """The difference in one equation, or in its body; None if its results are equal."""
        pairs = zip(*(side[number] for side in results), strict=True)
        unequal = [pair for pair in (self._select(a, b) for a, b in pairs) if not same(*pair)]
        if not unequal:
            return None
        outline = self._sides[0].outline(path)[0]
        equation = outline[number]
        operands = [
            [read(ref, g, r) for ref in equation.operands]
            for g, r in zip(given, results, strict=True)
        ]
        inner = self._inside(equation, (*path, (number, "")), operands, words)
        if inner is not None:
            return inner
        makers = tuple(
            (
                outline[ref.number],
                [read(each, given[0], results[0]) for each in outline[ref.number].operands],
            )
            if ref.kind == "result"
            else None
            for ref in equation.operands
        )
        return Found((equation, equation), words, operands[0], makers, unequal[0])

    def _inside(
        self, equation: Equation, path: Path, operands: list[Values], words: tuple[str, ...]
    ) -> Found | None:
        """The difference inside a loop or branch, if it shows there."""
        number = path[-1][0]
        if equation.primitive == "cond":
            chosen = int(operands[0][0])
            at = (*path[:-1], (number, f"branches:{chosen}"))
            inputs = operands[0][1:], operands[1][1:]
            return self.level(at, inputs, (*words, f"branch {chosen}")).found
        if equation.primitive == "scan":
            return self._scan(equation, path, operands, words)
        return self._while(equation, path, operands, words) if equation.loop else None

    def _scan(
        self, equation: Equation, path: Path, operands: list[Values], words: tuple[str, ...]
    ) -> Found | None:
        length, consts, carries, reverse = equation.loop
        at = (*path[:-1], (path[-1][0], "jaxpr"))
        state = [list(side[: consts + carries]) for side in operands]
        for step in reversed(range(length)) if reverse else range(length):
            inputs = [
                [*held, *(x[step] for x in side[consts + carries :])]
                for held, side in zip(state, operands, strict=True)
            ]
            found, outs = self.level(at, (inputs[0], inputs[1]), (*words, f"scan pass {step}"))
            if found is not None:
                return found
            state = [
                [*held[:consts], *out[:carries]] for held, out in zip(state, outs, strict=True)
            ]
        return None

    def _while(
        self, equation: Equation, path: Path, operands: list[Values], words: tuple[str, ...]
    ) -> Found | None:
        cond_consts, body_consts = equation.loop
        number, start = path[-1][0], sum(equation.loop)
        fixed = [(side[:cond_consts], side[cond_consts:start]) for side in operands]
        carry = [list(side[start:]) for side in operands]
        for step in range(PASSES):
            for part, body in enumerate(("cond_jaxpr", "body_jaxpr")):
                inputs = [[*each[part], *held] for each, held in zip(fixed, carry, strict=True)]
                at = (*path[:-1], (number, body))
                found, outs = self.level(at, (inputs[0], inputs[1]), (*words, f"while pass {step}"))
                if found is not None:
                    return found
                if part == 0 and not np.any(outs[0][0]):
                    return None
                carry = [list(out) for out in outs] if part else carry
        return None

    def _other_program(
        self,
        pair: Sequence[Sequence[Equation]],
        words: tuple[str, ...],
        given: Values,
        results: list[Values],
    ) -> Found:
        """The place where the two programs stop being one."""
        blank = Equation("nothing", "the end of the program", "", (), (), (), ())
        a, b = (each[0] if each else blank for each in pair)
        operands = [read(ref, given, results) for ref in a.operands]
        return Found((a, b), words, operands, (None,) * len(operands), None)


def _meaning(equation: Equation) -> tuple[object, ...]:
    """What an equation does with which values, without the lengths that it does it to."""
    operands = [
        (ref.kind, ref.number, ref.place, None if ref.value is None else ref.value.tobytes())
        for ref in equation.operands
    ]
    return equation.primitive, operands, equation.dtypes, equation.loop
