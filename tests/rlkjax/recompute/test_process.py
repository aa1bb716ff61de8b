"""The reference in its own process: it answers, it survives nothing, and nothing survives it."""

import os
import signal

import pytest

from rlkjax.errors import MachineError
from rlkjax.recompute import iteration, process
from rlkjax.recompute.process import Reference


@pytest.fixture
def start(monkeypatch):
    """Starts processes that end with the test."""
    started = []

    def begin(config, **environment):
        for name, text in environment.items():
            monkeypatch.setenv(name, text)
        started.append(Reference(config))
        return started[-1]

    yield begin
    for each in started:
        each.close()


def test_it_judges_what_it_is_given(given, start):
    # The settings of another device do not reach it.
    other = {"XLA_FLAGS": "--xla_gpu_ftz=true --no_such_flag=1", "JAX_PLATFORMS": "rocm,cpu"}
    reference = start(given.config, **other)
    assert reference.pending is None
    spoiled = given.flipped("segment/reward", (5, 2), 4)
    reference.begin(0, spoiled)
    assert reference.pending == 0
    judgement = reference.finish()
    assert reference.pending is None
    assert judgement == iteration.judge(given.recompute, 0, spoiled)
    assert (judgement.stage, judgement.place.step, judgement.place.environment) == ("rollout", 5, 2)


def test_a_process_that_was_killed_is_a_fault_of_the_machine(given, start):
    reference = start(given.config)
    os.kill(reference._process.pid, signal.SIGKILL)
    with pytest.raises(MachineError, match="status -9, want a judgement of iteration 3"):
        reference.begin(3, given.fields)
        reference.pending = 3
        reference.finish()


def test_a_process_that_cannot_be_started_is_named(given, monkeypatch):
    monkeypatch.setattr(process.sys, "executable", "/nowhere/python")
    with pytest.raises(MachineError, match="reference: its process could not be started"):
        Reference(given.config)


def test_close_ends_it_whatever_it_is_doing(given, start):
    reference = start(given.config)
    reference.begin(0, given.fields)
    reference.close()
    assert reference._process.returncode == -signal.SIGKILL
    reference.close()
