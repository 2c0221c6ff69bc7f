"""Limits bite in containers as they do on local processes, and a killed run's group goes with its container."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import docker
import pytest
from loopback import NOBODY

from recovery.cli import run
from recovery.errors import HostUnfitError
from recovery.host import engine
from recovery.host.cgroups import hierarchies
from recovery.host.limitable import needed
from recovery.host.owner import is_gone, is_orphan
from recovery.model import Limits

TABLES = 1000
READ_IOPS = 500
MEMORY = 160 << 20
LIMITS = ["--read-iops", str(READ_IOPS), "--memory", str(MEMORY), "--cpus", "0.5"]


def _cannot() -> str | None:
    try:
        needed(Limits(read_iops=1, memory_bytes=1, cpus=0.1), Path(__file__).parent)
    except HostUnfitError as error:
        return error.message
    return None


pytestmark = [pytest.mark.containers, pytest.mark.skipif(_cannot() is not None, reason=str(_cannot()))]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture
def asked(data: Path, tmp_path: Path) -> list[str]:
    places = ["--tables", str(TABLES), "--data", str(data), "--results", str(tmp_path / "results")]
    return ["cold-recovery", "--engine", "docker", "--registry", NOBODY, "--version", "5.7.22", *places]


def left_behind() -> set[str]:
    found = {folder.name for one in hierarchies() for folder in one.root.glob("mysql-recovery-*")}
    return set(filter(is_orphan, found))


def test_a_container_is_held_to_its_limits(asked: list[str], tmp_path: Path) -> None:
    assert run([*asked, "--runs", "1", *LIMITS]) == 0
    (only,) = json.loads((tmp_path / "results" / "latest" / "report.json").read_text())["runs"]
    assert only["verdict"] == "measured", only["reason"]
    assert only["read_requests"] > TABLES
    assert 0.5 * READ_IOPS <= only["reads_per_s"] <= 1.1 * READ_IOPS + 100
    assert 0 < only["group_memory_bytes"] <= MEMORY
    assert left_behind() == set()


def test_a_killed_run_leaves_neither_a_group_nor_a_container(asked: list[str], client: docker.DockerClient) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "recovery", *asked, "--runs", "50", *LIMITS],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert any("[1/50]" in line for line in process.stderr)
    process.kill()
    process.communicate(timeout=60)
    assert left_behind()
    assert run([*asked, "--runs", "1"]) == 0
    assert left_behind() == set()
    kept = client.containers.list(all=True, ignore_removed=True, filters={"label": engine.OWNER})
    assert not [one for one in kept if is_gone(one.labels[engine.OWNER])]
