"""exact(fn): composes with JAX, rounds products and sums apart, refuses what it cannot define."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from rlkjax.exact.errors import (
    ExactError,
    UnsupportedArgumentError,
    UnsupportedDerivativeError,
    UnsupportedDtypeError,
    UnsupportedPrimitiveError,
)
from rlkjax.exact.reference import reference
from rlkjax.exact.transform import exact


def bits(x) -> bytes:
    """The bytes of an array."""
    return np.asarray(x).tobytes()


def numbers(seed: int, *shape: int) -> np.ndarray:
    """Standard normal numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("size", [1, 3, 8, 17, 256, 4099, 100_000])
def test_product_and_sum_are_rounded_apart(size):
    a, b, c = numbers(1, size), numbers(2, size), numbers(3, size)
    got = exact(lambda a, b, c: a * b + c)(a, b, c)
    assert bits(got) == bits(a * b + c)
    assert bits(exact(lambda a, b, c: c - a * b)(a, b, c)) == bits(c - a * b)


def test_a_literal_zero_keeps_its_meaning():
    x = np.float32([-0.0, 0.0, 1.0])
    assert bits(exact(lambda x: x + 0.0)(x)) == bits(np.float32([0.0, 0.0, 1.0]))
    assert bits(exact(lambda x: x * 1.0)(x)) == bits(x)
    assert bits(exact(lambda x: 0.0 - x)(x)) == bits(np.float32([0.0, 0.0, -1.0]))


def test_literals_are_not_combined():
    x = numbers(4, 1000)
    got = exact(lambda x: ((x + 1e8) - 1e8, (x * 3.0) * 0.1, x / 3.0))(x)
    f = np.float32
    for a, b in zip(got, ((x + f(1e8)) - f(1e8), (x * f(3)) * f(0.1), x / f(3)), strict=True):
        assert bits(a) == bits(b)


def test_same_bits_under_jit_vmap_scan_and_export():
    def fn(x):
        return jnp.tanh(x) / jnp.sum(x * x + 0.1)

    rows = numbers(5, 6, 33)
    want = [bits(exact(fn)(row)) for row in rows]
    mapped = jax.vmap(exact(fn))(rows)
    outside = exact(jax.vmap(fn))(rows)
    _, scanned = jax.jit(lambda rows: lax.scan(lambda c, r: (c, exact(fn)(r)), 0, rows))(rows)
    exported = jax.export.export(jax.jit(exact(fn)))(rows[0])
    for i, row in enumerate(want):
        assert bits(mapped[i]) == bits(outside[i]) == bits(scanned[i]) == row
        assert bits(exported.call(rows[i])) == bits(jax.jit(exact(fn))(rows[i])) == row


def test_keeps_trees_keywords_and_types():
    def fn(pair, *, scale):
        return {"sum": pair[0] * scale, "count": jnp.sum(pair[1]), "flag": pair[1] > 1}

    got = exact(fn)((jnp.ones(3), jnp.arange(3)), scale=2.0)
    assert got["sum"].dtype == jnp.float32 and got["count"].dtype == jnp.int32
    assert got["flag"].dtype == jnp.bool_ and got["count"] == 3
    assert exact(fn).__name__ == "fn"


def test_traces_once_for_one_shape():
    calls = []

    def fn(x):
        calls.append(1)
        return x * 2.0

    program = exact(fn)
    for _ in range(3):
        program(jnp.ones(4))
    assert len(calls) == 1


def test_subnormal_numbers_are_zeros_and_nan_has_one_pattern():
    x = np.uint32([0x00000001, 0x80000001, 0x007FFFFF, 0xFFC12345, 0x7F812345]).view(np.float32)
    got = np.asarray(exact(lambda x: (x, -x))(x)[0]).view(np.uint32)
    assert got.tolist() == [0, 0x80000000, 0, 0x7FC00000, 0x7FC00000]


def test_float_to_integer_is_clamped():
    x = np.float32([np.nan, np.inf, -np.inf, 3e9, -3e9, 2.9, -2.9])
    got = exact(lambda x: (x.astype(jnp.int32), x.astype(jnp.uint8)))(x)
    assert got[0].tolist() == [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 2, -2]
    assert got[1].tolist() == [0, 255, 0, 255, 0, 2, 0]


def test_large_unsigned_numbers_are_rounded_once():
    # 2^31 + 129 lies just above the middle of 2^31 and 2^31 + 256
    x = np.uint32([2**31 + 129, 2**31 + 128, 2**32 - 1])
    want = np.float32([2.0**31 + 256, 2.0**31, 2.0**32])
    assert bits(exact(lambda x: x.astype(jnp.float32))(x)) == bits(want)


