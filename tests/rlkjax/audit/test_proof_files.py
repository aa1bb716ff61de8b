"""Proofs as files: golden ones, all of a small ledger, and every way of spoiling one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rlkjax.audit import leaf_files, proof_files
from rlkjax.audit.canonical import canonical_json
from rlkjax.audit.proof_files import as_bytes, check
from rlkjax.errors import ConsistencyError, InputError

ROOT = Path(__file__).parents[3]
KINDS = ("record", "leaf", "consistency")


@pytest.fixture(scope="session")
def proofs(golden):
    return {kind: (golden.parent / "proofs" / f"{kind}.json").read_bytes() for kind in KINDS}


def test_the_golden_proofs_are_made_again(golden, lines, proofs):
    leaf = leaf_files.proof_of_leaf(golden, lines, 1, field="obs", step=1)
    made = {
        "record": proof_files.record_proof(lines, 6),
        "leaf": leaf,
        "consistency": proof_files.consistency_proof(lines, 7),
    }
    assert {kind: as_bytes(value) for kind, value in made.items()} == proofs


def test_what_the_golden_proofs_show(proofs):
    shown = {kind: check(data, kind) for kind, data in proofs.items()}
    assert shown["record"].sentences == (
        "record 6 (rollout, iteration 1) is in the ledger of 12 records",
    )
    assert shown["leaf"].sentences[1] == (
        "its buffer obs (float32, shape [2, 1]) had at step 1 the 8 bytes of the proof"
    )
    assert [head.size for head in shown["consistency"].heads] == [7, 12]


def test_every_record_size_and_leaf_is_proved(golden, lines):
    for index in range(len(lines)):
        assert check(as_bytes(proof_files.record_proof(lines, index)), "proof").heads
    for size in range(1, len(lines) + 1):
        assert check(as_bytes(proof_files.consistency_proof(lines, size)), "proof").heads
    for field in ("action", "log_prob", "obs", "reward", "terminated", "value"):
        for step in range(2):
            proof = leaf_files.proof_of_leaf(golden, lines, 0, field=field, step=step)
            assert f"its buffer {field}" in check(as_bytes(proof), "proof").sentences[1]


@pytest.mark.parametrize("kind", KINDS)
def test_no_flipped_bit_of_a_proof_passes_as_the_same(proofs, kind):
    """A flip is refused, or shows in the head that the proof states, which is then another."""
    data, want = proofs[kind], check(proofs[kind], kind)
    passed = 0
    for place in range(len(data) - 1):
        spoiled = data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :]
        try:
            got = check(spoiled, kind)
        except (ConsistencyError, InputError):
            continue
        passed += 1
        assert got.heads != want.heads, place
    assert passed > 0  # chain and bits of a head lie outside its root


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", ["drop", "double", "swap"])
def test_paths_of_another_length_or_order_are_refused(proofs, kind, change):
    proof = json.loads(proofs[kind])
    holder = proof if kind == "consistency" else proof[kind]
    first, second, *rest = holder["path"]
    holder["path"] = {
        "drop": [second, *rest],
        "double": [first, first, second, *rest],
        "swap": [second, first, *rest],
    }[change]
    with pytest.raises(ConsistencyError, match="got a path that does not lead from"):
        check(canonical_json(proof), kind)


def test_a_proof_for_another_ledger_is_refused(proofs, lines):
    other = json.loads(as_bytes(proof_files.record_proof(lines[:8], 6)))
    proof = json.loads(proofs["record"])
    with pytest.raises(ConsistencyError, match="or the proof is for another ledger"):
        check(canonical_json({**proof, "head": other["head"]}), "proof")


def test_a_record_cannot_claim_another_index(proofs):
    proof = json.loads(proofs["record"])
    proof["record"]["index"] = 7
    with pytest.raises(ConsistencyError, match="does not lead from record 7"):
        check(canonical_json(proof), "proof")


def test_a_leaf_belongs_to_a_rollout_and_to_its_own_one(golden, lines, proofs):
    proof = json.loads(proofs["leaf"])
    for index, match in ((2, "got a leaf of a rescore record"), (1, "a leaf of another rollout")):
        record = proof_files.record_proof(lines, index)["record"]
        with pytest.raises((ConsistencyError, InputError), match=match):
            check(canonical_json({**proof, "record": record}), "proof")


def test_heads_of_two_ledgers_are_not_consistent(proofs):
    proof = json.loads(proofs["consistency"])
    old, new = proof["heads"]
    proof["heads"] = [old.replace("rlkjax-ledger/1/", "rlkjax-ledger/1/0", 1)[:-1], new]
    with pytest.raises(InputError, match="want the five lines of a head"):
        check(canonical_json(proof), "proof")
    proof["heads"] = [new, old]
    with pytest.raises(ConsistencyError, match="or the ledger was rewritten in between"):
        check(canonical_json(proof), "proof")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"null",
        b"[" * 100_000,
        b'{"format":"rlkjax-proof/1"}',
        b'{"format":"rlkjax-proof/2","kind":"record"}',
        b'{"format":"rlkjax-proof/1","kind":["record"]}',
        b'{"format":"rlkjax-proof/1","head":1,"kind":"record","record":{}}',
        b'{"format":"rlkjax-proof/1","heads":[1,2],"kind":"consistency","path":[]}',
        b'{"format":"rlkjax-proof/1","heads":"ab","kind":"consistency","path":["x"]}',
        b'{"format":"rlkjax-proof/1","x":' + b"9" * 10_000 + b"}",
        b"\xff\xfe",
    ],
)
def test_what_is_no_proof_is_wrong_use(data):
    with pytest.raises(InputError, match="proof"):
        check(data, "proof")


def test_a_leaf_that_is_not_there(golden, lines, tmp_path):
    with pytest.raises(InputError, match=r"--leaf: got obs,2, want one of action, .* from 0 to 1"):
        leaf_files.proof_of_leaf(golden, lines, 0, field="obs", step=2)
    with pytest.raises(InputError, match="iteration: got 7, want one whose rollout"):
        leaf_files.proof_of_leaf(golden, lines, 7, field="obs", step=0)
    with pytest.raises(InputError, match="iteration: got 0, whose segment is not kept"):
        leaf_files.proof_of_leaf(tmp_path, lines, 0, field="obs", step=0)


def test_a_spoiled_segment_proves_nothing(run, lines):
    path = run / "segments/00000000.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ConsistencyError, match="restore the file from a copy"):
        leaf_files.proof_of_leaf(run, lines, 0, field="obs", step=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_proof_is_checked_by_the_standard_library_alone(golden, kind):
    folder = golden.parent / "proofs"
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from rlkjax.verify import main\n"
        "status = main(['--proof', sys.argv[2], '--head', sys.argv[3]])\n"
        "names = {name.split('.')[0] for name in sys.modules} - sys.stdlib_module_names\n"
        "sys.exit(status or str(sorted(names)))"
    )
    files = [str(ROOT), str(folder / f"{kind}.json"), str(folder / "head.txt")]
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, *files], capture_output=True, text=True
    )
    assert ran.stderr.strip() in ("['__main__', 'rlkjax', 'vimejax']", "['rlkjax', 'vimejax']")
    assert "proved against the head of" in ran.stdout


@pytest.mark.parametrize("header", ["\ud800", "é", 7])
def test_a_header_that_is_no_ascii_text_is_wrong_use(proofs, header):
    proof = json.loads(proofs["leaf"])
    proof["leaf"]["header"] = header
    with pytest.raises(InputError, match="got a leaf without a header in ASCII"):
        check(canonical_json(proof), "proof")


@pytest.mark.parametrize(("index", "lines_of_head"), [(0, [0]), (11, [3, 4]), (5, [])])
def test_a_head_repeats_its_first_and_its_last_record(lines, index, lines_of_head):
    """Record 0 is tied to the origin, record 11 of 12 to chain and bits, the others to none."""
    proof = proof_files.record_proof(lines, index)
    text = proof["head"].split("\n")
    for number in (0, 3, 4):
        end = "1" if text[number][-1] == "0" else "0"
        other = [*text[:number], text[number][:-1] + end, *text[number + 1 :]]
        spoiled = canonical_json({**proof, "head": "\n".join(other)})
        if number in lines_of_head:
            with pytest.raises(ConsistencyError, match=f"are not those of record {index}"):
                check(spoiled, "proof")
        else:
            check(spoiled, "proof")
