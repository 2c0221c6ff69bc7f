"""Clients of a load: how they are called, what their reports say, and how their processes end. The reports are recorded
ones (fixtures/sysbench); the processes are real, since the kernel ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import psutil
import pytest
from waiting import DEADLINE_S, until

from recovery.errors import RecoveryError, UsageError
from recovery.loads import sysbench
from recovery.loads.poller import FOREIGN_KEY_QUERY, PollResult, parse_polls, poller_command, write_statements
from recovery.loads.sysbench import (
    CHECKPOINT,
    THREADS_STARTED,
    WORKLOADS,
    Client,
    parse_report,
    prepared_statements,
    resolve_script,
    sysbench_command,
)
from recovery.loads.tasks import Load, Poll
from recovery.model import parse_version

RECORDED = Path(__file__).parents[2] / "fixtures" / "sysbench"
LOAD = Load("oltp_read_only", threads=4, tables=8, rows=1000, seconds=60, warmup_s=0)


def recorded(name: str) -> str:
    return (RECORDED / f"{name}.txt").read_text()


# -- the command


def command(load: Load) -> list[str]:
    return sysbench_command(load, program=Path("/usr/bin/sysbench"), socket=Path("/run/s"), database="sbtest")


def test_sysbench_is_called_with_the_requested_load() -> None:
    words = command(replace(LOAD, options=("--rand-type=uniform", "--threads=5")))
    assert words[:2] == ["/usr/bin/sysbench", "oltp_read_only"]
    assert {
        "--threads=4", "--time=60", "--tables=8", "--table-size=1000", "--mysql-socket=/run/s", "--mysql-db=sbtest",
        "--mysql-user=root", "--mysql-password=", "--mysql-ssl=off", "--report-interval=1", "--histogram=on",
        "--percentile=99",
    } < set(words)  # fmt: skip
    assert words[-3:] == ["--rand-type=uniform", "--threads=5", "run"], "the last of an option holds"
    assert not [word for word in words if "ps-mode" in word or "checkpoints" in word]
    assert {"--time=70", "--report-checkpoints=10"} < set(command(replace(LOAD, warmup_s=10)))


@pytest.mark.parametrize(
    ("script", "tables", "as_text"),
    [
        ("oltp_point_select", 4093, False),
        ("oltp_point_select", 4094, True),
        ("oltp_read_only", 819, True),
        ("oltp_read_write", 454, False),
        ("oltp_read_write", 455, True),
        ("/own.lua", 454, False),
        ("/own.lua", 455, True),
    ],
)
def test_statements_are_sent_as_text_if_a_server_cannot_keep_them_all(script: str, tables: int, as_text: bool) -> None:
    load = replace(LOAD, script=script, tables=tables)
    assert (prepared_statements(load) > 16382) == as_text
    assert ("--db-ps-mode=disable" in command(load)) == as_text


def test_workloads_and_own_scripts_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_script("update-nokey") == "oltp_update_non_index"
    assert [resolve_script(script) for script in WORKLOADS.values()] == list(WORKLOADS.values())
    own = tmp_path / "own.lua"
    with pytest.raises(UsageError, match="there is no script"):
        resolve_script(str(own))
    own.touch()
    monkeypatch.chdir(tmp_path)
    assert resolve_script("own.lua") == resolve_script("./own.lua") == str(own)
    with pytest.raises(UsageError, match="WORKLOAD: read: there is no such") as caught:
        resolve_script("read")
    assert "point-select, read-only" in caught.value.hint


def test_polled_statements_of_any_text_are_passed_in_a_file(tmp_path: Path) -> None:
    poll = Poll(2, 0.5, ("select \"a;\nb\", '{table}', 'é'", FOREIGN_KEY_QUERY))
    path = write_statements(poll, tmp_path)
    assert path.read_bytes().decode() == "".join(f"{statement}\0" for statement in poll.statements)
    words = poller_command(
        poll, Load("oltp_read_only", 8, 10, 100, seconds=9, warmup_s=3), program=Path("/usr/bin/sysbench"),
        statements=path, socket=Path("/run/s"), database="it's", tables=50, version=parse_version("5.6.24"),
    )  # fmt: skip
    assert {
        "--threads=2", "--time=12", "--report-checkpoints=3", "--every=0.5", "--tables=50", "--schema=it's",
        f"--statements={path}",
        "--counters=SHOW {scope} STATUS WHERE variable_name IN ('Table_open_cache_hits', 'Table_open_cache_misses')",
    } < set(words)  # fmt: skip
    assert Path(words[1]).is_file()
    assert words[-1] == "run"


# -- reports


def test_a_report_of_a_load() -> None:
    report = parse_report(recorded("read-write"))
    assert (report.queries, report.transactions, report.errors) == (40976, 2043, 7)
    assert (report.seconds, report.latency_mean_ms, report.latency_max_ms) == (3.0066, 2.94, 279.89)
    assert (round(report.qps, 1), round(report.tps, 1)) == (13628.7, 679.5)
    assert (report.latency_p50_ms, report.latency_p95_ms, report.latency_p999_ms) == (2.477, 3.816, 90.775)
    assert [look.at_s for look in report.intervals] == [1, 2, 3]
    first = report.intervals[0]
    assert (first.qps, first.tps, first.errors) == (15200.38, 756.22, 3)


def test_a_report_does_not_include_the_warm_up() -> None:
    text = recorded("read-only-after-a-warm-up")
    report = parse_report(text)
    assert (report.transactions, report.queries) == (9193, 147080)
    assert report.seconds == pytest.approx(5.0026 - 2.0002)
    assert report.latency_max_ms == 27.15
    assert [look.at_s for look in report.intervals] == [-1, 0, 1, 2, 3]


@pytest.mark.parametrize("name", ["read-write", "read-only-after-a-warm-up", "poll"])
def test_every_report_has_its_marks_and_the_percentile_of_sysbench(name: str) -> None:
    text = recorded(name)
    assert text.count(THREADS_STARTED) == 1
    assert text.count(CHECKPOINT) == ("warm-up" in name)
    assert text.index(THREADS_STARTED) < text.index("[ 1s ]")
    p99 = parse_report(text).latency_p99_ms
    assert p99 is not None
    assert round(p99, 2) == float(text.rpartition("99th percentile:")[2].split()[0])


@pytest.mark.parametrize(
    ("text", "last"),
    [
        (recorded("no-table"), "FATAL: Thread initialization failed!"),
        (recorded("server-killed"), "FATAL: `thread_run'"),
        (recorded("read-only-after-a-warm-up").partition("Latency histogram")[0], r"\[ 5s \] thds: 2"),
        ("", r"\(nothing\)"),
    ],
    ids=["no table", "server killed", "ended before its report", "nothing"],
)
def test_a_text_without_a_report_is_refused(text: str, last: str) -> None:
    with pytest.raises(RecoveryError, match=f"sysbench has printed no report; its last line is: {last}"):
        parse_report(text)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("no-table", "FATAL: MySQL error: 1146 \"Table 'sbtest.sbtest121' doesn't exist\""),
        ("no-schema", "FATAL: error 1049: Unknown database 'none'"),
        (
            "server-killed",
            "FATAL: `thread_run' function failed: /usr/share/sysbench/oltp_common.lua:419: SQL error, errno = 2013, "
            "state = 'HY000': Lost connection to server during query",
        ),
    ],
)
def test_the_line_with_the_reason_of_a_failure(name: str, line: str) -> None:
    assert sysbench.failure_line(recorded(name)) == line


def test_a_report_of_polls_includes_those_of_the_warm_up_in_its_series_only() -> None:
    polls = parse_polls(recorded("poll"), warmup_s=2, whole=True)
    assert polls is not None
    assert (polls.per_s, polls.mean_ms) == (28 / 3.0452, 16.94)
    assert [at_s for at_s, _ in polls.rates] == [-1, 0, 1]
    assert sum(per_s for _, per_s in polls.rates) == pytest.approx(28, abs=1.5)


def test_a_poller_that_was_ended_has_a_report_of_each_second() -> None:
    text, _, _ = recorded("poll").partition("Latency histogram")
    rates = [float(line.split("tps: ")[1].split()[0]) for line in text.splitlines() if "tps: " in line]
    assert len(rates) == 3
    seen = tuple(enumerate(rates, start=1))
    assert parse_polls(text, warmup_s=0, whole=False) == PollResult(fmean(rates), None, seen)
    after_warmup = parse_polls(text, warmup_s=2, whole=False)
    assert after_warmup is not None
    assert after_warmup.per_s == rates[2]
    assert parse_polls(text, warmup_s=9, whole=False) is None


# -- processes

SLEEP = ["sleep", "600"]
SPIN = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass\nprint('done')"
FORK_AND_IGNORE_SIGTERM = """
import os, signal, time
os.fork()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(600)
"""


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_the_output_and_the_cpu_time_of_a_client() -> None:
    with Client("spinner", python("while True: pass")) as client:
        until(lambda: (client.cpu_s() or 0) >= 0.2, "its CPU time")
        assert not client.has_ended()
    with Client("spinner", python(SPIN)) as client:
        ended = client.wait(DEADLINE_S)
    assert (ended.text, ended.code, ended.written_bytes) == ("done\n", 0, 5)
    assert ended.cpu_s >= 0.2
    assert client.cpu_s() == ended.cpu_s


@pytest.mark.parametrize("only_count", [False, True])
def test_a_client_may_write_more_than_a_pipe_holds(only_count: bool) -> None:
    program = "import sys\nprint('x' * 1_000_000)\nprint('y' * 1_000_000, file=sys.stderr)"
    with Client("writer", python(program), only_count=only_count) as client:
        ended = client.wait(DEADLINE_S)
    assert (ended.text, ended.written_bytes) == ("" if only_count else "x" * 1_000_000 + "\n", 1_000_001)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo report; echo first >&2; echo 'FATAL: no table' >&2; exit 3", r"load failed \(code 3\): FATAL: no table"),
        ("echo 'FATAL: no table'; exit 1", r"load failed \(code 1\): FATAL: no table"),
        ("kill -9 $$", r"load failed \(signal 9\): it gave no reason"),
    ],
)
def test_a_client_that_fails_gives_its_reason(script: str, message: str) -> None:
    with pytest.raises(RecoveryError, match=message), Client("load", ["/bin/sh", "-c", script]) as client:
        client.wait(DEADLINE_S)


def test_a_client_that_does_not_exist(tmp_path: Path) -> None:
    refused = pytest.raises(RecoveryError, match="none cannot be run: No such file")
    with refused, Client("load", [str(tmp_path / "none")]) as client:
        client.wait(DEADLINE_S)


def test_the_output_of_a_client_is_read_while_it_runs() -> None:
    with Client("talker", python("import time\nprint('ready', flush=True)\ntime.sleep(600)")) as client:
        assert client.has_said("ready", DEADLINE_S)
        assert not client.has_said("done", 0.2)
        assert not client.has_ended()
        assert client.stop().text == "ready\n"
    assert is_gone(client.pid)
    with Client("talker", python("print('bye')")) as client:
        assert not client.has_said("ready", 60), "it has ended"
        assert client.has_said("bye", 0)
        assert client.wait(DEADLINE_S).code == 0


def hang(client: Client, _patch: pytest.MonkeyPatch) -> None:
    client.wait(0.1)


def raise_error(_client: Client, _patch: pytest.MonkeyPatch) -> None:
    raise ZeroDivisionError


def interrupt_while_waiting(client: Client, patch: pytest.MonkeyPatch) -> None:
    has_ended = Client.has_ended

    def interrupted(client: Client, timeout_s: float = 0) -> bool:
        signal.raise_signal(signal.SIGINT)
        return has_ended(client, timeout_s)

    patch.setattr(Client, "has_ended", interrupted)
    client.wait(DEADLINE_S)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (hang, pytest.raises(RecoveryError, match="load still ran")),
        (raise_error, pytest.raises(ZeroDivisionError)),
        (interrupt_while_waiting, pytest.raises(KeyboardInterrupt)),
    ],
)
def test_a_client_ends_with_its_context(
    body: Callable[[Client, pytest.MonkeyPatch], None],
    error: AbstractContextManager[object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sysbench, "GRACE_S", 0.1)
    with error, Client("load", SLEEP) as client:
        body(client, monkeypatch)
    assert is_gone(client.pid)


def test_ctrl_c_while_a_client_is_started_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is raised where nobody would call __exit__."""
    pidfd_open = os.pidfd_open

    def interrupted(pid: int) -> int:
        signal.raise_signal(signal.SIGINT)
        return pidfd_open(pid)

    monkeypatch.setattr(os, "pidfd_open", interrupted)
    client = Client("load", SLEEP)
    with pytest.raises(KeyboardInterrupt), client:
        pass
    assert is_gone(client.pid)


