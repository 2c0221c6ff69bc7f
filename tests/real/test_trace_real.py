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

pytestmark = [pytest.mark.real, pytest.mark.skipif(os.geteuid() != 0, reason="only root may be told by fanotify")]

TABLES = 1100
ALL_FILES = ["5.7.22", "8.0.31"]
MODIFIED_ONES = ["mariadb-10.11.5"]


def traced(tmp_path: Path, *arguments: str) -> dict[str, object]:
    assert run(["cold-recovery", "--runs", "1", "--trace", *arguments]) == 0
    (one,) = stored(tmp_path)["runs"]
    assert one["verdict"] == "measured", one["reason"]
    return dict(one)


@pytest.mark.parametrize("version", [*ALL_FILES, *MODIFIED_ONES])
def test_as_many_as_were_written_to(version: str, at: list[str], tmp_path: Path) -> None:
    for inserts in (0, 1, 100, 1000):
        one = traced(tmp_path, "--version", version, "--inserts", str(inserts), *at)
        assert one["tablespaces_modified"] == inserts
        assert one["tablespaces_opened"] == TABLES, "MariaDB 10.11 too: it asks each for its size"
        assert one["opened_unmodified"] == TABLES - inserts
        assert one["read_unmodified"] == (TABLES - inserts if version in ALL_FILES else 0)
        assert one["tablespace_opens"] >= one["tablespaces_opened"]  # type: ignore[operator]
    text = " ".join((tmp_path / "results" / "latest" / "report.txt").read_text().split())
    assert ("does not hold" in text) == (version in ALL_FILES)
    assert ("opened, not read" in text) == (version in MODIFIED_ONES)
    assert "every start of this session bore the cost" in text


@pytest.mark.parametrize("version", [str(row.version) for row in catalog.rows()])
def test_every_version_without_root_s_means(
    version: str, at: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other means counts the same."""

    def refused(_: Path) -> int:
        raise PermissionError(1, "Operation not permitted")

    few = ["--tables", "200", *at[2:], "--version", version]
    by_root = traced(tmp_path, *few)
    assert by_root["traced_by"] == "fanotify"
    monkeypatch.setattr(fanotify, "listen", refused)
    by_user = traced(tmp_path, *few)
    assert by_user["traced_by"] == "inotify"
    for one in (by_root, by_user):
        assert one["tablespaces_modified"] == 100
        assert one["tablespaces_opened"] == 200
        assert one["opened_unmodified"] == 100
        assert one["read_unmodified"] == (0 if version in MODIFIED_ONES else 100)
        assert one["resident_after_bytes"] is not None
