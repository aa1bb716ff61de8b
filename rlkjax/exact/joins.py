"""A psum of a sum is one sum: which sums and dots of a jaxpr go on over devices before they round.

Inside `shard_map`, psum(reduce_sum(x)) and psum(dot_general(x, y)) have one grid over all devices
and one rounding at the end, if the inner result is used nowhere else. So the result does not depend
on how many devices share the elements. Moves between the two (a transposition, a new shape) do not
matter. Every other psum adds float32 numbers, on the grid of the largest.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

PSUMS = frozenset(["psum", "psum_invariant"])
SUMS = frozenset(["reduce_sum", "dot_general", "conv_general_dilated"])
MOVES = frozenset(
    ["transpose", "reshape", "squeeze", "expand_dims", "broadcast_in_dim", "copy", "rev", "name"]
)


class Joins(NamedTuple):
    """What to do about the equations of a jaxpr, by their number.

    Attributes:
      sums: number of a sum -> names of the device axes it goes on over.
      done: numbers of the psums that these sums have done already.
    """

    sums: Mapping[int, tuple[str, ...]]
    done: frozenset[int]


NONE = Joins({}, frozenset())


def device_sums(jaxpr: Any) -> Joins:
    """Finds the sums that are followed by a psum.

    Args:
      jaxpr: open jaxpr.

    Returns:
      Their numbers, and those of the psums.
    """
    if not any(eqn.primitive.name in PSUMS for eqn in jaxpr.eqns):
        return NONE
    atoms = [v for eqn in jaxpr.eqns for v in eqn.invars] + list(jaxpr.outvars)
    uses = Counter(v for v in atoms if not hasattr(v, "val"))
    maker = {v: number for number, eqn in enumerate(jaxpr.eqns) for v in eqn.outvars}
    sums: dict[int, tuple[str, ...]] = {}
    done: set[int] = set()
    for number, eqn in enumerate(jaxpr.eqns):
        if eqn.primitive.name in PSUMS:
            roots = [root(jaxpr, maker, uses, v) for v in eqn.invars]
            found = [r for r in roots if r is not None]
            if len(found) == len(roots):
                done.add(number)
                sums |= dict.fromkeys(found, tuple(eqn.params["axes"]))
    return Joins(sums, frozenset(done))


def root(jaxpr: Any, maker: Mapping[Any, int], uses: Mapping[Any, int], atom: Any) -> int | None:
    """The float32 sum that a value comes from, through moves of values that are used once."""
    while not hasattr(atom, "val") and atom in maker and uses[atom] == 1:
        eqn = jaxpr.eqns[maker[atom]]
        if eqn.primitive.name in SUMS:
            return maker[atom] if atom.aval.dtype == np.float32 else None
        if eqn.primitive.name not in MOVES or len(eqn.invars) != 1:
            return None
        atom = eqn.invars[0]
    return None
