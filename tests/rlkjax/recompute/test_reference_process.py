"""The reference in its own process: what it answers, and how it ends."""

import io
import pickle

import pytest

from rlkjax.config import canonical_config
from rlkjax.errors import InputError, MachineError
from rlkjax.recompute import iteration, process, worker
from rlkjax.recompute.process import Reference


@pytest.fixture
def start(given, monkeypatch):
    """Starts processes that end with the test."""
    started = []

    def begin(**environment):
        for name, text in environment.items():
            monkeypatch.setenv(name, text)
        started.append(Reference(given.config))
        return started[-1]

    yield begin
    for each in started:
        each.close()


def test_it_judges_what_it_is_given(given, start):
    # The settings of another device do not reach it.
    reference = start(XLA_FLAGS="--xla_gpu_ftz=true --no_such_flag=1", JAX_PLATFORMS="rocm,cpu")
    assert reference.pending is None
    spoiled = given.flipped("segment/reward", (5, 2), 4)
    reference.begin(0, spoiled)
    assert reference.pending == 0
    judgement = reference.finish()
    assert reference.pending is None
    assert judgement == iteration.judge(given.recompute, 0, spoiled)
    assert (judgement.stage, judgement.place.step, judgement.place.environment) == ("rollout", 5, 2)


def test_a_process_that_has_ended_is_a_fault_of_the_machine(given, monkeypatch):
    monkeypatch.setattr(process, "WORKER", "rlkjax.no_such_module")
    reference = Reference(given.config)
    with pytest.raises(MachineError, match="reference: its process ended with status 1"):
        reference.begin(0, given.fields)
        reference.finish()
    reference.close()


def test_what_the_reference_does_not_define_is_said_and_the_next_is_answered(given, monkeypatch):
    def refuse(recompute, number, fields):
        if number == 0:
            raise InputError("primitive x has no rule")
        return "judged"

    monkeypatch.setattr(worker, "judge", refuse)
    questions = [canonical_config(given.config), (0, {}), (1, {})]
    answers = io.BytesIO()
    worker.serve(io.BytesIO(b"".join(map(pickle.dumps, questions))), answers)
    answers.seek(0)
    assert pickle.load(answers) == ("primitive x has no rule", None)
    assert pickle.load(answers) == (None, "judged")


def test_a_refusal_reaches_the_run(given, start, monkeypatch):
    reference = start()
    monkeypatch.setattr(reference._child, "receive", lambda: ("primitive x has no rule", None))
    reference.begin(4, {})
    with pytest.raises(InputError, match="iteration 4 cannot be computed by it .primitive x has"):
        reference.finish()
