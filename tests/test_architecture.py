"""Does the house stand as planned? Imports point down, pure files are pure, files and functions stay small."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "recovery").rglob("*.py"))

BASE = {"recovery", "errors", "measured", "model", "stored", "paths", "files", "work", "readback", "ownership"}
FIGURES = {
    "versions", "summary", "limited", "phases", "students", "chance", "fit", "curves", "folded", "findings",
    "compare", "progress", "whereabouts", "quantities", "measures", "cells", "effect", "rootsteps", "planned",
    "warm",
}  # fmt: skip
LOW = BASE | FIGURES
TOOLS = {"store", "builds", "host", "server", "load", "stacks", "crash"}
PLANS = {
    "keeping", "plan", "leftout", "foreseen", "prepared", "runner", "loop", "request", "results", "stages", "engines",
    "stagehand", "estimate", "forecast", "clashes", "resumed", "unended",
}  # fmt: skip
FRONT = {"cli", "commands", "__main__"}
BENCH = {"selfbench"}
"""Measures the tool itself: it uses the house, and only the front door leads to it."""

# What each room may import. A new room is put here by hand, once it is clear on which floor it lies.
MAY_IMPORT: dict[str, set[str]] = {
    **dict.fromkeys(BASE, BASE),
    **dict.fromkeys(FIGURES, LOW),
    "store": LOW | {"host"},
    "published": LOW | {"store"},
    "builds": LOW | {"host", "builds"},
    "host": LOW | {"host"},
    "server": LOW | {"host", "server"},
    "stacks": LOW | {"host", "builds", "stacks"},
    "load": LOW | {"host", "builds", "server", "load"},
    "crash": LOW | {"builds", "server", "load", "crash"},
    "scenarios": LOW | TOOLS | {"scenarios"},
    **{room: LOW | TOOLS | PLANS | {"scenarios"} for room in PLANS},
    # Reports are made from what is stored: they know tables, and no scenario.
    "report": LOW | {"store", "report"},
    # All published experiments together: their scales, and what was published beside what was measured.
    "experiments": LOW | {"store", "host", "request", "plan", "estimate", "scenarios", "report", "experiments"},
    # What is handed to others: a session, masked, with what is needed to repeat it.
    "bundle": LOW | {"store", "host", "load", "request", "report", "bundle"},
    **{
        room: LOW | TOOLS | PLANS | FRONT | BENCH | {"scenarios", "report", "published", "bundle", "experiments"}
        for room in FRONT
    },
    **{room: LOW | TOOLS | PLANS | BENCH | {"scenarios", "report"} for room in BENCH},
}

PURE = [
    "errors", "measured", "model", "stored", "versions", "summary", "limited", "phases", "plan", "leftout", "results",
    "estimate", "work", "quantities", "measures", "cells", "planned", "load/sysbench", "scenarios/loadable",
    "scenarios/outcome", "scenarios/pools", "clashes", "rootsteps",
    "server/options", "host/looks", "host/check", "host/cores",
    "server/errorlog", "server/marks", "server/phases", "server/passage", "server/stamps", "server/counted",
    "server/starts", "load/profile", "load/sample", "load/waits", "load/watching",
    "load/averages", "report/figures", "report/layout", "report/tables", "report/limited",
    "report/phases", "report/touched", "report/floor", "report/scale", "report/chart", "students", "chance", "fit",
    "curves",
    "report/timing", "report/doubts", "report/warm", "warm", "report/compare", "compare", "findings",
    "findings/doubt", "findings/spread", "findings/cache", "findings/growth", "findings/host", "findings/server",
    "findings/load", "findings/memory", "findings/redolog", "effect", "server/tablecache",
    "crash/found", "crash/journal", "crash/definitions", "crash/complaints", "crash/verdict", "report/work/crashes",
    "report/work/damaged",
    "report/about", "report/work/against", "report/work/answer", "report/work/building",
    "report/work/inside", "report/work/waits",
    "report/work/keys", "report/work/middle", "report/work/runs", "report/work/said", "report/work/tables",
    "progress", "whereabouts", "report/watching",
    "folded", "stacks/snapshot", "stacks/perf", "stacks/folding", "report/stacks", "report/flame",
    "report/text", "report/markdown", "report/hyperfine",
    "bundle/masking", "bundle/patterns", "bundle/literals", "bundle/steps",
    "report/answer", "report/axis", "report/html/bars", "report/html/colours",
    "report/html/about", "report/html/cellbars", "report/html/overtime", "report/html/runbar", "report/html/scaling",
    "report/html/stacks", "report/hottest", "report/html/against_reads", "report/html/panels",
    "report/work/asked", "report/work/pairs", "report/work/reads",
    "report/html/worked",
    "report/html/drawn", "report/html/growth", "report/html/parts", "report/html/reads", "report/html/rows",
    "report/html/sections", "report/html/stacked", "report/html/timeline",
    "experiments/allot", "experiments/answers", "experiments/bars", "experiments/chapters", "experiments/pairs",
    "experiments/pictures", "experiments/priced", "experiments/rungs", "experiments/text", "experiments/verdicts",
]  # fmt: skip
EFFECTS = {
    "asyncio", "ctypes", "fcntl", "glob", "inotify_simple", "io", "mmap", "multiprocessing", "os", "psutil", "pymysql",
    "random", "rich", "select", "shutil", "signal", "socket", "subprocess", "sys", "tempfile", "threading", "time",
    "urllib",
}  # fmt: skip
FILE_CALLS = {
    "chmod", "exists", "glob", "is_dir", "is_file", "iterdir", "mkdir", "open", "read_bytes", "read_text", "rename",
    "rglob", "rmdir", "stat", "symlink_to", "touch", "unlink", "write_bytes", "write_text",
}  # fmt: skip
MAY_EXIT_AND_PRINT = {"cli", "__main__"}
MOST_LINES_OF_A_FILE = 320
MOST_LINES_OF_A_FUNCTION = 60

# Put together here, so that this file does not name them either.
REGISTRIES = [
    ".".join(parts)
    for parts in (
        ("registry", "npmjs", "org"),
        ("repo", "maven", "apache", "org"),
        ("repo1", "maven", "org"),
        ("files", "pythonhosted", "org"),
        ("pypi", "org"),
        ("deb", "debian", "org"),
        ("archive", "ubuntu", "com"),
        ("hub", "docker", "com"),
        ("registry-1", "docker", "io"),
        ("ghcr", "io"),
        ("crates", "io"),
    )
]
OWN_PATHS = re.compile("|".join(rf"(?<![\w.])/{path}\b(?!-)" for path in ("wo" + "rk", "tmp/" + "dl")))
FOLDERS = ("recovery", "templates", "docker", "fixtures", "tests", "docs", "requirements")


def module(path: Path) -> str:
    """`server/options`, `cli`, `recovery` for the package's own first file."""
    name = path.relative_to(ROOT / "recovery").with_suffix("").as_posix()
    return "recovery" if name == "__init__" else name.removesuffix("/__init__")


