"""Laws of order-free sums and dots, hand-worked numbers, and the edges."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from rlkjax.exact import named
from rlkjax.exact.reference import reference
from rlkjax.exact.transform import exact

total = exact(jnp.sum)
product = exact(jnp.matmul)


def bits(x) -> bytes:
    """The bytes of an array."""
    return np.asarray(x).tobytes()


def wide(seed: int, *shape: int) -> np.ndarray:
    """Numbers of both signs over about 40 binades."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) * np.exp(rng.normal(size=shape) * 7)).astype(np.float32)


def test_sum_is_that_of_elements_on_the_grid_of_the_largest():
    # M = 1 gives e = 0, q = 2^-31. 1.5 q lies halfway between 1 q and 2 q and goes to the even
    # 2 q; 2.5 q goes to 2 q too. So 1 + 2 q + 2 q - 1 = 4 q, although the true sum is 4 q by luck;
    # 0.5 q goes to 0, so that 1 + 0.5 q - 1 = 0.
    q = 2.0**-31
    assert total(jnp.float32([1.0, 1.5 * q, 2.5 * q, -1.0])) == np.float32(4 * q)
    assert total(jnp.float32([1.0, 0.5 * q, -1.0])) == 0.0
    assert total(jnp.float32([1.0, 0.75 * q, -1.0])) == np.float32(q)


def test_dot_is_that_of_operands_of_24_bits():
    # the row [1, x] has e = 0, q = 2^-23; x = 1.5 q goes to 2 q. The column [0, 1] picks it out.
    q = 2.0**-23
    row, column = jnp.float32([[1.0, 1.5 * q]]), jnp.float32([[0.0], [1.0]])
    assert product(row, column) == np.float32(2 * q)
    # the column [1, x] is rounded likewise: 1 * 0 + 1 * 2 q
    assert product(column.T, row.T) == np.float32(2 * q)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 127, 128, 129, 512, 513, 4097, 2**17 + 1])
def test_permutation_split_and_zeros_change_no_bit(length):
    x, y = wide(length, length), wide(length + 1, length)
    order = np.random.default_rng(1).permutation(length)
    assert bits(total(x)) == bits(total(x[order]))
    assert bits(total(x)) == bits(total(np.concatenate([x, np.zeros(5, np.float32)])))
    assert bits(total(x)) == bits(reference(jnp.sum)(x))
    dot = product(x[None], y[:, None])
    assert bits(dot) == bits(product(x[None, order], y[order, None]))
    zeros = np.zeros(600, np.float32)
    longer = product(np.append(x, zeros)[None], np.append(y, zeros)[:, None])
    assert bits(dot) == bits(longer)
    assert bits(dot) == bits(reference(jnp.matmul)(x[None], y[:, None]))


def test_split_over_an_axis_changes_no_bit():
    x = wide(3, 64, 48)
    whole = total(x)
    assert bits(whole) == bits(total(x.reshape(-1)))
    assert bits(whole) == bits(total(x.T))
    columns = exact(lambda x: x.sum(0))(x)
    assert bits(columns[7]) == bits(total(x[:, 7]))


@pytest.mark.slow
def test_a_million_elements():
    x, y = wide(5, 2**20), wide(6, 2**20)
    order = np.random.default_rng(2).permutation(2**20)
    assert bits(total(x)) == bits(total(x[order])) == bits(reference(jnp.sum)(x))
    assert bits(product(x, y)) == bits(product(x[order], y[order]))
    assert bits(product(x, y)) == bits(reference(jnp.matmul)(x, y))


def test_a_product_with_one_term_is_that_of_two_numbers():
    x, y = wide(9, 400, 1), wide(10, 1, 300)
    assert bits(product(x, y)) == bits(x * y + np.float32(0))


LARGEST = np.nextafter(np.float32(2), np.float32(0))  # 2^24 - 1 units of 2^-23


