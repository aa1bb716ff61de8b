"""The class of cause from evidence, where files alone cannot bring that evidence about."""

import pytest

from rlkjax.audit.causes import Evidence, classify, suspects
from rlkjax.audit.difference import Entry, Operation, Settings
from rlkjax.audit.elements import Place
from rlkjax.audit.settings import config_entries, first_stage, kind_of


def operation(cause):
    return Operation("exp", "net.py:7 (policy)", cause=cause)


@pytest.mark.parametrize(
    "kind", ["library function", "contraction", "precision", "reduction order"]
)
def test_an_operation_that_shows_its_cause_decides_where_no_setting_differs(kind):
    found = classify(Evidence(0, "update", operation=operation(kind)))
    assert (found.kind, found.certain) == (kind, True)
    assert "exp at net.py:7 (policy)" in found.text and "numerics: exact" in found.advice


def test_an_operation_that_shows_nothing_does_not():
    found = classify(Evidence(0, "update", operation=operation("unknown")))
    assert (found.kind, found.certain) == ("unknown", False)


def test_an_operation_is_told_of_where_a_setting_differs():
    settings = Settings(flags=(Entry("xla_cpu_max_isa", "AVX2", "AVX"),))
    found = classify(Evidence(0, "update", settings, operation=operation("contraction")))
    assert found.kind == "flags"
    assert "exp at net.py:7 (policy), by itself a matter of contraction" in found.text


def test_the_world_is_blamed_for_what_it_states_and_not_for_what_is_computed_from_it():
    assert classify(Evidence(2, "rollout", place=Place("obs", step=3))).kind == "environment bytes"
    assert classify(Evidence(2, "rollout", place=Place("info/height"))).kind == "environment bytes"
    assert classify(Evidence(2, "rollout", place=Place("action"))).kind == "unknown"
    assert classify(Evidence(2, "advantages", place=Place("obs"))).kind == "unknown"


def test_a_replay_that_gives_neither_record_says_so_of_the_world():
    place = Place("reward", step=3)
    found = classify(Evidence(2, "rollout", place=place, replayed=("differs", "differs")))
    assert "a replay here does not give what A and B recorded" in found.text


def test_in_exact_numerics_a_library_of_the_world_can_still_be_the_cause():
    versions = (Entry("package.brax", "0.14.2", "0.15"), Entry("package.jax", "0.10.2", "0.12"))
    found = suspects(Evidence(0, "rollout", Settings(versions=versions), exact=True))
    assert [each.entry.key for each in found] == ["package.brax"]
    assert len(suspects(Evidence(0, "rollout", Settings(versions=versions)))) == 2


def test_several_settings_of_one_kind_are_not_told_apart():
    versions = tuple(Entry(f"package.p{number}", "1", "2") for number in range(6))
    found = classify(Evidence(0, "rollout", Settings(versions=versions)))
    assert found.kind == "version" and found.certain
    assert "and 2 more" in found.text and "which of these acts cannot be told" in found.text


@pytest.mark.parametrize(
    ("key", "stage"),
    [
        ("seed", "init"),
        ("network.policy_hidden", "init"),
        ("rollout.num_envs", "rollout"),
        ("env.dt", "rollout"),
        ("reward.dtype", "rollout"),
        ("reward.scale", "advantages"),
        ("ppo.discount", "advantages"),
        ("ppo.clip_epsilon", "update"),
        ("total_steps", "update"),
        ("evaluation.episodes", "evaluation"),
        ("evaluation.every", None),
        ("checkpoint.keep", None),
        ("audit.keep_segments", None),
        ("platform", None),
    ],
)
def test_each_key_has_the_first_stage_that_reads_it(key, stage):
    assert first_stage(key) == stage


def test_keys_are_compared_flat_and_floats_read_as_numbers():
    a = {"ppo": {"learning_rate": (0.1).hex(), "epochs": 4}, "task": "cartpole", "extra": 1}
    b = {"ppo": {"learning_rate": (0.2).hex(), "epochs": 4}, "task": "cartpole"}
    assert [(each.key, each.a, each.b) for each in config_entries(a, b)] == [
        ("extra", "1", "absent"),
        ("ppo.learning_rate", "0.1", "0.2"),
    ]


@pytest.mark.parametrize("text", ["0x1p99999", "-0x1p99999", "0x", "0x1pz"])
def test_a_text_that_is_no_float_is_shown_as_it_is(text):
    (entry,) = config_entries({"task": text}, {"task": "0x1p-1"})
    assert (entry.a, entry.b) == (text, "0.5")


def test_entries_of_a_fingerprint_have_their_kind():
    kinds = {"package.jax": "versions", "python.version": "versions", "xla.flags": "flags"}
    kinds |= {"environment.NCCL_DEBUG": "flags", "cpu.model": "fingerprint"}
    assert {key: kind_of(key) for key in kinds} == kinds
