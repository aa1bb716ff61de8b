"""Kills a run again and again and resumes it: `python -m benchmarks.kill_resume --kills 100`.

A small native run is started, ended by SIGKILL at a random moment, resumed, killed again, … and at
last left to finish. Its chain head must be that of the same run left alone, and it must verify. The
moments are drawn from `--seed`: one in five falls into starting and compiling, the others into the
first `--alive` seconds of training. Prints the moments by phase, both heads, and `equal` or not.
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONFIG = """\
task: cartpole
total_steps: {steps}
platform: cpu
numerics: native
seed: {seed}
env: {{episode_length: 50}}
rollout: {{num_envs: 4, unroll_length: 8}}
network: {{policy_hidden: [8], value_hidden: [8]}}
ppo: {{epochs: 1, minibatches: 1}}
evaluation: {{every: 50, episodes: 4}}
checkpoint: {{every: 7, keep: 2}}
"""
STEPS_PER_ITERATION = 32


def start(config: Path, folder: Path, errors: Path) -> subprocess.Popen:
    """A training process, whose stderr goes to a file."""
    words = ["--config", str(config), "--run-dir", str(folder), "--resume"]
    return subprocess.Popen(
        [sys.executable, "-m", "rlkjax.train", *words],
        stdout=subprocess.PIPE,
        stderr=errors.open("w"),
        text=True,
    )


def ledger_bytes(folder: Path) -> int:
    """Bytes of the ledger so far."""
    ledger = folder / "ledger.jsonl"
    return ledger.stat().st_size if ledger.exists() else 0


def kill(config: Path, folder: Path, rng: random.Random, alive: float) -> str:
    """Starts or resumes the run and kills it at a random moment.

    Args:
      config: YAML file.
      folder: of the run.
      rng: draws the moment.
      alive: longest time that training goes on, seconds.

    Returns:
      "starting" or "training"; "ended" if the run was over before.
    """
    process = start(config, folder, folder.parent / "stderr")
    if rng.random() < 0.2:
        time.sleep(rng.random() * 4.0)
        phase = "starting"
    else:
        before = ledger_bytes(folder)
        while process.poll() is None and ledger_bytes(folder) == before:
            time.sleep(0.002)
        time.sleep(rng.random() * alive)
        phase = "training"
    process.send_signal(signal.SIGKILL)
    return "ended" if process.wait() == 0 else phase


def finish(config: Path, folder: Path) -> str:
    """Lets a run end; its last line on stdout."""
    process = start(config, folder, folder.parent / "stderr")
    out, _ = process.communicate()
    if process.returncode:
        sys.exit((folder.parent / "stderr").read_text()[-2000:])
    return out.strip().splitlines()[-1]


def main() -> None:
    """Kills, resumes, compares; exit status 1 if the heads differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--iterations", type=int, default=6000)
    parser.add_argument("--alive", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, phases = random.Random(options.seed), dict.fromkeys(("starting", "training", "ended"), 0)
    with tempfile.TemporaryDirectory() as place:
        config = Path(place) / "run.yaml"
        steps = options.iterations * STEPS_PER_ITERATION
        config.write_text(CONFIG.format(steps=steps, seed=options.seed))
        killed = Path(place) / "killed" / "run"
        killed.parent.mkdir()
        for _ in range(options.kills):
            phases[kill(config, killed, rng, options.alive)] += 1
        alone = Path(place) / "alone" / "run"
        alone.parent.mkdir()
        heads = [finish(config, folder) for folder in (killed, alone)]
        verified = subprocess.run(
            [sys.executable, "-m", "rlkjax.verify", str(killed)], capture_output=True, check=False
        )
    print(f"kills {options.kills}: {phases}")
    print(*heads, sep="\n")
    good = heads[0] == heads[1] and verified.returncode == 0
    print("equal and verified" if good else "NOT equal")
    sys.exit(int(not good))


if __name__ == "__main__":
    main()
