"""`python -m rlkjax.report RUN`: one page that shows a run, opens offline and needs no script."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rlkjax.atomic import write_file
from rlkjax.cli import run
from rlkjax.config import parse_canonical
from rlkjax.errors import ConsistencyError, RlkError
from rlkjax.platform import flags
from rlkjax.report.facts import Facts, read_facts
from rlkjax.report.markup import tag
from rlkjax.report.page import NOTHING, REPORT, Extras, page, read_config
from vimejax.errors import VimeError


def main(arguments: Sequence[str]) -> int:
    """Runs the command, see `cli.run`. Exit status: 0 the run is verified, 1 it is not."""
    options = _parser().parse_args(arguments)
    facts = read_facts(options.run)
    other = read_facts(options.against) if options.against else None
    extras = _extras(options, facts) if options.render or options.certify else NOTHING
    made = page(facts, read_config(options.run), other=other, extras=extras)
    path = options.out or options.run / REPORT
    write_file(path, made.encode())
    state = "verified" if facts.report.verified else "NOT verified"
    print(f"{path} iterations {facts.report.iterations} {state}")
    return 0 if facts.report.verified else ConsistencyError.exit_status


def _extras(options: argparse.Namespace, facts: Facts) -> Extras:
    """What has to be computed; of a damaged run perhaps only a sentence why it could not be."""
    try:
        return _computed(options, facts)
    except (RlkError, VimeError) as error:
        if facts.report.verified:
            raise
        said = str(error).replace(str(options.run), "RUN")
        return Extras(episode=tag("p", f"This could not be computed: {said}"))


def _computed(options: argparse.Namespace, facts: Facts) -> Extras:
    config = parse_canonical(read_config(options.run))
    flags.prepare("cpu", threads=config.threads)
    print("tracing and compiling (a physics engine can take minutes)", file=sys.stderr, flush=True)
    from rlkjax.report import computed  # late: JAX starts only after its flags are set

    extras = computed.with_certificate(NOTHING, config, facts) if options.certify else NOTHING
    return computed.with_episode(extras, options.run, config, facts) if options.render else extras


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
        "--certify",
        action="store_true",
        help="also trace every stage and show what its bits can depend on; needs JAX",
    )
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help=f"where to write (default: RUN/{REPORT})"
    )
    return parser


if __name__ == "__main__":
    sys.exit(run(main))