def test_primitive_without_rule_is_named_with_the_users_line():
    with pytest.raises(UnsupportedPrimitiveError, match=r"'digamma' at .*test_transform\.py:\d+"):
        exact(lambda x: jax.scipy.special.digamma(x) + 1.0)(jnp.ones(3))
    with pytest.raises(UnsupportedPrimitiveError, match=r"test_transform\.py.*callback has no def"):
        exact(lambda x: jax.pure_callback(np.sin, x, x))(jnp.ones(3))


def test_other_floats_are_refused_with_the_reason():
    with pytest.raises(UnsupportedDtypeError, match="holds float16.*float32 results only"):
        exact(lambda x: x.astype(jnp.float16) * 2)(jnp.ones(3))
    with pytest.raises(
        UnsupportedDtypeError, match=r"argument 0 of .*test_transform.* holds float64"
    ):
        exact(jnp.sin)(np.ones(3))


def test_arguments_that_are_no_arrays_are_refused():
    with pytest.raises(UnsupportedArgumentError, match="is str, want an array; bind it with"):
        exact(lambda x, mode: x)(jnp.ones(3), "fast")
    assert exact(functools.partial(lambda mode, x: x, "fast"))(jnp.ones(3)).shape == (3,)


def test_results_that_are_no_arrays_are_refused():
    with pytest.raises(ExactError, match="returns .*, want arrays"):
        exact(lambda x: (x, "note"))(jnp.ones(3))


def test_other_generators_are_refused():
    key = jax.random.key(0, impl="rbg")
    with pytest.raises(UnsupportedDtypeError, match="key<rbg>.*threefry"):
        exact(lambda k: jax.random.normal(k, (2,)))(key)


def test_strict_promotion_and_rank_rules_hold_inside():
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        x = numbers(6, 5, 5)
        got = exact(lambda x: jnp.linalg.cholesky(jnp.dot(x, x.T)) + jnp.power(x, x))(x)
    assert got.shape == (5, 5)


def test_a_program_without_inputs_is_not_folded_by_the_compiler():
    def fn():
        x, y = (jax.random.normal(jax.random.key(i), (4099,)) for i in (3, 4))
        return x * y + x, (x + 1e8) - 1e8, jnp.zeros(0).sum()

    want = reference(fn)()
    for program in (exact(fn), jax.jit(exact(fn))):
        for a, b in zip(program(), want, strict=True):
            assert bits(a) == bits(b)


def test_inputs_that_are_constants_of_a_surrounding_jit_change_nothing():
    def fn(first, x, y):
        return jnp.tanh(x * y + x) * y + first + jnp.exp(x) * y - x / y

    x, y, nothing = numbers(8, 4099), numbers(9, 4099), np.zeros(4099, np.float32)
    want = bits(exact(fn)(nothing, x, y))
    assert bits(reference(fn)(nothing, x, y)) == want
    partly = (
        lambda x, y: exact(fn)(jnp.zeros(4099), x, y),
        lambda x, y: exact(fn)(nothing, x, y),
        lambda x, y: exact(fn)(jnp.where(jnp.arange(4099) < 4000, 0.0, 0.0 * x), x, y),
    )
    for program in partly:
        assert bits(jax.jit(program)(x, y)) == want
    assert bits(jax.jit(lambda: exact(fn)(nothing, x, y))()) == want


@pytest.mark.parametrize("precision", ["bfloat16", "F32_F32_F32", "BF16_BF16_F32", "highest"])
def test_the_precision_that_is_set_for_products_counts_for_nothing(precision):
    def fn(x):
        whole = x.astype(jnp.int32)
        return x @ x.T, jnp.sum(x, 1), jax.nn.softmax(x), whole @ whole.T

    x = numbers(10, 16, 300)
    want = reference(fn)(x)
    with jax.default_matmul_precision(precision):
        got = exact(fn)(x)
    assert [bits(a) for a in got] == [bits(b) for b in want]


def test_a_mapped_exact_function_adds_over_its_rows():
    x = numbers(11, 8, 300)
    got = jax.vmap(exact(lambda r: lax.psum((r @ r, r.sum()), "i")), axis_name="i")(x)
    want = exact(lambda x: (x.reshape(-1) @ x.reshape(-1), x.sum()))(x)
    for a, b in zip(got, want, strict=True):
        assert bits(a) == bits(np.full(8, b))


def test_a_matrix_that_is_not_positive_definite_has_no_root():
    for matrix in ([[1, 2], [2, 4]], [[1, 2], [2, 3]], [[0, 0], [0, 1]]):
        got = np.asarray(exact(jnp.linalg.cholesky)(np.float32(matrix)))
        assert np.isnan(got[np.tril_indices(2)]).all() and got[0, 1] == 0


