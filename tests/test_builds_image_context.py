"""What goes into an image of a server, and in which places does it lie there?"""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from recovery.builds import image_build
from recovery.builds.image_build import library_path, place_inside, write_build_context
from recovery.model import Build, parse_version


def server(base: Path, mysqld: str = "bin/mysqld", *folders: Path) -> Build:
    for name in (mysqld, "share/english/errmsg.sys", "libs/libown.so.1", "lib/plugin/a.so"):
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_bytes(name.encode())
    (base / mysqld).chmod(0o700)
    return Build(
        parse_version("5.7.22"), base / mysqld, base, 64 * "a", "catalog (test)", base / "share", library_dirs=folders
    )


def members(build: Build, *, with_hosts: bool) -> dict[str, tarfile.TarInfo]:
    file = io.BytesIO()
    write_build_context(build, file, with_hosts=with_hosts)
    file.seek(0)
    with tarfile.open(fileobj=file) as tar:
        return {member.name: member for member in tar}


def test_the_whole_tree_and_no_more(tmp_path: Path) -> None:
    hosts = tmp_path / "libraries"
    hosts.mkdir()
    (hosts / "libaio.so.1.0.1").write_bytes(b"library")
    (hosts / "libaio.so.1").symlink_to("libaio.so.1.0.1")
    build = server(tmp_path / "tree", "bin/mysqld", tmp_path / "tree" / "libs", hosts)
    found = members(build, with_hosts=False)
    assert {"mysqld.Dockerfile", "opt/mysqld/bin/mysqld", "opt/mysqld/lib/plugin/a.so"} <= set(found)
    assert not [name for name in found if name.startswith("opt/libraries")]
    assert library_path(build, with_hosts=False) == "/opt/mysqld/libs"

    found = members(build, with_hosts=True)
    assert found["opt/libraries/libaio.so.1"].isfile(), "no link into the host"
    assert library_path(build, with_hosts=True) == "/opt/mysqld/libs:/opt/libraries"


def test_any_user_may_run_it(tmp_path: Path) -> None:
    found = members(server(tmp_path / "tree"), with_hosts=False)
    assert found["opt/mysqld/bin/mysqld"].mode & 0o777 == 0o755
    assert found["opt/mysqld/share/english/errmsg.sys"].mode & 0o444 == 0o444
    assert {member.uid for name, member in found.items() if name.startswith("opt/")} == {0}


def test_of_a_distribution_only_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usr = tmp_path / "usr"
    build = server(usr, "sbin/mysqld")
    (usr / "share/mysql/english").mkdir(parents=True)
    (usr / "share/mysql/english/errmsg.sys").touch()
    (usr / "bin").mkdir()
    (usr / "bin/everything-else").touch()
    monkeypatch.setattr(image_build, "_SHARED_BASEDIRS", (usr,))
    found = members(build, with_hosts=False)
    assert "opt/mysqld/share/mysql/english/errmsg.sys" in found
    assert "opt/mysqld/sbin/mysqld" in found
    assert not [name for name in found if "everything-else" in name]
    assert str(place_inside(build, build.mysqld)) == "/opt/mysqld/sbin/mysqld"


def test_of_an_executable_without_messages_nothing_around_it(tmp_path: Path) -> None:
    found = members(replace(server(tmp_path / "sql", "mysqld"), messages=None), with_hosts=False)
    assert set(found) == {"mysqld.Dockerfile", "opt/mysqld/mysqld"}
