"""`python verify_ledger.py RUN`: a second verifier, from docs/ledger-format.md and nothing else."""

import hashlib
import json
import math
import re
import sys
from pathlib import Path

# Kind -> its letter in ORDER, and its keys.
KINDS = {
    "genesis": "g format config program fingerprint seed numerics platform environment schema "
    "switches versions",
    "rollout": "r iteration sequence seed policy root leaves graph nonfinite",
    "rescore": "s iteration sequence root rollout_root graph",
    "advantages": "a iteration root",
    "update": "u iteration root metrics",
    "evaluation": "e iteration root metrics",
    "reference": "f iteration segment state past metrics",
    "acknowledge": "k iteration reason",
    "checkpoint": "c iteration manifest",
    "resume": "m iteration fingerprint",
}
OPTIONAL = {"policy_graph", "iterations", "certificate"}
ORDER, END = "g(m*rsaue?(fk?)?c?)*", ".*e(fk?)?c"
CODES = dict(F32="float32", U32="uint32", I32="int32", F16="float16", U8="uint8", BOOL="bool")


def want(good, *what):
    if not good:
        raise ValueError(" ".join(map(str, what)))


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def spell(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def canonical(data, what):
    value = json.loads(data, parse_float=lambda text: want(False, what, "holds", text))
    want(isinstance(value, dict) and spell(value) == data, what, "is not canonical JSON")
    return value


def tree(leaves):
    split = 1 << max(len(leaves) - 1, 0).bit_length() >> 1
    if split == 0:
        return leaves[0] if leaves else sha()
    return sha(b"\1", tree(leaves[:split]), tree(leaves[split:]))


def tensors(data, what):
    """name -> (dtype, shape, bytes) of a safetensors file."""
    start = 8 + int.from_bytes(data[:8], "little")
    header, spelled, found, at = json.loads(data[8:start]), {}, {}, 0
    for name in sorted(header, key=lambda name: ([*CODES].index(header[name]["dtype"]), name)):
        code, shape = header[name]["dtype"], header[name]["shape"]
        end = at + math.prod(shape) * int(re.sub(r"\D", "", code) or 8) // 8
        spelled[name] = {"dtype": code, "shape": shape, "data_offsets": [at, end]}
        found[name] = (CODES[code], shape, data[start + at : start + end])
        at = end
    text = json.dumps(spelled, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    want(data[8:start] == text and len(data) == start + at, what, "is spelled otherwise")
    return found


def root(found, sequence, names):
    """Root over the leaves, step by step; a tensor of a state is a field of one step."""
    leaves = []
    for step in range(next(iter(found.values()))[1][0]):
        for name in sorted(names):
            dtype, (steps, *shape), data = found[name]
            header = {"dtype": dtype, "field": name, "sequence": sequence, "shape": shape}
            part = data[step * len(data) // steps : (step + 1) * len(data) // steps]
            leaves.append(sha(b"\0", spell({**header, "step": step}), part))
    return len(leaves), tree(leaves).hex()


class Run:
    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        self.records, self.head, self.bits = [], bytes(32), bytes(32)
        for line in self.lines("ledger.jsonl") or [b""]:
            self.link(line)
        self.config = {"audit": {}, "checkpoint": {}, **json.loads(self.read("config.json"))}

    def read(self, name):
        path = (self.folder / name).resolve()
        want(path.is_relative_to(self.folder) and path.is_file(), name, "is no file of the run")
        return path.read_bytes()

    def lines(self, name):
        *lines, rest = self.read(name).split(b"\n")
        want(rest == b"", name, "does not end in a line feed")
        return lines

    def names(self, name):
        want((self.folder / name).resolve().is_relative_to(self.folder), name, "leaves the run")
        return {x.name for x in (self.folder / name).glob("*") if x.suffix != ".part"}

    def link(self, line):
        what = f"record {len(self.records)}"
        record = canonical(line, what)
        kind = record.get("kind")
        want(kind in KINDS and (kind == "genesis") == (not self.records), what, "kind", kind)
        extra = set(record) ^ {*KINDS[kind].split()[1:], "index", "kind", "prev", "bits"}
        want(extra <= (OPTIONAL & set(record) if kind == "genesis" else set()), what, extra)
        if kind == "genesis":
            want(record["format"] == "rlkjax-ledger/1", "format is", record["format"])
            seed, program = record["seed"].to_bytes(8, "little"), bytes.fromhex(record["program"])
            self.bits = sha(b"rlkjax-bits/1\0", program, seed)
        elif "root" in record:
            self.bits = sha(self.bits, kind.encode(), b"\0", bytes.fromhex(record["root"]))
        own = [self.bits.hex(), len(self.records), self.head.hex()]
        stated = [record[x] for x in ("bits", "index", "prev")]
        want(stated == own, what, "links to other than", own)
        self.records.append(record)
        self.head = sha(b"\0", line)

    def check(self):
        first, metrics, rollout, due, k = self.records[0], self.lines("metrics.jsonl"), {}, {}, 0
        want(sha(self.read("config.json")).hex() == first["config"], "config.json is another")
        every = self.config["audit"].get("reference_every")
        kinds = "".join(KINDS[x["kind"]][0] for x in self.records)
        want(re.fullmatch(ORDER, kinds), "kinds are not in order, or the run is not finished")
        if "iterations" in first:
            want(kinds.count("u") == first["iterations"] and re.fullmatch(END, kinds), "end is cut")
        for at, x in enumerate(self.records):
            kind, what = x["kind"], f"record {at}"
            if "metrics" in x:
                want(metrics and sha(metrics.pop(0)).hex() == x["metrics"], what, "metrics")
            if "fingerprint" in x:
                own = f"fingerprints/{x['fingerprint']}.json" if at else "fingerprint.json"
                want(sha(self.read(own)).hex() == x["fingerprint"], own, "is another")
            want((kind == "acknowledge") == (at and self.records[at - 1].get("past", 0) > 0), what)
            k = kinds[:at].count("u") if kind in ("rollout", "resume") else k
            about = due.get("iteration") if kind in ("reference", "acknowledge") else k
            want(at == 0 or x["iteration"] == about, what, "iteration")
            if kind == "rollout":
                want((x["seed"], x["sequence"]) == (first["seed"], k), what, "seed or sequence")
                want(x["graph"] == first.get("policy_graph", x["graph"]), what, "graph")
                rollout, due = x, x if every and k % every == 0 else due
            if kind == "rescore":
                same = all(x[y] == rollout[y] for y in ("sequence", "graph"))
                want(same and x["root"] == x["rollout_root"], what, "differs from the rollout")
            if kind == "update" and due.get("iteration") == k:
                due = {**due, "update": x["root"]}
            both = kind != "reference" or (x["segment"], x["state"]) == (due["root"], due["update"])
            want(both or first["numerics"] != "exact", what, "differs from the run")
        want(not metrics, "metrics.jsonl has more lines than records")
        at = {(x["kind"], x.get("iteration")): x for x in self.records}
        self.check_checkpoints(at, [i for kind, i in at if kind == "checkpoint"])
        self.check_segments(at, [i for kind, i in at if kind == "rollout"])

    def check_checkpoints(self, at, saved):
        files = self.names("checkpoints")
        wanted = saved[-self.config["checkpoint"].get("keep", 1) :]
        want({f"{i:08d}" for i in wanted} <= files <= {f"{i:08d}" for i in saved}, "checkpoints")
        for name in files:
            place, i, record = f"checkpoints/{name}", int(name), at["checkpoint", int(name)]
            want(self.names(place) == {"manifest.json", "state.safetensors"}, place)
            data = self.read(f"{place}/manifest.json")
            want(sha(data).hex() == record["manifest"], place, "has another manifest")
            manifest, state = canonical(data, place), self.read(f"{place}/state.safetensors")
            want(sha(state).hex() == manifest["state"], place, "has another state")
            found = tensors(state, place)
            entries = {x: [y, sha(d).hex(), z] for x, (y, z, d) in found.items()}
            listed = {x: [*y.values()] for x, y in manifest["tensors"].items()}
            chain = {"bits": record["bits"], "count": record["index"], "head": record["prev"]}
            known = [i, self.records[0]["config"], chain, entries]
            stated = [*(manifest[x] for x in ("iteration", "config", "chain")), listed]
            want(known == stated, place, "has a manifest of something else")
            train = {x[6:]: (y, [1, *z], d) for x, (y, z, d) in found.items() if x[:6] == "train/"}
            _, whole = root(train, i + 1, train)
            _, policy = root(train, i + 1, [x for x in train if x.startswith("policy/")])
            acts = at.get(("rollout", i + 1), {"policy": policy})["policy"]
            want((whole, policy) == (at["update", i]["root"], acts), place, "differs")

    def check_segments(self, at, made):
        files, names = self.names("segments"), {i: f"{i:08d}.safetensors" for i in made}
        wanted = {"all": made, "last": made[-1:]}.get(self.config["audit"].get("keep_segments"), [])
        want({names[i] for i in wanted} <= files <= {*names.values()}, "segments: missing or extra")
        for name in files:
            found, i = tensors(self.read(f"segments/{name}"), name), int(name[:-12])
            recorded = (at["rollout", i]["leaves"], at["rollout", i]["root"])
            want(root(found, i, found) == recorded, name, "has another root")
            _, claims = root(found, i, ("log_prob", "value"))
            want(claims == at["rescore", i]["rollout_root"], name, "has other claims")


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit(print("usage: verify_ledger.py RUN, a run folder", file=sys.stderr) or 2)
    sys.tracebacklimit = 0  # the first fault in one line; exit status 1
    (run := Run(sys.argv[1])).check()
    print(f"chain {run.head.hex()} bits {run.bits.hex()} records {len(run.records)} verified")
