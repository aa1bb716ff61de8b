"""Where an episode is seen from: what is framed, and from how far. Pure NumPy."""

from typing import NamedTuple

import numpy as np

FIELD_OF_VIEW = 0.6  # radians, from top to bottom
ASPECT = 2.0  # width of a picture over its height
MARGIN = 1.15  # distance over the least one that holds the scene
FLAT = 0.25  # height over width below which a scene is seen from above

Bounds = tuple[np.ndarray, np.ndarray]  # lowest and highest corner, metres


class Camera(NamedTuple):
    """An eye that turns about a point of its own for each frame.

    Attributes:
      track: [K, 3] float32, the point in the middle of the picture by frame, metres.
      distance: of the eye from that point, metres.
      azimuth: of the eye about z, radians.
      elevation: of the eye above the horizon, radians.
    """

    track: np.ndarray
    distance: float
    azimuth: float
    elevation: float


def axes(azimuth: float, elevation: float) -> np.ndarray:
    """The directions of an eye.

    Args:
      azimuth: radians.
      elevation: radians, below a right angle.

    Returns:
      [3, 3]; rows point right, up and away from the eye.
    """
    flat = np.cos(elevation)
    away = -np.array([flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(elevation)])
    right = np.array([-np.sin(azimuth), np.cos(azimuth), 0.0])
    return np.stack([right, np.cross(right, away), away])


def aim(track: np.ndarray, bounds: Bounds, *, frontal: bool) -> Camera:
    """A camera that holds a box about each point of its track.

    Args:
      track: [K, 3] by frame, metres.
      bounds: of the box; its middle is on the track.
      frontal: whether the scene lies in a plane of x and z, and is seen nearly square on.

    Returns:
      The camera.
    """
    half = (bounds[1] - bounds[0]) / 2
    flat = half[2] < FLAT * max(half[0], half[1])
    azimuth = -1.25 if frontal and not flat else -0.9
    elevation = 0.9 if flat else 0.3
    corners = half * np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    right, up, away = np.abs(corners @ axes(azimuth, elevation).T).T
    tangent = np.tan(FIELD_OF_VIEW / 2)
    least = np.max(np.maximum(right / (tangent * ASPECT), up / tangent) + away)
    points = np.ascontiguousarray(track, np.float32)
    return Camera(points, MARGIN * float(least) or 1.0, azimuth, elevation)


def follow(places: np.ndarray, reach: int) -> np.ndarray:
    """A smooth way along the places of a body, as if it began where it stands.

    Args:
      places: [K, 3] by frame, metres.
      reach: frames to either side over which each point is a mean, at least 1.

    Returns:
      [K, 3] from the first place on; its height is the same throughout.
    """
    held = np.pad(places, ((reach, reach), (0, 0)), mode="edge").astype(np.float64)
    sums = np.cumsum(np.concatenate([np.zeros((1, 3)), held]), axis=0)
    means = (sums[2 * reach + 1 :] - sums[: -2 * reach - 1]) / (2 * reach + 1)
    means[:, 2] = means[0, 2]
    return means - means[0]
