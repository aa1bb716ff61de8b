"""sparse_grid: moves, walls, goal and starts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vimejax.errors import SpecError
from vimejax.tasks import sparse_grid

KEY = jax.random.key(0)


def step_from(row, column, action, **options):
    state = sparse_grid.GridState(jnp.int32(row), jnp.int32(column))
    return sparse_grid.make(**options).step(state, jnp.int32(action), KEY)


@pytest.mark.parametrize(("action", "row", "column"), [(0, 1, 2), (1, 2, 3), (2, 3, 2), (3, 2, 1)])
def test_up_right_down_left(action, row, column):
    state, ts = step_from(2, 2, action)
    assert (int(state.row), int(state.column)) == (row, column)
    assert float(ts.reward) == 0.0
    assert not bool(ts.terminated)


@pytest.mark.parametrize(("row", "column", "action"), [(0, 2, 0), (2, 4, 1), (4, 2, 2), (2, 0, 3)])
def test_a_wall_leaves_the_place_unchanged(row, column, action):
    state, _ = step_from(row, column, action)
    assert (int(state.row), int(state.column)) == (row, column)


@pytest.mark.parametrize(("row", "column", "action"), [(4, 3, 1), (3, 4, 2)])
def test_the_goal_pays_one_and_terminates(row, column, action):
    _, ts = step_from(row, column, action)
    assert float(ts.reward) == 1.0
    assert bool(ts.terminated)
    assert ts.obs.tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0, 1]


def test_starts_are_all_cells_but_the_goal():
    # 24 cells, 2400 draws: 100 each on average, standard deviation below 10.
    state, ts = jax.vmap(sparse_grid.make().reset)(jax.random.split(KEY, 2400))
    counts = np.bincount(np.asarray(state.row * 5 + state.column), minlength=25)
    assert counts[24] == 0
    assert counts[:24].min() > 50
    assert counts[:24].max() < 150
    assert not ts.reward.any()


def test_size_sets_the_room():
    env = sparse_grid.make(size=3)
    assert env.spec.obs_size == 6
    _, ts = step_from(2, 1, 1, size=3)
    assert bool(ts.terminated)


@pytest.mark.parametrize("size", [1, 0, -2, 2.5, True])
def test_a_room_without_a_way_is_refused(size):
    with pytest.raises(SpecError, match=r"size of task sparse_grid: got .*, want an integer of 2"):
        sparse_grid.make(size=size)
