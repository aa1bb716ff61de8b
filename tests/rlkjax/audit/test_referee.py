"""Pairs of runs that differ in one known thing: the referee must name it, and its true cause."""

import hashlib
import itertools
import json
import shutil

import numpy as np
import pytest
from made_runs import CONFIG, MACHINE, halted_run, make_run, one_more_ulp

from rlkjax.audit import ledger
from rlkjax.audit.difference import CAUSES
from rlkjax.audit.journal import Journal
from rlkjax.audit.notary import Notary
from rlkjax.audit.referee import Recomputed, compare_runs
from rlkjax.errors import ConsistencyError, InputError


@pytest.fixture
def pair(tmp_path):
    """pair(change, **of B) -> the difference between a plain run and another one."""

    made = itertools.count()

    def build(*change, both=None, **changes):
        folders = [tmp_path / f"{name}{next(made)}" for name in "ab"]
        both = both or {}
        make_run(folders[0], **both)
        make_run(folders[1], **{**both, **({"change": change[0]} if change else {}), **changes})
        return compare_runs(*folders)

    return build


def with_config(**changes):
    return {**CONFIG, **changes}


def with_machine(**changes):
    return {**MACHINE, **{key.replace("__", "."): value for key, value in changes.items()}}


def where(found):
    place = found.place
    return (
        found.iteration,
        found.stage,
        place.buffer,
        place.step,
        place.environment,
        place.element,
    )


def test_equal_runs_are_equal(pair):
    found = pair()
    assert found.equal and found.cause is None and found.iteration is None
    assert found.a.bits == found.b.bits and found.a.iterations == 3
    assert found.notes == ()


def test_equal_numbers_under_another_config_are_equal(pair):
    found = pair(config=with_config(threads=2))
    assert found.equal and found.a.bits != found.b.bits
    assert found.notes == (
        "the bits heads differ, as they cover the config as well (threads); no number does",
    )


def test_one_flipped_bit_in_a_reward_is_named_to_the_element(pair):
    found = pair(one_more_ulp("rollout", 1, "reward", (2, 3)))
    assert where(found) == (1, "rollout", "reward", 2, 3, ())
    shown = found.as_json()
    assert shown["ulp"] == 1
    assert int(shown["b_bits"], 16) == int(shown["a_bits"], 16) + 1
    assert (shown["elements_differing"], shown["elements"]) == (1, 20)
    assert found.cause.kind == "environment bytes" and found.cause.certain
    assert "obs and action is equal, but reward is not" in found.cause.text


def test_what_follows_from_a_difference_does_not_hide_it(pair):
    def change(stage, iteration, fields):
        if stage == "rollout" and iteration >= 1:
            fields["action"][iteration:, 1] += 1  # of a sampler that went wrong at step 1 ...
            fields["reward"][iteration:, 1] += 1  # ... with its rewards, and with all that follows

    found = pair(change)
    assert where(found) == (1, "rollout", "action", 1, 1, ())


def test_a_policy_output_that_differs_on_equal_observations_is_no_environments_fault(pair):
    found = pair(one_more_ulp("rollout", 0, "value", (0, 0)))
    assert where(found) == (0, "rollout", "value", 0, 0, ())
    assert found.cause.kind == "unknown" and not found.cause.certain
    assert "cannot be told from the files" in found.cause.text
    assert "--replay" in found.cause.advice


def test_a_tensor_of_the_new_state_is_named_from_the_checkpoints(pair):
    found = pair(one_more_ulp("update", 2, "optimizer/mu/kernel", (2, 1)))
    assert where(found) == (2, "update", "optimizer/mu/kernel", None, None, (2, 1))


def test_a_parameter_that_moved_is_named_before_the_learning_rate_that_moved_it(pair):
    def rated(rate, step=0):
        def change(stage, iteration, fields):
            if stage == "update":
                fields["learning_rate/initial"] = np.full((), rate, np.float32)
                fields["policy/params/kernel"].view(np.uint32)[1, 0] += step
                fields["optimizer/mu/kernel"].view(np.uint32)[0, 0] += step

        return change

    found = pair(rated(0.5, step=1), both={"change": rated(0.25)})
    assert where(found) == (0, "update", "policy/params/kernel", None, None, (1, 0))
    found = pair(rated(0.5), both={"change": rated(0.25)})
    assert where(found) == (0, "update", "learning_rate/initial", None, None, ())


