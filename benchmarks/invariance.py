"""One config under many conditions: `python -m benchmarks.invariance [--other-python PATH]`.

Every cell of the table is a process of its own. Exact and native cells train a whole run and show
its `bits` head; native ones hold the flags that native numerics pins. Plain cells run the same
stages under jax.jit and XLA's own flags, and show a hash of every segment and train state. Rows
that begin with "environment 17" show the bytes of that environment among others in one rollout.
"""

import argparse
import dataclasses
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rlkjax import cli, launch
from rlkjax import config as configs
from rlkjax.audit import tap
from rlkjax.comparison import conditions, process
from rlkjax.comparison.cell import confine, jitted, placed, run_head
from rlkjax.comparison.conditions import DEVICES, Condition
from rlkjax.config import Config
from rlkjax.errors import ConsistencyError
from rlkjax.exact.transform import exact
from rlkjax.learner import make_stages
from rlkjax.platform import devices
from rlkjax.rollout import init_episodes
from rlkjax.types import WorldState
from vimejax import keys, wrap

ROOT = Path(__file__).resolve().parents[1]
MODES = ("exact", "native", "plain")
ALONE = 17
CELL = ("benchmarks.invariance", "--cell", "-")
# Large enough for XLA to split its loops over threads, small enough for a table in minutes.
SETTINGS = (
    "rollout.num_envs=256",
    "rollout.unroll_length=16",
    "evaluation.episodes=8",
    "total_steps=12288",
)


class Among(NamedTuple):
    """A cell that shows environment 17.

    Attributes:
      name: of the row.
      among: number of environments around it; 1: it alone.
    """

    name: str
    among: int


RUNS = (
    Condition("default"),
    Condition("one core", cores=1),
    Condition("ISA capped at AVX", "--xla_cpu_max_isa=AVX"),
    Condition("vectors of 128 bits", "--xla_cpu_prefer_vector_width=128"),
    Condition("vectors of 512 bits", "--xla_cpu_prefer_vector_width=512"),
    Condition("no flag pinned", pinned=False),
    Condition("spread over 2 devices", DEVICES + "2", spread=2),
    Condition("spread over 4 devices", DEVICES + "4", spread=4),
    Condition(
        "spread over 8 devices, one core, AVX", DEVICES + "8 --xla_cpu_max_isa=AVX", 1, True, 8
    ),
)
STREAMS = tuple(
    Among(f"environment {ALONE} {'alone' if n == 1 else f'among {n}'}", n) for n in (64, 1, 4096)
)


# --- one cell, in its own process ----------------------------------------------------------------


