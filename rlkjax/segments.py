"""Rollouts kept on disk as whole arrays, so that the ledger's roots can be checked from files."""

from pathlib import Path

import numpy as np

from rlkjax.atomic import write_file
from rlkjax.audit.artifacts import SEGMENTS
from rlkjax.audit.tensors import pack


def path_of(folder: Path, iteration: int) -> Path:
    """Where the segment of an iteration lies.

    Args:
      folder: the run folder.
      iteration: 0 or more.

    Returns:
      The file.
    """
    return Path(folder) / SEGMENTS / f"{iteration:08d}.safetensors"


def keep(folder: Path, iteration: int, fields: dict[str, np.ndarray], which: str) -> None:
    """Writes a segment, if segments are kept.

    Args:
      folder: the run folder.
      iteration: number of the iteration.
      fields: name -> [T, ...].
      which: "none", "last" (older ones are removed) or "all".

    Raises:
      MachineError: no space; the file is whole or absent.
      InputError: the place cannot be written.
    """
    if which == "none":
        return
    path = path_of(folder, iteration)
    path.parent.mkdir(exist_ok=True)
    write_file(path, pack(fields))
    if which == "last":
        for old in path.parent.glob("*.safetensors"):
            if old != path:
                old.unlink()
