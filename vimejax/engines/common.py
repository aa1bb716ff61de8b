"""What the engines share: silence about known notices, strong types, and a task's description."""

import contextlib
import importlib
import io
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vimejax.errors import EngineError
from vimejax.types import Array, Continuous, EnvSpec, Info, Timestep, timestep

# What these versions of Brax and MuJoCo say on every import and trace; all else is let through.
_WARNINGS = (
    "Brax System, piplines and environments are not actively being maintained",
    "JAXopt is no longer maintained",
    "compiler attribute 'settotalmass' is deprecated",
    "Accessing `.*` directly from `(Data|Model|Option|Statistic)` is deprecated",
)
_LINES = ("Failed to import warp", "Failed to import mujoco_warp")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Drops the known notices of the engine's packages, and lets everything else through.

    Yields:
      Nothing.
    """
    caught = io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(caught):
            for message in _WARNINGS:
                warnings.filterwarnings("ignore", message=message)
            yield
    finally:
        lines = caught.getvalue().splitlines(keepends=True)
        sys.stdout.write("".join(line for line in lines if not line.startswith(_LINES)))


@contextlib.contextmanager
def no_log_file() -> Iterator[None]:
    """Keeps MuJoCo from writing MUJOCO_LOG.TXT into the current folder: it warns Python instead.

    Yields:
      Nothing.
    """
    mujoco = importlib.import_module("mujoco")
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda text: warnings.warn(text, stacklevel=2))
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


def refuse_wide_types(engine: str) -> None:
    """Refuses to make a task of an engine while JAX makes 64-bit types by default.

    Args:
      engine: name of the engine, for the message.

    Raises:
      EngineError: `jax_enable_x64` is on.
    """
    if jax.config.read("jax_enable_x64"):
        raise EngineError(
            f"engine {engine}: got jax_enable_x64 on, want it off, for its numbers would change "
            "width; turn it off."
        )


def strong(tree: Any) -> Any:
    """The same tree with arrays of a fixed type only, so that a scan over it never retraces.

    Args:
      tree: tree of arrays and numbers, some of them weakly typed.

    Returns:
      A tree of the same structure of float32, int32, uint32, bool and key arrays.
    """

    def fix(leaf: Any) -> Array:
        leaf = jnp.asarray(leaf)
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return leaf
        return jax.lax.convert_element_type(leaf, leaf.dtype)

    return jax.tree.map(fix, tree)


def show(state: Any, obs: Array) -> Timestep:
    """What an engine's state shows: done as `terminated`, every metric as float32 `info`.

    Args:
      state: has `reward`, `done` (float32, 0 or 1) and `metrics` (name -> [] number).
      obs: [O] float32.

    Returns:
      A timestep that is never truncated.
    """
    info = {name: value.astype(jnp.float32) for name, value in state.metrics.items()}
    return timestep(obs, state.reward, state.done != 0.0, info=info)


def describe(
    name: str,
    reset: Callable[[Array], tuple[Any, Timestep]],
    action_size: int,
    clock: tuple[Any, int],
) -> EnvSpec:
    """Spec of an engine's task; metrics named reward... are summed under action repeat.

    Args:
      name: the registry's name of the task.
      reset: the wrapped reset, traced for its shapes only.
      action_size: length of the action.
      clock: seconds of one substep, and substeps in one step.

    Returns:
      The spec, with `costly_reset` set.
    """
    shape = jax.eval_shape(reset, jax.random.key(0))[1]
    rules = [
        Info(key, "float32", "sum" if key.startswith("reward") else "last") for key in shape.info
    ]
    return EnvSpec(
        name=name,
        obs_size=shape.obs.shape[0],
        action=Continuous(int(action_size)),
        info=tuple(sorted(rules, key=lambda rule: rule.name)),
        dt=float(
            str(np.float32(clock[0]))
        ),  # 0.01, not the 0.0099999998 that its float32 widens to
        substeps=int(clock[1]),
        costly_reset=True,
    )
