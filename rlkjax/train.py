"""`python -m rlkjax.train --config FILE`: train, with every rollout hashed before it is used."""

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rlkjax import cli, run_folder_begin
from rlkjax.config import Config, canonical_config, iterations, load_config, steps_per_iteration
from rlkjax.errors import ConsistencyError, InputError
from rlkjax.platform import devices, fingerprint, flags

if TYPE_CHECKING:
    from rlkjax.audit.ledger import Chain
    from rlkjax.loop import Run

Say = Callable[[str], None]


def parser() -> argparse.ArgumentParser:
    """The command line of `train`."""
    made = argparse.ArgumentParser(
        prog="python -m rlkjax.train",
        description="Train a policy with PPO. Every rollout is hashed before it is used and "
        "checked again by the training side; a run whose bits differ stops.",
        epilog="exit status: 0 good; 1 a consistency failure; 2 wrong use or input; 3 the machine "
        "cannot do what was asked",
    )
    cli.add_config(made)
    made.add_argument(
        "--run-dir", type=Path, help="folder of the run (default: runs/<config>-seed<seed>)"
    )
    made.add_argument(
        "--resume",
        action="store_true",
        help="go on from the run folder's last checkpoint; where there is no such folder yet, "
        "begin a new run, so that a scheduler can always give it",
    )
    made.add_argument(
        "--acknowledge",
        metavar="REASON",
        help="with --resume: go on although the run paused past a threshold; recorded",
    )
    made.add_argument(
        "--reference",
        metavar="every=K",
        help="have the reference in NumPy compute every K-th iteration again and compare; short "
        "for --set audit.reference_every=K",
    )
    made.add_argument(
        "--dry-run",
        action="store_true",
        help="check everything, say what would run, compute nothing",
    )
    made.add_argument(
        "--print-config",
        action="store_true",
        help="print the resolved config as JSON, which is YAML, and stop",
    )
    made.add_argument(
        "--log",
        action="append",
        default=[],
        choices=["tensorboard", "wandb"],
        help="also log there (wandb runs offline); needs that extra; may be repeated",
    )
    made.add_argument("--quiet", action="store_true", help="only warnings on stderr")
    return made


def main(arguments: Sequence[str]) -> int:
    """Runs the command, see `cli.run`. Exit status 0."""
    options = parser().parse_args(arguments)
    config = load_config(options.config, [*options.set, *_reference(options.reference)])
    if options.acknowledge is not None and not (options.resume and options.acknowledge.strip()):
        raise InputError(
            f"--acknowledge: got {options.acknowledge[:80]!r}, want a reason, together with "
            "--resume; it is written to the ledger"
        )
    if options.print_config:
        print(json.dumps(dataclasses.asdict(config), indent=2))
        return 0
    folder = options.run_dir or Path("runs") / f"{options.config.stem}-seed{config.seed}"
    _check_folder(config, folder, options)
    words = flags.prepare(config.platform, config.autotune, config.threads)
    platform = devices.choose(config.platform)
    flags.check_in_force()
    say = _nothing if options.quiet else _say
    say(_plan(config, platform, folder))
    own = flags.not_pinned(words, platform)
    if own and config.numerics == "native":
        _say(
            f"warning: XLA_FLAGS has {' '.join(own)}, which is not pinned: it is recorded in the "
            "fingerprint and can move the bits of native numerics"
        )
    if options.dry_run:
        return _dry_run(config, say)
    try:
        return _train(config, folder, options, say)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_left(folder)) from None


def _check_folder(config: Config, folder: Path, options: argparse.Namespace) -> None:
    """Refuses a folder that cannot be used before anything is loaded or compiled."""
    if not options.resume:
        run_folder_begin.check_new(folder)
    elif (folder / run_folder_begin.CONFIG).exists():
        keys = [each.partition("=")[0].strip() for each in options.set]
        given = {key: f"--set {key}" for key in keys}
        if options.reference is not None:
            given["audit.reference_every"] = "--reference"
        run_folder_begin.check_config(folder, canonical_config(config), given)


def _left(folder: Path) -> str:
    """What a run that is broken off has left behind, and how to go on."""
    from rlkjax import checkpoint  # late: imports NumPy

    there = checkpoint.available(folder)
    if not there:
        return "there is no checkpoint yet, so --resume begins at iteration 0"
    return f"the last checkpoint is of iteration {there[-1]}, go on with --resume"


