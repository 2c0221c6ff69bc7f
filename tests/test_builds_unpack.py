"""Does an archive stay in its folder, and is a damaged one refused?"""

import errno
import gzip
import io
import os
import random
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from recovery.builds import install as unpacking
from recovery.builds.install import Selection, extract_inner, unpack
from recovery.builds.resolve import Sources, resolve_server
from recovery.errors import HostUnfitError, RecoveryError, StorageFailedError
from recovery.linux.files import servers_dir


def _file(name: str, mode: int = 0o644) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = 4, mode
    return member


def _link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def _tarball(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"text") if member.isreg() else None)
    return path


def test_a_tarball_with_inner_links(tmp_path: Path) -> None:
    archive = _tarball(
        tmp_path / "a.tar.gz",
        _file("./t/bin/mysqld", 0o755),
        _file("t/share/errmsg.sys"),
        _link("t/lib/here", "../share/errmsg.sys"),
        _link("t/bin/same", "t/bin/mysqld", tarfile.LNKTYPE),
    )
    unpack(archive, tmp_path / "out")
    assert (tmp_path / "out/t/lib/here").read_bytes() == b"text"
    assert (tmp_path / "out/t/bin/same").samefile(tmp_path / "out/t/bin/mysqld")
    assert (tmp_path / "out/t/bin/mysqld").stat().st_mode & 0o111 == 0o111
    assert (tmp_path / "out/t/share/errmsg.sys").stat().st_mode & 0o111 == 0


@pytest.mark.parametrize(
    "members",
    [
        [_file("../evil")],
        [_file("a/../../evil")],
        [_file("/tmp/evil")],
        [_link("evil", "/etc/passwd")],
        [_link("a", "../outside"), _file("a/evil")],
        [_link("a", ".."), _link("a/evil", "x")],
        [_link("a", "b/../../outside"), _link("b", "c/d")],
        [_link("a/x", "b/../../outside/evil"), _link("a/b", "..")],
        [_link("copy", "../outside/secret", tarfile.LNKTYPE)],
        [_link("pipe", "", tarfile.FIFOTYPE)],
        [_link("device", "", tarfile.CHRTYPE)],
    ],
)
def test_a_member_that_leads_out(tmp_path: Path, members: list[tarfile.TarInfo]) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("keep")
    archive = _tarball(tmp_path / "evil.tar.gz", *members)
    with pytest.raises(RecoveryError):
        unpack(archive, tmp_path / "out")
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert not (tmp_path / "evil").exists()
    assert not (tmp_path / "x").is_symlink()


def test_a_truncated_tarball(tmp_path: Path) -> None:
    whole = _tarball(tmp_path / "whole.tar.gz", *[_file(f"t/{number}") for number in range(500)])
    archive = tmp_path / "cut.tar.gz"
    archive.write_bytes(whole.read_bytes()[:-700])
    with pytest.raises(RecoveryError, match=r"cut\.tar\.gz is cut short") as caught:
        unpack(archive, tmp_path / "out")
    assert "\n" not in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", b"\x1f\x8b\x08garbage", b"PK\x03\x04garbage"])
def test_no_archive_at_all(tmp_path: Path, content: bytes) -> None:
    archive = tmp_path / "no.tar.gz"
    archive.write_bytes(content)
    with pytest.raises(RecoveryError, match="no archive") as caught:
        unpack(archive, tmp_path / "out")
    assert "\n" not in caught.value.message


def test_a_jar_loses_run_bits_and_gets_them_back(tmp_path: Path) -> None:
    archive = tmp_path / "a.jar"
    with zipfile.ZipFile(archive, "w") as jar:
        for name in ("deep/linux/bin/mariadbd", "deep/linux/scripts/install", "deep/linux/share/a.a", "other/mac"):
            jar.writestr(name, "text")
    unpack(archive, tmp_path / "out", Selection("deep/linux", ("share/*.a",)))
    found = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert found == {"bin/mariadbd", "scripts/install"}
    assert all((tmp_path / "out" / name).stat().st_mode & 0o100 for name in found)


def test_a_jar_that_leads_out(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "evil.jar", "w") as jar:
        jar.writestr("../evil", "text")
    with pytest.raises(RecoveryError, match="leads out"):
        unpack(tmp_path / "evil.jar", tmp_path / "out")
    assert not (tmp_path / "evil").exists()