def test_a_client_that_ignores_sigterm_ends_with_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysbench, "_TERM_TIMEOUT_S", 0.3)
    with Client("deaf", python(FORK_AND_IGNORE_SIGTERM)) as client:
        children = until(psutil.Process(client.pid).children, "its child")
    assert is_gone(client.pid)
    until(lambda: all(is_gone(child.pid) for child in children), "the end of its child")


def test_no_descriptor_and_no_thread_is_left() -> None:
    process = psutil.Process()
    before, threads = process.num_fds(), set(threading.enumerate())
    for _ in range(3):
        with Client("load", ["true"]) as client:
            client.wait(DEADLINE_S)
    assert set(threading.enumerate()) <= threads
    assert process.num_fds() <= before


def test_a_client_does_not_outlive_a_tool_that_is_killed() -> None:
    program = textwrap.dedent(
        """
        from recovery.loads.sysbench import Client
        import time
        with Client("load", ["sleep", "600"]) as client:
            while open(f"/proc/{client.pid}/comm").read() != "sleep\\n":
                time.sleep(0.01)
            print(client.pid, flush=True)
            time.sleep(600)
        """
    )
    with subprocess.Popen(python(program), stdout=subprocess.PIPE, text=True) as tool:
        assert tool.stdout is not None
        client = psutil.Process(int(tool.stdout.readline()))
        tool.kill()
    until(lambda: is_gone(client.pid), "the end of the client")