def test_without_kept_buffers_the_stage_is_as_deep_as_it_goes(pair):
    found = pair(one_more_ulp("rollout", 1, "reward", (2, 3)), both={"keep": "none"})
    assert (found.iteration, found.stage, found.place) == (1, "rollout", None)
    assert found.cause.kind == "unknown"
    assert "was not kept by both runs (audit.keep_segments: all" in found.notes[0]
    assert "run with --replay" in found.notes[0]
    found = pair(one_more_ulp("update", 1, "optimizer/mu/kernel", (0, 0)), both={"keep": "none"})
    assert (
        found.stage == "update"
        and "was not kept by both runs (checkpoint.every" in (found.notes[0])
    )


def test_advantages_are_never_kept(pair):
    found = pair(one_more_ulp("advantages", 1, "advantage", (0, 0)))
    assert (found.iteration, found.stage, found.place) == (1, "advantages", None)
    assert found.notes == (
        "no run keeps the buffers of stage advantages, only their root, so the ledgers lead no "
        "further; run with --replay to compute them again",
    )


def test_a_seed(pair):
    def other(stage, iteration, fields):
        for array in fields.values() if stage in ("init", "rollout") else ():
            if array.dtype == np.float32:
                array += 1

    found = pair(other, config=with_config(seed=4))
    assert (found.iteration, found.stage) == (0, "init")
    assert found.cause.kind == "seed" and found.cause.certain
    assert "seed is 3 in A and 4 in B" in found.cause.text
    assert found.cause.advice == "run B again with --set seed=3"


def test_other_initial_parameters_part_in_init_though_the_rollouts_are_equal(pair):
    found = pair(one_more_ulp("init", 0, "policy/params/kernel", (0, 0)))
    assert (found.iteration, found.stage) == (0, "init")


def test_a_learning_rate(pair):
    config = with_config(ppo={**CONFIG["ppo"], "learning_rate": (0.001).hex()})
    found = pair(one_more_ulp("update", 0, "policy/params/kernel", (0, 0)), config=config)
    assert (found.iteration, found.stage) == (0, "update")
    assert found.cause.kind == "configuration" and found.cause.certain
    assert found.cause.advice == "run B again with --set ppo.learning_rate=0.01"
    assert [entry.key for entry in found.settings.config] == ["ppo.learning_rate"]


def test_a_key_that_acts_later_is_not_blamed(pair):
    # gae_lambda acts from the advantages on; the difference is in the rollout before them.
    config = with_config(ppo={**CONFIG["ppo"], "gae_lambda": (0.9).hex()})
    found = pair(one_more_ulp("rollout", 0, "reward", (0, 0)), config=config)
    assert found.cause.kind == "environment bytes"
    found = pair(one_more_ulp("rollout", 1, "reward", (0, 0)), config=config)
    assert found.cause.kind == "configuration"


def test_the_precision_of_rewards(pair):
    def half(stage, iteration, fields):
        if stage == "rollout":
            fields["reward"] = fields["reward"].astype(np.float16)

    found = pair(half, config=with_config(reward={"dtype": "float16"}))
    assert (found.iteration, found.stage, found.place.buffer) == (0, "rollout", "reward")
    assert found.cause.kind == "precision" and found.cause.certain
    assert "buffer reward is float32[5, 4] and float16[5, 4] in A and B" in found.notes


@pytest.mark.parametrize(
    ("machine", "kind", "said"),
    [
        (with_machine(package__jax="0.12.0"), "version", "package.jax is 0.10.2 in A and 0.12.0"),
        (with_machine(cpu__threads="1"), "reduction order", "cpu.threads is 2 in A and 1 in B"),
        (with_machine(cpu__features="0e0e"), "fingerprint", "cpu.features is f0f0 in A"),
        (
            with_machine(xla__flags="--xla_cpu_enable_fast_math=false --xla_cpu_max_isa=SSE4_2"),
            "flags",
            "xla_cpu_max_isa is AVX2 in A and SSE4_2 in B",
        ),
    ],
)
def test_a_machine_or_version_that_alone_differs(pair, machine, kind, said):
    found = pair(one_more_ulp("update", 1, "policy/params/kernel", (0, 0)), machine=machine)
    assert found.cause.kind == kind and found.cause.certain
    assert said in found.cause.text and found.cause.advice


