"""What a run kept of an iteration beside its ledger, each part proved by the root in its record."""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from rlkjax.audit import merkle
from rlkjax.audit.artifacts import CHECKPOINTS, SEGMENTS
from rlkjax.audit.inside import read_inside
from rlkjax.audit.manifest import STATE
from rlkjax.audit.pairing import Record
from rlkjax.audit.records import TRAIN
from rlkjax.audit.tensors import unpack
from rlkjax.errors import ConsistencyError

Fields = dict[str, np.ndarray]


def segment(folder: Path, rollout: Record) -> Fields | None:
    """The segment of an iteration, if the run kept it.

    Args:
      folder: the run folder.
      rollout: its rollout record.

    Returns:
      name -> [T, N, ...]; None where it is not kept.

    Raises:
      ConsistencyError: the file is damaged, or not the segment that the record speaks of.
    """
    file = f"{SEGMENTS}/{rollout['iteration']:08d}.safetensors"
    fields = _tensors(folder, file)
    if fields is None:
        return None
    leaves = merkle.segment_leaves(fields, rollout["sequence"])
    _check(folder, file, rollout["root"], merkle.root(leaves).hex())
    return fields


def train_state(folder: Path, update: Record) -> Fields | None:
    """The train state after an iteration, if the run kept a checkpoint of it.

    Args:
      folder: the run folder.
      update: its update record.

    Returns:
      name -> tensor, without the checkpoint's prefix; None where it is not kept.

    Raises:
      ConsistencyError: the file is damaged, or not the state that the record speaks of.
    """
    file = f"{CHECKPOINTS}/{update['iteration']:08d}/{STATE}"
    fields = _tensors(folder, file)
    if fields is None:
        return None
    state = {name[len(TRAIN) :]: fields[name] for name in fields if name.startswith(TRAIN)}
    leaves = merkle.tensor_leaves(state, update["iteration"] + 1)
    _check(folder, file, update["root"], merkle.root(leaves).hex())
    return state


def _tensors(folder: Path, file: str) -> Fields | None:
    if not os.path.lexists(folder / file):
        return None
    return unpack(read_inside(folder.resolve(), file), file)


def _check(folder: Path, file: str, wanted: str, got: str) -> None:
    if got != wanted:
        raise ConsistencyError(
            f"run {folder}: {file} has the root {got}, want {wanted} as its record says; "
            f"run python -m rlkjax.verify {folder} to see what is wrong"
        )


def moved(fields_a: Mapping[str, np.ndarray], fields_b: Mapping[str, np.ndarray]) -> str:
    """Whether one segment is the other with its environments or its steps in another order.

    Args:
      fields_a: name -> [T, N, ...].
      fields_b: the same names, shapes and dtypes.

    Returns:
      In words, how; empty where it is not.
    """
    for axis, what in ((1, "environment"), (0, "step")):
        slices = [_slices(fields, axis) for fields in (fields_a, fields_b)]
        if slices[0] == slices[1] or sorted(slices[0]) != sorted(slices[1]):
            continue
        first = next(i for i, (a, b) in enumerate(zip(*slices, strict=True)) if a != b)
        count = sum(a != b for a, b in zip(*slices, strict=True))
        there = slices[1].index(slices[0][first])
        return (
            f"{what} {first} of A stands as {what} {there} in B, and {count} of "
            f"{len(slices[0])} {what}s are not in their place"
        )
    return ""


def _slices(fields: Mapping[str, np.ndarray], axis: int) -> list[bytes]:
    """All bytes of a segment that belong to one index of an axis, for each index."""
    length = next(iter(fields.values())).shape[axis]
    return [
        b"".join(fields[name].take(index, axis).tobytes() for name in sorted(fields))
        for index in range(length)
    ]
