"""The end of a finished run: an evaluation and a checkpoint follow its last update."""

import pytest

from rlkjax.audit.checks import check_end

WHOLE = ["genesis", "rollout", "rescore", "advantages", "update", "evaluation", "checkpoint"]


def ledger(kinds):
    records = [{"index": index, "kind": kind} for index, kind in enumerate(kinds)]
    return [{**records[0], "iterations": 1}, *records[1:]]


def test_a_whole_run_has_no_finding():
    assert check_end(ledger(WHOLE)) == []


@pytest.mark.parametrize("cut", [1, 2])
def test_records_cut_off_after_the_last_update_are_found(cut):
    (finding,) = check_end(ledger(WHOLE[:-cut]))
    assert finding.what == "records after the last update"
    assert finding.expected == "evaluation, checkpoint"
