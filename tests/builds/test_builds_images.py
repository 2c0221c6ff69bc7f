"""Images of servers: their names, how they are pulled, made, inspected, listed and removed, and what ENGINE=auto does
without one. The engines are fakes."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import docker
import docker.errors
import pytest
import requests
from docker.errors import APIError, ImageNotFound
from fakes import FakeLauncher, shell_script

from recovery.builds import image_build, image_inspect, image_list, image_resolve
from recovery.builds.executable import SHARE_FOLDERS, VERSION_OPTIONS, basedir_of, messages_in
from recovery.builds.image_build import library_path, place_inside, write_server_archive
from recovery.builds.image_inspect import ImageInspection, inspect_image, parse_inspection
from recovery.builds.image_pull import RETRY_ELSEWHERE, NotPulledError, PullFailure, classify_pull_error, pull_image
from recovery.builds.resolve import (
    BASE_IMAGE_NAME,
    Sources,
    check_registry,
    own_image_name,
    parse_request,
    registry_names,
)
from recovery.cli.values import parse_own_servers
from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.linux import docker_engine
from recovery.model import Build, parse_version
from recovery.session import engine as session_engine
from recovery.session.engine import DOCKER, LOCAL, Engine, resolve_builds
from recovery.session.request import Request, Servers

pytestmark = pytest.mark.usefixtures("own_cache")


# -- names


@pytest.mark.parametrize(
    ("text", "registry", "names"),
    [
        ("5.7.22", None, ("mysql:5.7.22",)),
        ("mysql-8.0.31", None, ("mysql:8.0.31",)),
        ("5.6.27-log", None, ("mysql:5.6.27",)),
        ("9.7", None, ("mysql:9.7",)),
        ("mariadb-10.11.5", "localhost:5000", ("localhost:5000/mariadb:10.11.5",)),
        ("10.11.19-MariaDB-0+deb12u1", "mirror.test/hub/", ("mirror.test/hub/mariadb:10.11.19",)),
        ("mariadb-10.11", None, ("mariadb:10.11",)),
        ("8.0.39-30", None, ("percona:8.0.39-30", "percona/percona-server:8.0.39-30")),
        ("percona-5.7.22", None, ("percona:5.7.22", "percona/percona-server:5.7.22")),
        ("latest", None, ("mysql:latest",)),
        ("mariadb-lts", None, ("mariadb:lts",)),
        ("innovation", None, ("mysql:innovation",)),
        ("26.7.0", None, ("mysql:26.7.0",)),
        ("9.7.4.1", None, ("mysql:9.7.4.1",)),
        ("10.11", None, ("mariadb:10.11",)),
        ("13.0.1", None, ("mariadb:13.0.1",)),
        ("debian-sid", "localhost:5000", ()),
    ],
)
def test_the_names_of_a_server_in_a_registry(text: str, registry: str | None, names: tuple[str, ...]) -> None:
    assert registry_names(parse_request(text), registry) == names


@pytest.mark.parametrize(
    "text", ["", "9", "9.7.4.1.2", "mariadb-innovation", "debian", "latest-1", "percona-9", "5.7.x", "oracle-5.7.22"]
)
def test_a_text_that_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a server version") as caught:
        parse_request(text)
    assert "5.7.22" in caught.value.hint


@pytest.mark.parametrize("registry", ["", "https://localhost:5000", "a b", "host/Name", "host//x"])
def test_an_invalid_registry_is_refused(registry: str) -> None:
    with pytest.raises(UsageError, match="is not a registry"):
        check_registry(registry)


@pytest.mark.parametrize(
    ("wanted", "found", "fits"),
    [
        ("5.7.22", "5.7.22", True),
        ("5.7.22", "5.7.22-log", True),
        ("5.7.22", "5.7.23", False),
        ("9.7.4", "9.7.4-2", True),
        ("9.7", "9.7.4", True),
        ("9.7", "9.8.0", False),
        ("9.7", "mariadb-9.7.4", False),
        ("10.11.5", "10.11.5-MariaDB", True),
        ("26.7.0", "mariadb-26.7.0", False),
        ("9.7.4", "9.7.4.1", True),
        ("9.7.4.1", "9.7.4", True),  # a server that does not know updates
        ("9.7.4.1", "9.7.4.0", False),
        ("9.7.4.1", "9.7.4.2", False),
        ("lts", "28.4.1", True),
        ("lts", "26.7.0", False),
        ("innovation", "26.7.0", True),
        ("innovation", "9.7.4", False),
        ("latest", "9.7.4", True),
        ("latest", "8.0.31", True),
        ("latest", "26.7.0", False),
        ("mariadb-latest", "mariadb-13.0.1", True),
        ("mariadb-10.11", "10.11.19-MariaDB-0+deb12u1", True),
        ("debian-sid", "26.7.0", True),
        ("percona-8.0.31", "8.0.31", False),
        ("percona-8.0.31", "8.0.31-23", True),
        ("percona-8.0.28-19", "8.0.28-19", True),
        ("percona-8.0.28-19.1", "8.0.28-19", True),
        ("percona-8.0.28-19", "8.0.28-20", False),
        ("mysql-8.0.31", "8.0.31-23", False),
    ],
)
def test_which_servers_match_a_requested_version(wanted: str, found: str, fits: bool) -> None:
    assert parse_request(wanted).fits(parse_version(found)) is fits


@pytest.mark.parametrize(
    ("wanted", "held"), [("latest", "26.7.0"), ("lts", "29.1.0"), ("mariadb-lts", "13.2.2-MariaDB")]
)
def test_a_registry_knows_what_its_tags_mean(wanted: str, held: str) -> None:
    assert parse_request(wanted).fits_tag(parse_version(held))
    assert not parse_request(wanted).fits_tag(parse_version("percona-9.7.4"))


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("9.7.4-1", "9.7.4-1 means percona-9.7.4-1: the number after the dash is Percona's"),
        ("percona-9.7.4-1", None),
        ("10.11", "10.11 means mariadb-10.11: MySQL has no such version"),
        ("13.0.1", "13.0.1 means mariadb-13.0.1: MySQL has no such version"),
        *(
            (text, None)
            for text in ("mariadb-10.11", "10.11.19-MariaDB-0+deb12u1", "26.7", "9.7.4.1", "debian-mariadb")
        ),
    ],
)
def test_numbers_that_mean_another_flavor_are_noted(text: str, note: str | None) -> None:
    assert parse_request(text).flavor_note == note


def test_two_builds_of_one_release_have_two_names() -> None:
    version = parse_version("10.11.5-MariaDB")
    assert own_image_name(version, "d7d9699f" + 56 * "0") == "recovery-tester/mariadb:10.11.5-d7d9699f"
    assert own_image_name(version, 64 * "0") != own_image_name(version, 64 * "1")


# -- pulling

MANIFEST_V1 = "application/vnd.docker.distribution.manifest.v1+prettyjws"


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (
            PullFailure.OLD_FORMAT,
            "[DEPRECATION NOTICE] Docker Image Format v1 and Docker Image manifest version 2, schema 1 support is "
            "disabled by default and will be removed in an upcoming release. Suggest the author of hub.test/mysql:5.7 "
            "to upgrade the image to the OCI Format or Docker Image manifest v2, schema 2.",
        ),
        (
            PullFailure.OLD_FORMAT,
            f'not implemented: media type "{MANIFEST_V1}" is no longer supported since containerd v2.1, please rebuild '
            'the image as "application/vnd.docker.distribution.manifest.v2+json"',
        ),
        (PullFailure.OLD_FORMAT, f"{MANIFEST_V1} not supported"),
        (
            PullFailure.OLD_FORMAT,
            "Docker Image Format v1 and Docker Image manifest version 2, schema 1 support has been removed",
        ),
        (PullFailure.OLD_FORMAT, "unsupported manifest: schema version 1 is not supported"),
        (PullFailure.ABSENT, "manifest for localhost:5000/mysql:5.7.99 not found: manifest unknown: manifest unknown"),
        (
            PullFailure.ABSENT,
            'failed to resolve reference "localhost:5000/mysql:5.7.99": localhost:5000/mysql:5.7.99: not found',
        ),
        (PullFailure.ABSENT, "name unknown: repository name not known to registry"),
        (PullFailure.ABSENT, "no matching manifest for linux/arm64/v8 in the manifest list entries"),
        (
            PullFailure.REFUSED,
            "pull access denied for mysql5, repository does not exist or may require 'docker login': denied: requested "
            "access to the resource is denied",
        ),
        (PullFailure.REFUSED, 'Get "https://localhost:5000/v2/mysql/manifests/5.7.9": no basic auth credentials'),
        (PullFailure.REFUSED, 'Head "https://hub.test/v2/x/manifests/1": unauthorized: authentication required'),
        (PullFailure.LIMITED, "toomanyrequests: You have reached your pull rate limit."),
        (PullFailure.UNREACHABLE, 'Get "https://hub.test/v2/": dial tcp: lookup hub.test on 10.0.0.1:53: no such host'),
        (PullFailure.UNREACHABLE, 'Get "http://127.0.0.1:1/v2/": dial tcp 127.0.0.1:1: connect: connection refused'),
        (
            PullFailure.UNREACHABLE,
            'Get "https://hub.test/v2/": net/http: request canceled while waiting for connection (Client.Timeout '
            "exceeded while awaiting headers)",
        ),
        (PullFailure.UNREACHABLE, 'Get "https://mirror.test/v2/": http: server gave HTTP response to HTTPS client'),
        (PullFailure.UNREACHABLE, 'Get "https://mirror.test/v2/": x509: certificate signed by unknown authority'),
        (PullFailure.UNREACHABLE, "received unexpected HTTP status: 503 Service Unavailable"),
        (PullFailure.NO_SUCH_NAME, "invalid reference format: repository name must be lowercase"),
        (PullFailure.OTHER, "failed to register layer: write /usr/sbin/mysqld: no space left on device"),
    ],
)
def test_the_meaning_of_an_error_of_the_engine(failure: PullFailure, message: str) -> None:
    assert classify_pull_error(message) is failure


Event = dict[str, Any]


def pulling(*events: Event, error: Exception | None = None) -> docker.DockerClient:
    def pull(name: str, **_options: object) -> Iterator[Event]:
        if error is not None:
            raise error
        names.append(name)
        return iter(events)

    names: list[str] = []
    images = SimpleNamespace(get=lambda name: SimpleNamespace(id="sha256:" + "1" * 64))
    return cast("docker.DockerClient", SimpleNamespace(api=SimpleNamespace(pull=pull), images=images, names=names))


@pytest.mark.parametrize(
    ("name", "pulled"),
    [
        ("localhost:5000/mysql", "localhost:5000/mysql:latest"),
        ("mysql:8.0", "mysql:8.0"),
        ("mysql@sha256:" + "0" * 64, "mysql@sha256:" + "0" * 64),
    ],
)
def test_a_name_without_a_tag_pulls_one_tag_only(name: str, pulled: str) -> None:
    client = pulling()
    pull_image(client, name, lambda _line: None)
    assert cast(Any, client).names == [pulled]


OLD_IMAGE = f"not implemented: media type {MANIFEST_V1}"


@pytest.mark.parametrize(
    ("client", "why", "goes_on", "message"),
    [
        (
            pulling({"status": "Pulling"}, {"errorDetail": {"message": OLD_IMAGE}, "error": OLD_IMAGE}),
            PullFailure.OLD_FORMAT, True, "of 2015 (schema 1)",
        ),
        (
            pulling(error=APIError("500", explanation='Get "https://hub.test/v2/": dial tcp: lookup: no such host')),
            PullFailure.UNREACHABLE, True, "the registry does not answer (no such host)",
        ),
        (
            pulling(error=requests.ReadTimeout("Read timed out. (read timeout=60)")),
            PullFailure.UNREACHABLE, True, "the registry does not answer",
        ),
        (
            pulling({"error": "failed to register layer: write /x: no space left on device"}),
            PullFailure.OTHER, False, "no space left on device",
        ),
        (pulling({"error": "invalid reference format"}), PullFailure.NO_SUCH_NAME, False, "is not an image name"),
    ],
)  # fmt: skip
def test_a_failed_pull(client: docker.DockerClient, why: PullFailure, goes_on: bool, message: str) -> None:
    """Another source is tried unless the disk is full or the name is invalid."""
    with pytest.raises(NotPulledError) as caught:
        pull_image(client, "mysql:5.7.9", lambda _line: None)
    assert (caught.value.why, caught.value.why in RETRY_ELSEWHERE, caught.value.exit_code) == (why, goes_on, 3)
    assert message in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint


# -- making an image of a server


def server_tree(base: Path, mysqld: str = "bin/mysqld", *folders: Path) -> Build:
    for name in (mysqld, "share/english/errmsg.sys", "libs/libown.so.1", "lib/plugin/a.so"):
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_bytes(name.encode())
    (base / mysqld).chmod(0o700)
    version = parse_version("5.7.22")
    return Build(version, base / mysqld, base, 64 * "a", "catalog (test)", base / "share", library_dirs=folders)


def members(build: Build, *, with_hosts: bool = False) -> dict[str, tarfile.TarInfo]:
    file = io.BytesIO()
    write_server_archive(build, file, with_hosts=with_hosts)
    file.seek(0)
    with tarfile.open(fileobj=file) as tar:
        return {member.name: member for member in tar}


def test_an_image_holds_the_whole_tree_of_a_server_for_any_user(tmp_path: Path) -> None:
    host_folder = tmp_path / "libraries"
    host_folder.mkdir()
    (host_folder / "libaio.so.1.0.1").write_bytes(b"library")
    (host_folder / "libaio.so.1").symlink_to("libaio.so.1.0.1")
    build = server_tree(tmp_path / "tree", "bin/mysqld", tmp_path / "tree" / "libs", host_folder)
    found = members(build)
    assert {"opt/mysqld", "opt/mysqld/bin/mysqld", "opt/mysqld/lib/plugin/a.so"} <= set(found)
    assert not [name for name in found if name.startswith("opt/libraries")]
    assert library_path(build, with_hosts=False) == "/opt/mysqld/libs"
    assert found["opt/mysqld/bin/mysqld"].mode & 0o777 == 0o755
    assert found["opt/mysqld/share/english/errmsg.sys"].mode & 0o444 == 0o444
    assert {member.uid for name, member in found.items() if name.startswith("opt/")} == {0}

    found = members(build, with_hosts=True)
    assert found["opt/libraries/libaio.so.1"].isfile(), "no link into the host"
    assert library_path(build, with_hosts=True) == "/opt/mysqld/libs:/opt/libraries"


def test_an_image_holds_only_the_server_of_a_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usr = tmp_path / "usr"
    build = server_tree(usr, "sbin/mysqld")
    put(usr / "share/mysql/english/errmsg.sys")
    put(usr / "bin/everything-else")
    monkeypatch.setattr(image_build, "_SHARED_BASEDIRS", (usr,))
    found = members(build)
    assert "opt/mysqld/share/mysql/english/errmsg.sys" in found
    assert "opt/mysqld/sbin/mysqld" in found
    assert {found[folder].mode for folder in ("opt/mysqld", "opt/mysqld/sbin", "opt/mysqld/share")} == {0o755}
    assert not [name for name in found if "everything-else" in name]
    assert str(place_inside(build, build.mysqld)) == "/opt/mysqld/sbin/mysqld"


def test_an_executable_without_messages_goes_alone(tmp_path: Path) -> None:
    found = members(replace(server_tree(tmp_path / "sql", "mysqld"), messages=None))
    assert set(found) == {"opt/mysqld", "opt/mysqld/mysqld"}


# -- inspecting an image: the script runs in a shell of the host

SAYS_VERSION = "echo 'mysqld  Ver 5.6.24 for Linux on x86_64'"


def put(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def put_server(path: Path) -> Path:
    return shell_script(path, SAYS_VERSION)


def inspect(path: str, mysqld: str = "", folders: str = "") -> bytes:
    environment = {"PATH": f"{path}:{os.environ['PATH']}"}
    words = (mysqld, folders, " ".join(SHARE_FOLDERS), "")
    command = ["/bin/sh", "-c", image_inspect._SCRIPT, "inspect", *words]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout


def found_by(path: str, mysqld: str = "", folders: str = "") -> tuple[ImageInspection, dict[str, bytes]]:
    return parse_inspection(inspect(path, mysqld, folders), "sha256:1")[:2]


@pytest.mark.parametrize(
    ("place", "share"),
    [
        ("usr/sbin/mysqld", "share/mysql"),
        ("usr/bin/mariadbd", "share/mariadb"),
        ("opt/server/bin/mysqld", "share"),
        ("opt/server/sql/mysqld", None),
        ("opt/server/mysqld", "share/mysql-8.0"),
    ],
)
def test_the_server_of_an_image_is_found_as_on_a_host(place: str, share: str | None, tmp_path: Path) -> None:
    mysqld = put_server(tmp_path / place)
    if share is not None:
        put(tmp_path.joinpath(*Path(place).parts[: 1 if place.startswith("usr") else 2], share, "english/errmsg.sys"))
    found, scripts = found_by(str(mysqld.parent))
    assert (Path(found.mysqld), Path(found.basedir)) == (mysqld, basedir_of(mysqld))
    assert found.messages == str(messages_in(basedir_of(mysqld)) or "")
    assert (found.messages != "") is (share is not None)
    assert found.fingerprint == sha256(mysqld.read_bytes()).hexdigest()
    assert found.version_output == "mysqld  Ver 5.6.24 for Linux on x86_64"
    assert scripts == {}


def test_a_server_outside_of_the_path_is_found_behind_its_link(tmp_path: Path) -> None:
    mysqld = put_server(tmp_path / "a/real")
    (tmp_path / "a/mysqld").symlink_to("real")
    assert Path(found_by("/nowhere:", folders=f"/nowhere/either:{tmp_path}/a")[0].mysqld) == mysqld


def test_the_executable_that_a_label_names_goes_first(tmp_path: Path) -> None:
    named, other = put_server(tmp_path / "a/mysqld-debug"), put_server(tmp_path / "b/mysqld")
    assert found_by(str(other.parent), str(named))[0].mysqld == str(named)
    named.unlink()
    assert found_by(str(other.parent), str(named))[0].mysqld == str(other)


def test_the_scripts_of_an_old_server_are_copied(tmp_path: Path) -> None:
    put_server(tmp_path / "bin/mysqld")
    put(tmp_path / "share/mysql/english/errmsg.sys")
    put(tmp_path / "share/mysql/fill_help_tables.sql").write_bytes(b"\xff\0" * 5000)
    put(tmp_path / "scripts/more.sql", "select 1;\n\n")
    put(tmp_path / "share/mysql/README", "text")
    _, scripts = found_by(str(tmp_path / "bin"))
    assert scripts == {"fill_help_tables.sql": b"\xff\0" * 5000, "more.sql": b"select 1;\n\n"}


def test_an_image_without_a_server_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no mysqld in the image"):
        found_by(str(tmp_path))


@pytest.mark.parametrize("body", ["exit 1", "echo error while loading shared libraries >&2; exit 127"])
def test_a_server_that_prints_no_version_is_refused(body: str, tmp_path: Path) -> None:
    shell_script(tmp_path / "mysqld", body)
    with pytest.raises(HostUnfitError, match=r"asked for its version, says: (nothing|error while)"):
        found_by(str(tmp_path))


@pytest.mark.parametrize("damage", ["{", '{"mysqld": "/m"}'])
def test_an_image_is_inspected_once(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_inspect, "find_eatmydata", lambda: None)
    put_server(tmp_path / "a/bin/mysqld")
    put(tmp_path / "a/share/english/errmsg.sys")
    put(tmp_path / "a/share/fill_help_tables.sql", "select 1")
    runs: list[str] = []

    def run(_client: object, image: str, command: list[str]) -> tuple[int, bytes, bytes]:
        runs.append(image)
        return 0, inspect(str(tmp_path / "a/bin"), *command[4:6]), b""

    monkeypatch.setattr(image_inspect, "run_in_image", run)
    client: Any = None
    build = inspect_image(client, "sha256:1", "image mysql:5.6")
    assert (str(build.version), build.source, build.image) == ("5.6.24", "image mysql:5.6", "sha256:1")
    assert [path.name for folder in build.scripts for path in folder.iterdir()] == ["fill_help_tables.sql"]
    assert inspect_image(client, "sha256:1", "image mysql:5.6") == build
    assert len(runs) == 1
    memos = tmp_path / "cache/images"
    (memos / "1.json").write_text(damage)
    assert inspect_image(client, "sha256:1", "image mysql:5.6") == build
    assert len(runs) == 2
    image_inspect.delete_memo("sha256:1")
    assert list(memos.iterdir()) == []


OUR_LABELS = {docker_engine.SOURCE: "catalog (x)", docker_engine.MYSQLD: "/opt/mysqld/bin/mysqld"}


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (OUR_LABELS, ("catalog (x)", "/opt/mysqld/bin/mysqld")),
        ({docker_engine.SOURCE: "built from debian:bookworm-slim"}, ("image mysql:5.7", "")),
        (dict.fromkeys(OUR_LABELS, ""), ("image mysql:5.7", "")),
        ({}, ("image mysql:5.7", "")),
    ],
)
def test_labels_count_only_if_this_tool_put_the_server_into_the_image(
    labels: dict[str, str], found: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image on our base inherits the labels of the base, and can hold any server."""
    calls: list[tuple[str, str]] = []
    monkeypatch.setattr(image_resolve, "inspect_image", lambda _c, _i, source, mysqld: calls.append((source, mysqld)))
    client: Any = SimpleNamespace(images=SimpleNamespace(get=lambda _: SimpleNamespace(labels=labels)))
    image_resolve._inspect(client, "mysql:5.7", "sha256:1")
    assert calls == [found]


