"""One environment behaves alike among 1, 8 or 4096: what holds to the bit, and where it stops.

Keys, draws and starts hold by construction. Trajectories of the native tasks are asserted here as
they are in plain XLA on a CPU. A batch of one is compiled to scalar code, which contracts products
into sums where vector code does not, so that the last bits of physics may differ there; which tasks
those are depends on the version of XLA. Exact arithmetic has no such exception.
"""

import dataclasses
import functools

import jax
import numpy as np
import pytest
import vime_worlds as worlds

from vimejax import registry, wrap

STEPS = 200
REAL = ("cartpole", "mountain_car_continuous", "noisy_point", "pendulum", "sparse_grid")
PROBES = ("probe_both", "probe_delayed")
SLOW = pytest.mark.slow
FAST = ("cartpole", "noisy_point", "sparse_grid")
NOT_ALONE = {".obs", ".next_obs", ".reward"}  # of tasks with physics, in a batch of one


@functools.cache
def environment_17(name, numbers, costly=False):
    """Bytes of everything that environment 17 shows in 200 steps, by path."""
    env = registry.make(name, episode_length=50)
    env = dataclasses.replace(env, spec=dataclasses.replace(env.spec, costly_reset=costly))
    numbers = list(numbers)
    place = numbers.index(17)
    stream = wrap.stream(env, len(numbers))
    first, (ts, action, episode, step) = worlds.roll(
        stream, worlds.environment_keys(numbers), STEPS
    )
    mine = {"first" + jax.tree_util.keystr(path): np.asarray(leaf)[place] for path, leaf in
            jax.tree_util.tree_leaves_with_path(first)}  # fmt: skip
    later = {"action": action, "episode": episode, "step": step}
    later |= {jax.tree_util.keystr(path): leaf for path, leaf in
              jax.tree_util.tree_leaves_with_path(ts)}  # fmt: skip
    mine |= {path: np.asarray(leaf)[:, place] for path, leaf in later.items()}
    return {path: leaf.tobytes() for path, leaf in mine.items()}


def differing(a, b):
    assert a.keys() == b.keys()
    return {path for path in a if a[path] != b[path]}


def test_keys_of_the_first_eight_are_equal_among_8_and_4096():
    few = jax.random.key_data(worlds.environment_keys(range(8)))
    many = jax.random.key_data(worlds.environment_keys(range(4096)))
    np.testing.assert_array_equal(many[:8], few)
    assert len({key.tobytes() for key in np.asarray(many)}) == 4096


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=SLOW if name not in FAST else ()) for name in REAL + PROBES]
)
def test_environment_17_among_8_and_alone(name):
    eight, alone = environment_17(name, range(10, 18)), environment_17(name, (17,))
    allowed = NOT_ALONE if name in registry.PHYSICS else set()
    assert differing(eight, alone) <= allowed


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=SLOW if name != "noisy_point" else ()) for name in REAL]
)
def test_environment_17_among_8_and_4096(name):
    eight, many = environment_17(name, range(10, 18)), environment_17(name, range(4096))
    assert differing(eight, many) == set()


@pytest.mark.parametrize("name", ["cartpole", pytest.param("sparse_grid", marks=SLOW)])
def test_resets_in_chunks_change_no_bit(name):
    dense, chunks = (environment_17(name, range(10, 18), costly) for costly in (False, True))
    assert differing(dense, chunks) == set()


def test_another_seed_gives_other_starts():
    env = registry.make("cartpole", episode_length=50)
    stream = wrap.stream(env, 4)
    starts = [stream.init(worlds.environment_keys(range(4), seed))[1].obs for seed in (7, 8)]
    assert not np.isin(np.asarray(starts[0]), np.asarray(starts[1])).any()
