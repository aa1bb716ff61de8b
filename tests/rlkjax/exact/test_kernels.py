"""The kernels have the bits of the definition: those of XLA's program, and of the reference."""

import itertools
import os
import shutil
import subprocess
import sys
import threading
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from rlkjax import kernels
from rlkjax.errors import InputError, MachineError
from rlkjax.exact import axis_sum, product, steady
from rlkjax.exact.kernels import library
from rlkjax.exact.lower import opaque_scalars
from rlkjax.exact.reference import reference
from rlkjax.exact.transform import exact

built = pytest.mark.skipif(
    not library.loaded(), reason="no kernels: python -m rlkjax.kernels builds them"
)
MATRICES = (((1,), (0,)), ((), ()))
LANES = (2, 4, 8, 16)
EDGES = np.array(
    [0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x7F800000, 0xFF800000]
    + [0x7FC00000, 0xFFC12345, 0x7F800001, 0x3F800000, 0xBF800001],
    np.uint32,
).view(np.float32)


def numbers(rng, shape, edges=0.0, spread=7.0) -> np.ndarray:
    """Numbers of both signs over many binades, some of them edge values."""
    found = rng.normal(size=shape) * np.exp(rng.normal(size=shape) * spread)
    with np.errstate(over="ignore"):
        found = found.astype(np.float32)
    return np.where(rng.random(shape) < edges, rng.choice(EDGES, shape), found)


def by_kernel(lhs, rhs, dims, lanes=product.LANES, shares=0, on_grid=False) -> np.ndarray:
    """The product by the kernel."""

    def call(a, b):
        how = {"lanes": lanes, "shares": shares, "on_grid": on_grid}
        return product.by_kernel(a, b, dimension_numbers=dims, **how)

    return np.asarray(jax.jit(call)(lhs, rhs))


def by_xla(lhs, rhs, dims) -> np.ndarray:
    """The product in XLA's operations."""

    def call(a, b):
        return product.portable(a, b, *opaque_scalars(), dimension_numbers=dims)

    with jax.enable_x64(True):
        return np.asarray(jax.jit(call)(lhs, rhs))


def ready(x, lanes=product.LANES) -> np.ndarray:
    """Rows along the last axis on their grids, by the kernel."""
    return np.asarray(jax.jit(lambda x: steady.by_kernel(x, terms=x.shape[-1], lanes=lanes))(x))


def same(got, want) -> None:
    """Asserts equal bits, naming the first element that differs."""
    got, want = np.asarray(got), np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    differ = np.argwhere(got.view(np.uint32) != want.view(np.uint32))
    assert len(differ) == 0, (len(differ), differ[0], got[tuple(differ[0])], want[tuple(differ[0])])


def any_product(rng):
    """Operands and dimension numbers: some batch, contracted and free axes, in any order."""
    counts = rng.integers(0, 3, 4)
    sizes = [[int(n) for n in rng.choice([1, 2, 3, 7, 9, 17], count)] for count in counts]
    batch, contract, *free = sizes
    sides, axes = [], []
    for own in free:
        kinds = [("b", i) for i in range(len(batch))] + [("k", i) for i in range(len(contract))]
        kinds += [("f", i) for i in range(len(own))]
        order = [kinds[i] for i in rng.permutation(len(kinds))]
        table = {"b": batch, "k": contract, "f": own}
        sides.append(numbers(rng, [table[kind][i] for kind, i in order], rng.choice([0, 0.05])))
        place = {key: axis for axis, key in enumerate(order)}
        axes.append(
            [
                [place[kind, i] for i in range(n)]
                for kind, n in zip("kb", counts[[1, 0]], strict=True)
            ]
        )
    dims = tuple(tuple(tuple(side[which]) for side in axes) for which in (0, 1))
    return (*sides, dims)


@built
@pytest.mark.parametrize("seed", range(8))
def test_products_of_any_axes_equal_the_definition(seed):
    rng = np.random.default_rng(seed)
    for _ in range(4):
        lhs, rhs, dims = any_product(rng)
        want = by_xla(lhs, rhs, dims)
        for lanes in LANES:
            same(by_kernel(lhs, rhs, dims, lanes), want)


