"""Proofs over a Merkle tree: that a record is in a log, and that a log only grew."""

import hashlib
from collections.abc import Sequence

from rlkjax.audit.tree import node_hash, root
from rlkjax.errors import InputError


def _split(size: int) -> int:
    """Largest power of two below `size`, for size of 2 and more."""
    return 1 << (size - 1).bit_length() - 1


def inclusion_proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Audit path of leaf `index`, from the leaf's sibling up to the root's child.

    Args:
      leaves: digests of 32 bytes.
      index: from 0 to len(leaves) - 1.

    Returns:
      The sibling digests, 32 bytes each.

    Raises:
      InputError: no such leaf.

    Source: RFC 6962, section 2.1.1.
    """
    if not 0 <= index < len(leaves):
        raise InputError(f"index: got {index}, want 0 to {len(leaves) - 1}; count leaves from 0")
    path: list[bytes] = []
    while len(leaves) > 1:
        k = _split(len(leaves))
        near, far = (leaves[:k], leaves[k:]) if index < k else (leaves[k:], leaves[:k])
        index = index if index < k else index - k
        path.insert(0, root(far))
        leaves = near
    return path


def verify_inclusion(
    leaf: bytes, index: int, size: int, *, proof: Sequence[bytes], root: bytes
) -> bool:
    """Whether `proof` shows that `leaf` is number `index` of the `size` leaves under `root`.

    Args:
      leaf: 32 bytes, digest of the leaf.
      index: number of the leaf.
      size: number of leaves.
      proof: the audit path.
      root: 32 bytes, the trusted root.

    Returns:
      True only if the path leads to the root.

    Source: RFC 9162, section 2.1.3.2.
    """
    if not 0 <= index < size:
        return False
    fn, sn, digest = index, size - 1, leaf
    for sibling in proof:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            digest = node_hash(sibling, digest)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            digest = node_hash(digest, sibling)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and digest == root


def consistency_proof(leaves: Sequence[bytes], first: int) -> list[bytes]:
    """Proof that the tree over `leaves` only appends to the tree over its `first` leaves.

    Args:
      leaves: digests of 32 bytes.
      first: size of the older tree, from 1 to len(leaves).

    Returns:
      Digests of 32 bytes; none when the sizes are equal.

    Raises:
      InputError: `first` out of range.

    Source: RFC 6962, section 2.1.2.
    """
    if not 1 <= first <= len(leaves):
        raise InputError(
            f"first: got {first}, want 1 to {len(leaves)}; an older tree is not larger or empty"
        )
    proof: list[bytes] = []
    whole = True  # the older tree is the whole subtree so far, which its verifier knows already
    while first != len(leaves):
        k = _split(len(leaves))
        if first <= k:
            proof.insert(0, root(leaves[k:]))
            leaves = leaves[:k]
        else:
            proof.insert(0, root(leaves[:k]))
            leaves, first, whole = leaves[k:], first - k, False
    return proof if whole else [root(leaves), *proof]


def verify_consistency(
    first: int, second: int, *, first_root: bytes, second_root: bytes, proof: Sequence[bytes]
) -> bool:
    """Whether `proof` shows that the second tree begins with all leaves of the first.

    Args:
      first: size of the older tree; an empty tree is a prefix of every other.
      second: size of the newer tree.
      first_root: 32 bytes, root of the older tree.
      second_root: 32 bytes, root of the newer tree.
      proof: digests as `consistency_proof` gives them.

    Returns:
      True only if both roots follow from the proof.

    Source: RFC 9162, section 2.1.4.2.
    """
    if first == 0:
        return first_root == hashlib.sha256(b"").digest() and not proof and second >= 0
    if first == second:
        return not proof and first_root == second_root
    if not 0 < first < second:
        return False
    path = list(proof)
    if first & (first - 1) == 0:
        path.insert(0, first_root)
    if not path:
        return False
    fn, sn = first - 1, second - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    old = new = path[0]
    for digest in path[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            old, new = node_hash(digest, old), node_hash(digest, new)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            new = node_hash(new, digest)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and old == first_root and new == second_root
