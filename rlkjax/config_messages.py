"""What a config's problems are called: where, got, want, next move."""

import dataclasses
import difflib
import json
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlkjax.config_schema import Config, options, want
from rlkjax.config_yaml import KeyPath, Problem


def problem(error: Mapping[str, Any]) -> Problem:
    """A sentence for one finding of pydantic: got, want, next move.

    Args:
      error: an entry of `ValidationError.errors()`.

    Returns:
      The problem, without a line.
    """
    path = tuple(str(part) for part in error["loc"])
    kind, got = error["type"], error["input"]
    if kind in ("unexpected_keyword_argument", "extra_forbidden"):
        return Problem(path, None, _unknown(path))
    wanted = want(_hint(path))
    if kind in ("missing", "missing_argument"):
        return Problem(path, None, f"missing, want {wanted}; add the line {path[-1]}: VALUE")
    return Problem(path, None, f"got {_shown(got)}, want {wanted}{_move(got, _hint(path), path)}")


def _unknown(path: KeyPath) -> str:
    """What to say about a key that nobody knows."""
    section = _hint(path[:-1])
    known = (
        [f.name for f in dataclasses.fields(section)] if dataclasses.is_dataclass(section) else []
    )
    elsewhere = [each.key for each in options() if each.key.rsplit(".", 1)[-1] == path[-1]]
    if elsewhere:
        return f"unknown key here; it belongs at {' or '.join(elsewhere)}"
    near = difflib.get_close_matches(path[-1], known, n=1)
    if near:
        return f"unknown key; did you mean {'.'.join((*path[:-1], near[0]))}?"
    return f"unknown key; the known ones are {', '.join(known)}"


def _hint(path: Iterable[str]) -> Any:
    """Type hint of the field at a path; an item of a list has the hint of the item."""
    hint: Any = Config
    for part in path:
        if dataclasses.is_dataclass(hint):
            hint = typing.get_type_hints(hint, include_extras=True).get(part)
        elif typing.get_origin(hint) is tuple:
            hint = typing.get_args(hint)[0]
    return hint


def _shown(value: Any) -> str:
    """A value as it would stand in YAML, cut short."""
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 60 else text[:57] + "..."


def _kinds(hint: Any) -> tuple[Any, ...]:
    """The plain types inside a hint: float for Annotated[float, ...] | None."""
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is typing.Annotated:
        return _kinds(arguments[0])
    if typing.get_origin(hint) in (typing.Literal, tuple) or not arguments:
        return (hint,)
    return tuple(kind for each in arguments for kind in _kinds(each))


def _move(got: Any, hint: Any, path: KeyPath) -> str:
    """The next move for a value of a wrong kind; empty when the range says it all."""
    kinds = _kinds(hint)
    literal = next((kind for kind in kinds if typing.get_origin(kind) is typing.Literal), None)
    if path == ("platform",) and str(got).lower() in ("gpu", "amd", "nvidia", "hip"):
        return "; write rocm for an AMD GPU, cuda for an NVIDIA one"
    if literal is not None:
        near = difflib.get_close_matches(
            str(got).lower(), typing.get_args(literal), n=1, cutoff=0.5
        )
        return f"; did you mean {near[0]}?" if near else ""
    if isinstance(got, str) and {int, float} & set(kinds) and _is_number(got):
        return "; remove the quotes"
    if isinstance(got, float) and int in kinds and got.is_integer():
        return f"; write {int(got)}"
    if bool in kinds and str(got).lower() in ("yes", "on", "1", "no", "off", "0", "true", "false"):
        return f"; write {str(got).lower() in ('yes', 'on', '1', 'true')}".lower()
    return ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def message(
    problems: Sequence[Problem],
    source: str,
    lines: Mapping[KeyPath, int],
    overridden: Sequence[KeyPath] = (),
) -> str:
    """All problems, a line each: those of the file in its order, then those of overrides.

    Args:
      problems: at least one.
      source: name of the file or mapping.
      lines: line of each key of the file.
      overridden: paths that an override has set.

    Returns:
      One line for one problem, a list for several.
    """
    said = []
    for each in problems:
        path, line = each.path, each.line or _line(each.path, lines) or 0
        changed = any(way[: len(path)] == path[: len(way)] for way in overridden)
        where = "--set" if changed else f"{source}:{line}" if line else source
        key = f"{'.'.join(path)}: " if path else ""
        said.append((changed, line, f"{where}: {key}{each.text}"))
    texts = list(dict.fromkeys(text for _, _, text in sorted(said)))
    if len(texts) == 1:
        return texts[0]
    return f"{len(texts)} problems in the config:\n  " + "\n  ".join(texts)


def _line(path: KeyPath, lines: Mapping[KeyPath, int]) -> int | None:
    """Line of a key, or of the nearest section above it."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return None