@built
@pytest.mark.parametrize("terms", [1, 2, 7, 8, 9, 17, 31, 33, 63, 65, 127, 128, 129, 257, 1030])
@pytest.mark.parametrize("rows, columns", [(1, 1), (1, 33), (5, 1), (13, 50), (131, 29)])
def test_products_of_any_size_equal_the_definition(rows, columns, terms):
    rng = np.random.default_rng(rows + columns + terms)
    lhs, rhs = numbers(rng, (rows, terms), 0.001), numbers(rng, (terms, columns), 0.001)
    want = by_xla(lhs, rhs, MATRICES)
    for left in (0, 1):
        for right in (0, 1):
            dims = ((1 - left,), (right,)), ((), ())
            operands = (lhs.T if left else lhs), (rhs.T if right else rhs)
            for lanes in LANES:
                same(by_kernel(*operands, dims, lanes), want)


def close_to_zero(rng, columns: int, terms: int) -> tuple[np.ndarray, np.ndarray]:
    """A row and columns of odd integers just below 2^24 whose products all but cancel.

    Their sums first grow as fast as any can; whatever is lost on the way is seen at the end.
    """
    row = (2**24 - 1 - 2 * rng.integers(0, 50, terms)).astype(np.int64)
    matrix = 2**24 - 1 - 2 * rng.integers(0, 50, (terms, columns))
    matrix[(terms - 2) // 2 :] *= -1
    row[-2:] = 2**16, 1
    rest = rng.integers(1, 2**20, columns) - row[:-2] @ matrix[:-2]
    matrix[-2:] = rest >> 16, rest & 0xFFFF
    return row.astype(np.float32), matrix.astype(np.float32)


@built
@pytest.mark.parametrize("terms", [34, 65, 66, 67, 96, 127, 128, 129, 130, 200, 1100])
@pytest.mark.parametrize("rows, columns", [(1, 30), (30, 1), (13, 50)])
def test_the_largest_integers_are_added_without_loss(rows, columns, terms):
    rng = np.random.default_rng(terms)
    row, rhs = close_to_zero(rng, columns, terms)
    lhs = np.stack([row] * rows)
    lhs[rows // 2 :] *= 2.0**-30
    rhs[:, 2::3] = numbers(rng, (terms, len(range(2, columns, 3))))
    want = reference(jnp.matmul)(lhs, rhs)
    same(by_xla(lhs, rhs, MATRICES), want)
    for lanes in LANES:
        same(by_kernel(lhs, rhs, MATRICES, lanes), want)
        same(by_kernel(lhs.T.copy(), rhs.T.copy(), (((0,), (1,)), ((), ())), lanes), want)


# -4095 * 2^12 - 2048, 4095 * 2^12 + 2047 and 4096 * 2^12 - 1: the largest sums of two halves, and
# the largest half. 2^23 + 800: its sum of squares fits an int32, that of the other does not.
@built
@pytest.mark.parametrize(
    "number, other",
    [(-16775168, -16775168), (16775167, 16775167), (16777215, 16777215), (16775167, 8389408)],
)
@pytest.mark.parametrize("terms", [56, 57, 58, 127, 128, 129, 256, 257, 600])
def test_the_largest_halves_are_added_without_loss(number, other, terms):
    # All that count have one sign, so that no overflow undoes another one; what decides how many
    # terms of a matrix may be added at once is their number.
    counts = [n for n in (1, 55, 56, 57, 60, 66, 80, 113, 127, 128, 255, 256) if n <= terms]
    lhs = np.zeros((len(counts), 2, terms), np.float32)
    for i, n in enumerate(counts):
        lhs[i, 0, :n] = lhs[i, 1, terms - n :] = number
    rhs = np.full((len(counts), terms, 20), other, np.float32)
    rhs[:, :, 1::2] *= -1
    sums = np.array(counts)[:, None, None] * np.sign(rhs[:, :2]).astype(int) * number * abs(other)
    want = np.float32([float(Fraction(int(x))) for x in sums.ravel()]).reshape(sums.shape)
    for lanes in LANES:
        same(by_kernel(lhs, rhs, (((2,), (1,)), ((0,), (0,))), lanes), want)
        turned = np.moveaxis(lhs, 1, 2).copy(), np.moveaxis(rhs, 1, 2).copy()
        same(by_kernel(*turned, (((1,), (2,)), ((0,), (0,))), lanes), want)


@built
@pytest.mark.parametrize("bits", range(50, 56))
@pytest.mark.parametrize("more", [9, 40, 200])
def test_a_sum_just_above_a_tie_is_rounded_up(bits, more):
    # 2^bits + 2^(bits - 24) lies half way between two float32 numbers; 1 more or less decides
    number = 16_000_000
    terms = 2**bits // number**2 + more
    row, column = np.zeros((2, terms))
    wants = []
    for sign in (0, 1, -1):
        rest = 2**bits + 2 ** (bits - 24) + sign
        n = rest // number**2
        row[:n] = column[:n] = number
        rest -= n * number**2
        for i in range(n, n + 7):
            row[i], column[i] = 2**23, min(rest >> 23, 2**24 - 1)
            rest -= int(column[i]) << 23
        row[n + 7], column[n + 7] = 1, rest
        assert rest < 2**24
        lhs, rhs = np.float32([row, -row]), np.repeat(np.float32(column)[:, None], 3, 1)
        up = np.float32(2**bits) + np.float32(2 ** (bits - 23)) * (sign > 0)
        wants.append((lhs, rhs, np.float32([[up] * 3, [-up] * 3])))
    for lhs, rhs, want in wants:
        for lanes in LANES:
            same(by_kernel(lhs, rhs, MATRICES, lanes), want)


@built
@pytest.mark.parametrize("exponent", range(-108, -96))
def test_rows_whose_unit_is_near_the_smallest_number(exponent):
    # what is subnormal counts as zero, be it more than half a unit or not
    rng = np.random.default_rng(-exponent)
    lhs = np.ldexp(rng.uniform(1, 2, (9, 40)), exponent).astype(np.float32)
    lhs[:, ::2] = rng.integers(0, 2**23, (9, 20)).astype(np.uint32).view(np.float32)
    lhs[3] = lhs[3] * (np.abs(lhs[3]) < 2.0**-126)
    rhs = np.ldexp(rng.uniform(1, 2, (40, 18)), 100).astype(np.float32)
    want = by_xla(lhs, rhs, MATRICES)
    for lanes in LANES:
        same(by_kernel(lhs, rhs, MATRICES, lanes), want)
        same(by_kernel(lhs.T.copy(), rhs, (((0,), (0,)), ((), ())), lanes), want)
        same(by_kernel(rhs.T.copy(), lhs.T.copy(), MATRICES, lanes), want.T.copy())
        terms_last = ((1,), (1,)), ((), ())
        same(by_kernel(rhs.T[:1].copy(), lhs, terms_last, lanes), want.T[:1].copy())
        same(by_kernel(lhs[3:4], rhs.T.copy(), terms_last, lanes), want[3:4])


@built
@pytest.mark.parametrize("terms", [1, 5, 8, 9, 16, 31, 40, 49, 63, 64, 65])
def test_many_small_matrices_times_vectors(terms):
    # numbers of all sizes, so that results are below the normal range, infinite, NaN and zero too
    rng = np.random.default_rng(terms)
    for columns, edges, spread in itertools.product((1, 7, 8, 27), (0.0, 0.01), (1.0, 40.0)):
        matrices = numbers(rng, (30, columns, terms), edges, spread)
        matrices[::7] = 0
        vectors = numbers(rng, (30, terms), edges, spread)
        dims = ((2,), (1,)), ((0,), (0,))
        want = by_xla(matrices, vectors, dims)
        for lanes in LANES:
            same(by_kernel(matrices, vectors, dims, lanes), want)
            same(by_kernel(ready(matrices, lanes), vectors, dims, lanes, on_grid=True), want)


def rounded_rows(x) -> np.ndarray:
    """Rows of finite numbers on their grids, by the definition."""
    wide = np.where(np.abs(x) < 2.0**-126, 0, x).astype(np.float64)
    unit = 2.0 ** (np.frexp(np.abs(wide).max(1, keepdims=True))[1] - 24)
    return (np.rint(wide / unit) * unit).astype(np.float32)


def has_products_of_columns() -> bool:
    """Whether this processor has the kernel that gains by columns on their grids."""
    return ready(np.array([[1.0, 2.0**-30]], np.float32))[0, 1] == 0


@built
@pytest.mark.parametrize("terms", [1, 7, 8, 9, 24, 49, 63, 64])
def test_rows_are_put_on_their_grids(terms):
    rng = np.random.default_rng(terms)
    for count, spread in itertools.product((1, 3, 8, 1029), (0.1, 3.0, 40.0)):
        found = numbers(rng, (count, terms), spread=spread)
        rows = np.where(np.isinf(found), np.float32(3.4028235e38), found)
        rows[::5, ::3] = EDGES[rng.integers(0, 7, rows[::5, ::3].shape)]  # those that are finite
        got = ready(rows)
        if not has_products_of_columns():
            same(got, rows)
            continue
        same(got + np.float32(0.0), rounded_rows(rows) + np.float32(0.0))
        same(ready(got), got)
        odd = np.where(rng.random(rows.shape) < 0.1, np.float32(-np.inf), rows)
        assert np.array_equal(np.isinf(ready(odd)), np.isinf(odd))
        odd = np.where(rng.random(rows.shape) < 0.1, np.float32(np.nan), odd)
        assert np.array_equal(np.isnan(ready(odd)), np.isnan(odd))


@built
def test_rows_stay_as_they_are_where_nothing_is_gained():
    rows = numbers(np.random.default_rng(2), (30, 49))
    same(ready(rows, 2), rows)
    same(ready(rows, 4), rows)
    same(ready(np.tile(rows, 2)), np.tile(rows, 2))
    same(ready(np.zeros((0, 5), np.float32)), np.zeros((0, 5), np.float32))


@built
@pytest.mark.parametrize("odd", [np.nan, np.inf])
@pytest.mark.parametrize("turned", [False, True])
def test_a_nan_hides_no_large_sum_beside_it(odd, turned):
    # A column of NaN has no sum of squares; that of its neighbours must still be seen, wherever
    # both are among the columns (or rows) of a panel.
    rng = np.random.default_rng(11)
    row, wild = close_to_zero(rng, 1, 128)
    for at, beside in itertools.permutations((0, 4, 5, 8, 23), 2):
        lhs, rhs = np.stack([row] * 2), np.zeros((128, 24), np.float32)
        rhs[0], rhs[5, at], rhs[:, beside] = 1, odd, wild[:, 0]
        if turned:
            lhs, rhs = rhs.T, lhs.T
        want = by_xla(lhs, rhs, MATRICES)
        for lanes in LANES:
            same(by_kernel(lhs, rhs, MATRICES, lanes), want)
            first = ((0,), (0,)), ((), ())
            same(by_kernel(lhs.T.copy(), rhs.copy(), first, lanes), want)


@built
@pytest.mark.parametrize("rows, terms, columns", [(2, 0, 3), (0, 5, 3), (2, 5, 0), (0, 0, 0)])
def test_an_empty_product_is_zeros(rows, terms, columns):
    lhs, rhs = np.ones((rows, terms), np.float32), np.ones((terms, columns), np.float32)
    same(by_kernel(lhs, rhs, MATRICES), np.zeros((rows, columns), np.float32))


@built
@pytest.mark.parametrize("shares", [2, 3, 8, 64])
@pytest.mark.parametrize("rows, terms, columns", [(1, 1000, 1), (1, 5000, 40), (27, 3001, 64)])
def test_a_product_may_be_cut_anywhere(rows, terms, columns, shares):
    rng = np.random.default_rng(terms)
    for edges in (0.0, 0.0002):
        lhs, rhs = numbers(rng, (rows, terms), edges), numbers(rng, (terms, columns), edges)
        lhs[:, terms // 3] *= 2.0**9  # the largest is in one part only
        row, rhs[:, :1] = close_to_zero(rng, 1, terms)
        lhs[0] = row
        want = by_xla(lhs, rhs, MATRICES)
        same(by_kernel(lhs, rhs, MATRICES, 16, shares), want)
        turned = ((0,), (1,)), ((), ())
        for lanes in LANES:
            same(by_kernel(lhs.T.copy(), rhs.T.copy(), turned, lanes, shares), want)
    stacked = np.stack([lhs, -lhs]), np.stack([rhs, rhs])
    dims = ((2,), (1,)), ((0,), (0,))
    same(by_kernel(*stacked, dims, 16, shares), by_xla(*stacked, dims))


@built
@pytest.mark.parametrize("terms", [2**15, 2**17, 2**17 + 1, 2**18 + 3])
def test_a_product_of_more_terms_than_a_word_holds_equals_the_definition(terms):
    rng = np.random.default_rng(4)
    lhs, rhs = numbers(rng, (3, terms)), numbers(rng, (terms, 9))
    lhs[0] = rhs[:, 0] = np.nextafter(np.float32(2), np.float32(0))
    want = by_xla(lhs, rhs, MATRICES)
    same(by_kernel(lhs, rhs, MATRICES), want)
    assert want[0, 0] == np.float32(float(Fraction(float(lhs[0, 0])) ** 2 * terms))


@built
@pytest.mark.parametrize("lanes", LANES)
def test_the_reference_agrees(lanes):
    rng = np.random.default_rng(7)
    lhs, rhs = numbers(rng, (3, 9, 140), 0.01, 20.0), numbers(rng, (3, 140, 6), 0.01, 20.0)
    dims = ((2,), (1,)), ((0,), (0,))
    same(by_kernel(lhs, rhs, dims, lanes), reference(jnp.matmul)(lhs, rhs))


@built
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("columns", [2, 17])
def test_results_below_the_normal_range(lanes, columns):
    # 2^-126 - 2^-151 lies half way between the last number below 2^-126 and 2^-126, which is even:
    # kept. 2^-126 - 2^-150 is a number of 24 bits below 2^-126: zero, and +0 whatever its sign.
    def one(left, right):
        rhs = np.repeat(np.float32(right)[:, None], columns, 1)
        rows = np.float32([left, np.negative(left)])
        return by_kernel(rows, rhs, MATRICES, lanes)[:, 0].view(np.uint32)

    kept = one([2.0**-63, -(2.0**-75)], [2.0**-63, 2.0**-76])
    assert list(kept) == [0x00800000, 0x80800000]
    gone = one([2.0**-63, -(2.0**-75)], [2.0**-63, 2.0**-75])
    assert list(gone) == [0, 0]
    assert list(one([1.0, 0.0], [0.0, 5.0])) == [0, 0]
    assert list(one([2.0**-126, 0.0], [2.0**127, 1.0])) == [0x40000000, 0xC0000000]
    assert list(one([2.0**100, 2.0**100], [2.0**100, 0.0])) == [0x7F800000, 0xFF800000]


@built
def test_subnormal_operands_count_as_zeros():
    lhs = np.full((2, 3), 2.0**-127, np.float32)
    rhs = np.full((3, 20), 2.0**126, np.float32)
    assert by_kernel(lhs, rhs, MATRICES).tobytes() == bytes(160)


@built
@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0), (1, 2), (2, None), (None, 1)])
def test_mapped_products_are_the_products(axes):
    rng = np.random.default_rng(11)
    lhs, rhs = numbers(rng, (4, 5, 20)), numbers(rng, (20, 9))
    left = lhs if axes[0] is None else np.moveaxis(np.stack([lhs, -lhs, lhs * 3]), 0, axes[0])
    right = rhs if axes[1] is None else np.stack([rhs, rhs * 7, -rhs], axes[1])
    dims = ((2,), (0,)), ((), ())

    def call(a, b):
        how = {"dimension_numbers": dims, "on_grid": False}
        return product.product_p.bind(a, b, *opaque_scalars(), **how)

    with jax.enable_x64(True):
        got = np.asarray(jax.jit(jax.vmap(call, in_axes=axes))(left, right))
    for i in range(3):
        a = lhs if axes[0] is None else np.take(left, i, axes[0])
        b = rhs if axes[1] is None else np.take(right, i, axes[1])
        same(got[i], by_xla(a, b, dims))


