"""Three sessions of one measurement on a real server, in one command, and the report over them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from statistics import fmean, geometric_mean

import pytest

from recovery.cli.main import run
from recovery.storage.sessions import load_session

pytestmark = pytest.mark.real
TABLES = 100
VERSION = "mariadb-10.11.5"
"""It starts fastest."""


@pytest.mark.timeout(600)
def test_three_sessions_over_one_data_directory(
    at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["cold-recovery", "--version", VERSION, "--runs", "2", "--repeat", "3", *at]) == 0
    printed = capsys.readouterr()
    folders = sorted(path.parent for path in (tmp_path / "results").glob("2*/report.json"))
    found = [load_session(folder) for folder in folders]
    assert [one.settings.get("repeat_of") for one in found] == [None, folders[0].name, folders[0].name]
    assert [len(one.runs) for one in found] == [2] * 3
    assert len({one.servers[VERSION]["sha256"] for one in found}) == 1
    assert len({one.environment["host_id"] for one in found}) == 1
    assert printed.err.count(f"{VERSION}: using the data directory") == 2
    assert "3 sessions over " in printed.out
    names = ",".join(folder.name for folder in folders)
    report = ["report", names, "--results", str(tmp_path / "results"), "--format"]
    assert run([*report, "json"]) == 0
    stored = json.loads(capsys.readouterr().out)
    means = {one["variant"]: one for one in stored["summaries"] if one["name"] == "startup_s"}
    assert {one["count"] for one in means.values()} == {6}
    for variant, one in means.items():
        of_each = [[run.metrics["startup_s"] for run in each.runs if run.variant == variant] for each in found]
        assert one["mean"] == pytest.approx(geometric_mean(fmean(values) for values in of_each))
        assert one["interval"] > 0
    assert [one["name"] for one in stored["sessions"]] == [folder.name for folder in folders]
    assert run([*report, "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["session"] for row in rows] == [folder.name for folder in folders for _ in range(2)]
