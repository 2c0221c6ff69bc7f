"""`recovery analyze` of restart loops, of a start that is under way, of logs from a collector, and of several logs."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from otherusers import as_user, everybodys_folder, needs_root
from waiting import until

from recovery.cli.analyze import AnalyzedLog, _read_logs, log_answer, logs_page, to_json
from recovery.linux.procfs import processes_named
from recovery.logs.error_log import progress_of
from recovery.logs.json_log import usual_line
from recovery.logs.log_analysis import LoggedStart, continued, starts_in
from recovery.logs.timestamps import StampReader, parse_stamp, shows_set_clock
from recovery.logs.watched_log import WatchedLog
from recovery.mysqld.log_writer import LogWriter, find_log_writer, until_now
from recovery.phase_table import seconds_by_name
from recovery.report import fmt

LOGS = Path(__file__).resolve().parents[2] / "fixtures" / "errorlogs"
CRASHES = sorted(LOGS.glob("*-crash.err"))
BEGAN = datetime(2026, 11, 27, 16, 47, 36, tzinfo=UTC)


def starts(*lines: str) -> list[LoggedStart]:
    return list(starts_in(io.BytesIO("\n".join(lines).encode()), "a log"))


FILLER = ["filler \u20ac " * 100] * 1_000
"""Lines of no meaning, more than are read at once: long ones take less time than many."""


def at(seconds: float, text: str) -> str:
    """A line of 5.7."""
    return f"{BEGAN + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S.%fZ} 0 {text}"


def named(seconds: float, pid: int = 4711) -> list[str]:
    """The first lines of a server: a warning comes before it names itself."""
    return [
        at(seconds, "[Warning] TIMESTAMP with implicit DEFAULT value is deprecated."),
        at(seconds, f"[Note] /usr/sbin/mysqld (mysqld 5.7.22) starting as process {pid} ..."),
    ]


def recovering(seconds: float, *, until: float = 0.5) -> list[str]:
    """A server that recovers, and writes its last line after `until` seconds: it validates then."""
    return [
        *named(seconds),
        at(seconds + 0.1, "[Note] InnoDB: Database was not shutdown normally!"),
        at(seconds + 0.2, "[Note] InnoDB: Starting an apply batch of log records to the database..."),
        "InnoDB: Progress in percent: 97 98 99",
        at(seconds + until, "[Note] InnoDB: Apply batch completed"),
    ]


def ready(seconds: float) -> list[str]:
    return [
        *recovering(seconds),
        at(seconds + 3, "[Note] InnoDB: Creating shared tablespace for temporary tables"),
        at(seconds + 4, "[Note] /usr/sbin/mysqld: ready for connections."),
    ]


# -- versions and times that are not told


def test_the_version_of_a_mariadb_that_calls_itself_server() -> None:
    """10.7.3 has no other line with its version before it is ready."""
    (start,) = starts(
        "2022-04-27 14:57:32 0 [Note] mysqld (server 10.7.3-MariaDB-1:10.7.3+maria~focal) starting as process 1 ...",
        "2022-04-27 14:57:33 0 [Note] InnoDB: Initializing buffer pool, total size = 134217728, chunk size = 134217728",
    )
    assert start.version == "mariadb-10.7.3"


def test_a_start_without_seconds_says_why() -> None:
    began = "2023-05-06  8:31:35 0 [Note] mysqld (mysqld 10.6.12-MariaDB) starting as process 7 ..."
    lines = (
        "2023-05-06  8:31:35 0 [Note] InnoDB: Starting crash recovery from checkpoint LSN=42132,42132",
        "2023-05-06  8:31:35 0 [Note] mysqld: ready for connections.",
        "Version: '10.6.12-MariaDB'  socket: '/run/mysqld/mysqld.sock'  port: 3306  MariaDB Server",
    )
    assert log_answer(starts(*lines)) == "Its time is not known: the log begins within it."
    assert log_answer(starts(began, *lines)) == ("Less than 1 s, by timestamps of whole seconds: no phase can be told.")
    without = [line.partition(" 0 ")[2] if " 0 " in line else line for line in (began, *lines)]
    assert log_answer(starts(*without)) == "Its time is not known: the log has too few timestamps."


# -- crash or clean


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("[Note] [MY-012552] [InnoDB] Starting crash recovery.", "crash"),
        ("[Note] [MY-012535] [InnoDB] Applying a batch of 770 redo log records ...", "crash"),
        ("[Note] [MY-012535] [InnoDB] Applying a batch of 0 redo log records ...", "not told"),
        ("[System] [MY-010229] [Server] Starting XA crash recovery...", "not told"),
        ("[Note] [MY-010218] [Server] Starting crash recovery...", "not told"),
        ("[Note] [MY-013252] [InnoDB] Crash recovery finished in InnoDB engine. No attempts to commit.", "not told"),
        ("[Note] InnoDB: Starting crash recovery.", "crash"),
        ("[Note] Starting crash recovery...", "not told"),
        ("[Note] InnoDB: Starting crash recovery...", "not told"),
    ],
)
def test_a_line_of_crash_starts_alone_proves_a_crash(line: str, kind: str) -> None:
    (start,) = starts(at(0, "[System] [MY-010116] [Server] mysqld (mysqld 8.0.31) starting as process 1"), at(1, line))
    assert start.kind == kind


CLEAN = sorted(LOGS.glob("*-clean.err"))


@pytest.mark.parametrize("log", CLEAN, ids=lambda log: log.stem)
def test_no_line_of_a_clean_start_proves_a_crash(log: Path) -> None:
    assert {start.kind for start in starts(log.read_text(errors="replace"))} == {"clean"}


def test_the_note_about_the_verbosity_of_8_0_is_not_for_other_servers() -> None:
    old, new = named(0), [line.replace("5.7.22", "8.0.31") for line in named(0)]
    note = "not told: the log does not say whether it was a crash"
    assert f"{note}.\n" in logs_page([AnalyzedLog("log", tuple(starts(*old)))])
    assert f"{note}; 8.0 and later" in " ".join(logs_page([AnalyzedLog("log", tuple(starts(*new)))]).split())


# -- a restart loop


LOOK = (
    "Look for a limit on its time (TimeoutStartSec of systemd, failureThreshold of a liveness probe) or on its memory."
)


def advice_lines(*lines: str) -> list[str]:
    page = logs_page([AnalyzedLog("log", tuple(starts(*lines)))])
    return [line for line in page.splitlines() if line.startswith("what ")]


def test_after_a_kill_the_advice_is_about_limits() -> None:
    limits = "what limits it: recovery docs shorten#killed-starts"
    assert advice_lines(*named(0), *named(20), *named(40)) == [limits], "all of it is unnamed"
    assert advice_lines(*recovering(0), *ready(20)) == [limits, "what shortens it: recovery docs shorten#validation"]
    failed = at(9, "[ERROR] Aborting")
    assert advice_lines(*recovering(0), failed, *ready(20)) == ["what shortens it: recovery docs shorten#validation"]
    assert LOOK not in log_answer(starts(*recovering(0), failed))


def test_starts_that_ended_early_are_counted_first_and_are_not_the_slowest() -> None:
    found = starts(*recovering(0, until=20), *recovering(20.5, until=20), *ready(41))
    assert [start.ended_early for start in found] == [True, True, False]
    assert log_answer(found) == (
        "2 starts ended before they were ready, after 20.0 s each, in validation: something killed the server. "
        f"{LOOK} Start 3 became ready after 4.00 s; 62 % validation: 5.7.22 reads every file after redo."
    )
    loop = starts(*recovering(0, until=20), *recovering(20.5, until=20), *recovering(41, until=3))
    assert log_answer(loop) == (
        "2 starts ended before they were ready, after 20.0 s each, in validation: something kills the server. "
        f"{LOOK} The last start is not ready after 3.00 s, in validation."
    )


def test_a_server_that_ends_in_silence_ran_until_the_next_start_at_most() -> None:
    (cut, _) = found = starts(*recovering(0), *ready(20))
    assert (cut.startup_s, cut.next_after_s) == (0.5, 20.0)
    assert "1 start ended before it was ready, after at least 0.50 s and at most 20.0 s, in" in log_answer(found)


BETWEEN = {
    "warnings of the next server": [],
    "mysqld_safe": [at(20, "mysqld_safe Logging to '/var/log/mysql/error.log'.").replace(" 0 ", " ")],
    "Docker's script": ["2026-11-27 16:47:56+00:00 [Note] [Entrypoint]: Switching to dedicated user 'mysql'"],
    "other programs": [
        "Nov 27 16:47:50 db1 sshd[81]: Accepted publickey for root",
        "Nov 27 16:47:51 db1 kernel: eth0: up",
    ],
}


@pytest.mark.parametrize("lines", BETWEEN.values(), ids=BETWEEN)
def test_the_gap_to_the_next_start_belongs_to_no_start(lines: list[str]) -> None:
    cut, last = starts(*recovering(0), *lines, *ready(21))
    assert (cut.outcome, cut.startup_s, last.startup_s) == ("cut", 0.5, 4.0)
    assert sum(seconds_by_name(cut.phases).values()) == 0.5


TORN = {
    "without a stamp": "InnoDB: Progress in percent: 33 34 ",
    "with a stamp": at(0.4, "[Note] InnoDB: Log scan progressed pa"),
    "collected": "2026-11-27T16:47:36.400000000Z " + at(0.4, "[Note] InnoDB: Log scan progressed pa"),
}


@pytest.mark.parametrize("torn", TORN.values(), ids=TORN)
def test_the_torn_last_line_of_a_killed_server_is_not_of_the_next_start(torn: str) -> None:
    next_line, *others = ready(20)
    cut, last = starts(*recovering(0)[:-2], f"{torn}{next_line}", *others)
    assert (cut.outcome, last.startup_s) == ("cut", 4.0)
    assert cut.startup_s == pytest.approx(0.4 if "Log scan" in torn else 0.2, abs=1e-4)
    first, last = starts(f"{torn}{at(0, '[Note] mysqld (mysqld 5.7.22) starting as process 1 ...')}", *ready(20))
    assert (first.at, last.startup_s) == ("2026-11-27T16:47:36.000000Z", 4.0)


def test_a_line_of_innodb_alone_that_follows_a_torn_line_is_of_the_next_server() -> None:
    """5.5 and 5.6 write such lines without a severity."""
    torn = at(0.4, "[Note] InnoDB: Log scan progressed pa")
    for begins in ("261128  0:47:56 InnoDB: ", "261128  0:47:56  InnoDB: ", "2026-11-28 00:47:56 7f8c InnoDB: "):
        cut, last = starts(
            *named(0),
            at(0.1, "[Note] InnoDB: Initializing buffer pool, size = 128.0M"),
            f"{torn}{begins}Initializing buffer pool, size = 128.0M",
            "261128  0:47:57 [Note] mysqld: ready for connections.",
        )
        assert cut.startup_s == pytest.approx(0.4, abs=1e-4)
        assert last.startup_s == 1.0


@pytest.mark.parametrize("stamp", ["", "db-1  | ", "2026-11-27T14:47:36.250000000Z "])
def test_progress_before_a_line_that_follows_without_a_newline_is_read(stamp: str) -> None:
    (start,) = starts(
        "050908 14:00:59 [Note] mysqld (mysqld 5.5.44) starting as process 1 ...",
        "050908 14:01:00  InnoDB: Starting an apply batch of log records to the database...",
        f"{stamp}InnoDB: Progress in percents: 0 1 2 3 050908 14:01:09  InnoDB: Error: page 7 is in the future",
    )
    assert (start.standing, start.startup_s) == ("redo apply (3 %)", 10.0)


SAFE_RESTARTS = at(10, "mysqld_safe Number of processes running now: 0").replace(" 0 m", " m")
EXITED = "Nov 27 16:47:46 db1 systemd[1]: mysql.service: Main process exited, code=killed, status=9/KILL"
OOM_KILL = "Nov 27 16:47:46 db1 systemd[1]: mysql.service: Failed with result 'oom-kill'."
OUT_OF_MEMORY = "the kernel killed it for lack of memory"
REASONS = {
    "mysqld_safe": ([SAFE_RESTARTS], None, 10.0),
    "a restart": ([SAFE_RESTARTS.replace("Number of processes running now: 0", "mysqld restarted")], None, 10.0),
    "signal": (["2026-11-27T16:47:46Z UTC - mysqld got signal 11 ;"], "mysqld got signal 11", 10.0),
    "signal of 5.7": (["16:47:46 UTC - mysqld got signal 11 ;"], "mysqld got signal 11", 0.5),
    "signal of systemd": ([EXITED], "a signal ended it (status 9/KILL)", 10.0),
    "exit": (
        ["Nov 27 16:47:46 db1 systemd[1]: mariadb.service: Main process exited, code=exited, status=1/FAILURE"],
        "it exited (status 1/FAILURE)",
        10.0,
    ),
    "memory": ([EXITED, OOM_KILL], OUT_OF_MEMORY, 10.0),
    "memory, by the kernel": (
        ["Nov 27 16:47:46 db1 kernel: Out of memory: Killed process 4711 (mysqld) total-vm:1kB"], OUT_OF_MEMORY, 0.5,
    ),
    "time-out": (
        ["Nov 27 16:47:46 db1 systemd[1]: mysql.service: start operation timed out. Terminating.", EXITED],
        "systemd stopped it, because its start took too long (TimeoutStartSec)",
        10.0,
    ),
    "another unit": ([EXITED.replace("mysql.", "nginx.")], None, 0.5),
    "first error": (
        [at(9, "[ERROR] InnoDB: Cannot allocate memory for the buffer pool"), at(10, "[ERROR] Aborting")],
        "[ERROR] InnoDB: Cannot allocate memory for the buffer pool",
        10.0,
    ),
    "shutdown": ([at(10, "[Note] /usr/sbin/mysqld: Shutdown complete")], "the server was shut down", 10.0),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "reason", "ran_s"), REASONS.values(), ids=REASONS)
def test_the_reason_of_an_early_end_is_that_of_the_log(lines: list[str], reason: str | None, ran_s: float) -> None:
    cut, *_ = found = starts(*recovering(0), *lines, *ready(30))
    assert cut.startup_s == ran_s
    assert (cut.ended_early, found[-1].outcome, found[-1].reason) == (True, "ready", None)
    assert log_answer(found).partition(": ")[2].startswith(f"{reason or 'something killed the server'}. ")


def test_the_most_frequent_reason_is_named_with_its_number() -> None:
    lines = [[*recovering(begin), at(begin + 10, "[ERROR] mysqld got signal 11 ;")] for begin in (0, 20)]
    found = starts(*lines[0], *lines[1], *recovering(40), *recovering(60))
    assert ": [ERROR] mysqld got signal 11 (2 of 3). The last start is not ready" in log_answer(found)
    assert log_answer(found[:2]).startswith("Both starts ended before they were ready, after 10.0 s each")
    assert log_answer(found[:1]).startswith("The only start ended before it was ready, after 10.0 s, in")


def test_a_loop_has_one_note_for_starts_that_ended_alike() -> None:
    page = logs_page([AnalyzedLog("log", tuple(starts(*recovering(0), *recovering(1), *recovering(2), *ready(3))))])
    assert "1-3: the server ended before it was ready, in validation.\n" in page


# -- the script that starts the server


def entrypoint(seconds: float, text: str) -> str:
    return f"{BEGAN + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S+00:00} [Note] [Entrypoint]: {text}"


SCRIPT = "Entrypoint script for MySQL Server 5.7.22 started."
SCRIPTS = {
    "mysqld_safe": ([at(9, "mysqld_safe Starting mysqld daemon with databases from /d").replace(" 0 m", " m")], 11.0),
    "a container": ([entrypoint(9, SCRIPT)], 11.0),
    "a container as root": (
        [entrypoint(9, SCRIPT), entrypoint(12, "Switching to dedicated user 'mysql'"), entrypoint(13, SCRIPT)],
        11.0,
    ),
    "a container that failed": ([entrypoint(9, SCRIPT), entrypoint(17, SCRIPT)], 3.0),
    "no script": ([], None),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "ran_s"), SCRIPTS.values(), ids=SCRIPTS)
@pytest.mark.parametrize("before", [[], recovering(0), ready(0)], ids=["first", "killed", "ready"])
def test_the_time_of_a_script_before_the_server_s_own_first_line(
    lines: list[str], ran_s: float | None, before: list[str]
) -> None:
    found = starts(*before, *FILLER, *lines, *ready(20), *ready(40))
    *others, last, later = found
    assert (last.script_s, last.startup_s, later.script_s) == (ran_s, 4.0, None)
    assert [start.script_s for start in others] == [None] * bool(before)
    page = " ".join(logs_page([AnalyzedLog("log", tuple(found))]).split())
    note = f"mysqld_safe or the container's script ran {ran_s or 0:.0f} s before the server's first line."
    assert (note in page) == (ran_s is not None)


# -- a start that is under way


def test_progress_belongs_to_its_phase() -> None:
    applying, validating = starts(*recovering(0)[:-1]), starts(*recovering(0))
    assert (applying[0].standing, validating[0].standing) == ("redo apply (99 %)", "validation")
    assert progress_of("[MY-012356] [InnoDB] Validated 26/26  tablespaces") is None, "the last line of its phase"
    assert progress_of("2026-11-27T16:47:36.1Z 1 [Note] [MY-012533] [InnoDB] 10%") == "10 %"


def test_the_seconds_of_a_running_start_run_until_now() -> None:
    (start,) = starts(*recovering(0))
    running = continued(start, 484.0, 4711)
    assert (running.startup_s, running.running_pid, running.outcome) == (484.0, 4711, "cut")
    assert seconds_by_name(running.phases)["validation"] == 483.5
    assert seconds_by_name(continued(running, 500.0, 4711).phases)["validation"] == 499.5
    assert continued(start, 0.1, 4711).startup_s == 0.5, "a clock that was set back"
    assert continued(replace(start, startup_s=None, phases=()), 9.0, 4711).startup_s is None
    answer = log_answer([running], LogWriter(4711))
    assert answer == "The last start is not ready after 484 s, in validation; the server (pid 4711) is still running."
    assert log_answer([running], LogWriter(4711, stopped=True)).endswith("(pid 4711) is stopped by a signal.")
    assert log_answer([start], LogWriter(None)).endswith("; no server that this user can see has the log open.")
    assert log_answer([start], LogWriter(None, hidden=True)).endswith(" can be seen as root or as the server's user.")
    assert log_answer([start], LogWriter(None, successor=4712)).endswith("(pid 4712) has the log open now.")
    page = logs_page([AnalyzedLog("log", (running,), LogWriter(4711))])
    assert "\nhow long still: recovery watch 4711\n" in page
    assert "recovery watch" not in logs_page([AnalyzedLog("log", (running,), LogWriter(4711, stopped=True))])
    assert "what shortens it: recovery docs shorten#validation\n" in page
    assert re.search(r"^1 .* 484\.0  running$", page, re.MULTILINE)


@contextmanager
def server_named_mysqld(folder: Path, log: Path) -> Iterator[int]:
    """A process with the name of a server, which has the log open."""
    program = shutil.copy(shutil.which("sleep") or "", folder / "mysqld")
    with log.open("ab") as opened, subprocess.Popen([program, "600"], stdout=opened) as process:
        try:
            until(lambda: process.pid in processes_named({"mysqld"}), "the name of the process")
            yield process.pid
        finally:
            process.kill()


NO_PROCESS = 4_194_305
"""More than any process id."""


def now_line(pid: int) -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ} 0 [Note] mysqld (mysqld 5.7.22) starting as process {pid} ...\n"


def test_the_server_that_has_the_log_open_is_found(tmp_path: Path) -> None:
    log = tmp_path / "error.log"
    with server_named_mysqld(tmp_path, log) as pid:
        log.write_text(now_line(pid))
        (start,) = starts(log.read_text())
        assert find_log_writer(log, start).pid == pid
        assert find_log_writer(log, replace(start, pid=None)).pid == pid
        assert find_log_writer(log, replace(start, pid=NO_PROCESS)) == LogWriter(None, successor=pid), "the next start"
        os.kill(pid, signal.SIGSTOP)
        assert until_now(start, find_log_writer(log, start)).running_pid == pid
        shutil.copy(log, tmp_path / "copy.log")
        assert find_log_writer(tmp_path / "copy.log", start).pid is None
        assert pid not in processes_named({"mysqld_safe"})
    assert find_log_writer(log, start).pid is None


@needs_root
def test_a_user_who_may_not_see_open_files_knows_the_server_by_its_process_id() -> None:
    with everybodys_folder() as folder, server_named_mysqld(folder, folder / "error.log") as pid:
        log = folder / "error.log"
        log.write_text(now_line(pid))
        (start,) = starts(log.read_text())
        other = replace(start, pid=NO_PROCESS)
        old = replace(start, at="2026-11-01T00:00:00.000000Z")
        with as_user():
            assert find_log_writer(log, start) == LogWriter(pid)
            assert find_log_writer(log, other) == find_log_writer(log, old) == LogWriter(None, hidden=True)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        ((0.71,), "0.71 s"), ((92.4,), "92.4 s"), ((484.2,), "484 s"), ((1020,), "17 minutes"), ((9000,), "2.5 hours"),
        ((18, 22), "18.0 to 22.0 s"), ((20, 20.01), "20.0 s"), ((30, 900), "30.0 s to 15 minutes"),
    ],
)  # fmt: skip
def test_a_time_in_a_sentence_is_in_seconds_below_ten_minutes(seconds: tuple[float, ...], text: str) -> None:
    assert fmt.time_span(*seconds) == text


# -- time stamps of collectors


def _utc(form: str) -> Callable[[datetime], str]:
    return lambda moment: moment.strftime(form)


def _local(form: str) -> Callable[[datetime], str]:
    """The collector is two hours ahead of the server's clock."""
    return lambda moment: (moment + timedelta(hours=2)).strftime(form)


