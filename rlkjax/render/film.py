"""An episode as plain numbers: solids, poses, and the camera that sees them. Pure NumPy."""

import base64
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rlkjax.render.camera import FIELD_OF_VIEW, Bounds, Camera, aim, follow
from rlkjax.render.meshes import Mesh, mesh, rotation
from rlkjax.render.trajectory import Trajectory
from vimejax.geometry import Geom
from vimejax.scenes import Scene

LONGEST_FRAME = 0.1  # seconds that a frame is shown, also where a step takes longer in the task
MOST_FRAMES = 1000  # of an episode; a longer one is shown in larger strides
# Colours that models carry where nobody chose one: MuJoCo's grey, and the brown that Brax's have.
UNPAINTED = ((0.5, 0.5, 0.5), (0.4, 0.33, 0.26), (1.0, 1.0, 1.0))
STILL, ROOT, LIMBS = (
    (0.60, 0.62, 0.64),
    (0.80, 0.47, 0.31),
    ((0.87, 0.68, 0.47), (0.80, 0.56, 0.40)),
)


class Solid(NamedTuple):
    """A surface with its body and colour.

    Attributes:
      body: number of the body that carries it.
      mesh: in the body's frame.
      color: red, green, blue, from 0 to 1.
    """

    body: int
    mesh: Mesh
    color: tuple[float, ...]


class Film(NamedTuple):
    """Everything that is needed to draw any moment of an episode.

    Attributes:
      solids: what moves, and what stands still.
      poses: [K, B, 7] float32 by frame.
      camera: where it is seen from.
      ground: height of the floor, metres; None without one.
      stride: steps from one frame to the next.
    """

    solids: tuple[Solid, ...]
    poses: np.ndarray
    camera: Camera
    ground: float | None
    stride: int


def make_film(trajectory: Trajectory, scene: Scene) -> Film:
    """Chooses frames, colours and a camera that holds every solid.

    Args:
      trajectory: the episode.
      scene: what it is an episode of.

    Returns:
      The film. A body that travels is followed; else the eye stands still.
    """
    stride = -(-len(trajectory.poses) // MOST_FRAMES)
    poses = trajectory.poses[::stride]
    made = [(geom, mesh(geom)) for geom in scene.geoms]
    solids = tuple(Solid(geom.body, each, _color(geom)) for geom, each in made if each)
    floors = [geom.position[2] for geom in scene.geoms if geom.kind == "plane"]
    some = poses[:: max(len(poses) // 24, 1)]
    # What stands still is scenery, unless the scene is shown whole.
    framed = [solid for solid in solids if solid.body or scene.whole] or solids
    low, high = _bounds(framed, some)
    first = _bounds(framed, some[:1])
    span = float(np.linalg.norm(first[1] - first[0]))
    if not scene.whole and (high - low).max() > 2 * span:  # it travels
        reach = max(round(0.5 / (trajectory.seconds * stride)), 1)
        track = follow(poses[:, 1, :3], reach) + (first[0] + first[1]) / 2
        low, high = first
    else:
        track = np.broadcast_to((low + high) / 2, (len(poses), 3))
    return Film(
        solids=solids,
        poses=poses,
        camera=aim(track, (low, high), frontal=scene.whole),
        ground=min(floors) if floors else None,
        stride=stride,
    )


def placed(solid: Solid, poses: np.ndarray) -> np.ndarray:
    """Corners of a solid in the world.

    Args:
      solid: the solid.
      poses: [B, 7].

    Returns:
      [V, 3] float64, metres.
    """
    pose = poses[solid.body].astype(np.float64)
    return solid.mesh.vertices @ rotation(pose[3:]).T + pose[:3]


def as_data(film: Film, trajectory: Trajectory) -> dict[str, Any]:
    """The film as plain data for a viewer; float32 arrays are base64 of their little-endian bytes.

    Args:
      film: the film.
      trajectory: the episode that it shows.

    Returns:
      Strings, numbers and lists.
    """
    shapes = list(dict.fromkeys(solid.mesh.faces for solid in film.solids))
    returns = np.cumsum(trajectory.rewards, dtype=np.float64)
    shown = np.concatenate([[0.0], returns])[:: film.stride]
    return {
        "bodies": film.poses.shape[1],
        "azimuth": film.camera.azimuth,
        "distance": film.camera.distance,
        "elevation": film.camera.elevation,
        "fieldOfView": FIELD_OF_VIEW,
        "ground": film.ground,
        "pace": min(trajectory.seconds * film.stride, LONGEST_FRAME),
        "poses": _text(film.poses),
        "returns": _text(shown),
        "seconds": trajectory.seconds * film.stride,
        "shapes": [[list(face) for face in faces] for faces in shapes],
        "solids": [
            {
                "body": solid.body,
                "color": [round(255 * each) for each in solid.color[:3]],
                "shape": shapes.index(solid.mesh.faces),
                "vertices": _text(solid.mesh.vertices),
            }
            for solid in film.solids
        ],
        "stride": film.stride,
        "track": _text(film.camera.track),
    }


def _text(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array, "<f4").tobytes()).decode()


def _color(geom: Geom) -> tuple[float, ...]:
    color = geom.color[:3]
    if not any(np.allclose(color, each, atol=0.01) for each in UNPAINTED):
        return color
    if geom.body == 0:
        return STILL
    return ROOT if geom.body == 1 else LIMBS[geom.body % 2]


def _bounds(solids: Sequence[Solid], poses: np.ndarray) -> Bounds:
    """Lowest and highest corner of all solids over some frames."""
    corners = [placed(solid, each) for solid in solids for each in poses]
    every = np.concatenate(corners or [np.zeros((1, 3))])
    return every.min(axis=0), every.max(axis=0)
