"""The process of the reference: takes iterations on stdin, answers with judgements on stdout."""

import pickle
import sys
from typing import BinaryIO

from rlkjax import child
from rlkjax.config import parse_canonical
from rlkjax.errors import RlkError
from rlkjax.platform import flags
from rlkjax.recompute.iteration import Judgement, judge, make_recompute


def serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Answers until the questions end.

    Args:
      questions: the canonical config, then pairs of an iteration's number and its buffers.
      answers: takes (None, judgement), or (why there is none, None), for each pair.
    """
    recompute = make_recompute(parse_canonical(pickle.load(questions)))
    while True:
        try:
            iteration, given = pickle.load(questions)
        except EOFError:
            return
        answer: tuple[str | None, Judgement | None]
        try:
            answer = None, judge(recompute, iteration, given)
        except RlkError as error:
            answer = str(error), None
        pickle.dump(answer, answers)
        answers.flush()


def main() -> int:
    """Serves the process that started this one."""
    answers = child.answers()
    flags.prepare("cpu")
    serve(sys.stdin.buffer, answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
