"""Stored heads of the gate: the file, what is judged against it, and what has changed since.

Heads of exact numerics hold on every machine. Those of native numerics are stored under the part of
the fingerprint that names the hardware and the Python, which has a lock file of its own: so a new
version, flag or driver on the same hardware is found, while other hardware has no head yet and is
said to have none.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from rlkjax.errors import InputError

FORMAT = "rlkjax-gate/1"
ANYWHERE = "anywhere"  # in place of the hardware, for exact numerics
# The hardware: keys of the fingerprint, and the CPU features that arithmetic can use.
HARDWARE = (
    *("cpu.model", "cpu.family", "cpu.threads", "os.machine"),
    *("device.platform", "device.kind", "device.count"),
)
_FEATURES = re.compile(r"(sse|ssse|avx|fma|f16c|bmi|amx|asimd|neon|sve|fp)\w*")
_DIGITS = 12

State = Literal["equal", "moved", "unknown", "new", "failed"]


class Made(NamedTuple):
    """One run of the gate, as it came out here.

    Attributes:
      name: of its config file, without the ending.
      numerics: exact or native.
      bits: its head, 64 hex digits; empty where it failed.
      failure: why; empty where it did not.
      config: the config as plain values.
      origin: what else its head can depend on: "code" (file -> digest) and "fingerprint".
    """

    name: str
    numerics: str
    bits: str
    failure: str
    config: Mapping[str, Any]
    origin: Mapping[str, Mapping[str, Any]]

    @property
    def place(self) -> str:
        """Where the head holds: anywhere, or a digest of the hardware."""
        return ANYWHERE if self.numerics == "exact" else hardware(self.origin["fingerprint"])


class Verdict(NamedTuple):
    """What the gate says of one run.

    Attributes:
      state: equal; moved; failed; unknown (native, no head for this hardware); new (none at all).
      name: of its config.
      numerics: exact or native.
      stored: the stored head; empty where there is none.
      got: the head here; empty where it failed.
      changes: what has changed since the head was stored, one phrase each; or the failure.
    """

    state: State
    name: str
    numerics: str
    stored: str
    got: str
    changes: tuple[str, ...] = ()


def hardware(fingerprint: Mapping[str, Any]) -> str:
    """Digest of the part of a fingerprint that names the hardware, and the Python.

    Args:
      fingerprint: from `platform.fingerprint`.

    Returns:
      12 hex digits.
    """
    features = [
        word for word in str(fingerprint.get("cpu.features", "")).split() if _FEATURES.match(word)
    ]
    python = str(fingerprint.get("python.version", "")).split(".")[:2]
    kept = {key: fingerprint.get(key) for key in HARDWARE}
    return _short({**kept, "features": features, "python": python})


def empty() -> dict[str, Any]:
    """A file that holds no head."""
    return {"format": FORMAT, "heads": {}, "configs": {}, "origins": {}}


def parse(text: str, source: str) -> dict[str, Any]:
    """The content of a file of heads.

    Args:
      text: JSON.
      source: name of the file in messages.

    Returns:
      "heads" (name -> numerics -> place -> {bits, config, origin}), "configs" and "origins".

    Raises:
      InputError: no such file of this format.
    """
    try:
        found = json.loads(text)
        if found["format"] != FORMAT:
            raise ValueError(f"format {found['format']!r}")
        for numerics in found["heads"].values():
            for places in numerics.values():
                for entry in places.values():
                    _resolve(found, entry)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"[:120]
        raise InputError(
            f"{source}: got no heads of {FORMAT} ({reason}); restore the file, or remove it and "
            "accept the heads anew"
        ) from None
    return found


def text(stored: Mapping[str, Any]) -> str:
    """A file of heads, without configs and origins that no head refers to.

    Args:
      stored: from `parse`, `empty` or `accept`.

    Returns:
      JSON, keys sorted, that `parse` reads.
    """
    entries = [entry for _, entry in _entries(stored)]
    kept = {
        "configs": {each["config"] for each in entries},
        "origins": {each["origin"] for each in entries},
    }
    used = {key: {name: stored[key][name] for name in names} for key, names in kept.items()}
    return json.dumps({**stored, **used}, indent=1, sort_keys=True) + "\n"


def judge(stored: Mapping[str, Any], made: Made) -> Verdict:
    """What the gate says of a run.

    Args:
      stored: from `parse`.
      made: the run here.

    Returns:
      The verdict.
    """
    places = stored["heads"].get(made.name, {}).get(made.numerics, {})
    if made.failure:
        old = places.get(ANYWHERE, {}).get("bits", "")
        return Verdict("failed", made.name, made.numerics, old, "", (made.failure,))
    entry = places.get(made.place)
    if entry is None:
        state: State = "unknown" if places else "new"
        return Verdict(state, made.name, made.numerics, "", made.bits)
    if entry["bits"] == made.bits:
        return Verdict("equal", made.name, made.numerics, made.bits, made.bits)
    config, origin = _resolve(stored, entry)
    changes = tuple(_changes(config, origin, made))
    return Verdict("moved", made.name, made.numerics, entry["bits"], made.bits, changes)


def accept(stored: Mapping[str, Any], made: Made) -> dict[str, Any]:
    """The stored heads with that of a run among them.

    Args:
      stored: from `parse`; not changed.
      made: a run that did not fail.

    Returns:
      What to store.
    """
    config, origin = _short(made.config), _short(made.origin)
    entry = {"bits": made.bits, "config": config, "origin": origin}
    heads = stored["heads"]
    numerics = heads.get(made.name, {})
    places = {**numerics.get(made.numerics, {}), made.place: entry}
    return {
        **stored,
        "heads": {**heads, made.name: {**numerics, made.numerics: places}},
        "configs": {**stored["configs"], config: made.config},
        "origins": {**stored["origins"], origin: made.origin},
    }


def without(stored: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    """The stored heads without those of some configs.

    Args:
      stored: from `parse`; not changed.
      names: of configs.

    Returns:
      What to store.
    """
    heads = {name: each for name, each in stored["heads"].items() if name not in names}
    return {**stored, "heads": heads}


def _entries(stored: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, str]]]:
    for name, numerics in stored["heads"].items():
        for places in numerics.values():
            for entry in places.values():
                yield name, entry


def _resolve(stored: Mapping[str, Any], entry: Mapping[str, str]) -> tuple[dict, dict]:
    """Config and origin of a stored head."""
    config, origin = stored["configs"][entry["config"]], stored["origins"][entry["origin"]]
    if not re.fullmatch("[0-9a-f]{64}", entry["bits"]):
        raise ValueError(f"head {entry['bits']!r}")
    dict(origin["code"]), dict(origin["fingerprint"])
    return config, origin


def _changes(config: Mapping, origin: Mapping, made: Made) -> Iterator[str]:
    """What differs between the stored origin of a head and that of a run."""
    old, new = dict(_flat(config)), dict(_flat(made.config))
    yield from (f"config {each}" for each in _differences(old, new))
    yield from _differences(origin["fingerprint"], made.origin["fingerprint"])
    files = _differences(origin["code"], made.origin["code"], show=False)
    if files:
        yield f"code {', '.join(files)}"


def _differences(old: Mapping, new: Mapping, show: bool = True) -> list[str]:
    """Keys with another value, each with both values if they are to be shown."""
    found = []
    for key in sorted({*old, *new}):
        a, b = old.get(key, "absent"), new.get(key, "absent")
        if a != b:
            found.append(f"{key} {a} -> {b}" if show else key)
    return found


def _flat(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves of nested mappings by dotted key."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _flat(value, f"{path}.{key}" if path else key)
    else:
        yield path, tuple(tree) if isinstance(tree, list) else tree


def _short(value: Any) -> str:
    data = json.dumps(value, sort_keys=True).encode()
    return hashlib.sha256(data).hexdigest()[:_DIGITS]
