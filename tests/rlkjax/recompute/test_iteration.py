"""An iteration judged by the reference: equal to itself, and every flipped bit found in place."""

import dataclasses

import numpy as np
import pytest

from rlkjax.audit import merkle
from rlkjax.audit.notary import state_roots
from rlkjax.audit.tolerance import EQUAL, Limit
from rlkjax.config import ToleranceConfig
from rlkjax.errors import ConsistencyError
from rlkjax.recompute import iteration


@pytest.fixture(scope="module")
def once(given):
    """The recomputation done once: the trees that the reference makes of the given ones."""
    made = given.recompute.run(
        {
            name: iteration.tap.rebuild(like, iteration.nested(given.fields)[name])
            for name, like in given.recompute.like.items()
        }
    )
    return given.recompute._replace(run=lambda trees: made)


def test_the_reference_agrees_with_itself_from_files_alone(given):
    judgement = iteration.judge(given.recompute, 0, given.fields)
    assert (judgement.stage, judgement.place, judgement.alerts) == (None, None, ())
    segment = iteration.nested(given.fields)["segment"]
    assert judgement.segment == merkle.root(merkle.segment_leaves(segment, 0)).hex()
    after = iteration.nested(given.fields)["after"]
    assert judgement.state == state_roots(after, 1)[0]
    assert {values.differing for values in judgement.measured.values()} == {0.0}
    trees = {name.partition("/")[0] for name in judgement.measured}
    assert trees == {"segment", "world_after", "rescored", "advantages", "after"}


@pytest.mark.parametrize(
    ("buffer", "index", "stage", "place"),
    [
        ("segment/reward", (5, 2), "rollout", ("reward", 5, 2, ())),
        ("segment/obs", (7, 0, 3), "rollout", ("obs", 7, 0, (3,))),
        ("segment/terminated", (3, 1), "rollout", ("terminated", 3, 1, ())),
        ("world_after/episodes/length", (3,), "rollout", ("episodes/length", None, None, (3,))),
        ("rescored/bootstrap_value", (0, 3), "rescore", ("bootstrap_value", 0, 3, ())),
        ("advantages/return_", (6, 1), "advantages", ("return_", 6, 1, ())),
        (
            "after/policy/params/value_head/kernel",
            (4, 0),
            "update",
            ("policy/params/value_head/kernel", None, None, (4, 0)),
        ),
    ],
)
def test_one_flipped_bit_is_found_at_its_element(given, once, buffer, index, stage, place):
    judgement = iteration.judge(once, 0, given.flipped(buffer, index, 0))
    found = judgement.place
    assert judgement.stage == stage
    assert (found.buffer, found.step, found.environment, found.element) == place
    assert int(found.a_bits, 16) ^ int(found.b_bits, 16) == 1
    # The roots are the reference's own, not those of the run that it disagrees with.
    whole = iteration.judge(once, 0, given.fields)
    assert (judgement.segment, judgement.state) == (whole.segment, whole.state)


def test_a_difference_belongs_to_the_first_stage_of_the_pipeline(given, once):
    spoiled = given.flipped("after/iteration", (), 0)
    spoiled |= {"rescored/value": given.flipped("rescored/value", (1, 1), 3)["rescored/value"]}
    assert iteration.judge(once, 0, spoiled).stage == "rescore"


def test_what_a_stage_was_given_is_what_the_fast_path_had(given):
    # Advantages of a segment whose reward was changed are right for that segment: the rollout is
    # to blame, and it alone is measured apart.
    spoiled = given.flipped("segment/reward", (4, 2), 20)
    stages = given.recompute.run(
        {
            name: iteration.tap.rebuild(like, iteration.nested(spoiled)[name])
            for name, like in given.recompute.like.items()
        }
    )
    changed = np.asarray(stages["advantages"].advantage)
    assert (changed != given.fields["advantages/advantage"]).any()
    assert np.array_equal(np.asarray(stages["segment"].reward), given.fields["segment/reward"])


def test_thresholds_come_from_the_config(given, once):
    # Bit 13 of the reward 1.0 is 2^-10 = 9.8e-4 of it: past 1e-6, and 1 of 32 rewards is past 1 %.
    spoiled = given.flipped("segment/reward", (0, 0), 13)
    strict = iteration.judge(once, 0, spoiled).alerts
    assert [(each.buffer, each.measure) for each in strict] == [
        ("segment/reward", "max_rel"),
        ("segment/reward", "differing"),
    ]
    assert strict[0].got == pytest.approx(2**-10, rel=1e-2)
    assert strict[1].got == 1 / 32
    wide = ToleranceConfig(reward_relative=1e-3, reward_differing=1 / 32)
    assert iteration.judge(once._replace(tolerance=wide), 0, spoiled).alerts == ()


def test_actions_and_episode_ends_are_equal_whatever_the_thresholds(given, once):
    wide = ToleranceConfig(1e9, 1.0, 1e9, 1e9, 1e9)
    for buffer in ("segment/action", "segment/terminated", "segment/truncated"):
        spoiled = given.flipped(buffer, (2, 2), 0)
        found = iteration.judge(once._replace(tolerance=wide), 0, spoiled).alerts
        assert [(each.buffer, each.measure, each.limit) for each in found] == [
            (buffer, "differing", 0.0)
        ]


def test_the_limit_of_each_buffer():
    wanted = ToleranceConfig(
        reward_relative=1.0, reward_differing=0.5, action=0.25, rollout=3.0, training=4.0
    )
    number, word = np.zeros(1, np.float32), np.zeros(1, np.int32)
    limits = {
        ("segment/reward", "f"): Limit(max_rel=1.0, differing=0.5),
        ("segment/action", "f"): Limit(max_scaled=0.25),
        ("segment/action", "i"): EQUAL,
        ("segment/value", "f"): Limit(max_scaled=3.0),
        ("world_after/stream/obs", "f"): Limit(max_scaled=3.0),
        ("rescored/value", "f"): Limit(max_scaled=4.0),
        ("advantages/return_", "f"): Limit(max_scaled=4.0),
        ("after/policy/params/x", "f"): Limit(max_scaled=4.0),
        ("after/iteration", "i"): EQUAL,
    }
    for (key, kind), limit in limits.items():
        assert iteration.limit_of(wanted, key, number if kind == "f" else word) == limit
    exact_action = dataclasses.replace(wanted, action=0.0)
    assert iteration.limit_of(exact_action, "segment/action", number) == Limit(
        max_scaled=0.0, differing=0.0
    )


def test_a_missing_buffer_is_named(given, once):
    less = {name: x for name, x in given.fields.items() if name != "segment/info/nonfinite"}
    with pytest.raises((KeyError, ConsistencyError), match="nonfinite"):
        iteration.judge(once, 0, less)
