"""The tool in an image of its own: docker/recovery measures, limits, refuses and ends as the command itself does."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import pty
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import docker
import pytest
from checkout import copy_checkout
from loopback import ALONE, NOBODY, quiet
from runs import flat_run
from sessions import need_limits, why_not_limited

from recovery.builds import image_build, image_list
from recovery.builds.image_build import DebianRecipe
from recovery.builds.image_resolve import resolve_image
from recovery.builds.resolve import DEBIAN_SUITE
from recovery.linux import docker_engine
from recovery.linux.procfs import is_owner_gone

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]
# Stands for the official image of Python, which a test cannot count on; kept, like the base of the servers' images.
PYTHON = DebianRecipe(
    f"recovery-test/python:{DEBIAN_SUITE}", DEBIAN_SUITE, (*image_build.LIBRARIES, "python3", "python3-venv")
)
NAME = f"recovery-test/tool:{os.getpid()}"
TABLES, READ_IOPS = 20, 200
COLD = ("cold-recovery", "--version", "5.7.22", "--tables", str(TABLES), "--data", "data")
SETTINGS = {"TOOL_IMAGE": NAME, "RECOVERY_ENGINE": "docker", "RECOVERY_REGISTRY": NOBODY}

Called = Callable[..., subprocess.CompletedProcess[str]]


def python(client: docker.DockerClient) -> str:
    with image_build.image_lock(client, PYTHON.name, quiet):
        if image_list.image_id(client, PYTHON.name) is None:
            part, origin = image_build.build_debian_part(client, PYTHON, ALONE, quiet)
            image_build.commit_image(client, part, PYTHON.name, {docker_engine.SOURCE: origin})
    return PYTHON.name


def checkout(folder: Path) -> None:
    """What the build needs, with the packages of the lock beside it: inside no index can be reached."""
    copy_checkout(folder)
    lock = folder / "requirements/run.lock"
    pip = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"]
    for_base = ["--python-version", "3.11", "--only-binary", ":all:"]
    subprocess.run([*pip, *for_base, "--require-hashes", "-r", lock, "-d", folder / "wheels"], check=True)


@pytest.fixture(scope="module")
def script(client: docker.DockerClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """docker/recovery, with its image built."""
    assert shutil.which("docker"), "the engine's own client is missing"
    folder = tmp_path_factory.mktemp("checkout")
    checkout(folder)
    words = ["docker", "build", "--build-arg", f"BASE={python(client)}", "--build-arg", "PACKAGES=", "-t", NAME]
    file = folder / "docker/recovery.Dockerfile"
    done = subprocess.run([*words, "-f", file, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    resolve_image("5.7.22", ALONE, quiet, client)
    yield folder / "docker/recovery"
    client.images.remove(NAME)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the user stands: data directory and results of one test serve the next."""
    return tmp_path_factory.mktemp("here")


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def call(script: Path, here: Path, settings: None) -> Called:
    def called(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [script, *words], cwd=here, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )

    return called


