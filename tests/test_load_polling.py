"""Do statements of any text reach the poller, and is it called with what was asked?"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest

from recovery.model import Load, Poll, parse_version
from recovery.workload.poller import FOREIGN_KEY_QUERY, PollResult, parse_polls, poller_command, write_statements

RECORDED = Path(__file__).parent.parent / "fixtures" / "sysbench" / "poll.txt"


def test_statements_go_by_a_file(tmp_path: Path) -> None:
    poll = Poll(2, 0.5, ("select \"a;\nb\", '{table}', 'é'", FOREIGN_KEY_QUERY))
    path = write_statements(poll, tmp_path)
    first, second, end = path.read_bytes().decode().split("\0")
    assert (first, second, end) == (*poll.statements, "")

    called = poller_command(
        poll, Load("oltp_read_only", 8, 10, 100, seconds=9, warmup_s=3), program=Path("/usr/bin/sysbench"),
        statements=path, socket=Path("/run/s"), database="it's", tables=50, version=parse_version("5.6.24"),
    )  # fmt: skip
    assert {
        "--threads=2",
        "--time=12",
        "--report-checkpoints=3",
        "--every=0.5",
        "--tables=50",
        "--schema=it's",
        f"--statements={path}",
        "--counters=SHOW {scope} STATUS WHERE variable_name IN ('Table_open_cache_hits', 'Table_open_cache_misses')",
    } < set(called)
    assert Path(called[1]).is_file()
    assert called[-1] == "run"


def test_what_was_polled() -> None:
    text = RECORDED.read_text()
    polls = parse_polls(text, warmup_s=2, whole=True)
    assert polls is not None
    assert (polls.per_s, polls.mean_ms) == (28 / 3.0452, 16.94)
    assert [at_s for at_s, _ in polls.seen] == [-1, 0, 1], "the warm-up's too"
    assert sum(per_s for _, per_s in polls.seen) == pytest.approx(28, abs=1.5)


def test_a_poller_that_was_ended_has_said_something_each_second() -> None:
    said, _, _ = RECORDED.read_text().partition("Latency histogram")
    told = [float(line.split("tps: ")[1].split()[0]) for line in said.splitlines() if "tps: " in line]
    assert len(told) == 3
    seen = tuple(enumerate(told, start=1))
    assert parse_polls(said, warmup_s=0, whole=False) == PollResult(fmean(told), None, seen)
    without = parse_polls(said, warmup_s=2, whole=False)
    assert without is not None
    assert without.per_s == told[2], "without those of the warm-up"
    assert parse_polls(said, warmup_s=9, whole=False) is None
