"""Threefry 2x32 and what JAX builds on it, in NumPy; a key is one uint64, the first word high.

Source: Salmon et al. (2011), "Parallel random numbers: as easy as 1, 2, 3", 20 rounds.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

Value = NDArray[Any]
Params = Mapping[str, Any]

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)
LOW = np.uint64(0xFFFFFFFF)


def to_numpy(value: Any) -> Value:
    """A JAX or NumPy array as NumPy; typed keys as uint64."""
    if hasattr(value, "dtype") and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        data = np.asarray(jax.random.key_data(value))
        return joined(data[..., 0], data[..., 1])
    return np.asarray(value)


def threefry(key0: Value, key1: Value, x0: Value, x1: Value) -> tuple[Value, Value]:
    """Encrypts the block (x0, x1) with the key: uint32 arrays that broadcast."""
    keys = [np.asarray(key0, np.uint32), np.asarray(key1, np.uint32)]
    keys.append(keys[0] ^ keys[1] ^ PARITY)
    with np.errstate(over="ignore"):
        x0 = np.asarray(x0, np.uint32) + keys[0]
        x1 = np.asarray(x1, np.uint32) + keys[1]
        for turn in range(5):
            for distance in ROTATIONS[turn % 2]:
                x0 = x0 + x1
                x1 = x0 ^ ((x1 << np.uint32(distance)) | (x1 >> np.uint32(32 - distance)))
            x0 = x0 + keys[(turn + 1) % 3]
            x1 = x1 + keys[(turn + 2) % 3] + np.uint32(turn + 1)
    return x0, x1


def words(key: Value) -> tuple[Value, Value]:
    """The two words of a key."""
    return (key >> np.uint64(32)).astype(np.uint32), (key & LOW).astype(np.uint32)


def joined(first: Value, second: Value) -> Value:
    """A key of two words."""
    return (first.astype(np.uint64) << np.uint64(32)) | second.astype(np.uint64)


def counted(keys: Value, shape: Sequence[int]) -> tuple[Value, Value]:
    """The blocks 0, 1, 2, … of a shape, encrypted under each key: [keys..., shape...]."""
    count = np.arange(math.prod(shape), dtype=np.uint64).reshape(shape)
    wide = keys.reshape(keys.shape + (1,) * len(shape))
    return threefry(*words(wide), *words(count))


def bits(params: Params, args: Sequence[Value]) -> Sequence[Value]:
    """Random words: both halves of each block, exclusive or."""
    first, second = counted(args[0], params["shape"])
    return [(first ^ second).astype(np.dtype(f"u{params['bit_width'] // 8}"))]


def split(params: Params, args: Sequence[Value]) -> Sequence[Value]:
    """New keys: the encrypted blocks."""
    return [joined(*counted(args[0], params["shape"]))]


def fold_in(params: Params, args: Sequence[Value]) -> Sequence[Value]:
    """A new key: the block (0, data), encrypted."""
    data = args[1].astype(np.int64).astype(np.uint32)
    return [joined(*threefry(*words(args[0]), np.zeros_like(data), data))]


def seed(params: Params, args: Sequence[Value]) -> Sequence[Value]:
    """The key (0, seed)."""
    return [args[0].astype(np.int64).astype(np.uint32).astype(np.uint64)]


MOVES = {
    "random_bits": bits,
    "random_split": split,
    "random_fold_in": fold_in,
    "random_seed": seed,
    "random_wrap": lambda p, a: [joined(a[0][..., 0], a[0][..., 1])],
    "random_unwrap": lambda p, a: [np.stack(words(a[0]), -1)],
    "random_clone": lambda p, a: [a[0]],
    "threefry2x32": lambda p, a: list(threefry(*a)),
}