def integers(size):
    """A matrix that is made inside, by integers: what does not depend on a mapped input."""
    rows, columns = (lax.broadcasted_iota(jnp.int32, (size, size), axis) for axis in (0, 1))
    bits = rows * 9999 + columns * 65536 + 0x3F000000
    return lax.bitcast_convert_type(bits, jnp.float32)


@built
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x + integers(32).T @ integers(32),
        lambda x: x + jnp.sum(integers(32), 0),
        lambda x: x + jnp.sum(x, 0) + x @ integers(32),
    ],
    ids=["product of what is not mapped", "sum of it", "of what is"],
)
@pytest.mark.parametrize("count", [3, 32])
def test_a_mapped_condition_maps_the_scalars_of_its_branches(fn, count):
    def either(flag, x):
        return lax.cond(flag, fn, lambda x: x, x)

    flags = np.arange(count) % 2 == 0
    x = np.random.default_rng(14).normal(size=(count, 32, 32)).astype(np.float32)
    want = reference(jax.vmap(either))(flags, x)
    mapped = jax.jit(jax.vmap(exact(either)))
    same(mapped(flags, x), want)
    same(jax.export.export(mapped)(flags, x).call(flags, x), want)
    same(exact(jax.vmap(either))(flags, x), want)


def sum_by_kernel(x, axes, lanes=axis_sum.LANES) -> np.ndarray:
    """The sum by the kernel."""
    return np.asarray(jax.jit(lambda a: axis_sum.by_kernel(a, axes=axes, lanes=lanes))(x))


