"""The hash chain of records, as pure functions; `journal` holds the file of its lines.

leaf_i = SHA-256(0x00 || line_i)       prev_(i+1) = leaf_i       chain head = leaf of the last
bits'  = SHA-256(bits || kind || 0x00 || root)
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rlkjax.audit.canonical import canonical_json
from rlkjax.audit.records import BITS_KINDS, CHAIN_KEYS, check_payload, parse
from rlkjax.audit.tree import leaf_hash
from rlkjax.errors import ConsistencyError, InputError

ZEROS = "0" * 64


@dataclass(frozen=True)
class Chain:
    """Where a ledger stands. All digests are 64 hex digits.

    Attributes:
      count: number of records so far.
      head: leaf hash of the last record.
      bits: running digest over the numeric roots alone.
    """

    count: int
    head: str
    bits: str


EMPTY = Chain(0, ZEROS, ZEROS)


def first_bits(program: str, seed: int) -> str:
    """SHA-256("rlkjax-bits/1" || 0x00 || program || seed), where `bits` starts.

    Args:
      program: 64 hex digits, digest of the program config; its 32 raw bytes are hashed.
      seed: from 0 to 2^64 - 1; 8 bytes, little-endian.

    Returns:
      64 hex digits.
    """
    data = b"rlkjax-bits/1\x00" + bytes.fromhex(program) + seed.to_bytes(8, "little")
    return hashlib.sha256(data).hexdigest()


def next_bits(bits: str, kind: str, root: str) -> str:
    """SHA-256(bits || kind || 0x00 || root), over raw bytes.

    Args:
      bits: 64 hex digits, the head so far.
      kind: ASCII kind of the record.
      root: 64 hex digits, the record's root.

    Returns:
      64 hex digits.
    """
    data = bytes.fromhex(bits) + kind.encode() + b"\x00" + bytes.fromhex(root)
    return hashlib.sha256(data).hexdigest()


def bits_after(chain: Chain, kind: str, payload: Mapping[str, Any]) -> str:
    """The running digest after one more record.

    Args:
      chain: where the ledger stands before it.
      kind: its kind.
      payload: its keys, already checked; more keys do not matter.

    Returns:
      64 hex digits.

    Raises:
      InputError: a genesis that is not the first record, or a first record that is none.
    """
    if (kind == "genesis") != (chain.count == 0):
        raise InputError(
            f"kind: got {kind!r} as record {chain.count}, want genesis first and only there; "
            "start from ledger.genesis"
        )
    if kind == "genesis":
        return first_bits(payload["program"], payload["seed"])
    return next_bits(chain.bits, kind, payload["root"]) if kind in BITS_KINDS else chain.bits


def append(chain: Chain, kind: str, payload: Mapping[str, Any]) -> tuple[Chain, bytes]:
    """The record that comes next, and where the ledger stands after it.

    Args:
      chain: where the ledger stands.
      kind: kind of the record.
      payload: its keys without index, kind, prev and bits; see docs/ledger-format.md.

    Returns:
      The new chain, and the line without its line end.

    Raises:
      InputError: unknown kind, a wrong payload, or a genesis that is not the first record.
    """
    check_payload(kind, payload)
    bits = bits_after(chain, kind, payload)
    own = {"index": chain.count, "kind": kind, "prev": chain.head, "bits": bits}
    line = canonical_json({**payload, **own})
    return Chain(chain.count + 1, leaf_hash(line).hex(), bits), line


def genesis(payload: Mapping[str, Any]) -> tuple[Chain, bytes]:
    """The first record of a ledger.

    Args:
      payload: the keys of kind genesis.

    Returns:
      The chain of one record, and the line without its line end.

    Raises:
      InputError: a wrong payload.
    """
    return append(EMPTY, "genesis", payload)


def differing_key(expected: bytes, got: bytes) -> tuple[str, Any, Any] | None:
    """First key, by name, whose values differ between two lines of JSON.

    Args:
      expected: a line.
      got: the other line.

    Returns:
      Key, expected value and got value (None for an absent one); key "line" when the lines are no
      JSON objects; None when the lines are equal.
    """
    if expected == got:
        return None
    try:
        a, b = json.loads(expected), json.loads(got)
        keys = sorted(key for key in {*a, *b} if _spelled(a, key) != _spelled(b, key))
        return keys[0], a.get(keys[0]), b.get(keys[0])
    except (ValueError, RecursionError, TypeError, AttributeError, IndexError):
        return "line", expected[:200], got[:200]


def _spelled(record: Mapping[str, Any], key: str) -> str:
    """Text by which two values of a key are compared, so that a NaN equals itself.

    Args:
      record: a JSON object.
      key: a key that may be absent.

    Returns:
      Text that differs wherever the values differ in type or value.
    """
    return repr(record.get(key)) if key in record else ""


def follow(chain: Chain, lines: Iterable[bytes]) -> Chain:
    """Walks lines that are already written, recomputing every link.

    Args:
      chain: where the ledger stood before them; `EMPTY` for a whole ledger.
      lines: the lines, without line ends.

    Returns:
      Where it stands after them.

    Raises:
      ConsistencyError: naming the index and the first differing key of the first bad record.
    """
    for line in lines:
        index = chain.count
        try:
            record = parse(line)
            payload = {key: value for key, value in record.items() if key not in CHAIN_KEYS}
            chain, right = append(chain, record["kind"], payload)
        except (ConsistencyError, InputError) as error:
            raise ConsistencyError(f"record {index}: {error}") from None
        if right != line:
            key, want, got = differing_key(right, line) or ("line", right, line)
            raise ConsistencyError(
                f"record {index}: got {key} = {got!r}, want {want!r}; "
                "this record or one before it was changed, so restore the ledger from a copy"
            )
    return chain
