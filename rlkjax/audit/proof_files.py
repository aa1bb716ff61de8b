"""Proofs as files: canonical JSON that a stranger checks with the standard library alone.

Each holds the text of a head, and the path that leads to its root.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rlkjax.audit import head as heads
from rlkjax.audit import proofs
from rlkjax.audit.canonical import canonical_json
from rlkjax.audit.head import Head
from rlkjax.audit.records import is_count, is_digest, parse, parse_canonical
from rlkjax.audit.tree import leaf_hash
from rlkjax.errors import ConsistencyError, InputError

FORMAT = "rlkjax-proof/1"
KEYS = {
    "record": {"format", "head", "kind", "record"},
    "leaf": {"format", "head", "kind", "leaf", "record"},
    "consistency": {"format", "heads", "kind", "path"},
}
_RECORD_KEYS = {"index", "line", "path"}
_LEAF_KEYS = {"bytes", "header", "index", "path"}


class Proved(NamedTuple):
    """What a proof shows, once it was checked.

    Attributes:
      sentences: in words.
      heads: the heads that it speaks of; whoever trusts one of them may believe the sentences.
    """

    sentences: tuple[str, ...]
    heads: tuple[Head, ...]


def record_proof(lines: Sequence[bytes], index: int) -> dict[str, Any]:
    """The proof that a record is in a ledger.

    Args:
      lines: lines of the ledger, without line ends.
      index: of the record.

    Returns:
      The proof as plain values, for `canonical_json`.

    Raises:
      InputError: no such record.
      ConsistencyError: the ledger is damaged.
    """
    head = heads.head_of(lines)
    if not 0 <= index < len(lines):
        raise InputError(
            f"record: got {index}, want 0 to {len(lines) - 1}; the first record is number 0"
        )
    leaves = [leaf_hash(line) for line in lines]
    path = proofs.inclusion_proof(leaves, index)
    return {
        "format": FORMAT,
        "kind": "record",
        "head": heads.write(head),
        "record": {"index": index, "line": lines[index].decode(), "path": _texts(path)},
    }


def leaf_proof(
    record: Mapping[str, Any], leaves: Sequence[bytes], index: int, *, header: bytes, data: bytes
) -> dict[str, Any]:
    """The proof that a buffer had certain bytes at one step of a rollout.

    Args:
      record: the proof of the rollout's record, as `record_proof` makes it.
      leaves: all leaf digests of the segment.
      index: of the leaf.
      header: canonical JSON of its header.
      data: its bytes.

    Returns:
      The proof as plain values.
    """
    path = _texts(proofs.inclusion_proof(leaves, index))
    leaf = {"bytes": data.hex(), "header": header.decode(), "index": index, "path": path}
    return {**record, "kind": "leaf", "leaf": leaf}


def consistency_proof(lines: Sequence[bytes], size: int) -> dict[str, Any]:
    """The proof that a ledger only grew since it had `size` records.

    Args:
      lines: its lines, without line ends.
      size: from 1 to the number of lines.

    Returns:
      The proof as plain values.

    Raises:
      InputError: no such size.
      ConsistencyError: the ledger is damaged.
    """
    both = [heads.write(heads.head_of(lines, count)) for count in (size, None)]
    path = proofs.consistency_proof([leaf_hash(line) for line in lines], size)
    return {"format": FORMAT, "kind": "consistency", "heads": both, "path": _texts(path)}


def check(data: bytes, what: str) -> Proved:
    """Checks a proof, from its bytes alone.

    Args:
      data: bytes of the file; one line feed at the end does not matter.
      what: name of the file, for the messages.

    Returns:
      What it shows.

    Raises:
      InputError: no proof, or one of another format.
      ConsistencyError: a proof whose path does not lead to its head.
    """
    try:
        proof = parse_canonical(data.removesuffix(b"\n"), what)
    except ConsistencyError as error:
        raise InputError(str(error)) from None
    kind = proof.get("kind")
    if proof.get("format") != FORMAT or not isinstance(kind, str) or kind not in KEYS:
        raise InputError(
            f"{what}: got format {str(proof.get('format'))[:80]!r} and kind {str(kind)[:80]!r}, "
            f"want {FORMAT!r} and one of {', '.join(KEYS)}; make it with rlkjax prove"
        )
    _exactly(proof, KEYS[kind], what)
    if kind == "consistency":
        return _check_consistency(proof, what)
    return _check_inclusion(proof, what)


def _check_inclusion(proof: Mapping[str, Any], what: str) -> Proved:
    head = _head(proof["head"], what)
    own = proof["record"]
    _exactly(own, _RECORD_KEYS, f"{what}, record")
    line, index, path = own["line"], own["index"], _path(own["path"], what)
    if not isinstance(line, str) or not line.isascii() or not is_count(index):
        raise InputError(f"{what}: got a record without a line and an index, want both")
    leaf, trusted = leaf_hash(line.encode()), bytes.fromhex(head.root)
    if not proofs.verify_inclusion(leaf, index, head.size, proof=path, root=trusted):
        raise ConsistencyError(
            f"{what}: got a path that does not lead from record {index} to the root {head.root} of "
            f"{head.size} records; the record, its index or the path was changed, or the proof is "
            "for another ledger"
        )
    record = parse(line.encode())
    if record["index"] != index:
        raise ConsistencyError(f"{what}: got record {record['index']} as record {index}")
    _tie(head, index, leaf.hex(), record["bits"], what=what)
    where = f", iteration {record['iteration']}" if "iteration" in record else ""
    sentence = f"record {index} ({record['kind']}{where}) is in the ledger of {head.size} records"
    if proof["kind"] == "record":
        return Proved((sentence,), (head,))
    return Proved((sentence, _check_leaf(proof["leaf"], record, what)), (head,))


def _tie(head: Head, index: int, leaf: str, bits: str, *, what: str) -> None:
    """What a head repeats of its first and its last record, where one of them is proved."""
    stated, own = [], []
    if index == 0:
        stated, own = [head.origin.removeprefix(heads.ORIGIN)], [leaf]
    if index == head.size - 1:
        stated, own = [*stated, head.chain, head.bits], [*own, leaf, bits]
    if stated != own:
        raise ConsistencyError(
            f"{what}: got a head whose origin, chain or bits are not those of record {index}, want "
            "the head as it was made; the head was changed, or is of another ledger"
        )


def _check_leaf(leaf: Any, record: Mapping[str, Any], what: str) -> str:
    _exactly(leaf, _LEAF_KEYS, f"{what}, leaf")
    path, index, text = _path(leaf["path"], what), leaf["index"], leaf["header"]
    if not isinstance(text, str) or not text.isascii():
        raise InputError(f"{what}: got a leaf without a header in ASCII, want canonical JSON")
    header = parse_canonical(text.encode(), f"{what}, header")
    data = _bytes(leaf["bytes"], what)
    if record["kind"] != "rollout" or not is_count(index):
        raise InputError(f"{what}: got a leaf of a {record['kind']} record, want one of a rollout")
    digest = leaf_hash(text.encode() + data)
    trusted = bytes.fromhex(record["root"])
    if not proofs.verify_inclusion(digest, index, record["leaves"], proof=path, root=trusted):
        raise ConsistencyError(
            f"{what}: got a path that does not lead from leaf {index} to the root {record['root']} "
            f"of the rollout of iteration {record['iteration']}; its bytes, its header or the path "
            "was changed, or it is a leaf of another rollout"
        )
    kind = f"{header.get('dtype')}, shape {header.get('shape')}"
    return (
        f"its buffer {header.get('field')} ({kind}) had at step {header.get('step')} the "
        f"{len(data)} bytes of the proof"
    )


def _check_consistency(proof: Mapping[str, Any], what: str) -> Proved:
    texts, path = proof["heads"], _path(proof["path"], what)
    if not isinstance(texts, list) or len(texts) != 2:
        raise InputError(f"{what}: got no pair of heads, want the older and the newer one")
    old, new = (_head(text, what) for text in texts)
    roots = {"first_root": bytes.fromhex(old.root), "second_root": bytes.fromhex(new.root)}
    grown = proofs.verify_consistency(old.size, new.size, proof=path, **roots)
    if not grown or old.origin != new.origin:
        raise ConsistencyError(
            f"{what}: got a path that does not lead from the root {old.root} of {old.size} records "
            f"to the root {new.root} of {new.size}; a head or the path was changed, or the ledger "
            "was rewritten in between"
        )
    sentence = (
        f"the ledger of {new.size} records begins with all {old.size} records of the older head"
    )
    return Proved((sentence,), (old, new))


def as_bytes(proof: Mapping[str, Any]) -> bytes:
    """The file of a proof.

    Args:
      proof: plain values.

    Returns:
      Canonical JSON and one line feed.
    """
    return canonical_json(proof) + b"\n"


def _texts(path: Sequence[bytes]) -> list[str]:
    return [digest.hex() for digest in path]


def _head(text: Any, what: str) -> Head:
    try:
        return heads.parse(text if isinstance(text, str) else "", f"{what}, head")
    except ConsistencyError as error:
        raise InputError(str(error)) from None


def _bytes(text: Any, what: str) -> bytes:
    """Bytes of hex digits in their one spelling."""
    try:
        data = bytes.fromhex(text)
    except (ValueError, TypeError):
        data = None
    if data is None or data.hex() != text:
        raise InputError(f"{what}: got bytes that are not lower-case hex digits, want these")
    return data


def _path(path: Any, what: str) -> list[bytes]:
    if not isinstance(path, list) or not all(map(is_digest, path)):
        raise InputError(f"{what}: got a path that is no array of digests, want 64 hex digits each")
    return [bytes.fromhex(digest) for digest in path]


def _exactly(value: Any, keys: set[str], what: str) -> None:
    if not isinstance(value, dict) or set(value) != keys:
        got = ", ".join(sorted(value))[:200] if isinstance(value, dict) else type(value).__name__
        raise InputError(f"{what}: got {got}, want exactly the keys {', '.join(sorted(keys))}")
