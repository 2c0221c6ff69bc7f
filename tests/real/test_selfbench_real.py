"""Does `make bench` measure what it says, on a real server?"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from recovery.builds.resolve import Sources, resolve
from recovery.selfbench import biglog, fullsize, watching
from recovery.selfbench.site import quiet, scratch

pytestmark = [pytest.mark.real, pytest.mark.on_demand("bench")]


def bench(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "recovery", "bench", *arguments],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_build_rates(tmp_path: Path) -> None:
    small = ("--only", "building", "--version", "mariadb-10.11.5", "--tables", "200", "--rest", "0")
    page = bench(*small, "--data", str(tmp_path / "d"))
    row = re.search(r"\| mariadb-10\.11\.5 \| ([\d,]+) \| 200 in \d+ s \| ([\d,]+) \| ([\d.]+) \|", page)
    assert row, page
    assert all(float(cell.replace(",", "")) > 0 for cell in row.groups())
    assert not list((tmp_path / "d").iterdir()), "its scratch folder is removed"


def test_watching(tmp_path: Path) -> None:
    with scratch(tmp_path / "d") as site:
        build = resolve("5.7.22", Sources(), quiet)
        with site.staged(build, 100) as staged:
            lags = watching.lags_ms(site, build, staged, starts=2)
            assert len(lags) == 2
            (pair,) = watching.pairs(site, build, staged, count=1)
            assert pair.with_s > 0
            assert pair.bare_s > 0
            assert 0 <= watching.waiting_cpu_share(site, build, staged, seconds=2) < 1
        assert biglog.lag_ms(site.folder, megabytes=1) > 0
    assert not list((tmp_path / "d").iterdir())


def test_full_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_ENGINE", "docker")  # as where an engine answers
    with scratch(tmp_path / "d") as site:
        found = fullsize.measure(site, "5.7.22", 100)
        assert found is not None
        assert found.rate.per_s > 0
        assert 0 < found.cold_s < found.stage_s
        assert found.begin_s > 0
        assert fullsize.measure(site, "5.7.22", 10**9) is None
    assert not list((tmp_path / "d").iterdir())
