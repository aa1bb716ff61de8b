"""What is known of each iteration, and how many share a cell."""

import re

from rlkjax.audit.checks import Finding
from rlkjax.report import strip
from rlkjax.report.facts import read_facts


def test_a_verified_run(run):
    total, found = strip.states(read_facts(run))
    assert (total, found) == (6, dict.fromkeys(range(6), "verified"))


def test_a_halted_run_has_what_never_came(make_run, tmp_path):
    facts = read_facts(make_run(tmp_path / "run", 6, halt_at=4, planned=9))
    total, found = strip.states(facts)
    assert total == 9
    assert found == {**dict.fromkeys(range(4), "verified"), 4: "halted"}
    assert strip.ranges(total, found, "verified") == "0–3"
    assert strip.ranges(total, found, "halted") == "4"
    assert strip.ranges(total, found, "not checked") == "5–8"
    assert strip.ranges(total, found, "resumed") == ""


def test_a_resumed_run(make_run, tmp_path):
    total, found = strip.states(read_facts(make_run(tmp_path / "run", 6, resume_at=2)))
    assert [found[k] for k in range(total)] == ["verified"] * 2 + ["resumed"] + ["verified"] * 3


def test_a_finding_marks_the_iteration_of_its_record(run):
    facts = read_facts(run)
    # Record 0 is genesis, 1 to 4 are iteration 0, and 5 begins iteration 1.
    assert [facts.records[n]["kind"] for n in (0, 4, 5)] == ["genesis", "update", "rollout"]
    for record, iteration in ((0, None), (4, 0), (5, 1), (8, 1)):
        finding = Finding("ledger.jsonl", record, "root", "a", "b")
        facts = facts._replace(report=facts.report._replace(findings=(finding,)))
        _, found = strip.states(facts)
        damaged = [k for k, state in found.items() if state == "damaged"]
        assert damaged == ([] if iteration is None else [iteration])


def test_a_damaged_line_marks_its_iteration(run):
    path = run / "ledger.jsonl"
    lines = path.read_bytes().split(b"\n")
    at = lines[3].index(b'"root":"') + 8  # the advantages of iteration 0: another first digit
    lines[3] = lines[3][:at] + b"0" + lines[3][at + 1 :]
    path.write_bytes(b"\n".join(lines))
    _, found = strip.states(read_facts(run))
    assert found == {0: "damaged", **dict.fromkeys(range(1, 6), "verified")}


def test_cells_cover_every_iteration_once():
    for total in (1, 2, 5, 239, 240, 241, 1000, 10_007, 2**53):
        made = strip.cells(total, {})
        assert len(made) == min(total, strip.CELLS)
        assert (made[0].first, made[-1].last) == (0, total - 1)
        assert all(a.last + 1 == b.first for a, b in zip(made, made[1:], strict=False))
        assert sum(sum(cell.counts.values()) for cell in made) == total


def test_a_cell_shows_its_gravest_state():
    # Ten iterations in four cells: 0-2, 3-4, 5-7, 8-9.
    found = {**dict.fromkeys(range(9), "verified"), 3: "halted", 4: "damaged", 6: "resumed"}
    made = strip.cells(10, found, most=4)
    assert [(cell.first, cell.last, cell.state) for cell in made] == [
        (0, 2, "verified"),
        (3, 4, "damaged"),
        (5, 7, "resumed"),
        (8, 9, "not checked"),
    ]
    assert made[1].counts == {"damaged": 1, "halted": 1}
    assert made[3].counts == {"not checked": 1, "verified": 1}


def test_many_ranges_are_counted(run):
    found = dict.fromkeys(range(0, 40, 2), "damaged")
    assert strip.ranges(40, found, "damaged", most=3) == "0, 2, 4 and 17 more"


def test_every_state_has_its_name_and_a_sign_beside_colour(make_run, tmp_path):
    facts = read_facts(make_run(tmp_path / "run", 6, halt_at=4, planned=9))
    text = strip.section(facts)
    assert text.count('class="cell ') == 9 + 3  # cells, and one key for each state
    assert re.findall("<b>(.*?)</b>", text) == ["4 verified", "4 not checked", "1 halted"]
    assert text.count('fill="url(#over-halted)"') == 2
    assert text.count('fill="url(#over-not-checked)"') == 5
    assert "<title>iteration 4: halted</title>" in text
