"""What is made of two answers: which buffers, whether each run repeats, and the operation."""

import jax
import numpy as np
import pytest

from rlkjax.errors import MachineError
from rlkjax.operations.program import Program
from rlkjax.witness import hearing, testimony

F32 = np.float32
X = np.linspace(0.1, 2.0, 6, dtype=F32)


class FakeWitness:
    """Answers as a process would: for a stage that doubles its input, or a faulty one."""

    def __init__(self, said, fn=lambda x: x * 2.0, init=lambda seed: seed + 1):
        self._said = said
        self._programs = {
            "rollout": Program(fn, (X,), jax.jit),
            "init": Program(init, (np.uint32(0),), jax.jit),
        }

    def testimony(self):
        if isinstance(self._said, Exception):
            raise self._said
        return self._said

    def ask(self, program, method, *arguments):
        return getattr(self._programs[program[0]], method)(*arguments)

    def close(self):
        pass


def answer(value=2.0, *, repeats=True, departed=None, inputs=None, start=0, exact=False):
    fields = {"value": np.full((1, 1), value, F32)}
    given = {"policy/kernel": X} if inputs is None else inputs
    return testimony.Testimony(start, departed, repeats, fields, given, 7, exact)


@pytest.fixture
def hear(monkeypatch, tmp_path):
    def run(*witnesses, iteration=0, stage="rollout"):
        called = iter(witnesses)
        monkeypatch.setattr(hearing, "_call", lambda *_: next(called))
        return hearing.hear((tmp_path, tmp_path), iteration, stage)

    return run


def test_two_runs_that_repeat_and_whose_programs_differ(hear):
    found = hear(FakeWitness(answer()), FakeWitness(answer(3.0), lambda x: x * 3.0))
    assert found.states == ("equal", "equal")
    assert found.operation.primitive == "mul"
    assert "the constant 2.0 in A, 3.0 in B" in found.operation.operands
    assert found.notes == (
        "A was computed again from iteration 0: iteration 0 gives what it recorded",
        "B was computed again from iteration 0: iteration 0 gives what it recorded",
    )


def test_a_run_that_is_not_repeated(hear):
    found = hear(FakeWitness(answer()), FakeWitness(answer(repeats=False)))
    assert found.states == ("equal", "differs") and found.operation is None
    assert "B was computed again from iteration 0: iteration 0 does not give what it recorded" in (
        found.notes
    )
    assert "computed again here, both runs give the same bits at this stage" in found.notes


def test_a_run_that_departs_earlier(hear):
    found = hear(FakeWitness(answer(departed=2)), FakeWitness(answer(3.0)), iteration=4)
    assert found.states == ("differs", "equal")
    assert "already iteration 2 is not what it recorded" in found.notes[0]


def test_a_run_that_cannot_be_computed_here(hear):
    found = hear(FakeWitness(MachineError("no rocm")), FakeWitness(answer()))
    assert found.states == ("not run", "equal")
    assert found.fields[0] is None and found.fields[1] is not None
    assert found.notes[0] == "A was not replayed: no rocm"


def test_what_init_made_leads_to_init(hear):
    other = answer(inputs={"policy/kernel": X + 1})
    found = hear(FakeWitness(answer()), FakeWitness(other, init=lambda seed: seed + 2))
    assert found.operation.primitive == "add"
    assert "policy/kernel differs already after init" in found.notes


def test_other_inputs_of_a_later_iteration_are_named(hear):
    other = answer(inputs={"policy/kernel": X + 1})
    found = hear(FakeWitness(answer()), FakeWitness(other), iteration=3)
    assert found.operation is None
    assert any("inputs differ already, in policy/kernel" in note for note in found.notes)


def test_inputs_of_other_shapes_are_not_compared(hear):
    found = hear(FakeWitness(answer()), FakeWitness(answer(inputs={"policy/kernel": X[:2]})))
    assert found.operation is None
    assert any("inputs of other shapes" in note for note in found.notes)


def test_a_difference_that_shows_in_no_operation_is_said_to_be_fused(hear):
    found = hear(FakeWitness(answer()), FakeWitness(answer(2.5)))
    assert found.operation is None and hearing.UNFOUND in found.notes


def test_a_setting_that_init_only_passes_on_is_an_input_and_no_operation(hear):
    def start(rate):
        # What init makes by operations is equal; the rate is a constant of its program.
        return FakeWitness(
            answer(rate, inputs={"train/learning_rate/initial": np.full((), rate, F32)}),
            init=lambda seed: (seed + 1, F32(rate)),
        )

    found = hear(start(0.5), start(0.25))
    assert found.operation is None
    assert found.notes[2:] == (
        "the stage's inputs differ already, in train/learning_rate/initial: no operation is to "
        "blame before that",
    )


def test_exact_runs_are_never_said_to_be_fused(hear):
    found = hear(FakeWitness(answer(exact=True)), FakeWitness(answer(2.5, exact=True)))
    assert found.operation is None and found.notes[2:] == (hearing.UNFOUND_EXACT,)
    found = hear(FakeWitness(answer(exact=True)), FakeWitness(answer(2.5)))
    assert found.notes[2:] == (hearing.UNFOUND,)
