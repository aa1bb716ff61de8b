"""Kill and resume: the ledger that comes out is the one of the run that was never stopped."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys

import pytest

from rlkjax import loop, run_folder
from rlkjax.errors import ConsistencyError, InputError

KEPT = ("config.json", "fingerprint.json", "ledger.jsonl", "metrics.jsonl")
HERE = {"device.platform": "cpu", "device.kind": "this"}
ELSEWHERE = {"device.platform": "cpu", "device.kind": "that"}
KEEP_ALL = "checkpoint.keep=9"


@pytest.fixture
def straight(prepare, tmp_path):
    """Folder of a run that went through, with all of its checkpoints."""
    folder = tmp_path / "straight"
    list(loop.train(prepare(folder, KEEP_ALL, machine=HERE)))
    return folder


def records(folder):
    return [json.loads(line) for line in (folder / "ledger.jsonl").read_bytes().splitlines()]


def resume(prepare, folder, machine=HERE):
    run = prepare(folder, KEEP_ALL, resume=True, machine=machine)
    settled = list(loop.train(run))
    return run, [each.iteration for each in settled]


def assert_same_run(folder, straight):
    for name in KEPT:
        assert (folder / name).read_bytes() == (straight / name).read_bytes(), name
    for path in sorted((straight / "checkpoints").rglob("*")):
        other = folder / path.relative_to(straight)
        assert path.is_dir() or other.read_bytes() == path.read_bytes(), other


def killed_at(straight, folder, place):
    """The folder as a kill leaves it after `place` bytes of the ledger were written.

    A metrics line is written before its record, and a checkpoint before its own.
    """
    shutil.copytree(straight, folder)
    ledger = (straight / "ledger.jsonl").read_bytes()
    (folder / "ledger.jsonl").write_bytes(ledger[:place])
    begun = ledger[:place].count(b"\n")
    after = [json.loads(line) for line in ledger.splitlines()]
    measured = sum(each["kind"] in ("update", "evaluation") for each in after[: begun + 1])
    lines = (straight / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_bytes(b"".join(lines[:measured]))
    for record in after[begun + 1 :]:
        if record["kind"] == "checkpoint":
            shutil.rmtree(folder / "checkpoints" / f"{record['iteration']:08d}")
    (folder / "learning_curve.svg").unlink(missing_ok=True)


def places(straight):
    """Byte numbers at which each record begins, and some inside it."""
    at = 0
    for line in (straight / "ledger.jsonl").read_bytes().splitlines(keepends=True):
        yield from (at, at + 1, at + len(line) // 2, at + len(line) - 1)
        at += len(line)
    yield at


def check_kill(prepare, straight, folder, place):
    killed_at(straight, folder, place)
    _, iterations = resume(prepare, folder)
    assert_same_run(folder, straight)
    assert iterations == list(range(6 - len(iterations), 6))


def test_resume_after_a_kill_gives_the_same_bytes(prepare, straight, tmp_path):
    every = list(places(straight))
    chosen = random.Random(0).sample(every, 8) + [0, 1, every[-1]]
    for number, place in enumerate(chosen):
        check_kill(prepare, straight, tmp_path / f"k{number}", place)


@pytest.mark.slow
def test_resume_after_a_kill_at_every_record(prepare, straight, tmp_path):
    for number, place in enumerate(places(straight)):
        check_kill(prepare, straight, tmp_path / f"k{number}", place)


def test_a_torn_metrics_line_is_written_again(prepare, straight, tmp_path):
    folder = tmp_path / "torn"
    ledger = (straight / "ledger.jsonl").read_bytes()
    killed_at(straight, folder, ledger.index(b'"kind":"evaluation"'))
    with open(folder / "metrics.jsonl", "ab") as file:
        file.write(b'{"kind":"upd')
    resume(prepare, folder)
    assert_same_run(folder, straight)


def test_three_and_three_are_six(prepare, straight, tmp_path):
    folder = tmp_path / "parts"
    first = loop.train(prepare(folder, KEEP_ALL, machine=HERE))
    for _ in range(3):
        next(first)
    first.close()
    _, iterations = resume(prepare, folder)
    # The last checkpoint is that of iteration 1 or, if it was settled in the background, 3.
    assert iterations in ([2, 3, 4, 5], [4, 5])
    assert_same_run(folder, straight)


def test_a_disk_that_was_full_goes_on_from_there(prepare, straight, tmp_path):
    folder = tmp_path / "full"
    place = (straight / "ledger.jsonl").read_bytes().index(b'"kind":"advantages"')
    killed_at(straight, folder, place)
    (folder / "checkpoints" / "00000003.part").mkdir(parents=True)
    resume(prepare, folder)
    assert_same_run(folder, straight)
    assert not (folder / "checkpoints" / "00000003.part").exists()


@pytest.mark.parametrize(
    "left", [[], ["config.json.part"], ["config.json"], ["config.json", "fingerprint.json"]]
)
def test_a_kill_while_the_folder_is_made(command, small, tmp_path, left):
    straight, folder = tmp_path / "straight", tmp_path / "folder"
    want = command("--run-dir", straight)
    folder.mkdir()
    for name in ["lock", *left]:
        (folder / name).write_bytes(b"")
        if (straight / name).exists():
            shutil.copy(straight / name, folder / name)
    got = command("--run-dir", folder, "--resume")
    assert got[:2] == want[:2]
    for name in KEPT:
        assert (folder / name).read_bytes() == (straight / name).read_bytes(), name


def test_a_kill_before_the_first_record_and_then_another_machine(prepare, straight, tmp_path):
    folder = tmp_path / "moved"
    folder.mkdir()
    for name in ("config.json", "fingerprint.json"):
        shutil.copy(straight / name, folder / name)
    resume(prepare, folder, ELSEWHERE)
    named = records(folder)[0]["fingerprint"]
    assert json.loads(run_folder.read_fingerprint(folder, named)) == ELSEWHERE


# --- what a resumed run refuses ------------------------------------------------------------------


def test_a_removed_checkpoint_leaves_the_older_one(prepare, straight, tmp_path):
    folder = tmp_path / "removed"
    shutil.copytree(straight, folder)
    shutil.rmtree(folder / "checkpoints" / "00000005")
    assert resume(prepare, folder)[1] == [4, 5]
    assert_same_run(folder, straight)
    shutil.rmtree(folder / "checkpoints")
    assert resume(prepare, folder)[1] == list(range(6))
    assert_same_run(folder, straight)


@pytest.mark.parametrize("file", ["state.safetensors", "manifest.json"])
def test_a_damaged_checkpoint_is_named_and_the_older_one_usable(prepare, straight, tmp_path, file):
    folder = tmp_path / "damaged"
    shutil.copytree(straight, folder)
    path = folder / "checkpoints" / "00000005" / file
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    ledger = (folder / "ledger.jsonl").read_bytes()
    with pytest.raises(ConsistencyError, match=rf"00000005.{file.replace('.', '[.]')}|00000005"):
        resume(prepare, folder)
    assert (folder / "ledger.jsonl").read_bytes() == ledger
    shutil.rmtree(folder / "checkpoints" / "00000005")
    resume(prepare, folder)
    assert_same_run(folder, straight)


@pytest.mark.parametrize("line", [0, 7, 20])
def test_a_damaged_ledger_is_refused_and_left_alone(prepare, straight, line):
    path = straight / "ledger.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[line] = lines[line].replace(b'"iteration":', b'"iteration":1', 1)
    lines[line] = lines[line].replace(b'"seed":0', b'"seed":1', 1)
    path.write_bytes(b"".join(lines))
    before = {name: (straight / name).read_bytes() for name in KEPT}
    # The first record that does not fit is this one, or the next, which holds its hash.
    with pytest.raises(ConsistencyError, match=f"record ({line}|{line + 1}):"):
        resume(prepare, straight)
    assert {name: (straight / name).read_bytes() for name in KEPT} == before


def test_a_ledger_that_does_not_repeat_is_refused(prepare, straight):
    # A ledger of a run on another machine: valid in itself, but not what a resume computes here.
    other = straight.parent / "other"
    list(loop.train(prepare(other, KEEP_ALL, machine=ELSEWHERE)))
    shutil.rmtree(straight / "checkpoints")
    shutil.copy(other / "ledger.jsonl", straight / "ledger.jsonl")
    with pytest.raises(ConsistencyError, match=r"ledger.jsonl, line 0: got .* does not repeat"):
        resume(prepare, straight)


def test_another_config_is_refused_by_its_key(prepare, straight):
    before = (straight / "ledger.jsonl").read_bytes()
    with pytest.raises(InputError, match=r"checkpoint.keep is 9 there and 3 here.*want the same"):
        prepare(straight, "checkpoint.keep=3", resume=True, machine=HERE)
    with pytest.raises(InputError, match=r"ppo.discount is 0.99 there"):
        prepare(straight, KEEP_ALL, "ppo.discount=0.5", resume=True, machine=HERE)
    assert (straight / "ledger.jsonl").read_bytes() == before


def test_a_folder_that_is_not_empty_is_not_begun_again(prepare, straight):
    with pytest.raises(InputError, match="got one that is not empty, want a new one; .*--resume"):
        prepare(straight, KEEP_ALL, machine=HERE)


# --- another machine -----------------------------------------------------------------------------


def test_another_fingerprint_is_recorded_and_what_it_replaces_kept(prepare, straight, tmp_path):
    folder = tmp_path / "moved"
    lines = (straight / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    kinds = [json.loads(line)["kind"] for line in lines]
    last = max(i for i, kind in enumerate(kinds[:-1]) if kind == "checkpoint")
    killed_at(straight, folder, sum(map(len, lines[: last + 3])))
    run, iterations = resume(prepare, folder, ELSEWHERE)
    assert iterations == [4, 5]
    found = records(folder)
    assert found[: last + 1] == records(straight)[: last + 1]
    resumed = found[last + 1]
    assert (resumed["kind"], resumed["iteration"]) == ("resume", 4)
    stored = run_folder.read_fingerprint(folder, resumed["fingerprint"])
    assert json.loads(stored) == ELSEWHERE
    # The bits go on as they were: only the chain tells the two machines apart.
    assert run.notary.chain.bits == records(straight)[-1]["bits"]
    assert run.notary.chain.head != records(straight)[-1]["prev"]
    aside = folder / f"ledger.aside-{last + 1:08d}.jsonl"
    assert aside.read_bytes() == b"".join(lines[last + 1 : last + 3])
    # And once more on that machine: nothing new is recorded.
    before = (folder / "ledger.jsonl").read_bytes()
    resume(prepare, folder, ELSEWHERE)
    assert (folder / "ledger.jsonl").read_bytes() == before


# --- the command, in a process of its own ---------------------------------------------------------

KILLER = """
import os, signal, sys
from rlkjax import cli, train
from rlkjax.audit.journal import Journal

