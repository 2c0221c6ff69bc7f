"""Is sysbench called with what was asked, and is its report read as it prints it? Recorded ones: fixtures/sysbench."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from recovery.errors import RecoveryError, UsageError
from recovery.model import Load
from recovery.workload.sysbench import (
    CHECKPOINT,
    THREADS_STARTED,
    WORKLOADS,
    parse_report,
    percentile,
    prepared_statements,
    resolve_script,
    sysbench_command,
)

RECORDED = Path(__file__).parent.parent / "fixtures" / "sysbench"
LOAD = Load("oltp_read_only", threads=4, tables=8, rows=1000, seconds=60, warmup_s=0)


def called(load: Load) -> list[str]:
    return sysbench_command(load, program=Path("/usr/bin/sysbench"), socket=Path("/run/s"), database="sbtest")


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
    assert {"--time=70", "--report-checkpoints=10"} < set(called(replace(LOAD, warmup_s=10)))


@pytest.mark.parametrize("name", ["read-write", "read-only-after-a-warm-up", "poll"])
def test_it_says_where_it_stands(name: str) -> None:
    text = recorded(name)
    assert text.count(THREADS_STARTED) == 1
    assert text.count(CHECKPOINT) == ("warm-up" in name)
    assert text.index(THREADS_STARTED) < text.index("[ 1s ]")


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
    assert resolve_script("update-nokey") == "oltp_update_non_index"
    assert [resolve_script(script) for script in WORKLOADS.values()] == list(WORKLOADS.values())
    own = tmp_path / "own.lua"
    with pytest.raises(UsageError, match="there is no script"):
        resolve_script(str(own))
    own.touch()
    monkeypatch.chdir(tmp_path)
    assert resolve_script("own.lua") == resolve_script("./own.lua") == str(own)
    with pytest.raises(UsageError, match="no workload is called read") as caught:
        resolve_script("read")
    assert "point-select, read-only" in caught.value.hint


def test_percentiles() -> None:
    bars = [(1.0, 90), (2.0, 9), (5.0, 1)]
    assert [percentile(bars, share) for share in (50, 90, 95, 99, 99.9, 100)] == [1, 1, 2, 2, 5, 5]
    assert percentile([], 50) is None


def recorded(name: str) -> str:
    return (RECORDED / f"{name}.txt").read_text()


def test_a_report() -> None:
    report = parse_report(recorded("read-write"))
    assert (report.queries, report.transactions, report.errors, report.reconnects) == (40976, 2043, 7, 0)
    assert (report.seconds, report.latency_mean_ms, report.latency_max_ms) == (3.0066, 2.94, 279.89)
    assert (round(report.qps, 1), round(report.tps, 1)) == (13628.7, 679.5)
    assert (report.latency_p50_ms, report.latency_p95_ms, report.latency_p999_ms) == (2.477, 3.816, 90.775)
    assert [look.at_s for look in report.intervals] == [1, 2, 3]
    assert (report.intervals[0].qps, report.intervals[0].tps) == (15200.38, 756.22)
    assert (report.intervals[0].latency_ms, report.intervals[0].errors) == (7.04, 3)


@pytest.mark.parametrize("name", ["read-write", "read-only-after-a-warm-up", "poll"])
def test_a_percentile_is_what_sysbench_says_itself(name: str) -> None:
    text = recorded(name)
    said = float(text.rpartition("99th percentile:")[2].split()[0])
    p99 = parse_report(text).latency_p99_ms
    assert p99 is not None
    assert round(p99, 2) == said


def test_a_report_after_a_warm_up_is_of_the_time_after_it() -> None:
    text = recorded("read-only-after-a-warm-up")
    report = parse_report(text)
    assert (report.transactions, report.queries) == (9193, 147080)
    assert report.seconds == pytest.approx(5.0026 - 2.0002)
    assert report.latency_max_ms == 27.15
    assert [look.at_s for look in report.intervals] == [-1, 0, 1, 2, 3]
    # It was ended before the second report came.
    with pytest.raises(RecoveryError, match=r"no report; its last line is: \[ 5s \] thds: 2"):
        parse_report(text.partition("Latency histogram")[0])


def test_a_report_of_polls() -> None:
    report = parse_report(recorded("poll"))
    assert (report.transactions, report.latency_mean_ms) == (28, 16.94)
    assert report.tps == pytest.approx(28 / 3.0452)


@pytest.mark.parametrize(
    ("name", "last"), [("no-table", "FATAL: Thread initialization failed!"), ("server-killed", "FATAL: `thread_run'")]
)
def test_what_is_no_report(name: str, last: str) -> None:
    with pytest.raises(RecoveryError, match=f"sysbench has printed no report; its last line is: {last}"):
        parse_report(recorded(name))


def test_nothing_is_no_report() -> None:
    with pytest.raises(RecoveryError, match=r"\(nothing\)"):
        parse_report("")