PREFIXES = {
    "kubectl": _utc("%Y-%m-%dT%H:%M:%S.%f123Z "),
    "container runtime": _utc("%Y-%m-%dT%H:%M:%S.%f123Z stderr F "),
    "kubectl with a prefix": _utc("[pod/db-0/mysql] %Y-%m-%dT%H:%M:%S.%f123Z "),
    "Docker Compose": _utc("db-1  | %Y-%m-%dT%H:%M:%S.%f123Z "),
    "Docker Compose without stamps": _utc("db-1  | "),
    "journald short": _local("%b %e %H:%M:%S db1 mysqld[4711]: "),
    "journald short-precise": _local("%b %d %H:%M:%S.%f db1 mysqld[4711]: "),
    "journald short-iso": _local("%Y-%m-%dT%H:%M:%S+0200 db1 mysqld[4711]: "),
    "journald short-full": _local("%a %Y-%m-%d %H:%M:%S CEST db1 mysqld[4711]: "),
    "syslog": _local("%b %e %H:%M:%S db1 mysqld: "),
}


@pytest.mark.parametrize("log", CRASHES, ids=lambda log: log.stem)
@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_a_collected_log_is_read_as_the_log_itself(prefix: Callable[[datetime], str], log: Path) -> None:
    lines, collected, moment = log.read_text(errors="replace").splitlines(), [], None
    for line in lines:
        stamp = parse_stamp(line)
        moment = moment if stamp is None else datetime.fromtimestamp(stamp.at_s, UTC) + timedelta(milliseconds=3)
        collected.append(f"{prefix(moment or BEGAN)}{line}")
    (own,), (found,) = starts(*lines), starts(*collected)
    assert (found.kind, found.outcome, found.version, found.counts) == (own.kind, own.outcome, own.version, own.counts)
    assert (found.at, found.startup_s, found.whole_seconds) == (own.at, own.startup_s, own.whole_seconds)
    if not own.whole_seconds:
        assert found.phases == own.phases


