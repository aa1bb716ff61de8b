"""A whole iteration, exact over native, in one run: `python -m benchmarks.exact_iteration`.

The stages of a run are compiled in both numerics and called in turns under the flags of a run.
Prints for each stage the best wall time and CPU time of a call, then the sums, the ratios, and the
CPU time that compiling took. `--config FILE` and `--set key=value` choose the run; several configs
may be given.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from rlkjax.config import Config, load_config
from rlkjax.platform import flags

CONFIG = "configs/cartpole.yaml"
SIZE = ("rollout.num_envs=256", "rollout.unroll_length=32")
STAGES = ("rollout", "rescore", "advantages", "update")
MODES = ("native", "exact")


class Took(NamedTuple):
    """Milliseconds of a call."""

    wall: float
    cpu: float


def once(program: Callable[..., Any], args: tuple[Any, ...]) -> Took:
    """Times one call."""
    import jax

    cpu, wall = time.process_time(), time.perf_counter()
    jax.block_until_ready(program(*args))
    return Took((time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3)


def stage_inputs(stages: Any) -> dict[str, tuple[Any, ...]]:
    """What each stage is called with in the first iteration."""
    import jax.numpy as jnp

    train, world = stages.init(jnp.uint32(0))
    _, segment, _ = stages.rollout(train.policy, world)
    rescored = stages.rescore(train.policy, segment)
    advantages = stages.advantages(train, segment, rescored)
    return {
        "rollout": (train.policy, world),
        "rescore": (train.policy, segment),
        "advantages": (train, segment, rescored),
        "update": (train, segment, rescored, advantages),
    }


def measure(config: Config, repeats: int) -> tuple[dict[str, list[Took]], list[float]]:
    """Best times of each stage in both numerics, and CPU-seconds of compiling.

    Args:
      config: the run; its `numerics` is ignored.
      repeats: calls of each stage, after one that is not counted.

    Returns:
      (stage -> [native, exact], [native, exact]).
    """
    from rlkjax import launch, learner, programs

    stages = learner.make_stages(config, launch.make_environment(config))
    compiled, seconds = [], []
    for mode in MODES:
        began = time.process_time()
        compiled.append(programs.compile_stages(stages, launch.TRANSFORMS[mode]).stages)
        seconds.append(time.process_time() - began)
    inputs = [stage_inputs(each) for each in compiled]
    found = {}
    for name in STAGES:
        rounds = [
            [once(getattr(s, name), i[name]) for s, i in zip(compiled, inputs, strict=True)]
            for _ in range(repeats + 1)
        ][1:]
        found[name] = [
            Took(min(r[m].wall for r in rounds), min(r[m].cpu for r in rounds)) for m in (0, 1)
        ]
    return found, seconds


def line(name: str, native: Took, exact: Took) -> str:
    """One row of the table."""
    return (
        f"{name:11} native {native.wall:8.2f} ms (CPU {native.cpu:8.2f})  "
        f"exact {exact.wall:8.2f} ms (CPU {exact.cpu:8.2f})  ratio {exact.wall / native.wall:5.2f} "
        f"(CPU {exact.cpu / native.cpu:5.2f})"
    )


def main() -> None:
    """Prints the table of each config."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", action="append", help=f"config file; default {CONFIG}")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--repeats", type=int, default=15, help="calls of each stage")
    options = parser.parse_args()
    flags.prepare("cpu")
    for path in options.config or [CONFIG]:
        changes = options.set or (SIZE if path == CONFIG else ())
        found, seconds = measure(load_config(path, changes), options.repeats)
        print(f"{path} {' '.join(changes)}", flush=True)
        for name, (native, exact) in found.items():
            print(line(name, native, exact))
        sums = [Took(*map(sum, zip(*(v[m] for v in found.values()), strict=True))) for m in (0, 1)]
        print(line("iteration", *sums))
        print(
            f"compile     native {seconds[0]:.1f} CPU-s, exact {seconds[1]:.1f} CPU-s, "
            f"ratio {seconds[1] / seconds[0]:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
