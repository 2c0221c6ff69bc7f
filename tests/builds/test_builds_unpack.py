"""An archive stays in its folder, and a damaged or hostile one is refused."""

import errno
import gzip
import io
import os
import random
import tarfile
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import pytest

from recovery.builds import install
from recovery.builds.install import Selection, extract_inner, unpack
from recovery.builds.resolve import Sources, resolve_server
from recovery.errors import HostUnfitError, RecoveryError, StorageFailedError
from recovery.linux.files import servers_dir

pytestmark = pytest.mark.usefixtures("own_cache")


def file(name: str, mode: int = 0o644) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = 4, mode
    return member


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def tarball(path: Path, *members: tarfile.TarInfo, mode: Literal["w", "w:gz"] = "w:gz") -> Path:
    with tarfile.open(path, mode, format=tarfile.PAX_FORMAT) as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"text") if member.isreg() else None)
    return path


def jar(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, "text")
    return path


def refusal(archive: Path) -> str:
    """The one line that the user of MYSQLD sees; nothing is left in the cache."""
    with pytest.raises(HostUnfitError) as caught:
        resolve_server(None, Sources(mysqld=str(archive)), lambda _: None)
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 300
    assert caught.value.hint
    left = {path.name for path in servers_dir().iterdir() if not path.name.startswith(".lock")}
    assert left <= {"recorded"}
    return caught.value.message


def test_a_tarball_keeps_its_modes_and_inner_links(tmp_path: Path) -> None:
    archive = tarball(
        tmp_path / "a.tar.gz",
        file("./t/bin/mysqld", 0o6777),
        file("t/share/errmsg.sys"),
        link("t/lib/here", "../share/errmsg.sys"),
        link("t/bin/same", "t/bin/mysqld", tarfile.LNKTYPE),
    )
    unpack(archive, tmp_path / "out")
    assert (tmp_path / "out/t/lib/here").read_bytes() == b"text"
    assert (tmp_path / "out/t/bin/same").samefile(tmp_path / "out/t/bin/mysqld")
    assert (tmp_path / "out/t/bin/mysqld").stat().st_mode & 0o6133 == 0o111, "no set-uid bit, nobody else may write"
    assert (tmp_path / "out/t/share/errmsg.sys").stat().st_mode & 0o111 == 0


def test_a_link_to_a_missing_file_is_no_circle(tmp_path: Path) -> None:
    archive = tarball(tmp_path / "a.tar.gz", link("a", "b"), link("c", "d/e"), file("d"), link("d2", "d2", b"1"))
    unpack(archive, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a", "c", "d"]


def test_programs_of_a_jar_become_executable(tmp_path: Path) -> None:
    names = ("deep/linux/bin/mariadbd", "deep/linux/scripts/install", "deep/linux/share/a.a", "other/mac")
    unpack(jar(tmp_path / "a.jar", *names), tmp_path / "out", Selection("deep/linux", ("share/*.a",)))
    found = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert found == {"bin/mariadbd", "scripts/install"}
    assert all((tmp_path / "out" / name).stat().st_mode & 0o100 for name in found)


def test_a_link_in_a_jar_is_not_unpacked_as_one(tmp_path: Path) -> None:
    member = zipfile.ZipInfo("link")
    member.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a.jar", "w") as archive:
        archive.writestr(member, "/etc/passwd")
    unpack(tmp_path / "a.jar", tmp_path / "out")
    assert not (tmp_path / "out/link").is_symlink()


def test_a_jar_without_the_inner_tarball_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecoveryError, match="holds no wanted"):
        extract_inner(jar(tmp_path / "a.jar", "else"), "wanted", tmp_path / "wanted")


# -- names and links


