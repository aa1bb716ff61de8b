"""The proof that a buffer of a kept segment had certain bytes at one step."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlkjax.audit import merkle, proof_files
from rlkjax.audit.artifacts import SEGMENTS
from rlkjax.audit.canonical import canonical_json
from rlkjax.audit.checks import Record
from rlkjax.audit.inside import read_inside
from rlkjax.audit.tensors import view
from rlkjax.errors import ConsistencyError, InputError


def proof_of_leaf(
    folder: Path, lines: Sequence[bytes], iteration: int, *, field: str, step: int
) -> dict[str, Any]:
    """Proves the bytes of one field at one step against the head of the ledger.

    Args:
      folder: the resolved run folder, which kept the segment.
      lines: lines of its ledger, without line ends.
      iteration: of the rollout.
      field: name of the buffer.
      step: time index.

    Returns:
      The proof as plain values.

    Raises:
      InputError: no such iteration, field or step, or a segment that was not kept.
      ConsistencyError: the ledger or the segment is damaged.
    """
    rollout = _rollout(lines, iteration)
    record = proof_files.record_proof(lines, rollout["index"])
    file = f"{SEGMENTS}/{iteration:08d}.safetensors"
    if not (folder / file).exists():
        raise InputError(
            f"iteration: got {iteration}, whose segment is not kept, want one of those in "
            f"{SEGMENTS}; train with audit.keep_segments=all to keep every one"
        )
    fields = view(read_inside(folder, file), file)
    leaves = merkle.segment_leaves(fields, rollout["sequence"])
    if merkle.root(leaves).hex() != rollout["root"]:
        raise ConsistencyError(
            f"{file}: got the root {merkle.root(leaves).hex()}, want {rollout['root']} as record "
            f"{rollout['index']} says; restore the file from a copy"
        )
    names = sorted(fields)
    if field not in fields or step >= len(fields[field]):
        raise InputError(
            f"--leaf: got {field},{step}, want one of {', '.join(names)} and a step from 0 to "
            f"{len(leaves) // len(names) - 1}; choose one"
        )
    array = fields[field]
    header = {
        "dtype": array.dtype.name,
        "field": field,
        "sequence": rollout["sequence"],
        "shape": list(array.shape[1:]),
        "step": step,
    }
    return proof_files.leaf_proof(
        record,
        leaves,
        step * len(names) + names.index(field),
        header=canonical_json(header),
        data=array[step].tobytes(),
    )


def _rollout(lines: Sequence[bytes], iteration: int) -> Record:
    """The rollout record of an iteration."""
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            break  # whoever walks the ledger says what is wrong with it
        if record.get("kind") == "rollout" and record.get("iteration") == iteration:
            return record
    raise InputError(f"iteration: got {iteration}, want one whose rollout is in the ledger")
