"""`recovery watch`: what it says, of logs without a process, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from schema_check import complaints
from sessions import FIXTURES
from waiting import until
from watch_schema import watch_schema

from recovery.cli import watch as watch_module
from recovery.cli.main import run
from recovery.cli.watch_view import State, View, one_line, to_json, view_lines, worst
from recovery.errors import UsageError
from recovery.logs.log_tail import LogTail
from recovery.logs.start_progress import PhaseAhead, Progress, TimeLeft
from recovery.logs.watched_log import RestartLoop
from recovery.model import parse_version
from recovery.mysqld import running_server
from recovery.mysqld.running_server import Answer, RunningServer, look_at
from recovery.phase_table import Unit

ROOT, SCHEMA = Path(__file__).parents[2], watch_schema()
LOGS = FIXTURES / "errorlogs"
LINES_57 = (LOGS / "mysql-5.7.22-crash.err").read_text().splitlines(keepends=True)
APPLIED = next(number for number, line in enumerate(LINES_57) if "Apply batch completed" in line) + 1
READY = next(number for number, line in enumerate(LINES_57) if line.startswith("Version: ")) + 1
PROGRESS = Progress(
    phase="file check", done=12_400, total=200_000, unit=Unit.FILES, rate=3100.2, since_s=4.0,
    left_s=TimeLeft(45, 90, 60.5), progress_at_s=0.0, ahead=(), ready=False, failure=None,
)  # fmt: skip
VIEW = View(State.PROGRESSING, 321, parse_version("8.0.31"), "/var/lib/mysql", PROGRESS, startup_s=130.0, idle_s=0.4)
LOOP = RestartLoop(3, "2026-11-28T02:14:00Z", 1_000_000, 60.0, "nothing")


# --- What it says


def test_the_line_has_what_is_done_and_the_time_left_with_its_range() -> None:
    assert one_line(VIEW) == (
        "progressing: file check: 12,400 of 200,000 files, 3,100 a second; about 60 s left (45 to 90 s); then ready"
    )


def test_redo_shows_bytes_and_the_most_and_the_phases_ahead_with_their_totals_and_times() -> None:
    redo = replace(
        PROGRESS, phase="redo scan", done=52e6, total=500_000_000, unit=Unit.BYTES, rate=5e6,
        left_s=TimeLeft(0, 180, None),
        ahead=(PhaseAhead("redo apply", None, Unit.PAGES), PhaseAhead("validation", 20_000, Unit.FILES)),
    )  # fmt: skip
    assert one_line(replace(VIEW, progress=redo, seconds_ahead={"validation": 42.0})) == (
        "progressing: redo scan: 52 MB of 500 MB, 5,000 kB a second; at most about 3 min left; then redo apply, "
        "validation (20,000 files, 42 s last time), ready"
    )


def test_a_phase_that_is_not_counted_shows_what_it_can_be() -> None:
    silent = replace(PROGRESS, phase="dictionary read", done=None, total=None, unit=None, rate=None, left_s=None)
    assert "dictionary read: the server reads all tablespaces from its dictionary; then" in one_line(
        replace(VIEW, progress=silent)
    )
    assert "no line of its log shows a phase yet" in one_line(replace(VIEW, progress=replace(silent, phase=None)))


def test_a_server_whose_log_stays_silent_may_hold_it_back() -> None:
    silent = replace(VIEW, version=None, progress=replace(PROGRESS, phase=None, done=None, cpus=0.2))
    held = "; early releases of MySQL 8.0, such as 8.0.15, may write none before they are nearly ready"
    assert one_line(silent).endswith(f"no line of its log shows a phase yet{held}")
    assert "  last progress 0 s ago; it uses 0.2 CPUs" in view_lines(silent)
    for other in (replace(silent, startup_s=1.0), replace(silent, pid=None), replace(silent, version=VIEW.version)):
        assert held not in one_line(other)


def test_a_loop_names_its_tries_and_the_limit() -> None:
    text = one_line(replace(VIEW, state=State.LOOP, loop=LOOP, limit="TimeoutStartSec of mysql.service, which is 1min"))
    assert text.endswith(
        "; third try since 2026-11-28T02:14:00Z, each ended after at most 60 s at the same checkpoint (LSN 1000000): "
        "redo makes no progress; raise the limit that kills it: TimeoutStartSec of mysql.service, which is 1min"
    )
    second = one_line(replace(VIEW, state=State.LOOP, loop=replace(LOOP, tries=2, gains="page cache")))
    assert "second try since 2026-11-28T02:14:00Z, the one before ended after" in second
    assert "a try gains only what stays in the page cache; raise the limit that kills it" in second


def test_the_live_view_has_the_server_its_times_and_what_is_missing() -> None:
    waits = "2 of its threads wait for storage (state D), in io_schedule"
    view = replace(VIEW, state=State.STALLED, idle_s=75.0, waits_for=waits, missing=("its log",), loop=LOOP)
    who, progress, times, loop, stalled, missing = (line.strip() for line in view_lines(view))
    assert who == "8.0.31, pid 321, /var/lib/mysql: stalled, for 2 min"
    assert progress.startswith("file check: 12,400 of")
    assert times == "4 s in this phase; last progress 75 s ago"
    assert loop.startswith("third try")
    assert stalled == f"no progress for 75 s: {waits}"
    assert f"  {waits}" in view_lines(replace(view, idle_s=0.2))
    assert missing == "this user may not see its log"


def test_the_live_view_has_what_the_process_does() -> None:
    working = replace(VIEW, progress=replace(PROGRESS, cpus=0.93, read_bytes_per_s=52e6))
    assert "  4 s in this phase; last progress 0 s ago; it uses 0.9 CPUs and reads 52 MB a second" in view_lines(
        working
    )


def test_json_has_the_documented_fields() -> None:
    ahead = (PhaseAhead("redo apply", None, Unit.PAGES),)
    view = replace(VIEW, loop=LOOP, progress=replace(PROGRESS, ahead=ahead, cpus=0.93, read_bytes_per_s=52e6))
    found = json.loads(to_json(view, datetime(2026, 11, 28, tzinfo=UTC)))
    assert list(complaints(found, SCHEMA, SCHEMA)) == []
    assert set(found) == set(SCHEMA["properties"])
    assert (found["format"], found["at"], found["state"], found["pid"]) == (
        1, "2026-11-28T00:00:00.000+00:00", "progressing", 321,
    )  # fmt: skip
    assert (found["done"], found["total"], found["unit"], found["rate"]) == (12_400, 200_000, "files", 3100.2)
    assert found["left_s"] == {"least_s": 45, "most_s": 90, "about_s": 60.5}
    assert found["loop"]["tries"] == 3


def test_the_published_schema_is_generated_from_the_code() -> None:
    published = (ROOT / "docs" / "watch.schema.json").read_text(encoding="utf-8")
    assert json.loads(published) == SCHEMA, "make it anew: run tests/helpers/watch_schema.py"
    parts = [SCHEMA, *SCHEMA["$defs"].values()]
    assert all("description" in field for part in parts for field in part["properties"].values())


# --- Logs without a process


def once(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = run(["watch", "--once", *words])
    return code, capsys.readouterr().out


def test_a_log_alone_shows_the_phase_of_its_last_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "error.log"
    log.write_text("".join(LINES_57[:APPLIED]))
    code, text = once("--follow-log", str(log), capsys=capsys)
    assert code == State.PROGRESSING.value
    assert text.startswith("progressing: validation: the server reads every file after redo; then ready")
    log.write_text("".join(LINES_57[:APPLIED]) * 3)
    code, text = once("--follow-log", str(log), capsys=capsys)
    assert code == State.LOOP.value
    assert "third try since " in text
    log.write_text("".join(line for line in LINES_57 if "hutdown" not in line))
    assert once("--follow-log", str(log), capsys=capsys)[0] == State.READY.value
    log.write_text("".join(LINES_57))
    assert once(str(log), capsys=capsys) == (State.GONE.value, "gone: its process has ended\n")


def test_a_log_alone_that_is_not_written_any_more_is_stalled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "error.log"
    log.write_text("".join(LINES_57[:APPLIED]))
    written_s = time.time() - 300
    os.utime(log, (written_s, written_s))
    code, text = once("--follow-log", str(log), "--stall", "100", capsys=capsys)
    assert code == State.STALLED.value
    assert "no progress for 5 min: no line was added to the log, and the process is not known here" in text
    assert once("--follow-log", str(log), "--stall", "1e9", capsys=capsys)[0] == State.PROGRESSING.value


def test_a_log_that_no_process_writes_is_of_a_server_that_is_gone(
    servers: Callable[[list[int]], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    servers([])
    log = tmp_path / "error.log"
    log.write_text("".join(LINES_57[:APPLIED]))
    text = "gone: its start was cut off in validation; no process of this host has its log open\n"
    assert once(str(log), capsys=capsys) == (State.GONE.value, text)
    with log.open("a"):  # such as what runs a container
        assert once(str(log), capsys=capsys)[0] == State.PROGRESSING.value
    log.write_text("".join(line for line in LINES_57 if "hutdown" not in line))
    assert once(str(log), capsys=capsys) == (State.GONE.value, "gone: no process of this host has its log open\n")


def test_a_rotated_log_is_followed(tmp_path: Path) -> None:
    log = tmp_path / "error.log"
    log.write_text("one\n")
    with LogTail(log) as tail:
        assert [line.text for line in tail.read()] == ["one"]
        log.rename(tmp_path / "error.log.1")
        assert tail.read() == []
        log.write_text("two\n")
        assert [line.text for line in tail.read()] == ["two"]
        log.write_text("")
        assert tail.read() == []
        log.write_text("3\n")
        assert [line.text for line in tail.read()] == ["3"]


@pytest.mark.parametrize("begin", [0, 8])
def test_a_log_that_was_truncated_and_has_outgrown_what_was_read_is_read_anew(begin: int, tmp_path: Path) -> None:
    """As copytruncate of logrotate does, under a server that appends."""
    log = tmp_path / "error.log"
    log.write_text("a line\n" * 100)
    with LogTail(log, begin=begin) as tail:
        if not begin:
            assert len(tail.read()) == 100
        log.write_text("".join(f"another {number}\n" for number in range(500)))
        assert [line.text for line in tail.read()] == [f"another {number}" for number in range(500)]
        with log.open("a") as opened:
            opened.write("last\n")
        assert [line.text for line in tail.read()] == ["last"]


def test_a_truncated_log_of_a_program_that_does_not_append_is_read_on(tmp_path: Path) -> None:
    """It writes where it was, after a hole."""
    log = tmp_path / "error.log"
    with log.open("w") as writer, LogTail(log) as tail:
        writer.write("a line\n" * 100)
        writer.flush()
        assert len(tail.read()) == 100
        os.truncate(log, 0)
        for text in ("next", "last"):
            writer.write(f"{text}\n")
            writer.flush()
            assert [line.text for line in tail.read()] == [text]
    with LogTail(log) as tail:
        assert [line.text for line in tail.read()] == ["next", "last"]


def test_files_that_mariadb_opens_for_its_dictionary_are_counted(tmp_path: Path) -> None:
    log, pid, now = tmp_path / "error.log", os.getpid(), datetime.now().astimezone()
    names = [tmp_path / f"t{number}.ibd" for number in range(10, 60)]
    for path in names:
        path.touch()
    log.write_text(
        "".join(
            f"{now:%Y-%m-%d %H:%M:%S} 0 [Note] {text}\n"
            for text in (
                f"Starting MariaDB 10.11.5-MariaDB source revision 78 as process {pid}",
                "InnoDB: Starting crash recovery from checkpoint LSN=66973",
                "InnoDB: 128 rollback segments are active.",
            )
        )
    )
    with ExitStack() as stack:
        source = watch_module._File(log, (1 << 20, 1), stack)
        watched = watch_module.Watched(RunningServer(pid, log, tmp_path, None, ()), source, "here")
        stack.callback(watched.close)
        watched.update()
        assert "opens the files that it lists" in one_line(watched.view(60.0))
        for path in names[:30]:
            path.read_bytes()
        watched.update()
        assert "dictionary: 30 of 50 files" in one_line(watched.view(60.0))


def test_a_pipe_that_is_never_empty_gets_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "_INTERVAL_S", 0.0)
    monkeypatch.setattr(watch_module, "_READ_BYTES", 4)
    end, begin = os.pipe()
    with os.fdopen(end, "rb") as stream:
        with os.fdopen(begin, "wb") as writer:
            writer.write(b"one\ntwo\n")
        watched = watch_module.Watched(None, pipe := watch_module._Pipe(stream), "a pipe")
        lines = list[str]()
        monkeypatch.setattr(watched.log, "take", lambda text, *_, **__: lines.append(text))
        for read in (["one"], ["one", "two"]):
            watched.update()
            assert (lines, pipe.behind) == (read, True)


@pytest.mark.parametrize("content", [b"", b"\0\xff" * 100, b"a line\n"])
def test_a_log_without_a_start_shows_none(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "error.log"
    log.write_bytes(content)
    assert once(str(log), capsys=capsys) == (State.GONE.value, "gone: its log shows no start\n")


def test_standard_input_is_read_to_its_end_with_the_stamps_of_a_collector() -> None:
    text = "".join(f"2026-11-28T02:00:00.000000001Z {line}" for line in LINES_57[:APPLIED])
    command = [sys.executable, "-m", "recovery", "watch"]
    for words in (("-",), ("--follow-log", "-")):
        asked = subprocess.run([*command, *words, "--once"], input=text, capture_output=True, text=True, check=False)
        assert (asked.returncode, asked.stderr) == (State.PROGRESSING.value, "")
        assert asked.stdout.startswith("progressing: validation")
    followed = subprocess.run(
        [*command, "-"], input="".join(LINES_57[:READY]), capture_output=True, text=True, check=False
    )
    assert (followed.returncode, followed.stderr) == (0, "")
    assert "ready: ready for connections" in followed.stdout
    assert followed.stdout.endswith(
        "% redo apply: 5.7.22 applies the redo log.\nwhat shortens it: recovery docs shorten#redo\n"
    )


def test_a_file_of_json_gets_every_line_and_once_only_one(tmp_path: Path) -> None:
    found = tmp_path / "watch.json"
    found.write_text("of another time\n")
    command = [sys.executable, "-m", "recovery", "watch", "-", f"--json={found}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as watcher:
        assert watcher.stdin is not None
        for lines in (LINES_57[:APPLIED], LINES_57[APPLIED:READY]):
            watcher.stdin.writelines(lines)
            watcher.stdin.flush()
            until(lambda: len(states(found)) > 1, "two looks")  # the second part is read after them
    written = states(found)
    assert (written[0], written[-1]) == ("progressing", "ready")
    for _ in range(2):
        subprocess.run([*command, "--once"], input="".join(LINES_57[:READY]), text=True, check=True)
        assert states(found) == ["ready"]


def states(found: Path) -> list[str]:
    """The states in a file of JSON, one object a line."""
    lines = found.read_text().splitlines()
    return [] if "another" in lines[0] else [json.loads(line)["state"] for line in lines]


def test_phases_ahead_have_the_times_of_the_session_that_was_asked_for() -> None:
    command = [sys.executable, "-m", "recovery", "watch", "-", "--like", "stacks"]
    text = "".join(LINES_57[: APPLIED - 2])
    results = ("--results", str(FIXTURES / "sessions"))
    ran = subprocess.run([*command, *results], input=text, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (State.PROGRESSING.value, "")
    assert re.search(r"; then validation \(\d+ s last time\), ready\n", ran.stdout), ran.stdout
    wrong = subprocess.run([*command[:-1], "none", *results], input=text, capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stderr.split("\n")[0][:6]) == (2, "error:")


def test_the_beginning_of_a_long_log_is_not_read(tmp_path: Path) -> None:
    log = tmp_path / "error.log"
    start = "".join(LINES_57[:APPLIED])
    log.write_text("x" * 100 + "\n" + start * 50)
    begin = watch_module._begin_of_starts(log, 1 << 20, 2)
    assert log.read_text()[begin:].count(" as process ") in (2, 3)
    assert watch_module._begin_of_starts(log, 1 << 20, 1000) == 0
    assert log.read_text()[watch_module._begin_of_starts(log, 3000, 1000) :].startswith("20")


def test_a_look_imports_nothing_that_takes_long(tmp_path: Path) -> None:
    log = tmp_path / "error.log"
    log.write_text("".join(LINES_57[:APPLIED]))
    code = f"from recovery.cli.main import run; import sys; run(['watch', '--once', {str(log)!r}]); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"pydantic", "rich", "jinja2", "pymysql", "docker", "requests", "psutil", "recovery.cli.progress_view"}
    assert not heavy & set(ran.stdout.split())


# --- What is not there, and what is refused


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[int]], None]:
    """Sets the process ids of the servers of this host."""
    return lambda pids: monkeypatch.setattr(watch_module, "running_servers", lambda: pids)


def test_no_server_is_exit_code_3(
    servers: Callable[[list[int]], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    servers([])
    assert once(capsys=capsys)[0] == State.GONE.value
    assert once("4000000", capsys=capsys) == (3, "gone: no mysqld or mariadbd has the process id 4000000\n")
    code, text = once(str(tmp_path), capsys=capsys)
    assert (code, text.startswith(f"gone: no server runs over {tmp_path}, and no log of one is found")) == (3, True)
    code, text = once("4000000", "--json", capsys=capsys)
    assert (code, json.loads(text)["state"]) == (3, "gone")
    assert list(complaints(json.loads(text), SCHEMA, SCHEMA)) == []


def test_a_server_that_ends_while_it_is_looked_at_is_not_taken_for_one_that_is_hidden(
    servers: Callable[[list[int]], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    servers([4_000_000])
    assert once(str(tmp_path), capsys=capsys)[0] == State.GONE.value


def test_a_server_that_did_not_start_is_found_by_its_log(
    servers: Callable[[list[int]], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first error and the last ones are shown, of the last start in the newest log."""
    servers([])
    stamp = "2026-11-29T07:30:51.164225Z 0"
    begin = f"{stamp} [Note] mysqld (mysqld 5.7.22) starting as process 11 ...\n"
    errors = [f"{stamp} [ERROR] reason {number}\n" for number in range(6)]
    (tmp_path / "old.err").write_text(f"{begin}{stamp} [ERROR] older\n{stamp} [ERROR] Aborting\n")
    (tmp_path / "host.err").write_text(
        f"{begin}{stamp} [ERROR] before\n{stamp} [ERROR] Aborting\n{begin}{''.join(errors)}{stamp} [ERROR] Aborting\n"
    )
    os.utime(tmp_path / "old.err", (1, 1))
    code, text = once(str(tmp_path), capsys=capsys)
    assert code == State.GONE.value
    assert re.findall(r"\[ERROR\] (.*?)(?:;|\n)", text) == ["reason 0", "reason 4", "reason 5"]