def sum_by_xla(x, axes) -> np.ndarray:
    """The sum in XLA's operations."""
    with jax.enable_x64(True):
        call = jax.jit(lambda a: axis_sum.portable(a, *opaque_scalars(), axes=axes))
        return np.asarray(call(x))


@built
@pytest.mark.parametrize("seed", range(6))
def test_sums_along_any_axes_equal_the_definition(seed):
    rng = np.random.default_rng(seed)
    for _ in range(5):
        shape = [int(n) for n in rng.choice([1, 2, 5, 8, 9, 31, 33, 70], rng.integers(1, 4))]
        count = int(rng.integers(0, len(shape) + 1))
        axes = tuple(int(a) for a in rng.permutation(len(shape))[:count])
        x = numbers(rng, shape, rng.choice([0, 0.01, 0.3]), rng.choice([1.0, 7.0, 20.0]))
        want = sum_by_xla(x, axes)
        for lanes in LANES:
            same(sum_by_kernel(x, axes, lanes), want)
        same(want, reference(lambda a, axes=axes: jnp.sum(a, axes))(x))


@built
@pytest.mark.parametrize("shape, axes", [((2, 2**20 + 77), (1,)), ((2**20 + 77, 3), (0,))])
def test_sums_of_more_terms_than_a_word_holds_equal_the_definition(shape, axes):
    x = numbers(np.random.default_rng(9), shape, spread=1.0)
    want = sum_by_xla(x, axes)
    for lanes in LANES:
        same(sum_by_kernel(x, axes, lanes), want)


