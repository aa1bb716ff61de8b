"""Tasks of MuJoCo Playground as environments, where that package is installed.

Source: Zakka et al. (2025), "MuJoCo Playground", arXiv:2502.08844; tasks and constants are those of
the installed package (mujoco_playground.registry). Departures: the JAX implementation of MJX is the
default, since the package's own default (warp) is not traced by JAX; actions are clipped to
[-1, 1]; of a dictionary of observations the entry "state" is shown. Tasks outside the DM control
suite need robot models that the package would fetch over the network; here they must be in place.
"""

import importlib
from types import ModuleType
from typing import Any

import jax.numpy as jnp

from vimejax.engines.common import describe, quiet, refuse_wide_types, show, strong
from vimejax.errors import EngineError, SpecError, UnknownTaskError
from vimejax.tasks.physics import check_clock
from vimejax.types import Array, Environment, Timestep

BACKENDS = ("jax", "warp")


def _load() -> ModuleType:
    try:
        with quiet():
            return importlib.import_module("mujoco_playground._src.registry")
    except ImportError as error:
        raise EngineError(
            f"engine playground: could not be imported ({error}), want MuJoCo Playground; "
            "pip install playground."
        ) from error


def _check(package: ModuleType, task: str, backend: str) -> None:
    if task not in package.ALL_ENVS:
        raise UnknownTaskError(
            f"task: got 'playground/{task}', want playground/ and one of "
            f"{', '.join(package.ALL_ENVS)}."
        )
    if backend not in BACKENDS:
        raise SpecError(
            f"backend of playground/{task}: got {backend!r}, want one of {', '.join(BACKENDS)}; "
            "leave it out to take the first."
        )
    robots = package.mjx_env.MENAGERIE_PATH
    if task not in package.dm_control_suite.ALL_ENVS and not robots.exists():
        raise EngineError(
            f"task playground/{task}: got no robot models at the package's own place, want MuJoCo "
            "Menagerie there, and nothing is fetched during a run; fetch it with "
            "mujoco_playground._src.mjx_env.ensure_menagerie_exists()."
        )


def build(task: str, backend: str, dt: float | None, substeps: int | None) -> Any:
    """The package's own environment, under its own names.

    Args:
      task: one of the package's names.
      backend: one of `BACKENDS`.
      dt: seconds of one physics substep; None for the task's own.
      substeps: physics substeps in one step; None for the task's own.

    Returns:
      A `mujoco_playground._src.mjx_env.MjxEnv`.

    Raises:
      EngineError: the package or its robot models are missing.
      UnknownTaskError: no task of that name.
      SpecError: no such backend.
    """
    package = _load()
    _check(package, task, backend)
    usual = package.get_default_config(task)
    sim_dt = usual.sim_dt if dt is None else dt
    count = round(usual.ctrl_dt / usual.sim_dt) if substeps is None else substeps
    changes = {"impl": backend, "sim_dt": sim_dt, "ctrl_dt": sim_dt * count}
    with quiet():
        return package.load(task, config_overrides=changes)


def _observe(state: Any) -> Array:
    return state.obs["state"] if isinstance(state.obs, dict) else state.obs


def make(
    task: str,
    *,
    backend: str | None = None,
    dt: float | None = None,
    substeps: int | None = None,
) -> Environment:
    """A task of MuJoCo Playground as a pair of pure functions.

    Args:
      task: one of the package's names, such as CartpoleBalance.
      backend: implementation of MJX, jax or warp; None for jax.
      dt: seconds of one physics substep; None for the task's own.
      substeps: physics substeps in one step; None for the task's own.

    Returns:
      An environment whose state is the package's own, with every metric in `info` (float32;
      reward... summed under action repeat, the others last). It never truncates.

    Raises:
      EngineError: the package or its robot models are missing, or 64-bit types are on.
      UnknownTaskError: no task of that name.
      SpecError: no such backend, or the clock is out of range.
    """
    refuse_wide_types("playground")
    name = f"playground/{task}"
    check_clock(name, 1.0 if dt is None else dt, 1 if substeps is None else substeps)
    engine = build(task, BACKENDS[0] if backend is None else backend, dt, substeps)

    def reset(key: Array) -> tuple[Any, Timestep]:
        with quiet():
            state = strong(engine.reset(key))
        return state, show(state, _observe(state))

    def step(state: Any, action: Array, key: Array) -> tuple[Any, Timestep]:
        del key  # a task that draws while it steps carries a key of its own from its reset
        own = state.replace(metrics=dict(state.metrics), info=dict(state.info))
        with quiet():
            after = strong(engine.step(own, jnp.clip(action, -1.0, 1.0)))
        return after, show(after, _observe(after))

    spec = describe(name, reset, engine.action_size, (engine.sim_dt, engine.n_substeps))
    return Environment(spec, reset, step)
