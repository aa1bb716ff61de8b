"""Complete states on disk: checkpoints/00000010/{state.safetensors,manifest.json}, or nothing."""

import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlkjax.atomic import TEMPORARY, explain, write_folder
from rlkjax.audit import manifest as manifests
from rlkjax.audit.manifest import MANIFEST, STATE
from rlkjax.errors import ConsistencyError, InputError

FOLDER = "checkpoints"
Expected = Mapping[str, tuple[Any, Sequence[int]]]

_NAME = re.compile(r"\d{8,}", re.ASCII)


def path_of(folder: Path, iteration: int) -> Path:
    """Where the checkpoint of an iteration lies.

    Args:
      folder: the run folder.
      iteration: 0 or more.

    Returns:
      The folder of its two files.
    """
    return Path(folder) / FOLDER / f"{iteration:08d}"


def available(folder: Path) -> list[int]:
    """Iterations that have a finished checkpoint, oldest first; unfinished folders do not count.

    Args:
      folder: the run folder.

    Returns:
      Iteration numbers.
    """
    parent = Path(folder) / FOLDER
    if not parent.is_dir():
        return []
    names = [path.name for path in parent.iterdir() if _NAME.fullmatch(path.name)]
    return sorted(int(name) for name in names if f"{int(name):08d}" == name)


def latest(folder: Path) -> int | None:
    """Iteration of the newest finished checkpoint.

    Args:
      folder: the run folder.

    Returns:
      Its number, or None where there is none.
    """
    return max(available(folder), default=None)


def save(
    folder: Path,
    iteration: int,
    tensors: Mapping[str, np.ndarray],
    meta: Mapping[str, int | str],
) -> str:
    """Writes a checkpoint, all of it or nothing. An equal one that exists is left as it is.

    Args:
      folder: the run folder.
      iteration: number of the iteration after which the state was taken.
      tensors: name -> array of bool, float16, float32, int32, uint8 or uint32.
      meta: `config`, and the chain before the checkpoint's record as `count`, `head`, `bits`;
        anything else that is an integer or a string.

    Returns:
      SHA-256 of manifest.json, 64 hex digits, for the record.

    Raises:
      InputError: a foreign dtype, a missing key, or a place that cannot be written.
      MachineError: no space; nothing is left behind.
      ConsistencyError: another checkpoint of this iteration exists.
    """
    manifest, state = manifests.build(iteration, tensors, meta)
    path = path_of(folder, iteration)
    files = {MANIFEST: manifest, STATE: state}
    if not path.exists():
        write_folder(path, files)
    else:
        for name, data in files.items():
            if _read(path / name) != data:
                raise ConsistencyError(
                    f"{path / name}: got a file of other bytes than this run computes, want equal "
                    "bytes; move the checkpoint away and resume from an older one"
                )
    return manifests.sha256(manifest)


def load(
    folder: Path,
    iteration: int,
    expected: Expected,
    *,
    config: str | None = None,
    manifest: str | None = None,
) -> tuple[dict[str, np.ndarray], dict[str, int | str]]:
    """Reads a checkpoint and checks every byte of it.

    Args:
      folder: the run folder.
      iteration: which checkpoint.
      expected: name -> (dtype, shape) of every tensor that the state must have.
      config: 64 hex digits that the checkpoint's config must have; None: not compared.
      manifest: 64 hex digits that the ledger recorded for manifest.json; None: not compared.

    Returns:
      The tensors as fresh arrays that nothing else refers to, and `meta` as it was saved.

    Raises:
      InputError: no such checkpoint, or one of another config.
      ConsistencyError: damage; names every file and tensor that is missing, extra or wrong.
    """
    path = path_of(folder, iteration)
    if not path.is_dir():
        raise InputError(
            f"checkpoint: got iteration {iteration}, want one of {available(folder)}; choose one"
        )
    data = _read(path / MANIFEST)
    if manifest is not None and manifests.sha256(data) != manifest:
        raise ConsistencyError(
            f"{path / MANIFEST}: got SHA-256 {manifests.sha256(data)}, want {manifest} as the "
            "ledger says; resume from an older checkpoint"
        )
    read = manifests.read(data, str(path / MANIFEST))
    if config is not None and read["config"] != config:
        raise InputError(
            f"checkpoint {path}: got the config {read['config']}, want {config}; "
            "resume it with the config.json of its own run folder"
        )
    tensors, problems = manifests.compare(read, _read(path / STATE), STATE)
    if read["iteration"] != iteration:
        problems.insert(0, f"iteration is {read['iteration']}, want {iteration}")
    problems += [f"file {name!r} is extra" for name in _extra_files(path)]
    problems += _unexpected(read["tensors"], expected)
    if problems:
        raise ConsistencyError(
            f"checkpoint {path}: {'; '.join(dict.fromkeys(problems))}; "
            "resume from an older checkpoint"
        )
    return tensors, {**read["meta"], **read["chain"], "config": read["config"]}


def prune(folder: Path, keep: int) -> list[int]:
    """Removes all but the newest checkpoints, and whatever an interrupted write left behind.

    Args:
      folder: the run folder.
      keep: how many stay, 1 or more.

    Returns:
      The iterations whose checkpoints were removed.

    Raises:
      InputError: `keep` below 1, or a folder that cannot be changed.
      MachineError: the device is failing.
    """
    if keep < 1:
        raise InputError(f"keep: got {keep}, want 1 or more; the newest checkpoint must stay")
    return discard(folder, available(folder)[-keep:])


def discard(folder: Path, keep: Collection[int]) -> list[int]:
    """Removes all checkpoints but the given ones, and whatever an interrupted write left behind.

    Args:
      folder: the run folder.
      keep: iterations whose checkpoints stay, such as those that the ledger recorded.

    Returns:
      The iterations whose checkpoints were removed.

    Raises:
      InputError: a folder that cannot be changed.
      MachineError: the device is failing.
    """
    old = [iteration for iteration in available(folder) if iteration not in keep]
    parent = Path(folder) / FOLDER
    try:
        for path in sorted(parent.glob("*" + TEMPORARY)):
            shutil.rmtree(path)
        for iteration in old:
            # Renamed first, so that a kill in between leaves no half-removed checkpoint.
            doomed = path_of(folder, iteration).with_suffix(TEMPORARY)
            path_of(folder, iteration).rename(doomed)
            shutil.rmtree(doomed)
    except OSError as error:
        raise explain(error, parent) from error
    return old


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ConsistencyError(
            f"{path}: got no such file, want it beside the other one of the checkpoint; "
            "resume from an older checkpoint"
        ) from None
    except OSError as error:
        raise explain(error, path) from error


def _extra_files(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir() if entry.name not in (STATE, MANIFEST))


def _unexpected(entries: Mapping[str, Any], expected: Expected) -> list[str]:
    """What the manifest's tensors lack, or have beyond what the program needs."""
    problems = []
    for name in sorted(set(entries) | set(expected)):
        if name not in entries:
            problems.append(f"tensor {name!r} is missing")
            continue
        if name not in expected:
            problems.append(f"tensor {name!r} is extra")
            continue
        dtype, shape = expected[name]
        want = {"dtype": np.dtype(dtype).name, "shape": [int(size) for size in shape]}
        problems += [
            f"tensor {name!r} has {key} {entries[name][key]}, want {want[key]}"
            for key in ("dtype", "shape")
            if entries[name][key] != want[key]
        ]
    return problems