def block(name: str, content: str) -> bytes:
    return f"{name}\n".encode() + b64encode(content.encode()) + b"\n\n"


WHOLE = block("mysqld", "/m") + block("sha256", "a" * 64 + "  /m") + block("version_output", "mysqld  Ver 8.0.31")


@pytest.mark.parametrize("name", ["../x.sql", "a/x.sql", "..", ".sql", "/etc/x.sql", "x.sh", "x.sql\0"])
def test_the_name_of_a_script_cannot_lead_out_of_its_folder(name: str) -> None:
    assert parse_inspection(WHOLE + block(f"sql {name}", "x") + block("sql ok.sql", "y"), "i")[1] == {"ok.sql": b"y"}


@pytest.mark.parametrize("output", [block("mysqld", "/m"), WHOLE[:30], WHOLE.replace(b"sha256", b"other")])
def test_an_image_without_the_programs_of_the_script_is_refused(output: bytes) -> None:
    with pytest.raises(HostUnfitError, match="lacks sha256sum, base64 or readlink"):
        parse_inspection(output, "i")


def test_an_image_is_asked_for_its_version_as_a_server_of_this_host() -> None:
    assert f'"$mysqld" {" ".join(VERSION_OPTIONS)} 2>&1' in image_inspect._SCRIPT


