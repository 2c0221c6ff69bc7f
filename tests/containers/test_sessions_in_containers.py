"""The command, with servers in containers: timed, traced, limited, paused, interrupted and resumed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import docker
import pytest
from datadirs import made_by
from docker.models.containers import Container
from loopback import NOBODY, containers_of
from request_parts import new_request
from sessions import first_run_stored, left_out, need_limits, stored, why_not_limited
from waiting import until

from recovery.analysis.stacks import parse_folded
from recovery.builds import image_build, image_list
from recovery.builds.resolve import Sources, resolve_server
from recovery.cli.main import run
from recovery.errors import HostUnfitError
from recovery.linux import docker_engine
from recovery.linux.cgroups import hierarchies
from recovery.model import Cache, Schema, Verdict, startup_specs
from recovery.session import engine as session_engine
from recovery.storage.sessions import load_session

pytestmark = pytest.mark.containers
TABLES, INSERTS = 100, 40
SHARES_DATA = True
LARGE = pytest.mark.on_demand("large")
IN_CONTAINERS = ["--engine", "docker", "--registry", NOBODY]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may trace files and look into a process")


@dataclass(frozen=True)
class Measured:
    pid: int
    """Of the process that began the session."""
    messages: str
    folder: Path

    @property
    def report(self) -> dict[str, Any]:
        return stored(self.folder)


def recovery(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "recovery", *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def groups_of(tool: int) -> set[str]:
    """The control groups that this process has made."""
    return {folder.name for one in hierarchies() for folder in one.root.glob(f"mysql-recovery-*.{tool}.*")}


def asked(data: Path, folder: Path) -> list[str]:
    folders = ["--data", str(data), "--results", str(folder / "results")]
    return [*IN_CONTAINERS, "--tables", str(TABLES), "--no-probe", "--inserts", str(INSERTS), "--runs", "1", *folders]


def check_recovery(one: dict[str, Any], *, tables: int = TABLES) -> None:
    assert one["verdict"] == "measured", one["reason"]
    assert one["previous_exit"] == "signal 9"
    assert one["tables_found"] == tables
    assert one["rows_found"] == one["rows_expected"] >= INSERTS
    assert one["read_bytes"] is not None
    assert one["engine_overhead_s"] > 0
    assert 0 < one["start_error_s"] < one["startup_s"]
    assert sum(phase["end_s"] - phase["start_s"] for phase in one["phases"]) == pytest.approx(one["first_query_s"])


# --- A session with all that records what a server does


@pytest.fixture(scope="module")
def measured(
    client: docker.DockerClient, data: Path, module_settings: None, tmp_path_factory: pytest.TempPathFactory
) -> Measured:
    folder = tmp_path_factory.mktemp("measured")
    watched = ["--trace", "--stacks", "eu-stack"] if os.geteuid() == 0 and shutil.which("eu-stack") else []
    process = recovery("cold-recovery", "--version", "5.7.22", "--floor", *watched, *asked(data, folder))
    _, messages = process.communicate()
    assert process.returncode == 0, messages
    return Measured(process.pid, messages, folder)


def test_a_recovery_in_a_container_is_measured(measured: Measured, client: docker.DockerClient) -> None:
    assert "servers run in containers of the Docker engine at unix://" in measured.messages
    report = measured.report
    assert report["settings"]["engine"] == "docker"
    assert report["environment"]["engine"].startswith("Docker ")
    check_recovery(report["runs"][0])
    (server,) = report["servers"].values()
    assert server["image"].startswith("sha256:")
    text = (measured.folder / "results" / "latest" / "report.txt").read_text().replace("\n", " ")
    assert "In containers a startup begins with the exec of the server" in text
    assert report["floors"][0]["files"] == TABLES
    assert containers_of(client, measured.pid) == []


def test_the_users_own_data_directory_is_measured_in_a_container(client: docker.DockerClient, tmp_path: Path) -> None:
    """It is copied on the host, with the rights of the server in the container."""
    build = resolve_server("5.7.22", Sources(), lambda _: None)
    user = made_by(build, tmp_path)
    folders = ["--data", str(tmp_path / "copies"), "--results", str(tmp_path / "results")]
    assert run(["cold-recovery", "--datadir", str(user), "--runs", "1", "--no-probe", *IN_CONTAINERS, *folders]) == 0
    report = stored(tmp_path)
    assert report["settings"]["engine"] == "docker"
    first_read, one = report["runs"]
    assert (first_read["extra"], first_read["verdict"]) == ("first read", "sampled")
    check_recovery(one)


@needs_root
def test_files_that_a_server_in_a_container_opens_are_traced(measured: Measured) -> None:
    (one,) = (run for run in measured.report["runs"] if run["traced_by"])
    assert (one["traced_by"], one["extra"], one["verdict"]) == ("fanotify", "trace", "sampled")
    assert (one["tablespaces_opened"], one["tablespaces_modified"]) == (TABLES, INSERTS)
    assert one["read_unmodified"] == TABLES - INSERTS


def check_stacks(folder: Path, programs: set[str]) -> None:
    *_, sampled = stored(folder)["runs"]
    assert sampled["verdict"] == "sampled", sampled["reason"]
    assert sampled["program"] in programs
    folded = parse_folded((folder / "results" / "latest" / sampled["file"]).read_text())
    mains = [frames for _, thread, *frames in folded if thread == "main thread"]
    assert any("main" in frame for frames in mains for frame in frames[:6]), "walked to its root"


@needs_root
def test_stacks_of_a_server_in_a_container(measured: Measured) -> None:
    if shutil.which("eu-stack") is None:
        left_out("there is no eu-stack")
    check_stacks(measured.folder, {"eu-stack"})


def test_local_processes_take_over_where_no_engine_answers_and_give_the_same_verdict(
    measured: Measured, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With ENGINE=auto, over the same data directory."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    command = ["cold-recovery", "--version", "5.7.22", *asked(data, tmp_path)]
    assert run(command) == 3
    assert "servers run as local processes" not in capsys.readouterr().err
    assert run([*command, "--engine", "auto"]) == 0
    messages = capsys.readouterr().err
    assert "servers run as local processes" in messages
    assert "using the data directory" in messages
    report = stored(tmp_path)
    assert report["settings"]["engine"] == "local"
    (one,), other = report["runs"], measured.report["runs"][0]
    for same in ("variant", "verdict", "tables_found"):
        assert one[same] == other[same]
    assert len([one for one in data.glob(f"5.7.22-discovery-{TABLES}-*") if one.is_dir()]) == 1


# --- Where containers cannot be had


def test_a_remote_engine_is_refused(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    assert run(["cold-recovery", "--version", "5.7.22", *asked(data, tmp_path)]) == 3
    messages = capsys.readouterr().err
    assert "tcp://192.0.2.1:2375 (DOCKER_HOST) has no socket on this host" in messages
    assert "run this tool on the engine's host" in messages


@pytest.mark.parametrize("lacking", ["engine on this host", "images"])
def test_auto_chooses_local_processes_where_no_container_can_be_made(
    lacking: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without images: no registry answers, the base image is not there, and debootstrap is missing."""
    why = "servers run as local processes"
    if lacking == "images":
        none = "recovery-tester/absent:1"
        monkeypatch.setattr(image_build, "_BASE_RECIPE", replace(image_build._BASE_RECIPE, name=none))
        monkeypatch.setattr(image_build, "BASE_IMAGE_NAME", none)
        monkeypatch.setattr(image_list, "find_own_image", lambda *_: None)
        monkeypatch.setattr(image_build, "own_image_name", lambda *_: "recovery-tester/none:1")
        monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
        why = f"debootstrap, which could make it, is missing: {why}"
    else:
        monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")

    def chosen(engine: str) -> tuple[str, list[str]]:
        lines: list[str] = []
        request = new_request(
            "cold-recovery", startup_specs((Cache.COLD,)), ("5.7.22",), Schema(1), 1, tmp_path, tmp_path,
            engine=engine, registry=NOBODY,
        )  # fmt: skip
        found = session_engine.choose_engine(request, lines.append)
        return session_engine.resolve_builds(request, found, lines.append)[0].name, lines

    with pytest.raises(HostUnfitError):
        chosen("docker")
    name, lines = chosen("auto")
    assert name == "local"
    assert any(why in line for line in lines), lines


