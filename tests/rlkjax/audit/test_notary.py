"""The notary: what it writes down, and that any changed bit stops it."""

import hashlib
import json

import numpy as np
import pytest

from rlkjax.audit import ledger, merkle
from rlkjax.audit.journal import Journal
from rlkjax.audit.notary import Notary, flat_digests, state_roots
from rlkjax.errors import ConsistencyError, InputError

T, N = 3, 2


@pytest.fixture
def notary(tmp_path, golden):
    """A notary whose ledger holds a genesis record."""
    made = Notary(
        ledger.EMPTY, Journal(tmp_path / "ledger.jsonl"), Journal(tmp_path / "metrics.jsonl")
    )
    first = json.loads((golden / "ledger.jsonl").read_bytes().splitlines()[0])
    payload = {k: v for k, v in first.items() if k not in ("index", "kind", "prev", "bits")}
    made.record("genesis", payload)
    return made


def segment():
    return {
        "action": np.arange(T * N, dtype=np.int32).reshape(T, N),
        "log_prob": np.linspace(-2, -1, T * N, dtype=np.float32).reshape(T, N),
        "obs": np.arange(T * N * 2, dtype=np.float32).reshape(T, N, 2),
        "value": np.linspace(0, 1, T * N, dtype=np.float32).reshape(T, N),
    }


def claims(fields):
    return {name: fields[name].copy() for name in ("log_prob", "value")}


def claim(notary, fields):
    return notary.rollout(0, fields, seed=0, policy="a" * 64, graph="b" * 64, nonfinite=0)


def last(tmp_path):
    return json.loads((tmp_path / "ledger.jsonl").read_bytes().splitlines()[-1])


def test_a_rollout_is_bound_to_its_bytes(notary, tmp_path):
    made = claim(notary, segment())
    record = last(tmp_path)
    assert (record["kind"], record["iteration"], record["sequence"]) == ("rollout", 0, 0)
    assert record["leaves"] == T * 4
    # Leaf t * 4 + f, fields by name; each SHA-256(0x00 || header || bytes).
    leaves = []
    for step in range(T):
        for name, array in sorted(segment().items()):
            shape = ",".join(map(str, array.shape[1:]))
            header = (
                f'{{"dtype":"{array.dtype.name}","field":"{name}","sequence":0,'
                f'"shape":[{shape}],"step":{step}}}'
            )
            data = b"\x00" + header.encode() + array[step].tobytes()
            leaves.append(hashlib.sha256(data).digest())
    assert record["root"] == made.root == merkle.root(leaves).hex()
    only = [leaf for i, leaf in enumerate(leaves) if i % 4 in (1, 3)]  # log_prob and value
    assert made.claims_root == merkle.root(only).hex()


def test_equal_bits_are_recorded(notary, tmp_path):
    made = claim(notary, segment())
    notary.rescore(0, made, claims(segment()), "b" * 64)
    record = last(tmp_path)
    assert record["kind"] == "rescore"
    assert record["root"] == record["rollout_root"] == made.claims_root


@pytest.mark.parametrize("bit", range(32))
def test_every_bit_of_an_element_counts(notary, tmp_path, bit):
    made = claim(notary, segment())
    other = claims(segment())
    other["value"].view(np.uint32)[1, 1] ^= np.uint32(1 << bit)
    with pytest.raises(
        ConsistencyError, match="halt at iteration 0, stage rescore: .*buffer value"
    ):
        notary.rescore(0, made, other, "b" * 64)
    halt = last(tmp_path)
    assert (halt["step"], halt["environment"], halt["element"]) == (1, 1, [])
    assert int(halt["expected"], 16) ^ int(halt["got"], 16) == 1 << bit
    # value[1, 1] is 0.6 = 0x3f19999a
    assert halt["expected"] == "3f19999a"


@pytest.mark.parametrize(("claimed", "got"), [(0.0, -0.0), (np.nan, 1.0), (1.0, np.nan)])
def test_values_that_compare_oddly_are_told_apart(notary, claimed, got):
    fields = segment()
    fields["log_prob"][2, 0] = claimed
    made = claim(notary, fields)
    other = claims(fields)
    other["log_prob"][2, 0] = got
    with pytest.raises(ConsistencyError, match="buffer log_prob, step 2, environment 0"):
        notary.rescore(0, made, other, "b" * 64)


def test_an_equal_nan_is_equal(notary, tmp_path):
    fields = segment()
    fields["value"][0, 0] = np.nan
    notary.rescore(0, claim(notary, fields), claims(fields), "b" * 64)
    assert last(tmp_path)["kind"] == "rescore"


def test_buffers_may_not_change_until_they_were_used(notary, tmp_path):
    fields = segment()
    made = claim(notary, fields)
    notary.used(0, made)
    assert last(tmp_path)["kind"] == "rollout"  # nothing to say
    fields["obs"][2, 1, 0] += 1
    with pytest.raises(ConsistencyError, match="buffer obs changed after it was recorded"):
        notary.used(0, made)
    halt = last(tmp_path)
    assert halt["expected"] == hashlib.sha256(segment()["obs"].tobytes()).hexdigest()
    assert halt["got"] == hashlib.sha256(fields["obs"].tobytes()).hexdigest()


def test_flat_digests_skip_what_is_empty():
    found = flat_digests({"a": np.zeros((3, 0), np.float32), "b": np.ones(2, np.float32)})
    assert found == {"b": hashlib.sha256(bytes.fromhex("0000803f0000803f")).digest()}


def test_a_metrics_line_stands_before_its_record(notary, tmp_path):
    claim(notary, segment())
    line = b'{"iteration":0,"kind":"update"}'
    notary.update(0, "c" * 64, line)
    assert (tmp_path / "metrics.jsonl").read_bytes() == line + b"\n"
    assert last(tmp_path)["metrics"] == hashlib.sha256(line).hexdigest()


def test_bits_follow_the_numbers_alone(notary):
    heads = [notary.chain]
    claim(notary, segment())
    heads.append(notary.chain)
    notary.record("checkpoint", {"iteration": 0, "manifest": "d" * 64})
    heads.append(notary.chain)
    assert heads[0].bits != heads[1].bits == heads[2].bits
    assert len({each.head for each in heads}) == 3


def test_roots_of_a_state():
    fields = {
        "iteration": np.zeros((), np.uint32),
        "policy/params/w": np.ones(3, np.float32),
        "policy/obs_stats/mean": np.zeros(2, np.float32),
    }
    whole, policy = state_roots(fields, 4)
    only = {name: array for name, array in fields.items() if name.startswith("policy/")}
    assert policy == merkle.root(merkle.tensor_leaves(only, 4)).hex()
    assert whole == merkle.root(merkle.tensor_leaves(fields, 4)).hex()
    # The iteration alone leaves the policy's root; a weight moves both; so does the number.
    later = {**fields, "iteration": np.ones((), np.uint32)}
    assert state_roots(later, 4)[1] == policy != state_roots(later, 5)[1]
    assert state_roots(later, 4)[0] != whole


def test_a_foreign_dtype_is_refused(notary):
    with pytest.raises(InputError, match="field 'obs': got dtype float64"):
        claim(notary, {**segment(), "obs": np.zeros((T, N))})
