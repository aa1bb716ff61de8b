"""The page of a run: one file that opens offline, made of nothing but the run's own bytes.

It holds no clock but what timing.jsonl says, no path and no name of a folder, so the pages of two
runs with equal files are equal. Nothing hashes it: the ledger counts, the page shows.
"""

from pathlib import Path
from typing import NamedTuple

from rlkjax.atomic import write_file
from rlkjax.audit.artifacts import CONFIG
from rlkjax.audit.inside import read_inside
from rlkjax.errors import ConsistencyError
from rlkjax.report import against, measures, replay, sections, strip, tolerance
from rlkjax.report.facts import Facts, read_facts
from rlkjax.report.markup import EMPTY, Html, document, packaged, tag

REPORT = "report.html"
PACKAGE = "rlkjax.report"


class Extras(NamedTuple):
    """What a page shows beyond the files of the run.

    Attributes:
      episode: a rendered episode, or why there is none.
      script: what moves the episode; empty for a page without a script.
      certificate: what each stage is made of.
    """

    episode: Html = EMPTY
    script: str = ""
    certificate: Html = EMPTY


NOTHING = Extras()


def page(
    facts: Facts, canonical: bytes, *, other: Facts | None = None, extras: Extras = NOTHING
) -> str:
    """A run as HTML.

    Args:
      facts: the run.
      canonical: bytes of config.json.
      other: a run to put beside it.
      extras: what was computed for the page.

    Returns:
      The whole page.
    """
    title = sections.headline(facts)
    found = measures.series(facts.metrics)
    body = [
        tag("header", tag("p", "rlkjax run", class_="kicker"), tag("h1", title)),
        sections.verdict(facts),
        sections.block("iterations", "Iterations", strip.section(facts)),
        sections.halt(facts),
        sections.findings(facts),
        measures.learning(found),
        sections.block("episode", "One episode", extras.episode),
        tolerance.section(facts.metrics),
        measures.small(found),
        against.section(facts, other) if other else EMPTY,
        sections.basis(facts, extras.certificate),
        sections.block("config", "Config", sections.settings(facts.config, groups=True)),
        sections.block(
            "fingerprint", "Fingerprint", sections.settings(facts.fingerprint, groups=False)
        ),
        replay.section(facts, canonical),
        sections.timing(facts),
        _footer(),
    ]
    style = packaged(PACKAGE, "style.css")
    return document(f"{title} · rlkjax", tag("main", *body), style=style, script=extras.script)


def _footer() -> Html:
    words = (
        "This page shows what the verifier found in the files when it was made. It is no evidence "
        "itself: whoever doubts it runs the commands above. It loads nothing and needs no script."
    )
    return tag("footer", tag("p", words))


def read_config(folder: Path) -> bytes:
    """Bytes of a run's config.json.

    Args:
      folder: the run folder.

    Returns:
      The bytes; empty where the file is missing or refused.
    """
    try:
        return read_inside(Path(folder).resolve(), CONFIG)
    except ConsistencyError:
        return b""


def write(folder: Path) -> Path:
    """Makes the page of a run folder, inside it.

    Args:
      folder: the run folder.

    Returns:
      The page's path.

    Raises:
      InputError: the folder is no run folder, or cannot be written.
      MachineError: no space.
    """
    path = Path(folder) / REPORT
    write_file(path, page(read_facts(folder), read_config(folder)).encode())
    return path