def _reference(option: str | None) -> list[str]:
    """The override that --reference is short for."""
    if option is None:
        return []
    key, _, value = option.partition("=")
    if key != "every" or not value.isdecimal():
        raise InputError(f"--reference: got {option[:80]!r}, want every=K, such as every=100")
    return [f"audit.reference_every={value}"]


def _plan(config: Config, platform: str, folder: Path) -> str:
    total, each = iterations(config), steps_per_iteration(config)
    return (
        f"{config.task} on {platform}, numerics {config.numerics}: {total:,} iterations of "
        f"{each:,} steps = {total * each:,} environment steps, seed {config.seed}, in {folder}"
    )


def _dry_run(config: Config, say: Say) -> int:
    from rlkjax import launch  # late: imports JAX and the environment

    env = launch.make_environment(config)
    say(f"environment {env.spec.name}: observation {env.spec.obs_size}, action {env.spec.action}")
    print("dry run: nothing was computed")
    return 0


def _train(config: Config, folder: Path, options: argparse.Namespace, say: Say) -> int:
    from rlkjax import launch, run_folder, run_folder_finished  # late: JAX needs its flags first
    from rlkjax.audit.journal import lock_run
    from rlkjax.exact.kernels import library

    for switch in launch.switches(config):
        _say(f"switch {switch}")
    if options.resume and not folder.is_dir():
        say(f"run folder {folder} does not exist yet: a new run begins")
    machine = fingerprint.collect(devices.describe())
    if config.numerics == "exact" and machine["device.platform"] == "cpu" and library.why_not():
        say(f"no C++ kernels, so the same bits take longer: {library.why_not()}; see doctor")
    begin = time.monotonic()
    run_folder.make(folder)
    with lock_run(folder):
        old = options.resume and (folder / run_folder_begin.CONFIG).exists()
        chain = run_folder_finished.finished(folder, iterations(config)) if old else None
        if chain is not None:
            say(f"run folder {folder} holds the finished run: nothing is left to do")
            _end(config, folder, chain, say)
            return 0
        long = config.task.startswith(("brax/", "playground/"))
        say("compiling (a physics engine can take minutes)" if long else "compiling")
        run, changes = launch.prepare(
            config, folder, resume=old, machine=machine, acknowledged=options.acknowledge
        )
        for change in changes:
            _say(f"fingerprint: {change.key} was {change.a}, is {change.b}; {change.effect}")
        say(f"compiled in {time.monotonic() - begin:.1f} s")
        try:
            _follow(run, options)
        except ConsistencyError:
            _report(folder, say)
            raise
        _end(config, folder, run.notary.chain, say)
    return 0


def _end(config: Config, folder: Path, chain: "Chain", say: Say) -> None:
    """Says how a run ended, and shows it."""
    from rlkjax import run_folder  # late: see `_train`
    from rlkjax.audit import recomputed
    from rlkjax.report import curve

    say(f"learning curve: {curve.write(folder, f'{config.task}, seed {config.seed}')}")
    if config.audit.reference_every:
        with open(folder / run_folder.METRICS, "rb") as lines:
            found = recomputed.sentence(lines)
        if found is not None:
            say(found)
    print(f"chain {chain.head} bits {chain.bits} iterations {iterations(config)} verified")
    sys.stdout.flush()  # the run is done; who reads this need not wait for its page
    _report(folder, say)


def _report(folder: Path, say: Say) -> None:
    """Writes the page of the run; whatever goes wrong with it is a warning, for the run stands."""
    from rlkjax.report import page  # late: see `_train`

    try:
        say(f"report: {page.write(folder)}")
    except Exception as error:
        _say(f"warning: no report.html ({error}); python -m rlkjax.report {folder} makes it")


def _follow(run: "Run", options: argparse.Namespace) -> None:
    """Runs what is left of a run, showing and logging each iteration."""
    from rlkjax import loop  # late: see `_train`
    from rlkjax.report import loggers
    from rlkjax.report.progress import Watch

    each = steps_per_iteration(run.config)
    total, done = iterations(run.config) * each, loop.first_iteration(run) * each
    with (
        loggers.open_all(options.log, run.folder, run.config) as log,
        Watch(total, done, quiet=options.quiet) as watch,
    ):
        for settled in loop.train(run):
            watch.update(settled.values, settled.evaluation, settled.chain)
            log(settled)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _nothing(text: str) -> None:
    """What is said instead of progress with --quiet."""


if __name__ == "__main__":
    sys.exit(cli.run(main))
