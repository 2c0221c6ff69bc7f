"""Two functions draw all charts, from plain data; a session of any experiment gets its rows or series without code."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from at_work import a_session
from everything import everything, growing
from runs import with_parts

from recovery.analysis.summary import groups, scale_axis
from recovery.model import Axis, Phase, Session
from recovery.report.html.charts import About, Band, Point, Row, Segment, Series, bar_css, bars, xy
from recovery.report.html.parts import Chart, Panels, side_by_side
from recovery.report.html.session_charts import (
    cell_rows,
    group_charts,
    growth_series,
    phase_rows,
    scaling_series,
)
from recovery.report.html.timelines import overlaid_runs, timeline_bands, timeline_series

ABOUT = About("key", "Title", "s")
OLD, NEW = Segment("old", "bar v0"), Segment("new", "bar v1")


def test_a_phone_has_every_second_label_of_bars_that_would_overlap() -> None:
    rows = [Row("a", {"x": 112.0}, "a text that takes the room beside the bar")]
    chart = bars(ABOUT, rows, [Segment("x", bar_css(0))])
    assert chart is not None
    shown = re.findall(r'class="(tick(?: roomy)?)">([0-9]+)<', chart.svg)
    assert [label for _, label in shown] == ["0", "20", "40", "60", "80", "100", "120"]
    assert [label for css, label in shown if css == "tick"] == ["0", "40", "80", "120"]
    wide = bars(ABOUT, [Row("a", {"x": 112.0}, "a")], [Segment("x", bar_css(0))])
    assert wide is not None
    assert "roomy" not in wide.svg


def drawn(chart: Chart | None) -> Chart:
    assert chart is not None
    return chart


def widths(chart: Chart, css: str) -> list[float]:
    return [float(width) for width in re.findall(rf'<rect[^>]* width="([\d.]+)%"[^>]* class="{css}"', chart.svg)]


def names(chart: Chart) -> list[str]:
    return [entry.name for entry in chart.legend]


# --- Bars


def test_bars_are_as_long_as_their_values_and_rows_of_one_name_are_together() -> None:
    rows = [Row("cold", {"old": 4.0}, "4 s"), Row("cold", {"new": 2.0}, "2 s"), Row("warm", {"new": 1.0}, "1 s")]
    chart = drawn(bars(ABOUT, rows, [OLD, NEW]))
    (old,), (new, warm) = widths(chart, "bar v0"), widths(chart, "bar v1")
    assert [new / old, warm / old] == pytest.approx([0.5, 0.25], abs=0.001)
    assert re.findall(r'class="row-name">([^<]*)<', chart.svg) == ["cold", "warm"]
    assert names(chart) == ["old", "new"]
    assert "old cold 4 s; new cold 2 s; new warm 1 s." in chart.svg
    assert bars(ABOUT, [], [OLD]) is None


def test_a_bar_has_its_interval_its_runs_and_the_sign_of_its_warnings() -> None:
    row = Row("cold", {"old": 4.0}, "4 s", interval=(3.0, 5.0), runs=((3.5, "run 1"), (4.5, "run 2")), doubts=("Why.",))
    chart = drawn(bars(ABOUT, [row], [OLD]))
    assert names(chart) == ["old", "one run", "95 % interval of the mean", "a warning doubts it"]
    assert chart.svg.count('class="whisker"') == 3
    assert re.findall(r"<circle[^>]*><title>([^<]*)<", chart.svg) == ["run 1", "run 2"]
    assert "!<title>Why.</title>" in chart.svg
    assert names(drawn(bars(ABOUT, [Row("cold", {"old": 4.0}, "4 s")], [OLD]))) == ["old"]


def test_a_stacked_bar_has_tooltips_names_where_they_fit_and_no_invisible_parts() -> None:
    kinds = [Segment("validation", "phase p1"), Segment("tiny", "phase p2"), Segment("rest", "phase p3", hatched=True)]
    row = Row("cold", {"validation": 9.0, "tiny": 0.001, "rest": 1.0}, "10 s", {"rest": "~1.00 s"})
    chart = drawn(bars(ABOUT, [row], kinds))
    assert "<title>rest: ~1.00 s</title>" in chart.svg
    assert re.findall(r'class="on-p\d[^"]*">([^<]*)<', chart.svg) == ["validation", "rest"]
    assert widths(chart, "phase p2") == []
    assert [entry.css for entry in chart.legend] == ["swatch phase p1", "swatch phase p2", "swatch phase p3 hatched"]
    assert "cold 10 s: most in validation." in chart.svg


def test_a_reference_is_a_line_through_all_rows() -> None:
    rows = [Row("cold", {"old": 0.5}, "0.5"), Row("warm", {"old": 0.2}, "0.2")]
    chart = drawn(bars(ABOUT, rows, [OLD], reference=(1.0, "the floor")))
    assert chart.svg.count('class="reference"') == 2
    assert names(chart) == ["old", "the floor"]


def test_long_figures_have_room_on_a_phone() -> None:
    short, long = (bars(ABOUT, [Row("cold", {"old": 4.0}, text)], [OLD]) for text in ("4 s", "53,206 +- 13,346 kB"))
    assert widths(drawn(long), "bar v0") < widths(drawn(short), "bar v0")


# --- Lines and symbols over an axis


def test_series_of_one_unit_share_a_panel() -> None:
    line = ((0.0, 1.0), (1.0, 2.0))
    series = [Series(name, css, panel, line) for name, css, panel in
              (("a", "s0", "queries/s"), ("b", "s1", "queries/s"), ("c", "s2", "CPUs"))]  # fmt: skip
    chart = xy(ABOUT, series)
    assert [chart.svg.count(f'class="series {drawn_series.css}"') for drawn_series in series] == [1, 1, 1]
    assert [chart.svg.count(f">{panel}<") for panel in ("queries/s", "CPUs")] == [1, 1]
    assert chart.svg.count('class="ground"') == 2
    assert [entry.css for entry in chart.legend] == ["stroke s0", "stroke s1", "stroke s2"]


def test_a_gap_parts_a_line() -> None:
    chart = xy(ABOUT, [Series("a", "s0", "u", ((0.0, 1.0), (1.0, 1.0), (2.0, None), (3.0, 1.0), (4.0, 1.0)))])
    assert chart.svg.count('class="series s0"') == 2


def test_points_have_symbols_intervals_and_one_sign_for_warnings_near_each_other() -> None:
    points = (
        Point(1.0, 5.0, "mean", interval=(4.0, 6.0), doubts=("One.",)),
        Point(1.0, 5.5, tooltip="run 1"),
        Point(1.01, 5.0, "mean", doubts=("Two.",)),
        Point(9.0, 7.0, "mean", doubts=("Three.",)),
        Point(10.0, 8.0, "predicted", "soon", interval=(7.0, 9.0)),
    )
    chart = xy(ABOUT, [Series("a", "s1", "u", points=points)])
    assert re.findall(r'class="(run|hollow) s1"><title>([^<]*)<', chart.svg) == [("run", "run 1"), ("hollow", "soon")]
    assert re.findall(r"!<title>([^<]*)<", chart.svg) == ["One. Two.", "Three."]
    assert chart.svg.count('class="upright s1"') == 6
    assert names(chart) == ["a", "95 % interval of the mean", "a warning doubts it"]
    assert "a: 5 at 1, 7 at 9." in chart.svg


def test_bands_are_in_their_lane_and_behind_the_panels() -> None:
    bands = [
        Band(-5.0, 0.0, "warming", "warm-up"),
        Band(0.0, 4.0, "phase p1", "validation", "validation: 4.00 s", hatched=True, lane=""),
        Band(1.0, 2.0, "polling s0", lane="polls", is_shade=False),
    ]
    chart = xy(ABOUT, [Series("a", "s0", "u", ((-5.0, 1.0), (5.0, 1.0)))], bands)
    assert re.findall(r'class="(shade [^"]*|phase [^"]*|polling [^"]*)"', chart.svg) == [
        "shade warming", "shade p1", "phase p1", "polling s0",
    ]  # fmt: skip
    (warmup,), (phase,) = widths(chart, "shade warming"), widths(chart, "shade p1")
    assert phase / warmup == pytest.approx(0.8, abs=0.001)
    assert ">polls<" in chart.svg
    assert names(chart) == ["a", "warm-up", "validation"]


def test_labels_of_an_axis_do_not_overlap() -> None:
    ticks = [(value, f"{value:g}") for value in (1.0, 2.0, 32.0, 64.0)]
    chart = xy(ABOUT, [Series("a", "s0", "u", ((1.0, 1.0), (64.0, 1.0)))], ticks=ticks)
    assert re.findall(r'text-anchor="middle" class="tick">([\d]+)<', chart.svg) == ["1", "32", "64"]


def test_charts_that_reach_the_same_values_have_the_same_axes() -> None:
    low, high = (Series("a", "s0", "u", ((0.0, 1.0), (1.0, value))) for value in (2.0, 80.0))
    grids = [re.findall(r'y="[\d.]+"[^>]*class="tick">([^<]+)<', xy(ABOUT, [series], least=(1.0, 80.0)).svg)
             for series in (low, high)]  # fmt: skip
    assert grids[0] == grids[1]


def test_texts_in_a_chart_are_never_markup() -> None:
    bad = "<b>&\"'"
    about, segment = About(bad, bad, bad, description=bad), Segment(bad, "bar v0")
    row = Row(bad, {bad: 1.0}, bad, {bad: bad}, runs=((1.0, bad),), doubts=(bad,))
    series = Series(bad, "s0", bad, points=(Point(1.0, 1.0, tooltip=bad, label=bad, doubts=(bad,)),))
    band = Band(0.0, 1.0, "phase p0", bad, bad, hatched=True, lane=bad)
    for chart in (drawn(bars(about, [row], [segment])), xy(about, [series], [band], ticks=[(1.0, bad)])):
        assert "<b>" not in chart.svg
        assert "&lt;b&gt;" in chart.svg


def test_charts_side_by_side_have_one_legend_with_the_signs_at_its_end() -> None:
    doubted = Series("a", "s0", "u", points=(Point(1.0, 1.0, "mean", doubts=("Why.",)),))
    plain = Series("b", "s1", "u", points=(Point(1.0, 1.0, "mean", interval=(0.0, 2.0)),))
    panels = side_by_side("key", "Title", [xy(ABOUT, [doubted]), xy(ABOUT, [plain])], ("Note.",))
    assert isinstance(panels, Panels)
    signs = ["95 % interval of the mean", "a warning doubts it"]
    assert [entry.name for entry in panels.legend] == ["a", "b", *signs]
    assert [chart.legend for chart in panels.charts] == [(), ()]
    alone = side_by_side("key", "Both", [xy(ABOUT, [doubted])], ("Note.",))
    assert isinstance(alone, Chart)
    assert (alone.title, alone.notes, names(alone)) == ("Both", ("Note.",), ["a", "a warning doubts it"])


# --- Sessions


def an_experiment(axis: Axis) -> Session:
    """Returns a session with a metric and an axis that no experiment of the tool has."""
    cells = [{axis.name: value} for value in axis.values]
    return a_session(
        "inserts_per_s", cells, (axis,), lambda _, cell: {"inserts_per_s": 100.0 + len(cell[axis.name])}, runs=3
    )


@pytest.mark.parametrize(
    ("values", "is_line"), [(("5", "10", "20"), True), (("5", "10"), False), (("one", "by-one", "many"), False)]
)
def test_a_new_experiment_has_lines_along_a_numeric_axis_else_bars(values: tuple[str, ...], is_line: bool) -> None:
    session = an_experiment(Axis("batch", values, values[0]))
    (chart,) = group_charts(session)
    assert isinstance(chart, Chart)
    (group,) = groups(session)
    along = scale_axis(group)
    assert (along is not None) == is_line
    assert chart.svg.count('class="run ') == (len(session.runs) if is_line else 0)
    if along is None:
        rows = cell_rows(session, group)
        assert [(row.interval is not None, len(row.runs)) for row in rows] == [(True, 3)] * 2 * len(values)
    else:
        (series,) = scaling_series(session, group, along).values()
        means = [point for drawn_series in series for point in drawn_series.points if point.kind == "mean"]
        assert [(point.x, point.interval is not None) for point in means] == [(5, True), (10, True), (20, True)] * 2
    assert "95 % interval of the mean" in names(chart)
    assert "inserts/s" in chart.svg


def test_a_curve_of_growth_has_its_runs_its_means_and_a_near_prediction() -> None:
    session = growing(100_000)
    for series in growth_series(session):
        kinds = [point.kind for point in series.points]
        assert kinds.count("run") == len(session.runs) / 2
        assert kinds.count("predicted") == 1
        assert series.line[-1][0] == 100_000
    assert {point.kind for series in growth_series(growing(1_000_000)) for point in series.points} == {"run", "mean"}


def test_phases_are_stacked_in_the_order_of_a_start_and_sum_up() -> None:
    session = everything()
    row = phase_rows(session)[0]
    assert row.name == "5.7.22 cold"
    assert row.text == f"{sum(row.values.values()):.2f} s"
    assert row.tooltips.keys() == row.values.keys()


def test_a_timeline_has_the_figures_of_a_start_and_its_phases_as_bands() -> None:
    session = everything()
    overlaid = overlaid_runs(session)[0]
    series = timeline_series(overlaid, [("read_bytes_per_s",), ("server_cpus",)])
    assert [(drawn_series.name, drawn_series.panel, drawn_series.is_filled) for drawn_series in series] == [
        ("read/s", "read/s in bytes", True), ("server CPUs", "server CPUs", True),
    ]  # fmt: skip
    phases = (Phase("redo scan", 0.0, 1.0), Phase("file check", 1.0, 3.0, True))
    overlaid = replace(overlaid, runs=(("run", with_parts(overlaid.first, phases=phases)),))
    bands = timeline_bands(overlaid)
    assert [(band.start, band.end, band.tooltip, band.lane) for band in bands] == [
        (0.0, 1.0, "redo scan: 1.00 s", ""), (1.0, 3.0, "file check: ~2.00 s", ""),
    ]  # fmt: skip