def test_the_machine_that_a_run_was_resumed_on_counts_from_there_on(pair):
    resumed = (1, with_machine(cpu__threads="1"))
    change = one_more_ulp("update", 1, "policy/params/kernel", (0, 0))
    assert pair(change, resumed=resumed).cause.kind == "reduction order"
    change = one_more_ulp("update", 0, "policy/params/kernel", (0, 0))
    assert pair(change, resumed=resumed).cause.kind == "unknown"


def test_two_kinds_of_settings_are_not_guessed_between(pair):
    machine = with_machine(package__jax="0.12.0", cpu__threads="1")
    found = pair(one_more_ulp("update", 1, "policy/params/kernel", (0, 0)), machine=machine)
    assert found.cause.kind == "version" and not found.cause.certain
    assert "also different are cpu.threads" in found.cause.text
    assert "cannot be told from the files" in found.cause.text


def test_what_moves_no_bits_is_not_blamed(pair):
    change = one_more_ulp("rollout", 1, "value", (0, 0))
    found = pair(change, machine=with_machine(cpu__boost="0"))
    assert found.cause.kind == "unknown"
    assert [entry.key for entry in found.settings.fingerprint] == ["cpu.boost"]


def test_in_exact_numerics_the_machine_is_not_blamed(pair):
    both = {"config": with_config(numerics="exact")}
    machine = with_machine(cpu__threads="1", package__jax="0.12.0", cpu__features="0e0e")
    found = pair(one_more_ulp("rollout", 1, "value", (0, 0)), both=both, machine=machine)
    assert found.cause.kind == "unknown"


def test_another_policy_graph_without_another_setting(pair):
    change = one_more_ulp("rollout", 0, "value", (0, 0))
    found = pair(change, genesis={"policy_graph": "cd" * 32})
    assert found.cause.kind == "policy graph" and found.cause.certain
    assert "abababababab" in found.cause.text and "cdcdcdcdcdcd" in found.cause.text


def test_environments_in_another_place_are_a_layout(pair):
    def rolled(stage, iteration, fields):
        if (stage, iteration) == ("rollout", 1):
            for name in fields:
                fields[name] = np.roll(fields[name], 1, axis=1)

    found = pair(rolled)
    assert found.cause.kind == "layout" and found.cause.certain
    assert "environment 0 of A stands as environment 1 in B, and 4 of 4" in found.cause.text


def test_steps_in_another_order_are_a_layout(pair):
    def swapped(stage, iteration, fields):
        if (stage, iteration) == ("rollout", 1):
            for name in fields:
                fields[name] = fields[name][[0, 2, 1, 3, 4]]

    found = pair(swapped)
    assert found.cause.kind == "layout" and "step 1 of A stands as step 2 in B, and 2 of 5" in (
        found.cause.text
    )


def test_a_shorter_run_is_said_to_be_shorter(pair):
    found = pair(iterations=2)
    assert (found.equal, found.iteration, found.stage) == (False, 2, "end")
    assert found.cause is None and found.place is None
    assert "B has 2 of the 3 iterations that it planned" in found.notes
    assert any("all that both recorded is equal" in note for note in found.notes)


def test_a_run_killed_inside_an_iteration_is_compared_up_to_there(tmp_path):
    make_run(tmp_path / "a")
    make_run(tmp_path / "b")
    path = tmp_path / "b" / "ledger.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    # genesis, five records an iteration; two of the last iteration, and a torn one
    path.write_bytes(b"".join(lines[:13]) + lines[13][:20])
    found = compare_runs(tmp_path / "a", tmp_path / "b")
    assert (found.iteration, found.stage, found.equal) == (2, "end", False)


