"""Sums over microbatches: the bits of one batch, for every cut."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from device_programs import edged, embedded_loss, network, wide
from jax import lax

from rlkjax.exact import named
from rlkjax.exact.errors import UnsupportedArgumentError, UnsupportedControlFlowError
from rlkjax.exact.reference import reference
from rlkjax.exact.transform import exact

ROWS = 96
CUTS = (1, 2, 3, 8, 96)


def bits(tree) -> bytes:
    """The bytes of every leaf."""
    return b"".join(np.asarray(x).tobytes() for x in jax.tree.leaves(tree))


def cut(fn, count: int):
    """`fn` of rows, in `count` microbatches."""

    def whole(*rows):
        return named.accumulate(
            lambda part: fn(*part), [x.reshape(count, -1, *x.shape[1:]) for x in rows]
        )

    return whole


def gradients(params, tokens, target):
    """Loss, gradients, and a count in integers."""
    found = jax.value_and_grad(embedded_loss)(params, tokens, target)
    return found, jnp.sum(tokens > 4, dtype=jnp.int32)


def in_microbatches(count: int):
    """The same in microbatches."""

    def fn(params, tokens, target):
        return cut(functools.partial(gradients, params), count)(tokens, target)

    return fn


@pytest.mark.parametrize("count", [1, 2, 4, 8])
@pytest.mark.parametrize("rows", [2**15, 2**16, 2**17])
def test_the_largest_sums_do_not_depend_on_the_cut(rows, count):
    # nearly 2^48 units a product, with one sign: a part alone does not fit 63 bits
    x = np.full((rows, 2), np.nextafter(np.float32(2), np.float32(0)), np.float32)

    def moments(x):
        return x.T @ x

    want = np.full((2, 2), np.float32(float(x[0, 0]) ** 2 * rows))
    assert bits(exact(cut(moments, count))(x)) == bits(exact(moments)(x)) == bits(want)


@pytest.mark.parametrize("count", CUTS)
def test_a_gradient_does_not_depend_on_the_cut(count):
    args, fn = network(ROWS), in_microbatches(count)
    want = bits(exact(gradients)(*args))
    assert bits(exact(fn)(*args)) == want
    assert bits(jax.jit(exact(fn))(*args)) == want
    assert bits(reference(fn)(*args)) == want


def test_plain_jax_has_other_bits_for_another_cut():
    assert len({bits(jax.jit(in_microbatches(n))(*network(ROWS))) for n in CUTS}) > 1


@pytest.mark.parametrize("count", [2, 4, 24])
def test_edge_values_count_as_in_one_batch(count):
    x, y = edged(1, 48, 9), wide(2, 48, 9)

    def sums(x, y):
        index = jnp.arange(x.shape[0]) % 3
        scattered = jnp.zeros((3, 9)).at[index * 0].add(x)
        return jnp.sum(x, 0), (x.T @ y).T, jnp.sum(x[:, :1].reshape(1, -1), 1), scattered

    want = exact(sums)(x, y)
    assert bits(exact(cut(sums, count))(x, y)) == bits(want)
    assert bits(reference(cut(sums, count))(x, y)) == bits(want)


@pytest.mark.parametrize("wrap", [lambda fn: fn, jax.jit])
@pytest.mark.parametrize("count", [2, 8, 96])
def test_a_mean_over_the_rows_of_a_mask_does_not_depend_on_the_cut(count, wrap):
    params, _, target = network(ROWS)
    mask = np.arange(ROWS) % 3 > 0

    @wrap
    def loss(head, rows, target, mask):
        upper, lower = jnp.split(head, 2)
        rest = jnp.tanh(target * head[0] + jnp.sum(target[:, None] * upper, 1)) - target @ lower[:5]
        return jnp.sum(jnp.where(mask[:, None], rest * rest, 0.0)) / rows

    def whole(head, target, mask):
        return jax.value_and_grad(loss)(head, jnp.sum(mask).astype(jnp.float32), target, mask)

    def parts(head, target, mask):
        rows = jnp.sum(mask).astype(jnp.float32)
        return cut(lambda t, m: jax.value_and_grad(loss)(head, rows, t, m), count)(target, mask)

    want = bits(exact(whole)(params["head"], target, mask))
    assert bits(exact(parts)(params["head"], target, mask)) == want
    assert bits(reference(parts)(params["head"], target, mask)) == want


def test_microbatches_of_one_row_add_the_rows_and_not_what_is_in_them():
    x = (10.0 ** np.array([8, -8, 8, -8]))[:, None].astype(np.float32) * np.ones((4, 3), np.float32)
    z = np.random.default_rng(11).normal(size=(8, 5)).astype(np.float32)

    def dots(x, y):
        return jnp.sum(jax.vmap(jnp.dot)(x, y)), jnp.sum(jax.vmap(jax.grad(jnp.dot))(x, y), 0)

    def twice(z):
        return jnp.sum(jnp.sum(jnp.tanh(z), -1)), jnp.sum(jnp.sum(z, 0, keepdims=True), 0)

    for fn, args, counts in ((dots, (x, 1 / x), (1, 2, 4)), (twice, (z,), (1, 2, 4, 8))):
        want = bits(exact(fn)(*args))
        for count in counts:
            assert bits(exact(cut(fn, count))(*args)) == want
            assert bits(reference(cut(fn, count))(*args)) == want
    assert abs(float(exact(cut(dots, 4))(x, 1 / x)[0]) - 12) < 1e-5


def test_arrays_of_the_surroundings_and_no_traced_value():
    w, x = jnp.asarray(wide(12, 5, 3)), wide(13, 4, 2, 5)
    for transform in (exact, reference):
        got = transform(lambda x: named.accumulate(lambda part: jnp.sum(part @ w, 0), x))(x)
        assert bits(got) == bits(exact(lambda x: jnp.sum(x.reshape(-1, 5) @ w, 0))(x))


MOVED = {
    "flip": lambda x: jnp.flip(jnp.sum(x, 0)),
    "call": lambda x: jax.jit(lambda s: -s.reshape(2, -1) * 0.5)(jnp.sum(x, 0)),
    "parameter": lambda x: jax.vmap(lambda c: jax.grad(lambda b: jnp.sum(jnp.tanh(c * b)))(0.5), 1)(
        x
    ),
}


@pytest.mark.parametrize("name", sorted(MOVED))
def test_what_only_moves_a_sum_keeps_it_joined(name):
    x = np.random.default_rng(14).normal(size=(48, 40)).astype(np.float32)
    want = bits(exact(MOVED[name])(x))
    for count in (3, 6):
        assert bits(exact(cut(MOVED[name], count))(x)) == want
        assert bits(reference(cut(MOVED[name], count))(x)) == want


def test_microbatches_that_a_derivative_does_not_read():
    fn = jax.value_and_grad(lambda x: jnp.sum(x * named.accumulate(lambda part: 2.0, x)))
    x = wide(15, 4, 5)
    assert bits(exact(fn)(x)) == bits(reference(fn)(x))


def test_what_ends_in_no_sum_counts_as_one_number_a_microbatch():
    x = edged(3, 40, 6)
    want = exact(lambda x: jnp.sum(jnp.tanh(x) * 3.0, 0))(x)
    each = exact(lambda x: named.accumulate(lambda row: jnp.tanh(row) * 3.0, x))
    assert bits(each(x)) == bits(want)
    twice = exact(lambda x: named.accumulate(lambda row: (jnp.sum(row),) * 2, x))(x[:, :, None])
    assert bits(twice[0]) == bits(twice[1])


@pytest.mark.parametrize(("rows", "count"), [(2**18, 4), (2**18 + 2, 2)])
def test_long_sums_and_products_go_on_in_integers(rows, count):
    x, y = wide(4, rows, 3), wide(5, rows, 2)

    def fn(x, y):
        return x.T @ y, jnp.sum(jnp.concatenate([x, x * 0.5, y, y * 0.25, x], 1), 0)

    assert bits(exact(cut(fn, count))(x, y)) == bits(exact(fn)(x, y))


def test_microbatches_of_no_rows_add_up_to_plus_zero():
    def fn(x, y):
        cells = jnp.zeros((2, 3)).at[jnp.zeros(len(x), jnp.int32)].add(x)
        return x.T @ y, jnp.sum(x, 0), cells, jnp.zeros((0, 3)).at[:0].add(x[:0])

    def parts(x, y):
        return named.accumulate(lambda part: fn(*part), (x, y))

    x, y = np.zeros((2, 0, 3), np.float32), np.zeros((2, 0, 2), np.float32)
    shapes = (3, 2), (3,), (2, 3), (0, 3)
    want = bits([np.zeros(shape, np.float32) for shape in shapes])
    assert bits(exact(parts)(x, y)) == want
    assert bits(reference(parts)(x, y)) == want


def test_functions_and_arguments_can_be_mapped():
    x, w = wide(6, 24, 5), wide(7, 3, 5, 2)

    def fn(w):
        return cut(lambda x: jnp.sum(jnp.tanh(x @ w), 0), 4)(x)

    want = exact(jax.vmap(lambda w: jnp.sum(jnp.tanh(x @ w), 0)))(w)
    assert bits(exact(jax.vmap(fn))(w)) == bits(want)
    assert bits(jax.vmap(exact(fn))(w)) == bits(want)
    assert bits(exact(lambda w: lax.map(fn, w))(w)) == bits(want)
    assert bits(exact(fn, kept=("exact_accumulated",))(w[0])) == bits(want[0])


def test_derivatives_of_an_accumulation_are_defined():
    x, w = wide(8, 24, 5), wide(9, 5, 2)

    def total(w):
        return cut(lambda x: jnp.sum(jnp.tanh(x @ w)), 4)(x)

    for fn in (jax.grad(total), lambda w: jax.jvp(total, (w,), (w,))):
        assert bits(exact(fn)(w)) == bits(reference(fn)(w))


def test_outside_of_exact_it_is_a_loop_that_adds():
    x = wide(10, 7, 3)
    got = jax.jit(lambda x: named.accumulate(jnp.sin, x))(x)
    want = jax.jit(lambda x: lax.scan(lambda c, r: (c + jnp.sin(r), None), jnp.zeros(3), x)[0])(x)
    assert bits(got) == bits(want)


def test_bad_microbatches_are_refused():
    x = np.ones((4, 3), np.float32)
    for batches, said in (
        ((x, x[:3]), r"\[0\] \(4, 3\), \[1\] \(3, 3\)"),
        ((), "no array"),
        ({"a": 1.0}, r"\['a'\] \(\)"),
        (x[:0], r"\(0, 3\)"),
    ):
        with pytest.raises(
            UnsupportedArgumentError, match=rf"test_microbatches.* holds {said}, want"
        ):
            named.accumulate(lambda part: jnp.zeros(2), batches)
    with pytest.raises(UnsupportedArgumentError, match="returns bool, want float32 or integers"):
        named.accumulate(lambda part: part > 0, x)


def test_an_accumulation_in_another_is_refused_with_the_users_line():
    def fn(x):
        return named.accumulate(lambda part: named.accumulate(jnp.sum, part), x)

    for transform in (exact, reference):
        with pytest.raises(
            UnsupportedControlFlowError, match=r"inside accumulate at .*test_microbatches\.py:\d+"
        ):
            transform(fn)(np.ones((2, 3, 4), np.float32))