def newest(here: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((here / "results/latest/report.json").read_text())
    return {**report, "runs": list(map(flat_run, report["runs"]))}


def left(client: docker.DockerClient) -> list[str]:
    """The tool's own container, and those whose owner has ended; another session's are in use."""
    mine = client.containers.list(all=True, ignore_removed=True, filters={"ancestor": NAME})
    marked = client.containers.list(all=True, ignore_removed=True, filters={"label": docker_engine.OWNER})
    return [
        str(one.name) for one in (*mine, *(one for one in marked if is_owner_gone(one.labels[docker_engine.OWNER])))
    ]


Measured = tuple[subprocess.CompletedProcess[str], dict[str, Any]]


@pytest.fixture(scope="module")
def measured(script: Path, here: Path, module_settings: None) -> Measured:
    """A session with dropped caches, and with a limit where the host can set one: what it printed, and its report."""
    environment = os.environ | SETTINGS
    if why_not_limited() is None:
        environment["RECOVERY_READ_IOPS"] = str(READ_IOPS)
    environment.pop("RECOVERY_NO_DROP_CACHES", None)
    done = subprocess.run(
        [script, *COLD, "--runs", "1"], cwd=here, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done, newest(here)


def test_a_recovery_is_measured_as_outside(measured: Measured, client: docker.DockerClient) -> None:
    done, report = measured
    assert "servers run in containers of the Docker engine at unix://" in done.stderr
    assert "Startup after SIGKILL" in done.stdout
    assert report["settings"]["engine"] == "docker"
    (one,) = report["runs"]
    assert one["verdict"] == "measured", one["reason"]
    assert one["tables_found"] == TABLES
    assert one["previous_exit"] == "signal 9"
    assert one["rows_found"] == one["rows_expected"] >= 100
    assert one["read_bytes"] > 0
    assert one["resident_bytes"] == 0
    host = report["environment"]
    assert host["cold_means"] == one["means"] == "drop_caches (by a container)"
    assert host["os"] == platform.freedesktop_os_release()["PRETTY_NAME"], "the host's, not the image's"
    assert host["filesystem"] != "overlay", "data directories lie on the host's disk"
    assert left(client) == []


def test_limits_hold(measured: Measured) -> None:
    need_limits()
    (one,) = measured[1]["runs"]
    assert one["read_requests"] > 0
    assert one["reads_per_s"] <= 1.5 * READ_IOPS + 100


@pytest.mark.parametrize("means", ["a key", "SIGTERM", pytest.param("SIGINT", marks=pytest.mark.on_demand("large"))])
def test_an_interrupted_session_leaves_nothing(
    means: str, script: Path, here: Path, settings: None, client: docker.DockerClient
) -> None:
    """With a terminal the key goes into the container; without one docker passes the signal on."""
    terminal, its_end = pty.openpty() if means == "a key" else os.pipe()
    source = its_end if means == "a key" else subprocess.DEVNULL
    process = subprocess.Popen(
        [script, *COLD, "--runs", "3"], cwd=here, stdin=source, stdout=its_end, stderr=its_end, start_new_session=True
    )
    os.close(its_end)
    output = b""
    with suppress(OSError):  # as a terminal ends
        while chunk := os.read(terminal, 4096):
            output += chunk
            if b" GB read" in output and means:  # the first run has ended
                os.write(terminal, b"\x03") if means == "a key" else process.send_signal(signal.Signals[means])
                means = ""
    os.close(terminal)
    assert process.wait(60) == 130, output.decode()
    assert b"error: interrupted" in output
    assert left(client) == []
    assert [one["verdict"] for one in newest(here)["runs"]][:1] == ["measured"], "what was finished is kept"


def test_a_run_inside_and_one_outside_exclude_each_other(call: Called) -> None:
    with Path(os.environ["RECOVERY_HOST_LOCK"]).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = call(*COLD, "--runs", "1")
    assert done.returncode == 3
    assert "another timed run is in progress" in done.stderr


def test_a_folder_that_the_engine_does_not_see_is_refused(call: Called, here: Path, tmp_path: Path) -> None:
    """Only the tool reads recovery.toml: what it names is not mounted."""
    config = here / "recovery.toml"
    config.write_text('data = "/not-on-this-host/data"\n')
    try:
        done = call("cold-recovery", "--version", "5.7.22", "--tables", str(TABLES), "--runs", "1")
    finally:
        config.unlink()
    assert done.returncode == 3
    assert "source path does not exist" in done.stderr
    assert "mounted into it under the same paths" in done.stderr
    assert not Path("/not-on-this-host").exists()


def test_errors_have_the_exit_codes_of_the_command(call: Called) -> None:
    assert call("cold-recovery", "--tables", "none").returncode == 2
    assert call("--version").stdout.startswith("recovery, version ")
