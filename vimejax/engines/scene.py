"""What a task of an engine looks like: its geometry, and where its bodies are in a state.

Brax and MuJoCo Playground both keep the MuJoCo model that a task was read from, whatever steps it.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from vimejax.engines import brax, playground
from vimejax.errors import SpecError
from vimejax.geometry import Geom
from vimejax.types import Array, State

# Kinds of geometry by their number in MuJoCo (mjtGeom).
KINDS = {
    0: "plane",
    1: "height field",
    2: "sphere",
    3: "capsule",
    4: "ellipsoid",
    5: "cylinder",
    6: "box",
    7: "mesh",
}


def geometry(
    name: str,
    *,
    backend: str | None = None,
    dt: float | None = None,
    substeps: int | None = None,
) -> tuple[Geom, ...]:
    """The solids of a task.

    Args:
      name: brax/NAME or playground/NAME.
      backend: physics backend; None for the engine's default.
      dt: seconds of one physics substep; None for the task's own.
      substeps: physics substeps in one step; None for the task's own.

    Returns:
      Its visible solids, in the model's order.

    Raises:
      SpecError: a task that no engine steps.
      EngineError: the engine is missing.
    """
    engine, _, task = name.partition("/")
    if engine == "brax" and task in brax.TASKS:
        model = brax.build(task, backend or brax.DEFAULT_BACKEND, dt, substeps).sys.mj_model
    elif engine == "playground" and task:
        model = playground.build(task, backend or playground.BACKENDS[0], dt, substeps).mj_model
    else:
        raise SpecError(
            f"task to show: got {name!r}, want a task with bodies such as cartpole or brax/ant."
        )
    return tuple(_geom(model, index) for index in range(model.ngeom) if _is_shown(model, index))


def poses(state: State) -> Array:
    """Where the bodies are.

    Args:
      state: of a task of an engine, without its wrappers.

    Returns:
      [B, 7] float32: position (metres) and unit quaternion (w, x, y, z) of each body in the world;
      row 0 is the world itself.

    Raises:
      SpecError: a state of another task.
    """
    if hasattr(state, "pipeline_state"):  # Brax: links are the bodies without the world
        links = state.pipeline_state.x
        world = jnp.asarray([[0, 0, 0, 1, 0, 0, 0]], jnp.float32)
        return jnp.concatenate([world, jnp.concatenate([links.pos, links.rot], axis=1)])
    if hasattr(state, "data"):
        return jnp.concatenate([state.data.xpos, state.data.xquat], axis=1)
    raise SpecError(f"state to show: got {type(state).__name__}, want one of an engine's task.")


def _is_shown(model: Any, index: int) -> bool:
    # MuJoCo's viewer hides groups 3 and up, where models keep their collision geometry.
    return model.geom_group[index] < 3 and model.geom_rgba[index][3] > 0


def _geom(model: Any, index: int) -> Geom:
    kind = KINDS.get(int(model.geom_type[index]), "other")
    return Geom(
        kind=kind,
        body=int(model.geom_bodyid[index]),
        position=_numbers(model.geom_pos[index]),
        rotation=_numbers(model.geom_quat[index]),
        size=_numbers(model.geom_size[index]),
        color=_numbers(model.geom_rgba[index]),
        mesh=_mesh(model, int(model.geom_dataid[index])) if kind == "mesh" else None,
    )


def _numbers(row: Any) -> tuple[float, ...]:
    return tuple(float(each) for each in row)


def _mesh(model: Any, mesh: int) -> tuple[np.ndarray, np.ndarray]:
    vertex, face = int(model.mesh_vertadr[mesh]), int(model.mesh_faceadr[mesh])
    vertices = model.mesh_vert[vertex : vertex + int(model.mesh_vertnum[mesh])]
    faces = model.mesh_face[face : face + int(model.mesh_facenum[mesh])]
    return np.array(vertices, np.float32), np.array(faces, np.int32)
