"""`recovery watch` of real servers: stopped by a signal, killed and started again, and ready in the end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from datadirs import running
from inotify_simple import INotify, flags
from killed_starts import READY, crashed_datadir, stopped_at
from waiting import until

from recovery.cli.main import run
from recovery.cli.watch_view import State

pytestmark = pytest.mark.real
LARGE = pytest.mark.on_demand("large")
LAST_LINES = {
    "5.7.22": ("Apply batch completed", "validation"),
    "8.0.31": ("Reading DD tablespace files", "dictionary read + file check"),
}
"""A line of the recovery, and the phase that it opens."""
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
    log, (line, phase) = tmp_path / "error.log", LAST_LINES[version]
    with stopped_at(line, build, datadir, log) as process:
        for target in (process.pid, log, datadir):
            code, seen = once(target)
            assert (code, seen["state"], seen["pid"]) == (State.STALLED.value, "stalled", process.pid)
        assert (seen["phase"], seen["loop"], seen["missing"]) == (phase, None, [])
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
            assert (first["state"], first["phase"]) == ("loop", phase)
            process.send_signal(signal.SIGCONT)
            *_, last = watcher.stdout
            assert watcher.wait() == State.READY.value
        ready = json.loads(last)
        assert (ready["state"], ready["phase"], ready["loop"]) == ("ready", None, None)
        until(lambda: READY in log.read_text(errors="replace"), READY)
        assert once(process.pid)[0] == State.READY.value


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


def test_mariadb_opens_all_files_for_its_dictionary_in_the_order_of_their_names(tmp_path: Path) -> None:
    build, datadir = crashed_datadir("mariadb-10.11.5", tmp_path)
    with running(build, datadir, tmp_path / "first") as server:
        server.stop()  # after a crash, the files that redo names are open before
    with closing(INotify(nonblocking=True)) as opens:
        opens.add_watch(datadir / "discovery", flags.OPEN)
        with running(build, datadir, tmp_path / "second"):
            names = [event.name for event in opens.read(timeout=0) if event.name.endswith(".ibd")]
    assert names[:20] == sorted(f"table_{number}.ibd" for number in range(20))
