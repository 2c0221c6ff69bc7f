"""Is a file that is no mysqld for this host refused, and a mysqld understood?"""

import os
import platform
import shutil
import signal
import struct
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from fakes import shell_script

from recovery.builds import download, executable
from recovery.builds.executable import (
    basedir_of,
    find_mysqld,
    parse_option_names,
    parse_version_output,
    query_options,
    query_version,
)
from recovery.builds.resolve import Sources, resolve_server
from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.model import Build, Flavor, parse_version

pytestmark = pytest.mark.usefixtures("own_cache")


def refusal(path: Path) -> RecoveryError:
    with pytest.raises(RecoveryError) as caught:
        resolve_server(None, Sources(mysqld=str(path)), lambda _: None)
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


def elf(machine: int, *, order: str = "<", kind: int = 2) -> bytes:
    magic = b"\x7fELF\x02" + (b"\x01" if order == "<" else b"\x02")
    return magic + bytes(10) + struct.pack(f"{order}HH", kind, machine)


def program(path: Path, content: bytes) -> Path:
    shell_script(path, "").write_bytes(content)
    return path


OWN_CPU = {"x86_64": 62, "aarch64": 183}[platform.machine()]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not a mysqld: it is not a Linux program"),
        (b"#!/bin/sh\necho Ver 5.7.22\n", "not a mysqld: it is not a Linux program"),
        (b"\x7fEL", "not a mysqld: it is not a Linux program"),
        (elf(OWN_CPU, kind=1), "not a program"),
    ],
)
def test_a_file_that_is_no_program_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    assert reason in refusal(program(tmp_path / "mysqld", content)).message


@pytest.mark.parametrize(("machine", "order", "name"), [(40, "<", "arm"), (22, ">", "s390x"), (243, "<", "riscv64")])
def test_a_program_for_another_cpu_is_refused(tmp_path: Path, machine: int, order: str, name: str) -> None:
    error = refusal(program(tmp_path / "bin/mysqld", elf(machine, order=order)))
    assert isinstance(error, HostUnfitError)
    assert f"built for {name}" in error.message
    assert platform.machine() in error.message


@pytest.mark.parametrize(
    ("source", "mode", "reason"),
    [
        ("/bin/true", 0o644, "may not be run"),
        ("/bin/true", 0o755, "is not a mysqld: asked for its version it says"),
        ("/bin/ls", 0o755, "is not a mysqld: asked for its version it says"),
    ],
)
def test_another_program_named_mysqld_is_refused(tmp_path: Path, source: str, mode: int, reason: str) -> None:
    shutil.copy(source, tmp_path / "mysqld")
    (tmp_path / "mysqld").chmod(mode)
    assert reason in refusal(tmp_path / "mysqld").message


def test_a_path_without_a_server_is_refused(tmp_path: Path) -> None:
    assert isinstance(refusal(tmp_path / "absent"), UsageError)
    assert "there is no mysqld in" in refusal(tmp_path).message


@pytest.mark.parametrize("mysqld", ["", "  ", "ftp://host.test/mysql.tar.gz", "file:///etc/passwd", "http://"])
def test_an_invalid_address_is_refused(mysqld: str) -> None:
    with pytest.raises(UsageError):
        resolve_server(None, Sources(mysqld=mysqld), lambda _: None)


@pytest.mark.parametrize("place", ["bin/mysqld", "sbin/mysqld", "libexec/mysqld", "bin/mariadbd", "server/mysqld"])
def test_a_server_is_found_in_its_folder(tmp_path: Path, place: str) -> None:
    path = program(tmp_path / "mysql-5.7.9-linux" / place, b"")
    assert find_mysqld(tmp_path) == path
    assert find_mysqld(tmp_path / "mysql-5.7.9-linux") == path


