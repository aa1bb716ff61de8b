"""Golden byte streams: what each native task shows in a fixed short roll, stored as bytes.

A stream is made by an executor given from outside (the scalar reference, a compiler), so that any
two of them can be held against each other. The format is written down in `docs/golden.md`.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vimejax import codec, registry, wrap
from vimejax.errors import CodecError
from vimejax.keys import Stream, environment_key, run_key
from vimejax.types import Array, Discrete, Environment, EnvSpec, Timestep

FORMAT = "vimejax-golden/1"
FOLDER = Path(__file__).parent / "data" / "golden"
SEED = 20
NUM_ENVS = 4
STEPS = 32
EPISODE_LENGTH = 10
ACTIONS = (
    "k = t // 3^b + b for step t = 0, 1, ... of environment b; discrete: k mod n; "
    "continuous, part i: ((5 k + 3 i) mod 17 - 8) / 8"
)

Fields = dict[str, np.ndarray]
Fn = Callable[..., Any]
ExecutorFn = Callable[[Fn], Fn]  # a function of arrays -> the same function, carried out its way


class Golden(NamedTuple):
    """A stored stream.

    Attributes:
      data: bytes of `codec.encode`.
      provenance: how they were made, and their SHA-256; see `docs/golden.md`.
    """

    data: bytes
    provenance: dict[str, Any]


class Difference(NamedTuple):
    """The first place where two streams differ.

    Attributes:
      field: name of the field.
      step: 0 is the start, t the t-th step; None where dtype or shape differ, or a field lacks.
      environment: its number; None likewise.
      element: index in the field's array of one step and environment.
      expected: bits as hex digits of one unsigned number, or dtype and shape.
      got: the same of the other stream.
    """

    field: str
    step: int | None
    environment: int | None
    element: tuple[int, ...]
    expected: str
    got: str

    def text(self) -> str:
        """The difference as one phrase."""
        what = f"expected {self.expected}, got {self.got}"
        if self.step is None:
            return f"field {self.field}: {what}"
        place = f"step {self.step}, environment {self.environment}, element {list(self.element)}"
        return f"field {self.field}, {place}: {what}"


def tasks() -> tuple[str, ...]:
    """Names of the tasks that have a stream: all native ones, sorted."""
    return tuple(sorted([*registry.PHYSICS, *registry.PLAIN]))


def environment(task: str) -> Environment:
    """The task with its own clock, as the stream rolls it.

    Args:
      task: one of `tasks()`.

    Returns:
      The wrapped environment, truncated after `EPISODE_LENGTH` steps.

    Raises:
      UnknownTaskError: no task of that name.
    """
    return registry.make(task, episode_length=EPISODE_LENGTH)


def actions(spec: EnvSpec, steps: int = STEPS) -> np.ndarray:
    """The fixed schedule `ACTIONS`: environment 0 changes its action at every step, 3 hardly ever.

    Args:
      spec: of the environment.
      steps: T.

    Returns:
      [T, NUM_ENVS] int32, or [T, NUM_ENVS, size] float32 in multiples of 1/8 from -1 to 1.
    """
    number = np.arange(NUM_ENVS)
    k = np.arange(steps)[:, None] // 3**number + number
    if isinstance(spec.action, Discrete):
        return (k % spec.action.n).astype(np.int32)
    part = np.arange(spec.action.size)
    return (((5 * k[..., None] + 3 * part) % 17 - 8) / 8).astype(np.float32)


def program(env: Environment) -> Callable[[Array, Array], dict[str, Array]]:
    """The roll as a pure function, for an executor.

    Args:
      env: wrapped environment.

    Returns:
      (seed [] uint32, action [T, NUM_ENVS, ...]) -> name -> [T, NUM_ENVS, ...]; `start`
      [1, NUM_ENVS, O] is the first observation, the rest is what each step shows.
    """
    stream = wrap.stream(env, NUM_ENVS)

    def step(
        state: wrap.StreamState, action: Array
    ) -> tuple[wrap.StreamState, tuple[Timestep, Array, Array]]:
        state, ts = stream.step(state, action)
        return state, (ts, state.episode, state.step)

    def roll(seed: Array, action: Array) -> dict[str, Array]:
        numbers = jnp.arange(NUM_ENVS, dtype=jnp.uint32)
        keys = jax.vmap(environment_key, (None, 0))(run_key(seed, Stream.TRAIN), numbers)
        state, first = stream.init(keys)
        _, (ts, episode, step_) = jax.lax.scan(step, state, action)
        shown = ts._asdict()
        info = {f"info/{name}": value for name, value in shown.pop("info").items()}
        counts = {"action": action, "episode": episode, "step": step_}
        return {"start": first.obs[None], **shown, **info, **counts}

    return roll


def make(env: Environment, execute_fn: ExecutorFn, steps: int = STEPS) -> Fields:
    """The stream of an environment, as an executor computes it.

    Args:
      env: wrapped environment.
      execute_fn: function of arrays -> the same function, such as `jax.jit` or the reference.
      steps: T; a shorter stream is a prefix of a longer one.

    Returns:
      name -> [T, NUM_ENVS, ...] float32, int32 or bool, and `start` [1, NUM_ENVS, O] float32.
    """
    found = execute_fn(program(env))(np.uint32(SEED), actions(env.spec, steps))
    return {name: np.asarray(value) for name, value in found.items()}


def prefix(fields: Mapping[str, np.ndarray], steps: int) -> Fields:
    """The first steps of a stream.

    Args:
      fields: a stream.
      steps: how many.

    Returns:
      name -> the first `steps` rows; `start` is whole.
    """
    return {name: value[:steps] for name, value in fields.items()}


def compare(expected: Mapping[str, np.ndarray], got: Mapping[str, np.ndarray]) -> Difference | None:
    """The first difference in bits: the earliest step, then the field's name, then the place.

    Args:
      expected: a stream.
      got: another.

    Returns:
      The difference; None for equal names, dtypes, shapes and bits. Fields that differ in dtype or
      shape, or that one side lacks, come before all others.
    """
    found = []
    for name in sorted({*expected, *got}):
        sides = expected.get(name), got.get(name)
        kinds = [_layout(side) for side in sides]
        if kinds[0] != kinds[1]:
            return Difference(name, None, None, (), *kinds)
        found += _unequal(name, *map(_bits, sides))
    return min(found, key=lambda each: each.step or 0, default=None)


def _layout(value: np.ndarray | None) -> str:
    return "no such field" if value is None else f"{value.dtype.name}{list(value.shape)}"


def _bits(value: Any) -> np.ndarray:
    """The same array as unsigned integers."""
    return np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}")


def _unequal(name: str, expected: np.ndarray, got: np.ndarray) -> list[Difference]:
    """The first difference of one field, if there is one."""
    places = np.argwhere(expected != got)
    if not len(places):
        return []
    row, number, *element = map(int, places[0])
    place = tuple(map(int, places[0]))
    bits = [f"{int(side[place]):0{2 * side.itemsize}x}" for side in (expected, got)]
    return [Difference(name, row + (name != "start"), number, tuple(element), *bits)]


def recipe(spec: EnvSpec) -> dict[str, Any]:
    """What a stream is made from, but for the program: JSON without floats.

    Args:
      spec: of the wrapped environment.

    Returns:
      The part of a provenance that must be equal for two streams to be comparable.
    """
    task = dataclasses.asdict(spec) | {"dt": float(spec.dt).hex()}
    task["action"] = {"kind": type(spec.action).__name__, **dataclasses.asdict(spec.action)}
    task["info"] = [dataclasses.asdict(entry) for entry in spec.info]
    return {
        "format": FORMAT,
        "task": task,
        "episode_length": EPISODE_LENGTH,
        "num_envs": NUM_ENVS,
        "steps": STEPS,
        "seed": SEED,
        "actions": ACTIONS,
    }


def pack(spec: EnvSpec, fields: Fields, origin: Mapping[str, Any]) -> Golden:
    """A stream as bytes, with its provenance.

    Args:
      spec: of the wrapped environment.
      fields: the stream.
      origin: who computed it: `executor`, `program` (digest), `versions` (object).

    Returns:
      What `write` stores.
    """
    data = codec.encode(fields)
    digest = hashlib.sha256(data).hexdigest()
    return Golden(data, {**recipe(spec), **origin, "sha256": digest})


def faults(golden: Golden, spec: EnvSpec) -> list[str]:
    """Why a stored stream is not the one that this package rolls, apart from its values.

    Args:
      golden: the stored stream.
      spec: of the environment as it is now.

    Returns:
      Phrases "KEY: expected ..., got ...", the first the format; empty if all is well.
    """
    digest = hashlib.sha256(golden.data).hexdigest()
    pairs = [(key, golden.provenance.get(key), value) for key, value in recipe(spec).items()]
    pairs.append(("sha256", golden.provenance.get("sha256"), digest))
    return [
        f"{key} of the golden file: stored {stored!r}, here {value!r}"
        for key, stored, value in pairs
        if stored != value
    ]


def write(folder: Path, task: str, golden: Golden) -> None:
    """Stores a stream as TASK.bin and TASK.json.

    Args:
      folder: an existing folder.
      task: name of the task.
      golden: the stream.
    """
    (folder / f"{task}.bin").write_bytes(golden.data)
    (folder / f"{task}.json").write_bytes(_json(golden.provenance))


def read(folder: Path, task: str) -> Golden | None:
    """A stored stream; its values are not looked at yet.

    Args:
      folder: where it lies.
      task: name of the task.

    Returns:
      The stream; None if there is no file of that task.

    Raises:
      CodecError: the provenance is not what `write` stores, or one of the two files lacks.
    """
    files = [folder / f"{task}.bin", folder / f"{task}.json"]
    missing = [each.name for each in files if not each.is_file()]
    if len(missing) == 2:
        return None
    if missing:
        raise CodecError(
            f"golden file of {task}: got no {missing[0]}, want it beside its twin; restore it."
        )
    text = files[1].read_bytes()
    try:
        provenance = json.loads(text)
    except (ValueError, RecursionError):
        provenance = None
    if not isinstance(provenance, dict) or _json(provenance) != text:
        raise CodecError(
            f"provenance {task}.json: got bytes that are no canonical JSON object; restore it."
        )
    return Golden(files[0].read_bytes(), provenance)


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii") + b"\n"
