"""The strip of iterations: what is known of each, and the picture of it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rlkjax.audit.checks import Finding, Record
from rlkjax.report.facts import Facts, count
from rlkjax.report.markup import EMPTY, Html, join, tag

CELLS = 240  # at most; more iterations share cells
WIDTH, HEIGHT = 960, 40

# What can be known of an iteration, the gravest first: a cell of several shows its gravest.
STATES = {
    "damaged": "a finding names one of its records",
    "halted": "a bit differed, and the run stopped",
    "not checked": "no finished iteration is recorded",
    "resumed": "verified, and taken up before it under another fingerprint",
    "verified": "its records are in order and every file fits them",
}


class Cell(NamedTuple):
    """One or more iterations in a row.

    Attributes:
      first: number of the first of them.
      last: number of the last of them.
      state: the gravest state among them.
      counts: state -> how many of them have it.
    """

    first: int
    last: int
    state: str
    counts: dict[str, int]


def states(facts: Facts) -> tuple[int, dict[int, str]]:
    """What is known of each iteration.

    Args:
      facts: the run.

    Returns:
      Number of iterations, planned or seen; and number -> state, for those that are not
      "not checked".
    """
    found: dict[int, str] = {}
    marks = [(_number(record), record.get("kind")) for record in facts.records.values()]
    seen = [number for number, _ in marks if number is not None]
    for number, kind in marks:
        if number is not None and kind == "update":
            found[number] = "verified"
    for number, kind in marks:
        if number in found and kind == "resume":
            found[number] = "resumed"
    if facts.report.halted is not None:
        found[facts.report.halted["iteration"]] = "halted"
    for number in _damaged(facts.records, facts.report.findings):
        found[number] = "damaged"
    planned = count(facts.genesis.get("iterations")) or 0
    return max([planned, *(number + 1 for number in seen)]), found


def _number(record: Record) -> int | None:
    return None if record.get("kind") == "genesis" else count(record.get("iteration"))


def _damaged(records: Mapping[int, Record], findings: tuple[Finding, ...]) -> Iterator[int]:
    for finding in findings:
        record = records.get(-1 if finding.record is None else finding.record, {})
        number = _number(record)
        # A run that was stopped has its last record named; that is no damage.
        if number is not None and finding.what not in ("last record", "number of iterations"):
            yield number


def cells(total: int, found: Mapping[int, str], most: int = CELLS) -> list[Cell]:
    """Iterations grouped into cells of equal share.

    Args:
      total: number of iterations.
      found: number -> state; the others are "not checked".
      most: largest number of cells.

    Returns:
      min(total, most) cells, which cover every iteration once.
    """
    size = min(total, most)
    tallies = [Counter[str]() for _ in range(size)]
    for number, state in found.items():
        # Cell c holds the iterations from ceil(c total / size) on, so number n is in this one.
        tallies[number * size // total][state] += 1
    made = []
    for place, tally in enumerate(tallies):
        first, after = (-(-each * total // size) for each in (place, place + 1))
        tally["not checked"] = after - first - tally.total()
        counts = {state: tally[state] for state in STATES if tally[state]}
        made.append(Cell(first, after - 1, next(iter(counts)), counts))
    return made


def ranges(total: int, found: Mapping[int, str], state: str, most: int = 6) -> str:
    """Where a state occurs, in words: "0–48, 50".

    Args:
      total: number of iterations.
      found: number -> state.
      state: one of `STATES`.
      most: runs of numbers that are written out.

    Returns:
      Text; empty where the state does not occur.
    """
    if state == "not checked":
        known = sorted(found)
        edges = zip([-1, *known], [*known, total], strict=True)
        runs = [(a + 1, b - 1) for a, b in edges if b - a > 1]
    else:
        runs = []
        for number in sorted(each for each, other in found.items() if other == state):
            if runs and runs[-1][1] == number - 1:
                runs[-1] = (runs[-1][0], number)
            else:
                runs.append((number, number))
    shown = [f"{a:,}" if a == b else f"{a:,}–{b:,}" for a, b in runs[:most]]
    return ", ".join(shown) + (f" and {len(runs) - most:,} more" if len(runs) > most else "")


def section(facts: Facts) -> Html:
    """The strip with its legend.

    Args:
      facts: the run.

    Returns:
      Markup; each state has its own pattern and its name in words beside its colour.
    """
    total, found = states(facts)
    if not total:
        return tag("p", "The ledger holds no iteration that can be read.")
    made = cells(total, found)
    step = WIDTH / len(made)
    gap = min(2.0, step / 4)
    drawn = [_draw(cell, place * step, step - gap) for place, cell in enumerate(made)]
    picture = tag(
        "svg",
        _patterns(),
        *drawn,
        class_="strip",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"Strip of {total:,} iterations; the list below says the same in words",
    )
    tally = Counter(found.values())
    tally["not checked"] = total - tally.total()
    legend = [
        _legend(state, tally[state], ranges(total, found, state))
        for state in reversed(STATES)
        if tally[state]
    ]
    share = f"One cell shows up to {-(-total // len(made))} iterations, the gravest state first."
    return join(
        [
            picture,
            _axis(total),
            tag("ul", *legend, class_="legend"),
            tag("p", share, class_="note") if total > len(made) else EMPTY,
        ]
    )


def _draw(cell: Cell, x: float, width: float) -> Html:
    name = _slug(cell.state)
    what = ", ".join(f"{number:,} {state}" for state, number in cell.counts.items())
    if cell.first == cell.last:
        title = f"iteration {cell.first:,}: {cell.state}"
    else:
        title = f"iterations {cell.first:,} to {cell.last:,}: {what}"
    box = {"x": f"{x:.2f}", "y": 0, "width": f"{width:.2f}", "height": HEIGHT}
    rect = tag("rect", tag("title", title), class_=f"cell {name}", **box)
    over = tag("rect", class_="over", fill=f"url(#over-{name})", **box) if name in _OVER else EMPTY
    return join([rect, over])


def _slug(state: str) -> str:
    return state.replace(" ", "-")


# A second sign beside colour: lines in their own direction for each state that needs a look.
_OVER = {
    "damaged": "M0 0L8 8M8 0L0 8",
    "halted": "M-2 2L2 -2M0 8L8 0M6 10L10 6",
    "not-checked": "M-2 6L2 10M0 0L8 8M6 -2L10 2",
    "resumed": "M0 4H8",
}


def _patterns() -> Html:
    made = [
        tag(
            "pattern",
            tag("path", d=path, class_=f"line {name}"),
            id=f"over-{name}",
            width=8,
            height=8,
            patternUnits="userSpaceOnUse",
        )
        for name, path in _OVER.items()
    ]
    return tag("defs", *made)


def _axis(total: int) -> Html:
    places = sorted({0, total // 2, total - 1})
    return tag("div", *(tag("span", f"{each:,}") for each in places), class_="axis")


def _legend(state: str, number: int, where: str) -> Html:
    name = _slug(state)
    key = tag(
        "svg",
        tag("rect", class_=f"cell {name}", width=16, height=16, rx=2),
        tag("rect", width=16, height=16, rx=2, fill=f"url(#over-{name})")
        if name in _OVER
        else EMPTY,
        class_="key",
        viewBox="0 0 16 16",
        aria_hidden="true",
    )
    words = tag("span", tag("b", f"{number:,} {state}"), f" {STATES[state]}", class_="words")
    return tag("li", key, words, tag("span", where, class_="where"))
