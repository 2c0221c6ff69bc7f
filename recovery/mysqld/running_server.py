"""Finds the servers that run on this host, however they were started, and what they work on: data directory, log and
redo log. Servers in containers are seen from the host.

Nothing is changed, no server is asked, and nothing is opened for writing."""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from recovery.errors import UsageError
from recovery.linux.file_opens import OpenOrder
from recovery.linux.procfs import TICKS_PER_S, is_running, process_io, process_stat, processes_named, read_text
from recovery.logs.start_progress import ProcessSample, Totals
from recovery.mysqld.log_writer import SERVERS

_OF_INNODB = ("ibdata1", "ib_logfile0", "#innodb_redo", "mysql.ibd")
_GROUPS = frozenset({"mysqld", "server", "mariadb", "mariadbd"})
_DEFAULTS_FILES = ("etc/my.cnf", "etc/mysql/my.cnf", "usr/etc/my.cnf")
_CONTAINER = re.compile(r"(docker|libpod|cri-containerd|crio)[-/]([0-9a-f]{64})")
_UNIT = re.compile(r"/([^/\n]+\.service)(?:/|$)", re.MULTILINE)
_MAX_STACK_LINES = 3
GREETING_S, _LEAST_GREETING_S = 5.0, 0.001
"""For all sockets of a server together, and for each of them."""
_LISTENS = "00010000"


@dataclass(frozen=True)
class RunningServer:
    """A server process, and where its files are, as far as this user may see. Paths lead through /proc/PID where the
    server runs in a container."""

    pid: int
    log: Path | None
    """None: the log is no file, or this user may not see it."""
    datadir: Path | None
    redo: Path | None
    """The folder with the redo log."""
    missing: tuple[str, ...]
    """What this user may not see, in words."""

    def totals(self) -> Totals:
        """Returns what there is to do. Counting 200,000 files takes some tenths of a second."""
        from recovery.mysqld.redo_log import read_page_bytes, redo_span

        redo, page_bytes = None, None
        with suppress(OSError, UsageError):
            redo = None if self.redo is None else redo_span(self.redo)
        with suppress(OSError, UsageError):
            page_bytes = None if self.datadir is None else read_page_bytes(self.datadir / "ibdata1")
        files = None if self.datadir is None else _count_tablespaces(self.datadir)
        return Totals(files, redo, page_bytes or Totals.page_bytes, direct_io=uses_direct_io(self.pid))

    def open_order(self) -> OpenOrder | None:
        """Returns what tells how many tables' files the server has opened in their order from now on, or None if this
        user may not see them."""
        with suppress(OSError):
            return None if self.datadir is None else OpenOrder(self.datadir, ".ibd")
        return None


@dataclass(frozen=True)
class Answer:
    """How a ready server answers a new connection."""

    to: str | None
    """`query` or `greeting`; None if it was not asked, or does not answer."""
    why: str | None = None
    """Why it was asked no query, or what it does not answer, in words."""
    hangs: bool = False
    """Whether it was asked, and does not answer."""


def running_servers() -> list[int]:
    """Returns the process ids of all servers of this host, as far as this user may see them."""
    return [pid for pid in processes_named(SERVERS) if is_running(pid)]


def look_at(pid: int) -> RunningServer:
    """Returns the files of a server."""
    given, missing = _options(pid), []
    folder = Path(f"/proc/{pid}")
    try:
        cwd: Path | None = folder / "cwd"
        for link in ("cwd", "fd/2"):
            (folder / link).readlink()
    except PermissionError:
        cwd = None
        missing.append("its open files and its I/O (run as root, or as the user of the server)")
    except OSError:
        cwd = None
    if process_io(pid) is None and not missing:
        missing.append("its I/O (run as root, or as the user of the server)")
    root = folder / "root" if cwd is not None else Path("/")
    datadir, log = _datadir_of(given, root, cwd), _log_of(pid, given, root, cwd)
    if datadir is None or log is None:
        given = _file_options(root, given) | given
        datadir = datadir or _datadir_of(given, root, cwd)
        log = log or _log_of(pid, given, root, datadir)
    if datadir is None and "datadir" in given:
        missing.append(f"its data directory {given['datadir']}")
    if log is not None and not os.access(log, os.R_OK):
        missing.append(f"its log {given.get('log-error') or log}")
        log = None
    return RunningServer(pid, log, datadir, _redo_folder(given, root, datadir), tuple(missing))


def log_without_server(datadir: Path | None) -> Path | None:
    """Returns the newest error log in a data directory, or the one that the my.cnf of this host names; without a data
    directory, in the one that it names. None if there is none that this user may read."""
    given = _file_options(Path("/"), {})
    folder = datadir or Path(given.get("datadir", "/var/lib/mysql"))
    found = list[Path]()
    with suppress(OSError):
        found += folder.glob("*.err")
    named = given.get("log-error")
    if named and (datadir is None or given.get("datadir", "").rstrip("/") == str(datadir)):
        found += [path for path in (folder / named, folder / f"{named}.err") if path.is_file()]
    readable = [path for path in found if os.access(path, os.R_OK) and path.is_file()]
    return max(readable, key=lambda path: path.stat().st_mtime, default=None)


