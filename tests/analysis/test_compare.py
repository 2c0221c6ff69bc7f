"""Sessions are compared by their means; a limit on slowness goes by the same intervals."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from math import exp, log, sqrt
from pathlib import Path
from typing import Any

import pytest
from at_work import interference, metadata
from runs import plain_variants, variants_with, with_axis_values

from recovery.analysis.compare import (
    Difference,
    LimitResult,
    Pair,
    cells_without_interval,
    compare,
    differences,
    incomplete_reason,
    is_worse,
    judge_baseline,
    judge_pairs,
    not_alike,
)
from recovery.analysis.contrasts import Contrast
from recovery.analysis.history import SessionCell, earlier_sessions, session_cells
from recovery.analysis.statistics import t975
from recovery.cli.main import run
from recovery.model import Run, Session, Verdict
from recovery.report.compare import comparison_answer, comparison_tables
from recovery.report.json_report import to_json
from recovery.storage.sessions import REPORT_FILE, find_session

ENVIRONMENT: dict[str, str | int | float | bool | None] = {"memory_bytes": 1, "load_1m": 0.5, "inodes_free": 1}
STEADY = (10.0, 10.1, 9.9, 10.05, 9.95)


def session(times: dict[str, tuple[float, ...]], *, variant: str = "cold", **settings: str | int | None) -> Session:
    runs = [
        Run(number, version, "mysql", variant, repeat, Verdict.MEASURED, metrics={"startup_s": seconds})
        for number, (version, repeat, seconds) in enumerate(
            ((version, repeat, seconds) for version, found in times.items() for repeat, seconds in enumerate(found, 1)),
            start=1,
        )
    ]
    return with_axis_values(Session(
        "cold-recovery", "q", "c", "s", ENVIRONMENT, {"tables": 10, **settings},
        tuple(times), plain_variants(variant), len(runs), runs=tuple(runs), tool_version="1",
    ))  # fmt: skip


def times_of(factor: float) -> tuple[float, ...]:
    return tuple(factor * seconds for seconds in STEADY)


def sessions_of(*factors: float, **changes: Any) -> list[Session]:
    """A side of several sessions, whose means are about ten times these."""
    return [replace(session({"5.7.22": times_of(factor)}), **changes) for factor in factors]


ALIKE = (1.0, 1.02, 0.98)
"""Factors between sessions of one server."""


def test_the_version_that_both_have_is_compared_or_else_the_only_one_of_each() -> None:
    one = session({"5.6.24": STEADY, "5.7.22": STEADY})
    (pair,) = compare([one], [session({"5.7.22": times_of(1.5)})]).pairs
    assert (pair.variant, pair.one.version, pair.other.version) == ("cold", "5.7.22", "5.7.22")
    assert pair.ratio == pytest.approx(1.5)
    (pair,) = compare([session({"5.7.22": STEADY})], [session({"5.7.23": times_of(1.2)})]).pairs
    assert (pair.one.version, pair.other.version) == ("5.7.22", "5.7.23")


def test_other_versions_and_variants_are_not_compared() -> None:
    one = session({"5.6.24": STEADY, "5.7.22": STEADY})
    assert compare([one], [session({"8.0.15": STEADY, "8.0.31": STEADY})]).pairs == ()
    assert compare([one], [session({"5.7.22": STEADY}, variant="warm")]).pairs == ()


def test_differences_of_tool_host_and_settings_are_listed() -> None:
    """But not what changes by itself, such as the load average."""
    one, other = session({"5.7.22": STEADY}), session({"5.7.22": STEADY}, tables=20, runs=3, seed=5, trace=1)
    other = replace(
        other,
        environment={"memory_bytes": 2, "load_1m": 0.9, "inodes_free": 2, "probe_4k_1_iops": 5.0},
        tool_version="2",
    )
    assert compare([one], [other]).differences == (
        Difference("tool", "1", "2"),
        Difference("host: memory bytes", "1", "2"),
        Difference("tables", "10", "20"),
        Difference("trace", "-", "1"),
    )
    assert compare([one], [one]).differences == ()
    unset, limited = session({"5.7.22": STEADY}, read_iops=None), session({"5.7.22": STEADY}, read_iops=5000, trace=0)
    assert compare([unset], [limited]).differences == (Difference("read iops", "-", "5000"),)


def test_what_differs_among_several_sessions_is_one_row_with_all_values() -> None:
    sessions = [session({"5.7.22": STEADY}, set=name) for name in ("a", "b", "c", "b", "a")]
    assert [(found.what, found.one, found.other) for found in differences(sessions)] == [("set", "a", "b, c")]


def test_hosts_are_judged_by_the_sessions_that_measured_the_pair() -> None:
    """A session of the other host without a measured run joins no hosts, and an unrecorded one hides no difference."""
    first, second = (sessions_of(*ALIKE, environment={**ENVIRONMENT, "host_id": f"1-{name}"}) for name in "ab")
    failed = replace(second[0], runs=tuple(replace(run, verdict=Verdict.FAILED) for run in second[0].runs))
    sides = ([*first, failed], second)
    (pair,) = compare(*sides).pairs
    assert (pair.confounded_by, pair.significant) == ("host", None)
    said = comparison_answer(compare(*sides), sides, (["s"] * 4, ["s"] * 3)).doubts
    assert sum(line.startswith("The sides are of different hosts, so nothing is claimed") for line in said) == 1
    both = ([*first, second[0]], second[1:])
    assert compare(*both).pairs[0].confounded_by == ""
    assert not any("hosts" in line for line in comparison_answer(compare(*both), both, (["s"] * 4, ["s"] * 2)).doubts)


def test_different_settings_of_the_servers_are_listed() -> None:
    one = replace(
        session({"5.7.22": STEADY}), servers={"5.7.22": {"sha256": "a", "build_s": "1.1", "@innodb_open_files": "300"}}
    )
    other = replace(
        session({"5.7.23": STEADY}), servers={"5.7.23": {"sha256": "b", "build_s": "2.0", "@innodb_open_files": "4000"}}
    )
    assert compare([one], [other]).differences == (Difference("server: @innodb open files", "300", "4000"),)


def test_a_failed_session_has_no_ratio_and_is_incomplete() -> None:
    one, other = session({"5.7.22": STEADY}), session({"5.7.22": STEADY})
    assert incomplete_reason(other) is None
    failed = replace(other, runs=tuple(replace(run, verdict=Verdict.FAILED) for run in other.runs))
    (pair,) = compare([one], [failed]).pairs
    assert (pair.ratio, pair.other.failed) == (None, 5)
    assert incomplete_reason(failed) == "5 of its 5 runs failed, were void or are missing"
    assert incomplete_reason(replace(other, runs=other.runs[:3])) is not None


@pytest.mark.parametrize(
    ("factor", "allowed", "too_slow"),
    [(1.3, 0.1, True), (1.3, 0.5, False), (1.0, 0.0, False), (0.5, 0.0, False), (1.05, 0.1, False)],
)
def test_slower_than_allowed(factor: float, allowed: float, *, too_slow: bool) -> None:
    found = compare(sessions_of(*ALIKE), sessions_of(*(factor * alike for alike in ALIKE)))
    assert bool(judge_pairs(found, allowed).exceeded) is too_slow
    two = session({"5.7.22": STEADY, "8.0.31": times_of(factor)})
    assert bool(judge_baseline(two, allowed).exceeded) is too_slow


@pytest.mark.parametrize(
    ("before", "after", "significant"),
    [
        (ALIKE, (0.5, 2.0, 0.9, 1.8, 0.8), False),
        (ALIKE, (1.5,), True),
        (ALIKE, (1.05,), False),
        ((1.0,), (1.5,), None),
        ((1.0, 1.02), (1.5, 1.51, 1.52), None),
    ],
)
def test_a_difference_is_claimed_against_the_spread_between_three_sessions_of_the_first(
    before: tuple[float, ...], after: tuple[float, ...], significant: bool | None
) -> None:
    found = compare(sessions_of(*before), sessions_of(*after))
    (pair,) = found.pairs
    assert (pair.significant, pair.differs) == (significant, significant)
    assert pair.claim_sessions == (len(before), len(after))
    assert (pair.ratio is not None, pair.ratio_low is None) == (True, significant is None)
    assert bool(judge_pairs(found, 0.1).exceeded) is bool(significant)


def noisy(rng: random.Random, factor: float) -> tuple[float, ...]:
    return tuple(factor * exp(rng.gauss(0, 0.03)) for _ in range(5))


@pytest.mark.parametrize(("slower", "least", "most"), [(1.08, 0, 12), (1.1, 0, 20), (1.2, 290, 400)])
def test_a_limit_is_exceeded_only_where_the_whole_interval_is_over_it(slower: float, least: int, most: int) -> None:
    """Of 400 sessions with a noise of 3 %, at most 5 % may fail at a ratio of the limit itself."""
    rng = random.Random(7)  # noqa: S311 - of a test
    two = [session({"5.7.22": noisy(rng, 1.0), "8.0.31": noisy(rng, slower)}) for _ in range(400)]
    assert least <= sum(bool(judge_baseline(one, 0.1).exceeded) for one in two) <= most


def test_a_limit_inside_the_interval_is_undecided_and_says_how_many_runs_would_decide() -> None:
    found = judge_baseline(session({"5.7.22": STEADY, "8.0.31": (10.4, 11.2, 10.2, 11.5, 10.6)}), 0.1)
    assert found.exceeded == ()
    (text,) = found.undecided
    assert re.search(r"about \d+ runs of each would", text)
    few = judge_pairs(compare(sessions_of(1.0, 1.05, 0.95), sessions_of(1.06, 1.12, 1.02)), 0.1)
    assert re.search(r"about \d+ sessions of each would", few.undecided[0])


@pytest.mark.parametrize(
    ("of_first", "of_second", "confounded_by"),
    [
        (("01", "01", "01"), ("02", "02", "02"), "day"),
        (("01", "01", "02"), ("03", "03", "03"), ""),
        (("01", "01", "01"), ("01", "02", "02"), ""),
    ],
)
def test_sessions_of_one_day_claim_nothing_against_those_of_another(
    of_first: Sequence[str], of_second: Sequence[str], confounded_by: str
) -> None:
    """Back to back they are more alike than sessions of two days."""

    def side(days: Sequence[str], factor: float) -> list[Session]:
        times = [f"2026-11-{day}T1{hour}:00:00+00:00" for hour, day in enumerate(days)]
        found = zip(sessions_of(*(factor * alike for alike in ALIKE)), times, strict=True)
        return [replace(session, started_at=time) for session, time in found]

    (pair,) = compare(side(of_first, 1.0), side(of_second, 1.5)).pairs
    assert (pair.confounded_by, pair.significant) == (confounded_by, None if confounded_by else True)
    assert bool(judge_pairs(compare(side(of_first, 1.0), side(of_second, 1.5)), 0.1).exceeded) is not bool(
        confounded_by
    )


def test_sessions_of_one_host_claim_nothing_against_those_of_another() -> None:
    first, second = (sessions_of(*ALIKE, environment={**ENVIRONMENT, "host_id": f"1-{name}"}) for name in "ab")
    (pair,) = compare(first, second).pairs
    assert (pair.confounded_by, pair.significant) == ("host", None)
    assert pair.ratio == pytest.approx(1.0)


def test_a_limit_is_judged_by_the_same_interval_both_ways() -> None:
    """Twice as long with a noise of 25 %: the old interval grew with the ratio, and held 1 as 2.0 but not as 0.5."""
    slow, fast = sessions_of(1.4, 2.0, 2.6), sessions_of(0.7, 1.0, 1.3)
    (up,), (down,) = compare(fast, slow).pairs, compare(slow, fast).pairs
    assert up.differs is down.differs
    assert up.ratio_low == pytest.approx(1 / (down.ratio_high or 0))


def test_several_sessions_of_a_side_are_compared_by_their_means() -> None:
    """Their runs alone would call sessions of one server different."""
    ones = [session({"5.7.22": times_of(factor)}) for factor in (6.4, 6.53, 8.85)]
    (alone,) = compare([ones[0]], [ones[2]]).pairs
    assert (alone.differs, alone.significant) == (None, None)
    (pair,) = compare(ones, [session({"5.7.22": times_of(factor)}) for factor in (6.5, 6.6, 8.7)]).pairs
    assert pair.differs is False
    assert [round(each.mean or 0, 1) for each in pair.one_sessions] == [64.0, 65.3, 88.5]
    assert (pair.one.count, pair.other.count) == (15, 15)
    assert pair.one.mean == pytest.approx((64 * 65.3 * 88.5) ** (1 / 3))
    assert (pair.one.interval or 0) > 20
    few = compare(ones[:2], [ones[2]]).pairs[0]
    assert (few.ratio is not None, few.differs) == (True, None)


def test_a_precision_within_sessions_changes_no_interval_over_them() -> None:
    """Over sessions, each is one value, however precise it is."""

    def pair(precision: float | None) -> Pair:
        sides = [sessions_of(1.0, 1.1, 1.2), sessions_of(2.0, 2.1, 2.2)]
        first = sides[0][0]
        sides[0][0] = replace(first, settings={**first.settings, "precision": precision})
        return compare(sides[0], sides[1]).pairs[0]

    plain, precise = pair(None), pair(0.02)
    assert precise.one.interval == plain.one.interval
    assert (precise.ratio_low, precise.ratio_high) == (plain.ratio_low, plain.ratio_high)


def test_sides_of_one_version_each_may_not_mix_versions() -> None:
    mixed = [session({"5.7.22": STEADY}), session({"8.0.31": times_of(3)})]
    assert compare(mixed, [session({"9.7.4": times_of(2)})]).pairs == ()


def test_a_session_without_the_variant_shifts_no_name() -> None:
    warm, cold = session({"5.7.22": STEADY}, variant="warm"), session({"5.7.22": times_of(5)})
    found = compare([warm, cold], [session({"5.7.22": times_of(5)})])
    (pair,) = found.pairs
    assert [(each.place, round(each.mean or 0)) for each in pair.one_sessions] == [(1, 50)]
    _, spread, *_ = comparison_tables(found, (["A-warm", "B-cold"], ["C"]))
    assert [row[3] for row in spread.rows] == ["B-cold", "C"]


def test_second_starts_judge_no_limit() -> None:
    """Those are not compared; a limit that they were meant for is not kept."""
    two = session({"5.7.22": STEADY, "8.0.31": times_of(4)}, variant="second start")
    two = replace(two, variants=variants_with({name: {"cache": name} for name in ("warm", "second start")}))
    assert judge_baseline(two, 0.1) == LimitResult()
    assert cells_without_interval(two) == ("8.0.31 warm",)
    assert cells_without_interval(session({"5.7.22": STEADY, "8.0.31": times_of(4)})) == ()


def test_the_baseline_may_be_any_version() -> None:
    two = session({"5.7.22": times_of(2.0), "8.0.31": STEADY}, baseline="8.0.31")
    (text,) = judge_baseline(two, 0.1).exceeded
    assert text.startswith("5.7.22 cold takes 2.00 (")


# --- Loads


def scaled(session: Session, factor: float) -> Session:
    runs = (replace(one, metrics={name: value * factor for name, value in one.metrics.items()}) for one in session.runs)
    return replace(session, runs=tuple(runs))


def loads(factor: float) -> list[Session]:
    return [scaled(interference(), factor * alike) for alike in ALIKE]


def test_sessions_of_loads_are_compared_by_their_metric() -> None:
    one = loads(1.0)
    found = compare(one, loads(0.8))
    assert {round(pair.ratio or 0, 3) for pair in found.pairs} == {0.8}
    exceeded = judge_pairs(found, 0.1).exceeded
    assert len(exceeded) == len(found.pairs) == 12
    assert exceeded[0].startswith("the second, 5.7.22 400-off, has 0.80 (")
    assert judge_pairs(found, 0.3) == LimitResult()
    assert judge_pairs(compare(one, loads(1.2)), 0.1) == LimitResult(), "more queries are no worse"
    table = comparison_tables(found, ([*"abc"], [*"def"]))[0]
    assert table.title == "3 sessions (second) compared with 3 sessions (first), mean queries/s"
    assert "More is better." in table.notes


def test_a_limit_goes_by_the_metric() -> None:
    (text,) = judge_baseline(metadata(), 0.5).exceeded
    assert text.startswith("8.0.31 dump takes 3.38 (")
    assert judge_baseline(interference(), 0.05).exceeded[0].startswith("8.0.31 400-off has 0.93 (")
    gone = Contrast(difference=-1000.0, difference_error=10.0, significant=True)
    assert is_worse("qps", gone, 0.1)
    assert not is_worse("client_errors", gone, 0.1)
    assert not is_worse("qps", replace(gone, significant=False), 0.1)


def test_all_pairs_of_the_table_are_taken_together() -> None:
    """One cell that differs by itself at 4 % is no claim among twelve."""
    one, other = loads(1.0), loads(1.0)
    (*_, changed) = compare(one, other).pairs
    cell = (changed.one.version, changed.variant)
    lower = [
        replace(found, runs=tuple(
            replace(run, metrics={name: 0.95 * value for name, value in run.metrics.items()})
            if (run.version, run.variant) == cell else run for run in found.runs
        ))
        for found in other
    ]  # fmt: skip
    found = compare(one, lower).pairs[-1]
    assert (found.differs, found.significant) == (True, False)


def test_the_command_compares_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = {"a": loads(1.0), "b": loads(0.5), "c": [metadata()]}
    for name, found in sides.items():
        for number, one in enumerate(found, 1):
            (tmp_path / f"{name}{number}").mkdir()
            (tmp_path / f"{name}{number}" / REPORT_FILE).write_bytes(to_json(one))
    where = ["--results", str(tmp_path)]
    assert run(["compare", "a1,a2,a3", "b1,b2,b3", *where, "--fail-over", "20%"]) == 4
    assert "More is better" in capsys.readouterr().out
    assert run(["compare", "a1,a2,a3", "b1", "--json", *where]) == 0
    pair = json.loads(capsys.readouterr().out)["pairs"][0]
    assert pair["ratio"] == pytest.approx(0.5, rel=0.01)
    assert (pair["claim_sessions"], pair["significant"]) == ([3, 1], True)
    assert run(["compare", "a1", "c1", *where]) == 2
    assert "queries/s" in capsys.readouterr().err


# --- Other sessions of the host and design

HOST = {"host_id": "0123456789ab"}
OLD, NEW = ({"5.7.22": {"sha256": letter * 64}} for letter in "ab")


def day(number: int, factor: float, servers: dict[str, dict[str, str]] = OLD, **host: str) -> Session:
    """A session of this day of the month."""
    (found,) = sessions_of(factor, started_at=f"2026-11-{number:02}T10:00:00+00:00", servers=servers)
    return replace(found, environment={**ENVIRONMENT, **HOST, **host})


def cells_of(*sessions: Session) -> list[SessionCell]:
    return [cell for number, found in enumerate(sessions) for cell in session_cells(f"s{number}", found).values()]


def test_other_sessions_of_the_host_and_design_count_for_the_spread_and_not_for_the_mean() -> None:
    """Each side around its own mean: here four of the first and two of the second."""
    first, second = day(10, 1.0), day(11, 1.3, NEW)
    others = [day(12, 1.1), day(13, 1.04), day(14, 0.9), day(15, 1.2, NEW)]
    elsewhere = [day(16, 9.0, host_id="ffffffffffff"), day(17, 9.0, {"5.7.22": {"sha256": "c" * 64}})]
    (pair,) = compare([first], [second], cells_of(*others, *elsewhere, first, second)).pairs
    assert pair.ratio == pytest.approx(1.3)
    assert pair.claim_sessions == (4, 2)
    assert [session.session for session in pair.one_earlier] == ["s0", "s1", "s2"]
    assert [session.session for session in pair.other_earlier] == ["s3"]
    sides = [[log(value) for value in side] for side in ((1.0, 1.1, 1.04, 0.9), (1.3, 1.2))]
    square = sum((value - sum(side) / len(side)) ** 2 for side in sides for value in side) / 4
    half = t975(4) * sqrt(2 * square)
    assert (pair.ratio_low, pair.ratio_high) == pytest.approx((1.3 * exp(-half), 1.3 * exp(half)))


def test_of_sides_of_one_design_all_others_belong_to_the_first() -> None:
    first, second = day(10, 1.0), day(11, 1.3)
    others = cells_of(day(12, 1.1), day(13, 1.04))
    (pair,) = compare([first], [second], others).pairs
    assert (pair.claim_sessions, pair.other_earlier) == ((3, 1), ())
    (alone,) = compare([first], [second], others[:1]).pairs
    assert (alone.claim_sessions, alone.significant) == ((2, 1), None), "the second is none of the first"


def test_earlier_sessions_that_are_stored_with_a_session_count_once() -> None:
    """The folder of a session may be somewhere else than those before it."""
    before = [day(12, 1.1), day(13, 1.04)]
    first = day(20, 1.0)
    first = replace(first, earlier=earlier_sessions(first, cells_of(*before)))
    assert len(first.earlier) == 2
    for known in ((), before):
        (pair,) = compare([first], [day(21, 1.3, NEW)], cells_of(*known)).pairs
        assert pair.claim_sessions == (3, 1)


def test_three_named_sessions_on_each_side_need_no_others() -> None:
    named = [[day(number, alike) for number, alike in enumerate(ALIKE, 10)],
             [day(number, 1.3 * alike, NEW) for number, alike in enumerate(ALIKE, 20)]]  # fmt: skip
    plain, more = (compare(named[0], named[1], others) for others in ((), cells_of(day(15, 9.0))))
    assert plain == more
    assert plain.pairs[0].claim_sessions == (3, 3)


# --- What the command says first


def stored_in(folder: Path, name: str, times: dict[str, tuple[float, ...]], **changes: Any) -> Path:
    made = replace(session(times, **changes.pop("settings", {})), status="finished", **changes)
    (folder / name).mkdir(parents=True)
    (folder / name / REPORT_FILE).write_bytes(to_json(made))
    return folder / name


def build(path: str, sha256: str) -> dict[str, dict[str, str]]:
    return {"8.0.31": {"source": f"own {path}", "sha256": sha256 * 16}}


def test_two_builds_of_one_version_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = stored_in(tmp_path, "a", {"8.0.31": STEADY}, servers=build("/a/mysqld", "abcd"))
    note = {"note": "with the patch"}
    other = stored_in(tmp_path, "b", {"8.0.31": times_of(1.5)}, servers=build("/b/mysqld", "1234"), settings=note)
    assert run(["compare", str(one), str(other)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for words in (
        "The second takes 1.50 times as long as the first, cold: no claim. Sessions of one server differ more than "
        "their runs. A claim needs 3 sessions of the first side on its host; 1 is known.",
        "first: a: 8.0.31 (own /a/mysqld, SHA-256 abcdabcdabcd)",
        "second: b: 8.0.31 (own /b/mysqld, SHA-256 123412341234); note: with the patch",
    ):
        assert words in said


def test_two_sessions_of_one_binary_are_named_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "ab":
        stored_in(tmp_path, name, {"8.0.31": STEADY}, servers=build("/a/mysqld", "abcd"))
    assert run(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "The second takes 1.00 times as long as the first, cold: no claim." in said
    assert "Both sides are the same binary" in said


def test_without_arguments_the_two_newest_finished_sessions_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("20260101T000000Z-x", "20260102T000000Z-x", "20260103T000000Z-x"):
        stored_in(tmp_path, name, {"8.0.31": STEADY})
    unfinished = stored_in(tmp_path, "20260104T000000Z-x", {"8.0.31": STEADY})
    report = json.loads((unfinished / REPORT_FILE).read_text())
    (unfinished / REPORT_FILE).write_text(json.dumps({**report, "status": "interrupted"}))
    assert run(["compare", "--results", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "first: 20260102T000000Z-x" in said
    assert "second: 20260103T000000Z-x" in said


def test_the_two_newest_are_those_that_started_last_whatever_their_folders_are_called(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for day, name in enumerate(("zero", "before", "after"), start=1):
        stored_in(tmp_path, name, {"8.0.31": STEADY}, started_at=f"2026-01-0{day}T00:00:00+00:00")
    damaged = stored_in(tmp_path, "damaged", {"8.0.31": STEADY}, started_at="2026-01-04T00:00:00+00:00")
    (damaged / REPORT_FILE).write_bytes((damaged / REPORT_FILE).read_bytes()[:-9])
    assert run(["compare", "--results", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "first: before: " in said
    assert "second: after: " in said
    assert find_session(tmp_path, None).name == "damaged", "the newest of all, without a link to it"


def test_sessions_whose_starts_were_traced_are_another_measurement() -> None:
    """As kept sessions say in a setting that no option makes."""
    one = session({"8.0.31": STEADY})
    traced = replace(one, settings={**one.settings, "traced_starts": True})
    assert not_alike(one, traced) == "traced starts is - and True"
    assert not_alike(traced, traced) is None


def test_sessions_whose_cache_was_emptied_in_different_ways_are_not_one_measurement() -> None:
    one, other = (
        replace(session({"8.0.31": STEADY}), environment={"cold_means": means}) for means in ("drop_caches", "fadvise")
    )
    assert not_alike(one, other) == "the cache is emptied by drop_caches and fadvise"
    assert not_alike(one, replace(other, environment={})) is None, "it is not known of one"


def test_a_ratio_that_changes_with_the_storage_names_it() -> None:
    def side(version: str, reads: float) -> list[Session]:
        made = session({version: STEADY})
        runs = (replace(run, metrics=run.metrics | {"read_requests": reads}) for run in made.runs)
        return [replace(made, runs=tuple(runs), settings={"tables": 200_000, "schemas": 1})]

    def sentence(first: list[Session], second: list[Session]) -> str:
        return comparison_answer(compare(first, second), (first, second), (["a"], ["b"])).comparison[0]

    waits, alike, other = side("5.7.22", 400_000.0), side("8.0.31", 600_000.0), side("mariadb-10.11.5", 8000.0)
    same = "The second takes 1.00 times as long as the first, cold"
    assert sentence(waits, other) == f"{same}, on this storage: no claim."
    assert sentence(waits, alike) == f"{same}: no claim."


def stored_on(
    folder: Path, name: str, factor: float, number: int, *, server: str = "a", host: str | None = "a"
) -> None:
    stored_in(
        folder, name, {"8.0.31": times_of(factor)}, servers=build("/a/mysqld", server * 4),
        started_at=f"2026-11-{number:02}T10:00:00+00:00", environment={**ENVIRONMENT, "host_id": host and host * 12},
    )  # fmt: skip


def test_a_limit_needs_three_sessions_of_the_first_and_says_how_to_get_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored_on(tmp_path, "base", 1.0, 10)
    stored_on(tmp_path, "new", 1.5, 20, server="b")
    command = ["compare", "base", "new", "--results", str(tmp_path), "--fail-over", "10%"]
    assert run(command) == 2
    said = capsys.readouterr().err
    assert "needs 3 sessions of the first, by which a difference is judged: 8.0.31 cold has 1 session" in said
    assert "name 3 of them, A,B,C, or have them in --results, measured on one host" in said
    assert '`make recovery VERSION="A B" FAIL_OVER=10%`' in said
    stored_on(tmp_path, "before-1", 1.02, 8)
    stored_on(tmp_path, "before-2", 0.98, 9)
    stored_on(tmp_path, "elsewhere", 7.0, 9, host="b")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / REPORT_FILE).write_text("{")
    assert run(command) == 4
    printed = capsys.readouterr()
    assert "The second takes 1.50 (1.3" in printed.out
    assert "before-1" in printed.out
    assert "elsewhere" not in printed.out
    named = "the second, 8.0.31 cold, takes 1.50 (1.33-1.69) times as long as the first, 1.1 are allowed"
    assert named in printed.err, "both have one server"


def test_a_limit_on_a_mean_of_zero_needs_three_sessions_of_each_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (10, 11, 12):
        stored_on(tmp_path, f"zero-{number}", 0.0, number)
    stored_on(tmp_path, "new", 1.5, 20, server="b")
    assert run(["compare", "zero-10,zero-11,zero-12", "new", "--results", str(tmp_path), "--fail-over", "10%"]) == 2
    printed = capsys.readouterr()
    need = "mean of zero has no ratio, and a claim about a difference needs 3 sessions of each side"
    assert f"FAIL_OVER: 8.0.31 cold cannot be judged: a {need}: 3 and 1 are named" in printed.err
    assert "name 3 of each: `recovery compare A,B,C D,E,F`" in printed.err
    assert f"A {need}." in " ".join(printed.out.split())
    assert "sessions of the first side" not in printed.out


def test_sides_of_different_hosts_are_named_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored_on(tmp_path, "one", 1.0, 10)
    stored_on(tmp_path, "other", 1.5, 11, host="b")
    line = "The sides are of different hosts, so nothing is claimed"
    assert run(["compare", "one", "other", "--results", str(tmp_path)]) == 0
    assert line in capsys.readouterr().out
    stored_on(tmp_path, "third", 1.5, 12)
    assert run(["compare", "one", "third", "--results", str(tmp_path)]) == 0
    assert line not in capsys.readouterr().out
    stored_on(tmp_path, "unknown", 1.5, 13, host=None)
    assert run(["compare", "one", "unknown", "--results", str(tmp_path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert line not in said
    assert "Whether the sides are of one host is not known, because one of them has no id of its host" in said
    assert "host id" not in said
