"""A replay repeats every record, and names the first one that it does not repeat."""

import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest

from rlkjax import cli, loop, replay, replay_recorded, verify
from rlkjax.audit import replay as compared
from rlkjax.audit.canonical import canonical_json
from rlkjax.audit.checks import Finding
from rlkjax.audit.verify import verify_run
from rlkjax.errors import InputError
from rlkjax.platform import fingerprint
from rlkjax.platform.fingerprint import Difference

SAME = {"device.platform": "cpu"}  # the fingerprint that the fixture `prepare` records
KEEP = "audit.keep_segments=all"


@pytest.fixture
def machine(monkeypatch):
    """Sets the fingerprint under which the replay runs; that of the recorded run at first."""

    def set_to(value):
        monkeypatch.setattr(fingerprint, "collect", lambda device: dict(value))

    set_to(SAME)
    return set_to


@pytest.fixture
def again(monkeypatch, programs_of, machine):
    """Replays with programs that are compiled already: again(folder, first, last) -> Replayed."""
    monkeypatch.setattr(replay, "make_stages", lambda config, env: (config, env))
    monkeypatch.setattr(replay, "compile_stages", lambda pair, transform: programs_of(*pair)[1])

    def run(folder, first=None, last=None):
        recorded = replay_recorded.load(folder)
        return replay.replay(recorded, *replay_recorded.span(recorded, first, last))

    return run


def close(run):
    run.opened.journal.close()
    run.opened.metrics.close()


def record(run, dispatch_fn=loop.dispatch, count=None):
    """Trains, to the end or for some iterations."""
    for settled in loop.train(run, dispatch_fn):
        if count is not None and settled.iteration + 1 == count:
            break
    close(run)


def at(iteration, fault):
    """A dispatch whose work of one iteration is recorded as something else."""

    def faulty(run, train, world, number):
        work = loop.dispatch(run, train, world, number)
        return fault(work) if number == iteration else work

    return faulty


def flip(array, index):
    copy = np.array(array)
    copy.view(np.uint32)[index] ^= np.uint32(1)
    return copy


def snapshot(folder):
    return {
        str(path): (path.stat().st_mtime_ns, path.is_file() and path.read_bytes())
        for path in folder.rglob("*")
    }


def test_a_whole_run_is_repeated_and_left_alone(prepare, again, tmp_path):
    record(prepare(tmp_path, KEEP))
    before = snapshot(tmp_path)
    replayed = again(tmp_path)
    # 6 iterations of 4 records, 2 evaluations, 3 checkpoints; genesis is not counted.
    assert replayed == compared.Replayed(first=0, last=5, records=29)
    assert replayed.equal
    assert snapshot(tmp_path) == before


def test_a_part_begins_at_the_checkpoint_before_it(prepare, again, tmp_path):
    record(prepare(tmp_path))
    # Checkpoints follow iterations 3 and 5; records 10 to 19 are those of 2 and 3.
    assert again(tmp_path, 5).first == 4
    assert again(tmp_path, 4, 4) == compared.Replayed(first=4, last=4, records=4)
    assert again(tmp_path, 3, 3).first == 0


def test_a_damaged_checkpoint_is_not_begun_at(prepare, again, tmp_path):
    record(prepare(tmp_path))
    path = tmp_path / "checkpoints/00000003/state.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    replayed = again(tmp_path, 5)
    assert (replayed.first, replayed.equal) == (0, True)


@pytest.mark.parametrize(("first", "last"), [(6, None), (-1, None), (3, 2), (0, 6)])
def test_iterations_that_the_run_never_had(prepare, again, tmp_path, first, last):
    record(prepare(tmp_path))
    with pytest.raises(InputError, match="want iterations from 0 to 5 that the ledger holds"):
        again(tmp_path, first, last)


def test_a_reward_that_nobody_computes_is_named_to_the_element(prepare, again, tmp_path):
    def fault(work):
        changed = flip(work.segment.reward, (3, 1))
        return work._replace(segment=work.segment._replace(reward=changed))

    record(prepare(tmp_path, KEEP), at(2, fault))
    assert verify_run(tmp_path).verified  # the files agree with one another
    replayed = again(tmp_path)
    root, place = replayed.findings
    # Records 0 to 9 are genesis, iterations 0 and 1, and a checkpoint.
    assert (root.file, root.record) == ("ledger.jsonl", 10)
    assert root.what == "replay of rollout of iteration 2: root"
    assert place.what == (
        "replay of rollout of iteration 2: buffer reward, step 3, environment 1, element []"
    )
    # A reward of 1.0 with its last bit turned over, and the 1.0 that the environment pays.
    assert (place.expected, place.got) == ("bits 3f800001", "bits 3f800000")
    assert (replayed.records, replayed.equal) == (9, False)
    assert replayed.notes == ("same fingerprint: nothing of the machine explains it",)


