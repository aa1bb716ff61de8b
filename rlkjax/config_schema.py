"""The shape of a config: frozen records, each field with its range, default, unit and help line.

This file is data. Reading files is `config_yaml`, rules between fields are `config_rules`, and
`config` puts them together.
"""

import dataclasses
import types
import typing
from collections.abc import Iterator
from dataclasses import field
from typing import Annotated, Any, Literal, NamedTuple

from annotated_types import Ge, Gt, Le, Lt
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
_MOST = 2**31 - 1

Count = Annotated[int, Ge(1), Le(_MOST)]
CountOrZero = Annotated[int, Ge(0), Le(_MOST)]
Positive = Annotated[float, Gt(0)]
NotNegative = Annotated[float, Ge(0)]
Share = Annotated[float, Ge(0), Le(1)]
OpenShare = Annotated[float, Gt(0), Lt(1)]


def _option(text: str, unit: str = "", *, default: Any = dataclasses.MISSING) -> Any:
    """A field with one help line and a unit; no default means that the key must be given."""
    return field(default=default, metadata={"help": text, "unit": unit})


def _section(kind: type, text: str) -> Any:
    """A field that holds another record with all its defaults."""
    return field(default_factory=kind, metadata={"help": text, "unit": ""})


@dataclass(frozen=True, config=_STRICT)
class EnvConfig:
    """The environment, and the parts of its physics that a run may set."""

    backend: str | None = _option(
        "engine backend (brax: positional, spring, generalized, mjx); null: the task's own",
        default=None,
    )
    dt: Positive | None = _option(
        "length of a physics substep; null: the task's own", "seconds", default=None
    )
    substeps: Count | None = _option(
        "physics substeps in a step; null: the task's own", "substeps", default=None
    )
    episode_length: Count = _option("an episode is truncated after these", "steps", default=1000)
    action_repeat: Count = _option("steps for which one action is held", "steps", default=1)


@dataclass(frozen=True, config=_STRICT)
class RolloutConfig:
    """How much one iteration collects."""

    num_envs: Count = _option("environments stepped side by side", "environments", default=8)
    unroll_length: Count = _option(
        "actions of each environment in one iteration", "actions", default=128
    )


@dataclass(frozen=True, config=_STRICT)
class NetworkConfig:
    """The policy and value networks; an empty list is a linear map."""

    policy_hidden: tuple[Count, ...] = _option(
        "hidden layers of the policy", "units", default=(64, 64)
    )
    value_hidden: tuple[Count, ...] = _option(
        "hidden layers of the value", "units", default=(64, 64)
    )
    shared_torso: bool = _option("the value head sits on the policy's hidden layers", default=False)
    activation: Literal["tanh", "relu", "swish"] = _option(
        "function after each hidden layer", default="tanh"
    )


@dataclass(frozen=True, config=_STRICT)
class ObservationConfig:
    """What the networks see of an observation."""

    normalize: bool = _option(
        "divide by the running deviation, frozen within an iteration", default=True
    )
    clip: Positive = _option("bound of the normalised observation", "deviations", default=10.0)


@dataclass(frozen=True, config=_STRICT)
class RewardConfig:
    """What training sees of a reward."""

    scale: float = _option("factor on every reward", default=1.0)
    dtype: Literal["float32", "float16"] = _option(
        "precision of stored rewards; float16 is recorded as a switch", default="float32"
    )
    normalize: Literal["none", "running"] = _option(
        "divide by a running deviation; running is recorded as a switch", default="none"
    )


@dataclass(frozen=True, config=_STRICT)
class PPOConfig:
    """Loss and optimiser."""

    epochs: Count = _option("passes over a rollout", "epochs", default=4)
    minibatches: Count = _option("parts of a rollout in one epoch", "minibatches", default=4)
    clip_epsilon: OpenShare = _option("the ratio is clipped to 1 - this .. 1 + this", default=0.2)
    value_clip_epsilon: Positive | None = _option(
        "bound on the change of a value; null: not clipped", "reward units", default=None
    )
    discount: Share = _option("weight of the next step's return", "per action", default=0.99)
    gae_lambda: Share = _option("weight of longer advantage estimates", default=0.95)
    entropy_cost: NotNegative = _option("weight of the entropy bonus", default=0.01)
    value_cost: NotNegative = _option("weight of the value loss", default=0.5)
    max_grad_norm: Positive | None = _option(
        "global norm to which gradients are clipped; null: not clipped", default=0.5
    )
    normalize_advantage: bool = _option(
        "shift and scale the advantages of a minibatch", default=True
    )
    learning_rate: NotNegative = _option("step size of Adam", default=3e-4)
    learning_rate_schedule: Literal["constant", "linear"] = _option(
        "linear falls to 0 at the last iteration", default="constant"
    )
    adam_epsilon: Positive = _option("term that keeps Adam's division bounded", default=1e-5)


@dataclass(frozen=True, config=_STRICT)
class EvaluationConfig:
    """Episodes with the deterministic policy."""

    every: CountOrZero = _option(
        "iterations between evaluations; 0: only at the end", "iterations", default=10
    )
    episodes: Count = _option("episodes of one evaluation", "episodes", default=32)


@dataclass(frozen=True, config=_STRICT)
class CheckpointConfig:
    """Complete states on disk."""

    every: CountOrZero = _option(
        "iterations between checkpoints; 0: only at the end", "iterations", default=10
    )
    keep: Count = _option("newest checkpoints that stay", "checkpoints", default=3)


