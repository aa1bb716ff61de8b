"""Whole stages: ratios of exactly 1, one program for all rates, frozen statistics, counters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlkjax import launch
from rlkjax.audit import tap
from rlkjax.learner import make_stages
from rlkjax.types import LearningRate, Rescore

# A minibatch of as many samples as there are environments runs the rollout's own forward shape.
SAME_SHAPE = "ppo.minibatches=8"


def iterate(world, times, rate=None):
    """States, segments and diagnostics of a few iterations, at the config's rate or another."""
    stages = world.programs.stages
    train, state = stages.init(jnp.uint32(0))
    if rate is not None:
        train = train._replace(learning_rate=LearningRate(jnp.float32(rate), jnp.float32(0.0)))
    for _ in range(times):
        before = train
        state, segment, _ = stages.rollout(train.policy, state)
        rescored = stages.rescore(train.policy, segment)
        advantages = stages.advantages(train, segment, rescored)
        train, info = stages.update(train, segment, rescored, advantages)
        yield before, segment, rescored, advantages, train, info


@pytest.mark.parametrize("task", ["cartpole", pytest.param("pendulum", marks=pytest.mark.slow)])
def test_rate_zero_gives_ratios_of_exactly_one(world, task):
    for before, _, _, _, after, info in iterate(world(SAME_SHAPE, f"task={task}"), 4, rate=0.0):
        assert [float(info.ratio_not_one), int(info.ratio_ulp)] == [0.0, 0]
        assert float(info.approx_kl) == 0.0
        changed, same = tap.fields(after.policy.params), tap.fields(before.policy.params)
        for name, array in changed.items():
            assert array.tobytes() == same[name].tobytes(), name


def test_the_first_minibatch_of_every_iteration_has_ratios_of_exactly_one(world):
    found = list(iterate(world(SAME_SHAPE), 4))
    for _, _, _, _, _, info in found:
        assert [float(info.first_ratio_not_one), int(info.first_ratio_ulp)] == [0.0, 0]
    assert float(found[0][-1].ratio_not_one) > 0.0  # later minibatches do move


def test_two_rates_share_one_update_program(world, configure):
    # The rate is data: the lowered programs are the same text, and one program takes both.
    texts = []
    small = world()
    for each in (configure("ppo.learning_rate=1e-4"), small.config):
        stages = make_stages(each, small.env)
        train, state = jax.eval_shape(stages.init, jnp.uint32(0))
        state, segment, _ = jax.eval_shape(stages.rollout, train.policy, state)
        rescored = jax.eval_shape(stages.rescore, train.policy, segment)
        advantages = jax.eval_shape(stages.advantages, train, segment, rescored)
        lowered = jax.jit(stages.update).lower(train, segment, rescored, advantages)
        texts.append(lowered.as_text())
    assert texts[0] == texts[1]
    before, segment, rescored, advantages, after, _ = next(iterate(small, 1))
    slower = before._replace(learning_rate=LearningRate(jnp.float32(1e-4), jnp.float32(0.0)))
    other, info = small.programs.stages.update(slower, segment, rescored, advantages)
    assert float(info.learning_rate) == float(np.float32(1e-4))
    moved = [
        np.abs(tap.fields(each.policy.params)["policy_head/kernel"]).max()
        for each in (after, other)
    ]
    assert moved[0] > moved[1]


