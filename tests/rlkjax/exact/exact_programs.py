"""Random programs over the table of rules, for the comparison of `exact` with its reference.

A program is a block: a list of nodes that each add one array to those before. A node is an
operation, or control flow around a block.
"""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from exact_ops import OPS
from hypothesis import strategies as st
from jax import lax

from rlkjax.exact import named

Array = jax.Array
Shape = tuple[int, int]
Body = Callable[[Array], Array]
ACCUMULATING: ContextVar[bool] = ContextVar("accumulating", default=False)

EDGES = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -2.5, 1e-38, -1e-39, 1e-44, 3e38, -3e38, 2.0**-126, 2.0**24]
    + [np.inf, -np.inf, np.nan, 88.7, -103.0, 1.0000001, 0.99999994, 1e5, 7e-5, 0.1],
    np.float32,
)
SHAPES: list[Shape] = [(1, 1), (2, 3), (5, 4), (8, 17), (1, 7), (6, 1), (3, 33)]
EMPTY: list[Shape] = [(0, 3), (4, 0), (0, 0)]


class Node(NamedTuple):
    """One step of a program.

    Attributes:
      name: key of `OPS` or of `FLOWS`.
      choices: numbers that choose operands, lengths and branches.
      blocks: what control flow is around.
    """

    name: str
    choices: tuple[int, int, int]
    blocks: tuple[tuple["Node", ...], ...] = ()


def scan(bodies: Sequence[Body], x: Array, choice: int) -> Array:
    """A loop of 0 to 3 steps, from either end; every step's state counts."""

    def step(carry: Array, row: Array) -> tuple[Array, Array]:
        carry = bodies[0](carry * 0.5 + row)
        return carry, carry - row

    rows = jnp.arange(choice % 4, dtype=jnp.float32)
    last, states = lax.scan(step, x, rows, reverse=choice > 4)
    return last + states.sum(0)


def while_loop(bodies: Sequence[Body], x: Array, choice: int) -> Array:
    """A loop whose length, 0 to 3, depends on the values."""
    steps = jnp.sum(x > 0.5).astype(jnp.int32) % 4
    return lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, bodies[0](s[1])), (steps, x))[1]


def cond(bodies: Sequence[Body], x: Array, choice: int) -> Array:
    """One of two branches."""
    return lax.cond(jnp.sum(x > 0.0) % 2 == choice % 2, bodies[0], bodies[1], x)


def switch(bodies: Sequence[Body], x: Array, choice: int) -> Array:
    """One of three branches, by an index that may lie outside."""
    index = jnp.sum(x > 0.0).astype(jnp.int32) - choice
    return lax.switch(index, [bodies[0], jnp.negative, bodies[1]], x)


def remat(bodies: Sequence[Body], x: Array, choice: int) -> Array:
    """A body that a derivative would compute again."""
    return jax.checkpoint(bodies[0])(x)


def custom_jvp(bodies: Sequence[Body], x: Array, choice: int) -> Array:
    """A function whose forward derivative is another body."""
    fn = jax.custom_jvp(bodies[0])
    fn.defjvp(lambda primals, tangents: (bodies[0](*primals), bodies[1](*tangents)))
    value, slope = jax.jvp(fn, (x,), (x * 0.5,))
    return fn(value) + slope


def custom_vjp(bodies: Sequence[Body], x: Array, choice: int) -> Array:
    """A function whose backward rule is another body."""
    fn = jax.custom_vjp(bodies[0])
    fn.defvjp(lambda v: (bodies[0](v), v), lambda v, g: (bodies[1](v) * g,))
    value, back = jax.vjp(fn, x)
    return fn(value) + back(x)[0]


def vmap(bodies: Sequence[Body], x: Array, choice: int) -> Array:
    """The body for two arrays at once."""
    return jax.vmap(bodies[0])(jnp.stack([x, -x]))[choice % 2]


def jit(bodies: Sequence[Body], x: Array, choice: int) -> Array:
    """A call."""
    return jax.jit(bodies[0])(x)


def accumulate(bodies: Sequence[Body], x: Array, choice: int) -> Array:
    """Sums over 1 to 3 microbatches: of a sum, of a product of matrices, and of neither."""
    if ACCUMULATING.get():
        return bodies[0](x)

    def one(part: Array) -> tuple[Array, Array, Array]:
        token = ACCUMULATING.set(True)
        try:
            y = bodies[0](part)
        finally:
            ACCUMULATING.reset(token)
        return jnp.sum(y, 0, keepdims=True), part.T @ y, y * 0.5

    parts = jnp.stack([x, x * 0.5, 1.0 - x][: 1 + choice % 3])
    total, product, each = named.accumulate(one, parts)
    return each + total + x @ product


