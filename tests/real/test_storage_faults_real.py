"""Storage that fails under real servers: each session ends with a clear error and keeps its finished runs, and nothing
incomplete is used later."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from failing import Disk, failing, immutable, small_disk
from fakes import FakeLauncher, fake_launch
from sessions import need_disks

from recovery.builds import install
from recovery.builds.install import InstallJob, Origin, ensure_installed
from recovery.cli.main import run
from recovery.errors import StorageFailedError
from recovery.linux.files import servers_dir, sync_on_exit
from recovery.linux.loop_device import LoopDisk, image_path, unmount
from recovery.model import Verdict
from recovery.mysqld import startup
from recovery.mysqld.datadir import DataDirs, State
from recovery.storage.sessions import find_session, load_session

pytestmark = pytest.mark.real
VERSION = "5.7.22"
Fault = Callable[[], AbstractContextManager[None]]


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    need_disks()
    with small_disk(tmp_path_factory.mktemp("disks") / "large", 2400 << 20) as made:
        yield made


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Disk]:
    need_disks()
    with small_disk(tmp_path / "small", 64 << 20) as made:
        yield made


def measuring(data: Path, results: Path, *, runs: int = 2) -> list[str]:
    folders = ["--data", str(data), "--results", str(results)]
    return ["cold-recovery", "--version", VERSION, "--tables", "20", "--runs", str(runs), "--no-probe", *folders]


def states(data: Path) -> set[str]:
    return {one.status for one in DataDirs(data).list()}


def fault_of(disk: Disk, name: str) -> Fault:
    if name == "immutable":
        return lambda: immutable(next((disk.place / "data").glob("*/mysql")))
    fault: Fault = getattr(disk, name)
    return fault


@dataclass(frozen=True)
class Interrupted:
    """A session of two runs whose disk became full during the second."""

    code: int
    said: str
    error: str
    results: Path


@pytest.fixture(scope="module")
def interrupted(disk: Disk, module_settings: None, tmp_path_factory: pytest.TempPathFactory) -> Interrupted:
    results = tmp_path_factory.mktemp("interrupted") / "results"
    with failing(measuring(disk.place / "data", results), disk.full, once=", run 1:") as ended:
        return Interrupted(ended.code, ended.said, ended.error, results)


def test_a_full_disk_under_a_server_ends_the_session_and_keeps_finished_runs(
    interrupted: Interrupted, disk: Disk
) -> None:
    assert interrupted.code == 3
    assert "is full (0.0 MB free)" in interrupted.error
    assert "or name another disk with --data" in interrupted.error
    assert "recovery resume" in interrupted.said
    session = load_session(find_session(interrupted.results, None))
    assert session.status == "aborted"
    assert [(one.verdict, one.measure_again) for one in session.runs] == [
        (Verdict.MEASURED, False),
        (Verdict.VOID, True),
    ]
    assert "is full (0.0 MB free)" in (session.runs[1].reason or "")
    assert states(disk.place / "data") == {"in_use"}


@pytest.mark.parametrize(
    ("fault", "words"),
    [("without_inodes", "no inodes are left for"), ("read_only", "is read-only"), ("immutable", "may not write to")],
)
def test_other_faults_under_a_server_end_the_session_too(
    fault: str, words: str, interrupted: Interrupted, disk: Disk, tmp_path: Path
) -> None:
    """Each session begins with the directory that the one before has left in use, so it counts the rows again."""
    data, results = disk.place / "data", tmp_path / "results"
    once = "the rows were counted again"
    with failing(measuring(data, results, runs=1), fault_of(disk, fault), once=once) as ended:
        assert ended.code == 3
        assert words in ended.error
        assert "or name another disk with --data" in ended.error
        session = load_session(find_session(results, None))
        assert run(["report", "--results", str(results)]) == 0
    assert session.status == "aborted"
    assert [one.verdict for one in session.runs] == [Verdict.VOID]
    assert words in (session.runs[0].reason or "")
    assert states(data) == {"in_use"}


def test_a_resumed_session_measures_the_run_again_that_a_full_disk_made_void(
    interrupted: Interrupted, disk: Disk, capsys: pytest.CaptureFixture[str]
) -> None:
    results = interrupted.results
    before = load_session(find_session(results, None))
    first = next(results.glob("2*/runs/001.json")).read_bytes()
    assert run(["resume", "--results", str(results)]) == 0
    assert "is resumed: 1 of 2 runs have ended" in capsys.readouterr().err
    session = load_session(find_session(results, None))
    assert session.status == "finished"
    assert [one.verdict for one in session.runs] == [Verdict.MEASURED] * 2
    assert session.runs[0] == before.runs[0]
    assert next(results.glob("2*/runs/001.json")).read_bytes() == first
    (note,) = (note for note in session.notes if note.startswith("To be measured again: run 2 (5.7.22 cold), "))
    assert "is full (0.0 MB free)" in note
    assert states(disk.place / "data") == {"whole"}
    assert not list(disk.place.glob("data/*/copy*"))
    assert run(["resume", find_session(results, None).name, "--results", str(results)]) == 0


def test_a_full_disk_under_the_results_costs_no_stored_run(disk: Disk, small: Disk) -> None:
    results = small.place / "results"
    with failing(measuring(disk.place / "data", results), small.full, once=", run 1:") as ended:
        assert ended.code == 3
        assert "is full (0.0 MB free)" in ended.error
        assert "--results" in ended.error
        assert ", run 2: " in ended.said, "the run that could not be stored is shown"
    session = load_session(find_session(results, None))
    assert session.runs[0].verdict is Verdict.MEASURED
    assert session.status == "aborted"
    assert run(["report", "--results", str(results)]) == 0
    assert states(disk.place / "data") == {"whole"}
    assert not list(results.glob("*/.*")), "no partial file is left"


def test_a_data_directory_whose_build_failed_can_be_removed(disk: Disk, tmp_path: Path) -> None:
    data = disk.place / "more"
    with failing(measuring(data, tmp_path / "results"), disk.full, once="building 20 tables") as ended:
        assert ended.code == 3
        assert "is full" in ended.error
        assert not states(data) & {"whole", "in_use"}
        for one in DataDirs(data).list():  # as the hint of a full disk says
            assert run(["datadirs", "--data", str(data), "remove", one.key]) == 0
    assert not states(data)


def test_a_directory_is_removed_from_a_full_disk(small: Disk) -> None:
    with DataDirs(small.place).acquire("5.7.22-discovery-3-0123abcd") as made:
        made.save(State("whole"))
    with small.full():
        DataDirs(small.place).remove(made.path.name)
    assert not DataDirs(small.place).list()


def test_a_server_that_waits_for_disk_space_is_given_up(small: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """5.7 writes what it has in memory again and again, and would do so for ever; its part is played here."""
    monkeypatch.setattr(startup, "_DISK_FULL_S", 0.5)
    life = FakeLauncher([[60.0]]).launch(fake_launch(small.place))
    life.launch.datadir.mkdir()
    try:
        with small.full():
            reason = startup.wait_for_exit(life, 60.0)
    finally:
        life.signal(signal.SIGKILL)
        life.wait(60)
    assert reason == f"no space is left for {life.launch.datadir}"


@pytest.mark.parametrize("fault", ["full", "without_inodes", "read_only", "dead"])
def test_a_partly_installed_server_is_not_used(small: Disk, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_CACHE", str(small.place / "cache"))
    faults = ExitStack()

    def half(part: Path) -> Origin:
        (part / "tree" / "bin").mkdir(parents=True)
        (part / "tree" / "bin" / "mysqld").write_bytes(b"half of it")
        faults.enter_context(fault_of(small, fault)())
        (part / "tree" / "bin" / "mysqlbinlog").write_bytes(bytes(16 << 20))
        return Origin("file", "8.0.31", "a test", "here", "0123abcd", 1, "bin/mysqld")

    def whole(part: Path) -> Origin:
        (part / "tree" / "bin").mkdir(parents=True)
        (part / "tree" / "bin" / "mysqld").write_bytes(b"all of it")
        return Origin("file", "8.0.31", "a test", "here", "0123abcd", 1, "bin/mysqld")

    with faults, pytest.raises(StorageFailedError, match=r"full|inodes|read-only|fails") as caught:
        ensure_installed(InstallJob("8.0.31", lambda _: True, half), lambda _: None)
    assert "RECOVERY_CACHE=" in caught.value.hint
    assert install.installed_servers() == ()
    found = ensure_installed(InstallJob("8.0.31", lambda _: True, whole), lambda _: None)
    assert found.mysqld.read_bytes() == b"all of it"
    assert {entry.name for entry in servers_dir().iterdir()} == {".lock-8.0.31", found.folder.name}


def test_a_write_error_that_the_disk_reports_late_is_raised(tmp_path: Path) -> None:
    """A thin volume reports it when the pages are written back."""
    need_disks()
    thin, place = tmp_path / "thin", tmp_path / "thin" / "disk"
    thin.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(thin)), check=True)
    try:
        with image_path(place).open("wb") as file:
            file.truncate(256 << 20)
        subprocess.run(("mkfs.ext4", "-q", "-F", "-O", "^has_journal", str(image_path(place))), check=True)
        LoopDisk(image_path(place), place).mount()
        with pytest.raises(OSError, match="Input/output error"), sync_on_exit(place):
            (place / "file").write_bytes(os.urandom(64 << 20))
        unmount(place)
    finally:
        unmount(thin)
