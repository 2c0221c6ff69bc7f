"""Which images count as made here, and what is removed of them? With an engine that only knows images."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import docker
import pytest
from docker.errors import APIError, ImageNotFound

from recovery.builds import image_list
from recovery.builds.resolve import BASE_IMAGE_NAME, parse_request
from recovery.errors import HostUnfitError, UsageError
from recovery.linux import docker_engine
from recovery.model import Build, parse_version


class Images:
    """Images by id, as docker-py lists and removes them."""

    def __init__(self, images: Iterable[SimpleNamespace], busy: str = "") -> None:
        self.every = list(images)
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


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_CACHE", str(tmp_path))


def ours(number: int, name: str, version: str | None, source: str = "catalog (test)") -> SimpleNamespace:
    labels = {docker_engine.PURPOSE: "image", docker_engine.IMAGE_NAME: name}
    if version is not None:
        build = Build(parse_version(version), Path("/opt/mysqld/bin/mysqld"), Path("/opt/mysqld"), 64 * "a", source)
        labels |= image_list.build_labels(build)
    return SimpleNamespace(id=f"sha256:{number:064}", tags=[name], labels=labels, attrs={"Size": 1 << 20})


def foreign(number: int, *names: str) -> SimpleNamespace:
    return SimpleNamespace(id=f"sha256:{number:064}", tags=list(names), labels={}, attrs={"Size": 1 << 20})


def of(*images: SimpleNamespace, busy: str = "") -> tuple[docker.DockerClient, Images]:
    known = Images(images, busy)
    return cast("docker.DockerClient", SimpleNamespace(images=known, api=known)), known


SID = ours(1, "recovery-tester/debian-sid:latest", "9.7.4", "debian sid (test)")
CATALOG = ours(2, "recovery-tester/mysql:5.7.22-aaaaaaaa", "5.7.22")
BASE_IMAGE = ours(3, BASE_IMAGE_NAME, None, "debian bookworm (test)")
PULLED = foreign(4, "mysql:8.0.31", "localhost:5000/mysql:8.0.31", "somebody/thing:1")


def test_what_is_listed() -> None:
    client, _ = of(PULLED, SID, BASE_IMAGE)
    rows = image_list.list_images(client)
    assert [(row.name, row.version, row.ours) for row in rows] == [
        (BASE_IMAGE_NAME, None, True),
        ("recovery-tester/debian-sid:latest", "9.7.4", True),
        ("localhost:5000/mysql:8.0.31", "8.0.31", False),
        ("mysql:8.0.31", "8.0.31", False),
    ]


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("5.7.22", "recovery-tester/mysql:5.7.22-aaaaaaaa"),
        ("5.7", "recovery-tester/mysql:5.7.22-aaaaaaaa"),
        ("9.7", "recovery-tester/debian-sid:latest"),
        ("9.7.4", "recovery-tester/debian-sid:latest"),
        ("debian-sid", "recovery-tester/debian-sid:latest"),
        ("debian-mariadb", None),
        ("9.7.5", None),
        ("8.0.31", None),
    ],
)
def test_what_is_found(wanted: str, name: str | None) -> None:
    client, _ = of(PULLED, SID, CATALOG, BASE_IMAGE)
    found = image_list.find_own_image(client, parse_request(wanted))
    assert (found and found.tags[0]) == name


def test_a_server_of_the_user_s_own_is_not_the_release_of_its_number() -> None:
    client, _ = of(ours(5, "recovery-tester/mysql:5.7.22-bbbbbbbb", "5.7.22", "own /opt/patched"))
    assert image_list.find_own_image(client, parse_request("5.7.22")) is None


def test_a_label_alone_makes_no_image_ours() -> None:
    """What a registry gives, or the user has renamed, can have any label."""
    image = ours(5, "recovery-tester/mysql:5.7.22-aaaaaaaa", "5.7.22")
    image.tags = ["somebody/thing:1", "mysql:5.7.22"]
    client, _ = of(image)
    assert image_list.list_images(client) == []
    assert image_list.find_own_image(client, parse_request("5.7.22")) is None


@pytest.mark.parametrize("name", ["recovery-tester/mysql:5.7.22-aaaaaaaa", "5.7.22", f"sha256:{2:064}"])
def test_removed_by_name_version_or_id(name: str) -> None:
    client, images = of(PULLED, CATALOG)
    assert image_list.remove_image(client, name) == "recovery-tester/mysql:5.7.22-aaaaaaaa"
    assert images.removed == ["recovery-tester/mysql:5.7.22-aaaaaaaa"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("mysql:8.0.31", "was not made here"),
        ("somebody/thing:1", "was not made here"),
        ("x:1", "is not an image on this"),
        ("-", "is not an image on this"),
        ("", "is not an image on this"),
    ],
)
def test_what_was_not_made_here_stays(name: str, why: str) -> None:
    client, images = of(PULLED, CATALOG, BASE_IMAGE)
    with pytest.raises(UsageError, match=why):
        image_list.remove_image(client, name)
    assert images.removed == []


def test_of_two_builds_of_a_release_the_name_is_asked_for() -> None:
    client, _ = of(CATALOG, ours(7, "recovery-tester/mysql:5.7.22-bbbbbbbb", "5.7.22", "archive (test)"))
    with pytest.raises(UsageError, match="several images"):
        image_list.remove_image(client, "5.7.22")


def test_all_but_what_is_in_use_and_the_base_last() -> None:
    client, images = of(BASE_IMAGE, PULLED, CATALOG, SID, busy="recovery-tester/debian-sid:latest")
    removed, left = image_list.remove_all_images(client)
    assert removed == images.removed == ["recovery-tester/mysql:5.7.22-aaaaaaaa", BASE_IMAGE_NAME]
    assert left == ["recovery-tester/debian-sid:latest"]
    with pytest.raises(HostUnfitError, match="in use"):
        image_list.remove_image(client, "debian-sid")