def grad(bodies: Sequence[Body], x: Array, choice: int) -> Array:
    """The derivative of the sum of a smooth body."""
    return jax.grad(lambda v: jnp.sum(bodies[0](v)))(x)


def jvp(bodies: Sequence[Body], x: Array, choice: int) -> Array:
    """The derivative of a smooth body along x."""
    return jax.jvp(bodies[0], (x,), (x,))[1]


FLOWS: dict[str, tuple[int, Callable[[Sequence[Body], Array, int], Array]]] = {
    "flow scan": (1, scan),
    "flow while": (1, while_loop),
    "flow accumulate": (1, accumulate),
    "flow cond": (2, cond),
    "flow switch": (2, switch),
    "flow remat": (1, remat),
    "flow custom_jvp": (2, custom_jvp),
    "flow custom_vjp": (2, custom_vjp),
    "flow vmap": (1, vmap),
    "flow jit": (1, jit),
}
DERIVED: dict[str, tuple[int, Callable[[Sequence[Body], Array, int], Array]]] = {
    "flow grad": (1, grad),
    "flow jvp": (1, jvp),
}
# a custom derivative must not see arrays from outside
OWN_ONLY = frozenset(["flow custom_jvp", "flow custom_vjp"])


def apply(node: Node, values: Sequence[Array]) -> Array:
    """The array that a node adds; an operation that needs elements passes an empty array on."""
    first = values[node.choices[0] % len(values)]
    if node.name in OPS:
        op = OPS[node.name]
        if op.full and first.size == 0:
            return first
        return op.fn(*(values[c % len(values)] for c in node.choices[: op.arity]))
    _, flow = (FLOWS | DERIVED)[node.name]
    outer = () if node.name in OWN_ONLY else values
    return flow([body_of(block, outer) for block in node.blocks], first, node.choices[1])


def body_of(block: Sequence[Node], outer: Sequence[Array]) -> Body:
    """A block as a function of one array, that also sees the arrays from outside."""
    return lambda x: run_block(block, [x, *outer])[-1]


def run_block(block: Sequence[Node], values: Sequence[Array]) -> list[Array]:
    """The arrays of a block, its inputs first."""
    values = list(values)
    for node in block:
        values.append(apply(node, values))
    return values


def program(block: Sequence[Node]) -> Callable[..., list[Array]]:
    """The program of a block: [N, M] float32 arrays -> every array that was made."""

    def run(*inputs: Array) -> list[Any]:
        return run_block(block, inputs)[len(inputs) :]

    return run


CHOICES = st.tuples(*[st.integers(0, 8)] * 3)


def operations(smooth: bool) -> st.SearchStrategy[Node]:
    """A node that is an operation."""
    names = sorted(n for n, op in OPS.items() if op.smooth or not smooth)
    return st.builds(Node, st.sampled_from(names), CHOICES)


def nodes(depth: int, smooth: bool = False) -> st.SearchStrategy[Node]:
    """A node with control flow nested to a depth."""
    if depth == 0:
        return operations(smooth)
    inner = nodes(depth - 1, smooth)

    def around(name: str, count: int, inside: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        block = st.lists(inside, min_size=1, max_size=3).map(tuple)
        return st.builds(Node, st.just(name), CHOICES, st.tuples(*[block] * count))

    flows = [around(name, count, inner) for name, (count, _) in sorted(FLOWS.items())]
    if not smooth:
        derived = nodes(0, smooth=True)
        flows += [around(name, count, derived) for name, (count, _) in sorted(DERIVED.items())]
    return operations(smooth) | st.one_of(flows)


def blocks(depth: int) -> st.SearchStrategy[list[Node]]:
    """A program."""
    return st.lists(nodes(depth), min_size=1, max_size=6)


def inputs(seed: int, shape: Shape, edge_share: float) -> list[np.ndarray]:
    """Three arrays of normal numbers with some edge values among them."""
    rng = np.random.default_rng(seed)
    arrays = []
    for _ in range(3):
        normal = rng.normal(size=shape).astype(np.float32)
        chosen = rng.choice(EDGES, size=shape)
        arrays.append(np.where(rng.random(shape) < edge_share, chosen, normal))
    return arrays
