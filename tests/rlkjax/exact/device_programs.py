"""Programs for several virtual devices; run as a script it prints digests, one a line.

`python device_programs.py N quick|all` uses N devices. Every line but those of "collectives" must
be the same for every N.
"""

import hashlib
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from rlkjax.exact import named
from rlkjax.exact.reference import reference
from rlkjax.exact.transform import exact

Array = jax.Array


def mesh_of(*sizes: int) -> jax.sharding.Mesh:
    """A mesh with axes a, b, … of these sizes."""
    devices = jax.devices()[: int(np.prod(sizes))]
    names = tuple("abc"[: len(sizes)])
    return jax.make_mesh(sizes, names, axis_types=(AxisType.Auto,) * len(sizes), devices=devices)


def wide(seed: int, *shape: int) -> np.ndarray:
    """Numbers of both signs over about 40 binades."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) * np.exp(rng.normal(size=shape) * 7)).astype(np.float32)


def edged(seed: int, *shape: int) -> np.ndarray:
    """The same with NaN, infinities and zeros of both signs among them."""
    x = wide(seed, *shape)
    x.flat[::7], x.flat[3], x.flat[11::13], x.flat[20] = 0.0, np.nan, -0.0, np.inf
    return x


def loss(w: Array, x: Array, target: Array) -> Array:
    """A sum of squares; `w` is used once."""
    rest = jnp.tanh(x @ w) - target
    return jnp.sum(rest * rest)


def shared_loss(mesh: Any, check: bool) -> Callable[..., Any]:
    """Loss and derivative of rows that devices share."""

    def body(w: Array, x: Array, target: Array) -> Any:
        if check:
            return jax.value_and_grad(lambda w: lax.psum(loss(w, x, target), "a"))(w)
        return lax.psum(jax.value_and_grad(loss)(w, x, target), "a")

    specs = {"in_specs": (P(), P("a"), P("a")), "out_specs": (P(), P())}
    return jax.shard_map(body, mesh=mesh, check_vma=check, **specs)


def network(rows: int) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """(parameters, tokens, targets) of `embedded_loss`; each row is of another size."""
    params = {
        "embedding": wide(21, 11, 7),
        "kernel": wide(22, 7, 16) / 1e3,
        "bias": wide(23, 16) / 1e3,
        "head": wide(24, 16, 5),
    }
    tokens = np.random.default_rng(25).integers(0, 11, rows).astype(np.int32)
    return params, tokens, wide(26, rows, 5)


def embedded_loss(params: dict[str, Array], tokens: Array, target: Array) -> Array:
    """Two sums over rows with factors; JAX broadcasts the bias, embedding and kernel are tied."""
    hidden = jnp.tanh(params["embedding"][tokens] @ params["kernel"] + params["bias"])
    rest = hidden @ params["head"] - target
    similar = jnp.sum(jnp.sin(hidden @ params["kernel"].T @ params["embedding"].T))
    return -jnp.sum(-rest * rest) / 96 * 0.1 + 0.01 * similar


def shared_microbatches(mesh: Any, count: int, check: bool) -> Callable[..., Any]:
    """Its loss and gradients, of rows that devices share and take in `count` microbatches."""

    def body(params: Any, tokens: Array, target: Array) -> Any:
        def one(part: Any) -> Any:
            return jax.value_and_grad(embedded_loss)(params, *part)

        parts = tokens.reshape(count, -1), target.reshape(count, -1, 5)
        value, grads = named.accumulate(one, parts)
        # a checked derivative of what all devices share is summed over them already
        return lax.psum(value, "a"), grads if check else lax.psum(grads, "a")

    specs = {"in_specs": (P(), P("a"), P("a")), "out_specs": (P(), P())}
    return jax.shard_map(body, mesh=mesh, check_vma=check, **specs)


def shared_unequal_factors(mesh: Any) -> Callable[..., Any]:
    """Microbatches of rows that devices share, divided by what is another number on each."""

    def body(x: Array) -> Any:
        own = 1.0 + lax.axis_index("a").astype(jnp.float32)
        parts = x.reshape(2, -1, x.shape[1])
        return lax.psum(named.accumulate(lambda part: jnp.sum(part, 0) / own, parts), "a")

    return jax.shard_map(body, mesh=mesh, in_specs=P("a"), out_specs=P(), check_vma=False)


def shared_factors(mesh: Any, check: bool) -> Callable[..., Any]:
    """Sums and products of rows that are shared, times and over constants of the program."""

    def body(x: Array) -> Any:
        total = jnp.sum(x, 0)
        return lax.psum((total / 64, 0.3 * jnp.sum(x * 0.5, 0), (x.T @ x) * 0.1), "a")

    return jax.shard_map(body, mesh=mesh, in_specs=P("a"), out_specs=P(), check_vma=check)


def sums_over_two_axes(mesh: Any) -> Callable[..., Any]:
    """Sums over one axis of devices after the other."""

    def body(x: Array) -> Any:
        return lax.psum(lax.psum(jnp.sum(x, 0), "a"), "b")

    return jax.shard_map(body, mesh=mesh, in_specs=P(("a", "b")), out_specs=P(), check_vma=False)


def shared_sums(mesh: Any) -> Callable[..., Any]:
    """Sums, products of matrices, a convolution's weights and extremes of rows that are shared."""

    def body(x: Array, y: Array) -> Any:
        image, other = x[:, None], y[:, None]
        weights = lax.conv_general_dilated(
            image.transpose(1, 0, 2), other.transpose(1, 0, 2)[:, :, :3], (1,), "VALID"
        )
        sums = jnp.sum(x, 0), jnp.sum(x), (x.T @ y).T, x.reshape(-1) @ y.reshape(-1), weights
        return lax.psum(sums, "a"), lax.pmax(x.max(0), "a"), lax.pmin(x.min(0), "a")

    specs = {"in_specs": (P("a"), P("a")), "out_specs": (P(), P(), P())}
    return jax.shard_map(body, mesh=mesh, check_vma=False, **specs)


