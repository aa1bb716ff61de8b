"""The runs of the gate: each kind of settings in a process of its own, which is this module.

A question is JSON on stdin: name of a config and its numerics -> canonical bytes of the config as
text, all of one platform, thread count and set of flags. Each answer is a line of JSON.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlkjax import cli, config_yaml
from rlkjax.config import Config, canonical_config, load_config, parse_canonical
from rlkjax.errors import InputError, MachineError, RlkError
from rlkjax.gate_heads import Made
from rlkjax.platform import devices, fingerprint, flags

NUMERICS = ("exact", "native")
PACKAGES = ("rlkjax", "vimejax")
ROOT = Path(__file__).resolve().parents[1]


def plan(folder: Path, names: Sequence[str] = ()) -> dict[tuple[str, str], Config]:
    """The runs of a folder: each config under the numerics that it names, or under both.

    Args:
      folder: has files NAME.yaml.
      names: only these; all by default.

    Returns:
      (name, numerics) -> config.

    Raises:
      InputError: no such folder or file, or a config that is wrong.
    """
    paths = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    if not paths:
        raise InputError(f"--config-dir: got {folder}, want a folder with files NAME.yaml")
    for name in names:
        if name not in paths:
            raise InputError(f"NAME: got {name!r}, want one of {', '.join(paths)}")
    return {
        (name, numerics): load_config(path, [f"numerics={numerics}"])
        for name, path in paths.items()
        if not names or name in names
        for numerics in _numerics(path)
    }


def _numerics(path: Path) -> tuple[str, ...]:
    """The numerics that a config names, or both."""
    config = load_config(path)
    named = config_yaml.parse(config_yaml.read_text(path), str(path)).value
    return (config.numerics,) if "numerics" in named else NUMERICS


def run(planned: Mapping[tuple[str, str], Config]) -> list[Made]:
    """Runs everything, the processes side by side.

    Args:
      planned: from `plan`.

    Returns:
      What came out, in the order of `planned`.

    Raises:
      MachineError: a platform is not here.
    """
    groups: dict[tuple, dict[tuple[str, str], Config]] = {}
    for key, config in planned.items():
        resolved = devices.resolve(config.platform)
        words = tuple(flags.native_flags(resolved, autotune=config.autotune))
        kind = (config.numerics, config.platform, config.threads, words)
        groups.setdefault(kind, {})[key] = config
    with ThreadPoolExecutor(max_workers=2) as pool:
        answers = [each for found in pool.map(_ask, groups.values()) for each in found]
    found = {(made.name, made.numerics): made for made in answers}
    return [found[key] for key in planned]


def _ask(group: Mapping[tuple[str, str], Config]) -> list[Made]:
    """Has one process run one group; says on stderr when each of its runs ends."""
    question = [[name, canonical_config(config).decode()] for (name, _), config in group.items()]
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    # Files, not pipes: nobody need read or write them while the answers come.
    with tempfile.TemporaryFile("w+") as asked, tempfile.TemporaryFile("w+") as said:
        json.dump(question, asked)
        asked.seek(0)
        with subprocess.Popen(
            [sys.executable, "-m", "rlkjax.gate_runs"],
            stdin=asked,
            stdout=subprocess.PIPE,
            stderr=said,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            text=True,
        ) as process:
            made = list(answers(process.stdout or ()))
        said.seek(0)
        errors = said.read()
    if process.returncode != 0:
        last = (errors.strip().splitlines() or ["no message"])[-1].removeprefix("rlkjax: ")
        kind = InputError if process.returncode == InputError.exit_status else MachineError
        raise kind(f"gate: {last} (a process ended with {process.returncode})")
    sys.stderr.write(errors)
    return made


def answers(lines: Iterable[str]) -> Iterator[Made]:
    """Reads answers as they come, and says on stderr how many seconds each was waited for.

    Args:
      lines: what a process of `answer` prints; a line that is no JSON object is passed over.

    Yields:
      What came out.
    """
    began = time.monotonic()
    for line in lines:
        if not line.startswith("{"):
            continue
        made = Made(**json.loads(line))
        seconds, began = time.monotonic() - began, time.monotonic()
        end = "failed" if made.failure else "ended"
        told = f"gate: {made.name} {made.numerics} {end} after {seconds:.0f} s"
        print(told, file=sys.stderr, flush=True)
        yield made


def answer(question: Sequence[Sequence[str]]) -> None:
    """Runs a group in this process, and prints what came out.

    Args:
      question: names and canonical configs.

    Raises:
      RlkError: the platform is not here, or a flag is not in force.
    """
    configs = [(name, parse_canonical(data.encode(), name)) for name, data in question]
    first = configs[0][1]
    flags.prepare(first.platform, first.autotune, first.threads)
    platform = devices.choose(first.platform)
    flags.check_in_force()
    from rlkjax.comparison import cell  # late: JAX starts only after its flags are set

    machine = fingerprint.collect(devices.describe(platform))
    for name, config in configs:
        config = replace(config, checkpoint=replace(config.checkpoint, every=0, keep=1))
        bits, failure = "", ""
        try:
            with tempfile.TemporaryDirectory() as folder:
                bits = cell.run_head(config, Path(folder), machine=machine)
        except RlkError as error:
            failure = str(error)
        origin: dict[str, Mapping[str, Any]] = {"code": code(), "fingerprint": machine}
        made = Made(name, config.numerics, bits, failure, _plain(config), origin)
        print(json.dumps(made._asdict(), sort_keys=True), flush=True)


def _plain(config: Config) -> dict[str, Any]:
    return json.loads(canonical_config(config))


def code() -> dict[str, str]:
    """Digests of the files of our own that this process has loaded.

    Returns:
      Name of a module -> first 16 hex digits of the SHA-256 of its file.
    """
    own = {
        name: module.__file__
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in PACKAGES and getattr(module, "__file__", None)
    }
    return {
        name: hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]
        for name, file in sorted(own.items())
        if file is not None
    }


def main(arguments: Sequence[str]) -> int:
    """Answers one question."""
    del arguments
    answer(json.load(sys.stdin))
    return 0


if __name__ == "__main__":
    sys.exit(cli.run(main))
