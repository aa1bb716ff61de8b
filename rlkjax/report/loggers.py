"""Where settled iterations are logged beside the ledger: timing.jsonl, and others if asked for."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rlkjax import metrics
from rlkjax.config import Config, canonical_config
from rlkjax.errors import InputError
from rlkjax.loop import Settled
from rlkjax.run_folder import TIMING

LogFn = Callable[[Settled], None]


def scalars(settled: Settled) -> dict[str, float | int]:
    """All finite metrics of a settled iteration by tag.

    Args:
      settled: the iteration.

    Returns:
      "train/..." and "evaluation/..." -> number.
    """
    named = {f"train/{name}": value for name, value in settled.values.items()}
    named |= {f"evaluation/{name}": value for name, value in (settled.evaluation or {}).items()}
    numbers = {name: metrics.number(value) for name, value in named.items()}
    return {name: value for name, value in numbers.items() if value is not None}


@contextlib.contextmanager
def timing(folder: Path) -> Iterator[LogFn]:
    """Clock times, kept apart from everything that is hashed.

    Args:
      folder: the run folder.

    Yields:
      A function that appends one line to timing.jsonl.
    """
    begin = time.monotonic()
    with open(folder / TIMING, "a", encoding="utf-8") as file:

        def log(settled: Settled) -> None:
            record = {
                "iteration": settled.iteration,
                "seconds": round(time.monotonic() - begin, 6),
                "audit_seconds": round(settled.audit_seconds, 6),
            }
            file.write(json.dumps(record) + "\n")
            file.flush()

        yield log


@contextlib.contextmanager
def tensorboard(folder: Path) -> Iterator[LogFn]:
    """TensorBoard event files in the folder `tensorboard`.

    Args:
      folder: the run folder.

    Yields:
      A function that logs one settled iteration.

    Raises:
      InputError: the extra is not installed.
    """
    try:
        from tensorboardX import SummaryWriter  # late: an extra
    except ImportError:
        raise InputError("--log tensorboard: not installed; pip install 'rlkjax[tb]'") from None
    with SummaryWriter(str(folder / "tensorboard")) as writer:

        def log(settled: Settled) -> None:
            for tag, value in scalars(settled).items():
                writer.add_scalar(tag, value, settled.steps)

        yield log


@contextlib.contextmanager
def wandb(folder: Path, config: Config) -> Iterator[LogFn]:
    """Weights & Biases, offline unless WANDB_MODE says otherwise.

    Args:
      folder: the run folder.
      config: shown as the run's config.

    Yields:
      A function that logs one settled iteration.

    Raises:
      InputError: the extra is not installed.
    """
    try:
        import wandb as client  # late: an extra
    except ImportError:
        raise InputError("--log wandb: not installed; pip install 'rlkjax[wandb]'") from None
    settings: dict[str, Any] = json.loads(canonical_config(config))
    run = client.init(project="rlkjax", dir=str(folder), config=settings, mode="offline")
    try:
        yield lambda settled: run.log(scalars(settled), step=settled.steps)
    finally:
        run.finish()


@contextlib.contextmanager
def open_all(names: Sequence[str], folder: Path, config: Config) -> Iterator[LogFn]:
    """All loggers that were asked for, as one function.

    Args:
      names: any of "tensorboard", "wandb".
      folder: the run folder.
      config: the run.

    Yields:
      A function that logs one settled iteration everywhere.

    Raises:
      InputError: an extra is not installed.
    """
    with contextlib.ExitStack() as stack:
        logs = [stack.enter_context(timing(folder))]
        if "tensorboard" in names:
            logs.append(stack.enter_context(tensorboard(folder)))
        if "wandb" in names:
            logs.append(stack.enter_context(wandb(folder, config)))

        def log(settled: Settled) -> None:
            for each in logs:
                each(settled)

        yield log
