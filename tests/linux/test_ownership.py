"""Who may change a file; and nothing that another user could change is run, trusted, changed or removed."""

from __future__ import annotations

import dataclasses
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from fakes import fake_launch
from otherusers import NOBODY, SOMEBODY, as_user, done_in_child, everybodys_folder, needs_root

from recovery.builds import executable, install, packages
from recovery.builds.download import cached_sha256
from recovery.builds.install import InstalledServer, InstallJob, Origin, ensure_installed
from recovery.builds.server_sources import find_own_server
from recovery.cli import main
from recovery.cli.doctor import space_checks
from recovery.errors import HostUnfitError, RecoveryError
from recovery.linux import cleanup, locks
from recovery.linux.docker_engine import endpoint
from recovery.linux.files import (
    create_private_folder,
    create_readable_folder,
    read_untrusted,
    remove_write_permissions,
    servers_dir,
    why_not_trusted,
    write_atomically,
)
from recovery.linux.locks import host_lock, take_lock
from recovery.mysqld.datadir import DataDirs, State, remove_leftover_copies
from recovery.mysqld.launcher import Exit, create_log
from recovery.mysqld.local import LocalLauncher
from recovery.session import progress
from recovery.session.store import check_results_folder

KEY = "5.7.22-discovery-3-0123abcd"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in which everybody may create files, as /tmp is."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    monkeypatch.setattr(locks, "_TIMEOUT_S", 0.0)
    with everybodys_folder() as folder:
        monkeypatch.setenv("RECOVERY_HOST_LOCK", str(folder / "lock"))
        yield folder


def folder_of(uid: int, path: Path) -> Path:
    path.mkdir(mode=0o755)
    os.chown(path, uid, uid)
    return path


# --- Modes


def test_no_umask_changes_the_modes_of_what_is_made(umask: int, tmp_path: Path) -> None:
    private, readable = tmp_path / "a/private", create_readable_folder(tmp_path / "b/readable")
    create_private_folder(private)
    assert [mode(path) for path in (private, private.parent, readable, readable.parent)] == [0o700, 0o700, 0o755, 0o700]
    os.close(create_log(tmp_path / "logs/start.log"))
    assert (mode(tmp_path / "logs"), mode(tmp_path / "logs/start.log") & 0o077) == (0o700, 0)
    lock = take_lock(tmp_path / "lock", mode=0o666)
    assert lock is not None
    assert mode(tmp_path / "lock") == 0o666
    lock.release()
    (tmp_path / "tree/deep").mkdir(parents=True)
    remove_write_permissions(tmp_path / "tree")
    assert {mode(tmp_path / place) for place in ("tree", "tree/deep")} == {0o755}


def test_the_command_creates_nothing_that_everybody_may_write(umask: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def umask_of_the_command() -> str:
        monkeypatch.setattr(main, "run", lambda _: 0)
        with suppress(SystemExit):
            main.main()
        return oct(os.umask(0))

    assert done_in_child(umask_of_the_command) == oct(umask | 0o002)


def test_who_may_write_to_a_path(tmp_path: Path) -> None:
    assert why_not_trusted(Path("/tmp")) is None, "everybody, but only to their own entries"
    assert why_not_trusted(Path("/dev/null")) == "everybody may write there"
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "broken").symlink_to("/nowhere/at/all")
    for nowhere in ("/nowhere/at/all", tmp_path / "round", tmp_path / "broken/below"):
        assert why_not_trusted(Path(nowhere)) is None


def test_a_folder_above_in_which_everybody_may_rename_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a/../a/b")
    for folder, mode_of_it, why in (
        (tmp_path, 0o777, f"everybody may write to {tmp_path}"),
        (tmp_path, 0o1777, None),
        (tmp_path / "a", 0o777, f"everybody may write to {tmp_path / 'a'}"),
        (tmp_path / "a", 0o775, None),
        (tmp_path / "a/b", 0o777, "everybody may write"),
        (tmp_path / "a/b", 0o1777, None),
    ):
        before = mode(folder)
        folder.chmod(mode_of_it)
        for path in (tmp_path / "a/b", tmp_path / "link", tmp_path / "a/b/missing/one"):
            found = why_not_trusted(path)
            assert (found is None) if why is None else (why in str(found)), (folder, oct(mode_of_it), path)
        folder.chmod(before)


