"""The head of a ledger as text: how many records, and the Merkle root over them.

Written in the form of C2SP tlog-checkpoint, so that what signs, witnesses or compares heads of
other transparency logs can do so with ours. The standard library alone.
"""

import base64
import binascii
import re
from collections.abc import Iterable
from typing import NamedTuple

from rlkjax.audit import ledger
from rlkjax.audit.ledger import EMPTY
from rlkjax.audit.records import is_digest
from rlkjax.audit.tree import Frontier, leaf_hash
from rlkjax.errors import ConsistencyError, InputError

ORIGIN = "rlkjax-ledger/1/"  # followed by the leaf hash of the genesis record
_SIZE = re.compile(r"[1-9][0-9]{0,19}", re.ASCII)


class Head(NamedTuple):
    """Where a ledger stands. All digests are 64 hex digits.

    Attributes:
      origin: which ledger: `ORIGIN` and the leaf hash of its genesis.
      size: number of records, 1 or more.
      root: Merkle root over their leaf hashes.
      chain: leaf hash of the last.
      bits: running digest over the numeric roots alone.
    """

    origin: str
    size: int
    root: str
    chain: str
    bits: str


def origin_of(genesis: bytes) -> str:
    """The name of a ledger.

    Args:
      genesis: its first line, without the line end.

    Returns:
      One line of ASCII without spaces.
    """
    return ORIGIN + leaf_hash(genesis).hex()


def head_of(lines: Iterable[bytes], size: int | None = None) -> Head:
    """The head of a ledger, or the one that it had when it was shorter.

    Args:
      lines: its lines, without line ends.
      size: number of records, 1 or more; None: all.

    Returns:
      The head.

    Raises:
      ConsistencyError: a record does not follow from those before it.
      InputError: the ledger has fewer records, or none.
    """
    chain, tree, origin = EMPTY, Frontier(), ""
    for line in lines:
        if size is not None and chain.count >= size:
            break
        chain = ledger.follow(chain, [line])
        tree = tree.add(bytes.fromhex(chain.head))
        origin = origin or origin_of(line)
    if not chain.count or chain.count != (size or chain.count):
        raise InputError(
            f"size: got {size} of {chain.count} records, want 1 or more that the ledger has "
            "reached; count its lines"
        )
    return Head(origin, chain.count, tree.root().hex(), chain.head, chain.bits)


def write(head: Head) -> str:
    """The text of a head, to the byte.

    Args:
      head: the head.

    Returns:
      Five lines: origin, size, root in base64, `chain HEX`, `bits HEX`.

    Source: C2SP tlog-checkpoint; chain and bits are its extension lines.
    """
    root = base64.b64encode(bytes.fromhex(head.root)).decode()
    return f"{head.origin}\n{head.size}\n{root}\nchain {head.chain}\nbits {head.bits}\n"


def parse(text: str, what: str) -> Head:
    """Reads the text of a head strictly.

    Args:
      text: as `write` makes it.
      what: name of the text, for the message.

    Returns:
      The head.

    Raises:
      ConsistencyError: another text.
    """
    lines = text.split("\n")
    if len(lines) == 6 and lines[0].startswith(ORIGIN) and _SIZE.fullmatch(lines[1]):
        chain, bits = (lines[3].removeprefix("chain "), lines[4].removeprefix("bits "))
        digests = lines[0].removeprefix(ORIGIN), _hex(lines[2]), chain, bits
        if all(map(is_digest, digests)):
            head = Head(lines[0], int(lines[1]), digests[1], chain, bits)
            if write(head) == text:
                return head
    raise ConsistencyError(
        f"{what}: got {text[:80]!r}, want the five lines of a head, from {ORIGIN}… to bits; "
        "make it with rlkjax prove RUN --head"
    )


def _hex(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).hex()
    except (binascii.Error, ValueError):
        return ""
