"""Does the script that inspects an image find the server where one on the host is found? The shell is the host's."""

from __future__ import annotations

import os
import subprocess
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from recovery.builds import image_inspect, image_resolve
from recovery.builds.executable import SHARE_FOLDERS, basedir_of, messages_in
from recovery.builds.image_inspect import ImageInspection, parse_inspection
from recovery.errors import HostUnfitError, UsageError
from recovery.linux import docker_engine

SERVER = "#!/bin/sh\necho 'mysqld  Ver 5.6.24 for Linux on x86_64'\n"
PLACES = ("usr/sbin/mysqld", "usr/bin/mariadbd", "opt/server/bin/mysqld", "opt/server/sql/mysqld", "opt/server/mysqld")


def put(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def inspect(path: str, mysqld: str = "", folders: str = "", packages: str = "") -> bytes:
    environment = {"PATH": f"{path}:{os.environ['PATH']}"}
    words = (mysqld, folders, " ".join(SHARE_FOLDERS), packages)
    command = ["/bin/sh", "-c", image_inspect._SCRIPT, "inspect", *words]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout


def found_by(path: str, mysqld: str = "", folders: str = "") -> tuple[ImageInspection, dict[str, bytes]]:
    return parse_inspection(inspect(path, mysqld, folders), "sha256:1")[:2]


@pytest.mark.parametrize("share", ["share", "share/mysql", "share/mariadb", "share/mysql-8.0", None])
@pytest.mark.parametrize("place", PLACES)
def test_it_finds_what_is_found_on_a_host(place: str, share: str | None, tmp_path: Path) -> None:
    mysqld = put(tmp_path / place, SERVER)
    base = tmp_path / "usr" if place.startswith("usr") else tmp_path / "opt/server"
    if share is not None:
        put(base / share / "english/errmsg.sys")
    found, scripts = found_by(str(mysqld.parent))
    assert (Path(found.mysqld), Path(found.basedir)) == (mysqld, basedir_of(mysqld))
    assert found.messages == str(messages_in(basedir_of(mysqld)) or "")
    assert (found.messages != "") is (share is not None)
    assert found.fingerprint == sha256(SERVER.encode()).hexdigest()
    assert found.said == "mysqld  Ver 5.6.24 for Linux on x86_64"
    assert scripts == {}


def test_a_folder_that_path_does_not_name(tmp_path: Path) -> None:
    mysqld = put(tmp_path / "a/real", SERVER)
    (tmp_path / "a/mysqld").symlink_to("real")
    found, _ = found_by("/nowhere:", folders=f"/nowhere/either:{tmp_path}/a")
    assert Path(found.mysqld) == mysqld, "the link is resolved"


def test_the_executable_that_a_label_names(tmp_path: Path) -> None:
    named, other = put(tmp_path / "a/mysqld-debug", SERVER), put(tmp_path / "b/mysqld", SERVER)
    assert found_by(str(other.parent), str(named))[0].mysqld == str(named)
    named.unlink()
    assert found_by(str(other.parent), str(named))[0].mysqld == str(other), "it is not there any more"


def test_the_scripts_of_an_old_server(tmp_path: Path) -> None:
    put(tmp_path / "bin/mysqld", SERVER)
    put(tmp_path / "share/mysql/english/errmsg.sys")
    put(tmp_path / "share/mysql/fill_help_tables.sql").write_bytes(b"\xff\0" * 5000)
    put(tmp_path / "scripts/more.sql", "select 1;\n\n")
    put(tmp_path / "share/mysql/README", "text")
    _, scripts = found_by(str(tmp_path / "bin"))
    assert scripts == {"fill_help_tables.sql": b"\xff\0" * 5000, "more.sql": b"select 1;\n\n"}


def test_an_image_without_a_server(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no mysqld in the image"):
        found_by(str(tmp_path))


@pytest.mark.parametrize("body", ["exit 1", "echo error while loading shared libraries >&2; exit 127"])
def test_a_server_that_gives_no_version(body: str, tmp_path: Path) -> None:
    put(tmp_path / "mysqld", f"#!/bin/sh\n{body}\n")
    with pytest.raises(HostUnfitError, match=r"asked for its version, says: (nothing|error while)"):
        found_by(str(tmp_path))


@pytest.mark.parametrize("damage", ["{", '{"mysqld": "/m"}'])
def test_an_image_is_inspected_once(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_CACHE", str(tmp_path))
    monkeypatch.setattr(image_inspect, "find_eatmydata", lambda: None)
    put(tmp_path / "a/bin/mysqld", SERVER)
    put(tmp_path / "a/share/english/errmsg.sys")
    put(tmp_path / "a/share/fill_help_tables.sql", "select 1")
    runs: list[str] = []

    def run(_client: object, image: str, command: list[str]) -> tuple[int, bytes, bytes]:
        runs.append(image)
        return 0, inspect(str(tmp_path / "a/bin"), *command[4:6]), b""

    monkeypatch.setattr(image_inspect, "run_in_image", run)
    client: Any = None
    build = image_inspect.inspect_image(client, "sha256:1", "image mysql:5.6")
    assert (str(build.version), build.source, build.image) == ("5.6.24", "image mysql:5.6", "sha256:1")
    assert [path.name for folder in build.scripts for path in folder.iterdir()] == ["fill_help_tables.sql"]
    assert image_inspect.inspect_image(client, "sha256:1", "image mysql:5.6") == build
    assert len(runs) == 1
    (tmp_path / "images/1.json").write_text(damage)
    assert image_inspect.inspect_image(client, "sha256:1", "image mysql:5.6") == build
    assert len(runs) == 2
    image_inspect.delete_memo("sha256:1")
    assert list((tmp_path / "images").iterdir()) == []


def test_labels_count_where_this_tool_put_the_server_into_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """An image on our base inherits the labels of the base, and can hold any server."""
    calls: list[tuple[str, str]] = []
    monkeypatch.setattr(image_resolve, "inspect_image", lambda _c, _i, source, mysqld: calls.append((source, mysqld)))
    ours = {docker_engine.SOURCE: "catalog (x)", docker_engine.MYSQLD: "/opt/mysqld/bin/mysqld"}
    for labels, found in (
        (ours, ("catalog (x)", "/opt/mysqld/bin/mysqld")),
        ({docker_engine.SOURCE: "built from debian:bookworm-slim"}, ("image mysql:5.7", "")),
        (dict.fromkeys(ours, ""), ("image mysql:5.7", "")),
        ({}, ("image mysql:5.7", "")),
    ):
        image = SimpleNamespace(labels=labels)
        client: Any = SimpleNamespace(images=SimpleNamespace(get=lambda _, image=image: image))
        image_resolve._inspect(client, "mysql:5.7", "sha256:1")
        assert calls.pop() == found


def block(name: str, content: str) -> bytes:
    return f"{name}\n".encode() + b64encode(content.encode()) + b"\n\n"


WHOLE = block("mysqld", "/m") + block("sha256", "a" * 64 + "  /m") + block("said", "mysqld  Ver 8.0.31")


@pytest.mark.parametrize("name", ["../x.sql", "a/x.sql", "..", ".sql", "/etc/x.sql", "x.sh", "x.sql\0"])
def test_no_name_leads_out_of_the_folder_of_the_scripts(name: str) -> None:
    assert parse_inspection(WHOLE + block(f"sql {name}", "x") + block("sql ok.sql", "y"), "i")[1] == {"ok.sql": b"y"}


@pytest.mark.parametrize("output", [block("mysqld", "/m"), WHOLE[:30], WHOLE.replace(b"sha256", b"other")])
def test_an_image_without_the_programs_of_the_script(output: bytes) -> None:
    with pytest.raises(HostUnfitError, match="lacks sha256sum, base64 or readlink"):
        parse_inspection(output, "i")


def test_versions_of_packages() -> None:
    output = WHOLE + block("packages", "mysql-server-core 9.7.4-2\nlibeatmydata1 131-1")
    assert parse_inspection(output, "i")[2] == {"mysql-server-core": "9.7.4-2", "libeatmydata1": "131-1"}
