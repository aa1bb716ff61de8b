"""The reference beside a training run: where its records stand, and what each kind of fault does.

The process is replaced by the run's own programs, which agree with themselves to the bit; so every
difference here was put there by the test.
"""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from rlkjax import launch, loop
from rlkjax.audit.verify import verify_run
from rlkjax.errors import ConsistencyError
from rlkjax.recompute import iteration
from rlkjax.recompute.iteration import Recompute

EVERY = "audit.reference_every=2"


class Twin:
    """Stands for the process: computes with the programs of the run."""

    def __init__(self, config, recompute):
        self._recompute = recompute._replace(tolerance=config.audit.tolerance)
        self.pending = None
        self.closed = 0

    def begin(self, number, given):
        assert self.pending is None, "two at a time"
        self.pending, self._given = number, given

    def finish(self):
        number, self.pending = self.pending, None
        return iteration.judge(self._recompute, number, self._given)

    def close(self):
        self.closed += 1


@pytest.fixture(scope="module")
def recompute(world):
    small = world()
    like = iteration.make_recompute(small.config, lambda fn: fn).like
    return Recompute(like, lambda trees: iteration.run_stages(small.programs.stages, trees), None)


@pytest.fixture
def begin(prepare, recompute, monkeypatch):
    """A run with a twin beside it: begin(folder, "seed=1", numerics="exact", resume=True)."""
    monkeypatch.setattr(launch, "Reference", lambda config: Twin(config, recompute))

    def build(folder, *overrides, numerics="native", acknowledged=None, **options):
        run = prepare(folder, *overrides, **options)
        config = dataclasses.replace(run.config, numerics=numerics)
        return run._replace(config=config, acknowledged=acknowledged)

    return build


def records(folder):
    return [json.loads(line) for line in (folder / "ledger.jsonl").read_bytes().splitlines()]


def order(folder):
    """Kinds with their iterations, without those that every iteration has."""
    plain = ("genesis", "rollout", "rescore", "advantages")
    return [(r["kind"], r["iteration"]) for r in records(folder) if r["kind"] not in plain]


def at(number, change):
    """A dispatch that lets one iteration go wrong."""

    def faulty(run, train, world, current):
        work = loop.dispatch(run, train, world, current)
        return change(run, work) if current == number else work

    return faulty


def flipped(array, index, bit):
    copy = np.array(array)
    copy.view(np.uint32)[index] ^= np.uint32(1 << bit)
    return copy


def reward(index, bit):
    """Turns over a bit of one reward; the stages that follow use the wrong one."""

    def change(run, work):
        stages = run.programs.stages
        segment = work.segment._replace(reward=flipped(work.segment.reward, index, bit))
        advantages = stages.advantages(work.before, segment, work.rescored)
        after, info = stages.update(work.before, segment, work.rescored, advantages)
        changed = {"segment": segment, "advantages": advantages, "after": after, "info": info}
        return work._replace(**changed)

    return change


# --- where the records stand ---------------------------------------------------------------------


def test_records_stand_before_the_next_checkpoint_and_the_next_recomputation(begin, tmp_path):
    run = begin(tmp_path, EVERY, "checkpoint.every=3", "evaluation.every=0")
    list(loop.train(run))
    assert order(tmp_path) == [
        ("update", 0),
        ("update", 1),
        ("reference", 0),  # iteration 2 is recomputed next
        ("update", 2),
        ("reference", 2),  # a checkpoint follows
        ("checkpoint", 2),
        ("update", 3),
        ("update", 4),
        ("update", 5),
        ("evaluation", 5),
        ("reference", 4),
        ("checkpoint", 5),
    ]
    assert run.reference.closed == 1
    assert verify_run(tmp_path).verified


def test_the_roots_are_those_of_the_iteration(begin, tmp_path):
    list(loop.train(begin(tmp_path, EVERY)))
    found = records(tmp_path)
    roots = {(r["kind"], r["iteration"]): r["root"] for r in found if "root" in r}
    for record in (r for r in found if r["kind"] == "reference"):
        assert record["segment"] == roots["rollout", record["iteration"]]
        assert record["state"] == roots["update", record["iteration"]]
        assert record["past"] == 0


