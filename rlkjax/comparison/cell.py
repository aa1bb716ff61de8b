"""The process of a condition: runs some iterations of a config, or says whether it could.

A question is JSON on stdin: `config` (canonical bytes as text), `folder` (null: only whether the
devices are here), `iterations`, `cores`, `spread`, `wrapped`. The answer is the `bits` head.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from rlkjax import cli, launch, loop, run_folder
from rlkjax.config import Config, iterations, parse_canonical
from rlkjax.errors import MachineError
from rlkjax.exact.reference import reference
from rlkjax.exact.transform import exact
from rlkjax.learner import Stages, make_stages
from rlkjax.platform import devices, fingerprint


def confine(cores: int | None) -> None:
    """Leaves this process the first so many of its cores.

    Args:
      cores: how many; None: all.
    """
    if cores is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


def jitted(config: Config, mode: str) -> Stages:
    """The stages of a run for whatever layout their inputs arrive in.

    Args:
      config: the run.
      mode: exact, native, plain, or reference for NumPy.

    Returns:
      Functions that compile when they are called.
    """
    stages = make_stages(config, launch.make_environment(config))
    if mode == "reference":
        return Stages(*map(reference, stages))
    return Stages(*(jax.jit(exact(each) if mode == "exact" else each) for each in stages))


def placed(count: int) -> Callable[[Any, Any], tuple[Any, Any]]:
    """How the two states of a run lie on devices.

    Args:
      count: devices that the environments are spread over.

    Returns:
      (train, world) -> the same, environments over devices and the learner's state on each.
    """
    if count == 1:
        return lambda train, world: (train, world)
    mesh = Mesh(np.array(jax.devices()[:count]), ("environments",))
    rows = NamedSharding(mesh, PartitionSpec("environments"))
    everywhere = NamedSharding(mesh, PartitionSpec())
    return lambda train, world: (jax.device_put(train, everywhere), jax.device_put(world, rows))


def run_head(
    config: Config,
    folder: Path,
    *,
    machine: launch.Fingerprint,
    count: int = 1,
    wrapped: bool = False,
    first: int | None = None,
) -> str:
    """The `bits` head of a run.

    Args:
      config: the run.
      folder: an empty folder.
      machine: fingerprint to record.
      count: devices that the environments are spread over.
      wrapped: whether NumPy's reference computes all stages.
      first: only so many iterations; None: all.

    Returns:
      64 hex digits.

    Raises:
      ConsistencyError: the audit stopped the run.
    """
    run, _ = launch.prepare(config, folder, resume=False, machine=machine)
    if count > 1 or wrapped:
        stages = jitted(config, "reference" if wrapped else config.numerics)
        run = run._replace(programs=run.programs._replace(stages=stages))
    place = placed(count)

    def dispatch(run: loop.Run, train: Any, world: Any, iteration: int) -> loop.Work:
        return loop.dispatch(run, *place(train, world), iteration)

    total = iterations(config)
    numbers = range(total if first is None else min(first, total))
    for _ in loop.pipeline(run, *loop.start(run), numbers, dispatch_fn=dispatch):
        pass
    return run.notary.chain.bits


def answer(question: Mapping[str, Any]) -> str:
    """What a condition's process is asked.

    Args:
      question: see above.

    Returns:
      64 hex digits, or "here" where nothing is to be run.

    Raises:
      MachineError: no such platform, or too few devices.
      ConsistencyError: the audit stopped the run.
    """
    confine(question["cores"])
    config = parse_canonical(question["config"].encode())
    platform = devices.choose(config.platform)
    have, want = len(jax.devices(platform)), question["spread"]
    if have < want:
        raise MachineError(f"asked for {want} devices of {platform}, but JAX has {have}; use fewer")
    if question["folder"] is None:
        return "here"
    folder = Path(question["folder"])
    run_folder.make(folder)
    return run_head(
        config,
        folder,
        machine=fingerprint.collect(devices.describe()),
        count=want,
        first=question["iterations"],
    )


def main(arguments: Sequence[str]) -> int:
    """Answers one question."""
    print(answer(json.load(sys.stdin)))
    return 0


if __name__ == "__main__":
    sys.exit(cli.run(main))