def test_a_kept_function_stays_in_the_lowered_program_with_the_same_bits():
    @jax.jit
    def forward(x):
        return jnp.tanh(x) * 0.5 + x

    def fn(x):
        return lax.scan(lambda c, row: (c, forward(row)), 0.0, x)[1]

    x = numbers(7, 4, 9)
    kept = jax.jit(exact(fn, kept=("forward",)))
    assert "@forward(" in kept.lower(x).as_text()
    assert "@forward(" not in jax.jit(exact(fn)).lower(x).as_text()
    assert bits(kept(x)) == bits(exact(fn)(x))


def test_a_value_is_used_inside_a_loop_or_a_branch_and_outside():
    def fn(x, w):
        x, w = x * 2.0 + 1.0, w - 0.5 * x.sum()
        c, _ = lax.scan(lambda c, _: (jnp.tanh(c + (x @ w).sum()), x.sum()), 0.0, None, length=3)
        y = lax.cond(x[0, 0] > 0, lambda v: (v @ w).sum(), lambda v: v.sum(), x)
        z = lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, s[1] + (x @ w)[0, 0]), (0, y))
        return c + y + z[1] + (x @ w).sum() + x.sum()

    args = numbers(8, 4, 3), numbers(9, 3, 2)
    assert bits(exact(fn)(*args)) == bits(jax.jit(exact(fn))(*args)) == bits(reference(fn)(*args))


@pytest.mark.parametrize(
    "differentiate",
    [
        lambda f: jax.grad(f)(1.0),
        lambda f: jax.jvp(f, (1.0,), (1.0,)),
        lambda f: jax.jit(jax.grad(lambda x: f(x) + x))(1.0),
    ],
)
def test_a_derivative_of_an_exact_function_is_refused(differentiate):
    with pytest.raises(UnsupportedDerivativeError, match=r"want exact outermost: exact\(jax.grad"):
        differentiate(exact(jnp.sin))


def test_exact_inside_exact_is_refused():
    with pytest.raises(UnsupportedArgumentError, match="inside another exact function"):
        exact(lambda x: exact(jnp.sin)(x))(1.0)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: lax.scan(lambda c, r: (c + jnp.sum(r), jnp.sum(x)), 0.0, x),
        lambda x: lax.cond(x[0, 0] > 0, lambda v: jnp.tanh(v) @ v.T, lambda v: v @ v.T, x),
        lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] @ x), (0, x)),
    ],
)
def test_no_tracer_outlives_its_trace(fn):
    with jax.check_tracer_leaks(True):
        exact(fn)(np.ones((3, 3), np.float32))


def test_crossed_bounds_of_a_clamp():
    # min(max(1, x), -1) is -1 for every number.
    fn = lambda x: lax.clamp(np.float32(1), x, np.float32(-1))  # noqa: E731
    x = np.float32([0, -0.0, 1, -1, np.inf, -np.inf])
    assert np.asarray(exact(fn)(x)).tolist() == [-1.0] * 6
    assert np.asarray(reference(fn)(x)).tobytes() == np.asarray(exact(fn)(x)).tobytes()


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)])
@pytest.mark.parametrize(
    "fn",
    [
        jnp.linalg.cholesky,
        lax.linalg.lu,
        lambda a: lax.linalg.qr(a, full_matrices=False),
        lambda a: lax.linalg.triangular_solve(a, a, left_side=True, lower=True),
    ],
)
def test_matrices_of_nothing(fn, shape):
    x = np.zeros(shape, np.float32)
    got, want = exact(fn)(x), reference(fn)(x)
    pairs = list(zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True))
    assert [(np.shape(g), np.shape(w)) for g, w in pairs] == [
        (e.shape, e.shape) for e in jax.tree.leaves(jax.eval_shape(fn, x))
    ]


def test_rows_of_a_scan_are_flushed_and_finished_wherever_that_is_done():
    odd = np.uint32([0x00000001, 0x807FFFFF, 0x7FC12345, 0xFF812345, 0x80000000, 0x3F800000])
    rows = np.stack([odd.view(np.float32), np.roll(odd, 1).view(np.float32)])

    def program(rows):
        last, copies = lax.scan(lambda c, row: (row, (row, row + c)), rows[1], rows, reverse=True)
        return last, copies, rows, copies[0] + rows

    got, want = exact(program)(rows), reference(program)(rows)
    assert [bits(x) for x in jax.tree.leaves(got)] == [bits(x) for x in jax.tree.leaves(want)]
    flushed = np.uint32([0, 0x80000000, 0x7FC00000, 0x7FC00000, 0x80000000, 0x3F800000])
    assert bits(got[1][0][0]) == flushed.tobytes()
