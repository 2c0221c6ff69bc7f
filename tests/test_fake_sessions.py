"""From the command line to report.json and the end screen, over a fake server that is a real process.

It is started, killed and read like a real one. The tests with real servers show that those behave alike."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import fake_mysqld
import pytest
from fakes import fake_build, shell_script
from sessions import FIXTURES, stored

from recovery.builds import packages
from recovery.builds.resolve import AvailableServer
from recovery.cli import measure, plan_text, repeat
from recovery.cli.main import run
from recovery.cli.measure import request_from_arguments
from recovery.cli.plan_text import announce
from recovery.experiments import EXPERIMENTS, Entry
from recovery.experiments.bench import Bench
from recovery.linux.locks import host_lock
from recovery.model import Build, Measurement
from recovery.mysqld.datadir import load_state, save_state
from recovery.mysqld.local import LocalLauncher
from recovery.session import plan
from recovery.session.datadirs import DatadirPool
from recovery.session.engine import LOCAL, Engine
from recovery.session.prepare import plan_ahead
from recovery.session.request import Request
from recovery.session.resume import Unfinished

SYSBENCH_OUTPUT = FIXTURES / "sysbench" / "read-only-after-a-warm-up.txt"
FAKE_SYSBENCH = f"""
[ "$1" != --version ] || {{ echo "sysbench 1.0.20"; exit; }}
sed '/Threads started/q' {SYSBENCH_OUTPUT}
sleep 1
sed '1,/Threads started/d' {SYSBENCH_OUTPUT}
"""
"""Prints a recorded report after a while in which the server's counters are read."""


@pytest.fixture
def release() -> str:
    """The version of the fake server."""
    return fake_mysqld.VERSION


