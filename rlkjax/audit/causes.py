"""The class of cause, from evidence: what differs outside the numbers, where the numbers part, what
a replay showed. A class is stated as certain only where the evidence leaves no other.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from rlkjax.audit.difference import Cause, Entry, Operation, Settings
from rlkjax.audit.elements import Place
from rlkjax.audit.settings import acts_by

# What the world states in a step, in the order in which it is made. All but `obs` follow from the
# action of the same step; `obs` follows from the step before.
WORLD = ("obs", "next_obs", "reward", "terminated", "truncated", "info/")
# The order in which one step of a rollout makes its buffers; info comes last.
STEP_ORDER = (
    *("obs", "value", "action", "log_prob"),
    *("next_obs", "reward", "terminated", "truncated"),
)
# What the train state holds of a setting as it is: it comes last, as it shows nothing of training.
SETTINGS_HELD = "learning_rate/"

_THREADS = (
    "cpu.threads",
    "cpu.affinity",
    "cpu.cores",
    "environment.PJRT_NPROC",
    "environment.NPROC",
)
# Entries that move no bits, as far as is known.
_HARMLESS = (
    "cpu.governor",
    "cpu.boost",
    "cpu.quota",
    "os.system",
    "os.kernel",
    "os.distribution",
)
# Packages whose arithmetic, or whose part of the traced program, `exact` does not define away.
_PROGRAM = ("package.rlkjax", "package.brax", "package.mujoco", "package.playground")
_PROGRAM_TOO = ("package.flax", "package.optax", "package.chex")

Replayed = Literal["equal", "differs", "not run"]


def order(stage: str, names: Iterable[str]) -> tuple[str, ...]:
    """The buffers of a stage in the order in which a difference of theirs is named.

    Args:
      stage: of the buffers.
      names: of the buffers.

    Returns:
      Those whose place is known: of a step, as it makes them; of a new train state, the policy
      first, and a setting that it holds last.
    """
    if stage != "update":
        return STEP_ORDER

    def rank(name: str) -> tuple[bool, bool, str]:
        return name.startswith(SETTINGS_HELD), not name.startswith("policy/"), name

    return tuple(sorted(names, key=rank))


class Suspect(NamedTuple):
    """A setting that differs and can have moved the bits that differ.

    Attributes:
      kind: the class that it would be.
      entry: the setting.
    """

    kind: str
    entry: Entry


@dataclass(frozen=True)
class Evidence:
    """All that is known when the class of cause is asked for.

    Attributes:
      iteration: of the first difference.
      stage: of the first difference.
      settings: what differs outside the numbers.
      exact: whether both runs have bits by definition.
      graphs: digest of the policy graph in each run.
      place: the first element, or the buffer, or nothing.
      moved: in words, how one segment is the other in another order; empty if it is not.
      replayed: whether a replay here gave each run's own recorded roots.
      operation: the first operation that differs between the replays.
    """

    iteration: int
    stage: str
    settings: Settings = field(default_factory=Settings)
    exact: bool = False
    graphs: tuple[str, str] = ("", "")
    place: Place | None = None
    moved: str = ""
    replayed: tuple[Replayed, Replayed] = ("not run", "not run")
    operation: Operation | None = None


def suspects(evidence: Evidence) -> tuple[Suspect, ...]:
    """The settings that differ and can have acted by the place of the first difference.

    Args:
      evidence: what is known.

    Returns:
      Suspects: config first, then versions, flags and machine.
    """
    settings = evidence.settings
    told = [
        Suspect(_config_kind(entry.key), entry)
        for entry in settings.config
        if acts_by(entry.key, evidence.iteration, evidence.stage)
    ]
    machine = (
        *(Suspect("version", entry) for entry in settings.versions),
        *(Suspect("flags", entry) for entry in settings.flags),
        *(Suspect("fingerprint", entry) for entry in settings.fingerprint),
    )
    for kind, entry in machine:
        if entry.key.startswith(_HARMLESS):
            continue
        if evidence.exact and not entry.key.startswith((*_PROGRAM, *_PROGRAM_TOO)):
            continue
        told.append(Suspect("reduction order" if entry.key in _THREADS else kind, entry))
    return tuple(told)


def _config_kind(key: str) -> str:
    special = {"seed": "seed", "threads": "reduction order", "reward.dtype": "precision"}
    return special.get(key, "configuration")


def classify(evidence: Evidence) -> Cause:
    """The class of cause, with the evidence in words and what to do next.

    Args:
      evidence: what is known.

    Returns:
      The cause; of kind "unknown", with the command that finds out, where the evidence does not
      tell.
    """
    if evidence.moved:
        return _cause("layout", f"the bytes are the same in another order: {evidence.moved}")
    found = suspects(evidence)
    seed = next((each for each in found if each.kind == "seed"), None)
    if seed is not None:
        return _cause("seed", f"{_said(seed.entry)}, and every random draw follows from it", found)
    if found:
        return _of_suspects(found, evidence)
    if evidence.graphs[0] != evidence.graphs[1]:
        text = (
            "no setting that moves bits differs, yet the lowered policy is another program "
            f"({evidence.graphs[0][:12]}… in A, {evidence.graphs[1][:12]}… in B): the code differs"
        )
        return _cause("policy graph", text)
    if _is_worlds(evidence):
        return _cause("environment bytes", _world_text(evidence))
    if evidence.operation is not None and evidence.operation.cause != "unknown":
        text = f"no setting that moves bits differs; {_of_operation(evidence.operation)}"
        return _cause(evidence.operation.cause, text)
    return _unknown(evidence)


def _of_suspects(found: tuple[Suspect, ...], evidence: Evidence) -> Cause:
    """The class where settings differ: certain where they all are of one class."""
    kinds = list(dict.fromkeys(each.kind for each in found))
    first = [each for each in found if each.kind == kinds[0]]
    if kinds[0] == "reduction order":  # one number of workers, however many entries tell of it
        first = [each for each in first if each.entry.key == "cpu.threads"] or first[:1]
    text = "; ".join(_said(each.entry) for each in first[:4])
    if len(first) > 4:
        text += f"; and {len(first) - 4} more"
    others = dict.fromkeys(each.entry.key for each in found if each.kind != kinds[0])
    if others:
        text += (
            f". This fits, but also different are {', '.join(others)[:200]}: which of them acts "
            "cannot be told from the files"
        )
    elif len(first) > 1:
        text += ": no other kind of setting differs, and which of these acts cannot be told"
    else:
        text += ": no other setting that can move bits differs by this place"
    if evidence.operation is not None:
        text += f". Computed again, {_of_operation(evidence.operation)}"
    return _cause(kinds[0], text, found, certain=not others)


def _of_operation(operation: Operation) -> str:
    by_itself = f", by itself a matter of {operation.cause}" if operation.cause != "unknown" else ""
    return (
        f"the first operation that differs on equal operands is {operation.primitive} at "
        f"{operation.line}{by_itself}"
    )


def _said(entry: Entry) -> str:
    return f"{entry.key} is {entry.a[:60]} in A and {entry.b[:60]} in B"


def _is_worlds(evidence: Evidence) -> bool:
    place = evidence.place
    if evidence.stage != "rollout" or place is None:
        return False
    return place.buffer.startswith(("world/", "info/")) or place.buffer in WORLD


def _world_text(evidence: Evidence) -> str:
    buffer = evidence.place.buffer if evidence.place else ""
    equal = "the state that the step began with" if buffer == "obs" else "its obs and action"
    text = (
        f"no setting that moves bits differs and {equal} is equal, but {buffer} is not: the "
        "environments stated other bytes"
    )
    sides = [
        name for name, state in zip("AB", evidence.replayed, strict=True) if state == "differs"
    ]
    if sides:
        text += f"; a replay here does not give what {' and '.join(sides)} recorded"
    return text


def _unknown(evidence: Evidence) -> Cause:
    """What to say where nothing that was looked at tells the cause."""
    states = dict(zip("AB", evidence.replayed, strict=True))
    wrong = [name for name, state in states.items() if state == "differs"]
    if "not run" in states.values():
        return Cause(
            "unknown",
            "no setting that moves bits differs and the policy's graph is the same: the cause "
            "cannot be told from the files",
            "run with --replay to recompute this iteration of both runs here",
            False,
        )
    if not wrong:
        text = (
            "a replay here gives what each run recorded, so their programs or their state before "
            "this iteration differ, and nothing in the files says how"
        )
        return Cause("unknown", text, "verify both runs, and compare the code that they ran", False)
    text = (
        f"no setting differs, and a replay here does not give what {' and '.join(wrong)} recorded: "
        "that run's bytes come from something that its files do not name, such as other code, a "
        "program that is not deterministic, or faulty memory"
    )
    return Cause("unknown", text, f"repeat run {wrong[0]} and compare again", False)


def _cause(kind: str, text: str, found: tuple[Suspect, ...] = (), *, certain: bool = True) -> Cause:
    return Cause(kind, text, _advice(kind, [each.entry for each in found]), certain)


def _advice(kind: str, entries: list[Entry]) -> str:
    """What to do next about a class of cause."""
    key, value = (entries[0].key, entries[0].a) if entries else ("", "")
    table = {
        "configuration": f"run B again with --set {key}={value}",
        "seed": f"run B again with --set seed={value}",
        "precision": f"run B again with --set {key}={value}"
        if entries
        else "take numerics: exact, or set the precision of this operation in the program",
        "version": "install the same versions on both sides (requirements/ holds the locked ones)",
        "flags": f"give both runs the same {key or 'flags'}; unset it where it is not needed",
        "reduction order": "pin the number of workers (threads: in the config) or take numerics: "
        "exact, where sums have no order",
        "fingerprint": "run both on one kind of machine, or take numerics: exact; --replay shows "
        "what this machine computes",
        "environment bytes": "run python -m rlkjax.golden check on both machines, and "
        "python -m rlkjax.verify on both runs",
        "policy graph": "run both with the same code of the policy, or give a change of it a name "
        "in the config",
        "layout": "place chunks by sequence number and environment index, not by their arrival",
        "library function": "take numerics: exact, where these functions are correctly rounded",
        "contraction": "take numerics: exact, or keep the product in a program of its own",
    }
    return table.get(kind, "")
