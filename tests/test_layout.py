"""The rooms keep their levels, and files and functions their size; found by reading the source."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# A room imports only rooms of a lower level. Files named room_*.py belong to that room, and a
# folder is one room; inside a room the imports have no cycle. A new file needs a row here.
LEVELS = {
    "rlkjax": {
        "errors": 0,
        "__main__": 14,
        "types": 1,
        "atomic": 1,
        "config": 1,
        "lowered": 1,
        "platform": 1,
        "exact": 1,
        "golden": 2,
        "cli": 1,
        "child": 1,
        "doctor": 2,
        "kernels": 2,
        "audit": 2,
        "formulas": 2,
        "distribution": 3,
        "environment": 2,
        "network": 3,
        "normalize": 3,
        "shuffle": 2,
        "gae": 2,
        "metrics": 2,
        "optimizer": 2,
        "reward": 4,
        "segments": 3,
        "checkpoint": 3,
        "policy": 4,
        "rollout": 5,
        "ppo": 5,
        "run_folder": 4,
        "evaluate": 6,
        "update": 6,
        "learner": 7,
        "programs": 8,
        "recompute": 8,
        "certificates": 8,
        "operations": 9,
        "loop": 9,
        "launch": 10,
        "render": 11,
        "report": 12,
        "train": 13,
        "certify": 11,
        "replay": 11,
        "prove": 11,
        "verify": 12,
        "witness": 11,
        "diff": 13,
        "comparison": 11,
        "compare": 14,
        "gate": 12,
    },
    "vimejax": {
        "errors": 0,
        "types": 0,
        "codec": 1,
        "geometry": 1,
        "keys": 1,
        "walls": 1,
        "restart": 2,
        "tasks": 2,
        "engines": 3,
        "wrap": 3,
        "scenes": 4,
        "registry": 5,
        "golden": 6,
    },
}

# Where an import may stand inside a function: what must not be loaded before flags are set, or
# before a user asks for it.
LATE = {
    "rlkjax/audit/sign.py",
    "rlkjax/platform/devices.py",
    "rlkjax/platform/flags.py",
    "rlkjax/platform/xla_probe.py",
    "rlkjax/report/__main__.py",
    "rlkjax/report/loggers.py",
    "rlkjax/certify.py",
    "rlkjax/compare.py",
    "rlkjax/diff.py",
    "rlkjax/witness/worker.py",
    "rlkjax/gate_runs.py",
    "rlkjax/golden.py",
    "rlkjax/train.py",
    "rlkjax/verify.py",
    "vimejax/engines/brax.py",
    "vimejax/engines/playground.py",
    "vimejax/registry.py",
}

FILES = sorted(
    path.relative_to(ROOT).as_posix()
    for package in LEVELS
    for path in (ROOT / package).rglob("*.py")
)
TREES = {name: ast.parse((ROOT / name).read_text(encoding="utf-8"), name) for name in FILES}
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


def module(name: str) -> str:
    """rlkjax/audit/tap.py -> rlkjax.audit.tap"""
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


MODULES = {module(name): name for name in FILES}


def room(dotted: str) -> tuple[str, str]:
    """rlkjax.audit.tap -> (rlkjax, audit); rlkjax.config_yaml -> (rlkjax, config)"""
    package, _, rest = dotted.partition(".")
    first = rest.partition(".")[0]
    known = [each for each in LEVELS[package] if first == each or first.startswith(each + "_")]
    return package, max(known, key=len, default=first)


def imports(tree: ast.AST) -> Iterator[str]:
    """Modules of the two packages that a tree imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [each if each in MODULES else str(node.module) for each in inside]
        else:
            continue
        yield from (each for each in names if each.split(".")[0] in LEVELS)


def functions(name: str) -> Iterator[FUNCTION]:
    return (node for node in ast.walk(TREES[name]) if isinstance(node, FUNCTION))


