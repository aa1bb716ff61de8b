"""What all commands share: the verbs, and errors as one line and an exit status.

0  good
1  a consistency failure
2  wrong use or input
3  the machine cannot do what was asked
"""

import argparse
import difflib
import errno
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rlkjax.errors import RlkError
from vimejax.errors import VimeError

Main = Callable[[Sequence[str]], int]

# Each verb is the module rlkjax.<verb> with a function main(arguments) -> exit status; a verb that
# is a package has it in its __main__.
VERBS = {
    "train": "train a policy, every rollout hashed before it is used",
    "verify": "check a finished run from its files alone, or compute it again",
    "prove": "write a ledger's head, sign it, or prove what is in the ledger",
    "compare": "run a config under several conditions and compare the bits",
    "diff": "name the first difference of two runs, and the class of its cause",
    "golden": "make or check the golden byte stream of each native task",
    "gate": "check the heads of a standard set of runs, or accept new ones",
    "kernels": "build the C++ kernels that make exact programs faster",
    "doctor": "find the settings of this machine that break bits",
    "certify": "say what the bits of a run can depend on",
    "report": "write one HTML page that shows a run",
}


def run(main_fn: Main, arguments: Sequence[str] | None = None) -> int:
    """Run a command's main function; errors raised on purpose become one line on stderr.

    Args:
      main_fn: takes the command line without the program's name and returns an exit status; what
        went wrong it raises, as an RlkError.
      arguments: command line without the program's name; the process's own by default.

    Returns:
      Exit status: of `main_fn`, of the error raised, or 130 where the user broke it off.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        return main_fn(arguments)
    except RlkError as error:
        return _fail(str(error), error.exit_status)
    except VimeError as error:
        return _fail(str(error), 2)
    except BrokenPipeError:
        # Whoever read the output has closed it; nothing more can be said there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt as error:
        return _fail("; ".join(["broken off", *map(str, error.args)]), 130)
    except OSError as error:
        where = f" ({str(error.filename)[:80]})" if error.filename else ""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO)
        advice = "free space or choose another --run-dir" if full else "check the path"
        return _fail(f"{error.strerror}{where}; {advice}", 3 if full else 2)


def add_config(parser: argparse.ArgumentParser) -> None:
    """Adds the options that name a config: --config FILE and --set KEY=VALUE."""
    parser.add_argument("--config", required=True, type=Path, help="YAML file, see configs/")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change one key of the config, such as ppo.learning_rate=1e-3; may be repeated",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The console script: `rlkjax VERB ...` is `python -m rlkjax.VERB ...`.

    Args:
      arguments: command line without the program's name; the process's own by default.

    Returns:
      Exit status.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    verb = arguments[0] if arguments else "--help"
    if verb in ("-h", "--help"):
        print(_usage())
        return 0 if arguments else 2
    if verb not in VERBS:
        near = difflib.get_close_matches(verb, VERBS, n=1)
        meant = f"did you mean {near[0]}?" if near else "see rlkjax --help"
        return _fail(f"verb: got {verb!r}, want one of {', '.join(VERBS)}; {meant}", 2)
    module = importlib.import_module(f"rlkjax.{verb}")
    if hasattr(module, "__path__"):
        module = importlib.import_module(f"rlkjax.{verb}.__main__")
    return run(module.main, arguments[1:])


def _usage() -> str:
    lines = [f"  {verb:<8} {text}" for verb, text in VERBS.items()]
    return (
        "usage: rlkjax VERB [options]\n\n" + "\n".join(lines) + "\n\nrlkjax VERB --help says more"
    )


def _fail(text: str, status: int) -> int:
    print(f"rlkjax: {text}", file=sys.stderr)
    return status
