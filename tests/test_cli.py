"""The command line: refusals with a hint and their exit codes, the layers of settings, dry runs, and output."""

from __future__ import annotations

import gzip
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from recovery import __version__
from recovery.cli.main import run
from recovery.cli.measure import announce, request_from_arguments
from recovery.errors import UsageError

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
    """Runs a command that succeeds; returns its standard output and its standard error."""

    def printed(*arguments: str) -> tuple[str, str]:
        assert run(list(arguments)) == 0
        captured = capsys.readouterr()
        return captured.out, captured.err

    return printed


# --- Refusals


@pytest.mark.parametrize(
    ("code", "command", "message"),
    [
        (2, "cold-recovery --tables 0", "TABLES=0 is not valid"),
        (2, "cold-recovery --runs 0", "RUNS=0 is not valid"),
        (2, "cold-recovery --schemas 0", "SCHEMAS=0 is not valid"),
        (2, "cold-recovery --columns=-2", "--columns=-2 is not valid"),
        (2, "cold-recovery --set datadir=/elsewhere", "datadir"),
        (2, "cold-recovery --engine podman", "podman"),
        (2, "cold-recovery --stall 0", "stall"),
        (2, "cold-recovery --stall nan", "stall"),
        (2, "cold-recovery --stall inf", "stall"),
        (2, "cold-recovery --read-iops 0", "READ_IOPS=0 is not valid"),
        (2, "cold-recovery --memory 1m", "MEMORY=1m is too little for any server"),
        (2, "cold-recovery --memory ''", "--memory is set but empty"),
        (2, "cold-recovery --results=", "--results is set but empty"),
        (2, f"cold-recovery --note {'x' * 501}", "NOTE is 501 characters long"),
        (2, "cold-recovery --note 'io2\n5000'", "is not a line of plain text"),
        (2, "cold-recovery --note '\x1b[31m'", "is not a line of plain text"),
        (2, "cold-recovery --variant 'a\nb\x1b[31m'", "--variant 'a b?[31m' has no name"),
        (2, "cold-recovery --frobnicate", "--frobnicate"),
        (2, "cold-recovery --data ~nobody-at-all/x", "there is no such home folder"),
        (2, "cold-recovery --version '5.6.24 5.7.22' --mysqld /opt/x", "MYSQLD is one server"),
        (2, "cold-recovery --template missing.j2", "missing.j2"),
        (2, "cold-recovery --layout general --template own.j2", "determines the layout of its tables"),
        (2, "cold-recovery --tables 10 --variant many:schemas=4", "cannot divide 10 tables among 4 schemas"),
        (2, "cold-recovery --version 5.7.5 --layout general", "5.7.5 has no general tablespaces"),
        (2, "cold-recovery --version mariadb-10.11.5 --variant x:layout=general", "mariadb-10.11.5 has no general"),
        (2, "cold-recovery --version 5.6.24 --layout encrypted", "5.6.24 has no plugin that reads the keys"),
        (2, "cold-recovery --version 8.4.0 --variant x:layout=encrypted", "8.4.0 has no plugin that reads the keys"),
        (2, "cold-recovery --version five", "'five' is not a server version"),
        (3, "cold-recovery --version 8.0.38", "8.0.38 was withdrawn"),
        (2, "cold-recovery --dry-run --engine local --version 9.7", "9.7"),
        (3, "cold-recovery --dry-run --engine docker", "there is no Docker engine at"),
        (2, "cold-recovery --dry-run --json not/there.json", "--json not/there.json cannot be written"),
        (2, "cold-recovery --dry-run --json .", "--json . cannot be written"),
        (2, "report", "no session"),
        (2, "datadirs remove no-such-key", "no-such-key"),
        (2, "analyze", "no error log was given"),
        (3, "images", "there is no Docker engine at unix:///nowhere/docker.sock (DOCKER_HOST)"),
        (3, "images build 5.7.22", "there is no Docker engine"),
        (2, "images build", "no server was named"),
        (2, "images build --mysqld /x 5.7.22 8.0.31", "VERSION names several"),
        (2, "images remove", "say which"),
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


def test_an_unknown_version_is_refused_with_the_available_ones(refused: Refused) -> None:
    _, text = refused("cold-recovery", "--version", "five")
    assert all(version in text for version in ("5.6.24", "8.0.31", "mariadb-10.11.5"))


@pytest.mark.parametrize(
    ("code", "variable", "command", "message"),
    [
        *((2, f"{name}=", "cold-recovery", f"{name} is set but empty") for name in ("VERSION", "TABLES", "MEMORY")),
        (2, "TABELS=5", "versions", "RECOVERY_TABELS is not a setting"),
        (2, "SECONDS=1", "cold-recovery", "SECONDS=1 has no effect on cold-recovery"),
        (2, "TRACE=1", "table-cache", "TRACE=1 has no effect on table-cache"),
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


@pytest.mark.parametrize(
    ("option", "message"), [("--tables=100000000", "does not fit"), ("--results=file/results", "results")]
)
def test_an_unfit_host_is_refused_before_anything_is_built(
    option: str, message: str, refused: Refused, empty_folder: Path
) -> None:
    (empty_folder / "file").write_text("in the way")
    code, text = refused("cold-recovery", "--no-probe", "--tables", "9", "--data", "data", option)
    assert code == 3
    assert message in text
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
    (folder / "report.json").write_text(json.dumps({"format": 2}))
    code, text = refused("report", folder.name)
    assert code == 1
    assert "newer version" in text
    code, text = refused("warm-recovery")
    assert code == 2
    assert "give VERSION=" in text


# --- The layers of settings


def test_the_command_line_overrides_the_environment_which_overrides_the_config_file(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch, printed: Printed
) -> None:
    (empty_folder / "recovery.toml").write_text(
        'version = "mariadb-10.11.5"\ntables = 7\nruns = 2\n[set]\ninnodb_force_recovery = 1\n'
    )
    monkeypatch.setenv("RECOVERY_TABLES", "8")
    command = printed("cold-recovery", "--dry-run", "--runs", "3")[1].splitlines()[0]
    for words in ("--version mariadb-10.11.5", "--tables 8", "--runs 3", "--set innodb_force_recovery=1"):
        assert words in command


def test_flags_come_from_the_environment_too(monkeypatch: pytest.MonkeyPatch, printed: Printed) -> None:
    for name, value in {"KEEP": "1", "AS_PUBLISHED": "true", "STALL": "7", "SET": "innodb_page_size=8192 x=1"}.items():
        monkeypatch.setenv(f"RECOVERY_{name}", value)
    command = printed("cold-recovery", "--dry-run")[1].splitlines()[0]
    assert command.endswith("--set innodb_page_size=8192 --set x=1 --as-published --keep --stall 7")


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
    assert capsys.readouterr().err.startswith("error: RUNS=0")


# --- Dry runs

VARIANTS = "--variant parts: --variant one-file:layout=general --variant many:schemas=10"
PAGES = "--set innodb_page_size=4k --variant as-asked: --variant more:innodb_page_size=8k"


def plan_of_unknown_version(name: str) -> list[str]:
    return [f"the version of {name} is determined", f"  {name}: server .*GB and", f"  2  {name}  cold  run 2"]


@pytest.mark.parametrize(
    ("command", "patterns"),
    [
        (
            "crash-recovery --version '5.7.22 8.0.31' --tables 1000 --runs 2",
            ["  5.7.22: server .*inodes", "  8  8.0.31  warm  run 2"],
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
    monkeypatch.setattr("recovery.cli.measure.describe_engine", lambda _: "in containers of some engine")
    text = "".join(printed(*shlex.split(command), "--data", "data", "--dry-run"))
    assert [pattern for pattern in patterns if not re.search(pattern, text)] == []
    assert list(empty_folder.iterdir()) == []


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


def test_a_reader_that_closes_the_pipe_changes_no_exit_code() -> None:
    command = [sys.executable, "-m", "recovery", "cold-recovery", "--dry-run", "--runs", "1000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert "Error" not in process.stderr.read()
    assert process.wait() == 0
    process.stderr.close()


# --- Analysis of error logs

LOGS = Path(__file__).resolve().parent.parent / "fixtures" / "errorlogs"
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


@pytest.mark.parametrize("answer", [True, False])
def test_a_long_session_asks_before_it_begins_on_a_terminal(answer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    request = request_from_arguments("cold-recovery", ["--engine", "local", "--tables", "20M"])
    asked: list[str] = []
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("sys.stderr", SimpleNamespace(isatty=lambda: True))

    def confirm(text: str, **_: Any) -> bool:
        asked.append(text)
        return answer

    monkeypatch.setattr("click.confirm", confirm)
    said: list[str] = []
    with nullcontext() if answer else pytest.raises(UsageError, match="nothing was measured"):
        announce([request], said.append, yes=False)
    assert asked == ["Begin?"]
    assert re.fullmatch(
        r"about [0-9.]+ hours and [0-9.]+ GB of disk, less for data directories that exist already", said[0]
    )
    announce([request], said.append, yes=True)
    assert len(asked) == 1, "--yes begins without a question"
