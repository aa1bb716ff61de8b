"""Pages in a real browser: nothing fails, nothing is fetched, and everything can be seen."""

import json
import re

import numpy as np
import pytest
from browser import count, load, needs_browser, shoot

from rlkjax.render.trajectory import Trajectory
from rlkjax.report import episode, page
from rlkjax.report.facts import read_facts
from rlkjax.report.markup import document, packaged, tag
from vimejax.geometry import Geom
from vimejax.scenes import Scene

pytestmark = needs_browser

DARK = "--blink-settings=preferredColorScheme=0"
LIGHT = "--blink-settings=preferredColorScheme=1"
SIZE = (1180, 900)


def write(path, folder, **options):
    path.write_text(page.page(read_facts(folder), page.read_config(folder), **options))
    return path


@pytest.fixture
def halted(make_run, tmp_path):
    return write(tmp_path / "page.html", make_run(tmp_path / "run", 6, halt_at=4, planned=9))


def test_what_this_file_would_see(tmp_path):
    path = tmp_path / "control.html"
    path.write_text('<img src="http://127.0.0.1:9/x.png"><script>throw new Error("bad")</script>')
    seen = load(path, tmp_path / "profile")
    assert seen.requests == ["http://127.0.0.1:9/x.png"]
    assert len(seen.console) == 1 and "Uncaught Error: bad" in seen.console[0]


def test_a_page_loads_without_a_word_and_without_a_request(halted, tmp_path):
    seen = load(halted, tmp_path / "profile")
    assert (seen.console, seen.requests) == ([], [])
    assert re.search('class="verdict">.*</svg>NOT verified</p>', seen.dom)
    strip = re.search('<svg class="strip".*?</svg>', seen.dom)[0]
    assert strip.count('class="cell ') == 9


def test_the_strip_can_be_seen_in_light_and_dark(halted, tmp_path):
    for name, flag, paper, verified, stopped in (
        ("halted-light", LIGHT, "#fbfaf7", "#7fb89c", "#d3564b"),
        ("halted-dark", DARK, "#151617", "#3f7a5e", "#c9483d"),
    ):
        picture = shoot(halted, tmp_path / name, name, flag)
        assert count(picture[:4], paper) == 4 * picture.shape[1]
        # Four of nine cells of a strip 960 wide and 44 high, less their gaps: about 18,000 pixels.
        assert 15_000 < count(picture, verified) < 19_000
        # One cell, of which its lines take more than half.
        assert 1_000 < count(picture, stopped) < 4_700


def test_a_small_screen_shows_everything_without_sideways_scrolling(halted, tmp_path):
    script = "document.title = document.documentElement.scrollWidth;"
    text = halted.read_text().replace("</body>", f"<script>{script}</script></body>")
    path = tmp_path / "probe.html"
    path.write_text(re.sub('<meta http-equiv="Content-Security.*?>', "", text))
    shoot(halted, tmp_path / "small", "halted-small", size=(500, 1600))
    dom = load(path, tmp_path / "profile", "--window-size=500,900").dom
    assert int(re.search("<title>(.*?)</title>", dom)[1]) <= 500


def test_foreign_text_runs_nothing(run, tmp_path):
    nasty = (
        '</title></script><img src="http://127.0.0.1:9/x"><script>document.title="owned"</script>'
    )
    (run / "config.json").write_text(json.dumps({"task": nasty, "seed": 0, nasty: nasty}))
    path = write(tmp_path / "page.html", run)
    seen = load(path, tmp_path / "profile")
    assert (seen.console, seen.requests) == ([], [])
    assert "<title>owned" not in seen.dom and "&lt;script&gt;document.title" in seen.dom


def test_what_escapes_the_escaping_runs_nothing_either(run, tmp_path):
    # As if markup had let it through: the policy of the page is the second wall.
    text = write(tmp_path / "page.html", run).read_text()
    bad = '<img src="http://127.0.0.1:9/x"><script>document.title="owned"</script>'
    path = tmp_path / "bad.html"
    path.write_text(text.replace("</main>", f"{bad}</main>"))
    seen = load(path, tmp_path / "profile")
    assert "<title>owned" not in seen.dom and seen.requests == []
    assert len(seen.console) == 2 and all(
        "Content Security Policy" in each for each in seen.console
    )


