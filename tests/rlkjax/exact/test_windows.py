"""Convolutions, windows, running folds and scatters: on whole numbers plain JAX is exact too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from rlkjax.exact.reference import reference
from rlkjax.exact.transform import exact


def bits(tree) -> list[bytes]:
    """The bytes of every leaf; a zero has no sign here, for plain JAX is free with it."""
    return [(np.asarray(x) + np.zeros((), x.dtype)).tobytes() for x in jax.tree.leaves(tree)]


def whole(seed: int, *shape: int) -> np.ndarray:
    """Whole numbers from -4 to 4, as float32: sums of a few thousand products stay exact."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def wide(seed: int, *shape: int) -> np.ndarray:
    """Numbers of both signs over about 40 binades."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) * np.exp(rng.normal(size=shape) * 7)).astype(np.float32)


def agreed(fn, *args):
    """The result of `exact(fn)`, after a comparison with the reference, bit by bit."""
    got, want = exact(fn)(*args), reference(fn)(*args)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return got


CONVOLUTIONS = {
    "same": {"window_strides": (1, 1), "padding": "SAME"},
    "strided": {"window_strides": (2, 3), "padding": "VALID"},
    "cut and dilated": {
        "window_strides": (2, 1),
        "padding": ((2, 1), (-1, 3)),
        "lhs_dilation": (2, 3),
        "rhs_dilation": (1, 2),
    },
    "groups": {"window_strides": (1, 2), "padding": ((0, 0), (1, 1)), "feature_group_count": 3},
    "depthwise": {"window_strides": (1, 1), "padding": "SAME", "feature_group_count": 6},
    "batch groups": {"window_strides": (1, 2), "padding": ((0, 0), (1, 1)), "batch_group_count": 2},
}


QUICK = ("cut and dilated", "groups", "batch groups")


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CONVOLUTIONS]
)
def test_convolution_and_its_derivatives_have_the_values_of_whole_numbers(name):
    options = CONVOLUTIONS[name]
    channels = 6 // options.get("feature_group_count", 1)
    image, kernel = whole(1, 2, 6, 6, 5), whole(2, 6, channels, 3, 2)

    def convolve(image, kernel):
        return lax.conv_general_dilated(image, kernel, **options)

    def fn(image, kernel, weight):
        out, back = jax.vjp(convolve, image, kernel)
        return out, back(weight)

    weight = whole(3, *jax.eval_shape(convolve, image, kernel).shape)
    assert bits(agreed(fn, image, kernel, weight)) == bits(fn(image, kernel, weight))
    agreed(fn, wide(1, *image.shape), wide(2, *kernel.shape), wide(3, *weight.shape))


def test_convolution_in_other_layouts_ranks_and_dtypes():
    layout = ("NHWC", "HWIO", "NHWC")

    def channels_last(image, kernel):
        return lax.conv_general_dilated(image, kernel, (1, 2), "SAME", dimension_numbers=layout)

    args = whole(4, 2, 7, 5, 3), whole(5, 3, 2, 3, 4)
    assert bits(agreed(channels_last, *args)) == bits(channels_last(*args))
    line = whole(6, 9), whole(7, 4)
    assert bits(agreed(jnp.convolve, *line)) == bits(jnp.convolve(*line))
    numbers = whole(8, 1, 2, 5).astype(np.int32), whole(9, 3, 2, 2).astype(np.int32)

    def integers(x, k):
        return lax.conv_general_dilated(x, k, (1,), "SAME")

    assert bits(agreed(integers, *numbers)) == bits(integers(*numbers))


def test_a_window_larger_than_the_image_gives_an_empty_result():
    def valid(image, kernel):
        return lax.conv_general_dilated(image, kernel, (1, 1), "VALID")

    assert agreed(valid, whole(1, 2, 3, 2, 2), whole(2, 4, 3, 3, 1)).shape == (2, 4, 0, 2)
    assert agreed(valid, whole(1, 0, 3, 5, 5), whole(2, 4, 3, 3, 1)).shape == (0, 4, 3, 5)


def test_a_convolution_is_a_dot_of_each_window_alone():
    image, kernel = wide(10, 1, 2, 6, 6), wide(11, 3, 2, 3, 3)
    out = exact(lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "VALID"))(image, kernel)
    row = exact(jnp.matmul)(image[0, :, 2:5, 1:4].reshape(1, 18), kernel.reshape(3, 18).T)
    assert np.asarray(out)[0, :, 2, 1].tobytes() == np.asarray(row)[0].tobytes()
    # what lies outside a window does not matter to it, whatever it is
    image[0, 0, 0, 0] = np.inf
    again = exact(lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "VALID"))(image, kernel)
    assert np.asarray(again)[0, :, 2, 1].tobytes() == np.asarray(row)[0].tobytes()


STARTS = {"add": 0.0, "max": -np.inf, "min": np.inf, "mul": 1.0}


@pytest.mark.parametrize("fold", sorted(STARTS))
def test_windows_have_the_values_of_whole_numbers(fold):
    def pools(x):
        def pool(padding, **options):
            return lax.reduce_window(
                x, STARTS[fold], getattr(lax, fold), (2, 3), (2, 1), padding, **options
            )

        gaps = {"base_dilation": (2, 1), "window_dilation": (1, 2)}
        plain = [pool(padding) for padding in ("SAME", "VALID", ((1, 2), (0, 3)))]
        return [*plain, pool(((1, 1), (2, 0)), **gaps)]

    x = whole(12, 7, 9)
    assert bits(agreed(pools, x)) == bits(pools(x))
    agreed(pools, wide(13, 7, 9))


def test_the_derivative_of_a_maximum_goes_to_the_first_largest():
    # windows of 2: [1 1] first, [1 5] second, [5 nan] the NaN, [nan 2] the NaN, [2 2] first
    x = jnp.float32([1.0, 1.0, 5.0, jnp.nan, 2.0, 2.0])

    def pool(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (2,), (1,), "VALID")

    weights = jnp.float32([1, 2, 4, 8, 16])
    slope = agreed(lambda x, w: jax.vjp(pool, x)[1](w)[0], x, weights)
    assert slope.tolist() == [1, 0, 2, 12, 16, 0]
    forward = agreed(lambda x, t: jax.jvp(pool, (x,), (t,))[1], x, jnp.float32([1, 2, 3, 4, 5, 6]))
    assert forward.tolist() == [1, 3, 4, 4, 5]


def test_padding_is_never_the_largest():
    x = jnp.full((3, 3), -jnp.inf)

    def slope(x):
        def pool(x):
            return lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 1), ((1, 1), (1, 1)))

        return jax.vjp(pool, x)[1](jnp.ones((4, 4)))[0]

    # 16 windows, each gives its 1 to an element of x although padding holds -inf as well
    assert float(agreed(slope, x).sum()) == 16.0


def test_running_products_and_logarithms_of_sums():
    x = whole(14, 5, 6)

    def products(x):
        return lax.cumprod(x, 1), lax.cumprod(x, 0, reverse=True)

    assert bits(agreed(products, x)) == bits(products(x))
    # from the start: 3, 3 * 1e30, inf; so order shows
    ordered = agreed(lambda x: lax.cumprod(x), np.float32([3.0, 1e30, 1e30, 1e-30]))
    assert ordered[3] == np.inf
    rows = np.float32([-np.inf, -np.inf, 1.5, -np.inf, np.inf, np.inf, np.nan])
    logs = agreed(lambda x: lax.cumlogsumexp(x), rows)
    assert bits(logs) == bits(np.float32([-np.inf, -np.inf, 1.5, 1.5, np.inf, np.inf, np.nan]))
    two = agreed(lambda x: lax.cumlogsumexp(x, reverse=True), np.float32([0.5, 0.5]))
    assert two[0] == np.float32(0.5) + np.float32(np.log(2))
    assert agreed(lambda x: lax.cumprod(x, 1), np.zeros((3, 0), np.float32)).shape == (3, 0)


def test_a_fold_of_the_programs_own_takes_halves_first():
    # halves of [a b c 1]: (a - c), (b - 1); then (a - c) - (b - 1)
    x = jnp.float32([10.0, 4.0, 3.0])
    got = agreed(lambda x: lax.reduce(x, np.float32(1.0), lax.sub, (0,)), x)
    assert got == (10.0 - 3.0) - (4.0 - 1.0)


SCATTERS = ["add", "max", "min", "multiply", "subtract"]


@pytest.mark.parametrize("mode", ["drop", "clip"])
@pytest.mark.parametrize("name", SCATTERS)
def test_scatters_have_the_values_of_whole_numbers(name, mode):
    where = jnp.array([0, 3, 3, -1, 12, 1], jnp.int32)

    def rows(x, u):
        return getattr(x.at[where], name)(u, mode=mode)

    def cells(x, u):
        return getattr(x.at[where, where], name)(u[:, 0], mode=mode)

    def mapped(x, u):
        return jax.vmap(lambda x, u: getattr(x.at[where[:3]], name)(u[:3]))(x, u)

    x, u = jnp.asarray(whole(15, 7, 9)), jnp.asarray(whole(16, 6, 9))

    def all_three(x, u):
        return rows(x, u), cells(x, u), mapped(jnp.stack([x, -x]), jnp.stack([u, u + u]))

    assert bits(agreed(all_three, x, u)) == bits(all_three(x, u))
    agreed(all_three, jnp.asarray(wide(17, 7, 9)), jnp.asarray(wide(18, 6, 9)))
    numbers = x.astype(jnp.int32), u.astype(jnp.int32)
    assert bits(agreed(rows, *numbers)) == bits(rows(*numbers))


def test_extremes_of_cells_know_nan_and_signed_zeros():
    cells = jnp.float32([0.0, -0.0, 1.0, -jnp.inf])
    where = jnp.array([0, 1, 2, 3, 3], jnp.int32)
    updates = jnp.float32([-0.0, 0.0, jnp.nan, -1.0, -2.0])
    largest = agreed(lambda c, u: c.at[where].max(u), cells, updates)
    least = agreed(lambda c, u: c.at[where].min(u), cells, updates)
    assert np.asarray(largest).tobytes() == np.float32([0.0, 0.0, np.nan, -1.0]).tobytes()
    assert np.asarray(least).tobytes() == np.float32([-0.0, -0.0, np.nan, -np.inf]).tobytes()


def test_products_of_cells_take_their_updates_in_order():
    where = jnp.zeros(3, jnp.int32)
    # 1e30 * 1e30 overflows before 1e-30 can help
    updates = jnp.float32([1e30, 1e30, 1e-30])
    got = agreed(lambda u: jnp.ones(1).at[where].multiply(u), updates)
    assert got[0] == np.inf
    assert agreed(lambda u: jnp.ones(1).at[where].multiply(u), updates[::-1])[0] < np.inf


def test_a_function_is_applied_to_a_cell_once_for_each_index():
    x = jnp.float32([0.5, 2.0, 3.0])
    where = jnp.array([1, 1, 7, 0], jnp.int32)
    got = agreed(lambda x: x.at[where].apply(lambda v: v * v), x)
    assert got.tolist() == [0.25, 16.0, 3.0]
    once = agreed(lambda x: x.at[where[2:]].apply(lambda v: v * v, unique_indices=True), x)
    assert once.tolist() == [0.25, 2.0, 3.0]
