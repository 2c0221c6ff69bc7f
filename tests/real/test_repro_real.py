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
from recovery.cli.bundle import make_bundle
from recovery.cli.main import run

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
    if shutil.which("mysql") is None and shutil.which("mariadb") is None:
        left_out("no mysql client is installed")
    build = resolve_server(version, Sources(), lambda _: None)
    # No socket may have a path this long.
    script, work = tmp_path / "repro.sh", tmp_path / f"a {'long ' * 20}folder"
    script.write_bytes(script_for(layout))
    work.mkdir()
    libraries = {"LD_LIBRARY_PATH": ":".join(map(str, build.library_dirs))} if build.library_dirs else {}
    # Other tests need the host's caches.
    caches = {"CACHES": "warm"} if os.environ.get("TESTS_KEEP_CACHES") or os.geteuid() else {}
    done = subprocess.run(
        ["sh", str(script), str(build.mysqld)],
        cwd=work,
        env={"PATH": os.environ["PATH"], **libraries, "RUNS": "1", **caches},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shown, *starts = done.stdout.splitlines()
    assert " Ver " in shown
    assert [line.partition(":")[0] for line in starts] == (
        ["warm start 1"] if caches else ["cold start 1", "warm start 1"]
    )
    for line in starts:
        assert re.search(rf': \d+\.\d{{3}} s until "ready for connections"; .*{PROOF}', line), line
    assert list(work.iterdir()) == [], "its folder is removed; that no server is left is seen after every test"
