"""Whether a run may begin or go on in a folder: told before JAX starts, so imports none of it."""

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rlkjax.atomic import TEMPORARY, explain
from rlkjax.errors import InputError

CONFIG = "config.json"
SHOWN = 6  # differing keys that are named; more are counted

NOTHING: Mapping[str, str] = MappingProxyType({})

_FLOAT = re.compile(r"-?0x[01]\.[0-9a-f]+p[+-][0-9]+", re.ASCII)  # as `float.hex` writes them


def check_new(folder: Path) -> None:
    """That a new run may begin in a folder.

    Args:
      folder: any path.

    Raises:
      InputError: it is no folder, or one that is not empty.
    """
    try:
        names = [each.name for each in folder.iterdir()] if folder.exists() else []
    except OSError as error:
        raise explain(error, folder) from error
    if any(name != "lock" and not name.endswith(TEMPORARY) for name in names):
        raise InputError(
            f"run folder {folder}: got one that is not empty, want a new one; "
            "choose another --run-dir, or continue that run with --resume"
        )


def check_config(folder: Path, config: bytes, given: Mapping[str, str] = NOTHING) -> None:
    """That a run folder is of the config that the caller wants to run.

    Args:
      folder: a run folder.
      config: canonical bytes of the config that the caller wants to run.
      given: dotted key that the caller changed -> the option that changed it.

    Raises:
      InputError: it is of another config; says what to add and what to leave out.
    """
    path = folder / CONFIG
    try:
        stored = path.read_bytes()
    except OSError as error:
        raise explain(error, path) from error
    if stored == config:
        return
    try:
        there, here = _flat(json.loads(stored)), _flat(json.loads(config))
    except (ValueError, AttributeError):
        raise InputError(f"{path}: got bytes that are no config; restore the file") from None
    keys = sorted(key for key in {*there, *here} if there.get(key) != here.get(key))
    if not keys:
        raise InputError(f"{path}: got a config in another spelling; restore the file")
    said = [f"{key} is {_shown(there, key)} there and {_shown(here, key)} here" for key in keys]
    more = f", and {len(keys) - SHOWN} more" if len(keys) > SHOWN else ""
    raise InputError(
        f"config: got one that is not the config of {folder} ({', '.join(said[:SHOWN])}{more}), "
        f"want the same; {_move(keys, there, given)}, or start a new run"
    )


def _move(keys: list[str], there: Mapping[str, Any], given: Mapping[str, str]) -> str:
    """What to change on the command line, so that the configs are the same."""
    if all(key not in there for key in keys):
        return "go on with the version of rlkjax that began it"
    if len(keys) > SHOWN:
        return "name the --config of that run"
    wanted = [f"--set {shlex.quote(f'{key}={_shown(there, key)}')}" for key in keys if key in there]
    if any(key in given for key in keys):
        mine = " ".join(given[key] for key in keys if key in given)
        return f"leave out {mine} and add {' '.join(wanted)}"
    return f"add {' '.join(wanted)}"


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def _shown(flat: Mapping[str, Any], key: str) -> str:
    """A value as --set takes it: JSON, with words bare and floats in decimal."""
    if key not in flat:
        return "missing"
    value = flat[key]
    if isinstance(value, str):
        return repr(float.fromhex(value)) if _FLOAT.fullmatch(value) else value
    return json.dumps(value, separators=(",", ":"))
