"""Name -> what a task looks like, native or of an engine."""

from collections.abc import Callable
from typing import NamedTuple

from vimejax.engines import scene
from vimejax.geometry import Geom
from vimejax.tasks import shown
from vimejax.types import Array, State


class Scene(NamedTuple):
    """How a task is shown.

    Attributes:
      geoms: its solids.
      poses: state, wrapped or not -> [B, 7] float32: position (metres) and unit quaternion (w, x,
        y, z) of each body in the world; row 0 is the world itself.
      whole: whether all of its world is shown; else the eye follows what travels.
    """

    geoms: tuple[Geom, ...]
    poses: Callable[[State], Array]
    whole: bool


def make(
    name: str,
    *,
    backend: str | None = None,
    dt: float | None = None,
    substeps: int | None = None,
) -> Scene:
    """The scene of a task.

    Args:
      name: a name of the registry.
      backend: physics backend of an engine's task; None for its own default.
      dt: seconds of one physics substep; None for the task's own.
      substeps: physics substeps in one step; None for the task's own.

    Returns:
      Its solids, and where they are in a state.

    Raises:
      SpecError: a task that has nothing to show.
      EngineError: the engine is missing.
    """
    if name in shown.TASKS:
        geoms, poses = shown.TASKS[name]()
        return Scene(geoms, lambda state: poses(innermost(state)), True)
    geoms = scene.geometry(name, backend=backend, dt=dt, substeps=substeps)
    return Scene(geoms, lambda state: scene.poses(innermost(state)), False)


def innermost(state: State) -> State:
    """The task's own state inside those of its wrappers.

    Args:
      state: wrapped or not.

    Returns:
      A state that wraps no other.
    """
    while hasattr(state, "inner"):
        state = state.inner
    return state
