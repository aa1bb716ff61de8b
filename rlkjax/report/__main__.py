"""`python -m rlkjax.report RUN`: one page that shows a run, opens offline and needs no script."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rlkjax import checkpoint
from rlkjax.atomic import write_file
from rlkjax.cli import run
from rlkjax.config import parse_canonical
from rlkjax.errors import ConsistencyError, InputError, RlkError
from rlkjax.platform import flags
from rlkjax.report.facts import Facts, read_facts
from rlkjax.report.markup import EMPTY, Html, tag
from rlkjax.report.page import REPORT, page, read_config
from vimejax.errors import VimeError


def main(arguments: Sequence[str]) -> int:
    """Runs the command.

    Args:
      arguments: command line without the program's name.

    Returns:
      Exit status: 0 a page of a verified run, 1 a page of one that is not verified.

    Raises:
      RlkError: no page was made; the caller turns it into an exit status.
    """
    options = _parser().parse_args(arguments)
    facts = read_facts(options.run)
    other = read_facts(options.against) if options.against else None
    episode, script = _episode(options.run, facts) if options.render else (EMPTY, "")
    canonical = read_config(options.run)
    made = page(facts, canonical, other=other, episode=episode, script=script)
    path = options.out or options.run / REPORT
    write_file(path, made.encode())
    state = "verified" if facts.report.verified else "NOT verified"
    print(f"{path} iterations {facts.report.iterations} {state}")
    return 0 if facts.report.verified else ConsistencyError.exit_status


def _episode(folder: Path, facts: Facts) -> tuple[Html, str]:
    """A rendered episode and the script that moves it; of a damaged run perhaps only a sentence."""
    try:
        return _render(folder, facts)
    except (RlkError, VimeError) as error:
        if facts.report.verified:
            raise
        said = str(error).replace(str(folder), "RUN")
        return tag("p", f"No episode could be played: {said}"), ""


def _render(folder: Path, facts: Facts) -> tuple[Html, str]:
    config = parse_canonical(read_config(folder))
    iteration, manifest = _newest(folder, facts)
    flags.prepare("cpu", threads=config.threads)
    print("compiling one episode (a physics engine can take minutes)", file=sys.stderr, flush=True)
    from rlkjax.render import trajectory  # late: JAX starts only after its flags are set
    from rlkjax.report import episode

    played, scene = trajectory.record(folder, config, iteration, manifest=manifest)
    return episode.section(played, scene, iteration), episode.viewer()


def _newest(folder: Path, facts: Facts) -> tuple[int, str]:
    """Iteration and manifest of the newest checkpoint that is recorded and there."""
    there = set(checkpoint.available(folder))
    for record in reversed(facts.records.values()):
        if record.get("kind") == "checkpoint" and record.get("iteration") in there:
            return record["iteration"], str(record.get("manifest"))
    raise InputError(
        f"--render: got {folder}, which has no recorded checkpoint, want one to play from; "
        "resume the run to make one"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rlkjax.report",
        description="Write one HTML page that shows a run: verdict, iterations, curves, settings, "
        "and how to replay it. It opens offline.",
        epilog="Exit status: 0 a page of a verified run; 1 a page of a run that is not verified; "
        "2 wrong use; 3 no space.",
        allow_abbrev=False,
    )
    parser.add_argument("run", metavar="RUN", type=Path, help="the run folder")
    parser.add_argument(
        "--against", metavar="RUN_B", type=Path, help="also show what differs from this run"
    )
    parser.add_argument(
        "--render",
        action="store_true",
        help="also play one episode from the newest checkpoint and show it; needs JAX, and no GPU",
    )
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help=f"where to write (default: RUN/{REPORT})"
    )
    return parser


if __name__ == "__main__":
    sys.exit(run(main))
