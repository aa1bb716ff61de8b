"""`python -m rlkjax.kernels`: build the kernels of exact programs for this machine's jaxlib."""

import argparse
import sys
from collections.abc import Sequence

from rlkjax import cli
from rlkjax.exact.kernels import library


def parser() -> argparse.ArgumentParser:
    """The command line of `kernels`."""
    made = argparse.ArgumentParser(
        prog="python -m rlkjax.kernels",
        description="Compile the C++ kernels of exact programs, once for each version of them and "
        "of jaxlib, by $CXX, c++, g++ or clang++. They change no bit, only the time. The library "
        "lies beside their sources; RLKJAX_KERNELS=off leaves it out of a process.",
        epilog="exit status: 0 built, or there already; 3 no compiler, or it failed.",
        allow_abbrev=False,
    )
    made.add_argument("--rebuild", action="store_true", help="compile also if it is there")
    return made


def main(arguments: Sequence[str]) -> int:
    """Runs the command, see `cli.run`. Exit status: 0 built, or there already."""
    options = parser().parse_args(arguments)
    before = library.path()
    whole = before is not None and library.is_whole(before)
    built = library.build(options.rebuild)
    print(f"{'there already' if whole and not options.rebuild else 'built'}: {built}")
    return 0


if __name__ == "__main__":
    sys.exit(cli.run(main))
