"""Solids as polygons, in the frame of the body that carries them. Pure NumPy."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from vimejax.geometry import Geom

AROUND = 16  # corners of a circle
RINGS = 4  # circles of half a sphere
MOST_BANDS = 24  # parts of a long shaft, so that near and far ends are painted each in their turn
MOST_FACES = 2000  # a finer mesh is shown as its bounding box


class Mesh(NamedTuple):
    """A closed surface.

    Attributes:
      vertices: [V, 3] float32, metres.
      faces: corners of each polygon, anticlockwise as seen from outside.
    """

    vertices: np.ndarray
    faces: tuple[tuple[int, ...], ...]


def mesh(geom: Geom) -> Mesh | None:
    """The surface of a solid in the frame of its body.

    Args:
      geom: any kind.

    Returns:
      The surface; None for a plane or a height field, which have no inside.
    """
    size = geom.size
    if geom.mesh is not None:
        made = _given(*geom.mesh)
    elif geom.kind in _MAKERS:
        made = _MAKERS[geom.kind](size)
    else:
        return None
    turned = made.vertices @ rotation(np.asarray(geom.rotation)).T
    return made._replace(vertices=(turned + np.asarray(geom.position)).astype(np.float32))


def rotation(quaternion: np.ndarray) -> np.ndarray:
    """The matrix of a unit quaternion.

    Args:
      quaternion: [..., 4], w first.

    Returns:
      [..., 3, 3]; v' = R v.
    """
    w, x, y, z = np.moveaxis(quaternion, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def _lathe(profile: Sequence[tuple[float, float]]) -> Mesh:
    """A profile turned about z: (radius, z) from the lower pole to the upper one."""
    angles = 2 * np.pi * np.arange(AROUND) / AROUND
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    inner = [np.column_stack([radius * circle, np.full(AROUND, z)]) for radius, z in profile[1:-1]]
    poles = [np.array([[0.0, 0.0, profile[k][1]]]) for k in (0, -1)]
    vertices = np.concatenate([poles[0], *inner, poles[1]])
    faces: list[tuple[int, ...]] = []
    top = len(vertices) - 1
    for k in range(AROUND):
        after = (k + 1) % AROUND
        faces.append((0, 1 + after, 1 + k))
        faces.append((top, top - AROUND + k, top - AROUND + after))
        for ring in range(len(inner) - 1):
            low, high = 1 + ring * AROUND, 1 + (ring + 1) * AROUND
            faces.append((low + k, low + after, high + after, high + k))
    return Mesh(vertices, tuple(faces))


def _capsule(size: Sequence[float]) -> Mesh:
    radius, half = size[0], size[1]
    angles = np.pi / 2 * np.arange(RINGS + 1) / RINGS
    upper = [(radius * np.cos(a), half + radius * np.sin(a)) for a in angles]
    lower = [(r, -z) for r, z in reversed(upper)]
    return _lathe([*lower, *_shaft(radius, half), *(upper if half > 0 else upper[1:])])


def _shaft(radius: float, half: float) -> list[tuple[float, float]]:
    """Circles that divide a shaft into bands about as high as they are wide."""
    bands = min(max(round(half / max(radius, 1e-9)), 1), MOST_BANDS)
    return [(radius, half * (2 * k / bands - 1)) for k in range(1, bands)]


def _ellipsoid(size: Sequence[float]) -> Mesh:
    ball = _capsule((1.0, 0.0))
    return ball._replace(vertices=ball.vertices * np.asarray(size))


def _cylinder(size: Sequence[float]) -> Mesh:
    radius, half = size[0], size[1]
    ends = [(0.0, -half), (radius, -half), *_shaft(radius, half), (radius, half), (0.0, half)]
    return _lathe(ends)


def _box(size: Sequence[float]) -> Mesh:
    signs = np.array([[x, y, z] for z in (-1, 1) for y in (-1, 1) for x in (-1, 1)], np.float64)
    faces = ((0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (2, 6, 7, 3), (0, 4, 6, 2), (1, 3, 7, 5))
    return Mesh(signs * np.asarray(size), faces)


def _given(vertices: np.ndarray, triangles: np.ndarray) -> Mesh:
    if len(triangles) <= MOST_FACES:
        return Mesh(vertices, tuple(map(tuple, triangles.tolist())))
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    made = _box((high - low) / 2)
    return made._replace(vertices=made.vertices + (low + high) / 2)


_MAKERS: dict[str, Callable[[Sequence[float]], Mesh]] = {
    "sphere": lambda size: _capsule((size[0], 0.0)),
    "capsule": _capsule,
    "ellipsoid": _ellipsoid,
    "cylinder": _cylinder,
    "box": _box,
}
