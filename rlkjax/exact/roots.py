"""Which sums a value is made of: through moves, signs, factors, additions and calls.

A value that is to be added over device axes, or over microbatches, may be made of sums that have
not been rounded yet, if each is used once. Then they can go on over those axes instead; joins.py.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlkjax.exact import compat
from rlkjax.exact.microbatches import AXIS, accumulation, is_zero, makers

GRID_MARK = "exact_contracted_grid"  # in the name of a call: its dot has another grid
PSUMS = frozenset(["psum", "psum_invariant"])
SUMS = frozenset(["reduce_sum", "dot_general", "conv_general_dilated"])
SCATTERS = frozenset(["scatter-add", "scatter_add"])
MOVES = frozenset(
    ["transpose", "reshape", "squeeze", "expand_dims", "broadcast_in_dim", "copy", "rev", "name"]
    + ["slice"]
)
SCALES = frozenset(["neg", "mul", "div"])
SPREADS = frozenset(["broadcast_in_dim", "pvary", "convert_element_type"])
ADDS = frozenset(["add", "add_any", "sub", "concatenate"])

Place = tuple[int, int]


class Uses:
    """Who makes and who uses the variables of an open jaxpr."""

    def __init__(self, jaxpr: Any, shared: Sequence[bool] = ()) -> None:
        """Counts.

        Args:
          jaxpr: open jaxpr.
          shared: whether an input is the same in all microbatches; empty: nothing is known.
        """
        atoms = [v for eqn in jaxpr.eqns for v in eqn.invars] + list(jaxpr.outvars)
        self.eqns = jaxpr.eqns
        self.made = makers(jaxpr)
        self.counts = Counter(v for v in atoms if not hasattr(v, "val"))
        self.maker = {
            v: (number, index)
            for number, eqn in enumerate(jaxpr.eqns)
            for index, v in enumerate(eqn.outvars)
        }
        self.shared = {v for v, same in zip(jaxpr.invars, shared, strict=bool(shared)) if same}
        for eqn in jaxpr.eqns if shared else ():
            if all(self.is_shared(v) for v in eqn.invars):
                self.shared.update(eqn.outvars)

    def is_shared(self, atom: Any) -> bool:
        """Whether a value is the same in all microbatches."""
        return hasattr(atom, "val") or atom in self.shared

    def roots(self, atom: Any, axes: Sequence[str] = ()) -> tuple[Place, ...]:
        """The sums that a value is made of, through moves and additions of values used once.

        Args:
          atom: the value, which is to be added over device axes.
          axes: their names; a psum over others on the way is part of the same sum.

        Returns:
          Where they are: (equation, its result), each a float32 sum, or a call whose result is made
          of such sums. Empty if anything else is in the value.
        """
        used_once = not hasattr(atom, "val") and atom in self.maker and self.counts[atom] == 1
        if not used_once or atom.aval.dtype != np.float32:
            return ()
        number, index = self.maker[atom]
        eqn = self.eqns[number]
        if eqn.primitive.name in ADDS:
            terms = [self.roots(v, axes) for v in eqn.invars if not is_zero(v, self.made)]
            return sum(terms, ()) if all(terms) else ()
        before = self.source(eqn, index, axes)
        inner = () if before is None else self.roots(before, axes)
        own = self.adds(eqn) or self.sums_inside(eqn, index, axes)
        return inner or (((number, index),) if own else ())

    def adds(self, eqn: Any) -> bool:
        """Whether an equation is a sum; a scatter-add is one of its updates if it starts at 0."""
        name = eqn.primitive.name
        return name in SUMS or (name in SCATTERS and is_zero(eqn.invars[0], self.made))

    def source(self, eqn: Any, index: int, axes: Sequence[str]) -> Any:
        """The operand whose sum over device axes becomes that of a result by the same equation.

        Args:
          eqn: an equation.
          index: number of the result.
          axes: names of the device axes.

        Returns:
          The operand, if the equation moves it, negates it, scales it by what is the same along the
          axes, sums it once more along the same axes, or adds it over other device axes; else
          None.
        """
        name, operands = eqn.primitive.name, eqn.invars
        if over_devices(eqn):
            return operands[index] if axes and not set(axes) & set(eqn.params["axes"]) else None
        if name == "reduce_sum":
            return operands[0] if self.sums_again(eqn) else None
        if name == "convert_element_type":
            return operands[0] if operands[0].aval.dtype == np.float32 else None
        if name in compat.CALLS:
            return self.moved_inside(eqn, index, axes)
        if name in SCALES:
            same = self.is_shared if tuple(axes) == (AXIS,) else self.is_constant
            others = [v for v in operands if not same(v)]
            linear = len(others) == 1 and (name == "mul" or others[0] is operands[0])
            return others[0] if linear else None
        around = name == "pad" and is_zero(operands[1], self.made)
        return operands[0] if name in MOVES or around else None

    def sums_again(self, eqn: Any) -> bool:
        """Whether a sum is along axes along which its operand has just been summed.

        JAX ends so the derivative of a bias that it broadcasts. An axis that is 1 long for another
        reason, a batch of one row, is summed for good.
        """
        between = self.behind(eqn.invars[0])
        if between is None or between.primitive.name not in ("reshape", "broadcast_in_dim"):
            return False
        before = self.behind(between.invars[0])
        if before is None or before.primitive.name != "reduce_sum":
            return False
        kept = list(before.invars[0].aval.shape)
        for axis in before.params["axes"]:
            kept[axis] = 1
        shape = between.outvars[0].aval.shape
        return shape == tuple(kept) and eqn.params["axes"] == before.params["axes"]

    def behind(self, atom: Any) -> Any:
        """The equation that makes a value, or what it adds over devices; None if there is none."""
        while not hasattr(atom, "val") and atom in self.maker:
            number, index = self.maker[atom]
            if not over_devices(self.eqns[number]):
                return self.eqns[number]
            atom = self.eqns[number].invars[index]
        return None

    def moved_inside(self, eqn: Any, index: int, axes: Sequence[str]) -> Any:
        """The operand that a call only moves or scales to its result; None if there is no such."""
        if GRID_MARK in eqn.params.get("name", "") or accumulation(eqn):
            return None
        inner, _ = compat.opened(compat.sub_jaxprs(eqn.params)[0])
        uses = Uses(inner, self.shared_operands(eqn))
        atom = inner.outvars[index]
        while atom is not None and not hasattr(atom, "val") and uses.counts[atom] == 1:
            if atom in inner.invars:
                return eqn.invars[list(inner.invars).index(atom)]
            if atom not in uses.maker:
                return None
            number, result = uses.maker[atom]
            atom = uses.source(inner.eqns[number], result, axes)
        return None

    def is_constant(self, atom: Any) -> bool:
        """Whether a value stands in the program, or is spread from one that does."""
        if hasattr(atom, "val"):
            return True
        eqn = self.made.get(atom)
        if eqn is None or eqn.primitive.name not in SPREADS:
            return False
        return self.is_constant(eqn.invars[0])

    def sums_inside(self, eqn: Any, index: int, axes: Sequence[str]) -> bool:
        """Whether an equation is a call, and a result of it is made of sums inside."""
        if eqn.primitive.name not in compat.CALLS or GRID_MARK in eqn.params.get("name", ""):
            return False
        if accumulation(eqn):
            return True
        inner, _ = compat.opened(compat.sub_jaxprs(eqn.params)[0])
        return bool(Uses(inner, self.shared_operands(eqn)).roots(inner.outvars[index], axes))

    def shared_operands(self, eqn: Any) -> tuple[bool, ...]:
        """Which operands are the same in all microbatches; empty: nothing is known."""
        flags = tuple(self.is_shared(v) for v in eqn.invars)
        return flags if self.shared else ()


def over_devices(eqn: Any) -> bool:
    """Whether an equation is a psum, and not along the rows of a mapped axis."""
    named = all(isinstance(axis, str) for axis in eqn.params.get("axes", ()))
    return eqn.primitive.name in PSUMS and named
