"""Brax tasks as environments. Brax is imported when a task is made, not before.

Source: Freeman et al. (2021), "Brax", arXiv:2106.13281; tasks and constants are those of the
installed package (brax.envs). Departures: actions are clipped to [-1, 1]; an episode that Brax
calls done is `terminated`, since its own time limit is not used. `docs/engines.md` has the table of
the tasks and backends that step, and how it was made.
"""

import dataclasses
import importlib
from types import ModuleType
from typing import Any

import jax.numpy as jnp

from vimejax.engines.common import describe, no_log_file, quiet, refuse_wide_types, show, strong
from vimejax.errors import EngineError, SpecError
from vimejax.tasks.physics import check_clock
from vimejax.types import Array, Environment, Timestep

BACKENDS = ("generalized", "mjx", "positional", "spring")
DEFAULT_BACKEND = "generalized"  # Brax's own default

# Task -> backends that Brax offers for it. `fast` is left out: it counts its calls in the object.
TASKS: dict[str, tuple[str, ...]] = {
    "ant": BACKENDS,
    "halfcheetah": BACKENDS,
    "hopper": BACKENDS,
    "humanoid": BACKENDS,
    "humanoidstandup": BACKENDS,
    "inverted_double_pendulum": BACKENDS,
    "inverted_pendulum": BACKENDS,
    "pusher": BACKENDS,
    "reacher": BACKENDS,
    "swimmer": ("generalized",),
    "walker2d": BACKENDS,
}


class _OldClip:
    """jax.numpy, with the names that `clip` had before jax 0.7 for its bounds."""

    def __getattr__(self, name: str) -> Any:
        return getattr(jnp, name)

    @staticmethod
    def clip(arr: Array, a_min: Any = None, a_max: Any = None) -> Array:
        return jnp.clip(arr, a_min, a_max)


def _load() -> ModuleType:
    try:
        with quiet():
            envs = importlib.import_module("brax.envs")
            fluid = importlib.import_module("brax.fluid")
    except ImportError as error:
        raise EngineError(
            f"engine brax: could not be imported ({error}), want brax 0.14; pip install brax."
        ) from error
    # brax 0.14.2 calls jp.clip(x, a_min=...) in this one module, which stops swimmer on newer jax.
    if fluid.jp is jnp:
        vars(fluid)["jp"] = _OldClip()
    return envs


def _check(task: str, backend: str) -> None:
    if task not in TASKS:
        raise EngineError(f"task of engine brax: got {task!r}, want one of {', '.join(TASKS)}.")
    if backend not in TASKS[task]:
        raise SpecError(
            f"backend of brax/{task}: got {backend!r}, want one of {', '.join(TASKS[task])}; "
            "leave it out to take the first."
        )
    refuse_wide_types("brax")


def build(task: str, backend: str, dt: float | None, substeps: int | None) -> Any:
    """Brax's own environment, under its own names.

    Args:
      task: one of `TASKS`.
      backend: one of the task's backends.
      dt: seconds of one physics substep; None for the task's own.
      substeps: physics substeps in one step; None for the task's own.

    Returns:
      A `brax.envs.base.PipelineEnv`.

    Raises:
      EngineError: Brax is missing.
    """
    envs = _load()
    options = {} if substeps is None else {"n_frames": substeps}
    with quiet(), no_log_file():
        engine = envs.get_environment(task, backend=backend, **options)
        if dt is not None:
            engine.sys = engine.sys.tree_replace({"opt.timestep": jnp.asarray(dt, jnp.float32)})
    return engine


def make(
    task: str,
    *,
    backend: str | None = None,
    dt: float | None = None,
    substeps: int | None = None,
) -> Environment:
    """A Brax task as a pair of pure functions.

    Args:
      task: one of `TASKS`.
      backend: one of the task's backends; None for Brax's default, generalized.
      dt: seconds of one physics substep; None for the task's own under that backend.
      substeps: physics substeps in one step; None for the task's own under that backend.

    Returns:
      An environment whose state is Brax's own, with every metric in `info` (float32; reward_*
      summed under action repeat, the others last). It never truncates.

    Raises:
      EngineError: Brax is missing or too strange, the task is unknown, or 64-bit types are on.
      SpecError: the task has no such backend, or the clock is out of range.
    """
    backend = DEFAULT_BACKEND if backend is None else backend
    _check(task, backend)
    check_clock(f"brax/{task}", 1.0 if dt is None else dt, 1 if substeps is None else substeps)
    engine = build(task, backend, dt, substeps)

    def reset(key: Array) -> tuple[Any, Timestep]:
        with quiet():
            state = strong(engine.reset(key))
        return state, show(state, state.obs)

    def step(state: Any, action: Array, key: Array) -> tuple[Any, Timestep]:
        del key  # Brax draws at reset only
        # Brax writes its metrics into the dict it is given; it gets its own.
        own = state.replace(metrics=dict(state.metrics), info=dict(state.info))
        with quiet():
            after = strong(engine.step(own, jnp.clip(action, -1.0, 1.0)))
        return after, show(after, after.obs)

    clock = (engine.sys.opt.timestep, engine._n_frames)
    spec = describe(f"brax/{task}", reset, engine.action_size, clock)
    return Environment(dataclasses.replace(spec, backend=backend), reset, step)
