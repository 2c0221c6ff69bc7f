"""Storage that fails under real servers: does every session end clearly, with what was finished, and is nothing trusted
that should not be?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
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
from recovery.report.stored_session import find_session, load_session

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


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("full", "is full (0.0 MB free)"),
        ("without_inodes", "no inodes are left for"),
        ("read_only", "is read-only"),
        ("immutable", "may not write to"),
    ],
)
def test_under_a_server_it_ends_the_session_and_keeps_what_was_finished(
    fault: str, words: str, disk: Disk, tmp_path: Path
) -> None:
    """Each goes on with the directory that the one before has left: dirty, and counted anew."""
    data, results = disk.place / "data", tmp_path / "results"
    before = states(data)
    with failing(measuring(data, results), fault_of(disk, fault), once="cold run 1:") as ended:
        assert ended.code == 3
        assert words in ended.error
        assert "or name another disk with DATA=" in ended.error
        session = load_session(find_session(results, None))
        assert run(["report", "--results", str(results)]) == 0
    assert ("the rows were counted again" in ended.said) == ("in_use" in before)
    assert session.status == "aborted"
    assert [one.verdict for one in session.runs] == [Verdict.MEASURED, Verdict.VOID]
    assert words in (session.runs[1].reason or "")
    assert states(data) == {"in_use"}


def test_once_there_is_room_again_the_run_that_it_came_upon_is_measured_again(
    disk: Disk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And no other; that it was void before is told."""
    data, results = disk.place / "data", tmp_path / "results"
    with failing(measuring(data, results, runs=3), disk.full, once="cold run 1:") as ended:
        assert ended.code == 3
        assert "run --resume" in ended.said
    before = load_session(find_session(results, None))
    assert [(one.verdict, one.measure_again) for one in before.runs] == [
        (Verdict.MEASURED, False),
        (Verdict.VOID, True),
    ]
    first = next(results.glob("2*/runs/001.json")).read_bytes()
    assert run(["run", "--resume", "--results", str(results)]) == 0
    assert "is resumed: 1 of 3 runs have ended" in capsys.readouterr().err
    session = load_session(find_session(results, None))
    assert session.status == "finished"
    assert [one.verdict for one in session.runs] == [Verdict.MEASURED] * 3
    assert session.runs[0] == before.runs[0]
    assert next(results.glob("2*/runs/001.json")).read_bytes() == first
    (told,) = (note for note in session.notes if note.startswith("To be measured again: run 2 (5.7.22 cold), "))
    assert "is full (0.0 MB free)" in told
    assert states(data) == {"whole"}
    assert run(["run", "--resume", find_session(results, None).name, "--results", str(results)]) == 0


def test_under_the_results_it_costs_no_run_that_was_kept(disk: Disk, small: Disk) -> None:
    results = small.place / "results"
    with failing(measuring(disk.place / "data", results), small.full, once="cold run 1:") as ended:
        assert ended.code == 3
        assert "is full (0.0 MB free)" in ended.error
        assert "RESULTS=" in ended.error
        assert "cold run 2: " in ended.said, "what could not be kept was told"
    session = load_session(find_session(results, None))
    assert session.runs[0].verdict is Verdict.MEASURED
    assert session.status == "aborted"
    assert run(["report", "--results", str(results)]) == 0
    assert states(disk.place / "data") == {"whole"}
    assert not list(results.glob("*/.*")), "half a file"


def test_a_directory_that_was_being_built_is_begun_anew(disk: Disk, tmp_path: Path) -> None:
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


def test_a_server_that_waits_for_room_is_not_waited_for(small: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """5.7 writes what it has in memory again and again, and would do so for ever; its part is played here."""
    monkeypatch.setattr(startup, "_DISK_FULL_S", 0.5)
    life = FakeLauncher([[60.0]]).launch(fake_launch(small.place))
    life.launch.datadir.mkdir()
    try:
        with small.full():
            told = startup.wait_for_exit(life, 60.0)
    finally:
        life.signal(signal.SIGKILL)
        life.wait(60)
    assert told == f"no space is left for {life.launch.datadir}"


@pytest.mark.parametrize("fault", ["full", "without_inodes", "read_only", "dead"])
def test_no_half_server_is_trusted_later(small: Disk, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
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

    with faults, pytest.raises(StorageFailedError, match=r"full|inodes|read-only|fails") as told:
        ensure_installed(InstallJob("8.0.31", lambda _: True, half), lambda _: None)
    assert "RECOVERY_CACHE=" in told.value.hint
    assert install.installed_servers() == ()
    found = ensure_installed(InstallJob("8.0.31", lambda _: True, whole), lambda _: None)
    assert found.mysqld.read_bytes() == b"all of it"
    assert {entry.name for entry in servers_dir().iterdir()} == {".lock-8.0.31", found.folder.name}


def test_what_a_disk_refused_when_all_was_written_is_told(tmp_path: Path) -> None:
    """A thin volume says so once the pages are written back, to nobody."""
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


def test_nothing_of_all_this_is_mounted_when_a_report_is_asked_for(disk: Disk, tmp_path: Path) -> None:
    """And a directory that all of these had in hand is as good as ever."""
    results = tmp_path / "results"
    assert run(measuring(disk.place / "data", results, runs=1)) == 0
    report = json.loads((results / "latest" / "report.json").read_text(encoding="utf-8"))
    assert report["status"] == "finished"
    assert states(disk.place / "data") == {"whole"}
    assert not list(disk.place.glob("data/*/copy*"))
