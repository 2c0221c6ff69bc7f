"""Real servers at several numbers of tables, in one directory that grows; and under settings that are compared."""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from pathlib import Path

import pytest
from sessions import stored

from recovery.cli.main import run

pytestmark = pytest.mark.real
FASTEST = "mariadb-10.11.5"
TABLES = 300


@pytest.fixture(scope="module")
def grown(once: Path, data: Path) -> str:
    """What is printed to standard error while a directory of 100 tables is measured, grows, and is measured again."""
    where = ["--data", str(data), "--results", str(once / "results"), "--no-probe"]
    sizes = ["--tables", f"{TABLES} 100", "--runs", "2", "--predict", "1000"]
    with redirect_stderr(io.StringIO()) as printed:
        assert run(["scale", "--version", FASTEST, *sizes, *where]) == 0
    return printed.getvalue()


def test_a_directory_grows_to_the_next_number_of_tables(grown: str, once: Path) -> None:
    assert "growing from 100 to 300 tables" in grown
    assert "--tables '300 100'" in grown, "as it was given"
    report = stored(once)
    assert [one["variant"] for one in report["runs"]] == ["cold-100", "cold-100", "cold-300", "cold-300"]
    assert [one["tables_found"] for one in report["runs"]] == [100, 100, 300, 300]
    for one in report["runs"]:
        assert one["verdict"] == "measured", one["reason"]
        assert one["shutdown_s"] > 0
        assert 20_000_000 < one["peak_memory_bytes"] < 1_000_000_000
    assert report["runs"][-1]["rows_found"] == 400, "what was written before it grew is counted on"
    (fit,) = report["fits"]
    assert fit["runs"] == 4
    assert fit["memory_fixed_bytes"] > 20_000_000
    assert fit["predicted"]["tables"] == 1000


@pytest.mark.usefixtures("grown")
def test_settings_are_compared_over_the_same_files_and_page_sizes_over_files_of_their_own(
    at: list[str], data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (left,) = (one for one in data.glob(f"{FASTEST}-*") if one.is_dir())
    assert f"-{TABLES}-" in left.name
    few, small = "few:table_open_cache=64,innodb_read_io_threads=2", "small:innodb_page_size=4096"
    variants = ["--variant", "plain:", "--variant", few, "--variant", small]
    assert run(["cold-recovery", "--version", FASTEST, "--runs", "1", *variants, *at]) == 0
    report = stored(tmp_path)
    assert sorted(one["variant"] for one in report["runs"]) == ["cold-few", "cold-plain", "cold-small"]
    assert {one["verdict"] for one in report["runs"]} == {"measured"}
    servers = {name: report["servers"][f"{FASTEST} {name}"] for name in ("plain", "few", "small")}
    assert servers["few"]["@table_open_cache"] == "64" != servers["plain"]["@table_open_cache"]
    pages = [servers[name]["@innodb_page_size"] for name in ("plain", "few", "small")]
    assert pages == ["16384", "16384", "4096"]
    assert report["settings"]["variants"] == f"plain: {few} {small}"
    assert "--variant plain:" in report["command"]
    errors = capsys.readouterr().err
    assert f"using the data directory {left}" in errors, "the one that grew is an ordinary directory"
    assert errors.count("making a data directory") == 1
    assert len([one for one in data.glob(f"{FASTEST}-discovery-{TABLES}-*") if one.is_dir()]) == 2
    assert "data directories alternate" in (tmp_path / "results" / "latest" / "report.txt").read_text()
