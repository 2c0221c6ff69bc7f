"""Who may change a file, as its modes say; made where umasks differ. Other users' are in test_two_users.py."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from otherusers import SOMEBODY, needs_root

from recovery.builds import executable, install, packages
from recovery.builds.download import cached_sha256
from recovery.builds.install import InstalledServer, InstallJob, Origin, ensure_installed
from recovery.errors import RecoveryError
from recovery.linux.docker_engine import endpoint
from recovery.linux.files import (
    create_private_folder,
    create_readable_folder,
    read_untrusted,
    remove_write_permissions,
    why_not_trusted,
    write_atomically,
)
from recovery.linux.locks import take_lock
from recovery.mysqld.launcher import create_log
from recovery.session.store import check_results_folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_no_umask_opens_or_closes_what_is_made(tmp_path: Path) -> None:
    private, readable = create_private_folder(tmp_path / "a/private"), create_readable_folder(tmp_path / "b/readable")
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


def test_who_may_write() -> None:
    assert why_not_trusted(Path("/tmp")) is None, "everybody, but only to what is their own"
    assert why_not_trusted(Path("/nowhere/at/all")) is None
    assert why_not_trusted(Path("/dev/null")) == "everybody may write there"


def test_where_everybody_may_rename(tmp_path: Path) -> None:
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
def test_a_group_with_somebody_else_in_it(gid: int, who: str | None, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    os.chown(folder, 0, gid)
    folder.chmod(0o775)
    assert why_not_trusted(folder) == (who and f"{who} may write there")
    assert why_not_trusted(folder / "mysqld") == (who and f"{who} may write to {folder}")
    folder.chmod(0o1775)
    assert why_not_trusted(folder) is None


@needs_root
def test_root_keeps_no_results_where_another_user_could_put_a_link(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", SOMEBODY, SOMEBODY)
    with pytest.raises(RecoveryError, match="belongs to") as caught:
        check_results_folder(tmp_path / "theirs" / "results")
    assert "RESULTS=" in caught.value.hint
    assert list((tmp_path / "theirs").iterdir()) == []


def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "broken").symlink_to("/nowhere/at/all")
    assert why_not_trusted(tmp_path / "round") is None
    assert why_not_trusted(tmp_path / "broken/below") is None


def test_a_link_that_lies_in_the_way_is_not_followed(tmp_path: Path) -> None:
    precious, state = tmp_path / "precious", tmp_path / "state.json"
    precious.write_text("keep")
    (tmp_path / f".{state.name}.{os.getpid()}").symlink_to(precious)
    write_atomically(state, b"new")
    assert (precious.read_text(), state.read_text()) == ("keep", "new")
    assert not state.is_symlink()


def test_what_is_no_plain_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert read_untrusted(tmp_path / "pipe", 10) is None
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    with pytest.raises(OSError, match="symbolic"):
        read_untrusted(tmp_path / "link", 10)


def _fill(part: Path) -> Origin:
    (part / "tree/bin").mkdir(parents=True)
    (part / "tree/bin/mysqld").write_text("x")
    return Origin("file", "", "own x", "x", "ab" * 32, 1, "bin/mysqld")


def _obtained(said: list[str]) -> InstalledServer:
    return ensure_installed(InstallJob("x", lambda origin: origin.where == "x", _fill), said.append)


def _rewritten(server: InstalledServer, **changed: object) -> None:
    record = server.folder / "server.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), **changed}))


def test_what_a_later_tool_has_put_into_a_record_is_no_harm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RECOVERY_CACHE", str(tmp_path / "cache"))
    server = _obtained([])
    _rewritten(server, signed_by="somebody", format=1)
    assert install.installed_servers() == (server,)


def test_a_record_of_a_later_format_is_set_aside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RECOVERY_CACHE", str(tmp_path / "cache"))
    server = _obtained([])
    (server.folder / "server.json").write_text(json.dumps({"format": 2, "program": "elsewhere"}))
    assert install.installed_servers() == ()
    said: list[str] = []
    other = _obtained(said)
    assert said == [f"{server.folder} is not used: it was written by a newer version of this tool"]
    assert other.folder.name == f"{server.folder.name}-2"
    assert server.mysqld.exists(), "that version finds it again"
    assert install.installed_servers() == (other,)


DEEP = b"[" * 100_000


def test_what_is_nested_too_deeply_is_damaged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A record is no server then, and what is remembered is found out again."""
    monkeypatch.setenv("RECOVERY_CACHE", str(tmp_path / "cache"))
    server = _obtained([])
    (server.folder / "server.json").write_bytes(DEEP)
    assert install.installed_servers() == ()
    assert _obtained([]) == server
    found = cached_sha256(server.mysqld, server.found.checksum_file)
    server.found.checksum_file.write_bytes(DEEP)
    assert cached_sha256(server.mysqld, server.found.checksum_file) == found
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_bytes(DEEP)
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.delenv("DOCKER_CONTEXT", raising=False)
    with suppress(RecoveryError):  # whether there is an engine here or not
        endpoint()