@pytest.mark.parametrize("size", [31, 32, 33, 64, 65, 2**15 - 1, 2**15 + 3, 2**17, 2**17 + 3])
def test_the_largest_products_are_added_without_loss(size):
    # one product is just below 2^48 units: 32 of them fit 53 bits, and 2^15 fit 63
    x = np.full(size, LARGEST, np.float32)
    want = np.float32(float(Fraction(float(LARGEST)) ** 2 * size))
    assert product(x, x) == want
    assert product(x, -x) == -want


@pytest.mark.parametrize("size", [1, 5, 31, 256, 512])
def test_a_row_does_not_depend_on_the_other_rows(size):
    x, weights = wide(7, 512, 40), wide(8, 40, 24)
    alone = product(x[:1], weights)
    assert bits(product(x[:size], weights)[:1]) == bits(alone)
    assert bits(jax.vmap(lambda r: product(r, weights))(x[:size])[:1]) == bits(alone)
    spoilt = x[:size].copy()
    spoilt[1:] = np.nan
    assert bits(product(spoilt, weights)[:1]) == bits(alone)


def test_empty_and_zero_sums_are_plus_zero():
    assert bits(total(np.zeros(0, np.float32))) == bits(np.float32(0.0))
    assert bits(total(np.full(3, -0.0, np.float32))) == bits(np.float32(0.0))
    assert bits(total(np.full(1, -0.0, np.float32))) == bits(np.float32(0.0))
    assert bits(total(np.float32([1e30, -1e30]))) == bits(np.float32(0.0))
    empty = product(np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32))
    assert bits(empty) == bits(np.zeros((2, 3), np.float32))


@pytest.mark.parametrize("length", [4, 700])
def test_infinity_and_nan_follow_ieee_in_any_order(length):
    x = wide(9, length)
    x[1] = np.inf
    assert total(x) == np.inf
    assert product(x, np.ones(length, np.float32)) == np.inf
    x[3] = -np.inf
    assert bits(total(x)) == bits(np.uint32(0x7FC00000))
    x[3] = np.nan
    assert bits(total(x[::-1])) == bits(np.uint32(0x7FC00000))
    # an infinite element times zero is NaN
    zero_there = np.ones(length, np.float32)
    x[3], zero_there[1] = 1.0, 0.0
    assert bits(product(x, zero_there)) == bits(np.uint32(0x7FC00000))


def test_sums_overflow_and_underflow_once():
    big = np.float32(3e38)
    assert total(np.float32([big, big])) == np.inf
    assert total(np.float32([big, big, -big])) == big
    tiny = np.float32(2.0**-126)
    assert bits(total(np.float32([1.5 * tiny, -tiny]))) == bits(np.float32(0.0))
    # a subnormal input counts as zero
    assert bits(total(np.float32([2.0**-127] * 4))) == bits(np.float32(0.0))


@pytest.mark.parametrize("length", [16, 64, 256, 512, 2048])
def test_dot_errs_no_more_than_twice_as_much_as_float32(length):
    rng = np.random.default_rng(length)
    x = rng.normal(size=(64, length)).astype(np.float32)
    y = rng.normal(size=(length, 64)).astype(np.float32)
    true = x.astype(np.float64) @ y.astype(np.float64)
    error = np.abs(np.asarray(product(x, y)) - true).max()
    plain = np.abs(np.asarray(jax.jit(jnp.matmul)(x, y)) - true).max()
    assert error <= 2 * plain
    sum_error = abs(float(total(x)) - x.astype(np.float64).sum())
    assert sum_error <= 2.0**-24 * max(1.0, abs(x.astype(np.float64).sum()))


def test_running_sum_and_scatter_are_order_free():
    x = wide(11, 300)
    running = exact(lambda v: lax.cumsum(v))(x)
    assert bits(running) == bits(reference(lambda v: lax.cumsum(v))(x))
    assert bits(running[-1]) == bits(total(x))
    cells = np.random.default_rng(3).integers(-2, 12, 300).astype(np.int32)

    def scatter(v, cells):
        return jnp.zeros(10).at[cells].add(v)

    order = np.random.default_rng(4).permutation(300)
    added = exact(scatter)(x, cells)
    assert bits(added) == bits(exact(scatter)(x[order], cells[order]))
    assert bits(added) == bits(reference(scatter)(x, cells))
    assert bits(added[4]) == bits(total(x[cells == 4]))


