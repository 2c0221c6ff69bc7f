"""Are images built of real servers, whole or not at all, and is what they say of themselves true?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import docker
import pytest
from loopback import ALONE, NOBODY, quiet
from waiting import until

from recovery.builds import image_build, image_list, packages
from recovery.builds.image_inspect import query_image_options, run_inspection
from recovery.builds.image_list import image_id
from recovery.builds.image_resolve import resolve_image
from recovery.builds.resolve import BASE_IMAGE_NAME, Sources, own_image_name, resolve_server
from recovery.linux import docker_engine
from recovery.model import Build, can

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]
CATALOG = ("5.6.24", "5.7.22", "8.0.31", "mariadb-10.11.5")


def run_in(client: docker.DockerClient, build: Build, *command: str, preload: str = "") -> str:
    """As any user, past the entrypoint."""
    environment = {"LD_PRELOAD": preload} if preload else {}
    return client.containers.run(
        str(build.image), list(command[1:]), entrypoint=command[0], environment=environment,
        remove=True, network_mode="none", stderr=True, user="4711:4711",
    ).decode()  # fmt: skip


@pytest.mark.parametrize(
    "version", [*CATALOG, "debian-sid", pytest.param("debian-mariadb-11", marks=pytest.mark.on_demand("large"))]
)
def test_an_image_of(version: str, client: docker.DockerClient) -> None:
    build = resolve_image(version, ALONE, quiet, client)
    image = client.images.get(str(build.image))
    assert image.labels[docker_engine.PURPOSE] == "image"
    assert image.labels[docker_engine.SERVER_VERSION] == str(build.version)

    said = run_in(client, build, str(build.mysqld), "--no-defaults", "--version")
    assert ".".join(map(str, build.version.numbers)) in said
    sums = run_in(client, build, "sha256sum", str(build.mysqld))
    assert sums.split()[0] == build.fingerprint, "data directories are kept by it"
    assert run_in(client, build, "test", "-f", f"{build.messages}/english/errmsg.sys") == ""
    assert bool(build.scripts) is not can(build.version, "initialize")
    assert query_image_options(client, build) >= {"innodb_io_capacity", "port", "skip_networking"}
    assert all((folder / "fill_help_tables.sql").is_file() for folder in build.scripts)

    preloaded = run_in(client, build, str(build.mysqld), "--no-defaults", "--version", preload="libeatmydata.so")
    # An error of the loader would stand beside the answer; MariaDB warns of what containers lack, with the time.
    assert "preload" not in preloaded, "the library that builds data directories fast is there"

    lines: list[str] = []
    again = resolve_image(version, Sources(registry=NOBODY, offline=True), lines.append, client)
    assert again == build
    assert len(lines) == 1
    assert "is on this host" in lines[0]


@pytest.mark.parametrize("version", CATALOG)
def test_it_shares_data_directories_with_the_server_of_the_host(version: str, client: docker.DockerClient) -> None:
    here = resolve_server(version, Sources(), quiet)
    build = resolve_image(version, ALONE, quiet, client)
    assert (build.version, build.fingerprint, build.source) == (here.version, here.fingerprint, here.source)


def test_versions_differ_by_the_server_alone(client: docker.DockerClient) -> None:
    image_build.ensure_base_image(client, ALONE, quiet)
    base = client.images.get(BASE_IMAGE_NAME).attrs["RootFS"]["Layers"]
    for version in CATALOG:
        image = client.images.get(str(resolve_image(version, ALONE, quiet, client).image))
        assert image.attrs["RootFS"]["Layers"][: len(base)] == base


def test_what_sid_carries_is_found_by_its_number(client: docker.DockerClient) -> None:
    carried = resolve_image("debian-sid", ALONE, quiet, client)
    series = ".".join(map(str, carried.version.numbers[:2]))
    assert "mysql-server-core" in carried.source
    assert "mysql-server-core" in client.images.get(str(carried.image)).labels[docker_engine.PACKAGES]
    for version in (series, str(carried.version)):
        assert resolve_image(version, ALONE, quiet, client) == carried


def test_a_server_of_the_user_s_own(client: docker.DockerClient) -> None:
    here = resolve_server("5.7.22", Sources(), quiet)
    build = resolve_image(None, Sources(mysqld=str(here.basedir), registry=NOBODY), quiet, client)
    assert build.fingerprint == here.fingerprint
    assert build.version == here.version


def test_libraries_that_the_base_lacks_come_from_this_host(client: docker.DockerClient) -> None:
    """Newer Debian has renamed libaio: a server of 5.7 does not start on it without the host's copy."""
    base = resolve_image("debian-sid", ALONE, quiet, client)
    below = client.images.get(str(base.image)).tags[0]
    libaio = packages.find_unpacked("libaio1", "libaio.so.1") or packages.fetch_file("libaio1", "libaio.so.1")
    here = replace(resolve_server("5.7.22", Sources(), quiet), library_dirs=(libaio.parent,))
    name = "recovery-test/libraries:1"
    with image_build.image_lock(client, name, quiet):
        part = image_build.build_server_part(client, here, name, below)
        found, _, _ = run_inspection(client, part, "/opt/mysqld/bin/mysqld")
        assert "Ver 5.7.22" in found.said
        assert "LD_LIBRARY_PATH=/opt/libraries" in client.images.get(part).attrs["Config"]["Env"]


