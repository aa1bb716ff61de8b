"""A pinned number of XLA's worker threads: the same bits however many cores a process may use."""

import os
import subprocess
import sys

import pytest

from rlkjax.errors import InputError
from rlkjax.platform import flags

# Native, whose bits can depend on the threads; 256 environments are enough for XLA to split its
# products over them.
SETTINGS = [
    "numerics=native",
    "rollout.num_envs=256",
    "rollout.unroll_length=16",
    "total_steps=8192",
]


CHILD = """
import os, sys
os.sched_setaffinity(0, {int(core) for core in sys.argv[1].split(",")})
from rlkjax import cli, train
sys.exit(cli.run(train.main, sys.argv[2:]))
"""


def bits_head(folder, cores, threads):
    words = ["--config", "configs/quickstart.yaml", "--quiet", "--run-dir", str(folder)]
    for setting in [*SETTINGS, f"threads={threads}"]:
        words += ["--set", setting]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, ",".join(map(str, cores)), *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()[3]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores to compare one with")
def test_the_bits_of_a_pinned_run_do_not_depend_on_the_cores(tmp_path):
    first, second = sorted(os.sched_getaffinity(0))[:2]
    one = bits_head(tmp_path / "one", [first], 2)
    two = bits_head(tmp_path / "two", [first, second], 2)
    assert one == two


def test_a_contradicting_variable_is_refused(monkeypatch):
    monkeypatch.setenv(flags.THREADS, "3")
    with pytest.raises(InputError, match="threads: got 2, but PJRT_NPROC is 3"):
        flags.prepare("cpu", threads=2)


def test_threads_set_after_jax_has_started_are_refused(monkeypatch):
    import jax

    jax.devices()
    monkeypatch.delenv(flags.THREADS, raising=False)
    with pytest.raises(InputError, match="JAX has started"):
        flags.prepare("cpu", threads=2)
