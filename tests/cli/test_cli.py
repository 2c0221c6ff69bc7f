"""The command line: refusals with a hint and their exit codes, the layers of settings, dry runs, and output."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from sessions import FIXTURES
from terminals import InTerminal
from waiting import until

from recovery import __version__
from recovery.builds.catalog import pinned_servers
from recovery.cli import doctor
from recovery.cli.main import run
from recovery.cli.measure import request_from_arguments
from recovery.cli.options import mark_json_without_file
from recovery.cli.plan_text import announce
from recovery.errors import HostUnfitError, UsageError
from recovery.experiments import EXPERIMENTS
from recovery.linux.storage import DiskSpace
from recovery.mysqld.datadir import DataDirInfo
from recovery.session.request import Request

MAX_LINE_LENGTH = 2100
Refused = Callable[..., tuple[int, str]]
Printed = Callable[..., tuple[str, str]]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cwd"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    """Runs a command that fails with one line of what and one of what to do; returns the exit code and both."""

    def refused(*arguments: str) -> tuple[int, str]:
        code = run(list(arguments))
        captured = capsys.readouterr()
        lines = [line for line in captured.err.splitlines() if not line.startswith(("$ ", "about "))]
        assert len(lines) == 2, captured.err
        assert lines[0].startswith("error: ")
        assert lines[1].startswith("hint:  ")
        assert max(map(len, lines)) < MAX_LINE_LENGTH
        assert captured.out == ""
        return code, "\n".join(lines)

    return refused


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """Runs a command with this exit code; returns its standard output and its standard error."""

    def printed(*arguments: str, code: int = 0) -> tuple[str, str]:
        assert run(list(arguments)) == code
        captured = capsys.readouterr()
        return captured.out, captured.err

    return printed


# --- Refusals


@pytest.mark.parametrize(
    ("code", "command", "message"),
    [
        (2, "cold-recovery --tables 0", "--tables / TABLES: 0 is not valid"),
        (2, "cold-recovery --runs 0", "--runs / RUNS: 0 is not valid"),
        (2, "cold-recovery --schemas 0", "--schemas / SCHEMAS: 0 is not valid"),
        (2, "cold-recovery --columns=-2", "--columns / COLUMNS: -2 is not valid"),
        (2, "cold-recovery --set datadir=/elsewhere", "datadir"),
        (2, "cold-recovery --engine podman", "podman"),
        (2, "cold-recovery --stall 0", "stall"),
        (2, "cold-recovery --stall nan", "stall"),
        (2, "cold-recovery --stall inf", "stall"),
        (2, "cold-recovery --read-iops 0", "--read-iops / READ_IOPS: 0 is not valid"),
        (2, "cold-recovery --memory 1m", "MEMORY: 1m is too little for any server"),
        (2, "cold-recovery --memory ''", "--memory is set but empty"),
        (2, "cold-recovery --results=", "--results is set but empty"),
        (2, f"cold-recovery --note {'x' * 501}", "NOTE: 501 characters are too long"),
        (2, "cold-recovery --note 'io2\n5000'", "is not a line of plain text"),
        (2, "cold-recovery --note '\x1b[31m'", "is not a line of plain text"),
        (2, "cold-recovery --variant 'a\nb\x1b[31m'", "VARIANT: a b?[31m has no name"),
        (2, "cold-recovery --frobnicate", "--frobnicate"),
        (2, "cold-recovery --data ~nobody-at-all/x", "there is no such home folder"),
        (2, "cold-recovery --version '5.6.24 5.7.22' --mysqld /opt/x", "--mysqld / MYSQLD: a server has one version"),
        (2, "scale --tables '10 100' --predict 1001", "--predict: 1,001 is too far beyond the largest measured number"),
        (2, "scale --tables '10 20' --schemas 4 --predict 801", "or predict 800 at most"),
        (2, "cold-recovery --mysqld a=/x --mysqld a=/y", "--mysqld / MYSQLD: two servers have the name 'a'"),
        (2, "cold-recovery --mysqld a=/x --mysqld /y/b --baseline 8.0.31", "BASELINE: 8.0.31 is not measured"),
        (2, "cold-recovery --version 5.7.22+patched", "--version / VERSION: 5.7.22+patched is not a server version"),
        (2, "cold-recovery --template missing.j2", "missing.j2"),
        (2, "cold-recovery --layout general --template own.j2", "determines the layout of its tables"),
        (2, "cold-recovery --tables 10 --variant many:schemas=4", "cannot divide 10 tables among 4 schemas"),
        (2, "cold-recovery --version 5.7.5 --layout general", "5.7.5 has no general tablespaces"),
        (2, "cold-recovery --version mariadb-10.11.5 --variant x:layout=general", "mariadb-10.11.5 has no general"),
        (
            2,
            "cold-recovery --trace --set innodb_log_archive=ON",
            "TRACE: it reads the redo log, which innodb_log_archive=ON",
        ),
        (2, "cold-recovery --version 5.6.24 --layout encrypted", "5.6.24 has no plugin that reads the keys"),
        (2, "cold-recovery --version 8.4.0 --variant x:layout=encrypted", "8.4.0 has no plugin that reads the keys"),
        (3, "cold-recovery --version 8.0.38", "8.0.38 was withdrawn"),
        (2, "cold-recovery --dry-run --engine local --version 9.7", "9.7"),
        (3, "cold-recovery --dry-run --engine docker", "there is no Docker engine at"),
        (2, "cold-recovery --dry-run --json not/there.json", "--json=not/there.json cannot be written"),
        (2, "cold-recovery --dry-run --json .", "--json=. cannot be written"),
        (2, "report", "no session"),
        (2, "datadirs remove no-such-key", "no-such-key"),
        (3, "images", "there is no Docker engine at unix:///nowhere/docker.sock (DOCKER_HOST)"),
        (3, "images build 5.7.22", "there is no Docker engine"),
        (2, "images build", "no server was named"),
        (2, "images build --mysqld /x 5.7.22 8.0.31", "several are named"),
        (2, "images remove", "say which"),
        (2, "datadirs --json remove x", "--json has no effect before remove"),
        (3, "cold-recovery --dry-run --cpus 100000", "error: --cpus / CPUS: 100000 is more than this host has"),
        (2, "images remove x --all", "say which"),
    ],
)
def test_an_invalid_command_is_refused_and_creates_nothing(
    code: int, command: str, message: str, refused: Refused, empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    monkeypatch.setenv("RECOVERY_DATA", "data")
    found, text = refused(*shlex.split(command))
    assert found == code
    assert message in text
    assert list(empty_folder.iterdir()) == []


@pytest.mark.parametrize("command", ["cold-recovery", "interference"])
@pytest.mark.parametrize(
    "option",
    [
        "tables", "runs", "read-iops", "set=innodb_buffer_pool_size", "set=innodb_redo_log_capacity",
        "variant=a:innodb_buffer_pool_size",
    ],
)  # fmt: skip
def test_a_number_of_thousands_of_digits_is_refused(command: str, option: str, refused: Refused) -> None:
    assert refused(command, "--dry-run", f"--{option}={'9' * 5000}")[0] == 2


def test_the_doctor_checks_the_disk_for_the_named_tables_and_version(printed: Printed) -> None:
    (found,) = [
        check
        for check in json.loads(
            printed("doctor", "--tables", "30M", "--version", "5.7.22 8.0.31", "--no-probe", "--json", code=3)[0]
        )["checks"]
        if check["name"] == "disk"
    ]
    assert (found["ok"], found["why"]) == (False, "30,000,000 tables of 8.0.31 need this much")


@pytest.mark.parametrize(
    ("code", "variable", "command", "message"),
    [
        *((2, f"{name}=", "cold-recovery", f"{name} is set but empty") for name in ("VERSION", "TABLES", "MEMORY")),
        (2, "TABELS=5", "versions", "there is no setting TABELS"),
        (2, "SECONDS=1", "cold-recovery", "--seconds / SECONDS: 1 has no effect on cold-recovery"),
        (2, "TRACE=1", "table-cache", "--trace / TRACE: 1 has no effect on table-cache"),
        (3, "VERSION=5.7.22 8.0.31", "images build", "there is no Docker engine"),
    ],
)
def test_empty_unknown_and_unused_variables_are_refused(
    code: int, variable: str, command: str, message: str, monkeypatch: pytest.MonkeyPatch, refused: Refused
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    name, _, value = variable.partition("=")
    monkeypatch.setenv(f"RECOVERY_{name}", value)
    found, text = refused(*command.split())
    assert found == code
    assert message in text


def test_every_beside_repeat_names_the_variable_that_is_meant(
    monkeypatch: pytest.MonkeyPatch, refused: Refused
) -> None:
    monkeypatch.setenv("RECOVERY_REPEAT", "3")
    monkeypatch.setenv("RECOVERY_EVERY", "6h")
    found, text = refused("cold-recovery")
    assert found == 2
    assert "--every / EVERY: 6h has no effect on cold-recovery" in text
    assert "the time from the start of a session to that of the next is --repeat-every" in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("tables = ", "not valid TOML"),
        ("tabels = 3", "unknown setting 'tabels'"),
        ('data = "  "', "empty"),
        ("data = 5", "'data' cannot be 5"),
        ("version = 5.7", "'version' cannot be 5.7"),
        ("keep = 1", "'keep' cannot be 1"),
        ("note = 5", "'note' cannot be 5"),
        ("no_probe = 1", "'no_probe' cannot be 1"),
        ("read_iops = true", "read_iops"),
        ('memory = ""', "memory"),
        ("cpus = [1]", "cpus"),
        ("set = 3", "'set' is not a table"),
        (f"tables = {'9' * 5000}", "not valid TOML: a number in it has too many digits"),
        (f"tables = 0x{'f' * 5000}", "not valid TOML: a number in it has too many digits"),
        (f"set = {'[' * 5000}", "not valid TOML: it is nested too deeply"),
        ("#" * 70_000, "recovery.toml is larger than 65,536 bytes"),
        (f"{'x' * 5000} = 1", "unknown setting 'xxx"),
    ],
)
def test_an_invalid_config_file_is_refused(content: str, message: str, empty_folder: Path, refused: Refused) -> None:
    (empty_folder / "recovery.toml").write_text(content)
    code, text = refused("versions")
    assert code == 2
    assert message in text


def test_a_remote_engine_is_refused_and_auto_runs_locally(
    refused: Refused, printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    reason = "has no socket on this host"
    code, text = refused("cold-recovery", "--dry-run", "--engine", "docker")
    assert code == 3
    assert reason in text
    plan = " ".join(printed("cold-recovery", "--dry-run", "--engine", "auto")[0].split())
    assert "servers run as local processes, for" in plan
    assert reason in plan


def test_an_unfit_host_is_refused_before_anything_is_built(refused: Refused, empty_folder: Path) -> None:
    (empty_folder / "file").write_text("in the way")
    code, text = refused("cold-recovery", "--no-probe", "--tables", "9", "--data", "data", "--results=file/results")
    assert code == 3
    assert "results" in text
    assert not list(empty_folder.glob("data/5.7.22*"))


def test_a_data_folder_in_memory_is_refused(refused: Refused, tmp_path: Path) -> None:
    data = Path("/dev/shm") / tmp_path.name
    code, text = refused("cold-recovery", "--no-probe", "--tables", "9", "--data", str(data))
    data.rmdir()
    assert code == 3
    assert "is in memory" in text


def test_a_session_of_a_newer_format_is_refused(empty_folder: Path, refused: Refused) -> None:
    folder = empty_folder / "results" / "20990101T000000Z-cold-recovery"
    folder.mkdir(parents=True)
    (folder / "report.json").write_text(json.dumps({"format": 3}))
    code, text = refused("report", folder.name)
    assert code == 1
    assert "newer version" in text
    code, text = refused("warm-recovery")
    assert code == 2
    assert "give --version" in text


# --- The layers of settings


def test_the_command_line_overrides_the_environment_which_overrides_the_config_file(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch, printed: Printed
) -> None:
    (empty_folder / "recovery.toml").write_text(
        'version = "mariadb-10.11.5"\ntables = 7\nruns = 2\ncpus = 0.5\n[set]\ninnodb_force_recovery = 1\n'
    )
    monkeypatch.setenv("RECOVERY_TABLES", "8")
    monkeypatch.setattr("recovery.cli.plan_text.controller_settings", lambda *_: ())  # as where it can be set
    command = printed("cold-recovery", "--dry-run", "--runs", "3")[1].splitlines()[0]
    for words in ("--version mariadb-10.11.5", "--tables 8", "--runs 3", "--cpus 0.5", "--set innodb_force_recovery=1"):
        assert words in command


def test_flags_come_from_the_environment_too(monkeypatch: pytest.MonkeyPatch, printed: Printed) -> None:
    for name, value in {
        "KEEP": "1",
        "AS_PUBLISHED": "true",
        "STALL": "7",
        "SET": "innodb_page_size=8192 loose_x=1",
    }.items():
        monkeypatch.setenv(f"RECOVERY_{name}", value)
    command = printed("cold-recovery", "--dry-run")[1].splitlines()[0]
    assert command.endswith("--set innodb_page_size=8192 --set loose_x=1 --as-published --keep --stall 7")


def test_a_note_keeps_its_blanks_in_every_layer(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch, printed: Printed
) -> None:
    (empty_folder / "recovery.toml").write_text('note = ["from a file", "and more"]\nno_probe = true\n')
    dry_run = ("cold-recovery", "--dry-run")
    assert printed(*dry_run)[1].splitlines()[0].endswith("--no-probe --note 'from a file; and more'")
    monkeypatch.setenv("RECOVERY_NOTE", "io2, 5000 IOPS")
    assert printed(*dry_run)[1].splitlines()[0].endswith("--note 'io2, 5000 IOPS'")
    command = printed(*dry_run, "--note", "gp3", "--note", "a  <b> & ü")[1].splitlines()[0]
    assert command.endswith("--note 'gp3; a  <b> & ü'")


def test_the_config_file_applies_to_every_command(empty_folder: Path, refused: Refused, printed: Printed) -> None:
    (empty_folder / "recovery.toml").write_text(
        'results = "/nowhere/results"\ndata = "/nowhere/data"\ntables = 2\nversion = ["5.7.22", "8.0.31"]\n'
    )
    assert "/nowhere/results" in refused("report")[1]
    assert "no data directories in /nowhere/data" in printed("datadirs")[0]
    assert printed("schema")[0].count("create table") == 2
    assert "--version '5.7.22 8.0.31' --tables 2" in printed("cold-recovery", "--dry-run")[1]


def test_quiet_prints_errors_alone(
    monkeypatch: pytest.MonkeyPatch, printed: Printed, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed("cold-recovery", "--dry-run", "--quiet")[1] == ""
    monkeypatch.setenv("RECOVERY_QUIET", "1")
    assert printed("cold-recovery", "--dry-run")[1] == ""
    assert run(["cold-recovery", "--runs", "0"]) == 2
    assert capsys.readouterr().err.startswith("error: --runs / RUNS: 0 ")


# --- Dry runs

VARIANTS = "--variant parts: --variant one-file:layout=general --variant many:schemas=10"
PAGES = "--set innodb_page_size=4k --variant as-asked: --variant more:innodb_page_size=8k"


def plan_of_unknown_version(name: str) -> list[str]:
    return [f"the version of {name} is determined", f"  {name}: server .*GB and", f"  2  {name}  cold"]


@pytest.mark.parametrize(
    ("command", "patterns"),
    [
        (
            "crash-recovery --version '5.7.22 8.0.31' --tables 1000 --runs 2",
            ["  5.7.22: server .*inodes", "  1  5.7.22  cold, first read, not averaged", " 10  8.0.31  warm"],
        ),
        (
            f"cold-recovery --version 5.7.22 --tables 1000 --layout partitioned {VARIANTS}",
            [
                "--layout partitioned",
                VARIANTS,
                r"  5.7.22: server .*1,000 tables \(partitioned: .ibd files: 4,000\).* 6,000 inodes",
                r"  5.7.22 layout=general: server .*1,000 tables \(general: .ibd files: 1\).* 2,001 inodes",
                r"  5.7.22 schemas=10: server .*1,000 tables \(partitioned: .ibd files: 4,000\)",
            ],
        ),
        (
            f"cold-recovery --version 5.7.22 --tables 1000000 {PAGES}",
            ["1,000,000 tables: 38.4 GB and", "1,000,000 tables: 62.9 GB and"],
        ),
        (
            "interference --version 5.7.22 --option table_open_cache=1000000",
            ["table_open_cache=1000000 will not be in effect"],
        ),
        ("cold-recovery --version 9.7 --runs 2", plan_of_unknown_version("9.7")),
        ("cold-recovery --version debian-sid --runs 2", plan_of_unknown_version("debian-sid")),
        ("cold-recovery --image my/own:1 --runs 2", plan_of_unknown_version("my/own:1")),
    ],
)
def test_a_dry_run_prints_the_plan_and_creates_nothing(
    command: str, patterns: list[str], printed: Printed, empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOVERY_ENGINE", "auto")
    monkeypatch.setattr("recovery.cli.plan_text.describe_engine", lambda _: "in containers of some engine")
    monkeypatch.setattr("recovery.cli.plan_text.locate_servers", lambda *_: ("in an image of this host",) * 2)
    text = "".join(printed(*shlex.split(command), "--data", "data", "--dry-run"))
    assert [pattern for pattern in patterns if not re.search(pattern, text)] == []
    assert list(empty_folder.iterdir()) == []


@dataclass(frozen=True)
class KeptDatadirs:
    """In place of DataDirs: one directory of 5.7.22 and one of another version."""

    root: Path

    def find(self, *_: object, **__: object) -> None:
        return None

    def list(self) -> list[DataDirInfo]:
        keys = ("5.7.22-discovery-20-a", "5.7.2-discovery-20-b", "mariadb-10.11.5-discovery-20-c")
        return [DataDirInfo(key, "whole", 1, 20, None) for key in keys]


def test_a_long_plan_is_cut_and_lists_only_directories_of_its_versions(
    printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOVERY_ENGINE", "local")
    for module in ("session.prepare", "cli.plan_text"):
        monkeypatch.setattr(f"recovery.{module}.DataDirs", KeptDatadirs)
    plan = printed("cold-recovery", "--version", "5.7.22", "--runs", "21", "--dry-run")[0].splitlines()
    assert plan[-3].split() == ["10", "5.7.22", "cold"]
    assert plan[-2] == "  and 12 more"
    there = [line for line in plan if "also there" in line]
    assert there == ["  also there, for other sessions: 5.7.22-discovery-20-a (whole)"]
    assert not any("built already" in line for line in plan), "one version has no order"
    whole = printed("cold-recovery", "--version", "5.7.22", "--runs", "19", "--dry-run")[0].splitlines()
    assert whole[-2].split()[0] == "20"
    assert any(line.endswith("tables; 19 runs") for line in whole)
    two = printed("cold-recovery", "--version", "5.7.22 8.0.31", "--runs", "1", "--tables", "20", "--dry-run")[0]
    assert "tables; 1 run of each version" in two
    assert "versions alternate, block by block, unless some are built already" in two


# --- What other commands print


CREATE_TABLE = "create table {}.table_1 (id int primary key auto_increment{};"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ["create schema discovery;", CREATE_TABLE.format("discovery", ")")]),
        (
            {"LAYOUT": "general"},
            [
                "create tablespace all_tables add datafile 'all_tables.ibd' engine=innodb;",
                "create schema discovery;",
                CREATE_TABLE.format("discovery", ") tablespace all_tables"),
            ],
        ),
        (
            {"COLUMNS": "1", "ROWS": "1", "DATABASE": "shop"},
            ["create schema `shop`;", CREATE_TABLE.format("`shop`", ", c1 varchar(32))"), "insert into `shop`.table_1"],
        ),
    ],
)
def test_the_printed_schema_is_the_one_that_would_be_built(
    settings: dict[str, str], expected: list[str], monkeypatch: pytest.MonkeyPatch, printed: Printed
) -> None:
    for name, value in {"TABLES": "1", **settings}.items():
        monkeypatch.setenv(f"RECOVERY_{name}", value)
    lines = [line for line in printed("schema")[0].splitlines() if line and not line.startswith("--")]
    assert len(lines) == len(expected)
    assert all(line.startswith(words) for line, words in zip(lines, expected, strict=True)), lines


def test_version_and_completion_script(printed: Printed) -> None:
    assert __version__ in printed("--version")[0]
    assert "_RECOVERY_COMPLETE" in printed("completion", "bash")[0]


# --- Analysis of error logs

LOGS = Path(__file__).resolve().parents[2] / "fixtures" / "errorlogs"
CRASH_57 = LOGS / "mysql-5.7.22-crash.err"


def test_analyze_prints_a_page_of_78_columns_for_each_log(printed: Printed) -> None:
    out, _ = printed("analyze", str(CRASH_57), str(LOGS / "mysql-5.6.24-crash.err"))
    for words in ("5.7.22", "validation", "The timestamps are whole seconds"):
        assert words in out
    assert max(map(len, out.splitlines())) <= max(78, len(str(CRASH_57)))


def test_analyze_reads_compressed_standard_input_and_prints_json(
    printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    compressed = io.BytesIO(gzip.compress(CRASH_57.read_bytes()))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(compressed)))
    stored = json.loads(printed("analyze", "--json", "-")[0])
    (start,) = stored["logs"][0]["starts"]
    assert (stored["format"], start["kind"], start["version"]) == (1, "crash", "5.7.22")
    assert start["seconds"]["validation"] == pytest.approx(0.104, abs=0.001)
    assert start["named_share"] == 1.0


def test_analyze_without_a_file_on_a_terminal_is_refused(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    assert "no error log was given" in refused("analyze")[1]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none", None, "cannot be read"),
        ("empty.err", b"", "no start of a server was found"),
        ("other.txt", b"a shopping list\n" * 1000, "no start of a server was found"),
        ("torn.gz", gzip.compress(b"x" * 10_000)[:20], "cannot be read to its end"),
        (".", None, "cannot be read"),
    ],
)
def test_analyze_refuses_what_is_no_error_log(
    name: str, content: bytes | None, message: str, tmp_path: Path, refused: Refused
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    code, text = refused("analyze", str(tmp_path / name))
    assert code == 2
    assert message in text


def test_sessions_are_listed(printed: Printed, tmp_path: Path, kept_sessions: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(kept_sessions / "2026-11-21-layouts", results / "2026-11-21-layouts")
    (results / "broken").mkdir()
    (results / "broken" / "report.json").write_text("{")
    listed = [line.split() for line in printed("sessions", "--results", str(results))[0].splitlines()]
    assert listed[0] == ["session", "status", "runs", "versions"]
    assert listed[1] == ["2026-11-21-layouts", "finished", "9", "of", "9", "5.7.22"]
    assert listed[2][:2] == ["broken", "damaged"]


def answer_questions(monkeypatch: pytest.MonkeyPatch, *, answer: bool = True, room: int = 10**15) -> list[str]:
    """Returns the questions that are asked from now on, as on a terminal. The disk has so many bytes free."""
    asked: list[str] = []

    def confirm(text: str, **_: object) -> bool:
        asked.append(text)
        return answer

    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("sys.stderr", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("click.confirm", confirm)
    monkeypatch.setattr("recovery.session.prepare.free_space", lambda _: DiskSpace(room, 10**12))
    return asked


def cold(tmp_path: Path, *words: str) -> Request:
    return request_from_arguments("cold-recovery", ["--engine", "local", "--data", str(tmp_path), *words])


@pytest.mark.parametrize(
    ("sizes", "asks"),
    [
        ("--tables 20k --runs 40", False),
        ("--tables 20k --runs 60", True),  # 12 minutes
        ("--tables 60k --runs 1", False),
        ("--tables 100k --runs 1", True),  # 12.9 GB
    ],
)
def test_a_session_over_10_minutes_or_10_gb_asks_on_a_terminal(
    sizes: str, asks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, request = answer_questions(monkeypatch), cold(tmp_path, *sizes.split())
    announce([request], print, yes=True)
    assert asked == [], "--yes begins without a question"
    announce([request], print, yes=False)
    assert asked == ["Begin?"] * asks


def test_no_session_begins_after_a_no(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, said = answer_questions(monkeypatch, answer=False), list[str]()
    with pytest.raises(UsageError, match="nothing was measured"):
        announce([cold(tmp_path, "--tables", "20M")], said.append, yes=False)
    assert asked == ["Begin?"]
    assert re.fullmatch(r"about [0-9.]+ hours and [0-9.]+ TB of disk$", said[0])


def test_ctrl_c_at_the_question_measures_nothing(tmp_path: Path) -> None:
    sizes = ("--tables", "1000", "--runs", "1000", "--engine", "local")
    with InTerminal("cold-recovery", *sizes, "--data", str(tmp_path), "--results", str(tmp_path)) as terminal:
        terminal.read_until("Begin? [y/N]:")
        # A Ctrl-C between the question and the read of the answer is noticed at the next key only.
        until(lambda: psutil.Process(terminal.pid).status() == psutil.STATUS_SLEEPING, "the wait for an answer")
        terminal.type(b"\x03")
        assert terminal.wait() == 130
        assert terminal.screen().lines[-3:] == [
            "Begin? [y/N]: ^C", "error: interrupted", "hint:  nothing was measured"
        ]  # fmt: skip


@pytest.mark.parametrize("closed", ["stdin", "stderr"])
def test_nothing_is_asked_through_a_pipe(closed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answer_questions(monkeypatch)
    monkeypatch.setattr(f"sys.{closed}", SimpleNamespace(isatty=lambda: False))
    announce([cold(tmp_path, "--tables", "20M")], print, yes=False)
    assert asked == []


def test_what_cannot_fit_is_an_error_before_any_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, said = answer_questions(monkeypatch, room=10**10), list[str]()
    large = ["--tables", "20M"]
    with pytest.raises(HostUnfitError, match=r"needs? .* are free"):
        announce([cold(tmp_path, *large)], said.append, yes=False)
    both = [cold(tmp_path, "--tables", "60k"), cold(tmp_path, "--tables", "60k", "--columns", "9")]
    with pytest.raises(HostUnfitError, match=r"the experiments need .* of disk"):
        announce(both, said.append, yes=False)
    assert (said, asked) == ([], [])
    announce([cold(tmp_path, "--engine", "docker", "--image", "my/mysql", *large)], said.append, yes=False)
    assert asked == ["Begin?"], "its data directory may be there"
    (tmp_path / "5.7.22-discovery-10-a" / "copy").mkdir(parents=True)
    announce([cold(tmp_path, *large)], said.append, yes=False)
    assert len(asked) == 2, "the session removes the copy of a killed run first"


# --- JSON

PUBLISHED = FIXTURES / "sessions"
KEPT = "three-versions"
JSON_COMMANDS = {
    "analyze": (str(CRASH_57),),
    "compare": ("--results", str(PUBLISHED), KEPT, "stacks"),
    "datadirs": (),
    "datadirs list": (),
    "doctor": ("--no-probe",),
    "report": ("--results", str(PUBLISHED), KEPT),
    "sessions": ("--results", str(PUBLISHED)),
    "status": (),
    "versions": (),
    "watch": ("--once", "--follow-log", str(CRASH_57)),
}


@pytest.mark.parametrize(("command", "words"), JSON_COMMANDS.items())
def test_json_goes_to_a_file_or_alone_to_standard_output(
    command: str, words: tuple[str, ...], empty_folder: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(doctor, "why_unusable", dict)  # it tries programs, which takes a second

    def output(*options: str) -> str:
        assert run([*command.split(), *options, *words]) in (0, 3)
        return capsys.readouterr().out

    text = output()
    assert not text.startswith("{")
    for flag in (["--json"], ["--json", "-"], ["--json=-"]):
        assert isinstance(json.loads(output(*flag)), dict)
    for number, flag in enumerate((["--json", "0.json"], ["--json=1"])):
        assert not output(*flag).startswith("{"), "the text is printed as well"
        assert isinstance(json.loads((empty_folder / ("0.json" if number == 0 else "1")).read_text()), dict)
    assert sorted(path.name for path in empty_folder.iterdir()) == ["0.json", "1"], "no draft is left"


@pytest.mark.parametrize("command", ["resume", *EXPERIMENTS, "experiments", "images", *JSON_COMMANDS])
def test_every_command_that_has_results_refuses_a_json_file_that_cannot_be_written(
    command: str, refused: Refused, empty_folder: Path
) -> None:
    for file in ("not/there.json", "."):
        code, text = refused(*command.split(), f"--json={file}")
        assert code == 2
        assert f"--json={file} cannot be written" in text
    assert list(empty_folder.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "marked"),
    [
        ("--json A B", "--json=- A B"),
        ("A --json B", "A --json=- B"),
        ("A B --json", "A B --json=-"),
        ("--json - A B", "--json - A B"),
        ("--json out.json A B", "--json out.json A B"),
        ("--json=out A B", "--json=out A B"),
        ("--json --results x A", "--json=- --results x A"),
        ("", ""),
    ],
)
def test_json_takes_no_argument_of_the_command_for_its_file(words: str, marked: str) -> None:
    assert mark_json_without_file(words.split()) == marked.split()


def test_json_writes_to_a_pipe_and_follows_no_link(printed: Printed, refused: Refused, empty_folder: Path) -> None:
    (empty_folder / "link.json").symlink_to("target")
    code, text = refused("versions", "--json", "link.json")
    assert code == 2
    assert "link.json is a link, and is not followed: it leads to target" in text
    assert not (empty_folder / "target").exists()
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        printed("versions", "--json", f"/dev/fd/{writing}")
        os.close(writing)
        assert json.loads(pipe.read())["format"] == 1


# --- Names of server options in dry runs

MISSPELT = "innodb_bufer_pool_size=1G"


@pytest.fixture
def cached_lists(own_cache: Path) -> Path:
    """A cache in which no server is, and the options of 5.7.22 are."""
    folder = own_cache / "options"
    folder.mkdir(parents=True)
    (folder / f"5.7.22-{'a' * 16}.txt").write_text("innodb_buffer_pool_size\nport")
    return folder


@pytest.mark.parametrize(
    ("words", "typed"),
    [
        ("cold-recovery --set {}", "--set / SET: {}"),
        ("cold-recovery --variant a:{}", "--variant / VARIANT: a:{}"),
        ("interference --option {}", "--option / OPTION: {}"),
        ("experiments --version 5.7.22 --set {}", "--set / SET: {}"),
        ("cold-recovery --defaults-file my.cnf", "--defaults-file / DEFAULTS_FILE: {}"),
    ],
)
def test_a_dry_run_refuses_an_unknown_server_option(
    words: str, typed: str, refused: Refused, cached_lists: Path, empty_folder: Path
) -> None:
    (empty_folder / "my.cnf").write_text(f"[mysqld]\n{MISSPELT}\n")
    code, text = refused(*words.format(MISSPELT).split(), "--dry-run")
    assert code == 2
    assert f"error: {typed.format(MISSPELT)}: no such option in 5.7.22" in text
    assert "did you mean innodb_buffer_pool_size?" in text


@pytest.mark.parametrize("command", ["cold-recovery", "experiments"])
def test_a_dry_run_says_that_options_of_a_server_that_is_not_there_are_not_checked(
    command: str, printed: Printed, cached_lists: Path
) -> None:
    plan = " ".join(printed(command, "--dry-run", "--version", "8.0.31", "--set", MISSPELT)[0].split())
    assert "8.0.31 is not in the cache: the names of server options are checked when it is there" in plan
    assert "no server in the cache has the option innodb_bufer_pool_size: did you mean" in plan


# --- Series whose newest release only the vendor's archive knows


def test_a_dry_run_does_not_ask_the_archive_for_the_newest_of_a_series(printed: Printed, own_cache: Path) -> None:
    words = ("cold-recovery", "--dry-run", "--engine", "local", "--version", "mariadb-11.8 percona-8.0 8.0")
    plan = printed(*words, "--archive", "http://127.0.0.1:9")[0]
    assert "  the version of mariadb-11.8 is determined at the start\n" in plan
    assert "  the version of percona-8.0 is determined at the start\n" in plan
    assert "  8.0 is 8.0.31, the newest that is known on this host\n" in plan


@pytest.mark.usefixtures("own_cache")
def test_a_dry_run_offline_knows_the_releases_on_this_host(refused: Refused, printed: Printed) -> None:
    words = ("cold-recovery", "--dry-run", "--engine", "local", "--offline", "--version")
    assert (
        "  mariadb-11.4 is mariadb-11.4.5, the newest that is known on this host\n"
        in printed(*words, "mariadb-11.4")[0]
    )
    code, text = refused(*words, "mariadb-11.8")
    assert code == 2
    assert "mariadb-11.8 names no release that is known on this host" in text


# --- Unknown names


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ("cold-recovery --tabels 5", "recovery cold-recovery has no option --tabels", "did you mean --tables?"),
        ("cold-recovery --dry-run --tabels 5", "has no option --tabels", "did you mean --tables?"),
        ("cold-recovery --version five", "--version / VERSION: five", "give a release like 5.7.22"),
        ("cold-recovery --version mariadb10.11.5", "mariadb10.11.5", "did you mean mariadb-10.11.5?"),
        ("cold-recovery --version 9", "--version / VERSION: 9", "a series like 8.0"),
        ("cold-recovery --version MARIADB-10.11.5", "MARIADB-10.11.5", "did you mean mariadb-10.11.5?"),
        ("cold-recovery --version 8.0.31-foo", "no release has '-foo' after its numbers", "leave it out"),
        ("cold-recovery --version 8.0.31-debug", "no release has '-debug' after its numbers", "--mysqld PATH"),
        ("cold-recovery --version mysql-8.0.31-23-debug", "'-23-debug' after its numbers", "leave it out"),
        ("cold-recovery --version 26.13.0", "VERSION: 26.13.0 is not a server version", "a month from 1 to 12"),
        ("cold-recovery --version 26.0", "VERSION: 26.0 is not a server version", "a month from 1 to 12"),
        ("cold-recovery --version mariadb", "VERSION: mariadb is", "did you mean mariadb-lts?"),
        ("cold-recovery --tables 20x", "--tables / TABLES: 20x is not valid", "like 20000 or 20k"),
        ("cold-recovery --runs x", "--runs / RUNS: x is not valid", "to 10,000, like 5"),
        ("images build --oflin", "recovery images build has no option --oflin", "did you mean --offline?"),
        ("versions --zzz", "recovery versions has no option --zzz", "`recovery versions --help` lists its options"),
        ("cold-recvery", "there is no command cold-recvery", "did you mean cold-recovery?"),
        ("sesions", "there is no command sesions", "did you mean sessions?"),
        ("zzz", "there is no command zzz", "there are: cold-recovery,"),
        ("compare '' b", "an argument is empty", "leave it out"),
        (
            "cold-recovery --dry-run --engine dokcer",
            "error: --engine / ENGINE: dokcer is not valid",
            "did you mean docker?",
        ),
        (
            "crash-recovery --precision 0.05 --dry-run",
            "error: --precision / PRECISION: 0.05 is not valid",
            "a percentage, like 5%",
        ),
        ("completion bsh", "error: 'bsh' is not valid", "did you mean bash?"),
        ("scale --precision 5%", "recovery scale has no option --precision", "`recovery scale --help` lists its"),
        ("scale --tables", "'--tables' requires an argument", "`recovery scale --help`"),
    ],
)
def test_the_nearest_name_is_offered(words: str, message: str, hint: str, refused: Refused) -> None:
    code, text = refused(*shlex.split(words))
    assert code == 2
    assert message in text
    assert hint in text


@pytest.mark.parametrize("words", ["report {}", "resume {}", "compare {} {}", "bundle {}"])
def test_the_nearest_session_is_offered(words: str, refused: Refused, tmp_path: Path) -> None:
    for name in ("20260101T000000Z-scale", "20260202T000000Z-cold-recovery"):
        (tmp_path / "found" / name).mkdir(parents=True)
        (tmp_path / "found" / name / "report.json").touch()
    typed = words.format(*["20260101T000000Z-scael"] * 2).split()
    code, text = refused(*typed, "--results", str(tmp_path / "found"))
    assert code == 2
    assert "there is no session '20260101T000000Z-scael'" in text
    assert "did you mean 20260101T000000Z-scale?" in text


@pytest.mark.parametrize(
    ("variable", "hint"),
    [("TABELS", "TABLES"), ("tables", "TABLES"), ("CASHE", "CACHE")],
)
def test_the_nearest_variable_is_offered(
    variable: str, hint: str, monkeypatch: pytest.MonkeyPatch, refused: Refused
) -> None:
    monkeypatch.setenv(f"RECOVERY_{variable}", "5")
    assert f"there is no setting {variable}\nhint:  did you mean {hint}?" in refused("versions")[1]


def made(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The Makefile in a folder whose command prints its words and its settings, one a line."""
    program = folder / ".venv" / "bin" / "recovery"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text('#!/bin/sh\necho "$@"\nenv | grep ^RECOVERY_ | sort\n')
    program.chmod(0o755)
    (folder / "scripts").mkdir(exist_ok=True)
    (folder / "scripts" / "environment.sh").write_text("exit 0\n")
    command = ["make", "-f", str(FIXTURES.parent / "Makefile"), *words]
    return subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False
    )


