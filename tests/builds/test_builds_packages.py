"""Programs of the host are found where they are, and installed by root alone. apt-get and the rest are scripts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fakes import shell_script

from recovery.builds import packages
from recovery.builds.packages import DUMP, PERF, SYSBENCH, Tool, provide_tool
from recovery.errors import HostUnfitError
from recovery.linux.packages import install_advice, libraries_advice

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root installs")


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "cat", "chmod", "dpkg"):
        (folder / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("RECOVERY_CACHE", str(tmp_path / "cache"))
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    packages._refresh_lists.cache_clear()
    return folder


def provide(tool: str) -> tuple[Tool, list[str]]:
    lines: list[str] = []
    return provide_tool(tool, offline=False, say=lines.append), lines


# -- apt's own settings

TARGETS = """cat <<'E'
http://mirror.test/debian/\tbookworm-updates\tDebian\tmain
http://security.test/debian-security/\tbookworm-security\tDebian\tmain
http://node.test/\tnodistro\tNode Source\tmain
http://mirror.test/debian/\tbookworm\tDebian\tcontrib
http://mirror.test/debian/\tbookworm\tDebian\tmain
http://newer.test/debian/\tsid\tDebian\tmain
E"""


@pytest.mark.parametrize(
    ("suite", "apt_get", "mirror"),
    [
        ("bookworm", TARGETS, "http://mirror.test/debian"),
        ("sid", TARGETS, "http://newer.test/debian"),
        ("trixie", TARGETS, "http://mirror.test/debian"),
        ("bookworm", "exit 100", None),
        ("bookworm", "true", None),
        ("bookworm", "echo 'http://mirror.test/ubuntu\tnoble\tUbuntu\tmain'", None),
        ("bookworm", None, None),
    ],
)
def test_the_mirror_of_the_main_archive(suite: str, apt_get: str | None, mirror: str | None, bin_folder: Path) -> None:
    if apt_get is not None:
        shell_script(bin_folder / "apt-get", apt_get)
    assert packages.debian_mirror(suite) == mirror


def test_proxies_of_the_environment_go_before_those_of_apt(bin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert packages.apt_proxies() == {}
    body = "case $2 in *::http::*) echo http://proxy.test:3128/;; *) echo DIRECT;; esac"
    shell_script(bin_folder / "apt-config", body)
    assert packages.apt_proxies() == {"http_proxy": "http://proxy.test:3128/"}
    monkeypatch.setenv("HTTP_PROXY", "http://other.test:8080")
    monkeypatch.setenv("no_proxy", "localhost")
    assert packages.apt_proxies() == {"http_proxy": "http://other.test:8080", "no_proxy": "localhost"}


# -- programs of experiments

MARIADB_DUMP = "mysqldump  Ver 10.19 Distrib 10.11.19-MariaDB, for debian-linux-gnu (x86_64)"
MYSQL_DUMP = "mysqldump  Ver 8.0.31 for Linux on x86_64 (MySQL Community Server - GPL)"
OLD_MYSQL_DUMP = "mysqldump  Ver 10.13 Distrib 5.7.22, for linux-glibc2.12 (x86_64)"


def test_a_program_that_is_installed_is_used(bin_folder: Path) -> None:
    path = shell_script(bin_folder / "sysbench", "echo 'sysbench 1.0.20'")
    assert provide(SYSBENCH) == (Tool("sysbench", path, "sysbench 1.0.20"), [])


@pytest.mark.parametrize(
    ("version", "option"),
    [
        (MARIADB_DUMP, "--skip-ssl"),
        ("mysqldump from 11.4.2-MariaDB, client 10.19 for Linux (x86_64)", "--skip-ssl"),
        (MYSQL_DUMP, "--column-statistics=0"),
        ("mysqldump  Ver 10.13 Distrib 8.0.3-rc, for Linux (x86_64)", "--column-statistics=0"),
        ("mysqldump  Ver 8.4.0-1 for Linux on x86_64 (Percona Server (GPL), Release 1)", "--column-statistics=0"),
    ],
)
def test_a_dump_client_gets_the_option_it_needs(bin_folder: Path, version: str, option: str) -> None:
    path = shell_script(bin_folder / "mysqldump", f"echo '{version}'")
    assert provide(DUMP)[0] == Tool("mysqldump", path, " ".join(version.split()), (option,))


def test_the_dump_client_of_mariadb_is_preferred(bin_folder: Path) -> None:
    shell_script(bin_folder / "mysqldump", f"echo '{MYSQL_DUMP}'")
    path = shell_script(bin_folder / "mariadb-dump", f"echo '{MARIADB_DUMP}'")
    tool, _ = provide(DUMP)
    assert (tool.path, tool.options) == (path, ("--skip-ssl",))


@pytest.mark.parametrize(
    "body", [f"echo '{OLD_MYSQL_DUMP}'", "echo 'mysqldump  Ver 9.7.4-2 for Linux on x86_64 ((Debian))'", "exit 3"]
)
def test_a_dump_client_that_cannot_dump_all_servers_is_not_used(bin_folder: Path, body: str) -> None:
    shell_script(bin_folder / "mysqldump", body)
    with pytest.raises(HostUnfitError, match="mariadb-dump is missing"):
        provide_tool(DUMP, offline=True, say=lambda _: None)


def test_a_program_that_cannot_print_its_version_is_refused(bin_folder: Path) -> None:
    shell_script(bin_folder / "perf", "echo 'perf not found for this kernel' >&2; exit 2")
    with pytest.raises(HostUnfitError, match="perf not found for this kernel"):
        provide(PERF)


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
def test_a_missing_program_is_installed_with_fresh_lists(bin_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shell_script(bin_folder / "apt-get", APT_GET)
    tool, lines = provide(SYSBENCH)
    assert (tool.version, lines) == ("sysbench 1.0.20", ["installing sysbench (package sysbench)"])
    calls = (bin_folder / "apt-get.calls").read_text().splitlines()
    assert [("install" in call, "update" in call) for call in calls] == [(True, False), (False, True), (True, False)]
    assert all("DPkg::Lock::Timeout=" in call for call in calls if "install" in call)
    assert capfd.readouterr() == ("", "")


@needs_root
def test_every_name_of_a_package_is_tried_before_the_reason_of_apt_is_reported(bin_folder: Path) -> None:
    shell_script(bin_folder / "apt-get", "case \"$*\" in *linux-perf*) echo 'E: broken packages.' >&2; exit 100;; esac")
    lines: list[str] = []
    with pytest.raises(HostUnfitError, match=r"perf is missing.*broken packages") as caught:
        provide_tool(PERF, offline=False, say=lines.append)
    assert lines == ["installing perf (package linux-perf)", "installing perf (package linux-tools-generic)"]
    assert caught.value.hint == "install it: apt-get install linux-perf"


def test_nothing_is_installed_offline(bin_folder: Path) -> None:
    shell_script(bin_folder / "apt-get", ': >"$0.called"')
    with pytest.raises(HostUnfitError, match="offline") as caught:
        provide_tool(DUMP, offline=True, say=lambda _: None)
    assert caught.value.hint == "install it: apt-get install mariadb-client"
    assert not (bin_folder / "apt-get.called").exists()


def test_the_hint_names_the_package_manager_of_the_host(bin_folder: Path) -> None:
    shell_script(bin_folder / "pacman", "exit 1")
    for tool, package in ((SYSBENCH, "sysbench"), (DUMP, "mariadb-clients"), (PERF, "perf")):
        with pytest.raises(HostUnfitError) as caught:
            provide_tool(tool, offline=True, say=lambda _: None)
        assert caught.value.hint == f"install it: pacman -S {package}"


def test_a_missing_library_is_named_as_rpms_declare_it(bin_folder: Path) -> None:
    wanted, packages = ("libaio.so.1", "libtinfo.so.5"), ("libaio1",)
    assert libraries_advice(wanted, packages) == "install the packages of your distribution that hold them"
    shell_script(bin_folder / "dnf", "exit 1")
    in_rpms = "install them: dnf install 'libaio.so.1()(64bit)' 'libtinfo.so.5()(64bit)'"
    assert libraries_advice(wanted, packages) == in_rpms
    assert install_advice("libc-bin") == "install it: dnf install glibc-common"
    shell_script(bin_folder / "apt-get", "exit 1")
    assert libraries_advice(wanted, packages) == "install them: apt-get install libaio1"
    assert libraries_advice(wanted, ()) == "install the packages of your distribution that hold them"


def test_without_a_package_manager_the_hint_names_the_package(bin_folder: Path) -> None:
    with pytest.raises(HostUnfitError, match="only root has it installed, and only by apt-get") as caught:
        provide(SYSBENCH)
    assert "its package is sysbench" in caught.value.hint
