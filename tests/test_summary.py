"""Are the averages what a reader takes them for?"""

from __future__ import annotations

import pytest

from recovery.analysis.summary import Summary, mean, summarise
from recovery.model import Run, Session, Verdict


def run(version: str, startup_s: float | None, *, variant: str = "cold", verdict: Verdict = Verdict.MEASURED) -> Run:
    return Run(
        number=1, version=version, flavor="mysql", variant=variant, repeat=1, verdict=verdict, startup_s=startup_s
    )


def summaries_of(runs: list[Run], versions: tuple[str, ...] = ("5.7.22",)) -> tuple[Summary, ...]:
    variants = tuple(dict.fromkeys(run.variant for run in runs))
    return summarise(Session("s", "q", "c", "now", {}, {}, versions, variants, len(runs), runs=tuple(runs)))


def test_figures_of_measured_runs() -> None:
    (summary,) = summaries_of([run("5.7.22", time_s) for time_s in (1.0, 2.0, 6.0)])
    assert (summary.count, summary.mean, summary.median, summary.min, summary.max) == (3, 3.0, 2.0, 1.0, 6.0)
    # Squares of the distances are 4, 1 and 9: 14 over n - 1, not over n.
    assert summary.stdev == pytest.approx(7**0.5)


def test_failed_and_void_runs_are_counted_and_never_averaged() -> None:
    runs = [
        run("5.7.22", 2.0),
        run("5.7.22", 100.0, verdict=Verdict.VOID),
        run("5.7.22", 100.0, verdict=Verdict.FAILED),
        run("5.7.22", None, verdict=Verdict.FAILED),
    ]
    (summary,) = summaries_of(runs)
    assert (summary.count, summary.mean, summary.max) == (1, 2.0, 2.0)
    assert (summary.failed, summary.void) == (2, 1)


def test_nothing_measured_is_none_and_never_zero() -> None:
    (summary,) = summaries_of([run("5.7.22", 1.0, verdict=Verdict.VOID)])
    assert summary.count == 0
    figures = (summary.mean, summary.median, summary.min, summary.max, summary.stdev, summary.ratio)
    assert figures == (None,) * 6


def test_one_run_has_no_spread() -> None:
    (summary,) = summaries_of([run("5.7.22", 1.0)])
    assert (summary.mean, summary.stdev) == (1.0, None)


def test_ratio_is_to_the_first_version_of_the_same_variant() -> None:
    runs = [
        run("5.6.24", 10.0),
        run("5.7.22", 20.0),
        run("5.6.24", 4.0, variant="warm"),
        run("5.7.22", 2.0, variant="warm"),
    ]
    summaries = summaries_of(runs, ("5.6.24", "5.7.22"))
    assert [(summary.version, summary.variant, summary.ratio) for summary in summaries] == [
        ("5.6.24", "cold", 1.0),
        ("5.6.24", "warm", 1.0),
        ("5.7.22", "cold", 2.0),
        ("5.7.22", "warm", 0.5),
    ]


def test_no_ratio_where_the_first_version_has_no_figure() -> None:
    summaries = summaries_of([run("5.7.22", 1.0)], ("5.6.24", "5.7.22"))
    assert [summary.ratio for summary in summaries] == [None, None]


def test_no_ratio_of_starts_of_no_time() -> None:
    runs = [run(version, time) for version, time in (("5.6.24", 1.0), ("5.7.22", 0.0)) for _ in range(3)]
    summaries = summaries_of(runs, ("5.6.24", "5.7.22"))
    assert [summary.ratio for summary in summaries] == [1.0, None]


def test_nothing_at_all() -> None:
    assert summaries_of([]) == ()
    assert mean([None, None]) is None
    assert mean([None, 2.0, 4.0]) == 3.0