# -- lines of JSON

USUAL = re.compile(r"(\S+Z) (\d+) \[(\w+)\] \[MY-(\d+)\] \[(\w+)\] (.*)")
PRIORITIES = {"System": 0, "ERROR": 1, "Warning": 2, "Note": 3}


def json_line(line: str, *, time: bool = True) -> str:
    """The line as log_sink_json writes it."""
    if (parts := USUAL.fullmatch(line)) is None:
        return line
    moment, thread, label, code, subsystem, text = parts.groups()
    event = {"prio": PRIORITIES[label], "err_code": int(code), "source_line": 7, "subsystem": subsystem, "msg": text}
    times = {"ts": round(datetime.fromisoformat(moment).timestamp() * 1000)} | ({"time": moment} if time else {})
    return json.dumps({**event, **times, "thread": int(thread), "SQL_state": "HY000", "label": label.capitalize()})


def collected_at(line: str) -> str:
    stamp = parse_stamp(line)
    moment = BEGAN if stamp is None else datetime.fromtimestamp(stamp.at_s, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f123Z}"


def docker_line(line: str, form: Callable[[str], str] = str) -> str:
    """The line in a file of Docker's driver json-file."""
    return json.dumps({"log": f"{form(line)}\n", "stream": "stderr", "time": collected_at(line)})


