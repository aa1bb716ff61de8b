"""Bodies of the longer operations of random programs: [N, M] float32 to the same shape."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from rlkjax.exact import named

Array = jax.Array


def scan_rows(x: Array) -> Array:
    """A loop with a float carry, from the end."""

    def body(carry: Array, row: Array) -> tuple[Array, Array]:
        carry = carry * 0.5 + row
        return carry, carry * row

    carry, ys = lax.scan(body, x[0], x, reverse=True)
    return ys + carry


def halve_while(x: Array) -> Array:
    """A loop whose length depends on the values."""
    limit = jnp.minimum(jnp.sum(jnp.abs(jnp.nan_to_num(x))), 1e3)
    _, result = lax.while_loop(
        lambda s: (s[0] > 1.0) & (s[0] < 1e6), lambda s: (s[0] * 0.3, s[1] * 0.7), (limit, x)
    )
    return result


def branch(x: Array) -> Array:
    """One of two branches."""
    return lax.cond(jnp.max(x) > 0.5, lambda v: v * v + 1.0, lambda v: v - 0.25, x)


def mixed_products(x: Array) -> Array:
    """Products with axes in an unusual order."""
    y = jnp.einsum("ij,kj->ik", x, x)
    return jnp.einsum("ik,kj->ij", y, x)


def scattered(x: Array, y: Array) -> Array:
    """Rows added into repeated rows."""
    where = jnp.arange(x.shape[0]) // 2
    return x.at[where].add(y).at[-1, 0].set(y[0, 0])


def through_integers(x: Array) -> Array:
    """To integers, and back."""
    return x.astype(jnp.int32).astype(jnp.float32) + (x > 0.5) + x.astype(jnp.uint8)


def through_bits(x: Array) -> Array:
    """The same number with its lowest bit flipped."""
    return lax.bitcast_convert_type(lax.bitcast_convert_type(x, jnp.int32) ^ 1, jnp.float32)


def noisy(x: Array) -> Array:
    """Normal noise, of a key made of a value."""
    key = jax.random.fold_in(jax.random.key(3), jnp.int32(jnp.nan_to_num(x[0, 0]) % 64.0))
    first, second = jax.random.split(key)
    order = jax.random.permutation(second, x.shape[0])
    return x[order] + jax.random.normal(first, x.shape)


def slope(x: Array) -> Array:
    """A derivative."""
    return jax.grad(lambda v: jnp.sum(jnp.tanh(v) * jax.nn.softmax(v)))(x)


def sorted_pairs(x: Array) -> Array:
    """A gather in the order of a sort, and the largest of each row."""
    top, _ = lax.top_k(x, 1)
    return jnp.take_along_axis(x, jnp.argsort(x, axis=0), 0) - top


def spread(x: Array) -> Array:
    """Mean and deviation of each row."""
    return (x - x.mean(1, keepdims=True)) / (x.std(1, keepdims=True) + 1e-3)


def decomposed(x: Array) -> Array:
    """Cholesky factor and a triangular solve, on a matrix that is positive definite or NaN."""
    bounded = jnp.tanh(jnp.nan_to_num(x))
    low = jnp.linalg.cholesky(bounded @ bounded.T + jnp.eye(len(x)))
    return jax.scipy.linalg.solve_triangular(low, bounded, lower=True)


def integers(x: Array) -> Array:
    """The bits of a number as integers below 2^20, of both signs."""
    return lax.bitcast_convert_type(x, jnp.int32) >> 11


def bit_tricks(x: Array) -> Array:
    """Bit operations, shifts and counts on integers of several widths."""
    n = integers(x)
    u = lax.bitcast_convert_type(n, jnp.uint32)
    narrow = (n & 255).astype(jnp.uint8)
    mixed = (n << 2) ^ (~n >> 1) | lax.population_count(n)
    mixed = mixed + lax.clz(n) + lax.shift_right_logical(u, jnp.uint32(3)).astype(jnp.int32)
    mixed = mixed + (narrow << 1).astype(jnp.int32) + (~narrow).astype(jnp.int32)
    return mixed.astype(jnp.float32)


def integer_arithmetic(x: Array) -> Array:
    """Sums, products, quotients, remainders, powers and dots of integers."""
    n = integers(x)
    total = n // 7 + n % 5 - n**3 + jnp.abs(n) * jnp.sign(n) + lax.div(n, n - n.max())
    total = total + lax.rem(n, jnp.roll(n, 1, 0)) + n.sum(0) + jnp.cumsum(n, 0) + (n @ n.T).sum()
    return jnp.clip(total, -(2**20), 2**20).astype(jnp.float32)


def flags(x: Array) -> Array:
    """Logic: all, any, parity, comparisons."""
    f = x > 0.25
    odd = lax.reduce_xor(integers(x), (0,))
    every = jnp.all(f, 1, keepdims=True) | (jnp.any(f, 0) & ~f) ^ (x != x)
    return jnp.where(every, x, odd.astype(jnp.float32)) + jnp.isfinite(x)


def window_pools(x: Array) -> Array:
    """Sums, maxima and minima over windows, with padding and gaps."""
    total = lax.reduce_window(x, 0.0, lax.add, (2, 3), (1, 1), "SAME")
    largest = lax.reduce_window(x, -jnp.inf, lax.max, (3, 1), (1, 1), "SAME")
    least = lax.reduce_window(
        x, jnp.inf, lax.min, (2, 2), (1, 1), ((1, 1), (1, 1)), window_dilation=(2, 2)
    )
    return total - largest + least[: x.shape[0], : x.shape[1]]


def window_product(x: Array) -> Array:
    """A window folded by a function of the program's own."""
    return lax.reduce_window(x, 1.0, lax.mul, (2, 2), (1, 1), "SAME")


