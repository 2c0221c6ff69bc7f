"""The page is well-formed, shows everything that was measured, and treats what comes from outside as text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from at_work import NEW, OLD, SMALL, interference, table_cache, write_scaling
from everything import HOSTILE, a_session, everything, growing, with_in_every_text
from html_page import HtmlPage, check_page, without_whole
from runs import values_of_all, variants_with, with_parts
from sessions import with_metrics

from recovery.analysis.growth import growth_curves
from recovery.analysis.summary import groups, mean, measured_runs_by_cell, per_table, scale_axis, summarise
from recovery.linux.files import template_dir
from recovery.model import Axis, HostActivity, Session, Timeline
from recovery.report import fmt
from recovery.report.fmt import rounded_axis
from recovery.report.html import page as html_page
from recovery.report.html.charts import COLOURS
from recovery.report.html.parts import Chart, FoldedParts, Panels
from recovery.report.html.session_charts import (
    floor_chart,
    group_charts,
    growth_charts,
    growth_series,
    page_size_charts,
    page_size_series,
    predicted_rows,
    reads_chart,
    scaling_charts,
    scaling_series,
)
from recovery.report.html.timelines import overlaid_runs, rates, timeline_bands
from recovery.report.html.timelines import timelines as all_timelines
from recovery.report.load_tables import page_size_groups
from recovery.report.summary_text import advice_of, mean_text
from recovery.storage.sessions import load_session

SHORTEN = (Path(__file__).parents[2] / "docs" / "shorten.md").read_text()


def render(session: Session) -> str:
    return without_whole(html_page.render(session))


@pytest.fixture(scope="module")
def whole_page() -> str:
    return render(everything())


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
    page = check_page(render(session))
    words = " ".join(page.texts)
    assert ("Effects of the settings" in words) == (name in ("interference", "table-cache", "write-scaling"))
    assert ("Hottest functions of 5.7.22 dump, run 37: 480 stacks by perf" in words) == (name == "metadata")


def test_texts_from_outside_never_become_markup(whole_page: str) -> None:
    session = with_in_every_text(everything(), HOSTILE)
    page = check_page(render(session))
    assert page.names == HtmlPage(whole_page).names
    # They are shown as text: versions, variants, notes, chains, settings, servers.
    assert sum("<script>alert(1)</script>\"'&" in text for text in page.texts) > 100
    for shown in ("io2, 5000 IOPS", "it did not come back", "fil_ibd_open", "AMD EPYC", "@innodb_flush", "--tables"):
        assert any(shown in text and "<script>" in text for text in page.texts), shown
    load = interference(caches=("400",))
    axes = (Axis(HOSTILE, ("off", HOSTILE), "off"),)
    cells = {name: {HOSTILE: "off" if cell["poll"] == "off" else HOSTILE} for name, cell in values_of_all(load).items()}
    check_page(render(replace(load, axes=axes, variants=variants_with(cells), title=HOSTILE)))


def test_the_page_refers_to_no_other_address_but_in_links_of_the_advice_and_to_speedscope(whole_page: str) -> None:
    links = set(re.findall(r'<a href="(https://[^"]+)"', whole_page))
    assert html_page.SPEEDSCOPE in links
    assert all(link in SHORTEN for link in links - {html_page.SPEEDSCOPE})
    addresses = set(re.findall(r"(?:https?:)?//[\w.]+[^\s\"')<]*", whole_page))
    assert addresses - links <= {"http://www.w3.org/2000/svg"}


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


# --- The answer


def test_no_line_ends_within_a_version_or_a_figure(kept_sessions: Path) -> None:
    page = html_page.render(load_session(kept_sessions / "2026-11-25-six-servers"))
    body = page.partition("</style>")[2].partition('<section id="repeat"')[0]
    body = re.sub(r'<svg [^>]*overflow="visible">.*?</svg>', "", body)  # inside the chart: the ground of a label
    shown = re.sub(
        r"<svg.*?</svg>|<ul class=\"legend\">.*?</ul>|<(\w+) class=\"(?:whole|figure)\">.*?</\1>|<[^>]*>",
        "|",
        body,
        flags=re.DOTALL,
    )
    assert ".whole { white-space: nowrap; }" in page
    assert '<span class="whole">mariadb-10.11.18</span>' in body
    assert re.findall(r"\+- \d|\d ?%|\w+-10\.11\.\d+", shown) == []


def test_warnings_are_beside_the_figures_that_they_doubt(kept_sessions: Path) -> None:
    answer, _, rest = render(load_session(kept_sessions / "2026-11-25-six-servers")).partition("<nav")
    wide = "The 95 % interval of the mean is \u00b1 23 %."
    assert f'<span class="value doubted" title="{wide}">67.5 s \u00b1 15.6</span>' in answer
    assert 'class="doubts"' in answer
    marked = re.findall(r'class="number doubted" title="([^"]*)"[^>]*>([^<]*)<', rest)
    assert (wide, "67.54") in marked
    bar = re.findall(r"<text[^>]*>67\.5 s (?:\u00b1|\+-) 15\.6<tspan[^>]*>(.*?)</tspan>", rest)
    assert [fmt.plus_minus(one) for one in bar] == [f"!<title>{wide}</title>"]


def test_the_answer_counts_what_the_section_of_warnings_has(kept_sessions: Path) -> None:
    for name in ("2026-11-22-interference", "2026-11-25-six-servers"):
        answer, _, rest = render(load_session(kept_sessions / name)).partition("<nav")
        section = rest.partition('<section id="warnings"')[2].partition("</section>")[0]
        text = re.sub("<[^>]+>", "", answer)
        counts = re.findall(r"(\d+) warnings in \d+ kinds\.", text) or [
            1 + int(more) for more in re.findall(r"and (\d+) more of this kind", text)
        ]
        assert int(counts[0]) == len(re.findall(r"<h3>", section))
    quiet = render(load_session(kept_sessions / "2026-11-26-5.7.22"))
    assert "warnings in" not in quiet.partition("<nav")[0]
    assert "doubted" not in quiet.partition("</style>")[2]


def test_the_page_has_what_shortens_the_start() -> None:
    session = everything()
    page = render(session)
    assert advice_of(session) == "recovery docs shorten#validation"
    assert 'What shortens it: <a href="#shorten">Validation</a>' in page
    assert "<code>recovery docs shorten#validation</code>" in page
    words = "".join(check_page(page).texts)
    section = SHORTEN.partition("## Validation\n")[2].partition("\n## ")[0]
    first = section.strip().splitlines()[0]
    assert first in words
    assert "**" not in words
    assert "What shortens" not in render(a_session(()))


# --- Bars, their intervals and their runs


def test_bars_have_the_interval_of_the_text_and_a_dot_for_each_run(kept_sessions: Path) -> None:
    session = load_session(kept_sessions / "2026-11-25-six-servers")
    (chart,) = group_charts(session)
    assert isinstance(chart, Chart)
    found = [one for one in summarise(session) if one.count]
    labels = re.findall(r'class="value">([^<]*)<', chart.svg)
    order = [(version, variant) for variant in session.variant_names for version in session.versions]
    assert labels == [
        fmt.plus_minus(mean_text(one)) for cell in order for one in found if (one.version, one.variant) == cell
    ]
    assert chart.svg.count("<circle") == sum(one.count for one in found)
    whiskers = [tuple(map(float, ends)) for ends in
                re.findall(r'<line x1="([\d.]+)%" y1="([\d.]+)" x2="([\d.]+)%" y2="\2" class="whisker"', chart.svg)
                for ends in ((ends[0], ends[2]),)]  # fmt: skip
    bars = [float(width) for width in re.findall(r'<rect[^>]* width="([\d.]+)%"[^>]* class="bar', chart.svg)]
    means = {cell: one for cell in order for one in found if (one.version, one.variant) == cell}
    for (low, high), width, one in zip(whiskers, bars, means.values(), strict=True):
        assert one.mean is not None
        assert one.interval is not None
        assert (high - low) / 2 / width == pytest.approx(one.interval / one.mean, rel=0.05, abs=0.02)


def test_a_mean_whose_interval_passes_zero_has_no_interval_as_in_the_text(kept_sessions: Path) -> None:
    session = load_session(kept_sessions / "2026-11-23-mariadb-11.4-tls")
    (chart,) = group_charts(session)
    assert isinstance(chart, Chart)
    assert "mean 4.58 s" in chart.svg
    assert "6.58 s \u00b1 4.18" in chart.svg
    assert chart.svg.count('class="whisker"') == 3, "of the warm starts"


def test_means_against_tables_have_their_intervals(kept_sessions: Path) -> None:
    growth, *_ = growth_charts(load_session(kept_sessions / "2026-11-21-scale"))
    assert growth.svg.count('class="upright ') == 3 * 8
    assert "95 % interval of the mean" in [one.name for one in growth.legend]


# --- Reads


def test_the_chart_of_reads_shows_the_bytes_of_the_server() -> None:
    chart = reads_chart(everything())
    assert chart is not None
    size = mean(per_table(run, "read_bytes") for run in measured_runs_by_cell(everything())["5.7.22", "cold"])
    assert f"{fmt.size(round(size or 0))} in " in chart.svg
    assert ">kB<" in chart.svg


@pytest.mark.parametrize(
    ("others", "settings", "shown"),
    [(None, {}, True), (1_000_000, {}, True), (600_000_000, {}, False), (600_000_000, {"read_iops": 5000}, True)],
)
def test_reads_of_others_are_not_drawn(others: int | None, settings: dict[str, int], shown: bool) -> None:
    session = everything()
    runs = [with_parts(run, host_activity=HostActivity(1.0, others_read_bytes=others)) for run in session.runs
            if (run.version, run.variant) == ("5.7.22", "warm")]  # fmt: skip
    chart = reads_chart(replace(session, runs=tuple(runs), settings=session.settings | settings))
    assert chart is not None
    assert "300 B" in chart.svg
    assert (" in 0.01 reads" in chart.svg) == shown


# --- Headings, legends and colours


@pytest.mark.parametrize(
    "name", ["2026-11-25-six-servers", "2026-11-21-scale", "2026-11-26-write-scaling", "everything"]
)
def test_no_heading_says_what_the_one_above_says(kept_sessions: Path, name: str) -> None:
    page = render(everything() if name == "everything" else load_session(kept_sessions / name))
    titles = re.compile(
        r"<h2[^>]*><a[^>]*>([^<]+)</a></h2>|<(?:h3|figcaption|caption)[^>]*>\s*<span(?: id=\"[^\"]*\")?>([^<]+)</span>"
        r"|<summary>([^<]+)</summary>"
    )
    found = ["".join(match).casefold() for match in titles.findall(page.partition("</nav>")[2])]
    assert len(found) > 10
    assert [
        pair for pair in pairwise(found) if pair[1] == pair[0] or re.match(f"{re.escape(pair[0])}[:,]", pair[1])
    ] == []


def test_headings_are_links_to_their_sections(whole_page: str) -> None:
    headings = re.findall(r"<h2[^>]*>(.*?)</h2>", whole_page)
    assert len(headings) > 10
    linked = [re.fullmatch(r'<a href="#([^"]+)">[^<]+</a>', heading) for heading in headings]
    assert all(linked)
    sections = re.findall(r'<section id="([^"]+)"', whole_page)
    assert [match[1] for match in linked if match] == sections


def test_a_section_has_each_entry_of_its_legend_once(whole_page: str) -> None:
    for section in re.findall(r"<section.*?</section>", whole_page, re.DOTALL):
        legends = re.findall(r'<ul class="legend">(.*?)</ul>', section, re.DOTALL)
        entries = [entry for legend in legends for entry in re.findall(r"<li>(.*?)</li>", legend)]
        assert len(entries) == len(set(entries))
    (over_time,) = re.findall(r'<section id="over-time".*?</section>', whole_page, re.DOTALL)
    assert over_time.count('class="legend"') == 1
    assert over_time.count("redo scan</li>") == 1


def test_a_sign_has_one_meaning_in_a_legend(kept_sessions: Path) -> None:
    """The lines of a load's runs are alike in all charts, which have other runs each."""
    page = render(load_session(kept_sessions / "2026-11-22-interference"))
    legends = re.findall(r'<ul class="legend">(.*?)</ul>', page, re.DOTALL)
    signs = [re.findall(r'<span class="([^"]+)"', legend) for legend in legends]
    assert signs
    assert [found for found in signs if len(set(found)) < len(found)] == []