@pytest.mark.parametrize("name", FILES)
def test_a_room_imports_only_lower_rooms(name: str) -> None:
    package, own = room(module(name))
    if name == f"{package}/__init__.py":
        return
    assert own in LEVELS[package], f"{name}: give room {own} a level in this file"
    for other in imports(TREES[name]):
        other_package, other_room = room(other)
        if (other_package, other_room) == (package, own):
            continue
        if other_package != package:
            assert package == "rlkjax", f"{name} imports {other}: the world knows no learner"
            continue
        assert LEVELS[package][other_room] < LEVELS[package][own], f"{name} imports {other}"


def test_modules_import_without_a_cycle() -> None:
    graph = {dotted: set(imports(TREES[name])) for dotted, name in MODULES.items()}
    assert set().union(*graph.values()) - set(graph) == set(), "imported, but not there"
    settled: set[str] = set()
    while ready := {
        dotted for dotted, others in graph.items() if dotted not in settled and others <= settled
    }:
        settled |= ready
    assert sorted(set(graph) - settled) == []


@pytest.mark.parametrize("name", FILES)
def test_imports_stand_at_the_top(name: str) -> None:
    late = [
        f"{name}:{node.lineno}"
        for function in functions(name)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert late == [] or name in LATE


@pytest.mark.parametrize("name", [each for each in FILES if each.endswith("__init__.py")])
def test_package_files_are_maps(name: str) -> None:
    kinds = [type(node) for node in ast.walk(TREES[name])]
    assert ast.Import not in kinds and ast.ImportFrom not in kinds


@pytest.mark.parametrize("name", FILES)
def test_sizes(name: str) -> None:
    lines = (ROOT / name).read_text(encoding="utf-8").count("\n")
    assert lines <= 400, f"{name} has {lines} lines"
    for node in functions(name):
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        assert length <= 60, f"{name}:{node.lineno} {node.name} has {length} lines"
        taken = node.args
        count = len(taken.posonlyargs) + len(taken.args) + len(taken.kwonlyargs)
        assert count <= 8, f"{name}:{node.lineno} {node.name} takes {count} parameters"


def nesting(node: ast.AST) -> int:
    """How deep functions stand in functions: 0 for one that holds none."""
    inner = [0]
    for child in ast.iter_child_nodes(node):
        inner.append(nesting(child) + isinstance(child, FUNCTION))
    return max(inner)


@pytest.mark.parametrize("name", FILES)
def test_functions_nest_at_most_twice(name: str) -> None:
    deep = [f"{name}:{each.lineno} {each.name}" for each in functions(name) if nesting(each) > 2]
    assert deep == []


@pytest.mark.parametrize("name", FILES)
def test_no_bare_assert_or_except(name: str) -> None:
    found = [
        f"{name}:{node.lineno}"
        for node in ast.walk(TREES[name])
        if isinstance(node, ast.Assert) or (isinstance(node, ast.ExceptHandler) and not node.type)
    ]
    assert found == []


@pytest.mark.parametrize("name", FILES)
def test_public_functions_say_what_they_do(name: str) -> None:
    silent = [
        f"{name}:{node.lineno} {node.name}"
        for node in TREES[name].body
        if isinstance(node, FUNCTION | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert silent == []


def test_no_path_of_a_machine_in_the_tree() -> None:
    kinds = {".py", ".md", ".toml", ".yaml", ".txt", ".json", ".sh", ".html"}
    pattern = re.compile(r"(?<![\w.$)}])/(?:home|root|Users|work|mnt)/\w")
    folders = ("rlkjax", "vimejax", "tests", "configs", "docs", "benchmarks", "requirements", ".")
    found = []
    for folder in folders:
        paths = (ROOT / folder).glob("*") if folder == "." else (ROOT / folder).rglob("*")
        for path in paths:
            if path.is_file() and path.suffix in kinds and path.stat().st_size < 2**20:
                for number, line in enumerate(path.read_text(errors="replace").split("\n"), 1):
                    if pattern.search(line):
                        found.append(f"{path.relative_to(ROOT)}:{number}")
    assert found == []


def test_no_two_test_files_share_a_name() -> None:
    """pytest imports test files by their base name; of two with one name it collects only one."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
