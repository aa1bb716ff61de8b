"""How a reader repeats what a page says: exact commands, and the config as a file."""

import dataclasses
import json

from rlkjax.config import Config, parse_canonical
from rlkjax.errors import InputError
from rlkjax.report.facts import Facts
from rlkjax.report.markup import Html, tag
from rlkjax.report.sections import block


def section(facts: Facts, canonical: bytes) -> Html:
    """The commands that check a run again. RUN stands for its folder.

    Args:
      facts: the run.
      canonical: bytes of config.json.

    Returns:
      Markup.
    """
    head = facts.report.chain.head
    steps = [
        (
            "Check every byte again, from the files alone",
            f"python -m rlkjax.verify RUN --chain {head}",
        ),
        (
            "Recompute it here and compare every record (the time of the training itself)",
            "python -m rlkjax.verify RUN --replay",
        ),
        ("Compare with another run", "python -m rlkjax.diff RUN OTHER_RUN"),
    ]
    try:
        yaml = readable(parse_canonical(canonical))
    except InputError:
        yaml = ""
    if yaml:
        steps.append(
            (
                "Train it once more: save the lines below as replay.yaml. The same machine and "
                "versions end in the same chain",
                "python -m rlkjax.train --config replay.yaml --run-dir AGAIN",
            )
        )
    listed = [tag("li", tag("p", words), tag("pre", line)) for words, line in steps]
    return block(
        "replay",
        "How to replay",
        tag("ol", *listed, class_="steps"),
        _lines(yaml) if yaml else None,
    )


def readable(config: Config) -> str:
    """A config as YAML that reads back as the same config.

    Args:
      config: the run.

    Returns:
      One line for each key of the top.
    """
    tree = dataclasses.asdict(config)
    return "\n".join(f"{key}: {json.dumps(value)}" for key, value in tree.items())


def _lines(text: str) -> Html:
    shown = "\n".join(tag("span", line) for line in text.split("\n"))
    return tag("pre", Html(shown), class_="yaml")