def test_the_basedir_is_the_folder_with_the_messages(tmp_path: Path) -> None:
    (tmp_path / "a/share/english").mkdir(parents=True)
    (tmp_path / "a/share/english/errmsg.sys").touch()
    assert basedir_of(tmp_path / "a/bin/mysqld") == tmp_path / "a"
    assert basedir_of(tmp_path / "a/mysqld") == tmp_path / "a"


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("mysqld  Ver 5.6.24 for Linux on x86_64 (Source distribution)", (Flavor.MYSQL, (5, 6, 24))),
        ("/x/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))", (Flavor.MYSQL, (9, 7, 4))),
        ("/x/mysqld  Ver 9.7.4.0-2 for Linux on x86_64 ((Debian))", (Flavor.MYSQL, (9, 7, 4))),
        ("mysqld  Ver 9.7.4.1 for Linux on x86_64 (MySQL Community Server - GPL)", (Flavor.MYSQL, (9, 7, 4, 1))),
        ("mysqld  Ver 26.7.0 for Linux on x86_64 (MySQL Community Server - GPL)", (Flavor.MYSQL, (26, 7, 0))),
        ("mysqld  Ver 10.11.5-MariaDB for linux-systemd on x86_64 (MariaDB Server)", (Flavor.MARIADB, (10, 11, 5))),
        ("mysqld  Ver 8.0.39-30 for Linux on x86_64 (Percona Server (GPL), Release 30)", (Flavor.PERCONA, (8, 0, 39))),
        ("/opt/mariadb/mysqld  Ver 5.7.9 for Linux on x86_64 (MySQL Community)", (Flavor.MYSQL, (5, 7, 9))),
        ("", None),
        ("mysql  Ver 14.14 Distrib 5.7.22, for Linux", None),
        ("ls (GNU coreutils) 9.1", None),
    ],
)
def test_the_version_that_a_server_prints(output: str, expected: tuple[Flavor, tuple[int, int, int]] | None) -> None:
    version = parse_version_output(output)
    assert (None if version is None else (version.flavor, version.numbers)) == expected


@pytest.mark.parametrize("numbers", ["9" * 5000 + ".0.1", "8.0." + "1" * 5000, "99999.0.1", "8.0.12345", "²²².0.1"])
def test_a_version_that_no_server_has_is_none(numbers: str) -> None:
    assert parse_version_output(f"mysqld  Ver {numbers} for Linux on x86_64") is None


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "mysqld")
    with pytest.raises(UsageError, match="is not a regular file"):
        executable.check_elf(tmp_path / "mysqld")
    assert "is neither a file nor a folder" in refusal(tmp_path / "mysqld").message


def test_the_holes_of_a_program_are_not_read(tmp_path: Path) -> None:
    with (tmp_path / "mysqld").open("wb") as file:
        file.truncate(10 << 40)
    assert not executable._is_server(tmp_path / "mysqld")
    with (tmp_path / "mysqld").open("rb+") as file:
        file.seek(1 << 40)
        file.write(b"the file ibdata1")
    assert executable._is_server(tmp_path / "mysqld")


def test_a_version_without_end_is_cut_off_and_its_program_ended(tmp_path: Path) -> None:
    mysqld = shell_script(tmp_path / "mysqld", f"# ibdata1\necho $$ >{tmp_path}/pid; exec yes 'mysqld  Ver 8.0.31'")
    with pytest.raises(UsageError, match="it prints more than 64 KiB"):
        query_version(mysqld, ())
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


def test_a_server_that_does_not_answer_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_OUTPUT_TIMEOUT_S", 0.2)
    with pytest.raises(UsageError, match=r"it does not answer within 0\.2 s"):
        query_version(shell_script(tmp_path / "mysqld", "# ibdata1\nsleep 60 & wait"), ())


def test_a_child_that_holds_the_output_open_is_killed(tmp_path: Path) -> None:
    version = "mysqld  Ver 8.0.31 for Linux on x86_64 (MySQL Community Server - GPL)"
    mysqld = shell_script(tmp_path / "mysqld", f"# ibdata1\nsleep 60 & echo $! >{tmp_path}/pid; echo '{version}'")
    assert query_version(mysqld, ()).numbers == (8, 0, 31)
    pid = int((tmp_path / "pid").read_text())
    with suppress(ChildProcessError):  # the tests' own process inherits it (conftest.py), unless it was waited for
        _, status = os.waitpid(pid, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
    assert not psutil.pid_exists(pid)


def test_a_list_of_libraries_without_end_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell_script(tmp_path / "ldd", "exec yes 'libaio.so.1 => not found'")
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


@pytest.mark.parametrize("body", ["exec yes", "exec sleep 600", "exit 1", None])
def test_a_server_that_lists_no_options_is_ended(
    body: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "_OUTPUT_TIMEOUT_S", 0.2 if body == "exec sleep 600" else 600)
    path = tmp_path / "mysqld" if body is None else shell_script(tmp_path / "mysqld", body)
    assert query_options(Build(parse_version("5.6.24"), path, tmp_path, "f", "own")) == frozenset()
