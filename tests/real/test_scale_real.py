"""Real servers at several numbers of tables, in one directory that grows; and under settings that are compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from sessions import stored

from recovery.cli.main import run

pytestmark = pytest.mark.real

TABLES = 200


@pytest.mark.parametrize("version", ["mariadb-10.11.5"])
def test_a_directory_that_grows(version: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--data", str(data), "--results", str(tmp_path / "results")]
    arguments = ["--version", version, "--tables", "300 100 200", "--runs", "2", "--predict", "1000"]
    assert run(["scale", *arguments, *where]) == 0
    said = capsys.readouterr()
    assert "growing from 100 to 200 tables" in said.err
    assert "growing from 200 to 300 tables" in said.err
    assert "--tables '100 200 300'" in said.err
    report = stored(tmp_path)
    assert [one["variant"] for one in report["runs"]] == [f"cold-{n}" for n in (100, 200, 300) for _ in range(2)]
    assert [one["tables"] for one in report["runs"]] == [100, 100, 200, 200, 300, 300]
    for one in report["runs"]:
        assert one["verdict"] == "measured", one["reason"]
    assert report["runs"][-1]["rows_found"] == 600, "what was written before it grew is counted on"
    (fit,) = report["fits"]
    assert fit["runs"] == 6
    assert fit["predicted"]["tables"] == 1000
    (left,) = (one for one in data.glob(f"{version}-*") if one.is_dir())
    assert "-300-" in left.name
    # The largest is an ordinary directory: the next run finds it.
    assert run(["cold-recovery", "--version", version, "--tables", "300", "--runs", "1", *where]) == 0
    assert "using the data directory" in capsys.readouterr().err


def test_settings_that_are_compared(at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    variants = ["--variant", "plain:", "--variant", "few:table_open_cache=64,innodb_read_io_threads=2"]
    assert run(["cold-recovery", "--version", "5.7.22", "--runs", "1", *variants, *at]) == 0
    report = stored(tmp_path)
    assert [one["variant"] for one in report["runs"]] == ["cold-plain", "cold-few"]
    assert {one["verdict"] for one in report["runs"]} == {"measured"}
    assert report["servers"]["5.7.22 few"]["@table_open_cache"] == "64"
    assert report["servers"]["5.7.22 plain"]["@table_open_cache"] != "64"
    assert report["settings"]["variants"] == "plain: few:table_open_cache=64,innodb_read_io_threads=2"
    assert "--variant plain:" in report["command"]
    assert capsys.readouterr().err.count("making a data directory") == 1, "both over the same files"


def test_page_sizes_that_are_compared_have_files_of_their_own(
    at: list[str], data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variants = ["--variant", "small:innodb_page_size=4096", "--variant", "usual:"]
    assert run(["cold-recovery", "--version", "5.7.22", "--runs", "1", *variants, *at]) == 0
    assert "data directories alternate" in (tmp_path / "results" / "latest" / "report.txt").read_text()
    report = stored(tmp_path)
    assert [one["verdict"] for one in report["runs"]] == ["measured"] * 2
    assert report["servers"]["5.7.22 small"]["@innodb_page_size"] == "4096"
    assert report["servers"]["5.7.22 usual"]["@innodb_page_size"] == "16384"
    assert len([one for one in data.glob(f"5.7.22-discovery-{TABLES}-*") if one.is_dir()]) == 2