@needs_root
@pytest.mark.parametrize(("gid", "who"), [(0, None), (SOMEBODY, f"user {SOMEBODY}")])
def test_a_group_with_another_member_is_not_trusted(gid: int, who: str | None, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    os.chown(folder, 0, gid)
    folder.chmod(0o775)
    assert why_not_trusted(folder) == (who and f"{who} may write there")
    assert why_not_trusted(folder / "mysqld") == (who and f"{who} may write to {folder}")
    folder.chmod(0o1775)
    assert why_not_trusted(folder) is None


def test_a_link_in_place_of_a_draft_is_not_followed(tmp_path: Path) -> None:
    precious, state = tmp_path / "precious", tmp_path / "state.json"
    precious.write_text("keep")
    (tmp_path / f".{state.name}.{os.getpid()}").symlink_to(precious)
    write_atomically(state, b"new")
    assert (precious.read_text(), state.read_text()) == ("keep", "new")
    assert not state.is_symlink()


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert read_untrusted(tmp_path / "pipe", 10) is None
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    with pytest.raises(OSError, match="symbolic"):
        read_untrusted(tmp_path / "link", 10)


# --- Locks, status and temporary files


def test_every_user_may_take_the_host_lock_and_see_its_holder(
    shared: Path, umask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/bin/recovery", "cold-recovery", "--note", "a\x1b[31mb"])
    with ExitStack() as held:
        with as_user(NOBODY, umask=umask):
            held.enter_context(host_lock())
        assert mode(shared / "lock") == 0o666
        for uid in (0, SOMEBODY):
            with (
                as_user(uid),
                pytest.raises(HostUnfitError, match=f"pid {os.getpid()} of nobody, `recovery cold-") as refused,
                host_lock(),
            ):
                pass
            assert "\x1b" not in refused.value.message, "it is printed on a terminal"
    with as_user(SOMEBODY, umask=umask), host_lock():
        pass
    with host_lock(), as_user(), pytest.raises(HostUnfitError, match=f"pid {os.getpid()} of root"), host_lock():
        pass


def test_a_status_file_of_another_user_is_ignored(shared: Path) -> None:
    lock = shared / "lock"
    with as_user():
        Path(f"{lock}.0.status").write_text("forged")
    assert list(progress.read_status_files(lock)) == []
    progress.write_status_file(progress.status_path(lock), "own")
    assert list(progress.read_status_files(lock)) == ["own"]


def test_root_keeps_no_results_where_another_user_could_put_a_link(shared: Path) -> None:
    theirs = folder_of(SOMEBODY, shared / "theirs")
    with pytest.raises(RecoveryError, match="belongs to") as caught:
        check_results_folder(theirs / "results")
    assert "--results" in caught.value.hint
    assert list(theirs.iterdir()) == []


# --- Data directories


def test_a_data_directory_of_another_user_is_left_alone(shared: Path) -> None:
    with ExitStack() as held:
        with as_user(NOBODY, umask=0):
            held.enter_context(DataDirs(shared).acquire(KEY)).save(State("new"))
        assert mode(shared / KEY) == 0o700
        for uid in (0, SOMEBODY):
            with as_user(uid):
                (info,) = DataDirs(shared).list()
            assert f"pid {os.getpid()} of nobody" in str(info.busy_by)
        with as_user(SOMEBODY), pytest.raises(HostUnfitError, match="belongs to nobody"):
            DataDirs(shared).acquire(KEY)
    with as_user(SOMEBODY), pytest.raises(HostUnfitError, match="belongs to nobody"):
        DataDirs(shared).acquire(KEY)


def test_a_folder_planted_in_place_of_a_data_directory_is_refused(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_of(SOMEBODY, shared / KEY).chmod(0o777)
    refused = f"the data directory {KEY} belongs to user {SOMEBODY}"
    with as_user(), pytest.raises(HostUnfitError, match=refused):
        DataDirs(shared).acquire(KEY)
    assert not (shared / f"{KEY}.lock").exists()
    (shared / KEY / "mysql").mkdir()
    (shared / KEY / "mysql/mysqld-auto.cnf").write_text("planted")
    for action in (DataDirs(shared).acquire, DataDirs(shared).remove):
        (shared / f"{KEY}.lock").touch()
        with pytest.raises(HostUnfitError, match=refused):
            action(KEY)
    assert (shared / KEY / "mysql/mysqld-auto.cnf").exists()
    assert mode(shared / KEY) == 0o777, "it is left alone"
    monkeypatch.setenv("SUDO_UID", str(SOMEBODY))
    (shared / KEY).chmod(0o755)
    with DataDirs(shared).acquire(KEY) as own:
        assert mode(own.path) == 0o700, "its owner called root"


def test_a_lock_planted_for_a_data_directory_is_refused(shared: Path) -> None:
    with as_user(SOMEBODY):
        (shared / f"{KEY}.lock").touch()
    with pytest.raises(HostUnfitError, match=f"the data directory {KEY} belongs to user {SOMEBODY}"):
        DataDirs(shared).acquire(KEY)
    assert not (shared / KEY).exists()


@pytest.mark.parametrize("open_mode", [0o777, 0o1777, 0o703])
def test_a_data_directory_that_everybody_could_write_to_is_refused_until_it_is_removed(
    tmp_path: Path, open_mode: int
) -> None:
    (tmp_path / KEY).mkdir()
    (tmp_path / f"{KEY}.lock").touch()
    (tmp_path / KEY / "mysqld-auto.cnf").write_text("planted")
    (tmp_path / KEY).chmod(open_mode)
    for _ in range(2):
        with pytest.raises(HostUnfitError, match=f"everybody may write to the data directory {KEY}") as caught:
            DataDirs(tmp_path).acquire(KEY)
        assert f"remove {KEY}" in caught.value.hint
    DataDirs(tmp_path).remove(KEY)
    with DataDirs(tmp_path).acquire(KEY) as own:
        assert list(own.path.iterdir()) == []


def test_a_data_directory_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / KEY).symlink_to("elsewhere")
    with pytest.raises(HostUnfitError):
        DataDirs(tmp_path).acquire(KEY)


def test_no_data_directory_is_made_below_a_folder_that_others_can_change(shared: Path) -> None:
    theirs, open_to_all = folder_of(NOBODY, shared / "theirs"), shared / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    for folder in (theirs, theirs / "deep/data", open_to_all, open_to_all / "data"):
        directories = DataDirs(folder)
        for action in (directories.check, lambda: directories.acquire(KEY)):  # noqa: B023 - called at once
            with pytest.raises(HostUnfitError, match=r"belongs to nobody|everybody may write") as caught:
                action()
            assert "give --data" in caught.value.hint
        assert [check.ok for check in space_checks(folder) if check.name == "who may write there"] == [False]
    assert list(theirs.iterdir()) == list(open_to_all.iterdir()) == [], "nothing was made there"
    assert not [check for check in space_checks(shared) if check.name == "who may write there"], "as /tmp is"


def test_the_copy_of_a_dead_run_in_another_users_data_directory_stays(shared: Path) -> None:
    (folder_of(NOBODY, shared / KEY) / "copy/mysql").mkdir(parents=True)
    dead = {"pid": 1, "command": "recovery crash-matrix", "since": "2026-11-22 06:00:00 UTC"}
    (shared / f"{KEY}.lock").write_text(json.dumps(dead))
    assert list(remove_leftover_copies(shared)) == []
    assert (shared / KEY / "copy/mysql").is_dir()


# --- Servers that root starts


@pytest.mark.parametrize("how", ["file", "folder", "above", "link"])
def test_root_runs_no_server_that_another_user_could_change(shared: Path, how: str) -> None:
    theirs = folder_of(NOBODY, shared / "theirs")
    given = shared / "own"
    (given / "bin").mkdir(parents=True)
    if how == "file":
        (given / "bin/mysqld").touch()
        os.chown(given / "bin/mysqld", NOBODY, NOBODY)
    elif how == "folder":
        given = theirs
        folder_of(NOBODY, theirs / "bin")
        (theirs / "bin/mysqld").touch()
    elif how == "above":
        given = theirs / "mysqld"
        given.touch()
    else:
        (theirs / "mysqld").touch()
        (given / "bin/mysqld").symlink_to(theirs / "mysqld")
    with pytest.raises(HostUnfitError, match="belongs to nobody") as caught:
        find_own_server(str(given), offline=True, say=lambda _: None)
    assert "chown -R root" in caught.value.hint


def test_everything_that_a_launch_uses_is_checked_right_before_it(shared: Path) -> None:
    own = folder_of(NOBODY, shared / "theirs") / "own"
    (own / "lib/plugin").mkdir(parents=True)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "mysqld").write_text("#!/bin/sh\n")
        (folder / "mysqld").chmod(0o755)
        (folder / "data").mkdir()
        plain = fake_launch(folder)
        build = dataclasses.replace(plain.build, mysqld=folder / "mysqld", basedir=folder)
        plain = dataclasses.replace(plain, build=build)
        for launch in (
            dataclasses.replace(plain, build=dataclasses.replace(build, mysqld=own / "mysqld")),
            dataclasses.replace(plain, build=dataclasses.replace(build, library_dirs=(own,))),
            dataclasses.replace(plain, build=dataclasses.replace(build, messages=own)),
            dataclasses.replace(plain, build=dataclasses.replace(build, scripts=(own,))),
            dataclasses.replace(plain, build=dataclasses.replace(build, basedir=own)),
            dataclasses.replace(plain, preload=(own / "library.so",)),
            dataclasses.replace(plain, datadir=own),
        ):
            with pytest.raises(HostUnfitError, match=f"{own.parent} belongs to nobody"):
                LocalLauncher().launch(launch)
            assert not launch.rundir.exists(), "nothing was made for it"
        assert LocalLauncher().launch(plain).wait(60) == Exit(code=0, signal=None)


# --- The cache of servers


def _fill(part: Path) -> Origin:
    (part / "tree/bin").mkdir(parents=True)
    (part / "tree/bin/mysqld").write_text("x")
    (part / "tree/bin/mysqld").chmod(0o755)
    return Origin("file", "", "own x", "x", "ab" * 32, 1, "bin/mysqld")


def install_server(say: Callable[[str], None] = lambda _: None) -> InstalledServer:
    return ensure_installed(InstallJob("x", lambda origin: origin.where == "x", _fill), say)


@pytest.fixture
def shared_cache(monkeypatch: pytest.MonkeyPatch, shared: Path) -> Path:
    monkeypatch.setenv("RECOVERY_CACHE", str(shared / "cache"))
    return shared / "cache"


def test_every_user_may_use_a_cache_that_root_has_filled(shared_cache: Path, umask: int) -> None:
    shared_cache.mkdir()
    shared_cache.chmod(0o755)
    server = install_server()
    for path in (servers_dir(), server.folder, server.mysqld.parent):
        assert mode(path) & 0o022 == 0
    with as_user():
        assert install.installed_servers() == (server,)


def test_nothing_is_run_from_a_cache_of_another_user(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder_of(NOBODY, folder_of(NOBODY, shared_cache) / "servers")
    refused = f"{shared_cache}/servers is not used: {shared_cache} belongs to nobody"
    for uid in (0, SOMEBODY):
        with as_user(uid), pytest.raises(HostUnfitError, match=refused):
            install.installed_servers()
    with as_user(NOBODY):
        assert install.installed_servers() == ()
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    assert install.installed_servers() == (), "root on behalf of the owner may use it"
    monkeypatch.delenv("SUDO_UID")
    for folder in (shared_cache, shared_cache / "servers"):
        os.chown(folder, 0, 0)
    (shared_cache / "servers").chmod(0o777)
    with pytest.raises(HostUnfitError, match="everybody may write there"):
        install.installed_servers()


def test_the_folder_above_a_cache_or_a_temporary_folder_must_be_trusted(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = folder_of(NOBODY, shared / "theirs")
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
    with as_user():
        (shared / "their-link").symlink_to(shared)
    monkeypatch.setenv("RECOVERY_CACHE", str(shared / "their-link/cache"))
    with pytest.raises(HostUnfitError, match=f"{shared}/their-link belongs to nobody"):
        servers_dir()


@pytest.mark.parametrize("change", ["owner", "folder", "program"])
def test_a_cached_server_that_others_could_change_is_replaced_by_another(shared_cache: Path, change: str) -> None:
    server = install_server()
    if change == "owner":
        os.chown(server.folder, SOMEBODY, SOMEBODY)
    else:
        (server.mysqld if change == "program" else server.mysqld.parent).chmod(0o777)
    assert install.installed_servers() == ()
    messages: list[str] = []
    other = install_server(messages.append)
    assert other.folder != server.folder
    assert server.mysqld.exists(), "it stays as it is"
    assert f"{server.folder} is not used: " in messages[0]
    assert ("everybody may write t" in messages[0]) == (change != "owner")
    assert install.installed_servers() == (other,)


def rewrite_record(server: InstalledServer, **changed: object) -> None:
    record = server.folder / "server.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), **changed}))


@pytest.mark.usefixtures("own_cache")
def test_unknown_keys_of_a_record_are_ignored() -> None:
    server = install_server()
    rewrite_record(server, signed_by="somebody", format=1)
    assert install.installed_servers() == (server,)


@pytest.mark.usefixtures("own_cache")
def test_a_record_of_a_later_format_is_kept_and_not_used() -> None:
    server = install_server()
    (server.folder / "server.json").write_text(json.dumps({"format": 2, "program": "elsewhere"}))
    assert install.installed_servers() == ()
    messages: list[str] = []
    other = install_server(messages.append)
    assert messages == [f"{server.folder} is not used: it was written by a newer version of this tool"]
    assert other.folder.name == f"{server.folder.name}-2"
    assert server.mysqld.exists(), "that version finds it again"
    assert install.installed_servers() == (other,)


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("place", ["../../../../bin/sh", "/bin/sh", 5])
def test_a_record_that_leads_out_of_its_folder_is_not_used(place: object) -> None:
    rewrite_record(install_server(), mysqld=place)
    assert install.installed_servers() == ()


@pytest.mark.usefixtures("own_cache")
def test_files_nested_too_deeply_are_damaged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    deep = b"[" * 100_000
    server = install_server()
    (server.folder / "server.json").write_bytes(deep)
    assert install.installed_servers() == ()
    assert install_server() == server
    found = cached_sha256(server.mysqld, server.found.checksum_file)
    server.found.checksum_file.write_bytes(deep)
    assert cached_sha256(server.mysqld, server.found.checksum_file) == found
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_bytes(deep)
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.delenv("DOCKER_CONTEXT", raising=False)
    with suppress(RecoveryError):  # whether there is an engine here or not
        endpoint()


# --- Unpacked libraries

LIBRARY = "usr/lib/x86_64-linux-gnu/libaio.so.1"


@pytest.fixture
def package(own_cache: Path) -> Path:
    """An unpacked package: the library's name is a link to the file."""
    folder = create_readable_folder(own_cache / "libraries/libaio1")
    (folder / "usr/lib/x86_64-linux-gnu").mkdir(parents=True)
    remove_write_permissions(folder)
    for name in ("libaio.so.1.0.2", "libz.so.1"):
        (folder / LIBRARY).with_name(name).touch(0o644)
    (folder / LIBRARY).symlink_to("libaio.so.1.0.2")
    (folder / "usr/masked.service").symlink_to("/dev/null")
    return folder


def test_a_library_that_only_this_user_can_change_is_used(package: Path) -> None:
    assert packages.find_unpacked("libaio1", "libaio.so.1") == package / LIBRARY


@pytest.mark.parametrize(
    "place", [".", "usr", "usr/lib", "usr/lib/x86_64-linux-gnu", LIBRARY, f"{LIBRARY}.0.2", f"{LIBRARY}/../libz.so.1"]
)
def test_no_library_is_used_that_others_could_change(place: str, package: Path) -> None:
    Path(os.path.normpath(package / place)).chmod(0o777)
    assert packages.find_unpacked("libaio1", "libaio.so.1") is None


@pytest.mark.parametrize("place", ["", "folder"])
def test_no_library_is_used_that_lies_elsewhere(place: str, package: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside" / place
    outside.mkdir(parents=True)
    (tmp_path / "outside").chmod(0o777)
    (outside / "libaio.so.1").touch(0o644)
    (package / LIBRARY).unlink()
    (package / LIBRARY).symlink_to(outside / "libaio.so.1")
    assert packages.find_unpacked("libaio1", "libaio.so.1") is None


@pytest.mark.parametrize("change", ["folder", "other", "link", "file"])
def test_a_folder_of_renamed_libraries_that_others_could_change_is_made_again(
    change: str, package: Path, tmp_path: Path
) -> None:
    library, evil = (package / LIBRARY).with_name("libaio.so.1.0.2"), tmp_path / "evil.so"
    evil.touch(0o644)
    folder = executable._link_renamed_library("libaio.so.1", library)
    if change == "folder":
        (folder / "libc.so.6").touch(0o644)
        folder.chmod(0o777)
    elif change == "other":
        (folder / "libc.so.6").touch()
        (folder / "libc.so.6").chmod(0o666)
    else:
        (folder / "libaio.so.1").unlink()
        (folder / "libaio.so.1").symlink_to(evil) if change == "link" else (folder / "libaio.so.1").touch(0o644)
    assert executable._link_renamed_library("libaio.so.1", library) == folder
    assert [path.name for path in folder.iterdir()] == ["libaio.so.1"]
    assert (folder / "libaio.so.1").readlink() == library
    assert mode(folder) == 0o755


# --- Files that name a server


def test_settings_and_sessions_of_another_user_name_no_server(
    shared: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(shared)
    config = shared / "recovery.toml"
    config.write_text('mysqld = "/tmp/evil"')
    for uid, file_mode, why in ((NOBODY, 0o644, "it belongs to nobody"), (0, 0o666, "everybody may write there")):
        os.chown(config, uid, uid)
        config.chmod(file_mode)
        assert main.run(["cold-recovery", "--dry-run"]) == 2
        error = capsys.readouterr().err
        assert "recovery.toml is not trusted: " in error
        assert why in error
    monkeypatch.setenv("RECOVERY_CONFIG", "recovery.toml")
    assert main.run(["cold-recovery", "--dry-run"]) == 2
    assert "--mysqld / MYSQLD: /tmp/evil: there is no such file" in capsys.readouterr().err, "named on purpose"
    monkeypatch.delenv("RECOVERY_CONFIG")
    config.unlink()
    session = folder_of(NOBODY, folder_of(NOBODY, shared / "results") / "s")
    (session / "report.json").write_text("{}")
    assert main.run(["warm-recovery", "--dry-run"]) == 2
    assert f"cannot be used: {shared}/results belongs to nobody" in capsys.readouterr().err