def sample_of(pid: int, at_s: float) -> ProcessSample | None:
    """Returns the counters of a process, or None once it has ended."""
    fields = process_stat(pid)
    if fields is None:
        return None
    counted = process_io(pid) or {}
    io = {name: counted.get(name) for name in ("syscr", "rchar", "wchar", "read_bytes", "write_bytes")}
    return ProcessSample(at_s, **io, cpu_s=fields.cpu_ticks / TICKS_PER_S, state=fields.state)


def greeting(pid: int) -> Answer:
    """Returns whether a server greets a new connection to its socket, which needs no login."""
    try:
        sockets = listening_sockets(pid)
    except PermissionError:
        return Answer(None, "this user may not see its sockets (run as root, or as the user of the server)")
    if not sockets:
        return Answer(None, "it listens on no socket")
    gone, end_s = [path for path in sockets if _is_gone(path)], time.monotonic() + GREETING_S
    for path in sockets:
        try:
            with short_name(path) as name, socket.socket(socket.AF_UNIX) as client:
                client.settimeout(max(_LEAST_GREETING_S, end_s - time.monotonic()))
                client.connect(name)
                if client.recv(5):
                    return Answer("greeting")
        except PermissionError:
            return Answer(None, "this user may not connect to its socket")
        except OSError:
            continue
    if gone == sockets:
        of_root = gone[0].parts[3] == "root"
        return Answer(None, f"its socket file {Path('/' if of_root else '', *gone[0].parts[4:])} is gone")
    return Answer(None, "it answers no new connection", hangs=True)