JSON = {
    "the server's": json_line,
    "Docker's": docker_line,
    "the server's in Docker's": lambda line: docker_line(line, json_line),
    "the server's, collected": lambda line: f"{collected_at(line)} {json_line(line)}",
}


@pytest.mark.parametrize("log", [log for log in CRASHES if re.match(r"mysql-[89]", log.stem)], ids=lambda log: log.stem)
@pytest.mark.parametrize("form", JSON.values(), ids=JSON)
def test_a_log_of_json_is_read_as_the_usual_one(form: Callable[[str], str], log: Path) -> None:
    lines = log.read_text().splitlines()
    assert starts(*map(form, lines)) == starts(*lines)


def test_the_time_of_a_json_line_without_a_text_is_that_in_milliseconds() -> None:
    lines = (LOGS / "mysql-8.0.31-crash.err").read_text().splitlines()
    (usual,), (found,) = starts(*lines), starts(*(json_line(line, time=False) for line in lines))
    assert found.startup_s == pytest.approx(usual.startup_s, abs=2e-3)


@pytest.mark.parametrize(
    "line",
    [
        '{"prio": 3, "msg": 7}', '{"prio": 3, "msg": "x"', '{"msg": ' + "[" * 100_000, '["msg"]', '{"log": "x"}',
        '{"err_code": "\\u001b", "msg": "x"}',
    ],
)  # fmt: skip
def test_other_json_is_left_as_it_is(line: str) -> None:
    assert usual_line(line) == line