def test_bits_and_metrics_are_those_of_a_run_without_it(begin, tmp_path):
    heads, lines = {}, {}
    for name, every in (("off", 0), ("on", 2), ("again", 2), ("often", 1)):
        run = begin(tmp_path / name, f"audit.reference_every={every}")
        assert (run.reference is None) == (every == 0)
        list(loop.train(run))
        heads[name] = run.notary.chain
        text = (tmp_path / name / "metrics.jsonl").read_text().splitlines()
        lines[name] = [each for each in text if '"kind":"reference"' not in each]
        assert len(text) - len(lines[name]) == {0: 0, 2: 3, 1: 6}[every]
    assert len({head.bits for head in heads.values()}) == 1
    assert lines["off"] == lines["on"] == lines["often"]
    for name in ("ledger.jsonl", "metrics.jsonl"):
        first, second = ((tmp_path / run / name).read_bytes() for run in ("on", "again"))
        assert first == second


def test_the_metrics_line_holds_what_differs(begin, tmp_path):
    wide = ("reward_relative=1", "reward_differing=1", "rollout=1")
    run = begin(tmp_path, EVERY, *(f"audit.tolerance.{each}" for each in wide))
    list(loop.train(run, at(2, reward((3, 1), 22))))
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    line = next(x for x in lines if x["kind"] == "reference" and x["iteration"] == 2)
    # Bit 22 of 1.0 makes it 1.5; 0.5 / 1.5 is 0.33333334 in float32, and 1 of 32 is 0.03125.
    assert line["buffers"]["segment/reward"] == {
        "differing": 0.03125,
        "max_abs": 0.5,
        "max_rel": 0.33333334,
        "max_scaled": 0.5,
        "max_ulp": 1 << 22,
    }
    # The later stages were right for the reward that they were given.
    assert set(line["buffers"]) == {"segment/reward"}
    assert (line["past"], line["compared"] > 50) == (0, True)


# --- exact numerics: one bit halts ---------------------------------------------------------------


def param(run, work):
    kernel = work.after.policy.params["value_head"]["kernel"]
    params = {**work.after.policy.params, "value_head": {**work.after.policy.params["value_head"]}}
    params["value_head"]["kernel"] = flipped(kernel, (4, 0), 0)
    policy = work.after.policy._replace(params=params)
    return work._replace(after=work.after._replace(policy=policy))


def advantage(run, work):
    changed = flipped(work.advantages.advantage, (6, 3), 31)
    return work._replace(advantages=work.advantages._replace(advantage=changed))


@pytest.mark.parametrize(
    ("fault", "stage", "place"),
    [
        (reward((5, 2), 0), "rollout", ("reward", 5, 2, [])),
        (advantage, "advantages", ("advantage", 6, 3, [])),
        (param, "update", ("policy/params/value_head/kernel", None, None, [4, 0])),
    ],
)
def test_one_flipped_bit_halts_an_exact_run(begin, tmp_path, fault, stage, place):
    run = begin(tmp_path, EVERY, numerics="exact")
    with pytest.raises(
        ConsistencyError, match=f"halt at iteration 2, stage {stage}: the reference"
    ):
        list(loop.train(run, at(2, fault)))
    halt = records(tmp_path)[-1]
    assert (halt["kind"], halt["iteration"], halt["stage"]) == ("halt", 2, stage)
    assert tuple(halt[key] for key in ("buffer", "step", "environment", "element")) == place
    assert bin(int(halt["expected"], 16) ^ int(halt["got"], 16)).count("1") == 1
    # Iteration 1 is the last that a checkpoint vouches for; the halt itself is verified as such.
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["00000001"]
    assert verify_run(tmp_path).findings == ()
    assert run.reference.closed == 1


def test_a_fault_in_an_iteration_that_is_not_recomputed_is_not_seen(begin, tmp_path):
    # What the option costs is what it sees: every=2 looks at 0, 2 and 4.
    list(loop.train(begin(tmp_path, EVERY, numerics="exact"), at(3, reward((5, 2), 0))))
    assert order(tmp_path)[-1] == ("checkpoint", 5)


# --- native numerics: past a threshold the run pauses --------------------------------------------

FAULT = at(2, reward((5, 2), 22))


def paused(begin, folder, **options):
    with pytest.raises(
        ConsistencyError, match="paused after iteration 2: segment/reward has max_rel"
    ):
        list(loop.train(begin(folder, EVERY, **options), FAULT))


def test_within_the_thresholds_a_native_run_goes_on(begin, tmp_path):
    # The lowest bit of 1.0 is 1.2e-7 of it, within 1e-6; but 1 of 32 rewards is 3 %.
    run = begin(tmp_path, EVERY, "audit.tolerance.reward_differing=0.04")
    list(loop.train(run, at(2, reward((5, 2), 0))))
    assert verify_run(tmp_path).verified
    assert not (tmp_path / "alert.json").exists()


