"""`python -m rlkjax.verify RUN`: is every byte of a run the byte that was recorded?

`--replay` computes the run again, `--proof` checks a proof with the standard library alone.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rlkjax import verify_text
from rlkjax.audit import proof_files, trust
from rlkjax.audit.trust import Trusted
from rlkjax.cli import run
from rlkjax.errors import ConsistencyError, InputError

if TYPE_CHECKING:
    from rlkjax.audit.replay import Replayed


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command.

    Args:
      arguments: command line without the program's name; None: that of the process.

    Returns:
      Exit status: 0 verified, 1 damaged, unfinished or halted.

    Raises:
      InputError: no run folder, no proof, or options that do not go together.
      MachineError: a platform or an extra that this machine has not.
    """
    options = _parser().parse_args(arguments)
    _check_options(options)
    trusted = None
    if options.head is not None:
        trusted = trust.read_head(options.head, options.signed_by)
    if options.proof is not None:
        return _verify_proof(options, trusted)
    return _verify_run(options, trusted)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rlkjax.verify",
        description="Check a run from its files alone: the chain of records, the metrics, the "
        "checkpoints and the kept segments. Or check a proof against a head.",
        epilog="Exit status: 0 verified; 1 damaged, unfinished or halted, or a replay that "
        "differs; 2 wrong use; 3 the machine cannot do it.",
        allow_abbrev=False,
    )
    parser.add_argument("run", metavar="RUN", type=Path, nargs="?", help="the run folder")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--chain",
        metavar="HEX",
        help="chain head that the run printed, 64 hex digits; finds records cut off at the end",
    )
    parser.add_argument(
        "--head",
        metavar="FILE",
        type=Path,
        help="a head of rlkjax prove --head that was kept elsewhere; the ledger must contain it",
    )
    parser.add_argument(
        "--signed-by",
        metavar="KEY",
        type=Path,
        action="append",
        default=[],
        help="file of a public key that must have signed --head; may be repeated",
    )
    parser.add_argument(
        "--proof", metavar="FILE", type=Path, help="check this proof of rlkjax prove instead"
    )
    parser.add_argument(
        "--replay",
        action="store_true",
        help="also compute the run again and compare every record; needs JAX",
    )
    parser.add_argument(
        "--from",
        metavar="K",
        type=int,
        dest="first",
        help="replay from iteration K on: begins at the last checkpoint before it (default: 0)",
    )
    parser.add_argument(
        "--to", metavar="M", type=int, dest="last", help="replay to iteration M (default: the last)"
    )
    parser.add_argument(
        "--platform",
        choices=["cpu", "rocm", "cuda"],
        help="replay there (default: the platform of the run's config)",
    )
    return parser


def _check_options(options: argparse.Namespace) -> None:
    """That options which need one another stand together."""
    if (options.run is None) == (options.proof is None):
        raise InputError("verify: want a run folder or --proof FILE, and not both; name one")
    given = {
        "--from": options.first,
        "--to": options.last,
        "--platform": options.platform,
    }
    for name, value in given.items():
        if value is not None and not options.replay:
            raise InputError(f"{name}: got {value}, want it only with --replay; add that")
    if options.proof is not None and (options.replay or options.chain is not None):
        raise InputError("--proof: want it without --replay and --chain; leave them out")
    if options.signed_by and options.head is None:
        raise InputError("--signed-by: want the --head that is signed; name its file")
    if options.chain is not None and not re.fullmatch(r"[0-9a-f]{64}", options.chain, re.ASCII):
        raise InputError(
            f"--chain: got {options.chain[:80]!r}, want 64 lower-case hex digits; copy them from "
            "the last line that the run printed"
        )


def _verify_proof(options: argparse.Namespace, trusted: Trusted | None) -> int:
    proved = proof_files.check(trust.read_file(options.proof), str(options.proof))
    if trusted is not None and trusted.problems:
        raise ConsistencyError(f"{trusted.file}: {'; '.join(trusted.problems)}")
    if trusted is not None and trusted.head not in proved.heads:
        got = " and ".join(f"root {each.root} of {each.size} records" for each in proved.heads)
        raise ConsistencyError(
            f"{options.proof}: got a proof against {got}, want root {trusted.head.root} of "
            f"{trusted.head.size} records as {trusted.file} says; ask for a proof against that head"
        )
    show = verify_text.proof_json if options.json else verify_text.proof_text
    print(show(proved, trusted))
    return 0


def _verify_run(options: argparse.Namespace, trusted: Trusted | None) -> int:
    from rlkjax.audit import recomputed  # late: a proof is checked without NumPy
    from rlkjax.audit.checks import METRICS
    from rlkjax.audit.inside import lines_inside
    from rlkjax.audit.verify import verify_run

    heads = [] if trusted is None else [trusted]
    report = verify_run(options.run, chain=options.chain, heads=heads)
    replayed = _replay(options) if options.replay else None
    show = verify_text.run_json if options.json else verify_text.run_text
    if report.verified and report.iterations and not options.json:
        found = recomputed.sentence(lines_inside(options.run.resolve(), METRICS))
        if found is not None:
            print(found)
    print(show(report, replayed))
    good = report.verified and (replayed is None or replayed.equal)
    return 0 if good else ConsistencyError.exit_status


def _replay(options: argparse.Namespace) -> "Replayed":
    from rlkjax import replay_recorded  # late: a proof is checked without NumPy and JAX
    from rlkjax.audit.replay import Replayed
    from rlkjax.platform import devices, flags

    try:
        recorded = replay_recorded.load(options.run)
    except ConsistencyError as error:
        return Replayed(options.first or 0, options.last or 0, 0, refused=str(error))
    first, last = replay_recorded.span(recorded, options.first, options.last)
    config = recorded.config
    platform = options.platform or config.platform
    flags.prepare(platform, config.autotune, config.threads)
    devices.choose(platform)
    flags.check_in_force()
    from rlkjax import replay  # late: JAX starts only after its flags are set

    return replay.replay(recorded, first, last)


if __name__ == "__main__":
    sys.exit(run(main))
