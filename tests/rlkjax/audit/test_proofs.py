"""Proofs against published vectors, and every way of spoiling one."""

import pytest

from rlkjax.audit import merkle, proofs
from rlkjax.errors import InputError

LEAVES = [merkle.leaf_hash(bytes([i])) for i in range(17)]


def spoiled(proof):
    """Every proof that differs by one flipped bit, one digest missing, doubled or added."""
    for place in range(len(proof)):
        wrong = bytes([proof[place][0] ^ 1]) + proof[place][1:]
        yield [*proof[:place], wrong, *proof[place + 1 :]]
        yield [*proof[:place], *proof[place + 1 :]]
        yield [*proof[: place + 1], *proof[place:]]
    yield [*proof, bytes(32)]


def test_published_inclusion_paths(rfc):
    leaves = [merkle.leaf_hash(bytes.fromhex(text)) for text in rfc["inputs"]]
    for case in rfc["inclusion"]:
        path = proofs.inclusion_proof(leaves[: case["size"]], case["index"])
        assert [digest.hex() for digest in path] == case["path"]


def test_published_consistency_paths(rfc):
    leaves = [merkle.leaf_hash(bytes.fromhex(text)) for text in rfc["inputs"]]
    for case in rfc["consistency"]:
        path = proofs.consistency_proof(leaves[: case["second"]], case["first"])
        assert [digest.hex() for digest in path] == case["path"]


@pytest.mark.parametrize("size", range(1, 18))
def test_each_leaf_is_included_and_no_spoiled_proof_passes(size):
    leaves = LEAVES[:size]
    root = merkle.root(leaves)
    for index, leaf in enumerate(leaves):
        proof = proofs.inclusion_proof(leaves, index)
        check = {"root": root}
        assert proofs.verify_inclusion(leaf, index, size, proof=proof, **check)
        assert not proofs.verify_inclusion(bytes(32), index, size, proof=proof, **check)
        for wrong in spoiled(proof):
            assert not proofs.verify_inclusion(leaf, index, size, proof=wrong, **check)
        for other in set(range(-1, size + 1)) - {index}:
            assert not proofs.verify_inclusion(leaf, other, size, proof=proof, **check)


@pytest.mark.parametrize("second", range(1, 18))
def test_each_older_tree_is_a_prefix_and_no_spoiled_proof_passes(second):
    new = merkle.root(LEAVES[:second])
    for first in range(1, second + 1):
        old = merkle.root(LEAVES[:first])
        roots = {"first_root": old, "second_root": new}
        proof = proofs.consistency_proof(LEAVES[:second], first)
        assert proofs.verify_consistency(first, second, proof=proof, **roots)
        for wrong in spoiled(proof):
            assert not proofs.verify_consistency(first, second, proof=wrong, **roots)
        for name in roots:
            forged = {**roots, name: bytes(32)}
            assert not proofs.verify_consistency(first, second, proof=proof, **forged)


def test_the_empty_tree_is_a_prefix_of_every_tree():
    roots = {"first_root": merkle.root([]), "second_root": merkle.root(LEAVES)}
    assert proofs.verify_consistency(0, 17, proof=[], **roots)
    assert not proofs.verify_consistency(0, 17, proof=[bytes(32)], **roots)


def test_a_tree_never_shrinks():
    roots = {"first_root": merkle.root(LEAVES), "second_root": merkle.root(LEAVES[:3])}
    assert not proofs.verify_consistency(17, 3, proof=[], **roots)


def test_out_of_range():
    with pytest.raises(InputError, match="index: got 3, want 0 to 2"):
        proofs.inclusion_proof(LEAVES[:3], 3)
    with pytest.raises(InputError, match="first: got 0, want 1 to 3"):
        proofs.consistency_proof(LEAVES[:3], 0)
