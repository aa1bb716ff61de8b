"""What a run shows: the curve, the progress lines, and the logs beside the ledger."""

import json
import xml.etree.ElementTree as ET

import pytest

from rlkjax.errors import InputError
from rlkjax.loop import Settled
from rlkjax.report import curve, loggers, progress

SVG = "{http://www.w3.org/2000/svg}"


def lines(folder, *records):
    text = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "metrics.jsonl").write_text(text)


def update(steps, value):
    return {"kind": "update", "steps": steps, "episode_return": value}


def evaluation(steps, value):
    return {"kind": "evaluation", "steps": steps, "return_mean": value}


def test_points_leave_out_what_is_null(tmp_path):
    lines(tmp_path, update(10, None), update(20, 1.5), evaluation(20, 3.0), update(30, 2.5))
    assert curve.read_points(tmp_path / "metrics.jsonl") == {
        "training": [(20, 1.5), (30, 2.5)],
        "evaluation": [(20, 3.0)],
    }


@pytest.mark.parametrize(
    ("low", "high", "want"),
    [
        (0, 100, [0, 50, 100]),
        (0, 200_000, [0, 50_000, 100_000, 150_000, 200_000]),
        (-3, 5, [-2, 0, 2, 4]),
        (0.0, 0.9, [0.0, 0.5]),
        (-1627.0, -144.0, [-1500, -1000, -500]),
    ],
)
def test_ticks_are_round_and_inside(low, high, want):
    assert curve.ticks(low, high) == want


def test_ticks_of_tiny_and_huge_ranges_are_few():
    for width in (1e-9, 1e-4, 0.3, 7.0, 12345.0, 1e12):
        for low in (0.0, -width / 3, 5 * width):
            found = curve.ticks(low, low + width)
            assert 1 <= len(found) <= 6, (low, width)
            assert all(low - 1e-9 * width <= tick <= low + width * (1 + 1e-9) for tick in found)


def test_short_numbers():
    shown = [curve.short(x) for x in (0, 0.5, 999, 1000, 1_500_000, -2e9)]
    assert shown == ["0", "0.5", "999", "1k", "1.5M", "-2G"]


@pytest.mark.parametrize(
    "points",
    [
        {"training": [], "evaluation": []},
        {"training": [(10.0, 5.0)], "evaluation": []},
        {"training": [(10.0, 1.0), (20.0, 3.0)], "evaluation": [(20.0, 3.0)]},
        {"training": [(1.0, -1e-8), (2.0, 1e-8)], "evaluation": []},
    ],
)
def test_the_picture_is_whole_and_refers_to_nothing_outside(points):
    text = curve.svg(points, "cart & <pole>, seed 0")
    tree = ET.fromstring(text)
    assert tree.find(f"{SVG}title").text == "cart & <pole>, seed 0"
    series = {each.get("class"): each.get("points") for each in tree.iter(f"{SVG}polyline")}
    for name, expected in points.items():
        assert len(series[name].split()) == len(expected)
        for point in series[name].split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= curve.WIDTH and 0 <= y <= curve.HEIGHT
    assert len(list(tree.iter(f"{SVG}circle"))) == len(points["evaluation"])
    outside = text.replace("http://www.w3.org/2000/svg", "")
    assert not any(word in outside for word in ("http", "href", "url(", "<script", "<image"))


def test_higher_returns_are_drawn_higher():
    text = curve.svg({"training": [(10.0, 1.0), (20.0, 3.0)], "evaluation": []}, "t")
    line = next(ET.fromstring(text).iter(f"{SVG}polyline")).get("points")
    (x0, y0), (x1, y1) = (map(float, point.split(",")) for point in line.split())
    assert x1 > x0 and y1 < y0


def test_write_draws_what_the_run_recorded(tmp_path):
    lines(tmp_path, update(10, 1.0), evaluation(10, 2.0))
    path = curve.write(tmp_path, "t")
    assert path == tmp_path / "learning_curve.svg"
    assert ET.fromstring(path.read_text()).tag == f"{SVG}svg"


VALUES = {"steps": 96, "episode_return": 9.5, "policy_loss": -0.25, "value_loss": 1.0}


def test_a_progress_line():
    text = progress.describe(VALUES, 12.0, 1234.5, "ab" * 32)
    assert text == "1,234 steps/s  return 9.5  eval 12.0  loss 0.75  chain abababab"
    assert "eval" not in progress.describe(VALUES, None, 1.0, "ab" * 32)


def test_plain_lines_where_there_is_no_terminal(capsys):
    with progress.Watch(192, 0) as watch:
        watch.update(VALUES, None, "ab" * 32)  # too soon after the start
        watch.update(VALUES, {"return_mean": 12.0}, "ab" * 32)
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.split()[:3] == ["96", "/", "192"] and "eval 12.0" in line
    with progress.Watch(192, 0, quiet=True) as watch:
        watch.update(VALUES, {"return_mean": 12.0}, "ab" * 32)
    assert capsys.readouterr() == ("", "")


def settled(**changes):
    base = Settled(3, 96, "ab" * 32, {"loss": 0.5, "bad": float("nan")}, {"return_mean": 7}, 0.25)
    return base._replace(**changes)


def test_scalars_by_tag():
    assert loggers.scalars(settled()) == {"train/loss": 0.5, "evaluation/return_mean": 7}
    assert loggers.scalars(settled(evaluation=None)) == {"train/loss": 0.5}


def test_clock_times_go_to_a_file_of_their_own(tmp_path):
    with loggers.open_all([], tmp_path, None) as log:
        log(settled())
        log(settled(iteration=4))
    found = [json.loads(line) for line in (tmp_path / "timing.jsonl").read_text().splitlines()]
    assert [each["iteration"] for each in found] == [3, 4]
    assert all(each["audit_seconds"] == 0.25 and each["seconds"] >= 0 for each in found)


@pytest.mark.parametrize(("name", "module"), [("tensorboard", "tensorboardX"), ("wandb", "wandb")])
def test_an_extra_that_is_not_there_is_named(tmp_path, monkeypatch, name, module):
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with (
        pytest.raises(InputError, match=rf"--log {name}: not installed; pip install 'rlkjax\["),
        loggers.open_all([name], tmp_path, None),
    ):
        pass
