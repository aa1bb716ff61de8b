"""This trainer, as it runs: prints one JSON line with rates, and where the time goes."""

import argparse
import json
import statistics
import tempfile
from pathlib import Path

from rlkjax.config import Config, config_from_mapping
from rlkjax.platform import devices, fingerprint, flags

flags.prepare("cpu")  # before anything computes

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

from benchmarks import clock  # noqa: E402
from rlkjax import launch, loop  # noqa: E402
from vimejax import wrap  # noqa: E402
from vimejax.types import Discrete  # noqa: E402


def make_config(given: argparse.Namespace, total_steps: int) -> Config:
    """The config that matches what the peers are given.

    Args:
      given: task, backend, sizes.
      total_steps: environment steps.

    Returns:
      The config.
    """
    if given.task == "cartpole":
        network = {"activation": "tanh"}
        reward, observations, length = {}, {"normalize": False}, 500
        ppo = {"learning_rate": 7.5e-4}
    else:
        network = {
            "activation": "swish",
            "policy_hidden": [32] * 4,
            "value_hidden": [256] * 5,
        }
        reward, observations, length = {"scale": 10.0}, {"normalize": True}, 1000
        ppo = {"learning_rate": 3e-4, "discount": 0.97, "clip_epsilon": 0.3}
    return config_from_mapping(
        {
            "task": given.task,
            "total_steps": total_steps,
            "platform": "cpu",
            "numerics": given.numerics,
            "env": {"backend": given.backend, "episode_length": length},
            "rollout": {"num_envs": given.num_envs, "unroll_length": given.unroll},
            "network": network,
            "observations": observations,
            "reward": reward,
            "ppo": {**ppo, "epochs": given.epochs, "minibatches": given.minibatches},
            "evaluation": {"every": 0, "episodes": 8},
            "checkpoint": {"every": 0},
        },
        "benchmark",
    )


def measure_loop(run: loop.Run, warm: int) -> dict[str, float]:
    """Rates of the loop with everything on: hashing, ledger, metrics.

    Args:
      run: the run.
      warm: iterations at the start (and one at the end, which evaluates) that do not count.

    Returns:
      Median rates; seconds of wall time and of the notary's work per iteration.
    """
    marks, audit = [], []
    for settled in loop.train(run):
        marks.append((settled.steps, clock.Moment.now()))
        audit.append(settled.audit_seconds)
    kept = marks[warm:-2]
    span = kept[-1][1].since(kept[0][1])
    return {
        **clock.rates(kept),
        "iteration_seconds": span.wall / (len(kept) - 1),
        "notary_seconds": statistics.median(audit[warm:-2]),
    }


def measure_audit(run: loop.Run, iterations: int) -> dict[str, float]:
    """Wall time per iteration with and without the notary, in alternating stretches of one process.

    Args:
      run: a run whose records go to a folder that is thrown away.
      iterations: of each stretch.

    Returns:
      `audited_seconds` and `unaudited_seconds`, medians over the stretches.
    """
    spans: dict[str, list[float]] = {"audited_seconds": [], "unaudited_seconds": []}
    state, world = run.programs.stages.init(jnp.uint32(run.config.seed))
    for stretch in range(-2, 12):
        kind = "audited_seconds" if stretch % 2 else "unaudited_seconds"
        settle = loop.settle if stretch % 2 else wait_only
        begin = clock.Moment.now()
        for _ in loop.pipeline(run, state, world, range(iterations), settle_fn=settle):
            pass
        if stretch >= 0:
            spans[kind].append(clock.Moment.now().since(begin).wall / iterations)
    return {kind: statistics.median(each) for kind, each in spans.items()}


def wait_only(run: loop.Run, work: loop.Work, policy: str) -> tuple[loop.Work, str]:
    """Waits for an iteration as the notary would, and neither hashes nor writes."""
    jax.block_until_ready(work)
    return work, policy


def measure_stages(run: loop.Run, config: Config, repeats: int) -> dict[str, float]:
    """Seconds of wall time of each part of an iteration, taken alone.

    Args:
      run: the run.
      config: its config.
      repeats: how often each part is timed.

    Returns:
      Part -> median seconds. The policy's share of the rollout is what the environments leave.
    """
    stages = run.programs.stages
    train, world = stages.init(jnp.uint32(config.seed))
    env = launch.make_environment(config)
    stream = wrap.stream(env, config.rollout.num_envs)
    shape = (config.rollout.num_envs,)
    if isinstance(env.spec.action, Discrete):
        action = jnp.zeros(shape, jnp.int32)
    else:
        action = jnp.zeros((*shape, env.spec.action.size), jnp.float32)

    def step_only(state):
        return jax.lax.scan(
            lambda s, _: (stream.step(s, action)[0], None),
            state,
            length=config.rollout.unroll_length,
        )[0]

    bare = jax.jit(step_only)
    _, segment, _ = stages.rollout(train.policy, world)
    rescored = stages.rescore(train.policy, segment)
    advantages = stages.advantages(train, segment, rescored)

    def seconds(fn) -> float:
        jax.block_until_ready(fn())
        spans = []
        for _ in range(repeats):
            begin = clock.Moment.now()
            jax.block_until_ready(fn())
            spans.append(clock.Moment.now().since(begin).wall)
        return statistics.median(spans)

    environment = seconds(lambda: bare(world.stream))
    return {
        "environment": environment,
        "policy": seconds(lambda: stages.rollout(train.policy, world)) - environment,
        "rescore": seconds(lambda: stages.rescore(train.policy, segment)),
        "advantages": seconds(lambda: stages.advantages(train, segment, rescored)),
        "update": seconds(lambda: stages.update(train, segment, rescored, advantages)),
    }


def main() -> None:
    """Measures one setting."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", required=True)
    parser.add_argument("--backend")
    parser.add_argument("--num-envs", type=int, required=True)
    parser.add_argument("--unroll", type=int, required=True)
    parser.add_argument("--iterations", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--minibatches", type=int, required=True)
    parser.add_argument("--numerics", default="native", help="native or exact")
    parser.add_argument("--stages", action="store_true", help="also time each stage alone")
    given = parser.parse_args()
    warm = 3
    total = (given.iterations + warm + 2) * given.num_envs * given.unroll
    config = make_config(given, total)
    machine = fingerprint.collect(devices.describe("cpu"))
    begin = clock.Moment.now()
    with tempfile.TemporaryDirectory() as folder:
        run, _ = launch.prepare(config, Path(folder), resume=False, machine=machine)
        compiled = clock.Moment.now().since(begin)
        result = {"compile_seconds": compiled.wall, **measure_loop(run, warm)}
        result["peak_mebibytes"] = clock.peak_mebibytes()
        if given.stages:
            result |= measure_audit(run, given.iterations)
            result["stages"] = measure_stages(run, config, 5)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
