"""Starts the tool, tells its stage, and kills it in one of several ways."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from recovery.linux.loop_device import unmount
from recovery.model import Status
from recovery.session.progress import ProgressSnapshot, from_json
from torture.place import Place

KILL, GROUP, REBOOT, TERMINATE, CTRL_C, TWICE, HANG_UP, TERMINAL = (
    "SIGKILL", "SIGKILL to its group", "reboot", "SIGTERM", "Ctrl-C", "Ctrl-C twice", "SIGHUP", "terminal closed",
)  # fmt: skip
WAYS = (KILL, KILL, GROUP, REBOOT, REBOOT, TERMINATE, CTRL_C, TWICE, HANG_UP, TERMINAL)
"""SIGKILL is also what the kernel sends if memory runs out."""
POLITE = frozenset({TERMINATE, CTRL_C, HANG_UP, TERMINAL})
"""Ways after which nothing may be left at once; a second Ctrl-C may leave something to the next start."""
_MAX_END_S = 90.0
_ENDED_RUN = re.compile(r"^\[(\d+)/\d+\] ", re.MULTILINE)
_ANOTHER_BOOT = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True)
class Ended:
    code: int
    output: str
    took_s: float

    @property
    def stored_runs(self) -> frozenset[int]:
        """Returns the numbers of the runs that it printed as ended."""
        return frozenset(int(number) for number in _ENDED_RUN.findall(self.output.replace("\r", "")))

    @property
    def last_lines(self) -> str:
        lines = [line.strip() for line in self.output.replace("\r", "").splitlines() if line.strip()]
        return " | ".join(lines[-4:])


class Victim:
    """The running tool, in a process session of its own, and on a terminal if that is to be closed."""

    def __init__(self, place: Place, words: list[str], *, cache: Path | None, on_terminal: bool) -> None:
        self._place = place
        self._output = place.root / "output"
        self._terminal: subprocess.Popen[bytes] | None = None
        """It holds the other side of the terminal, and closes it when it ends."""
        self.began_s = time.monotonic()
        command = [sys.executable, "-m", "recovery", *words]
        with self._output.open("wb") as output:
            streams = (subprocess.DEVNULL, subprocess.DEVNULL, output.fileno())
            if on_terminal:
                master, slave = pty.openpty()
                self._terminal = subprocess.Popen(["cat"], stdin=master, stdout=output, stderr=subprocess.DEVNULL)
                os.close(master)
                command, streams = ["setsid", "--ctty", *command], (slave, slave, slave)
            self.process = subprocess.Popen(
                command, cwd=place.root, env=place.environment(cache=cache), start_new_session=not on_terminal,
                stdin=streams[0], stdout=streams[1], stderr=streams[2],
            )  # fmt: skip
            if on_terminal:
                os.close(slave)
        place.victims.append(self.process)

    def lives_until(self, moment_s: float) -> bool:
        """Returns False if the tool ends by itself before that moment."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(max(0.0, self.began_s + moment_s - time.monotonic()))
        return self.process.poll() is None

    def stage(self) -> str:
        """Returns the stage of the session as `recovery status` shows it, at most a quarter of a second old."""
        try:
            found = from_json(self._place.status.read_text(encoding="utf-8"))
        except OSError:
            found = None
        return "starting up" if found is None or found.pid != self.process.pid else stage_of(found)

    def die(self, way: str, pause_s: float) -> None:
        if way == TERMINAL:
            self._close_terminal()
        elif way == GROUP:
            os.killpg(self.process.pid, signal.SIGKILL)
        elif way in (CTRL_C, TWICE):
            self._signal(signal.SIGINT)
            if way == TWICE:
                time.sleep(pause_s)
                self._signal(signal.SIGINT)
        else:
            number = {TERMINATE: signal.SIGTERM, HANG_UP: signal.SIGHUP}.get(way, signal.SIGKILL)
            self.process.send_signal(number)

    def _signal(self, number: int) -> None:
        """Sends the signal to the whole process group, as a terminal does."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def _close_terminal(self) -> None:
        if self._terminal is not None:
            self._terminal.kill()
            self._terminal.wait()

    def end(self) -> Ended | None:
        """Waits for the end; returns None if the tool had to be killed."""
        try:
            code = self.process.wait(_MAX_END_S)
            took_s = time.monotonic() - self.began_s
            if self._terminal is not None:
                self._terminal.wait(_MAX_END_S)  # until it has read everything
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None
        finally:
            self._close_terminal()
        return Ended(code, self._output.read_text(encoding="utf-8", errors="replace"), took_s)


def stage_of(found: ProgressSnapshot) -> str:
    if found.status is not Status.RUNNING:
        return "writing reports"
    if found.build is not None:
        return "making a data directory" if found.build.done is None else "building"
    if found.trial is not None:
        return f"trial: {found.step or 'beginning'}"
    return found.step or "preparing"


def play_reboot(place: Place, results: Path) -> None:
    """Ends servers and mounts, and gives the marks of the tool another boot. Lost writes are not played."""
    place.end_servers()
    for mount in place.mounts():
        unmount(mount)
    for entry in place.temporary.iterdir():
        if entry.name not in place.beside:
            _change_boot(entry)
    for plan in results.glob("*/plan.json"):
        plan.write_text(re.sub(r'"boot": "[^"]*"', f'"boot": "{_ANOTHER_BOOT}"', plan.read_text()))


def _change_boot(entry: Path) -> None:
    owner = entry / "owner"
    if owner.is_file():
        owner.write_text(f"{_ANOTHER_BOOT}.{owner.read_text().partition('.')[2]}")
    if entry.name.startswith("mysql-recovery-"):
        rest = entry.name.removeprefix("mysql-recovery-").partition(".")[2]
        entry.rename(entry.with_name(f"mysql-recovery-{_ANOTHER_BOOT}.{rest}"))
