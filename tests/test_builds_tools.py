"""Is a program taken where it is, installed where it may be, and told of where it may not? apt-get is a script here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recovery.builds import packages
from recovery.builds.tools import DUMP, PERF, SYSBENCH, Tool, provide
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
    packages._refreshed.cache_clear()
    return folder


def program(folder: Path, name: str, body: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def said_by(tool: str) -> tuple[Tool, list[str]]:
    said: list[str] = []
    return provide(tool, offline=False, say=said.append), said


def test_one_that_is_there(bin_folder: Path) -> None:
    path = program(bin_folder, "sysbench", "echo 'sysbench 1.0.20'")
    assert said_by(SYSBENCH) == (Tool("sysbench", path, "sysbench 1.0.20"), [])


def test_a_dump_client_of_mysql(bin_folder: Path) -> None:
    path = program(bin_folder, "mysqldump", "echo 'mysqldump  Ver 8.0.31 for Linux'")
    assert said_by(DUMP)[0] == Tool("mysqldump", path, "mysqldump Ver 8.0.31 for Linux")


def test_one_that_cannot_tell_its_version(bin_folder: Path) -> None:
    program(bin_folder, "perf", "echo 'perf not found for this kernel' >&2; exit 2")
    with pytest.raises(HostUnfitError, match="perf not found for this kernel"):
        provide(PERF, offline=False, say=lambda _: None)


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
        provide(SYSBENCH, offline=False, say=lambda _: None)
    assert caught.value.hint == "install it: apt-get install sysbench"


@needs_root
def test_another_name_of_the_package(bin_folder: Path) -> None:
    program(bin_folder, "apt-get", 'case "$*" in *linux-perf*) echo "E: no" >&2; exit 100 ;; esac')
    said: list[str] = []
    with pytest.raises(HostUnfitError):
        provide(PERF, offline=False, say=said.append)
    assert said == ["installing perf (package linux-perf)", "installing perf (package linux-tools-generic)"]


def test_none_is_installed_offline(bin_folder: Path) -> None:
    program(bin_folder, "apt-get", ': >"$0.called"')
    with pytest.raises(HostUnfitError, match="offline") as caught:
        provide(DUMP, offline=True, say=lambda _: None)
    assert caught.value.hint == "install it: apt-get install mariadb-client"
    assert not (bin_folder / "apt-get.called").exists()


def test_none_is_installed_without_apt_get(bin_folder: Path) -> None:
    with pytest.raises(HostUnfitError, match="only root can install it, with apt-get"):
        provide(SYSBENCH, offline=False, say=lambda _: None)
