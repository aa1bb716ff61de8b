"""Training leaves a page behind, at its end and at a halt, and nothing about it stops a run."""

import functools

import numpy as np
import pytest

from rlkjax import loop
from rlkjax.errors import MachineError
from rlkjax.report import page


def test_a_run_ends_with_its_page(command, tmp_path):
    status, out, err = command("--run-dir", tmp_path)
    assert status == 0 and out.startswith("chain ") and out.count("\n") == 1
    assert f"report: {tmp_path / 'report.html'}" in err
    text = (tmp_path / "report.html").read_text()
    assert out.split()[1] in text and "NOT verified" not in text and "6 verified" in text
    assert [each for each in tmp_path.iterdir() if each.name.endswith(".part")] == []


def test_a_halt_ends_with_its_page(command, tmp_path, monkeypatch):
    def faulty(run, train, world, number):
        work = loop.dispatch(run, train, world, number)
        if number != 2:
            return work
        value = np.array(work.rescored.value)
        value.view(np.uint32)[5, 3] ^= 1
        return work._replace(rescored=work.rescored._replace(value=value))

    monkeypatch.setattr(loop, "train", functools.partial(loop.train, dispatch_fn=faulty))
    status, out, err = command("--run-dir", tmp_path)
    assert (status, out) == (1, "")
    assert err.splitlines()[-1].startswith("rlkjax: halt at iteration 2, stage rescore")
    text = (tmp_path / "report.html").read_text()
    assert "The run halted in iteration 2." in text and "1 of 32 bits differs" in text


@pytest.mark.parametrize("error", [MachineError("no space"), RuntimeError("odd"), KeyError("x")])
def test_a_page_that_fails_is_a_warning(command, tmp_path, monkeypatch, error):
    def fail(folder):
        raise error

    monkeypatch.setattr(page, "write", fail)
    status, out, err = command("--run-dir", tmp_path)
    assert status == 0 and out.rstrip().endswith("iterations 6 verified")
    assert err.splitlines()[-1].startswith("warning: no report.html (")
    assert not (tmp_path / "report.html").exists()
