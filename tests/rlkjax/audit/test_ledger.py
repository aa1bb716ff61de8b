"""The chain, against the golden ledger that another implementation wrote."""

import copy
import hashlib
import json

import pytest

from rlkjax.audit import ledger, merkle, proofs
from rlkjax.audit.records import CHAIN_KEYS, OPTIONAL, PAYLOADS, parse
from rlkjax.errors import ConsistencyError, InputError


def payload_of(line):
    return {key: value for key, value in json.loads(line).items() if key not in CHAIN_KEYS}


def test_the_golden_ledger_is_written_byte_for_byte(lines, vectors):
    chain = ledger.EMPTY
    for number, want in enumerate(lines):
        chain, line = ledger.append(chain, json.loads(want)["kind"], payload_of(want))
        assert line == want
        assert chain.head == vectors["leaf_of_record"][number]
    assert chain == ledger.Chain(12, vectors["chain"], vectors["bits"])
    assert ledger.follow(ledger.EMPTY, lines) == chain


def test_bits_by_hand():
    program, root = "11" * 32, "22" * 32
    # Seed 258 is 0x0102: eight little-endian bytes 02 01 00 00 00 00 00 00.
    data = b"rlkjax-bits/1\0" + b"\x11" * 32 + b"\x02\x01" + b"\0" * 6
    first = ledger.first_bits(program, 258)
    assert first == hashlib.sha256(data).hexdigest()
    data = bytes.fromhex(first) + b"update\0" + b"\x22" * 32
    assert ledger.next_bits(first, "update", root) == hashlib.sha256(data).hexdigest()


def test_only_numeric_records_move_bits(lines):
    moved = {}
    before = json.loads(lines[0])["bits"]
    for line in lines[1:]:
        record = json.loads(line)
        moved.setdefault(record["kind"], set()).add(record["bits"] != before)
        before = record["bits"]
    numeric = ("rollout", "rescore", "advantages", "update", "evaluation")
    assert moved == {**{kind: {True} for kind in numeric}, "checkpoint": {False}}


def test_bits_forget_the_machine_and_chain_does_not(lines):
    payload = payload_of(lines[0])
    here, _ = ledger.genesis(payload)
    there, _ = ledger.genesis({**payload, "fingerprint": "0" * 64, "platform": "rocm"})
    assert here.bits == there.bits
    assert here.head != there.head
    other, _ = ledger.genesis({**payload, "seed": 4})
    assert other.bits != here.bits


def test_append_changes_no_argument(lines):
    payload = payload_of(lines[0])
    kept = copy.deepcopy(payload)
    ledger.genesis(payload)
    assert payload == kept


def test_each_missing_key_and_an_unknown_one_are_named(lines):
    by_kind = {json.loads(line)["kind"]: payload_of(line) for line in lines}
    chain = ledger.follow(ledger.EMPTY, lines[:1])
    for kind, payload in by_kind.items():
        at = ledger.EMPTY if kind == "genesis" else chain
        for key in PAYLOADS[kind]:
            less = {name: value for name, value in payload.items() if name != key}
            with pytest.raises(InputError, match=f"record '{kind}': got key '{key}' missing"):
                ledger.append(at, kind, less)
        with pytest.raises(InputError, match="got key 'extra' unknown"):
            ledger.append(at, kind, {**payload, "extra": 1})


def test_each_value_of_a_wrong_type_is_named(lines):
    by_kind = {json.loads(line)["kind"]: payload_of(line) for line in lines}
    chain = ledger.follow(ledger.EMPTY, lines[:1])
    for kind, payload in by_kind.items():
        at = ledger.EMPTY if kind == "genesis" else chain
        for key in PAYLOADS[kind] | OPTIONAL.get(kind, {}):
            with pytest.raises(InputError, match=f"record '{kind}': got {key} = '1.5', want"):
                ledger.append(at, kind, {**payload, key: 1.5})


@pytest.mark.parametrize("root", ["AB" * 32, "ab" * 31, "ab" * 32 + "\n", None, True])
def test_a_digest_is_64_lower_case_hex_digits(root):
    chain = ledger.Chain(1, ledger.ZEROS, ledger.ZEROS)
    with pytest.raises(InputError, match="want 64 lower-case hex digits"):
        ledger.append(chain, "advantages", {"iteration": 0, "root": root})


def test_genesis_is_first_and_only_there(lines):
    payload = payload_of(lines[0])
    chain, _ = ledger.genesis(payload)
    with pytest.raises(InputError, match="got 'genesis' as record 1"):
        ledger.append(chain, "genesis", payload)
    with pytest.raises(InputError, match="got 'advantages' as record 0"):
        ledger.append(ledger.EMPTY, "advantages", {"iteration": 0, "root": "0" * 64})
    with pytest.raises(InputError, match="kind: got 'rolout', want one of genesis, resume"):
        ledger.append(chain, "rolout", {})


