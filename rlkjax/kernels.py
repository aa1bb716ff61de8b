"""`python -m rlkjax.kernels`: build the kernels of exact programs for this machine's jaxlib."""

import argparse
import sys
from collections.abc import Sequence

from rlkjax import cli
from rlkjax.exact.kernels import library


def parser() -> argparse.ArgumentParser:
    """The command line of `kernels`."""
    return argparse.ArgumentParser(
        prog="python -m rlkjax.kernels",
        description="Compile the C++ kernels of exact programs, once for each jaxlib. They change "
        "no bit, only the time. RLKJAX_KERNELS=off leaves them out of a process.",
        epilog="exit status: 0 built, or there already; 3 no compiler, or it failed.",
        allow_abbrev=False,
    )


def main(arguments: Sequence[str]) -> int:
    """Runs the command, see `cli.run`. Exit status: 0 built, or there already."""
    parser().parse_args(arguments)
    before = library.path()
    built = library.build()
    print(f"{'there already' if built == before else 'built'}: {built}")
    return 0


if __name__ == "__main__":
    sys.exit(cli.run(main))