def _is_gone(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def listening_sockets(pid: int) -> list[Path]:
    """Returns the sockets at which a server listens, of which the file may be gone. Raises PermissionError if this user
    may not see them."""
    folder, opened, found = Path(f"/proc/{pid}"), set(), []
    with suppress(FileNotFoundError, ProcessLookupError):
        for descriptor in (folder / "fd").iterdir():
            with suppress(OSError):
                opened.add(str(descriptor.readlink()))
    for line in (read_text(folder / "net" / "unix") or "").splitlines()[1:]:
        fields = line.split(maxsplit=7)
        # The X Plugin has a socket of its own, and waits for its client to begin.
        if (
            len(fields) == 8
            and fields[3] == _LISTENS
            and f"socket:[{fields[6]}]" in opened
            and "mysqlx" not in fields[7]
        ):
            base = folder / "root" if fields[7].startswith("/") else folder / "cwd"
            found.append(base / fields[7].lstrip("/"))
    return found


@contextmanager
def short_name(path: Path) -> Iterator[str]:
    """Gives a name of a socket that is short enough to connect to, however long its path is."""
    folder = os.open(path.parent, os.O_PATH | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def what_it_waits_for(pid: int) -> str:
    """Returns in words what the threads of a process wait for: of the one that waits for storage, or else of the first
    one."""
    tasks = sorted(Path(f"/proc/{pid}/task").glob("*"), key=lambda task: int(task.name))
    states = {task: (read_text(task / "stat") or "").rpartition(")")[2].split()[:1] for task in tasks}
    stuck = [task for task in tasks if states[task] == ["D"]]
    if any(states[task] in (["T"], ["t"]) for task in tasks[:1]):
        return "it is stopped by a signal (SIGSTOP): continue it with kill -CONT"
    chosen = stuck[:1] or tasks[:1]
    if not chosen:
        return "it has ended"
    place = read_text(chosen[0] / "wchan")
    stack = [line.split()[-1].partition("+")[0] for line in (read_text(chosen[0] / "stack") or "").splitlines()]
    place = " < ".join(stack[:_MAX_STACK_LINES]) or (place if place not in (None, "0") else None)
    what = f"{len(stuck)} of its threads wait for storage (state D)" if stuck else "no thread of it waits for storage"
    return f"{what}{f', in {place}' if place else ''}"


# --- Who started it, and what limits it


def start_limit(pid: int) -> str | None:
    """Returns in words the limit on the time of a start, by systemd or by what runs the container; None if the server
    was started by hand, or the limit cannot be read."""
    group = read_text(Path(f"/proc/{pid}/cgroup")) or ""
    if "kubepods" in group:
        return "the startupProbe and livenessProbe of its pod (kubectl describe pod)"
    if (container := _CONTAINER.search(group)) is not None:
        return _container_limit("podman" if container[1] == "libpod" else "docker", container[2][:12])
    unit = _UNIT.search(group)
    if unit is None or unit[1].startswith("user@"):
        return None
    shown = dict(
        line.split("=", 1) for line in _output("systemctl", "show", "-p", "TimeoutStartUSec", "--", unit[1]).split("\n")
        if "=" in line
    )  # fmt: skip
    limit = shown.get("TimeoutStartUSec")
    return f"TimeoutStartSec of {unit[1]}{f', which is {limit}' if limit else ''}"


def journal_of(pid: int) -> list[str] | None:
    """Returns the command that prints the journal of the unit that a server belongs to, or None if there is none."""
    unit = _UNIT.search(read_text(Path(f"/proc/{pid}/cgroup")) or "")
    if unit is None or unit[1].startswith("user@") or shutil.which("journalctl") is None:
        return None
    return ["journalctl", "--unit", unit[1], "--output", "short-iso-precise", "--no-pager", "--lines", "5000"]


def _container_limit(program: str, name: str) -> str:
    form = "{{json .Config.Healthcheck}} {{.HostConfig.RestartPolicy.Name}}"
    health, _, policy = _output(program, "inspect", "--format", form, name).strip().rpartition(" ")
    if not policy:
        return f"what restarts the container {name}"
    check = "no health check" if health in ("", "null") else f"health check {health}"
    return f"what restarts the container {name} ({check}, restart policy {policy})"


def _output(*command: str) -> str:
    """Returns what a program prints, or nothing if it is not there or fails."""
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout
    return ""


# --- Its options and files


def _options(pid: int) -> dict[str, str]:
    """Returns the options of the command line that name places, with `-` in their names."""
    words = (read_text(Path(f"/proc/{pid}/cmdline")) or "").split("\0")
    pairs = (word[2:].partition("=") for word in words if word.startswith("--"))
    return {name.replace("_", "-"): value for name, equals, value in pairs if equals}


def _file_options(root: Path, given: dict[str, str]) -> dict[str, str]:
    """Returns the options of the my.cnf that the server reads; what cannot be read counts as empty."""
    from recovery.mysqld.defaults_file import read_defaults_file

    own = given.get("defaults-file")
    found = {}
    for name in (own.lstrip("/"),) if own else _DEFAULTS_FILES:
        with suppress(UsageError, OSError):
            for option in read_defaults_file(root / name).options:
                if option.group.partition("-")[0] in _GROUPS:
                    found[option.name.replace("_", "-")] = option.value
    return found


def _datadir_of(given: dict[str, str], root: Path, cwd: Path | None) -> Path | None:
    """Returns the folder that the options name or, once it has read them, the one that the server works in."""
    named = [root / given["datadir"].lstrip("/")] if "datadir" in given else []
    return next(
        (
            folder
            for folder in (*named, *([cwd] if cwd else ()))
            if any(os.access(folder / name, os.F_OK) for name in _OF_INNODB)
        ),
        None,
    )


def _log_of(pid: int, given: dict[str, str], root: Path, datadir: Path | None) -> Path | None:
    for number in (2, 1):
        opened = Path(f"/proc/{pid}/fd/{number}")
        with suppress(OSError):
            if stat.S_ISREG(opened.stat().st_mode):
                return opened
    named = given.get("log-error")
    if named:
        log = root / named.lstrip("/") if named.startswith("/") else (datadir or root) / named
        return next((path for path in (log, log.with_name(f"{log.name}.err")) if path.is_file()), None)
    container = _CONTAINER.search(read_text(Path(f"/proc/{pid}/cgroup")) or "")
    if container is None:
        return None
    kept = Path("/var/lib/docker/containers") / container[2] / f"{container[2]}-json.log"
    return kept if os.access(kept, os.F_OK) else None


def _redo_folder(given: dict[str, str], root: Path, datadir: Path | None) -> Path | None:
    from recovery.mysqld.redo_log import redo_files

    named = given.get("innodb-log-group-home-dir") or given.get("innodb-redo-log-dir")
    folders = [datadir] if datadir else []
    if named:
        folders.insert(0, root / named.lstrip("/") if named.startswith("/") else (datadir or root) / named)
    with suppress(OSError):
        return next((folder for folder in folders if redo_files(folder)), None)
    return None


def _count_tablespaces(datadir: Path) -> int | None:
    """Returns the number of .ibd files in a data directory and the folders of its schemas."""
    try:
        with os.scandir(datadir) as entries:
            names = [entry.name for entry in entries]
    except OSError:
        return None
    count = sum(name.endswith(".ibd") for name in names)
    for name in names:
        if "." not in name:
            with suppress(OSError), os.scandir(datadir / name) as entries:
                count += sum(entry.name.endswith(".ibd") for entry in entries)
    return count


def uses_direct_io(pid: int) -> bool:
    """Returns whether the server has opened its system tablespace with O_DIRECT."""
    with suppress(OSError, ValueError):
        for opened in Path(f"/proc/{pid}/fd").iterdir():
            if "/ibdata" in str(opened.readlink()):
                about = (opened.parents[1] / "fdinfo" / opened.name).read_text()
                flags = re.search(r"^flags:\s*(\d+)", about, re.MULTILINE)
                return flags is not None and bool(int(flags[1], 8) & os.O_DIRECT)
    return False
