"""Merkle trees over leaf digests, as in RFC 6962. The standard library alone.

    leaf = SHA-256(0x00 || data)        node = SHA-256(0x01 || left || right)

A tree of n leaves splits at the largest power of two below n, which is the same as pairing
neighbours level by level and carrying a last odd node up unchanged.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple


def leaf_hash(data: bytes) -> bytes:
    """Digest of one leaf: SHA-256(0x00 || data).

    Args:
      data: any bytes.

    Returns:
      32 bytes.

    Source: RFC 6962, section 2.1.
    """
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Digest of an inner node: SHA-256(0x01 || left || right).

    Args:
      left: 32 bytes.
      right: 32 bytes.

    Returns:
      32 bytes.

    Source: RFC 6962, section 2.1.
    """
    return hashlib.sha256(b"\x01" + left + right).digest()


def root(leaves: Sequence[bytes]) -> bytes:
    """Merkle tree hash over leaf digests.

    Args:
      leaves: digests of 32 bytes, as `leaf_hash`, `segment_leaves` or `tensor_leaves` give them.

    Returns:
      32 bytes; SHA-256("") when there is no leaf.

    Source: RFC 6962, section 2.1.
    """
    sha256 = hashlib.sha256
    level = list(leaves)
    if not level:
        return sha256(b"").digest()
    while len(level) > 1:
        odd = level[-1:] if len(level) % 2 else []
        pairs = zip(level[0::2], level[1::2], strict=False)
        level = [sha256(b"\x01" + left + right).digest() for left, right in pairs] + odd
    return level[0]


class Frontier(NamedTuple):
    """A tree that grows leaf by leaf, kept as the roots of its perfect subtrees.

    Attributes:
      size: number of leaves so far.
      peaks: roots of the perfect subtrees, largest first; at most 64 of 32 bytes.
    """

    size: int = 0
    peaks: tuple[bytes, ...] = ()

    def add(self, leaf: bytes) -> "Frontier":
        """The tree with one more leaf.

        Args:
          leaf: 32 bytes.

        Returns:
          The new frontier.
        """
        peaks, size = self.peaks, self.size
        while size & 1:
            peaks, leaf, size = peaks[:-1], node_hash(peaks[-1], leaf), size >> 1
        return Frontier(self.size + 1, (*peaks, leaf))

    def root(self) -> bytes:
        """Merkle tree hash of all leaves so far: the peaks joined from the right.

        Returns:
          32 bytes; SHA-256("") when there is no leaf.

        Source: RFC 6962, section 2.1.
        """
        if not self.peaks:
            return hashlib.sha256(b"").digest()
        *rest, digest = self.peaks
        for peak in reversed(rest):
            digest = node_hash(peak, digest)
        return digest
