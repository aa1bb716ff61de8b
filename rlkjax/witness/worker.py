"""The process that answers for one run: takes questions on stdin, answers on stdout."""

import pickle
import sys
from pathlib import Path
from typing import Any, BinaryIO

from rlkjax import child
from rlkjax.config import parse_canonical
from rlkjax.errors import MachineError, RlkError
from rlkjax.platform import devices, flags
from rlkjax.run_folder import CONFIG
from vimejax.errors import VimeError


def serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Answers until the questions end.

    Args:
      questions: folder, iteration and stage; then (arguments of `Bench.program`, name of
        a method of `Program`, its arguments) each time.
      answers: takes (None, answer), or (exit status, message) where it cannot be answered.
    """
    folder, iteration, stage = pickle.load(questions)
    try:
        bench = _bench(Path(folder), iteration, stage)
    except (RlkError, VimeError, OSError) as error:
        _say(answers, (getattr(error, "exit_status", 2), str(error)))
        return
    _say(answers, (None, bench.testimony))
    while True:
        try:
            program, method, arguments = pickle.load(questions)
        except EOFError:
            return
        _say(answers, (None, getattr(bench.program(*program), method)(*arguments)))


def _bench(folder: Path, iteration: int, stage: str) -> Any:
    config = parse_canonical((folder / CONFIG).read_bytes(), str(folder / CONFIG))
    flags.prepare(config.platform, config.autotune, config.threads)
    devices.choose(config.platform)
    flags.check_in_force()
    from rlkjax.witness.testimony import Bench  # late: JAX starts only after its flags are set

    try:
        return Bench(folder, iteration, stage)
    except MemoryError:
        raise MachineError(f"run {folder}: no memory to compute it here; free some") from None


def _say(answers: BinaryIO, answer: object) -> None:
    pickle.dump(answer, answers)
    answers.flush()


def main() -> int:
    """Serves the process that started this one."""
    serve(sys.stdin.buffer, child.answers())
    return 0


if __name__ == "__main__":
    sys.exit(main())
