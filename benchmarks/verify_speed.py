"""How fast a run is verified from its files: `python -m benchmarks.verify_speed`.

Writes a run with the notary's own code, without computing anything, and verifies it in a process of
its own. Prints bytes of kept data a second (segments and checkpoints), records a second, and peak
memory for a short and a long ledger.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rlkjax import checkpoint, run_folder, segments
from rlkjax.audit.canonical import canonical_json
from rlkjax.audit.notary import Notary, state_roots
from rlkjax.audit.records import FORMAT

DIGEST = "0" * 64
# What the process that verifies runs; prints seconds, CPU seconds and peak memory in MiB.
PROBE = """
import re, sys, time
from pathlib import Path
from rlkjax.audit.verify import verify_run

def peak():
    text = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\\s*(\\d+)", text)[1]) / 1024

before = peak()
begin, cpu = time.perf_counter(), time.process_time()
report = verify_run(Path(sys.argv[1]))
seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
if not report.verified:
    sys.exit(str(report.findings[:3]))
print(seconds, cpu, peak() - before)
"""


def write_run(
    folder: Path, iterations: int, *, segment: dict, state: dict, keep: str = "all"
) -> None:
    """Writes a finished run whose every iteration holds the same arrays.

    Args:
      folder: where it goes; new.
      iterations: how many.
      segment: name -> [T, N, ...], with `log_prob` and `value`.
      state: name -> tensor of the train state.
      keep: "all", "last" or "none" of the segments; of checkpoints only the last two are kept.
    """
    folder.mkdir()
    config = {"audit": {"keep_segments": keep}, "checkpoint": {"keep": 2}}
    opened = run_folder.create(folder, canonical_json(config), b"{}")
    notary = Notary(opened.chain, opened.journal, opened.metrics)
    config_digest = run_folder.digest(canonical_json(config))
    notary.record("genesis", genesis(config_digest, iterations))
    for k in range(iterations):
        _, policy = state_roots(state, k)
        bound = {"seed": 0, "policy": policy, "graph": DIGEST, "nonfinite": 0}
        claim = notary.rollout(k, segment, **bound)
        claims = {name: segment[name] for name in ("log_prob", "value")}
        notary.rescore(k, claim, claims, DIGEST)
        notary.advantages(k, claims)
        root, _ = state_roots(state, k + 1)
        notary.update(k, root, b'{"iteration":%d}' % k)
        segments.keep(folder, k, segment, keep)
        if k + 1 == iterations:
            notary.evaluation(k, {"return_": np.zeros(4, np.float32)}, b"{}")
        if k + 2 >= iterations:
            chain = notary.chain
            meta = {"count": chain.count, "head": chain.head, "bits": chain.bits}
            tensors = {f"train/{name}": array for name, array in state.items()}
            manifest = checkpoint.save(folder, k, tensors, {"config": config_digest, **meta})
            notary.record("checkpoint", {"iteration": k, "manifest": manifest})
    opened.journal.close()
    opened.metrics.close()


def genesis(config: str, iterations: int) -> dict:
    """The payload of the first record.

    Args:
      config: digest of config.json.
      iterations: how many are planned.

    Returns:
      All keys of kind genesis.
    """
    return {
        "format": FORMAT,
        "config": config,
        "program": DIGEST,
        "fingerprint": run_folder.digest(b"{}"),
        "seed": 0,
        "numerics": "native",
        "platform": "cpu",
        "environment": {},
        "schema": [],
        "switches": [],
        "versions": {},
        "iterations": iterations,
    }


def measure(folder: Path) -> tuple[float, float, float]:
    """Verifies a run in a fresh process.

    Args:
      folder: the run.

    Returns:
      Seconds, CPU seconds of all threads, and MiB that the peak of its memory lies above that of
      the imports.
    """
    ran = subprocess.run(
        [sys.executable, "-c", PROBE, str(folder)], capture_output=True, text=True, check=True
    )
    seconds, cpu, memory = map(float, ran.stdout.split())
    return seconds, cpu, memory


def kept_bytes(folder: Path) -> int:
    """Size of all segments and states of a run.

    Args:
      folder: the run.

    Returns:
      Bytes.
    """
    return sum(path.stat().st_size for path in folder.rglob("*.safetensors"))


def arrays(num_envs: int, steps: int, obs_size: int, parameters: int) -> tuple[dict, dict]:
    """A segment and a train state with random numbers in them.

    Args:
      num_envs: N.
      steps: T.
      obs_size: of an observation.
      parameters: numbers in the policy; the optimiser has twice as many.

    Returns:
      The segment and the state.
    """
    rng = np.random.default_rng(0)
    shapes = {"obs": (obs_size,), "next_obs": (obs_size,), "action": (8,)}
    shapes |= dict.fromkeys(("log_prob", "value", "reward"), ())
    segment = {
        name: rng.normal(size=(steps, num_envs, *shape)).astype(np.float32)
        for name, shape in shapes.items()
    }
    segment["terminated"] = rng.random((steps, num_envs)) < 0.1
    names = ("policy/kernel", "optimizer/mu", "optimizer/nu")
    state = {name: rng.normal(size=parameters).astype(np.float32) for name in names}
    return segment, state


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints one JSON object.

    Args:
      arguments: command line; None: that of the process.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=20, help="with kept segments")
    parser.add_argument("--num-envs", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--obs-size", type=int, default=27)
    parser.add_argument("--parameters", type=int, default=2_000_000)
    parser.add_argument("--records", type=int, default=100_000, help="iterations of a bare ledger")
    parser.add_argument("--repeat", type=int, default=3, help="the best of so many is printed")
    options = parser.parse_args(arguments)
    segment, state = arrays(options.num_envs, options.steps, options.obs_size, options.parameters)
    small_segment, small_state = arrays(2, 2, 2, 4)
    shown: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place:
        kept = Path(place) / "kept"
        write_run(kept, options.iterations, segment=segment, state=state)
        seconds, cpu, memory = min(measure(kept) for _ in range(options.repeat))
        shown["kept_megabytes"] = kept_bytes(kept) / 1e6
        shown["kept_megabytes_per_second"] = kept_bytes(kept) / 1e6 / seconds
        shown["kept_megabytes_per_cpu_second"] = kept_bytes(kept) / 1e6 / cpu
        shown["kept_memory_mib"] = memory
        for count in (options.records // 100, options.records):
            bare = Path(place) / f"bare-{count}"
            write_run(bare, count, segment=small_segment, state=small_state, keep="none")
            seconds, _, memory = min(measure(bare) for _ in range(options.repeat))
            shown[f"records_per_second_{count}"] = 4 * count / seconds
            shown[f"ledger_memory_mib_{count}"] = memory
    print(json.dumps({key: round(value, 1) for key, value in shown.items()}, indent=1))


if __name__ == "__main__":
    main()