def test_a_halted_run_is_named_with_its_place(tmp_path):
    make_run(tmp_path / "a")
    halted_run(tmp_path / "b", one_more_ulp("rescore", 1, "log_prob", (4, 2)))
    found = compare_runs(tmp_path / "a", tmp_path / "b")
    assert where(found) == (1, "rescore", "log_prob", 4, 2, ())
    assert found.b.halted is not None and found.a.halted is None
    assert any(
        note.startswith("B halted in iteration 1, stage rescore: exp") for note in found.notes
    )


def test_evaluations_of_one_run_alone_are_left_out(tmp_path):
    make_run(tmp_path / "a")
    make_run(tmp_path / "b")
    add_evaluation(tmp_path / "b")
    found = compare_runs(tmp_path / "a", tmp_path / "b")
    assert found.equal
    assert "1 evaluation(s) were recorded by one run alone" in found.notes[0]


def add_evaluation(folder):
    journal, metrics = Journal(folder / "ledger.jsonl"), Journal(folder / "metrics.jsonl")
    chain = ledger.follow(ledger.EMPTY, journal.take(journal.pending))
    metrics.take(metrics.pending)
    Notary(chain, journal, metrics).evaluation(2, {"return_": np.ones(4, np.float32)}, b"{}")


def test_a_replay_is_asked_where_nothing_was_kept_and_only_believed_where_it_repeats(tmp_path):
    change = one_more_ulp("rollout", 1, "value", (2, 1))
    make_run(tmp_path / "a", keep="none")
    make_run(tmp_path / "b", change, keep="none")
    a, b = ({"value": np.zeros((5, 4), np.float32)} for _ in "ab")
    b["value"][2, 1] = 1
    asked = []

    def repeats(folders, iteration, stage):
        asked.append((iteration, stage))
        return Recomputed((a, b), ("equal", "equal"), None, ("said",))

    found = compare_runs(tmp_path / "a", tmp_path / "b", recompute=repeats)
    assert asked == [(1, "rollout")]
    assert where(found) == (1, "rollout", "value", 2, 1, ()) and found.notes == ("said",)
    assert "gives what each run recorded" in found.cause.text

    def not_b(folders, iteration, stage):
        return Recomputed((a, b), ("equal", "differs"), None, ())

    found = compare_runs(tmp_path / "a", tmp_path / "b", recompute=not_b)
    assert found.place is None
    assert "does not give what B recorded" in found.cause.text
    assert "repeat run B" in found.cause.advice


def test_damage_is_pointed_to_the_verifier(tmp_path):
    make_run(tmp_path / "a")
    for number, (file, match) in enumerate(
        [
            ("ledger.jsonl", "record 2 or 1 of its ledger is damaged.*rlkjax.verify"),
            ("config.json", "config.json is not the file that its ledger names.*rlkjax.verify"),
            ("fingerprint.json", "fingerprint.json is not the file.*rlkjax.verify"),
        ]
    ):
        bad = make_run(tmp_path / f"b{number}")
        data = bytearray((bad / file).read_bytes())
        at = data.index(b"rescore") if file == "ledger.jsonl" else 20
        data[at] ^= 1
        (bad / file).write_bytes(data)
        with pytest.raises(ConsistencyError, match=match):
            compare_runs(tmp_path / "a", bad)
        with pytest.raises(ConsistencyError, match=match):
            compare_runs(bad, tmp_path / "a")


def test_a_changed_root_is_damage_and_not_a_difference(tmp_path):
    make_run(tmp_path / "a")
    bad = make_run(tmp_path / "b")
    lines = (bad / "ledger.jsonl").read_bytes().split(b"\n")
    record = json.loads(lines[7])
    record["root"] = "00" * 32
    lines[7] = json.dumps(record, sort_keys=True, separators=(",", ":")).encode()
    (bad / "ledger.jsonl").write_bytes(b"\n".join(lines))
    with pytest.raises(ConsistencyError, match="record 7 or 6 of its ledger is damaged"):
        compare_runs(tmp_path / "a", bad)


