"""The policy graph inside lowered programs, and what those programs may not contain."""

import functools
import re

import jax
import jax.numpy as jnp
import pytest

from rlkjax import lowered, programs
from rlkjax.errors import ConsistencyError
from rlkjax.learner import make_stages
from rlkjax.learner_arguments import stage_arguments
from vimejax import keys, registry, wrap

NATIVE = ["cartpole", "mountain_car_continuous", "noisy_point", "pendulum", "sparse_grid"]


@jax.jit
def double(x):
    return jnp.sin(x) * 2.0


@jax.jit
def outer(x):
    return double(x) + double(x + 1.0)


def text(function, shape=(3,)):
    return jax.jit(function).lower(jnp.ones(shape, jnp.float32)).as_text()


def test_a_function_is_found_with_all_that_it_calls():
    module = text(lambda x: outer(x) - 1.0)
    assert {"main", "outer", "double"} <= set(lowered.functions(module))
    found = lowered.extract(module, "outer")
    assert "@f0" in found and "@f1" in found and "@outer" not in found and "@double" not in found
    assert found.count("func.func") == 2


def test_what_stands_around_does_not_matter():
    alone = lowered.digest(text(lambda x: outer(x)), ["outer"])
    among = lowered.digest(text(lambda x: jnp.cos(outer(x * 3.0)) + jnp.sum(x)), ["outer"])
    in_loop = text(lambda x: jax.lax.fori_loop(0, 3, lambda _, y: outer(y), x))
    assert alone == among == lowered.digest(in_loop, ["outer"])


def test_names_that_jax_numbers_do_not_matter():
    def first(x):
        @jax.jit
        def double(y):
            return jnp.cos(y)

        return outer(double(x))

    # Two functions are called double here, so that JAX numbers one of them; outer is the same.
    assert lowered.digest(text(first), ["outer"]) == lowered.digest(text(outer), ["outer"])


@pytest.mark.parametrize(
    "changed", [lambda x: jnp.sin(x) * 2.5, lambda x: jnp.cos(x) * 2.0, lambda x: jnp.sin(x) + 2.0]
)
def test_one_other_constant_or_operation_gives_another_digest(changed):
    changed.__name__ = "double"
    other = text(lambda x: jax.jit(changed)(x))
    mine = text(lambda x: double(x))
    assert lowered.digest(other, ["double"]) != lowered.digest(mine, ["double"])


def test_another_shape_gives_another_digest():
    assert lowered.digest(text(outer, (3,)), ["outer"]) != lowered.digest(
        text(outer, (4,)), ["outer"]
    )


def test_the_order_of_names_counts():
    module = text(lambda x: outer(x))
    assert lowered.digest(module, ["outer", "double"]) != lowered.digest(
        module, ["double", "outer"]
    )


def test_a_missing_name_and_two_versions_are_refused():
    with pytest.raises(ConsistencyError, match="found 0 versions of 'policy_forward'"):
        lowered.digest(text(lambda x: outer(x)), ["policy_forward"])

    def twice(x):
        def double(y):
            return jnp.cos(y)

        return outer(jax.jit(double)(x))

    with pytest.raises(ConsistencyError, match="found 2 versions of 'double'"):
        lowered.extract(text(twice), "double")


# --- the programs of a run -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def texts(configure):
    """StableHLO of the stages of the small run, not compiled."""
    stages = make_stages(configure(), registry.make("cartpole", episode_length=10))
    given = stage_arguments(stages)
    return {
        name: jax.jit(getattr(stages, name)).lower(*arguments).as_text()
        for name, arguments in given.items()
        if name in ("rollout", "rescore", "update")
    }


def test_rollout_and_rescore_hold_one_policy_graph(texts):
    graphs = {lowered.digest(texts[name], programs.GRAPH) for name in ("rollout", "rescore")}
    assert len(graphs) == 1


def test_one_constant_changed_in_the_policy_is_seen(texts):
    forward = re.compile(r"(func\.func private @policy_forward.*?^  }$)", re.DOTALL | re.MULTILINE)
    function = forward.search(texts["rescore"])[1]
    constant = re.search(r"dense<[^>]*>", function)[0]
    changed = texts["rescore"].replace(function, function.replace(constant, "dense<1.5>", 1))
    assert changed != texts["rescore"]
    assert lowered.digest(changed, programs.GRAPH) != lowered.digest(
        texts["rollout"], programs.GRAPH
    )


def test_other_graphs_in_rollout_and_rescore_are_refused(configure):
    stages = make_stages(configure(), registry.make("cartpole", episode_length=10))

    def rescore(state, segment):
        half = stages.rescore(state, jax.tree.map(lambda x: x[:, :2], segment))
        return jax.tree.map(lambda x: jnp.concatenate([x, x], 1), half)

    with pytest.raises(ConsistencyError, match="policy graph: rollout has .* want one graph"):
        programs.compile_stages(stages._replace(rescore=rescore))


def test_every_dot_carries_the_highest_precision(texts):
    for name, module in texts.items():
        dots = [line for line in module.splitlines() if "dot_general" in line]
        assert dots, name
        for line in dots:
            assert "precision = [HIGHEST, HIGHEST]" in line, line


def scatters(module):
    """Scatter operations that are not marked as writing each place once."""
    found = re.findall(r"\"stablehlo\.scatter\".*?<\{.*?\}>", module, re.DOTALL)
    return [each for each in found if "unique_indices = true" not in each]


@functools.cache
def step_text(task):
    stream = wrap.stream(registry.make(task, episode_length=5), 4)
    key = jax.vmap(keys.environment_key, (None, 0))(
        keys.run_key(0, keys.Stream.TRAIN), jnp.arange(4, dtype=jnp.uint32)
    )
    state, _ = jax.eval_shape(stream.init, key)
    action = jax.ShapeDtypeStruct((4,), jnp.int32)
    if hasattr(stream.spec.action, "size"):
        action = jax.ShapeDtypeStruct((4, stream.spec.action.size), jnp.float32)
    return jax.jit(stream.step).lower(state, action).as_text()


@pytest.mark.parametrize("task", NATIVE)
def test_steps_scatter_only_to_places_that_differ(task):
    assert scatters(step_text(task)) == []


def test_the_stages_scatter_only_to_places_that_differ(texts):
    assert {name: scatters(module) for name, module in texts.items()} == {
        "rollout": [],
        "rescore": [],
        "update": [],
    }


def test_a_scatter_that_adds_up_is_found():
    def add(x):
        return jnp.zeros(2, jnp.float32).at[jnp.array([0, 0, 1])].add(x)

    def put(x):
        return jnp.zeros(9, jnp.float32).at[jnp.array([0, 4, 1])].set(x, unique_indices=True)

    assert len(scatters(text(add))) == 1
    assert scatters(text(put)) == []


def test_no_stage_calls_back_into_the_host(texts):
    for name, module in texts.items():
        assert not re.search(r"callback|infeed|outfeed|stablehlo\.(send|recv)", module), name
