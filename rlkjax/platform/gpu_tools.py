"""What the GPU vendors' own tools say: asked with a deadline, and reduced to what does not change.

run(TOOLS)       starts those that are installed side by side -> text by name
facts(name, text)  the stable part of one answer: model, driver, firmware; no temperature, no serial
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple

DEADLINE = 5.0  # seconds; a driver that hangs must not hang a run
_NVIDIA = (
    "name,driver_version,vbios_version,compute_cap,memory.total,ecc.mode.current,mig.mode.current"
)
TOOLS: dict[str, tuple[str, ...]] = {
    "rocminfo": ("rocminfo",),
    "amd-smi": ("amd-smi", "static", "--json"),
    "rocm-smi": (
        "rocm-smi",
        "--showproductname",
        "--showdriverversion",
        "--showvbios",
        "--json",
    ),
    "nvidia-smi": ("nvidia-smi", f"--query-gpu={_NVIDIA}", "--format=csv,noheader"),
}
_PLACES = ("/opt/rocm/bin", "/usr/local/nvidia/bin")  # where a PATH often does not lead

# Keys of the answers that are kept, in lower case with "_" for spaces.
_ROCMINFO = ("name", "marketing_name", "compute_unit", "wavefront_size", "asic_revision")
_ROCM_SMI = ("card_series", "card_sku", "gfx_version", "device_rev", "vbios_version")
_AMD_SMI = (
    "asic.market_name",
    "asic.rev_id",
    "asic.num_compute_units",
    "asic.target_graphics_version",
    "driver.version",
    "ifwi.version",
    "partition.accelerator_partition",
    "partition.memory_partition",
    "vbios.version",
)


class Answer(NamedTuple):
    """What one tool answered.

    Attributes:
      text: its standard output; empty where it failed.
      failure: why there is none, without a clock time; empty where it answered.
    """

    text: str
    failure: str = ""


def run(
    tools: Mapping[str, Sequence[str]] | None = None, deadline: float = DEADLINE
) -> dict[str, Answer]:
    """Asks every installed tool, all side by side.

    Args:
      tools: name -> command line; `TOOLS` by default.
      deadline: seconds after which a tool is given up, whether or not it can be killed.

    Returns:
      Answers by name, of the tools that are installed.
    """
    end = time.monotonic() + deadline
    with contextlib.ExitStack() as stack:
        started = {}
        for name, command in (TOOLS if tools is None else tools).items():
            place = shutil.which(command[0]) or shutil.which(
                command[0], path=os.pathsep.join(_PLACES)
            )
            if place is not None:
                output = stack.enter_context(tempfile.TemporaryFile())
                started[name] = _start([place, *command[1:]], output), output
        return {
            name: _answer(process, output, end, deadline)
            for name, (process, output) in started.items()
        }


def facts(name: str, answer: Answer) -> str:
    """The part of an answer that is the same each time it is asked.

    Args:
      name: key of `TOOLS`.
      answer: of that tool.

    Returns:
      One entry a GPU in the tool's order, "2 x " before two neighbours that are alike; the failure,
      where there is one; "no GPU" where it shows none.
    """
    if answer.failure:
        return answer.failure
    entries = _entries(name, answer)
    if entries is None:
        return "an answer that cannot be read"
    return " | ".join(_counted(entries)) or "no GPU"


def gpus(answers: Mapping[str, Answer]) -> dict[str, list[str]]:
    """The GPUs that the tools show, by maker.

    Args:
      answers: from `run`.

    Returns:
      "rocm" and "cuda" -> one entry a GPU, of the first tool of that maker that shows any; a maker
      without GPUs is left out.
    """
    makers = {"rocm": ("rocminfo", "amd-smi", "rocm-smi"), "cuda": ("nvidia-smi",)}
    found: dict[str, list[str]] = {}
    for maker, names in makers.items():
        shown = [_entries(name, answers[name]) for name in names if name in answers]
        found[maker] = next((each for each in shown if each), [])
    return {maker: entries for maker, entries in found.items() if entries}


def _entries(name: str, answer: Answer) -> list[str] | None:
    """One entry a GPU, or None where the answer is not what the tool usually says."""
    try:
        return _READERS[name](answer.text) if answer.text else []
    except (ValueError, AttributeError, TypeError, RecursionError):
        return None


def _start(command: list[str], output: IO[bytes]) -> subprocess.Popen | str:
    """A process in a session of its own, or why it cannot be started."""
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,
        )
    except OSError as error:
        return f"cannot be started ({error.strerror})"


def _answer(
    process: subprocess.Popen | str, output: IO[bytes], end: float, deadline: float
) -> Answer:
    if isinstance(process, str):
        return Answer("", process)
    try:
        status = process.wait(max(end - time.monotonic(), 0.01))
    except subprocess.TimeoutExpired:
        _give_up(process)
        return Answer("", f"no answer in {deadline:g} s")
    output.seek(0)
    text = output.read(2**22).decode("utf-8", "replace")
    return Answer(text) if status == 0 else Answer("", f"failed with status {status}")


def _give_up(process: subprocess.Popen) -> None:
    """Kills a process, and leaves it where it stands if the driver does not let go of it."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        process.wait(0.5)
    except subprocess.TimeoutExpired:
        process.returncode = -signal.SIGKILL


