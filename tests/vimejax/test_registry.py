"""Names, their messages, the order of the wrappers, and engines that stay unimported."""

import jax
import jax.numpy as jnp
import pytest

from vimejax import registry
from vimejax.errors import EngineError, SpecError, UnknownTaskError

KEY = jax.random.key(0)


def test_names_are_sorted_and_hold_both_kinds():
    names = registry.names()
    assert list(names) == sorted(set(names))
    assert {"cartpole", "pendulum", "sparse_grid", "probe_both", "brax/ant"} <= set(names)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("cartpol", "cartpole"),
        ("ant", "brax/ant"),
        ("brax/antt", "brax/ant"),
        ("Pendulum", "pendulum"),
    ],
)
def test_an_unknown_name_shows_the_nearest_and_all(name, near):
    with pytest.raises(
        UnknownTaskError, match=f"task: got '{name}'.*did you mean .*{near}"
    ) as caught:
        registry.make(name, episode_length=10)
    for known in registry.names():
        assert known in str(caught.value)


@pytest.mark.parametrize("name", ["", "brax", "brax/", "playground", "xyzzy", "isaac/ant"])
def test_a_name_like_none_is_refused_too(name):
    with pytest.raises(UnknownTaskError, match="want a known name"):
        registry.make(name, episode_length=10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "mjx"}, "backend of task sparse_grid: got 'mjx', want none"),
        ({"dt": 0.1}, "dt of task sparse_grid: got .* want none, for the task has no physics"),
        ({"dt": 0.1, "substeps": 2}, "dt and substeps of task sparse_grid"),
        ({"episode_length": 0}, "steps of time_limit: got 0"),
        ({"action_repeat": 0}, "n of action_repeat: got 0"),
    ],
)
def test_an_option_that_does_not_fit_is_refused(options, message):
    with pytest.raises(SpecError, match=message):
        registry.make("sparse_grid", **{"episode_length": 10, **options})


def test_a_backend_that_brax_has_not_is_refused_before_brax_is_imported(python):
    code = (
        "import sys\n"
        "from vimejax import registry\n"
        "try:\n"
        "    registry.make('brax/swimmer', backend='mjx', episode_length=10)\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error, 'brax' in sys.modules)\n"
    )
    said = python(code).stdout
    assert said.startswith("SpecError backend of brax/swimmer: got 'mjx', want one of generalized")
    assert said.strip().endswith("False")


def test_native_tasks_import_no_engine(python):
    code = (
        "import sys\n"
        "from vimejax import registry\n"
        "registry.names()\n"
        "registry.make('cartpole', episode_length=10)\n"
        "print(sorted({'brax', 'mujoco', 'mujoco_playground'} & set(sys.modules)))\n"
    )
    result = python(code)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"


def test_a_missing_playground_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "mujoco_playground", None)
    with pytest.raises(EngineError, match="engine playground: .* pip install playground"):
        registry.make("playground/CartpoleBalance", episode_length=10)


def test_the_clock_reaches_the_spec():
    env = registry.make("pendulum", dt=0.01, substeps=5, episode_length=10)
    assert (env.spec.dt, env.spec.substeps) == (0.01, 5)


def test_the_limit_counts_groups_and_the_guard_sees_every_substep():
    env = registry.make("noisy_point", episode_length=2, action_repeat=3)
    assert [entry.name for entry in env.spec.info] == ["nonfinite", "repeats"]
    state, _ = env.reset(KEY)
    action = jnp.zeros((2,), jnp.float32)
    state, first = env.step(state, action, KEY)
    state, second = env.step(state, action, KEY)
    assert [bool(first.truncated), bool(second.truncated)] == [False, True]
    assert int(second.info["repeats"]) == 3
    _, fault = env.step(state, action * jnp.float32(jnp.nan), KEY)
    assert bool(fault.terminated)
    assert int(fault.info["repeats"]) == 1