def test_term_of_zero_weight_changes_nothing_on_the_contracted_grid():
    rng = np.random.default_rng(5)
    weights = rng.random((3, 9)).astype(np.float32)
    values = wide(12, 9, 5)
    weights[:, 6] = 0.0

    def attend(p, v):
        return named.dot(p, v, grid="contracted")

    short = exact(attend)(np.delete(weights, 6, 1), np.delete(values, 6, 0))
    for size in (0.0, 1.0, 3e38):
        values[6] = size
        assert bits(exact(attend)(weights, values)) == bits(short)
        assert bits(reference(attend)(weights, values)) == bits(short)
    # the default grid sees the large value
    assert bits(product(weights, values)) != bits(short)
    stacked = exact(jax.vmap(attend))(weights[None], values[None])
    assert bits(stacked[0]) == bits(short)
    true = weights.astype(np.float64) @ values
    assert np.abs(np.asarray(short) - true).max() < 1e-5 * np.abs(true).max()


def test_unknown_grid_is_refused():
    with pytest.raises(
        named.UnsupportedArgumentError, match="argument grid of dot is 'rows', want"
    ):
        named.dot(jnp.ones((2, 2)), jnp.ones((2, 2)), grid="rows")


@pytest.mark.parametrize("mode", ["drop", "clip"])
@pytest.mark.parametrize("where", [[4], [0, 3, 3, 8, -1, 12, 3, 0], [-30]])
def test_scatter_add_equals_the_reference_inside_and_outside(mode, where):
    x, updates = wide(13, 5, 9, 3), wide(14, 5, len(where), 3)
    x[0, 0, 0], updates[1, 0, 1], x[3] = np.nan, np.inf, -0.0

    def scatter(x, updates, where):
        return x.at[:, where].add(updates, mode=mode)

    def repeated(x, updates, where):
        return scatter(x, updates, jnp.concatenate([where, where[:0]]))

    where = np.array(where, np.int32)
    for fn in (scatter, repeated):
        args = (jnp.asarray(x), updates, where)
        assert bits(exact(fn)(*args)) == bits(reference(fn)(*args))


@pytest.mark.parametrize("kinds", ["fi", "if", "ii", "fb", "bf"])
def test_integers_in_a_dot_become_float32_first(kinds):
    # 2^24 + 1 has 25 bits and goes to 2^24; float32 does not hold the sum of the others exactly
    whole = np.int32([2**24 + 1, 3, -5, 7])
    options = {"f": wide(15, 4), "i": whole, "b": whole > 0}
    args = [options[k] for k in kinds]

    def fn(x, y):
        return lax.dot(x, y, preferred_element_type=jnp.float32)

    floats = [np.asarray(v, np.float32) for v in args]
    assert bits(exact(fn)(*args)) == bits(reference(fn)(*args)) == bits(product(*floats))


@pytest.mark.parametrize("order", ["float first", "integer first"])
def test_an_integer_operand_becomes_float32_first(order):
    # 2^24 + 1 is no float32 and becomes 2^24; 2^24 + 3 lies between 2^24 + 2 and + 4, the even 4.
    x = jnp.float32([[1.0, -1.0]])
    whole = jnp.int32([[2**24 + 3], [2**24 + 1]])
    args = (x, whole) if order == "float first" else (whole.T, x.T)
    result = exact(lambda a, b: jax.lax.dot(a, b, preferred_element_type=jnp.float32))(*args)
    assert result[0, 0] == 4.0


@pytest.mark.parametrize("inner", [1, 2, 3])
def test_a_zero_product_is_plus_zero(inner):
    zeros, numbers = np.zeros((2, inner), np.float32), np.full((inner, 3), -3, np.float32)
    assert bits(product(zeros, numbers)) == bits(np.zeros((2, 3), np.float32))


