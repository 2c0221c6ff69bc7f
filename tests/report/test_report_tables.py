"""Special cases of the tables; the usual ones are in the golden texts of test_stored_sessions.py."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path

import pytest
from at_work import NEW, OLD, interference, write_scaling
from everything import a_run, a_session, everything, growing, traced_apart
from runs import with_parts
from sessions import FIXTURES, with_metrics

from recovery.analysis.growth import growth_curves, stored_fits
from recovery.analysis.opened_files import FAILS, HOLDS, OPENS_ONLY
from recovery.analysis.stacks import Folded, folded_text, hottest_functions
from recovery.analysis.summary import summarise
from recovery.model import NO_LIMITS, CallChain, ExtraRun, HotFunction, Limits, Phase, Session, Table, Verdict
from recovery.report import fmt, tables, text
from recovery.report.crash_tables import crash_tables
from recovery.report.json_report import to_json
from recovery.report.load_tables import clients_table
from recovery.report.settings_tables import settings_and_host_tables
from recovery.report.stack_tables import chain_tables, hottest_tables
from recovery.report.startup_tables import floor_table, phase_table, scale_tables, touched_table
from recovery.report.summary_text import answers, slowest_start
from recovery.report.tables import all_tables
from recovery.session.store import SessionStore
from recovery.sharing.bug_finding import find
from recovery.sharing.bundle import keep_versions
from recovery.storage.sessions import load_session

SESSION = load_session(FIXTURES / "sessions" / "three-versions")


def rows(table: Table | None) -> list[dict[str, str]]:
    assert table is not None
    return [dict(zip(table.headers, row, strict=True)) for row in table.rows]


def titled(session: Session, title: str) -> Table:
    (found,) = (table for table in all_tables(session) if table.title.startswith(title))
    return found


def test_what_was_not_measured_has_no_table() -> None:
    assert [phase_table(SESSION), touched_table(SESSION), floor_table(SESSION)] == [None, None, None]
    assert [chain_tables(SESSION), scale_tables(SESSION), growth_curves(SESSION)] == [(), (), ()]
    assert json.loads(to_json(SESSION))["fits"] == []


def test_a_start_without_a_floor_has_its_own_reason_and_no_ratio() -> None:
    session = everything()
    (old, new, maria) = session.floors
    table = floor_table(replace(session, floors=(old, replace(new, many_threads_s=900.0), maria)))
    assert table is not None
    assert table.notes[1:] == (
        "No floor for 8.0.31 cold: the start was shorter than the reads by 16 threads.",
        "No floor for mariadb-10.11.5 cold: the start does not read every file.",
    )
    assert [fmt.ABSENT in row[-2:] for row in table.rows] == [False, True, True]
    assert [row[-2] == row[-1] for row in table.rows] == [False, True, True]


def test_a_clean_start_is_not_called_a_crash() -> None:
    clean = replace(SESSION, experiment="clean-start", title="Clean start")
    assert all_tables(clean)[0].title == "Clean start: seconds"


def test_a_void_run_is_in_no_figure() -> None:
    session = everything()
    slow = a_run(91, ("8.0.31", "warm"), 9999.0)
    spoiled = replace(
        session, runs=tuple(replace(slow, verdict=run.verdict) if run.number == 91 else run for run in session.runs)
    )
    assert titled(spoiled, "Startup") == titled(session, "Startup")
    assert phase_table(spoiled) == phase_table(session)
    void = tuple(replace(run, verdict=Verdict.VOID) for run in session.runs)
    assert touched_table(replace(session, runs=void)) is None


@pytest.mark.parametrize(
    ("limits", "columns"),
    [
        (NO_LIMITS, {}),
        (Limits(cpus=1), {}),
        (Limits(read_iops=5000), {"reads/s": "4,988"}),
        (Limits(read_bps=1 << 20), {"read/s": "25.0 MB"}),
        (Limits(read_iops=5000, memory_bytes=2 << 30), {"reads/s": "4,988", "memory": "1.0 GB"}),
    ],
)
def test_a_limit_adds_its_column_to_the_runs(limits: Limits, columns: dict[str, str]) -> None:
    run = with_metrics(
        SESSION.runs[0], reads_per_s=4987.6, read_bytes=50_000_000, first_query_s=2.0, group_memory_bytes=10**9
    )
    session = replace(SESSION, settings={**SESSION.settings, **asdict(limits)}, runs=(run,))
    table = titled(session, "Every run")
    shown = rows(table)[0]
    assert {name: shown[name] for name in ("reads/s", "read/s", "memory") if name in shown} == columns
    assert ("control group" in " ".join(table.notes)) == bool(columns)
    assert max(map(len, text.render(session).splitlines())) <= text.WIDTH


def test_phases_beside_the_start_are_in_a_note() -> None:
    runs = tuple(
        with_parts(run, background_phases=(Phase("rollback", 1.0, 1.0 + run.number),)) for run in everything().runs
    )
    table = phase_table(replace(everything(), runs=runs))
    assert table is not None
    measured = [run.number for run in runs if run.verdict is Verdict.MEASURED]
    (note,) = (note for note in table.notes if "rollback" in note)
    assert f"in {len(measured)} runs" in note
    assert f"{min(measured):.2f} to {max(measured):.2f} s" in note


# --- Tablespaces that the start opened


@pytest.mark.parametrize(
    ("opened", "read", "crash", "claim"),
    [
        ((100, 100), (100, 100), True, HOLDS),
        ((1000, 1000), (1000, 1000), True, FAILS),
        ((1000, 1000), (100, 100), True, OPENS_ONLY),
        ((100, 101), (100, 101), True, FAILS),
        ((1000, 1000), (1000, 1000), False, "-"),
    ],
    ids=["holds", "opens and reads all", "opens all without reading", "one start, one file", "clean start"],
)
def test_the_claim_that_only_modified_files_are_opened(
    opened: tuple[int, int], read: tuple[int, int], crash: bool, claim: str
) -> None:
    """MariaDB 10.11 opens every file to ask for its size. One start that reads one more file refutes the claim."""
    start = a_run(1, ("5.7.22", "cold"), 4.0)
    runs = tuple(
        with_parts(
            start, number=number, tablespaces_opened=opens, opened_unmodified=opens - 100,
            tablespaces_read=reads, read_unmodified=reads - 100, crash_proof="proof" if crash else None,
        )
        for number, (opens, reads) in enumerate(zip(opened, read, strict=True), start=1)
    )  # fmt: skip
    (row,) = rows(touched_table(a_session(runs)))
    assert row["claim"] == claim
    if opened == (100, 101):
        assert (row["opened"], row["read only"]) == ("100-101", "0-1")


def test_the_files_of_an_extra_run_are_reported_as_those_of_traced_runs() -> None:
    """Since a trace has a run of its own, no other figure changes with it."""
    old = everything()
    new = traced_apart(old)
    assert answers(new) == answers(old)
    before, after = (rows(touched_table(session)) for session in (old, new))
    counts = ("version", "variant", "modified", "opened", "opens", "opened only", "read", "read only", "claim")
    assert [[row[name] for name in counts] for row in after] == [[row[name] for name in counts] for row in before]
    assert titled(new, "Tables' files that the start").notes[-1] == "Traced by fanotify."
    assert rows(floor_table(new)) == rows(floor_table(old))
    slow = slowest_start(new, summarise(new))
    assert find(new, slow) == find(old, slowest_start(old, summarise(old)))
    assert find(new, slow).synopsis == "Startup after SIGKILL takes 80.6 s cold with 200,000 tables (8.0.31)"
    assert find(keep_versions(new, ("5.7.22",)), slowest_start(new, summarise(keep_versions(new, ("5.7.22",))))).verb
    assert [row["verdict"] for row in rows(titled(new, "Every run"))][-6:] == ["traced"] * 6


# --- Kills


@pytest.mark.parametrize(("count", "of", "words"), [(111, 120, "86-97 %"), (20, 20, "83-100 %"), (0, 1, "0-98 %")])
def test_the_interval_of_a_share_is_rounded_to_be_no_narrower(count: int, of: int, words: str) -> None:
    assert fmt.share_interval(count, of) == words


def test_kills_of_a_cell_and_of_a_version_have_an_interval(kept_sessions: Path) -> None:
    session = load_session(kept_sessions / "2026-11-22-crash-matrix-definitions-5.6.24")
    assert answers(session)[0].startswith("5.6.24: without a loss 111 of 120; 95 % 86-97 %; back after ")
    (table,) = crash_tables(session)
    survived = [row[table.headers.index("survived")] for row in table.rows]
    assert survived[:3] == ["18 of 20 (68-99 %)", "19 of 20 (75-100 %)", "20 of 20 (83-100 %)"]


# --- Growth with the number of tables


def test_a_prediction_by_a_straight_line_has_an_interval() -> None:
    _, forms, tested, predicted = scale_tables(growing(1_000_000))
    assert forms.rows[0][2] == "straight line"
    first = rows(tested)[0]
    assert (first["predicted"], first["measured"], first["within"]) == ("16.52", "16.52", "3/3")
    first = rows(predicted)[0]
    assert (first["seconds"], first["used"]) == ("307.2", "yes")
    low, _, high = first["interval"].partition("-")
    assert 295 < float(low) < 307 < float(high) < 320


def test_two_points_leave_fit_and_prediction_untested() -> None:
    session = growing(1_000_000)
    runs = tuple(run for run in session.runs if run.contents.tables_found != 10_000)
    growth, forms, predicted = scale_tables(replace(session, runs=runs))
    needs = [note for note in growth.notes if note.startswith("5.7.22 cold, 8.0.31 cold: the test of")]
    assert [re.findall(r"needs at least (\d)", note) for note in needs] == [["3"], ["2"]]
    assert forms.rows[0][2:4] == ("line or curve", "not tested")
    assert "line or curve: the line is not rejected" in forms.notes[-1]
    assert predicted.rows[0][-1] == "not tested"


def test_single_runs_give_no_line() -> None:
    session = growing(1_000_000)
    growth, *more = scale_tables(replace(session, runs=tuple(run for run in session.runs if run.repeat == 1)))
    assert more == [], "a table of dashes"
    assert growth.notes[-1].startswith("5.7.22 cold, 8.0.31 cold: too few runs for a trend")


def test_the_peak_memory_that_each_table_adds() -> None:
    session = growing()
    runs = tuple(
        replace(
            run, metrics={**run.metrics, "peak_memory_bytes": 50_000_000.0 + 1650 * (run.contents.tables_found or 0)}
        )
        for run in session.runs
    )
    *_, memory = scale_tables(replace(session, runs=runs))
    assert [row["B added"] for row in rows(memory)] == ["-", "1,650", "1,650"] * 2
    assert rows(memory)[0]["mean"] == "51.6 MB"
    assert memory.notes[1] == "5.7.22 cold, straight line: 50.0 MB and 1,650 B +- 0 for each table."
    (stored, _) = stored_fits(replace(session, runs=runs))
    assert stored["memory_per_table_bytes"] == pytest.approx(1650)
    assert "memory_per_table_bytes" not in stored_fits(session)[0]


# --- Stacks of sampled runs

LONG = ("_start", "__libc_start_main", "main", *(f"f{number}" for number in range(6)), "fil_ibd_open", "__libc_pread")
CHAINS = (
    CallChain("discovery", "main thread", LONG, 60, 80),
    CallChain("discovery", "other threads", ("clone", "[mysqld]"), 10, 80),
    CallChain("discovery", "main thread", ("main", "too rare"), 1, 80),
    CallChain("validation", "main thread", ("main", "pthread_join"), 5, 6, waits=True),
    CallChain("validation", "other threads", ("clone", "validate"), 6, 6),
    CallChain("redo apply", "main thread", ("main", "recv_apply"), 5, 6),
    CallChain("first query", "main thread", ("main", "too short a phase"), 1, 1),
)
MEASURED = a_run(1, ("5.7.22", "cold"), 4.0)
SAMPLED = with_parts(
    a_run(2, ("5.7.22", "cold"), 40.0, repeat=2), verdict=Verdict.SAMPLED, extra=ExtraRun.STACKS,
    program="eu-stack", count=82,
    chains=CHAINS, file="stacks/last.folded",
)  # fmt: skip
FRAMES: Folded = Counter({("discovery", "main thread", "main", '<&">'): 3, ("redo apply", "main thread", "main"): 1})


def test_the_most_frequent_chains_of_each_phase_are_shown() -> None:
    (table,) = chain_tables(a_session((MEASURED, SAMPLED)))
    assert table.title == "Stacks of run 2, 5.7.22 cold, 82 samples by eu-stack"
    assert [row[:4] for row in table.rows] == [
        ("discovery", "80", "75 %", "main thread"),
        ("discovery", "80", "12 %", "other threads"),
        ("validation", "6", "6 of 6", "other threads"),
        ("redo apply", "6", "5 of 6", "main thread"),
    ]
    assert table.rows[0][4].startswith("... > f0 > f1 > f2")
    assert table.rows[0][4].endswith("f5 > fil_ibd_open > __libc_pread")


@pytest.mark.parametrize(("samples", "share"), [(19, "7 of 19"), (20, "35.0 %")])
def test_a_share_needs_twenty_samples(samples: int, share: str) -> None:
    chain = CallChain("discovery", "main thread", ("main", "pread"), 7, samples)
    session = a_session((with_parts(SAMPLED, chains=(chain,), hottest=(HotFunction("pread", 7, 7, samples),)),))
    (functions,) = hottest_tables(session)
    assert functions.rows[0][1:] == (share, share)
    (chains,) = chain_tables(session)
    assert chains.rows[0][2] == share.replace(".0", "")
    for table in (functions, chains):
        assert any("With fewer than 20 samples" in note for note in table.notes) == (samples < 20)


def test_functions_are_ordered_by_how_often_they_were_on_top() -> None:
    folded: Folded = Counter(
        {
            ("dump", "other threads", "main", "parse", "hash"): 6,
            ("dump", "other threads", "main", "parse"): 3,
            ("dump", "other threads", "walk", "walk"): 1,
            ("dump", "main thread", "main", "poll"): 90,
            ("no frames",): 7,
        }
    )
    assert hottest_functions(folded) == (
        HotFunction("hash", 6, 6, 10),
        HotFunction("parse", 3, 9, 10),
        HotFunction("walk", 1, 1, 10),
    )
    many: Folded = Counter({("dump", "main thread", f"f{number:02}"): 1 for number in range(40)})
    assert [one.function for one in hottest_functions(many)] == [f"f{number:02}" for number in range(15)]
    assert hottest_functions(Counter()) == ()


def test_stacks_outside_the_session_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.folded").write_text(folded_text(FRAMES))
    store = SessionStore.create(tmp_path, replace(a_session((SAMPLED,)), runs=()))
    store.append(with_parts(SAMPLED, file="../elsewhere.folded"))
    assert (store.folder / "../elsewhere.folded").is_file()
    assert load_session(store.folder).runs[0].stacks.hottest == ()


@pytest.mark.parametrize("program", ["perf", "eu-stack"])
def test_threads_that_wait_for_storage_are_invisible_to_perf(program: str) -> None:
    (table,) = chain_tables(a_session((with_parts(SAMPLED, program=program),)))
    assert any("waits for its storage" in note for note in table.notes) == (program == "perf")


# --- Servers under load


def test_seconds_along_a_switch_are_added_and_in_no_table_of_tasks() -> None:
    session = interference(caches=("400",))
    runs = tuple(replace(one, metrics={"elapsed_s": 1e6 / one.metrics["qps"]}) for one in session.runs)
    slower = replace(session, metric="elapsed_s", runs=runs)
    added = titled(slower, "Added by poll=on")
    assert (added.rows[0][3], added.rows[0][-1]) == ("20.3 %", "yes, worse")
    for other in (slower, interference(), write_scaling()):
        assert not any("seconds of each task" in table.title for table in all_tables(other))


def test_four_versions_are_compared_with_their_neighbours_and_the_baseline() -> None:
    session = interference(caches=("400",))
    four = ("a", OLD, "b", NEW)
    runs = tuple(
        replace(run, version=version, number=run.number + 100 * place)
        for place, version in enumerate(four) for run in session.runs if run.version == OLD
    )  # fmt: skip
    wide = replace(session, versions=four, runs=runs, servers={})
    pairs = titled(wide, "Versions compared")
    assert pairs.headers[-4:] == ("5.7.22 / a", "b / 5.7.22", "8.0.31 / b", "8.0.31 / a")
    assert {cell for row in pairs.rows for cell in row[1:]} == {"1.00 (0.98-1.02) (=)"}
    assert titled(wide, "Compared with a").rows


# --- Settings, host and clients


def test_what_was_not_set_or_is_not_known_is_left_out() -> None:
    session = replace(
        SESSION,
        settings={"tables": 5, "rows": 0, "set": "", "image": None, "trace": False},
        environment={"cpus": 2, "root": "no", "other_servers": 0, "ebs_volume": None, "device_model": ""},
    )
    settings, host = settings_and_host_tables(session)
    assert settings.rows == (("tables", "5"),)
    assert host.rows == (("cpus", "2"), ("root", "no"), ("other servers", "0"))
    assert settings_and_host_tables(replace(SESSION, settings={}, environment={})) == ()


def test_a_report_has_one_speed_of_the_storage(kept_sessions: Path) -> None:
    """That of the blocks, where they have one: the probe before the session is another."""
    new, old = (load_session(kept_sessions / name) for name in ("2026-11-28-two-versions", "2026-11-28-pending-redo"))
    for one in (new, old):
        assert "probe_4k_16_iops" in one.environment
        _, host = settings_and_host_tables(one)
        shown = {row[0] for row in host.rows}
        assert not shown & {"probe 4k 1 iops", "probe 4k 16 iops"}
        assert "probe 16k 16 iops" in shown
    before = load_session(kept_sessions / "2026-11-27-two-versions-traced")
    _, host = settings_and_host_tables(before)
    assert "probe 4k 16 iops" in {row[0] for row in host.rows}, "it is all that is known"


def test_commands_that_differ_in_the_socket_only_are_shown_once() -> None:
    runs = tuple(
        with_parts(run, clients={"load": f"sysbench --mysql-socket=/tmp/recovery-ab/{run.number}/mysqld.sock run"})
        for run in SESSION.runs[:3]
    )
    table = clients_table(replace(SESSION, runs=runs))
    assert table is not None
    assert table.rows == (("load", "sysbench --mysql-socket=RUNDIR/mysqld.sock run", "1-3"),)


@pytest.mark.parametrize(
    ("numbers", "words"), [((), ""), ((7,), "7"), ((1, 2), "1, 2"), ((1, 2, 3, 5, 7, 8, 9, 10), "1-3, 5, 7-10")]
)
def test_runs_that_follow_each_other_are_a_range(numbers: tuple[int, ...], words: str) -> None:
    assert fmt.number_ranges(numbers) == words


# --- Sections


@pytest.mark.parametrize(
    ("name", "absent"),
    [
        ("2026-11-21-four-versions", {"load_tables", "crash_tables", "html"}),
        ("2026-11-22-interference", {"startup_tables", "crash_tables", "html"}),
        ("2026-11-22-crash-matrix-inserts", {"startup_tables", "html"}),
    ],
)
def test_text_is_rendered_without_modules_that_have_nothing_to_show(
    name: str, absent: set[str], kept_sessions: Path
) -> None:
    code = """
import sys
from pathlib import Path
from recovery.report import text
from recovery.storage.sessions import load_session
text.render(load_session(Path(sys.argv[1])))
print(*(name.removeprefix("recovery.report.") for name in sys.modules if name.startswith("recovery.report.")))
"""
    command = [sys.executable, "-c", code, str(kept_sessions / name)]
    imported = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert "text" in imported
    assert not absent & imported


def test_every_function_that_a_section_imports_exists() -> None:
    functions = [
        node for node in ast.parse(Path(tables.__file__).read_text()).body if isinstance(node, ast.FunctionDef)
    ]
    imports = [node for function in functions for node in ast.walk(function) if isinstance(node, ast.ImportFrom)]
    assert len(imports) > 10
    for node in imports:
        assert all(callable(getattr(import_module(str(node.module)), alias.name)) for alias in node.names)
