"""The stages of a run as compiled programs: each is compiled once, ahead of time."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
from jax.stages import Lowered

from rlkjax import lowered
from rlkjax.errors import ConsistencyError
from rlkjax.learner import Stages
from rlkjax.learner_arguments import stage_arguments
from rlkjax.platform import xla_probe

PHYSICS = ("init", "rollout", "evaluate")  # the stages with steps of an environment
GRAPH = ("policy_forward", "policy_log_prob")  # the functions that both programs trace


class Programs(NamedTuple):
    """What a run executes.

    Attributes:
      stages: compiled programs with the signatures of `Stages`.
      shapes: name of a record ("train", "world", "segment") -> tree of shapes and dtypes.
      rollout_graph: digest of the policy graph inside the lowered rollout, 64 hex digits.
      rescore_graph: the same for the rescoring program.
    """

    stages: Stages
    shapes: dict[str, Any]
    rollout_graph: str
    rescore_graph: str


def compile_stages(
    stages: Stages, transform: Callable[[Callable], Callable] | None = None
) -> Programs:
    """Lowers and compiles every stage. No buffer is donated: a later check may still need it.

    Args:
      stages: pure functions.
      transform: applied to every stage before it is lowered; None in native numerics.

    Returns:
      Programs that never compile again, as their shapes are fixed.

    Raises:
      ConsistencyError: rollout and rescoring do not hold the same policy graph.
    """
    arguments = stage_arguments(stages)
    # The graphs are those of the stages as written: a transformation may inline their functions.
    low = _lower(stages, {name: arguments[name] for name in ("rollout", "rescore")})
    graphs = [lowered.digest(each.as_text(), GRAPH) for each in low.values()]
    if graphs[0] != graphs[1]:
        raise ConsistencyError(
            f"policy graph: rollout has {graphs[0]}, rescoring has {graphs[1]}, want one graph; "
            "both must trace the same function at the same shape"
        )
    if transform is not None:
        stages, low = Stages(*map(transform, stages)), {}
    low |= _lower(stages, {name: arguments[name] for name in arguments if name not in low})
    # The longest compilations (physics) overlap; XLA releases the interpreter while it compiles.
    with ThreadPoolExecutor(max_workers=2) as pool:
        options = [_options(name, transform is not None) for name in low]
        compiled = Stages(
            **dict(zip(low, pool.map(Lowered.compile, low.values(), options), strict=True))
        )
    train, segment, _, _ = arguments["update"]
    shapes = {"train": train, "world": arguments["rollout"][1], "segment": segment}
    return Programs(compiled, shapes, graphs[0], graphs[1])


def _options(name: str, any_code: bool) -> dict[str, bool]:
    """What XLA is asked for when it compiles a stage.

    Physics is a thousand small loops. XLA for CPUs has had two generators of code for them, and the
    older one takes three quarters of the time to compile; what it makes is as fast there, though
    not in an update.

    Args:
      name: of the stage.
      any_code: whether the stage has the same bits, whatever code is made for it.

    Returns:
      Compiler options.
    """
    newer = "xla_cpu_use_fusion_emitters"
    older_will_do = any_code and name in PHYSICS and jax.default_backend() == "cpu"
    has_both = xla_probe.library() is not None and xla_probe.is_known(newer)
    return {newer: False} if older_will_do and has_both else {}


def _lower(stages: Stages, arguments: dict[str, tuple[Any, ...]]) -> dict[str, Lowered]:
    """Stages lowered for their arguments, by name."""
    return {name: jax.jit(getattr(stages, name)).lower(*given) for name, given in arguments.items()}