def test_a_changed_policy_root_is_found_by_the_record_after_it(tmp_path):
    make_run(tmp_path / "a")
    bad = make_run(tmp_path / "b")
    lines = (bad / "ledger.jsonl").read_bytes().split(b"\n")
    record = json.loads(lines[6])
    lines[6] = lines[6].replace(record["policy"].encode(), b"00" * 32)
    (bad / "ledger.jsonl").write_bytes(b"\n".join(lines))
    with pytest.raises(ConsistencyError, match="record 7 or 6 of its ledger is damaged"):
        compare_runs(tmp_path / "a", bad)


def test_a_record_without_its_keys_is_damage_though_all_links_fit(tmp_path):
    make_run(tmp_path / "a")
    bad = make_run(tmp_path / "b", keep="none")
    records = [json.loads(line) for line in (bad / "ledger.jsonl").read_bytes().splitlines()]
    del records[3]["iteration"]
    lines = []
    for record in records:
        if lines:
            record["prev"] = hashlib.sha256(b"\x00" + lines[-1]).hexdigest()
        lines.append(json.dumps(record, sort_keys=True, separators=(",", ":")).encode())
    (bad / "ledger.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    with pytest.raises(ConsistencyError, match="record 3 or 2 of its ledger is damaged"):
        compare_runs(tmp_path / "a", bad)


def test_a_changed_segment_is_damage_and_not_a_difference(tmp_path):
    make_run(tmp_path / "a")
    bad = make_run(tmp_path / "b", one_more_ulp("rollout", 1, "reward", (0, 0)))
    path = bad / "segments" / "00000001.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ConsistencyError, match="has the root .* as its record says"):
        compare_runs(tmp_path / "a", bad)


def test_wrong_folders_are_refused(tmp_path):
    make_run(tmp_path / "a")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="second run: got .*empty, want a folder that holds"):
        compare_runs(tmp_path / "a", tmp_path / "empty")
    with pytest.raises(InputError, match="first run: got .*none, want a folder that holds"):
        compare_runs(tmp_path / "none", tmp_path / "a")
    (tmp_path / "again").symlink_to(tmp_path / "a")
    with pytest.raises(InputError, match="the folder of the first run again"):
        compare_runs(tmp_path / "a", tmp_path / "again")
    (tmp_path / "empty" / "ledger.jsonl").write_bytes(b"")
    with pytest.raises(InputError, match="second run: got a ledger without a record"):
        compare_runs(tmp_path / "a", tmp_path / "empty")


def test_another_format_is_refused_by_its_name(tmp_path):
    make_run(tmp_path / "a")
    newer = make_run(tmp_path / "b")
    path = newer / "ledger.jsonl"
    path.write_bytes(path.read_bytes().replace(b"rlkjax-ledger/1", b"rlkjax-ledger/9"))
    with pytest.raises(InputError, match="got a ledger of format 'rlkjax-ledger/9', want"):
        compare_runs(tmp_path / "a", newer)


def test_a_link_that_leaves_the_run_is_not_followed(tmp_path):
    make_run(tmp_path / "a")
    bad = make_run(tmp_path / "b")
    outside = tmp_path / "outside.json"
    shutil.move(bad / "config.json", outside)
    (bad / "config.json").symlink_to(outside)
    with pytest.raises(ConsistencyError, match="config.json is not the file"):
        compare_runs(tmp_path / "a", bad)


def test_the_dictionary_has_every_key_always(pair):
    shown = pair().as_json()
    assert sorted(shown) == sorted(
        ["format", "equal", "a", "b", "iteration", "stage", "buffer", "dtype", "step"]
        + ["environment", "element", "a_bits", "b_bits", "a_value", "b_value", "ulp"]
        + ["elements_differing", "elements", "cause", "operation", "differing", "notes"]
    )
    assert shown["format"] == "rlkjax-diff-1"
    assert sorted(shown["differing"]) == ["config", "fingerprint", "flags", "versions"]
    json.dumps(shown)


def test_every_class_of_cause_is_known():
    wanted = "configuration, seed, version, flags, fingerprint, environment bytes, policy graph, "
    wanted += "reduction order, library function, contraction, precision, layout, unknown"
    assert ", ".join(CAUSES) == wanted
