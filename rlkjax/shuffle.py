"""A drawn order of samples from integer arithmetic alone: cheap, and the same on every backend.

A Feistel network over the next power of two permutes its domain; numbers that fall outside the
range walk on until they are inside. Sorting random words, as `jax.random.permutation` does, costs
ten times as much on a CPU.
"""

import jax
import jax.numpy as jnp

from rlkjax.types import Array

ROUNDS = 4  # of two half-rounds each


def _mix(word: Array, key: Array) -> Array:
    """A 32-bit hash whose upper bits depend on all bits of its input."""
    word = (word ^ key) * jnp.uint32(0x9E3779B1)
    word = (word ^ (word >> 15)) * jnp.uint32(0x85EBCA77)
    return word ^ (word >> 13)


def _encrypt(number: Array, keys: Array, low_bits: int, high_bits: int) -> Array:
    """Feistel network on numbers of low_bits + high_bits bits; a bijection for any keys."""
    low = number & jnp.uint32((1 << low_bits) - 1)
    high = number >> low_bits
    for i in range(ROUNDS):
        high ^= _mix(low, keys[2 * i]) >> (32 - high_bits)
        low ^= _mix(high, keys[2 * i + 1]) >> (32 - low_bits)
    return high << low_bits | low


def permutation(key: Array, n: int) -> Array:
    """A permutation of 0 .. n-1 that the key determines.

    Args:
      key: [] typed key; consumed.
      n: how many numbers, from 1 to 2^31.

    Returns:
      [n] uint32, each number once.

    Source: Black and Rogaway, "Ciphers with arbitrary finite domains" (2002), method 2 (cycle
      walking); four rounds of two half-rounds, and a hash in the place of a pseudorandom function.
    """
    bits = max((n - 1).bit_length(), 2)
    low_bits, high_bits = bits // 2, bits - bits // 2
    keys = jax.random.bits(key, (2 * ROUNDS,), jnp.uint32)

    def outside(number: Array) -> Array:
        return jnp.any(number >= n)

    def walk(number: Array) -> Array:
        return jnp.where(number >= n, _encrypt(number, keys, low_bits, high_bits), number)

    first = _encrypt(jnp.arange(n, dtype=jnp.uint32), keys, low_bits, high_bits)
    return jax.lax.while_loop(outside, walk, first)
