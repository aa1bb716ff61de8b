"""The curves of a page: returns on top, then every other metric as a small chart of its own."""

from collections.abc import Sequence

from rlkjax.audit.checks import Record
from rlkjax.report.chart import LARGE, SMALL, Series, draw
from rlkjax.report.curve import Point
from rlkjax.report.facts import number
from rlkjax.report.markup import EMPTY, Html, join, tag
from rlkjax.report.sections import block

# Metrics by group, in the order in which a person looks at them; what is in none comes last.
GROUPS = {
    "Losses": ("policy_loss", "value_loss", "entropy", "grad_norm", "learning_rate"),
    "The step": ("approx_kl", "clip_fraction", "ratio_not_one", "ratio_ulp"),
    "Episodes": ("episode_length", "length_mean", "episodes"),
    "Faults": ("nonfinite", "first_ratio_not_one", "first_ratio_ulp"),
}
RETURNS = ("episode_return", "return_mean", "return_min", "return_max")
# What a person should know of a group before he reads its charts.
CAPTIONS = {
    "The step": (
        ("ratio_not_one", "ratio_ulp"),
        "ratio_not_one is the share of importance ratios that are not exactly 1, ratio_ulp their "
        "largest distance from it: both leave 0 as the policy learns. Only the ratios of an "
        "iteration's first minibatch, where the policy has not moved yet, are promised to be 1, "
        "in exact numerics; first_ratio_not_one and first_ratio_ulp are of these.",
    ),
}
NO_METRIC = ("kind", "iteration", "steps")
MOST = 60  # charts of unknown metrics on a page


def series(metrics: Sequence[Record]) -> dict[str, dict[str, list[Point]]]:
    """Every metric by the kind of its line.

    Args:
      metrics: lines of metrics.jsonl.

    Returns:
      Kind -> name -> points (steps, value); values that are no finite numbers are left out.
    """
    found: dict[str, dict[str, list[Point]]] = {}
    for line in metrics:
        steps = number(line.get("steps"))
        at = number(line.get("iteration")) if steps is None else steps
        if at is None or at < 0:
            continue
        kind = found.setdefault(str(line.get("kind")), {})
        for name, value in line.items():
            known = None if name in NO_METRIC else number(value)
            if known is not None:
                kind.setdefault(name, []).append((at, known))
    return found


def learning(found: dict[str, dict[str, list[Point]]]) -> Html:
    """The learning curve: training and evaluation returns.

    Args:
      found: of `series`.

    Returns:
      Markup; nothing where there is no return.
    """
    training = found.get("update", {}).get("episode_return", [])
    kind = found.get("evaluation", {})
    mean = kind.get("return_mean", [])
    if not training and not mean:
        return EMPTY
    low, high = dict(kind.get("return_min", [])), dict(kind.get("return_max", []))
    band = [(x, low[x], high[x]) for x, _ in mean if x in low and x in high]
    lines = [Series("training", training), Series("evaluation", mean, dots=True, band=band)]
    label = f"Learning curve. Training {_summary(training)}; evaluation {_summary(mean)}"
    key = [
        tag("span", "episodes that ended while training", class_="name training"),
        tag(
            "span",
            "evaluation with the deterministic policy, and its range",
            class_="name evaluation",
        ),
    ]
    caption = tag("figcaption", *key, tag("span", f"Last evaluation {_last(mean)}", class_="last"))
    picture = draw(lines, label, box=LARGE, unit="environment steps")
    return block("curve", "Episode return", tag("figure", picture, caption))


def _summary(points: Sequence[Point]) -> str:
    if not points:
        return "has no value"
    values = [value for _, value in points]
    return f"from {values[0]:.6g} to {values[-1]:.6g}, at most {max(values):.6g}"


def _last(points: Sequence[Point]) -> str:
    if not points:
        return "none"
    return shown(points[-1][1])


def shown(value: float) -> str:
    """A number in few digits.

    Args:
      value: finite.

    Returns:
      "1,234,567", "0.01235", "1.2e-07".
    """
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:,.4g}"


def small(found: dict[str, dict[str, list[Point]]]) -> Html:
    """Every other metric of updates and evaluations.

    Args:
      found: of `series`.

    Returns:
      Markup.
    """
    kinds = ("update", "evaluation")
    every = {name: points for kind in kinds for name, points in found.get(kind, {}).items()}
    left = {name: every[name] for name in every if name not in RETURNS}
    grouped = {title: [name for name in names if name in left] for title, names in GROUPS.items()}
    known = {name for names in grouped.values() for name in names}
    grouped["Further metrics"] = sorted(set(left) - known)[:MOST]
    parts = [
        join(
            [
                tag("h3", title),
                _charts({name: left[name] for name in names}),
                _caption(title, names),
            ]
        )
        for title, names in grouped.items()
        if names
    ]
    return block("metrics", "Metrics", *parts)


def _caption(title: str, names: Sequence[str]) -> Html:
    about, text = CAPTIONS.get(title, ((), ""))
    return tag("p", text, class_="note") if set(about) & set(names) else EMPTY


def _charts(named: dict[str, list[Point]]) -> Html:
    moving = {name: points for name, points in named.items() if _moves(points)}
    still = {name: points for name, points in named.items() if not _moves(points)}
    figures = [_figure(name, points) for name, points in moving.items()]
    steady = [
        tag("li", tag("b", name), f" {points[0][1]:.6g} throughout")
        for name, points in still.items()
    ]
    return join(
        [
            tag("div", *figures, class_="charts") if figures else EMPTY,
            tag("ul", *steady, class_="steady") if steady else EMPTY,
        ]
    )


def _moves(points: Sequence[Point]) -> bool:
    return len({value for _, value in points}) > 1


def _figure(name: str, points: Sequence[Point]) -> Html:
    picture = draw([Series("metric", points)], f"{name} {_summary(points)}", box=SMALL)
    head = tag("figcaption", tag("b", name), tag("span", _last(points), class_="last"))
    return tag("figure", head, picture)