def test_past_a_threshold_a_native_run_pauses(begin, tmp_path):
    paused(begin, tmp_path)
    last = records(tmp_path)[-1]
    assert (last["kind"], last["iteration"], last["past"]) == ("reference", 2, 1)
    alert = json.loads((tmp_path / "alert.json").read_text())
    assert alert["iteration"] == 2
    assert [(each["buffer"], each["measure"], each["config"]) for each in alert["past"]] == [
        ("segment/reward", "max_rel", "audit.tolerance.reward_relative"),
        ("segment/reward", "differing", "audit.tolerance.reward_differing"),
    ]
    assert (alert["past"][0]["got"], alert["past"][0]["limit"]) == (0.33333334, 1e-06)
    assert any("--acknowledge" in line for line in alert["go_on"])
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["00000001"]
    assert not verify_run(tmp_path).verified


def test_a_paused_run_pauses_again_until_it_is_acknowledged(begin, tmp_path):
    paused(begin, tmp_path)
    ledger = (tmp_path / "ledger.jsonl").read_bytes()
    paused(begin, tmp_path, resume=True)
    assert (tmp_path / "ledger.jsonl").read_bytes() == ledger
    run = begin(tmp_path, EVERY, resume=True, acknowledged="the fan was broken")
    list(loop.train(run, FAULT))
    found = records(tmp_path)
    place = next(i for i, r in enumerate(found) if r["kind"] == "acknowledge")
    assert found[place]["iteration"] == 2
    assert found[place]["reason"] == "the fan was broken"
    assert found[place - 1]["kind"] == "reference"
    assert not (tmp_path / "alert.json").exists()
    assert verify_run(tmp_path).verified
    # Taken up once more from an older checkpoint, the run repeats what it was told.
    for folder in sorted((tmp_path / "checkpoints").iterdir()):
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    ledger = (tmp_path / "ledger.jsonl").read_bytes()
    list(loop.train(begin(tmp_path, EVERY, resume=True), FAULT))
    assert (tmp_path / "ledger.jsonl").read_bytes() == ledger


def test_an_acknowledgement_covers_only_what_is_recorded(begin, tmp_path):
    # A run killed before its first pause has nothing to acknowledge yet.
    paused(begin, tmp_path, acknowledged="whatever comes")


def test_an_acknowledgement_covers_one_pause(begin, tmp_path):
    def twice(run, train, world, number):
        work = loop.dispatch(run, train, world, number)
        return reward((5, 2), 22)(run, work) if number in (2, 4) else work

    paused(begin, tmp_path)
    run = begin(tmp_path, EVERY, resume=True, acknowledged="known")
    with pytest.raises(ConsistencyError, match="paused after iteration 4"):
        list(loop.train(run, twice))
    kinds = [kind for kind, _ in order(tmp_path)]
    assert kinds.count("acknowledge") == 1 and kinds[-1] == "reference"


# --- killed and resumed --------------------------------------------------------------------------


def cut(straight, folder, count):
    """The folder as a kill leaves it after `count` records."""
    shutil.copytree(straight, folder)
    lines = (straight / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "ledger.jsonl").write_bytes(b"".join(lines[:count]))
    kept = [json.loads(line) for line in lines]
    measured = sum("metrics" in record for record in kept[:count])
    lines = (straight / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_bytes(b"".join(lines[:measured]))
    for record in kept[count:]:
        if record["kind"] == "checkpoint":
            shutil.rmtree(folder / "checkpoints" / f"{record['iteration']:08d}")


def test_a_run_killed_at_any_record_goes_on_to_the_same_bytes(begin, tmp_path):
    options = (EVERY, "checkpoint.every=3", "checkpoint.keep=9")
    straight = tmp_path / "straight"
    list(loop.train(begin(straight, *options)))
    every = len(records(straight))
    around = [i for i, r in enumerate(records(straight)) if r["kind"] == "reference"]
    for count in sorted({0, 1, every, *around, *(i + 1 for i in around)}):
        folder = tmp_path / str(count)
        cut(straight, folder, count)
        list(loop.train(begin(folder, *options, resume=True)))
        for name in ("ledger.jsonl", "metrics.jsonl"):
            assert (folder / name).read_bytes() == (straight / name).read_bytes(), (count, name)