# --- Limits, and a killed session

READ_IOPS = 200
LIMITS = ["--read-iops", str(READ_IOPS), "--memory", "1g", "--cpus", "0.9"]


@pytest.fixture(scope="module")
def resumed(
    client: docker.DockerClient, data: Path, module_settings: None, tmp_path_factory: pytest.TempPathFactory
) -> Measured:
    """Killed after its first run and resumed, with limits where the host can set them."""
    folder = tmp_path_factory.mktemp("resumed")
    limits = LIMITS if why_not_limited() is None else []
    process = recovery("crash-recovery", "--version", "5.7.22", *limits, *asked(data, folder))
    first_run_stored(folder / "results")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert bool(groups_of(process.pid)) == bool(limits), "the killed process left its group"
    again = recovery("resume", "--yes", "--results", str(folder / "results"))
    _, messages = again.communicate()
    assert again.returncode == 0, messages
    assert groups_of(again.pid) == set()
    return Measured(process.pid, messages, folder)


def test_a_killed_session_is_resumed_and_what_it_left_is_removed(
    resumed: Measured, client: docker.DockerClient
) -> None:
    assert "is resumed: 1 of 2 runs have ended" in resumed.messages
    # On a busy host the second start need not be warm, and is called what it was.
    assert [one["variant"].replace("second start", "warm") for one in resumed.report["runs"]] == ["cold", "warm"]
    for one in resumed.report["runs"]:
        check_recovery(one)
    assert containers_of(client, resumed.pid) == []
    assert groups_of(resumed.pid) == set()


