"""`make test` provides the programs it needs: installed as root on Debian, named with the command elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "test_programs.sh"
PACKAGES = "docker.io docker-registry debootstrap elfutils gdb linux-perf sysbench mariadb-client"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A folder with the only programs that the script finds; apt-get writes down what it is asked."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("sh", "cat", "rm", "seq", "sleep", "tail", "grep"):
        (folder / name).symlink_to(str(shutil.which(name)))
    program(folder, "docker", "exit 1")
    program(folder, "apt-get", f'echo "$*" >>{tmp_path}/asked')
    return folder


def program(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def start(host: Path, uid: int, *more: str, **settings: str) -> str:
    program(host, "id", f"echo {uid}")
    script = host.parent / "script.sh"  # without the host's own folders of programs
    script.write_text(SCRIPT.read_text().replace("PATH=$PATH:/usr/sbin:/sbin", ""))
    done = subprocess.run(
        ["sh", script, "start", *more], env={"PATH": str(host), "TMPDIR": str(host.parent), **settings},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stderr


def test_as_root_the_missing_programs_are_installed(host: Path, tmp_path: Path) -> None:
    program(host, "sysbench", "")
    assert "installing for the tests: docker.io" in start(host, 0, "chromium:chromium")
    wanted = PACKAGES.replace("sysbench ", "")
    assert (tmp_path / "asked").read_text().splitlines() == ["update -q", f"install -q -y {wanted} chromium"]


@pytest.mark.parametrize(("uid", "settings"), [(1000, {}), (0, {"RECOVERY_NO_ROOT_STEPS": "1"})])
def test_elsewhere_they_are_named_with_the_command(uid: int, settings: dict[str, str], host: Path) -> None:
    said = start(host, uid, **settings)
    assert (
        said == f"tests of missing programs are skipped; this command installs them: sudo apt-get install {PACKAGES}\n"
    )
    assert not (host.parent / "asked").exists()


def test_without_apt_get_they_are_named_too(host: Path) -> None:
    (host / "apt-get").unlink()
    assert PACKAGES in start(host, 0)


def test_where_an_engine_answers_none_is_installed_or_started(host: Path, tmp_path: Path) -> None:
    program(host, "docker", "exit 0")
    program(host, "dockerd", f"touch {tmp_path}/started")
    assert "docker.io" not in start(host, 0)
    assert "docker.io" not in (tmp_path / "asked").read_text()
    assert not (tmp_path / "started").exists()


def test_ci_and_make_test_run_the_same(tmp_path: Path) -> None:
    root = SCRIPT.parent.parent
    assert "make test\n" in (root / ".ci" / "run").read_text()
    assert os.access(SCRIPT, os.X_OK)
    assert "test_programs.sh" in (root / "scripts" / "tests.sh").read_text()
