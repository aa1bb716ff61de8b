"""rejax PPO on CartPole: prints one JSON line. Needs the extra `bench`."""

import argparse
import json

import jax
from rejax import PPO

from benchmarks import clock


def main() -> None:
    """Trains a few times with one compiled program, and says how fast."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-envs", type=int, required=True)
    parser.add_argument("--unroll", type=int, required=True)
    parser.add_argument("--iterations", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--minibatches", type=int, required=True)
    given = parser.parse_args()
    steps = given.num_envs * given.unroll * given.iterations
    algorithm = PPO.create(
        env="CartPole-v1",
        num_envs=given.num_envs,
        num_steps=given.unroll,
        num_epochs=given.epochs,
        num_minibatches=given.minibatches,
        learning_rate=7.5e-4,
        total_timesteps=steps,
        eval_freq=steps,
        agent_kwargs={"activation": "tanh", "hidden_layer_sizes": (64, 64)},
    ).replace(eval_callback=lambda *_: None)
    begin = clock.Moment.now()
    program = jax.jit(algorithm.train).lower(jax.random.PRNGKey(0)).compile()
    compiled = clock.Moment.now().since(begin)
    jax.block_until_ready(program(jax.random.PRNGKey(0)))
    marks = [(0, clock.Moment.now())]
    for repeat in range(3):
        jax.block_until_ready(program(jax.random.PRNGKey(repeat)))
        marks.append(((repeat + 1) * steps, clock.Moment.now()))
    result = {
        "compile_seconds": compiled.wall,
        "peak_mebibytes": clock.peak_mebibytes(),
        **clock.rates(marks),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
