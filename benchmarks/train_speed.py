"""Training speed beside rejax and Brax PPO: `python -m benchmarks.train_speed [--json FILE]`.

Each trainer is a process of its own, under the flags it ships with; trainers take turns, so that a
machine whose speed drifts treats them alike. Network, batch, minibatches and epochs are the same.
Rates are environment steps per second, medians; a ratio above 1 means that this trainer is faster.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple


class Setting(NamedTuple):
    """One comparison.

    Attributes:
      task: as the peer names it.
      backend: of Brax; None for CartPole.
      num_envs: environments.
      unroll: steps of each in one iteration.
      epochs: passes over the batch.
      minibatches: parts of the batch.
      iterations: that are timed in one process.
    """

    task: str
    backend: str | None
    num_envs: int
    unroll: int
    epochs: int
    minibatches: int
    iterations: int


SETTINGS = {
    "cartpole-8": Setting("cartpole", None, 8, 128, 4, 4, 60),
    "cartpole-256": Setting("cartpole", None, 256, 128, 4, 4, 12),
    "cartpole-2048": Setting("cartpole", None, 2048, 32, 4, 4, 10),
    "inverted_pendulum-256": Setting("inverted_pendulum", "generalized", 256, 20, 4, 8, 8),
    "ant-256": Setting("ant", "spring", 256, 20, 4, 8, 6),
}


def command(module: str, setting: Setting, task: str | None) -> list[str]:
    """The command line of one driver.

    Args:
      module: below `benchmarks`.
      setting: sizes.
      task: name of the task as the driver wants it; None to leave it out.

    Returns:
      Words for a process.
    """
    words = [sys.executable, "-m", f"benchmarks.{module}"]
    if task is not None:
        words += ["--task", task]
    if setting.backend is not None:
        words += ["--backend", setting.backend]
    for name in ("num_envs", "unroll", "iterations", "epochs", "minibatches"):
        words += [f"--{name.replace('_', '-')}", str(getattr(setting, name))]
    return words


def run(words: list[str]) -> dict[str, Any]:
    """Runs a driver and reads its last line.

    Args:
      words: its command line.

    Returns:
      What it printed.
    """
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words[2:])} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def compare(setting: Setting, rounds: int, numerics: str) -> dict[str, Any]:
    """Measures both trainers in turns.

    Args:
      setting: sizes.
      rounds: how often each is measured.
      numerics: of our own trainer; peers know one only.

    Returns:
      Medians of both, and the ratios own : peer of each round.
    """
    cartpole = setting.task == "cartpole"
    own_words = command("own_ppo", setting, setting.task if cartpole else f"brax/{setting.task}")
    own_words += ["--numerics", numerics]
    peer = "rejax_ppo" if cartpole else "brax_ppo"
    peer_words = command(f"peers.{peer}", setting, None if cartpole else setting.task)
    own, other = [], []
    for number in range(rounds):
        own.append(run([*own_words, "--stages"] if number == 0 else own_words))
        other.append(run(peer_words))
    keys = ("per_cpu_second", "per_wall_second", "compile_seconds", "peak_mebibytes")
    return {
        "peer": peer,
        "own": {key: statistics.median(each[key] for each in own) for key in keys},
        "other": {key: statistics.median(each[key] for each in other) for key in keys},
        "ratios_cpu": [
            a["per_cpu_second"] / b["per_cpu_second"] for a, b in zip(own, other, strict=True)
        ],
        "ratios_wall": [
            a["per_wall_second"] / b["per_wall_second"] for a, b in zip(own, other, strict=True)
        ],
        "shares": shares(own[0]),
    }


def shares(own: dict[str, Any]) -> dict[str, float]:
    """Where the time of an iteration goes.

    Args:
      own: what `own_ppo --stages` printed.

    Returns:
      Part -> share of the parts' sum, each part timed alone; "notary": seconds of hashing and
      recording per second of an iteration, whether or not they overlap with computing; "audit
      wall": share of an iteration's wall time that goes away when nothing is hashed or written.
    """
    total = sum(own["stages"].values())
    audited, bare = own["audited_seconds"], own["unaudited_seconds"]
    return {
        **{part: seconds / total for part, seconds in own["stages"].items()},
        "notary": own["notary_seconds"] / audited,
        "audit wall": (audited - bare) / audited,
    }


def table(results: dict[str, Any]) -> str:
    """The results as text.

    Args:
      results: setting -> what `compare` returned.

    Returns:
      Two Markdown tables.
    """
    lines = [
        "| setting | peer | steps/CPU-s own | peer | ratio | ratio wall | compile s own | peer "
        "| peak MiB own | peer |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, each in results.items():
        own, other = each["own"], each["other"]
        ratio, wall = (statistics.median(each[key]) for key in ("ratios_cpu", "ratios_wall"))
        lines.append(
            f"| {name} | {each['peer']} | {own['per_cpu_second']:,.0f} "
            f"| {other['per_cpu_second']:,.0f} | {ratio:.2f} | {wall:.2f} "
            f"| {own['compile_seconds']:.0f} | {other['compile_seconds']:.0f} "
            f"| {own['peak_mebibytes']:.0f} | {other['peak_mebibytes']:.0f} |"
        )
    parts = list(next(iter(results.values()))["shares"])
    lines += ["", "| share of time | " + " | ".join(parts) + " |", "|---" * (len(parts) + 1) + "|"]
    for name, each in results.items():
        row = " | ".join(f"{100 * each['shares'][part]:.1f} %" for part in parts)
        lines.append(f"| {name} | {row} |")
    return "\n".join(lines)


def main() -> None:
    """Measures the settings that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("settings", nargs="*", default=list(SETTINGS), help=", ".join(SETTINGS))
    parser.add_argument("--rounds", type=int, default=3, help="turns of each trainer")
    parser.add_argument("--numerics", default="native", help="native or exact")
    parser.add_argument("--json", type=Path, help="also write all figures there")
    given = parser.parse_args()
    results = {
        name: compare(SETTINGS[name], given.rounds, given.numerics) for name in given.settings
    }
    print(table(results))
    if given.json:
        given.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