def sums_in_calls(x: Array, y: Array) -> Any:
    """Sums and products inside of calls, and calls inside of these."""
    product = jax.jit(lambda a, b: a.T @ b)
    both = jax.jit(lambda a, b: (product(a, b).T, jnp.sum(b, 0)))
    return product(x, y), jax.checkpoint(lambda a: jnp.sum(a))(y), both(y, x)


def shared_calls(mesh: Any) -> Callable[..., Any]:
    """The same of rows that are shared."""

    def body(x: Array, y: Array) -> Any:
        return lax.psum(sums_in_calls(x, y), "a")

    specs = {"in_specs": (P("a"), P("a")), "out_specs": P()}
    return jax.shard_map(body, mesh=mesh, check_vma=False, **specs)


def collectives(mesh: Any, check: bool) -> Callable[..., Any]:
    """Every exchange between devices, also inside a loop and a branch."""

    def body(x: Array, y: Array) -> Any:
        along = mesh.shape["a"]
        turn = [(i, (i + 1) % along) for i in range(along - 1)]

        def step(carry: Array, _: None) -> tuple[Array, Array]:
            carry = carry * 0.5 + lax.pmean(carry, "a")
            return carry, carry

        last, states = lax.scan(step, x.sum(), None, length=3)
        branch = lax.cond(y > 0, lambda v: lax.ppermute(v, "a", turn), lambda v: v * 2.0, x)
        outs = [
            lax.pmax(x, "a") * x,
            lax.pmin(x, "b") * x,
            lax.all_gather(x, "a", tiled=True).sum(0, keepdims=True) + x,
            lax.all_gather(x, "b", axis=1).max(1) + x,
            x * lax.axis_index("b") + lax.axis_index(("a", "b")),
            lax.all_to_all(x, "a", 1, 1, tiled=True) + branch,
            lax.psum_scatter(jnp.tile(x[:1], (along, 1)), "a", tiled=True) + x,
            jnp.broadcast_to(last + states.sum() + lax.psum(jnp.sin(x), ("b", "a")), x.shape),
        ]
        return jnp.stack(outs)

    specs = {"in_specs": (P("a", "b"), P()), "out_specs": P(None, "a", "b")}
    return jax.shard_map(body, mesh=mesh, check_vma=check, **specs)


def constant_sum() -> Array:
    """A sum that no input changes."""
    return jnp.sum(jnp.full((6,), 0.1))


def constant_cells() -> Array:
    """A scatter-add that no input changes."""
    return jnp.zeros(2).at[1].add(jnp.full((), 0.7))


# functions of a row that add what follows from constants alone
CONSTANTS = {
    "sum": lambda x: constant_sum(),
    "two sums": lambda x: jnp.sum(x) + constant_sum(),
    "dot": lambda x: jnp.full((6,), 0.1) @ jnp.full((6,), 0.3) + x[0],
    "jit": lambda x: jax.jit(constant_sum)() + jnp.sum(x),
    "checkpoint": lambda x: jax.checkpoint(lambda: constant_sum())(),
    "cells": lambda x: constant_cells() + x,
    "bias": lambda x: jax.grad(lambda w: jnp.sum((jnp.full((3, 2), 2.0) + w) * 0.1))(x),
}


def shared_constants(mesh: Any, check: bool) -> Callable[..., Any]:
    """Each device adds its constants, and hands one on."""

    def body(x: Array) -> Array:
        sums = [lax.psum(fn(x[0]), "a") for fn in CONSTANTS.values()]
        return sum(sums, x) + lax.ppermute(jnp.ones(2), "a", [(0, 0)])

    return jax.shard_map(body, mesh=mesh, in_specs=P("a"), out_specs=P("a"), check_vma=check)


def digest(tree: Any) -> str:
    """16 hexadecimal digits of SHA-256 over the bytes of every leaf."""
    data = b"".join(np.asarray(x).tobytes() for x in jax.tree.leaves(tree))
    return hashlib.sha256(data).hexdigest()[:16]


