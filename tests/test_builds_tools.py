"""Is a program taken where it is, installed where it may be, and told of where it may not? apt-get is a script here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recovery.builds import packages
from recovery.builds.packages import DUMP, PERF, SYSBENCH, Tool, provide_tool
from recovery.errors import HostUnfitError

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root installs")


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "cat", "chmod", "dpkg"):
        (folder / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("RECOVERY_CACHE", str(tmp_path / "cache"))
    packages._refresh_lists.cache_clear()
    return folder


def program(folder: Path, name: str, body: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def said_by(tool: str) -> tuple[Tool, list[str]]:
    said: list[str] = []
    return provide_tool(tool, offline=False, say=said.append), said


def test_one_that_is_there(bin_folder: Path) -> None:
    path = program(bin_folder, "sysbench", "echo 'sysbench 1.0.20'")
    assert said_by(SYSBENCH) == (Tool("sysbench", path, "sysbench 1.0.20"), [])


MARIADBS = "mysqldump  Ver 10.19 Distrib 10.11.19-MariaDB, for debian-linux-gnu (x86_64)"
NEWER_MARIADBS = "mysqldump from 11.4.2-MariaDB, client 10.19 for Linux (x86_64)"
MYSQLS_OLD = "mysqldump  Ver 10.13 Distrib 5.7.22, for linux-glibc2.12 (x86_64)"
MYSQLS = "mysqldump  Ver 8.0.31 for Linux on x86_64 (MySQL Community Server - GPL)"
MYSQLS_NEW = "mysqldump  Ver 9.7.4-2 for Linux on x86_64 ((Debian))"
FIRST_OF_MYSQLS = "mysqldump  Ver 10.13 Distrib 8.0.3-rc, for Linux (x86_64)"
PERCONAS = "mysqldump  Ver 8.4.0-1 for Linux on x86_64 (Percona Server (GPL), Release 1)"


@pytest.mark.parametrize(
    ("says", "options"),
    [
        (MARIADBS, ("--skip-ssl",)),
        (NEWER_MARIADBS, ("--skip-ssl",)),
        (MYSQLS, ("--column-statistics=0",)),
        (FIRST_OF_MYSQLS, ("--column-statistics=0",)),
        (PERCONAS, ("--column-statistics=0",)),
    ],
)
def test_a_dump_client_is_told_what_it_needs(bin_folder: Path, says: str, options: tuple[str, ...]) -> None:
    path = program(bin_folder, "mysqldump", f"echo '{says}'")
    assert said_by(DUMP)[0] == Tool("mysqldump", path, " ".join(says.split()), options)


def test_mariadbs_own_is_taken_first(bin_folder: Path) -> None:
    program(bin_folder, "mysqldump", f"echo '{MYSQLS}'")
    path = program(bin_folder, "mariadb-dump", f"echo '{MARIADBS}'")
    assert (said_by(DUMP)[0].path, said_by(DUMP)[0].options) == (path, ("--skip-ssl",))


@pytest.mark.parametrize("body", [f"echo '{MYSQLS_OLD}'", f"echo '{MYSQLS_NEW}'", "exit 3"])
def test_a_dump_client_that_cannot_dump_all_servers_is_none(bin_folder: Path, body: str) -> None:
    program(bin_folder, "mysqldump", body)
    with pytest.raises(HostUnfitError, match="mariadb-dump is missing"):
        provide_tool(DUMP, offline=True, say=lambda _: None)


@needs_root
def test_beside_an_old_dump_client_another_is_installed(bin_folder: Path) -> None:
    program(bin_folder, "mysqldump", f"echo '{MYSQLS_OLD}'")
    made = f"printf '#!/bin/sh\\necho \"{MARIADBS}\"\\n'"
    program(bin_folder, "apt-get", f'd="${{0%/*}}/mariadb-dump"; {made} >"$d"; chmod 755 "$d"')
    tool, said = said_by(DUMP)
    assert (tool.name, said) == ("mariadb-dump", ["installing mariadb-dump (package mariadb-client)"])


def test_one_that_cannot_tell_its_version(bin_folder: Path) -> None:
    program(bin_folder, "perf", "echo 'perf not found for this kernel' >&2; exit 2")
    with pytest.raises(HostUnfitError, match="perf not found for this kernel"):
        provide_tool(PERF, offline=False, say=lambda _: None)


# Installs on the second call, after an update; and writes down how it was called.
APT_GET = """
echo "$*" >>"$0.calls"
case "$*" in
*update*) : >"$0.updated" ;;
*install*)
    [ -f "$0.updated" ] || { echo "E: Unable to locate package sysbench" >&2; exit 100; }
    echo 'a lot of output'
    printf '#!/bin/sh\\necho sysbench 1.0.20\\n' >"${0%/*}/sysbench"
    chmod 755 "${0%/*}/sysbench" ;;