@dataclass(frozen=True, config=_STRICT)
class ToleranceConfig:
    """How far native numerics may be from the reference; in exact numerics every bit is equal."""

    reward_relative: NotNegative = _option(
        "largest error of a reward relative to itself", default=1e-6
    )
    reward_differing: Share = _option("largest share of rewards that differ", default=0.01)
    action: NotNegative = _option(
        "largest error of a continuous action, in largest actions of the rollout; 0: equal bits",
        default=0.0,
    )
    rollout: NotNegative = _option(
        "largest error of any other buffer of a rollout, which grows along it as the dynamics let "
        "it, in largest elements of the buffer",
        default=0.1,
    )
    training: NotNegative = _option(
        "largest error of the rescoring, the advantages and the updated state, in largest elements "
        "of the buffer",
        default=1e-3,
    )


@dataclass(frozen=True, config=_STRICT)
class AuditConfig:
    """What the audit keeps beside the ledger."""

    keep_segments: Literal["none", "last", "all"] = _option(
        "rollouts kept on disk as whole arrays", default="none"
    )
    reference_every: CountOrZero = _option(
        "iterations between two that the reference in NumPy computes again; 0: none",
        "iterations",
        default=0,
    )
    tolerance: ToleranceConfig = _section(
        ToleranceConfig, "how far native numerics may be from the reference"
    )


@dataclass(frozen=True, config=_STRICT)
class Config:
    """One run. Everything that can move a training bit is in here."""

    task: str = _option("name of the task, such as cartpole or brax/ant")
    total_steps: Annotated[int, Ge(1), Le(2**62)] = _option(
        "steps to train for, rounded up to whole iterations", "environment steps"
    )
    seed: Annotated[int, Ge(0), Le(2**32 - 1)] = _option("start of every random stream", default=0)
    platform: Literal["auto", "cpu", "rocm", "cuda"] = _option(
        "what computes; a named one is never replaced by another", default="auto"
    )
    threads: Annotated[int, Ge(1), Le(1024)] | None = _option(
        "worker threads of XLA on CPU, on which bits depend; null: one a core",
        "threads",
        default=None,
    )
    autotune: bool = _option(
        "let XLA choose GPU kernels by timing, so that bits may change; recorded as a switch",
        default=False,
    )
    numerics: Literal["native", "exact"] = _option(
        "exact: bits by definition (docs/exact.md); native: plain XLA under a fixed flag set",
        default="exact",
    )
    env: EnvConfig = _section(EnvConfig, "the environment")
    rollout: RolloutConfig = _section(RolloutConfig, "how much one iteration collects")
    network: NetworkConfig = _section(NetworkConfig, "policy and value networks")
    observations: ObservationConfig = _section(ObservationConfig, "what the networks see")
    reward: RewardConfig = _section(RewardConfig, "what training sees of a reward")
    ppo: PPOConfig = _section(PPOConfig, "loss and optimiser")
    evaluation: EvaluationConfig = _section(EvaluationConfig, "episodes that measure the policy")
    checkpoint: CheckpointConfig = _section(CheckpointConfig, "complete states on disk")
    audit: AuditConfig = _section(AuditConfig, "what the audit keeps")


class Option(NamedTuple):
    """One key of a config, as documentation shows it."""

    key: str  # dotted: ppo.clip_epsilon
    want: str  # type and range in words
    default: Any  # dataclasses.MISSING where the key must be given
    unit: str
    help: str


def options(record: type = Config, prefix: str = "") -> Iterator[Option]:
    """Every key of a config, in the order of the records.

    Args:
      record: the record to walk; the whole config by default.
      prefix: dotted key of `record`, with its last dot.

    Returns:
      Options; a section is not one itself, its keys are.
    """
    hints = typing.get_type_hints(record, include_extras=True)
    for item in dataclasses.fields(record):
        hint, key = hints[item.name], prefix + item.name
        if dataclasses.is_dataclass(hint):
            yield from options(typing.cast(type, hint), key + ".")
        else:
            yield Option(
                key, want(hint), item.default, item.metadata["unit"], item.metadata["help"]
            )


def want(hint: Any) -> str:
    """A type and its range in words: "an integer, at least 1".

    Args:
      hint: type hint of a field of a config record.

    Returns:
      Words for "want ..." in a message.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return want(arguments[0]) + _range(arguments[1:])
    if origin is Literal:
        return arguments[0] if len(arguments) == 1 else "one of " + ", ".join(arguments)
    if origin is tuple:
        return "a list, each item " + want(arguments[0])
    if origin in (types.UnionType, typing.Union):
        return " or ".join(want(each) for each in reversed(arguments))
    if dataclasses.is_dataclass(hint):
        names = ", ".join(each.name for each in dataclasses.fields(hint))
        return f"a mapping with some of the keys {names}"
    words = {int: "an integer", float: "a finite number", bool: "true or false", str: "a word"}
    return words.get(hint, "null")


def _range(bounds: tuple[Any, ...]) -> str:
    """The bounds of an annotated number in words."""
    said = []
    for bound in bounds:
        match bound:
            case Ge(ge=low):
                said.append(f"at least {low}")
            case Gt(gt=low):
                said.append(f"above {low}")
            case Le(le=high):
                said.append(f"at most {high}")
            case Lt(lt=high):
                said.append(f"below {high}")
    return ", " + " and ".join(said) if said else ""