def test_without_the_segment_the_record_alone_is_named(prepare, again, tmp_path):
    def fault(work):
        changed = flip(work.segment.reward, (3, 1))
        return work._replace(segment=work.segment._replace(reward=changed))

    record(prepare(tmp_path), at(2, fault))
    (root,) = again(tmp_path).findings
    assert root.what == "replay of rollout of iteration 2: root"


def test_a_parameter_is_named_to_the_element(prepare, again, tmp_path):
    def fault(work):
        params = work.after.policy.params
        head = params["policy_head"]
        changed = {**params, "policy_head": {**head, "bias": flip(head["bias"], (1,))}}
        policy = work.after.policy._replace(params=changed)
        return work._replace(after=work.after._replace(policy=policy))

    record(prepare(tmp_path), at(5, fault))
    replayed = again(tmp_path, 4)
    root, place = replayed.findings
    assert root.what == "replay of update of iteration 5: root"
    assert place.what == (
        "replay of update of iteration 5: buffer policy/params/policy_head/bias, element [1]"
    )
    assert replayed.first == 4


def test_a_metric_is_named_where_the_state_is_equal(prepare, again, tmp_path):
    def fault(work):
        field = work.info._fields[0]
        value = getattr(work.info, field)
        return work._replace(info=work.info._replace(**{field: value + 1}))

    record(prepare(tmp_path), at(0, fault))
    (finding,) = again(tmp_path).findings
    assert (finding.file, finding.record) == ("metrics.jsonl", 4)
    assert finding.what.startswith("replay of update of iteration 0: ")
    assert finding.what.endswith(" in line 0")


def test_a_halt_that_does_not_come_again_is_named(prepare, again, tmp_path):
    def fault(work):
        changed = flip(work.rescored.value, (2, 3))
        return work._replace(rescored=work.rescored._replace(value=changed))

    with pytest.raises(Exception, match="halt at iteration 1"):
        record(prepare(tmp_path), at(1, fault))
    finding, *_ = again(tmp_path).findings
    assert finding.record == 6
    assert finding.what == "replay of halt of iteration 1: kind"
    assert (finding.expected, finding.got) == ("halt", "rescore")


def test_a_halt_that_comes_again_is_a_repeated_run(prepare, programs_of, again, tmp_path):
    def broken(run):
        stages = run.programs.stages

        def update(*arguments):
            after, info = stages.update(*arguments)
            return after, info._replace(grad_norm=np.float32("nan"))

        return run._replace(programs=run.programs._replace(stages=stages._replace(update=update)))

    run = broken(prepare(tmp_path))
    with pytest.raises(Exception, match="the gradient is not finite"):
        record(run)
    whole = replay._open
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay, "_open", lambda *arguments: broken(whole(*arguments)))
        replayed = again(tmp_path)
    assert replayed.equal
    assert replayed.records == 4  # rollout, rescore, advantages, halt


def test_a_stopped_run_is_repeated_as_far_as_it_went(prepare, again, tmp_path):
    record(prepare(tmp_path), count=3)
    replayed = again(tmp_path)
    assert (replayed.equal, replayed.last) == (True, 2)


def test_a_run_that_went_on_elsewhere_is_repeated(prepare, again, tmp_path):
    record(prepare(tmp_path), count=3)
    other = {**SAME, "cpu.threads": "64"}
    run = prepare(tmp_path, resume=True, machine=other)
    record(run)
    replayed = again(tmp_path)
    assert replayed.equal
    (change,) = replayed.changes  # the first part was recorded here, the second was not
    assert (change.key, change.a, change.b) == ("cpu.threads", "64", "absent")
    assert again(tmp_path, 0, 1).changes == ()


def test_another_machine_is_told_and_what_it_can_change(prepare, again, machine, tmp_path):
    record(prepare(tmp_path))
    machine({**SAME, "cpu.threads": "64"})
    replayed = again(tmp_path)
    assert replayed.equal
    (change,) = replayed.changes
    assert (change.key, change.a, change.b) == ("cpu.threads", "absent", "64")
    assert "any native sum" in change.effect
    assert replayed.notes == ("native numerics: its bits are promised under one fingerprint only",)


# --- what is compared, without computing ----------------------------------------------------------

CHANGE = Difference("cpu.threads", "1", "2", "any native sum")


def test_what_a_difference_of_machines_means():
    assert compared.explain("native", (), False) == []
    assert compared.explain("exact", (CHANGE,), True) == [
        "exact numerics: no difference of machine or version can change a bit"
    ]
    (note,) = compared.explain("native", (CHANGE,), True)
    assert note.endswith("and a difference above may be the cause")


