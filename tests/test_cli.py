"""The command line: refusals with a hint and their exit codes, the layers of settings, dry runs, and what is printed."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from recovery import __version__
from recovery.cli.main import run

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
        lines = [line for line in captured.err.splitlines() if not line.startswith("$ ")]
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
    ("arguments", "message"),
    [
        (["--tables", "0"], "TABLES=0 is not valid"),
        (["--runs", "0"], "RUNS=0 is not valid"),
        (["--schemas", "0"], "SCHEMAS=0 is not valid"),
        (["--columns=-2"], "--columns=-2 is not valid"),
        (["--set", "datadir=/elsewhere"], "datadir"),
        (["--engine", "podman"], "podman"),
        (["--stall", "0"], "stall"),
        (["--stall", "nan"], "stall"),
        (["--read-iops", "0"], 'invalid READ_IOPS "0"'),
        (["--memory", "1m"], "MEMORY=1m is too little for any server"),
        (["--memory", ""], "--memory is set but empty"),
        (["--results="], "--results is set but empty"),
        (["--note", "x" * 501], "NOTE is 501 characters long"),
        (["--note", "io2\n5000"], "is not a line of plain text"),
        (["--note", "\x1b[31m"], "is not a line of plain text"),
        (["--frobnicate"], "--frobnicate"),
        (["--data", "~nobody-at-all/x"], "there is no such home folder"),
        (["--variant", "a\nb\x1b[31m"], "--variant 'a b?[31m' has no name"),
        (["--version", "5.6.24 5.7.22", "--mysqld", "/opt/x"], "MYSQLD is one server"),
        (["--template", "missing.j2"], "missing.j2"),
        (["--layout", "general", "--template", "own.j2"], "determines the layout of its tables"),
        (["--tables", "10", "--variant", "many:schemas=4"], "cannot divide 10 tables among 4 schemas"),
        (["--version", "5.7.5", "--layout", "general"], "5.7.5 has no general tablespaces"),
        (["--version", "5.7.22 mariadb-10.11.5", "--variant", "x:layout=general"], "mariadb-10.11.5 has no general"),
        (["--version", "5.6.24", "--layout", "encrypted"], "5.6.24 has no plugin that reads the keys"),
        (["--version", "8.4.0", "--variant", "x:layout=encrypted"], "8.4.0 has no plugin that reads the keys"),
        (["--dry-run", "--engine", "local", "--version", "9.7"], "9.7"),
        (["--dry-run", "--json", "not/there.json"], "--json not/there.json cannot be written"),
        (["--dry-run", "--json", "."], "--json . cannot be written"),
    ],
)
def test_invalid_options_are_refused_and_nothing_is_created(
    arguments: list[str], message: str, refused: Refused, tmp_path: Path
) -> None:
    code, text = refused("cold-recovery", "--data", str(tmp_path / "d"), *arguments)
    assert code == 2
    assert message in text
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("command", ["cold-recovery", "interference"])
@pytest.mark.parametrize(
    "option",
    ["tables", "runs", "read-iops", "set=innodb_buffer_pool_size", "set=innodb_redo_log_capacity", "variant=a:innodb_buffer_pool_size"],
)
def test_a_number_of_thousands_of_digits_is_refused(command: str, option: str, refused: Refused) -> None:
    assert refused(command, "--dry-run", f"--{option}={'9' * 5000}")[0] == 2


def test_an_unknown_version_is_refused_with_the_available_ones(refused: Refused) -> None:
    _, text = refused("cold-recovery", "--version", "five")
    assert all(version in text for version in ("5.6.24", "8.0.31", "mariadb-10.11.5"))


def test_a_withdrawn_version_is_refused_before_anything_is_fetched(refused: Refused, tmp_path: Path) -> None:
    code, text = refused("cold-recovery", "--version", "8.0.38", "--data", str(tmp_path / "d"))
    assert code == 3
    assert "8.0.38 was withdrawn" in text
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("variable", "value", "command", "message"),
    [
        *((name, "", "cold-recovery", f"{name} is set but empty") for name in ("VERSION", "TABLES", "DATA", "MEMORY")),
        ("TABELS", "5", "versions", "RECOVERY_TABELS is not a setting"),
        ("SECONDS", "1", "cold-recovery", "SECONDS=1 has no effect on cold-recovery"),
        ("TRACE", "1", "table-cache", "TRACE=1 has no effect on table-cache"),
    ],
)
def test_empty_unknown_and_unused_variables_are_refused(
    variable: str, value: str, command: str, message: str, monkeypatch: pytest.MonkeyPatch, refused: Refused
) -> None:
    monkeypatch.setenv(f"RECOVERY_{variable}", value)
    code, text = refused(command)
    assert code == 2
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


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("tcp://192.0.2.1:2375", "has no socket on this host"),
        ("unix:///nowhere/docker.sock", "there is no Docker engine at"),
    ],
)
def test_without_an_engine_docker_is_refused_and_auto_runs_locally(
    address: str, reason: str, refused: Refused, printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", address)
    code, text = refused("cold-recovery", "--dry-run", "--engine", "docker")
    assert code == 3
    assert reason in text
    plan = " ".join(printed("cold-recovery", "--dry-run", "--engine", "auto")[0].split())
    assert "servers run as local processes, for" in plan
    assert reason in plan


def test_more_tables_than_the_disk_holds_are_refused_before_anything_is_built(refused: Refused, tmp_path: Path) -> None:
    code, text = refused("cold-recovery", "--tables", "100000000", "--data", str(tmp_path / "d"))
    assert code == 3
    assert "does not fit" in text
    assert not list((tmp_path / "d").glob("5.7.22*"))


def test_a_results_folder_that_cannot_be_created_is_refused(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "file").write_text("in the way")
    folders = ["--data", str(tmp_path / "d"), "--results", str(tmp_path / "file" / "r")]
    code, text = refused("cold-recovery", "--tables", "9", *folders)
    assert code == 3
    assert "results" in text


def test_a_data_folder_in_memory_is_refused(refused: Refused, tmp_path: Path) -> None:
    data = Path("/dev/shm") / tmp_path.name
    code, text = refused("cold-recovery", "--tables", "9", "--data", str(data))
    data.rmdir()
    assert code == 3
    assert "is in memory" in text


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 3, "there is no Docker engine at unix:///nowhere/docker.sock (DOCKER_HOST)"),
        (("list",), 3, "there is no Docker engine"),
        (("build", "5.7.22"), 3, "there is no Docker engine"),
        (("build",), 2, "no server was named"),
        (("build", "--mysqld", "/x", "5.7.22", "8.0.31"), 2, "VERSION names several"),
        (("remove",), 2, "say which"),
        (("remove", "x", "--all"), 2, "say which"),
    ],
)
def test_images_are_refused_without_an_engine_or_a_name(
    arguments: tuple[str, ...], code: int, message: str, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    found, text = refused("images", *arguments)
    assert found == code
    assert message in text


def test_images_are_named_by_the_version_variable_too(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    monkeypatch.setenv("RECOVERY_VERSION", "5.7.22 8.0.31")
    code, text = refused("images", "build")
    assert code == 3
    assert "there is no Docker engine" in text


def test_without_a_readable_session_reports_and_warm_runs_are_refused(empty_folder: Path, refused: Refused) -> None:
    code, text = refused("report")
    assert code == 2
    assert "no session" in text
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


def test_a_dry_run_prints_the_plan_and_creates_nothing(empty_folder: Path, printed: Printed) -> None:
    data = empty_folder / "data"
    asked = ["--version", "5.7.22 8.0.31", "--tables", "1000", "--runs", "2", "--data", str(data)]
    out, _ = printed("crash-recovery", "--dry-run", *asked)
    assert "5.7.22: server" in out
    assert "inodes" in out
    assert "  8  8.0.31  warm  run 2" in out
    assert not data.exists()
    assert not (empty_folder / "results").exists()


def test_a_dry_run_plans_the_files_of_each_layout(printed: Printed) -> None:
    asked = ["--version", "5.7.22", "--tables", "1000", "--layout", "partitioned"]
    variants = ["--variant", "parts:", "--variant", "one-file:layout=general", "--variant", "many:schemas=10"]
    out, err = printed("cold-recovery", "--dry-run", *asked, *variants)
    assert "--layout partitioned" in err
    assert "--variant parts: --variant one-file:layout=general --variant many:schemas=10" in err
    for words in (
        ("  5.7.22: server", "1,000 tables (partitioned: .ibd files: 4,000)", " 6,000 inodes"),
        ("  5.7.22 layout=general: server", "1,000 tables (general: .ibd files: 1)", " 2,001 inodes"),
        ("  5.7.22 schemas=10: server", "1,000 tables (partitioned: .ibd files: 4,000)"),
    ):
        assert any(all(word in line for word in words) for line in out.splitlines()), words


def test_a_dry_run_plans_the_space_for_each_page_size(printed: Printed) -> None:
    asked = ("--version", "5.7.22", "--tables", "1000000", "--set", "innodb_page_size=4k")
    out, _ = printed(
        "cold-recovery", "--dry-run", *asked, "--variant", "as-asked:", "--variant", "more:innodb_page_size=8k"
    )
    assert "1,000,000 tables: 38.4 GB and" in out
    assert "1,000,000 tables: 62.9 GB and" in out


def test_a_dry_run_warns_of_an_option_without_effect(printed: Printed) -> None:
    out, _ = printed("interference", "--dry-run", "--version", "5.7.22", "--option", "table_open_cache=1000000")
    assert "table_open_cache=1000000 will not be in effect" in out


@pytest.mark.parametrize(
    ("option", "name"), [("--version", "9.7"), ("--version", "debian-sid"), ("--image", "my/own:1")]
)
def test_a_dry_run_plans_a_server_whose_version_is_not_known_yet(
    option: str, name: str, monkeypatch: pytest.MonkeyPatch, printed: Printed
) -> None:
    monkeypatch.setenv("RECOVERY_ENGINE", "auto")
    monkeypatch.setattr("recovery.cli.measure.describe_engine", lambda _: "in containers of some engine")
    out, _ = printed("cold-recovery", "--dry-run", option, name, "--runs", "2")
    assert f"the version of {name} is determined at the start" in out
    assert f"  {name}: server " in out
    assert "GB and" in out
    assert f"  2  {name}  cold  run 2" in out


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


def test_an_unknown_data_directory_is_refused(tmp_path: Path, printed: Printed, refused: Refused) -> None:
    folder = str(tmp_path / "d")
    assert "no data directories" in printed("datadirs", "--data", folder)[0]
    code, text = refused("datadirs", "--data", folder, "remove", "no-such-key")
    assert code != 0
    assert "no-such-key" in text


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
        (None, None, "no error log was given"),
    ],
)
def test_analyze_refuses_what_is_no_error_log(
    name: str | None, content: bytes | None, message: str, tmp_path: Path, refused: Refused
) -> None:
    if name is not None and content is not None:
        (tmp_path / name).write_bytes(content)
    code, text = refused("analyze", *([str(tmp_path / name)] if name else []))
    assert code == 2
    assert message in text
