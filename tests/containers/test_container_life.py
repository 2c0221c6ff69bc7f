"""A server in a container of a real engine: its rights, its start, its end, and what is left of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.models.containers import Container, ContainerCollection
from docker.types import Mount
from loopback import ALONE, containers_of
from request_parts import new_request

from recovery.builds.image_resolve import resolve_image
from recovery.errors import HostUnfitError, ServerFailedError
from recovery.linux import docker_engine
from recovery.linux.docker_engine import DockerCacheDropper, remove_orphaned_containers, temporary_container
from recovery.linux.page_cache import CacheKind, cold_method, make_cold, measure_residency
from recovery.linux.procfs import process_id
from recovery.linux.signals import ClockGuard
from recovery.model import Build, Cache, Schema, startup_specs
from recovery.mysqld.bootstrap import initialise
from recovery.mysqld.client import scalar
from recovery.mysqld.container import ContainerLauncher, check_same_folder
from recovery.mysqld.launcher import Exit, RunDirs
from recovery.mysqld.options import experiment_settings
from recovery.mysqld.server import Server, ServerConfig
from recovery.session import engine as session_engine

pytestmark = pytest.mark.containers


@pytest.fixture(scope="module")
def launcher() -> ContainerLauncher:
    return ContainerLauncher(docker_engine.endpoint().url)


@pytest.fixture(scope="module")
def build(client: docker.DockerClient) -> Build:
    return resolve_image("5.7.22", ALONE, lambda _: None, client)


@pytest.fixture(scope="module")
def datadir(build: Build, launcher: ContainerLauncher, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("container")
    rundirs = RunDirs()
    try:
        initialise(launcher, build, folder / "data", rundir=rundirs.next(), log=folder / "initialise.log")
    finally:
        rundirs.remove()
    return folder / "data"


@pytest.fixture
def server(build: Build, datadir: Path, launcher: ContainerLauncher, tmp_path: Path) -> Iterator[Server]:
    settings = experiment_settings(build.version)
    with Server(ServerConfig(launcher, build, tmp_path, settings), datadir) as server:
        yield server


def of_this_test(client: docker.DockerClient) -> list[Container]:
    """Not those of another run on this host."""
    labels = [f"{docker_engine.PURPOSE}=server", f"{docker_engine.OWNER}={process_id()}"]
    return client.containers.list(all=True, filters={"label": labels})


def test_a_server_may_do_no_more_than_it_needs(server: Server, datadir: Path, client: docker.DockerClient) -> None:
    server.start()
    (container,) = of_this_test(client)
    process = Path(f"/proc/{server.process.pid}")
    status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)
    assert (process / "comm").read_text().strip() == "mysqld", "the process is the server, not a shell around it"
    assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
    assert status["NoNewPrivs"] == "1"
    assert int(status["Uid"].split()[0]) == os.geteuid() == datadir.stat().st_uid
    mounts = [line.split() for line in (process / "mountinfo").read_text().splitlines()]
    assert any(fields[4] == "/" and "ro" in fields[5].split(",") for fields in mounts)
    own = next(fields for fields in mounts if fields[4] == str(datadir))
    assert own[own.index("-") + 1] != "overlay"
    interfaces = (process / "net" / "dev").read_text().splitlines()[2:]
    assert [line.split(":")[0].strip() for line in interfaces] == ["lo"]
    host = container.attrs["HostConfig"]
    assert host["RestartPolicy"]["Name"] in ("", "no")
    assert not host["PortBindings"]
    assert container.attrs["Config"]["Entrypoint"][0] == "/bin/sh"
    files = next(line for line in (process / "limits").read_text().splitlines() if line.startswith("Max open files"))
    assert int(files.split()[3]) == int(server.variables(["open_files_limit"])["open_files_limit"])
    server.stop()
    assert of_this_test(client) == [], "nothing is left of a server that has ended"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_server_runs_as_the_owner_of_its_files(server: Server, datadir: Path) -> None:
    """A user of the engine built it, and root uses it now: without capabilities root may not enter."""
    try:
        give(datadir, 4711)
        server.start()
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        assert re.search(r"^Uid:\t4711\t", status, re.MULTILINE)
        assert server.variables(["version"])["version"].startswith("5.7.22")
        server.stop()
        assert {path.stat().st_uid for path in datadir.rglob("*")} == {4711}
    finally:
        server.close()
        give(datadir, 0)


def give(folder: Path, uid: int) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, uid, uid)


def test_a_start_is_timed_from_the_exec_without_the_time_of_the_engine(server: Server) -> None:
    called_at = time.monotonic()
    startup = server.start()
    assert server.process.started_at > called_at
    assert startup.startup.engine_overhead_s is not None
    assert startup.startup.start_error_s is not None
    assert 0 < startup.startup.start_error_s < startup.metrics["startup_s"]
    assert server.process.started_at - called_at >= startup.startup.engine_overhead_s > 0
    first = server.process.launch.log.read_text().splitlines()[0]
    assert first.startswith("20"), f"the log is the server's own from its first byte: {first}"
    server.stop()


def test_a_kill_is_a_crash_and_the_next_start_recovers(server: Server, client: docker.DockerClient) -> None:
    server.start()
    with server.session() as connection, connection.cursor() as cursor:
        cursor.execute("create database if not exists crash")
        cursor.execute("create table if not exists crash.rows (id int primary key auto_increment)")
        cursor.execute("insert into crash.rows values ()")
    assert server.kill() == Exit(code=None, signal=signal.SIGKILL)
    assert of_this_test(client) == []
    startup = server.start()
    assert startup.startup.crash_proof is not None
    assert "not shutdown normally" in startup.startup.crash_proof
    with server.session() as connection:
        assert scalar(connection, "select count(*) from crash.rows") == 1
    assert server.stop() == Exit(code=0, signal=None)


def test_a_failed_start_reports_the_reason(server: Server, client: docker.DockerClient) -> None:
    with pytest.raises(ServerFailedError, match="unknown variable 'no_such_option=1'"):
        server.start(settings={"no_such_option": "1"})
    assert of_this_test(client) == []


def test_a_container_removed_from_outside_is_a_kill(server: Server, client: docker.DockerClient) -> None:
    server.start()
    (container,) = of_this_test(client)
    remover = threading.Thread(target=container.remove, kwargs={"force": True})
    remover.start()  # whose removal may still go on when ours is tried
    assert server.process.wait(60) == Exit(code=None, signal=signal.SIGKILL)
    remover.join()


def test_a_pause_is_noticed_and_does_not_outlive_a_kill(server: Server, client: docker.DockerClient) -> None:
    """Frozen by version 1 of control groups, no signal reaches a process, and the engine does not say so."""
    meanwhile = ClockGuard()
    server.start()
    (container,) = of_this_test(client)
    assert meanwhile.pause() is None
    container.pause()
    assert server.kill() == Exit(code=None, signal=signal.SIGKILL)
    assert of_this_test(client) == []
    paused = "somebody paused the server's container meanwhile (`docker pause`): the time is not the server's alone"
    assert meanwhile.pause() == paused
    server.start()
    afterwards = ClockGuard()
    server.stop()
    assert afterwards.pause() is None


LEAVE = """
import os, signal, sys
from pathlib import Path
from recovery.builds.image_resolve import resolve_image
from recovery.builds.resolve import Sources
from recovery.linux import docker_engine
from recovery.mysqld.container import ContainerLauncher
from recovery.mysqld.server import Server, ServerConfig
build = resolve_image("5.7.22", Sources(offline=True), lambda _: None, docker_engine.connect())
data, logs = map(Path, sys.argv[1:])
Server(ServerConfig(ContainerLauncher(docker_engine.endpoint().url), build, logs), data).start()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_tool_leaves_is_removed_and_nothing_else(
    datadir: Path, build: Build, client: docker.DockerClient, tmp_path: Path
) -> None:
    assert build.image is not None
    # As a container that somebody makes of an image of ours, which may bear the mark of a process long gone.
    labels = {docker_engine.PURPOSE: "image", docker_engine.OWNER: f"boot-{process_id()}"}
    stranger = client.containers.create(build.image, entrypoint=["/bin/sh"], labels=labels)
    try:
        tool = subprocess.Popen([sys.executable, "-c", LEAVE, str(datadir), str(tmp_path)])
        assert tool.wait() == -signal.SIGKILL
        (left,) = containers_of(client, tool.pid)
        assert left.name in remove_orphaned_containers(client)
        assert containers_of(client, tool.pid) == []
        stranger.reload()
    finally:
        stranger.remove()


