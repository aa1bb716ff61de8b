"""The word for what a task looks like: one solid of a body."""

from typing import NamedTuple

import numpy as np


class Geom(NamedTuple):
    """One solid of a body.

    Attributes:
      kind: "plane", "sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh", or another that is
        not shown.
      body: number of the body that carries it; 0 is the world.
      position: of its centre in the body's frame, metres.
      rotation: in the body's frame, a unit quaternion (w, x, y, z).
      size: up to three half lengths or radii, metres, as MuJoCo orders them for the kind.
      color: red, green, blue, opacity, each from 0 to 1.
      mesh: vertices [V, 3] and triangles [F, 3] of a mesh, else None.
    """

    kind: str
    body: int
    position: tuple[float, ...]
    rotation: tuple[float, ...]
    size: tuple[float, ...]
    color: tuple[float, ...]
    mesh: tuple[np.ndarray, np.ndarray] | None = None
