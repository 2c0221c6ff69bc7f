"""The rules of the package: imports point down, calculations touch nothing outside, only the command line prints."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "recovery"
FILES = sorted(PACKAGE.rglob("*.py"))

# From the bottom to the top. A folder imports from lower levels only.
LEVELS = (
    {"model", "errors"},
    {"metrics", "phase_table"},
    {"linux", "analysis"},
    {"logs"},
    {"builds", "mysqld", "profiling", "storage"},
    {"workload", "report"},
    {"experiments"},
    {"loads"},
    {"crash"},
    {"session", "sharing"},
    {"fleet"},
    {"cli"},
    {"__main__"},
)
LEVEL_OF = {name: level for level, names in enumerate(LEVELS) for name in names}

# Modules and folders that calculate only: same input, same result, nothing read or written.
PURE = (
    "model", "metrics", "phase_table", "errors", "analysis",
    "logs/error_log", "logs/json_log", "logs/phases", "logs/redo_work", "logs/start_progress", "logs/timestamps",
    "logs/watched_log", "mysqld/options", "mysqld/table_size",
    "loads/status_rates",
    "crash/crash_findings", "crash/ddl_history", "experiments/experiment", "loads/load_plan",
    "session/plan", "session/estimate", "session/request",
    "sharing/reduction", "sharing/bug_report", "sharing/bug_finding", "sharing/stored_options",
    "report/fmt", "report/tables", "report/metric_tables", "report/startup_tables", "report/crash_tables",
    "report/load_tables", "report/stack_tables", "report/session_tables", "report/host_words", "report/settings_tables",
    "report/answer", "report/summary_text", "report/compare",
    "fleet/hosts", "fleet/sections", "report/claims",
    "report/text", "report/markdown", "report/html",
)  # fmt: skip
IMPURE = {
    "asyncio", "ctypes", "fcntl", "glob", "inotify_simple", "io", "mmap", "multiprocessing", "os", "psutil", "pymysql",
    "random", "rich", "select", "shutil", "signal", "socket", "subprocess", "sys", "tempfile", "threading", "time",
    "urllib",
}  # fmt: skip
FILE_CALLS = {
    "chmod", "exists", "glob", "is_dir", "is_file", "iterdir", "mkdir", "open", "read_bytes", "read_text", "rename",
    "rglob", "rmdir", "stat", "symlink_to", "touch", "unlink", "write_bytes", "write_text",
}  # fmt: skip

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
FOLDERS = ("recovery", "templates", "docker", "fixtures", "tests", "proofs", "docs", "requirements")


def module(path: Path) -> str:
    """`mysqld/options`, `cli/main`, `model`; `recovery` for the package's own first file."""
    name = path.relative_to(PACKAGE).with_suffix("").as_posix()
    return "recovery" if name == "__init__" else name.removesuffix("/__init__")


def folder(name: str) -> str:
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


def folders_imported(tree: ast.AST) -> set[str]:
    """Top folders and root modules of the package. Its version, in the package's own first file, is nobody's level."""
    inner = {name.split(".")[1] for name in imports(tree) if name.startswith("recovery.")}
    return {name for name in inner if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()}


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


def test_loads_and_crash_tests_are_reached_by_the_list_of_experiments_only() -> None:
    """The core does without them: a measurement of starts imports neither."""
    apart = {"loads", "crash"}
    assert {
        module(path) for path in FILES if folder(module(path)) not in apart and folders_imported(parsed(path)) & apart
    } == set()


def test_logs_are_read_with_the_model_only() -> None:
    """Another program can read logs with `recovery/logs` and the types alone."""
    imported = {name for path in FILES if folder(module(path)) == "logs" for name in folders_imported(parsed(path))}
    assert imported <= {"logs", "model", "phase_table", "errors"}


def test_every_folder_has_a_level() -> None:
    folders = {path.parent for path in FILES}
    assert [str(one) for one in folders if not (one / "__init__.py").is_file()] == [], "it would be in no installation"
    assert {folder(module(path)) for path in FILES} - {"recovery"} == LEVEL_OF.keys()


def test_imports_point_down() -> None:
    wrong = [
        f"{module(path)} imports {imported}"
        for path in FILES
        for imported in folders_imported(parsed(path)) - {folder(module(path))}
        if LEVEL_OF[imported] >= LEVEL_OF.get(folder(module(path)), 0)
    ]
    assert wrong == []


def modules_used(node: ast.AST) -> Iterator[str]:
    """Names of the modules that are imported here, also inside functions, by `import_module`, and for types only."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        inner = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name if is_module(name) else str(node.module) for name in inner)
    elif isinstance(node, ast.Call) and ast.unparse(node.func) == "import_module":
        yield from (str(value.value) for value in node.args if isinstance(value, ast.Constant))
    for child in ast.iter_child_nodes(node):
        yield from modules_used(child)


def is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def files_in_circles(imported: Mapping[str, set[str]]) -> set[str]:
    """The files that import themselves through others: what is left without those that lead nowhere else."""
    left = {name: set(names) for name, names in imported.items()}
    while ended := {name for name, names in left.items() if not names & left.keys()}:
        left = {name: names for name, names in left.items() if name not in ended}
    while entered := left.keys() - set().union(*left.values()):
        left = {name: names for name, names in left.items() if name not in entered}
    return set(left)


def test_no_files_import_each_other() -> None:
    imported = {
        f"recovery.{module(path).replace('/', '.')}".removesuffix(".recovery"): set(modules_used(parsed(path)))
        for path in FILES
    }
    assert files_in_circles(imported) == set()


def declared() -> set[str]:
    """Returns the names of the packages in install_requires."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    lines = config["options"]["install_requires"].split("\n")
    return {normalised(re.split(r"[^\w.-]", line)[0]) for line in lines if line}


