"""Writes the golden run folder and digests beside this file, from docs/ledger-format.md alone.

It imports nothing of rlkjax: it is the second implementation that the first is compared with.
Run it as `python tests/data/ledger/make_vectors.py`; a changed byte needs a changelog line.
"""

import base64
import hashlib
import json
import struct
from pathlib import Path

HERE = Path(__file__).parent
RUN = HERE / "run"
PROGRAM = hashlib.sha256(b"program").hexdigest()
GRAPH = hashlib.sha256(b"graph").hexdigest()


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def canon(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def tree(leaves):
    if len(leaves) <= 1:
        return leaves[0] if leaves else sha(b"")
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return sha(b"\x01", tree(leaves[:split]), tree(leaves[split:]))


def split_of(leaves):
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return split


def path(leaves, index):
    if len(leaves) == 1:
        return []
    k = split_of(leaves)
    if index < k:
        return [*path(leaves[:k], index), tree(leaves[k:])]
    return [*path(leaves[k:], index - k), tree(leaves[:k])]


def grown(leaves, old, whole=True):
    if old == len(leaves):
        return [] if whole else [tree(leaves)]
    k = split_of(leaves)
    if old <= k:
        return [*grown(leaves[:k], old, whole), tree(leaves[k:])]
    return [*grown(leaves[k:], old - k, False), tree(leaves[:k])]


# A field is (dtype, format of one element, shape, elements in C order).
def raw(field):
    dtype, code, shape, elements = field
    return struct.pack(f"<{len(elements)}{code}", *elements)


def leaf(name, field, shape, data, *, step, sequence):
    header = {"field": name, "dtype": field[0], "shape": shape, "step": step, "sequence": sequence}
    return sha(b"\x00", canon(header), data)


def segment_leaves(fields, sequence):
    steps = next(iter(fields.values()))[2][0]
    leaves = []
    for step in range(steps):
        for name in sorted(fields):
            field = fields[name]
            data = raw(field)
            size = len(data) // steps
            part = data[step * size : (step + 1) * size]
            leaves.append(leaf(name, field, field[2][1:], part, step=step, sequence=sequence))
    return leaves


def tensor_leaves(fields, sequence):
    return [
        leaf(name, fields[name], fields[name][2], raw(fields[name]), step=0, sequence=sequence)
        for name in sorted(fields)
    ]


CODES = {"float32": "F32", "int32": "I32", "uint32": "U32", "float16": "F16", "uint8": "U8"}
WIDTH = {"float32": 4, "int32": 4, "uint32": 4, "float16": 2, "uint8": 1, "bool": 1}
RANK = ["bool", "uint8", "float16", "int32", "uint32", "float32"]


def safetensors(fields):
    order = sorted(fields, key=lambda name: (-RANK.index(fields[name][0]), name))
    header, data = {}, b""
    for name in order:
        dtype, _, shape, _ = fields[name]
        part = raw(fields[name])
        code = CODES.get(dtype, "BOOL")
        spans = [len(data), len(data) + len(part)]
        header[name] = {"dtype": code, "shape": shape, "data_offsets": spans}
        data += part
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def segment(iteration):
    return {
        "action": ("int32", "i", [2, 2], [iteration, 1, 2, 3]),
        "log_prob": ("float32", "f", [2, 2], [-0.5, -0.25, -0.0, -1.5]),
        "obs": ("float32", "f", [2, 2, 1], [0.5, 1.5, float("nan"), -2.0]),
        "reward": ("float16", "e", [2, 2], [1.0, 0.0, -0.0, 0.5]),
        "terminated": ("bool", "?", [2, 2], [False, True, False, False]),
        "value": ("float32", "f", [2, 2], [2.0, 4.0, 3.0, 5.0]),
    }


def state(finished):
    return {
        "iteration": ("uint32", "I", [], [finished]),
        "policy/w": ("float32", "f", [2], [0.25, -0.75 - finished]),
    }


def policy(finished):
    fields = {name: field for name, field in state(finished).items() if name.startswith("policy/")}
    return tree(tensor_leaves(fields, finished)).hex()


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


class Log:
    def __init__(self):
        self.lines, self.head, self.bits = [], "0" * 64, "0" * 64

    def add(self, kind, payload):
        if kind == "genesis":
            seed = payload["seed"].to_bytes(8, "little")
            start = b"rlkjax-bits/1\x00"
            self.bits = sha(start, bytes.fromhex(payload["program"]), seed).hex()
        if kind in ("rollout", "rescore", "advantages", "update", "evaluation"):
            root = bytes.fromhex(payload["root"])
            self.bits = sha(bytes.fromhex(self.bits), kind.encode(), b"\x00", root).hex()
        own = {"index": len(self.lines), "kind": kind, "prev": self.head, "bits": self.bits}
        self.lines.append(canon({**payload, **own}))
        self.head = sha(b"\x00", self.lines[-1]).hex()


def genesis():
    config = {"audit": {"keep_segments": "all"}, "checkpoint": {"keep": 2}, "seed": 3}
    return {
        "format": "rlkjax-ledger/1",
        "config": write(RUN / "config.json", canon(config)),
        "program": PROGRAM,
        "fingerprint": write(RUN / "fingerprint.json", canon({"os": "Linux"})),
        "seed": 3,
        "numerics": "native",
        "platform": "cpu",
        "environment": {"backend": None, "dt": (0.02).hex(), "name": "toy", "substeps": 1},
        "schema": [["action", "int32", [2, 2]], ["obs", "float32", [2, 2, 1]]],
        "switches": [],
        "versions": {"jax": "0.0.0"},
        "policy_graph": GRAPH,
        "iterations": 2,
    }


def iteration(log, k, metrics):
    fields = segment(k)
    leaves = segment_leaves(fields, k)
    write(RUN / "segments" / f"{k:08d}.safetensors", safetensors(fields))
    own = {"iteration": k, "sequence": k, "graph": GRAPH}
    root = tree(leaves).hex()
    rollout = {"seed": 3, "policy": policy(k), "root": root, "leaves": len(leaves), "nonfinite": 0}
    log.add("rollout", {**own, **rollout})
    claims = {name: fields[name] for name in ("log_prob", "value")}
    scored = tree(segment_leaves(claims, k)).hex()
    log.add("rescore", {**own, "root": scored, "rollout_root": scored})
    values = {"advantage": ("float32", "f", [2, 2], [1.0, 2.0, 3.0, 4.0])}
    log.add("advantages", {"iteration": k, "root": tree(segment_leaves(values, k)).hex()})
    metrics.append(json.dumps({"iteration": k, "loss": 0.5}).encode())
    digest = hashlib.sha256(metrics[-1]).hexdigest()
    root = tree(tensor_leaves(state(k + 1), k + 1)).hex()
    log.add("update", {"iteration": k, "root": root, "metrics": digest})


def checkpoint(log, k):
    tensors = {f"train/{name}": field for name, field in state(k + 1).items()}
    tensors["world/key"] = ("uint32", "I", [2], [7, 4294967295])
    folder = RUN / "checkpoints" / f"{k:08d}"
    entries = {
        name: {"dtype": f[0], "shape": f[2], "sha256": hashlib.sha256(raw(f)).hexdigest()}
        for name, f in tensors.items()
    }
    manifest = {
        "format": "rlkjax-checkpoint/1",
        "iteration": k,
        "config": json.loads(log.lines[0])["config"],
        "chain": {"count": len(log.lines), "head": log.head, "bits": log.bits},
        "meta": {"note": "golden"},
        "tensors": entries,
        "state": write(folder / "state.safetensors", safetensors(tensors)),
    }
    digest = write(folder / "manifest.json", canon(manifest))
    log.add("checkpoint", {"iteration": k, "manifest": digest})


def head(lines):
    leaves = [sha(b"\x00", line) for line in lines]
    root = base64.b64encode(tree(leaves)).decode()
    bits = json.loads(lines[-1])["bits"]
    origin = f"rlkjax-ledger/1/{leaves[0].hex()}"
    return f"{origin}\n{len(lines)}\n{root}\nchain {leaves[-1].hex()}\nbits {bits}\n"


def texts(digests):
    return [digest.hex() for digest in digests]


def proofs(lines):
    """A head and a proof of each kind, over the whole ledger."""
    leaves = [sha(b"\x00", line) for line in lines]
    record = {"index": 6, "line": lines[6].decode(), "path": texts(path(leaves, 6))}
    proof = {"format": "rlkjax-proof/1", "head": head(lines), "record": record}
    fields = segment(1)
    header = {"field": "obs", "dtype": "float32", "shape": [2, 1], "step": 1, "sequence": 1}
    leaf = {
        "bytes": raw(fields["obs"])[8:16].hex(),
        "header": canon(header).decode(),
        "index": 8,  # six fields a step; obs is the third by name
        "path": texts(path(segment_leaves(fields, 1), 8)),
    }
    both = {"heads": [head(lines[:7]), head(lines)], "path": texts(grown(leaves, 7))}
    write(HERE / "proofs" / "head.txt", head(lines).encode())
    for kind, value in {
        "record": proof,
        "leaf": {**proof, "leaf": leaf},
        "consistency": {"format": "rlkjax-proof/1", **both},
    }.items():
        write(HERE / "proofs" / f"{kind}.json", canon({**value, "kind": kind}) + b"\n")


def main():
    log, metrics = Log(), []
    log.add("genesis", genesis())
    iteration(log, 0, metrics)
    checkpoint(log, 0)
    iteration(log, 1, metrics)
    metrics.append(json.dumps({"evaluation": 1.5}).encode())
    digest = hashlib.sha256(metrics[-1]).hexdigest()
    root = tree(tensor_leaves({"return_": ("float32", "f", [2], [1.0, 2.0])}, 1)).hex()
    log.add("evaluation", {"iteration": 1, "root": root, "metrics": digest})
    checkpoint(log, 1)
    write(RUN / "ledger.jsonl", b"".join(line + b"\n" for line in log.lines))
    write(RUN / "metrics.jsonl", b"".join(line + b"\n" for line in metrics))
    proofs(log.lines)
    leaves = segment_leaves(segment(0), 0)
    vectors = {
        "provenance": "make_vectors.py, struct and hashlib of CPython only; no JAX, no NumPy",
        "chain": log.head,
        "bits": log.bits,
        "leaf_of_record": [sha(b"\x00", line).hex() for line in log.lines],
        "ledger_root": tree([sha(b"\x00", line) for line in log.lines]).hex(),
        "segment_0_leaves": [value.hex() for value in leaves],
        "segment_0_root": tree(leaves).hex(),
        "state_1_root": tree(tensor_leaves(state(1), 1)).hex(),
        "empty_root": tree([]).hex(),
    }
    (HERE / "vectors.json").write_text(json.dumps(vectors, indent=1) + "\n")


if __name__ == "__main__":
    main()
