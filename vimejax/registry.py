"""Name -> task, wrapped in the one right order.

An engine is imported only when one of its tasks is asked for.
"""

import difflib
from collections.abc import Callable

from vimejax import walls, wrap
from vimejax.engines import brax, playground
from vimejax.errors import SpecError, UnknownTaskError
from vimejax.tasks import cartpole, mountain_car, noisy_point, pendulum, probes, sparse_grid
from vimejax.types import Environment

# Tasks with simulated time take dt and substeps; the others take nothing.
PHYSICS: dict[str, Callable[..., Environment]] = {
    "cartpole": cartpole.make,
    "mountain_car_continuous": mountain_car.make,
    "noisy_point": noisy_point.make,
    "pendulum": pendulum.make,
}
PLAIN: dict[str, Callable[[], Environment]] = {
    "probe_action": probes.make_action,
    "probe_both": probes.make_both,
    "probe_constant": probes.make_constant,
    "probe_delayed": probes.make_delayed,
    "probe_obs": probes.make_obs,
    "sparse_grid": sparse_grid.make,
}
ENGINES = {"brax": brax.make, "playground": playground.make}


def names() -> tuple[str, ...]:
    """Names of the native tasks and of the Brax tasks, sorted.

    Returns:
      Names for `make`. Tasks of MuJoCo Playground are known to that package only, and are asked for
      as playground/NAME.
    """
    return tuple(sorted([*PHYSICS, *PLAIN, *(f"brax/{task}" for task in brax.TASKS)]))


def _unknown(name: str) -> UnknownTaskError:
    known = names()
    short = {known_name.split("/")[-1]: known_name for known_name in known}
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    near += [short[key] for key in difflib.get_close_matches(name, short, n=3, cutoff=0.6)]
    hint = f"did you mean {' or '.join(dict.fromkeys(near))}? " if near else ""
    return UnknownTaskError(
        f"task: got {name!r}, want a known name; {hint}"
        f"Known: {', '.join(known)}, and playground/NAME where MuJoCo Playground is installed."
    )


def _native(name: str, backend: str | None, dt: float | None, substeps: int | None) -> Environment:
    if backend is not None:
        raise SpecError(
            f"backend of task {name}: got {backend!r}, want none, for the task is native; "
            "leave it out, or take a brax/ task."
        )
    clock = {"dt": dt, "substeps": substeps}
    given = {key: value for key, value in clock.items() if value is not None}
    if name in PHYSICS:
        return PHYSICS[name](**given)
    if given:
        raise SpecError(
            f"{' and '.join(given)} of task {name}: got {given}, want none, for the task has no "
            "physics; leave it out."
        )
    return PLAIN[name]()


def bare(
    name: str,
    *,
    backend: str | None = None,
    dt: float | None = None,
    substeps: int | None = None,
) -> Environment:
    """The task of that name with no wrapper around it.

    Args:
      name: one of `names()`, or playground/NAME.
      backend: physics backend of an engine's task; None for its own default.
      dt: seconds of one physics substep; None for the task's own.
      substeps: physics substeps in one step; None for the task's own.

    Returns:
      One episode of the task, without end if the task itself has none.

    Raises:
      UnknownTaskError: no task of that name.
      SpecError: backend, dt or substeps do not fit the task.
      EngineError: the engine is missing or cannot run the task.
    """
    engine, _, task = name.partition("/")
    if name in PHYSICS or name in PLAIN:
        return _native(name, backend, dt, substeps)
    if engine not in ENGINES or not task or (engine == "brax" and name not in names()):
        raise _unknown(name)
    return ENGINES[engine](task, backend=backend, dt=dt, substeps=substeps)


def make(
    name: str,
    *,
    backend: str | None = None,
    dt: float | None = None,
    substeps: int | None = None,
    episode_length: int,
    action_repeat: int = 1,
) -> Environment:
    """The task of that name: guarded, repeating its actions, cut at a time limit; in that order.

    The guard is innermost, so that a fault ends a group at its sub-step; the limit is outermost,
    and counts the steps that the learner sees.

    Args:
      name: one of `names()`, or playground/NAME.
      backend: physics backend of an engine's task; None for its own default.
      dt: seconds of one physics substep; None for the task's own.
      substeps: physics substeps in one step; None for the task's own.
      episode_length: steps (groups, under action repeat) after which an episode is truncated.
      action_repeat: times that each action is applied.

    Returns:
      An environment for `vimejax.wrap.stream`.

    Raises:
      UnknownTaskError: no task of that name.
      SpecError: a number is out of range, or does not fit the task.
      EngineError: the engine is missing or cannot run the task.
    """
    task = walls.walled(bare(name, backend=backend, dt=dt, substeps=substeps))
    env = wrap.nan_guard(task)
    return wrap.time_limit(wrap.action_repeat(env, action_repeat), episode_length)
