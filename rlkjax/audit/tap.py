"""The tap: turns device arrays into named host arrays, whose bytes are then hashed.

It takes finished values that a program returned as ordinary outputs; it adds nothing to a program
and cannot change its bits. It is the only file of the audit that knows JAX.
"""

import functools
from typing import Any

import jax
import numpy as np

from rlkjax.errors import InputError


def _host(leaf: Any) -> np.ndarray:
    """The finished value of one leaf on the host; a typed key becomes its uint32 words."""
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf)


def _name(path: tuple) -> str:
    """Path of a leaf as "policy/params/policy_head/kernel"."""
    return jax.tree_util.keystr(path, simple=True, separator="/")


@functools.lru_cache(maxsize=64)
def _names(structure: jax.tree_util.PyTreeDef) -> tuple[str, ...]:
    """Paths of the leaves of a structure, in order; spelt once, as every iteration has the same."""
    tree = jax.tree.unflatten(structure, range(structure.num_leaves))
    names = tuple(_name(path) for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0])
    if len(set(names)) != len(names):
        raise InputError(
            "tap: got two leaves with one path, want a tree whose paths are unique; rename one"
        )
    return names


def fields(tree: Any) -> dict[str, np.ndarray]:
    """All leaves of a tree by path, on the host. Waits until each is computed.

    Args:
      tree: records, dicts and tuples of arrays.

    Returns:
      Path -> array, read-only views of the finished buffers where the backend shares memory. A name
      ending in "_" that only avoids a Python keyword stays as it is.

    Raises:
      InputError: two leaves have one path.
    """
    leaves, structure = jax.tree.flatten(tree)
    return dict(zip(_names(structure), map(_host, leaves), strict=True))


def shapes(tree: Any) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Dtype and shape of every leaf, as `fields` would return it, without computing anything.

    Args:
      tree: arrays, or what `jax.eval_shape` returns.

    Returns:
      Path -> (dtype name, shape).
    """

    def host_shape(leaf: Any) -> tuple[str, tuple[int, ...]]:
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            data = jax.eval_shape(jax.random.key_data, leaf)
            return data.dtype.name, data.shape
        return leaf.dtype.name, leaf.shape

    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {_name(path): host_shape(leaf) for path, leaf in leaves}


def rebuild(like: Any, named: dict[str, np.ndarray]) -> Any:
    """The inverse of `fields`.

    Args:
      like: a tree of the wanted structure (arrays, or what `jax.eval_shape` returns).
      named: path -> array, with every path of `like`.

    Returns:
      A tree of device arrays that own their memory.
    """

    def leaf(path: tuple, shape: Any) -> jax.Array:
        array = jax.numpy.array(named[_name(path)], copy=True)
        if jax.dtypes.issubdtype(shape.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(array, impl=_generator(shape))
        return array

    # A copy may go on after the call returns: nothing may write to `named` before it has ended.
    return jax.block_until_ready(jax.tree_util.tree_map_with_path(leaf, like))


def _generator(key: Any) -> str:
    """Name of the generator of a typed key; `key_impl` takes no bare shape, but a traced one."""
    found: list[str] = []
    jax.eval_shape(lambda traced: found.append(str(jax.random.key_impl(traced))), key)
    return found[0]