def test_the_versions_of_packages_are_read() -> None:
    output = WHOLE + block("packages", "mysql-server-core 9.7.4-2\nlibeatmydata1 131-1")
    assert parse_inspection(output, "i")[2] == {"mysql-server-core": "9.7.4-2", "libeatmydata1": "131-1"}


# -- images that this tool made


class Images:
    """Images by id, as docker-py lists and removes them."""

    def __init__(self, images: tuple[SimpleNamespace, ...], busy: str) -> None:
        self.every = images
        self.busy = busy
        self.removed: list[str] = []

    def images(self, *, quiet: bool) -> list[str]:
        return [image.id for image in self.every]

    def get(self, name: str) -> SimpleNamespace:
        for image in self.every:
            if name == image.id or name in image.tags:
                return image
        raise ImageNotFound("no such image")

    def remove(self, name: str) -> None:
        if name == self.busy:
            raise APIError("409", cast(Any, SimpleNamespace(status_code=409, reason="", url="")), "container 1 uses it")
        self.removed.append(name)


def engine_with(*images: SimpleNamespace, busy: str = "") -> tuple[docker.DockerClient, Images]:
    known = Images(images, busy)
    return cast("docker.DockerClient", SimpleNamespace(images=known, api=known)), known


def own_image(number: int, name: str, version: str | None, source: str = "catalog (test)") -> SimpleNamespace:
    labels = {docker_engine.PURPOSE: "image", docker_engine.IMAGE_NAME: name}
    if version is not None:
        build = Build(parse_version(version), Path("/opt/mysqld/bin/mysqld"), Path("/opt/mysqld"), 64 * "a", source)
        labels |= image_list.build_labels(build)
    return SimpleNamespace(id=f"sha256:{number:064}", tags=[name], labels=labels, attrs={"Size": 1 << 20})