def test_fields_that_a_filter_removed_are_left_out() -> None:
    assert usual_line('{"prio": 9, "err_code": -1, "ts": 1e99, "msg": "x\\ny"}') == "0 [Note] [Server] x y"


def test_a_line_without_a_stamp_of_its_own_has_that_of_the_collector() -> None:
    """5.6 writes "Apply batch completed" without one, in local time here, and kubectl's stamps are in UTC."""
    reader = StampReader(0.0)
    _, own = reader.read(
        "2026-11-27T14:47:36.250000000Z 2026-11-27 16:47:36 77 [Note] InnoDB: Starting crash recovery."
    )
    line, collected = reader.read("2026-11-27T14:47:38.500000000Z InnoDB: Apply batch completed")
    assert line.message == "InnoDB: Apply batch completed"
    assert own is not None
    assert collected is not None
    assert collected.at_s - own.at_s == 2.5
    assert collected.text == "2026-11-27T14:47:38.500000000Z"


@pytest.mark.parametrize("joint", [":", " "])
def test_a_collector_s_stamp_without_a_zone_is_not_the_server_s(joint: str) -> None:
    """The collector is eight hours ahead of the server, and the last lines have no stamp of the server."""

    def line(second: int, text: str) -> str:
        return f"2016-03-28 01:15:{second}{joint}{text}"

    (start,) = starts(
        line(19, "160327 17:15:19 [Note] mysqld (mysqld 5.5.48) starting as process 1 ..."),
        line(19, "160327 17:15:19 InnoDB: The InnoDB memory heap is disabled"),
        line(20, "160327 17:15:20 InnoDB: Initializing buffer pool, size = 128.0M"),
        line(21, "InnoDB: Database was not shut down normally!"),
        line(22, "InnoDB: Apply batch completed"),
    )
    assert (start.at, start.kind, start.startup_s) == ("160327 17:15:19", "crash", 3.0)