def pool_slope(x: Array) -> Array:
    """Derivatives of a maximum over windows, backward and forward."""

    def pool(v: Array) -> Array:
        return lax.reduce_window(v, -jnp.inf, lax.max, (2, 2), (1, 2), "SAME")

    _, forward = jax.jvp(pool, (x,), (x * 0.5,))
    return jax.grad(lambda v: jnp.sum(pool(v) * forward))(x)


def convolved(x: Array) -> Array:
    """A convolution with groups, gaps and a derivative for both operands."""
    kernel = jnp.tanh(jnp.nan_to_num(x))[:1, :1] * jnp.ones((2, 1, 2, 3)) + 0.5
    image = jnp.stack([x, x * 0.5])[None]

    def fn(image: Array, kernel: Array) -> Array:
        return lax.conv_general_dilated(
            image, kernel, (1, 1), "SAME", rhs_dilation=(2, 1), feature_group_count=2
        )

    out, back = jax.vjp(fn, image, kernel)
    image_slope, kernel_slope = back(out)
    return out[0, 0] + image_slope[0, 1] + kernel_slope.sum()


def own_fold(x: Array) -> Array:
    """An axis folded by a function of the program's own."""
    total = lax.reduce(x, jnp.float32(0.5), lambda a, b: a * 0.5 + b, (0,))
    low, high = lax.reduce(
        (x, x),
        (jnp.float32(jnp.inf), jnp.float32(-jnp.inf)),
        lambda a, b: (lax.min(a[0], b[0]), lax.max(a[1], b[1])),
        (1,),
    )
    return x - total + (high - low)[:, None]


def running(x: Array) -> Array:
    """Running products and logarithms of sums."""
    return lax.cumprod(x, 0) + lax.cumlogsumexp(x, 1, reverse=True)


def kept_extremes(x: Array, y: Array) -> Array:
    """Rows that keep the largest and the smallest of repeated updates."""
    where = jnp.arange(x.shape[0]) // 2
    return x.at[where].max(y) - x.at[where[::-1]].min(y)


def updated(x: Array, y: Array) -> Array:
    """Rows multiplied, subtracted from, and changed by a function, with repeated indices."""
    where = jnp.arange(x.shape[0]) // 2
    x = x.at[where].multiply(y).at[where].subtract(y)
    return x.at[where[:1]].apply(jnp.sin)


