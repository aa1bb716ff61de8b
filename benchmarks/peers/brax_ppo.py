"""Brax PPO: prints one JSON line. Supplies the function that jax 0.10 removed and Brax calls."""

import argparse
import functools
import json
import warnings

import jax
import jax.numpy as jnp

from benchmarks import clock


def replicate(tree, devices):
    """What `jax.device_put_replicated` did: one copy of each leaf on every device."""
    mesh = jax.sharding.Mesh(devices, ("i",))
    spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i"))
    return jax.tree.map(
        lambda x: jax.device_put(jnp.stack([jnp.asarray(x)] * len(devices)), spread), tree
    )


def main() -> None:
    """Trains, with a mark after every epoch, and says how fast."""
    warnings.filterwarnings("ignore")
    if not hasattr(jax, "device_put_replicated"):
        jax.device_put_replicated = replicate
    from brax import envs  # late: after the warnings are off
    from brax.training.agents.ppo import networks, train

    parser = argparse.ArgumentParser()
    parser.add_argument("--task", required=True)
    parser.add_argument("--backend", required=True)
    parser.add_argument("--num-envs", type=int, required=True)
    parser.add_argument("--unroll", type=int, required=True)
    parser.add_argument("--iterations", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--minibatches", type=int, required=True)
    given = parser.parse_args()
    spans = 4  # one mark each; the first holds the compilation
    marks = [(0, clock.Moment.now())]
    train.train(
        environment=envs.get_environment(given.task, backend=given.backend),
        num_timesteps=given.num_envs * given.unroll * given.iterations * spans,
        num_evals=spans + 1,
        run_evals=False,
        episode_length=1000,
        normalize_observations=True,
        unroll_length=given.unroll,
        num_envs=given.num_envs,
        batch_size=given.num_envs // given.minibatches,
        num_minibatches=given.minibatches,
        num_updates_per_batch=given.epochs,
        discounting=0.97,
        reward_scaling=10,
        learning_rate=3e-4,
        entropy_cost=1e-2,
        network_factory=functools.partial(
            networks.make_ppo_networks,
            policy_hidden_layer_sizes=(32,) * 4,
            value_hidden_layer_sizes=(256,) * 5,
        ),
        progress_fn=lambda steps, _: marks.append((int(steps), clock.Moment.now())),
    )
    result = {
        "compile_seconds": marks[1][1].since(marks[0][1]).compile,
        "peak_mebibytes": clock.peak_mebibytes(),
        **clock.rates(marks[1:]),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