def test_what_cannot_be_read_is_refused(
    servers: Callable[[list[int]], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    servers([])
    log = tmp_path / "error.log"
    log.touch()
    for words in (
        (str(tmp_path / "none"),), ("--follow-log", str(tmp_path / "none")), ("--stall", "0"), ("--stall", "nan"),
        ("a", "b"), ("~nouser",), ("1", "--follow-log", str(log)),
    ):  # fmt: skip
        assert run(["watch", "--once", *words]) == 2
        error = capsys.readouterr().err
        assert re.match(r"error: .+\nhint:  .+\n$", error), error


@pytest.fixture
def two_processes(servers: Callable[[list[int]], None]) -> Iterator[list[int]]:
    """Two processes that are taken for servers that are starting."""
    with subprocess.Popen(["sleep", "60"]) as one, subprocess.Popen(["sleep", "60"]) as other:
        servers([one.pid, other.pid])
        yield [one.pid, other.pid]
        one.kill()
        other.kill()


def test_several_starting_servers_get_a_line_each(
    two_processes: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = once(capsys=capsys)
    assert code == State.PROGRESSING.value
    assert re.findall(r"^the server, pid (\d+), .*: progressing: ", text, re.MULTILINE) == [*map(str, two_processes)]
    file = tmp_path / "watch.json"
    assert once(f"--json={file}", capsys=capsys)[0] == State.PROGRESSING.value
    assert [json.loads(line)["pid"] for line in file.read_text().splitlines()] == two_processes


def test_a_login_is_of_one_server(two_processes: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["watch", "--once", f"--socket={tmp_path}/socket"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: the login is of one server, and 2 are watched: ")
    assert f"name one: recovery watch {two_processes[0]}" in error


def test_of_several_servers_the_worst_state_counts() -> None:
    order = [State.READY, State.PROGRESSING, State.LOOP, State.STALLED, State.GONE]
    assert [worst(order[: number + 1]) for number in range(len(order))] == order
    assert worst(reversed(order)) is State.GONE


# --- Ready


def asked_for(login_socket: Path | None = None, login_file: Path | None = None) -> watch_module._Asked:
    return watch_module._Asked(
        json_to=None, once=True, stalled_after_s=60.0, log_alone=None, like=None, login_socket=login_socket,
        login_file=login_file, login=watch_module._read_login(login_socket, login_file), results=Path(),
    )  # fmt: skip


def followed(view: View, *later: View, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines of a server where there is no terminal."""
    with watch_module._Display(asked_for(), several=False) as display:
        for one in (view, *later):
            display.show({0: one})
        display.end(0, one, ["the answer"])
    return capsys.readouterr().out.splitlines()


def test_ready_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    ready = replace(PROGRESS, phase=None, done=None, total=None, unit=None, rate=None, left_s=None, ready=True)
    view = replace(VIEW, state=State.READY, progress=ready)
    assert followed(view, capsys=capsys) == ["ready: ready for connections", "the answer"]
    rolls_back = replace(view, progress=replace(ready, phase="rollback"))
    assert followed(VIEW, rolls_back, rolls_back, view, capsys=capsys)[1:] == [
        "ready: rollback; then rows of open transactions are free", "rows of open transactions are free", "the answer",
    ]  # fmt: skip
    again = replace(view, pid=322)
    assert followed(view, again, capsys=capsys) == ["ready: ready for connections"] * 2 + ["the answer"]


@pytest.mark.parametrize(
    ("answer", "text", "answered"),
    [
        (None, "", None),
        (Answer("query"), "; it answers a query", "query"),
        (Answer("greeting", "no login"), "; it greets new connections, and was asked no query: no login", "greeting"),
        (Answer(None, "it listens on no socket"), "; it was asked no query: it listens on no socket", None),
        (Answer("greeting", "it does not answer in time", hangs=True), "; it does not answer in time", "greeting"),
    ],
)
def test_ready_says_what_was_asked(answer: Answer | None, text: str, answered: str | None) -> None:
    ready = replace(PROGRESS, phase=None, done=None, total=None, unit=None, rate=None, left_s=None, ready=True)
    view = replace(VIEW, state=State.READY, progress=ready, answer=answer)
    assert one_line(view) == f"ready: ready for connections{text}"
    assert json.loads(to_json(view, datetime(2026, 11, 28, tzinfo=UTC)))["answered"] == answered


class OneServer:
    """A socket of this process, which sends each client some bytes and then waits."""

    def __init__(self, folder: Path, sends: bytes) -> None:
        self.path, self._listener, self._sends = folder / "s", socket.socket(socket.AF_UNIX), sends
        self._clients: list[socket.socket] = []

    def __enter__(self) -> OneServer:
        self._listener.bind(str(self.path))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                self._clients.append(self._listener.accept()[0])
                self._clients[-1].sendall(self._sends)

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for one in (self._listener, *self._clients):
            one.close()


SHAKE = b"\x0a5.7.22\0" + bytes(4) + b"12345678\0\xff\xf7\x08\x02\0\x0f\x80\x15" + bytes(10) + b"123456789012\0"
GREETING = len(SHAKE).to_bytes(3, "little") + b"\0" + SHAKE


def ask(watched: watch_module.Watched, *login: Path | None) -> Answer:
    return watch_module._ask(watched, asked_for(*login))


def test_a_server_that_greets_and_answers_no_query_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "GREETING_S", 0.2)
    this = watch_module.Watched(look_at(os.getpid()), None, "here")
    with OneServer(tmp_path, GREETING) as server:
        assert ask(this) == Answer("greeting", "no login was given (--socket, --defaults-file)")
        found = ask(this, server.path)
        assert (found.to, found.hangs) == ("greeting", True)
        assert f"the server at {server.path} takes a connection, but does not answer in time" in (found.why or "")


def test_a_server_without_a_greeting_hangs_and_one_without_a_socket_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_server, "GREETING_S", 0.2)
    this, login = watch_module.Watched(look_at(os.getpid()), None, "here"), tmp_path / "my.cnf"
    login.write_text("[client]\nuser=asker\n")
    (tmp_path / "short").mkdir()
    assert ask(this) == ask(this, None, login) == Answer(None, "it listens on no socket")
    with OneServer(tmp_path / "short", b"") as server:
        assert ask(this) == ask(this, server.path) == Answer(None, "it answers no new connection", hangs=True)
        server.path.unlink()
        for words in ((), (None, login), (tmp_path / "s",)):
            assert ask(this, *words) == Answer(None, f"its socket file {server.path} is gone")
    assert ask(watch_module.Watched(None, None, "a log")) == Answer(None, "only its log is known")


def test_a_socket_with_the_longest_name_is_asked(tmp_path: Path) -> None:
    """/proc/PID/root is in front of it."""
    this = watch_module.Watched(look_at(os.getpid()), None, "here")
    folder = tmp_path / ("x" * (105 - len(str(tmp_path)) - len("//s")))
    folder.mkdir()
    with OneServer(folder, GREETING):
        assert ask(this).to == "greeting"


def test_the_socket_of_another_server_is_refused(tmp_path: Path) -> None:
    this, login = watch_module.Watched(look_at(os.getpid()), None, "here"), tmp_path / "my.cnf"
    with OneServer(tmp_path, GREETING) as server:
        with pytest.raises(UsageError, match=f"{tmp_path}/other is no socket of process {os.getpid()}"):
            ask(this, tmp_path / "other")
        login.write_text("[client]\nuser=asker\nsocket=/of/another\n")
        found = watch_module._login_of(this, asked_for(None, login))
        assert found is not None
        assert Path(found["unix_socket"]).samefile(server.path), "a file is of any server, --socket of one"
        assert found["ssl_disabled"]
        login.write_text("[client]\nuser=asker\nhost=db1\n")
        found = watch_module._login_of(this, asked_for(None, login))
        assert found is not None
        assert (found["unix_socket"], found["host"]) == (None, "db1")