def test_another_folder_under_the_same_path_is_refused(
    build: Build, client: docker.DockerClient, tmp_path: Path
) -> None:
    """As it is where this tool runs in a container, and the folder was not mounted into it."""
    known, other = tmp_path / "known", tmp_path / "other"
    known.mkdir()
    other.mkdir()
    for source in (known, other):
        container = client.containers.run(
            str(build.image), ["60"], entrypoint="sleep", mounts=[Mount(str(known), str(source), type="bind")],
            user=f"{os.geteuid()}:{os.getegid()}", cap_drop=["ALL"], network_mode="none", detach=True,
            labels={docker_engine.PURPOSE: "look", docker_engine.OWNER: process_id()},
        )  # fmt: skip
        try:
            container.reload()
            if source is known:
                check_same_folder(container.attrs["State"]["Pid"], known)
            else:
                with pytest.raises(HostUnfitError, match="sees another folder"):
                    check_same_folder(container.attrs["State"]["Pid"], known)
        finally:
            container.remove(force=True)


def test_ctrl_c_while_a_container_is_made_leaves_none(
    build: Build, client: docker.DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert build.image is not None
    create = ContainerCollection.create

    def interrupted(*arguments: Any, **given: Any) -> Container:
        container = create(*arguments, **given)
        signal.raise_signal(signal.SIGINT)
        return container

    monkeypatch.setattr(ContainerCollection, "create", interrupted)
    with pytest.raises(KeyboardInterrupt):
        DockerCacheDropper(client, build.image).drop(CacheKind.PAGES)
    with pytest.raises(KeyboardInterrupt), temporary_container(client, build.image, "look"):
        pass
    assert client.containers.list(all=True, filters={"label": f"{docker_engine.OWNER}={process_id()}"}) == []


@pytest.mark.alone  # others drop them as well
def test_a_container_drops_the_caches(build: Build, client: docker.DockerClient, tmp_path: Path) -> None:
    assert build.image is not None
    (tmp_path / "table.ibd").write_bytes(b"x" * (4 << 20))
    os.sync()
    assert measure_residency(tmp_path).resident_bytes == 4 << 20
    dropper = DockerCacheDropper(client, build.image)
    assert dropper.drop(CacheKind.PAGES)
    assert measure_residency(tmp_path).resident_bytes == 0
    proof = make_cold(tmp_path, dropper)
    assert proof.means == cold_method(dropper) == "drop_caches (by a container)"
    drops = client.containers.list(
        all=True, filters={"label": [f"{docker_engine.PURPOSE}=drop", f"{docker_engine.OWNER}={process_id()}"]}
    )
    assert drops == []
    assert not DockerCacheDropper(client, "no-such-image").drop(CacheKind.PAGES)


def test_a_user_of_the_engine_drops_the_caches_for_local_servers_too(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is not root; the image of a server is on the host."""
    monkeypatch.setattr(session_engine, "direct_cache_dropper", lambda: None)
    request = new_request(
        "cold-recovery", startup_specs((Cache.COLD,)), ("5.7.22",), Schema(1), 1, tmp_path, tmp_path, engine="local"
    )
    dropper = session_engine.choose_engine(request, lambda _: None).dropper(())
    assert dropper is not None
    (tmp_path / "table.ibd").write_bytes(b"x" * (4 << 20))
    assert make_cold(tmp_path, dropper).means == "drop_caches (by a container)"


@pytest.mark.parametrize("option", ["name=rootless", "name=userns"])
def test_an_engine_that_maps_users_is_not_used(
    option: str, client: docker.DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine at hand does not: its own answer, with that option added, stands in for one that does."""
    info = client.info() | {"SecurityOptions": ["name=seccomp,profile=default", option]}
    monkeypatch.setattr(docker.DockerClient, "info", lambda _: info)
    with pytest.raises(docker_engine.NoEngineError, match="its containers cannot use the data directory"):
        docker_engine.connect()