@pytest.mark.parametrize(
    "members",
    [
        [file("../evil")],
        [file("a/../../evil")],
        [file("/tmp/evil")],
        [link("evil", "/etc/passwd")],
        [link("a", "../outside"), file("a/evil")],
        [link("a", ".."), link("a/evil", "x")],
        [link("a", "b/../../outside"), link("b", "c/d")],
        [link("a/x", "b/../../outside/evil"), link("a/b", "..")],
        [link("copy", "../outside/secret", tarfile.LNKTYPE)],
        [file("a"), link("a", "../outside/secret"), file("a")],
        [link("a", "../outside/secret"), link("b", "a", tarfile.LNKTYPE), file("b")],
        [link("..", "x")],
        [link("node", "", tarfile.BLKTYPE)],
        [link("pipe", "", tarfile.FIFOTYPE)],
        [link("device", "", tarfile.CHRTYPE)],
        "jar",
    ],
)
def test_a_member_outside_of_the_folder_is_refused(tmp_path: Path, members: list[tarfile.TarInfo] | str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("keep")
    path = tmp_path / "evil.tar.gz"
    with pytest.raises(RecoveryError):
        unpack(jar(path, "../evil") if isinstance(members, str) else tarball(path, *members), tmp_path / "out")
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert not (tmp_path / "evil").exists()
    assert not (tmp_path / "x").is_symlink()


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([link("a", "b"), link("b", "a")], "circle"),
        ([link("a", "a")], "circle"),
        ([link("a", "b"), link("b", "a"), link("a/c", "d")], "circle"),
        ([link("a", "a"), link("a/b", "c")], "'a"),
        ([file("with\0nul")], "not a valid file name"),
        ([link("a", "with\0nul")], "not a valid file name"),
        ([link("a", "with\0nul", tarfile.LNKTYPE)], "not a valid file name"),
        ([link("a", "")], "not a valid file name"),
        ([file("x" * 256)], "File name too long"),
        ([file("x/" * 3000 + "x")], "a name of 6001 letters"),
        ([link("a", "x" * 5000)], "a name of 5000 letters"),
        ([file("a"), file("a/b")], "damaged"),
        ([file("a/b"), file("a")], "Is a directory"),
        ([file(".")], "Is a directory"),
        ([file("esc\x1b[31m\nape/../../x")], r"esc\\x1b"),
    ],
)
def test_an_invalid_name_is_refused(members: list[tarfile.TarInfo], reason: str, tmp_path: Path) -> None:
    for member in members:
        if "\0" in member.name + member.linkname:
            member.pax_headers = {"path": member.name, "linkpath": member.linkname}
    assert reason in repr(refusal(tarball(tmp_path / "evil.tar.gz", *members)))


# -- damage


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", b"\x1f\x8b\x08garbage", b"PK\x03\x04garbage"])
def test_a_file_that_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "no.tar.gz").write_bytes(content)
    assert "no archive" in refusal(tmp_path / "no.tar.gz")


def test_a_truncated_tarball_is_refused(tmp_path: Path) -> None:
    whole = tarball(tmp_path / "whole.tar.gz", *[file(f"t/{number}") for number in range(100)])
    (tmp_path / "cut.tar.gz").write_bytes(whole.read_bytes()[:-700])
    assert "cut.tar.gz is cut short" in refusal(tmp_path / "cut.tar.gz")


@pytest.mark.parametrize(
    ("offset", "value", "reason"), [(0, 1, "encrypted"), (2, 98, "compression method")], ids=["encrypted", "method"]
)
def test_a_jar_that_cannot_be_read_is_refused(offset: int, value: int, reason: str, tmp_path: Path) -> None:
    """Both of its headers are changed: of the member, and in the directory."""
    archive = jar(tmp_path / "evil.tar.gz", "bin/mysqld")
    content = bytearray(archive.read_bytes())
    content[content.index(b"PK\3\4") + 6 + offset] = value
    content[content.index(b"PK\1\2") + 8 + offset] = value
    archive.write_bytes(content)
    assert reason in refusal(archive)
    with pytest.raises(HostUnfitError, match=reason):
        extract_inner(archive, "bin/mysqld", tmp_path / "inner")


def test_any_damage_is_an_error_of_one_kind(tmp_path: Path) -> None:
    chance = random.Random(1)  # noqa: S311  # damage, and no secret
    members = (file("t/bin/mysqld"), link("t/a", "bin/mysqld"), link("t/b", "t/bin/mysqld", tarfile.LNKTYPE))
    for member in members:
        member.pax_headers = {"comment": "x"}
    packed, plain = tarball(tmp_path / "a", *members), tarball(tmp_path / "plain", *members, mode="w")
    wholes = [path.read_bytes() for path in (packed, plain, jar(tmp_path / "jar", "bin/mysqld"))]
    for number in range(150):
        content = bytearray(wholes[number % 3])
        for _ in range(chance.randint(1, 4)):
            content[chance.randrange(min(len(content), 6000))] = chance.choice((0, 255, chance.randrange(256)))
        (tmp_path / "damaged").write_bytes(content)
        with suppress(RecoveryError):
            unpack(tmp_path / "damaged", tmp_path / f"out{number}")


# -- sizes

LARGE = 1 << 40
HEADER = 8 << 20