def digest(trees: Sequence[Any]) -> str:
    """SHA-256 over names and bytes of all leaves."""
    sha = hashlib.sha256()
    for tree in trees:
        for name, array in tap.fields(tree).items():
            sha.update(name.encode() + b"\x00" + np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()


def iterate(config: Config, count: int) -> str:
    """Digest of every segment and train state of a run of plain JAX, which no audit watches.

    Args:
      config: the run.
      count: devices that the environments are spread over.

    Returns:
      64 hex digits.
    """
    stages, place = jitted(config, "plain"), placed(count)
    state = stages.init(jnp.uint32(config.seed))
    seen = []
    for _ in range(configs.iterations(config)):
        train, world = place(*state)
        world, segment, _ = stages.rollout(train.policy, world)
        rescored = stages.rescore(train.policy, segment)
        advantages = stages.advantages(train, segment, rescored)
        train, _ = stages.update(train, segment, rescored, advantages)
        state = train, world
        seen.append(digest([segment, train]))
    return hashlib.sha256("".join(seen).encode()).hexdigest()


def environment_bytes(config: Config, among: int, transform: Callable) -> str:
    """Digest of what environment 17 does in one rollout among others.

    Args:
      config: task, policy and length of the rollout.
      among: number of environments; 1: it alone, else 0 .. among-1.
      transform: of functions, before they are compiled.

    Returns:
      64 hex digits.
    """
    size = dataclasses.replace(config.rollout, num_envs=among)
    config = dataclasses.replace(config, rollout=size)
    env = launch.make_environment(config)
    stages, stream = make_stages(config, env), wrap.stream(env, among)
    indices = jnp.array([ALONE], jnp.uint32) if among == 1 else jnp.arange(among, dtype=jnp.uint32)

    def begin(seed: jax.Array, indices: jax.Array) -> WorldState:
        run = keys.run_key(seed, keys.Stream.TRAIN)
        each = jax.vmap(keys.environment_key, (None, 0))(run, indices)
        return WorldState(stream.init(each)[0], init_episodes(among))

    seed = jnp.uint32(config.seed)
    train, _ = jax.jit(transform(stages.init))(seed)
    world = jax.jit(transform(begin))(seed, indices)
    segment = jax.jit(transform(stages.rollout))(train.policy, world)[1]
    row = 0 if among == 1 else ALONE
    return digest([jax.tree.map(lambda x: x[:, row], segment)])


def cell(spec: Mapping[str, Any]) -> str:
    """What one cell shows.

    Args:
      spec: config (canonical bytes as text), mode, cores, spread, among.

    Returns:
      64 hex digits.

    Raises:
      ConsistencyError: the audit stopped the run.
    """
    confine(spec["cores"])
    config = configs.parse_canonical(spec["config"].encode())
    mode = spec["mode"]
    transform = exact if mode == "exact" else lambda fn: fn
    if spec["among"] is not None:
        return environment_bytes(config, spec["among"], transform)
    if mode == "plain":
        return iterate(config, spec["spread"])
    with tempfile.TemporaryDirectory() as folder:
        return run_head(
            config,
            Path(folder),
            machine={"device.platform": "cpu"},
            count=spec["spread"],
            wrapped=mode == "reference",
        )


# --- the table -----------------------------------------------------------------------------------


def show(mode: str, place: Condition | Among, config: Config) -> str:
    """Runs one cell.

    Args:
      mode: exact, native, plain, or reference for NumPy.
      place: where.
      config: the run; its numerics are replaced by those of the mode.

    Returns:
      64 hex digits, or "halt".

    Raises:
      InputError, MachineError: the process failed.
    """
    # Plain JAX gets the stages of exact: native ones keep the policy apart from its surroundings.
    config = dataclasses.replace(config, numerics="native" if mode == "native" else "exact")
    condition = place if isinstance(place, Condition) else Condition(place.name)
    condition = condition._replace(pinned=condition.pinned and mode != "plain")
    spec = {
        "config": configs.canonical_config(config).decode(),
        "mode": mode,
        "cores": condition.cores,
        "spread": condition.spread,
        "among": place.among if isinstance(place, Among) else None,
    }
    try:
        return process.answer(condition, CELL, json.dumps(spec))
    except ConsistencyError as error:
        print(error, file=sys.stderr)
        return "halt"


def table(found: Mapping[str, Mapping[str, str]], modes: Sequence[str]) -> str:
    """Results as Markdown: 12 digits of each hash, those that equal the default in bold.

    Args:
      found: name of a condition -> mode -> digest.
      modes: columns.

    Returns:
      Lines, and a last row that counts.
    """
    lines = ["| condition | " + " | ".join(modes) + " |", "|---" * (len(modes) + 1) + "|"]
    equal = dict.fromkeys(modes, 0)
    base = {mode: "" for mode in modes}
    for name, row in found.items():
        if name in (RUNS[0].name, STREAMS[0].name):
            base = dict(row)
        same = {mode: row[mode] == base[mode] != "halt" for mode in modes}
        equal = {mode: equal[mode] + same[mode] for mode in modes}
        texts = [f"**{row[m][:12]}**" if same[m] else row[m][:12] for m in modes]
        lines.append(f"| {name} | " + " | ".join(texts) + " |")
    counts = " | ".join(f"{equal[mode]} of {len(found)}" for mode in modes)
    return "\n".join([*lines, f"| equal to the default of its column | {counts} |"])


def heads(path: Path) -> int:
    """Computes the heads of the runs in a file again, and writes it with where they come from.

    Args:
      path: JSON; "runs" maps a name to {"config": mapping, "program": digest, "bits": head}.

    Returns:
      How many heads have changed.
    """
    runs, changed = json.loads(path.read_text())["runs"], 0
    for name, run in runs.items():
        config = configs.config_from_mapping(run["config"], name)
        bits = show("exact", RUNS[0], config)
        changed += bits != run["bits"]
        print(f"{name}: {run['bits'][:12] or 'nothing'} -> {bits[:12]}", flush=True)
        run["bits"] = bits
        run["program"] = hashlib.sha256(configs.program_config(config)).hexdigest()
    made = {"by": "python -m benchmarks.invariance --heads", "platform": "cpu"}
    made |= {"XLA_FLAGS": conditions.flag_words(RUNS[0]), "python": sys.version.split()[0]}
    made |= {name: metadata.version(name) for name in ("jax", "jaxlib", "numpy", "flax", "optax")}
    path.write_text(json.dumps({"made": made, "runs": runs}, indent=1) + "\n")
    return changed


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.invariance", description=__doc__)
    made.add_argument("--config", type=Path, default=ROOT / "configs" / "quickstart.yaml")
    made.add_argument("--set", action="append", metavar="KEY=VALUE", help="instead of the defaults")
    made.add_argument("--other-python", metavar="PATH", help="interpreter with another JAX")
    made.add_argument("--mode", action="append", choices=MODES, help="may be repeated")
    made.add_argument("--json", type=Path, help="write whole digests there")
    made.add_argument("--heads", type=Path, help="compute the stored heads of a file again")
    made.add_argument("--cell", choices=["-"], help="run the cell on stdin; used by this program")
    return made


def main(arguments: Sequence[str]) -> int:
    """Prints the table."""
    options = parser().parse_args(arguments)
    if options.cell:
        print(cell(json.load(sys.stdin)))
        return 0
    if options.heads:
        print(f"{heads(options.heads)} heads have changed")
        return 0
    config = configs.load_config(options.config, options.set or SETTINGS)
    others = [Condition("other Python and JAX", python=options.other_python)]
    conditions = [*RUNS, *(others if options.other_python else []), *STREAMS]
    modes, found = options.mode or MODES, {}
    for condition in conditions:
        found[condition.name] = {mode: show(mode, condition, config) for mode in modes}
        print(condition.name, found[condition.name], file=sys.stderr, flush=True)
    print(f"{config.task}, {configs.iterations(config)} iterations, {devices.versions_line()}\n")
    print(table(found, modes))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(cli.run(main))