def test_make_passes_on_whatever_is_given_as_it_is(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    nasty = f"$(shell touch {touched})`touch {touched}`;touch {touched} \"' $$HOME $HOME \\ #"
    given = {"NOTE": nasty, "TABELS": "5", "tables": "", "LIST": nasty, "ARGS": nasty, "BUDGET": "30m", "VENV": "/tmp"}
    done = made(tmp_path, "doctor", *(f"{name}={value}" for name, value in given.items()), DATA="/x", TABLES="5")
    assert done.returncode == 0, done.stderr
    first, *settings = done.stdout.splitlines()
    assert first == "doctor"
    others = {f"{name}={value}" for name, value in os.environ.items()}
    assert set(settings) - others == {f"RECOVERY_{name}={value}" for name, value in given.items()}
    for assigned in (":=", "::=", "+=", "?="):
        assert "RECOVERY_TABLES=7" in made(tmp_path, "doctor", f"TABLES{assigned}7").stdout.splitlines()
    assert not touched.exists()


def test_words_of_make_are_split_and_not_run(tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    touched = tmp_path / "touched"
    monkeypatch.setenv("RECOVERY_ARGS", f"--note '$(touch {touched})' `touch {touched}` --tabels")
    assert "recovery cold-recovery has no option --tabels" in refused("cold-recovery")[1]
    assert "RECOVERY_ARGS" not in os.environ, "a command that this one starts would have them, too"
    monkeypatch.setenv("RECOVERY_ARGS", "--note 'x")
    assert "ARGS cannot be split into words: No closing quotation" in refused("cold-recovery")[1]
    assert not touched.exists()


def test_a_setting_in_the_environment_of_make_is_named(printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABLES", "20k")
    monkeypatch.setenv("COLUMNS", "80")
    command = ("cold-recovery", "--dry-run", "--tables", "20")
    assert "note:" not in printed(*command)[1]
    monkeypatch.setenv("MAKELEVEL", "1")
    assert [line for line in printed(*command)[1].splitlines() if line.startswith("note: ")] == [
        "note: TABLES in the environment is not used: give it after `make`, or set RECOVERY_TABLES"
    ]


def test_make_runs_nothing_that_is_in_an_unknown_name(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    for name in (f"a;touch {touched};b", f"a'$(touch {touched})", f"a`touch {touched}`"):
        for command in (["make", "help", f"{name}=1"], ["make", name], ["make", f"$(shell touch {touched})"]):
            subprocess.run(command, cwd=FIXTURES.parent, capture_output=True, check=False)
    assert not touched.exists()


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("recoverry", "the nearest is recovery"),
        ("Doctor", "the nearest is doctor"),
        ("tests", "the nearest is test"),  # a folder
        ("xyz", "`make help` lists them"),
    ],
)
def test_make_offers_the_nearest_target(target: str, hint: str) -> None:
    done = subprocess.run(["make", target], cwd=FIXTURES.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"{target} is not a target: {hint}." in done.stderr


def test_make_knows_all_of_its_targets_and_leaves_files_alone() -> None:
    text = (FIXTURES.parent / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z][a-z-]*):", text, re.MULTILINE)
    assert len(targets) > 40
    for names in (targets, ["README.md"], ["-q", ".DEFAULT"]):  # the last is what a shell asks for to complete targets
        done = subprocess.run(
            ["make", "-n", *names, "__BASH_MAKE_COMPLETION__=1"],
            cwd=FIXTURES.parent, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert "is not a" not in done.stderr


@pytest.mark.parametrize(
    "command",
    ["cold-recovery --dry-run --quiet --runs 1000", f"report -v --results {PUBLISHED} {KEPT}", "schema", "--help"],
)
def test_a_closed_pipe_is_no_error(command: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "recovery", *command.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait() == 0
    process.stderr.close()


def test_a_closed_standard_input_is_refused() -> None:
    command = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "recovery", "analyze", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "error: standard input is closed")


def test_a_working_directory_that_was_removed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert run(["cold-recovery", "--tables", "20", "--data", "data", "--dry-run"]) == 3
    printed = capsys.readouterr().err
    assert "error: the working directory was removed" in printed
    assert "change to a folder that exists" in printed


@pytest.mark.parametrize(("machine", "said"), [("x86_64", 0), ("aarch64", 1)])
def test_versions_says_that_pinned_servers_are_for_another_processor(
    machine: str, said: int, printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    pinned_servers.cache_clear()
    out, _ = printed("versions")
    pinned_servers.cache_clear()
    assert " ".join(out.split()).count("This host is aarch64; the servers of the catalog that are for x86_64") == said
