"""How fast two long runs are compared: `python -m benchmarks.diff_speed`.

Writes pairs of ledgers with the ledger's own code: on two machines, so that no two lines are equal,
with one root that differs, at the start, in the middle, at the end or nowhere. Each pair is
compared by `python -m rlkjax.diff` in a process of its own. Prints seconds of the whole command,
and its peak memory, for a tenth of the length as well.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlkjax.audit import ledger
from rlkjax.audit.canonical import canonical_json
from rlkjax.audit.records import FORMAT

EVERY = 10  # iterations between evaluations, and between checkpoints
PROBE = """
import re, sys
from pathlib import Path
from rlkjax import cli, diff

status = cli.run(diff.main, [*sys.argv[1:], "--json"])
peak = re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]
print(status, int(peak) / 1024, file=sys.stderr)
"""


def digest(*words: object) -> str:
    """SHA-256 over words.

    Args:
      *words: anything.

    Returns:
      64 hex digits.
    """
    return hashlib.sha256(repr(words).encode()).hexdigest()


def write_run(folder: Path, iterations: int, *, threads: int, differs: int | None) -> None:
    """Writes the ledger of a run, with config and fingerprint; nothing else is kept.

    Args:
      folder: where it goes; new.
      iterations: how many.
      threads: an entry of the fingerprint.
      differs: from this iteration on the roots of the run's updates are others.
    """
    folder.mkdir()
    files = {
        "config.json": canonical_json({"seed": 0, "numerics": "native"}),
        "fingerprint.json": canonical_json({"cpu.threads": str(threads)}),
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    chain, genesis = ledger.genesis(_genesis(files, iterations))
    lines = [genesis]
    for iteration in range(iterations):
        own = differs is not None and iteration >= differs
        for kind, payload in _records(iteration, own):
            chain, line = ledger.append(chain, kind, payload)
            lines.append(line)
    (folder / "ledger.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))


def _genesis(files: dict[str, bytes], iterations: int) -> dict[str, Any]:
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    return {
        "format": FORMAT,
        "config": digests["config.json"],
        "program": digests["config.json"],
        "fingerprint": digests["fingerprint.json"],
        "seed": 0,
        "numerics": "native",
        "platform": "cpu",
        "environment": {"name": "none"},
        "schema": [],
        "switches": [],
        "versions": {},
        "iterations": iterations,
    }


def _records(iteration: int, own: bool) -> list[tuple[str, dict[str, Any]]]:
    """The records of one iteration."""
    number = {"iteration": iteration}
    policy, root = digest("policy", iteration), digest("segment", iteration)
    claims, graph = digest("claims", iteration), digest("graph")
    rollout = {"sequence": iteration, "seed": 0, "policy": policy, "root": root, "leaves": 1024}
    measured = {"root": digest("state", iteration, own), "metrics": digest("metrics", iteration)}
    records = [
        ("rollout", {**number, **rollout, "graph": graph, "nonfinite": 0}),
        (
            "rescore",
            {
                **number,
                "sequence": iteration,
                "root": claims,
                "graph": graph,
                "rollout_root": claims,
            },
        ),
        ("advantages", {**number, "root": digest("advantages", iteration)}),
        ("update", {**number, **measured}),
    ]
    if iteration % EVERY == EVERY - 1:
        records.append(("evaluation", {**number, **measured}))
        records.append(("checkpoint", {**number, "manifest": digest("manifest", iteration, own)}))
    return records


def measure(a: Path, b: Path) -> tuple[float, float, dict[str, Any]]:
    """Compares two runs in a fresh process.

    Args:
      a: a run folder.
      b: another.

    Returns:
      Seconds of the whole command, the start of Python included; peak memory in MiB; what
      `diff --json` said.
    """
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(a), str(b)], capture_output=True, text=True, check=True
    )
    seconds = time.perf_counter() - begin
    found = re.fullmatch(r"[01] ([\d.]+)", done.stderr.strip())
    if found is None:
        sys.exit(done.stderr)
    return seconds, float(found[1]), json.loads(done.stdout)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark.

    Args:
      arguments: command line without the program's name.

    Returns:
      Exit status 0.
    """
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--iterations", type=int, default=10_000, help="of the long runs")
    options = parser.parse_args(arguments)
    print("iterations  first difference  seconds  peak MiB  found")
    for iterations in (options.iterations // 10, options.iterations):
        for differs in (0, iterations // 2, iterations - 1, None):
            with tempfile.TemporaryDirectory() as folder:
                a, b = Path(folder) / "a", Path(folder) / "b"
                write_run(a, iterations, threads=1, differs=None)
                write_run(b, iterations, threads=2, differs=differs)
                seconds, peak, shown = measure(a, b)
            found = shown["iteration"]
            if found != differs:
                sys.exit(f"the referee found iteration {found}, want {differs}")
            where = "nowhere" if differs is None else f"{differs:,}"
            said = "equal" if found is None else f"{shown['stage']}, {shown['cause']['class']}"
            print(f"{iterations:>10,}  {where:>16}  {seconds:7.2f}  {peak:8.1f}  {said}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
