"""Are the files counted that a recovering server opens, and those that had been modified? Found, and held against what
was done."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sessions import stored

from recovery.builds import catalog
from recovery.cli import run
from recovery.host import fanotify

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may be told by fanotify"),
]

TABLES = 300
SHARES_DATA = True
USUAL = ("5.7.22", "8.0.31", "mariadb-10.11.5")
READS_THE_MODIFIED_ONES = "mariadb-10.11.5"
"""All the others read every file."""


def traced(tmp_path: Path, *arguments: str) -> dict[str, object]:
    assert run(["cold-recovery", "--runs", "1", "--trace", *arguments]) == 0
    (one,) = stored(tmp_path)["runs"]
    assert one["verdict"] == "measured", one["reason"]
    return dict(one)


@pytest.mark.parametrize("version", ["5.7.22", READS_THE_MODIFIED_ONES])
def test_as_many_as_were_written_to(version: str, at: list[str], tmp_path: Path) -> None:
    reads_all = version != READS_THE_MODIFIED_ONES
    for inserts in (0, 1, 200):
        # A directory of its own: later starts of MariaDB read files of earlier inserts, too.
        one = traced(tmp_path, "--version", version, "--inserts", str(inserts), "--database", "counted", *at)
        assert one["tablespaces_modified"] == inserts
        assert one["tablespaces_opened"] == TABLES, "MariaDB 10.11 too: it asks each for its size"
        assert one["opened_unmodified"] == TABLES - inserts
        assert one["read_unmodified"] == (TABLES - inserts if reads_all else 0)
        assert one["tablespace_opens"] >= one["tablespaces_opened"]  # type: ignore[operator]
    text = " ".join((tmp_path / "results" / "latest" / "report.txt").read_text().split())
    assert ("does not hold" in text) == reads_all
    assert ("opened, not read" in text) == (not reads_all)
    assert "every start of this session bore the cost" in text


def check(one: dict[str, object], version: str) -> None:
    assert one["tablespaces_modified"] == 100
    assert one["tablespaces_opened"] == TABLES
    assert one["opened_unmodified"] == TABLES - 100
    assert one["read_unmodified"] == (0 if version == READS_THE_MODIFIED_ONES else TABLES - 100)
    assert one["resident_after_bytes"] is not None


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(str(row.version), marks=() if str(row.version) in USUAL else pytest.mark.on_demand("large"))
        for row in catalog.rows()
    ],
)
def test_every_version(version: str, at: list[str], tmp_path: Path) -> None:
    one = traced(tmp_path, "--version", version, *at)
    assert one["traced_by"] == "fanotify"
    check(one, version)


@pytest.mark.parametrize("version", ["5.7.22", READS_THE_MODIFIED_ONES])
def test_the_means_without_root_counts_the_same(
    version: str, at: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: Path) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(fanotify, "listen", refused)
    one = traced(tmp_path, "--version", version, *at)
    assert one["traced_by"] == "inotify"
    check(one, version)
