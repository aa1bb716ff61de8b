"""The loop: what is recorded, and how every kind of fault stops it."""

import errno
import functools
import json
import os
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlkjax import config as configs
from rlkjax import loop
from rlkjax.audit import journal
from rlkjax.errors import ConsistencyError, MachineError

COMPILED = []  # names of the programs that were compiled since the test module was imported


def _note(event, seconds, **_):
    if "backend_compile" in event:
        COMPILED.append(event)


jax.monitoring.register_event_duration_secs_listener(_note)


def records(folder):
    return [json.loads(line) for line in (folder / "ledger.jsonl").read_bytes().splitlines()]


def kinds(folder):
    return [record["kind"] for record in records(folder)]


ITERATION = ["rollout", "rescore", "advantages", "update"]


def test_the_records_of_a_run_and_their_order(prepare, tmp_path):
    settled = list(loop.train(prepare(tmp_path)))
    # Evaluation after iterations 2 and 5, a checkpoint after 1, 3 and 5.
    extra = [[], ["checkpoint"], ["evaluation"], ["checkpoint"], [], ["evaluation", "checkpoint"]]
    expected = ["genesis"]
    for each in extra:
        expected += ITERATION + each
    assert kinds(tmp_path) == expected
    assert [each.iteration for each in settled] == list(range(6))
    assert [each.steps for each in settled] == [32, 64, 96, 128, 160, 192]
    assert [each.evaluation is not None for each in settled] == [False, False, True] * 2
    found = records(tmp_path)
    rollouts = [record for record in found if record["kind"] == "rollout"]
    updates = [record for record in found if record["kind"] == "update"]
    rescores = [record for record in found if record["kind"] == "rescore"]
    assert len({each["root"] for each in rollouts}) == 6
    assert len({each["policy"] for each in rollouts}) == 6
    assert len({each["root"] for each in updates}) == 6
    assert {each["graph"] for each in [*rollouts, *rescores]} == {found[0]["policy_graph"]}
    assert [each["root"] for each in rescores] == [each["rollout_root"] for each in rescores]


