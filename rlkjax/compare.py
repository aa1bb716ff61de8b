"""`python -m rlkjax.compare --config FILE --platforms cpu:exact,cpu:native`: equal bits or not."""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rlkjax import cli, diff
from rlkjax.audit.difference import iterations_text
from rlkjax.audit.referee import RecomputeFn
from rlkjax.audit.tolerance import Measured
from rlkjax.comparison import conditions, differences
from rlkjax.comparison.conditions import Condition
from rlkjax.comparison.differences import Apart, Cell
from rlkjax.config import Config, iterations, load_config
from rlkjax.errors import ConsistencyError, InputError

_SHOWN = 20  # buffers of the tolerance table that are printed


def parser() -> argparse.ArgumentParser:
    """The command line of `compare`."""
    made = argparse.ArgumentParser(
        prog="python -m rlkjax.compare",
        description="Run the same iterations of a config under several conditions, each in its own "
        "process, and show equal bits heads or the first difference from the first condition.",
        epilog="exit status: 0 equal bits; 1 different; 2 wrong use or input; 3 the machine lacks "
        "a platform, devices or cores",
        allow_abbrev=False,
    )
    cli.add_config(made)
    made.add_argument(
        "--platforms",
        required=True,
        metavar="A,B,...",
        help=f"conditions apart by commas, each {conditions.FORM}".replace("%", "%%"),
    )
    made.add_argument(
        "--iterations", type=int, default=3, metavar="N", help="of the run, from 0 (default: 3)"
    )
    made.add_argument(
        "--run-dir", type=Path, metavar="DIR", help="keep the run folders in this new folder"
    )
    made.add_argument(
        "--replay",
        action="store_true",
        help="where bits differ, go on to the first operation that differs, as diff --replay does",
    )
    made.add_argument("--json", action="store_true", help="print one JSON object")
    return made


def main(arguments: Sequence[str]) -> int:
    """Runs the command, see `cli.run`. Exit status: 0 equal, 1 different."""
    options = parser().parse_args(arguments)
    config = load_config(options.config, options.set)
    listed = conditions.parse(options.platforms)
    count = min(options.iterations, iterations(config))
    if count < 1:
        raise InputError(f"--iterations: got {options.iterations}, want at least 1")
    configs = [_under(config, condition, count) for condition in listed]
    # Whatever is not here is said before anything long runs.
    for condition in listed:
        conditions.check(condition, config)
    for condition, own in zip(listed, configs, strict=True):
        if condition.platform != "cpu":
            differences.ask(own, condition, None, count)
    if options.run_dir is None:
        with tempfile.TemporaryDirectory() as folder:
            return _compare(listed, configs, Path(folder), options)
    if options.run_dir.exists() and any(options.run_dir.iterdir()):
        raise InputError(f"--run-dir: got {options.run_dir}, which is not empty; name a new folder")
    return _compare(listed, configs, options.run_dir, options)


def _under(config: Config, condition: Condition, count: int) -> Config:
    """A config as a condition has it, with all kept that a difference is looked for in."""
    return replace(
        config,
        platform=condition.platform,
        numerics=condition.numerics or config.numerics,
        audit=replace(config.audit, keep_segments="all", reference_every=0),
        checkpoint=replace(config.checkpoint, every=1, keep=count),
    )


def _compare(
    listed: Sequence[Condition],
    configs: Sequence[Config],
    folder: Path,
    options: argparse.Namespace,
) -> int:
    """Runs all conditions, and prints what they gave."""
    count = configs[0].checkpoint.keep
    program, cells = differences.digest_of(configs[0]), []
    for number, (condition, own) in enumerate(zip(listed, configs, strict=True)):
        print(f"{condition.name}: {iterations_text(count)}", file=sys.stderr, flush=True)
        place = folder / f"{number}-{condition.name.replace(':', '-')}"
        differences.ask(own, condition, place, count)
        cells.append(Cell(condition.name, place, differences.head(place, program)))
    recompute = _recompute(options.replay)
    found = [
        differences.apart(cells[0], cell, recompute)
        for cell in cells[1:]
        if cell.bits != cells[0].bits
    ]
    print(_as_json(cells, count, found) if options.json else _as_text(cells, count, found))
    return ConsistencyError.exit_status if found else 0


def _recompute(wanted: bool) -> RecomputeFn | None:
    if not wanted:
        return None
    from rlkjax.witness.hearing import hear  # late: imports JAX, which files alone do not need

    return hear


def _as_json(cells: Sequence[Cell], count: int, found: Sequence[Apart]) -> str:
    return json.dumps(
        {
            "equal": not found,
            "iterations": count,
            "conditions": [{"name": cell.condition, "bits": cell.bits} for cell in cells],
            "differences": [
                {
                    "conditions": [each.a, each.b],
                    **each.difference.as_json(),
                    "tolerance": {name: _plain(values) for name, values in each.measured.items()},
                }
                for each in found
            ],
        }
    )


def _plain(values: Measured) -> dict[str, float | None]:
    """Measures as strict JSON: what is not finite is null."""
    return {
        name: value if abs(value) < float("inf") else None
        for name, value in values._asdict().items()
    }


def _as_text(cells: Sequence[Cell], count: int, found: Sequence[Apart]) -> str:
    width = max(len(cell.condition) for cell in cells)
    lines = [
        f"{cell.condition:<{width}}  bits {cell.bits}"
        + ("" if cell is cells[0] else "  equal" if cell.bits == cells[0].bits else "  DIFFERENT")
        for cell in cells
    ]
    for each in found:
        lines += ["", f"{each.a} (A) against {each.b} (B)", diff.as_text(each.difference)]
        lines += _table(each.measured)
    verdict = f"{len(found)} of {len(cells) - 1} differ from {cells[0].condition}"
    lines += ["", verdict if found else f"EQUAL: {len(cells)} conditions, {iterations_text(count)}"]
    return "\n".join(lines)


def _table(measured: Mapping[str, Measured]) -> list[str]:
    """How far the buffers of that iteration are apart, in the order of the stages."""
    if not measured:
        return []
    width = max(map(len, measured))
    head = f"  {'buffer':<{width}}  differing    max abs    max rel    max ulp"
    rows = [
        f"  {name:<{width}}  {each.differing:>8.2%}  {each.max_abs:>9.2e}  {each.max_rel:>9.2e}  "
        f"{each.max_ulp:>9,}"
        for name, each in measured.items()
    ]
    rest = len(rows) - _SHOWN
    more = [f"  ... and {rest} more, which --json lists"] if rest > 0 else []
    return [head, *rows[:_SHOWN], *more]


if __name__ == "__main__":
    sys.exit(cli.run(main))