append, left = Journal.append, [int(sys.argv[1])]

def fatal(self, line):
    left[0] -= 1
    if left[0] == 0:
        os.write(self._descriptor, line[: len(line) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    append(self, line)

Journal.append = fatal
sys.exit(cli.run(train.main, sys.argv[2:]))
"""


def kill(small, folder, moment):
    """Runs the train command, and kills it as it writes its line number `moment`."""
    ran = subprocess.run(
        [sys.executable, "-c", KILLER, str(moment), "--config", small, "--run-dir", folder],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == -signal.SIGKILL, ran.stderr


def check_real_kill(command, small, tmp_path, moment):
    straight, folder = tmp_path / "straight", tmp_path / f"killed{moment}"
    kill(small, folder, moment)
    status, out, _ = command("--run-dir", folder, "--resume")
    _, want, _ = command("--run-dir", straight, *(["--resume"] if straight.exists() else []))
    assert (status, out) == (0, want)
    assert_same_run(folder, straight)
    assert os.path.exists(folder / "learning_curve.svg")


def test_sigkill_then_resume_in_another_process(command, small, tmp_path):
    check_real_kill(command, small, tmp_path, 22)


@pytest.mark.slow
@pytest.mark.parametrize("moment", sorted(random.Random(1).sample(range(1, 39), 20)))
def test_sigkill_at_many_moments(command, small, tmp_path, moment):
    check_real_kill(command, small, tmp_path, moment)


def test_a_finished_run_says_its_last_line_again(command, tmp_path):
    first = command("--run-dir", tmp_path)
    before = (tmp_path / "ledger.jsonl").read_bytes()
    again = command("--run-dir", tmp_path, "--resume")
    assert first[:2] == again[:2]
    assert (tmp_path / "ledger.jsonl").read_bytes() == before
    assert "holds the finished run: nothing is left to do" in again[2]
    assert "compiling" not in again[2]


def test_a_finished_run_that_is_damaged_is_no_finished_run(command, tmp_path):
    command("--run-dir", tmp_path)
    state = next((tmp_path / "checkpoints" / "00000005").glob("*state*"))
    data = bytearray(state.read_bytes())
    data[-1] ^= 1
    state.write_bytes(data)
    status, out, err = command("--run-dir", tmp_path, "--resume")
    assert (status, out) == (1, "")
    assert "00000005" in err.splitlines()[-1]


def test_resume_of_nothing_begins(command, tmp_path):
    status, out, err = command("--run-dir", tmp_path / "new", "--resume")
    assert (status, out.split()[-1]) == (0, "verified")
    assert "does not exist yet: a new run begins" in err
