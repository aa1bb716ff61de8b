"""The end of a finished run: an evaluation and a checkpoint follow its last update."""

import pytest

from rlkjax.audit.checks import Order

WHOLE = ["genesis", "rollout", "rescore", "advantages", "update", "evaluation", "checkpoint"]


def end(kinds):
    order = Order()
    for index, kind in enumerate(kinds):
        assert order.see({"index": index, "kind": kind, "iteration": 0, "iterations": 1}) == []
    return order.end()


def test_a_whole_run_has_no_finding():
    assert end(WHOLE) == []


@pytest.mark.parametrize("cut", [1, 2])
def test_records_cut_off_after_the_last_update_are_found(cut):
    (finding,) = end(WHOLE[:-cut])
    assert finding.what == "records after the last update"
    assert finding.expected == "evaluation, checkpoint"
