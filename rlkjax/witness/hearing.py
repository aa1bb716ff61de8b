"""Both runs are computed again here, and asked where their stage first differs."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from rlkjax.audit.causes import Replayed
from rlkjax.audit.difference import Operation
from rlkjax.audit.elements import first_of
from rlkjax.audit.inside import read_inside
from rlkjax.audit.referee import Folders, Recomputed
from rlkjax.config import parse_canonical
from rlkjax.errors import MachineError
from rlkjax.operations.blame import describe, walk
from rlkjax.operations.values import Values
from rlkjax.run_folder import CONFIG, FINGERPRINT
from rlkjax.witness.process import Asked, Witness, environment_of

MADE = ("policy/", "train/", "world/")  # arguments that init makes for iteration 0
UNFOUND = (
    "evaluated operation by operation the two sides give equal bits: the difference comes from how "
    "the compiler joins the operations of this stage"
)
UNFOUND_EXACT = (
    "evaluated operation by operation the two sides give equal bits, and exact numerics leaves a "
    "compiler nothing to join: no operation of this stage is to blame"
)


def hear(folders: Folders, iteration: int, stage: str) -> Recomputed:
    """Computes one stage of both runs again, each in a process with its own flags and threads.

    Args:
      folders: of the two runs.
      iteration: of the first difference.
      stage: of the first difference.

    Returns:
      The buffers, whether each run repeats its record, and the first operation that differs.
    """
    with contextlib.ExitStack() as stack:
        witnesses = [
            stack.enter_context(contextlib.closing(_call(folder, iteration, stage)))
            for folder in folders
        ]
        answers, notes = [], []
        for name, witness in zip("AB", witnesses, strict=True):
            answer, said = _answer(name, witness, iteration)
            answers.append(answer)
            notes += said
        fields = tuple(None if each is None else each.fields for each in answers)
        operation = None
        if answers[0] is not None and answers[1] is not None:
            operation, said = _operation(witnesses, answers, iteration, stage)
            notes += said
    states = tuple(_state(each) for each in answers)
    return Recomputed((fields[0], fields[1]), (states[0], states[1]), operation, tuple(notes))


def _call(folder: Path, iteration: int, stage: str) -> Witness:
    inside = folder.resolve()
    config = parse_canonical(read_inside(inside, CONFIG), str(folder / CONFIG))
    fingerprint = json.loads(read_inside(inside, FINGERPRINT))
    variables = environment_of(fingerprint, os.environ, threads=config.threads)
    return Witness(folder, iteration, stage, variables=variables)


def _answer(name: str, witness: Witness, iteration: int) -> tuple[Any, list[str]]:
    try:
        answer = witness.testimony()
    except MachineError as error:
        return None, [f"{name} was not replayed: {error}"]
    again = f"{name} was computed again from iteration {answer.start}"
    if answer.departed is not None:
        return answer, [f"{again}: already iteration {answer.departed} is not what it recorded"]
    repeats = "gives what it recorded" if answer.repeats else "does not give what it recorded"
    return answer, [f"{again}: iteration {iteration} {repeats}"]


def _state(answer: Any) -> Replayed:
    if answer is None:
        return "not run"
    return "equal" if answer.repeats and answer.departed is None else "differs"


def _operation(
    witnesses: list[Witness], answers: list[Any], iteration: int, stage: str
) -> tuple[Operation | None, list[str]]:
    """The first operation that differs, where both stages begin with the same inputs."""
    a, b = (answer.inputs for answer in answers)
    shapes = [{name: (x.dtype, x.shape) for name, x in each.items()} for each in (a, b)]
    if shapes[0] != shapes[1]:
        return None, ["the two stages take inputs of other shapes, so no operation is compared"]
    place = first_of(a, b, (), timed=False)
    if place is not None and place.buffer.startswith(MADE) and answers[0].start == iteration == 0:
        # What no record holds, such as the state of the environments, was made by init.
        seeds = [[np.asarray(answer.seed, np.uint32)] for answer in answers]
        operation = _walk(witnesses, "init", (seeds[0], seeds[1]))
        if operation is not None:
            return operation, [f"{place.buffer} differs already after init"]
    if place is not None:
        text = f"the stage's inputs differ already, in {place.buffer}"
        return None, [f"{text}: no operation is to blame before that"]
    if all(_equal(answers[0].fields[name], answers[1].fields[name]) for name in answers[0].fields):
        return None, ["computed again here, both runs give the same bits at this stage"]
    operation = _walk(witnesses, stage, (list(a.values()), list(b.values())))
    if operation is not None:
        return operation, []
    return None, [UNFOUND_EXACT if all(answer.exact for answer in answers) else UNFOUND]


def _walk(witnesses: list[Witness], stage: str, inputs: tuple[Values, Values]) -> Operation | None:
    """The first operation of a stage that differs, if it shows operation by operation."""
    for apart in (False, True):
        sides = [Asked(witness, stage, apart) for witness in witnesses]
        found = walk(sides[0], sides[1], inputs)
        if found is not None:
            return describe(found)
    return None


def _equal(a: Any, b: Any) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
