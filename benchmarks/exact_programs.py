"""Programs of PPO's size whose bits must not change: `python -m benchmarks.exact_programs`.

Prints `<name> <SHA-256 of all results>` for each program under `exact`, with the flags, cores and
versions of this process; the rows of an update are spread over all devices. `--plain` takes plain
JAX instead, `--brax` adds a Brax step. Every formula is written out: no library has a say in it.
"""

import argparse
import hashlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from rlkjax.exact import named
from rlkjax.exact.transform import exact

Array = jax.Array
Params = list[tuple[Array, Array]]

SIZES = (1, 5, 256, 512, 2048)
LOG_2_PI = 1.8378770664093453


def normal(seed: int, *shape: int) -> np.ndarray:
    """Standard normal numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def log_prob(mean: Array, log_std: Array, u: Array) -> Array:
    """Log-probability of tanh(u), u normal: [B, A] → [B]."""
    z = (u - mean) * jnp.exp(-log_std)
    base = -0.5 * jnp.square(z) - log_std - 0.5 * LOG_2_PI
    squash = 2.0 * (
        jnp.log(2.0) - u - jnp.log1p(jnp.exp(-2.0 * jnp.abs(u))) + jnp.minimum(2 * u, 0)
    )
    return jnp.sum(base - squash, axis=-1)


def gae(reward: Array, value: Array, discount: Array) -> Array:
    """Advantages: reward [T, B], value [T + 1, B], discount [T, B] → [T, B]."""

    def step(carry: Array, row: tuple[Array, ...]) -> tuple[Array, Array]:
        r, v, v_next, d = row
        carry = r + 0.99 * d * v_next - v + 0.99 * 0.95 * d * carry
        return carry, carry

    rows = (reward, value[:-1], value[1:], discount)
    return lax.scan(step, jnp.zeros_like(reward[0]), rows, reverse=True)[1]


def network(params: Params, x: Array) -> Array:
    """Dense layers with tanh between them."""
    for weights, bias in params[:-1]:
        x = named.tanh(x @ weights + bias)
    weights, bias = params[-1]
    return x @ weights + bias


def initial(widths: tuple[int, ...]) -> Params:
    """Parameters of a network."""
    pairs = zip(widths[:-1], widths[1:], strict=True)
    return [
        (normal(i, a, b) / np.float32(a**0.5), np.zeros(b, np.float32))
        for i, (a, b) in enumerate(pairs)
    ]


def update(params: Params, moments: tuple, x: Array, target: Array) -> tuple[Params, tuple, Array]:
    """One step of Adam on a squared error, with the gradient clipped by its norm."""

    def loss_fn(params: Params) -> Array:
        return jnp.mean(jnp.square(network(params, x) - target))

    loss, grads = jax.value_and_grad(loss_fn)(params)
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in jax.tree.leaves(grads)))
    grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, 0.5 / (norm + 1e-6)), grads)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], grads)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * jnp.square(g), moments[1], grads)
    params = jax.tree.map(
        lambda p, m, v: p - 3e-4 * m / (jnp.sqrt(v) + 1e-8), params, first, second
    )
    return params, (first, second), loss


def spread(x: np.ndarray) -> Array:
    """Rows spread over all devices of this process."""
    mesh = Mesh(np.array(jax.devices()), ("rows",))
    return jax.device_put(x, NamedSharding(mesh, PartitionSpec("rows")))


def digest(tree: Any) -> str:
    """SHA-256 of the bytes of all leaves."""
    sha = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        sha.update(np.ascontiguousarray(leaf).tobytes())
    return sha.hexdigest()


def hashes(wrap: Callable[..., Any]) -> dict[str, str]:
    """Name → digest of every program, transformed by `wrap`."""
    found = {}
    mean, u = normal(1, 2048, 8), normal(2, 2048, 8) * 2
    log_std = normal(3, 8) * np.float32(0.3)
    for size in SIZES:
        rows = wrap(log_prob)(mean[:size], log_std, u[:size])
        found[f"log_prob[{size}]"] = digest(rows[:1])
        if size == max(SIZES):
            found["log_prob"] = digest(rows)
    found["gae"] = digest(
        wrap(gae)(normal(4, 128, 64), normal(5, 129, 64), normal(6, 128, 64) > -1)
    )
    params = initial((16, 64, 64, 4))
    x, target = normal(7, 2048, 16), normal(8, 2048, 4)
    for size in SIZES:
        found[f"network[{size}]"] = digest(wrap(network)(params, x[:size])[:1])
    moments = (jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params))
    found["update"] = digest(wrap(update)(params, moments, spread(x), spread(target)))
    return found


def brax_hash(wrap: Callable[..., Any], name: str, backend: str) -> str:
    """Digest of a reset and a step of 8 environments."""
    from brax import envs

    env = envs.get_environment(name, backend=backend)
    keys = jax.random.split(jax.random.key(1), 8)
    actions = np.tanh(normal(9, 8, env.action_size))
    return digest(wrap(jax.vmap(lambda k, a: env.step(env.reset(k), a)))(keys, actions))


def main() -> None:
    """Prints the digests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plain", action="store_true", help="jax.jit instead of exact")
    parser.add_argument("--brax", default="", help="name:backend of a Brax task to add")
    options = parser.parse_args()
    wrap = jax.jit if options.plain else exact
    found = hashes(wrap)
    if options.brax:
        found[f"brax {options.brax}"] = brax_hash(wrap, *options.brax.split(":"))
    for name, value in found.items():
        print(name.replace(" ", "_"), value)


if __name__ == "__main__":
    main()
