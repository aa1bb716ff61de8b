"""Charts as SVG inside a page: their colours come from its style, in light, dark and print."""

from collections.abc import Sequence
from typing import NamedTuple

from rlkjax.report.curve import Point, short, ticks
from rlkjax.report.markup import EMPTY, Html, join, tag

DETAIL = 360  # groups of neighbours that a line keeps; each keeps its lowest and its highest point


class Series(NamedTuple):
    """One line.

    Attributes:
      name: also its class in the style.
      points: (steps, value), by steps.
      dots: whether each point is marked.
      band: (steps, low, high) of a range around the line, or empty.
    """

    name: str
    points: Sequence[Point]
    dots: bool = False
    band: Sequence[tuple[float, float, float]] = ()


class Box(NamedTuple):
    """Size of a chart and the room around its lines, in units of its view."""

    width: int
    height: int
    left: int = 56
    right: int = 12
    top: int = 10
    bottom: int = 26


LARGE = Box(960, 320, left=64, bottom=44)
SMALL = Box(300, 140)


def thin(points: Sequence[Point], groups: int = DETAIL) -> list[Point]:
    """Fewer points that draw the same line: of each group of neighbours the lowest and highest.

    Args:
      points: by steps.
      groups: how many groups are kept apart.

    Returns:
      At most 2 * groups + 2 points, the first and the last among them; all, where they are few.
    """
    if len(points) <= 2 * groups:
        return list(points)
    kept = [points[0]]
    for place in range(groups):
        group = points[place * len(points) // groups : (place + 1) * len(points) // groups]
        ends = {min(group, key=_value), max(group, key=_value)}
        kept += sorted(ends)
    return [*kept, points[-1]]


def _value(point: Point) -> float:
    return point[1]


class Scale(NamedTuple):
    """From numbers to places in a chart."""

    box: Box
    x_high: float
    y_low: float
    y_high: float

    def x(self, steps: float) -> float:
        """Place of a number of steps."""
        width = self.box.width - self.box.left - self.box.right
        return round(self.box.left + steps / self.x_high * width, 1)

    def y(self, value: float) -> float:
        """Place of a value."""
        height = self.box.height - self.box.top - self.box.bottom
        share = self.y_high / 2 - value / 2, self.y_high / 2 - self.y_low / 2  # halves: no overflow
        return round(self.box.top + share[0] / share[1] * height, 1)

    def line(self, points: Sequence[Point]) -> str:
        """Points as the attribute of a polyline."""
        return " ".join(f"{self.x(x):g},{self.y(y):g}" for x, y in points)


def scale_of(series: Sequence[Series], box: Box) -> Scale | None:
    """A scale that holds every point of some series.

    Args:
      series: the lines.
      box: size of the chart.

    Returns:
      The scale; None where there is no point, or numbers too large to draw.
    """
    points = [point for each in series for point in each.points]
    values = [value for _, value in points]
    values += [value for each in series for _, *ends in each.band for value in ends]
    if not points:
        return None
    low, high = min(values), max(values)
    margin = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
    if max(abs(low), abs(high)) > 1e300:
        return None
    return Scale(box, max(x for x, _ in points) or 1.0, low - margin, high + margin)


def draw(series: Sequence[Series], label: str, *, box: Box, unit: str = "") -> Html:
    """A chart.

    Args:
      series: the lines, the last one on top.
      label: what it shows, in words, for those who do not see it.
      box: its size.
      unit: name of the horizontal axis; empty for none.

    Returns:
      An SVG element; a sentence where there is nothing to draw.
    """
    scale = scale_of(series, box)
    if scale is None:
        return tag("p", "No value that can be drawn.", class_="note")
    words = _axis_name(scale, unit) if unit else EMPTY
    return tag(
        "svg",
        _grid(scale),
        *(_draw_series(each, scale) for each in series),
        words,
        class_="chart",
        viewBox=f"0 0 {box.width} {box.height}",
        role="img",
        aria_label=label,
    )


def _draw_series(series: Series, scale: Scale) -> Html:
    points = thin(series.points)
    parts = []
    if series.band:
        band = series.band[:: -(-len(series.band) // DETAIL)]
        outline = [(x, high) for x, _, high in band] + [(x, low) for x, low, _ in reversed(band)]
        parts.append(_shape("polygon", f"band {series.name}", scale.line(outline)))
    parts.append(_shape("polyline", f"line {series.name}", scale.line(points)))
    if series.dots or len(points) == 1:
        parts += [
            tag("circle", class_=f"dot {series.name}", cx=scale.x(x), cy=scale.y(y), r=3)
            for x, y in points
            if len(points) <= 120
        ]
    return join(parts)


def _shape(name: str, kind: str, points: str) -> Html:
    # Not by `tag`, which cuts long foreign text: these are our own numbers.
    return Html(f'<{name} class="{kind}" points="{points}"></{name}>')


def _grid(scale: Scale) -> Html:
    box = scale.box
    parts = []
    for value in ticks(scale.y_low, scale.y_high):
        y = scale.y(value)
        parts.append(tag("line", class_="grid", x1=box.left, x2=box.width - box.right, y1=y, y2=y))
        parts.append(tag("text", short(value), x=box.left - 8, y=y + 4, text_anchor="end"))
    base = box.height - box.bottom
    for value in ticks(0, scale.x_high)[:: 1 if box.width > SMALL.width else 2]:
        x = scale.x(value)
        anchor = "end" if x > box.width - 30 else "middle"
        parts.append(tag("text", short(value), x=x, y=base + 18, text_anchor=anchor))
    return join(parts)


def _axis_name(scale: Scale, unit: str) -> Html:
    box = scale.box
    middle = (box.left + box.width - box.right) / 2
    return tag("text", unit, x=middle, y=box.height - 6, text_anchor="middle", class_="unit")