def name_of(version: str) -> str:
    here = resolve_server(version, Sources(), quiet)
    return own_image_name(here.version, here.fingerprint)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "recovery", "images", *arguments]


def remove(client: docker.DockerClient, version: str) -> str:
    name = name_of(version)
    if image_id(client, name) is not None:
        image_list.remove_image(client, name)
    return name


def begin_to_build(version: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "RECOVERY_REGISTRY": NOBODY}
    return subprocess.Popen(
        command("build", version), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def images_made_here(client: docker.DockerClient) -> set[str]:
    return {str(image.id) for image in client.images.list(filters={"label": docker_engine.PURPOSE})}


def test_two_at_once_make_one_image(client: docker.DockerClient) -> None:
    name = remove(client, "mariadb-10.2.11")
    both = [begin_to_build("mariadb-10.2.11") for _ in range(2)]
    said = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert [out for out, _ in said] == [f"{name}  mariadb-10.2.11 (10.2.11-MariaDB)\n"] * 2
    assert sum("building the image" in told for _, told in said) == 1
    assert client.images.get(name).labels[docker_engine.OWNER] == "", "all that is made of it would bear the mark"


def test_ctrl_c_in_a_build_leaves_nothing(client: docker.DockerClient) -> None:
    name = remove(client, "mariadb-10.2.11")
    before = images_made_here(client)
    process = begin_to_build("mariadb-10.2.11")
    assert process.stderr is not None
    assert any("building the image" in line for line in process.stderr)
    until(lambda: images_made_here(client) - before or client.api.containers(quiet=True), "the first step of the build")
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 130, rest
    assert "Traceback" not in rest
    assert image_id(client, name) is None
    until(lambda: images_made_here(client) <= before, "the end of what it had built")


def test_listed_and_removed_by_the_label(client: docker.DockerClient, tmp_path: Path) -> None:
    build = resolve_image("mariadb-10.2.11", ALONE, quiet, client)
    name = name_of("mariadb-10.2.11")
    listed = subprocess.run(command(), capture_output=True, text=True, check=True).stdout
    assert any(name in line and " yes " in line for line in listed.splitlines())

    client.images.get(str(build.image)).tag("recovery-test/another-name", "1")
    try:
        foreign = subprocess.run(command("remove", "nobody/knows:1"), capture_output=True, text=True, check=False)
        assert foreign.returncode == 2
        assert "is not an image on this host" in foreign.stderr
        done = subprocess.run(command("remove", name), capture_output=True, text=True, check=True).stdout
        assert done == f"removed {name}\n"
        assert image_id(client, name) is None
    finally:
        client.images.remove("recovery-test/another-name:1")
