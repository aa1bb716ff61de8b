"""`python -m rlkjax.gate check|accept`: a small standard set of runs whose heads may not move."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlkjax import cli, gate_heads, gate_runs
from rlkjax.atomic import write_file
from rlkjax.errors import ConsistencyError, InputError
from rlkjax.gate_heads import Made, Verdict

HEADS = "heads.json"
ACCEPTED = "ACCEPTED.md"
FOLDER = gate_runs.ROOT / "configs" / "gate"
_BAD = ("moved", "new", "failed")
_TITLE = "# Accepted heads\n\nWritten by `python -m rlkjax.gate accept`, newest last.\n"


def parser() -> argparse.ArgumentParser:
    """The command line of `gate`."""
    made = argparse.ArgumentParser(
        prog="python -m rlkjax.gate",
        description="check runs every config of a folder and compares its bits head with the one "
        "stored; a head that has moved fails, with what has changed since. accept stores the heads "
        "of now, with a reason.",
        epilog="The standard set takes 2 to 4 minutes on 2 cores; a line on stderr says when each "
        "run has ended. Exit status: 0 equal, or no head for this machine; 1 a head has moved, is "
        "missing, or a run failed; 2 wrong use; 3 no such platform.",
        allow_abbrev=False,
    )
    made.add_argument("action", choices=["check", "accept"], help="compare heads, or store them")
    made.add_argument("names", metavar="NAME", nargs="*", help="configs (default: all)")
    made.add_argument(
        "--config-dir",
        type=Path,
        default=FOLDER,
        metavar="DIR",
        help=f"files NAME.yaml, and {HEADS} (default: configs/gate of this project)",
    )
    made.add_argument("--reason", metavar="TEXT", help="why heads may move; accept needs it")
    made.add_argument(
        "--changelog",
        type=Path,
        metavar="FILE",
        help=f"where accept writes the reason (default: {ACCEPTED} beside the heads)",
    )
    made.add_argument(
        "--strict", action="store_true", help="check fails where this machine has no stored head"
    )
    made.add_argument("--json", action="store_true", help="print one JSON object")
    return made


def main(arguments: Sequence[str]) -> int:
    """Runs the command, see `cli.run`. Exit status: 0 good, 1 a head has moved."""
    options = parser().parse_args(arguments)
    reason = " ".join((options.reason or "").split())
    if options.action == "accept" and not reason:
        raise InputError("--reason: got none, want why heads may move; give one sentence")
    if options.action == "check" and options.reason is not None:
        raise InputError("--reason: got one for check, which stores nothing; leave it out")
    stored = read(options.config_dir)
    planned = gate_runs.plan(options.config_dir, options.names)
    made = gate_runs.run(planned)
    verdicts = [gate_heads.judge(stored, each) for each in made]
    gone = set() if options.names else set(stored["heads"]) - {name for name, _ in planned}
    print(as_json(verdicts, gone) if options.json else as_text(verdicts, gone))
    if options.action == "accept":
        return _accept(options, stored, made, (verdicts, gone, reason))
    bad = (*_BAD, "unknown") if options.strict else _BAD
    failed = gone or any(verdict.state in bad for verdict in verdicts)
    return ConsistencyError.exit_status if failed else 0


def read(folder: Path) -> dict[str, Any]:
    """The heads stored in a folder.

    Args:
      folder: of configs.

    Returns:
      What `gate_heads.parse` returns; no heads where there is no file.

    Raises:
      InputError: the file is damaged.
    """
    path = folder / HEADS
    if not path.exists():
        return gate_heads.empty()
    return gate_heads.parse(path.read_text(encoding="utf-8", errors="replace"), str(path))


def _accept(
    options: argparse.Namespace,
    stored: dict[str, Any],
    made: Sequence[Made],
    judged: tuple[list[Verdict], set[str], str],
) -> int:
    """Stores what has moved, and the reason beside it."""
    verdicts, gone, reason = judged
    failed = [verdict.name for verdict in verdicts if verdict.state == "failed"]
    if failed:
        raise ConsistencyError(f"gate: {', '.join(failed)} failed, so nothing was stored; mend it")
    changed = [verdict for verdict in verdicts if verdict.state != "equal"]
    if not changed and not gone:
        print("nothing has moved, so nothing was stored", file=sys.stderr)
        return 0
    for each, verdict in zip(made, verdicts, strict=True):
        if verdict.state != "equal":
            stored = gate_heads.accept(stored, each)
    stored = gate_heads.without(stored, gone)
    log = options.changelog or options.config_dir / ACCEPTED
    before = log.read_text(encoding="utf-8") if log.exists() else _TITLE
    entry = f"\n## {reason}\n\n" + "".join(f"- {line}\n" for line in _entry(changed, gone))
    write_file(log, (before.rstrip("\n") + "\n" + entry).encode())
    write_file(options.config_dir / HEADS, gate_heads.text(stored).encode())
    print(f"stored {len(changed)} heads, reason in {log}", file=sys.stderr)
    return 0


def _entry(changed: Sequence[Verdict], gone: set[str]) -> list[str]:
    """What the changelog says of each head."""
    lines = [
        f"{each.name}, {each.numerics}: {each.stored[:12] or 'none'} -> {each.got[:12]}"
        for each in changed
    ]
    return [*lines, *(f"{name}: no longer among the configs" for name in sorted(gone))]


def as_json(verdicts: Sequence[Verdict], gone: set[str]) -> str:
    """What the command prints for scripts.

    Args:
      verdicts: of all runs.
      gone: configs that have a stored head and no file.

    Returns:
      One JSON object.
    """
    runs = [verdict._asdict() for verdict in verdicts]
    return json.dumps({"runs": runs, "gone": sorted(gone)}, sort_keys=True)


def as_text(verdicts: Sequence[Verdict], gone: set[str]) -> str:
    """What the command prints for people.

    Args:
      verdicts: of all runs.
      gone: configs that have a stored head and no file.

    Returns:
      One line a run, with lines below it on what has changed, and a last line that counts.
    """
    lines = [line for verdict in verdicts for line in _lines(verdict)]
    lines += [f"gone     {name}: a head is stored, but there is no config" for name in sorted(gone)]
    states = [verdict.state for verdict in verdicts]
    counts = [f"{states.count(state)} {state}" for state in ("equal", "moved", "unknown", "new")]
    counts += [f"{states.count('failed')} failed"] if "failed" in states else []
    return "\n".join([*lines, f"gate: {', '.join(counts)}"])


def _lines(verdict: Verdict) -> list[str]:
    head = f"{verdict.state:<8} {verdict.name} {verdict.numerics}"
    match verdict.state:
        case "equal":
            return [f"{head} {verdict.got[:12]}"]
        case "unknown":
            return [f"{head} {verdict.got[:12]}: no stored head for this machine"]
        case "new":
            return [f"{head} {verdict.got[:12]}: no stored head; look at it, then accept it"]
        case "failed":
            return [f"{head}: {verdict.changes[0]}"]
    changes = verdict.changes or ("nothing that is recorded: config, code and machine are equal",)
    moved = f"{head} {verdict.stored[:12]} -> {verdict.got[:12]}; changed since:"
    return [moved, *(f"  {each}" for each in changes)]


if __name__ == "__main__":
    sys.exit(cli.run(main))