def factored(x: Array) -> Array:
    """QR and LU of a small matrix, and a linear solve."""
    square = jnp.tanh(jnp.nan_to_num(x[:3, :3]))
    size = min(square.shape)
    square = square[:size, :size] + 2.0 * jnp.eye(size)
    q, r = jnp.linalg.qr(square)
    return x + (q @ r).sum() + jnp.linalg.solve(square, q).sum()


def pieces(x: Array) -> Array:
    """Arrays cut, stacked, tiled and written into one another."""
    first, second = jnp.split(jnp.concatenate([x, -x]), 2)
    stacked = jnp.stack([first, second], 1)
    back, _ = jnp.unstack(stacked, axis=1)
    tiled = lax.tile(back, (2, 1)) if hasattr(lax, "tile") else jnp.tile(back, (2, 1))
    x = lax.dynamic_update_slice(x, tiled[:1], (jnp.int32(x[0, 0] > 0), 0))
    return jnp.copy(x) + lax.expand_dims(second, (0,))[0] + lax.empty(x.shape, x.dtype) * 0.0


def ordered_by_bits(x: Array) -> Array:
    """Comparisons by total order, and a clamp."""
    flags = [fn(x, -x) for fn in (lax.lt_to_p.bind, lax.le_to_p.bind, lax.eq_to_p.bind)]
    return lax.clamp(jnp.float32(-0.5), x, jnp.float32(2.0)) + sum(f * 1.0 for f in flags)


def passed_on(x: Array) -> Array:
    """Primitives that change nothing."""
    x = lax.optimization_barrier(jax.device_put(x))
    x = checkpoint_name(lax.stop_gradient(x), "kept")
    return lax.platform_dependent(x, cpu=lambda v: v * 3.0, default=lambda v: v * 2.0)


def raw_keys(x: Array) -> Array:
    """Random words from keys that are taken apart and put together."""
    key = jax.random.wrap_key_data(jnp.array([7, 9], jnp.uint32))
    data = jax.random.key_data(jax.random.clone(key))
    old_style = jax.random.uniform(data, x.shape)
    return x * old_style + jax.random.bernoulli(key, 0.5, x.shape)


@jax.custom_jvp
def own_forward(x: Array) -> Array:
    """A function with a derivative of its own."""
    return jnp.sin(x) * x


own_forward.defjvps(lambda t, out, x: t * out)


@jax.custom_vjp
def own_backward(x: Array) -> Array:
    """A function with a backward rule of its own."""
    return jnp.exp(-x * x)


own_backward.defvjp(lambda x: (own_backward(x), x), lambda x, g: (g * x - 0.5,))


def own_derivatives(x: Array) -> Array:
    """Custom derivatives, called and derived."""
    value, back = jax.vjp(own_backward, x)
    return own_forward(x) + jax.jvp(own_forward, (x,), (x,))[1] + value + back(x)[0]


def rematerialised(x: Array) -> Array:
    """The derivative of a function that is computed again on the way back."""
    fn = jax.checkpoint(lambda v: jnp.sum(jnp.sin(v) * jnp.exp2(v * 0.25)))
    return jax.grad(fn)(x)


def top_rows(x: Array) -> Array:
    """The largest of each row, with their places."""
    values, places = lax.top_k(x, max(1, x.shape[1] // 2))
    return x + values.sum(1, keepdims=True) + places[:, :1]


def mixed_dot(x: Array) -> Array:
    """Products of float32 with integers and flags."""
    whole, flags = integers(x), x > 0.0
    first = lax.dot(x, whole.T, preferred_element_type=jnp.float32)
    return lax.dot(first, flags, preferred_element_type=jnp.float32)


def attention(x: Array) -> Array:
    """A product on the contracted grid, with a masked row."""
    weights = jnp.where(jnp.arange(x.shape[0]) > 0, jax.nn.softmax(x @ x.T), 0.0)
    return named.dot(weights, x, grid="contracted") + named.tanh(x)