def test_a_single_line_with_two_stamps_may_be_torn() -> None:
    reader = StampReader(0.0)
    reader.read("2016-03-28 01:15:20 160327 17:15:20 InnoDB: x")
    line = "2016-03-28 01:15:21 77 [Note] InnoDB: x"
    assert reader.read(line)[0].message == line


NOW_S = datetime(2027, 1, 2, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("before", "line", "year"),
    [
        (None, "Dec 31 23:59:59 db1 mysqld[1]: x", 2026),
        (None, "Jan  1 00:00:00 db1 mysqld[1]: x", 2027),
        (None, "Feb 29 00:00:00 db1 mysqld[1]: x", 2024),
        (None, "Feb 31 00:00:00 db1 mysqld[1]: x", None),
        ("2019-12-31T23:59:59.000000Z 0 [Note] x", "Jan  1 00:00:00 db1 mysqld[1]: x", 2020),
        ("2020-01-01T00:00:01.000000Z 0 [Note] x", "Dec 31 23:59:59 db1 systemd[1]: x", 2019),
    ],
)
def test_the_year_that_journald_leaves_out(before: str | None, line: str, year: int | None) -> None:
    """It is that of the stamp before, else the last one that does not lie in the future."""
    reader = StampReader(NOW_S)
    if before is not None:
        reader.read(before)
    _, stamp = reader.read(line)
    assert (None if stamp is None else datetime.fromtimestamp(stamp.at_s, UTC).year) == year


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-20 20:28:36 7f8c8e7fd740 InnoDB: Warning: Using innodb_additional_mem_pool_size is DEPRECATED.",
        "2026-11-10T03:46:20.000000Z mysqld_safe Starting mysqld daemon with databases from /d",
        "2026-11-20T20:28:49.122336Z 0 [Note] InnoDB: Buffer pool(s) load completed at 261121  1:00:00",
    ],
)
def test_a_server_s_own_stamp_is_no_collector_s(line: str) -> None:
    line_read, stamp = StampReader(0.0).read(line)
    assert line_read.collected is None
    assert line_read.message == line
    assert stamp is not None
    assert line.startswith(stamp.text)


# -- several logs


def test_several_logs_share_one_table_and_have_an_answer_each() -> None:
    found = [AnalyzedLog(f"/logs/{name}/error.log", tuple(starts(*ready(0)))) for name in ("db1", "db2")]
    page = logs_page([*found, AnalyzedLog("/logs/db3/error.log", ())])
    lines = page.splitlines()
    for name in ("db1", "db2"):
        assert f"{name}/error.log: 4.00 s; 62 % validation: 5.7.22 reads every file after redo." in lines
        assert sum(bool(re.match(rf"{name}/error\.log +1 ", line)) for line in lines) == 2, "overview and phases"
    assert "db3/error.log: no start of a server was found" in lines
    assert lines.count("2 starts in 3 logs") == 1
    assert sum(line.startswith("Phases of the start") for line in lines) == 1
    assert max(map(len, lines)) <= 78