# What readers with normal sight and with each kind of colour blindness see, by the matrices of Machado et al. (2009).
SIGHTS = (
    ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
)
LMS = ((0.41222, 0.53633, 0.05145), (0.21190, 0.68070, 0.10740), (0.08830, 0.28172, 0.62998))
OKLAB = ((0.21045, 0.79362, -0.00407), (1.97800, -2.42859, 0.45059), (0.02590, 0.78277, -0.80868))
Vector = tuple[float, ...]


def _times(matrix: tuple[Vector, ...], vector: Vector) -> Vector:
    return tuple(sum(one * other for one, other in zip(row, vector, strict=True)) for row in matrix)


def _seen(colour: str, sight: tuple[Vector, ...]) -> Vector:
    """Returns a colour in OKLab, in which equal distances look equally different."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = tuple(one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    shown = tuple(min(1.0, max(0.0, one)) for one in _times(sight, linear))
    return _times(OKLAB, tuple(one ** (1 / 3) for one in _times(LMS, shown)))


@pytest.mark.parametrize("kind", ["light", "dark", "phases"])
def test_colours_differ_for_everyone(kind: str) -> None:
    style = (template_dir() / "report.css").read_text()
    if kind == "phases":
        colours = re.findall(r"\.p\d \{ fill: (#\w{6});", style)
    else:
        themes = re.findall(r"--v0: .*?--v7: #\w{6};", style)
        colours = re.findall(r"#\w{6}", themes[("light", "dark").index(kind)])
    assert len(colours) == COLOURS
    for sight in SIGHTS:
        seen = [_seen(colour, sight) for colour in colours]
        assert min(math.dist(one, other) for one, other in combinations(seen, 2)) > 0.07


# --- Growth


def test_only_a_straight_line_that_passes_its_test_has_a_whisker(kept_sessions: Path) -> None:
    session = growing(1_000_000)
    rows = predicted_rows(session)
    assert [row.interval is not None for row in rows] == [True] * len(growth_curves(session))
    bent = [
        with_metrics(run, startup_s=2 * run.metrics["startup_s"]) if run.contents.tables_found == 50_000 else run
        for run in session.runs
    ]
    assert len(list(growth_charts(replace(session, runs=tuple(bent))))) == 1, "no prediction is drawn"
    kept = load_session(kept_sessions / "2026-11-21-scale")
    bent_row, straight = predicted_rows(kept)
    assert (bent_row.name, bent_row.text) == ("5.7.22 cold, tested: 200,000 tables took +5 %", "449.8 s")
    assert (bent_row.interval is None, straight.interval is None) == (True, False)
    assert [len(series.line) for series in growth_series(kept)] == [5, 2], "from point to point"


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
    lines = [f"{version}, poll={poll}" for version in (OLD, NEW) for poll in ("off", "on")]
    assert [entry.name for entry in chart.legend] == [*lines, "95 % interval of the mean"]
    assert chart.svg.count('class="run ') == len(session.runs), "every run is there"
    along = scale_axis(group)
    assert along is not None
    (series,) = scaling_series(session, group, along).values()
    assert [(drawn.name, len(drawn.line)) for drawn in series] == [(name, 3) for name in lines]
    assert chart.svg.count('class="series ') == 4
    assert chart.svg.count('class="upright ') == 4 * 3 * 3, "the interval of each mean, with its ends"


def test_too_many_lines_are_split_into_panels_of_one_scale_from_zero() -> None:
    session = table_cache()
    found = scaling_charts(session, groups(session)[0], "k")
    assert isinstance(found, Panels)
    assert [chart.title for chart in found.charts] == ["tables 1", "tables 2", "tables 3"]
    assert len(found.legend) == 6 + 2, "and the signs of intervals and of warnings"
    ticks = [re.findall(r'text-anchor="end" class="tick">([\d.]+k?)<', chart.svg) for chart in found.charts]
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
    assert first.svg.count('class="series s0"') == first.svg.count('class="series s1"') == 8
    bands = timeline_bands(overlaid_runs(interference())[0])
    lanes = {band.lane for band in bands if "polling" in band.css}
    assert lanes == {"poll=on: 210 polls/s beside the load"}
    assert {band.css for band in bands} == {"warming", "polling silent s1", "polling s1"}
    assert ">queries/s<" in first.svg
    assert ">50k<" in first.svg
    assert isinstance(more, FoldedParts)
    assert more.summary == "Further figures of 5.7.22 table_open_cache=400: reads/s, polls/s"


def test_queries_and_reads_are_drawn_by_page_size_with_the_most_clients() -> None:
    (chart,) = page_size_charts(write_scaling())
    assert [mark.name for mark in chart.legend] == ["5.7.22, threads 8", "8.0.31, threads 8"]
    assert chart.svg.count('class="run ') == 2 * 3 * 3, "every run of each size of pages"
    assert [size in chart.svg for size in (">16k<", ">8k<", ">4k<")] == [True] * 3
    (group,) = page_size_groups(write_scaling())
    assert [len(series.line) for series in page_size_series(write_scaling(), group)] == [3, 3]
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
    assert chart.svg.count('class="series s0"') == more.svg.count('class="series s0"') == 2
    assert ">mine/s<" in more.svg
    assert timelines(session, Timeline((0.0, 1.0), {"qps": (1.0, 1.0)})) == (), "too short"
