"""Sums over microbatches in two passes: magnitudes first, then integers on the grid of the largest.

One rounding ends a sum, so that the result is that of one large batch, however it is cut. Only one
microbatch is in memory at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import lax

Array = jax.Array
Rows = Sequence[Array]


class Pass(Protocol):
    """What a sum asks for, in an order that is the same in each pass."""

    count: int  # of microbatches

    def largest(self, bits: Array) -> Array:
        """The largest of these integers over the microbatches."""

    def total(self, x: Array) -> Array:
        """The sum of these numbers, exact in any order, over the microbatches."""


class Measuring:
    """The first pass, which notes what is asked."""

    def __init__(self, count: int) -> None:
        """Nothing is known yet."""
        self.count = count
        self.seen: list[Array] = []

    def largest(self, bits: Array) -> Array:
        """Notes the magnitudes of this microbatch."""
        self.seen.append(bits)
        return bits

    def total(self, x: Array) -> Array:
        """Nobody reads what this pass adds."""
        return x


class Adding:
    """The second pass: the largest magnitudes are known."""

    def __init__(self, count: int, peaks: Rows) -> None:
        """Args: number of microbatches; what `Measuring` has seen, over all of them."""
        self.count = count
        self.peaks: Iterator[Array] = iter(peaks)
        self.seen: list[Array] = []

    def largest(self, bits: Array) -> Array:
        """What is known."""
        return next(self.peaks)

    def total(self, x: Array) -> Array:
        """Notes the numbers of this microbatch."""
        self.seen.append(x)
        return x


class Ending:
    """The end: magnitudes and sums are known."""

    def __init__(self, count: int, peaks: Rows, totals: Rows) -> None:
        """Args: number of microbatches; what both passes have seen, over all microbatches."""
        self.count = count
        self.peaks: Iterator[Array] = iter(peaks)
        self.totals: Iterator[Array] = iter(totals)

    def largest(self, bits: Array) -> Array:
        """What is known."""
        return next(self.peaks)

    def total(self, x: Array) -> Array:
        """What is known."""
        return next(self.totals)


def accumulated(one: Callable[[Pass, Rows], list[Array]], batches: Rows, count: int) -> list[Array]:
    """Sums over microbatches.

    Args:
      one: (pass, one microbatch) -> its values, all of whose sums have asked the pass.
      batches: microbatches along the first axis.
      count: how many; at least one.

    Returns:
      The sums.
    """

    def measured(batch: Rows) -> list[Array]:
        step = Measuring(count)
        one(step, batch)
        return step.seen

    def added(peaks: Rows, batch: Rows) -> list[Array]:
        step = Adding(count, peaks)
        one(step, batch)
        return step.seen

    first = [x[0] for x in batches]
    peaks = folded(lax.max, measured, first, batches, count)
    totals = folded(lax.add, lambda batch: added(peaks, batch), first, batches, count)
    # what does not follow from peaks and totals is not used, and not computed
    return one(Ending(count, peaks, totals), first)


def folded(
    join: Callable[[Array, Array], Array],
    values: Callable[[Rows], list[Array]],
    first: Rows,
    batches: Rows,
    count: int,
) -> list[Array]:
    """The values of all microbatches joined, one after the other; zeros do not count.

    Args:
      join: of two values.
      values: one microbatch -> its values.
      first: the first microbatch.
      batches: all of them.
      count: how many.
    """

    def step(carry: Any, batch: Rows) -> tuple[Any, None]:
        return [join(c, v) for c, v in zip(carry, values(batch), strict=True)], None

    start = [jnp.zeros(each.shape, each.dtype) for each in jax.eval_shape(values, list(first))]
    return lax.scan(step, start, list(batches), count)[0]