def test_two_runs_of_one_config_have_equal_bytes(prepare, tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        list(loop.train(prepare(tmp_path / name)))
    for name in ("config.json", "fingerprint.json", "ledger.jsonl", "metrics.jsonl"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_switches_repeat_and_change_the_bits(prepare, tmp_path):
    # Half-precision rewards and a running scale are off by default; on, they repeat just as well.
    switches = ("reward.dtype=float16", "reward.normalize=running")
    heads = []
    for name, overrides in (("off", ()), ("on", switches), ("again", switches)):
        (tmp_path / name).mkdir()
        run = prepare(tmp_path / name, *overrides)
        list(loop.train(run))
        heads.append((run.notary.chain.head, run.notary.chain.bits))
    assert heads[1] == heads[2]
    assert heads[0] != heads[1]


def test_due():
    assert [i for i in range(7) if loop.due(i, 3, 7)] == [2, 5, 6]
    assert [i for i in range(7) if loop.due(i, 0, 7)] == [6]
    assert [i for i in range(3) if loop.due(i, 1, 3)] == [0, 1, 2]


# --- faults --------------------------------------------------------------------------------------


def at(iteration, fault):
    """A dispatch that lets one iteration go wrong."""

    def faulty(run, train, world, number):
        work = loop.dispatch(run, train, world, number)
        return fault(run, train, work) if number == iteration else work

    return faulty


def flip(array, index, bit=0):
    """A copy of a float32 array with one bit of one element turned over."""
    copy = np.array(array)
    copy.view(np.uint32)[index] ^= np.uint32(1 << bit)
    return copy


def flip_rescored(field, index, bit=0):
    def fault(run, train, work):
        changed = flip(getattr(work.rescored, field), index, bit)
        return work._replace(rescored=work.rescored._replace(**{field: changed}))

    return fault


def halted(run, dispatch_fn, match):
    with pytest.raises(ConsistencyError, match=match):
        list(loop.train(run, dispatch_fn))
    found = records(run.folder)
    assert [record["kind"] for record in found].count("halt") == 1
    assert found[-1]["kind"] == "halt"
    return found[-1]


@pytest.mark.parametrize(
    ("field", "index", "bit"),
    [("log_prob", (5, 3), 0), ("value", (7, 0), 22), ("value", (0, 1), 31)],
)
def test_one_flipped_bit_of_the_rescoring_halts(prepare, tmp_path, field, index, bit):
    halt = halted(
        prepare(tmp_path),
        at(2, flip_rescored(field, index, bit)),
        "halt at iteration 2, stage rescore",
    )
    place = {key: halt[key] for key in ("iteration", "stage", "buffer", "step", "environment")}
    assert place == {
        "iteration": 2,
        "stage": "rescore",
        "buffer": field,
        "step": index[0],
        "environment": index[1],
    }
    assert halt["element"] == []
    assert int(halt["expected"], 16) ^ int(halt["got"], 16) == 1 << bit
    assert len(halt["expected"]) == len(halt["got"]) == 8
    # Nothing of iteration 2 counts: its rollout is recorded, its update is not.
    assert kinds(tmp_path)[-2:] == ["rollout", "halt"]
    assert (tmp_path / "metrics.jsonl").read_bytes().count(b"\n") == 2
    assert sorted(os.listdir(tmp_path / "checkpoints")) == ["00000001"]


def test_the_earliest_of_two_differences_is_named(prepare, tmp_path):
    def fault(run, train, work):
        work = flip_rescored("log_prob", (6, 0))(run, train, work)
        return flip_rescored("value", (3, 2))(run, train, work)

    halt = halted(prepare(tmp_path), at(0, fault), "stage rescore")
    assert (halt["buffer"], halt["step"], halt["environment"]) == ("value", 3, 2)


def test_a_claim_that_was_changed_on_the_way_halts(prepare, tmp_path):
    # What the training side receives is not what the rollout computed.
    def fault(run, train, work):
        segment = work.segment._replace(log_prob=flip(work.segment.log_prob, (1, 2), 3))
        return work._replace(segment=segment)

    halt = halted(prepare(tmp_path), at(1, fault), "stage rescore")
    assert (halt["buffer"], halt["step"], halt["environment"]) == ("log_prob", 1, 2)


@pytest.mark.parametrize("field", ["reward", "obs", "truncated"])
def test_a_buffer_changed_after_it_was_recorded_halts(prepare, tmp_path, field):
    run = prepare(tmp_path)
    mine = {}

    def fault(run, train, work):
        mine[field] = np.array(getattr(work.segment, field))
        return work._replace(segment=work.segment._replace(**mine))

    record = run.notary.advantages

    def spoil(iteration, fields):
        record(iteration, fields)
        if iteration == 1:
            mine[field].view(np.uint8)[2, 1, ...] ^= 1

    run.notary.advantages = spoil
    halt = halted(run, at(1, fault), f"buffer {field} changed after it was recorded")
    assert (halt["iteration"], halt["stage"], halt["buffer"]) == (1, "update", field)
    assert len(halt["expected"]) == 64 and halt["expected"] != halt["got"]


def test_a_gradient_that_is_not_finite_halts(prepare, tmp_path):
    def fault(run, train, work):
        spoiled = work.advantages._replace(
            advantage=work.advantages.advantage.at[0, 0].set(jnp.nan)
        )
        after, info = run.programs.stages.update(train, work.segment, work.rescored, spoiled)
        return work._replace(advantages=spoiled, after=after, info=info)

    halt = halted(prepare(tmp_path), at(3, fault), "stage update: the gradient is not finite")
    assert halt["iteration"] == 3
    assert (tmp_path / "metrics.jsonl").read_bytes().count(b"\n") == 4  # 3 updates, 1 evaluation


def test_nothing_follows_a_halt(prepare, tmp_path):
    halted(prepare(tmp_path), at(2, flip_rescored("value", (0, 0))), "stage rescore")
    before = (tmp_path / "ledger.jsonl").read_bytes()
    with pytest.raises(ConsistencyError, match="this run halted at iteration 2 .*start a new run"):
        prepare(tmp_path, resume=True)
    assert (tmp_path / "ledger.jsonl").read_bytes() == before


def test_a_halt_exits_with_status_1_and_says_where(command, tmp_path, monkeypatch):
    fault = at(2, flip_rescored("log_prob", (5, 3)))
    monkeypatch.setattr(loop, "train", functools.partial(loop.train, dispatch_fn=fault))
    status, out, err = command("--run-dir", tmp_path)
    assert (status, out) == (1, "")
    last = err.splitlines()[-1]
    assert re.match("rlkjax: halt at iteration 2, stage rescore: .*buffer log_prob, step 5", last)
    assert "environment 3" in last


# --- machine trouble -----------------------------------------------------------------------------


def test_a_disk_that_fills_up_loses_nothing(prepare, tmp_path, monkeypatch):
    straight, full = tmp_path / "straight", tmp_path / "full"
    for folder in (straight, full):
        folder.mkdir()
    list(loop.train(prepare(straight)))
    run, write, left = prepare(full), os.write, iter(range(20))

    def limited(descriptor, data):
        if next(left, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    monkeypatch.setattr(journal.os, "write", limited)
    with pytest.raises(MachineError, match=r"(ledger|metrics)\.jsonl: got no space to write"):
        list(loop.train(run))
    monkeypatch.undo()
    whole = (straight / "ledger.jsonl").read_bytes()
    part = (full / "ledger.jsonl").read_bytes()
    assert part.endswith(b"\n") and whole.startswith(part) and 0 < len(part) < len(whole)


# --- recompilation and memory ---------------------------------------------------------------------


def long_run(run, count):
    # The programs know no iteration number, so that a run may be driven beyond its end here.
    return loop.pipeline(run, *loop.start(run), range(count))


def test_nothing_is_compiled_after_the_second_iteration(prepare, tmp_path):
    run = prepare(tmp_path, "checkpoint.every=5")
    seen = []
    for _ in long_run(run, 20):
        seen.append(len(COMPILED))
    assert COMPILED, "the listener heard of compilations before"
    assert seen[2:] == seen[2:3] * 18
    again = tmp_path / "again"
    again.mkdir()
    before = len(COMPILED)
    list(loop.train(prepare(again, "checkpoint.every=5")))
    assert len(COMPILED) == before


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
def test_memory_stays_flat_over_two_thousand_iterations(prepare, tmp_path):
    # Straight line through the resident size of iterations 500 to 2000: below 2 KiB an iteration,
    # which would be 2 GB in a million. One iteration here makes some 20 KB of arrays.
    run = prepare(tmp_path, "checkpoint.every=100", "evaluation.every=100")
    sizes = [resident_bytes() for _ in long_run(run, 2000)]
    slope = np.polyfit(np.arange(1500), sizes[500:], 1)[0]
    assert slope < 2048


def test_the_small_run_has_six_iterations(configure):
    config = configure()
    assert (configs.iterations(config), configs.steps_per_iteration(config)) == (6, 32)
