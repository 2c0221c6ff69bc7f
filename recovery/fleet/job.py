"""Does the host's part of `recovery fleet run`: measures the sessions of a list one after the other, and collects what
is stored. Packs the tool for a host, too.

Stored sessions are the only state: one that has ended is not measured again, one that ended early is resumed."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import recovery
from recovery.analysis.compare import incomplete_reason
from recovery.errors import RecoveryError
from recovery.fleet.plan import FLEET_OPTIONS, FleetSession
from recovery.linux.files import docker_dir, draft_path, parse_json, requirements_dir, template_dir, write_atomically
from recovery.linux.locks import wait_for_lock
from recovery.model import REPEAT_OF
from recovery.session.resume import Unfinished, sweep_results
from recovery.storage.sessions import load_session, session_names

SESSIONS_FILE, OUTCOME_FILE, RESULTS_ARCHIVE = "sessions.json", "outcome.json", "results.tar.gz"
_LOCK, _ENDED = "job.lock", "ended"
_CANNOT = re.compile("cannot be (resumed|repeated)")
_START_S = 60.0
"""A job takes its lock in this time, or it was killed."""

# --- On the host


@dataclass(frozen=True)
class _Place:
    """Represents the folders and files of one session in the fleet's folder on this host."""

    session: FleetSession
    work: Path

    @property
    def results(self) -> Path:
        return self.work / "results" / self.session.key

    @property
    def log(self) -> Path:
        return self.work / f"{self.session.key}.log"

    def stored(self) -> list[Unfinished]:
        """Returns the stored sessions, which may have ended: one, or as many as its line repeats it. They are of the
        newest measurement: of one before it, which could not go on, none counts."""
        found = []
        for name in session_names(self.results):
            with suppress(RecoveryError):
                found.append(Unfinished(self.results / name, load_session(self.results / name)))
        alike = [session for session in found if _first_name(session) == _first_name(found[-1])]
        return alike[-self.session.times :]

    def has_ended(self, stored: Sequence[Unfinished]) -> bool:
        return len(stored) == self.session.times and all(session.has_ended for session in stored)

    def error(self) -> str:
        """Returns the last error in the log, in one line."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.is_file() else []
        errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        return errors[-1] if errors else "it was killed"


def _first_name(stored: Unfinished) -> str:
    """Returns the name of the first session of the measurement that a session belongs to."""
    return str(stored.session.settings.get(REPEAT_OF) or stored.folder.name)


def _places(work: Path) -> list[_Place]:
    listed = parse_json((work / SESSIONS_FILE).read_bytes())
    return [_Place(FleetSession(name, tuple(words)), work) for name, *words in listed]


def run_job(work: Path) -> None:
    """Measures what is missing in a fleet's folder on this host. A second job waits for the first."""
    with wait_for_lock(work / _LOCK):
        for place in _places(work):
            _measure(place)
        (work / _ENDED).touch()


def _measure(place: _Place) -> None:
    if place.results.is_dir():
        sweep_results(place.results)
    stored = place.stored()
    if place.has_ended(stored):
        return
    results = ("--results", str(place.results))
    if stored and (stored[-1].session.runs or len(stored) > 1):
        repeats = ("repeat", *place.session.repeat_words) if place.session.times > 1 else ("resume",)
        _run(place, *repeats, stored[-1].folder.name, "--yes", *results)
        if not _CANNOT.search(place.error()):
            return
    data = ("--data", str(place.work / "data"))
    _run(place, place.session.name, *place.session.words, *FLEET_OPTIONS, *data, *results)


def _run(place: _Place, *words: str) -> None:
    place.results.mkdir(parents=True, exist_ok=True)
    with place.log.open("wb") as log:
        command = [sys.executable, "-m", "recovery", *words]
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)