@pytest.mark.parametrize("odd", [np.inf, np.nan])
def test_beside_an_infinity_the_grid_is_that_of_two_to_the_128(odd):
    # q = 2^(128 - 31) = 2^97 = 1.58e29: 1e30 is 6.3 q and becomes 6 q; 3e29 is 1.9 q, so that the
    # running sum is 8 q; and 1 is nothing.
    x = np.float32([1e30, 3e29, odd, 1])
    got = np.asarray(exact(jnp.cumsum)(x))
    assert got[:2].tolist() == [6 * 2.0**97, 8 * 2.0**97]
    assert bits(got) == bits(reference(jnp.cumsum)(x))


def rows_with_edges(size: int) -> np.ndarray:
    """[300, size]: forty binades, and rows with zeros, infinities, NaN and the largest numbers."""
    x = wide(size, 300, size)
    odd = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1.2e-38, -1.2e-38])
    x[:90] = np.where(
        np.random.default_rng(1).random((90, size)) < 0.5, np.resize(odd, (90, 1)), x[:90]
    )
    return x


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_few_terms_written_out_are_those_of_a_reduction(size):
    # one row alone, and zeros appended, are added by reductions
    x, y = rows_with_edges(size), rows_with_edges(size + 10)[:, :size]
    longer = [np.pad(v, ((0, 0), (0, 7))) for v in (x, y)]
    finite = np.isfinite(x).all(1) & np.isfinite(y).all(1)  # 0 * inf is NaN
    rows = exact(lambda a: a.sum(1))(x)
    assert bits(rows) == bits(exact(lambda a: a.sum(1))(longer[0]))
    assert bits(rows[3]) == bits(total(x[3]))

    def dots(a, b):
        return jnp.einsum("ij,ij->i", a, b), a[:5] @ b[5:9].T

    few, many = exact(dots)(x, y), exact(dots)(*longer)
    assert bits(few[0][finite]) == bits(many[0][finite])
    assert bits(few[1]) == bits(reference(dots)(x, y)[1])
    assert bits(few[0]) == bits(reference(dots)(x, y)[0])


@pytest.mark.parametrize("size", [2, 3, 50])
def test_a_negative_sum_below_the_normal_numbers_is_plus_zero(size):
    x = np.zeros((4, size), np.float32)
    x[:, :2] = 1.5 * 2.0**-126, -1.75 * 2.0**-126
    assert bits(exact(lambda a: a.sum(1))(x)) == bits(reference(lambda a: a.sum(1))(x)) == bytes(16)


def test_an_infinity_has_the_grid_of_two_to_the_128_in_short_products_too():
    # beside the infinity 1.5 * 2^103 lies below half of q = 2^(128 - 23) and becomes 0; 0 * inf
    left = np.float32([[np.inf, 1.5 * 2.0**103], [1, 2]])
    right = np.float32([[2.0**110, 3], [np.inf, 1]])
    assert np.isnan(product(left, right)[0, 0]) and np.isnan(product(left[:1], right)[0, 0])
    assert bits(product(left, right)) == bits(reference(jnp.matmul)(left, right))


def test_a_sum_over_no_axes_is_the_number():
    assert total(np.float32(3.0)) == 3.0
    assert exact(jax.vmap(jnp.mean))(np.float32([1.0, -2.0])).tolist() == [1.0, -2.0]


@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums_and_cells_of_more_than_2_to_the_20_terms(reverse):
    # 2^22 ones, a quarter and four units of 2^-31: 2^22 + 0.25 + 2^-29 is just above the middle of
    # two float32 numbers; added from the left, float64 loses each of the four
    x = np.concatenate([np.ones(2**22), [0.25], [2.0**-31] * 4]).astype(np.float32)
    x = x[::-1].copy() if reverse else x
    assert exact(lambda v: jnp.cumsum(v)[-1])(x) == np.float32(2**22 + 0.5)
    cells = exact(lambda v: jnp.zeros(2).at[jnp.zeros(v.shape, jnp.int32)].add(v))(x)
    assert cells.tolist() == [2**22 + 0.5, 0.0]