def test_a_container_is_held_to_its_limits(resumed: Measured) -> None:
    need_limits()
    one = resumed.report["runs"][0]
    assert one["read_requests"] > TABLES
    assert 0 < one["reads_per_s"] <= 1.5 * READ_IOPS + 100


# --- A container that somebody pauses


def servers_of(client: docker.DockerClient, tool: int) -> list[Container]:
    return [one for one in containers_of(client, tool) if one.labels[docker_engine.PURPOSE] == "server"]


def pause_next(client: docker.DockerClient, tool: int, *, skipped: int, for_ever: bool) -> None:
    """The container of the next server that this process starts, after `skipped` others."""
    before = {one.id for one in servers_of(client, tool)}
    seen: list[str] = []

    def is_paused() -> bool:
        for one in servers_of(client, tool):
            if one.id not in before and one.id not in seen:
                seen.append(str(one.id))
            if one.id in seen[skipped:]:
                with suppress(docker.errors.APIError):  # it has not begun yet
                    one.pause()
                    if not for_ever:
                        one.unpause()
                    return True
        return False

    until(is_paused, "the next server")


def test_runs_with_a_paused_container_are_void(data: Path, tmp_path: Path, client: docker.DockerClient) -> None:
    """In the second run it is paused for a moment, in the third for ever."""
    more = ["--runs", "3", "--stall", "8"]
    pausers: list[threading.Thread] = []
    with recovery("cold-recovery", "--version", "5.7.22", *asked(data, tmp_path), *more) as program:
        assert program.stderr is not None
        for line in program.stderr:
            for ended, skipped, for_ever in ((", run 1: ", 0, False), (", run 2: ", 1, True)):
                if ended in line:  # after a void run a server is started between two runs, too
                    given = {"skipped": skipped, "for_ever": for_ever}
                    pausers.append(threading.Thread(target=pause_next, args=(client, program.pid), kwargs=given))
                    pausers[-1].start()
        assert program.wait() == 1
        for pauser in pausers:
            pauser.join()
    runs = load_session(tmp_path / "results" / "latest").runs
    assert [(one.verdict, one.measure_again) for one in runs] == [
        (Verdict.MEASURED, False),
        (Verdict.VOID, True),
        (Verdict.VOID, True),
    ]
    reasons = [one.reason or "" for one in runs[1:]]
    for reason in reasons:
        assert reason.startswith("somebody paused the server's container meanwhile (`docker pause`)")
    assert "the server hangs: nothing moved for " in reasons[1]
    assert servers_of(client, program.pid) == []