def quick(count: int) -> Iterator[tuple[str, Any, Any]]:
    """(name, what exact gives, what must be equal to it) on `count` devices."""
    mesh, args = mesh_of(count), (wide(1, 24, 5), wide(2, 64, 24), wide(3, 64, 5))
    alone = exact(jax.value_and_grad(loss))(*args)
    yield "loss_checked", exact(shared_loss(mesh, True))(*args), alone
    yield "loss_reference", reference(shared_loss(mesh, False))(*args), alone
    rows = edged(4, 64, 9), wide(5, 64, 9)
    rows[0][:, 8] = wide(6, 64)
    yield "sums", exact(shared_sums(mesh))(*rows), reference(shared_sums(mesh))(*rows)
    yield "calls", exact(shared_calls(mesh))(*rows), exact(sums_in_calls)(*rows)
    yield "calls_reference", reference(shared_calls(mesh))(*rows), exact(sums_in_calls)(*rows)
    batch = network(96)
    alone = exact(jax.value_and_grad(embedded_loss))(*batch)
    for check in (True, False):
        fn = shared_microbatches(mesh, 3, check)
        yield f"microbatches_{check}", exact(fn)(*batch), alone
        yield f"microbatches_reference_{check}", reference(fn)(*batch), alone
    even = np.random.default_rng(27).normal(size=(64, 6)).astype(np.float32)
    factors = exact(lambda x: (x.sum(0) / 64, 0.3 * (x * 0.5).sum(0), (x.T @ x) * 0.1))
    largest = np.full((2**16, 2), np.nextafter(np.float32(2), np.float32(0)))
    yield "largest", exact(shared_factors(mesh, False))(largest), factors(largest)
    for check in (True, False):
        fn = shared_factors(mesh, check)
        alone = factors(even)
        yield f"factors_{check}", exact(fn)(even), alone
        yield f"factors_reference_{check}", reference(fn)(even), alone
    fn = shared_unequal_factors(mesh)
    yield "collectives_factors", exact(fn)(rows[1]), reference(fn)(rows[1])
    fn = sums_over_two_axes(mesh_of(count // min(2, count), min(2, count)))
    yield "two_axes", exact(fn)(rows[1]), exact(lambda x: jnp.sum(x, 0))(rows[1])
    x = edged(7, 8, 16)
    if count > 1:
        fn = collectives(mesh_of(2, count // 2), True)
        yield "collectives", exact(fn)(x, np.float32(1.0)), reference(fn)(x, np.float32(1.0))
    x = wide(31, 16, 2)
    for check in (True, False):
        fn = shared_constants(mesh, check)
        yield f"collectives_constants_{check}", exact(fn)(x), reference(fn)(x)


def more(count: int) -> Iterator[tuple[str, Any, Any]]:
    """The same for the compiler's own partition, calls inside, and exported programs."""
    mesh, args = mesh_of(count), (wide(1, 24, 5), wide(2, 64, 24), wide(3, 64, 5))
    alone = exact(jax.value_and_grad(loss))(*args)
    yield "loss_unchecked", exact(shared_loss(mesh, False))(*args), alone
    shardings = [NamedSharding(mesh, spec) for spec in (P(), P("a"), P("a"))]
    partitioned = jax.jit(exact(jax.value_and_grad(loss)), in_shardings=shardings)
    yield "loss_partitioned", partitioned(*args), alone
    rows = edged(4, 64, 9), wide(5, 64, 9)
    inside = jax.shard_map(
        exact(lambda x: (jnp.tanh(x) @ x.T[:, :8], lax.psum(jnp.sum(x), "a"))),
        mesh=mesh,
        in_specs=P("a"),
        out_specs=(P("a"), P()),
        check_vma=False,
    )
    yield "exact_inside", jax.jit(inside)(rows[1])[1], exact(jnp.sum)(rows[1])
    placed = [jax.device_put(x, NamedSharding(mesh, P("a"))) for x in rows]
    exported = jax.export.export(jax.jit(exact(shared_sums(mesh))))(*placed)
    yield "exported", jax.jit(exported.call)(*placed), exact(shared_sums(mesh))(*rows)
    x = edged(7, 8, 16)
    for size in (n for n in (1, 2, 4, 8) if count % n == 0 and n <= count):
        for check in (True, False):
            fn = collectives(mesh_of(size, count // size), check)
            name = f"collectives_{size}x{count // size}_{check}"
            yield name, exact(fn)(x, np.float32(1.0)), reference(fn)(x, np.float32(1.0))


def main() -> int:
    """Prints the digests; exit status 1 if two that must be equal are not."""
    count, part, bad = int(sys.argv[1]), sys.argv[2], 0
    for name, got, want in chain(quick(count), more(count) if part == "all" else ()):
        same = digest(got) == digest(want)
        bad += not same
        print(name, digest(got), "" if same else f"differs from {digest(want)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
