"""The camera holds what it is aimed at, and follows what travels."""

import numpy as np
import pytest

from rlkjax.render.camera import ASPECT, FIELD_OF_VIEW, MARGIN, aim, axes, follow


@pytest.mark.parametrize("frontal", [False, True])
@pytest.mark.parametrize("half", [(1, 1, 1), (5, 0.2, 1), (0.1, 0.1, 3), (4, 4, 0.1), (0.3, 9, 2)])
def test_every_corner_is_in_the_picture_and_one_is_near_its_edge(half, frontal):
    half = np.array(half, float)
    camera = aim(np.zeros((3, 3)), (-half, half), frontal=frontal)
    corners = half * np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    right, up, away = (corners @ axes(camera.azimuth, camera.elevation).T).T
    depth = away + camera.distance
    tangent = np.tan(FIELD_OF_VIEW / 2)
    share = np.maximum(np.abs(right) / (ASPECT * tangent * depth), np.abs(up) / (tangent * depth))
    assert depth.min() > 0 and 1 / MARGIN - 0.25 < share.max() <= 1


def test_a_flat_scene_is_seen_from_above_and_a_picture_from_the_front():
    def of(*half, frontal):
        return aim(np.zeros((1, 3)), (-np.array(half), np.array(half)), frontal=frontal)

    assert of(2, 2, 0.1, frontal=True).elevation == of(2, 2, 0.1, frontal=False).elevation == 0.9
    assert of(2, 0.1, 1, frontal=True).azimuth == -1.25
    assert of(2, 0.1, 1, frontal=False).azimuth == -0.9


def test_axes_are_square_and_look_inwards():
    # From the front and level: x is right, z is up, and away is along y.
    np.testing.assert_allclose(axes(-np.pi / 2, 0.0), [[1, 0, 0], [0, 0, 1], [0, 1, 0]], atol=1e-12)
    own = axes(0.7, 0.4)
    np.testing.assert_allclose(own @ own.T, np.eye(3), atol=1e-12)
    assert own[2] @ [0, 0, 1] == pytest.approx(-np.sin(0.4))


def test_following_by_hand():
    # Means over three, the ends held: (0 + 0 + 3) / 3, (0 + 3 + 6) / 3, (3 + 6 + 6) / 3.
    way = follow(np.array([[0.0, 1, 5], [3, 1, 6], [6, 1, 7]]), 1)
    assert way.tolist() == [[0, 0, 0], [2, 0, 0], [4, 0, 0]]
