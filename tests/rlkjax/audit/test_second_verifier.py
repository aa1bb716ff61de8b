"""The verifiers in docs/verifier, written from the document alone, agree with ours."""

import ast
import importlib.util
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rlkjax.audit import proof_files
from rlkjax.audit.verify import verify_run
from rlkjax.errors import RlkError

FOLDER = Path(__file__).parents[3] / "docs" / "verifier"
FILES = sorted(FOLDER.glob("*.py"))


def load(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def second():
    """(folder) -> whether the second verifier finds no fault."""
    module = load("verify_ledger")

    def verified(folder):
        try:
            module.Run(folder).check()
        except Exception:
            return False
        return True

    return verified


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_they_are_short_and_need_the_standard_library_alone(path):
    text = path.read_text()
    assert text.count("\n") <= 200
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import)]
    froms = [node.module for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in nodes for alias in node.names} | set(froms)
    assert names <= sys.stdlib_module_names


def test_they_agree_on_the_golden_run(golden, vectors, second):
    ran = subprocess.run(
        [sys.executable, "-I", "-S", FOLDER / "verify_ledger.py", golden],
        capture_output=True,
        text=True,
    )
    want = f"chain {vectors['chain']} bits {vectors['bits']} records 12 verified\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, want, "")
    assert second(golden)


def test_a_fault_is_one_line_and_exit_status_1(run):
    (run / "config.json").write_bytes(b"{}")
    ran = subprocess.run(
        [sys.executable, "-S", FOLDER / "verify_ledger.py", run], capture_output=True, text=True
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "ValueError: config.json is another\n"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
@pytest.mark.parametrize("arguments", [[], ["none"], [".", "."]])
def test_wrong_use_is_a_usage_line_and_exit_status_2(path, arguments, tmp_path):
    ran = subprocess.run(
        [sys.executable, "-S", path, *arguments], cwd=tmp_path, capture_output=True, text=True
    )
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert ran.stderr.startswith(f"usage: {path.name} ")


def test_they_agree_on_flipped_bits_of_every_file(run, second):
    for path in sorted(path for path in run.rglob("*") if path.is_file()):
        data = path.read_bytes()
        for place in range(0, len(data), 23):
            flipped = data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :]
            path.write_bytes(flipped)
            assert not second(run), (path.name, place)
        path.write_bytes(data)
    assert second(run)


def test_they_agree_on_records_dropped_doubled_swapped_and_cut(run, lines, second):
    def write(kept):
        (run / "ledger.jsonl").write_bytes(b"".join(line + b"\n" for line in kept))

    for k in range(len(lines)):
        for kept in (
            lines[:k] + lines[k + 1 :],
            lines[: k + 1] + lines[k:],
            [*lines[:k], *reversed(lines[k : k + 2]), *lines[k + 2 :]],
            lines[:k],
        ):
            write(kept)
            ours = verify_run(run).verified
            assert second(run) == ours == (kept == lines), (k, len(kept))


def test_they_agree_on_files_that_are_missing_extra_or_exchanged(run, second):
    names = [path for path in sorted(run.rglob("*")) if path.is_file()]
    for path in names:
        data = path.read_bytes()
        path.unlink()
        assert second(run) == verify_run(run).verified is False, path
        path.write_bytes(data)
    for name in ("segments/00000007.safetensors", "checkpoints/00000001/notes"):
        (run / name).write_bytes(b"x")
        assert second(run) == verify_run(run).verified is False, name
        (run / name).unlink()
    shutil.copytree(run / "checkpoints/00000001", run / "checkpoints/00000005")
    assert second(run) == verify_run(run).verified is False


def test_they_agree_on_proofs(golden):
    module = load("verify_proof")
    rng = random.Random(0)
    for path in sorted((golden.parent / "proofs").glob("*.json")):
        data = path.read_bytes()
        assert module.check(data)
        for place in rng.sample(range(len(data) - 1), 300):
            spoiled = data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :]
            assert passes(module.check, spoiled) == passes(ours, spoiled), (path.name, place)


def test_they_agree_on_what_a_head_repeats_of_its_records(lines):
    module = load("verify_proof")
    for index in (0, 5, 11):
        proof = proof_files.record_proof(lines, index)
        text = proof["head"].split("\n")
        for number in (0, 3, 4):
            end = "1" if text[number][-1] == "0" else "0"
            other = [*text[:number], text[number][:-1] + end, *text[number + 1 :]]
            spoiled = proof_files.as_bytes({**proof, "head": "\n".join(other)})
            tied = number == 0 if index == 0 else index == 11 and number > 0
            assert passes(module.check, spoiled) == passes(ours, spoiled) == (not tied)


def ours(data):
    return proof_files.check(data, "proof")


def passes(check_fn, data):
    try:
        check_fn(data)
    except (RlkError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        return False
    return True


def test_they_agree_on_every_size(lines):
    module = load("verify_proof")
    for size in range(1, len(lines) + 1):
        for index in range(size):
            assert module.check(proof_files.as_bytes(proof_files.record_proof(lines[:size], index)))
        proof = proof_files.consistency_proof(lines, size)
        assert module.check(proof_files.as_bytes(proof))
        assert json.loads(json.dumps(proof)) == proof
