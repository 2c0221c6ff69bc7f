"""The page is well-formed, shows everything that was measured, and treats what comes from outside as text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from at_work import NEW, OLD, SMALL, interference, table_cache, write_scaling
from everything import FOLDED, HOSTILE, a_session, everything, growing, with_in_every_text
from html_page import HtmlPage, check_page
from sessions import with_metrics

from recovery.analysis.summary import groups
from recovery.model import Axis, Session, Timeline
from recovery.report.fmt import rounded_axis
from recovery.report.html.growth_charts import growth_charts
from recovery.report.html.load_read_charts import page_size_charts
from recovery.report.html.page import render
from recovery.report.html.read_charts import floor_chart
from recovery.report.html.scaling_charts import scaling_charts
from recovery.report.html.svg import Chart, FoldedParts, Panels, flame_graph
from recovery.report.html.timelines import rates
from recovery.report.html.timelines import timelines as all_timelines
from recovery.report.stored_session import load_session


def pictures(session: Session) -> dict[int, str]:
    return {run.number: flame_graph(f"run {run.version}", FOLDED, ("redo scan",)) for run in session.runs if run.stacks}


@pytest.fixture(scope="module")
def whole_page() -> str:
    return render(everything(), pictures(everything()))


SESSIONS: dict[str, Callable[[], Session]] = {
    "growing": growing,
    "predicted": lambda: growing(100_000),
    "predicted far": lambda: growing(1_000_000),
    "no runs": lambda: a_session(()),
    "one run": lambda: a_session(everything().runs[:1]),
    "hostile": lambda: with_in_every_text(everything(), HOSTILE),
    "hostile points": lambda: replace(growing(), settings={"points": f"1000 {HOSTILE} 50000"}),
    **SMALL,
}


@pytest.mark.parametrize("name", SESSIONS)
def test_the_page_is_well_formed(name: str) -> None:
    session = SESSIONS[name]()
    page = check_page(render(session, pictures(session)))
    words = " ".join(page.texts)
    assert ("Effects of the settings" in words) == (name in ("interference", "table-cache", "write-scaling"))
    assert ("Hottest functions of 5.7.22 dump, run 37: 480 stacks by perf" in words) == (name == "metadata")


def test_texts_from_outside_never_become_markup(whole_page: str) -> None:
    session = with_in_every_text(everything(), HOSTILE)
    chains = {tuple(name + HOSTILE for name in names): count for names, count in FOLDED.items()}
    page = check_page(render(session, {92: flame_graph(f"run{HOSTILE}", chains, ("redo scan",))}))
    assert page.names == HtmlPage(whole_page).names
    # They are shown as text: versions, variants, notes, chains, settings, servers.
    assert sum("<script>alert(1)</script>\"'&" in text for text in page.texts) > 100
    for shown in ("io2, 5000 IOPS", "it did not come back", "fil_ibd_open", "AMD EPYC", "@innodb_flush", "--tables"):
        assert any(shown in text and "<script>" in text for text in page.texts), shown
    load = interference(caches=("400",))
    axes = (Axis(HOSTILE, ("off", HOSTILE), "off"),)
    cells = {name: {HOSTILE: "off" if cell["poll"] == "off" else HOSTILE} for name, cell in load.cells.items()}
    check_page(render(replace(load, axes=axes, cells=cells, title=HOSTILE)))


def test_the_page_refers_to_no_other_address(whole_page: str) -> None:
    addresses = set(re.findall(r"(?:https?:)?//[\w.]+[^\s\"')<]*", whole_page))
    assert addresses <= {"http://www.w3.org/2000/svg"}


def test_everything_that_was_measured_is_drawn(whole_page: str) -> None:
    ids = check_page(whole_page).ids
    charts = {"bars-1", "phases-chart", "reads-chart", "floor-chart", "timeline-1"}
    assert {f"{name}-title" for name in charts} <= set(ids)
    assert {"touched", "stacks", "over-time", "runs", "measured-on", "repeat"} <= set(ids)
    few = set(HtmlPage(render(a_session(tuple(replace(run, timeline=None) for run in everything().runs[:2])))).ids)
    assert not {"over-time", "stacks", "floor", "growth"} & few


def test_a_server_that_does_not_read_every_file_has_no_bar_over_the_floor() -> None:
    chart = floor_chart(everything())
    assert chart is not None
    assert "mariadb" not in chart.svg
    assert chart.svg.count('class="bar') == 4
    assert chart.notes == ("No floor for mariadb-10.11.5 cold: the start does not read every file.",)
    (floor, *_) = everything().floors
    assert floor_chart(replace(everything(), floors=(replace(floor, many_threads_s=900.0),))) is None


# --- Growth


def test_only_a_straight_line_that_passes_its_test_has_a_whisker(kept_sessions: Path) -> None:
    session = growing(1_000_000)
    (_, straight) = growth_charts(session)
    assert "whisker" in straight.svg
    bent = [
        with_metrics(run, startup_s=2 * run.metrics["startup_s"]) if run.tables == 50_000 else run
        for run in session.runs
    ]
    assert len(growth_charts(replace(session, runs=tuple(bent)))) == 1, "no prediction is drawn"
    growth, predicted = growth_charts(load_session(kept_sessions / "2026-11-21-scale"))
    assert "452.1 s" in predicted.svg
    assert "5.7.22 cold, tested: 200,000 tables took +6%" in predicted.svg
    assert "8.0.31" not in predicted.svg
    assert "whisker" not in predicted.svg
    assert growth.svg.count('class="series s0"') == 4, "from point to point"


# --- Axes and curves


@pytest.mark.parametrize(
    ("most", "end", "ticks"), [(55.4, 60, 7), (100, 100, 5), (200_000, 200_000, 5), (0.69, 0.8, 5), (0, 4, 5)]
)
def test_axes_end_at_round_numbers(most: float, end: float, ticks: int) -> None:
    found = rounded_axis(most)
    assert found.maximum == pytest.approx(end)
    assert len(found.ticks()) == ticks
    assert found.at(found.ticks()[-1]) == pytest.approx(100)


def test_rates_are_between_samples() -> None:
    assert rates((1.0, 2.0, 4.0), (5, 10, 30)) == [(0, 1, 5), (1, 2, 5), (2, 4, 10)]
    assert rates((1.0, 1.0), (5, 5)) == [(0, 1, 5)]
    assert rates((1.0, 2.0), ()) == []
    many = rates([0.2 * number for number in range(1, 5000)], [float(number) for number in range(1, 5000)])
    assert len(many) < 300
    assert many[-1][1] == pytest.approx(0.2 * 4999)


# --- Charts of servers under load


def timelines(session: Session, timeline: Timeline | None = None) -> tuple[Chart, ...]:
    """The charts that are not folded, of runs that all have this timeline."""
    if timeline is not None:
        session = replace(session, runs=tuple(replace(run, timeline=timeline) for run in session.runs))
    return tuple(one for one in all_timelines(session) if isinstance(one, Chart))


def test_each_cell_has_a_line_against_the_scale() -> None:
    session = interference()
    (group,) = groups(session)
    chart = scaling_charts(session, group, "k")
    assert isinstance(chart, Chart), "one panel is a chart"
    assert [one.name for one in chart.legend] == [
        f"{version}, poll={poll}" for version in (OLD, NEW) for poll in ("off", "on")
    ]
    assert chart.svg.count('class="run ') == len(session.runs), "every run is there"
    assert chart.svg.count('class="series ') == 4 * 2
    assert chart.svg.count('class="upright ') == 4 * 3


def test_too_many_lines_are_split_into_panels_of_one_scale_from_zero() -> None:
    session = table_cache()
    found = scaling_charts(session, groups(session)[0], "k")
    assert isinstance(found, Panels)
    assert [chart.title for chart in found.charts] == ["tables 1", "tables 2", "tables 3"]
    assert len(found.legend) == 6
    ticks = [re.findall(r'class="tick">([\d.]+k?)<', chart.svg) for chart in found.charts]
    assert ticks[0] == ticks[1] == ticks[2]
    assert ticks[0][0] == "0"
    whole = write_scaling()
    found = scaling_charts(whole, groups(whole)[0], "k")
    assert isinstance(found, Panels)
    assert [chart.title for chart in found.charts] == ["point-select", "read-write", "update-nokey"]
    assert scaling_charts(whole, groups(whole)[-1], "k") is None, "nothing to scale"


def test_runs_with_and_without_the_poller_are_overlaid() -> None:
    charts = all_timelines(interference())
    assert len(charts) == 2 * 2 * 3, "each with a folded part"
    first, more = charts[:2]
    assert isinstance(first, Chart)
    assert first.title == "5.7.22 table_open_cache=400"
    assert [re.sub(r"run \d+", "run", mark.name) for mark in first.legend] == [
        "poll=off, run: 46,320 queries/s", "poll=on, run: 38,492 queries/s", "warm-up, in no figure",
    ]  # fmt: skip
    assert first.svg.count('class="curve s0"') == first.svg.count('class="curve s1"') == 8
    assert 'class="polling s1"' in first.svg
    assert 'class="polling s0"' not in first.svg
    assert "poll=on: 210 polls/s beside the load" in first.svg
    assert "queries/s; the upper line is 50,000" in first.svg
    assert isinstance(more, FoldedParts)
    assert more.summary == "Further figures of 5.7.22 table_open_cache=400: reads/s, polls/s"


def test_queries_and_reads_are_drawn_by_page_size_with_the_most_clients() -> None:
    (chart,) = page_size_charts(write_scaling())
    assert [mark.name for mark in chart.legend] == ["5.7.22, threads 8", "8.0.31, threads 8"]
    assert chart.svg.count('class="run ') == 2 * 3 * 3, "every run of each size of pages"
    assert [size in chart.svg for size in (">16k<", ">8k<", ">4k<")] == [True] * 3
    assert chart.svg.count('class="series ') == 2 * 2
    assert list(page_size_charts(interference())) == []


def test_a_missing_sample_is_a_gap_in_the_curve() -> None:
    values = tuple(None if at == 5 else 10.0 + at for at in range(12))
    timeline = Timeline(tuple(map(float, range(12))), {"qps": values, "mine_per_s": values})
    session = interference(caches=("400",))
    gapped = replace(session, runs=tuple(replace(run, timeline=timeline) for run in session.runs))
    chart, fold = all_timelines(gapped)[:2]
    assert isinstance(chart, Chart)
    assert isinstance(fold, FoldedParts)
    more = fold.parts[0]
    assert isinstance(more, Chart)
    assert chart.svg.count('class="curve s0"') == more.svg.count('class="curve s0"') == 2
    assert "mine per s; the upper line" in more.svg
    assert timelines(session, Timeline((0.0, 1.0), {"qps": (1.0, 1.0)})) == (), "too short"
