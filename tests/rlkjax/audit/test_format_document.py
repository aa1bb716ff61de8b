"""The worked examples of docs/ledger-format.md are what the code computes."""

import re
from pathlib import Path

import numpy as np
import pytest

from rlkjax.audit import ledger, merkle, proof_files
from rlkjax.audit.records import OPTIONAL, PAYLOADS
from rlkjax.audit.tensors import pack

TEXT = (Path(__file__).parents[3] / "docs" / "ledger-format.md").read_text(encoding="utf-8")
DIGESTS = dict(re.findall(r"^\| ([^|]+) \| `([0-9a-f]{64})` \|$", TEXT, re.MULTILINE))


@pytest.fixture
def leaves():
    fields = {
        "x": np.array([[1.0, -2.0], [3.0, 0.0]], np.float32),
        "b": np.array([[True, False], [False, False]]),
    }
    return merkle.segment_leaves(fields, 5)


def test_the_segment(leaves):
    names = ["leaf of `b`, step 0", "leaf of `x`, step 0", "leaf of `b`, step 1"]
    names += ["leaf of `x`, step 1"]
    assert [leaf.hex() for leaf in leaves] == [DIGESTS[name] for name in names]
    assert merkle.node_hash(*leaves[:2]).hex() == DIGESTS["node over step 0"]
    assert merkle.node_hash(*leaves[2:]).hex() == DIGESTS["node over step 1"]
    assert merkle.root(leaves).hex() == DIGESTS["root"]


def test_the_header_as_printed(leaves):
    (header,) = re.findall(r'^    (\{"dtype".*\})$', TEXT, re.MULTILINE)
    assert merkle.leaf_hash(header.encode() + b"\x01\x00") == leaves[0]


def test_the_bits():
    first = ledger.first_bits("11" * 32, 258)
    assert first == DIGESTS["bits of genesis"]
    assert ledger.next_bits(first, "update", "22" * 32) == DIGESTS["bits of the update"]


def test_the_record_as_printed(lines):
    (line,) = re.findall(r'^    (\{"bits".*\})$', TEXT, re.MULTILINE)
    assert line.encode() == lines[5]
    assert merkle.leaf_hash(lines[5]).hex() == DIGESTS["leaf hash of record 5"]


def test_each_kind_lists_exactly_its_keys():
    rows = dict(re.findall(r"^\| `(\w+)` \| (`(?:format|iteration)`.*) \|$", TEXT, re.MULTILINE))
    assert set(rows) == set(PAYLOADS)
    for kind, row in rows.items():
        printed = set(re.findall(r"`(\w+)`", row)) - {"null"}
        aside = {"log_prob", "value"} if kind == "rescore" else set()
        assert printed - aside == set(PAYLOADS[kind]) | set(OPTIONAL.get(kind, {})), kind


def test_the_order_of_tensors():
    one = {name: np.zeros(1, name) for name in merkle.DTYPES}
    packed = pack({**one, "a": np.zeros(1, np.int32)})
    size = int.from_bytes(packed[:8], "little")
    printed = re.findall(r'"(\w+)":\{"dtype":"(\w+)"', packed[8 : 8 + size].decode())
    assert [code for _, code in printed] == ["F32", "U32", "I32", "I32", "F16", "U8", "BOOL"]
    assert [name for name, code in printed if code == "I32"] == ["a", "int32"]
    assert size % 8 == 0


def test_characters_as_the_document_escapes_them():
    text = '"\\\n\r\t\b\f\x01\x7f/é😀'
    want = rb'"\"\\\n\r\t\b\f\u0001\u007f/\u00e9\ud83d\ude00"'
    assert merkle.canonical_json(text) == want


def test_the_head_as_printed(golden):
    want = (golden.parent / "proofs" / "head.txt").read_text()
    printed = re.findall(r"(?:^    [^\n]+\n){5}", TEXT, re.MULTILINE)
    assert want in ["".join(line[4:] + "\n" for line in text.splitlines()) for text in printed]


def test_each_kind_of_proof_lists_exactly_its_keys():
    rows = dict(re.findall(r"^\| `(\w+)` \| (`heads?`.*) \|$", TEXT, re.MULTILINE))
    printed = {kind: set(re.findall(r"`(\w+)`", row)) for kind, row in rows.items()}
    assert printed == {kind: keys - {"format", "kind"} for kind, keys in proof_files.KEYS.items()}