def raw(name: str, kind: bytes, size: int, content: bytes = b"") -> bytes:
    """A member whose header claims any size."""
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, size
    return member.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


def pax(name: str, text: bytes) -> bytes:
    """A header of extended fields, and the member that they are for."""
    return raw("fields", tarfile.XHDTYPE, len(text), text) + raw(name, tarfile.REGTYPE, 4, b"text")


def sparse(size: int) -> bytes:
    member = tarfile.TarInfo("a")
    member.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(size), "GNU.sparse.name": "a"}
    return member.tobuf(tarfile.PAX_FORMAT)


def gzipped(folder: Path, *members: bytes) -> Path:
    archive = folder / "evil.tar.gz"
    archive.write_bytes(gzip.compress(b"".join(members) + bytes(1024), 1))
    return archive


@pytest.mark.parametrize(
    "members",
    [
        [raw("a", tarfile.XHDTYPE, LARGE)],
        [raw("a", tarfile.XGLTYPE, LARGE, b"x" * 4096)],
        [raw("a", tarfile.GNUTYPE_LONGNAME, LARGE, b"x" * 4096)],
        [raw("a", tarfile.GNUTYPE_LONGLINK, 8 << 30)],
        [raw("a", tarfile.GNUTYPE_LONGNAME, HEADER, b"x" * HEADER)],
        [raw("a", tarfile.XHDTYPE, HEADER, b"1 " * (HEADER // 2))],
        [pax("a", b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"), b"9999999999\n" + b"0\n" * (HEADER // 2)],
        [raw("a", tarfile.XHDTYPE, 0) * 2000],
        [raw("a", tarfile.GNUTYPE_LONGNAME, 4, b"name") * 2000],
        [raw("a", tarfile.REGTYPE, LARGE)],
        [raw("a", tarfile.REGTYPE, 8 << 30, b"text")],
        [raw("a", tarfile.REGTYPE, -1), raw("b", tarfile.REGTYPE, 0)],
        [raw("b", tarfile.REGTYPE, 0), raw("a", tarfile.REGTYPE, -1024)],
        [raw("b", tarfile.REGTYPE, 0), raw("a", tarfile.DIRTYPE, -(1 << 40))],
        [raw("a", tarfile.XHDTYPE, -512)],
        [raw("a", tarfile.GNUTYPE_SPARSE, -1024)],
        [pax("a", b"14 size=-4096\n")],
    ],
    ids=lambda _: "",
)
def test_a_header_that_claims_too_much_takes_no_memory(members: list[bytes], tmp_path: Path) -> None:
    archive = gzipped(tmp_path, *members)
    tracemalloc.start()
    refusal(archive)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 4 << 20


@pytest.mark.parametrize("kind", ["sparse", "zeros", "zip", "skipped"])
def test_no_more_than_the_size_of_a_server_is_unpacked(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "_ALWAYS_ALLOWED_BYTES", 4 << 20)
    zeros = bytes(16 << 20)
    if kind == "zip":
        archive = tmp_path / "evil.tar.gz"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as bomb:
            bomb.writestr("a", zeros)
    elif kind == "sparse":
        archive = gzipped(tmp_path, sparse(len(zeros)))
    else:
        name = "top/mysql-test/a" if kind == "skipped" else "a"
        archive = gzipped(tmp_path, raw(name, tarfile.REGTYPE, len(zeros), zeros))
    assert "than any server" in refusal(archive)


@pytest.mark.parametrize(
    "members",
    [
        [file(str(number)) for number in range(21)],
        [file("a/" * 21 + "b")],
        [link(str(number), "a") for number in range(21)],
    ],
)
def test_no_more_files_than_a_server_has_are_unpacked(
    members: list[tarfile.TarInfo], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "_MAX_MEMBERS", 20)
    assert "holds more than 20 files" in refusal(tarball(tmp_path / "evil.tar.gz", *members))


def test_a_disk_is_not_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimpleNamespace(f_blocks=10**6, f_bavail=10**4, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda _: disk)
    with pytest.raises(StorageFailedError, match="almost full") as caught:
        unpack(tarball(tmp_path / "a.tar.gz", file("a")), tmp_path / "out")
    assert "RECOVERY_CACHE" in caught.value.hint


def test_an_error_of_the_disk_is_not_blamed_on_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "chmod", full)
    with pytest.raises(OSError, match="No space left"):
        unpack(tarball(tmp_path / "a.tar.gz", file("a")), tmp_path / "out")
