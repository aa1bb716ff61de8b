"""`python -m rlkjax.diff RUN_A RUN_B`: where two runs part, down to the element, and why."""

import argparse
import json
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from rlkjax import cli
from rlkjax.atomic import write_file
from rlkjax.audit.difference import Difference, Settings, iterations_text
from rlkjax.audit.referee import RecomputeFn, compare_runs
from rlkjax.errors import ConsistencyError
from rlkjax.report.divergence import divergence_page

_SHOWN = 12  # settings of one kind that are listed
_KINDS = {"fingerprint": "machine"}  # what the kinds of settings are called, where it is not so


def parser() -> argparse.ArgumentParser:
    """The command line of `diff`."""
    made = argparse.ArgumentParser(
        prog="python -m rlkjax.diff",
        description="Name the first difference of two runs: iteration, stage, buffer, step, "
        "environment, element, both bit patterns, and the class of cause.",
        epilog="exit status: 0 equal bits; 1 different, or a damaged run; 2 wrong use or input",
        allow_abbrev=False,
    )
    made.add_argument("a", metavar="RUN_A", type=Path, help="a run folder")
    made.add_argument("b", metavar="RUN_B", type=Path, help="the other run folder")
    made.add_argument(
        "--replay",
        action="store_true",
        help="recompute the iteration of both runs here, each under its own flags and threads, and "
        "go on to the element and to the first operation that differs",
    )
    made.add_argument("--json", action="store_true", help="print one JSON object")
    made.add_argument("--html", metavar="FILE", type=Path, help="also write a page that shows it")
    return made


def main(arguments: Sequence[str]) -> int:
    """Runs the command.

    Args:
      arguments: command line without the program's name.

    Returns:
      Exit status: 0 equal, 1 different.

    Raises:
      InputError: no run folder, one folder twice, or a ledger of another format.
      ConsistencyError: files that were read are damaged.
      MachineError: no space for the page.
    """
    options = parser().parse_args(arguments)
    found = compare_runs(options.a, options.b, recompute=_recompute(options.replay))
    if options.html is not None:
        write_file(options.html, divergence_page(found.as_json()).encode())
        print(f"page: {options.html}", file=sys.stderr)
    print(json.dumps(found.as_json()) if options.json else as_text(found))
    return 0 if found.equal else ConsistencyError.exit_status


def _recompute(wanted: bool) -> RecomputeFn | None:
    if not wanted:
        return None
    from rlkjax.witness.hearing import hear  # late: imports JAX, which files alone do not need

    return hear


def as_text(found: Difference) -> str:
    """What the command prints for people: the verdict first, then where, bits, cause, advice.

    Args:
      found: what the referee found.

    Returns:
      Lines of printable text.
    """
    shown = found.as_json()
    lines = [_printable(_verdict(shown)), *_runs(shown)]
    if shown["buffer"]:
        lines.append(_row("where", _where(shown)))
    if shown["a_bits"]:
        lines += _bits(shown)
    if shown["cause"]:
        sure = "" if shown["cause"]["certain"] else " (not proved)"
        lines.append(_row("cause", f"{shown['cause']['class']}{sure}: {shown['cause']['text']}"))
        lines += [_row("advice", shown["cause"]["advice"])] if shown["cause"]["advice"] else []
    if shown["operation"]:
        lines += _operation(shown["operation"])
    lines += [_row("note", note) for note in shown["notes"]]
    lines += _settings(found.settings)
    return "\n".join(lines)


def _printable(text: str) -> str:
    """Text from files, with control and non-ASCII characters escaped."""
    return ascii(text)[1:-1].replace("\\'", "'")


def _row(name: str, text: str) -> str:
    """A name and a text, in lines of at most 100 columns."""
    head = f"  {name:<9} "
    return textwrap.fill(
        _printable(text),
        100,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _verdict(shown: dict) -> str:
    count = iterations_text(shown["a"]["iterations"])
    if shown["equal"]:
        return f"EQUAL: all numeric records of both runs are the same, {count}"
    if shown["stage"] == "end":
        return f"DIFFERENT LENGTH: equal up to iteration {shown['iteration']}, where one run ends"
    return f"DIFFERENT from iteration {shown['iteration']}, stage {shown['stage']}" + (
        f", buffer {shown['buffer']}" if shown["buffer"] else ""
    )


def _runs(shown: dict) -> list[str]:
    return [
        _row(
            f"run {side.upper()}",
            f"{shown[side]['name']} (bits {shown[side]['bits'][:16]}, {shown[side]['numerics']} on "
            f"{shown[side]['platform']}, {iterations_text(shown[side]['iterations'])})",
        )
        for side in ("a", "b")
    ]


def _where(shown: dict) -> str:
    parts = [f"buffer {shown['buffer']}"]
    parts += [f"{key} {shown[key]}" for key in ("step", "environment") if shown[key] is not None]
    if shown["element"]:
        parts.append(f"element {shown['element']}")
    if shown["elements"]:
        parts.append(
            f"{shown['elements_differing']:,} of its {shown['elements']:,} elements differ"
        )
    return ", ".join(parts)


def _bits(shown: dict) -> list[str]:
    """Both bit patterns under one another, with their values and their distance."""
    lines = [
        _row(f"bits {side.upper()}", f"{shown[f'{side}_bits']} = {shown[f'{side}_value']}")
        for side in ("a", "b")
    ]
    if shown["ulp"] is not None:
        lines[1] += f", {shown['ulp']:,} ulp apart ({shown['dtype']})"
    return lines


def _operation(shown: dict) -> list[str]:
    inside = f" in {' > '.join(shown['path'])}" if shown["path"] else ""
    lines = [_row("operation", f"{shown['primitive']} at {shown['line']}{inside}")]
    lines += [_row("", f"operand {text}") for text in shown["operands"]]
    return lines + [_row("", line.strip()) for line in (_bits(shown) if shown["a_bits"] else [])]


def _settings(settings: Settings) -> list[str]:
    lines = []
    for name, entries in vars(settings).items():
        kind = _KINDS.get(name, name)
        for entry in entries[:_SHOWN]:
            effect = f"; can change {entry.effect}" if entry.effect else ""
            lines.append(_row(kind, f"{entry.key}: {entry.a} in A, {entry.b} in B{effect}"))
        if len(entries) > _SHOWN:
            lines.append(_row(kind, f"and {len(entries) - _SHOWN} more; see --json"))
    return ["  differing settings:", *lines] if lines else []


if __name__ == "__main__":
    sys.exit(cli.run(main))