def test_statistics_are_frozen_within_an_iteration_and_merged_after_it(world):
    seen = list(iterate(world(), 3))
    for number, (before, segment, _, _, after, _) in enumerate(seen):
        stats = after.policy.obs_stats
        assert int(before.policy.obs_stats.count_low) == 32 * number
        assert int(stats.count_low) == 32 * (number + 1)
        assert int(after.iteration) == number + 1
        assert segment.obs.shape == (8, 4, 4)
    everything = np.concatenate([np.asarray(s[1].obs).reshape(-1, 4) for s in seen])
    exact = everything.astype(np.float64)
    np.testing.assert_allclose(np.asarray(stats.mean), exact.mean(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(np.asarray(stats.variance), exact.var(0), rtol=1e-4)


def test_the_world_goes_on_from_segment_to_segment(world):
    _, first, second = (each[1] for each in iterate(world(), 3))
    ended = np.asarray(first.terminated[-1] | first.truncated[-1])
    np.testing.assert_array_equal(
        np.asarray(second.obs[0])[~ended], np.asarray(first.next_obs[-1])[~ended]
    )
    assert not ended.all()


def test_counters_pass_every_power_of_two(world):
    stages = world().programs.stages
    _, segment, rescored, advantages, after, _ = next(iterate(world(), 1))
    stats = after.policy.obs_stats._replace(
        count_high=jnp.uint32(0), count_low=jnp.uint32(2**32 - 10)
    )
    old = after._replace(
        policy=after.policy._replace(obs_stats=stats), iteration=jnp.uint32(2**31 - 1)
    )
    new, info = stages.update(old, segment, rescored, advantages)
    assert int(new.iteration) == 2**31
    count = new.policy.obs_stats
    assert (int(count.count_high) << 32) + int(count.count_low) == 2**32 - 10 + 32
    assert np.isfinite(np.asarray(count.mean)).all()
    assert all(np.isfinite(np.asarray(each)).all() for each in info)


def hand_segment(segment, reward, dtype):
    return segment._replace(
        reward=jnp.asarray(np.broadcast_to(reward, segment.reward.shape), dtype),
        terminated=jnp.zeros_like(segment.terminated),
        truncated=jnp.ones_like(segment.truncated),
    )


@pytest.mark.parametrize(("scale", "dtype"), [("0.5", "float32"), ("0.5", "float16")])
def test_rewards_are_scaled_in_float32(world, configure, scale, dtype):
    # Every step is truncated: A = scale * r + gamma V' - V = 0.5 * 3 + 0.5 * 4 - 1 = 2.5; and a
    # half-precision 65504 (its largest) does not overflow on the way: 32752 + 2 - 1 = 32753.
    config = configure(f"reward.scale={scale}", f"reward.dtype={dtype}", "ppo.discount=0.5")
    stages = make_stages(config, world().env)
    blank = jnp.zeros((2, 1), jnp.float32)
    _, segment, _, _, after, _ = next(iterate(world(), 1))
    segment = jax.tree.map(lambda x: x[:2, :1], segment)
    rescored = Rescore(blank, blank + 1.0, blank + 4.0)
    for reward, want in ((3.0, 2.5), (65504.0, 32753.0)):
        got = stages.advantages(after, hand_segment(segment, reward, dtype), rescored)
        assert got.advantage.dtype == jnp.float32
        assert got.advantage.tolist() == [[want], [want]]


def test_running_reward_normalisation_divides_by_the_deviation(world, configure):
    # Variance 4: a reward of 3 counts 1.5; A = 1.5 + 0.5 * 4 - 1 = 2.5 within rounding of 1/sqrt.
    config = configure("reward.normalize=running", "ppo.discount=0.5")
    stages = make_stages(config, world().env)
    _, segment, _, _, after, _ = next(iterate(world(), 1))
    segment = hand_segment(jax.tree.map(lambda x: x[:2, :1], segment), 3.0, "float32")
    stats = after.reward_scale.stats._replace(variance=jnp.array([4.0], jnp.float32))
    after = after._replace(reward_scale=after.reward_scale._replace(stats=stats))
    blank = jnp.zeros((2, 1), jnp.float32)
    got = stages.advantages(after, segment, Rescore(blank, blank + 1.0, blank + 4.0))
    np.testing.assert_allclose(np.asarray(got.advantage), 2.5, rtol=1e-6)


def test_evaluations_have_environments_of_their_own(world):
    stages = world().programs.stages
    train, _ = stages.init(jnp.uint32(0))
    first, again = (stages.evaluate(train.policy, jnp.uint32(0)) for _ in range(2))
    for name, array in tap.fields(first).items():
        assert array.tobytes() == tap.fields(again)[name].tobytes()
    assert first.return_.shape == (4,)
    assert np.asarray(first.length).min() >= 1 and np.asarray(first.length).max() <= 10
    np.testing.assert_array_equal(np.asarray(first.return_), np.asarray(first.length))  # reward 1


def test_the_state_has_no_weak_types(world):
    small = world()
    for tree in small.programs.stages.init(jnp.uint32(0)):
        for leaf in jax.tree.leaves(tree):
            assert not getattr(leaf, "weak_type", False)


def test_seeds_differ_and_repeat(world, configure):
    init = jax.jit(make_stages(configure(), world().env).init)
    states = [tap.fields(init(jnp.uint32(seed))) for seed in (0, 0, 1)]
    assert states[0].keys() == states[2].keys()
    for name in states[0]:
        assert states[0][name].tobytes() == states[1][name].tobytes()
    assert any(states[0][name].tobytes() != states[2][name].tobytes() for name in states[0])


def test_a_state_of_half_precision_rewards_is_recorded_as_such(configure):
    config = configure("reward.dtype=float16", "reward.normalize=running", "autotune=true")
    assert [each.split(":")[0] for each in launch.switches(config)] == [
        "reward.dtype=float16",
        "reward.normalize=running",
        "autotune=true",
    ]
    assert launch.switches(configure()) == []


def without_keys(tree):
    """Leaves that are no keys: the checker of jax 0.10 stumbles over batches of keys it returns."""
    leaves = jax.tree.leaves(tree)
    return [x for x in leaves if not jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)]


def test_no_key_is_used_twice_in_any_stage(world):
    small = world()
    train, state = small.programs.shapes["train"], small.programs.shapes["world"]
    segment = small.programs.shapes["segment"]
    rescored = jax.eval_shape(small.stages.rescore, train.policy, segment)
    advantages = jax.eval_shape(small.stages.advantages, train, segment, rescored)
    number = jax.ShapeDtypeStruct((), jnp.uint32)
    given = {
        "init": (number,),
        "rollout": (train.policy, state),
        "update": (train, segment, rescored, advantages),
        "evaluate": (train.policy, number),
    }

    def twice(key):
        return jax.random.normal(key, (2,)) + jax.random.uniform(key, (2,))

    with jax.debug_key_reuse(True):
        for name, arguments in given.items():
            stage = getattr(small.stages, name)
            jax.jit(lambda *a, stage=stage: without_keys(stage(*a))).lower(*arguments)
        with pytest.raises(jax.errors.KeyReuseError, match="already consumed"):
            jax.jit(twice).lower(jax.random.key(0))


FIRST_BYTES = """
import hashlib, sys
from rlkjax.platform import flags
flags.prepare("cpu")
import jax
from rlkjax import config, launch
from rlkjax.audit import merkle, tap
from rlkjax.learner import make_stages

read = config.load_config(sys.argv[1])
stages = make_stages(read, launch.make_environment(read))
train, world = jax.jit(stages.init)(jax.numpy.uint32(0))
segment = jax.jit(stages.rollout)(train.policy, world)[1]
leaves = merkle.tensor_leaves(tap.fields((train, segment)), 0)
print(len(jax.devices()), merkle.root(leaves).hex())
"""


@pytest.mark.slow
def test_weights_and_first_actions_do_not_depend_on_the_number_of_devices(small, python):
    found = {}
    for count in (1, 4):
        ran = python(
            FIRST_BYTES, str(small), XLA_FLAGS=f"--xla_force_host_platform_device_count={count}"
        )
        devices, root = ran.stdout.split()
        found[int(devices)] = root
    assert sorted(found) == [1, 4]
    assert found[1] == found[4]
