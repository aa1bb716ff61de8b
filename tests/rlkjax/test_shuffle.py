"""The drawn order: a permutation for every length, spread evenly, another for every epoch."""

import functools

import jax
import numpy as np
import pytest

from rlkjax.shuffle import permutation
from vimejax import keys


@functools.partial(jax.jit, static_argnums=1)
def drawn(key, n):
    return permutation(key, n)


@functools.partial(jax.jit, static_argnums=1)
def drawn_many(key_array, n):
    return jax.vmap(lambda key: permutation(key, n))(key_array)


SOME = [*range(1, 18), 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257, 300, 1000]


@pytest.mark.parametrize("n", [*SOME, 1024, 4097, 25_600, 65_536])
def test_every_number_once(n):
    for seed in range(3):
        order = np.asarray(drawn(jax.random.key(seed), n))
        np.testing.assert_array_equal(np.sort(order), np.arange(n))


@pytest.mark.slow
def test_every_number_once_for_every_length():
    for n in range(1, 301):
        order = np.asarray(drawn_many(jax.random.split(jax.random.key(n), 50), n))
        np.testing.assert_array_equal(np.sort(order, 1), np.tile(np.arange(n), (50, 1)))


def chi_square(counts):
    expected = counts.sum() / counts.size
    return float(((counts - expected) ** 2 / expected).sum())


def test_every_place_is_equally_likely():
    # 20,000 orders of 10: what stands at place i, chi-square with 9 degrees of freedom, which is
    # above 27.9 once in 1000; with 10 places and one fixed seed, above 33.7 once in 1000.
    orders = np.asarray(drawn_many(jax.random.split(jax.random.key(0), 20_000), 10))
    found = [chi_square(np.bincount(orders[:, place], minlength=10)) for place in range(10)]
    assert max(found) < 33.7
    assert min(found) > 0.5  # and not evener than chance allows


def test_neighbours_part():
    # Place of number 1 minus place of number 0, mod 16: uniform over 1..15; 14 degrees of freedom,
    # above 36.1 once in 1000.
    orders = np.asarray(drawn_many(jax.random.split(jax.random.key(1), 20_000), 16))
    places = np.argsort(orders, 1)
    gaps = (places[:, 1] - places[:, 0]) % 16
    assert chi_square(np.bincount(gaps, minlength=16)[1:]) < 36.1


def test_large_orders_spread_each_number_over_all_minibatches():
    # 400 orders of 25,600 samples in 16 minibatches: with 15 degrees of freedom above 37.7 once in
    # 1000.
    orders = np.asarray(drawn_many(jax.random.split(jax.random.key(2), 400), 25_600))
    for number in (0, 1, 12_800, 25_599):
        minibatch = np.argmax(orders == number, 1) // 1600
        assert chi_square(np.bincount(minibatch, minlength=16)) < 37.7


def test_every_epoch_of_every_iteration_has_its_own_order():
    run = keys.run_key(0, keys.Stream.SHUFFLE)
    orders = {
        tuple(np.asarray(drawn(keys.shuffle_key(run, iteration, epoch), 64)).tolist())
        for iteration in range(6)
        for epoch in range(4)
    }
    assert len(orders) == 24
    other = keys.run_key(1, keys.Stream.SHUFFLE)
    first = np.asarray(drawn(keys.shuffle_key(other, 0, 0), 64)).tolist()
    assert tuple(first) not in orders


def test_the_order_of_a_key_is_fixed():
    # Part of the format of a run: another order would change every update. Worked out in Python
    # integers below, from the two words of the key's stream.
    words = np.asarray(jax.random.bits(jax.random.key(7), (8,), np.uint32)).tolist()

    def mix(word, key):
        word = (word ^ key) * 0x9E3779B1 % 2**32
        word = (word ^ word >> 15) * 0x85EBCA77 % 2**32
        return word ^ word >> 13

    def place(number):  # 11 numbers: 4 bits, two and two
        low, high = number % 4, number // 4
        for i in range(4):
            high ^= mix(low, words[2 * i]) >> 30
            low ^= mix(high, words[2 * i + 1]) >> 30
        number = high * 4 + low
        return number if number < 11 else place(number)

    assert np.asarray(drawn(jax.random.key(7), 11)).tolist() == [place(i) for i in range(11)]
