"""What the bits of a program can depend on: its primitives by class, and digests of its graphs."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec

from rlkjax.exact import compat
from rlkjax.exact.interpret import Kind
from rlkjax.exact.rules.table import TABLE
from rlkjax.exact.transform import exact

LOCATION = re.compile(r" loc\(.*?\)+")
PLATFORMS = ("cpu", "cuda", "rocm")


@dataclass(frozen=True)
class Certificate:
    """What `certify` found out about a program.

    Attributes:
      primitives: class -> name of primitive -> number of equations; classes are "defined" (a
        rounding of the definitions), "moved" (nothing is rounded), "composed", "control" and
        "refused".
      refused: primitive -> the user's line, for those without a rule.
      jaxpr: SHA-256 in hex of the program as JAX traced it. The bits are a function of this program
        and of its inputs.
      stablehlo: platform -> SHA-256 in hex of the exact program as lowered for it; empty if
        anything is refused.
      depends_on: what else the bits can depend on: nothing, unless anything is refused.
    """

    primitives: Mapping[str, Mapping[str, int]]
    refused: Mapping[str, str]
    jaxpr: str
    stablehlo: Mapping[str, str]
    depends_on: tuple[str, ...]


def certify(
    fn: Callable[..., Any], *args: Any, platforms: Sequence[str] = PLATFORMS
) -> Certificate:
    """Examines `exact(fn)` for the shapes of `args`; nothing is run.

    Args:
      fn: function of arrays, as for `exact`.
      *args: arrays or shape records.
      platforms: for which to lower; none of them need be present.

    Returns:
      The certificate.
    """
    leaves, tree = jax.tree.flatten(args)
    jaxpr, consts, _ = compat.traced(lambda *flat: fn(*jax.tree.unflatten(tree, flat)), leaves)
    counts: dict[str, Counter[str]] = {}
    refused: dict[str, str] = {}
    for eqn, line in located(jaxpr):
        rule = TABLE.get(eqn.primitive.name)
        kind: Kind | str = rule.kind if rule else "refused"
        counts.setdefault(kind, Counter())[eqn.primitive.name] += 1
        if rule is None:
            refused.setdefault(eqn.primitive.name, line)
    text = "\n".join([*described(jaxpr), *(constant_text(c) for c in consts)])
    lowered = {} if refused else {p: stablehlo_digest(fn, args, p) for p in platforms}
    return Certificate(
        primitives={kind: dict(sorted(found.items())) for kind, found in sorted(counts.items())},
        refused=refused,
        jaxpr=hashlib.sha256(text.encode()).hexdigest(),
        stablehlo=lowered,
        depends_on=tuple(f"{name} at {line}" for name, line in refused.items()),
    )


def stablehlo_digest(fn: Callable[..., Any], args: Sequence[Any], platform: str) -> str:
    """SHA-256 of the exact program lowered for a platform, without source locations."""
    exported = jax.export.export(jax.jit(exact(fn)), platforms=[platform])(*args)
    lines = exported.mlir_module().splitlines()
    text = "\n".join(LOCATION.sub("", line) for line in lines if not line.startswith("#loc"))
    return hashlib.sha256(text.encode()).hexdigest()


def equations(jaxpr: Any) -> list[Any]:
    """All equations of a jaxpr and of the jaxprs inside, outer ones first."""
    return [eqn for eqn, _ in located(jaxpr)]


def located(jaxpr: Any, around: str = compat.UNKNOWN) -> list[tuple[Any, str]]:
    """The same, each with the user's line: its own, or that of the nearest call around it."""
    opened, _ = compat.opened(jaxpr)
    found = []
    for eqn in opened.eqns:
        own = compat.source_line(eqn)
        line = around if own == compat.UNKNOWN else own
        found.append((eqn, line))
        for inner in compat.sub_jaxprs(eqn.params):
            found += located(inner, line)
    return found


def described(jaxpr: Any) -> list[str]:
    """A jaxpr as lines of text without names, addresses or source lines.

    Args:
      jaxpr: open or closed jaxpr.

    Returns:
      One line for the inputs, one an equation, one for the outputs; inner jaxprs follow theirs.
    """
    opened, consts = compat.opened(jaxpr)
    names: dict[Any, str] = {}

    def name(atom: Any) -> str:
        if hasattr(atom, "val"):
            return constant_text(atom.val)
        return f"{names.setdefault(atom, f'v{len(names)}')}:{atom.aval.str_short(True)}"

    lines = ["in " + " ".join(name(v) for v in (*opened.constvars, *opened.invars))]
    lines += [constant_text(c) for c in consts]
    for eqn in opened.eqns:
        operands = " ".join(name(v) for v in eqn.invars)
        results = " ".join(name(v) for v in eqn.outvars)
        lines.append(f"{results} = {eqn.primitive.name}[{parameters(eqn.params)}] {operands}")
        for inner in compat.sub_jaxprs(eqn.params):
            lines += described(inner)
    return [*lines, "out " + " ".join(name(v) for v in opened.outvars)]


def parameters(params: Mapping[str, Any]) -> str:
    """The parameters that can change bits, sorted by name."""
    shown = {key: shard(value) for key, value in params.items()}
    return " ".join(f"{key}={shown[key]}" for key in sorted(shown) if plain(shown[key]))


def shard(value: Any) -> Any:
    """Meshes, sets of axes and lists of specifications as text; anything else as it is."""
    if isinstance(value, frozenset):
        return str(sorted(value))
    if hasattr(value, "axis_names") and hasattr(value, "axis_sizes"):
        return str(dict(zip(value.axis_names, value.axis_sizes, strict=True)))
    if isinstance(value, tuple) and any(isinstance(v, PartitionSpec) for v in value):
        return str([tuple(v) for v in value])
    return value


def plain(value: Any) -> bool:
    """Whether a parameter is a number, a name, a dtype, an enumeration or a record of these."""
    if isinstance(value, tuple):
        return all(plain(v) for v in value)
    scalar = isinstance(value, bool | int | float | str | np.dtype)
    return scalar or hasattr(value, "value") or type(value).__name__.endswith("DimensionNumbers")


def constant_text(value: Any) -> str:
    """A constant as its dtype, shape and a digest of its bytes."""
    if hasattr(value, "dtype") and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    array = np.asarray(value)
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:32]
    return f"{array.dtype}{list(array.shape)}:{digest}"
