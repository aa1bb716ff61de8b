"""The page of a difference: where two runs part, with both bit patterns and the cause."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from rlkjax.report import bits
from rlkjax.report.against import apart
from rlkjax.report.markup import EMPTY, Html, document, join, packaged, tag
from rlkjax.report.page import PACKAGE
from rlkjax.report.sections import block, mark, said, table, words
from rlkjax.report.strip import HEIGHT, WIDTH

Found = Mapping[str, Any]  # Difference.as_json(), format rlkjax-diff-1

PLACE = ("iteration", "stage", "buffer", "step", "environment", "element")
SETTINGS = {
    "config": "Keys of the config that differ",
    "fingerprint": "Entries of the fingerprint that differ",
    "flags": "Flags and variables that differ",
    "versions": "Versions that differ",
}


def divergence_page(found: Found) -> str:
    """A difference as one HTML file that opens offline and runs no script.

    Args:
      found: what `diff --json` prints.

    Returns:
      The whole page.
    """
    title = " and ".join(names(found["a"]["name"], found["b"]["name"]))
    body = [
        tag("header", tag("p", "rlkjax difference", class_="kicker"), tag("h1", title)),
        _verdict(found),
        block("iterations", "Where they part", _timeline(found)),
        block("place", "The first difference", _place(found)),
        _cause(found),
        _operation(found),
        *(_settings(name, found["differing"].get(name)) for name in SETTINGS),
        block("notes", "Notes", *(tag("p", note) for note in found["notes"])),
        tag("footer", tag("p", "python -m rlkjax.diff A B --json prints the same as data.")),
    ]
    return document(f"{title} · rlkjax", tag("main", *body), style=packaged(PACKAGE, "style.css"))


def names(a: str, b: str) -> tuple[str, str]:
    """Two folders by as few of their last parts as tell them apart, so that no page holds a path.

    Args:
      a: a path.
      b: the other.

    Returns:
      Their short names.
    """
    parts = [PurePath(each).parts for each in (a, b)]
    few = next((k for k in range(1, 4) if parts[0][-k:] != parts[1][-k:]), 1)
    first, second = ("/".join(each[-few:]) for each in parts)
    return first, second


def _verdict(found: Found) -> Html:
    equal = bool(found["equal"])
    if equal:
        line, sentence = "equal bits", "All numeric roots of the two runs are equal."
    elif found["stage"] == "end":
        line = "different length"
        sentence = f"Equal up to iteration {words(found['iteration'])}, where one run ends."
    else:
        line = "unequal bits"
        parts = [f"{name} {words(found[name])}" for name in PLACE if found[name] not in (None, [])]
        sentence = f"The first difference: {', '.join(parts)}." if parts else ""
    return tag(
        "div",
        tag("p", mark(equal), line, class_="verdict"),
        tag("p", sentence) if sentence else None,
        _runs(found),
        class_=f"panel {'good' if equal else 'bad'}",
    )


def _runs(found: Found) -> Html:
    rows: list[tuple[object, ...]] = [("name", *names(*(found[side]["name"] for side in "ab")))]
    for key in ("chain", "bits", "iterations", "planned", "numerics", "platform", "halted"):
        values = [found[side][key] for side in "ab"]
        if values != [None, None]:
            shown = [
                tag("code", each) if key in ("chain", "bits") else words(each) for each in values
            ]
            rows.append((key, *shown))
    return table(rows, ("", "run A", "run B"))


def _timeline(found: Found) -> Html:
    """A bar of all iterations: equal up to the first that differs."""
    total = max(found[side]["planned"] or found[side]["iterations"] for side in "ab")
    first = found["iteration"]
    if first is None or not 0 <= first < max(total, 1):
        return EMPTY
    cut, width = first / total * WIDTH, max(WIDTH / total, 3.0)
    after = min(cut + width, WIDTH)
    parts = [(0, cut, "verified"), (cut, after, "halted"), (after, WIDTH, "not-checked")]
    boxes = [
        tag("rect", x=f"{a:.2f}", width=f"{b - a:.2f}", height=HEIGHT, class_=f"cell {kind}")
        for a, b, kind in parts
        if b > a
    ]
    before = "no iteration" if first == 0 else f"iterations 0 to {first - 1:,}"
    sentence = f"{before} equal, {first:,} differs, what follows is not compared"
    picture = tag(
        "svg",
        *boxes,
        class_="strip",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=sentence,
    )
    return join([picture, tag("p", sentence[0].upper() + sentence[1:] + ".", class_="note")])


def _place(found: Found) -> Html:
    if found["equal"] or found["stage"] in (None, "end"):
        return EMPTY
    rows = [(name, words(found[name])) for name in PLACE if found[name] not in (None, [])]
    if found["elements_differing"] is not None:
        rows.append(
            (
                "elements that differ",
                f"{words(found['elements_differing'])} of {words(found['elements'])}",
            )
        )
    return join([table(rows), _pair(found)])


def _pair(found: Found) -> Html:
    """Both patterns of a place or an operation, with their distance."""
    if found["a_bits"] is None or found["b_bits"] is None:
        return EMPTY
    rows = [
        (
            name,
            found[f"{side}_bits"],
            found[f"{side}_value"] or said(found["dtype"], found[f"{side}_bits"]),
        )
        for side, name in (("a", "run A"), ("b", "run B"))
    ]
    ulp = found["ulp"]
    apart = f"{words(ulp)} unit{'' if ulp == 1 else 's'} in the last place apart"
    return join(
        [
            bits.pair(rows, found["dtype"]),
            tag("p", apart, class_="note") if ulp is not None else None,
        ]
    )


def _cause(found: Found) -> Html:
    cause = found["cause"]
    if cause is None:
        return EMPTY
    sure = "The evidence leaves no other cause." if cause["certain"] else "It fits; others may too."
    return block(
        "cause",
        f"Cause: {cause['class']}",
        tag("p", cause["text"], class_="lead"),
        tag("p", sure),
        tag("p", tag("b", "Next: "), cause["advice"]) if cause["advice"] else None,
    )


def _operation(found: Found) -> Html:
    operation = found["operation"]
    if operation is None:
        return EMPTY
    rows = [("operation", operation["primitive"]), ("line", tag("code", operation["line"]))]
    rows += [("inside", ", ".join(operation["path"]))] if operation["path"] else []
    rows += [("element", words(operation["element"]))] if operation["element"] else []
    rows += [(f"operand {n}", tag("code", each)) for n, each in enumerate(operation["operands"])]
    return block(
        "operation",
        "The first operation that differs",
        tag("p", "Its operands are equal, its results are not.", class_="note"),
        table([*rows, ("class", operation["class"])]),
        _pair(operation),
    )


def _settings(name: str, entries: Any) -> Html:
    rows = [(each["key"], *apart(each["a"], each["b"]), each["effect"]) for each in entries or []]
    heads = ("entry", "run A", "run B", "what it can change")
    return block(f"settings-{name}", SETTINGS[name], table(rows, heads))