@built
def test_sums_below_the_normal_range_and_of_subnormal_numbers():
    rows = np.zeros((3, 40), np.float32)
    rows[0, :2] = 2.0**-126 * -1.25, 2.0**-126  # -2^-128: below, +0
    rows[1] = 2.0**-127  # subnormal: zeros
    rows[2, :2] = -(2.0**-126), 2.0**-126 * 1.5
    for lanes in LANES:
        assert list(sum_by_kernel(rows, (1,), lanes).view(np.uint32)) == [0, 0, 0]
    assert sum_by_xla(rows, (1,)).tobytes() == bytes(12)


@built
def test_mapped_sums_are_the_sums():
    x = numbers(np.random.default_rng(12), (4, 50, 40), 0.01)

    def total(row):
        return axis_sum.sum_p.bind(row, *opaque_scalars(), axes=(0,))

    with jax.enable_x64(True):
        for axis in (0, 1, 2):
            got = np.asarray(jax.jit(jax.vmap(total, in_axes=axis))(x))
            for i in range(x.shape[axis]):
                same(got[i], sum_by_xla(np.take(x, i, axis), (0,)))


@built
def test_an_exported_sum_needs_no_kernel():
    x = numbers(np.random.default_rng(13), (60, 50), 0.01)
    fn = jax.jit(exact(lambda a: jnp.sum(a.T, 1)))
    assert "rlkjax_sum" in fn.lower(x).as_text()
    exported = jax.export.export(fn, platforms=["cpu"])(x)
    assert "rlkjax_sum" not in exported.mlir_module()
    same(exported.call(x), fn(x))