@pytest.fixture
def at(release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Makes the fake server the only one, and returns where sessions and data directories go."""
    program = shell_script(
        tmp_path / "server" / "bin" / "mysqld",
        f'FAKE_MYSQLD_VERSION={release} exec {sys.executable} -S {fake_mysqld.__file__} "$@"',
    )

    def resolve(_: str | None, __: str | None) -> Build:
        return replace(fake_build(release), mysqld=program, basedir=program.parent.parent)

    engine = Engine(LOCAL, resolve, LocalLauncher(), lambda _: None, lambda _: frozenset())
    monkeypatch.setattr(measure, "choose_engine", lambda *_: engine)
    return ["--data", str(tmp_path / "data"), "--results", str(tmp_path / "results"), "--no-drop-caches", "--no-probe"]


@pytest.fixture
def sysbench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = shell_script(tmp_path / "programs" / "sysbench", FAKE_SYSBENCH)
    monkeypatch.setattr(packages, "_find_tool", lambda tool: packages.Tool(tool, program, "sysbench 1.0.20"))


def run_files(tmp_path: Path) -> list[dict[str, Any]]:
    """Returns what is stored of each run."""
    files = sorted((tmp_path / "results" / "latest" / "runs").glob("*.json"))
    return [json.loads(file.read_text()) for file in files]


def test_starts(at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["crash-recovery", "--tables", "5", "--inserts", "3", "--runs", "3", *at]) == 0
    report, printed = stored(tmp_path), capsys.readouterr()
    assert report["status"] == "finished"
    assert [(one["variant"], one["verdict"]) for one in report["runs"]] == [
        ("cold", "measured"),
        ("warm", "measured"),
    ] * 3
    first = report["runs"][0]
    assert "not shutdown normally" in first["crash_proof"]
    assert [phase["name"] for phase in first["phases"]][-1] == "first query"
    assert (first["rows_expected"], first["rows_found"], first["tables_found"]) == (3, 3, 5)
    assert first["peak_memory_bytes"] > 1_000_000
    assert first["shutdown_s"] > 0
    assert {one["variant"]: one["count"] for one in report["summaries"]} == {"cold": 3, "warm": 3}
    assert [one["number"] for one in run_files(tmp_path)] == list(range(1, 7))
    title = "Startup after SIGKILL on this host: 5 tables, mean of 3 runs \u00b1 95 % interval in this session:"
    assert title in " ".join(printed.out.split())
    assert "[6/6] 5.7.22 warm" in printed.err


@pytest.mark.parametrize("experiment", ["crash-recovery", "clean-start"])
def test_one_of_something_has_no_plural(
    experiment: str, at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [experiment, "--tables", "1", "--runs", "1", *at]
    run([*words, "--dry-run"])
    run([*words, "--verbose"])
    run(["resume", "--results", str(tmp_path / "results")])
    run(["repeat", "--times", "2", "--verbose", "--results", str(tmp_path / "results")])
    run(["compare", "--results", str(tmp_path / "results")])
    printed = capsys.readouterr()
    folder = tmp_path / "results" / "latest"
    texts = [printed.out, printed.err, *((folder / f"report.{kind}").read_text() for kind in ("txt", "md", "html"))]
    nouns = "tables|runs|files|servers|seconds|requests|starts|rows|sessions"
    plurals = rf"(?<![\d.,:-])1 (?!is|as|was)[a-z. ]{{0,12}}(?:{nouns})\b"
    assert [" ".join(found[0].split()) for text in texts for found in re.finditer(plurals, text)] == []
    assert "1 table" in printed.out


@pytest.mark.parametrize("release", ["26.7.0", "28.4.1", "27.1.0.1"])
def test_a_release_newer_than_those_that_were_tried_has_their_capabilities_and_a_warning(
    release: str, at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["cold-recovery", "--version", release, "--tables", "5", "--inserts", "3", "--runs", "1", *at]) == 0
    report, printed = stored(tmp_path), capsys.readouterr().out
    assert report["versions"] == [release]
    assert [one["verdict"] for one in report["runs"]] == ["measured"]
    assert "mysqlx=OFF" in report["servers"][release]["options"].split()
    assert f"Warning, {release}: Newer than 9.7" in " ".join(printed.split())


def test_a_dry_run_names_the_data_directory_that_is_there_and_does_not_count_its_build(
    at: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["cold-recovery", "--version", fake_mysqld.VERSION, "--tables", "5", "--runs", "1", *at]
    assert run([*command, "--dry-run"]) == 0
    before = capsys.readouterr().out
    assert run(command) == 0
    capsys.readouterr()
    assert run([*command, "--dry-run"]) == 0
    after = capsys.readouterr().out
    assert "with the build" in before
    assert re.search(r"5 tables in 5\.7\.22-discovery-5-\w+, which is there; about", after)
    assert "with the build" not in after


def test_what_is_built_already_is_no_new_data(at: list[str], tmp_path: Path) -> None:
    words = ["--version", fake_mysqld.VERSION, "--tables", "5", "--runs", "1", *at]
    assert run(["cold-recovery", *words]) == 0
    request, said = request_from_arguments("cold-recovery", words), list[str]()
    announce([request], said.append, yes=False)
    assert said == ["about 1 minute and nothing new on the disk"]
    folder = next(path for path in (tmp_path / "data").glob("5.7.22-*") if path.is_dir())
    half = replace(load_state(folder), status="building", bytes=10**9)
    save_state(folder, half)
    (planned,) = plan_ahead(request).datadirs
    assert planned.need.bytes == planned.size.bytes - 10**9, "the build is continued"


def test_what_is_to_be_downloaded_is_announced(at: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    request = request_from_arguments("cold-recovery", ["--tables", "5", "--runs", "1", *at])
    plan, said = plan_ahead(request), list[str]()
    fetched = replace(request, servers=replace(request.servers, versions=("5.7.22", "mariadb-10.11"), mysqld=()))
    monkeypatch.setattr(plan_text, "plan_ahead", lambda _: plan)
    monkeypatch.setattr(
        plan_text, "available_servers",
        lambda: [AvailableServer("5.7.22", "npm", False, 3 * 10**8), AvailableServer("mariadb-10.11", "", True, 9)],
    )  # fmt: skip
    announce([fetched], said.append, yes=True)
    assert said[-1].endswith("; 300.0 MB are downloaded first")


def test_tables_that_do_not_fit_are_refused_before_anything_is_built(
    at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["cold-recovery", "--tables", "100000000", *at]) == 3
    printed = capsys.readouterr()
    what, to_do = (line for line in printed.err.splitlines() if not line.startswith(("$ ", "about ")))
    assert re.match("error: .* does not fit", what)
    assert to_do.startswith("hint:  ")
    assert printed.out == ""
    assert not list((tmp_path / "data").glob("5.7.22*"))


@pytest.mark.usefixtures("sysbench")
def test_a_load(at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--tables", "2", "--rows", "50", "--runs", "1", "--seconds", "3", "--warmup", "2", "--threads", "1"]
    what = ["--question", "scaling", "--workload", "read-only", "--option", "innodb_flush_log_at_trx_commit=1"]
    assert run(["write-scaling", *what, *sizes, *at]) == 0
    report = stored(tmp_path)
    assert {one["verdict"] for one in report["runs"]} == {"measured"}
    measures = report["runs"][0]["metrics"]
    assert (measures["qps"], measures["tps"]) == (pytest.approx(48990, rel=0.01), pytest.approx(3062, rel=0.01))
    assert measures["shutdown_s"] > 0
    assert report["metric"] == "qps"
    assert "queries/s" in capsys.readouterr().out


def test_a_crash_trial(at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    what = ["--question", "inserts", "--option", "innodb_flush_log_at_trx_commit=1", "--option", "innodb_doublewrite=1"]
    assert run(["crash-matrix", *what, "--tables", "3", "--runs", "1", *at]) == 0
    (one,) = stored(tmp_path)["runs"]
    assert one["verdict"] == "measured", one["reason"]
    assert (one["metrics"]["lost"], one["metrics"]["kills"]) == (0, 1)
    assert one["metrics"]["acknowledged"] > 0
    assert re.search(r"5\.7\.22 +1 of 1 .* 2-100 % ", capsys.readouterr().out)


@pytest.mark.usefixtures("sysbench")
def test_a_crash_with_work_pending(at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--tables", "2", "--rows", "50", "--runs", "3"]
    assert run(["pending-work", "--uncommitted", "40", *sizes, *at]) == 0
    report, printed = stored(tmp_path), " ".join(capsys.readouterr().out.split())
    runs = {one["variant"]: one for one in report["runs"]}
    assert runs.keys() == {"nothing-pending", "transaction-40-open"}
    assert {one["verdict"] for one in report["runs"]} == {"measured"}
    measures = runs["transaction-40-open"]["metrics"]
    assert (measures["dirty_pages"], measures["checkpoint_age_bytes"], measures["uncommitted_rows"]) == (3, 500, 40)
    assert measures["acknowledged"] > 0
    assert measures["startup_s"] < measures["untouched_row_s"] <= measures["rollback_s"]
    assert "each 10 rows until rolled back: open " in printed
    assert run(["calibrate", "--results", str(tmp_path / "results")]) == 2, "the storage was not measured"
    note = "NO_PROBE=1: `recovery calibrate` cannot use this session"
    assert any(note in one for one in report["notes"])


def test_a_session_of_pending_work_without_the_storages_speed_is_said_to_calibrate_nothing(
    at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def planned(*words: str) -> str:
        assert run(["pending-work", "--uncommitted", "40", "--tables", "2", "--rows", "50", *words, "--dry-run"]) == 0
        return " ".join(capsys.readouterr().out.split())

    note = "NO_PROBE=1: `recovery calibrate` cannot use this session, which does not measure the reads a second of the"
    assert f"{note} storage. Leave NO_PROBE= out to calibrate with it" in planned(*at)
    assert note not in planned(*at[:-1])
    if os.geteuid() == 0:
        assert note not in planned(*at, "--read-iops", "500"), "the limit is the speed"
    assert run(["cold-recovery", "--tables", "3", "--dry-run", *at]) == 0
    assert "calibrate" not in capsys.readouterr().out


@pytest.mark.parametrize("command", [["cold-recovery"], ["crash-matrix", "--question", "inserts"]])
def test_a_server_that_loses_rows_has_failed(command: list[str], at: list[str], tmp_path: Path) -> None:
    options = ["--option", "innodb_flush_log_at_trx_commit=1", "--option", "innodb_doublewrite=1"]
    words = [*command, *(options if len(command) > 1 else ()), "--tables", "3", "--runs", "1"]
    assert run([*words, "--set", "fake_loses_rows=1", *at]) == 1
    (one,) = stored(tmp_path)["runs"]
    assert one["verdict"] == "failed"
    assert "lost" in one["reason"]


def test_a_command_before_each_timed_start(at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tmp_path / "ran"
    script = shell_script(
        tmp_path / "prepare", f"echo $1 >> {ran}; [ $(wc -l < {ran}) -lt 3 ] || {{ echo enough; exit 3; }}"
    )
    command = ["cold-recovery", "--tables", "3", "--runs", "3", "--before-start", f"{script} 'a b'", *at]
    assert run(command) == 1
    report, printed = stored(tmp_path), capsys.readouterr()
    assert ran.read_text() == "a b\n" * 3
    assert [one["verdict"] for one in report["runs"]] == ["measured", "measured", "void"]
    assert report["runs"][2]["reason"] == f"BEFORE_START={script} 'a b' ended with exit code 3: enough"
    assert all(one["before_start_s"] > 0 for one in report["runs"][:2])
    assert report["settings"]["before_start"] == f"{script} 'a b'"
    assert f"--before-start '{script} '\"'\"'a b'\"'\"''" in report["command"]
    assert "exit code 3: enough" in printed.err
    assert run(["warm-recovery", "--tables", "3", "--runs", "1", "--before-start", f"tee {ran}", *at]) == 0
    (one,) = stored(tmp_path)["runs"]
    assert (one["verdict"], one["before_start_s"] > 0, bool(one["timeline"])) == ("measured", True, True)


@pytest.fixture
def before_kill(at: list[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Returns a function that measures with BEFORE_KILL over tables of the tool's own: no server could start over a
    copy of the fake one's data."""

    def measure_with(*command: str) -> int:
        given = DatadirPool._conditions
        monkeypatch.setattr(DatadirPool, "_conditions", lambda *of: replace(given(*of), before_kill=command))
        return run(["crash-recovery", "--tables", "3", "--runs", "1", *at])

    return measure_with


def test_clients_update_rows_until_each_kill(
    before_kill: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recovery.experiments.before_kill.LOAD_S", 0.05)
    monkeypatch.setattr("recovery.experiments.before_kill._MAX_BYTES", 2000)
    assert before_kill("load") == 0
    cold, warm = stored(tmp_path)["runs"]
    assert [(one["verdict"], one["rows_found"], one["tables_found"]) for one in (cold, warm)] == [
        ("measured", 100, 3),
        ("measured", 100 * (2 + warm["warmups"]), 3),
    ]
    (data,) = (tmp_path / "data").glob("*/mysql")
    assert not (data / "crash_recovery_load").exists()


def test_a_command_before_each_kill_finds_the_server(before_kill: Callable[..., int], tmp_path: Path) -> None:
    script = shell_script(tmp_path / "load", f"test -S $MYSQL_UNIX_PORT && echo $1 >> {tmp_path}/ran")
    assert before_kill(str(script), "a b") == 0
    cold, warm = stored(tmp_path)["runs"]
    assert cold["verdict"] == warm["verdict"] == "measured"
    assert (tmp_path / "ran").read_text() == "a b\n" * (2 + warm["warmups"])
    assert before_kill("false") == 1
    assert {one["reason"] for one in stored(tmp_path)["runs"]} == {
        "BEFORE_KILL=false ended with exit code 1: it printed nothing"
    }


def test_a_start_is_void_if_the_command_before_it_warms_the_cache(at: list[str], tmp_path: Path) -> None:
    """Without that the figure would be called cold."""
    script = shell_script(tmp_path / "prepare", f"head -c 20M /dev/zero > $(echo {tmp_path}/data/*/mysql)/more")
    assert run(["cold-recovery", "--tables", "3", "--runs", "1", "--before-start", str(script), *at]) == 1
    (one,) = stored(tmp_path)["runs"]
    assert one["verdict"] == "void"
    assert re.match(r"after BEFORE_START 2\d,\d{3},\d{3} of .* stay in the page cache", one["reason"])


@pytest.mark.parametrize(
    ("command", "text"),
    [("no-such-program now", "there is no program no-such-program"), ("tee 'x", "No closing quotation")],
)
def test_a_command_that_cannot_be_run_is_refused(
    command: str, text: str, at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["clean-start", "--tables", "3", "--before-start", command, *at]) == 2
    assert text in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_each_session_has_a_random_seed_of_its_own(
    at: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = iter((6, 7, 8))
    monkeypatch.setattr("recovery.cli.measure.secrets.randbelow", lambda _: next(chosen))
    seeds = []
    for given in ([], [], ["--seed", "42"]):
        assert run(["cold-recovery", "--tables", "2", "--runs", "1", *given, *at]) == 0
        report = stored(tmp_path)
        seeds.append(report["settings"]["seed"])
        assert ("--seed" in report["command"]) is bool(given), "the command repeats what was asked"
    assert seeds == [7, 8, 42]


def phases_after_the_start(one: dict[str, Any]) -> list[str]:
    names = [phase["name"] for phase in one["phases"]]
    assert all(phase["start_s"] >= one["first_query_s"] for phase in one["phases"][names.index("first query") + 1 :])
    return names[names.index("first query") + 1 :]


def test_the_default_first_queries_are_phases_after_the_start(
    at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["crash-recovery", "--tables", "130", "--schemas", "2", "--runs", "1", "--first-queries", *at]
    assert run(words) == 0
    report, printed = stored(tmp_path), capsys.readouterr().out
    cold, warm = report["runs"]
    assert phases_after_the_start(cold) == phases_after_the_start(warm) == ["size query", *["table queries"] * 100]
    assert warm["variant"] == "warm"
    assert warm["warmups"] >= 1, "their files must be in the cache, too"
    assert "First queries after that: 0." in printed
    assert report["settings"]["first_queries"] == "default"
    assert "--first-queries=default" in report["command"]
    text = (tmp_path / "results" / "latest" / "report.txt").read_text()
    assert "size query, table queries: queries after the start (FIRST_QUERIES)" in text
    page = (tmp_path / "results" / "latest" / "report.html").read_text()
    assert re.search(r"[0-9.]+ \+ [0-9.]+ s<", page), "the bar of the phases has both times"


def test_first_queries_of_a_file(at: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    own = "-- one\nselect 1;\nselect 1\n from discovery.table_2 limit 1;\n"
    Path("own.sql").write_text(own)
    words = ["clean-start", "--tables", "3", "--runs", "1", *at]
    assert run([*words, "--first-queries=own.sql"]) == 0
    report = stored(tmp_path)
    assert [phases_after_the_start(one) for one in report["runs"]] == [["one", "query-2"]] * 2
    assert report["settings"]["first_queries"] == own.replace("1;\nsel", "1;\n-- query-2\nsel").rstrip()
    assert f"--first-queries={tmp_path}/own.sql" in report["command"]
    Path("own.sql").write_text("-- lost\nselect x from discovery.table_9;")
    assert run([*words, "--first-queries=own.sql"]) == 1
    report = stored(tmp_path)
    assert {one["verdict"] for one in report["runs"]} == {"failed"}
    assert {one["reason"] for one in report["runs"]} == {"the query 'lost' failed: not known to this server (1064)"}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "own.sql cannot be read: No such file"),
        ("-- nothing\n", "contains no statement"),
        ("-- validation\nselect 1;", "'validation' is the name of two queries"),
        ("select 1;" * 101, "own.sql has 101 queries"),
    ],
)
def test_first_queries_that_cannot_be_used_are_refused(
    content: str | None, text: str, at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own.sql"
    if content is not None:
        own.write_text(content)
    assert run(["cold-recovery", f"--first-queries={own}", *at]) == 2
    assert text in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_the_first_read_of_a_directory_is_shown_and_not_averaged(
    at: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plan, "MIN_FIRST_READ_TABLES", 3)
    words = ["cold-recovery", "--tables", "3", "--runs", "2", "--seed", "5", *at]
    assert run([*words, "--dry-run"]) == 0
    assert "1  5.7.22  cold, first read, not averaged" in capsys.readouterr().out
    assert run(words) == 0
    report, printed = stored(tmp_path), capsys.readouterr()
    assert [(one["verdict"], one["extra"], one["repeat"]) for one in report["runs"]] == [
        ("sampled", "first read", 0), ("measured", None, 1), ("measured", None, 2),
    ]  # fmt: skip
    assert (report["planned_runs"], report["settings"]["seed"]) == (3, 5)
    (starts,) = (one for one in report["summaries"] if one["name"] == "startup_s")
    assert starts["count"] == 2
    assert "[1/3] 5.7.22 cold run 1 (first read): " in printed.err
    assert "mean of 2 runs" in printed.out
    text = " ".join((tmp_path / "results" / "latest" / "report.txt").read_text().split())
    assert re.search(r"First cold start over each data directory, .* not averaged: 5\.7\.22 [\d.]+ s\.", text)
    assert run(["report", "--results", str(tmp_path / "results"), "--format", "csv"]) == 0
    first, *others = csv.DictReader(capsys.readouterr().out.splitlines())
    assert (first["extra"], {one["extra"] for one in others}) == ("first read", {""})


# --- Sessions that end early


def test_an_interrupted_session_is_shown_and_resumed(
    at: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    timed_start, starts = Bench.timed_start, iter((True, False))

    def interrupted(bench: Bench, *given: Any, **named: Any) -> Measurement:
        if not next(starts):
            raise KeyboardInterrupt
        return timed_start(bench, *given, **named)

    monkeypatch.setattr(Bench, "timed_start", interrupted)
    assert run(["cold-recovery", "--tables", "3", "--runs", "2", *at]) == 130
    assert "resumes it and measures the missing runs" in capsys.readouterr().err
    (folder,) = (tmp_path / "results").glob("*-cold-recovery")
    built = json.loads((folder / "plan.json").read_text())["built"]
    assert built == [path.name for path in (tmp_path / "data").iterdir() if path.is_dir()]
    assert [one["verdict"] for one in stored(tmp_path)["runs"]] == ["measured"]
    monkeypatch.setattr(Bench, "timed_start", timed_start)
    assert run(["resume", "--results", str(tmp_path / "results")]) == 0
    report, printed = stored(tmp_path), capsys.readouterr().err
    assert f"{folder.name} is resumed: 1 of 2 runs have ended" in printed
    assert "using the data directory" in printed
    assert (report["status"], [one["verdict"] for one in report["runs"]]) == ("finished", ["measured"] * 2)


def test_a_session_without_a_trial_leaves_no_folder(
    at: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(DatadirPool, "_build", interrupted)
    assert run(["cold-recovery", "--tables", "3", "--runs", "1", *at]) == 130
    assert list((tmp_path / "results").iterdir()) == []
    assert "resumes it" not in capsys.readouterr().err


# --- Several sessions of one measurement

COLD = ("cold-recovery", "--tables", "3", "--runs", "2")


def sessions(tmp_path: Path) -> list[dict[str, Any]]:
    """Returns the stored sessions, each with its name and the plan, in the order in which they began."""
    folders = sorted(path.parent for path in (tmp_path / "results").glob("2*/report.json"))
    return [
        {
            **json.loads((folder / "report.json").read_text()),
            "name": folder.name,
            "plan": json.loads((folder / "plan.json").read_text()),
        }
        for folder in folders
    ]


class Clock(repeat.WallClock):
    """A clock on which hours pass at once. The lock of the host must be free meanwhile."""

    ahead_s = 0.0
    interrupts = False

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=Clock.ahead_s)

    def sleep(self, seconds: float) -> None:
        with host_lock():
            Clock.ahead_s += seconds
        if Clock.interrupts:
            raise KeyboardInterrupt


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> type[Clock]:
    monkeypatch.setattr(repeat, "WallClock", Clock)
    monkeypatch.setattr(Clock, "ahead_s", 0.0)
    monkeypatch.setattr(Clock, "interrupts", False)
    return Clock


OVER_SESSIONS = "Startup after SIGKILL on this host: 3 tables, geometric mean (95 % interval)"
"""What the table of an answer over several sessions begins with."""


def test_repeat_measures_several_sessions_and_reports_over_them(
    at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = ["--results", str(tmp_path / "results")]
    assert run([*COLD, "--repeat", "3", *at]) == 0
    printed = capsys.readouterr()
    first, *others = found = sessions(tmp_path)
    assert [one["status"] for one in found] == ["finished"] * 3
    assert "repeat_of" not in first["settings"]
    assert [one["settings"]["repeat_of"] for one in others] == [first["name"]] * 2
    assert [len(one["plan"]["built"]) for one in found] == [1, 0, 0]
    assert not [one["command"] for one in found if "--repeat" in one["command"]]
    assert "the sessions follow each other: those of one hour do not show how much days differ" in printed.err
    assert len(re.findall("^about .* of disk$|^about .* nothing new on the disk$", printed.err, re.MULTILINE)) == 1
    names = ",".join(one["name"] for one in found)
    answer = " ".join(printed.out.rpartition(OVER_SESSIONS)[2].split())
    assert answer.startswith("over 3 sessions of ")
    assert " 3 sessions over " in answer
    assert "sessions of several days would show how much days differ." in answer
    assert re.search(rf"next: \S*recovery report -v --results \S+ {names} ", answer)
    assert run(["repeat", "--times", "3", *results]) == 0
    assert len(sessions(tmp_path)) == 3
    assert run(["repeat", *results, "--quiet"]) == 0
    assert sessions(tmp_path)[-1]["settings"]["repeat_of"] == first["name"]
    assert f"{OVER_SESSIONS} over 4 sessions of " in " ".join(capsys.readouterr().out.split())


def test_json_of_repeated_sessions_is_that_of_all_of_them(
    at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, target = ["--results", str(tmp_path / "results")], tmp_path / "all.json"
    assert run([*COLD, "--repeat", "2", "--json", "-", *at]) == 0
    combined = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in combined["sessions"]] == [one["name"] for one in sessions(tmp_path)]
    assert run(["repeat", *results, "--quiet", "--json", str(target)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert f"{OVER_SESSIONS} over 3 sessions of " in printed, "with a file, the report is printed, too"
    assert len(json.loads(target.read_text())["sessions"]) == 3
    assert run(["repeat", "--times", "3", *results, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(target.read_text()), "nothing was left to measure"


def test_json_of_one_session_to_repeat_is_its_report(
    at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*COLD, *at]) == 0
    capsys.readouterr()
    assert run(["repeat", "--times", "1", "--results", str(tmp_path / "results"), "--json"]) == 0
    report = tmp_path / "results" / "latest" / "report.json"
    assert json.loads(capsys.readouterr().out) == json.loads(report.read_text())


def test_each_session_has_a_request_of_its_own(at: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which has its random choices, such as the order of the runs."""
    made, measured = list[Request](), list[Request]()
    request_to_repeat, run_and_show = (vars(repeat)[name] for name in ("request_to_repeat", "run_and_show"))

    def requested(first: Unfinished) -> Request:
        made.append(request_to_repeat(first))
        return made[-1]

    def shown(request: Request, *given: Any, **named: Any) -> Any:
        measured.append(request)
        return run_and_show(request, *given, **named)

    monkeypatch.setattr(repeat, "request_to_repeat", requested)
    monkeypatch.setattr(repeat, "run_and_show", shown)
    assert run([*COLD, "--repeat", "3", *at]) == 0
    assert len({id(request) for request in measured}) == 3
    assert {id(request) for request in measured[1:]} <= {id(request) for request in made}


def test_the_same_command_twice_at_once_measures_no_session_more(
    at: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one measures the session after this one has decided to, and before it has the lock of the host."""
    assert run([*COLD, *at]) == 0
    results = ["--results", str(tmp_path / "results")]
    request_to_repeat = vars(repeat)["request_to_repeat"]
    made = list[Request]()

    def requested(first: Unfinished) -> Request:
        made.append(request_to_repeat(first))
        if len(made) == 2:
            assert run(["repeat", *results]) == 0
        return made[-1]

    monkeypatch.setattr(repeat, "request_to_repeat", requested)
    assert run(["repeat", "--times", "2", *results]) == 0
    assert [one["status"] for one in sessions(tmp_path)] == ["finished"] * 2


def test_the_next_session_waits_for_its_time_without_the_lock_of_the_host(
    at: list[str], tmp_path: Path, clock: type[Clock], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*COLD, "--repeat", "2", "--repeat-every", "6h", *at]) == 0
    assert 5.9 < clock.ahead_s / 3600 <= 6
    assert re.search(
        r"session 2 of 2 begins at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, in 6.0 hours", capsys.readouterr().err
    )
    assert len(sessions(tmp_path)) == 2


def test_ctrl_c_while_waiting_says_what_goes_on(
    at: list[str], tmp_path: Path, clock: type[Clock], capsys: pytest.CaptureFixture[str]
) -> None:
    clock.interrupts = True
    assert run([*COLD, "--repeat", "2", "--repeat-every", "6h", *at]) == 130
    (first,) = sessions(tmp_path)
    hint = re.search(r"1 of 2 sessions are stored; `\S*recovery (repeat [^`]*)` goes on", capsys.readouterr().err)
    assert hint is not None
    words = shlex.split(hint[1])
    assert words == ["repeat", "--results", str(tmp_path / "results"), "--times", "2", "--every", "6h", first["name"]]
    clock.interrupts = False
    assert run(words) == 0
    assert len(sessions(tmp_path)) == 2


@pytest.mark.parametrize("meanwhile", [False, True], ids=["by this command", "meanwhile by another one"])
def test_a_session_that_ended_early_is_resumed_before_the_next(
    meanwhile: bool, at: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    timed_start, starts = Bench.timed_start, iter((True, True, True, False))

    def interrupted(bench: Bench, *given: Any, **named: Any) -> Measurement:
        if not next(starts):
            raise KeyboardInterrupt
        return timed_start(bench, *given, **named)

    monkeypatch.setattr(Bench, "timed_start", interrupted)
    assert run([*COLD, "--repeat", "3", *at]) == 130
    assert "1 of 3 sessions are stored; `" in capsys.readouterr().err
    assert [one["status"] for one in sessions(tmp_path)] == ["finished", "interrupted"]
    monkeypatch.setattr(Bench, "timed_start", timed_start)
    results, request_to_resume = ["--results", str(tmp_path / "results")], vars(repeat)["request_to_resume"]

    def requested(left: Unfinished) -> Request:
        if meanwhile:
            assert run(["resume", *results]) == 0
        request: Request = request_to_resume(left)
        return request

    monkeypatch.setattr(repeat, "request_to_resume", requested)
    assert run(["repeat", "--times", "3", *results]) == 0
    found = sessions(tmp_path)
    assert re.findall(r"\S+ is resumed: .*", capsys.readouterr().err) == [
        f"{found[1]['name']} is resumed: 1 of 2 runs have ended"
    ]
    assert [(one["status"], len(one["runs"])) for one in found] == [("finished", 2)] * 3


def test_failed_runs_do_not_stop_the_next_session(at: list[str], tmp_path: Path) -> None:
    words = ["cold-recovery", "--tables", "3", "--runs", "1", "--set", "fake_loses_rows=1", "--repeat", "2"]
    assert run([*words, *at]) == 1
    assert [[one["verdict"] for one in each["runs"]] for each in sessions(tmp_path)] == [["failed"]] * 2


def test_another_build_of_the_server_is_no_repetition(
    at: list[str], release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*COLD, *at]) == 0
    engine: Engine = vars(measure)["choose_engine"]()

    def resolve(*given: Any) -> Build:
        return replace(engine.resolve(*given), fingerprint="e" * 64)

    monkeypatch.setattr(measure, "choose_engine", lambda *_: replace(engine, resolve=resolve))
    assert run(["repeat", "--results", str(tmp_path / "results")]) == 3
    error = capsys.readouterr().err
    assert (
        f"cannot be repeated: the server {release} is another build (SHA-256 eeeeeeeeeeee, and was ffffffffffff)"
        in error
    )
    assert len(sessions(tmp_path)) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cold-recovery", "--repeat", "0"], "--repeat / REPEAT: 0 is not valid"),
        (["cold-recovery", "--repeat", "2", "--repeat-every", "5x"], "REPEAT_EVERY: 5x is not valid"),
        (["cold-recovery", "--repeat-every", "5h"], "REPEAT_EVERY: it has no effect without --repeat"),
        (["repeat", "--times", "0"], "--times / REPEAT: 0 is not valid"),
        (["repeat", "--every", "0h"], "--every / REPEAT_EVERY: 0h is not valid"),
        (["repeat", "nowhere"], "there is no session 'nowhere'"),
    ],
)
def test_what_cannot_be_repeated(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, "--results", str(tmp_path / "results")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_a_dry_run_says_how_many_sessions_it_would_be(at: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*COLD, "--repeat", "3", "--repeat-every", "1d", "--dry-run", *at]) == 0
    assert "--repeat 3 measures 3 sessions, 24.0 hours from start to start" in capsys.readouterr().out


def test_an_experiment_with_a_new_kind_of_task_is_one_file_and_one_line(
    at: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It gets the command, the plan, summaries, the comparison along its axis, an answer, and all formats of the
    report."""
    entry = Entry("new_experiment:INSERTS", "Insert rows one by one.", ("option",))
    monkeypatch.setitem(EXPERIMENTS, "single-inserts", entry)
    assert run(["single-inserts", *at, "--dry-run"]) == 0
    assert "sizes: 2 tables; 2 variants, 3 runs of each; 10 inserts; 5 inserts" in capsys.readouterr().out
    assert run(["single-inserts", *at]) == 0
    printed, report = capsys.readouterr().out, stored(tmp_path)
    assert (report["metric"], report["settings"]["tables"], report["settings"]["runs"]) == ("inserts_per_s", 2, 3)
    assert {one["verdict"] for one in report["runs"]} == {"measured"}
    assert all(one["metrics"]["inserts_per_s"] > 0 for one in report["runs"])
    (compared,) = {(one["axis"], one["variant"], one["base_variant"]) for one in report["contrasts"]}
    assert compared == ("rows", "10-rows", "5-rows")
    interval = r"[\d,.]+ to [\d,.]+"
    answer = ".*".join((
        r"Single inserts on this host: mean of 3 runs (?:\+-|\u00b1) 95 % interval in this session:? ",
        "inserts/s",
        *(rf"5\.7\.22, rows {rows}\W+[\d,.]+ (?:(?:\+-|\u00b1) [\d,.]+|\(runs of {interval}\)) " for rows in (5, 10)),
        r"rows 10 instead of 5: [\d.]+ \([\d.]+-[\d.]+\) times the inserts/s(, not significant)?\.",
    ))  # fmt: skip
    assert re.search(answer, " ".join(printed.split()))
    latest = tmp_path / "results" / "latest"
    for name in ("report.txt", "report.md", "report.html"):
        text = " ".join(re.sub("<[^>]*>", "", (latest / name).read_text()).split())
        assert re.search(answer, text.replace("\u200b", "").replace("\xa0", " ")), name
    assert '<title id="bars-1-title">Single inserts: inserts/s</title>' in (latest / "report.html").read_text()


@pytest.mark.parametrize(("limit", "code"), [("60", 0), ("0.001", 4)])
def test_a_start_that_takes_longer_than_allowed_ends_with_4(
    limit: str, code: int, at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["cold-recovery", "--tables", "2", "--runs", "1", "--max-startup", limit, *at]) == code
    assert stored(tmp_path)["settings"]["max_startup"] == float(limit)
    text = "--max-startup / MAX_STARTUP: a start took longer than 0.001 s: 5.7.22 cold, run 1 of 1, "
    assert (text in capsys.readouterr().err) is bool(code)
