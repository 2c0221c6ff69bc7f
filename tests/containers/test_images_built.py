"""Images are built from real servers, completely or not at all, and their labels are true."""

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
LARGE = pytest.mark.on_demand("large")
CATALOG = ("5.7.22", "mariadb-10.11.5")
"""One that initialises itself, and one that needs its scripts for it."""
MORE = tuple(pytest.param(version, marks=LARGE) for version in ("5.6.24", "8.0.31"))


def run_in(client: docker.DockerClient, build: Build, *commands: str) -> list[str]:
    """What each of these commands prints, run by any user, past the entrypoint."""
    output = client.containers.run(
        str(build.image), ["-c", " && echo --- && ".join(commands)], entrypoint="sh",
        remove=True, network_mode="none", stderr=True, user="4711:4711",
    ).decode()  # fmt: skip
    return [part.strip() for part in output.split("---\n")]


@pytest.mark.parametrize("version", [*CATALOG, "debian-sid", *MORE, pytest.param("debian-mariadb-11", marks=LARGE)])
def test_the_image_of_a_version_runs_and_is_described_by_its_labels(version: str, client: docker.DockerClient) -> None:
    build = resolve_image(version, ALONE, quiet, client)
    image = client.images.get(str(build.image))
    assert image.labels[docker_engine.PURPOSE] == "image"
    assert image.labels[docker_engine.SERVER_VERSION] == str(build.version)

    asked = f"{build.mysqld} --no-defaults --version"
    messages = f"test -f {build.messages}/english/errmsg.sys"
    answer, preloaded, checksum, _ = run_in(
        client, build, asked, f"LD_PRELOAD=libeatmydata.so {asked}", f"sha256sum {build.mysqld}", messages
    )
    assert ".".join(map(str, build.version.numbers)) in answer
    # An error of the loader would stand beside the answer; MariaDB warns of what containers lack, with the time.
    assert "preload" not in preloaded, "the library that builds data directories fast is there"
    assert checksum.split()[0] == build.fingerprint, "the key of data directories"
    assert bool(build.scripts) is not can(build.version, "initialize")
    assert query_image_options(client, build) >= {"innodb_io_capacity", "port", "skip_networking"}
    assert all((folder / "fill_help_tables.sql").is_file() for folder in build.scripts)

    lines: list[str] = []
    again = resolve_image(version, Sources(registry=NOBODY, offline=True), lines.append, client)
    assert again == build
    assert len(lines) == 1
    assert "is on this host" in lines[0]


@pytest.mark.parametrize("version", [*CATALOG, *MORE])
def test_an_image_shares_data_directories_with_the_server_of_the_host(
    version: str, client: docker.DockerClient
) -> None:
    here = resolve_server(version, Sources(), quiet)
    build = resolve_image(version, ALONE, quiet, client)
    assert (build.version, build.fingerprint, build.source) == (here.version, here.fingerprint, here.source)


def test_versions_differ_by_the_server_alone(client: docker.DockerClient) -> None:
    image_build.ensure_base_image(client, ALONE, quiet)
    base = client.images.get(BASE_IMAGE_NAME).attrs["RootFS"]["Layers"]
    for version in CATALOG:
        image = client.images.get(str(resolve_image(version, ALONE, quiet, client).image))
        assert image.attrs["RootFS"]["Layers"][: len(base)] == base


def test_the_server_of_sid_is_found_by_its_version(client: docker.DockerClient) -> None:
    carried = resolve_image("debian-sid", ALONE, quiet, client)
    series = ".".join(map(str, carried.version.numbers[:2]))
    assert "mysql-server-core" in carried.source
    assert "mysql-server-core" in client.images.get(str(carried.image)).labels[docker_engine.PACKAGES]
    for version in (series, str(carried.version)):
        assert resolve_image(version, ALONE, quiet, client) == carried


def test_an_own_server_is_put_into_an_image(client: docker.DockerClient) -> None:
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
        assert "Ver 5.7.22" in found.version_output
        assert "LD_LIBRARY_PATH=/opt/libraries" in client.images.get(part).attrs["Config"]["Env"]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "recovery", "images", *arguments]


def remove(client: docker.DockerClient, server: Build) -> str:
    """Returns the name of the server's image, which is not on this host any more."""
    name = own_image_name(server.version, server.fingerprint)
    if image_id(client, name) is not None:
        image_list.remove_image(client, name)
    return name


def begin_to_build(*arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "RECOVERY_REGISTRY": NOBODY}
    return subprocess.Popen(
        command("build", *arguments), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture
def small(tmp_path: Path) -> Build:
    """A server that nobody else uses: one executable without the files around it."""
    here = resolve_server("5.7.22", Sources(), quiet)
    (tmp_path / "mysqld").write_bytes(here.mysqld.read_bytes() + b"another build")
    (tmp_path / "mysqld").chmod(0o755)
    return resolve_server(None, Sources(mysqld=str(tmp_path / "mysqld")), quiet)


def images_made_here(client: docker.DockerClient) -> set[str]:
    return {str(image.id) for image in client.images.list(filters={"label": docker_engine.PURPOSE})}


def test_two_builds_at_once_make_one_image_which_is_listed_and_removed(
    small: Build, client: docker.DockerClient
) -> None:
    name = remove(client, small)
    both = [begin_to_build("--mysqld", str(small.mysqld)) for _ in range(2)]
    ended = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert [out for out, _ in ended] == [f"{name}  5.7.22 ({small.version.text})\n"] * 2
    assert sum("building the image" in messages for _, messages in ended) == 1
    image = client.images.get(name)
    assert image.labels[docker_engine.OWNER] == "", "no image made from it bears the mark of a process"

    listed = subprocess.run(command(), capture_output=True, text=True, check=True).stdout
    assert any(name in line and " yes " in line for line in listed.splitlines())
    image.tag("recovery-test/another-name", "1")
    try:
        foreign = subprocess.run(command("remove", "nobody/knows:1"), capture_output=True, text=True, check=False)
        assert foreign.returncode == 2
        assert "is not an image on this host" in foreign.stderr
        done = subprocess.run(command("remove", name), capture_output=True, text=True, check=True).stdout
        assert done == f"removed {name}\n"
        assert image_id(client, name) is None
    finally:
        client.images.remove("recovery-test/another-name:1")


def test_ctrl_c_in_a_build_leaves_nothing(client: docker.DockerClient) -> None:
    name = remove(client, resolve_server("mariadb-10.2.11", Sources(), quiet))  # large enough to be interrupted
    before = images_made_here(client)
    process = begin_to_build("mariadb-10.2.11")
    assert process.stderr is not None
    assert any("building the image" in line for line in process.stderr)
    made = {"label": docker_engine.PURPOSE}
    until(lambda: client.api.containers(quiet=True, all=True, filters=made), "the first step of the build")
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 130, rest
    assert "Traceback" not in rest
    assert image_id(client, name) is None
    until(lambda: images_made_here(client) <= before, "the end of what it had built")
