"""Two users of one host: who holds its lock is told to both, and nothing of the other's is run, believed or changed."""

from __future__ import annotations

import dataclasses
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import fake_launch
from otherusers import NOBODY, SOMEBODY, done_as, everybodys_folder, going_on_as, needs_root

from recovery.builds import install
from recovery.builds.install import InstallJob, Origin, ensure_installed
from recovery.builds.server_sources import find_own_server
from recovery.cli.doctor import space_checks
from recovery.cli.main import run
from recovery.errors import HostUnfitError
from recovery.linux import cleanup, locks
from recovery.linux.files import servers_dir
from recovery.linux.locks import host_lock
from recovery.mysqld.datadir import DataDirs, remove_leftover_copies
from recovery.mysqld.launcher import Exit
from recovery.mysqld.local import LocalLauncher
from recovery.session import progress as session_progress

pytestmark = needs_root

HOLD = """
os.environ["RECOVERY_HOST_LOCK"] = given[0]
sys.argv = ["/usr/bin/recovery", "cold-recovery", "--note", "a\\x1b[31mb"]
with locks.host_lock():
    print("held", flush=True)
    sys.stdin.read()
"""
TAKE = """
os.environ["RECOVERY_HOST_LOCK"] = given[0]
try:
    with locks.host_lock():
        print("taken")
except RecoveryError as error:
    print(error.message)
"""
ACQUIRE = """
try:
    datadir.DataDirs(Path(given[0])).acquire("5.7.22-discovery-3-0123abcd")
    print("acquired")
except RecoveryError as error:
    print(error.message)
"""
KEY = "5.7.22-discovery-3-0123abcd"


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with everybodys_folder() as folder:
        monkeypatch.setenv("RECOVERY_HOST_LOCK", str(folder / "lock"))
        yield folder


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_whoever_made_the_lock_everybody_may_take_it(shared: Path, umask: int) -> None:
    where = str(shared / "lock")
    with going_on_as(HOLD, where, umask=umask) as child:
        assert stat.S_IMODE((shared / "lock").stat().st_mode) == 0o666
        with (
            pytest.raises(HostUnfitError, match=f"in progress: pid {child.pid} of nobody, `recovery cold-") as root,
            host_lock(),
        ):
            pass
        assert "\x1b" not in root.value.message, "it ends on a terminal"
        assert f"pid {child.pid} of nobody" in done_as(TAKE, where, uid=SOMEBODY)
    assert done_as(TAKE, where, uid=SOMEBODY, umask=umask) == "taken"
    with host_lock():
        assert f"pid {os.getpid()} of root" in done_as(TAKE, where)


def test_what_is_no_lock_is_not_taken_for_one(shared: Path) -> None:
    """Somebody else was first: with a pipe, on which one would wait for ever, or a link to what one may write."""
    precious = shared / "precious"
    precious.write_text("keep")
    path = shared / "lock"
    for make in (os.mkfifo, lambda path: path.symlink_to(precious), lambda path: path.hardlink_to(precious)):
        make(path)
        with pytest.raises(HostUnfitError, match="cannot be taken"), host_lock():
            pass
        assert locks.lock_holder(path) is None
        path.unlink()
    assert precious.read_text() == "keep"


def test_words_in_a_lock_are_anybody_s(shared: Path) -> None:
    path = shared / "lock"
    path.write_text('{"pid": 1, "command": "a\\u001b]0;b\\n' + "x" * 9000 + '", "since": "s", "uid": "x", "more": 1}')
    path.chmod(0o666)
    with going_on_as("import fcntl\nf = open(given[0])\nfcntl.flock(f, 2)\nprint('held', flush=True)\nsys.stdin.read()",
                     str(path)):  # fmt: skip
        told = locks.lock_holder(path)
    assert told is not None
    assert told.isprintable()
    assert len(told) < 400


def test_another_s_data_directory_is_left_alone(shared: Path) -> None:
    with going_on_as(
        "with datadir.DataDirs(Path(given[0])).acquire(given[1]) as one:\n"
        "    one.save(datadir.State('new'))\n    print('held', flush=True)\n    sys.stdin.read()",
        str(shared), KEY, umask=0o000,
    ) as child:  # fmt: skip
        assert stat.S_IMODE((shared / KEY).stat().st_mode) == 0o700
        (info,) = DataDirs(shared).list()
        assert f"pid {child.pid} of nobody" in str(info.busy_by)
        assert "belongs to nobody" in done_as(ACQUIRE, str(shared), uid=SOMEBODY)
        told = done_as("print(datadir.DataDirs(Path(given[0])).list()[0].busy_by)", str(shared), uid=SOMEBODY)
        assert f"pid {child.pid} of nobody" in told, "who holds it may be read"
    assert "belongs to nobody" in done_as(ACQUIRE, str(shared), uid=SOMEBODY)