MYSQL = "recovery-tester/mysql:5.7.22-aaaaaaaa"
SID = "recovery-tester/debian-sid:latest"
SID_IMAGE = own_image(1, SID, "9.7.4", "debian sid (test)")
MYSQL_IMAGE = own_image(2, MYSQL, "5.7.22")
BASE_IMAGE = own_image(3, BASE_IMAGE_NAME, None, "debian bookworm (test)")
PULLED = SimpleNamespace(
    id=f"sha256:{4:064}",
    tags=["mysql:8.0.31", "localhost:5000/mysql:8.0.31", "somebody/thing:1"],
    labels={},
    attrs={"Size": 1 << 20},
)


def test_own_images_and_those_of_servers_are_listed() -> None:
    client, _ = engine_with(PULLED, SID_IMAGE, BASE_IMAGE)
    assert [(row.name, row.version, row.ours) for row in image_list.list_images(client)] == [
        (BASE_IMAGE_NAME, None, True),
        (SID, "9.7.4", True),
        ("localhost:5000/mysql:8.0.31", "8.0.31", False),
        ("mysql:8.0.31", "8.0.31", False),
    ]


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("5.7.22", MYSQL),
        ("5.7", MYSQL),
        ("9.7", SID),
        ("9.7.4", SID),
        ("debian-sid", SID),
        ("debian-mariadb", None),
        ("9.7.5", None),
        ("8.0.31", None),
    ],
)
def test_an_own_image_is_found_by_version(wanted: str, name: str | None) -> None:
    client, _ = engine_with(PULLED, SID_IMAGE, MYSQL_IMAGE, BASE_IMAGE)
    found = image_list.find_own_image(client, parse_request(wanted))
    assert (found and found.tags[0]) == name