def test_a_jar_without_the_inner_tarball(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.jar", "w") as jar:
        jar.writestr("else", "text")
    with pytest.raises(RecoveryError, match="holds no wanted"):
        extract_inner(tmp_path / "a.jar", "wanted", tmp_path / "wanted")


def _refused(archive: Path, monkeypatch: pytest.MonkeyPatch) -> HostUnfitError:
    """As MYSQLD: one line for the user, and nothing left in the cache."""
    monkeypatch.setenv("RECOVERY_CACHE", str(archive.parent / "cache"))
    with pytest.raises(HostUnfitError) as caught:
        resolve_server(None, Sources(mysqld=str(archive)), lambda _: None)
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 300
    assert caught.value.hint
    left = {path.name for path in servers_dir().iterdir() if not path.name.startswith(".lock")}
    assert left <= {"recorded"}
    return caught.value


def _raw(name: str, kind: bytes, size: int, content: bytes = b"") -> bytes:
    """A member whose header claims any size."""
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, size
    return member.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


def _pax(name: str, text: bytes) -> bytes:
    """A header of extended fields, and the member that they are for."""
    return _raw("fields", tarfile.XHDTYPE, len(text), text) + _raw(name, tarfile.REGTYPE, 4, b"text")


def _gzipped(folder: Path, *members: bytes) -> Path:
    archive = folder / "evil.tar.gz"
    archive.write_bytes(gzip.compress(b"".join(members) + bytes(1024)))
    return archive


LARGE = 1 << 40
HEADER = 8 << 20


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ([_link("a", "b"), _link("b", "a")], "circle"),
        ([_link("a", "a")], "circle"),
        ([_link("a", "b"), _link("b", "a"), _link("a/c", "d")], "circle"),
        ([_link("a", "a"), _link("a/b", "c")], "'a"),
        ([_file("with\0nul")], "not a valid file name"),
        ([_link("a", "with\0nul")], "not a valid file name"),
        ([_link("a", "with\0nul", tarfile.LNKTYPE)], "not a valid file name"),
        ([_link("a", "")], "not a valid file name"),
        ([_file("x" * 256)], "File name too long"),
        ([_file("x/" * 3000 + "x")], "a name of 6001 letters"),
        ([_link("a", "x" * 5000)], "a name of 5000 letters"),
        ([_file("a"), _file("a/b")], "damaged"),
        ([_file("a/b"), _file("a")], "Is a directory"),
        ([_file(".")], "Is a directory"),
        ([_file("esc\x1b[31m\nape/../../x")], r"esc\\x1b"),
    ],
)
def test_names_that_no_folder_takes(
    members: list[tarfile.TarInfo], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tarfile.open(tmp_path / "evil.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as tar:
        for member in members:
            if "\0" in member.name + member.linkname:
                member.pax_headers = {"path": member.name, "linkpath": member.linkname}
            tar.addfile(member, io.BytesIO(b"text") if member.isreg() else None)
    assert told in repr(_refused(tmp_path / "evil.tar.gz", monkeypatch).message)


def test_a_link_to_what_was_not_unpacked_is_no_circle(tmp_path: Path) -> None:
    archive = _tarball(tmp_path / "a.tar.gz", _link("a", "b"), _link("c", "d/e"), _file("d"), _link("d2", "d2", b"1"))
    unpack(archive, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a", "c", "d"]


@pytest.mark.parametrize(
    "members",
    [
        [_raw("a", tarfile.XHDTYPE, LARGE)],
        [_raw("a", tarfile.XGLTYPE, LARGE, b"x" * 4096)],
        [_raw("a", tarfile.GNUTYPE_LONGNAME, LARGE, b"x" * 4096)],
        [_raw("a", tarfile.GNUTYPE_LONGLINK, 8 << 30)],
        [_raw("a", tarfile.GNUTYPE_LONGNAME, HEADER, b"x" * HEADER)],
        [_raw("a", tarfile.XHDTYPE, HEADER, b"1 " * (HEADER // 2))],
        [_pax("a", b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"), b"9999999999\n" + b"0\n" * (HEADER // 2)],
        [_raw("a", tarfile.XHDTYPE, 0) * 2000],
        [_raw("a", tarfile.GNUTYPE_LONGNAME, 4, b"name") * 2000],
        [_raw("a", tarfile.REGTYPE, LARGE)],
        [_raw("a", tarfile.REGTYPE, 8 << 30, b"text")],
        [_raw("a", tarfile.REGTYPE, -1), _raw("b", tarfile.REGTYPE, 0)],
        [_raw("b", tarfile.REGTYPE, 0), _raw("a", tarfile.REGTYPE, -1024)],
        [_raw("b", tarfile.REGTYPE, 0), _raw("a", tarfile.DIRTYPE, -(1 << 40))],
        [_raw("a", tarfile.XHDTYPE, -512)],
        [_raw("a", tarfile.GNUTYPE_SPARSE, -1024)],
        [_pax("a", b"14 size=-4096\n")],
    ],
    ids=lambda _: "",
)
def test_headers_that_claim_too_much(members: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = _gzipped(tmp_path, *members)
    tracemalloc.start()
    _refused(archive, monkeypatch)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 4 << 20


def _sparse(size: int) -> bytes:
    fields = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(size), "GNU.sparse.name": "a"}
    member = tarfile.TarInfo("a")
    member.pax_headers = fields
    return member.tobuf(tarfile.PAX_FORMAT)


def _zip_bomb(archive: Path) -> Path:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as jar:
        jar.writestr("a", bytes(16 << 20))
    return archive


@pytest.mark.parametrize("kind", ["sparse", "zeros", "zip", "skipped"])
def test_no_more_than_a_server_is_unpacked(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "_ALWAYS_ALLOWED_BYTES", 4 << 20, raising=False)
    if kind == "zip":
        archive = _zip_bomb(tmp_path / "evil.tar.gz")
    elif kind == "sparse":
        archive = _gzipped(tmp_path, _sparse(16 << 20))
    else:
        name = "top/mysql-test/a" if kind == "skipped" else "a"
        archive = _gzipped(tmp_path, _raw(name, tarfile.REGTYPE, 16 << 20, bytes(16 << 20)))
    assert "than any server" in (message := _refused(archive, monkeypatch).message) or "needs" in message


def test_no_more_files_than_a_server_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "_MAX_MEMBERS", 20, raising=False)
    for members in (
        [_file(str(number)) for number in range(21)],
        [_file("a/" * 21 + "b")],
        [_link(str(number), "a") for number in range(21)],
    ):
        archive = _tarball(tmp_path / "evil.tar.gz", *members)
        assert "holds more than 20 files" in _refused(archive, monkeypatch).message


def test_the_last_of_a_disk_is_left_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimpleNamespace(f_blocks=10**6, f_bavail=10**4, f_frsize=4096)
    archive = _tarball(tmp_path / "a.tar.gz", _file("a"))
    monkeypatch.setattr(os, "statvfs", lambda _: disk)
    with pytest.raises(StorageFailedError, match="almost full") as caught:
        unpack(archive, tmp_path / "out")
    assert "RECOVERY_CACHE" in caught.value.hint


def test_a_disk_s_own_error_is_none_of_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = _tarball(tmp_path / "a.tar.gz", _file("a"))

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "chmod", full)
    with pytest.raises(OSError, match="No space left"):
        unpack(archive, tmp_path / "out")


def _jar(folder: Path, change: Callable[[bytearray, int], None]) -> Path:
    """With both of its headers changed: of the member, and in the directory."""
    archive = folder / "evil.tar.gz"
    with zipfile.ZipFile(archive, "w") as jar:
        jar.writestr("bin/mysqld", "text")
    content = bytearray(archive.read_bytes())
    change(content, content.index(b"PK\3\4") + 6)
    change(content, content.index(b"PK\1\2") + 8)
    archive.write_bytes(content)
    return archive


def _encrypted(content: bytearray, flags: int) -> None:
    content[flags] |= 1


def _other_method(content: bytearray, flags: int) -> None:
    content[flags + 2] = 98


@pytest.mark.parametrize(("change", "told"), [(_encrypted, "encrypted"), (_other_method, "compression method")])
def test_a_jar_that_cannot_be_read(
    change: Callable[[bytearray, int], None], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = _jar(tmp_path, change)
    assert told in _refused(archive, monkeypatch).message
    with pytest.raises(HostUnfitError, match=told):
        extract_inner(archive, "bin/mysqld", tmp_path / "inner")


def test_any_damage_is_told_in_one_line(tmp_path: Path) -> None:
    chance = random.Random(1)  # noqa: S311  # damage, and no secret
    members = (_file("t/bin/mysqld"), _link("t/a", "bin/mysqld"), _link("t/b", "t/bin/mysqld", tarfile.LNKTYPE))
    with tarfile.open(tmp_path / "plain", "w", format=tarfile.PAX_FORMAT) as tar:
        for member in members:
            member.pax_headers = {"comment": "x"}
            tar.addfile(member, io.BytesIO(b"text") if member.isreg() else None)
    with zipfile.ZipFile(tmp_path / "jar", "w", zipfile.ZIP_DEFLATED) as jar:
        jar.writestr("bin/mysqld", "text")
    wholes = [path.read_bytes() for path in (_tarball(tmp_path / "a", *members), tmp_path / "plain", tmp_path / "jar")]
    for number in range(600):
        content = bytearray(wholes[number % 3])
        for _ in range(chance.randint(1, 4)):
            content[chance.randrange(min(len(content), 6000))] = chance.choice((0, 255, chance.randrange(256)))
        (tmp_path / "damaged").write_bytes(content)
        with suppress(RecoveryError):
            unpack(tmp_path / "damaged", tmp_path / f"out{number}")
