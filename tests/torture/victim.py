"""How is the tool started, at what is it, and in which ways does it die?"""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from recovery.linux.loop_device import unmount
from recovery.session.progress import ProgressSnapshot, Status, from_json
from torture.place import Place

KILL, GROUP, REBOOT, TERMINATE, CTRL_C, TWICE, HANG_UP, TERMINAL = (
    "SIGKILL", "SIGKILL to its group", "reboot", "SIGTERM", "Ctrl-C", "Ctrl-C twice", "SIGHUP", "terminal closed",
)  # fmt: skip
WAYS = (KILL, KILL, GROUP, REBOOT, REBOOT, TERMINATE, CTRL_C, TWICE, HANG_UP, TERMINAL)
"""SIGKILL is also what the kernel does where memory runs out."""
POLITE = frozenset({TERMINATE, CTRL_C, HANG_UP, TERMINAL})
"""After which nothing may be left at once; a second Ctrl-C may leave something to the next start."""
_ENDS_S = 90.0
_OVER = re.compile(r"^\[(\d+)/\d+\] ", re.MULTILINE)
_ANOTHER_BOOT = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True)
class Ended:
    code: int
    said: str
    took_s: float

    @property
    def told(self) -> frozenset[int]:
        """Numbers of the runs that it said had ended."""
        return frozenset(int(number) for number in _OVER.findall(self.said.replace("\r", "")))


class Victim:
    """The tool at work, in a session of its own; on a terminal where that is to be closed."""

    def __init__(self, place: Place, words: list[str], *, cache: Path | None, on_terminal: bool) -> None:
        self._place = place
        self._said = place.root / "said"
        self._master: int | None = None
        self._reader: threading.Thread | None = None
        self._over = threading.Event()
        self.began_s = time.monotonic()
        command = [sys.executable, "-m", "recovery", *words]
        self._written = self._said.open("wb")
        slave: int | None = None
        if on_terminal:
            self._master, slave = pty.openpty()
            command = ["setsid", "--ctty", *command]
        self.process = subprocess.Popen(
            command, cwd=place.root, env=place.environment(cache=cache),
            stdin=subprocess.DEVNULL if slave is None else slave,
            stdout=subprocess.DEVNULL if slave is None else slave,
            stderr=self._written if slave is None else slave,
            start_new_session=slave is None,
        )  # fmt: skip
        place.victims.append(self.process)
        if slave is not None:
            os.close(slave)
            self._reader = threading.Thread(target=self._read, daemon=True)
            self._reader.start()

    def _read(self) -> None:
        """A terminal that nobody reads stops who writes to it."""
        assert self._master is not None
        while not self._over.is_set():
            if select.select([self._master], [], [], 0.02)[0]:
                try:
                    self._written.write(os.read(self._master, 65536))
                except OSError:  # the other side has gone
                    return

    def lives_on_until(self, moment_s: float) -> bool:
        """False where it ends by itself before."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(max(0.0, self.began_s + moment_s - time.monotonic()))
        return self.process.poll() is None

    def stage(self) -> str:
        """What it is at, as `recovery status` tells: at most a quarter of a second old."""
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
        """As a terminal sends it: to all that it has in front."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def _close_terminal(self) -> None:
        self._over.set()
        if self._reader is not None:
            self._reader.join()
        if self._master is not None:
            os.close(self._master)
            self._master = None

    def end(self) -> Ended | None:
        """None where it does not, and had to be killed."""
        try:
            code = self.process.wait(_ENDS_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None
        finally:
            took_s = time.monotonic() - self.began_s
            self._close_terminal()
            self._written.close()
        return Ended(code, self._said.read_text(encoding="utf-8", errors="replace"), took_s)


def stage_of(found: ProgressSnapshot) -> str:
    if found.status is not Status.RUNNING:
        return "writing reports"
    if found.build is not None:
        return "making a data directory" if found.build.done is None else "building"
    if found.trial is not None:
        return f"trial: {found.step or 'beginning'}"
    return found.step or "preparing"


def play_reboot(place: Place, results: Path) -> None:
    """No process outlives it, no mount and no control group, and whatever bears a mark bears that of an earlier boot.
    What a loss of power does to files that were not synced is not played."""
    place.end_servers()
    for mount in place.mounts():
        unmount(mount)
    for entry in place.temporary.iterdir():
        if entry.name not in place.beside:
            _another_boot(entry)
    for plan in results.glob("*/plan.json"):
        plan.write_text(re.sub(r'"boot": "[^"]*"', f'"boot": "{_ANOTHER_BOOT}"', plan.read_text()))


def _another_boot(entry: Path) -> None:
    owner = entry / "owner"
    if owner.is_file():
        owner.write_text(f"{_ANOTHER_BOOT}.{owner.read_text().partition('.')[2]}")
    if entry.name.startswith("mysql-recovery-"):
        rest = entry.name.removeprefix("mysql-recovery-").partition(".")[2]
        entry.rename(entry.with_name(f"mysql-recovery-{_ANOTHER_BOOT}.{rest}"))
