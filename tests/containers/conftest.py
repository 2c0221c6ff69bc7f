"""For tests that need a Docker engine: the engine, a registry on loopback, and nothing left behind in either."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from sessions import left_out
from waiting import until

from recovery.builds.image_list import image_id
from recovery.builds.resolve import BASE_IMAGE_NAME
from recovery.errors import RecoveryError
from recovery.linux.docker_engine import PURPOSE, connect

REGISTRY_PROGRAM = "docker-registry"
_ADMINS = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_START_S = 60


@pytest.fixture(scope="session")
def client() -> Iterator[docker.DockerClient]:
    try:
        found = connect()
    except RecoveryError as error:
        left_out(f"{error.message} ({error.hint})")
    if image_id(found, BASE_IMAGE_NAME) is None and (
        os.geteuid() != 0 or shutil.which("debootstrap", path=_ADMINS) is None
    ):
        left_out(f"there is no {BASE_IMAGE_NAME}, and without a registry only root can make it, by debootstrap")
    yield found
    found.close()


@pytest.fixture(autouse=True)
def nothing_left_in_the_engine(client: docker.DockerClient) -> Iterator[None]:
    """What another session makes at the same time is soon gone; what was left behind is not."""
    yield
    until(lambda: not _left(client), "the end of looked-at containers and of parts of images")


def _left(client: docker.DockerClient) -> list[str]:
    containers = client.api.containers(all=True, filters={"label": f"{PURPOSE}=look"})
    parts = client.api.images(quiet=True, filters={"label": f"{PURPOSE}=part", "dangling": True})
    return [*(str(container["Id"]) for container in containers), *map(str, parts)]


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real one, empty, on loopback: `127.0.0.1:PORT`. It takes the format of 2015 as well."""
    if shutil.which(REGISTRY_PROGRAM) is None:
        left_out(f"{REGISTRY_PROGRAM} is missing (apt-get install {REGISTRY_PROGRAM})")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    folder = tmp_path_factory.mktemp("registry")
    config = folder / "config.yml"
    config.write_text(
        f'version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: "{folder}/data"}}}}\n'
        f'http: {{addr: "{address}"}}\ncompatibility: {{schema1: {{enabled: true}}}}\n'
    )
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([REGISTRY_PROGRAM, "serve", str(config)], stdout=log, stderr=log)
    try:
        _wait_for(address, process, folder / "log")
        yield address
    finally:
        process.terminate()
        process.wait(60)


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_S
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < deadline and process.poll() is None:
        try:
            opener.open(f"http://{address}/v2/", timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    pytest.fail(f"the registry on {address} does not answer: {log.read_text()[-500:]}")
