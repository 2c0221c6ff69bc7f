"""Contains `recovery status`, which shows the session that is running on this host, or how the last one ended."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass, replace

import click

from recovery.cli.options import table_option
from recovery.cli.output import STANDARD_OUTPUT, write_json
from recovery.cli.progress_view import Line, Screen, status_page
from recovery.errors import InterruptedByUserError, escape_control
from recovery.linux import locks
from recovery.linux.locks import lock_path
from recovery.linux.procfs import is_owner_gone, is_stopped
from recovery.model import Status
from recovery.session import progress
from recovery.session.progress import ProgressSnapshot, from_json

FORMAT = 1
_INTERVAL_S = 1.0


@dataclass(frozen=True)
class HostStatus:
    """Describes the session that is running on this host, or else the last one."""

    session: ProgressSnapshot | None
    """Snapshot of the running session, or else of the last one; None if no snapshot is found."""
    running: bool
    suspended: bool = False
    holder: str | None = None
    """Description of the process that holds the host lock; None if nobody holds it."""


@click.command()
@table_option("json")
@click.option("--watch", is_flag=True, help="Follow it, once a second, until it ends.")
def status(*, json_to: str | None, watch: bool) -> int:
    """Show the running session, or how the last one ended. The exit code is 0 in both cases. JSON is one line, again at
    every change with --watch."""
    screen = Screen(sys.stdout)
    as_json = json_to == STANDARD_OUTPUT
    live = watch and screen.live and not as_json
    before: list[str] = []
    try:
        while (seen := read_host_status()).running and watch:
            lines = _status_lines(seen, as_json=as_json)
            if live:
                columns, rows = screen.size
                screen.draw([Line(escape_control(line)[: columns - 1]) for line in lines[: rows - 1]])
            elif lines != before:
                _print(lines)
            if lines != before:
                _write_file(json_to, seen)
            before = lines
            time.sleep(_INTERVAL_S)
    except KeyboardInterrupt:
        screen.clear()
        return InterruptedByUserError.exit_code
    screen.clear()
    _write_file(json_to, seen)
    _print(_status_lines(seen, as_json=as_json))
    return 0


def _write_file(json_to: str | None, seen: HostStatus) -> None:
    if json_to not in (None, STANDARD_OUTPUT):
        write_json(json_to, f"{_status_lines(seen, as_json=True)[0]}\n")


def read_host_status() -> HostStatus:
    """Returns the running session or the last one.

    The host lock shows whether a session is running. The status files, which the sessions write, show the progress. If
    the last session never recorded its end, it was killed."""
    holder = locks.lock_holder(lock_path())
    found = [one for text in progress.read_status_files(lock_path()) if (one := from_json(text)) is not None]
    found.sort(key=lambda snapshot: snapshot.written_at)
    if holder is not None:
        alive = [
            snapshot for snapshot in found if snapshot.status is Status.RUNNING and not is_owner_gone(snapshot.owner)
        ]
        session = alive[-1] if alive else None
        return HostStatus(
            session, running=True, suspended=session is not None and is_stopped(session.pid), holder=holder
        )
    if not found:
        return HostStatus(None, running=False)
    last = found[-1]
    return HostStatus(replace(last, status=Status.KILLED) if last.status is Status.RUNNING else last, running=False)


def find_running_session() -> ProgressSnapshot | None:
    found = read_host_status()
    return found.session if found.running else None


def _status_lines(seen: HostStatus, *, as_json: bool) -> list[str]:
    if as_json:
        session = None if seen.session is None else asdict(seen.session)
        body = {"format": FORMAT, "running": seen.running, "suspended": seen.suspended, "holder": seen.holder}
        return [json.dumps({**body, "session": session})]
    if seen.session is None:
        return [
            f"the host is locked by {seen.holder}" if seen.running else "no session is running, and none is recorded"
        ]
    lines = list(status_page(seen.session, running=seen.running))
    return (
        [*lines, "  suspended: continue it with `fg` in its terminal, or with kill -CONT"] if seen.suspended else lines
    )


def _print(lines: list[str]) -> None:
    sys.stdout.write("".join(f"{escape_control(line)}\n" for line in lines))
    sys.stdout.flush()