def test_a_folder_that_somebody_has_put_there_is_not_taken(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named like the directory that is about to be made."""
    done_as("Path(given[0]).mkdir(); Path(given[0]).chmod(0o777)", str(shared / KEY), uid=SOMEBODY)
    assert done_as(ACQUIRE, str(shared)) == f"the data directory {KEY} belongs to user {SOMEBODY}"
    assert not (shared / f"{KEY}.lock").exists()
    (shared / KEY / "mysql").mkdir()
    (shared / KEY / "mysql/mysqld-auto.cnf").write_text("planted")
    for action in (DataDirs(shared).acquire, DataDirs(shared).remove):
        (shared / f"{KEY}.lock").touch()
        with pytest.raises(HostUnfitError, match=f"the data directory {KEY} belongs to user {SOMEBODY}"):
            action(KEY)
    assert (shared / KEY / "mysql/mysqld-auto.cnf").exists()
    assert stat.S_IMODE((shared / KEY).stat().st_mode) == 0o777, "it is left alone"
    monkeypatch.setenv("SUDO_UID", str(SOMEBODY))
    (shared / KEY).chmod(0o755)
    with DataDirs(shared).acquire(KEY) as own:
        assert stat.S_IMODE(own.path.stat().st_mode) == 0o700, "root has been called by its owner"


def test_a_lock_that_somebody_has_put_there_is_not_taken(shared: Path) -> None:
    done_as("Path(given[0]).touch()", str(shared / f"{KEY}.lock"), uid=SOMEBODY)
    with pytest.raises(HostUnfitError, match=f"the data directory {KEY} belongs to user {SOMEBODY}"):
        DataDirs(shared).acquire(KEY)
    assert not (shared / KEY).exists()


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o703])
def test_a_data_directory_that_was_open_is_not_used(shared: Path, mode: int) -> None:
    """Its content may be anybody's; closed without a word it would be used the next time."""
    (shared / KEY).mkdir()
    (shared / f"{KEY}.lock").touch()
    (shared / KEY).chmod(mode)
    done_as("Path(given[0]).write_text('planted')", str(shared / KEY / "mysqld-auto.cnf"), uid=SOMEBODY, umask=0)
    for _ in range(2):
        with pytest.raises(HostUnfitError, match=f"everybody may write to the data directory {KEY}") as caught:
            DataDirs(shared).acquire(KEY)
        assert f"remove {KEY}" in caught.value.hint
    DataDirs(shared).remove(KEY)
    with DataDirs(shared).acquire(KEY) as own:
        assert list(own.path.iterdir()) == []


def test_a_data_directory_that_is_a_link_is_not_followed(shared: Path) -> None:
    (shared / "elsewhere").mkdir()
    (shared / KEY).symlink_to("elsewhere")
    with pytest.raises(HostUnfitError):
        DataDirs(shared).acquire(KEY)


def test_no_data_below_a_folder_that_others_can_change(shared: Path) -> None:
    theirs, open_to_all = shared / "theirs", shared / "open"
    done_as("Path(given[0]).mkdir(0o755)", str(theirs))
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    for folder in (theirs, theirs / "deep/data", open_to_all, open_to_all / "data"):
        directories = DataDirs(folder)
        for action in (directories.check, lambda: directories.acquire(KEY)):  # noqa: B023 - called at once
            with pytest.raises(HostUnfitError, match=r"belongs to nobody|everybody may write") as caught:
                action()
            assert "give DATA=" in caught.value.hint
        assert [check.ok for check in space_checks(folder) if check.name == "who may write there"] == [False]
    assert list(theirs.iterdir()) == list(open_to_all.iterdir()) == [], "nothing was made there"
    assert not [check for check in space_checks(shared) if check.name == "who may write there"], "as /tmp is"


def test_a_copy_beside_another_s_data_directory_is_left_alone(shared: Path) -> None:
    """As it lies where a killed run has left one, with a lock of root's beside it."""
    done_as("Path(given[0], 'copy/mysql').mkdir(parents=True)", str(shared / KEY))
    dead = {"pid": 1, "command": "recovery crash-matrix", "since": "2026-11-22 06:00:00 UTC"}
    (shared / f"{KEY}.lock").write_text(json.dumps(dead))
    assert list(remove_leftover_copies(shared)) == []
    assert (shared / KEY / "copy/mysql").is_dir()


@pytest.mark.parametrize("how", ["file", "folder", "above", "link"])
def test_root_runs_no_server_that_another_could_change(shared: Path, how: str) -> None:
    theirs, own = shared / "theirs", shared / "own"
    done_as("Path(given[0], 'bin').mkdir(parents=True)\nPath(given[0], 'bin/mysqld').touch()", str(theirs))
    (own / "bin").mkdir(parents=True)
    given = own
    if how == "file":
        (own / "bin/mysqld").touch()
        os.chown(own / "bin/mysqld", NOBODY, NOBODY)
    elif how == "folder":
        given = theirs
    elif how == "above":
        (theirs / "root-s").mkdir()
        given = theirs / "root-s/mysqld"
        given.touch()
    else:
        (own / "bin/mysqld").symlink_to(theirs / "bin/mysqld")
    with pytest.raises(HostUnfitError, match="belongs to nobody") as caught:
        find_own_server(str(given), offline=True, say=lambda _: None)
    assert "chown -R root" in caught.value.hint


def test_what_is_started_is_looked_at_right_before(shared: Path) -> None:
    """Whatever happened to it since it was found."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "mysqld").write_text("#!/bin/sh\n")
        (folder / "mysqld").chmod(0o755)
        (folder / "library.so").touch()
        (folder / "data").mkdir()
        plain = fake_launch(folder)
        build = dataclasses.replace(plain.build, mysqld=folder / "mysqld", basedir=folder)
        theirs = shared / "theirs"
        done_as("Path(given[0]).mkdir(0o755)", str(theirs))
        (theirs / "own/lib/plugin").mkdir(parents=True)
        for launch in (
            dataclasses.replace(plain, build=dataclasses.replace(build, mysqld=theirs / "own/mysqld")),
            dataclasses.replace(plain, build=dataclasses.replace(build, library_dirs=(theirs / "own",))),
            dataclasses.replace(plain, build=dataclasses.replace(build, messages=theirs / "own")),
            dataclasses.replace(plain, build=dataclasses.replace(build, scripts=(theirs / "own",))),
            dataclasses.replace(plain, build=dataclasses.replace(build, basedir=theirs / "own")),
            dataclasses.replace(plain, build=build, preload=(theirs / "own/library.so",)),
            dataclasses.replace(plain, build=build, datadir=theirs / "own"),
        ):
            with pytest.raises(HostUnfitError, match=f"{theirs} belongs to nobody"):
                LocalLauncher().launch(launch)
            assert not launch.rundir.exists(), "nothing was made for it"
        assert LocalLauncher().launch(dataclasses.replace(plain, build=build)).wait(60) == Exit(code=0, signal=None)


def test_no_status_of_another_is_believed(shared: Path) -> None:
    lock = shared / "lock"
    done_as("Path(given[0]).write_text('forged')", f"{lock}.0.status")
    os.mkfifo(f"{lock}.1.status")
    assert list(session_progress.read_status_files(lock)) == []
    session_progress.write_status_file(session_progress.status_path(lock), "own")
    assert list(session_progress.read_status_files(lock)) == ["own"]


def test_temporary_folders_of_others_stay(shared: Path) -> None:
    """Root may remove all; what bears the mark of one that is gone is its owner's to remove."""
    left = done_as("print(cleanup.make_temp_folder(given[0]))", str(shared), uid=SOMEBODY)
    trap = shared / "recovery-trap"
    trap.mkdir()
    os.mkfifo(trap / "owner")
    assert cleanup.is_abandoned_temp_folder(Path(left))
    assert cleanup.sweep_temp_folders_in(shared) == 0
    assert Path(left).is_dir()


def _fill(part: Path) -> Origin:
    (part / "tree/bin").mkdir(parents=True)
    (part / "tree/bin/mysqld").write_text("x")
    (part / "tree/bin/mysqld").chmod(0o755)
    return Origin("file", "", "own x", "x", "ab" * 32, 1, "bin/mysqld")


def _obtained(said: list[str]) -> install.InstalledServer:
    return ensure_installed(InstallJob("x", lambda origin: origin.where == "x", _fill), said.append)


SEEN = """
os.environ["RECOVERY_CACHE"] = given[0]
try:
    print(len(install.installed_servers()))
except RecoveryError as error:
    print(error.message)
"""


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_what_root_has_put_into_a_shared_cache_all_may_use(
    shared: Path, umask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOVERY_CACHE", str(shared / "cache"))
    (shared / "cache").mkdir(mode=0o755)
    before = os.umask(umask)
    try:
        server = _obtained([])
    finally:
        os.umask(before)
    for path in (servers_dir(), server.folder, server.mysqld.parent):
        assert stat.S_IMODE(path.stat().st_mode) & 0o022 == 0
    assert done_as(SEEN, str(shared / "cache")) == "1"


def test_a_cache_of_one_s_own_is_private(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_CACHE", str(shared / "deep/cache"))
    before = os.umask(0)
    try:
        _obtained([])
    finally:
        os.umask(before)
    assert {stat.S_IMODE((shared / place).stat().st_mode) for place in ("deep", "deep/cache")} == {0o700}


def test_nothing_is_run_out_of_another_s_cache(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done_as(
        "os.environ['RECOVERY_CACHE'] = given[0]\nfiles.create_readable_folder(files.servers_dir())\n"
        "Path(given[0]).chmod(0o755)", str(shared / "cache"),
    )  # fmt: skip
    monkeypatch.setenv("RECOVERY_CACHE", str(shared / "cache"))
    with pytest.raises(HostUnfitError, match=f"{shared}/cache/servers is not used: {shared}/cache belongs to nobody"):
        install.installed_servers()
    assert "belongs to nobody" in done_as(SEEN, str(shared / "cache"), uid=SOMEBODY)
    assert done_as(SEEN, str(shared / "cache")) == "0"
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    assert install.installed_servers() == (), "who has become root on their behalf may use theirs"
    monkeypatch.delenv("SUDO_UID")
    monkeypatch.setenv("RECOVERY_CACHE", str(shared))
    (shared / "servers").mkdir()
    (shared / "servers").chmod(0o777)
    with pytest.raises(HostUnfitError, match="everybody may write there"):
        install.installed_servers()


def test_the_folder_above_a_cache_or_a_folder_for_temporary_files_counts(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner can put another one in the place of what lies in it."""
    theirs = shared / "theirs"
    done_as("Path(given[0]).mkdir(0o755)", str(theirs))
    (theirs / "cache").mkdir()
    (theirs / "temporary").mkdir()
    (shared / "link").symlink_to(theirs)
    for above in (theirs, shared / "link"):
        monkeypatch.setenv("RECOVERY_CACHE", str(above / "cache"))
        with pytest.raises(HostUnfitError, match=f"{theirs} belongs to nobody"):
            servers_dir()
        with pytest.raises(HostUnfitError, match=f"{theirs} belongs to nobody"):
            cleanup.make_temp_folder(str(above / "temporary"))
    assert list((theirs / "temporary").iterdir()) == []
    done_as("Path(given[1]).symlink_to(given[0])", str(shared), str(shared / "their-link"))
    monkeypatch.setenv("RECOVERY_CACHE", str(shared / "their-link/cache"))
    with pytest.raises(HostUnfitError, match=f"{shared}/their-link belongs to nobody"):
        servers_dir()


@pytest.mark.parametrize("spoil", ["owner", "folder", "program"])
def test_a_server_that_others_could_change_is_set_aside(
    shared: Path, spoil: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOVERY_CACHE", str(shared / "cache"))
    server = _obtained([])
    if spoil == "owner":
        os.chown(server.folder, SOMEBODY, SOMEBODY)
    elif spoil == "folder":
        server.mysqld.parent.chmod(0o777)
    else:
        server.mysqld.chmod(0o777)
    assert install.installed_servers() == ()
    said: list[str] = []
    other = _obtained(said)
    assert other.folder != server.folder
    assert server.mysqld.exists(), "it stays as it is"
    assert f"{server.folder} is not used: " in said[0]
    assert ("everybody may write t" in said[0]) == (spoil != "owner")
    assert install.installed_servers() == (other,)


def test_a_folder_of_another_s_names_no_server(
    shared: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As /tmp may be one's current folder."""
    monkeypatch.chdir(shared)
    done_as("Path(given[0]).write_text('mysqld = \"/tmp/evil\"')", str(shared / "recovery.toml"))
    assert run(["cold-recovery", "--dry-run"]) == 2
    assert "recovery.toml is not trusted: it belongs to nobody" in capsys.readouterr().err
    os.chown("recovery.toml", 0, 0)
    (shared / "recovery.toml").chmod(0o666)
    assert run(["cold-recovery", "--dry-run"]) == 2
    assert "everybody may write there" in capsys.readouterr().err
    monkeypatch.setenv("RECOVERY_CONFIG", "recovery.toml")
    assert run(["cold-recovery", "--dry-run"]) == 0
    assert "server /tmp/evil" in capsys.readouterr().out, "who names it means it"
    monkeypatch.delenv("RECOVERY_CONFIG")
    (shared / "recovery.toml").unlink()
    code = "Path(given[0], 's').mkdir(parents=True); Path(given[0], 's', 'report.json').write_text('{}')"
    done_as(code, str(shared / "results"), umask=0o022)
    assert run(["warm-recovery", "--dry-run"]) == 2
    assert f"cannot be used: {shared}/results belongs to nobody" in capsys.readouterr().err
