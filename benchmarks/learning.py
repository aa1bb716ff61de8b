"""What the shipped configs learn: `python -m benchmarks.learning [NAME ...]`.

Each seed is a run of the train command on a shipped config. Solved means that the mean return of an
evaluation (deterministic policy, episodes of its own) reaches the target within the config's steps.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple


class Goal(NamedTuple):
    """What a config has to reach.

    Attributes:
      target: mean evaluation return that means solved, reward units of the task.
      seeds: how many seeds, from 0.
      why: where the number comes from.
    """

    target: float
    seeds: int
    why: str


GOALS = {
    "quickstart": Goal(475.0, 1, "95 % of the longest episode"),
    "cartpole": Goal(475.0, 5, "95 % of the longest episode"),
    "pendulum": Goal(-250.0, 1, "hangs upright for most of 200 steps"),
    "sparse_grid": Goal(0.99, 1, "reaches the goal in 99 of 100 episodes"),
    "noisy_point": Goal(-5.0, 1, "a tuned linear controller gets -2.9, no action -609"),
    "brax_inverted_pendulum": Goal(980.0, 3, "98 % of the longest episode"),
}


def evaluations(config: Path, seed: int, numerics: str, folder: Path) -> list[tuple[int, float]]:
    """Trains one seed.

    Args:
      config: YAML file.
      seed: of the run.
      numerics: native or exact.
      folder: where the run may be kept.

    Returns:
      (environment steps, mean return) of each evaluation.
    """
    changes = ["--set", f"seed={seed}", "--set", f"numerics={numerics}"]
    words = ["--config", str(config), *changes, "--run-dir", str(folder), "--quiet"]
    done = subprocess.run(
        [sys.executable, "-m", "rlkjax.train", *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    return [(r["steps"], r["return_mean"]) for r in records if r["kind"] == "evaluation"]


def main() -> None:
    """Trains what was asked for and prints a table; exit status 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(GOALS), help=", ".join(GOALS))
    parser.add_argument("--numerics", default="native", help="native or exact")
    given = parser.parse_args()
    missed = False
    print("| config | seed | target | best | at step | last | at step | reached at step |")
    print("|---|---|---|---|---|---|---|---|")
    for name in given.names:
        goal, best_of_all = GOALS[name], []
        for seed in range(goal.seeds):
            with tempfile.TemporaryDirectory() as folder:
                path = Path("configs") / f"{name}.yaml"
                seen = evaluations(path, seed, given.numerics, Path(folder) / "run")
            best, last = max(seen, key=lambda each: each[1]), seen[-1]
            reached = next((step for step, value in seen if value >= goal.target), None)
            missed |= reached is None
            best_of_all.append(best[1])
            print(
                f"| {name} | {seed} | {goal.target:g} | {best[1]:.2f} | {best[0]:,} "
                f"| {last[1]:.2f} | {last[0]:,} | {f'{reached:,}' if reached else 'missed'} |",
                flush=True,
            )
        print(f"| {name} | all | {goal.target:g} | {statistics.mean(best_of_all):.2f} | | | | |")
    sys.exit(int(missed))


if __name__ == "__main__":
    main()