@built
def test_an_operand_is_read_where_it_lies():
    program = jax.jit(exact(lambda x, y: x.T @ y))
    text = program.lower(jnp.ones((40, 8)), jnp.ones((40, 16))).compile().as_text()
    assert "rlkjax_product" in text and "transpose(" not in text and "fusion" not in text
    rng = np.random.default_rng(3)
    cube, other = numbers(rng, (3, 8, 20), 0.05), numbers(rng, (20, 30), 0.05)
    for fn in (
        lambda a, b: jnp.einsum("abk,kc->bac", a, b),
        lambda a, b: jnp.transpose(a, (1, 0, 2)) @ b,
        lambda a, b: b.T @ jnp.transpose(a, (2, 1, 0)).reshape(20, -1),
    ):
        same(exact(fn)(cube, other), reference(fn)(cube, other))


@built
def test_an_exported_product_needs_no_kernel():
    rng = np.random.default_rng(5)
    lhs, rhs = numbers(rng, (40, 30), 0.02), numbers(rng, (30, 20), 0.02)
    assert "rlkjax_product" in jax.jit(exact(jnp.matmul)).lower(lhs, rhs).as_text()
    exported = jax.export.export(jax.jit(exact(jnp.matmul)), platforms=["cpu"])(lhs, rhs)
    assert "rlkjax_product" not in exported.mlir_module()
    same(exported.call(lhs, rhs), exact(jnp.matmul)(lhs, rhs))