esac
"""


@needs_root
def test_one_that_is_missing_is_installed(bin_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program(bin_folder, "apt-get", APT_GET)
    tool, said = said_by(SYSBENCH)
    assert (tool.version, said) == ("sysbench 1.0.20", ["installing sysbench (package sysbench)"])
    calls = (bin_folder / "apt-get.calls").read_text().splitlines()
    assert [("install" in call, "update" in call) for call in calls] == [(True, False), (False, True), (True, False)]
    assert all("DPkg::Lock::Timeout=" in call for call in calls if "install" in call)
    assert capfd.readouterr() == ("", "")


@needs_root
def test_what_apt_get_says_where_it_fails(bin_folder: Path) -> None:
    program(bin_folder, "apt-get", "echo 'E: You have held broken packages.' >&2; exit 100")
    with pytest.raises(HostUnfitError, match=r"sysbench is missing.*held broken packages") as caught:
        provide_tool(SYSBENCH, offline=False, say=lambda _: None)
    assert caught.value.hint == "install it: apt-get install sysbench"


@needs_root
def test_another_name_of_the_package(bin_folder: Path) -> None:
    program(bin_folder, "apt-get", 'case "$*" in *linux-perf*) echo "E: no" >&2; exit 100 ;; esac')
    said: list[str] = []
    with pytest.raises(HostUnfitError):
        provide_tool(PERF, offline=False, say=said.append)
    assert said == ["installing perf (package linux-perf)", "installing perf (package linux-tools-generic)"]


def test_none_is_installed_offline(bin_folder: Path) -> None:
    program(bin_folder, "apt-get", ': >"$0.called"')
    with pytest.raises(HostUnfitError, match="offline") as caught:
        provide_tool(DUMP, offline=True, say=lambda _: None)
    assert caught.value.hint == "install it: apt-get install mariadb-client"
    assert not (bin_folder / "apt-get.called").exists()


@pytest.mark.parametrize(
    ("manager", "commands"),
    [
        ("apt-get", ["apt-get install sysbench", "apt-get install mariadb-client", "apt-get install linux-perf"]),
        ("dnf", ["dnf install sysbench", "dnf install mariadb", "dnf install perf"]),
        ("yum", ["yum install sysbench", "yum install mariadb", "yum install perf"]),
        ("zypper", ["zypper install sysbench", "zypper install mariadb-client", "zypper install perf"]),
        ("pacman", ["pacman -S sysbench", "pacman -S mariadb-clients", "pacman -S perf"]),
        ("apk", ["apk add sysbench", "apk add mariadb-client", "apk add perf"]),
    ],
)
def test_the_hint_names_the_manager_that_is_there(bin_folder: Path, manager: str, commands: list[str]) -> None:
    program(bin_folder, manager, "exit 1")
    for tool, command in zip((SYSBENCH, DUMP, PERF), commands, strict=True):
        with pytest.raises(HostUnfitError) as caught:
            provide_tool(tool, offline=True, say=lambda _: None)
        assert caught.value.hint == f"install it: {command}"


def test_where_no_manager_is_known_the_package_is_named(bin_folder: Path) -> None:
    with pytest.raises(HostUnfitError, match="only root has it installed, and only by apt-get") as caught:
        provide_tool(SYSBENCH, offline=False, say=lambda _: None)
    assert "its package is sysbench" in caught.value.hint
