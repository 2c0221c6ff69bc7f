"""The script of a bundle makes a real server recover from a crash, with the options and tables of the session."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from sessions import left_out

from recovery.builds.resolve import Sources, resolve_server
from recovery.cli.main import run
from recovery.model import Build
from recovery.sharing.bundle import make_bundle

pytestmark = pytest.mark.real

TABLES = 30
LARGE = pytest.mark.on_demand("large")
OTHERS = ("5.6.24", "8.0.15", "8.0.31", "mariadb-10.2.11", "mariadb-11.4.5")
PROOF = r"InnoDB\]?:? (?:Database was not shutdown normally!|Starting crash recovery from checkpoint LSN=\d+)"


@pytest.fixture(scope="module")
def script_for(data: Path, once: Path) -> Callable[[str], bytes]:
    """Returns the script of a session of 5.7.22 with this layout of tables, which is measured once."""

    @cache
    def made(layout: str) -> bytes:
        asked = ["--version", "5.7.22", "--tables", str(TABLES), "--runs", "1", "--layout", layout, "--no-probe"]
        assert run(["crash-recovery", *asked, "--data", str(data), "--results", str(once / layout)]) == 0
        script = make_bundle((once / layout / "latest").resolve()).script
        assert script is not None
        return script

    return made


@pytest.mark.parametrize(
    ("version", "layout"),
    [
        ("5.7.22", "files"),
        ("mariadb-10.11.5", "files"),
        pytest.param("5.7.22", "general", marks=LARGE),
        *(pytest.param(version, "files", marks=LARGE) for version in OTHERS),
    ],
)
def test_the_script_repeats_the_crash_recovery(
    version: str, layout: str, script_for: Callable[[str], bytes], tmp_path: Path
) -> None:
    need_client()
    build = resolve_server(version, Sources(), lambda _: None)
    # No socket may have a path this long.
    script, work = tmp_path / "repro.sh", tmp_path / f"a {'long ' * 20}folder"
    script.write_bytes(script_for(layout))
    work.mkdir()
    # Other tests need the host's caches.
    caches = {"CACHES": "warm"} if os.environ.get("TESTS_KEEP_CACHES") or os.geteuid() else {}
    done = run_script(script, build, work, **caches)
    assert done.returncode == 0, done.stdout + done.stderr
    shown, *lines = done.stdout.splitlines()
    assert " Ver " in shown
    names = ["warm"] if caches else ["cold", "warm"]
    starts, means = lines[: len(names)], lines[len(names) :]
    assert [line.partition(":")[0] for line in starts] == [f"{name} start 1" for name in names]
    assert [re.sub(r"[\d.]+ s ", "", line) for line in means] == [
        f"Startup after SIGKILL takes {name} with {TABLES} tables, mean of 1 run" for name in names
    ]
    for line in starts:
        assert re.search(rf': \d+\.\d{{3}} s until "ready for connections"; .*{PROOF}', line), line
    assert list(work.iterdir()) == [], "its folder is removed; that no server is left is seen after every test"


@pytest.mark.parametrize("version", ["5.7.22", "mariadb-10.11.5"])
def test_the_script_counts_as_many_files_as_the_report(version: str, data: Path, tmp_path: Path) -> None:
    need_client()
    if shutil.which("strace") is None:
        left_out("strace is missing")
    asked = ["--version", version, "--tables", "130", "--runs", "1", "--trace", "--no-probe"]
    assert run(["cold-recovery", *asked, "--data", str(data), "--results", str(tmp_path)]) == 0
    made = make_bundle((tmp_path / "latest").resolve())
    (tmp_path / "repro.sh").write_bytes(made.script or b"")
    done = run_script(
        tmp_path / "repro.sh", resolve_server(version, Sources(), lambda _: None), tmp_path, CACHES="warm"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *_, counted = done.stdout.splitlines()
    verb = "reads" if version == "5.7.22" else "opens"
    assert counted == f"Crash recovery {verb} 130 files, 100 were modified"
    assert f"Crash recovery of {version} {verb} all 130 files, 100 were modified" in made.text.decode()


def need_client() -> None:
    if shutil.which("mysql") is None and shutil.which("mariadb") is None:
        left_out("no mysql client is installed")


def run_script(script: Path, build: Build, folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    libraries = {"LD_LIBRARY_PATH": ":".join(map(str, build.library_dirs))} if build.library_dirs else {}
    return subprocess.run(
        ["sh", str(script), str(build.mysqld)],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **libraries, "RUNS": "1", **settings},
        capture_output=True,
        text=True,
        check=False,
    )
