"""Read a config: file and overrides to frozen records, all problems at once, and its bytes.

load_config(path, overrides)   what the commands call
canonical_config(config)       the bytes that are hashed and written to config.json
parse_canonical(data)          and back
"""

import dataclasses
import functools
import json
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from rlkjax import config_messages, config_rules, config_yaml
from rlkjax.config_schema import (
    AuditConfig,
    CheckpointConfig,
    Config,
    EnvConfig,
    EvaluationConfig,
    NetworkConfig,
    ObservationConfig,
    Option,
    PPOConfig,
    RewardConfig,
    RolloutConfig,
    ToleranceConfig,
    options,
)
from rlkjax.config_yaml import Document, KeyPath, Problem
from rlkjax.errors import InputError

__all__ = [
    "AuditConfig",
    "CheckpointConfig",
    "Config",
    "EnvConfig",
    "EvaluationConfig",
    "NetworkConfig",
    "ObservationConfig",
    "Option",
    "PPOConfig",
    "RewardConfig",
    "RolloutConfig",
    "ToleranceConfig",
    "canonical_config",
    "config_from_mapping",
    "iterations",
    "load_config",
    "options",
    "parse_canonical",
    "program_config",
    "steps_per_iteration",
]

# Keys that cannot move a bit of training; the rest names the program.
_NOT_PROGRAM = ("platform", "checkpoint", "audit")

steps_per_iteration = config_rules.steps_per_iteration


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """The config in a YAML file, with overrides laid over it.

    Args:
      path: YAML 1.2 file, UTF-8, at most 64 KiB.
      overrides: "key=value" strings; key is dotted ("ppo.clip_epsilon"), value is YAML.

    Returns:
      A config whose fields are in range and fit together.

    Raises:
      InputError: the file cannot be read, or any key is wrong; all problems in one message.
    """
    document = config_yaml.parse(config_yaml.read_text(path), str(path))
    changes = [_override(each) for each in overrides]
    return _build(document, str(path), changes)


def config_from_mapping(mapping: Mapping[str, Any], source: str) -> Config:
    """The config in a mapping of plain values, under the same checks as a file.

    Args:
      mapping: nested dict, list, str, int, float, bool, None.
      source: name of the mapping in messages.

    Returns:
      A config whose fields are in range and fit together.

    Raises:
      InputError: any key is wrong; all problems in one message.
    """
    return _build(Document(mapping, {}, ()), source, [])


def canonical_config(config: Config) -> bytes:
    """The one spelling of a config: JSON, keys sorted, no spaces, floats as hexadecimal strings.

    Floats are written by `float.hex`, so that the bytes depend on no decimal printer.

    Args:
      config: a config.

    Returns:
      ASCII bytes without a newline at the end.
    """
    return _json(_plain(config))


def program_config(config: Config) -> bytes:
    """Canonical bytes of the keys that can move a bit of training.

    Args:
      config: a config.

    Returns:
      As `canonical_config`, without platform, checkpoint and audit.
    """
    kept = {key: value for key, value in _plain(config).items() if key not in _NOT_PROGRAM}
    return _json(kept)


def parse_canonical(data: bytes, source: str = "config.json") -> Config:
    """The config that `canonical_config` wrote.

    Args:
      data: its bytes.
      source: name of the bytes in messages.

    Returns:
      The config; `canonical_config` of it is `data` again.

    Raises:
      InputError: not what `canonical_config` writes.
    """
    try:
        mapping = _floats(json.loads(data), Config)
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError):
        raise InputError(f"{source}: not a canonical config; restore the file") from None
    if not isinstance(mapping, Mapping):
        raise InputError(f"{source}: not a canonical config; restore the file")
    config = config_from_mapping(mapping, source)
    if canonical_config(config) != data:
        raise InputError(f"{source}: not in canonical form; restore the file")
    return config


def iterations(config: Config) -> int:
    """Iterations of a run: ceil(total_steps / (num_envs * unroll_length * action_repeat)).

    Args:
      config: a config.

    Returns:
      At least 1.
    """
    return -(-config.total_steps // steps_per_iteration(config))


def _json(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return text.encode("ascii")


def _plain(value: Any) -> Any:
    """Records as dicts, tuples as lists, floats as hexadecimal strings."""
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value.hex() if isinstance(value, float) else value


def _floats(value: Any, hint: Any) -> Any:
    """`value` with the hexadecimal strings of float fields read back."""
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        return {key: _floats(each, hints.get(key)) for key, each in value.items()}
    is_float = hint is float or float in typing.get_args(hint)
    return float.fromhex(value) if is_float and isinstance(value, str) else value


@functools.cache
def _adapter() -> TypeAdapter[Config]:
    return TypeAdapter(Config)


class _Change(typing.NamedTuple):
    """One override."""

    path: KeyPath
    document: Document


def _override(text: str) -> _Change:
    """An override "key=value" as a path and a value."""
    key, equals, value = text.partition("=")
    path = tuple(part.strip() for part in key.split("."))
    if not equals or not all(path):
        raise InputError(
            f"--set: got {text[:80]!r}, want key=value; for example --set ppo.learning_rate=3e-4"
        )
    return _Change(path, config_yaml.parse(value, f"--set {'.'.join(path)}"))


def _build(document: Document, source: str, changes: Sequence[_Change]) -> Config:
    """A config from a document and overrides, or one message with everything that is wrong."""
    if not isinstance(document.value, Mapping):
        got = type(document.value).__name__
        raise InputError(
            f"{source}: got {got}, want a mapping of keys such as task: cartpole; write one key "
            "a line"
        )
    value = document.value
    for change in changes:
        value = _with(value, change.path, change.document.value)
    config, found = _validate(value)
    problems = [*document.problems, *found]
    for change in changes:
        problems += [Problem(change.path, None, each.text) for each in change.document.problems]
    if config is not None and not problems:
        problems += config_rules.check(config)
    if config is not None and not problems:
        return config
    paths = [change.path for change in changes]
    raise InputError(config_messages.message(problems, source, document.lines, paths))


def _with(tree: Any, path: KeyPath, value: Any) -> Any:
    """A copy of `tree` with `value` at `path`; what lies in the way is replaced by a mapping."""
    if not path:
        return value
    base = dict(tree) if isinstance(tree, Mapping) else {}
    return {**base, path[0]: _with(base.get(path[0]), path[1:], value)}


def _validate(value: Any) -> tuple[Config | None, list[Problem]]:
    """The config in plain values, or what is wrong with it."""
    try:
        # JSON is the form in which strict validation takes lists for tuples and dicts for records.
        data = json.dumps(value)
        return _adapter().validate_json(data, strict=True), []
    except ValidationError as error:
        return None, [config_messages.problem(each) for each in error.errors(include_url=False)]
    except (TypeError, ValueError, RecursionError) as error:
        return None, [Problem((), None, f"a value is not plain data ({error}); write plain YAML")]