def test_a_patched_server_of_the_user_is_not_the_release_of_its_number() -> None:
    client, _ = engine_with(own_image(5, "recovery-tester/mysql:5.7.22-bbbbbbbb", "5.7.22", "own /opt/patched"))
    assert image_list.find_own_image(client, parse_request("5.7.22")) is None


def test_a_label_alone_does_not_make_an_image_ours() -> None:
    """An image from a registry, or one that the user has renamed, can have any label."""
    image = own_image(5, MYSQL, "5.7.22")
    image.tags = ["somebody/thing:1", "mysql:5.7.22"]
    client, _ = engine_with(image)
    assert image_list.list_images(client) == []
    assert image_list.find_own_image(client, parse_request("5.7.22")) is None


@pytest.mark.parametrize("name", [MYSQL, "5.7.22", f"sha256:{2:064}"])
def test_an_image_is_removed_by_name_version_or_id(name: str) -> None:
    client, images = engine_with(PULLED, MYSQL_IMAGE)
    assert image_list.remove_image(client, name) == MYSQL
    assert images.removed == [MYSQL]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("mysql:8.0.31", "was not made here"),
        ("somebody/thing:1", "was not made here"),
        ("x:1", "is not an image on this"),
        ("-", "is not an image on this"),
        ("", "is not an image on this"),
        ("5.7.22", "several images"),
    ],
)
def test_no_other_image_is_removed(name: str, reason: str) -> None:
    other_build = own_image(7, "recovery-tester/mysql:5.7.22-bbbbbbbb", "5.7.22", "archive (test)")
    client, images = engine_with(PULLED, MYSQL_IMAGE, other_build, BASE_IMAGE)
    with pytest.raises(UsageError, match=reason):
        image_list.remove_image(client, name)
    assert images.removed == []


