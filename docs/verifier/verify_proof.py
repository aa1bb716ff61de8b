"""`python verify_proof.py FILE`: a second checker of proofs, from docs/ledger-format.md alone."""

import base64
import hashlib
import json
import re
import sys
from pathlib import Path

RECORD, LEAF = ["index", "line", "path"], ["bytes", "header", "index", "path"]
KEYS = {
    "record": ["format", "head", "kind", "record"],
    "leaf": ["format", "head", "kind", "leaf", "record"],
    "consistency": ["format", "heads", "kind", "path"],
}


def want(good, *what):
    if not good:
        raise ValueError(" ".join(map(str, what)))


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def canonical(data):
    value = json.loads(data)
    want(json.dumps(value, sort_keys=True, separators=(",", ":")).encode() == data, "not canonical")
    return value


def digests(path):
    want(all(re.fullmatch("[0-9a-f]{64}", each) for each in path), "a path without digests")
    return [bytes.fromhex(each) for each in path]


def head(text):
    """Origin, size, root, chain and bits of a head."""
    pattern = r"(rlkjax-ledger/1/[0-9a-f]{64})\n([1-9][0-9]*)\n(.{44})\n"
    pattern += r"chain ([0-9a-f]{64})\nbits ([0-9a-f]{64})\n"
    found = re.fullmatch(pattern, text, re.ASCII)
    want(found, "a text that is no head")
    return found[1], int(found[2]), base64.b64decode(found[3], validate=True), found[4], found[5]


def included(digest, index, size, path):
    """The root to which a path leads from leaf `index` of `size`."""
    want(0 <= index < size, "no such leaf")
    if size == 1:
        want(not path, "a path that is too long")
        return digest
    want(path, "a path that is too short")
    split = 1 << (size - 1).bit_length() - 1
    if index < split:
        return sha(b"\1", included(digest, index, split, path[:-1]), path[-1])
    return sha(b"\1", path[-1], included(digest, index - split, size - split, path[:-1]))


def consistent(old, new, path, known):
    """The two roots to which a path leads; `known` stands for the older tree where it is whole."""
    if old == new:
        want(len(path) == (known is None), "a path of another length")
        return (known or path[0],) * 2
    want(path, "a path that is too short")
    split = 1 << (new - 1).bit_length() - 1
    if old <= split:
        first, second = consistent(old, split, path[:-1], known)
        return first, sha(b"\1", second, path[-1])
    first, second = consistent(old - split, new - split, path[:-1], None)
    return sha(b"\1", path[-1], first), sha(b"\1", path[-1], second)


def check(data):
    proof = canonical(data.removesuffix(b"\n"))
    kind = proof["kind"]
    want(proof["format"] == "rlkjax-proof/1" and sorted(proof) == KEYS[kind], "another format")
    if kind == "consistency":
        (origin, old, first, *_), (other, new, second, *_) = map(head, proof["heads"])
        want(origin == other and old <= new, "heads of two ledgers")
        roots = consistent(old, new, digests(proof["path"]), first)
        want(roots == (first, second), "the path does not lead to the heads")
        return f"{new} records begin with the {old} of the older head"
    (origin, size, root, *end), own = head(proof["head"]), proof["record"]
    line, path, leaf = own["line"].encode("ascii"), digests(own["path"]), proof.get("leaf")
    want(sorted(own) == RECORD and sorted(leaf or LEAF) == LEAF, "other keys")
    found, record = included(sha(b"\0", line), own["index"], size, path), canonical(line)
    want(found == root and record["index"] == own["index"], "the record does not lead to the head")
    name = sha(b"\0", line).hex()
    want(record["index"] or origin.endswith("/" + name), "the head has another first record")
    good = record["index"] < size - 1 or end == [name, record["bits"]]
    want(good, "the head has another last record")
    if kind == "leaf":
        canonical(leaf["header"].encode("ascii"))
        want(re.fullmatch("([0-9a-f]{2})*", leaf["bytes"]), "bytes that are no hex digits")
        digest = sha(b"\0", leaf["header"].encode(), bytes.fromhex(leaf["bytes"]))
        found = included(digest, leaf["index"], record["leaves"], digests(leaf["path"]))
        good = record["kind"] == "rollout" and found.hex() == record["root"]
        want(good, "the leaf does not lead to the rollout")
    return f"record {record['index']} ({record['kind']}) is one of {size}"


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        sys.exit(print("usage: verify_proof.py FILE, a file of a proof", file=sys.stderr) or 2)
    sys.tracebacklimit = 0  # what is wrong in one line; exit status 1
    print(check(Path(sys.argv[1]).read_bytes()))
