"""Wrong input: one line of what, one of what to do, the promised exit code, and nothing touched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from recovery import __version__
from recovery.cli.main import run


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cwd"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = run(list(arguments))
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if not line.startswith("$ ")]
    assert len(lines) == 2, captured.err
    assert lines[0].startswith("error: ")
    assert lines[1].startswith("hint:  ")
    assert captured.out == ""
    return code, captured.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tables", "0"], "TABLES=0 is not valid"),
        (["--tables=-1"], "TABLES=-1 is not valid"),
        (["--tables", "x"], "TABLES=x is not valid"),
        (["--runs", "0"], "RUNS=0 is not valid"),
        (["--schemas", "0"], "SCHEMAS=0 is not valid"),
        (["--columns=-2"], "--columns=-2 is not valid"),
        (["--database", "a`b"], "not a plain SQL name"),
        (["--set", "datadir=/elsewhere"], "datadir"),
        (["--set", "=1"], "names no option"),
        (["--engine", "podman"], "podman"),
        (["--stall", "0"], "stall"),
        (["--read-iops", "0"], "READ_IOPS=0 is not valid"),
        (["--read-iops", "many"], "READ_IOPS=many is not valid"),
        (["--read-bps=-1"], "READ_BPS=-1 is not valid"),
        (["--memory", "1m"], "MEMORY=1m is too little for any server"),
        (["--memory", ""], "--memory is set but empty"),
        (["--cpus", "0"], "CPUS=0 is not valid"),
        (["--note", "x" * 501], "NOTE is 501 characters long"),
        (["--note", "io2\n5000"], "is not a line of plain text"),
        (["--note", "\x1b[31m"], "is not a line of plain text"),
        (["--stall", "nan"], "stall"),
        (["--stall", "inf"], "stall"),
        (["--frobnicate"], "--frobnicate"),
        (["--data", "~nobody-at-all/x"], "there is no such home folder"),
        (["--read-iops", "1" * 5000], "READ_IOPS=111"),
        (["--variant", "a\nb\x1b[31m"], "--variant 'a b?[31m' has no name"),
        (["--tables", ""], "--tables is set but empty"),
        (["--results="], "--results is set but empty"),
        (["--database", "mysql"], "a schema of the server itself"),
        (["--set", "innodb_force_recovery=6"], "can damage the data directory"),
        (["--version", "5.6.24 5.7.22", "--mysqld", "/opt/x"], "MYSQLD is one server"),
        (["--template", "missing.j2"], "missing.j2"),
        (["--layout", "heap"], "LAYOUT=heap is not valid"),
        (["--layout", "general", "--template", "own.j2"], "determines the layout of its tables"),
        (["--tables", "10", "--variant", "many:schemas=4"], "cannot divide 10 tables among 4 schemas"),
        (["--version", "5.7.5", "--layout", "general"], "5.7.5 has no general tablespaces"),
        (["--version", "5.7.22 mariadb-10.11.5", "--variant", "x:layout=general"], "mariadb-10.11.5 has no general"),
        (["--version", "5.6.24", "--layout", "encrypted"], "5.6.24 has no plugin that reads the keys"),
        (["--version", "8.4.0", "--variant", "x:layout=encrypted"], "8.4.0 has no plugin that reads the keys"),
    ],
)
def test_usage(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, said = complaint(capsys, "cold-recovery", "--data", str(tmp_path / "d"), *arguments)
    assert code == 2
    assert words in "".join(line for line in said.splitlines() if not line.startswith("$ "))
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("name", ["VERSION", "TABLES", "DATA", "MYSQLD", "RESULTS", "READ_IOPS", "MEMORY"])
def test_set_but_empty(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(f"RECOVERY_{name}", "")
    code, said = complaint(capsys, "cold-recovery")
    assert code == 2
    assert f"{name} is set but empty" in said


@pytest.mark.parametrize(("name", "command"), [("SECONDS", "cold-recovery"), ("TRACE", "table-cache")])
def test_what_says_nothing_to_a_command_is_refused(
    name: str, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(f"RECOVERY_{name}", "1")
    code, said = complaint(capsys, command)
    assert code == 2
    assert f"{name}=1 has no effect on {command}" in said


def test_an_unknown_version_is_told_with_those_that_can_be_had(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, said = complaint(capsys, "cold-recovery", "--version", "five", "--data", str(tmp_path / "d"))
    assert code == 2
    assert "'five' is not a server version" in said
    assert all(version in said for version in ("5.6.24", "8.0.31", "mariadb-10.11.5"))


def test_the_plan_refuses_what_the_run_would(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = ("cold-recovery", "--dry-run", "--data", str(tmp_path))
    assert complaint(capsys, *plan, "--engine", "local", "--version", "9.7")[0] == 2
    engines = {
        "tcp://192.0.2.1:2375": "has no socket on this host",
        f"unix://{tmp_path}/nobody.sock": "there is no Docker engine at",
    }
    for address, why in engines.items():
        monkeypatch.setenv("DOCKER_HOST", address)
        code, said = complaint(capsys, *plan, "--engine", "docker")
        assert code == 3
        assert why in said
        assert run([*plan, "--engine", "auto"]) == 0
        planned = " ".join(capsys.readouterr().out.split())
        assert "servers run as local processes, for" in planned
        assert why in planned


def test_the_layers_of_settings(
    in_an_empty_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """recovery.toml is under the environment, which is under the command line."""
    (in_an_empty_folder / "recovery.toml").write_text(
        'version = "mariadb-10.11.5"\ntables = 7\nruns = 2\n[set]\ninnodb_force_recovery = 1\n'
    )
    monkeypatch.setenv("RECOVERY_TABLES", "8")
    assert run(["cold-recovery", "--dry-run", "--runs", "3"]) == 0
    command = capsys.readouterr().err.splitlines()[0]
    assert "--version mariadb-10.11.5" in command
    assert "--tables 8" in command
    assert "--runs 3" in command
    assert "--set innodb_force_recovery=1" in command


@pytest.mark.parametrize(
    ("text", "words"),
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
def test_a_wrong_config(text: str, words: str, in_an_empty_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (in_an_empty_folder / "recovery.toml").write_text(text)
    code, said = complaint(capsys, "versions")
    assert code == 2
    assert words in said


@pytest.mark.parametrize(
    "arguments",
    [
        ["--tables", "9" * 5000],
        ["--runs", "9" * 5000],
        ["--set", "innodb_buffer_pool_size=" + "9" * 5000],
        ["--set", "innodb_redo_log_capacity=" + "9" * 5000],
        ["--variant", "a:innodb_buffer_pool_size=" + "9" * 5000],
    ],
)
@pytest.mark.parametrize("command", ["cold-recovery", "interference"])
def test_a_number_of_thousands_of_digits(
    command: str, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = complaint(capsys, command, "--dry-run", *arguments)
    assert code == 2
    assert all(len(line) < 2100 for line in said.splitlines())


def test_a_variable_that_is_no_setting(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("RECOVERY_TABELS", "5")
    code, said = complaint(capsys, "versions")
    assert code == 2
    assert "RECOVERY_TABELS is not a setting" in said


def test_flags_come_from_the_environment_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"KEEP": "1", "AS_PUBLISHED": "true", "STALL": "7", "SET": "innodb_page_size=8192 x=1"}.items():
        monkeypatch.setenv(f"RECOVERY_{name}", value)
    assert run(["cold-recovery", "--dry-run"]) == 0
    command = capsys.readouterr().err.splitlines()[0]
    assert command.endswith("--set innodb_page_size=8192 --set x=1 --as-published --keep --stall 7")


def test_a_note_is_one_text_from_wherever_it_comes(
    in_an_empty_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Blanks and all, where other settings are lists of words."""

    def command(*arguments: str) -> str:
        assert run(["cold-recovery", "--dry-run", *arguments]) == 0
        return capsys.readouterr().err.splitlines()[0]

    (in_an_empty_folder / "recovery.toml").write_text('note = ["from a file", "and more"]\nno_probe = true\n')
    assert command().endswith("--no-probe --note 'from a file; and more'")
    monkeypatch.setenv("RECOVERY_NOTE", "io2, 5000 IOPS")
    assert command().endswith("--note 'io2, 5000 IOPS'")
    assert command("--note", "gp3", "--note", "a  <b> & ü").endswith("--note 'gp3; a  <b> & ü'")


