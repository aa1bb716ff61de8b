"""The learning curve of a run as an SVG picture, drawn from its metric lines."""

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path

from rlkjax.atomic import write_file

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 40, 44

Point = tuple[float, float]


def read_points(path: Path) -> dict[str, list[Point]]:
    """Training and evaluation returns by environment steps.

    Args:
      path: metrics.jsonl of a run.

    Returns:
      "training" -> (steps, mean return of the episodes that ended); "evaluation" -> (steps, mean
      return with the deterministic policy). Values that are null are left out.
    """
    points: dict[str, list[Point]] = {"training": [], "evaluation": []}
    with open(path, encoding="utf-8") as file:
        for text in file:
            record = json.loads(text)
            if record["kind"] == "reference":
                continue
            evaluated = record["kind"] == "evaluation"
            value = record["return_mean" if evaluated else "episode_return"]
            if value is not None:
                name = "evaluation" if evaluated else "training"
                points[name].append((record["steps"], value))
    return points


def ticks(low: float, high: float) -> list[float]:
    """Round numbers that divide a range into two to five parts.

    Args:
      low: lower end.
      high: upper end, above `low`.

    Returns:
      Multiples of 1, 2 or 5 times a power of ten, inside the range.
    """
    raw = (high - low) / 4
    magnitude = 10.0 ** len(str(int(raw))) / 10 if raw >= 1 else 0.1
    while magnitude > raw:
        magnitude /= 10
    step = next(m * magnitude for m in (1, 2, 5, 10) if m * magnitude >= raw)
    first = int(low // step) + (low % step > 0)
    return [round(k * step, 10) for k in range(first, int(high // step) + 1)]


def short(value: float) -> str:
    """A number as an axis shows it: 1500000 -> "1.5M".

    Args:
      value: any number.

    Returns:
      At most a handful of characters.
    """
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"


def svg(points: dict[str, list[Point]], title: str) -> str:
    """The picture: thin line for training, thick line with dots for evaluation.

    Args:
      points: as `read_points` returns them.
      title: heading, plain text.

    Returns:
      A self-contained SVG document.
    """
    every = [point for series in points.values() for point in series] or [(0.0, 0.0)]
    x_high = max(x for x, _ in every) or 1.0
    y_low, y_high = min(y for _, y in every), max(y for _, y in every)
    margin = 0.05 * (y_high - y_low) or 1.0
    y_low, y_high = y_low - margin, y_high + margin

    def place(point: Point) -> Point:
        x = LEFT + point[0] / x_high * (WIDTH - LEFT - RIGHT)
        y = TOP + (y_high - point[1]) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM)
        return round(x, 1), round(y, 1)

    grid = []
    for value in ticks(y_low, y_high):
        y = place((0, value))[1]
        grid.append(f'<line class="g" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        grid.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{short(value)}</text>')
    for value in ticks(0, x_high):
        x = place((value, y_low))[0]
        grid.append(
            f'<text x="{x}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{short(value)}</text>'
        )
    drawn = {name: [place(point) for point in series] for name, series in points.items()}
    return _document(title, grid, drawn)


def _document(title: str, grid: Sequence[str], drawn: dict[str, list[Point]]) -> str:
    def path(name: str, width: float) -> str:
        line = " ".join(f"{x},{y}" for x, y in drawn[name])
        return f'<polyline class="{name}" stroke-width="{width}" points="{line}"/>'

    dots = "".join(f'<circle class="dot" cx="{x}" cy="{y}" r="3"/>' for x, y in drawn["evaluation"])
    legend_x = WIDTH - RIGHT - 190
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" height="{HEIGHT}" role="img">',
            f"<title>{escape(title)}</title>",
            "<style>text{font:12px sans-serif;fill:#444}.t{font-size:14px;fill:#111}"
            ".g{stroke:#e4e4e4}polyline{fill:none;stroke-linejoin:round}"
            ".training{stroke:#9db8d9}.evaluation{stroke:#c2410c}.dot{fill:#c2410c}</style>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            f'<text class="t" x="{LEFT}" y="24">{escape(title)}</text>',
            *grid,
            path("training", 1.5),
            path("evaluation", 2.5),
            dots,
            f'<text x="{legend_x}" y="24" style="fill:#5b7fae">training</text>',
            f'<text x="{legend_x + 62}" y="24" style="fill:#c2410c">evaluation (mode)</text>',
            f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">'
            "environment steps</text>",
            f'<text transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" '
            'text-anchor="middle">episode return</text>',
            "</svg>\n",
        ]
    )


def write(folder: Path, title: str) -> Path:
    """Draws the learning curve of a run folder.

    Args:
      folder: the run folder.
      title: heading.

    Returns:
      The picture's path.

    Raises:
      MachineError: no space.
      InputError: the place cannot be written.
    """
    path = Path(folder) / "learning_curve.svg"
    write_file(path, svg(read_points(Path(folder) / "metrics.jsonl"), title).encode())
    return path
