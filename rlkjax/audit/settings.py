"""What two runs were told and where they ran, compared: config, versions, flags, machine."""

import shlex
from collections.abc import Mapping
from typing import Any

from rlkjax.audit.difference import Entry, Settings
from rlkjax.platform import fingerprint as fingerprints

# The first stage of an iteration that a key of the config can change, by the start of the key;
# None: no bit of training. The first line that fits counts.
_FIRST_STAGES: tuple[tuple[str, str | None], ...] = (
    ("platform", None),  # what a machine changes is in the fingerprint
    ("checkpoint.", None),
    ("audit.", None),
    ("evaluation.every", None),
    ("evaluation.", "evaluation"),
    ("seed", "init"),
    ("task", "init"),
    ("network.", "init"),
    ("numerics", "init"),
    ("threads", "init"),
    ("ppo.discount", "advantages"),
    ("ppo.gae_lambda", "advantages"),
    ("reward.dtype", "rollout"),
    ("reward.", "advantages"),
    ("ppo.", "update"),
    ("total_steps", "update"),  # a learning rate that falls depends on it
    ("", "rollout"),
)

VERSIONS = ("package.", "python.")
FLAGS = ("xla.flags", "environment.")

STAGE_ORDER = ("init", "rollout", "rescore", "advantages", "update", "evaluation")


def first_stage(key: str) -> str | None:
    """The first stage of an iteration that a key of the config can change.

    Args:
      key: dotted.

    Returns:
      Name of the stage; None where the key moves no bit of training.
    """
    return next(stage for start, stage in _FIRST_STAGES if key.startswith(start))


def acts_by(key: str, iteration: int, stage: str) -> bool:
    """Whether a key of the config can have acted when a stage of an iteration is reached.

    Args:
      key: dotted.
      iteration: of the first difference.
      stage: of the first difference.

    Returns:
      True where the key's first stage is not after that stage, or an iteration went before.
    """
    first = first_stage(key)
    if first is None or (first == "evaluation" and stage != "evaluation"):
        return False
    return iteration > 0 or STAGE_ORDER.index(first) <= STAGE_ORDER.index(stage)


def compare(
    configs: tuple[Mapping[str, Any], Mapping[str, Any]],
    prints: tuple[Mapping[str, Any], Mapping[str, Any]],
) -> Settings:
    """All settings in which two runs differ.

    Args:
      configs: config.json of each run, as plain values.
      prints: fingerprint of each run at the place that is compared.

    Returns:
      The entries by kind, sorted by key.
    """
    found = fingerprints.differences(*prints)
    entries = [Entry(each.key, str(each.a), str(each.b), each.effect) for each in found]
    kinds = {entry.key: kind_of(entry.key) for entry in entries}
    return Settings(
        config=config_entries(*configs),
        fingerprint=tuple(e for e in entries if kinds[e.key] == "fingerprint"),
        flags=tuple(part for e in entries if kinds[e.key] == "flags" for part in _split(e)),
        versions=tuple(e for e in entries if kinds[e.key] == "versions"),
    )


def kind_of(key: str) -> str:
    """The kind of setting that an entry of a fingerprint is.

    Args:
      key: dotted key of the fingerprint.

    Returns:
      "versions", "flags" or "fingerprint".
    """
    if key.startswith(VERSIONS):
        return "versions"
    return "flags" if key.startswith(FLAGS) else "fingerprint"


def config_entries(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[Entry, ...]:
    """Keys in which two configs differ, each with the first stage that it can change.

    Args:
      a: config.json of the first run.
      b: config.json of the second run.

    Returns:
      Entries by key; floats as they are read by people.
    """
    flat_a, flat_b = _flat(a), _flat(b)
    keys = sorted(key for key in {*flat_a, *flat_b} if flat_a.get(key) != flat_b.get(key))
    return tuple(
        Entry(key, _text(flat_a, key), _text(flat_b, key), _effect(first_stage(key)))
        for key in keys
    )


def _effect(stage: str | None) -> str:
    return "no bit of training" if stage is None else f"stage {stage}, and what follows from it"


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        nested = isinstance(value, Mapping)
        flat |= _flat(value, f"{prefix}{key}.") if nested else {prefix + key: value}
    return flat


def _text(flat: Mapping[str, Any], key: str) -> str:
    value = flat.get(key, "absent")
    if isinstance(value, str) and value.lstrip("-").startswith("0x"):
        try:
            return repr(float.fromhex(value))
        except (ValueError, OverflowError):  # no number, or none that a float64 holds
            return value
    return str(value)


def _split(entry: Entry) -> list[Entry]:
    """The single flags in which two values of XLA_FLAGS differ; another entry as it is."""
    if entry.key != "xla.flags":
        return [entry]
    sides = [_words(text) for text in (entry.a, entry.b)]
    names = sorted(
        name for name in {*sides[0], *sides[1]} if sides[0].get(name) != sides[1].get(name)
    )
    return [
        Entry(name, sides[0].get(name, "absent"), sides[1].get(name, "absent"), entry.effect)
        for name in names
    ]


def _words(text: str) -> dict[str, str]:
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    pairs = [word.removeprefix("--").partition("=") for word in words if word != "absent"]
    return {name: value for name, _, value in pairs}