@pytest.mark.parametrize("size", [32, 33, 64, 129, 300, 512, 513])
@pytest.mark.parametrize("odd", [1.0, np.inf, np.nan])
def test_products_in_two_parts(size, odd):
    left, right = wide(3, 7, size), wide(4, size, 5)
    left[2, size // 2] = odd
    right[-1] = -right[0]
    got = product(left, right)
    assert bits(got) == bits(reference(jnp.matmul)(left, right))
    assert bits(got) == bits(product(left[:, ::-1].copy(), right[::-1].copy()))


@pytest.mark.parametrize("beyond", [-1, 1])
def test_parts_that_meet_halfway_round_by_the_unit_that_float64_loses(beyond):
    # 64 squares of 2^24 - 1 units make nearly 2^54, where float64 holds even numbers only and the
    # steps of float32 are 2^30; two more terms lead to one unit beside the middle of two of them
    most = 2**24 - 1
    squares = 64 * most**2
    lower = squares + -squares % 2**30
    rest = lower + 2**29 + beyond - squares
    x, y = np.zeros(96, np.float32), np.zeros(96, np.float32)
    x[:64] = y[:64] = most
    x[64:66], y[64:66] = [rest >> 16, rest % 2**16], [2**16, 1]
    want = np.float32(lower + 2**30 * (beyond > 0))
    assert exact(jnp.dot)(x, y) == want
    assert exact(jnp.dot)(x, -y) == -want
    both = exact(jnp.matmul)(np.stack([x, -x]), np.stack([y, -y, 3 * y // 4], 1))
    assert both[:, :2].tolist() == [[want, -want], [-want, want]]


@pytest.mark.parametrize("small", [1.0, 2.0**-20])
def test_infinity_times_a_number_of_few_units_is_infinite(small):
    # 2^-20 beside 1 is 8 units, less than the 2^12 at which an operand of 33 terms is cut
    left, right = np.zeros((1, 33), np.float32), np.zeros((33, 2), np.float32)
    left[0, 0], right[:2, 0], right[:2, 1] = np.inf, (small, 1.0), (-small, 1.0)
    for turned in (False, True):
        operands = (right.T, left.T) if turned else (left, right)
        assert product(*operands).ravel().tolist() == [np.inf, -np.inf]
        assert bits(product(*operands)) == bits(reference(jnp.matmul)(*operands))


def contracted(a, b):
    """A product on the grid of each contracted index."""
    return named.dot(a, b, grid="contracted")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        # the infinite weight gives e = 128: 1 * 2^128 stays, and meets the infinity
        ([[np.inf, 1]], [[1], [np.inf]]),
        # a slice of zeros has e = -126, and the largest folded weight stands beside it
        ([[2.0**127, 2.0**126 * (1 + 2.0**-22)]], [[0.0], [1.5 * 2.0**-126]]),
    ],
)
def test_contracted_grids_at_their_ends(left, right):
    left, right = np.float32(left), np.float32(right)
    assert bits(exact(contracted)(left, right)) == bits(reference(contracted)(left, right))
    padded = np.pad(left, ((0, 0), (0, 200))), np.pad(right, ((0, 200), (0, 0)))
    assert bits(exact(contracted)(*padded)) == bits(reference(contracted)(*padded))


def test_adding_into_no_cells():
    assert (
        exact(lambda o, i, u: o.at[i].add(u))(jnp.ones(0), jnp.zeros(3, int), jnp.ones(3)).size == 0
    )


def test_unique_indices_that_are_clipped_to_one_cell_are_added():
    def fn(cells, where, x):
        return cells.at[where].add(x, mode="clip", unique_indices=True)

    args = np.float32([1, 2, 3]), np.int32([0, 2, 7, 9]), np.float32([1e-3, 1, 10, 100])
    got = exact(fn)(*args)
    assert got[2] == 114.0 and bits(got) == bits(reference(fn)(*args))
