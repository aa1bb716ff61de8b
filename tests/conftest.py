"""Settings of all tests: the pinned flags, before anything computes.

A test that needs a fresh process, such as one about flags, starts one with the fixture `python`.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rlkjax.platform import flags

ROOT = Path(__file__).resolve().parents[1]

# XLA reads its flags once, so they are set before any test module imports JAX.
flags.prepare("cpu")

PythonFn = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def python() -> PythonFn:
    """Run a program text in a fresh process, with chosen environment variables."""

    def run(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        kept = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "JAX_PLATFORMS")}
        return subprocess.run(
            [sys.executable, "-c", code, *arguments],
            env={**kept, "PYTHONPATH": str(ROOT), **environment},
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=120,
        )

    return run
