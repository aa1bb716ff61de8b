"""A run's policy plays one evaluation episode, and every body's pose is kept."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rlkjax import checkpoint, launch
from rlkjax.audit import tap
from rlkjax.config import Config
from rlkjax.errors import ConsistencyError, InputError
from rlkjax.evaluate import episode_keys
from rlkjax.learner import make_stages
from rlkjax.policy import Policy, make_policy
from rlkjax.rollout import step_keys
from rlkjax.types import Array, PolicyState
from vimejax import scenes
from vimejax.keys import Purpose
from vimejax.restart import begin
from vimejax.scenes import Scene
from vimejax.types import Environment, State


class Trajectory(NamedTuple):
    """One episode of a task with bodies.

    Attributes:
      poses: [T + 1, B, 7] float32: position (metres) and quaternion (w first) before each step and
        after the last.
      rewards: [T] float32, reward units of the task.
      terminated: whether the task ended it; else its time limit cut it.
      seconds: simulated time of one step.
    """

    poses: np.ndarray
    rewards: np.ndarray
    terminated: bool
    seconds: float


def record(
    folder: Path, config: Config, iteration: int, *, manifest: str
) -> tuple[Trajectory, Scene]:
    """Plays the first episode of the evaluation that follows an iteration, from its checkpoint.

    In exact numerics it is that episode to the bit. In native numerics one environment alone may
    round otherwise than the many of the evaluation.

    Args:
      folder: the run folder.
      config: of the run.
      iteration: one that has a checkpoint.
      manifest: digest of the checkpoint's manifest, as the ledger recorded it.

    Returns:
      The episode, and what it is an episode of.

    Raises:
      InputError: no such checkpoint.
      ConsistencyError: the checkpoint is damaged, or the episode holds no finite poses.
      VimeError: a task without bodies, or an engine that is not installed.
    """
    env = config.env
    scene = scenes.make(config.task, backend=env.backend, dt=env.dt, substeps=env.substeps)
    world = launch.make_environment(config)
    state = _policy_state(folder, config, world, iteration, manifest=manifest)
    play = make_play(config, make_policy(config, world.spec), world, poses=scene.poses)
    transform = launch.TRANSFORMS[config.numerics]
    program = jax.jit(transform(play) if transform else play)
    shown, rewards, alive, terminated = map(np.asarray, program(state, jnp.uint32(iteration)))
    steps = int(alive.sum())
    shown = shown[: steps + 1]
    check(shown)
    seconds = world.spec.dt * world.spec.substeps * env.action_repeat
    return Trajectory(shown, rewards[:steps], bool(terminated[steps - 1]), seconds), scene


def make_play(
    config: Config, policy: Policy, env: Environment, *, poses: Callable[[State], Array]
) -> Callable:
    """Builds the program of one episode.

    Args:
      config: length of an episode, and the seed.
      policy: acts by the mode of its distribution.
      env: the wrapped environment.
      poses: state -> [B, 7] float32, where the bodies are.

    Returns:
      (policy_state, number [] uint32) -> (poses [T + 1, B, 7], reward [T], whether the episode
      still ran at the step [T] bool, terminated [T] bool), T the time limit.
    """

    def play(state: PolicyState, number: Array) -> tuple[Array, Array, Array, Array]:
        episode = episode_keys(config, number)[:1]
        world, obs = begin(env, episode)
        first = jax.vmap(poses)(world)[0]

        def one_step(carry: Any, count: Array) -> tuple[Any, Any]:
            world, obs, alive = carry
            outputs, _ = policy.forward(state, obs)
            action = policy.distribution.to_env(policy.distribution.mode(outputs))
            physics = step_keys(episode, jnp.broadcast_to(count, 1), Purpose.PHYSICS)
            world, step = jax.vmap(env.step)(world, action, physics)
            shown = jax.vmap(poses)(world)[0], step.reward[0], alive[0], step.terminated[0]
            return (world, step.obs, alive & ~(step.terminated | step.truncated)), shown

        counts = jnp.arange(1, config.env.episode_length + 1, dtype=jnp.int32)
        start = (world, obs, jnp.ones(1, jnp.bool_))
        _, (shown, reward, alive, terminated) = jax.lax.scan(one_step, start, counts)
        return jnp.concatenate([first[None], shown]), reward, alive, terminated

    return play


def check(shown: np.ndarray) -> None:
    """That poses can be shown.

    Args:
      shown: what should be [T + 1, B, 7].

    Raises:
      InputError: another shape, such as a batch of episodes, or no step.
      ConsistencyError: a pose that is not finite.
    """
    if shown.ndim != 3 or shown.shape[2] != 7:
        raise InputError(
            f"poses: got shape {shown.shape}, want (steps, bodies, 7) of one episode; choose one"
        )
    if shown.shape[0] < 2 or shown.shape[1] < 1:
        raise InputError(f"poses: got shape {shown.shape}, want at least two moments and one body")
    if not np.isfinite(shown).all():
        moment, body, _ = np.argwhere(~np.isfinite(shown))[0]
        raise ConsistencyError(
            f"poses: got a number that is not finite at moment {moment}, body {body}, want finite "
            "ones; look at the run's metric nonfinite"
        )


def _policy_state(
    folder: Path, config: Config, env: Environment, iteration: int, *, manifest: str
) -> PolicyState:
    stages = make_stages(config, env)
    seed = jax.ShapeDtypeStruct((), jnp.uint32)
    train, world = jax.eval_shape(stages.init, seed)
    expected = tap.shapes({"train": train, "world": world})
    tensors, _ = checkpoint.load(folder, iteration, expected, manifest=manifest)
    return tap.rebuild({"train": train}, tensors)["train"].policy
