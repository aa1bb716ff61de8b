"""The film of an episode, its camera, and one frame of it in a plane."""

import base64
import json

import numpy as np
import pytest

from rlkjax.render import still
from rlkjax.render.film import MOST_FRAMES, STILL, as_data, make_film, placed
from rlkjax.render.trajectory import Trajectory
from vimejax.geometry import Geom
from vimejax.scenes import Scene

UNIT = (1.0, 0.0, 0.0, 0.0)
GREY = (0.5, 0.5, 0.5, 1.0)
RED = (0.9, 0.1, 0.1, 1.0)
FLOOR = Geom("plane", 0, (0.0, 0.0, -1.0), UNIT, (0.0, 0.0, 1.0), GREY)
BALL = Geom("sphere", 1, (0.0, 0.0, 0.0), UNIT, (0.5, 0.0, 0.0), RED)
WALL = Geom("box", 0, (9.0, 0.0, 0.0), UNIT, (0.1, 5.0, 1.0), GREY)


def film_of(trajectory, *geoms, whole=False):
    return make_film(trajectory, Scene(geoms, lambda state: state, whole))


def walk(steps, stride, bodies=2):
    """A body that goes `stride` metres along x at each step."""
    poses = np.zeros((steps + 1, bodies, 7), np.float32)
    poses[..., 3] = 1
    poses[:, 1, 0] = stride * np.arange(steps + 1)
    return Trajectory(poses, np.full(steps, 0.5, np.float32), False, 0.1)


def test_a_body_that_stays_is_seen_from_one_place():
    film = film_of(walk(40, 0.01), FLOOR, BALL, WALL)
    # The ball covers x from -0.5 to 0.4 + 0.5: its middle is 0.2. Walls are no part of it.
    np.testing.assert_allclose(film.camera.track, np.tile([0.2, 0, 0], (41, 1)), atol=0.01)
    assert film.ground == -1.0 and film.stride == 1
    assert [solid.body for solid in film.solids] == [1, 0]
    assert film.solids[0].color == RED[:3] and film.solids[1].color == STILL


def test_a_body_that_travels_is_followed():
    film = film_of(walk(100, 0.2), FLOOR, BALL)
    # A running mean over 11 frames is the place itself in the middle of the walk, and at its start
    # 0.2 (1 + 2 + 3 + 4 + 5) / 11; the picture begins with the ball in its middle.
    expected = 0.2 * np.arange(20, 80) - 0.2 * 15 / 11
    np.testing.assert_allclose(film.camera.track[20:80, 0], expected, atol=1e-5)
    assert film.camera.distance < 4


def test_a_long_episode_is_shown_in_strides():
    film = film_of(walk(5 * MOST_FRAMES, 0.0), BALL)
    assert film.stride == 6 and len(film.poses) == len(film.camera.track) == 834
    assert film.ground is None


def test_the_data_hold_the_very_floats():
    trajectory = walk(7, 0.3)
    film = film_of(trajectory, FLOOR, BALL, BALL)
    data = json.loads(json.dumps(as_data(film, trajectory)))
    poses = np.frombuffer(base64.b64decode(data["poses"]), "<f4").reshape(8, data["bodies"], 7)
    assert (poses.view(np.uint32) == trajectory.poses.view(np.uint32)).all()
    returns = np.frombuffer(base64.b64decode(data["returns"]), "<f4")
    assert returns.tolist() == [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5]
    assert len(data["shapes"]) == 1 and [each["shape"] for each in data["solids"]] == [0, 0]
    vertices = np.frombuffer(base64.b64decode(data["solids"][0]["vertices"]), "<f4")
    assert len(vertices) == 3 * (1 + max(max(face) for face in data["shapes"][0]))


def test_a_placed_solid():
    trajectory = walk(1, 3.0)
    trajectory.poses[1, 1, 3:] = [np.sqrt(0.5), 0, 0, np.sqrt(0.5)]  # a quarter turn about z
    solid = film_of(trajectory, BALL._replace(position=(1.0, 0.0, 0.0))).solids[0]
    middle = placed(solid, trajectory.poses[1]).mean(axis=0)
    np.testing.assert_allclose(middle, [3.0, 1.0, 0.0], atol=1e-6)


# --- the still picture ---------------------------------------------------------------------------


def test_the_eye_looks_at_the_track_and_near_things_are_lower_and_larger():
    film = film_of(walk(4, 0.0), FLOOR, BALL)
    eye = still.eye_of(film, 0, width=200, height=100)
    at, depth = eye.see(film.camera.track[0])
    np.testing.assert_allclose(at, [100, 50])
    assert depth == pytest.approx(film.camera.distance)
    np.testing.assert_allclose(eye.axes @ eye.axes.T, np.eye(3), atol=1e-12)
    up, _ = eye.see(film.camera.track[0] + [0, 0, 0.1])
    assert up[0] == pytest.approx(100) and up[1] < 50
    # The picture's height spans the field of view: 2 tan(0.3) of the distance, seen square on.
    high = np.tan(0.3) * film.camera.distance * eye.axes[1]
    np.testing.assert_allclose(eye.see(film.camera.track[0] + high)[0], [100, 0], atol=1e-9)


def test_far_faces_are_painted_first_and_none_from_behind():
    near = Geom("box", 1, (0.5, -0.7, 0.0), UNIT, (0.2, 0.2, 0.2), RED)
    far = Geom("box", 1, (-0.5, 0.7, 0.0), UNIT, (0.2, 0.2, 0.2), (0.1, 0.1, 0.9, 1.0))
    film = film_of(walk(2, 0.0), FLOOR, near, far)
    shapes = still.polygons(film, 0, width=200, height=100)
    kinds = [shape.kind for shape in shapes]
    assert kinds[0] == "floor" and kinds.count("shadow") == 2
    faces = [shape.color for shape in shapes if shape.kind == "face"]
    assert len(faces) == 6  # three of six sides of each box
    assert [color[0] > color[2] for color in faces] == [False] * 3 + [True] * 3
    assert kinds.index("face") > max(k for k, kind in enumerate(kinds) if kind != "face")


def test_the_side_towards_the_light_is_the_brightest():
    film = film_of(walk(2, 0.0), Geom("box", 1, (0, 0, 0), UNIT, (1, 1, 1), (0.4,) * 3 + (1,)))
    faces = [s for s in still.polygons(film, 0, width=200, height=100) if s.kind == "face"]
    top = min(faces, key=lambda face: face.points[:, 1].mean())
    # The light is (0.35, -0.45, 0.82) / 0.9987: the top has 0.62 + 0.38 * 0.8210 = 0.932 of 102.
    assert top.color == (95, 95, 95)
    assert all(face.color < top.color for face in faces if face is not top)


def test_the_hull_of_a_square_with_points_inside():
    points = np.array([[0, 0], [1, 0], [0.5, 0.5], [1, 1], [0, 1], [0.5, 0.0], [0.2, 0.7]])
    assert still.hull(points).tolist() == [[0, 0], [1, 0], [1, 1], [0, 1]]
    assert still.hull(points[:1]).tolist() == [[0, 0]]