def test_all_images_are_removed_but_those_in_use_and_the_base_last() -> None:
    client, images = engine_with(BASE_IMAGE, PULLED, MYSQL_IMAGE, SID_IMAGE, busy=SID)
    removed, left = image_list.remove_all_images(client)
    assert removed == images.removed == [MYSQL, BASE_IMAGE_NAME]
    assert left == [SID]
    with pytest.raises(HostUnfitError, match="in use"):
        image_list.remove_image(client, "debian-sid")


# -- where an image would come from, without pulling it

ABSENT = "manifest for mysql:x not found: manifest unknown: manifest unknown"
UNREACHED = 'Get "https://registry.test/v2/": dial tcp: lookup registry.test: no such host'


class Registry(Images):
    """An engine with images of its own, and the names that its registry has; or with the error of asking it."""

    def __init__(self, images: tuple[SimpleNamespace, ...], names: tuple[str, ...], problem: str = ABSENT) -> None:
        super().__init__(images, "")
        self.names = names
        self.problem = problem

    def get_registry_data(self, name: str) -> None:
        if name not in self.names:
            raise docker.errors.DockerException(self.problem)


def located(
    version: str | None,
    registry: Registry,
    monkeypatch: pytest.MonkeyPatch,
    sources: Sources = Sources(),  # noqa: B008
) -> str | RecoveryError:
    def no_archive(text: str, *_: object) -> str:
        raise UsageError(f"{text} is in no archive", "take another")

    monkeypatch.setattr(image_resolve, "locate_server", no_archive)
    client = cast("docker.DockerClient", SimpleNamespace(images=registry, api=registry))
    try:
        return image_resolve.locate_image(version, sources, lambda _: None, client)
    except RecoveryError as error:
        return error


