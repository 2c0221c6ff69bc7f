"""Images are pulled from a registry, and come from another source where it does not have them. With a real registry."""

from __future__ import annotations

import io
import tarfile
import urllib.request
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import docker
import pytest
from loopback import ALONE, quiet
from sessions import stored

from recovery.builds import image_build, image_list
from recovery.builds.image_build import DebianRecipe
from recovery.builds.image_list import image_id
from recovery.builds.image_pull import NotPulledError, PullFailure
from recovery.builds.image_resolve import resolve_image
from recovery.builds.resolve import BASE_IMAGE_NAME, DEBIAN_SUITE, Sources, own_image_name, resolve_server
from recovery.cli.main import run
from recovery.errors import HostUnfitError, UsageError
from recovery.linux.docker_engine import PURPOSE

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]

# A release that never was, in the place where the official images have theirs, behind a link as in MariaDB's.
VERSION = "5.7.99"
SERVER = b'#!/bin/sh\necho "mysqld  Ver 5.7.99-log for Linux on x86_64 (MySQL Community Server (GPL))"\n'
AS_OFFICIAL = ("VOLUME /var/lib/mysql", 'ENTRYPOINT ["/bin/false"]', f'LABEL {PURPOSE}=""')
SCHEMA_1 = "application/vnd.docker.distribution.manifest.v1+prettyjws"


class Publish(Protocol):
    def __call__(self, name: str, what: str = ..., /) -> str: ...


@pytest.fixture(scope="module")
def image(client: docker.DockerClient) -> Iterator[str]:
    base = image_build.ensure_base_image(client, ALONE, quiet)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        member = tarfile.TarInfo("usr/sbin/real-mysqld")
        member.size, member.mode = len(SERVER), 0o755
        tar.addfile(member, io.BytesIO(SERVER))
    link = ["ln", "-s", "real-mysqld", "/usr/sbin/mysqld"]
    name = "recovery-test/server:1"
    built = image_build.make_part(client, base, name, files=archive, command=link, changes=AS_OFFICIAL)
    client.images.get(built).tag(name)
    yield built
    client.images.remove("recovery-test/server:1", force=True)


@pytest.fixture
def publish(client: docker.DockerClient, registry: str, image: str) -> Iterator[Publish]:
    """The image under this name in the registry, and no longer under it on the host."""
    names = []

    def push(name: str, what: str = image, /) -> str:
        full = f"{registry}/{name}"
        client.images.get(what).tag(full)
        events = client.images.push(full)
        assert "errorDetail" not in events, events
        client.images.remove(full)
        names.append(full)
        return full

    yield push
    for name in names:
        if image_id(client, name) is not None:
            client.images.remove(name)


@pytest.fixture
def not_on_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images that were made here are not found, so a registry is asked. What would be built anew is still there."""
    monkeypatch.setattr(image_list, "find_own_image", lambda *_: None)


def own_name(version: str) -> str:
    here = resolve_server(version, Sources(), quiet)
    return own_image_name(here.version, here.fingerprint)


def volumes(client: docker.DockerClient) -> int:
    return len(client.volumes.list())


def test_a_pulled_image_is_inspected(client: docker.DockerClient, registry: str, publish: Publish) -> None:
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
    assert volumes(client) == before, "the inspection leaves no volume behind"

    lines.clear()
    assert resolve_image(VERSION, Sources(registry=registry, offline=True), lines.append, client) == build
    assert lines == [f"{VERSION}: the image {name} is on this host"]


def test_a_server_in_the_places_of_its_vendor_is_pulled_and_measured(
    client: docker.DockerClient,
    registry: str,
    publish: Publish,
    not_on_this_host: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A real one: no labels of ours, messages named by the series, nothing that we would have put into the image."""
    ours = resolve_image("5.7.22", ALONE, quiet, client)
    labels = " ".join(f'{name}=""' for name in client.images.get(str(ours.image)).labels)
    here = resolve_server("5.7.22", Sources(), quiet)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(here.mysqld, "usr/sbin/mysqld")
        tar.add(str(here.messages), "usr/share/mysql-5.7")
    without = ["sh", "-c", "rm -rf /usr/lib/*/libeatmydata*"]
    changes = (*AS_OFFICIAL, f"LABEL {labels}")
    shipped = image_build.make_part(
        client, BASE_IMAGE_NAME, "recovery-test/shipped:1", files=archive, command=without, changes=changes
    )
    name, mirror = publish("vendor/mysql:5.7.22", shipped), f"{registry}/vendor"
    where = ["--data", str(tmp_path / "data"), "--results", str(tmp_path / "results"), "--tables", "10", "--runs", "1"]
    try:
        assert run(["cold-recovery", "--engine", "docker", "--registry", mirror, "--version", "5.7.22", *where]) == 0
    finally:
        client.images.remove(shipped, force=True)
    messages = capsys.readouterr().err
    assert f"pulling {name}" in messages
    assert "without libeatmydata" not in messages, "this host's is shown to it"
    report = stored(tmp_path)
    assert report["servers"]["5.7.22"]["source"] == f"image {name}"
    assert [one["verdict"] for one in report["runs"]] == ["measured"]


def test_another_source_is_used_where_the_registry_lacks_the_tag(
    client: docker.DockerClient, registry: str, not_on_this_host: None, publish: Publish
) -> None:
    publish("mysql:another")
    lines = list[str]()
    build = resolve_image("5.7.22", Sources(registry=registry), lines.append, client)
    assert build.image == image_id(client, own_name("5.7.22"))
    assert lines[1].startswith(f"{registry}/mysql:5.7.22 is not in the registry: ")


def test_another_source_is_used_where_the_registry_does_not_answer(
    client: docker.DockerClient, not_on_this_host: None
) -> None:
    lines: list[str] = []
    build = resolve_image("5.7.22", ALONE, lines.append, client)
    assert build.image == image_id(client, own_name("5.7.22"))
    assert "the registry does not answer (connection refused)" in lines[1]


def test_a_silent_registry_is_the_error_for_a_server_without_another_source(client: docker.DockerClient) -> None:
    """It may well be in the registry: the host's network is to blame, not the request."""
    why = r"mariadb:10\.6\.99 .* does not answer .*; elsewhere "
    with pytest.raises(HostUnfitError, match=why):
        resolve_image("mariadb-10.6.99", ALONE, quiet, client)


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


def test_an_image_in_the_format_of_2015_is_pulled_or_skipped(
    client: docker.DockerClient, registry: str, publish: Publish, not_on_this_host: None
) -> None:
    """Old engines pull it, new ones refuse it; here it holds another version than its name says."""
    as_schema_1(registry, publish("old/mysql:5.7.22"))
    lines: list[str] = []
    build = resolve_image("5.7.22", Sources(registry=f"{registry}/old"), lines.append, client)
    assert build.image == image_id(client, own_name("5.7.22"))
    assert any("(schema 1)" in line or f"holds {VERSION}" in line for line in lines)


def test_an_image_of_the_user_s_own(client: docker.DockerClient, image: str, publish: Publish) -> None:
    name = publish("somebody/database:7")
    build = resolve_image(None, Sources(image=name), quiet, client)
    assert (str(build.version), build.source) == (VERSION, f"image {name}")
    assert resolve_image("5.7", Sources(image=name), quiet, client) == build
    with pytest.raises(UsageError, match=r"--image / IMAGE: it is 5\.7\.99 .* but --version 8\.0\.31"):
        resolve_image("8.0.31", Sources(image=name), quiet, client)


def test_an_image_without_a_server_and_a_name_without_an_image_are_refused(
    client: docker.DockerClient, registry: str
) -> None:
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