# --- the episode ---------------------------------------------------------------------------------

UNIT = (1.0, 0.0, 0.0, 0.0)
PAINT = (0.2, 0.4, 0.9, 1.0)
GEOMS = (
    Geom("plane", 0, (0.0, 0.0, 0.0), UNIT, (5.0, 5.0, 0.1), PAINT),
    Geom("box", 1, (0.0, 0.0, 0.0), UNIT, (0.3, 0.2, 0.1), (0.8, 0.3, 0.2, 1.0)),
    Geom("capsule", 1, (0.0, 0.0, 0.3), UNIT, (0.08, 0.2, 0.0), PAINT),
    Geom("sphere", 2, (0.0, 0.0, 0.0), UNIT, (0.3, 0.0, 0.0), (0.3, 0.7, 0.3, 1.0)),
)
SCENE = Scene(GEOMS, lambda state: state, False)


def trajectory(steps: int = 100) -> Trajectory:
    """A block that slides and a ball that circles it."""
    poses = np.zeros((steps + 1, 3, 7), np.float32)
    poses[..., 3] = 1
    turn = np.linspace(0, 2 * np.pi, steps + 1)
    poses[:, 1, 0], poses[:, 1, 2] = 0.2 * np.sin(turn), 0.1
    # In the middle of the episode the ball is behind the block, for an eye at azimuth -0.9.
    poses[:, 2, 0], poses[:, 2, 1] = 0.6 * np.cos(turn - 0.9), 0.6 * np.sin(turn - 0.9)
    poses[:, 2, 2] = 0.3
    return Trajectory(poses, np.ones(steps, np.float32), True, 0.05)


def episode_page(path, run):
    shown = episode.section(trajectory(), SCENE, 5)
    return write(path, run, extras=page.Extras(shown, episode.viewer()))


def stage_of(picture: np.ndarray) -> np.ndarray:
    """The part of a screenshot that is the stage: the first rows of its background and below."""
    rows = np.flatnonzero((picture[:, 590] == (0xF3, 0xF3, 0xF1)).all(axis=1))
    return picture[rows[0] : rows[0] + 470, 120:1060].astype(int)


def test_the_moving_picture_is_the_still_one(run, tmp_path):
    path = episode_page(tmp_path / "page.html", run)
    seen = load(path, tmp_path / "profile")
    assert (seen.console, seen.requests) == ([], [])
    assert "<canvas" in seen.dom and 'class="still"' not in seen.dom
    assert "step 50 · 2.50 s · return 50.00" in seen.dom
    # A second policy, under which no script runs: what is seen then, all see who run none.
    policy = tag("meta", http_equiv="Content-Security-Policy", content="script-src 'none'")
    silent = tmp_path / "silent.html"
    silent.write_text(path.read_text().replace("<head>", f"<head>{policy}"))
    assert "<canvas" not in load(silent, tmp_path / "profile").dom
    size = (1180, 2000)
    moving = stage_of(shoot(path, tmp_path / "a", "episode-script", LIGHT, size=size))
    still = stage_of(shoot(silent, tmp_path / "b", "episode-no-script", LIGHT, size=size))
    assert moving.shape == still.shape
    colors = {tuple(each) for each in moving.reshape(-1, 3)[::7]}
    assert len(colors) > 30  # faces in many shades
    apart = np.abs(moving - still).max(axis=2)
    assert (apart > 40).mean() < 0.005, (apart > 40).mean()


def test_the_episode_plays_to_its_end(run, tmp_path):
    # Without a window few frames are asked for; a timer asks for them in their stead.
    frames = "requestAnimationFrame = (f) => setTimeout(() => f(performance.now()), 16);"
    script = f"{frames}{episode.viewer()}document.querySelector('button').click();"
    body = episode.section(trajectory(20), SCENE, 5)
    style = packaged("rlkjax.report", "style.css")
    path = tmp_path / "page.html"
    path.write_text(document("x", tag("main", body), style=style, script=script))
    seen = load(path, tmp_path / "profile", "--virtual-time-budget=5000")
    assert seen.console == []
    assert "step 20 · 1.00 s · return 20.00" in seen.dom  # from step 10, half a second later