def room(name: str) -> str:
    return name.split("/", maxsplit=1)[0]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(tree: ast.AST) -> Iterator[str]:
    """Dotted names; `from a import b` gives a.b too, since b may be a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def rooms_imported(tree: ast.AST) -> set[str]:
    found = set()
    for name in imports(tree):
        package, _, rest = name.partition(".")
        inner = rest.split(".")[0]
        # `from recovery import __version__` takes from the package's own first file.
        is_room = (ROOT / "recovery" / inner).is_dir() or (ROOT / "recovery" / f"{inner}.py").is_file()
        if package == "recovery":
            found.add(inner if inner and is_room else "recovery")
    return found


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    """What is evaluated when a module is imported: not the bodies of its functions, but their defaults."""
    yield node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        inner: list[ast.AST] = [*node.args.defaults, *(value for value in node.args.kw_defaults if value)]
        if not isinstance(node, ast.Lambda):
            inner += node.decorator_list
    else:
        inner = list(ast.iter_child_nodes(node))
    for child in inner:
        yield from run_at_import(child)


every_file = pytest.mark.parametrize("path", FILES, ids=module)


def test_there_is_something_to_look_at() -> None:
    assert len(FILES) > 20
    assert set(PURE) <= set(map(module, FILES))


@every_file
def test_imports_point_down(path: Path) -> None:
    name = room(module(path))
    assert name in MAY_IMPORT, f"on which floor does recovery/{name} lie? Put it into MAY_IMPORT"
    assert rooms_imported(parsed(path)) - MAY_IMPORT[name] <= {"recovery"}


@pytest.mark.parametrize("name", PURE)
def test_pure_files_touch_nothing(name: str) -> None:
    tree = parsed(next(path for path in FILES if module(path) == name))
    assert {imported.split(".")[0] for imported in imports(tree)} & EFFECTS == set()
    touched = {call.func.attr for call in calls(tree) if isinstance(call.func, ast.Attribute)} & FILE_CALLS
    opened = {call.func.id for call in calls(tree) if isinstance(call.func, ast.Name)} & {"open", "input", "print"}
    assert touched | opened == set()


@every_file
def test_every_file_says_first_what_it_is_about(path: Path) -> None:
    assert ast.get_docstring(parsed(path)), "no docstring"
    assert path.read_text(encoding="utf-8").startswith(('"""', "#!"))


@every_file
def test_files_and_functions_are_small(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES_OF_A_FILE
    functions = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    long = [node.name for node in functions if (node.end_lineno or 0) - node.lineno >= MOST_LINES_OF_A_FUNCTION]
    assert long == []


@every_file
def test_only_the_command_line_exits_and_prints(path: Path) -> None:
    if module(path) in MAY_EXIT_AND_PRINT:
        return
    names = {ast.unparse(call.func) for call in calls(parsed(path))}
    assert names & {"print", "exit", "quit", "sys.exit", "SystemExit"} == set()


@every_file
def test_no_setting_is_read_at_import(path: Path) -> None:
    read = [
        ast.unparse(node)
        for node in run_at_import(parsed(path))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {"os.environ", "os.getenv", "os.environb"}
    ]
    assert read == []


def texts() -> Iterator[tuple[str, str]]:
    """What a reader of the repository reads: its folders, and the files beside them."""
    inside = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))
    for path in (*inside, *ROOT.glob("[!.]*")):
        if path.is_file() and path.suffix != ".pyc":
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8", errors="replace")


def test_no_registry_and_no_path_of_one_machine_is_named() -> None:
    found = []
    for name, text in texts():
        found += [f"{name}: {host}" for host in REGISTRIES if host in text]
        found += [f"{name}: {match.group()}" for match in OWN_PATHS.finditer(text)]
    assert found == []


def test_nothing_shadows_the_docker_client() -> None:
    assert not (ROOT / "docker" / "__init__.py").exists()
    assert not (ROOT / "tests" / "docker").exists()


def test_the_rules_can_be_broken() -> None:
    """Each detector finds what it is for."""
    assert rooms_imported(ast.parse("from recovery.host.tree import walk")) == {"host"}
    assert rooms_imported(ast.parse("from recovery import cli")) == {"recovery", "cli"}
    environ = ast.parse("import os\ndef f(x=os.environ['A']): return os.environ")
    assert sum(isinstance(node, ast.Attribute) for node in run_at_import(environ)) == 1
    assert OWN_PATHS.search("see /" + "work/main")
    assert not OWN_PATHS.search("/workflows net/work")
