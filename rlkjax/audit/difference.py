"""What the referee finds, as one frozen record and its JSON: the first difference of two runs."""

from dataclasses import asdict, dataclass, field
from typing import Any

from rlkjax.audit.elements import Place, ulp_distance, value_text

FORMAT = "rlkjax-diff-1"

# Classes of cause. The last one is said where the files do not tell.
CAUSES = (
    "configuration",
    "seed",
    "version",
    "flags",
    "fingerprint",
    "environment bytes",
    "policy graph",
    "reduction order",
    "library function",
    "contraction",
    "precision",
    "layout",
    "unknown",
)


def iterations_text(count: int) -> str:
    """A number of iterations in words.

    Args:
      count: how many.

    Returns:
      Text such as "1 iteration" or "2,000 iterations".
    """
    return f"{count:,} iteration{'' if count == 1 else 's'}"


@dataclass(frozen=True)
class RunSummary:
    """One of the two runs, as its ledger shows it.

    Attributes:
      name: its folder, or the condition that it was made under.
      chain: chain head, 64 hex digits.
      bits: head over the numeric roots alone, 64 hex digits.
      iterations: iterations whose update was recorded.
      planned: iterations that genesis announced; None if it did not.
      halted: why the run stopped itself, or None.
      numerics: "native" or "exact".
      platform: "cpu", "rocm" or "cuda".
    """

    name: str
    chain: str
    bits: str
    iterations: int
    planned: int | None
    halted: str | None
    numerics: str
    platform: str


@dataclass(frozen=True)
class Entry:
    """One setting in which the two runs differ.

    Attributes:
      key: dotted name.
      a: its value in the first run as text; "absent" where it has none.
      b: its value in the second run.
      effect: what the difference can change; empty where that is not known.
    """

    key: str
    a: str
    b: str
    effect: str = ""


@dataclass(frozen=True)
class Settings:
    """Everything outside the numbers in which two runs differ.

    Attributes:
      config: keys of the config, the seed among them.
      fingerprint: entries of the machine.
      flags: XLA flags and variables of the environment.
      versions: packages, and the Python that ran them.
    """

    config: tuple[Entry, ...] = ()
    fingerprint: tuple[Entry, ...] = ()
    flags: tuple[Entry, ...] = ()
    versions: tuple[Entry, ...] = ()


@dataclass(frozen=True)
class Operation:
    """The first operation whose results differ although its operands are equal.

    Attributes:
      primitive: name of the primitive.
      line: "FILE:LINE (FUNCTION)" that wrote it.
      path: the calls and loop passes around it, outermost first, such as "scan[3]".
      dtype: of its result.
      element: index of the first element that differs in the result.
      a_bits: bits of that element on the first side, hex digits.
      b_bits: bits of that element on the second side.
      operands: each operand in words, with its values where it is small.
      cause: class of cause that the operation shows by itself, one of `CAUSES`.
    """

    primitive: str
    line: str
    path: tuple[str, ...] = ()
    dtype: str | None = None
    element: tuple[int, ...] | None = None
    a_bits: str | None = None
    b_bits: str | None = None
    operands: tuple[str, ...] = ()
    cause: str = "unknown"


@dataclass(frozen=True)
class Cause:
    """Why the runs part, as far as what was looked at proves it.

    Attributes:
      kind: one of `CAUSES`.
      text: one sentence with the evidence.
      advice: what to do next; a command where there is one.
      certain: whether the evidence leaves no other cause; False: it is one that fits.
    """

    kind: str
    text: str
    advice: str
    certain: bool


@dataclass(frozen=True)
class Difference:
    """The first difference of two runs, or that there is none.

    Attributes:
      a: the first run.
      b: the second run.
      equal: whether all numeric roots that both runs recorded are equal, and equally many.
      settings: all settings that differ, equal bits or not.
      iteration: first iteration whose records differ; None where none does.
      stage: its first stage that differs: "init", "rollout", "rescore", "advantages", "update",
        "evaluation", or "end" where one run has no more records.
      place: buffer and element, as deep as the files or a replay lead.
      cause: None where the runs are equal.
      operation: first differing operation, where it was looked for and found.
      notes: further sentences, such as what must be run to go deeper.
    """

    a: RunSummary
    b: RunSummary
    equal: bool
    settings: Settings = field(default_factory=Settings)
    iteration: int | None = None
    stage: str | None = None
    place: Place | None = None
    cause: Cause | None = None
    operation: Operation | None = None
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The record as plain values, the contract of `diff --json`.

        Returns:
          A dictionary of strings, integers, booleans, None, lists and dictionaries. Every key is
          always there; what is not known is None or an empty list.
        """
        place, operation, cause = self.place, self.operation, self.cause
        return {
            "format": FORMAT,
            "equal": self.equal,
            "a": asdict(self.a),
            "b": asdict(self.b),
            "iteration": self.iteration,
            "stage": self.stage,
            **_place(place),
            "cause": None
            if cause is None
            else {
                "class": cause.kind,
                "text": cause.text,
                "advice": cause.advice,
                "certain": cause.certain,
            },
            "operation": None if operation is None else _operation(operation),
            "differing": {
                name: [asdict(entry) for entry in entries]
                for name, entries in vars(self.settings).items()
            },
            "notes": list(self.notes),
        }


def _place(place: Place | None) -> dict[str, Any]:
    known = place or Place("")
    return {
        "buffer": known.buffer or None,
        "dtype": known.dtype,
        "step": known.step,
        "environment": known.environment,
        "element": None if known.element is None else list(known.element),
        **_pair(known.dtype, known.a_bits, known.b_bits),
        "elements_differing": known.differing,
        "elements": known.elements,
    }


def _operation(found: Operation) -> dict[str, Any]:
    return {
        "primitive": found.primitive,
        "line": found.line,
        "path": list(found.path),
        "dtype": found.dtype,
        "element": None if found.element is None else list(found.element),
        **_pair(found.dtype, found.a_bits, found.b_bits),
        "operands": list(found.operands),
        "class": found.cause,
    }


def _pair(dtype: str | None, a: str | None, b: str | None) -> dict[str, Any]:
    """Both bit patterns, what they say as numbers, and how far apart they are."""
    blank = dict.fromkeys(("a_bits", "b_bits", "a_value", "b_value", "ulp"))
    if dtype is None or a is None or b is None:
        return blank
    return {
        "a_bits": a,
        "b_bits": b,
        "a_value": value_text(dtype, a),
        "b_value": value_text(dtype, b),
        "ulp": ulp_distance(dtype, a, b),
    }
