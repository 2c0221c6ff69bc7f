"""`recovery watch` of real servers: stopped by a signal, killed and started again, and ready in the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest
from datadirs import empty_datadir, running, server_on
from inotify_simple import INotify, flags
from killed_starts import READY, crashed_datadir, stopped_at
from waiting import until

from recovery.cli import watch as watch_module
from recovery.cli.main import run
from recovery.cli.watch_view import State
from recovery.errors import ServerFailedError
from recovery.linux.procfs import is_stopped
from recovery.logs.log_tail import LogTail

pytestmark = pytest.mark.real
LARGE = pytest.mark.on_demand("large")
LAST_LINES = {
    "5.7.22": ("Apply batch completed", ["validation"]),
    "8.0.31": ("Reading DD tablespace files", ["dictionary read + file check", "rest to ready"]),
}
"""A line of the recovery, and the phase that it opens, with those that a server may reach before it is stopped."""
Once = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def once(capsys: pytest.CaptureFixture[str]) -> Once:
    """Looks at a server once, and returns the exit code and the JSON."""

    def looked(target: object, *options: str) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        code = run(["watch", str(target), "--once", "--json", *options])
        return code, json.loads(capsys.readouterr().out)

    return looked


@pytest.mark.parametrize("version", ["5.7.22", pytest.param("8.0.31", marks=LARGE)])
def test_a_start_is_followed_until_it_is_ready_and_killed_ones_are_a_loop(
    version: str, tmp_path: Path, once: Once
) -> None:
    build, datadir = crashed_datadir(version, tmp_path)
    log, (line, phases) = tmp_path / "error.log", LAST_LINES[version]
    with stopped_at(line, build, datadir, log) as process:
        for target in (process.pid, log, datadir):
            code, seen = once(target)
            assert (code, seen["state"], seen["pid"]) == (State.STALLED.value, "stalled", process.pid)
        assert (seen["loop"], seen["missing"]) == (None, [])
        assert seen["phase"] in phases
        assert seen["version"] in version
        assert seen["where"] == str(datadir)
        assert "stopped by a signal" in seen["waits_for"]
    assert once(process.pid)[0] == State.GONE.value
    assert once(datadir)[0] == State.GONE.value
    with stopped_at(line, build, datadir, log) as process:
        code, seen = once(datadir)
        assert (code, seen["pid"], seen["loop"]["tries"]) == (State.LOOP.value, process.pid, 2)
        watching = [sys.executable, "-m", "recovery", "watch", str(process.pid), "--json"]
        with subprocess.Popen(watching, stdout=subprocess.PIPE, text=True) as watcher:
            assert watcher.stdout is not None
            first = json.loads(watcher.stdout.readline())
            assert first["state"] == "loop"
            assert first["phase"] in phases
            process.send_signal(signal.SIGCONT)
            *_, last = watcher.stdout
            assert watcher.wait() == State.READY.value
        ready = json.loads(last)
        assert (ready["state"], ready["phase"], ready["loop"]) == ("ready", None, None)
        until(lambda: READY in log.read_text(errors="replace"), READY)
        assert once(process.pid)[0] == State.READY.value


def test_a_log_that_was_truncated_between_starts_is_read_from_its_begin(tmp_path: Path) -> None:
    """Nobody looked while the second start wrote more than what was read of the first one."""
    build, datadir = crashed_datadir("5.7.22", tmp_path)
    log = tmp_path / "error.log"
    with stopped_at(LAST_LINES["5.7.22"][0], build, datadir, log):
        pass
    with LogTail(log) as tail:
        assert tail.read()
        read_bytes = log.stat().st_size
        os.truncate(log, 0)
        with stopped_at(READY, build, datadir, log) as process:
            until(lambda: is_stopped(process.pid), "the server to be stopped")
            assert log.stat().st_size > read_bytes
            assert "\n".join(line.text for line in tail.read()) == log.read_text().rstrip("\n")


def test_mariadb_is_stalled_while_it_is_stopped_and_ready_until_it_is_killed(tmp_path: Path, once: Once) -> None:
    build, datadir = crashed_datadir("mariadb-10.11.5", tmp_path)
    log = tmp_path / "error.log"
    with stopped_at(READY, build, datadir, log) as process:
        for target in (process.pid, log, datadir):
            code, seen = once(target)
            assert (code, seen["state"], seen["version"]) == (State.STALLED.value, "stalled", "mariadb-10.11.5")
        process.send_signal(signal.SIGCONT)
        for target in (process.pid, log, datadir):
            code, seen = once(target)
            assert (code, seen["state"], seen["version"]) == (State.READY.value, "ready", "mariadb-10.11.5")
    assert once(datadir)[0] == State.GONE.value


@pytest.mark.parametrize("version", ["5.7.22", pytest.param("mariadb-10.11.5", marks=LARGE)])
def test_a_ready_server_must_answer_a_query_where_a_login_is_given(version: str, tmp_path: Path, once: Once) -> None:
    build, datadir = empty_datadir(version, tmp_path)
    with server_on(build, datadir, tmp_path / "logs") as server:
        server.start(settings={"skip_networking": "1"})
        with closing(server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("create user asker@localhost identified by 'a word'")
        login, wrong = tmp_path / "my.cnf", tmp_path / "wrong.cnf"
        login.write_text("[client]\nuser=asker\npassword='a word'\nsocket=/of/another/server\n")
        wrong.write_text("[client]\nuser=asker\npassword=another\n")
        pid = server.process.pid
        code, seen = once(pid)
        assert (code, seen["state"], seen["answered"]) == (0, "ready", "greeting")
        assert seen["text"].endswith("was asked no query: no login was given (--socket, --defaults-file)")
        for words in (["--defaults-file", str(login)], ["--defaults-file", str(login), "--socket", str(server.socket)]):
            code, seen = once(pid, *words)
            assert (code, seen["state"], seen["answered"]) == (0, "ready", "query")
            assert seen["text"] == "ready for connections; it answers a query"
        assert run(["watch", str(pid), "--once", "--defaults-file", str(wrong)]) == 2
        assert run(["watch", str(pid), "--once", "--socket", str(tmp_path / "none")]) == 2
        with ExitStack() as stack:
            others = [stack.enter_context(closing(server.connect()))]
            with others[0].cursor() as cursor:
                cursor.execute("set global max_connections = 10")
            with suppress(ServerFailedError):
                while len(others) < 20:
                    others.append(stack.enter_context(closing(server.connect())))
            code, seen = once(pid, "--defaults-file", str(login))
            assert (code, seen["state"], seen["answered"]) == (11, "stalled", "greeting")
            assert "takes no further connection" in seen["text"]
        os.kill(pid, signal.SIGSTOP)
        until(lambda: is_stopped(pid), "the server to be stopped")
        code, seen = once(pid, "--defaults-file", str(login))
        assert (code, seen["state"], seen["answered"]) == (11, "stalled", None)
        os.kill(pid, signal.SIGCONT)
        server.socket.unlink()
        for words in ([], ["--defaults-file", str(login)]):
            code, seen = once(pid, *words)
            assert (code, seen["state"], seen["answered"]) == (0, "ready", None)
            assert seen["text"].endswith(f"it was asked no query: its socket file {server.socket} is gone")
        server.kill()


def test_servers_that_start_at_once_get_a_line_each(
    tmp_path: Path, once: Once, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    builds = {version: crashed_datadir(version, tmp_path / version) for version in ("5.7.22", "mariadb-10.11.5")}
    with ExitStack() as stack:
        processes = [
            stack.enter_context(stopped_at(line, *builds[version], tmp_path / f"{version}.log"))
            for version, line in (("5.7.22", "Apply batch completed"), ("mariadb-10.11.5", "buffer pool"))
        ]
        pids = [process.pid for process in processes]
        monkeypatch.setattr(watch_module, "running_servers", lambda: pids)  # of this test, whatever else runs here
        code = run(["watch", "--once"])
        lines = capsys.readouterr().out.splitlines()
        assert (code, len(lines)) == (State.STALLED.value, 2)
        for line, pid, (version, (_, datadir)) in zip(lines, pids, builds.items(), strict=True):
            assert line.startswith(f"{version}, pid {pid}, {datadir}: stalled: "), line
        wait, continued = watch_module._wait, list[int]()

        def continue_one(found: Iterable[watch_module.Watched]) -> None:
            for process in [one for one in processes if one.pid not in continued][:1]:
                process.send_signal(signal.SIGCONT)
                continued.append(process.pid)
            wait(found)

        monkeypatch.setattr(watch_module, "_wait", continue_one)
        assert run(["watch"]) == State.READY.value
        text = capsys.readouterr().out
        for pid, (version, (_, datadir)) in zip(pids, builds.items(), strict=True):
            assert text.count(f"{version}, pid {pid}, {datadir}: ready: ready for connections\n") == 1, text
        assert text.count("ready: ") == 2
        assert all(", pid " in line for line in text.splitlines())
        assert run(["watch", "--once"]) == State.READY.value
        assert capsys.readouterr().out.count("ready: ready for connections") == 2


def test_mariadb_opens_all_files_for_its_dictionary_in_the_order_of_their_names(tmp_path: Path) -> None:
    build, datadir = crashed_datadir("mariadb-10.11.5", tmp_path)
    with running(build, datadir, tmp_path / "first") as server:
        server.stop()  # after a crash, the files that redo names are open before
    with closing(INotify(nonblocking=True)) as opens:
        opens.add_watch(datadir / "discovery", flags.OPEN)
        with running(build, datadir, tmp_path / "second"):
            names = [event.name for event in opens.read(timeout=0) if event.name.endswith(".ibd")]
    assert names[:20] == sorted(f"table_{number}.ibd" for number in range(20))
