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
from typing import NoReturn

import docker
import pytest

from recovery.errors import RecoveryError
from recovery.host.engine import MADE, connect

REGISTRY_PROGRAM = "docker-registry"
_START_S = 20


def left_out(why: str) -> NoReturn:
    """Here it is skipped, and said; in CI it counts as a failure, or nobody would ever see that nothing was tested."""
    if os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail(f"CI must not leave this out: {why}", pytrace=False)
    pytest.skip(why)


@pytest.fixture(scope="session")
def client() -> Iterator[docker.DockerClient]:
    try:
        found = connect()
    except RecoveryError as error:
        left_out(f"{error.message} ({error.hint})")
    yield found
    found.close()


@pytest.fixture(autouse=True)
def nothing_left_in_the_engine(client: docker.DockerClient) -> Iterator[None]:
    yield
    left = client.containers.list(all=True, filters={"label": f"{MADE}=look"})
    assert not left, "containers in which images are looked at are thrown away"
    parts = client.images.list(filters={"label": f"{MADE}=part", "dangling": True})
    assert not parts, "parts of images are cleared up"


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
        process.wait(10)


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
