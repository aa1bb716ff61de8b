"""The certificate on a page: what each stage is made of, and what its bits can depend on."""

from collections.abc import Mapping
from typing import Any

from rlkjax.certify import CLASSES
from rlkjax.report.markup import EMPTY, Html, join, tag
from rlkjax.report.sections import table

# In native numerics nothing is exact, so the page says what a class does, not what it is.
NAMES = {**CLASSES, "defined": "arithmetic that rounds"}
MOST_LINES = 8  # source lines that are listed for one cause


def section(stages: Mapping[str, Mapping[str, Any]], digest: str, recorded: str | None) -> Html:
    """The stages of a run, as they were traced when the page was made.

    Args:
      stages: name -> `certify.as_mapping` of its certificate.
      digest: of all of them, 64 hex digits.
      recorded: the digest that the run recorded; None if it recorded none.

    Returns:
      Markup.
    """
    parts = [tag("h3", "Certificate, traced again for this page"), _verdict(digest, recorded)]
    for name, stage in stages.items():
        rows: list[tuple[object, ...]] = [("program", tag("code", stage["jaxpr"]))]
        rows += [
            (NAMES[kind], ", ".join(f"{each} {number}" for each, number in sorted(found.items())))
            for kind, found in stage["primitives"].items()
            if found
        ]
        parts += [tag("h3", f"stage {name}"), table(rows), _causes(stage["depends_on"])]
    return join(parts)


def _verdict(digest: str, recorded: str | None) -> Html:
    words = {
        None: "The run recorded none, for its bits rest on more than its programs.",
        digest: "The one that the run recorded.",
    }.get(recorded, f"NOT the one that the run recorded, {recorded}: another version traced it.")
    return join([tag("p", tag("code", digest)), tag("p", words)])


def _causes(found: list[Mapping[str, Any]]) -> Html:
    if not found:
        return tag("p", "The bits can depend on nothing but the inputs.", class_="note")
    lines: dict[str, list[str]] = {}
    for each in found:
        text = f"{each['line']}: {', '.join(each['primitives'])}"
        lines.setdefault(each["cause"], []).append(text)
    rows = [(cause, join(_listed(places))) for cause, places in lines.items()]
    return join([tag("p", "The bits can depend on:", class_="note"), table(rows)])


def _listed(places: list[str]) -> list[Html]:
    rest = len(places) - MOST_LINES
    more = tag("p", f"and {rest:,} more lines") if rest > 0 else EMPTY
    return [*(tag("p", tag("code", each)) for each in places[:MOST_LINES]), more]
