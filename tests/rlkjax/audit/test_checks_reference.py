"""Records of recomputed iterations: where they may stand, and what they must agree with."""

import pytest

from rlkjax.audit.checks import Agreement, Order

ITERATION = ["rollout", "rescore", "advantages", "update"]


def ledger(*parts, planned=1):
    """Records from (kind, iteration) or (kind, iteration, further keys), after a genesis."""
    records = [
        {"index": 0, "kind": "genesis", "iterations": planned, "seed": 0, "numerics": "exact"}
    ]
    for kind, iteration, *more in parts:
        keys = {"index": len(records), "kind": kind, "iteration": iteration, "sequence": iteration}
        keys |= {"root": kind[0] * 64, "rollout_root": kind[0] * 64, "graph": "g", "seed": 0}
        records.append({**keys, **(more[0] if more else {})})
    return records


def whole(iteration):
    return [(kind, iteration) for kind in ITERATION]


def judge(watcher, records):
    found = [finding for record in records for finding in watcher.see(record)]
    return [finding.what for finding in found + watcher.end()]


def reference(iteration, past=0, segment="r", state="u"):
    return "reference", iteration, {"past": past, "segment": segment * 64, "state": state * 64}


END = [("evaluation", 0)], [("checkpoint", 0)]


@pytest.mark.parametrize("between", [[], [reference(0)], [reference(0, 2), ("acknowledge", 0)]])
def test_a_judgement_stands_between_evaluation_and_checkpoint(between):
    assert judge(Order(), ledger(*whole(0), *END[0], *between, *END[1])) == []


def test_a_judgement_may_be_of_an_earlier_iteration():
    records = ledger(
        *whole(0), *whole(1), ("evaluation", 1), reference(0), ("checkpoint", 1), planned=2
    )
    assert judge(Order(), records) == []


@pytest.mark.parametrize(
    ("between", "what"),
    [
        ([reference(1)], "iteration"),
        ([reference(0, 2)], "kind after reference"),
        ([reference(0, 2), ("acknowledge", 1)], "iteration"),
        ([reference(0), ("acknowledge", 0)], "kind after reference"),
        ([("acknowledge", 0)], "kind after evaluation"),
        ([reference(0), reference(0)], "kind after reference"),
    ],
)
def test_judgements_out_of_place(between, what):
    assert what in judge(Order(), ledger(*whole(0), *END[0], *between, *END[1]))


def test_a_paused_run_is_not_finished():
    records = ledger(*whole(0), *END[0], reference(0, 2))
    assert judge(Order(), records) == ["records after the last update"]


def test_a_halt_by_a_recomputation_is_about_an_earlier_iteration():
    assert judge(Order(), ledger(*whole(0), *whole(1), ("halt", 0), planned=2)) == []
    assert judge(Order(), ledger(*whole(0), *whole(1), ("halt", 3), planned=2)) == ["iteration"]


def test_exact_judgements_have_the_roots_of_the_run():
    def after(*parts):
        return judge(Agreement(1), ledger(*whole(0), *parts))

    assert after(reference(0)) == []
    assert after(reference(0, segment="x")) == ["reference segment"]
    assert after(reference(0, state="x")) == ["reference state"]


def test_native_judgements_have_roots_of_their_own():
    records = ledger(*whole(0), reference(0, segment="x", state="y"))
    records[0]["numerics"] = "native"
    assert judge(Agreement(1), records) == []


def test_a_judgement_is_of_the_last_iteration_that_was_due():
    rounds = [part for k in range(4) for part in whole(k)]
    assert judge(Agreement(2), ledger(*rounds, reference(2))) == []
    assert judge(Agreement(2), ledger(*rounds, reference(3))) == ["reference iteration"]
    assert judge(Agreement(2), ledger(*rounds, reference(0))) == ["reference iteration"]
    assert "reference iteration" in judge(Agreement(0), ledger(*rounds, reference(2)))
    assert judge(Agreement(None), ledger(*rounds, reference(3))) == []
