"""Are the files counted that a recovering server opens, and those that had been modified? Found, and held against what
was done."""

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
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may be told by fanotify"),
]

TABLES = 300
SHARES_DATA = True
USUAL = ("8.0.31",)
ANSWERS = {"5.7.22": "does not hold", "mariadb-10.11.5": "opened, not read", "mariadb-11.4.5": "holds"}
"""To the documented claim. Versions that are not named here read every file, too."""


def traced(tmp_path: Path, *arguments: str) -> dict[str, object]:
    assert run(["cold-recovery", "--runs", "1", "--trace", *arguments]) == 0
    (one,) = stored(tmp_path)["runs"]
    assert one["verdict"] == "measured", one["reason"]
    return dict(one)


@pytest.mark.parametrize("version", ANSWERS)
def test_as_many_as_were_written_to(version: str, at: list[str], tmp_path: Path) -> None:
    for inserts in (0, 1, 200):
        # A directory of its own: later starts of MariaDB read files of earlier inserts, too.
        one = traced(tmp_path, "--version", version, "--inserts", str(inserts), "--database", "counted", *at)
        assert one["tablespaces_modified"] == inserts
        check(one, version, modified=inserts)
        assert one["tablespace_opens"] >= one["tablespaces_opened"]  # type: ignore[operator]
    text = " ".join((tmp_path / "results" / "latest" / "report.txt").read_text().split())
    assert {answer for answer in ANSWERS.values() if answer in text} == {ANSWERS[version]}
    assert "made every start of this session slower" in text


def check(one: dict[str, object], version: str, *, modified: int = 100) -> None:
    answer = ANSWERS.get(version, "does not hold")
    in_vain = 0 if answer == "holds" else TABLES - modified
    assert one["tablespaces_modified"] == modified
    assert one["tablespaces_opened"] == modified + in_vain, "MariaDB 10.11 too asks each for its size"
    assert one["opened_unmodified"] == in_vain
    assert one["read_unmodified"] == (in_vain if answer == "does not hold" else 0)
    assert one["resident_after_bytes"] is not None


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(str(row.version), marks=() if str(row.version) in USUAL else pytest.mark.on_demand("large"))
        for row in catalog.pinned_servers()
    ],
)
def test_every_version(version: str, at: list[str], tmp_path: Path) -> None:
    one = traced(tmp_path, "--version", version, *at)
    assert one["traced_by"] == "fanotify"
    check(one, version)


@pytest.mark.parametrize("version", ["5.7.22", "mariadb-10.11.5"])
def test_the_means_without_root_counts_the_same(
    version: str, at: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: Path) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(file_opens, "open_fanotify", refused)
    one = traced(tmp_path, "--version", version, *at)
    assert one["traced_by"] == "inotify"
    check(one, version)
