"""The page of a difference: what the referee's record says, in words and bits."""

import copy
import json

import pytest
from reading import Page

from rlkjax import cli
from rlkjax.audit.difference import Cause, Difference, Entry, Operation, RunSummary, Settings
from rlkjax.audit.elements import Place
from rlkjax.report.divergence import divergence_page, names


def summary(name, bits="12" * 32) -> RunSummary:
    return RunSummary(name, "ab" * 32, bits, 98, 98, None, "native", "cpu")


FULL = Difference(
    a=summary("first"),
    b=summary("second", "34" * 32),
    equal=False,
    settings=Settings(
        config=(Entry("threads", "1", "2", ""),),
        versions=(Entry("package.jax", "0.10.2", "0.12.0", "the compiler: any native result"),),
    ),
    iteration=41,
    stage="rollout",
    place=Place("log_prob", "float32", 37, 5, (), "3f800000", "3f800003", 3, 1024),
    cause=Cause("reduction order", "cpu.threads differs.", "set threads: 1 in both", False),
    operation=Operation(
        "dot_general",
        "rlkjax/network.py:40 (body)",
        ("scan[37]",),
        "float16",
        (5, 3),
        "3c00",
        "bc00",
        ("float32[8,4]",),
        "reduction order",
    ),
    notes=("Segments were kept in one run only.",),
)


def test_everything_that_the_record_knows_is_said():
    found = Page(divergence_page(FULL.as_json()))
    found.check_closed()
    for words in (
        "first and second",
        "unequal bits",
        "The first difference: iteration 41, stage rollout, buffer log_prob, step 37, env",
        "Iterations 0 to 40 equal, 41 differs, what follows is not compared.",
        "elements that differ 3 of 1,024",
        "2 of 32 bits differ",
        "0x3f800000 1.0",
        "0x3f800003 1.0000004",
        "3 units in the last place apart",
        "Cause: reduction order",
        "It fits; others may too.",
        "Next: set threads: 1 in both",
        "line rlkjax/network.py:40 (body)",
        "inside scan[37]",
        "element 5, 3",
        "1 of 16 bits differs",  # the sign alone: 1.0 and -1.0
        "0xbc00 -1.0",
        "Keys of the config that differ",
        "package.jax 0.10.2 0.12.0 the compiler: any native result",
        "Segments were kept in one run only.",
    ):
        assert words in found.text, words
    assert "Flags and variables that differ" not in found.text


def test_a_certain_cause_says_so():
    cause = Cause("seed", "Seed 0 and 1.", "", True)
    text = Page(divergence_page(Difference(FULL.a, FULL.b, False, cause=cause).as_json())).text
    assert "The evidence leaves no other cause." in text and "Next:" not in text


def test_equal_runs_and_runs_of_unlike_length():
    text = Page(divergence_page(Difference(FULL.a, summary("again"), True).as_json())).text
    assert "equal bits All numeric roots of the two runs are equal." in text
    assert "Where they part" not in text and "unequal" not in text
    ended = Difference(FULL.a, FULL.b, False, iteration=60, stage="end").as_json()
    assert "Equal up to iteration 60, where one run ends." in Page(divergence_page(ended)).text


def test_names_are_the_last_parts_that_differ():
    assert names("/x/runs/a", "/x/runs/b") == ("a", "b")
    assert names("/x/old/run", "/x/new/run") == ("old/run", "new/run")
    assert names("run", "run") == ("run", "run")


def test_no_text_becomes_markup():
    nasty = "</title><script>x()</script><img src=x onerror=y>"

    def spoil(value, key=""):
        if isinstance(value, dict):
            return {name: spoil(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [spoil(each) for each in value]
        return nasty if isinstance(value, str) else value

    spoilt = spoil(copy.deepcopy(FULL.as_json()))
    found = Page(divergence_page(spoilt))
    found.check_closed()
    assert "img" not in found.tags and nasty in found.text


@pytest.mark.parametrize("dtype", ["bool", "int32", None])
def test_bits_of_other_types(dtype):
    bits = ("00000001", "00000003") if dtype == "int32" else ("00", "01")
    place = Place("terminated", dtype, 0, 0, (), *bits, 1, 2)
    found = Difference(FULL.a, FULL.b, False, iteration=0, stage="rollout", place=place)
    text = Page(divergence_page(found.as_json())).text
    assert "No iteration equal, 0 differs" in text
    assert ("1 of 32 bits differs" in text) == (dtype == "int32")
    assert "last place" not in text


def test_the_command_writes_the_page(make_run, tmp_path, capsys):
    a, b = make_run(tmp_path / "a", 6), make_run(tmp_path / "b", 6, halt_at=4)
    out = tmp_path / "page.html"
    status = cli.main(["diff", str(a), str(b), "--html", str(out), "--json"])
    assert status == 1
    said = capsys.readouterr()
    assert said.err == f"page: {out}\n"
    found = json.loads(said.out)
    assert out.read_text() == divergence_page(found)
    assert str(tmp_path) not in out.read_text()
