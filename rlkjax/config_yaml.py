"""YAML 1.2 text to plain values, with the line of every key, and with all problems at once.

The text is composed to nodes and read here, rather than loaded, so that a message can name the
line, a quoted number can be told from a number, and nothing but plain values can come out.
"""

from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from rlkjax.errors import InputError

# A config is a page. A larger file is some other file, and would cost seconds to parse.
MAX_BYTES = 65_536
MAX_DEPTH = 16

KeyPath = tuple[str, ...]


class Problem(NamedTuple):
    """One thing wrong with a config: where, and a sentence."""

    path: KeyPath  # () for the file as a whole
    line: int | None  # from 1; None where there is none
    text: str


class Document(NamedTuple):
    """What a text holds."""

    value: Any
    lines: dict[KeyPath, int]  # line of each key, from 1
    problems: tuple[Problem, ...]


def read_text(path: str | Path) -> str:
    """Text of a config file.

    Args:
      path: the file.

    Returns:
      Its text.

    Raises:
      InputError: missing, a folder, unreadable, too large, empty, or not UTF-8.
    """
    where = str(path)
    try:
        with open(path, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        near = _siblings(Path(path))
        raise InputError(f"{where}: config file not found, want a YAML file{near}") from None
    except IsADirectoryError:
        raise InputError(f"{where}: config is a folder, want a YAML file; name one in it") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{where}: config cannot be read ({reason}); check the path") from None
    if len(data) > MAX_BYTES:
        raise InputError(
            f"{where}: config is larger than {MAX_BYTES} bytes, want a page of YAML; is it the "
            "right file?"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{where}: config is not UTF-8 (byte {error.start} is 0x{data[error.start]:02x}); "
            "save it as UTF-8"
        ) from None
    if not text.strip():
        raise InputError(f"{where}: config is empty, want at least task and total_steps")
    return text


def parse(text: str, source: str) -> Document:
    """One YAML 1.2 document as plain values.

    Args:
      text: the YAML.
      source: name of the text in messages.

    Returns:
      Its value made of dict, list, str, int, float, bool and None; the line of each key; and the
      problems that do not stop the reading, such as a key given twice.

    Raises:
      InputError: not YAML, several documents, nested too deep, an anchor, an alias or a tag.
    """
    try:
        _check_events(text, source)
        node = YAML(typ="safe", pure=True).compose(text)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        reason = " ".join(str(getattr(error, "problem", None) or error).split())
        raise InputError(f"{source}{line}: not YAML: {reason}; mend that line") from None
    except (ValueError, IndexError, RecursionError, AttributeError, TypeError) as error:
        # The parser's own slips on broken input; the text is at fault, not the caller's program.
        raise InputError(f"{source}: not YAML ({type(error).__name__}); mend the text") from None
    lines: dict[KeyPath, int] = {}
    problems: list[Problem] = []
    value = None if node is None else _value(node, (), lines, problems)
    return Document(value, lines, tuple(problems))


def _siblings(path: Path) -> str:
    """Which YAML files lie where `path` was looked for."""
    try:
        names = sorted(each.name for each in path.parent.glob("*.yaml"))[:12]
    except (OSError, ValueError):
        names = []
    return f"; beside it lie {', '.join(names)}" if names else "; check the path"


def _check_events(text: str, source: str) -> None:
    """Refuse what plain configs never need, before any node is built."""
    depth, documents = 0, 0
    for event in YAML(typ="safe", pure=True).parse(text):
        line = f"{source}:{event.start_mark.line + 1}"
        if isinstance(event, AliasEvent) or getattr(event, "anchor", None) is not None:
            raise InputError(f"{line}: anchors and aliases are not read; write the value out")
        if getattr(event, "tag", None) is not None:
            raise InputError(f"{line}: tag {event.tag} is not read; write the plain value")
        if isinstance(event, DocumentStartEvent):
            documents += 1
        elif isinstance(event, MappingStartEvent | SequenceStartEvent):
            depth += 1
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise InputError(f"{line}: nested deeper than {MAX_DEPTH}; a config has two levels")
        if documents > 1:
            raise InputError(f"{line}: a second document; want one config in a file")


def _value(node: Node, path: KeyPath, lines: dict[KeyPath, int], problems: list[Problem]) -> Any:
    """Plain value of a node; fills `lines` and `problems` on the way."""
    if isinstance(node, ScalarNode):
        return _scalar(node, path, problems)
    if isinstance(node, SequenceNode):
        return [
            _value(each, (*path, str(index)), lines, problems)
            for index, each in enumerate(node.value)
        ]
    if not isinstance(node, MappingNode):
        raise InputError(f"node of kind {type(node).__name__} cannot be read; write plain YAML")
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, ScalarNode):
            problems.append(Problem(path, line, "a key is not a word; write a plain key"))
            continue
        key = (*path, key_node.value)
        if key_node.value in result:
            text = f"given twice, first in line {lines[key]}; keep one"
            problems.append(Problem(key, line, text))
            continue
        lines[key] = line
        result[key_node.value] = _value(value_node, key, lines, problems)
    return result


def _scalar(node: ScalarNode, path: KeyPath, problems: list[Problem]) -> Any:
    """Plain value of a scalar under the tags of YAML 1.2's core schema."""
    text, kind = node.value, str(node.tag).rsplit(":", 1)[-1]
    try:
        match kind:
            case "null":
                return None
            case "bool":
                return text.lower() in ("true", "yes", "on")
            case "int":
                return int(text.replace("_", ""), 0 if text.lstrip("+-")[1:2].isalpha() else 10)
            case "float":
                return _float(text)
    except ValueError:
        line = node.start_mark.line + 1
        problems.append(Problem(path, line, f"{text[:40]!r} is no number that can be read"))
        return None
    return text


def _float(text: str) -> float:
    """A YAML float, the words .inf and .nan among them."""
    plain = text.replace("_", "").lower()
    sign, body = (plain[0], plain[1:]) if plain[:1] in "+-" else ("", plain)
    return float(sign + body[1:]) if body in (".inf", ".nan") else float(plain)