@built
def test_products_of_several_threads_do_not_meet():
    rng = np.random.default_rng(6)
    pairs = [(numbers(rng, (300, 200)), numbers(rng, (200, 100))) for _ in range(4)]
    call = jax.jit(lambda a, b: product.by_kernel(a, b, dimension_numbers=MATRICES))
    want = [by_xla(a, b, MATRICES) for a, b in pairs]
    wrong = []

    def work(number):
        for _ in range(30):
            if np.asarray(call(*pairs[number])).tobytes() != want[number].tobytes():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(pairs))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert wrong == []


PROCESS = """
import jax.numpy as jnp, numpy as np, jax
from rlkjax.exact.transform import exact
rng = np.random.default_rng(8)
x, y = (rng.normal(size=(90, 90)).astype(np.float32) for _ in range(2))
program = jax.jit(exact(jnp.matmul))
print("rlkjax_product" in program.lower(x, y).as_text(), np.asarray(program(x, y)).tobytes().hex())
"""


@built
def test_a_process_without_kernels_has_the_same_bits():
    said = {}
    for value in ("", "off"):
        done = subprocess.run(
            [sys.executable, "-c", PROCESS],
            env={**os.environ, "RLKJAX_KERNELS": value},
            capture_output=True,
            text=True,
            check=True,
        )
        said[value] = done.stdout.split()
    assert (said[""][0], said["off"][0]) == ("True", "False")
    assert said[""][1] == said["off"][1]


@built
@pytest.mark.slow
def test_runs_with_and_without_kernels_write_one_chain(tmp_path, small):
    said = {}
    for value in ("", "off"):
        command = [sys.executable, "-m", "rlkjax.train", "--config", str(small)]
        command += ["--set", "numerics=exact", "--set", "network.policy_hidden=[40]"]
        done = subprocess.run(
            [*command, "--run-dir", str(tmp_path / f"run{value}")],
            env={**os.environ, "RLKJAX_KERNELS": value},
            capture_output=True,
            text=True,
            check=True,
        )
        said[value] = [line for line in done.stdout.splitlines() if line.startswith("chain ")]
    assert said[""] == said["off"] and len(said[""]) == 1


def test_small_and_empty_products_stay_with_xla(monkeypatch):
    assert not product.worth_a_kernel(jnp.ones((4, 3)), jnp.ones((3, 4)), MATRICES)
    assert not product.worth_a_kernel(jnp.ones((0, 30)), jnp.ones((30, 40)), MATRICES)
    assert product.worth_a_kernel(jnp.ones((8, 30)), jnp.ones((30, 40)), MATRICES)
    assert not axis_sum.worth_a_kernel(jnp.ones((50, 0)), (0,))
    assert not axis_sum.worth_a_kernel(jnp.ones((8, 50)), (0,))
    assert axis_sum.worth_a_kernel(jnp.ones((50, 40)), (0,))
    monkeypatch.setattr(library, "loaded", lambda: False)
    x = np.linspace(-1, 1, 900, dtype=np.float32).reshape(30, 30)
    assert "rlkjax_product" not in jax.jit(exact(lambda a: a @ a)).lower(x).as_text()


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """The sources in a folder of their own, with no library yet."""
    for source in library.SOURCES:
        (tmp_path / source.name).write_bytes(source.read_bytes())
    monkeypatch.setattr(library, "HERE", tmp_path)
    monkeypatch.setattr(library, "loaded", library.loaded.__wrapped__)
    return tmp_path


