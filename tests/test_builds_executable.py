"""Is a file that is no mysqld for this host told from one that is?"""

import os
import platform
import shutil
import signal
import struct
from pathlib import Path

import pytest

from recovery.builds import download, executable
from recovery.builds.executable import (
    basedir_of,
    check_elf,
    find_mysqld,
    parse_option_names,
    parse_version_output,
    query_options,
    query_version,
)
from recovery.builds.resolve import Sources, resolve_server
from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.model import Build, Flavor, parse_version


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_CACHE", str(tmp_path / "cache"))


def _own(path: Path, version: str | None = None) -> RecoveryError:
    with pytest.raises(RecoveryError) as caught:
        resolve_server(version, Sources(mysqld=str(path)), lambda _: None)
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


def _elf(machine: int, *, order: str = "<", kind: int = 2) -> bytes:
    return (
        b"\x7fELF\x02" + (b"\x01" if order == "<" else b"\x02") + bytes(10) + struct.pack(f"{order}HH", kind, machine)
    )


def _program(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\necho Ver 5.7.22\n", b"\x7fEL"])
def test_no_elf(tmp_path: Path, content: bytes) -> None:
    assert "not a mysqld: it is not a Linux program" in _own(_program(tmp_path / "mysqld", content)).message


@pytest.mark.parametrize(("machine", "order", "name"), [(40, "<", "arm"), (22, ">", "s390x"), (243, "<", "riscv64")])
def test_a_foreign_cpu(tmp_path: Path, machine: int, order: str, name: str) -> None:
    error = _own(_program(tmp_path / "bin/mysqld", _elf(machine, order=order)))
    assert isinstance(error, HostUnfitError)
    assert f"built for {name}" in error.message
    assert platform.machine() in error.message


def test_a_program_that_may_not_be_run(tmp_path: Path) -> None:
    path = tmp_path / "mysqld"
    shutil.copy("/bin/true", path)
    path.chmod(0o644)
    assert "may not be run" in _own(path).message


@pytest.mark.parametrize("program", ["/bin/true", "/bin/ls", "/bin/cat"])
def test_another_program_under_the_name(tmp_path: Path, program: str) -> None:
    shutil.copy(program, tmp_path / "mysqld")
    assert "is not a mysqld: asked for its version it says" in _own(tmp_path / "mysqld").message


def test_a_library_is_no_program(tmp_path: Path) -> None:
    check_elf(Path("/bin/true").resolve())
    path = _program(tmp_path / "mysqld", _elf({"x86_64": 62, "aarch64": 183}[platform.machine()], kind=1))
    with pytest.raises(RecoveryError, match="not a program"):
        check_elf(path)


def test_nothing_there_and_nothing_in_it(tmp_path: Path) -> None:
    assert isinstance(_own(tmp_path / "absent"), UsageError)
    assert "there is no mysqld in" in _own(tmp_path).message


@pytest.mark.parametrize("mysqld", ["", "  ", "ftp://host.test/mysql.tar.gz", "file:///etc/passwd", "http://"])
def test_no_address(mysqld: str) -> None:
    with pytest.raises(UsageError):
        resolve_server(None, Sources(mysqld=mysqld), lambda _: None)


@pytest.mark.parametrize("place", ["bin/mysqld", "sbin/mysqld", "libexec/mysqld", "bin/mariadbd", "server/mysqld"])
def test_where_a_server_lies(tmp_path: Path, place: str) -> None:
    path = _program(tmp_path / "mysql-5.7.9-linux" / place, b"")
    assert find_mysqld(tmp_path) == path
    assert find_mysqld(tmp_path / "mysql-5.7.9-linux") == path


def test_the_basedir_is_where_the_messages_are(tmp_path: Path) -> None:
    (tmp_path / "a/share/english").mkdir(parents=True)
    (tmp_path / "a/share/english/errmsg.sys").touch()
    assert basedir_of(tmp_path / "a/bin/mysqld") == tmp_path / "a"
    assert basedir_of(tmp_path / "a/mysqld") == tmp_path / "a"


@pytest.mark.parametrize(
    ("said", "flavor", "numbers"),
    [
        ("mysqld  Ver 5.6.24 for Linux on x86_64 (Source distribution)", Flavor.MYSQL, (5, 6, 24)),
        ("/x/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))", Flavor.MYSQL, (9, 7, 4)),
        ("mysqld  Ver 10.11.5-MariaDB for linux-systemd on x86_64 (MariaDB Server)", Flavor.MARIADB, (10, 11, 5)),
        ("mysqld  Ver 8.0.39-30 for Linux on x86_64 (Percona Server (GPL), Release 30)", Flavor.PERCONA, (8, 0, 39)),
        ("/opt/mariadb/mysqld  Ver 5.7.9 for Linux on x86_64 (MySQL Community)", Flavor.MYSQL, (5, 7, 9)),
    ],
)
def test_what_a_server_says_of_itself(said: str, flavor: Flavor, numbers: tuple[int, int, int]) -> None:
    version = parse_version_output(said)
    assert version is not None
    assert (version.flavor, version.numbers) == (flavor, numbers)


@pytest.mark.parametrize("said", ["", "mysql  Ver 14.14 Distrib 5.7.22, for Linux", "ls (GNU coreutils) 9.1"])
def test_what_no_server_says(said: str) -> None:
    assert parse_version_output(said) is None


def _script(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n# ibdata1\n{body}\n")
    path.chmod(0o755)
    return path


def test_a_version_without_end_is_not_read_to_the_end(tmp_path: Path) -> None:
    mysqld = _script(tmp_path / "mysqld", f"echo $$ >{tmp_path}/pid; exec yes 'mysqld  Ver 8.0.31'")
    with pytest.raises(UsageError, match="it prints more than 64 KiB"):
        query_version(mysqld, ())
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


def test_who_does_not_answer_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_OUTPUT_TIMEOUT_S", 0.2, raising=False)
    mysqld = _script(tmp_path / "mysqld", "sleep 60 & wait")
    with pytest.raises(UsageError, match=r"it does not answer within 0\.2 s"):
        query_version(mysqld, ())


def test_a_child_that_holds_the_output_open_is_not_waited_for(tmp_path: Path) -> None:
    said = "mysqld  Ver 8.0.31 for Linux on x86_64 (MySQL Community Server - GPL)"
    mysqld = _script(tmp_path / "mysqld", f"sleep 60 & echo $! >{tmp_path}/pid; echo '{said}'")
    assert query_version(mysqld, ()).numbers == (8, 0, 31)
    # The tests' own process inherits it (conftest.py).
    _, status = os.waitpid(int((tmp_path / "pid").read_text()), 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


def test_libraries_without_end_are_not_read_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _script(tmp_path / "ldd", "exec yes 'libaio.so.1 => not found'")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(HostUnfitError, match="it prints more than 64 KiB"):
        executable.missing_libraries(tmp_path / "mysqld", ())


HELP = """mysqld  Ver 5.6.24 for Linux
--print-defaults        Print the program argument list and exit.

  --abort-slave-event-count=#
                      Option used by mysql-test. See
                      --no-such-option.
  -a, --ansi          Use ANSI SQL syntax.
  -#, --debug[=name]  Write a log.
  --Skip-name_resolve Don't resolve names.

Variables (--variable-name=value)
and boolean options {FALSE|TRUE}  Value (after reading options)
--------------------------------- -----------------------------
version-comment                   Source
"""


def test_the_options_that_a_server_lists() -> None:
    assert parse_option_names(HELP) == {"abort_slave_event_count", "ansi", "debug", "skip_name_resolve"}
    assert parse_option_names(HELP.partition("-----")[0]) == frozenset(), "it is cut off"


@pytest.mark.parametrize("program", ["exec yes", "exec sleep 600", "exit 1", None])
def test_a_server_that_does_not_list_them(program: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a server is ended: conftest sees to it that none is left."""
    monkeypatch.setattr(download, "_OUTPUT_TIMEOUT_S", 0.2 if program == "exec sleep 600" else 600)
    path = tmp_path / "mysqld"
    if program is not None:
        _program(path, f"#!/bin/sh\n{program}\n".encode())
    assert query_options(Build(parse_version("5.6.24"), path, tmp_path, "f", "own")) == frozenset()
