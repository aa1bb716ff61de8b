"""The loss on two samples by hand, the optimiser's first step, schedules and ratio distances."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import pytest

from rlkjax import normalize, optimizer, ppo, reward
from rlkjax.config import PPOConfig
from rlkjax.distribution import Distribution
from rlkjax.policy import Policy
from rlkjax.types import LearningRate, PolicyState, RewardScale, Segment

CONFIG = PPOConfig(
    clip_epsilon=0.2,
    value_cost=0.5,
    entropy_cost=0.01,
    normalize_advantage=False,
    max_grad_norm=None,
)

# A policy whose outputs are its observation: log-probability of any action = obs, entropy 0.7, and
# value = params * obs_value. So a test chooses every ratio itself.
FAMILY = Distribution(
    size=1,
    sample=lambda key, outputs: jnp.int32(0),
    log_prob=lambda outputs, action: outputs[..., 0],
    entropy=lambda outputs: jnp.full(outputs.shape[:-1], 0.7, jnp.float32),
    mode=lambda outputs: jnp.int32(0),
    to_env=lambda action: action,
)
POLICY = Policy(
    FAMILY,
    init=lambda key: {"value": jnp.float32(1.0)},
    forward=lambda state, obs: (
        obs + 0.0 * state.params["value"],
        jnp.broadcast_to(state.params["value"], obs.shape[:-1]),
    ),
    value=lambda state, obs: jnp.broadcast_to(state.params["value"], obs.shape[:-1]),
)
PARAMS = {"value": jnp.float32(1.0)}
STATE = PolicyState(PARAMS, normalize.init(1))


def batch(ratios, advantage, *, value=(0.0, 3.0), return_=(2.0, 4.0)):
    def array(numbers):
        return jnp.asarray(numbers, jnp.float32)

    return ppo.Batch(
        obs=jnp.log(array(ratios))[:, None],
        action=jnp.zeros(len(ratios), jnp.int32),
        log_prob=jnp.zeros(len(ratios), jnp.float32),
        value=array(value),
        advantage=array(advantage),
        return_=array(return_),
    )


def loss(samples, **changes):
    config = dataclasses.replace(CONFIG, **changes)
    total, info = ppo.ppo_loss(PARAMS, samples, POLICY, state=STATE, config=config)
    return float(total), {name: float(value) for name, value in info.items()}


def test_loss_on_two_samples():
    # ratio 1.5, A = 2:   min(3.0, 1.2 * 2) = 2.4    (clipped: the gain is capped)
    # ratio 0.5, A = -1:  min(-0.5, 0.8 * -1) = -0.8 (clipped: the worse of both counts)
    # policy loss = -(2.4 - 0.8) / 2 = -0.8
    # V = 1, R = 2 and 4: value loss = ((1 - 2)^2 + (1 - 4)^2) / 2 / 2 = 2.5
    # L = -0.8 + 0.5 * 2.5 - 0.01 * 0.7 = 0.443
    total, info = loss(batch([1.5, 0.5], [2.0, -1.0]))
    assert info["policy_loss"] == pytest.approx(-0.8, rel=1e-6)
    assert info["value_loss"] == 2.5
    assert info["entropy"] == pytest.approx(0.7, rel=1e-6)
    assert total == pytest.approx(0.443, rel=1e-6)
    # KL estimate: (0.5 - log 1.5 - 0.5 - log 0.5) / 2 = -log(0.75) / 2
    assert info["approx_kl"] == pytest.approx(-math.log(0.75) / 2, rel=1e-6)
    assert info["clip_fraction"] == 1.0
    assert info["ratio_not_one"] == 1.0


@pytest.mark.parametrize(
    ("ratio", "advantage", "surrogate"),
    [
        (1.5, 2.0, 2.4),  # better than allowed: capped
        (1.5, -2.0, -3.0),  # moved the wrong way: not capped
        (0.5, 2.0, 1.0),  # moved the wrong way: not capped
        (0.5, -2.0, -1.6),  # capped
        (1.1, 2.0, 2.2),  # inside
        (0.9, -2.0, -1.8),  # inside
    ],
)
def test_the_clip_is_pessimistic(ratio, advantage, surrogate):
    _, info = loss(batch([ratio], [advantage], value=[0.0], return_=[1.0]))
    assert info["policy_loss"] == pytest.approx(-surrogate, rel=1e-6)


def test_no_gradient_flows_through_a_capped_ratio():
    def policy_loss(obs):
        samples = batch([1.0, 1.0], [2.0, 2.0])._replace(obs=obs)
        return ppo.ppo_loss(PARAMS, samples, POLICY, state=STATE, config=CONFIG)[1]["policy_loss"]

    gradient = jax.grad(policy_loss)(jnp.log(jnp.array([[1.5], [0.75]], jnp.float32)))
    # -mean(r A): second sample d/d log r = -0.75 * 2 / 2 = -0.75; the first is capped.
    assert gradient[:, 0].tolist() == pytest.approx([0.0, -0.75], rel=1e-6)


def test_normalised_advantages():
    # A = 2, -1: mean 0.5, deviation 1.5, so 1 and -1; min(1.5, 1.2) = 1.2; min(-0.5, -0.8) = -0.8
    _, info = loss(batch([1.5, 0.5], [2.0, -1.0]), normalize_advantage=True)
    assert info["policy_loss"] == pytest.approx(-(1.2 - 0.8) / 2, rel=1e-6)


def test_value_clipping_takes_the_larger_error():
    # V = 1, old values 0 and 3, bound 0.5: clipped values 0.5 and 2.5.
    # errors: max((1-2)^2, (0.5-2)^2) = 2.25; max((1-4)^2, (2.5-4)^2) = 9; half the mean = 2.8125
    _, info = loss(batch([1.0, 1.0], [0.0, 0.0]), value_clip_epsilon=0.5)
    assert info["value_loss"] == 2.8125
    # A bound that is never reached changes nothing.
    _, wide = loss(batch([1.0, 1.0], [0.0, 0.0]), value_clip_epsilon=10.0)
    assert wide["value_loss"] == 2.5


@pytest.mark.parametrize("advantage", [[5.0], [3.0, 3.0, 3.0, 3.0], [0.0, 0.0]])
def test_equal_advantages_give_zeros(advantage):
    got = ppo.normalize_advantage(jnp.asarray(advantage, jnp.float32))
    assert got.tolist() == [0.0] * len(advantage)


def test_advantages_by_hand():
    # 1, 3, 5, 7: mean 4, population deviation sqrt((9 + 1 + 1 + 9) / 4) = sqrt 5
    got = ppo.normalize_advantage(jnp.array([1.0, 3.0, 5.0, 7.0], jnp.float32))
    expected = [-3 / 5**0.5, -1 / 5**0.5, 1 / 5**0.5, 3 / 5**0.5]
    assert got.tolist() == pytest.approx(expected, rel=1e-6)


def test_a_minibatch_of_one_has_a_finite_gradient():
    config = dataclasses.replace(CONFIG, normalize_advantage=True)
    samples = batch([1.0], [5.0], value=[0.0], return_=[2.0])
    gradient = jax.grad(
        lambda params: ppo.ppo_loss(params, samples, POLICY, state=STATE, config=config)[0]
    )(PARAMS)
    # Advantage 0, so the value alone learns: 0.5 * (V - R) = 0.5 * (1 - 2)
    assert float(gradient["value"]) == -0.5


def test_ratio_distance_counts_places():
    # Next above 1 is 1 + 2^-23, next below is 1 - 2^-24; 1 + 2^-20 is eight places away.
    ratio = jnp.array([1.0, 1.0 + 2.0**-23, 1.0 - 2.0**-24, 1.0], jnp.float32)
    assert [x.tolist() for x in ppo.ratio_distance(ratio)] == [0.5, 1]
    assert int(ppo.ratio_distance(jnp.array([1.0 + 2.0**-20], jnp.float32))[1]) == 8
    assert [x.tolist() for x in ppo.ratio_distance(jnp.ones(5, jnp.float32))] == [0.0, 0]


def rates(initial, slope, iterations):
    schedule = LearningRate(jnp.float32(initial), jnp.float32(slope))
    return [float(optimizer.rate(schedule, jnp.uint32(each))) for each in iterations]


def test_the_rate_falls_linearly_and_stops_at_zero():
    assert rates(1.0, 0.25, [0, 1, 2, 4, 5, 1000]) == [1.0, 0.75, 0.5, 0.0, 0.0, 0.0]
    assert rates(0.5, 0.0, [0, 2**32 - 1]) == [0.5, 0.5]


def first_step(gradient, **changes):
    adam = optimizer.make_optimizer(dataclasses.replace(CONFIG, **changes))
    params = {"a": jnp.zeros(1, jnp.float32), "b": jnp.zeros(1, jnp.float32)}
    grads = {name: jnp.array([g], jnp.float32) for name, g in zip("ab", gradient, strict=True)}
    step, _ = adam.update(grads, adam.init(params))
    return [float(step["a"][0]), float(step["b"][0])]


def test_the_first_step_of_adam():
    # Bias correction cancels in the first step: g / (|g| + eps); with eps = 1: 3/4 and -4/5.
    assert first_step([3.0, -4.0], adam_epsilon=1.0) == pytest.approx([0.75, -0.8], rel=1e-5)


def test_gradients_are_clipped_by_their_global_norm():
    # |(3, 4)| = 5, clipped to 1: 0.6 and 0.8; then Adam: 0.6/1.6 and 0.8/1.8.
    got = first_step([3.0, 4.0], adam_epsilon=1.0, max_grad_norm=1.0)
    assert got == pytest.approx([0.375, 0.8 / 1.8], rel=1e-5)
    # A norm below the bound is left alone.
    got = first_step([3.0, 4.0], adam_epsilon=1.0, max_grad_norm=6.0)
    assert got == pytest.approx([0.75, 0.8], rel=1e-5)


def test_second_moments_below_the_normal_range_are_flushed():
    # The rule of native numerics on a CPU: what is below 2^-126 is 0, in Adam as anywhere. A
    # gradient of 1e-20 has the square 1e-40; one of 1e-18 has 1e-36, of which Adam keeps 1/1000.
    adam = optimizer.make_optimizer(CONFIG)
    for gradient, second in ((1e-20, 0.0), (1e-18, 1e-39), (1e-15, 1e-33)):
        grads = {"w": jnp.array([gradient], jnp.float32)}
        _, state = jax.jit(adam.update)(grads, adam.init(grads))
        (nu,) = (float(x[0]) for x in jax.tree.leaves(state.nu))
        assert nu == pytest.approx(second if second >= 2.0**-126 else 0.0, rel=1e-5, abs=0.0)


def test_discounted_returns_for_the_reward_scale():
    # gamma 1/2, G carried in: 4. Rewards 1, 2, 3 with an ending at the second step:
    # G = 4/2 + 1 = 3; 3/2 + 2 = 3.5, then back to 0; 0 + 3 = 3, carried on.
    # mean (3 + 3.5 + 3)/3 = 19/6, variance (2 * (1/6)^2 + (1/3)^2)/3 = 1/18
    def column(numbers, dtype=jnp.float32):
        return jnp.asarray(numbers, dtype)[:, None]

    for ending in ("terminated", "truncated"):
        flags = dict.fromkeys(("terminated", "truncated"), column([False] * 3, jnp.bool_))
        flags[ending] = column([False, True, False], jnp.bool_)
        blank = dict.fromkeys(("obs", "next_obs", "action", "log_prob", "value"))
        segment = Segment(**blank, **flags, reward=column([1.0, 2.0, 3.0]), info={})
        scale = RewardScale(normalize.init(1), jnp.array([4.0], jnp.float32))
        got = reward.merge(scale, segment, 0.5)
        assert got.discounted_return.tolist() == [3.0]
        assert float(got.stats.mean[0]) == pytest.approx(19 / 6, rel=1e-6)
        assert float(got.stats.variance[0]) == pytest.approx(1 / 18, rel=1e-5)
        assert int(got.stats.count_low) == 3
