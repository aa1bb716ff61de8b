"""A rendered episode on a page: a still picture for everyone, and one that moves with a script."""

from collections.abc import Iterable

from rlkjax.render.film import as_data, make_film
from rlkjax.render.still import Polygon, polygons
from rlkjax.render.trajectory import Trajectory
from rlkjax.report.markup import Html, data_block, join, packaged, tag
from vimejax.scenes import Scene

WIDTH, HEIGHT = 960, 480
PACKAGE = "rlkjax.report"
VIEWER = "viewer.js"


def section(trajectory: Trajectory, scene: Scene, iteration: int) -> Html:
    """The still picture, what the episode was, and the data of the moving one.

    Args:
      trajectory: the episode.
      scene: what it is an episode of.
      iteration: after which the policy was taken.

    Returns:
      Markup.
    """
    film = make_film(trajectory, scene)
    steps = len(trajectory.rewards)
    ending = "the task ended it" if trajectory.terminated else "its time limit cut it"
    total = float(trajectory.rewards.sum(dtype="float64"))
    words = tag(
        "p",
        f"The policy after iteration {iteration:,} in the first episode of the evaluation that "
        f"follows: {steps:,} steps, ",
        tag("span", f"{steps * trajectory.seconds:,.6g} s", class_="whole"),
        f", return {total:,.6g}; {ending}.",
    )
    middle = len(film.poses) // 2
    still = picture(polygons(film, middle, width=WIDTH, height=HEIGHT))
    caption = f"Still picture of step {middle * film.stride:,}."
    return join(
        [
            words,
            tag("div", still, tag("p", caption, class_="note"), id="stage"),
            data_block("film", as_data(film, trajectory)),
        ]
    )


def viewer() -> str:
    """The script that moves the picture.

    Returns:
      JavaScript.
    """
    return packaged(PACKAGE, VIEWER)


def picture(shapes: Iterable[Polygon]) -> Html:
    """Polygons as SVG.

    Args:
      shapes: in the order in which they are painted.

    Returns:
      An SVG element.
    """
    found = list(shapes)
    shadow = "".join(f"M{_points(each)}Z" for each in found if each.kind == "shadow")
    parts = [_draw(each) for each in found if each.kind in ("floor", "grid")]
    parts.append(Html(f'<path class="shadow" d="{shadow}"></path>'))
    parts += [_draw(each) for each in found if each.kind == "face"]
    return tag(
        "svg",
        *parts,
        class_="still",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label="The bodies of the task in the middle of the episode",
    )


def _draw(shape: Polygon) -> Html:
    points = _points(shape)
    if shape.kind != "face":
        return Html(f'<polygon class="{shape.kind}" points="{points}"></polygon>')
    color = "#" + "".join(f"{max(part, 0):02x}" for part in shape.color)
    return Html(f'<polygon fill="{color}" stroke="{color}" points="{points}"></polygon>')


def _points(shape: Polygon) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in shape.points)