# --- Other servers


@pytest.mark.parametrize(
    "version",
    # Whole recoveries of the catalog's servers go through local processes; 9.7 is not among them.
    ["9.7", *(pytest.param(one, marks=LARGE) for one in ("5.6.24", "8.0.31", "mariadb-10.11.5"))],
)
def test_every_version_recovers_in_a_container(version: str, data: Path, tmp_path: Path) -> None:
    few = 20
    assert run(["cold-recovery", "--version", version, *asked(data, tmp_path), "--tables", str(few)]) == 0
    (one,) = stored(tmp_path)["runs"]
    check_recovery(one, tables=few)
    assert one["version"].startswith(version)
    names = {name for phase in one["phases"] for name in phase["name"].split(" + ")}
    assert version != "9.7" or {"directory listing", "file scan", "dictionary read", "file check"} <= names, names


@LARGE
@needs_root
def test_mariadb_in_a_container_opens_modified_tables_alone(data: Path, tmp_path: Path) -> None:
    assert run(["cold-recovery", "--version", "mariadb-10.11.5", "--trace", *asked(data, tmp_path)]) == 0
    counted, one = stored(tmp_path)["runs"]
    check_recovery(counted)
    assert one["traced_by"] == "fanotify"
    assert (one["tablespaces_opened"], one["tablespaces_modified"]) == (TABLES, INSERTS)
    assert one["read_unmodified"] == 0


@LARGE
@needs_root
def test_stacks_of_a_server_with_newer_libraries_than_the_host(data: Path, tmp_path: Path) -> None:
    """Then it is perf that can read them."""
    programs = {"eu-stack", "perf"}
    if missing := [name for name in programs if shutil.which(name) is None]:
        left_out(f"there is no {missing[0]}")
    assert run(["cold-recovery", "--version", "9.7", "--stacks", *asked(data, tmp_path)]) == 0
    check_stacks(tmp_path, programs)


@LARGE
def test_memory_limits_include_the_page_cache(data: Path, tmp_path: Path) -> None:
    need_limits()
    memory, many = 160 << 20, 1100  # of so many tables more is read than this memory holds
    more = ["--tables", str(many), "--memory", str(memory)]
    assert run(["warm-recovery", "--version", "5.7.22", *asked(data, tmp_path), *more]) == 0
    (held,) = stored(tmp_path)["runs"]
    assert held["verdict"] == "measured", held["reason"]
    assert 0 < held["group_memory_bytes"] <= memory
    assert groups_of(os.getpid()) == set()


@LARGE
def test_a_load_beside_a_poller_with_a_profile(data: Path, tmp_path: Path) -> None:
    """The clients are programs of the host, which use the container's socket."""
    sizes = ["--tables", "60", "--rows", "20", "--load-tables", "5", "--threads", "2", "--runs", "1"]
    options = ["--seconds", "3", "--warmup", "1", "--option", "table_open_cache=400", "--profile", "--no-probe"]
    where = ["--engine", "docker", "--data", str(data), "--results", str(tmp_path / "results")]
    assert run(["interference", "--version", "5.7.22", *sizes, *options, *where]) == 0
    session = load_session(tmp_path / "results" / "latest")
    assert [one.verdict for one in session.runs] == [Verdict.MEASURED] * 2 + [Verdict.SAMPLED] * 2
    assert "image" in session.servers["5.7.22 table_open_cache=400"]
    for one in session.runs:
        assert one.metrics["qps"] > 0
        assert one.metrics["server_cpus"] > 0.01, "of the container's process, not of its shell"
        assert one.metrics["client_cpus"] > 0
    sampled = session.runs[-1]
    assert sampled.stacks.program == "perf"
    functions = {frame for chain in sampled.stacks.chains for frame in chain.frames}
    assert any("dispatch_command" in name or "do_command" in name for name in functions), functions
    assert (tmp_path / "results" / "latest" / str(sampled.stacks)).is_file()
