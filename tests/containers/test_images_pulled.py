"""Is an image pulled where a registry has it, and is another way gone where it has not? With a real registry."""

from __future__ import annotations

import io
import tarfile
import urllib.request
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import docker
import pytest
from docker.errors import APIError
from loopback import ALONE, quiet
from sessions import stored

from recovery.builds import image_build, image_list
from recovery.builds.image_build import DebianRecipe
from recovery.builds.image_list import image_id
from recovery.builds.image_pull import NotPulledError, PullFailure
from recovery.builds.image_resolve import resolve_image
from recovery.builds.resolve import DEBIAN_SUITE, Sources, own_image_name, parse_request, resolve_server
from recovery.cli.main import run
from recovery.errors import HostUnfitError, UsageError

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]

# A release that never was, in the place where the official images have theirs, behind a link as in MariaDB's.
VERSION = "5.7.99"
SERVER = b'#!/bin/sh\necho "mysqld  Ver 5.7.99-log for Linux on x86_64 (MySQL Community Server (GPL))"\n'
DOCKERFILE = """
FROM {base}
COPY mysqld /usr/sbin/real-mysqld
RUN chmod 755 /usr/sbin/real-mysqld && ln -s real-mysqld /usr/sbin/mysqld
VOLUME /var/lib/mysql
ENTRYPOINT ["/bin/false"]
"""
SCHEMA_1 = "application/vnd.docker.distribution.manifest.v1+prettyjws"


class Publish(Protocol):
    def __call__(self, name: str, what: str = ..., /) -> str: ...


@pytest.fixture(scope="module")
def image(client: docker.DockerClient) -> Iterator[str]:
    base = image_build.ensure_base_image(client, ALONE, quiet)
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        for name, content in (("mysqld", SERVER), ("Dockerfile", DOCKERFILE.format(base=base).encode())):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    built = image_build.build_image(client, "Dockerfile", context, {})
    client.images.get(built).tag("recovery-test/server", "1")
    yield built
    client.images.remove("recovery-test/server:1", force=True)


@pytest.fixture
def publish(client: docker.DockerClient, registry: str, image: str) -> Iterator[Publish]:
    """The image under this name in the registry, and no longer under it on the host."""
    names = []

    def push(name: str, what: str = image, /) -> str:
        full = f"{registry}/{name}"
        client.images.get(what).tag(full)
        said = client.images.push(full)
        assert "errorDetail" not in said, said
        client.images.remove(full)
        names.append(full)
        return full

    yield push
    for name in names:
        if image_id(client, name) is not None:
            client.images.remove(name)


@pytest.fixture
def without(client: docker.DockerClient) -> Callable[[str], str]:
    """A version of the catalog whose image is not on this host."""

    def clear(version: str) -> str:
        while (found := image_list.find_own_image(client, parse_request(version))) is not None:
            image_list.remove_image(client, str(found.id))
        here = resolve_server(version, Sources(), quiet)
        return own_image_name(here.version, here.fingerprint)

    return clear


def volumes(client: docker.DockerClient) -> int:
    return len(client.volumes.list())


def test_pulled_and_looked_at(client: docker.DockerClient, registry: str, publish: Publish) -> None:
    name = publish(f"mysql:{VERSION}")
    before, lines = volumes(client), list[str]()
    build = resolve_image(VERSION, Sources(registry=registry), lines.append, client)
    assert lines[0] == f"pulling {name}"
    assert (str(build.version), build.version.text) == (VERSION, "5.7.99-log")
    assert str(build.mysqld) == "/usr/sbin/real-mysqld", "past the link, and past the entrypoint"
    assert str(build.basedir) == "/usr"
    assert build.fingerprint == sha256(SERVER).hexdigest()
    assert build.source == f"image {name}"
    assert build.image == image_id(client, name)
    (warning,) = build.warnings
    assert warning.startswith(f"{name} is not pinned")
    assert f"{name.rpartition(':')[0]}@sha256:" in warning
    assert volumes(client) == before, "looking leaves no volume behind"

    lines.clear()
    assert resolve_image(VERSION, Sources(registry=registry, offline=True), lines.append, client) == build
    assert lines == [f"{VERSION}: the image {name} is on this host"]


