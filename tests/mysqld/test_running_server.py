"""Which files a server process has, what it waits for, and what limits its start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from waiting import until

from recovery.linux.procfs import is_stopped, read_text
from recovery.mysqld import running_server
from recovery.mysqld.running_server import look_at, sample_of, start_limit, what_it_waits_for

ID = "0123456789abcdef" * 4


@contextmanager
def process_in(folder: Path, *options: str, log: Path | None = None) -> Iterator[int]:
    """A process with these options that works in a folder, and writes its errors to a log or to a pipe."""
    command = [sys.executable, "-c", "import time; time.sleep(600)", *options]
    with open(log or os.devnull, "ab") as opened, subprocess.Popen(  # noqa: PTH123 - it may be a device
        command, cwd=folder, stderr=opened if log else subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as process:  # fmt: skip
        try:
            # The kernel shows the words of a command only some time after exec.
            until(lambda: read_text(Path(f"/proc/{process.pid}/cmdline")), "its command line")
            yield process.pid
        finally:
            process.kill()


@pytest.fixture
def datadir(tmp_path: Path) -> Path:
    """A data directory with the names of a server's files."""
    folder = tmp_path / "data"
    for name in ("mysql", "shop", "#innodb_temp"):
        (folder / name).mkdir(parents=True)
    for name in ("ibdata1", "mysql.ibd", "shop/a.ibd", "shop/a.frm", "shop/b.ibd", "#innodb_temp/x.ibd"):
        (folder / name).write_bytes(bytes(100))
    return folder


def test_files_are_found_by_what_the_process_has_open_and_where_it_works(datadir: Path, tmp_path: Path) -> None:
    log = tmp_path / "error.log"
    with process_in(datadir, log=log) as pid:
        found = look_at(pid)
        assert found.log is not None
        assert found.log.samefile(log)
        assert found.datadir is not None
        assert found.datadir.samefile(datadir)
        assert (found.redo, found.missing) == (None, ())
        assert found.totals().files is not None
        assert sample_of(pid, 1.0) is not None


def test_files_are_found_by_the_options_of_the_command_line_and_of_my_cnf(datadir: Path, tmp_path: Path) -> None:
    log, defaults = tmp_path / "db.err", tmp_path / "my.cnf"
    log.touch()
    (tmp_path / "redo").mkdir()
    (tmp_path / "redo" / "ib_logfile0").touch()
    defaults.write_text(
        f"[mysqld]\nlog_error = {log}\ninnodb_log_group_home_dir = {tmp_path}/redo\n[client]\ndatadir=/x\n"
    )
    with process_in(tmp_path, f"--datadir={datadir}", f"--defaults-file={defaults}") as pid:
        found = look_at(pid)
        assert found.datadir is not None
        assert found.datadir.samefile(datadir)
        assert found.log is not None
        assert found.log.samefile(log)
        assert found.redo is not None
        assert found.redo.samefile(tmp_path / "redo")


def test_tablespaces_of_schemas_and_of_the_server_are_counted(datadir: Path) -> None:
    assert running_server._count_tablespaces(datadir) == 4
    assert running_server._count_tablespaces(datadir / "none") is None


def test_a_process_that_has_ended_has_no_sample(tmp_path: Path) -> None:
    with process_in(tmp_path) as pid:
        pass
    assert sample_of(pid, 1.0) is None
    assert look_at(pid).datadir is None
    assert what_it_waits_for(pid) == "it has ended"


def test_a_stopped_process_is_told_how_to_continue(tmp_path: Path) -> None:
    with process_in(tmp_path) as pid:
        assert what_it_waits_for(pid).startswith("no thread of it waits for storage")
        os.kill(pid, signal.SIGSTOP)
        until(lambda: is_stopped(pid), "the stop")
        assert what_it_waits_for(pid) == "it is stopped by a signal (SIGSTOP): continue it with kill -CONT"


@pytest.mark.parametrize(
    ("group", "printed", "limit"),
    [
        (
            "0::/system.slice/mysql.service", "TimeoutStartUSec=1min 30s\n",
            "TimeoutStartSec of mysql.service, which is 1min 30s",
        ),
        ("1:name=systemd:/system.slice/mariadb.service\n", "", "TimeoutStartSec of mariadb.service"),
        ("0::/user.slice/user-0.slice/user@0.service/app.slice/run.scope", "", None),
        ("0::/user.slice/user-0.slice/session-1.scope", "", None),
        (
            f"0::/system.slice/docker-{ID}.scope", 'null always\n',
            "what restarts the container 0123456789ab (no health check, restart policy always)",
        ),
        (
            f"4:memory:/docker/{ID}", '{"Test":["CMD"],"Retries":3} no\n',
            'what restarts the container 0123456789ab (health check {"Test":["CMD"],"Retries":3}, restart policy no)',
        ),
        (f"0::/machine.slice/libpod-{ID}.scope", "", "what restarts the container 0123456789ab"),
        (
            f"0::/kubepods.slice/cri-containerd-{ID}.scope", "",
            "the startupProbe and livenessProbe of its pod (kubectl describe pod)",
        ),
    ],
)  # fmt: skip
def test_the_limit_of_a_start_is_that_of_what_started_the_server(
    group: str, printed: str, limit: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_server, "read_text", lambda _: group)
    monkeypatch.setattr(running_server, "_output", lambda *_: printed)
    assert start_limit(1) == limit