@pytest.mark.parametrize(
    ("paths", "cells"),
    [
        (
            ("database-master/mysql/error.log", "database-replica/mysql/error.log"),
            ["database-master/...", "database-replica..."],
        ),
        (("mysql-error.log-20261127", "mysql-error.log-20261128"), ["mysql-er...20261127", "mysql-er...20261128"]),
        (
            ("a-database-of-db1/error.log", "b-database-of-db1/error.log"),
            ["a-databa...rror.log", "b-databa...rror.log"],
        ),
        (("a" * 90, "error.log"), ["aaaaaaaa...aaaaaaaa", "error.log"]),
    ],
)
def test_long_names_of_logs_leave_the_table_whole(paths: tuple[str, str], cells: list[str]) -> None:
    page = logs_page([AnalyzedLog(f"/logs/{path}", tuple(starts(*ready(0), *ready(100)))) for path in paths])
    lines = page.splitlines()
    (header,) = (line for line in lines if line.startswith("log ") and " at " in line)
    assert header.split() == ["log", "#", "line", "at", "server", "start", "startup", "end"]
    rows = [line.split()[0] for line in lines if line.endswith(" ready")]
    assert rows == [cells[0], cells[0], cells[1], cells[1]]
    assert max(map(len, lines)) <= 78


def test_long_names_that_differ_in_the_middle_stay_whole() -> None:
    paths = [f"/logs/{'a' * 40}{number}{'b' * 40}" for number in (1, 2)]
    page = logs_page([AnalyzedLog(path, tuple(starts(*ready(0)))) for path in paths])
    assert "..." not in page


def test_the_names_of_logs_without_a_common_folder_stay_paths() -> None:
    found = [AnalyzedLog(name, tuple(starts(*ready(0)))) for name in ("/var/db1.log", "/tmp/db2.log")]
    first, *_ = logs_page(found).splitlines()
    assert first.startswith("/var/db1.log: 4.00 s")


def test_the_keys_of_the_json_stay() -> None:
    log = json.loads(json.dumps(to_json([AnalyzedLog("log", tuple(starts(*recovering(0), *ready(9))))])))["logs"][0]
    cut, last = log["starts"]
    before = {
        "line", "at", "version", "kind", "outcome", "reason", "startup_s", "whole_seconds", "phases", "beside",
        "counts", "standing", "named_share", "seconds",
    }  # fmt: skip
    assert before < cut.keys() == last.keys()
    assert (cut["outcome"], cut["ended_early"], cut["pid"], cut["next_after_s"]) == ("cut", True, 4711, 9.0)
    assert last["running_pid"] is None


