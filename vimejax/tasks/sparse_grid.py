"""sparse_grid: find the one rewarded corner of a square room; nothing else is ever rewarded.

Source: the grid world of Sutton and Barto (2018), "Reinforcement Learning", section 3.5 (a move
into a wall leaves the place unchanged), with one terminal goal of reward 1 and drawn starts. The
furthest start is 2 (size - 1) steps away; a mean return of 0.95 or better counts as solved.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from vimejax.errors import SpecError
from vimejax.types import Array, Discrete, Environment, EnvSpec, Timestep, timestep

SIZE = 5  # cells along one side
ROW_MOVES = (-1, 0, 1, 0)  # action 0 up, 1 right, 2 down, 3 left
COLUMN_MOVES = (0, 1, 0, -1)


class GridState(NamedTuple):
    """Row and column, each [] int32 in [0, size); the goal is the last row and column."""

    row: Array
    column: Array


def make(*, size: int = SIZE) -> Environment:
    """The task as a pair of pure functions: reward 1 at the goal, which terminates, else 0.

    Args:
      size: cells along one side, at least 2.

    Returns:
      An environment with obs [2 size] float32 (row one-hot, column one-hot) and four actions. The
      start is uniform over all cells but the goal.

    Raises:
      SpecError: `size` is no integer of 2 or more.
    """
    if not isinstance(size, int) or isinstance(size, bool) or size < 2:
        raise SpecError(
            f"size of task sparse_grid: got {size!r}, want an integer of 2 or more; "
            f"leave it out for {SIZE}."
        )

    def observe(state: GridState) -> Array:
        cells = jnp.arange(size, dtype=jnp.int32)
        hot = jnp.concatenate([cells == state.row, cells == state.column])
        return hot.astype(jnp.float32)

    def reset(key: Array) -> tuple[GridState, Timestep]:
        # The goal is the highest cell number, so a draw below it is uniform over all the others.
        cell = jax.random.randint(key, (), 0, size * size - 1, jnp.int32)
        state = GridState(cell // size, cell % size)
        return state, timestep(observe(state))

    def step(state: GridState, action: Array, key: Array) -> tuple[GridState, Timestep]:
        del key  # nothing is drawn
        row = state.row + jnp.asarray(ROW_MOVES, jnp.int32)[action]
        column = state.column + jnp.asarray(COLUMN_MOVES, jnp.int32)[action]
        state = GridState(jnp.clip(row, 0, size - 1), jnp.clip(column, 0, size - 1))
        terminated = (state.row == size - 1) & (state.column == size - 1)
        reward = jnp.where(terminated, jnp.float32(1.0), jnp.float32(0.0))
        return state, timestep(observe(state), reward, terminated)

    return Environment(EnvSpec("sparse_grid", obs_size=2 * size, action=Discrete(4)), reset, step)
