"""What is known of values: where operands of a product lie, and which results are finished."""

from typing import NamedTuple

import jax

Array = jax.Array


class View(NamedTuple):
    """A value as another one, transposed.

    Attributes:
      source: float32; its subnormal numbers stand for zeros.
      order: axis of the source that each axis of the value is.
    """

    source: Array
    order: tuple[int, ...]


class Views:
    """The views that are known of the values of one trace, and of those around it."""

    def __init__(self, around: "Views | None" = None) -> None:
        """Knows none but those around."""
        self._around = around
        self._found: dict[int, tuple[Array, View]] = {}
        self._finished: dict[int, Array] = {}

    def finished(self, x: Array) -> Array:
        """x, whose every NaN has the one bit pattern of results."""
        self._finished[id(x)] = x
        return x

    def is_finished(self, x: Array) -> bool:
        """Whether x is known to be a result as it is."""
        return id(x) in self._finished or bool(self._around and self._around.is_finished(x))

    def flushed(self, x: Array, source: Array) -> Array:
        """x, which is the source without its subnormal numbers."""
        self._found[id(x)] = x, View(source, tuple(range(x.ndim)))
        return x

    def transposed(self, x: Array, before: Array, permutation: tuple[int, ...]) -> Array:
        """x, which was another value before it was transposed."""
        view = self.of(before)
        self._found[id(x)] = x, View(view.source, tuple(view.order[a] for a in permutation))
        return x

    def unflushed(self, x: Array) -> Array | None:
        """What x was before its subnormal numbers became zeros; None if it is not known."""
        source, order = self.of(x)
        return source if source is not x and order == tuple(range(x.ndim)) else None

    def of(self, x: Array) -> View:
        """The view of a value: of itself, if no other is known."""
        if id(x) in self._found:
            return self._found[id(x)][1]
        return self._around.of(x) if self._around else View(x, tuple(range(x.ndim)))
