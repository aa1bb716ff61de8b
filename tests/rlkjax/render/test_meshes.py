"""Solids as polygons: closed, turned outwards, and of the right size."""

import numpy as np
import pytest

from rlkjax.render.meshes import MOST_BANDS, MOST_FACES, mesh, rotation
from vimejax.geometry import Geom

UNIT = (1.0, 0.0, 0.0, 0.0)


def solid(kind, size, position=(0.0, 0.0, 0.0), turn=UNIT, given=None):
    return mesh(Geom(kind, 1, position, turn, size, (1, 1, 1, 1), given))


def volume(made) -> float:
    """Of a closed surface, by tetrahedra from the origin: sum of a . (b x c) / 6."""
    total = 0.0
    for face in made.faces:
        corners = made.vertices[list(face)].astype(np.float64)
        for k in range(1, len(face) - 1):
            total += corners[0] @ np.cross(corners[k], corners[k + 1]) / 6
    return total


# Exact volumes. A solid of 16 corners around is smaller than the round one: its circles have
# 16 / (2 pi) * sin(2 pi / 16) = 0.9745 of the area.
SOLIDS = [
    ("box", (0.5, 1.0, 2.0), 8.0, 1.0),
    ("sphere", (2.0, 0.0, 0.0), 4 / 3 * np.pi * 8, 0.92),
    ("ellipsoid", (1.0, 2.0, 3.0), 4 / 3 * np.pi * 6, 0.92),
    ("cylinder", (1.0, 3.0, 0.0), np.pi * 6, 0.974),
    ("capsule", (0.5, 3.0, 0.0), np.pi * 0.25 * 6 + 4 / 3 * np.pi * 0.125, 0.96),
]


@pytest.mark.parametrize(("kind", "size", "exact", "least"), SOLIDS)
def test_surfaces_are_closed_and_face_outwards(kind, size, exact, least):
    made = solid(kind, size)
    edges = [(a, b) for face in made.faces for a, b in zip(face, face[1:] + face[:1], strict=True)]
    # Each edge is walked once in each direction: no hole, and all faces turn alike.
    assert len(edges) == len(set(edges)) and set(edges) == {(b, a) for a, b in edges}
    assert least * exact <= volume(made) <= exact * 1.000001


@pytest.mark.parametrize("kind", ["box", "capsule"])
def test_place_and_turn(kind):
    # A quarter turn about y takes z to x: (w, x, y, z) = (cos 45, 0, sin 45, 0).
    turn = (np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0)
    made = solid(kind, (0.25, 0.25, 1.0) if kind == "box" else (0.25, 0.75, 0.0), (5, 6, 7), turn)
    low, high = made.vertices.min(axis=0), made.vertices.max(axis=0)
    np.testing.assert_allclose(low, [4.0, 5.75, 6.75], atol=1e-6)
    np.testing.assert_allclose(high, [6.0, 6.25, 7.25], atol=1e-6)


def test_rotations_by_hand():
    # A half turn about z, and a third of a turn about (1, 1, 1), which sends x to y to z to x.
    np.testing.assert_allclose(rotation(np.array([0, 0, 0, 1.0])), np.diag([-1, -1, 1]))
    cycle = rotation(np.array([0.5, 0.5, 0.5, 0.5]))
    np.testing.assert_allclose(cycle @ np.eye(3), [[0, 0, 1], [1, 0, 0], [0, 1, 0]])


def test_a_long_shaft_is_divided():
    # 16 faces around in each of 8 rings of the two caps, and in each band of the shaft.
    assert len(solid("capsule", (0.2, 0.2)).faces) == 16 * (8 + 1)
    assert len(solid("capsule", (0.02, 1.0)).faces) == 16 * (8 + MOST_BANDS)


def test_planes_have_no_surface():
    assert solid("plane", (1, 1, 1)) is None and solid("height field", (1, 1, 1)) is None


def test_a_given_mesh_and_one_that_is_too_fine():
    corners = np.array([[0, 0, 0], [2, 0, 0], [0, 4, 0], [0, 0, 6]], np.float32)
    triangles = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], np.int32)
    made = solid("mesh", (0, 0, 0), given=(corners, triangles))
    assert volume(made) == pytest.approx(2 * 4 * 6 / 6) and len(made.faces) == 4
    fine = np.tile(triangles, (MOST_FACES, 1))
    assert volume(solid("mesh", (0, 0, 0), given=(corners, fine))) == pytest.approx(2 * 4 * 6)
