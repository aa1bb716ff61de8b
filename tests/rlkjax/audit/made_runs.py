"""Run folders made by the real writers of ledger, segments and checkpoints, without JAX.

Their numbers are drawn, not learned: what the tests change is one number, setting or record.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from rlkjax import checkpoint, segments
from rlkjax.audit import ledger
from rlkjax.audit.journal import Journal
from rlkjax.audit.notary import Notary, state_roots
from rlkjax.errors import ConsistencyError

STEPS, ENVIRONMENTS = 5, 4
PLANNED = 3  # iterations that genesis announces
CONFIG = {
    "task": "cartpole",
    "total_steps": 100,
    "seed": 3,
    "threads": None,
    "numerics": "native",
    "ppo": {"learning_rate": (0.01).hex(), "gae_lambda": (0.95).hex()},
    "reward": {"dtype": "float32"},
}
MACHINE = {
    "cpu.boost": "1",
    "cpu.features": "f0f0",
    "cpu.threads": "2",
    "device.platform": "cpu",
    "package.jax": "0.10.2",
    "xla.flags": "--xla_cpu_enable_fast_math=false --xla_cpu_max_isa=AVX2",
}
GRAPH = "ab" * 32

Fields = dict[str, np.ndarray]
ChangeFn = Callable[[str, int, Fields], None]


def segment_of(iteration: int) -> Fields:
    """The rollout of an iteration: T = 5 steps of 4 environments."""
    draw = np.random.default_rng(iteration)
    shape = STEPS, ENVIRONMENTS

    def number(*more: int) -> np.ndarray:
        return draw.normal(size=(*shape, *more)).astype(np.float32)

    return {
        "obs": number(3),
        "next_obs": number(3),
        "action": draw.integers(0, 2, shape, dtype=np.int32),
        "log_prob": number(),
        "value": number(),
        "reward": number(),
        "terminated": draw.integers(0, 2, shape).astype(bool),
        "truncated": np.zeros(shape, bool),
        "info/nonfinite": np.zeros(shape, np.int32),
    }


def state_of(iterations: int) -> Fields:
    """The train state after some iterations."""
    draw = np.random.default_rng(1000 + iterations)
    kernel = draw.normal(size=(3, 2)).astype(np.float32)
    return {
        "policy/params/kernel": kernel,
        "optimizer/mu/kernel": kernel / 8,
        "iteration": np.array(iterations, np.uint32),
    }


def unchanged(stage: str, iteration: int, fields: Fields) -> None:
    """Leaves every buffer as it is."""


def make_run(
    folder: Path,
    change: ChangeFn = unchanged,
    *,
    config: Mapping[str, object] = CONFIG,
    machine: Mapping[str, object] = MACHINE,
    iterations: int = PLANNED,
    keep: str = "all",
    genesis: Mapping[str, object] | None = None,
    resumed: tuple[int, Mapping[str, object]] | None = None,
) -> Path:
    """Writes a run folder.

    Args:
      folder: where.
      change: (stage, iteration, buffers) -> None, changes buffers before they are recorded.
      config: its config.json.
      machine: its fingerprint.
      iterations: how many are recorded.
      keep: which segments and checkpoints are kept: "all" or "none".
      genesis: keys of genesis that are not as usual.
      resumed: before which iteration the run was resumed on which other machine.

    Returns:
      The folder.
    """
    folder.mkdir()
    files = {"config.json": config, "fingerprint.json": machine}
    digests = {}
    for name, value in files.items():
        data = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
        (folder / name).write_bytes(data)
        digests[name] = hashlib.sha256(data).hexdigest()
    notary = Notary(
        ledger.EMPTY, Journal(folder / "ledger.jsonl"), Journal(folder / "metrics.jsonl")
    )
    usual = {
        "format": "rlkjax-ledger/1",
        "config": digests["config.json"],
        "program": digests["config.json"],
        "fingerprint": digests["fingerprint.json"],
        "seed": config["seed"],
        "numerics": config["numerics"],
        "platform": "cpu",
        "environment": {"name": config["task"]},
        "schema": [],
        "switches": [],
        "versions": {"jax": str(machine.get("package.jax"))},
        "policy_graph": GRAPH,
        "iterations": PLANNED,
    }
    notary.record("genesis", {**usual, **(genesis or {})})
    state = state_of(0)
    change("init", 0, state)
    for iteration in range(iterations):
        if resumed is not None and resumed[0] == iteration:
            digest = _write(folder / "fingerprints", resumed[1])
            notary.record("resume", {"iteration": iteration, "fingerprint": digest})
        state = _iterate(folder, notary, iteration, state, change=change, keep=keep)
    return folder


def _write(folder: Path, machine: Mapping[str, object]) -> str:
    """Writes a fingerprint under its digest."""
    data = json.dumps(machine, sort_keys=True, separators=(",", ":")).encode()
    digest = hashlib.sha256(data).hexdigest()
    folder.mkdir()
    (folder / f"{digest}.json").write_bytes(data)
    return digest


def _iterate(
    folder: Path, notary: Notary, iteration: int, state: Fields, *, change: ChangeFn, keep: str
) -> Fields:
    policy = state_roots(state, iteration)[1]
    segment = segment_of(iteration)
    change("rollout", iteration, segment)
    claim = notary.rollout(
        iteration, segment, seed=seed_of(folder), policy=policy, graph=GRAPH, nonfinite=0
    )
    claimed = {name: segment[name].copy() for name in ("log_prob", "value")}
    change("rescore", iteration, claimed)
    notary.rescore(iteration, claim, claimed, GRAPH)
    advantages = {"advantage": segment["reward"] - segment["value"], "return_": segment["reward"]}
    change("advantages", iteration, advantages)
    notary.advantages(iteration, advantages)
    after = state_of(iteration + 1)
    change("update", iteration, after)
    notary.update(iteration, state_roots(after, iteration + 1)[0], b'{"iteration":%d}' % iteration)
    if keep == "all":
        segments.keep(folder, iteration, segment, keep)
        meta = {"config": "0" * 64, "count": 1, "head": "0" * 64, "bits": "0" * 64}
        manifest = checkpoint.save(
            folder, iteration, {f"train/{name}": x for name, x in after.items()}, meta
        )
        notary.record("checkpoint", {"iteration": iteration, "manifest": manifest})
    return after


def seed_of(folder: Path) -> int:
    """The seed in a run's config."""
    return int(json.loads((folder / "config.json").read_bytes())["seed"])


def halted_run(folder: Path, change: ChangeFn) -> Path:
    """A run whose notary stops it, as `change` makes the two sides disagree."""
    try:
        make_run(folder, change)
    except ConsistencyError:
        return folder
    raise AssertionError("the run was to halt")


def one_more_ulp(stage: str, iteration: int, name: str, index: tuple[int, ...]) -> ChangeFn:
    """Changes one element of a buffer to the next number away from zero."""

    def change(at: str, number: int, fields: Fields) -> None:
        if (at, number) == (stage, iteration):
            fields[name].view(np.uint32)[index] += 1

    return change
