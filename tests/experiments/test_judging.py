"""What makes a trial count, and when a start is warm."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from recovery.errors import TrialVoidError
from recovery.experiments import clean_start
from recovery.experiments.bench import Bench
from recovery.experiments.bench_starts import Conditions
from recovery.experiments.crash_recovery import MAX_WARMUPS, reads_are_stable, time_warm_start
from recovery.experiments.experiment import Judgement, accept, judge_recovery
from recovery.model import Contents, Measurement, Phase, Startup, Verdict, WarmProof

PROOF = "InnoDB: Database was not shutdown normally!"
START = Startup(crash_proof=PROOF)
CONTENTS = Contents(tables_expected=500, tables_found=500, rows_expected=300, rows_found=300, rows_lost=0)
GOOD = Measurement(startup=START, previous_exit="signal 9", contents=CONTENTS)
NO_CRASH = replace(GOOD, startup=replace(START, crash_proof=None))
MEASURED: Judgement = (Verdict.MEASURED, None)


def test_a_crash_recovery_needs_proof_of_a_crash_and_a_clean_start_the_opposite() -> None:
    assert judge_recovery(GOOD) == clean_start.judge(NO_CRASH) == MEASURED
    assert clean_start.judge(GOOD)[0] is Verdict.VOID
    verdict, reason = judge_recovery(NO_CRASH)
    assert verdict is Verdict.VOID
    assert "does not show a crash recovery" in (reason or "")
    assert judge_recovery(replace(NO_CRASH, may_be_clean=True)) == MEASURED
    quiet = replace(START, crash_proof=None, phases=(Phase("innodb initialization", 0.0, 4.2),))
    assert "log_error_verbosity=3 would" in (judge_recovery(replace(GOOD, startup=quiet))[1] or "")


@pytest.mark.parametrize(
    ("change", "verdict", "words"),
    [
        ({"rows_found": 299, "rows_lost": 1}, Verdict.FAILED, "1 of 300 acknowledged rows are lost"),
        ({"rows_found": 300, "rows_lost": 1}, Verdict.FAILED, "1 of 300 acknowledged rows are lost"),
        ({"rows_found": 301}, Verdict.VOID, "1 rows more"),
        ({"tables_found": 499}, Verdict.FAILED, "499 tables after the start, 500 before"),
        (
            {"tables_found": 502},
            Verdict.VOID,
            "2 tables more than before the start: something else wrote to this server",
        ),
    ],
)
def test_lost_contents_fail_and_surplus_rows_are_void(change: dict[str, int], verdict: Verdict, words: str) -> None:
    for judge, measured in ((judge_recovery, GOOD), (clean_start.judge, NO_CRASH)):
        found, reason = judge(replace(measured, contents=replace(CONTENTS, **change)))
        assert found is verdict
        assert words in (reason or "")


def test_a_broken_promise_fails() -> None:
    assert judge_recovery(replace(GOOD, broken_promises=("1 lost", "kept"))) == (Verdict.FAILED, "1 lost; kept")
    assert judge_recovery(Measurement(broken_promises=("no start",))) == (Verdict.FAILED, "no start")
    assert judge_recovery(Measurement(startup=START)) == accept(Measurement()) == MEASURED


@pytest.mark.parametrize(
    ("read", "before", "data", "expected"),
    [
        (0, None, 22_000_000_000, True),
        (200_000_000, None, 22_000_000_000, True),  # under one percent of the data
        (19_000_000_000, None, 22_000_000_000, False),
        (5_000_000_000, 19_000_000_000, 22_000_000_000, False),
        (3_300_000_000, 3_200_000_000, 16_000_000_000, True),  # a server that bypasses the cache every time
        (2_100_000_000, 1_800_000_000, 22_000_000_000, True),  # a host that pages out what is idle: up and down
        (19_000_000_000, 300_000_000, 22_000_000_000, False),  # something else has taken the cache meanwhile
        (15_000_000, None, None, True),
        (17_000_000, None, None, False),
        (None, None, None, False),
    ],
)
def test_reads_become_stable(read: int | None, before: int | None, data: int | None, expected: bool) -> None:
    assert reads_are_stable(read, before=before, data_bytes=data) is expected


def test_one_warm_up_is_enough_if_the_reads_are_unknown() -> None:
    assert reads_are_stable(None, before=None, data_bytes=None, warmups=1)


class ReadingBench:
    """A bench whose starts read these numbers of bytes."""

    conditions = Conditions(())
    datadir = SimpleNamespace(state=SimpleNamespace(bytes=10**10))

    def __init__(self, *reads: int) -> None:
        self.reads = list(reads)
        self.resident = 0.0
        self.cache = SimpleNamespace(last_read_bytes=None, resident_share=lambda: self.resident)
        self.stops = 0
        self.logs: list[str] = []

    def timed_start(self, log_name: str) -> Measurement:
        self.logs.append(log_name)
        self.cache.last_read_bytes = self.reads.pop(0)
        self.resident = 1.0
        return Measurement(metrics={"read_bytes": self.cache.last_read_bytes}, startup=START)

    def run_before_start(self) -> bool:
        return False

    def stop(self) -> None:
        self.stops += 1


def warm_start(bench: ReadingBench) -> Measurement:
    return time_warm_start(cast(Bench, bench), lambda: "signal 9")


def test_warm_up_starts_are_not_counted() -> None:
    bench = ReadingBench(9 * 10**9, 10**9, 10**8)
    measured = warm_start(bench)
    assert (measured.warm.warmups, bench.stops) == (2, 2)
    assert measured.metrics["read_bytes"] == 10**8
    assert bench.logs[-1] == "timed-2.err"
    bench.reads = [10**8]
    assert warm_start(bench).warm.warmups == 0, "the cache is warm already"


def test_the_resident_share_is_measured_before_and_after_a_warm_start() -> None:
    assert warm_start(ReadingBench(10**7)).warm == WarmProof(warmups=0, resident_share=0.0, resident_share_after=1.0)


def test_reads_that_never_become_stable_are_no_warm_start() -> None:
    with pytest.raises(TrialVoidError, match="did not become stable"):
        warm_start(ReadingBench(*(10**10 // 2**number for number in range(MAX_WARMUPS)), 10**9))