def collect_results(work: Path) -> str:
    """Returns whether the job in this folder is `running`. If not, packs the sessions that have ended, and returns
    whether these are all (`finished`) or not (`unfinished`)."""
    if _is_running(work):
        return "running"
    outcomes, trees, unfinished = [], [], False
    for place in _places(work):
        stored = place.stored()
        ended, is_complete = [session for session in stored if session.has_ended], place.has_ended(stored)
        unfinished |= not is_complete
        trees += [(session.folder, f"{place.session.key}/{session.folder.name}") for session in ended]
        names = [session.folder.name for session in ended]
        *others, last = names if is_complete else (*names, None)
        reasons = (incomplete_reason(session.session) for session in ended)
        outcomes.append({
            "key": place.session.key, "folder": last, "others": others,
            "reason": next(filter(None, reasons), None) if is_complete else place.error(),
        })  # fmt: skip
    files = [(OUTCOME_FILE, json.dumps(outcomes).encode())]
    pack_tar(work / RESULTS_ARCHIVE, trees, files)
    return "unfinished" if unfinished else "finished"


def _is_running(work: Path) -> bool:
    """Returns whether a job holds the lock. One that has just been started may not hold it yet."""
    deadline = time.monotonic() + _START_S
    with (work / _LOCK).open("a") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            fcntl.flock(lock, fcntl.LOCK_UN)
            if (work / _ENDED).exists() or time.monotonic() > deadline:
                return False
            time.sleep(0.5)


# --- What is sent


def pack_tar(path: Path, trees: Iterable[tuple[Path, str]], files: Iterable[tuple[str, bytes]] = ()) -> None:
    """Writes a compressed tar file of folders and small files, under its name only when it is complete."""
    draft = draft_path(path)
    with tarfile.open(draft, "w:gz", compresslevel=1) as tar:
        for source, name in trees:
            tar.add(source, name, filter=_without_owner)
        for name, content in files:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    draft.replace(path)


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return None if "__pycache__" in member.name.split("/") or member.name.endswith(".lock") else member


def pack_tool(folder: Path, python: str, cpu: str) -> Path:
    """Packs the tool and its locked packages for a Python version and a CPU, and returns the file."""
    python = ".".join(python.split(".")[:2])
    tool = Path(recovery.__file__).parent
    lock = requirements_dir() / "run.lock"
    trees = [(tool, "tool/recovery"), (template_dir(), "tool/templates"), (docker_dir(), "tool/docker")]
    digest = hashlib.sha256(lock.read_bytes())
    for path in _files_of(source for source, _ in trees):
        digest.update(path.read_bytes())
    archive = folder / f"tool-{digest.hexdigest()[:12]}-py{python}-{cpu}.tar.gz"
    with wait_for_lock(folder / ".lock-pack"):
        if not archive.exists():
            with tempfile.TemporaryDirectory(dir=folder) as packages:
                _install_packages(lock, Path(packages), python, cpu)
                pack_tar(archive, [*trees, (Path(packages), "packages")], [(f"{archive.name}.complete", b"")])
    return archive


def _files_of(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def _install_packages(lock: Path, into: Path, python: str, cpu: str) -> None:
    """Unpacks the locked packages for another Python and CPU; pip checks their hashes."""
    platforms = [f"{name}_{cpu}" for name in ("manylinux_2_28", "manylinux_2_17", "manylinux2014", "manylinux_2_5")]
    command = [
        sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-compile",
        "--target", str(into),
        "--require-hashes", "-r", str(lock), "--only-binary=:all:", "--implementation", "cp",
        "--python-version", python,
        *(word for name in platforms for word in ("--platform", name)),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["pip said nothing"]
        raise RecoveryError(
            f"the packages for Python {python} on {cpu} cannot be had: {lines[-1]}",
            "check the network and pip's settings; where pip is missing, install the tool with pip",
        )


def write_sessions(path: Path, sessions: Iterable[FleetSession]) -> None:
    write_atomically(path, json.dumps([[session.name, *session.words] for session in sessions]).encode())