def test_genesis_is_compared_key_by_key():
    recorded = {"seed": 1, "platform": "cpu", "policy_graph": "a", "environment": {"dt": "x"}}
    assert compared.compare_genesis(recorded, recorded, same_machine=True) == ([], [])
    elsewhere = {**recorded, "platform": "rocm", "policy_graph": "b"}
    findings, notes = compared.compare_genesis(recorded, elsewhere, same_machine=False)
    assert (findings, len(notes)) == ([], 1)
    assert "policy_graph was a, is b" in notes[0]
    findings, _ = compared.compare_genesis(recorded, elsewhere, same_machine=True)
    assert [finding.what for finding in findings] == ["replay of genesis: policy_graph"]
    changed = {**recorded, "environment": {"dt": "y"}}
    findings, _ = compared.compare_genesis(recorded, changed, same_machine=False)
    want = Finding(
        "ledger.jsonl", 0, "replay of genesis: environment", '{"dt": "x"}', '{"dt": "y"}'
    )
    assert findings == [want]


# --- the command ----------------------------------------------------------------------------------


def test_the_command_says_what_was_repeated(prepare, again, tmp_path, capsys):
    record(prepare(tmp_path))
    assert verify.main([str(tmp_path), "--replay", "--from", "4"]) == 0
    out = capsys.readouterr().out
    assert "replay of iterations 4 to 5: all 10 records are equal\n" in out
    assert out.endswith(" iterations 6 verified\n")
    assert verify.main([str(tmp_path), "--replay", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["replay"]
    assert (shown["equal"], shown["records"], shown["findings"]) == (True, 29, [])


def test_the_command_names_the_first_difference(prepare, again, machine, tmp_path, capsys):
    def fault(work):
        changed = flip(work.segment.reward, (3, 1))
        return work._replace(segment=work.segment._replace(reward=changed))

    record(prepare(tmp_path, KEEP), at(0, fault))
    machine({**SAME, "cpu.threads": "64"})
    assert verify.main([str(tmp_path), "--replay"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("fingerprint: cpu.threads was absent, is 64; how sums")
    assert lines[1].endswith("and a difference above may be the cause")
    assert lines[3].startswith(
        "ledger.jsonl, record 1: replay of rollout of iteration 0: buffer reward, step 3, "
        "environment 1, element []: expected bits 3f800001, got bits 3f800000"
    )
    assert lines[-1].endswith(" NOT verified")


def test_a_damaged_ledger_or_config_is_not_replayed(prepare, again, tmp_path, capsys):
    record(prepare(tmp_path))
    ledger = (tmp_path / "ledger.jsonl").read_bytes()
    (tmp_path / "ledger.jsonl").write_bytes(ledger.replace(b'"nonfinite":0', b'"nonfinite":1', 1))
    assert verify.main([str(tmp_path), "--replay"]) == 1
    assert "not replayed: record 2: got prev" in capsys.readouterr().out
    (tmp_path / "ledger.jsonl").write_bytes(ledger)
    config = (tmp_path / "config.json").read_bytes()
    (tmp_path / "config.json").write_bytes(config.replace(b'"seed":0', b'"seed":1'))
    assert verify.main([str(tmp_path), "--replay"]) == 1
    assert "not replayed: config.json: got SHA-256" in capsys.readouterr().out


def test_a_config_of_another_version_is_not_replayed(golden_copy, capsys):
    assert cli.run(verify.main, [str(golden_copy), "--replay"]) == 2
    err = capsys.readouterr().err
    assert "config.json: got a config of another version" in err
    assert "replay the run with the version of rlkjax that recorded it" in err


@pytest.fixture
def golden_copy(tmp_path):
    """A run whose config this version cannot read, though its bytes are those recorded."""
    config = canonical_json({"task": "cartpole", "key_of_another_version": 1})
    genesis = {
        "config": hashlib.sha256(config).hexdigest(),
        "environment": {},
        "fingerprint": hashlib.sha256(b"{}").hexdigest(),
        "format": "rlkjax-ledger/1",
        "numerics": "native",
        "platform": "cpu",
        "program": "0" * 64,
        "schema": [],
        "seed": 0,
        "switches": [],
        "versions": {},
    }
    from rlkjax.audit import ledger

    _, line = ledger.genesis(genesis)
    (tmp_path / "ledger.jsonl").write_bytes(line + b"\n")
    (tmp_path / "config.json").write_bytes(config)
    (tmp_path / "fingerprint.json").write_bytes(b"{}")
    return tmp_path


def test_a_platform_that_is_not_here(prepare, again, tmp_path, python):
    record(prepare(tmp_path))
    code = "import sys; from rlkjax import cli, verify; sys.exit(cli.run(verify.main))"
    ran = python(code, str(tmp_path), "--replay", "--platform", "rocm")
    assert (ran.returncode, ran.stdout) == (3, "")
    assert "rocm" in ran.stderr


@pytest.mark.slow
def test_a_fresh_process_repeats_a_run(small, tmp_path):
    folder = str(tmp_path / "run")
    train = ["train", "--config", str(small), "--run-dir", folder, "--quiet"]
    verify_again = ["verify", folder, "--replay", "--platform", "cpu"]
    for arguments in (train, verify_again):
        command = [sys.executable, "-m", "rlkjax", *arguments]
        ran = subprocess.run(command, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
    assert "replay of iterations 0 to 5: all 29 records are equal" in ran.stdout
