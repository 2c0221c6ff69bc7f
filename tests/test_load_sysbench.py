"""Is sysbench called with what was asked, and is its report read as it prints it? Recorded ones: fixtures/sysbench."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from recovery.errors import UsageError
from recovery.load.sysbench import WORKLOADS, command, percentile, prepared_statements
from recovery.load.workloads import script_of
from recovery.work import Load

RECORDED = Path(__file__).parent.parent / "fixtures" / "sysbench"
LOAD = Load("oltp_read_only", threads=4, tables=8, rows=1000, seconds=60, warmup_s=10)


def called(load: Load, *, warmup_s: int = 0) -> list[str]:
    return command(
        load, program=Path("/usr/bin/sysbench"), socket=Path("/run/s"), database="sbtest", seconds=60, warmup_s=warmup_s
    )


def test_the_call() -> None:
    words = called(replace(LOAD, options=("--rand-type=uniform", "--threads=5")))
    assert words[:2] == ["/usr/bin/sysbench", "oltp_read_only"]
    assert {
        "--threads=4", "--time=60", "--tables=8", "--table-size=1000", "--mysql-socket=/run/s", "--mysql-db=sbtest",
        "--mysql-user=root", "--mysql-password=", "--mysql-ssl=off", "--report-interval=1", "--histogram=on",
        "--percentile=99",
    } < set(words)  # fmt: skip
    assert words[-3:] == ["--rand-type=uniform", "--threads=5", "run"], "the last of an option holds"
    assert not [word for word in words if "ps-mode" in word or "checkpoints" in word]


def test_a_warm_up_is_part_of_the_run() -> None:
    assert {"--time=70", "--report-checkpoints=10"} < set(called(LOAD, warmup_s=10))


@pytest.mark.parametrize(
    ("script", "tables", "as_text"),
    [
        ("oltp_point_select", 4093, False),
        ("oltp_point_select", 4094, True),
        ("oltp_read_only", 819, True),
        ("oltp_read_write", 454, False),
        ("oltp_read_write", 455, True),
        ("/own.lua", 454, False),
        ("/own.lua", 455, True),
    ],
)
def test_more_statements_than_a_server_keeps_go_as_text(script: str, tables: int, as_text: bool) -> None:
    load = replace(LOAD, script=script, tables=tables)
    assert (prepared_statements(load) > 16382) == as_text
    assert ("--db-ps-mode=disable" in called(load)) == as_text


def test_names_of_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert script_of("update-nokey") == "oltp_update_non_index"
    assert [script_of(script) for script in WORKLOADS.values()] == list(WORKLOADS.values())
    own = tmp_path / "own.lua"
    with pytest.raises(UsageError, match="there is no script"):
        script_of(str(own))
    own.touch()
    monkeypatch.chdir(tmp_path)
    assert script_of("own.lua") == script_of("./own.lua") == str(own)
    with pytest.raises(UsageError, match="no workload is called read") as caught:
        script_of("read")
    assert "point-select, read-only" in caught.value.hint


def test_percentiles() -> None:
    bars = [(1.0, 90), (2.0, 9), (5.0, 1)]
    assert [percentile(bars, share) for share in (50, 90, 95, 99, 99.9, 100)] == [1, 1, 2, 2, 5, 5]
    assert percentile([], 50) is None