@pytest.mark.parametrize("place", ["../../../../bin/sh", "/bin/sh", 5])
def test_no_record_leads_out_of_its_folder(place: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RECOVERY_CACHE", str(tmp_path / "cache"))
    server = _obtained([])
    _rewritten(server, mysqld=place)
    assert install.installed_servers() == ()


def test_the_command_leaves_nothing_for_everybody_to_write() -> None:
    code = (
        "import os, sys\nfrom recovery.cli import main as cli\nos.umask(int(sys.argv.pop(), 8))\n"
        "try:\n    cli.main()\nexcept SystemExit:\n    print(oct(os.umask(0)))"
    )
    for umask, then in (("000", "0o2"), ("022", "0o22"), ("077", "0o77")):
        done = subprocess.run(
            [sys.executable, "-c", code, "--version", umask], capture_output=True, text=True, check=True
        )
        assert done.stdout.split()[-1] == then


LIBRARY = "usr/lib/x86_64-linux-gnu/libaio.so.1"


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """One that was unpacked: the library's name is a link to the file."""
    monkeypatch.setenv("RECOVERY_CACHE", str(tmp_path / "cache"))
    folder = create_readable_folder(tmp_path / "cache/libraries/libaio1")
    (folder / "usr/lib/x86_64-linux-gnu").mkdir(parents=True)
    remove_write_permissions(folder)
    for name in ("libaio.so.1.0.2", "libz.so.1"):
        (folder / LIBRARY).with_name(name).touch(0o644)
    (folder / LIBRARY).symlink_to("libaio.so.1.0.2")
    (folder / "usr/masked.service").symlink_to("/dev/null")
    return folder


def test_a_package_that_is_ours_alone_is_used(package: Path) -> None:
    assert packages.find_unpacked("libaio1", "libaio.so.1") == package / LIBRARY


@pytest.mark.parametrize("place", [".", "usr", "usr/lib", "usr/lib/x86_64-linux-gnu", LIBRARY, f"{LIBRARY}.0.2"])
def test_no_library_is_used_that_others_could_change(place: str, package: Path) -> None:
    (package / place).chmod(0o777)
    assert packages.find_unpacked("libaio1", "libaio.so.1") is None


def test_no_library_is_used_beside_one_that_others_could_change(package: Path) -> None:
    (package / LIBRARY).with_name("libz.so.1").chmod(0o666)
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


@pytest.mark.parametrize("spoil", ["folder", "other", "link", "file"])
def test_a_folder_of_renamed_libraries_that_others_could_change_is_made_again(
    spoil: str, package: Path, tmp_path: Path
) -> None:
    library, evil = (package / LIBRARY).with_name("libaio.so.1.0.2"), tmp_path / "evil.so"
    evil.touch(0o644)
    folder = executable._link_renamed_library("libaio.so.1", library)
    if spoil == "folder":
        (folder / "libc.so.6").touch(0o644)
        folder.chmod(0o777)
    elif spoil == "other":
        (folder / "libc.so.6").touch()
        (folder / "libc.so.6").chmod(0o666)
    else:
        (folder / "libaio.so.1").unlink()
        (folder / "libaio.so.1").symlink_to(evil) if spoil == "link" else (folder / "libaio.so.1").touch(0o644)
    assert executable._link_renamed_library("libaio.so.1", library) == folder
    assert [path.name for path in folder.iterdir()] == ["libaio.so.1"]
    assert (folder / "libaio.so.1").readlink() == library
    assert mode(folder) == 0o755