def test_the_config_holds_for_the_looking_commands(
    in_an_empty_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (in_an_empty_folder / "recovery.toml").write_text(
        'results = "/nowhere/results"\ndata = "/nowhere/data"\ntables = 2\nversion = ["5.7.22", "8.0.31"]\n'
    )
    assert "/nowhere/results" in complaint(capsys, "report")[1]
    assert run(["datadirs"]) == 0
    assert "no data directories in /nowhere/data" in capsys.readouterr().out
    assert run(["schema"]) == 0
    assert capsys.readouterr().out.count("create table") == 2
    assert run(["cold-recovery", "--dry-run"]) == 0
    assert "--version '5.7.22 8.0.31' --tables 2" in capsys.readouterr().err


def test_more_tables_than_the_disk_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Found by arithmetic, before anything is rendered or built."""
    data, results = tmp_path / "d", tmp_path / "r"
    arguments = ["--tables", "100000000", "--data", str(data), "--results", str(results)]
    code, said = complaint(capsys, "cold-recovery", *arguments)
    assert code == 3
    assert "does not fit" in said
    assert not list(data.glob("5.7.22*"))


def test_a_results_folder_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    arguments = ["--tables", "9", "--data", str(tmp_path / "d"), "--results", str(tmp_path / "file" / "r")]
    code, said = complaint(capsys, "cold-recovery", *arguments)
    assert code == 3
    assert "results" in said


def test_data_in_memory_is_refused_before_anything_is_built(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    data = Path("/dev/shm") / tmp_path.name
    arguments = ["--tables", "9", "--data", str(data), "--results", str(tmp_path / "r")]
    code, said = complaint(capsys, "cold-recovery", *arguments)
    data.rmdir()
    assert code == 3
    assert "is in memory" in said


def test_dry_run_tells_the_plan_and_touches_nothing(
    in_an_empty_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = in_an_empty_folder / "data"
    arguments = ["--version", "5.7.22 8.0.31", "--tables", "1000", "--runs", "2", "--data", str(data)]
    assert run(["crash-recovery", "--dry-run", *arguments]) == 0
    out = capsys.readouterr().out
    assert "5.7.22: server" in out
    assert "inodes" in out
    assert "  8  8.0.31  warm  run 2" in out
    assert not data.exists()
    assert not (in_an_empty_folder / "results").exists()


def test_the_plan_of_tables_that_lie_otherwise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--version", "5.7.22", "--tables", "1000", "--layout", "partitioned", "--data", str(tmp_path / "data")]
    variants = ["--variant", "parts:", "--variant", "one-file:layout=general", "--variant", "many:schemas=10"]
    assert run(["cold-recovery", "--dry-run", *asked, *variants]) == 0
    said = capsys.readouterr()
    assert "--layout partitioned" in said.err
    assert "--variant parts: --variant one-file:layout=general --variant many:schemas=10" in said.err
    lines = said.out.splitlines()
    for words in (
        ("  5.7.22: server", "1,000 tables (partitioned: .ibd files: 4,000)", " 6,000 inodes"),
        ("  5.7.22 layout=general: server", "1,000 tables (general: .ibd files: 1)", " 2,001 inodes"),
        ("  5.7.22 schemas=10: server", "1,000 tables (partitioned: .ibd files: 4,000)"),
    ):
        assert any(all(word in line for word in words) for line in lines), words


def test_dry_run_plans_space_by_the_size_of_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--version", "5.7.22", "--tables", "1000000", "--data", str(tmp_path), "--set", "innodb_page_size=4k")
    assert (
        run(["cold-recovery", "--dry-run", *asked, "--variant", "as-asked:", "--variant", "more:innodb_page_size=8k"])
        == 0
    )
    out = capsys.readouterr().out
    assert "1,000,000 tables: 38.4 GB and" in out
    assert "1,000,000 tables: 62.9 GB and" in out


def test_dry_run_tells_what_cannot_be_in_effect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    beyond = ["--option", "table_open_cache=1000000"]
    assert run(["interference", "--dry-run", "--version", "5.7.22", "--data", str(tmp_path), *beyond]) == 0
    assert "table_open_cache=1000000 will not be in effect" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("server", "name"),
    [(("--version", "9.7"), "9.7"), (("--version", "debian-sid"), "debian-sid"), (("--image", "my/own:1"), "my/own:1")],
)
def test_dry_run_tells_the_plan_of_a_server_whose_version_is_not_known_yet(
    server: tuple[str, ...],
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("RECOVERY_ENGINE", "auto")
    monkeypatch.setattr("recovery.cli.measure.describe_engine", lambda _: "in containers of some engine")
    assert run(["cold-recovery", "--dry-run", *server, "--runs", "2", "--data", str(tmp_path / "data")]) == 0
    out = capsys.readouterr().out
    assert f"the version of {name} is determined at the start" in out
    assert f"  {name}: server " in out
    assert "GB and" in out
    assert f"  2  {name}  cold  run 2" in out


def test_report_without_a_session(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = complaint(capsys, "report")
    assert code == 2
    assert "no session" in said


def test_a_session_of_a_newer_format(in_an_empty_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = in_an_empty_folder / "results" / "20990101T000000Z-cold-recovery"
    folder.mkdir(parents=True)
    (folder / "report.json").write_text(json.dumps({"format": 2}))
    code, said = complaint(capsys, "report", folder.name)
    assert code == 1
    assert "newer version" in said
    code, said = complaint(capsys, "warm-recovery")
    assert code == 2
    assert "give VERSION=" in said


def test_schema_is_streamed_as_published(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "--tables", "3"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line and not line.startswith("--")]
    assert lines == [
        "create schema discovery;",
        "create table discovery.table_1 (id int primary key auto_increment);",
        "create table discovery.table_2 (id int primary key auto_increment);",
        "create table discovery.table_3 (id int primary key auto_increment);",
    ]


def test_the_schema_is_printed_in_any_layout(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "--tables", "1", "--layout", "general"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "create tablespace all_tables add datafile 'all_tables.ibd' engine=innodb;",
        "create schema discovery;",
        "create table discovery.table_1 (id int primary key auto_increment) tablespace all_tables;",
    ]


def test_tool_version_and_completion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert __version__ in capsys.readouterr().out
    assert run(["completion", "bash"]) == 0
    assert "_RECOVERY_COMPLETE" in capsys.readouterr().out


def test_datadirs_of_an_empty_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["datadirs", "--data", str(tmp_path / "d")]) == 0
    assert "no data directories" in capsys.readouterr().out
    code, said = complaint(capsys, "datadirs", "--data", str(tmp_path / "d"), "remove", "no-such-key")
    assert code != 0
    assert "no-such-key" in said


def test_a_withdrawn_version_is_refused_before_anything_is_fetched(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, said = complaint(capsys, "cold-recovery", "--version", "8.0.38", "--data", str(tmp_path / "d"))
    assert code == 3
    assert "8.0.38 was withdrawn" in said
    assert not (tmp_path / "d").exists()


def test_the_schema_that_is_printed_is_the_one_that_would_be_built(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"TABLES": "1", "COLUMNS": "1", "ROWS": "1", "DATABASE": "shop"}.items():
        monkeypatch.setenv(f"RECOVERY_{name}", value)
    assert run(["schema"]) == 0
    script = capsys.readouterr().out
    assert "create table `shop`.table_1 (id int primary key auto_increment, c1 varchar(32));" in script
    assert "insert into `shop`.table_1" in script


@pytest.mark.parametrize("target", ["not/there.json", "."])
def test_a_json_report_that_cannot_be_written_is_refused_before_measuring(
    target: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = str(tmp_path / target)
    code, said = complaint(capsys, "cold-recovery", "--json", path, "--dry-run")
    assert code == 2
    assert f"--json {path} cannot be written" in said


def test_quiet(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cold-recovery", "--dry-run", "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("RECOVERY_QUIET", "1")
    assert run(["cold-recovery", "--dry-run"]) == 0
    assert capsys.readouterr().err == ""
    assert run(["cold-recovery", "--runs", "0"]) == 2
    assert capsys.readouterr().err.startswith("error: RUNS=0")


def test_whoever_stops_reading_the_results_changes_no_exit_code() -> None:
    command = [sys.executable, "-m", "recovery", "cold-recovery", "--dry-run", "--runs", "1000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert "Error" not in process.stderr.read()
    assert process.wait() == 0
    process.stderr.close()
