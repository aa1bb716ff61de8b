"""A psum of a sum is one sum: which sums and dots of a jaxpr go on over devices before they round.

Inside `shard_map`, psum(reduce_sum(x)) and psum(dot_general(x, y)) have one grid over all devices
and one rounding at the end, if the inner result is used nowhere else; a psum of a psum over other
axes is one as well, and that of a sum of such sums is that of each. So the result does not depend
on how many devices share the elements. Moves between the two (a transposition, a new shape, zeros
around it) do not matter, nor do a sign or a factor that stands in the program, nor a call (jit,
checkpoint) around the inner one. Every other psum adds float32 numbers, on the grid of the largest.
What `named.accumulate` adds over microbatches is joined alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rlkjax.exact.roots import SCATTERS, SUMS, Place, Uses, over_devices

Axes = tuple[tuple[str, ...], ...]


class Joins(NamedTuple):
    """What to do about the equations of a jaxpr, by their number.

    Attributes:
      sums: number of a sum -> names of the device axes it goes on over.
      calls: number of a call -> the same for each of its results; empty if it does not.
      done: numbers of the psums that these sums have done already.
      shared: number of a call -> which operands are the same in all microbatches.
    """

    sums: Mapping[int, tuple[str, ...]]
    calls: Mapping[int, Axes]
    done: frozenset[int]
    shared: Mapping[int, tuple[bool, ...]]

    def at(self, number: int, ops: Any) -> Any:
        """The executor of one equation."""
        calls, shared = self.calls.get(number, ()), self.shared.get(number, ())
        here = replace(ops, joined=calls, shared=shared)
        return here.over(self.sums[number]) if number in self.sums else here


NONE = Joins({}, {}, frozenset(), {})


def device_sums(jaxpr: Any, of_results: Axes = (), shared: Sequence[bool] = ()) -> Joins:
    """Finds the sums that are followed by a psum.

    Args:
      jaxpr: open jaxpr.
      of_results: device axes that the sums behind its results go on over, outside of it.
      shared: whether an input is the same in all microbatches; empty: nothing is known.

    Returns:
      Their numbers, and those of the psums.
    """
    if not any(of_results) and not any(map(over_devices, jaxpr.eqns)):
        return NONE
    uses = Uses(jaxpr, shared)
    found: dict[Place, tuple[str, ...]] = {}
    done: set[int] = set()

    def join(places: Sequence[Place], axes: tuple[str, ...]) -> None:
        for place in places:
            found[place] = tuple(dict.fromkeys((*found.get(place, ()), *axes)))

    for atom, axes in zip(jaxpr.outvars, of_results, strict=bool(of_results)):
        join(uses.roots(atom, axes) if axes else (), axes)
    for number, eqn in enumerate(jaxpr.eqns):
        if over_devices(eqn):
            axes = tuple(eqn.params["axes"])
            places = [uses.roots(v, axes) for v in eqn.invars]
            if all(places):
                done.add(number)
                join([place for each in places for place in each], axes)
    sums, calls = {}, {}
    for (number, _), axes in found.items():
        eqn = jaxpr.eqns[number]
        if eqn.primitive.name in SUMS | SCATTERS:
            sums[number] = axes
        else:
            calls[number] = tuple(found.get((number, k), ()) for k in range(len(eqn.outvars)))
    same = {number: uses.shared_operands(jaxpr.eqns[number]) for number in calls}
    return Joins(sums, calls, frozenset(done), same)
