"""What follows from a judgement: a record; in exact numerics a halt at any bit, else a pause."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlkjax import metrics
from rlkjax.atomic import write_file
from rlkjax.audit.notary import Notary
from rlkjax.audit.tolerance import Alert
from rlkjax.config import Config
from rlkjax.errors import ConsistencyError
from rlkjax.recompute.iteration import ROLLOUT, Judgement

ALERT = "alert.json"
FORMAT = "rlkjax-alert/1"

# The threshold in the config that a measure of a buffer is held against.
_KEYS = {
    ("segment/reward", "max_rel"): "reward_relative",
    ("segment/reward", "differing"): "reward_differing",
    ("segment/action", "max_scaled"): "action",
    ("segment/action", "differing"): "action",
}


def due(iteration: int, every: int) -> bool:
    """Whether the reference computes an iteration: 0, every, 2 every, ...

    Args:
      iteration: its number, from 0.
      every: the interval; 0: never.

    Returns:
      True for those iterations.
    """
    return every > 0 and iteration % every == 0


def settle(
    notary: Notary,
    config: Config,
    judgement: Judgement,
    *,
    iteration: int,
    folder: Path,
    reason: str | None,
) -> None:
    """Records a judgement, and stops the run where it has to.

    Args:
      notary: writes the records.
      config: the run.
      judgement: what the reference makes of the iteration.
      iteration: its number.
      folder: the run folder, for the alert.
      reason: why a pause that is recorded already shall not stop the run; None: it shall.

    Raises:
      ConsistencyError: in exact numerics, a bit differs; in native numerics, a buffer is past its
        threshold and nobody has acknowledged it.
    """
    place = judgement.place
    if config.numerics == "exact" and judgement.stage is not None and place is not None:
        notary.halt(
            iteration,
            judgement.stage,
            "the reference in NumPy computes other bits",
            buffer=place.buffer,
            step=place.step,
            environment=place.environment,
            element=list(place.element or ()),
            expected=place.a_bits,
            got=place.b_bits,
        )
    past = () if config.numerics == "exact" else judgement.alerts
    count = len({alert.buffer for alert in past})
    repeated = notary.reference(
        iteration,
        segment=judgement.segment,
        state=judgement.state,
        past=count,
        line=metrics.line("reference", iteration, _values(judgement, count)),
    )
    if not past:
        return
    if repeated and notary.acknowledge(iteration, reason):
        (folder / ALERT).unlink(missing_ok=True)
        return
    write_file(folder / ALERT, alert(iteration, past))
    worst = past[0]
    raise ConsistencyError(
        f"paused after iteration {iteration}: {worst.buffer} has {worst.measure} "
        f"{worst.got:.3g} against the reference, want at most {worst.limit:.3g} "
        f"({_key(worst)}; {count} of {len(judgement.measured)} buffers are past a threshold); see "
        f"{ALERT} in the run folder, and go on with --resume --acknowledge REASON"
    )


def alert(iteration: int, past: Sequence[Alert]) -> bytes:
    """The alert file: what is past which threshold, and how to go on.

    Args:
      iteration: number of the iteration.
      past: thresholds that buffers are past.

    Returns:
      JSON for a person and a script; a number that is not finite is null.
    """
    found: dict[str, Any] = {
        "format": FORMAT,
        "iteration": iteration,
        "what": "the run is further from the reference than its config allows; it is paused",
        "past": [
            {
                "buffer": each.buffer,
                "measure": each.measure,
                "got": metrics.number(each.got),
                "limit": metrics.number(each.limit),
                "config": _key(each),
            }
            for each in past
        ],
        "go_on": [
            "accept it: python -m rlkjax.train --config FILE --run-dir RUN --resume "
            "--acknowledge REASON",
            "or mend the machine (python -m rlkjax.doctor) and begin a new run",
            "or begin a new run with another audit.tolerance, or with numerics: exact",
        ],
    }
    return json.dumps(found, indent=2).encode() + b"\n"


def _key(past: Alert) -> str:
    """The key of the config that holds a threshold."""
    if past.measure == "differing" and past.buffer not in ("segment/reward", "segment/action"):
        return "none: whatever is no float must be equal"
    group = "rollout" if past.buffer.partition("/")[0] in ROLLOUT else "training"
    return "audit.tolerance." + _KEYS.get((past.buffer, past.measure), group)


def _values(judgement: Judgement, past: int) -> dict[str, Any]:
    """What metrics.jsonl shows: the buffers that differ, and how many were compared."""
    apart = {
        name: values._asdict()
        for name, values in judgement.measured.items()
        if values.differing > 0
    }
    return {"compared": len(judgement.measured), "past": past, "buffers": apart}
