"""Charts: what thinning keeps, and where points are put."""

import re

from rlkjax.report.chart import LARGE, SMALL, Box, Series, draw, scale_of, thin


def test_thinning_keeps_every_peak_and_both_ends():
    points = [(float(k), 0.0) for k in range(10_000)]
    points[1234] = (1234.0, 9.0)
    points[8765] = (8765.0, -9.0)
    kept = thin(points, groups=50)
    assert len(kept) <= 102
    assert {points[0], points[-1], points[1234], points[8765]} <= set(kept)
    assert kept == sorted(kept)
    assert thin(points[:100], groups=50) == points[:100]


def test_places_by_hand():
    # 100 wide and 50 high without margins. Values 2 to 4, and 0.06 * 2 = 0.12 above and below:
    # y(3) is the middle, y(4) is 0.12 / 2.24 * 50 = 2.7 from the top.
    scale = scale_of([Series("m", [(5.0, 2.0), (10.0, 4.0)])], Box(100, 50, 0, 0, 0, 0))
    assert [scale.x(0), scale.x(5), scale.x(10)] == [0, 50, 100]
    assert [scale.y(3), scale.y(4), scale.y(2)] == [25, 2.7, 47.3]


def test_a_chart_shows_lines_dots_band_and_says_what_it_shows():
    lines = [
        Series("training", [(1.0, 1.0), (2.0, 3.0)]),
        Series("evaluation", [(2.0, 2.0)], dots=True, band=[(2.0, 1.0, 4.0)]),
    ]
    text = draw(lines, "returns <x>", box=LARGE, unit="steps")
    assert text.count("<polyline") == 2 and text.count("<polygon") == 1
    assert text.count("<circle") == 1 and 'aria-label="returns &lt;x&gt;"' in text
    places = [float(y) for y in re.findall(r"[\d.]+,([\d.]+)", text)]
    assert all(0 <= y <= LARGE.height for y in places)


def test_nothing_to_draw_is_said():
    for points in ([], [(1.0, 1e301)]):
        assert draw([Series("m", points)], "x", box=SMALL) == (
            '<p class="note">No value that can be drawn.</p>'
        )


def test_one_point_and_a_flat_line_have_a_place():
    for points in ([(0.0, 0.0)], [(1.0, 5.0), (2.0, 5.0)], [(1.0, 1e-30), (2.0, 2e-30)]):
        text = draw([Series("m", points)], "x", box=SMALL)
        assert "nan" not in text and "inf" not in text and "<polyline" in text
