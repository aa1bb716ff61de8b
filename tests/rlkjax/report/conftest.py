"""Run folders of any length, without training: records in their order, made by the ledger."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from rlkjax import checkpoint, metrics
from rlkjax.audit import ledger
from rlkjax.audit.notary import state_roots
from rlkjax.audit.records import FORMAT
from rlkjax.config import canonical_config, iterations, load_config

CONFIG = """\
task: cartpole
numerics: native
total_steps: {steps}
rollout: {{num_envs: 4, unroll_length: 8}}
network: {{policy_hidden: [8], value_hidden: [8]}}
ppo: {{minibatches: 2}}
env: {{episode_length: 10}}
evaluation: {{every: {every}, episodes: 4}}
"""
FINGERPRINT = {"cpu.threads": "2", "os.system": "Linux", "package.jax": "0.10.2"}
DIGEST = "ab" * 32


class Maker:
    """Writes one run folder, record by record."""

    def __init__(self, folder: Path, planned: int, fingerprint: dict, every: int) -> None:
        folder.mkdir()
        self.folder, self.chain, self.lines, self.measured = folder, ledger.EMPTY, [], []
        path = folder.parent / f"{folder.name}.yaml"
        path.write_text(CONFIG.format(steps=32 * planned, every=every))
        self.config = load_config(path)
        assert iterations(self.config) == planned
        self.state = {"policy/kernel": np.arange(4, dtype=np.float32)}
        files = {"config": canonical_config(self.config), "fingerprint": _json(fingerprint)}
        for name, data in files.items():
            (folder / f"{name}.json").write_bytes(data)
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
        self.record(
            "genesis",
            format=FORMAT,
            **digests,
            program=DIGEST,
            policy_graph=DIGEST,
            seed=0,
            numerics="native",
            platform="cpu",
            environment={"name": "cartpole", "backend": None},
            schema=[["log_prob", "float32", []], ["obs", "float32", [4]]],
            switches=[],
            versions={"jax": "0.10.2"},
            iterations=planned,
        )

    def record(self, kind: str, **payload) -> None:
        self.chain, line = ledger.append(self.chain, kind, payload)
        self.lines.append(line)

    def measure(self, kind: str, iteration: int, **values) -> str:
        self.measured.append(metrics.line(kind, iteration, values))
        return hashlib.sha256(self.measured[-1]).hexdigest()

    def begin(self, k: int) -> None:
        policy = state_roots(self.state, k)[1]
        bound = {"iteration": k, "sequence": k, "graph": DIGEST}
        self.record("rollout", **bound, seed=0, policy=policy, root=DIGEST, leaves=2, nonfinite=0)
        self.record("rescore", **bound, root=DIGEST, rollout_root=DIGEST)

    def iterate(self, k: int, *, last: bool, every: int) -> None:
        self.begin(k)
        self.record("advantages", iteration=k, root=DIGEST)
        values = {
            "steps": 32 * (k + 1),
            "episode_return": np.sqrt(k) + k % 7,
            "policy_loss": -1 / (k + 1),
            "entropy": 0.5 + 0.1 * np.sin(k),
            "nonfinite": 0,
        }
        measured = self.measure("update", k, **values)
        root = state_roots(self.state, k + 1)[0]
        self.record("update", iteration=k, root=root, metrics=measured)
        if last or (k + 1) % every == 0:
            ends = {"return_mean": k, "return_min": k - 2, "return_max": k + 2, "length_mean": k}
            measured = self.measure("evaluation", k, steps=32 * (k + 1), **ends)
            self.record("evaluation", iteration=k, root=DIGEST, metrics=measured)
        if last:
            meta = {"count": self.chain.count, "head": self.chain.head, "bits": self.chain.bits}
            meta["config"] = hashlib.sha256(canonical_config(self.config)).hexdigest()
            tensors = {f"train/{name}": each for name, each in self.state.items()}
            manifest = checkpoint.save(self.folder, k, tensors, meta)
            self.record("checkpoint", iteration=k, manifest=manifest)

    def write(self) -> None:
        for name, lines in (("ledger", self.lines), ("metrics", self.measured)):
            (self.folder / f"{name}.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
        timed = [
            {"iteration": k, "seconds": 0.5 * (k + 1), "audit_seconds": 0.05}
            for k in range(sum(b'"update"' in line for line in self.measured))
        ]
        text = "".join(json.dumps(each) + "\n" for each in timed)
        (self.folder / "timing.jsonl").write_text(text)


def _json(value: dict) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


@pytest.fixture(scope="session")
def make_run():
    """make_run(folder, 6, halt_at=4, resume_at=2, planned=9) -> folder of a run."""

    def build(folder, count, *, planned=None, halt_at=None, resume_at=None, fingerprint=None):
        every = max(count // 3, 1)
        maker = Maker(folder, planned or count, fingerprint or FINGERPRINT, every)
        for k in range(count):
            if k == resume_at:
                other = _json({**FINGERPRINT, "cpu.threads": "1"})
                digest = hashlib.sha256(other).hexdigest()
                (folder / "fingerprints").mkdir()
                (folder / "fingerprints" / f"{digest}.json").write_bytes(other)
                maker.record("resume", iteration=k, fingerprint=digest)
            if k == halt_at:
                maker.begin(k)
                where = {"buffer": "log_prob", "step": 5, "environment": 3, "element": []}
                bits = {"expected": "3f800000", "got": "3f800003"}
                reason = "the training side's forward pass is not what the rollout claimed"
                maker.record("halt", iteration=k, stage="rescore", **where, **bits, reason=reason)
                break
            maker.iterate(k, last=k + 1 == (planned or count), every=every)
        maker.write()
        return folder

    return build


@pytest.fixture
def run(make_run, tmp_path):
    """A verified run of six iterations."""
    return make_run(tmp_path / "run", 6)
