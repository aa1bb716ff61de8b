"""The golden run folder, and how a test may rewrite it."""

import json
import shutil
from pathlib import Path

import pytest

DATA = Path(__file__).parents[2] / "data" / "ledger"


@pytest.fixture(scope="session")
def vectors():
    return json.loads((DATA / "vectors.json").read_text())


@pytest.fixture(scope="session")
def rfc():
    return json.loads((DATA / "rfc6962.json").read_text())


@pytest.fixture(scope="session")
def golden():
    return DATA / "run"


@pytest.fixture
def run(tmp_path, golden):
    return Path(shutil.copytree(golden, tmp_path / "run"))


@pytest.fixture(scope="session")
def lines(golden):
    return (golden / "ledger.jsonl").read_bytes().split(b"\n")[:-1]
