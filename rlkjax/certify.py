"""`python -m rlkjax.certify --config FILE`: what the bits of a run can depend on."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlkjax import cli
from rlkjax.config import load_config
from rlkjax.platform import flags

if TYPE_CHECKING:
    from rlkjax.certificates import StageCertificate

CLASSES = {
    "defined": "exact by definition",
    "moved": "moved, never rounded",
    "composed": "composed of these",
    "control": "control",
    "refused": "refused",
}

GPU_CONDITION = "all this holds under --xla_gpu_ftz=true, which a run sets; not measured yet"


def parser() -> argparse.ArgumentParser:
    """The command line of `certify`."""
    made = argparse.ArgumentParser(
        prog="python -m rlkjax.certify",
        description="Trace every stage of a run, without running it, and print its primitives by "
        "class, the digests of its programs, and what its bits can depend on.",
        epilog="exit status: 0 good; 2 wrong use or input",
        allow_abbrev=False,
    )
    cli.add_config(made)
    made.add_argument(
        "--platforms",
        nargs="*",
        default=["cpu", "cuda", "rocm"],
        choices=["cpu", "cuda", "rocm"],
        help="for which to lower as well; none need be present (default: all three)",
    )
    made.add_argument("--json", action="store_true", help="print one JSON object")
    return made


def main(arguments: Sequence[str]) -> int:
    """Runs the command, see `cli.run`. Exit status 0."""
    options = parser().parse_args(arguments)
    config = load_config(options.config, options.set)
    flags.prepare("cpu")  # nothing is computed, so no other platform is needed
    from rlkjax import certificates, launch  # late: JAX starts only after its flags are set
    from rlkjax.learner import make_stages

    stages = make_stages(config, launch.make_environment(config))
    found = certificates.certify_stages(stages, config.numerics, options.platforms)
    shown = {
        "numerics": config.numerics,
        "certificate": certificates.digest(found),
        "stages": {name: as_mapping(each) for name, each in found.items()},
    }
    print(json.dumps(shown, sort_keys=True) if options.json else as_text(shown))
    return 0


def as_mapping(certificate: "StageCertificate") -> dict:
    """One stage as plain values.

    Args:
      certificate: of a stage.

    Returns:
      What `--json` prints for it.
    """
    found, depends_on = certificate
    return {
        "primitives": {kind: dict(each) for kind, each in found.primitives.items()},
        "refused": dict(found.refused),
        "jaxpr": found.jaxpr,
        "stablehlo": dict(found.stablehlo),
        "depends_on": [each._asdict() for each in depends_on],
    }


def as_text(shown: dict) -> str:
    """What the command prints for people.

    Args:
      shown: what `--json` prints.

    Returns:
      Lines of text, the digest of the whole in the last.
    """
    lines = []
    for name, stage in shown["stages"].items():
        lines += [f"stage {name}", *_stage(stage, shown["numerics"])]
    lowered = {name for stage in shown["stages"].values() for name in stage["stablehlo"]}
    if shown["numerics"] == "exact" and (gpu := sorted(lowered - {"cpu"})):
        lines.append(f"on {' and '.join(gpu)} {GPU_CONDITION}")
    return "\n".join([*lines, f"certificate {shown['certificate']} numerics {shown['numerics']}"])


def _stage(stage: dict, numerics: str) -> list[str]:
    names = CLASSES if numerics == "exact" else CLASSES | {"defined": "rounded by the compiler"}
    lines = [
        f"  {names[kind]}: " + ", ".join(f"{name} {count}" for name, count in sorted(each.items()))
        for kind, each in stage["primitives"].items()
    ]
    lines.append(f"  jaxpr {stage['jaxpr']}")
    lines += [f"  stablehlo {name} {digest}" for name, digest in stage["stablehlo"].items()]
    if not stage["depends_on"]:
        return [*lines, "  the bits can depend on: nothing but the inputs"]
    causes: dict[str, list[str]] = {}
    for each in stage["depends_on"]:
        place = f"      {each['line']}: {', '.join(each['primitives'])}"
        causes.setdefault(f"    {each['cause']}", []).append(place)
    listed = [line for cause, places in causes.items() for line in (cause, *places)]
    return [*lines, "  the bits can depend on:", *listed]


if __name__ == "__main__":
    sys.exit(cli.run(main))
