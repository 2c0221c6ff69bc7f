"""Does the page of a server at work show its lines, bars and seconds, and is it as well-formed as the others?"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from at_work import FORMS, MORE, NEW, OLD, interference, metadata, table_cache, write_scaling
from everything import HOSTILE
from test_report_page import Read

from recovery.analysis.summary import groups
from recovery.model import Axis, LoadTimeline, Series
from recovery.report.html.cell_bars import cell_bars
from recovery.report.html.load_read_charts import page_size_charts
from recovery.report.html.load_timelines import load_timelines
from recovery.report.html.page import render
from recovery.report.html.scaling_charts import scaling_charts
from recovery.report.html.svg import START, Chart, FoldedParts, Panels, tick_label


@pytest.mark.parametrize("name", FORMS | MORE)
def test_the_page_is_well_formed(name: str) -> None:
    page = Read(render((FORMS | MORE)[name]()))
    assert max(page.ids.values()) == 1
    assert set(page.labels) <= set(page.ids)
    assert page.tags["svg"] > 0
    assert not {one for one in page.names if one.startswith("on")}
    assert {"script", "link", "iframe"} & set(page.tags) == set()
    told = " ".join(page.texts)
    assert "Effects of the settings" in told or name in ("metadata", "profiled")


def test_a_line_for_each_cell_and_a_panel_where_there_are_too_many() -> None:
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


def test_panels_are_split_by_the_last_axis_and_hold_six_lines() -> None:
    session = table_cache()
    panels = scaling_charts(session, groups(session)[0], "k")
    assert isinstance(panels, Panels)
    assert [chart.title for chart in panels.charts] == ["tables 1", "tables 2", "tables 3"]
    assert len(panels.legend) == 6
    whole = write_scaling()
    scaling = scaling_charts(whole, groups(whole)[0], "k")
    assert isinstance(scaling, Panels)
    assert [chart.title for chart in scaling.charts] == ["point-select", "read-write", "update-nokey"]
    assert scaling_charts(whole, groups(whole)[-1], "k") is None, "nothing to scale"


def test_the_axis_is_from_zero_and_alike_where_panels_are() -> None:
    session = table_cache()
    panels = scaling_charts(session, groups(session)[0], "k")
    assert isinstance(panels, Panels)
    ticks = [re.findall(r'class="tick">([\d.]+k?)<', chart.svg) for chart in panels.charts]
    assert ticks[0] == ticks[1] == ticks[2]
    assert ticks[0][0] == "0"
    assert (tick_label(0, 50000), tick_label(20000, 50000), tick_label(2.5e6, 5e6), tick_label(200, 500)) == (
        "0",
        "20k",
        "2.5M",
        "200",
    )


def test_bars_where_nothing_is_scaled() -> None:
    session = metadata()
    chart = cell_bars(session, groups(session)[0], "k")
    assert chart is not None
    assert chart.svg.count('class="bar v0"') == chart.svg.count('class="bar v1"') == 5
    assert chart.svg.count('class="dot"') == len(session.runs)
    assert "mean 58.26" in chart.svg
    assert cell_bars(replace(session, runs=()), groups(session)[0], "k") is None


def test_off_and_on_are_drawn_over_each_other() -> None:
    charts = load_timelines(interference())
    assert len(charts) == 2 * 2 * 3, "each with what else there is, folded"
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
    assert isinstance(more, FoldedParts)
    assert more.summary == "Further figures of 5.7.22 table_open_cache=400: reads/s, polls/s"
    assert "queries/s; the upper line is 50,000" in first.svg


def polled(*rates: float | None) -> list[tuple[str, float, float]]:
    """Of a minute and five seconds of warm-up, class, beginning and end of what is drawn for a poller that had answered
    so much each second, in parts of the picture's width."""
    session = interference(caches=("400",), runs=1)
    on = next(run for run in session.runs if run.variant == "400-on" and run.version == "5.7.22")
    assert on.watched is not None
    values = (*rates, *[rates[-1]] * (len(on.watched.at_s) - len(rates)))
    series = (*(one for one in on.watched.series if one.name != "polls_per_s"), Series("polls_per_s", values))
    alone = replace(session, versions=("5.7.22",), runs=(replace(on, watched=LoadTimeline(on.watched.at_s, series)),))
    chart = load_timelines(alone)[0]
    assert isinstance(chart, Chart)
    boxes = re.findall(r'<rect x="([\d.]+)%"[^>]* width="([\d.]+)%"[^>]* class="polling ?(\w*) s0"', chart.svg)
    width = 100 - 2 * START
    return [(css, (float(x) - START) / width, (float(x) - START + float(wide)) / width) for x, wide, css in boxes]


def test_polling_is_drawn_from_its_beginning_to_its_end() -> None:
    (_, began, ended), answers = polled(None, None, 0.0, 30.0)
    assert (began, ended) == pytest.approx((1 / 65, 1.0), abs=0.001)
    assert answers[0] == ""
    assert answers[1:] == pytest.approx((2 / 65, 1.0), abs=0.001), "the first answer came in the second second"
    assert polled(None) == []


def test_single_polls_are_marked_apart() -> None:
    whole, *answers = polled(None, 1.0, *(rate for _ in range(3) for rate in (*[0.0] * 9, 0.5)), 0.0)
    assert whole[0] == "silent"
    assert whole[1:] == pytest.approx((0.0, 1.0), abs=0.001)
    found = [began * 65 for _, began, _ in answers]
    assert found == pytest.approx([0, 10, 20, 30], abs=0.05)
    assert all(ended - began == pytest.approx(1 / 65, abs=0.001) for _, began, ended in answers)


