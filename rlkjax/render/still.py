"""One frame of a film as polygons in a plane, far ones first. Pure NumPy.

The viewer's script draws the same picture: the same eye, light and order. This one is for readers
whose browser runs no script, and for paper.
"""

from typing import NamedTuple

import numpy as np

from rlkjax.render.camera import FIELD_OF_VIEW, axes
from rlkjax.render.film import Film, placed

LIGHT = np.array([0.35, -0.45, 0.82]) / np.linalg.norm([0.35, -0.45, 0.82])
AMBIENT = 0.62  # share of a colour that a face sideways to the light keeps
FLOOR = 0.8  # radius of the floor over the distance of the eye
CORNERS = 48  # of the floor's rim


class Polygon(NamedTuple):
    """A filled shape.

    Attributes:
      kind: "floor", "grid", "shadow" or "face".
      points: [K, 2] in units of the picture.
      color: red, green, blue, from 0 to 255; of a face only.
    """

    kind: str
    points: np.ndarray
    color: tuple[int, ...] = ()


class Eye(NamedTuple):
    """A camera.

    Attributes:
      position: [3], metres.
      axes: [3, 3]; rows point right, up and away from the eye.
      scale: units of the picture per unit of the tangent.
      middle: [2], where the axis of sight meets the picture.
    """

    position: np.ndarray
    axes: np.ndarray
    scale: float
    middle: np.ndarray

    def see(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places [..., 2] in the picture, and depths [...] in metres, of points [..., 3]."""
        right, up, depth = np.moveaxis((points - self.position) @ self.axes.T, -1, 0)
        flat = np.stack([right, -up], axis=-1) * self.scale / depth[..., None]
        return self.middle + flat, depth


def eye_of(film: Film, frame: int, *, width: float, height: float) -> Eye:
    """The camera of a frame.

    Args:
      film: the film.
      frame: number of the frame.
      width: of the picture.
      height: of the picture.

    Returns:
      An eye that looks at the frame's point of the track.
    """
    camera = film.camera
    own = axes(camera.azimuth, camera.elevation)
    scale = height / 2 / np.tan(FIELD_OF_VIEW / 2)
    position = camera.track[frame] - camera.distance * own[2]
    return Eye(position, own, scale, np.array([width / 2, height / 2]))


def polygons(film: Film, frame: int, *, width: float, height: float) -> list[Polygon]:
    """Everything that a frame shows.

    Args:
      film: the film.
      frame: number of the frame.
      width: of the picture.
      height: of the picture.

    Returns:
      Polygons in the order in which they are painted.
    """
    eye = eye_of(film, frame, width=width, height=height)
    found = [] if film.ground is None else _floor(film, frame, eye)
    faces: list[tuple[float, Polygon]] = []
    for solid in film.solids:
        corners = placed(solid, film.poses[frame])
        if film.ground is not None and solid.body:
            found.append(_shadow(corners, film.ground, eye))
        flat, depth = eye.see(corners)
        for face in solid.mesh.faces:
            normal = np.cross(
                corners[face[1]] - corners[face[0]], corners[face[2]] - corners[face[0]]
            )
            size = float(np.linalg.norm(normal))
            index = list(face)
            if size == 0 or normal @ (eye.position - corners[face[0]]) <= 0:
                continue
            lit = AMBIENT + (1 - AMBIENT) * float(normal @ LIGHT) / size
            color = tuple(round(min(255 * part * lit, 255)) for part in solid.color[:3])
            faces.append((float(depth[index].mean()), Polygon("face", flat[index], color)))
    return found + [polygon for _, polygon in sorted(faces, key=lambda each: -each[0])]


def _floor(film: Film, frame: int, eye: Eye) -> list[Polygon]:
    """A disc under the scene, with a grid that stays where it is when the eye moves."""
    middle = np.array([*film.camera.track[frame][:2], film.ground])
    radius = FLOOR * film.camera.distance
    angles = 2 * np.pi * np.arange(CORNERS) / CORNERS
    rim = middle + radius * np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)
    found = [Polygon("floor", eye.see(rim)[0])]
    cell = 10.0 ** np.floor(np.log10(radius / 2))
    for axis in (0, 1):
        across = middle[axis]
        first, last = np.ceil((across - radius) / cell), np.floor((across + radius) / cell)
        for place in cell * np.arange(first, last + 1):
            half = np.sqrt(max(radius**2 - (place - across) ** 2, 0.0))
            ends = np.tile(middle, (2, 1))
            ends[:, axis] = place
            ends[:, 1 - axis] += [-half, half]
            found.append(Polygon("grid", eye.see(ends)[0]))
    return found


def _shadow(corners: np.ndarray, ground: float, eye: Eye) -> Polygon:
    """The outline of a solid's shadow on the floor."""
    fallen = corners - (corners[:, 2:] - ground) * LIGHT / LIGHT[2]
    return Polygon("shadow", hull(eye.see(fallen)[0]))


def hull(points: np.ndarray) -> np.ndarray:
    """The convex hull of points in a plane.

    Args:
      points: [K, 2].

    Returns:
      Its corners in one direction of turn, [H, 2].

    Source: A. M. Andrew (1979), "Another efficient algorithm for convex hulls in two dimensions".
    """
    ordered = sorted(map(tuple, np.asarray(points).tolist()))
    half = [_chain(ordered), _chain(ordered[::-1])]
    return np.array(half[0][:-1] + half[1][:-1] or ordered[:1])


def _chain(points: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
    kept: list[tuple[float, ...]] = []
    for point in points:
        while len(kept) > 1 and _turn(kept[-2], kept[-1], point) <= 0:
            kept.pop()
        kept.append(point)
    return kept


def _turn(a: tuple[float, ...], b: tuple[float, ...], c: tuple[float, ...]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
