"""From a config and a folder to a run that is ready to go."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlkjax import certificates, golden_streams, run_folder
from rlkjax.audit import tap
from rlkjax.audit.notary import Notary
from rlkjax.audit.records import FORMAT
from rlkjax.config import Config, canonical_config, iterations, program_config
from rlkjax.environment import make_environment
from rlkjax.exact.transform import exact
from rlkjax.learner import Stages, make_stages
from rlkjax.loop import Run
from rlkjax.platform import fingerprint
from rlkjax.platform.fingerprint import Difference
from rlkjax.programs import Programs, compile_stages
from rlkjax.recompute.process import Reference
from rlkjax.run_folder import Opened
from vimejax.types import EnvSpec

Fingerprint = dict[str, str | int]

# What is done to every stage before it is compiled.
TRANSFORMS: dict[str, Callable[[Callable], Callable] | None] = {"native": None, "exact": exact}


def switches(config: Config) -> list[str]:
    """Switches that are on and cost a guarantee or a bit of accuracy, each with its price.

    Args:
      config: the run.

    Returns:
      Sentences "key=value: what it costs".
    """
    found = []
    if config.reward.dtype == "float16":
        found.append("reward.dtype=float16: rewards keep 11 bits, and none above 65504")
    if config.reward.normalize == "running":
        found.append(
            "reward.normalize=running: the scale of rewards moves with the history of the run, so "
            "a segment alone no longer determines its advantages"
        )
    if config.autotune:
        found.append("autotune=true: XLA chooses kernels by timing, so two runs may differ in bits")
    return found


def prepare(
    config: Config,
    folder: Path,
    *,
    resume: bool,
    machine: Fingerprint,
    acknowledged: str | None = None,
) -> tuple[Run, list[Difference]]:
    """Opens the run folder, compiles the stages and writes or checks the first records.

    Args:
      config: what to run.
      folder: the run folder; new, or of this config when resuming.
      resume: whether to take up a run where its last checkpoint left it.
      machine: fingerprint of this machine.
      acknowledged: why a recorded pause shall not stop the resumed run.

    Returns:
      The run, and how this machine differs from the one that the run was recorded under.

    Raises:
      InputError: the folder cannot be used for this config.
      ConsistencyError: what the folder holds is damaged, the graphs of the policy differ, or this
        machine does not reproduce the task's golden stream.
    """
    canonical, print_ = canonical_config(config), fingerprint.canonical(machine)
    env = make_environment(config)
    if resume:
        opened = run_folder.reopen(folder, canonical, print_)
    else:
        opened = run_folder.create(folder, canonical, print_)
    changes = _changes(folder, opened, machine)
    # First, so that it loads its libraries while the stages compile.
    reference = Reference(config) if config.audit.reference_every else None
    _check_start(config)
    stages = make_stages(config, env)
    programs = compile_stages(stages, TRANSFORMS[config.numerics])
    notary = Notary(opened.chain, opened.journal, opened.metrics)
    if opened.chain.count == 0:
        notary.record("genesis", genesis(config, env.spec, stages, programs, machine=machine))
    elif changes:
        # What was recorded after the checkpoint was made elsewhere: put aside, not repeated.
        run_folder.put_aside(folder, opened)
        digest = run_folder.add_fingerprint(folder, print_)
        following = {"iteration": (opened.iteration or 0) + 1, "fingerprint": digest}
        notary.record("resume", following)
    run = Run(
        config=config,
        config_digest=run_folder.digest(canonical),
        folder=folder,
        programs=programs,
        opened=opened,
        notary=notary,
        reference=reference,
        acknowledged=acknowledged,
    )
    return run, changes


def _check_start(config: Config) -> None:
    """Before the fast path is taken, the machine must reproduce a golden stream."""
    unchecked = golden_streams.check_start(config.task)
    if unchecked is not None:
        print(unchecked, file=sys.stderr, flush=True)


def _changes(folder: Path, opened: Opened, machine: Fingerprint) -> list[Difference]:
    """How this machine differs from the one that the taken records were made under."""
    if opened.fingerprint is None:
        return []
    stored = json.loads(run_folder.read_fingerprint(folder, opened.fingerprint))
    return fingerprint.differences(stored, machine)


def genesis(
    config: Config, spec: EnvSpec, stages: Stages, programs: Programs, *, machine: Fingerprint
) -> dict[str, Any]:
    """The payload of the first record: all that the run's bits are bound to.

    Args:
      config: what is run.
      spec: of its environment.
      stages: pure functions, not transformed.
      programs: compiled stages.
      machine: fingerprint of this machine.

    Returns:
      The keys of kind genesis; see docs/ledger-format.md.
    """
    schema = [
        [name, dtype, list(shape[1:])]
        for name, (dtype, shape) in sorted(tap.shapes(programs.shapes["segment"]).items())
    ]
    return {
        "format": FORMAT,
        "config": run_folder.digest(canonical_config(config)),
        "program": run_folder.digest(program_config(config)),
        "fingerprint": run_folder.digest(fingerprint.canonical(machine)),
        "seed": config.seed,
        "numerics": config.numerics,
        "platform": str(machine.get("device.platform", "cpu")),
        "environment": {
            "name": spec.name,
            "backend": spec.backend,
            "dt": float(spec.dt).hex(),
            "substeps": spec.substeps,
            "obs_size": spec.obs_size,
            "episode_length": config.env.episode_length,
            "action_repeat": config.env.action_repeat,
        },
        "schema": schema,
        "switches": [each.split(":")[0] for each in switches(config)],
        "versions": {
            key.removeprefix("package."): str(value)
            for key, value in machine.items()
            if key.startswith("package.")
        },
        "policy_graph": programs.rollout_graph,
        "iterations": iterations(config),
        **_certificate(config, stages),
    }


def _certificate(config: Config, stages: Stages) -> dict[str, str]:
    """The key of genesis that binds an exact run to the programs that JAX traced."""
    if config.numerics != "exact":
        return {}
    found = certificates.certify_stages(stages, config.numerics)
    return {"certificate": certificates.digest(found)}
