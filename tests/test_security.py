"""What docs/reliability.md promises is true of every file: shells, names, templates, options, archives, root steps."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from otherusers import as_user, everybodys_folder, needs_root

from recovery.cli.main import refuse_credentials, run
from recovery.cli.values import parse_identifier
from recovery.errors import UsageError
from recovery.linux.privileges import RootStep
from recovery.loads.sysbench import base_command
from recovery.model import Schema
from recovery.workload.schema import quote_identifier, script_statements

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "recovery").rglob("*.py"))
PAGE = ROOT / "docs" / "reliability.md"
SHELLS = {"sh", "/bin/sh", "bash", "/bin/bash"}


@cache
def parsed() -> list[tuple[str, list[ast.AST]]]:
    """Return every file with the nodes of its syntax tree."""
    return [(str(path.relative_to(ROOT)), nodes_of(path.read_text(encoding="utf-8"))) for path in FILES]


def nodes_of(code: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(code)))


def shell_scripts(nodes: list[ast.AST]) -> Iterator[ast.expr]:
    """Yield what stands after `sh -c`."""
    for node in nodes:
        if isinstance(node, ast.List | ast.Tuple):
            words = node.elts
            for number, word in enumerate(words[:-2]):
                after = words[number + 1]
                is_shell = isinstance(word, ast.Constant) and word.value in SHELLS
                if is_shell and isinstance(after, ast.Constant) and after.value == "-c":
                    yield words[number + 2]


def constants(nodes: list[ast.AST]) -> set[str]:
    """Return the names of the module that are constants."""
    module = nodes[0]
    assert isinstance(module, ast.Module)
    return {
        target.id
        for node in module.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def texts(nodes: list[ast.AST]) -> set[str]:
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_a_shell_gets_constant_scripts_only() -> None:
    found = 0
    for name, nodes in parsed():
        for script in shell_scripts(nodes):
            found += 1
            assert isinstance(script, ast.Constant) or (
                isinstance(script, ast.Name) and script.id in constants(nodes)
            ), name
        for call in (node for node in nodes if isinstance(node, ast.Call)):
            assert not any(word.arg == "shell" for word in call.keywords), name
            assert getattr(call.func, "attr", None) not in ("system", "popen", "getoutput", "getstatusoutput"), name
    assert found >= 3, "gate, entering, and dropping by a container"


def test_a_script_that_is_not_constant_is_found() -> None:
    (script,) = shell_scripts(nodes_of('run(["/bin/sh", "-c", f"cat {path}"])'))
    assert not isinstance(script, ast.Constant)


NASTY = "$(touch {0}) `touch {0}`;touch {0}"


@pytest.mark.parametrize("name", ["VERSION", "TEMPLATE", "PYTHON", "ARGS", "RECOVERY"])
def test_make_does_not_expand_settings(name: str, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    given = f"{name}=$(shell touch {touched}){NASTY.format(touched)}"
    subprocess.run(["make", "help", given], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["make", "-n", "doctor", given], cwd=ROOT, capture_output=True, check=True)
    assert not touched.exists()


@pytest.mark.parametrize("name", ["select", "order", "table", "key_", "a1"])
def test_a_schema_may_have_the_name_of_a_keyword(name: str) -> None:
    first, second = script_statements(Schema(1, database=parse_identifier(name)))
    assert first == f"create schema `{name}`"
    assert second.startswith(f"create table `{name}`.table_1 ")
    assert quote_identifier("a`b") == "`a``b`"
    assert quote_identifier("discovery") == "discovery", "as published"


@pytest.mark.parametrize(
    "expression",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ tables.__class__ }}",
        "{{ range.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.popen('id') }}",
        "{{ ('%s' | attr('format')).__self__ }}",
        "{{ '{0.__class__.__init__.__globals__}'.format(databases) }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
    ],
)
def test_a_template_reaches_nothing_but_its_variables(expression: str, tmp_path: Path) -> None:
    path = tmp_path / "own.sql.j2"
    path.write_text(expression)
    with pytest.raises(UsageError):
        list(script_statements(Schema(1, template=path)))


@pytest.mark.parametrize(("name", "what"), [(b'a"b', "a double quote"), (b"a\nb", "a control character"),
                                            (b"a\xff", "bytes that are not UTF-8")])  # fmt: skip
@pytest.mark.parametrize("setting", ["DATA", "TMPDIR"])
def test_a_folder_that_no_options_file_can_name_is_refused(
    setting: str,
    name: bytes,
    what: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / os.fsdecode(name)
    if setting == "TMPDIR":
        folder.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
    data = folder if setting == "DATA" else tmp_path / "data"
    words = ["clean-start", "--tables", "1", "--offline", "--data", str(data), "--results", str(tmp_path / "results")]
    assert run(words) == 2
    printed = " ".join(capfd.readouterr().err.split())
    assert f"contains {what}, which an options file cannot have" in printed
    assert "a folder with another name" in printed
    assert not data.exists()


def test_no_password_is_on_a_command_line() -> None:
    words = base_command("oltp", program=Path("sysbench"), socket=Path("s"), database="d", threads=1)
    assert [word for word in words if "password" in word] == ["--mysql-password="], "root has none, and only a socket"
    for name, nodes in parsed():
        assert not [text for text in texts(nodes) if re.match(r"--?\w*passw\w*=\S", text)], name


@pytest.mark.parametrize("where", ["environment", "line", "=", "file"])
def test_an_address_with_a_user_is_refused_and_not_repeated(
    where: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    address = "https://joe:hunter2@mirror.test/mysql"
    words = ["versions"]
    if where == "environment":
        monkeypatch.setenv("RECOVERY_ARCHIVE", address)
    elif where == "file":
        (tmp_path / "recovery.toml").write_text(f'mysqld = "{address}"\n')
        monkeypatch.chdir(tmp_path)
    else:
        words = ["cold-recovery", *([f"--archive={address}"] if where == "=" else ["--archive", address])]
    monkeypatch.setenv("MAKELEVEL", "1")
    assert run(words) == 2
    output = "".join(capfd.readouterr())
    assert "has an address with a user name" in output
    assert "hunter2" not in output
    assert "joe" not in output


def test_a_long_note_is_searched_for_addresses_once() -> None:
    """The test ends long after its time limit if each letter may begin an address."""
    refuse_credentials({}, ["cold-recovery", "--note", "a" * 2_000_000], {})


@needs_root
def test_json_is_not_written_through_a_link_of_another_user(capfd: pytest.CaptureFixture[str]) -> None:
    with everybodys_folder() as shared:
        own, link = shared / "own", shared / "out.json"
        own.write_text("precious")
        with as_user():
            link.symlink_to(own)
        assert run(["versions", f"--json={link}"]) == 2
        assert f"{link} is a link of another user" in capfd.readouterr().err
        assert own.read_text() == "precious"
        link.unlink()
        link.symlink_to(own)
        assert run(["versions", f"--json={link}"]) == 2
        assert f"{link} is a link, and is not followed" in capfd.readouterr().err
        assert own.read_text() == "precious"


@pytest.mark.parametrize("columns", ["\u00b2", "x", "", "60"])
def test_any_columns_of_a_terminal_are_accepted(columns: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "recovery", "versions"], env={**os.environ, "COLUMNS": columns, "LINES": columns},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_the_page_lists_every_step_and_where_it_is_taken() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \|.*?\| `(recovery/\S+)` \|$", PAGE.read_text(), re.MULTILINE)
    assert [row[0] for row in rows] == list(RootStep)
    assert all((ROOT / path).is_file() for _, path in rows)


def test_the_page_names_every_file_that_uses_root_rights() -> None:
    page = PAGE.read_text()
    for name, nodes in parsed():
        if name in ("recovery/linux/packages.py", "recovery/linux/privileges.py", "recovery/mysqld/options.py"):
            continue  # they only name them
        words = {node.attr for node in nodes if isinstance(node, ast.Attribute)} | texts(nodes)
        if words & {"chown", "setuid", "setgid", "mount", "chroot", "fanotify_init", "/proc/sys/vm/drop_caches",
                    "privileged", "unshare", "init_module", "mknod", "iopl"}:  # fmt: skip
            assert f"`{name}`" in page, f"{name} uses rights of root, and docs/reliability.md does not say so"


def test_the_environment_script_installs_nothing_where_that_is_refused(tmp_path: Path) -> None:
    # A Debian whose Python lacks venv, with an apt-get whose call would be noticed.
    programs, called = tmp_path / "bin", tmp_path / "called"
    programs.mkdir()
    (programs / "python3").write_text(
        f'#!/bin/sh\ncase "$*" in *ensurepip*) exit 1 ;; *) exec {sys.executable} "$@" ;; esac\n'
    )
    (programs / "apt-get").write_text(f"#!/bin/sh\ntouch {called}\nexit 1\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    done = subprocess.run(
        ["sh", str(ROOT / "scripts/environment.sh"), str(tmp_path / "venv"), "requirements/run.lock"], cwd=ROOT,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "RECOVERY_UNPRIVILEGED": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert "apt-get install python3-venv" in done.stderr
    assert not called.exists()