def test_without_a_compiler_the_command_says_what_to_do(elsewhere, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(MachineError, match="got no-such-compiler, want one that knows C.*install"):
        kernels.main([])
    assert not library.loaded()


@pytest.mark.parametrize(
    "script, said",
    [
        ("exit 7", "do not compile: .* made nothing of use .status 7"),
        ("exit 0", "do not compile: .* made nothing of use"),
        ('while [ "$1" != -o ]; do shift; done; : > "$2"', "do not load: .* made nothing of use"),
        ("printf '\\377' >&2; exit 1", "do not compile"),
        (None, "cannot be run: .*; set CXX"),
    ],
)
def test_a_compiler_that_makes_nothing_leaves_nothing_behind(
    elsewhere, tmp_path, monkeypatch, script, said
):
    command = tmp_path / "cxx"
    command.write_text(f"#!/bin/sh\n{script}\n" if script else "no program")
    command.chmod(0o755)
    if script is None:
        command.write_bytes(b"\x7fELF broken")
    monkeypatch.setenv("CXX", str(command))
    with pytest.raises(MachineError, match=said):
        library.build()
    assert list(elsewhere.glob("*.so")) == [] and library.path() is None


@pytest.mark.skipif(not shutil.which("c++"), reason="no C++ compiler")
def test_a_library_that_is_cut_is_said_left_out_and_built_again(elsewhere, monkeypatch):
    monkeypatch.setenv("CXX", "  ")
    whole = library.build()
    there = whole.read_bytes()
    for size in (0, 10, 4096, len(there) - 100):
        whole.write_bytes(there[:size])
        with pytest.warns(RuntimeWarning, match="has not the bytes that were built.* Build"):
            assert not library.loaded()
        assert "has not the bytes" in library.why_not()
    assert library.is_whole(library.build()) and library.why_not() == ""
    assert library.build(again=True).exists() and len(list(elsewhere.glob("*.so"))) == 1


def test_only_off_turns_kernels_off(elsewhere, monkeypatch):
    monkeypatch.setenv("RLKJAX_KERNELS", "0")
    with pytest.raises(InputError, match="RLKJAX_KERNELS=0: want off"):
        library.loaded()
    monkeypatch.setenv("RLKJAX_KERNELS", "off")
    assert library.why_not() == "RLKJAX_KERNELS=off"
    monkeypatch.delenv("RLKJAX_KERNELS")
    assert library.why_not().startswith("not built")


def test_sharded_types_and_programs_one_by_one_need_no_kernel():
    x, v = np.linspace(-1, 1, 40 * 48, dtype=np.float32).reshape(40, 48), np.ones(48, np.float32)
    want = np.asarray(exact(jnp.matmul)(x, v))
    with jax.disable_jit():
        same(exact(lambda a, b: a @ b)(x, v), want)
    mesh = jax.make_mesh((1, 1), ("d", "t"), axis_types=(AxisType.Explicit,) * 2)
    with jax.set_mesh(mesh):
        left = jax.device_put(x, NamedSharding(mesh, P("d")))
        right = jax.device_put(np.ones((48, 8), np.float32), NamedSharding(mesh, P(None, "t")))
        same(exact(lambda a, b: a @ b)(left, v), want)
        shape = jax.eval_shape(exact(lambda a, b: a @ b), left, right)
        assert shape.sharding.spec == P("d", "t")
        assert jax.eval_shape(exact(lambda a: a.sum(1)), left).sharding.spec == P("d")


def test_other_sources_are_another_library(elsewhere, monkeypatch):
    before = library.key()
    changed = elsewhere / "grid.h"
    changed.write_text(changed.read_text() + "// changed\n")
    monkeypatch.setattr(library, "SOURCES", sorted(elsewhere.glob("*.[hc]*")))
    assert library.key() != before
