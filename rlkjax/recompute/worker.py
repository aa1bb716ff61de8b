"""The process of the reference: takes iterations on stdin, answers with judgements on stdout."""

import os
import pickle
import sys
from typing import BinaryIO

from rlkjax.config import parse_canonical
from rlkjax.platform import flags
from rlkjax.recompute.iteration import judge, make_recompute


def serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Answers until the questions end.

    Args:
      questions: the canonical config, then pairs of an iteration's number and its buffers.
      answers: takes one judgement for each pair.
    """
    recompute = make_recompute(parse_canonical(pickle.load(questions)))
    while True:
        try:
            iteration, given = pickle.load(questions)
        except EOFError:
            return
        pickle.dump(judge(recompute, iteration, given), answers)
        answers.flush()


def main() -> int:
    """Serves the process that started this one."""
    # Whatever a library prints goes to stderr, so that only answers are on stdout.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    flags.prepare("cpu")
    serve(sys.stdin.buffer, answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