def _counted(entries: Sequence[str]) -> Iterator[str]:
    """Neighbours that are alike as one."""
    place = 0
    while place < len(entries):
        same = place
        while same < len(entries) and entries[same] == entries[place]:
            same += 1
        yield entries[place] if same == place + 1 else f"{same - place} x {entries[place]}"
        place = same


def _kept(values: Mapping[str, Any], keys: Sequence[str]) -> str:
    """Those of the values that are kept, in the order of the keys."""
    said = [(key.split(".")[-1], str(values[key]).strip()) for key in keys if key in values]
    return ", ".join(f"{key} {value}" for key, value in said if value not in ("", "N/A"))


def _rocminfo(text: str) -> list[str]:
    """One entry for each agent whose device type is GPU."""
    entries = []
    for block in re.split(r"^Agent \d+\s*$", text, flags=re.MULTILINE)[1:]:
        values: dict[str, str] = {}
        for key, value in re.findall(r"^ {2}(\w[^:\n]*):[ \t]*(\S.*)$", block, re.MULTILINE):
            values.setdefault(_key(key), value.strip())
        if values.get("device_type") == "GPU":
            entries.append(_kept(values, _ROCMINFO))
    return entries


def _rocm_smi(text: str) -> list[str]:
    cards = json.loads(text[text.index("{") :])
    driver = {
        f"driver {value}"
        for card in cards.values()
        for key, value in card.items()
        if _key(key) == "driver_version"
    }
    entries = [
        _kept({_key(key): value for key, value in card.items()}, _ROCM_SMI)
        for name, card in sorted(cards.items(), key=lambda pair: _number(pair[0]))
        if name != "system"
    ]
    return [", ".join([entry, *sorted(driver)]) for entry in entries if entry]


def _amd_smi(text: str) -> list[str]:
    begin = min(place for place in (text.find("["), text.find("{")) if place >= 0)
    found = json.loads(text[begin:])
    gpus = found.get("gpu_data", [found]) if isinstance(found, dict) else found
    return [entry for entry in (_kept(dict(_leaves(gpu)), _AMD_SMI) for gpu in gpus) if entry]


def _leaves(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """The leaves of nested objects, under the last two of their keys."""
    if not isinstance(tree, dict):
        yield ".".join(path[-2:]), tree
        return
    for key, value in tree.items():
        yield from _leaves(value, (*path, _key(key)))


def _nvidia_smi(text: str) -> list[str]:
    names = [name.split(".")[0] for name in _NVIDIA.split(",")]
    rows = [
        [cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()
    ]
    return [
        ", ".join(f"{key} {value}" for key, value in zip(names, row, strict=True)) for row in rows
    ]


def _key(text: str) -> str:
    return re.sub(r"\W+", "_", text.strip().lower()).strip("_")


def _number(text: str) -> int:
    digits = re.search(r"\d+", text)
    return int(digits[0]) if digits else -1


_READERS = {
    "rocminfo": _rocminfo,
    "amd-smi": _amd_smi,
    "rocm-smi": _rocm_smi,
    "nvidia-smi": _nvidia_smi,
}
