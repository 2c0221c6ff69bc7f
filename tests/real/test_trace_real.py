"""The files that a recovering server opens, and those that had been modified, are counted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sessions import stored

from recovery.builds import catalog
from recovery.cli.main import run
from recovery.linux import file_opens

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may use fanotify"),
]

TABLES, INSERTS = 300, 100
SHARES_DATA = True
FEW = 60
LARGE = pytest.mark.on_demand("large")
FAILS, OPENS_ONLY, HOLDS = "does not hold", "opened, not read", "holds"
ANSWERS = {"mariadb-10.11.5": OPENS_ONLY, "mariadb-11.4.5": HOLDS}
"""What the report says about the documented claim. All other versions read every file."""
CATALOG = [str(row.version) for row in catalog.pinned_servers()]


def traced(version: str, tmp_path: Path, *arguments: str) -> dict[str, object]:
    """Returns the extra run of a session, whose other run is measured without a trace."""
    assert run(["cold-recovery", "--version", version, "--runs", "1", "--trace", *arguments]) == 0
    counted, one = stored(tmp_path)["runs"]
    assert (counted["verdict"], counted["extra"], counted["tablespaces_opened"]) == ("measured", None, None)
    assert (one["verdict"], one["extra"]) == ("sampled", "trace"), one["reason"]
    return dict(one)


def check(one: dict[str, object], version: str, tmp_path: Path, *, tables: int, modified: int) -> None:
    answer = ANSWERS.get(version, FAILS)
    in_vain = 0 if answer == HOLDS else tables - modified
    assert one["tablespaces_modified"] == modified
    assert one["tablespaces_opened"] == modified + in_vain, "MariaDB 10.11 asks each file for its size"
    assert one["tablespace_opens"] >= one["tablespaces_opened"]  # type: ignore[operator]
    assert one["opened_unmodified"] == in_vain
    assert one["read_unmodified"] == (in_vain if answer == FAILS else 0)
    assert one["resident_after_bytes"] is not None
    text = " ".join((tmp_path / "results" / "latest" / "report.txt").read_text().split())
    assert [claim for claim in (FAILS, OPENS_ONLY, HOLDS) if claim in text] == [answer]
    assert f"Traced by {one['traced_by']}. " in text
    assert "Opened files recorded, not averaged: run 2." in text
    assert "mean of 1 run in this session:" in text


@pytest.mark.parametrize(
    "version", [one if one in ("5.7.22", "mariadb-10.11.5") else pytest.param(one, marks=LARGE) for one in CATALOG]
)
def test_opened_and_modified_files_are_counted(version: str, at: list[str], tmp_path: Path) -> None:
    one = traced(version, tmp_path, *at)
    assert one["traced_by"] == "fanotify"
    check(one, version, tmp_path, tables=TABLES, modified=INSERTS)


def test_the_trace_separates_the_dictionary_from_the_check_of_the_files(at: list[str], tmp_path: Path) -> None:
    phases = traced("8.0.31", tmp_path, *at)["phases"]
    assert isinstance(phases, list)
    found = {phase["name"]: phase for phase in phases}
    assert found["dictionary read"]["end_s"] == found["file check"]["start_s"]
    assert "dictionary read + file check" not in found
    assert not found["file check"]["estimated"]


@pytest.mark.parametrize(
    "version", ["mariadb-11.4.5", *(pytest.param(one, marks=LARGE) for one in ("5.7.22", "mariadb-10.11.5"))]
)
def test_the_counts_follow_the_inserts(version: str, at: list[str], tmp_path: Path) -> None:
    """Over a data directory of its own: later starts of MariaDB read the files of earlier inserts, too."""
    for inserts in (0, FEW // 2):
        counted = ["--inserts", str(inserts), "--database", "counted", "--tables", str(FEW), *at[2:]]
        check(traced(version, tmp_path, *counted), version, tmp_path, tables=FEW, modified=inserts)


@pytest.mark.parametrize("version", ["mariadb-10.11.5", pytest.param("5.7.22", marks=LARGE)])
def test_without_fanotify_inotify_counts_the_same(
    version: str, at: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: Path) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(file_opens, "open_fanotify", refused)
    one = traced(version, tmp_path, *at)
    assert one["traced_by"] == "inotify"
    check(one, version, tmp_path, tables=TABLES, modified=INSERTS)