def test_a_dry_run_says_where_an_image_is(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry((PULLED, MYSQL_IMAGE), ("mysql:innovation", "mysql:26.7.0", "mariadb:10.11", "my/own:1"))
    for version, place in (
        ("8.0.31", "in an image of this host"),
        ("5.7.22", "in an image of this host"),
        ("innovation", "the image mysql:innovation, to be pulled"),
        ("26.7.0", "the image mysql:26.7.0, to be pulled"),
        ("10.11", "the image mariadb:10.11, to be pulled"),
        ("9.7.9", "in an image of debian-sid, if that carries it now"),
        ("debian-mariadb", "in an image of debian-mariadb"),
    ):
        assert located(version, registry, monkeypatch) == place
    assert located(None, registry, monkeypatch, Sources(image="my/own:1")) == "the image my/own:1, to be pulled"


def test_a_dry_run_says_that_no_image_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def problem(version: str | None, registry: Registry, sources: Sources = Sources()) -> tuple[int, str]:  # noqa: B008
        error = located(version, registry, monkeypatch, sources)
        assert isinstance(error, RecoveryError)
        return error.exit_code, error.message

    absent, unreached = Registry((), ()), Registry((), (), UNREACHED)
    assert problem("5.7.9", absent) == (2, "5.7.9 is in no archive")
    assert problem("lts", absent) == (2, "no image of lts was found")
    code, message = problem("5.7.9", unreached)
    assert (code, message.endswith("; elsewhere 5.7.9 is in no archive")) == (3, True)
    offline = Sources(offline=True)
    assert problem("9.7.9", unreached, offline) == (2, "9.7.9 is in no archive")
    assert problem(None, absent, Sources(image="my/own:1"))[0] == 3
    assert problem(None, absent, Sources(image="my/own:1", offline=True))[0] == 2


@pytest.mark.parametrize("has_engine", [True, False])
def test_a_dry_run_refuses_two_names_of_one_server(has_engine: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(_: object) -> object:
        if not has_engine:
            raise docker_engine.NoEngineError("no engine answers", "")
        client = engine_with(own_image(1, "recovery-tester/mysql:8.0.31-aaaaaaaa", "8.0.31"), MYSQL_IMAGE)[0]
        client.close = lambda: None  # type: ignore[method-assign]
        return client

    monkeypatch.setattr(docker_engine, "endpoint", lambda: None)
    monkeypatch.setattr(docker_engine, "connect", connect)
    assert len(session_engine.locate_servers(request("5.7.22", "8.0.31"), print)) == 2
    wanted = request("8.0.31", "8.0")
    with pytest.raises(UsageError, match=r"two of the names mean one server: 8\.0\.31 and 8\.0$"):
        session_engine.locate_servers(wanted, print)


# -- ENGINE=auto

BUILD = cast(Build, SimpleNamespace(version="5.7.22"))
NO_IMAGE = HostUnfitError("no registry answers, and debootstrap is missing", "take ENGINE=local")
NO_VERSION = UsageError("no such version", "")


def request(*versions: str, engine: str = "auto", image: str | None = None) -> Request:
    return cast(Request, SimpleNamespace(servers=Servers(versions or ("5.7.22",), engine=engine, image=image)))


def engine(name: str, found: Build | RecoveryError) -> Engine:
    def resolve(_: str | None, __: str | None) -> Build:
        if isinstance(found, RecoveryError):
            raise found
        return found

    return Engine(name, resolve, FakeLauncher([]), lambda _: None, lambda _: frozenset())


@pytest.mark.parametrize(
    ("asked", "in_docker", "local", "expected"),
    [
        (request(), BUILD, BUILD, DOCKER),
        (request(), NO_IMAGE, BUILD, LOCAL),
        (request(), NO_IMAGE, UsageError("only containers know it", ""), NO_IMAGE),
        (request(), NO_VERSION, BUILD, NO_VERSION),
        (request(engine="docker"), NO_IMAGE, BUILD, NO_IMAGE),
        (request(image="my/mysql:patched"), NO_IMAGE, BUILD, NO_IMAGE),
    ],
)
def test_servers_run_locally_only_if_no_container_was_requested_and_there_is_no_image(
    asked: Request,
    in_docker: Build | RecoveryError,
    local: Build | RecoveryError,
    expected: str | RecoveryError,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_engine, "_local_engine", lambda *_: engine(LOCAL, local))
    lines: list[str] = []
    if isinstance(expected, str):
        chosen, builds = resolve_builds(asked, engine(DOCKER, in_docker), lines.append)
        assert (chosen.name, builds) == (expected, (BUILD,))
        local_line = "no registry answers, and debootstrap is missing: servers run as local processes"
        assert lines == ([local_line] if expected == LOCAL else [])
    else:
        with pytest.raises(type(expected), match=expected.message):
            resolve_builds(asked, engine(DOCKER, in_docker), lines.append)
        assert not lines, "it is not said of servers that cannot be had"


def own_servers(*fingerprints: str) -> tuple[Request, Engine]:
    """Returns a request for servers at /a, /b …, and an engine that finds binaries with these fingerprints there."""
    places = [f"/{letter}/mysqld" for letter, _ in zip("abcd", fingerprints, strict=False)]
    found = dict(zip(places, fingerprints, strict=True))

    def resolve(_: str | None, place: str | None) -> Build:
        return Build(parse_version("8.0.31"), Path(str(place)), Path(), found[str(place)], "own")

    wanted = Servers(engine=LOCAL, mysqld=parse_own_servers(places))
    servers = Engine(LOCAL, resolve, FakeLauncher([]), lambda _: None, lambda _: frozenset())
    return cast(Request, SimpleNamespace(servers=wanted)), servers


def test_two_builds_of_one_release_are_two_servers() -> None:
    _, builds = resolve_builds(*own_servers("1", "2"), print)
    assert [str(build.version) for build in builds] == ["8.0.31+a", "8.0.31+b"]
    assert {build.version.release for build in builds} == {"8.0.31"}


def test_one_binary_is_not_compared_with_itself() -> None:
    with pytest.raises(UsageError, match="a and b are the same binary"):
        resolve_builds(*own_servers("1", "1"), print)
