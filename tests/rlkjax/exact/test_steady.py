"""Operands that a loop does not change are put on their grids once, and no bit changes."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from rlkjax.exact import compat
from rlkjax.exact.kernels import library
from rlkjax.exact.reference import reference
from rlkjax.exact.transform import exact

built = pytest.mark.skipif(
    not library.loaded(), reason="no kernels: python -m rlkjax.kernels builds them"
)
EDGES = np.array([1e-40, -1e-40, -0.0, np.inf, -np.inf, np.nan, 1e-38, 3.4028235e38], np.float32)


def numbers(seed, *shape, spread=1.0, edges=0.0) -> np.ndarray:
    """Numbers of many binades, some of them edge values."""
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        found = (rng.normal(size=shape) * np.exp(spread * rng.normal(size=shape))).astype("f4")
    return np.where(rng.random(shape) < edges, rng.choice(EDGES, shape), found)


def equations(fn, *args) -> list[tuple[tuple[str, ...], Any]]:
    """The equations of exact(fn), each with the loops and branches around it."""
    found = []

    def walk(jaxpr, around):
        for eqn in compat.opened(jaxpr)[0].eqns:
            found.append((around, eqn))
            name = eqn.primitive.name
            inner = (*around, name) if name in ("scan", "while", "cond") else around
            for body in compat.sub_jaxprs(eqn.params):
                walk(body, inner)

    walk(jax.make_jaxpr(exact(fn))(*args), ())
    return found


def products(fn, *args) -> list[tuple[tuple[str, ...], bool]]:
    """What is around each product, and whether its columns are on their grids already."""
    return [
        (around, eqn.params["on_grid"])
        for around, eqn in equations(fn, *args)
        if eqn.primitive.name == "exact_product"
    ]


def roundings(fn, *args) -> list[tuple[str, ...]]:
    """What is around each matrix that is put on its grid."""
    return [around for around, eqn in equations(fn, *args) if eqn.primitive.name == "exact_on_grid"]


def turns(matrix, vector):
    """A loop around a product."""
    return lax.scan(lambda v, _: (jnp.tanh(matrix @ v), v), vector, None, length=3)


def nested(matrix, vector):
    """Loops of both kinds around it."""

    def inner(state):
        return state[0] + 1, jnp.sin(matrix @ state[1])

    def outer(v, _):
        return lax.while_loop(lambda s: s[0] < 3, inner, (0, v))[1], None

    return lax.scan(outer, vector, None, length=2)[0]


def made_between(matrix, vector):
    """The outer loop makes the matrix that the inner one does not change."""

    def outer(v, _):
        here = matrix * v[0]
        return lax.fori_loop(0, 3, lambda _, w: jnp.cos(here @ w), v), None

    return lax.scan(outer, vector, None, length=2)[0]


def selected(matrix, vector):
    """What a mapped loop makes of it: a choice between the matrix and itself."""

    def step(v, _):
        same = jnp.where(v[0] > 0, lax.stop_gradient(matrix), matrix)
        return jnp.tanh(same @ v), None

    return lax.scan(step, vector, None, length=3)[0]


def test_the_largest_number_beside_an_infinity_does_not_become_one():
    matrix = numbers(3, 24, 24)
    matrix[:, 3], matrix[:, 7] = -np.inf, np.finfo(np.float32).max

    def twice(matrix, vector):
        return lax.fori_loop(0, 2, lambda _, total: total + matrix @ vector, vector)

    vector = np.ones(24, np.float32)
    assert np.all(np.asarray(jax.jit(exact(twice))(matrix, vector)) == -np.inf)


LOOPS = [turns, nested, made_between, selected]


@pytest.mark.parametrize("fn", LOOPS)
@pytest.mark.parametrize("edges", [0.0, 0.05])
def test_bits_are_those_of_the_reference(fn, edges):
    for seed, spread in enumerate((0.5, 8.0)):
        for shape in ((24, 24), (5, 40, 40)):
            matrix = numbers(seed, *shape, spread=spread, edges=edges)
            vector = numbers(seed + 9, *shape[:-1])
            mapped = jax.vmap(fn) if len(shape) == 3 else fn
            got, want = jax.jit(exact(mapped))(matrix, vector), reference(mapped)(matrix, vector)
            for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
                assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("fn", LOOPS)
@pytest.mark.parametrize("axes", [(0, 0), (1, None), (None, 1)])
def test_mapped_from_outside_the_bits_are_the_same(fn, axes):
    shapes = [(3, 24, 24), (3, 24)]
    args = [
        numbers(4, *shape[1:]) if axis is None else np.moveaxis(numbers(4, *shape), 0, axis)
        for shape, axis in zip(shapes, axes, strict=True)
    ]
    got = jax.jit(jax.vmap(exact(fn), in_axes=axes))(*args)
    for i in range(3):
        row = [x if a is None else np.take(x, i, a) for x, a in zip(args, axes, strict=True)]
        want = reference(fn)(*row)
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            assert np.asarray(a)[i].tobytes() == np.asarray(b).tobytes()


@built
@pytest.mark.parametrize("fn", LOOPS)
def test_a_matrix_is_put_on_its_grid_outside_of_the_loops(fn):
    args = numbers(1, 40, 40), numbers(2, 40)
    around = {
        turns: ("scan",),
        nested: ("scan", "while"),
        made_between: ("scan", "scan"),
        selected: ("scan",),
    }[fn]
    found = products(fn, *args)
    assert found == [(around, True)]
    assert roundings(fn, *args) == [around[: 1 if fn is made_between else 0]]


def two_rows(matrix, vector):
    return lax.scan(lambda v, _: (v @ matrix.T, None), jnp.stack([vector] * 2), None, length=3)[0]


def columns_apart(matrix, vector):
    return lax.scan(lambda v, _: (v @ matrix, None), vector, None, length=3)[0]


def long(matrix, vector):
    wide = jnp.concatenate([matrix, matrix], 1)
    return lax.scan(lambda v, _: (wide @ jnp.concatenate([v, v]), None), vector, None, length=3)[0]


def changed(matrix, vector):
    def step(state, _):
        return (state[0] * 0.5, state[0] @ state[1]), None

    return lax.scan(step, (matrix, vector), None, length=3)[0]


def in_a_branch(matrix, vector):
    def step(v, _):
        return lax.cond(v[0] > 0, lambda v: matrix @ v, lambda v: -v, v), None

    return lax.scan(step, vector, None, length=3)[0]


def no_loop(matrix, vector):
    return matrix @ vector


def two_vectors(matrix, vector):
    return lax.scan(lambda v, _: (v * (matrix[0] @ v), None), vector, None, length=3)[0]


@built
@pytest.mark.parametrize(
    "fn", [in_a_branch, two_rows, columns_apart, long, changed, no_loop, two_vectors]
)
def test_what_gains_nothing_is_left_alone(fn):
    found = products(fn, numbers(1, 40, 40), numbers(2, 40))
    assert found and not any(ready for _, ready in found)


def outer(left, right):
    return jnp.einsum("i,j->ij", left[0], right)


def outer_in_a_loop(left, right):
    return lax.fori_loop(0, 2, lambda _, v: jnp.tensordot(left, v, 0)[0, 0] + v, right)


def gradient(matrix, vector):
    return jax.grad(lambda m, v: jnp.sum(jnp.sin(m @ v)), (0, 1))(matrix, vector)


def gradient_through_a_loop(matrix, vector):
    return jax.grad(lambda m, v: jnp.sum(turns(m, v)[1]), (0, 1))(matrix, vector)


def axes_apart(matrix, vector):
    cube = jnp.reshape(matrix, (8, 24, 3))
    pair = jnp.reshape(vector, (8, 3))

    def step(p, _):
        return jnp.reshape(jnp.einsum("abc,ac->b", cube, p), (8, 3)), None

    return lax.scan(step, pair, None, length=3)[0]


def batch_in_the_middle(matrix, vector):
    cube = jnp.reshape(matrix, (6, 4, 24))

    def step(v, _):
        return v + jnp.sum(jnp.einsum("cbk,bk->bc", cube, jnp.stack([v] * 4)), (0, 1)), None

    return lax.scan(step, vector, None, length=3)[0]


@pytest.mark.parametrize(
    "fn",
    [outer, outer_in_a_loop, gradient, gradient_through_a_loop, axes_apart, batch_in_the_middle],
)
def test_other_products_have_the_bits_of_the_reference(fn):
    args = numbers(6, 24, 24, spread=3.0), numbers(7, 24)
    got, want = jax.jit(exact(fn))(*args), reference(fn)(*args)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_an_exported_program_puts_nothing_on_grids():
    # it holds no kernel, and nothing else gains by it
    args = numbers(1, 40, 40), numbers(2, 40)
    exported = jax.export.export(jax.jit(exact(turns)))(*args)
    assert "custom_call" not in exported.mlir_module()
    for a, b in zip(exported.call(*args), reference(turns)(*args), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