def normalised(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def test_every_package_that_is_imported_is_declared() -> None:
    imported = {name.split(".")[0] for path in FILES for name in imports(parsed(path))}
    others = imported - sys.stdlib_module_names - {"recovery"}
    of_distribution = packages_distributions()
    assert {name for name in others if name not in of_distribution} == set(), "not installed"
    assert {normalised(of_distribution[name][0]) for name in others} == declared()


@pytest.mark.parametrize("lock", ["run", "test", "fuzz"])
def test_every_declared_package_is_locked(lock: str) -> None:
    text = (ROOT / "requirements" / f"{lock}.lock").read_text(encoding="utf-8")
    entries = re.findall(r"^([\w.-]+)==\S+ \\\n((?:    .*\n)+)", text, re.MULTILINE)
    assert {normalised(name) for name, lines in entries if "(setup.cfg)" in lines} >= declared()


def test_calculations_touch_nothing_outside() -> None:
    pure = [path for path in FILES if any(module(path) == name or module(path).startswith(f"{name}/") for name in PURE)]
    assert {name for name in PURE if not any(module(path).startswith(name) for path in pure)} == set()
    wrong = []
    for path in pure:
        tree = parsed(path)
        found = {imported.split(".")[0] for imported in imports(tree)} & IMPURE
        found |= {call.func.attr for call in calls(tree) if isinstance(call.func, ast.Attribute)} & FILE_CALLS
        found |= {call.func.id for call in calls(tree) if isinstance(call.func, ast.Name)} & {"open", "input", "print"}
        wrong += [f"{module(path)}: {name}" for name in sorted(found)]
    assert wrong == []


def test_only_the_command_line_exits_and_prints() -> None:
    wrong = []
    for path in FILES:
        if module(path) not in ("cli/main", "__main__"):
            names = {ast.unparse(call.func) for call in calls(parsed(path))}
            wrong += [f"{module(path)}: {name}" for name in names & {"print", "exit", "quit", "sys.exit", "SystemExit"}]
    assert wrong == []


def test_no_setting_is_read_at_import() -> None:
    wrong = [
        f"{module(path)}: {ast.unparse(node)}"
        for path in FILES
        for node in run_at_import(parsed(path))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {"os.environ", "os.getenv", "os.environb"}
    ]
    assert wrong == []


def texts() -> Iterator[tuple[str, str]]:
    """What a reader of the repository reads: its folders, and the files beside them."""
    inside = (path for name in FOLDERS for path in (ROOT / name).rglob("*"))
    for path in (*inside, *ROOT.glob("[!.]*")):
        if path.is_file() and path.suffix != ".pyc":
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8", errors="replace")


def test_no_registry_and_no_path_of_one_machine_is_named() -> None:
    found = []
    for name, text in texts():
        found += [f"{name}: {host}" for host in REGISTRIES if host in text]
        found += [f"{name}: {match.group()}" for match in OWN_PATHS.finditer(text)]
    assert found == []


def test_one_module_knows_the_library_below_the_docker_client() -> None:
    """Others catch its errors by the name that this one gives them."""
    knowing = {module(path) for path in PACKAGE.rglob("*.py") if "requests" in imports(parsed(path))}
    assert knowing == {"linux/docker_engine"}


def test_nothing_shadows_the_docker_client() -> None:
    assert not (ROOT / "docker" / "__init__.py").exists()
    assert not (ROOT / "tests" / "docker").exists()


def test_the_rules_can_be_broken() -> None:
    """Each detector finds what it is for."""
    assert folders_imported(ast.parse("from recovery.linux.files import walk")) == {"linux"}
    assert folders_imported(ast.parse("from recovery import model")) == {"model"}
    assert folders_imported(ast.parse("from recovery import __version__")) == set()
    environ = ast.parse("import os\ndef f(x=os.environ['A']): return os.environ")
    assert sum(isinstance(node, ast.Attribute) for node in run_at_import(environ)) == 1
    assert files_in_circles({"a": {"b"}, "b": {"c", "a"}, "c": set(), "d": {"a"}}) == {"a", "b"}
    lazy = ast.parse("def f():\n from recovery.linux import files\nimport_module('recovery.model')")
    assert set(modules_used(lazy)) == {"recovery.linux.files", "recovery.model"}
    assert set(modules_used(ast.parse("if TYPE_CHECKING:\n import recovery.model"))) == {"recovery.model"}
    assert OWN_PATHS.search("see /" + "work/main")
    assert not OWN_PATHS.search("/workflows net/work")


# --- Names in comments and docstrings

_NAMED = re.compile(r"`((?:[A-Z]\w*\.)?)([A-Z][a-z]\w*|_\w+|[a-z]\w*(?=\(\)))(?:\(\))?`")
"""A class, a private name or a function, in backticks."""


def _names_and_texts(path: Path) -> tuple[set[str], list[str]]:
    """Returns the names that a file uses, and its docstrings and comments."""
    source = path.read_text(encoding="utf-8")
    known, texts = {path.stem}, []
    for node in ast.walk(ast.parse(source)):
        for attribute in ("name", "id", "attr", "arg", "asname"):
            if isinstance(value := getattr(node, attribute, None), str):
                known |= set(value.split("."))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            texts.append(node.value.value)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return known, [*texts, *(token.string for token in tokens if token.type == tokenize.COMMENT)]


def test_names_in_comments_and_docstrings_exist() -> None:
    found = [_names_and_texts(path) for path in FILES]
    known = set().union(*(names for names, _ in found))
    named = {match[2] for _, texts in found for text in texts for match in _NAMED.finditer(text)}
    assert len(named) > 10
    assert named - known == set()
