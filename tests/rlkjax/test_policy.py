"""The policy graph, and the unit that keeps the compiler from fusing it with its neighbours."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlkjax import normalize
from rlkjax.config import Config, NetworkConfig, ObservationConfig
from rlkjax.network import ACTIVATIONS
from rlkjax.policy import isolate, make_policy
from rlkjax.types import PolicyState
from vimejax.types import Continuous, Discrete, EnvSpec

DISCRETE = EnvSpec("d", obs_size=3, action=Discrete(2))
CONTINUOUS = EnvSpec("c", obs_size=3, action=Continuous(2))


def config(normalize_obs=False, clip=10.0, **network):
    return Config(
        task="d",
        total_steps=1,
        network=NetworkConfig(**network),
        observations=ObservationConfig(normalize=normalize_obs, clip=clip),
    )


def shapes(params):
    return {
        jax.tree_util.keystr(p, simple=True, separator="/"): x.shape
        for p, x in jax.tree_util.tree_flatten_with_path(params)[0]
    }


def test_separate_torsos():
    policy = make_policy(config(policy_hidden=(5,), value_hidden=(7, 6)), DISCRETE)
    assert shapes(policy.init(jax.random.key(0))) == {
        "policy_torso/dense_0/kernel": (3, 5),
        "policy_torso/dense_0/bias": (5,),
        "policy_head/kernel": (5, 2),
        "policy_head/bias": (2,),
        "value_torso/dense_0/kernel": (3, 7),
        "value_torso/dense_0/bias": (7,),
        "value_torso/dense_1/kernel": (7, 6),
        "value_torso/dense_1/bias": (6,),
        "value_head/kernel": (6, 1),
        "value_head/bias": (1,),
    }


def test_a_shared_torso_and_a_linear_policy():
    shared = make_policy(
        config(policy_hidden=(5,), value_hidden=(5,), shared_torso=True), CONTINUOUS
    )
    assert shapes(shared.init(jax.random.key(0))) == {
        "policy_torso/dense_0/kernel": (3, 5),
        "policy_torso/dense_0/bias": (5,),
        "policy_head/kernel": (5, 4),  # two means, two deviations
        "policy_head/bias": (4,),
        "value_head/kernel": (5, 1),
        "value_head/bias": (1,),
    }
    linear = make_policy(config(policy_hidden=(), value_hidden=()), DISCRETE)
    assert shapes(linear.init(jax.random.key(0)))["policy_head/kernel"] == (3, 2)


@pytest.mark.parametrize("shared", [False, True])
def test_the_value_alone_is_that_of_the_whole(shared):
    policy = make_policy(
        config(True, policy_hidden=(8,), value_hidden=(8,), shared_torso=shared), DISCRETE
    )
    state = PolicyState(policy.init(jax.random.key(1)), normalize.init(3))
    obs = jax.random.normal(jax.random.key(2), (5, 3), jnp.float32)
    outputs, value = policy.forward(state, obs)
    assert (outputs.shape, value.shape) == ((5, 2), (5,))
    np.testing.assert_array_equal(np.asarray(policy.value(state, obs)), np.asarray(value))


def test_a_linear_policy_by_hand():
    policy = make_policy(config(True, clip=2.0, policy_hidden=(), value_hidden=()), DISCRETE)
    params = {
        "policy_head": {
            "kernel": jnp.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]], jnp.float32),
            "bias": jnp.array([0.5, 0.0], jnp.float32),
        },
        "value_head": {
            "kernel": jnp.array([[1.0], [1.0], [1.0]], jnp.float32),
            "bias": jnp.array([0.25], jnp.float32),
        },
    }
    stats = normalize.init(3)._replace(mean=jnp.array([1.0, 0.0, 0.0], jnp.float32))
    # obs (2, -1, 9), centred (1, -1, 9), clipped at 2: (1, -1, 2)
    # outputs: 1 + 0.5 = 1.5 and -2; value: 1 - 1 + 2 + 0.25 = 2.25
    outputs, value = policy.forward(
        PolicyState(params, stats), jnp.array([[2.0, -1.0, 9.0]], jnp.float32)
    )
    assert (outputs.tolist(), value.tolist()) == ([[1.5, -2.0]], [2.25])


def test_the_first_policy_hardly_prefers_anything():
    policy = make_policy(config(), DISCRETE)
    state = PolicyState(policy.init(jax.random.key(0)), normalize.init(3))
    obs = jax.random.normal(jax.random.key(1), (1000, 3), jnp.float32)
    outputs, value = policy.forward(state, obs)
    assert 0.0 < float(jnp.max(jnp.abs(outputs))) < 0.1
    assert 0.1 < float(jnp.std(value)) < 10.0


def test_activations():
    x = jnp.array([-2.0, 0.0, 1.0], jnp.float32)
    # swish(1) = 1 / (1 + e^-1) = 0.73105858; swish(-2) = -2 / (1 + e^2) = -0.23840584
    assert ACTIVATIONS["swish"](x).tolist() == pytest.approx([-0.23840584, 0.0, 0.73105858])
    assert ACTIVATIONS["relu"](x).tolist() == [0.0, 0.0, 1.0]
    assert ACTIVATIONS["tanh"](x).tolist() == pytest.approx([-0.96402758, 0.0, 0.76159416])


def double(x):
    return {"twice": x * 2.0, "sum": jnp.sum(x)}


@pytest.mark.parametrize("first", [0.0, -0.0, 1.0, np.nan, np.inf, -1e-45, 5.0])
def test_an_isolated_unit_is_the_same_mapping(first):
    x = jnp.array([first, 3.0], jnp.float32)
    want, got = jax.jit(double)(x), jax.jit(isolate(double))(x)
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for a, b in zip(jax.tree.leaves(want), jax.tree.leaves(got), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_the_predicate_of_the_unit_is_true_for_every_residue():
    # r^2 mod 8 depends on r mod 8 alone: 0, 1, 4, 1, 0, 1, 4, 1; never 5.
    assert {r * r % 8 for r in range(8)} == {0, 1, 4}


def test_the_unit_stands_as_a_named_function_in_a_program():
    text = jax.jit(lambda x: isolate(double)(x + 1.0)).lower(jnp.ones(2, jnp.float32)).as_text()
    assert "func.func private @double" in text
    assert "stablehlo.case" in text or "stablehlo.if" in text


def test_gradients_pass_through_the_unit():
    def square(x):
        return x * x

    got = jax.grad(lambda x: jnp.sum(isolate(square)(x)))(jnp.array([3.0, -1.0], jnp.float32))
    assert got.tolist() == [6.0, -2.0]
