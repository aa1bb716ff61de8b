"""What follows from constants is computed while a program is traced, to the same bits."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from device_programs import CONSTANTS
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from rlkjax.exact import known, named
from rlkjax.exact.reference import reference
from rlkjax.exact.transform import exact

RNG = np.random.default_rng(5)
MATRIX = RNG.normal(size=(6, 6)).astype(np.float32)
EDGES = np.array([1e-40, -1e-40, -0.0, 0.0, np.inf, -np.inf, np.nan, 1e-30, 3e38], np.float32)


def same(got, want) -> None:
    """Asserts equal bits."""
    got, want = np.asarray(got), np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    assert got.tobytes() == want.tobytes()


def elementary(x, c):
    return x * jnp.sin(c) + jnp.exp(c) / (1 + jnp.tanh(c) ** 2)


def sums(x, c):
    return x @ (c @ c.T) + jnp.sum(c, 0) * jnp.cumsum(c, 1) + jnp.max(c)


def moves(x, c):
    places = jnp.argsort(c[0])
    table = jnp.where(c > 0, c, -c)[places][:, ::-1].T
    return x + table.at[1].add(c[0]) + jnp.concatenate([c[:3], c[3:]])


def loops(x, c):
    def step(carry, row):
        carry = carry * jnp.cos(c[0]) + row
        return carry, carry + jnp.sum(c * c)

    _, rows = lax.scan(step, c[1] * c[1], x)
    halved = lax.while_loop(lambda s: jnp.max(s) > jnp.min(c * c), lambda s: s * 0.5 * c[0, 0], x)
    return rows + halved + lax.cond(x[0, 0] > 0, lambda: c @ c, lambda: c - c)


@jax.jit
def inner(c):
    return jnp.log(c * c) + jnp.arange(6, dtype=jnp.float32)


def calls(x, c):
    return x * inner(c) + jax.checkpoint(jnp.cosh)(c) + jax.nn.softplus(c)


@pytest.mark.parametrize("fn", [elementary, sums, moves, loops, calls])
def test_a_constant_gives_the_bits_of_an_argument(fn):
    x = RNG.normal(size=(6, 6)).astype(np.float32) + 2
    want = exact(fn)(x, MATRIX)
    closed = exact(lambda x: fn(x, jnp.asarray(MATRIX)))
    same(closed(x), want)
    same(reference(closed.__wrapped__)(x), want)
    mapped = jax.vmap(closed)(np.stack([x, x]))
    same(mapped, np.stack([want, want]))


@pytest.mark.parametrize("op", [jnp.add, jnp.multiply, jnp.divide, jnp.arctan2, jnp.power])
def test_edge_values_among_constants(op):
    left, right = np.meshgrid(EDGES, EDGES)
    want = exact(op)(left, right)
    same(exact(lambda: op(left, right))(), want)
    bits = exact(lambda: lax.bitcast_convert_type(op(left, right), jnp.int32))()
    same(bits, exact(lambda a, b: lax.bitcast_convert_type(op(a, b), jnp.int32))(left, right))


def operations(fn, *args) -> list[str]:
    """The operations on float64 of the lowered program of `exact(fn)`."""
    text = jax.jit(exact(fn)).lower(*args).as_text()
    return re.findall(r"stablehlo\.(\w+) .*xf64", text)


def test_what_follows_from_constants_costs_nothing():
    x = np.ones((6, 6), np.float32)
    assert operations(lambda x, c: x + jnp.sin(c) @ c, x, MATRIX)
    assert operations(lambda x: x + jnp.sin(MATRIX) @ MATRIX, x) == []


def test_a_large_constant_is_left_to_the_program():
    large = RNG.normal(size=known.LARGEST + 1).astype(np.float32)
    assert operations(lambda x: x + jnp.sin(large), large)
    same(
        exact(lambda x: x + jnp.sin(large))(large), exact(lambda x, c: x + jnp.sin(c))(large, large)
    )


def test_a_key_among_constants():
    key = jax.random.key(3)
    draw = exact(lambda x: x + jax.random.normal(jax.random.fold_in(key, 1), (4,)))
    same(draw(np.ones(4, np.float32)), reference(draw.__wrapped__)(np.ones(4, np.float32)))


@pytest.mark.parametrize("name", CONSTANTS)
def test_each_microbatch_adds_its_constants(name):
    def fn(x):
        return named.accumulate(CONSTANTS[name], x)

    x = RNG.normal(size=(4, 2)).astype(np.float32)
    same(exact(fn)(x), reference(fn)(x))
    np.testing.assert_allclose(exact(fn)(x), sum(CONSTANTS[name](row) for row in x), rtol=1e-5)


def test_constants_without_jit():
    fn = exact(lambda x: x + jnp.asarray([1.0, 2.0]))
    with jax.disable_jit():
        got = fn(np.ones(2, np.float32))
    same(got, np.float32([2, 3]))


def test_constants_inside_of_devices_and_kept_functions():
    mesh = jax.make_mesh((1,), ("d",), axis_types=(AxisType.Auto,))

    def fn(x):
        shift = jnp.sin(MATRIX) * 2
        alone = lax.psum(jnp.cos(jnp.full((6, 6), 0.3)), "d") + lax.pmax(shift, "d")
        return alone + lax.psum(x @ shift + shift, "d") + named.dot(shift, x, grid="contracted")

    local = jax.shard_map(fn, mesh=mesh, in_specs=P("d"), out_specs=P(), check_vma=False)
    x = RNG.normal(size=(6, 6)).astype(np.float32)
    same(exact(local)(x), reference(local)(x))
    kept = exact(lambda x: x + inner(MATRIX), kept=("inner",))
    same(kept(x), exact(lambda x, c: x + inner(c))(x, MATRIX))