def test_a_halt_record_may_leave_places_open():
    chain = ledger.Chain(1, ledger.ZEROS, ledger.ZEROS)
    places = ("buffer", "step", "environment", "element", "expected", "got")
    payload = {"iteration": 3, "stage": "rescore", "reason": "why", **dict.fromkeys(places)}
    _, line = ledger.append(chain, "halt", payload)
    assert parse(line)["stage"] == "rescore"


MALFORMED = {
    "no JSON": (lambda line: line[:-1], "no canonical JSON"),
    "empty": (lambda line: b"", "no canonical JSON"),
    "a space": (lambda line: line.replace(b":", b": ", 1), "another spelling"),
    "a carriage return": (lambda line: line + b"\r", "another spelling"),
    "unsorted": (lambda line: b'{"zz":1,' + line[1:], "another spelling"),
    "byte order mark": (lambda line: b"\xef\xbb\xbf" + line, "no canonical JSON"),
    "not UTF-8": (lambda line: line.replace(b"rollout", b"\xff"), "no canonical JSON"),
    "float": (lambda line: line.replace(b'"index":1', b'"index":1.0'), "the number 1.0"),
    "exponent": (lambda line: line.replace(b'"index":1', b'"index":1e0'), "the number 1e0"),
    "NaN": (lambda line: line.replace(b'"index":1', b'"index":NaN'), "the number NaN"),
    "huge": (lambda line: line.replace(b'"index":1', b'"index":1' + b"0" * 9999), "no canonical"),
    "large": (lambda line: line.replace(b'"index":1', b'"index":' + b"9" * 20), "67 bits"),
    "negative": (lambda line: line.replace(b'"index":1', b'"index":-1'), "got index = '-1'"),
    "twice": (lambda line: line.replace(b'"index":1', b'"index":1,"index":1'), "more than once"),
    "deep": (lambda line: b"[" * 99_999 + b"]" * 99_999, "nested too deep"),
    "array": (lambda line: b"[]", "got a JSON list"),
    "null": (lambda line: b"null", "got a JSON NoneType"),
    "escaped": (lambda line: line.replace(b"rollout", rb"\u0072ollout"), "another spelling"),
    "boolean": (lambda line: line.replace(b'"index":1', b'"index":true'), "got index = 'True'"),
    "kind": (lambda line: line.replace(b"rollout", b"sellout"), "kind: got 'sellout'"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_records_are_refused(lines, name):
    spoil, message = MALFORMED[name]
    assert spoil(lines[1]) != lines[1]
    with pytest.raises(ConsistencyError, match=message):
        parse(spoil(lines[1]))


def test_follow_names_index_and_key(lines):
    changed = [*lines[:3], lines[3].replace(b'"iteration":0', b'"iteration":9'), *lines[4:]]
    with pytest.raises(ConsistencyError, match="record 4: got prev = "):
        ledger.follow(ledger.EMPTY, changed)
    other = lines[3].replace(b'"root":"c', b'"root":"d')
    with pytest.raises(ConsistencyError, match="record 3: got bits = "):
        ledger.follow(ledger.EMPTY, [*lines[:3], other])
    with pytest.raises(ConsistencyError, match="record 4: ledger record: got bytes"):
        ledger.follow(ledger.EMPTY, [*lines[:4], b"{"])


def test_dropped_doubled_and_swapped_records_break_the_chain(lines):
    for k in range(len(lines) - 1):
        spoiled = {
            "dropped": lines[:k] + lines[k + 1 :],
            "doubled": lines[: k + 1] + lines[k:],
            "swapped": [*lines[:k], lines[k + 1], lines[k], *lines[k + 2 :]],
        }
        for ways in spoiled.values():
            with pytest.raises(ConsistencyError, match="record "):
                ledger.follow(ledger.EMPTY, ways)


def test_the_ledger_has_a_tree_of_its_own(lines, vectors):
    leaves = [merkle.leaf_hash(line) for line in lines]
    root = merkle.root(leaves)
    assert root.hex() == vectors["ledger_root"]
    proof = proofs.inclusion_proof(leaves, 4)
    assert proofs.verify_inclusion(merkle.leaf_hash(lines[4]), 4, 12, proof=proof, root=root)


def test_differing_key_names_the_first_and_reads_floats():
    found = ledger.differing_key(b'{"a":1,"b":0.5,"c":2}', b'{"a":1,"b":0.25,"c":3}')
    assert found == ("b", 0.5, 0.25)
    assert ledger.differing_key(b'{"a":NaN}', b'{"a":NaN}') is None
    assert ledger.differing_key(b'{"a":1}', b"no json")[0] == "line"
    assert ledger.differing_key(b'{"a":1}', b'{"a": 1}')[0] == "line"
    assert ledger.differing_key(b'{"a":1}', b'{"a":null}') == ("a", 1, None)
    assert ledger.differing_key(b"{}", b'{"a":null}') == ("a", None, None)
