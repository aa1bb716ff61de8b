"""What a checkpoint says about itself: making a manifest, and comparing it with the state file."""

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from rlkjax.audit.canonical import canonical_json
from rlkjax.audit.merkle import DTYPES, canonical_array
from rlkjax.audit.records import is_count, is_digest, parse_canonical
from rlkjax.audit.tensors import pack, view
from rlkjax.errors import ConsistencyError, InputError

FORMAT = "rlkjax-checkpoint/1"
STATE, MANIFEST = "state.safetensors", "manifest.json"
CHAIN_KEYS = ("bits", "count", "head")

_KEYS = {"chain", "config", "format", "iteration", "meta", "state", "tensors"}


def sha256(data: Any) -> str:
    """SHA-256 in hex.

    Args:
      data: bytes or a contiguous buffer.

    Returns:
      64 hex digits.
    """
    return hashlib.sha256(data).hexdigest()


def describe(name: str, array: Any) -> dict[str, Any]:
    """The manifest's entry for one tensor.

    Args:
      name: name of the tensor, for the message.
      array: any shape; bool, float16, float32, int32, uint8 or uint32.

    Returns:
      dtype, shape and SHA-256 of the little-endian bytes in C order.

    Raises:
      InputError: another dtype.
    """
    array = canonical_array(name, array)
    digest = sha256(array.reshape(-1).view(np.uint8).data)
    return {"dtype": array.dtype.name, "shape": list(array.shape), "sha256": digest}


def build(
    iteration: int, tensors: Mapping[str, Any], meta: Mapping[str, int | str]
) -> tuple[bytes, bytes]:
    """The two files of a checkpoint.

    Args:
      iteration: number of the iteration after which the state was taken.
      tensors: name -> array, the complete state.
      meta: `config` (64 hex digits), the chain before the checkpoint's record as `count`, `head`
        and `bits`, and anything else that is an integer or a string.

    Returns:
      Bytes of manifest.json, and bytes of state.safetensors.

    Raises:
      InputError: a key of `meta` is missing or of the wrong type, or a tensor of a foreign dtype.
    """
    checks = {"config": is_digest, "count": is_count, "head": is_digest, "bits": is_digest}
    for key, check in checks.items():
        if not check(meta.get(key)):
            raise InputError(
                f"meta[{key!r}]: got {meta.get(key)!r}, want a digest of 64 hex digits, or a count "
                "from 0; take it from the config and the chain"
            )
    state = pack(tensors)
    manifest = {
        "format": FORMAT,
        "iteration": iteration,
        "config": meta["config"],
        "chain": {key: meta[key] for key in CHAIN_KEYS},
        "meta": {key: value for key, value in meta.items() if key not in checks},
        "tensors": {name: describe(name, array) for name, array in tensors.items()},
        "state": sha256(state),
    }
    return canonical_json(manifest), state


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and set(entry) == {"dtype", "shape", "sha256"}
        and entry["dtype"] in DTYPES
        and isinstance(entry["shape"], list)
        and all(map(is_count, entry["shape"]))
        and is_digest(entry["sha256"])
    )


def _is_chain(chain: Any) -> bool:
    return (
        isinstance(chain, dict)
        and set(chain) == set(CHAIN_KEYS)
        and is_count(chain["count"])
        and is_digest(chain["head"])
        and is_digest(chain["bits"])
    )


def read(data: bytes, what: str) -> dict[str, Any]:
    """Reads a manifest strictly.

    Args:
      data: bytes of manifest.json.
      what: name of the file, for the message.

    Returns:
      The manifest.

    Raises:
      ConsistencyError: naming the first key that is missing, unknown or of the wrong type.
    """
    manifest = parse_canonical(data, what)
    for key in sorted(_KEYS ^ set(manifest)):
        state = "missing" if key in _KEYS else "unknown"
        raise ConsistencyError(
            f"{what}: got key {key!r} {state}, want exactly {', '.join(sorted(_KEYS))}; "
            "restore the file from a copy"
        )
    tensors, meta = manifest["tensors"], manifest["meta"]
    good = {
        "format": manifest["format"] == FORMAT,
        "iteration": is_count(manifest["iteration"]),
        "config": is_digest(manifest["config"]),
        "state": is_digest(manifest["state"]),
        "chain": _is_chain(manifest["chain"]),
        "meta": isinstance(meta, dict) and all(isinstance(v, int | str) for v in meta.values()),
        "tensors": isinstance(tensors, dict) and all(map(_is_entry, tensors.values())),
    }
    for key in sorted(good):
        if not good[key]:
            raise ConsistencyError(
                f"{what}: got {key} = {str(manifest[key])[:80]!r}, want it as "
                "docs/ledger-format.md states it; restore the file from a copy"
            )
    return manifest


def compare(
    manifest: Mapping[str, Any], state: bytes | memoryview, what: str, *, fresh: bool = True
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Compares a state file with its manifest.

    Args:
      manifest: as `read` gives it.
      state: bytes of the state file.
      what: name of the state file, for the messages.
      fresh: copy the tensors; otherwise they are read-only views of `state`.

    Returns:
      The tensors (none where the file cannot be read), and one clause for each problem found.
    """
    # hashlib lets go of the interpreter: the whole file is hashed while its tensors are.
    with ThreadPoolExecutor(max_workers=1) as pool:
        whole = pool.submit(sha256, state)
        try:
            tensors, problems = view(state, what), []
        except ConsistencyError as error:
            tensors, problems = {}, [str(error)]
        else:
            problems = _tensor_problems(manifest["tensors"], tensors)
    if whole.result() != manifest["state"]:
        problem = f"file {what} has SHA-256 {whole.result()}, want {manifest['state']}"
        problems = [problem, *problems]
    if fresh:
        tensors = {name: array.copy() for name, array in tensors.items()}
    return tensors, problems


def _tensor_problems(want: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> list[str]:
    problems = []
    for name in sorted(set(want) | set(tensors)):
        if name not in tensors:
            problems.append(f"tensor {name!r} is missing")
        elif name not in want:
            problems.append(f"tensor {name!r} is extra")
        else:
            got = describe(name, tensors[name])
            problems += [
                f"tensor {name!r} has {key} {got[key]}, want {want[name][key]}"
                for key in ("dtype", "shape", "sha256")
                if got[key] != want[name][key]
            ]
    return problems
