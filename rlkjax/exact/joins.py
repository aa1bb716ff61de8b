"""A psum of a sum is one sum: which sums and dots of a jaxpr go on over devices before they round.

Inside `shard_map`, psum(reduce_sum(x)) and psum(dot_general(x, y)) have one grid over all devices
and one rounding at the end, if the inner result is used nowhere else. So the result does not depend
on how many devices share the elements. Moves between the two (a transposition, a new shape) do not
matter, nor does a call (jit, checkpoint) around the inner one. Every other psum adds float32
numbers, on the grid of the largest.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from rlkjax.exact import compat

GRID_MARK = "exact_contracted_grid"  # in the name of a call: its dot has another grid
PSUMS = frozenset(["psum", "psum_invariant"])
SUMS = frozenset(["reduce_sum", "dot_general", "conv_general_dilated"])
MOVES = frozenset(
    ["transpose", "reshape", "squeeze", "expand_dims", "broadcast_in_dim", "copy", "rev", "name"]
)

Axes = tuple[tuple[str, ...], ...]


class Joins(NamedTuple):
    """What to do about the equations of a jaxpr, by their number.

    Attributes:
      sums: number of a sum -> names of the device axes it goes on over.
      calls: number of a call -> the same for each of its results; empty if it does not.
      done: numbers of the psums that these sums have done already.
    """

    sums: Mapping[int, tuple[str, ...]]
    calls: Mapping[int, Axes]
    done: frozenset[int]


NONE = Joins({}, {}, frozenset())


class Uses:
    """Who makes and who uses the variables of an open jaxpr."""

    def __init__(self, jaxpr: Any) -> None:
        """Counts."""
        atoms = [v for eqn in jaxpr.eqns for v in eqn.invars] + list(jaxpr.outvars)
        self.eqns = jaxpr.eqns
        self.counts = Counter(v for v in atoms if not hasattr(v, "val"))
        self.maker = {
            v: (number, index)
            for number, eqn in enumerate(jaxpr.eqns)
            for index, v in enumerate(eqn.outvars)
        }

    def root(self, atom: Any) -> tuple[int, int] | None:
        """Where a value comes from, through moves of values that are used once.

        Returns:
          (equation, its result): a float32 sum, or a call whose result is one; None: neither.
        """
        while not hasattr(atom, "val") and atom in self.maker and self.counts[atom] == 1:
            number, index = self.maker[atom]
            eqn = self.eqns[number]
            name = eqn.primitive.name
            if name in SUMS or (name in compat.CALLS and inner_root(eqn, index)):
                return (number, index) if atom.aval.dtype == np.float32 else None
            if name not in MOVES or len(eqn.invars) != 1:
                return None
            atom = eqn.invars[0]
        return None


def inner_root(eqn: Any, index: int) -> tuple[int, int] | None:
    """Where a result of a call comes from inside it."""
    if GRID_MARK in eqn.params.get("name", ""):
        return None
    inner, _ = compat.opened(compat.sub_jaxprs(eqn.params)[0])
    return Uses(inner).root(inner.outvars[index])


def device_sums(jaxpr: Any, of_results: Axes = ()) -> Joins:
    """Finds the sums that are followed by a psum.

    Args:
      jaxpr: open jaxpr.
      of_results: device axes that the sums behind its results go on over, outside of it.

    Returns:
      Their numbers, and those of the psums.
    """
    if not any(of_results) and not any(eqn.primitive.name in PSUMS for eqn in jaxpr.eqns):
        return NONE
    uses = Uses(jaxpr)
    found: dict[tuple[int, int], tuple[str, ...]] = {}
    done: set[int] = set()
    for atom, axes in zip(jaxpr.outvars, of_results, strict=bool(of_results)):
        place = uses.root(atom) if axes else None
        found |= {place: axes} if place else {}
    for number, eqn in enumerate(jaxpr.eqns):
        if eqn.primitive.name in PSUMS:
            places = [uses.root(v) for v in eqn.invars]
            if all(places):
                done.add(number)
                found |= dict.fromkeys(filter(None, places), tuple(eqn.params["axes"]))
    sums, calls = {}, {}
    for (number, _), axes in found.items():
        eqn = jaxpr.eqns[number]
        if eqn.primitive.name in SUMS:
            sums[number] = axes
        else:
            calls[number] = tuple(found.get((number, k), ()) for k in range(len(eqn.outvars)))
    return Joins(sums, calls, frozenset(done))