def test_one_run_alone_has_its_cpus_together() -> None:
    session = interference(caches=("400",))
    off = tuple(run for run in session.runs if run.variant == "400-off")
    alone = replace(session, runs=off, variants=("400-off",), cells={"400-off": session.cells["400-off"]}, axes=())
    chart = load_timelines(alone)[0]
    assert isinstance(chart, Chart)
    assert [mark.name for mark in chart.legend][1:] == [
        "server CPUs",
        "client CPUs",
        "other CPUs",
        "warm-up, in no figure",
    ]
    assert "CPUs in use" in chart.svg
    assert "misses" not in chart.svg, "never anything but zero"


def panels(chart: object) -> list[str]:
    assert isinstance(chart, Chart)
    return re.findall(r">([^<>]+); the upper line is", chart.svg)


def test_panels_come_in_the_order_of_what_the_experiment_asks() -> None:
    first, more, *_ = load_timelines(interference())
    assert panels(first)[:4] == ["queries/s", "hits/s", "misses/s", "load misses/s"], "hits beside misses"
    assert isinstance(more, FoldedParts)
    assert panels(more.parts[0]) == ["reads/s", "polls/s"]
    writes = {one.title: one for one in load_timelines(write_scaling()) if isinstance(one, Chart)}
    chart = next(one for title, one in writes.items() if "scaling, update-nokey" in title)
    assert panels(chart)[:3] == ["queries/s", "redo/s", "fsyncs/s"]
    assert "row waits/s" not in panels(chart)
    assert chart.notes == ("Zero while it was measured: row waits/s.",)


def test_what_there_is_in_the_warm_up_alone_is_no_panel() -> None:
    session = interference(caches=("400",))
    early = LoadTimeline(
        (-1.0, 0.0, 1.0, 2.0), (Series("qps", (1.0,) * 4), Series("opened_tables_per_s", (5.0, 5.0, 0.0, 0.0)))
    )
    chart = load_timelines(replace(session, runs=tuple(replace(run, watched=early) for run in session.runs)))[0]
    assert panels(chart) == ["queries/s"]
    assert isinstance(chart, Chart)
    assert chart.notes == ("Zero while it was measured: opened/s.",)


def test_what_is_never_counted_is_not_called_zero() -> None:
    session = interference(caches=("400",))
    silent = LoadTimeline(
        tuple(map(float, range(4))), (Series("qps", (1.0,) * 4), Series("rwlock_os_waits_per_s", (0.0,) * 4))
    )
    mute = replace(session, scenario="table-cache", runs=tuple(replace(run, watched=silent) for run in session.runs))
    chart = load_timelines(mute)[0]
    assert panels(chart) == ["queries/s"]
    assert isinstance(chart, Chart)
    assert chart.notes == ()


def test_queries_are_drawn_against_reads_with_the_most_clients() -> None:
    (chart,) = page_size_charts(write_scaling())
    assert [mark.name for mark in chart.legend] == ["5.7.22, threads 8", "8.0.31, threads 8"]
    assert chart.svg.count('class="run ') == 2 * 3 * 3, "every run of each size of pages"
    assert [size in chart.svg for size in (">16k<", ">8k<", ">4k<")] == [True] * 3
    assert chart.svg.count('class="series ') == 2 * 2
    assert list(page_size_charts(interference())) == []
    whole = write_scaling()
    cells = {
        name: {axis: "8k-compressed" if value == "8k" else value for axis, value in cell.items()}
        for name, cell in whole.cells.items()
    }
    (unordered,) = page_size_charts(replace(whole, cells=cells))
    assert 'class="series ' not in unordered.svg, "compressed pages lie between no sizes"


def test_hottest_functions_stand_with_the_stacks() -> None:
    page = Read(render(MORE["profiled"]()))
    assert "Hottest functions of 5.7.22 dump, run 37: 480 stacks by perf" in page.texts
    assert "dd::tables::get<dd::Table>" in page.texts


def test_of_many_cells_a_few_are_open() -> None:
    *opened, fold = load_timelines(table_cache())
    assert len(opened) == 8
    assert all(isinstance(one, Chart) and one.title.endswith("threads 8") for one in opened)
    assert isinstance(fold, FoldedParts)
    assert fold.summary == "The other cells: 32; 176 more are in report.json"


def test_a_gap_in_a_series_is_a_gap() -> None:
    session = interference(caches=("400",))
    values = tuple(None if at == 5 else 10.0 + at for at in range(12))
    watched = LoadTimeline(tuple(map(float, range(12))), (Series("qps", values), Series("mine_per_s", values)))
    gapped = replace(session, runs=tuple(replace(run, watched=watched) for run in session.runs))
    chart, fold = load_timelines(gapped)[:2]
    assert isinstance(chart, Chart)
    assert isinstance(fold, FoldedParts)
    more = fold.parts[0]
    assert isinstance(more, Chart)
    assert chart.svg.count('class="curve s0"') == more.svg.count('class="curve s0"') == 2
    assert "mine per s; the upper line" in more.svg
    short_one = LoadTimeline((0.0, 1.0), (Series("qps", (1.0, 1.0)),))
    assert load_timelines(replace(session, runs=tuple(replace(run, watched=short_one) for run in session.runs))) == ()


def test_what_comes_from_outside_is_text() -> None:
    session = interference(caches=("400",))
    axes = (Axis(HOSTILE, ("off", HOSTILE), "off"),)
    cells = {name: {HOSTILE: "off" if cell["poll"] == "off" else HOSTILE} for name, cell in session.cells.items()}
    page = render(replace(session, axes=axes, cells=cells, title=HOSTILE))
    assert "<script" not in page
    Read(page)