AS_SHIPPED = """
FROM {server}
RUN mkdir -p /usr/share/mysql-5.7 && cp -r {messages}/* /usr/share/mysql-5.7/ && cp {mysqld} /usr/sbin/mysqld \\
    && rm -rf {basedir} /usr/lib/*/libeatmydata*
LABEL {labels}
VOLUME /var/lib/mysql
ENTRYPOINT ["/bin/false"]
"""


def test_a_server_in_the_places_of_its_vendor_is_pulled_and_measured(
    client: docker.DockerClient,
    registry: str,
    publish: Publish,
    without: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A real one: no labels of ours, messages named by the series, nothing that we would have put into the image."""
    ours = resolve_image("5.7.22", ALONE, quiet, client)
    labels = " ".join(f'{name}=""' for name in client.images.get(str(ours.image)).labels)
    text = AS_SHIPPED.format(
        server=ours.image, messages=ours.messages, mysqld=ours.mysqld, basedir=ours.basedir, labels=labels
    )
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        member = tarfile.TarInfo("Dockerfile")
        member.size = len(text.encode())
        tar.addfile(member, io.BytesIO(text.encode()))
    shipped = image_build.build_image(client, "Dockerfile", context, {})
    name = publish("mysql:5.7.22", shipped)
    without("5.7.22")
    where = ["--data", str(tmp_path / "data"), "--results", str(tmp_path / "results"), "--tables", "200", "--runs", "1"]
    try:
        assert run(["crash-recovery", "--engine", "docker", "--registry", registry, "--version", "5.7.22", *where]) == 0
    finally:
        client.images.remove(shipped, force=True)
    said = capsys.readouterr().err
    assert f"pulling {name}" in said
    assert "without libeatmydata" not in said, "this host's is shown to it"
    report = stored(tmp_path)
    assert report["servers"]["5.7.22"]["source"] == f"image {name}"
    assert [one["verdict"] for one in report["runs"]] == ["measured"] * 2


def test_a_tag_that_is_missing(
    client: docker.DockerClient, registry: str, without: Callable[[str], str], publish: Publish
) -> None:
    publish("mysql:another")
    built, lines = without("5.6.24"), list[str]()
    build = resolve_image("5.6.24", Sources(registry=registry), lines.append, client)
    assert str(build.version) == "5.6.24"
    assert lines[1].startswith(f"{registry}/mysql:5.6.24 is not in the registry: ")
    assert any(line.startswith(f"building the image {built} from catalog") for line in lines)


def test_a_registry_that_does_not_answer(client: docker.DockerClient, without: Callable[[str], str]) -> None:
    without("5.6.24")
    lines: list[str] = []
    assert str(resolve_image("5.6.24", ALONE, lines.append, client).version) == "5.6.24"
    assert "the registry does not answer (connection refused)" in lines[1]


def test_a_registry_that_does_not_answer_and_a_server_that_nobody_else_has(client: docker.DockerClient) -> None:
    """It may well be in the registry: the host's network is to blame, not the request."""
    with pytest.raises(
        HostUnfitError, match=r"mariadb:10\.6\.1 .* does not answer .*; elsewhere .* not in the catalog"
    ):
        resolve_image("mariadb-10.6.1", ALONE, quiet, client)


def test_nothing_is_asked_while_offline(client: docker.DockerClient, registry: str, publish: Publish) -> None:
    publish("mysql:5.7.98")
    with pytest.raises(UsageError, match=r"5\.7\.98 is not in the cache"):
        resolve_image("5.7.98", Sources(registry=registry, offline=True), quiet, client)


def as_schema_1(registry: str, name: str) -> None:
    """The registry itself rewrites an image for those that know the format of 2015 only; that is put in its place."""
    repository, _, tag = name.removeprefix(f"{registry}/").rpartition(":")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    url = f"http://{registry}/v2/{repository}/manifests/{tag}"
    with opener.open(urllib.request.Request(url, headers={"Accept": SCHEMA_1})) as answer:
        assert answer.headers["Content-Type"] == SCHEMA_1
        manifest = answer.read()
    put = urllib.request.Request(url, manifest, {"Content-Type": SCHEMA_1}, method="PUT")
    opener.open(put).close()


def test_the_format_of_2015(
    client: docker.DockerClient, registry: str, publish: Publish, without: Callable[[str], str]
) -> None:
    """Old engines pull it, today's refuse it: the server is had either way."""
    as_schema_1(registry, publish("mysql:5.6.24"))
    without("5.6.24")
    lines: list[str] = []
    try:
        build = resolve_image("5.6.24", Sources(registry=registry), lines.append, client)
    finally:
        if image_id(client, f"{registry}/mysql:5.6.24") is not None:
            client.images.remove(f"{registry}/mysql:5.6.24")
    assert str(build.version) == "5.6.24", "what was pulled under that name holds another version: it is passed over"
    assert any("(schema 1)" in line or f"holds {VERSION}" in line for line in lines)


REFUSALS_OF_TODAY = [
    "[DEPRECATION NOTICE] Docker Image Format v1 and Docker Image manifest version 2, schema 1 support is disabled by "
    "default and will be removed in an upcoming release.",
    f'not implemented: media type "{SCHEMA_1}" is no longer supported since containerd v2.1',
]


@pytest.mark.parametrize("message", REFUSALS_OF_TODAY)
def test_an_engine_of_today_refuses_the_format_of_2015(
    message: str, client: docker.DockerClient, without: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine at hand may be older: the words of one that refuses it stand in for the answer to the pull."""

    def refuse(name: str, **_options: object) -> Any:
        raise APIError("500 Server Error", explanation=message)

    built, lines = without("5.6.24"), list[str]()
    with monkeypatch.context() as patch:
        patch.setattr(client.api, "pull", refuse)
        build = resolve_image("5.6.24", Sources(), lines.append, client)
    assert image_id(client, built) == build.image
    assert "is in the format of 2015 (schema 1), which this engine does not pull" in lines[1]


def test_an_image_of_the_user_s_own(client: docker.DockerClient, image: str, publish: Publish) -> None:
    name = publish("somebody/database:7")
    build = resolve_image(None, Sources(image=name), quiet, client)
    assert (str(build.version), build.source) == (VERSION, f"image {name}")
    assert resolve_image("5.7", Sources(image=name), quiet, client) == build
    with pytest.raises(UsageError, match=r"IMAGE is 5\.7\.99 .* but VERSION says 8\.0\.31"):
        resolve_image("8.0.31", Sources(image=name), quiet, client)


def test_images_that_are_none(client: docker.DockerClient, registry: str) -> None:
    base = image_build.ensure_base_image(client, ALONE, quiet)
    with pytest.raises(UsageError, match="no mysqld in the image"):
        resolve_image(None, Sources(image=base), quiet, client)
    for name, why in ((f"{registry}/nobody/knows:1", PullFailure.ABSENT), ("Not A Name", PullFailure.NO_SUCH_NAME)):
        with pytest.raises(NotPulledError) as caught:
            resolve_image(None, Sources(image=name), quiet, client)
        assert (caught.value.why, caught.value.exit_code) == (why, 3)


def test_a_base_from_the_registry(client: docker.DockerClient, registry: str, publish: Publish) -> None:
    """Where Debian's own image can be pulled nothing is bootstrapped. Without a network in builds it still is."""
    base = image_build.ensure_base_image(client, ALONE, quiet)
    publish(f"debian:{DEBIAN_SUITE}-slim", str(image_id(client, base)))
    recipe, lines = DebianRecipe("recovery-test/base:1", DEBIAN_SUITE, ("libeatmydata1",)), list[str]()
    with image_build.image_lock(client, recipe.name, quiet):
        part, origin = image_build.build_debian_part(client, recipe, Sources(registry=registry), lines.append)
        client.images.remove(part, force=True)
    assert lines[0] == f"pulling {registry}/debian:{DEBIAN_SUITE}-slim"
    assert origin in (
        f"built from {registry}/debian:{DEBIAN_SUITE}-slim",
        f"built from Debian {DEBIAN_SUITE} by debootstrap",
    )