# -- logs in UTF-16


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_log_that_powershell_wrote_is_read(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    lines = [*recovering(0), *FILLER, *ready(20)]
    packed = pack(("\ufeff" + "\r\n".join(lines)).encode(encoding) + b"\x0a")
    found, usual = list(starts_in(io.BytesIO(packed), "a log")), starts(*lines)
    assert found == usual


# -- files that are no logs


def analyzed(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "recovery", "analyze", *arguments],
        input=text, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_a_device_and_a_pipe_without_a_writer_are_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, why in (("/dev/zero", "is a device, not a log"), (str(pipe), "is a pipe that nobody writes into")):
        ended = analyzed(path)
        assert (ended.returncode, f"{path} {why}" in ended.stderr) == (2, True), ended.stderr
    assert "cannot be read: Is a directory" in analyzed(str(tmp_path)).stderr


def test_pipes_with_a_writer_are_read(tmp_path: Path) -> None:
    lines = "\n".join(ready(0))
    for name in ("-", "/dev/stdin"):
        assert analyzed(name, text=lines).stdout.startswith("4.00 s; 62")
    (tmp_path / "log").write_text(lines)
    command = f"{sys.executable} -m recovery analyze <(cat {tmp_path}/log)"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert ended.stdout.startswith("4.00 s; 62")


def test_an_interrupt_while_a_log_is_read_is_said_in_words_about_logs(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)
    try:
        with subprocess.Popen(
            [sys.executable, "-m", "recovery", "analyze", str(pipe)], stderr=subprocess.PIPE, text=True
        ) as reader:
            until(lambda: str(pipe) in open_files(reader.pid), "the command that reads the pipe")
            reader.send_signal(signal.SIGINT)
            _, errors = reader.communicate(timeout=120)
    finally:
        os.close(writer)
    assert reader.returncode == 130
    assert "the log was not read to its end" in errors
    assert "server" not in errors


def open_files(pid: int) -> set[str]:
    names = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            names.add(str(link.readlink()))
    return names


def test_a_start_that_makes_a_tls_key_says_so() -> None:
    """A real one: nothing is written while the key is made."""
    page = logs_page([AnalyzedLog("log", tuple(starts(
        "2026-11-29  9:14:36 0 [Note] Starting MariaDB 11.4.5-MariaDB source revision 07711 as process 4711",
        "2026-11-29  9:14:37 0 [Note] InnoDB: Starting crash recovery from checkpoint LSN=46316",
        "2026-11-29  9:14:37 0 [Note] InnoDB: log sequence number 47791; transaction id 15",
        "2026-11-29  9:14:37 0 [Note] Crash table recovery finished.",
        "2026-11-29  9:14:57 0 [Note] mariadbd: Event Scheduler: Loaded 0 events",
        "2026-11-29  9:14:57 0 [Note] /usr/sbin/mariadbd: ready for connections.",
    )))])  # fmt: skip
    assert "95 % rest to ready: mariadb-11.4.5 makes a TLS key" in page
    assert "recovery docs shorten#tls-key" in page


def test_a_server_that_gets_its_files_at_last_becomes_ready() -> None:
    """MySQL tries a hundred times to lock a file that another process has locked."""
    lock = "[ERROR] InnoDB: Unable to lock ./ibdata1 error: 11"
    lines = [*named(0), at(1, lock), at(2, lock), *ready(0)[2:]]
    start, *others = starts(*lines)
    assert (start.outcome, start.reason, start.ended_early, others) == ("ready", None, False, [])
    log = WatchedLog(0.0, BEGAN.timestamp())
    for line in lines:
        log.take(line)
    assert log.progress.progress(0.0).ready


def test_a_start_after_one_that_failed_without_its_last_line_is_another() -> None:
    failed, start = starts(*named(0), at(1, "[ERROR] unknown variable 'x=1'"), *ready(60))
    assert (failed.outcome, failed.startup_s, start.outcome) == ("failed", 1.0, "ready")


@pytest.mark.parametrize(
    ("before", "after", "is_set"),
    [
        ("2023-03-26  1:59:45", "2023-03-26  3:00:00", True),  # Berlin
        ("2023-03-12  1:30:00", "2023-03-12  3:10:00", True),  # New York
        ("2023-03-26 11:59:45", "2023-03-26 13:00:00", False),
        ("2023-03-27  1:59:45", "2023-03-27  3:00:00", False),
        ("2023-03-26  1:59:45", "2023-03-26  5:00:00", False),  # it took hours, and at most one of them is not true
        ("2023-03-26T01:59:45.000000Z", "2023-03-26T03:00:00.000000Z", False),
        ("2023-03-26  1:59:45", "2023-03-26  1:59:44", False),  # another thread's line
        ("2023-03-26  1:59:45", "2023-03-26  1:59:04", True),
        ("1970-01-01  0:00:30", "2023-03-26  1:59:04", True),
    ],
)
def test_a_clock_that_was_set_is_told_from_a_long_step(before: str, after: str, *, is_set: bool) -> None:
    first, second = parse_stamp(before), parse_stamp(after)
    assert first is not None
    assert second is not None
    assert shows_set_clock(first, second) is is_set


def test_a_collector_s_stamp_sets_no_clock() -> None:
    lines = [f"2026-11-27T16:47:{36 + number}.500000000Z {line}" for number, line in enumerate(ready(0))]
    assert not starts(*lines)[0].clock_set


# -- logs that were rotated


@pytest.mark.parametrize("names", [("e.log.2.gz", "e.log.1", "e.log"), ("e.log-20261126", "e.log-20261127", "e.log")])
def test_a_start_over_several_files_is_one(names: tuple[str, ...], tmp_path: Path) -> None:
    older, old, new = (tmp_path / name for name in names)
    lines = ready(0)
    for file, part in ((older, [*ready(-60), *lines[:4]]), (old, lines[4:6]), (new, [*lines[6:], *ready(60)])):
        text = "\n".join((*part, "")).encode()
        file.write_bytes(gzip.compress(text) if file.suffix == ".gz" else text)
    found = to_json(_read_logs((new, older, old)))["logs"]
    assert isinstance(found, list)
    by_name = {Path(log["log"]).name: log["starts"] for log in found}
    assert [[start["startup_s"] for start in by_name[name]] for name in names] == [[4.0, 4.0], [], [4.0]]


def test_files_of_other_servers_are_not_put_together(tmp_path: Path) -> None:
    begun, goes_on = tmp_path / "a.log.1", tmp_path / "b.log"
    begun.write_text("\n".join(ready(0)[:4]))
    goes_on.write_text("\n".join(ready(0)[4:]))
    assert [[start.outcome for start in log.starts] for log in _read_logs((begun, goes_on))] == [["cut"], ["ready"]]


# -- several servers in one log


def old(seconds: float, text: str) -> str:
    """A line of 5.6."""
    return f"{BEGAN + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S} 42 [Note] {text}"


BEGUN_56 = [
    old(0, "mysqld (mysqld 5.6.40) starting as process 42 ..."),
    old(1, "InnoDB: Database was not shutdown normally!"),
]


def test_a_killed_server_before_one_of_another_release_has_ended() -> None:
    cut, upgraded = starts(*BEGUN_56, *ready(60))
    assert (cut.version, cut.outcome, cut.ended_early, cut.next_after_s) == ("5.6.40", "cut", True, 60.0)
    assert (upgraded.version, upgraded.outcome) == ("5.7.22", "ready")


def test_a_server_that_goes_on_beside_another_has_not_ended() -> None:
    going_on, other = starts(*BEGUN_56, *ready(2), old(9, "InnoDB: 128 rollback segment(s) are active."))
    assert (going_on.outcome, going_on.ended_early, going_on.startup_s) == ("cut", False, 9.0)
    assert (other.outcome, other.startup_s) == ("ready", 4.0)


@pytest.mark.parametrize("prefix", ["{}  | ", "\x1b[36m{}  | \x1b[0m", "[pod/{}/mysql] "])
def test_the_names_of_containers_tell_servers_apart(prefix: str) -> None:
    lines = [
        f"{prefix.format(name)}{line}"
        for pair in zip(ready(0), ready(0.3), strict=True)
        for name, line in zip(("orders-1", "users-1"), pair, strict=True)
    ]
    found = starts(*lines)
    assert [(start.outcome, start.startup_s) for start in found] == [("ready", 4.0), ("ready", 4.0)]
    page = logs_page([AnalyzedLog("log", tuple(found))])
    assert re.search(r"^1: orders-1(/mysql)?\.\n2: users-1(/mysql)?\.$", page, re.MULTILINE)


def test_a_table_that_a_client_prints_is_no_server() -> None:
    lines = ready(0)
    assert len(starts(*lines[:3], "id   | name", "a.b  | 2026-11-27T16:47:37.000000Z", *lines[3:])) == 1
