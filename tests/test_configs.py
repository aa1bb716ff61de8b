"""Every shipped config loads, says what it is, and runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from rlkjax.config import canonical_config, load_config, parse_canonical, steps_per_iteration

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))
SHIPPED = {
    "quickstart",
    "cartpole",
    "pendulum",
    "mountain_car_continuous",
    "sparse_grid",
    "noisy_point",
    "brax_inverted_pendulum",
    "brax_reacher",
    "brax_ant",
    "brax_halfcheetah",
    "brax_humanoid",
}


def test_the_promised_configs_are_there() -> None:
    assert {path.stem for path in CONFIGS} >= SHIPPED


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_loads_and_survives_its_canonical_bytes(path: Path) -> None:
    config = load_config(path)
    assert parse_canonical(canonical_config(config)) == config


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_begins_with_a_line_that_says_what_it_is(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith("# ")


@pytest.mark.slow
@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_runs_two_iterations(path: Path, tmp_path: Path) -> None:
    steps = 2 * steps_per_iteration(load_config(path))
    changes = [f"total_steps={steps}", "evaluation.episodes=2", "platform=cpu"]
    command = [sys.executable, "-m", "rlkjax.train", "--config", str(path)]
    command += ["--run-dir", str(tmp_path / "run")]
    for change in changes:
        command += ["--set", change]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=1800)
    assert done.returncode == 0, done.stderr
    last = done.stdout.strip().splitlines()[-1].split()
    assert last[4:] == ["iterations", "2", "verified"]
