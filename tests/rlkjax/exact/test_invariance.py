"""One hash for every program, whatever the batch, the cores, the vector width and the flags."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import exact_programs
from rlkjax.exact.transform import exact

ROOT = Path(__file__).resolve().parents[3]
CONDITIONS = {
    "one core": (("taskset", "-c", "0"), ""),
    "no FMA": ((), "--xla_cpu_max_isa=AVX"),
    "narrow vectors": ((), "--xla_cpu_prefer_vector_width=128"),
    "wide vectors": ((), "--xla_cpu_prefer_vector_width=512"),
    "eight devices": ((), "--xla_force_host_platform_device_count=8"),
}


@pytest.fixture(scope="module")
def here() -> dict[str, str]:
    """The digests in this process."""
    return exact_programs.hashes(exact)


def test_one_hash_for_every_batch_size(here):
    for name in ("log_prob", "network"):
        assert len({here[f"{name}[{size}]"] for size in exact_programs.SIZES}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("condition", sorted(CONDITIONS))
def test_one_hash_for_every_condition(condition, here):
    prefix, flags = CONDITIONS[condition]
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "benchmarks.exact_programs"],
        env={
            **environment,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        },
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
        timeout=300,
    )
    assert dict(line.split() for line in done.stdout.splitlines()) == here
