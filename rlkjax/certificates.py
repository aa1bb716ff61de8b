"""The certificate of a run: for each stage, what its bits can depend on.

Exact programs depend on nothing but their inputs. For native ones every rounded operation is
listed, with what plain XLA lets its bits depend on and the line that wrote it.
"""

import hashlib
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from rlkjax.audit.merkle import canonical_json
from rlkjax.exact import compat
from rlkjax.exact.certificate import LOCATION, Certificate, certify, equations
from rlkjax.exact.rules.table import TABLE
from rlkjax.learner import Stages
from rlkjax.learner_arguments import stage_arguments

FORMAT = "rlkjax-certificate/1"
COLUMN = re.compile(r"(:\d+):\d+")
REFUSED = "no rule in exact numerics: the run is refused"
ORDER = "order of the sum: shape, threads, device, version"
FUSION = "contraction of a product into a sum, and fusion: shape, vector width, device, version"
LIBRARY = "the compiler's own approximation: vector length, device, version"

# What plain XLA lets the bits of a rounded operation depend on; those not named are LIBRARY.
CAUSES = {
    **dict.fromkeys(("dot_general", "reduce_sum", "cumsum", "reduce_prod"), ORDER),
    **dict.fromkeys(("scatter-add", "scatter_add", "scatter-mul", "scatter_mul"), ORDER),
    **dict.fromkeys(("cholesky", "triangular_solve", "qr", "lu"), ORDER),
    **dict.fromkeys(("add", "sub", "mul", "add_any", "square", "one_minus_square"), FUSION),
    "integer_pow": FUSION,
    "div": "division turned into a product with 1 / x: shape, device, version",
}
# Correctly rounded, or moving bits only, in plain XLA too.
HARMLESS = frozenset({"convert_element_type", "bitcast_convert_type", "nextafter"})


class Dependence(NamedTuple):
    """Something besides the inputs that bits can depend on.

    Attributes:
      cause: what it is, in words.
      line: "FILE:LINE (FUNCTION)" that wrote the operations.
      primitives: their names, sorted.
    """

    cause: str
    line: str
    primitives: tuple[str, ...]


class StageCertificate(NamedTuple):
    """What is known of one stage.

    Attributes:
      found: its primitives and the digests of its programs.
      depends_on: what its bits can depend on, sorted; empty for nothing but the inputs.
    """

    found: Certificate
    depends_on: tuple[Dependence, ...]


def certify_stages(
    stages: Stages, numerics: str, platforms: Sequence[str] = ()
) -> dict[str, StageCertificate]:
    """Examines every stage of a run; nothing is computed.

    Args:
      stages: pure functions, not transformed.
      numerics: "exact" or "native".
      platforms: for which to lower as well; none of them need be present.

    Returns:
      Name of the stage -> its certificate.
    """
    examine = _exact if numerics == "exact" else _native
    return {
        name: examine(getattr(stages, name), arguments, platforms)
        for name, arguments in stage_arguments(stages).items()
    }


def digest(certificates: dict[str, StageCertificate]) -> str:
    """SHA-256 that binds a run to its traced programs: over {"format", "stages": name -> jaxpr}.

    Args:
      certificates: of `certify_stages`.

    Returns:
      64 hex digits.
    """
    stages = {name: each.found.jaxpr for name, each in certificates.items()}
    return hashlib.sha256(canonical_json({"format": FORMAT, "stages": stages})).hexdigest()


def _exact(fn: Callable, arguments: tuple[Any, ...], platforms: Sequence[str]) -> StageCertificate:
    found = certify(fn, *arguments, platforms=platforms)
    refused = [Dependence(REFUSED, _line(at), (name,)) for name, at in found.refused.items()]
    return StageCertificate(found, tuple(sorted(refused)))


def _native(fn: Callable, arguments: tuple[Any, ...], platforms: Sequence[str]) -> StageCertificate:
    found = certify(fn, *arguments, platforms=())
    lowered = {each: _stablehlo(fn, arguments, each) for each in platforms}
    return StageCertificate(replace(found, stablehlo=lowered), rounded_by_xla(fn, arguments))


def _stablehlo(fn: Callable, arguments: tuple[Any, ...], platform: str) -> str:
    """SHA-256 of the plain program lowered for a platform, without source locations."""
    exported = jax.export.export(jax.jit(fn), platforms=[platform])(*arguments)
    lines = exported.mlir_module().splitlines()
    text = "\n".join(LOCATION.sub("", line) for line in lines if not line.startswith("#loc"))
    return hashlib.sha256(text.encode()).hexdigest()


def rounded_by_xla(fn: Callable, arguments: tuple[Any, ...]) -> tuple[Dependence, ...]:
    """What the bits of a plain program can depend on: its rounded operations, by cause and line.

    Args:
      fn: function of arrays.
      arguments: arrays or shape records.

    Returns:
      One record for each cause and line, sorted.
    """
    leaves, tree = jax.tree.flatten(arguments)
    jaxpr, _, _ = compat.traced(lambda *flat: fn(*jax.tree.unflatten(tree, flat)), leaves)
    found: dict[tuple[str, str], set[str]] = {}
    for eqn in equations(jaxpr):
        name = eqn.primitive.name
        if _rounds(name) and any(_is_float(v.aval) for v in eqn.outvars):
            place = CAUSES.get(name, LIBRARY), _line(compat.source_line(eqn))
            found.setdefault(place, set()).add(name)
    return tuple(Dependence(*place, tuple(sorted(found[place]))) for place in sorted(found))


def _line(where: str) -> str:
    """A source line without its column and without the folders that Python imports from."""
    roots = sorted((f"{each}/" for each in sys.path if each), key=len, reverse=True)
    root = next((each for each in roots if where.startswith(each)), "")
    return COLUMN.sub(r"\1", where.removeprefix(root))


def _rounds(name: str) -> bool:
    if name in HARMLESS:
        return False
    return name not in TABLE or TABLE[name].kind in ("defined", "composed")


def _is_float(aval: Any) -> bool:
    return hasattr(aval, "dtype") and jnp.issubdtype(aval.dtype, jnp.floating)
