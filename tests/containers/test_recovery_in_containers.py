"""The command, with servers in containers: cold and warm recovery, and the same verdicts as by local processes."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import docker
import pytest
from loopback import NOBODY
from sessions import left_out, stored

from recovery.analysis.stacks import parse_folded
from recovery.builds import image_build, image_list
from recovery.cli.main import run
from recovery.linux import docker_engine
from recovery.linux.procfs import process_id

pytestmark = pytest.mark.containers
TABLES = 300
SHARES_DATA = True
LARGE = pytest.mark.on_demand("large")
IN_CONTAINERS = ["--engine", "docker", "--registry", NOBODY]


@pytest.mark.parametrize(
    "version",
    # Whole recoveries without containers go through the others, but for 9.7, of which there is no catalog's.
    ["5.7.22", "9.7", *(pytest.param(one, marks=LARGE) for one in ("5.6.24", "8.0.31", "mariadb-10.11.5"))],
)
def test_cold_and_warm_in_a_container(
    version: str, at: list[str], tmp_path: Path, client: docker.DockerClient, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["crash-recovery", *IN_CONTAINERS, "--version", version, "--runs", "1", *at]) == 0
    captured = capsys.readouterr()
    assert "servers run in containers of the Docker engine at unix://" in captured.err
    report = stored(tmp_path)
    assert report["settings"]["engine"] == "docker"
    assert report["environment"]["engine"].startswith("Docker ")
    assert [one["variant"] for one in report["runs"]] == ["cold", "warm"]
    for one in report["runs"]:
        assert one["verdict"] == "measured", one["reason"]
        assert one["version"].startswith(version)
        assert one["exit_signal"] == "signal 9"
        assert one["tables"] == TABLES
        assert one["rows_found"] == one["rows_expected"] >= 100
        assert one["read_bytes"] is not None
        assert one["engine_overhead_s"] > 0
        assert 0 < one["start_error_s"] < one["startup_s"]
        assert version != "9.7" or {"discovery", "validation"} <= {phase["name"] for phase in one["phases"]}
        assert sum(phase["end_s"] - phase["start_s"] for phase in one["phases"]) == pytest.approx(one["first_query_s"])
    (server,) = report["servers"].values()
    assert server["image"].startswith("sha256:")
    assert "In containers a startup begins with the exec of the server" in (
        tmp_path / "results" / "latest" / "report.txt"
    ).read_text().replace("\n", " ")
    assert client.containers.list(all=True, filters={"label": f"{docker_engine.OWNER}={process_id()}"}) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may be told by fanotify")
@pytest.mark.parametrize(("version", "inserts", "in_vain"), [("5.7.22", 1, TABLES - 1), ("mariadb-10.11.5", 100, 0)])
def test_what_a_server_in_a_container_opens(
    version: str, inserts: int, in_vain: int, at: list[str], tmp_path: Path
) -> None:
    asked = ["--version", version, "--runs", "1", "--inserts", str(inserts), "--trace", "--floor"]
    assert run(["cold-recovery", *IN_CONTAINERS, *asked, *at]) == 0
    report = stored(tmp_path)
    (one,) = report["runs"]
    assert one["verdict"] == "measured", one["reason"]
    assert (one["tablespaces_opened"], one["tablespaces_modified"]) == (TABLES, inserts)
    assert one["read_unmodified"] == in_vain
    assert one["traced_by"] == "fanotify"
    assert report["floors"][0]["files"] == TABLES


@pytest.mark.skipif(os.geteuid() != 0, reason="others may not look into a process")
@pytest.mark.parametrize(
    ("version", "programs"), [("5.7.22", {"eu-stack"}), pytest.param("9.7", {"eu-stack", "perf"}, marks=LARGE)]
)
def test_stacks_of_a_server_in_a_container(version: str, programs: set[str], at: list[str], tmp_path: Path) -> None:
    """The newest server's image has other libraries than a host that is older: then it is perf that can read them."""
    if missing := [name for name in programs if shutil.which(name) is None]:
        left_out(f"there is no {missing[0]}")
    assert run(["cold-recovery", *IN_CONTAINERS, "--version", version, "--runs", "1", "--stacks", *at]) == 0
    _, sampled = stored(tmp_path)["runs"]
    assert sampled["verdict"] == "sampled", sampled["reason"]
    assert sampled["sampled_by"] in programs
    folded = parse_folded((tmp_path / "results" / "latest" / sampled["stacks"]).read_text())
    mains = [frames for _, thread, *frames in folded if thread == "main thread"]
    assert any("main" in frame for frames in mains for frame in frames[:6]), "walked to its root"


def test_both_engines_give_the_same_verdicts_over_the_same_data_directory(
    at: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdicts = {}
    for name, chosen in {"local": ["--engine", "local"], "docker": IN_CONTAINERS}.items():
        assert run(["crash-recovery", *chosen, "--version", "5.7.22", "--runs", "1", *at]) == 0
        verdicts[name] = [(one["variant"], one["verdict"], one["tables"]) for one in stored(tmp_path)["runs"]]
    assert verdicts["local"] == verdicts["docker"]
    assert "using the data directory" in capsys.readouterr().err, "one directory serves both"
    assert len([one for one in Path(at[3]).glob(f"5.7.22-discovery-{TABLES}-*") if one.is_dir()]) == 1


def test_a_remote_engine_is_refused(
    at: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    assert run(["cold-recovery", "--engine", "docker", "--version", "5.7.22", "--runs", "1", *at]) == 3
    said = capsys.readouterr().err
    assert "tcp://192.0.2.1:2375 (DOCKER_HOST) has no socket on this host" in said
    assert "run this tool on the engine's host" in said


@pytest.mark.parametrize("engine", ["absent", "remote", "without images"])
def test_auto_takes_local_processes_where_containers_cannot_be_had(
    engine: str, at: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without images: no registry answers, the base image is not there, and debootstrap is missing."""
    measured = ["cold-recovery", "--registry", NOBODY, "--version", "5.7.22", "--runs", "1", *at]
    why = "servers run as local processes"
    if engine == "without images":
        monkeypatch.setattr(
            image_build, "_BASE_RECIPE", replace(image_build._BASE_RECIPE, name="recovery-tester/absent:1")
        )
        monkeypatch.setattr(image_build, "BASE_IMAGE_NAME", "recovery-tester/absent:1")
        monkeypatch.setattr(image_list, "find_own_image", lambda *_: None)
        monkeypatch.setattr(image_build, "own_image_name", lambda *_: "recovery-tester/none:1")
        monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
        why = "debootstrap, which could make it, is missing: servers run as local processes"
    else:
        address = f"unix://{tmp_path}/nobody.sock" if engine == "absent" else "tcp://192.0.2.1:2375"
        monkeypatch.setenv("DOCKER_HOST", address)
    assert run([*measured, "--engine", "docker"]) == 3
    assert why not in capsys.readouterr().err
    assert run([*measured, "--engine", "auto"]) == 0
    assert why in capsys.readouterr().err
    assert stored(tmp_path)["settings"]["engine"] == "local"
