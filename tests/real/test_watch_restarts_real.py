"""`recovery watch` of a server that is killed and started again, as mysqld_safe does."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from killed_starts import READY, crashed_datadir, started, stopped_at
from terminals import InTerminal
from waiting import until

from recovery.cli.main import run
from recovery.linux.procfs import is_stopped
from recovery.model import Build
from recovery.mysqld.running_server import greeting

pytestmark = pytest.mark.real
LINES = {
    "5.7.22": "Apply batch completed",
    "8.0.31": "Reading DD tablespace files",
    "mariadb-10.11.5": "Starting crash recovery",
}
"""A line of the recovery, after which a start is stopped and killed."""
Crashed = tuple[Build, Path]
Seen = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def crashed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Crashed:
    return crashed_datadir(request.param, tmp_path_factory.mktemp("crashed"))


@contextmanager
def watching(target: Path) -> Iterator[tuple[subprocess.Popen[str], Seen]]:
    """A watcher, and what returns the next of its lines that has some values."""
    command = [sys.executable, "-m", "recovery", "watch", str(target), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watcher:

        def seen(**values: object) -> dict[str, Any]:
            assert watcher.stdout is not None
            for line in watcher.stdout:
                found: dict[str, Any] = json.loads(line)
                if all(found[name] == value for name, value in values.items()):
                    return found
            raise AssertionError(f"the watcher ended, and no line of it had {values}")

        try:
            yield watcher, seen
        finally:
            watcher.kill()


@pytest.mark.parametrize("redirected", [True, False], ids=["stderr", "log-error"])
@pytest.mark.parametrize("crashed", LINES, indirect=True)
def test_servers_that_follow_each_other_are_watched_until_one_is_ready(
    crashed: Crashed, redirected: bool, tmp_path: Path
) -> None:
    (build, datadir), log = crashed, tmp_path / "error.log"
    line = LINES[next(version for version in LINES if version.endswith(str(build.version).rpartition("-")[2]))]
    with ExitStack() as stack:
        current = stack.enter_context(ExitStack())
        silent = current.enter_context(stopped_at(None, build, datadir, log, redirected=redirected))
        watcher, seen = stack.enter_context(watching(datadir))
        assert seen(pid=silent.pid)["phase"] is None
        current.close()
        killed = current.enter_context(stopped_at(line, build, datadir, log, redirected=redirected))
        assert seen(state="gone")["pid"] == silent.pid
        seen(pid=killed.pid, state="stalled")  # perhaps before the watcher has found the log that the server opened
        shown = seen(pid=killed.pid, state="stalled")
        assert shown["loop"] is None
        watcher.send_signal(signal.SIGSTOP)
        current.close()
        again = current.enter_context(stopped_at(" as process ", build, datadir, log, redirected=redirected))
        watcher.send_signal(signal.SIGCONT)  # the next start has written its lines before the watcher looks
        gone = seen(state="gone")
        assert (gone["pid"], gone["text"]) == (killed.pid, f"its start ended in {shown['phase']}")
        loop = seen(pid=again.pid, state="loop")
        assert loop["loop"]["tries"] == 2
        current.close()
        last = current.enter_context(started(build, datadir, log, redirected=redirected))
        assert seen(state="gone")["pid"] == again.pid
        assert seen(state="ready")["pid"] == last.pid
        assert watcher.wait() == 0


@pytest.mark.parametrize("crashed", ["5.7.22"], indirect=True)
def test_the_live_view_keeps_a_line_of_each_start_that_ended(crashed: Crashed, tmp_path: Path) -> None:
    (build, datadir), log = crashed, tmp_path / "error.log"
    with ExitStack() as stack:
        current = stack.enter_context(ExitStack())
        killed = current.enter_context(stopped_at(LINES["5.7.22"], build, datadir, log))
        terminal = stack.enter_context(InTerminal("watch", str(datadir), columns=200))
        terminal.read_until("in this phase")
        current.close()
        terminal.read_until("its start ended in ")
        current.enter_context(started(build, datadir, log))
        assert terminal.wait() == 0
    lines = terminal.screen().lines
    assert lines[0].startswith(f"5.7.22, pid {killed.pid}, {datadir}: not there, for ")
    assert lines[1].strip() == "its start ended in validation"
    assert lines[2].startswith("ready: ready for connections")


@pytest.mark.parametrize("crashed", ["5.7.22"], indirect=True)
def test_a_ready_server_that_is_stopped_greets_no_connection(
    crashed: Crashed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (build, datadir), log = crashed, tmp_path / "error.log"
    with started(build, datadir, log) as server:
        until(lambda: log.exists() and READY in log.read_text(errors="replace"), READY)
        assert run(["watch", "--once", str(server.pid)]) == 0
        assert "it greets new connections" in capsys.readouterr().out
        server.send_signal(signal.SIGSTOP)
        until(lambda: is_stopped(server.pid), "the server to be stopped")
        assert greeting(server.pid).hangs
        assert run(["watch", "--once", str(server.pid)]) == 11
    assert run(["watch", "--once", str(log)]) == 3
