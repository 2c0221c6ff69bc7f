"""The answer to the session's question, and texts that keep their form whatever names and notes are in them."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from at_work import NEW, OLD, POLLS, interference, metadata, table_cache, write_scaling
from everything import a_run, a_session, everything, growing
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from runs import plain_variants, variants_with, with_parts
from sessions import FIXTURES, KEPT_SESSIONS, with_metrics

from recovery.analysis.contrasts import holm_significant
from recovery.analysis.summary import (
    all_variant_ratios,
    baseline_of,
    compared_with_baseline,
    summarise,
    variant_ratios,
    version_ratios,
)
from recovery.analysis.warnings import findings
from recovery.metrics import metric
from recovery.model import Axis, ExtraRun, Phase, ReadFloor, Run, Session, Table, Verdict
from recovery.report import console as console_report
from recovery.report import fmt, markdown, text
from recovery.report.console import _next_commands, fitted, print_answer
from recovery.report.html import page as html_page
from recovery.report.html.parts import Chart
from recovery.report.html.session_charts import floor_chart, group_charts, phase_rows
from recovery.report.startup_tables import floor_table, phase_table
from recovery.report.summary_text import answer_of, answers, compare_ends, seconds_with_digits
from recovery.storage.sessions import load_session

SESSION = load_session(FIXTURES / "sessions" / "three-versions")
COLD = a_run(1, ("5.7.22", "cold"), 41.0)
WARM = a_run(2, ("5.7.22", "warm"), 6.2)
TRACED = dict.fromkeys(("tablespaces_opened", "tablespaces_modified", "tablespaces_read", "opened_unmodified"))
UNTRACED: Run = with_parts(COLD, **TRACED)
VOID = replace(COLD, verdict=Verdict.VOID, reason="somebody else killed it.")
FAILED = replace(VOID, number=2, verdict=Verdict.FAILED)


def of(*runs: Run) -> str:
    return "\n".join(answers(a_session(runs)))


def below_head(session: Session) -> tuple[str, ...]:
    """The answer without its first line, which says what the figures are."""
    head, *lines = answers(session)
    assert " on this host" in head
    assert head.endswith(":")
    return tuple(lines)


# --- Answers about starts


def test_of_many_short_phases_the_longest_are_named_and_the_others_counted() -> None:
    names = ("buffer pool", "system files", "redo scan", "redo apply", "validation", "dictionary")
    phases = tuple(Phase(name, 1.0 * number, 1.1 * number + 1) for number, name in enumerate(names))
    found = of(with_metrics(with_parts(UNTRACED, phases=phases), startup_s=7.5))
    named = "1.50 s dictionary, 1.40 s validation, 1.30 s redo apply and 1.20 s redo scan"
    assert f"cold: {named} of 7.50 s; 2.10 s in 2 shorter phases." in found


def test_what_no_line_of_the_log_explains_is_said() -> None:
    found = of(with_parts(UNTRACED, phases=(Phase("validation", 1.0, 31.0),)))
    assert "5.7.22 cold: 30.0 of 41.0 s are validation; 11.0 s between lines of the log that do not show what" in found


CHECKED = (Phase("dictionary read", 0.0, 20.0, True), Phase("file check", 20.0, 41.0, True))


def test_an_estimated_boundary_is_marked_in_the_answer_and_in_the_table() -> None:
    new = with_parts(UNTRACED, version="8.0.31", phases=CHECKED)
    assert "cold: ~21.0 s file check and ~20.0 s dictionary read of 41.0 s." in of(new)
    table = phase_table(a_session((new,)))
    assert table is not None
    assert (table.headers[2:], table.rows[0][2:4]) == (("dictionary read", "file check", "named"), ("~20.00", "~21.00"))
    assert any(note.startswith("~: begins or ends 10 s before") for note in table.notes)
    (row,) = phase_rows(a_session((new,)))
    assert row.tooltips["file check"] == "~21.00 s"


def test_starts_of_which_some_hide_the_boundary_are_summed_up_as_one_phase() -> None:
    joined = (Phase("dictionary read + file check", 0.0, 40.0),)
    runs = (with_parts(UNTRACED, phases=CHECKED), with_parts(UNTRACED, number=2, phases=joined))
    table = phase_table(a_session(runs))
    assert table is not None
    assert (table.headers[2:], table.rows[0][2:3]) == (("dictionary read + file check", "named"), ("40.50",))
    assert not any(note.startswith("~") for note in table.notes)


def test_a_session_whose_logs_hide_the_phases_says_how_to_see_them() -> None:
    hidden = (
        Phase("innodb initialization", 0.0, 30.0),
        Phase("dictionary read + file check + rest to ready", 30.0, 41.0),
    )
    found = of(with_parts(UNTRACED, version="8.0.31", phases=hidden))
    assert "cold: 30.0 s innodb initialization and 11.0 s dictionary read" in found
    assert "The log shows more phases with log_error_verbosity=3" in found
    assert "log_error_verbosity" not in of(UNTRACED)


def test_runs_whose_interval_passes_zero_are_given_as_a_range() -> None:
    runs = [
        with_metrics(replace(COLD, number=number), startup_s=seconds)
        for number, seconds in enumerate((0.9, 1.2, 3.7), start=1)
    ]
    assert "5.7.22: cold 1.93 s (runs of 0.90 to 3.70 s)" in of(*runs)


TITLE = "Startup after SIGKILL on this host: 200,000 tables, mean of 1 run in this session:\n"
READS = "reads a table 1.84, 61.5 kB"
WHY = "5.7.22 cold: 36.5 s validation and 2.87 s rest to ready of 41.0 s"
FILES = "100 of 200,000 opened tablespaces are modified"


@pytest.mark.parametrize(
    ("runs", "answer"),
    [
        (
            (COLD, WARM),
            f"{TITLE}5.7.22: cold 41.0 s; warm 6.20 s; opens all; {READS}\nNot compared: 3 runs of each are needed.\n"
            f"{WHY}; {FILES}.",
        ),
        (
            (UNTRACED, replace(COLD, number=2, verdict=Verdict.SAMPLED, extra=ExtraRun.TRACE)),
            f"{TITLE}5.7.22: cold 41.0 s; opens all; {READS}\n{WHY}; {FILES}.",
        ),
        ((UNTRACED,), f"{TITLE}5.7.22: cold 41.0 s; {READS}\n{WHY}."),
        ((with_parts(UNTRACED, phases=()),), f"{TITLE}5.7.22: cold 41.0 s; {READS}"),
        ((with_metrics(with_parts(UNTRACED, phases=()), read_bytes=None),), f"{TITLE}5.7.22: cold 41.0 s"),
        (
            (VOID,),
            "5.7.22: nothing was measured (1 void run): somebody else killed it.\nNot counted: 5.7.22 1 void run.",
        ),
        ((), "5.7.22: nothing was measured."),
    ],
)
def test_the_answer_has_what_was_measured_and_no_more(runs: tuple[Run, ...], answer: str) -> None:
    assert of(*runs) == answer


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ((a_run(1, ("mariadb-10.11.5", "cold"), 4.0),), "opens all;"),
        ((VOID, FAILED), "(1 failed run, 1 void run)"),
        ((COLD, FAILED), "Not counted: 5.7.22 1 failed run."),
        ((replace(COLD, verdict=Verdict.SAMPLED),), "5.7.22: only runs that are not averaged"),
    ],
)
def test_the_answer_mentions_what_is_unusual(runs: tuple[Run, ...], words: str) -> None:
    assert words in of(*runs)


def of_versions(seconds: Mapping[str, Sequence[float]]) -> str:
    pairs = [(version, each) for version, several in seconds.items() for each in several]
    runs = [
        with_parts(a_run(number, (version, "cold"), each), phases=()) for number, (version, each) in enumerate(pairs, 1)
    ]
    return of(*runs)


def test_the_fastest_version_is_compared_with_the_slowest() -> None:
    found = of_versions({"5.6.24": (47, 48, 49), "5.7.22": (63, 64, 65), "mariadb-10.11.5": (4.0, 4.1, 4.2)})
    assert "\nmariadb-10.11.5 recovers 15.6 times faster (14.9-16.4) than 5.7.22, cold, on this storage." in found


def test_no_difference_is_claimed_that_many_versions_would_show_by_chance() -> None:
    two = {"5.6.24": (10.0, 10.2, 10.4), "5.7.22": (10.6, 10.8, 11.0)}
    assert "5.6.24 recovers 1.06 times faster" in of_versions(two)
    others = {f"5.7.{number}": (10.5,) * 3 for number in range(8)}
    assert "5.6.24 and 5.7.22 do not differ significantly, cold." in of_versions({**two, **others})


def with_settings(seconds: Mapping[str, Sequence[float]]) -> Session:
    """Returns cold starts of one version with each of these named settings, and one warm start each, which must not be
    compared with the cold ones."""
    cells = {f"{cache}-{name}": {"cache": cache, "settings": name} for name in seconds for cache in ("cold", "warm")}
    runs = [
        a_run(number, ("5.7.22", f"cold-{name}"), each)
        for number, (name, each) in enumerate(((name, each) for name in seconds for each in seconds[name]), start=1)
    ]
    warm = [a_run(len(runs) + 1, ("5.7.22", "warm-plain"), 1.0)]
    axes = (Axis("settings", tuple(seconds), "plain"),)
    return replace(a_session((*runs, *warm)), variants=variants_with(cells), axes=axes)


def test_settings_are_compared_with_the_first_of_them() -> None:
    many = {"plain": (74, 75, 76), "few": (14, 15, 16), "one": (1.4, 1.5, 1.6), "cache": (74.5, 75, 75.5)}
    session = with_settings(many)
    assert answer_of(session).comparison == (
        "one instead of plain: 0.020 (0.017-0.023) times as long.",
        "few instead of plain: 0.20 (0.17-0.23) times as long.",
        "cache instead of plain: 1.00 (0.97-1.03) times as long, not significant.",
    )
    found = re.sub(r" +", " ", text.render(session))
    assert "Compared with plain: seconds" in found
    assert "few 15.00 75.00 0.20 (0.17-0.23) yes, better" in found
    assert "cache 75.00 75.00 1.00 (0.97-1.03) no" in found


def test_cold_and_warm_starts_with_the_same_settings_have_bars_of_their_own_names() -> None:
    (chart,) = group_charts(with_settings({"plain": (74, 75, 76), "few": (14, 15, 16)}))
    assert isinstance(chart, Chart)
    assert re.findall(r'class="row-name"[^>]*>([^<]*)<', chart.svg) == ["cold-plain", "warm-plain", "cold-few"]


def test_settings_with_few_runs_are_not_compared() -> None:
    found = "\n".join(answers(with_settings({"plain": (74, 75), "few": (14, 15)})))
    assert "\nNo effect is claimed: 3 runs of each are needed." in found


@pytest.mark.parametrize("name", KEPT_SESSIONS)
def test_a_run_ends_with_one_screen(name: str, kept_sessions: Path) -> None:
    session = load_session(kept_sessions / name)
    for width in (80, 120):
        output = io.StringIO()
        print_answer(session, Path("results/latest"), Console(file=output, width=width))
        printed = output.getvalue()
        # On 80 columns the names of many axes are wrapped.
        assert len(printed.splitlines()) <= (24 if width == 120 else 28), printed
        assert max(map(len, printed.splitlines())) <= width
        assert "report: results/latest/report.html" in printed
        for first in findings(session)[:1]:
            assert "Warning, " in " ".join(printed.split()) or "warnings" in printed, first


ANSWER = ["Startup on this host; mean of 5 runs:", "5.7.22: cold 41.0 s", "8.0.31: cold 76.0 s"]
COMPARED = f"5.7.22 recovers 1.85 times faster than 8.0.31, cold, {'on this storage, as it is now, ' * 2}."
EARLIER = f"Earlier on this host: {'5.7.22 cold 39.8 to 52.2 s, ' * 2}8.0.31 cold 70.0 to 76.4 s in 3 sessions."
EXPLAINS = [f"First start over new files: {'a server, ' * 20}.", f"The host changed meanwhile: {'reads, ' * 20}."]
WARNING = f"Warning: {'drift ' * 40}."


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (20, [1, 1, 1, 2, 3, 3, 2, 2]),
        (13, [1, 1, 1, 2, 3, 2, 2, 1]),
        (12, [1, 1, 1, 2, 3, 1, 2, 1]),
        (10, [1, 1, 1, 2, 1, 1, 2, 1]),
        (9, [1, 1, 1, 2, 1, 0, 2, 1]),
        (8, [1, 1, 1, 2, 0, 0, 2, 1]),
        (7, [1, 1, 1, 2, 0, 0, 1, 1]),
    ],
)
def test_the_end_screen_cuts_last_the_answer_its_storage_and_the_earlier_sessions(count: int, shown: list[int]) -> None:
    texts = [*ANSWER, COMPARED, *EXPLAINS, EARLIER]
    lines = list(fitted(texts, [WARNING], 80, count, keep=False))
    starts = [
        next((n for n, line in enumerate(lines) if text.startswith(line[:12])), None) for text in (*texts, WARNING)
    ]
    there = [start for start in starts if start is not None]
    ends = dict(zip(there, [*there[1:], len(lines)], strict=True))
    assert [0 if start is None else ends[start] - start for start in starts] == shown
    assert len(lines) <= count


@pytest.mark.parametrize(
    ("start", "tool", "session"),
    [
        ("a", "../tools/recovery", "../kept/latest"),
        (".", "tools/recovery", "kept/latest"),
        ("a/b/c", "{}/tools/recovery", "{}/kept/latest"),
    ],
)
def test_the_next_commands_have_the_shorter_paths(
    tmp_path: Path, kept_sessions: Path, monkeypatch: pytest.MonkeyPatch, start: str, tool: str, session: str
) -> None:
    (tmp_path / start).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(tmp_path / start)
    monkeypatch.setattr("sys.argv", [str(tmp_path / "tools" / "recovery")])
    monkeypatch.setenv("PATH", str(tmp_path))
    output = io.StringIO()
    kept = load_session(kept_sessions / "2026-11-26-5.7.22")
    print_answer(kept, tmp_path / "kept" / "latest", Console(file=output, width=500))
    tool, session = tool.format(tmp_path), session.format(tmp_path)
    assert f"next: {tool} report -v {session} (tables), {tool} bundle {session} (bug report)" in output.getvalue()
    assert f"what shortens it: {tool} docs shorten#" in output.getvalue()


@pytest.mark.parametrize("name", KEPT_SESSIONS)
def test_percentages_have_one_spelling(name: str, kept_sessions: Path) -> None:
    """In text, page and tables there is a space before the sign; `PRECISION=5%` is what is typed."""
    session = load_session(kept_sessions / name)
    written = (text.render(session), markdown.render(session), html_page.render(session).partition("</style>")[2])
    shown = "".join(re.sub(r"<svg.*?</svg>|PRECISION=\d+%|<[^>]*>", "", one, flags=re.DOTALL) for one in written)
    assert re.findall(r".*\d%.*", shown) == []


def test_table_and_chart_of_the_floor_have_the_same_mean() -> None:
    runs = tuple(a_run(number, ("5.7.22", "cold"), seconds) for number, seconds in enumerate((17.0, 18.0, 19.0), 1))
    session = a_session(runs, floors=(ReadFloor("5.7.22", ("cold",), 200_000, 9.0, 2.0, 16, 2.5),))
    table, chart = floor_table(session), floor_chart(session)
    assert table is not None
    assert chart is not None
    assert table.rows[0][-3:] == ("18.00", "2.00", "9.00")
    assert "9.00 \u00d7 16 threads" in chart.svg


@pytest.mark.parametrize(("share", "side"), [(1.5, "above"), (0.5, "below")])
def test_there_is_no_prediction_if_its_test_fails(share: float, side: str) -> None:
    session = growing(1_000_000)
    straight = next(line for line in below_head(session) if line.startswith("5.7.22 cold: "))
    assert straight.startswith("5.7.22 cold: a straight line fits: 1.22 s and 0.306 +- 0.0035 ms for each table")
    assert "; predicted with 1,000,000: 307 s (300 s to 315 s), tested at 50,000: 16.5 s measured, " in straight
    runs = tuple(
        with_metrics(run, startup_s=share * run.metrics["startup_s"]) if run.contents.tables_found == 50_000 else run
        for run in session.runs
    )
    bent = next(line for line in below_head(replace(session, runs=runs)) if line.startswith("5.7.22 cold: "))
    assert re.search(rf"; no prediction for 1,000,000 \(.*, 50 % {side} its prediction\)\.$", bent)


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.694, "0.69 s"), (9.996, "10.0 s"), (41.04, "41.0 s"), (99.96, "100 s"), (412.4, "412 s")]
)
def test_seconds_have_three_digits(seconds: float, words: str) -> None:
    assert seconds_with_digits(seconds) == words


# --- Answers about servers under load


def with_measures(session: Session, **measures: float) -> Session:
    """With these measures in the runs with a poller."""
    runs = (replace(one, metrics=one.metrics | measures) if "-on" in one.variant else one for one in session.runs)
    return replace(session, runs=tuple(runs))


def test_a_mean_of_zero_is_compared_by_the_difference() -> None:
    lines = below_head(with_measures(interference(caches=("400",)), qps=0.0))
    assert "5.7.22, poll=on instead of off: -46,289 +- 808 queries/s." in lines


def comparison_of(session: Session) -> tuple[str, ...]:
    return answer_of(session).comparison


def without_version(session: Session, version: str) -> Session:
    kept = tuple(name for name in session.versions if name != version)
    return replace(session, versions=kept, runs=tuple(run for run in session.runs if run.version in kept))


def in_one_cell(session: Session, seconds: Mapping[str, Sequence[float]], figure: str = "qps") -> Session:
    """One version in the cells with these names, each with these values of the figure."""
    alone = without_version(session, "8.0.31")
    runs = [
        with_metrics(replace(run, metrics={}), **{figure: seconds[run.variant][run.repeat - 1]})
        for run in alone.runs
        if run.variant in seconds and run.repeat <= len(seconds[run.variant])
    ]
    return replace(alone, metric=figure, runs=tuple(runs), planned_runs=len(runs))


def test_the_largest_effect_of_a_load_comes_first_of_whatever_server_it_is() -> None:
    answer = answer_of(interference())
    assert [(row.name, row.values[0] and row.values[0].text) for row in answer.rows[:2]] == [
        ("5.7.22, table_open_cache=400, poll=off", "46,289 +- 808"),
        ("5.7.22, table_open_cache=400, poll=on", "38,466 +- 672"),
    ]
    assert answer.unit == "queries/s"
    assert answer.comparison[0].startswith("5.7.22, poll=on instead of off: 0.83 (0.82-0.84) times the queries/s")
    assert answer.comparison[-1] == "No significant difference in 5 of 12 comparisons."


def test_an_effect_is_significant_in_a_sentence_if_it_is_in_the_table_of_its_axis() -> None:
    """There it is among those of other versions, and not among those of other axes."""
    usual = (1000.0, 1010.0, 990.0)

    def with_low(session: Session, low: Sequence[float]) -> Session:
        runs = (
            with_metrics(run, qps=(low if (run.version, run.variant) == (OLD, "4000-on") else usual)[run.repeat - 1])
            for run in session.runs
        )
        return replace(session, runs=tuple(runs))

    both = with_low(interference(), (964.0, 974.0, 954.0))
    assert [ratio.significant for ratio in all_variant_ratios(both)] == [False] * 6
    assert comparison_of(both)[-1].endswith(", all taken together.")

    two = replace(interference(caches=("400", "4000")), axes=(Axis("table_open_cache", ("400", "4000"), "400"), POLLS))
    alone = with_low(without_version(two, NEW), (968.0, 978.0, 958.0))
    assert [ratio.significant for ratio in all_variant_ratios(alone)] == [False, True, False, True]
    assert "0.97 (0.95-0.99) times the queries/s" in comparison_of(alone)[0]
    assert comparison_of(alone)[-1] == "No significant difference in 2 of 4 comparisons."


@pytest.mark.parametrize("made", [interference, table_cache, write_scaling, metadata])
def test_all_ratios_of_a_table_are_corrected_together(made: Callable[[], Session]) -> None:
    session = made()
    along = [variant_ratios(session, axis) for axis in session.axes]
    assert any(along) is (made is not metadata)
    for found in (*along, compared_with_baseline(session)):
        known = [contrast for contrast in found if contrast.p_value is not None]
        assert [contrast.significant for contrast in known] == [
            *holm_significant([contrast.p_value for contrast in known])
        ]


def test_two_versions_are_as_significant_in_a_sentence_as_in_each_table() -> None:
    session = load_session(FIXTURES / "sessions" / "three-versions")
    pairs = {frozenset((one.version, one.base_version)): one.significant for one in version_ratios(session)
             if one.variant == "cold"}  # fmt: skip
    base = baseline_of(session)
    for one in compared_with_baseline(session):
        if one.variant == "cold":
            assert one.significant is pairs[frozenset((one.version, base))]
    cold = [one for one in summarise(session) if one.variant == "cold"]
    ends = compare_ends(session, cold)
    assert ends.differ is pairs[frozenset((ends.fast.version, ends.slow.version))]


def test_the_cell_of_an_effect_is_named() -> None:
    assert comparison_of(table_cache())[0] == (
        "5.7.22, table_open_cache_instances=16 instead of 1: 1.45 (1.42-1.47) times the queries/s for read-write, "
        "threads 8."
    )


def test_tasks_have_a_row_each_with_its_unit() -> None:
    answer = answer_of(metadata())
    assert [(row.name, row.values[0] and row.values[0].text) for row in answer.rows[:3]] == [
        ("5.7.22, Q1", "58.3 s +- 1.0"), ("5.7.22, Q2", "0.61 s +- 0.01"), ("5.7.22, Q3", "14.1 s +- 0.2"),
    ]  # fmt: skip
    assert answer.comparison[0] == "8.0.31 instead of 5.7.22: 0.0034 (0.0034-0.0035) times as long for Q3."


@pytest.mark.parametrize(
    ("on", "result"),
    [
        ((500.0, 501.0, 499.0), "poll=on instead of off: 0.50 (0.49-0.51) times the queries/s."),
        ((1001.0, 1011.0, 980.0), "poll=on instead of off: 1.00 (0.97-1.03) times the queries/s, not significant."),
        ((500.0, 501.0), "No effect is claimed: 3 runs of each are needed."),
    ],
)
def test_a_single_effect_is_given_with_its_interval_or_not_at_all(on: Sequence[float], result: str) -> None:
    session = in_one_cell(interference(caches=("400",)), {"400-off": (1000.0, 1010.0, 990.0), "400-on": on})
    assert comparison_of(session) == (result,)


def test_values_of_few_runs_have_no_interval() -> None:
    few = replace(metadata(), runs=tuple(run for run in metadata().runs if run.repeat == 1))
    assert not any("+-" in line for line in answers(few))
    assert comparison_of(few) == ("No effect is claimed: 3 runs of each are needed.",)


def test_a_load_that_varies_by_more_than_its_mean_has_a_range() -> None:
    values = {"400-off": (900.0, 1200.0, 3700.0), "400-on": (900.0, 1200.0, 3700.0)}
    first, *_ = below_head(in_one_cell(interference(caches=("400",)), values))
    assert first.startswith("5.7.22, poll=off: 1,933 (runs of 900 to 3,700) queries/s")


# --- Texts of any session


def with_strings(outside: str) -> Session:
    """The fixture with this text in every place that a user, a server or a host fills."""
    runs = tuple(
        with_parts(run, reason=outside, log=outside, means=outside, version=outside) for run in SESSION.runs[6:9]
    )
    return replace(
        SESSION,
        experiment=outside,
        question=outside,
        command=outside,
        versions=(outside, "5.7.22"),
        variants=plain_variants(outside, "cold"),
        environment={outside: outside, "cpus": 2},
        settings={"data": outside},
        servers={outside: {outside: outside, "options": outside}},
        notes=(outside,),
        runs=runs,
    )


def on_console(session: Session, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False, color_system=None)
    console_report.render(session, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


ORDERS = {
    text.render: ("Warnings", "Settings", "Host", "To repeat it:"),
    markdown.render: ("## Warnings", "## Settings", "## Host", "To repeat it:"),
    partial(on_console, width=200): ("Warnings", "repeat:"),
    html_page.render: ('id="warnings"', ">Settings<", ">Host<", 'id="repeat"'),
}


@pytest.mark.parametrize(("render", "rest"), ORDERS.items())
def test_every_format_has_the_answer_then_figures_warnings_settings_and_host(
    render: Callable[[Session], str], rest: tuple[str, ...]
) -> None:
    found = render(replace(SESSION, notes=("A note about the session.",)))
    places = [
        found.index(words)
        for words in ("Startup after SIGKILL on this host: ", "Startup after SIGKILL: seconds", *rest)
    ]
    assert places == sorted(places)
    assert found.index("A note about the session.") > found.index(rest[0])


@given(st.text(max_size=120) | st.text("ab |`<>\\\"'[/]\u00e9\u00d7\n\t\x1b\u202e\ud800", max_size=200))
def test_any_text_leaves_every_form_intact(outside: str) -> None:
    session = with_strings(outside)
    page = text.render(session)
    assert page.isascii()
    assert page.endswith("\n")
    assert max(map(len, page.split("\n"))) <= text.WIDTH
    assert all(char.isprintable() or char == "\n" for char in page)
    assert_cells_are_kept(markdown.render(session))
    printed = on_console(session, 80)
    assert "\x1b" not in printed
    printed.encode("utf-8")


def assert_cells_are_kept(page: str) -> None:
    """Each row of a Markdown table has as many cells as its header, and nothing becomes markup."""
    columns = 0
    fenced = False
    for line in page.split("\n"):
        if line.startswith("```"):
            fenced = not fenced
        if fenced:
            continue
        assert "<" not in line
        if not line.startswith("| ") and not line.startswith("|-"):
            columns = 0
            continue
        bars = len(re.findall(r"(?<!\\)(?:\\\\)*\|", line))
        assert bars == (columns or bars)
        columns = bars


def test_markdown_is_escaped() -> None:
    session = replace(SESSION, notes=("a|b `c` <b>x</b> *y* [z](u) _q_ innodb_page_size \\ &amp;",), command="a ``` b")
    page = markdown.render(session)
    assert "a\\|b \\`c\\` &lt;b&gt;x&lt;/b&gt; \\*y\\* \\[z\\](u) \\_q\\_ innodb_page_size \\\\ &amp;amp; |\n" in page
    assert "````sh\na ``` b\n````\n" in page


@pytest.mark.parametrize("long", ["größer/" * 12, "/mnt/" + "a" * 200, "it's `x` $y " * 12, "tab\there"])
def test_the_command_can_be_pasted(long: str) -> None:
    words = ["recovery", "run", "--set", "a b=c", *["--tables", "200000"] * 12, "--note", long, "--offline"]
    page = text.render(replace(SESSION, command=shlex.join(words)))
    pasted = page.split("To repeat it:\n")[1].split("\n\n")[0]
    script = f"printf '%s\\0' {pasted.strip()}"
    printed = subprocess.run(["bash", "-c", script], env={"LC_ALL": "C.UTF-8"}, capture_output=True, check=True).stdout
    assert printed.decode().split("\0")[:-1] == words


@pytest.mark.parametrize("width", [80, 120])
def test_the_console_shows_answers_and_whole_rows(width: int) -> None:
    command, *lines = [line for line in on_console(SESSION, width).split("\n") if not line.startswith("repeat:")]
    assert command.startswith("crash-recovery")
    assert max(map(len, lines)) <= width
    assert answers(SESSION)[0] in " ".join(" ".join(lines).split()).replace("\u00b1", "+-")
    # Figures and names are whole, and a row is a line.
    rows = [line for line in lines if re.match(r" *\d+ +mariadb-10\.11\.5 +(cold|warm) +\d+\.\d+ ", line)]
    assert len(rows) == 6
    assert sum(line.startswith("mariadb-10.11.5") and "1.03" in line for line in lines) == 1
    if width == 120:
        (first,) = (line for line in lines if re.match(r" *1  5\.6\.24", line))
        assert first.rstrip().endswith("measured"), "all of a run is in one line"


def test_the_console_interprets_no_markup() -> None:
    page = on_console(replace(SESSION, notes=("[red]no [/] markup[/red] :smile: [link=x]",)), 120)
    assert "[red]no [/] markup[/red] :smile: [link=x]" in page


def test_a_session_without_runs_is_rendered() -> None:
    for session in (everything(), interference(), metadata(), table_cache(), write_scaling()):
        empty = replace(session, runs=(), status="running")
        assert answers(empty)[0] == "5.7.22: nothing was measured."
        assert "nothing was measured" in text.render(empty)


class Counted(str):
    """A version that counts how often it is compared."""

    __slots__ = ()
    __hash__ = str.__hash__
    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)


def test_a_report_groups_its_runs_once() -> None:
    """With 1,000 runs in 1,000 cells, a search of all runs for each cell takes a million comparisons."""
    versions = tuple(Counted(f"8.0.{number}") for number in range(50))
    variants = tuple(f"cold-{number}" for number in range(20))
    cells = [(version, variant) for version in versions for variant in variants]
    runs = tuple(
        replace(SESSION.runs[0], number=number, version=version, variant=variant)
        for number, (version, variant) in enumerate(cells, 1)
    )
    session = replace(
        SESSION, versions=versions, variants=plain_variants(*variants), runs=runs, planned_runs=len(runs), servers={}
    )
    Counted.compared = 0
    text.render(session)
    assert Counted.compared < 300_000


# --- Splitting of wide tables, and formats of single values


def a_table(*widths: int) -> Table:
    headers = tuple(f"h{number}" for number in range(len(widths)))
    row = tuple("x" * width for width in widths)
    return Table(title="t", headers=headers, rows=(row,), numeric=(False,) * len(widths), notes=("n",))


def test_a_wide_table_is_split_and_repeats_its_keys() -> None:
    assert fmt.split(a_table(10, 10), 22, gap=2) == (a_table(10, 10),)
    parts = fmt.split(a_table(3, 20, 20, 20, 20, 20), 50, gap=2)
    assert [part.headers for part in parts] == [("h0", "h1", "h2"), ("h0", "h3", "h4"), ("h0", "h5")]
    assert [part.title for part in parts] == ["t", "", ""]
    assert [part.notes for part in parts] == [(), (), ("n",)]


def test_printable_text_is_one_line_without_control_characters() -> None:
    assert fmt.printable("a\n b\x1b[31m\ud800\u202ec") == "a b?[31m??c"


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "-"), (0.0, "0.00"), (1.234, "1.23"), (99.994, "99.99"), (99.996, "100.0"), (425.26, "425.3")],
)
def test_seconds_in_tables(value: float | None, words: str) -> None:
    assert fmt.seconds(value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "-"), (0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_949, "999.9 kB"), (999_960, "1.0 MB"),
        (19_900_000_000, "19.9 GB"), (22_000_000_000_000, "22.0 TB"),
    ],
)  # fmt: skip
def test_sizes_are_decimal(value: int | None, words: str) -> None:
    assert fmt.size(value) == words


def test_absent_is_a_dash_and_zero_is_zero() -> None:
    assert fmt.count(None) == fmt.ratio(None) == fmt.found_of_expected(None, None) == "-"
    assert fmt.count(0) == "0"
    assert fmt.found_of_expected(99, 100) == "99/100"
    assert fmt.found_of_expected(None, 100) == "-/100"
    assert fmt.fact_row("template", None) == ("template", "-")
    assert fmt.fact_row("as_published", value=False) == ("as published", "no")


@pytest.mark.parametrize(("name", "value", "words"), [
    ("qps", 46320.4, "46,320 queries/s"), ("elapsed_s", 0.0421, "0.0421 s"), ("elapsed_s", 345.6, "345.6 s"),
    ("table_open_cache_hit_share", 0.99984, "99.98 %"), ("latency_p99_ms", 12.34, "12.3 ms"),
    ("read_bytes", 1.25e6, "1.2 MB"), ("read_bytes_per_s", 1.25e6, "1.2 MB/s"), ("client_errors", 3.0, "3 errors"),
    ("not_known_bytes", 1.25e6, "1.2 MB"), ("not_known", 7.0, "7 not known"), ("qps", 0.0, "0 queries/s"),
])  # fmt: skip
def test_figures_have_their_units(name: str, value: float, words: str) -> None:
    assert fmt.with_unit(metric(name), value) == words


def test_the_last_line_names_the_tracker_of_the_slowest_server(kept_sessions: Path) -> None:
    session = load_session(kept_sessions / "2026-11-28-two-versions")
    for versions in (session.versions, session.versions[::-1]):
        turned = replace(session, versions=versions, runs=session.runs[:: 1 if versions == session.versions else -1])
        assert "bundle --for mysql " in _next_commands(turned, kept_sessions / "2026-11-28-two-versions")
