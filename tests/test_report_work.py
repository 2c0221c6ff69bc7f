"""What do the reports say of a server at work? Golden texts of four forms, and what must hold of any."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from at_work import FORMS, MORE, NEW, OLD, SMALL, interference, metadata, table_cache, waited, write_scaling

from recovery.analysis.compare import compare, worse_pairs, worse_than_baseline
from recovery.cli.main import run
from recovery.model import Session, Table, Verdict, metric
from recovery.report import exports, fmt, markdown, text
from recovery.report.compare import comparison_tables
from recovery.report.stored_session import REPORT_FILE, to_json
from recovery.report.summary_text import answers
from recovery.report.tables import all_tables, figure_tables

GOLDEN = Path(__file__).parent.parent / "fixtures" / "work"
every_form = pytest.mark.parametrize("name", FORMS)


@pytest.mark.parametrize("name", SMALL)
def test_texts_are_as_kept(name: str) -> None:
    assert text.render(SMALL[name]()) == (GOLDEN / f"{name}.txt").read_text()


@every_form
def test_the_text_is_narrow_and_plain(name: str) -> None:
    told = text.render(FORMS[name]())
    assert told.isascii()
    assert max(map(len, told.splitlines())) <= 78
    assert "Every run" in markdown.render(FORMS[name]())


def titled(session: Session, title: str) -> Table:
    (found,) = [table for table in figure_tables(session) if table.title.startswith(title)]
    return found


def test_what_is_lost_is_told_with_its_error() -> None:
    lost = titled(interference(), "Lost by poll=on")
    assert lost.headers == (
        "version", "table open cache", "poll=off", "poll=on", "lost", "95 % interval", "significant", "more misses/s",
    )  # fmt: skip
    assert lost.rows[0] == (OLD, "400", "46,289", "38,466", "16.9 %", "15.6 to 18.2 %", "yes, worse *", "1,299")
    assert [row[-2:] for row in lost.rows if row[0] == NEW] == [("no", "0")] * 3


def test_where_the_loads_own_misses_are_not_known_none_are_told() -> None:
    session = interference(caches=("400",))
    runs = (
        replace(run, measures={name: value for name, value in run.measures.items() if not name.startswith("load_")})
        for run in session.runs
    )
    lost = titled(replace(session, runs=tuple(runs)), "Lost by poll=on")
    assert lost.headers[-1] == "significant"
    assert len(lost.rows[0]) == len(lost.headers) == len(lost.numeric)
    assert not any("misses" in note for note in lost.notes)


def test_waits_are_those_of_the_run_that_counts_them() -> None:
    session = waited(write_scaling(small=True))
    table = titled(session, "Most frequent waits")
    by_cell: dict[tuple[str, ...], list[str]] = {}
    for *cell, _, name, _, _ in table.rows:
        by_cell.setdefault(tuple(cell), []).append(name)
    *counted, last = by_cell.values()
    assert len(by_cell) == 4
    for names in counted:
        assert names[:3] == ["SRV_SYS", "rwlock: btr0sea.cc:202", "LOG_WRITE"], "three of each source"
        assert names[3:] == [f"wait/synch/mutex/innodb/{one}_mutex" for one in ("srv_sys", "trx_sys")] + ["row locks"]
    assert last == ["rwlock: btr0sea.cc:202", "row locks"]
    assert table.notes[0].startswith("From the run of each cell in which all waits were counted")
    assert table.notes[1].startswith("From the median run of each other cell. ")
    runs = tuple(run for run in session.runs if run.verdict is Verdict.MEASURED)
    usual = titled(replace(session, runs=runs), "Most frequent waits")
    assert usual.notes[0].startswith("From the median run of each cell. ")
    qps = [table for table in figure_tables(session) if table.title.startswith("Writes and threads")]
    assert qps == [table for table in figure_tables(replace(session, runs=runs)) if table.title.startswith("Writes")]
    assert "Waits counted, in no mean: runs 1" in " ".join(titled(session, "Every run").notes)


def test_seconds_are_added_not_lost() -> None:
    session = interference(caches=("400",))
    slower = replace(
        session,
        figure="elapsed_s",
        runs=tuple(replace(one, measures={"elapsed_s": 1e6 / one.measures["qps"]}) for one in session.runs),
    )
    added = titled(slower, "Added by poll=on")
    assert added.rows[0][3] == "20.3 %"
    assert added.rows[0][-1] == "yes, worse *"
    assert answers(slower)[0].startswith("5.7.22 needs 20.3 % (18.4 to 22.3) more")
    assert answers(slower)[1].startswith("8.0.31 does not take significantly longer by poll=on")


def test_factors_against_a_base() -> None:
    factors = titled(table_cache(), "table_open_cache_instances: queries/s, ratio to 1, read-write")
    assert factors.headers == ("version", "tables", "threads", "mean at 1", "8", "16")
    row = next(row for row in factors.rows if row[:3] == (OLD, "1", "8"))
    assert row[-1].startswith("1.45 (1.42-1.47)")
    assert titled(write_scaling(), "innodb_doublewrite").rows[0][-1].startswith("1.40 (")


def test_the_table_as_it_was_published() -> None:
    table = titled(MORE["profiled"](), "Questions to the dictionary: seconds of each task")
    assert table.headers == ("what", OLD, NEW, "8.0.31 / 5.7.22")
    assert [row[0] for row in table.rows] == [
        "Q1", "Q2", "Q3", "creating 500 tables one by one", "creating all 100,000, fast",
        "creating all 100,000 one by one", "dump", "dump, --skip-lock-tables",
    ]  # fmt: skip
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["Q1"] == ("58.26", "1.92", "0.033")
    assert rows["creating all 100,000 one by one"] == ("* 1,880", "* 2,240", "1.19"), "500 tables in 9.4 and in 11.2 s"
    assert table.notes[1].startswith("*: extrapolated")
    assert table.notes[2] == "Dumps of all versions by mariadb-dump (from 11.8.3-MariaDB)."
    plain = titled(metadata(), "Questions to the dictionary: seconds of")
    assert not any("*" in cell for row in plain.rows for cell in row)
    assert len(plain.notes) == 1


def test_only_times_without_a_switch_stand_version_beside_version() -> None:
    for session in (interference(), write_scaling(), replace(interference(caches=("400",)), figure="elapsed_s")):
        assert not any("seconds of each task" in table.title for table in figure_tables(session))


def test_three_versions_are_told_in_pairs() -> None:
    session = MORE["three-versions"]()
    scaling = titled(session, "Versions compared: queries/s, scaling")
    assert scaling.headers[-3:] == ("5.7.22 / 5.6.24", "8.0.31 / 5.7.22", "8.0.31 / 5.6.24")
    row = next(row for row in scaling.rows if row[:2] == ("read-write", "8"))
    assert [cell[:4] for cell in row[-3:]] == ["1.23", "1.23", "1.51"]
    assert not any(table.title.startswith("Compared with") for table in figure_tables(session))
    stored = json.loads(to_json(session))["ratios"]
    assert len(stored) == 3 * len(session.variants)
    assert {(one["version"], one["base_version"]) for one in stored} == {(OLD, "5.6.24"), (NEW, OLD), (NEW, "5.6.24")}


def test_more_versions_keep_their_baseline_beside_neighbours() -> None:
    session = interference(caches=("400",))
    fourth = ("a", OLD, "b", NEW)
    runs = tuple(replace(run, version=version) for version in fourth for run in session.runs if run.version == OLD)
    wide = replace(session, versions=fourth, runs=runs, servers={})
    pairs = titled(wide, "Versions compared")
    assert pairs.headers[-4:] == ("5.7.22 / a", "b / 5.7.22", "8.0.31 / b", "8.0.31 / a")
    assert {cell for row in pairs.rows for cell in row[1:]} == {"1.00 (0.98-1.02) (=)"}
    assert titled(wide, "Compared with a").rows


def test_queries_stand_beside_the_reads_that_they_cost() -> None:
    table = titled(write_scaling(), "Queries and reads of the device, larger-than-memory")
    assert table.headers == ("version", "threads", "innodb page size", "queries/s", "reads/s", "reads/query")
    rows = {row[:3]: row[3:] for row in table.rows}
    assert rows[OLD, "8", "4k"] == ("55,312", "38,718", "0.70")
    measures = json.loads(to_json(write_scaling()))["measures"]
    assert {round(one["mean"], 2) for one in measures if one["name"] == "device_reads_per_query"} == {0, 0.7, 0.75, 0.8}
    assert not any("device's reads" in table.title for table in figure_tables(interference()))


def test_better_and_worse_go_by_the_figure() -> None:
    less = {row[1]: row[-1] for row in titled(metadata(), "Compared with 5.7.22").rows}
    assert (less["Q1"], less["dump"]) == ("yes, better", "yes, worse")
    more = {row[1:3]: row[-1] for row in titled(interference(), "Compared with 5.7.22").rows}
    assert (more["400", "off"], more["400", "on"], more["4000", "on"]) == ("yes, worse", "yes, better", "no")


def test_columns_without_values_are_left_out_and_zeros_are_said_once() -> None:
    cache = titled(table_cache(), "Table cache, means")
    assert "overflows/s" not in cache.headers
    assert any("Zero in every cell: misses/s, overflows/s" in note for note in cache.notes)
    names = {table.title for table in figure_tables(metadata())}
    assert not any(name.startswith(("Locks", "Table cache")) for name in names)


def test_what_failed_is_counted_beside_and_said() -> None:
    session = interference()
    failed = replace(session.runs[0], verdict=Verdict.FAILED, reason="sysbench: FATAL")
    broken = replace(session, runs=(failed, *session.runs[1:]))
    assert any("5.7.22 400-off 1 failed" in note for note in figure_tables(broken)[0].notes)
    assert titled(broken, "Not counted").rows[0][-1] == "sysbench: FATAL (logs/001.err)"
    assert answers(broken)[0].endswith("Not counted: 1 failed run.")


def test_a_session_without_runs_is_rendered() -> None:
    for form in FORMS.values():
        empty = replace(form(), runs=(), status="running")
        assert answers(empty)[0] == "5.7.22: nothing was measured."
        assert "nothing was measured" in text.render(empty)


def test_variants_without_axes_are_called_by_their_names() -> None:
    bare = replace(metadata(), axes=(), cells={})
    assert figure_tables(bare)[1].headers[:3] == ("version", "variant", "runs")
    assert "for Q1" in answers(bare)[0]


def test_answers() -> None:
    old, new = answers(interference(caches=("400",)))
    assert old == "5.7.22 loses 16.9 % (15.6 to 18.2) by poll=on (46,289 to 38,466 queries/s)."
    assert new == "8.0.31 does not lose significantly by poll=on (43,071 to 43,071 queries/s)."
    old, new = answers(metadata())
    assert old.startswith("5.7.22 needs 58.26 s for Q1, 30.4 (29.9-30.9) times as long as 8.0.31; ")
    assert "108.1 s for dump, 3.38 (3.33-3.44) times as long as 5.7.22" in new
    old, new = answers(table_cache())
    assert "up to 49,994 queries/s with point-select, table_open_cache_instances=16, tables 2, threads 8;" in old
    assert "table_open_cache_instances=16 makes it up to 1.45 (1.42-1.47)" in old
    assert " times that of 5.7.22" in new


def test_what_falls_to_nothing_is_told_as_a_difference() -> None:
    session = interference(caches=("400",))
    none = (
        replace(run, measures={**run.measures, "qps": 0.0}) if "-on" in run.variant else run for run in session.runs
    )
    (old, _) = answers(replace(session, runs=tuple(none)))
    assert old.startswith("5.7.22 changes by -46,289 +- 808 by poll=on")
    assert "times" not in old


def test_of_very_many_cells_a_sentence_tells_some() -> None:
    told = answers(replace(write_scaling(), figure="latency_p95_ms"))
    assert all(one.endswith("more in the tables.") for one in told)
    plain = write_scaling()
    unscaled = replace(plain, axes=tuple(axis for axis in plain.axes if axis.name != "threads"))
    assert answers(unscaled)[0].startswith("5.7.22 does up to 32,536 queries/s with scaling, point-select; ")


def test_commands_of_clients_are_told_once() -> None:
    clients = next(table for table in all_tables(table_cache()) if table.title == "Clients")
    assert [row[1] for row in clients.rows] == [f"sysbench oltp --threads={count} run" for count in (1, 2, 4, 8)]


def test_csv_has_a_column_for_each_axis_and_measure() -> None:
    session = write_scaling(small=True)
    rows = list(csv.DictReader(io.StringIO(exports.render_csv(session))))
    assert len(rows) == len(session.runs)
    assert (rows[0]["axis_threads"], rows[0]["axis_innodb_doublewrite"]) == ("1", "")
    assert float(rows[0]["measure_qps"]) == session.runs[0].measures["qps"]


def scaled(session: Session, factor: float) -> Session:
    runs = (
        replace(one, measures={name: value * factor for name, value in one.measures.items()}) for one in session.runs
    )
    return replace(session, runs=tuple(runs))


def test_two_sessions_are_compared_by_their_figure() -> None:
    one = interference()
    found = compare([one], [scaled(one, 0.8)])
    assert {round(pair.ratio or 0, 3) for pair in found.pairs} == {0.8}
    assert len(worse_pairs(found, 0.1)) == len(found.pairs) == 12
    assert worse_pairs(found, 0.3) == ()
    assert worse_pairs(compare([one], [scaled(one, 1.2)]), 0.1) == (), "more queries are no worse"
    assert worse_pairs(found, 0.1)[0] == (
        "5.7.22 400-off has 0.80 times the queries/s of 5.7.22, 0.9 are allowed"
    )  # fmt: skip
    table = comparison_tables(found, (["a"], ["b"]))[0]
    assert table.title == "b (second) compared with a (first), mean queries/s"
    assert "More is better." in table.notes


def test_a_limit_goes_by_the_figure() -> None:
    assert worse_than_baseline(metadata(), 0.5) == ("8.0.31 dump takes 3.38 times as long as 5.7.22, 1.5 are allowed",)
    assert worse_than_baseline(interference(), 0.05)[0].startswith("8.0.31 400-off has 0.93 times the queries/s")


def test_the_command_compares_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, session in (("a", interference()), ("b", scaled(interference(), 0.5)), ("c", metadata())):
        (tmp_path / name).mkdir()
        (tmp_path / name / REPORT_FILE).write_bytes(to_json(session))
    assert run(["compare", "a", "b", "--results", str(tmp_path)]) == 0
    assert "More is better" in capsys.readouterr().out
    assert run(["compare", "a", "b", "--results", str(tmp_path), "--fail-over", "20%"]) == 4
    capsys.readouterr()
    assert run(["compare", "a", "b", "--json", "--results", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["pairs"][0]["ratio"] == pytest.approx(0.5)
    assert run(["compare", "a", "c", "--results", str(tmp_path)]) == 2
    assert "queries/s" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "value", "told"), [
    ("qps", 46320.4, "46,320 queries/s"), ("elapsed_s", 0.0421, "0.0421 s"), ("elapsed_s", 345.6, "345.6 s"),
    ("table_open_cache_hit_share", 0.99984, "99.98 %"), ("latency_p99_ms", 12.34, "12.3 ms"),
    ("read_bytes", 1.25e6, "1.2 MB"), ("read_bytes_per_s", 1.25e6, "1.2 MB/s"), ("client_errors", 3.0, "3 errors"),
    ("not_known_bytes", 1.25e6, "1.2 MB"), ("not_known", 7.0, "7 not known"),
    ("qps", 0.0, "0 queries/s"),
])  # fmt: skip
def test_figures_have_their_units(name: str, value: float, told: str) -> None:
    assert fmt.with_unit(metric(name), value) == told


def test_a_table_that_is_split_says_again_what_each_row_is() -> None:
    wide = Table("t", ("version", "cell", *"abcdefgh"), (("5.7.22", "one", *["x" * 20] * 8),), (False,) * 10, keys=2)
    parts = fmt.split(wide, 78, gap=2)
    assert len(parts) > 2
    assert {part.headers[:2] for part in parts} == {("version", "cell")}
    assert [name for part in parts for name in part.headers[2:]] == list("abcdefgh")
