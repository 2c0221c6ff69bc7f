"""Does an archive stay in its folder, and is a damaged one refused?"""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from recovery.builds.unpack import Selection, extract_inner, unpack
from recovery.errors import RecoveryError


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
