"""A run whose last checkpoint is its last record has nothing left to do."""

import json
from pathlib import Path

from rlkjax import checkpoint
from rlkjax.audit.inside import lines_inside
from rlkjax.audit.ledger import Chain
from rlkjax.audit.verify import verify_run
from rlkjax.run_folder import LEDGER


def finished(folder: Path, iterations: int) -> Chain | None:
    """Where the ledger of a run ends that is finished, after a check of all its files.

    Args:
      folder: a run folder.
      iterations: of the whole run.

    Returns:
      The chain; None where something is left to do, or where a file is damaged: whoever takes up
      the run names it.

    Raises:
      ConsistencyError: the ledger cannot be read.
    """
    if iterations - 1 not in checkpoint.available(folder) or not (folder / LEDGER).is_file():
        return None
    last = b""
    for line in lines_inside(folder.resolve(), LEDGER):
        last = line
    try:
        record = json.loads(last)
    except ValueError:
        return None
    if not isinstance(record, dict) or record.get("kind") != "checkpoint":
        return None
    if record.get("iteration") != iterations - 1 or not last.endswith(b"\n"):
        return None
    report = verify_run(folder)
    return report.chain if report.verified and report.iterations == iterations else None
