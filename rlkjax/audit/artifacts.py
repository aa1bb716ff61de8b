"""The checks of the files that records speak of: config, fingerprints, checkpoints, segments."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rlkjax.audit import manifest as manifests
from rlkjax.audit import merkle
from rlkjax.audit.checks import Finding, Record
from rlkjax.audit.records import CLAIMS, POLICY, TRAIN
from rlkjax.audit.tensors import view
from rlkjax.errors import ConsistencyError, InputError

CONFIG, FINGERPRINT = "config.json", "fingerprint.json"
CHECKPOINTS, SEGMENTS, FINGERPRINTS = "checkpoints", "segments", "fingerprints"

# Reads a file of the run folder; raises ConsistencyError where it is missing or refused.
ReadFn = Callable[[str], bytes]
# The same for large files; the next call overwrites what it gave.
LoadFn = Callable[[str], memoryview]


def _digest(read: ReadFn, file: str, record: Record, key: str) -> list[Finding]:
    try:
        got = hashlib.sha256(read(file)).hexdigest()
    except ConsistencyError as error:
        return [Finding(file, record["index"], "file", f"SHA-256 {record[key]}", str(error))]
    if got == record[key]:
        return []
    return [Finding(file, record["index"], "SHA-256", record[key], got)]


def check_input(record: Record, read: ReadFn) -> list[Finding]:
    """Whether config.json and the fingerprints are the files that a record names.

    Args:
      record: any record.
      read: reads a file of the run folder.

    Returns:
      Findings.
    """
    if record["kind"] == "genesis":
        config = _digest(read, CONFIG, record, "config")
        return config + _digest(read, FINGERPRINT, record, "fingerprint")
    if record["kind"] == "resume":
        return _digest(read, fingerprint_file(record), record, "fingerprint")
    return []


def fingerprint_file(record: Record) -> str:
    """Where the fingerprint lies that a resume record names.

    Args:
      record: of kind resume.

    Returns:
      Path inside the run folder.
    """
    return f"{FINGERPRINTS}/{record['fingerprint']}.json"


class Kept(NamedTuple):
    """What a config asks a run to keep and to repeat.

    Attributes:
      checkpoints: how many of the newest.
      segments: "none", "last" or "all".
      reference_every: interval at which the reference recomputes an iteration; 0: never.
    """

    checkpoints: int = 1
    segments: str = "none"
    reference_every: int = 0


def kept(config: bytes) -> Kept:
    """What a config asks a run to keep.

    Args:
      config: bytes of config.json.

    Returns:
      The keys, or their defaults where the config is silent.
    """
    try:
        value = json.loads(config)
    except (ValueError, RecursionError):
        value = {}
    keep = _section(value, "checkpoint").get("keep")
    audit = _section(value, "audit")
    every = audit.get("reference_every")
    return Kept(
        checkpoints=keep if isinstance(keep, int) and keep > 0 else 1,
        segments=str(audit.get("keep_segments") or "none"),
        reference_every=every if isinstance(every, int) and every > 0 else 0,
    )


def _section(value: Any, key: str) -> dict[str, Any]:
    section = value.get(key) if isinstance(value, dict) else None
    return section if isinstance(section, dict) else {}


class Around(NamedTuple):
    """The records that a checkpoint's own record is compared with.

    Attributes:
      genesis: the first record; empty if it is none.
      update: of the same iteration; empty if there is none.
      next_rollout: of the iteration that follows; empty if there is none.
    """

    genesis: Record
    update: Record
    next_rollout: Record


def _check_manifest(record: Record, genesis: Record, data: bytes, file: str) -> list[Finding]:
    digest = manifests.sha256(data)
    if digest != record["manifest"]:
        return [Finding(file, record["index"], "SHA-256", record["manifest"], digest)]
    manifest = manifests.read(data, file)
    chain = {"bits": record["bits"], "count": record["index"], "head": record["prev"]}
    pairs = [
        ("iteration", record["iteration"], manifest["iteration"]),
        ("config", genesis.get("config"), manifest["config"]),
        ("chain before the record", chain, manifest["chain"]),
    ]
    return [
        Finding(file, record["index"], what, str(want), str(got))
        for what, want, got in pairs
        if want != got
    ]


def _check_train_state(around: Around, tensors: Mapping[str, Any], file: str) -> list[Finding]:
    """Whether the state on disk is the one whose roots the update and the next rollout recorded."""
    state = {name[len(TRAIN) :]: tensors[name] for name in tensors if name.startswith(TRAIN)}
    if not state or not around.update:
        return []
    finished = around.update["iteration"] + 1
    leaves = merkle.tensor_leaves(state, finished)
    names = sorted(state)
    policy = [name for name in names if name.startswith(POLICY)]
    roots = [
        (around.update, "root", merkle.root(leaves).hex()),
        (around.next_rollout, "policy", merkle.root(_leaves_of(leaves, names, policy)).hex()),
    ]
    return [
        Finding(file, record["index"], f"{record['kind']} {key}", record[key], got)
        for record, key, got in roots
        if record and record[key] != got
    ]


def check_checkpoint(
    record: Record, around: Around, names: Sequence[str], *, read: ReadFn, load: LoadFn
) -> list[Finding]:
    """Whether a checkpoint on disk is the one that a record names, to the last byte.

    Args:
      record: the checkpoint record.
      around: the records that it is compared with.
      names: files in the checkpoint's folder.
      read: reads a file of the run folder.
      load: reads a large one.

    Returns:
      Findings.
    """
    folder, index = f"{CHECKPOINTS}/{record['iteration']:08d}", record["index"]
    known = (manifests.MANIFEST, manifests.STATE)
    findings = [
        Finding(f"{folder}/{name}", index, "file", "no such file", "a file that no record names")
        for name in names
        if name not in known
    ]
    file = f"{folder}/{manifests.MANIFEST}"
    try:
        data = read(file)
        findings += _check_manifest(record, around.genesis, data, file)
        manifest = manifests.read(data, file)
        file = f"{folder}/{manifests.STATE}"
        tensors, problems = manifests.compare(manifest, load(file), file, fresh=False)
        findings += _check_train_state(around, tensors, file)
    except ConsistencyError as error:
        return [*findings, Finding(file, index, "file", "the file as it was written", str(error))]
    want = "the state that the manifest describes"
    return findings + [Finding(file, index, "state", want, problem) for problem in problems]


def _leaves_of(leaves: Sequence[bytes], names: Sequence[str], wanted: Sequence[str]) -> list[bytes]:
    """The leaves of some fields, out of the step-major leaves of all."""
    columns = [column for column, name in enumerate(names) if name in wanted]
    width = len(names)
    return [leaves[row + column] for row in range(0, len(leaves), width) for column in columns]


def check_segment(record: Record, rescore: Record, file: str, *, load: LoadFn) -> list[Finding]:
    """Whether a kept segment has the roots that its rollout and rescore records claim.

    Args:
      record: the rollout record.
      rescore: the record that follows it; empty if it is of another kind.
      file: path of the segment inside the run folder.
      load: reads a large file of the run folder.

    Returns:
      Findings.
    """
    index = record["index"]
    try:
        fields = view(load(file), file)
        leaves = merkle.segment_leaves(fields, record["sequence"])
    except (ConsistencyError, InputError) as error:
        return [Finding(file, index, "file", "the segment as it was written", str(error))]
    claimed = merkle.root(_leaves_of(leaves, sorted(fields), CLAIMS)).hex()
    pairs = [
        ("number of leaves", record["leaves"], len(leaves)),
        ("root", record["root"], merkle.root(leaves).hex()),
        ("root of the claims", rescore.get("rollout_root", claimed), claimed),
    ]
    return [
        Finding(file, index, what, str(want), str(got)) for what, want, got in pairs if want != got
    ]
