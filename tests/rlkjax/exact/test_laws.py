"""The laws of sums and dots, for every length and kind of number, and against the reference.

Permuting what is added, splitting it, appending zeros, and terms of weight zero change no bit.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from rlkjax.exact import named
from rlkjax.exact.reference import reference
from rlkjax.exact.transform import exact

LENGTHS = [0, 1, 2, 3, 7, 64, 127, 128, 129, 1000]
LONG = [4096, 2**17, 2**17 + 1, 2**20]


def normal(rng, n):
    """Standard normal numbers."""
    return rng.normal(size=n)


def wide(rng, n):
    """Every binade of float32, both signs."""
    return rng.choice([-1.0, 1.0], n) * rng.uniform(1, 2, n) * 2.0 ** rng.integers(-126, 127, n)


def tiny(rng, n):
    """Subnormal numbers and the smallest normal ones."""
    return rng.normal(size=n) * 2.0**-126


def zeros(rng, n):
    """Zeros of both signs."""
    return rng.choice([-0.0, 0.0], n)


def cancelling(rng, n):
    """Large numbers that cancel, with small ones in between."""
    x = rng.normal(size=n) * 1e30
    x[n // 2 : 2 * (n // 2)] = -x[: n // 2]
    return x + rng.normal(size=n)


def infinite(rng, n):
    """Normal numbers, and one infinity."""
    x = rng.normal(size=n)
    x[-1:] = np.inf
    return x


def invalid(rng, n):
    """Normal numbers, both infinities and NaN."""
    x = rng.normal(size=n)
    x[:3] = [np.inf, -np.inf, np.nan][: len(x[:3])]
    return x


KINDS = {f.__name__: f for f in (normal, wide, tiny, zeros, cancelling, infinite, invalid)}


def numbers(kind: str, length: int, seed: int) -> np.ndarray:
    """float32 numbers of a kind."""
    with np.errstate(all="ignore"):
        return KINDS[kind](np.random.default_rng(seed), length).astype(np.float32)


def halves(x):
    """Two rows: the elements in turns, a zero appended if their number is odd."""
    return jnp.append(x, jnp.zeros(x.size % 2)).reshape(-1, 2).T


def sums(x, y, order):
    """Ways to one sum."""
    appended = jnp.concatenate([-jnp.zeros(3), x, jnp.zeros(70)])
    cell = jnp.zeros(2).at[jnp.ones(x.size, jnp.int32)].add(x)[1]
    mapped = jax.vmap(jnp.sum)(jnp.stack([x, y]))[0]
    running = lax.cumsum(jnp.concatenate([jnp.zeros(1), x[order]]))[-1]
    looped = jnp.stack([x, x[order]]).sum(1)[1]
    return [
        jnp.sum(x),
        x[order].sum(),
        appended.sum(),
        halves(x).sum(),
        mapped,
        looped,
        cell,
        running,
    ]


def dots(x, y, order):
    """Ways to one dot."""
    longer = [jnp.concatenate([v, jnp.zeros(130)]) for v in (x, y)]
    row = (jnp.stack([x, y, x + 1.0]) @ jnp.stack([y, x]).T)[0, 0]
    split = jnp.einsum("ij,ij->", halves(x), halves(y))
    return [x @ y, x[order] @ y[order], longer[0] @ longer[1], y @ x, split, row]


def weighted(x, y, order):
    """Ways to one product on the contracted grid: terms of weight zero hold anything finite."""

    def product(weights, values):
        return named.dot(weights[None], values[:, None], grid="contracted")[0, 0]

    weights, none = jnp.append(x, jnp.zeros(2)), jnp.zeros(2)
    masked = [jnp.append(y, jnp.float32(v)) for v in ([3e38, -3e38], [1e-38, 1.0])]
    return [
        product(x, y),
        product(weights, jnp.append(y, none)),
        *(product(weights, m) for m in masked),
    ]


def check(kind: str, length: int, ways) -> None:
    """All ways of one value, and the reference's, have the same bits."""
    args = (
        numbers(kind, length, length),
        numbers(kind, length, length + 1),
        np.random.default_rng(1).permutation(length).astype(np.int32),
    )
    found = [np.asarray(v).tobytes() for v in exact(ways)(*args)]
    assert found == [found[0]] * len(found)
    assert reference(lambda *a: ways(*a)[0])(*args).tobytes() == found[0]


@pytest.mark.parametrize("length", [0, 1, 1000])
def test_laws_hold_for_numbers_of_every_size(length):
    for ways in (sums, dots, weighted):
        check("wide", length, ways)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_laws_hold_for_every_kind_of_number(kind):
    for ways in (sums, dots, weighted):
        check(kind, 129, ways)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("length", LENGTHS + LONG)
def test_laws_hold_for_every_length_and_kind(kind, length):
    for ways in (sums, dots, weighted):
        check(kind, length, ways)
