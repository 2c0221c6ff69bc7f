"""Limits bite in containers as they do on local processes, and a killed run's group goes with its container."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import docker
import pytest
from loopback import NOBODY, containers_of
from sessions import need_limits, stored

from recovery.cli.main import run
from recovery.linux.cgroups import hierarchies

TABLES = 300
MANY = 1100
"""Of which more is read than MEMORY holds."""
SHARES_DATA = True
READ_IOPS = 500
MEMORY = 160 << 20
LIMITS = ["--read-iops", str(READ_IOPS), "--memory", str(MEMORY), "--cpus", "0.5"]
LOOSE = ["--read-iops", "5000", "--memory", "1g", "--cpus", "0.9"]
"""Where it is enough that there are some."""


pytestmark = pytest.mark.containers


@pytest.fixture(autouse=True)
def limits() -> None:
    need_limits()


@pytest.fixture
def asked(at: list[str]) -> list[str]:
    return ["cold-recovery", "--engine", "docker", "--registry", NOBODY, "--version", "5.7.22", *at]


def groups_of(tool: int) -> set[str]:
    """The control groups that this process has made."""
    return {folder.name for one in hierarchies() for folder in one.root.glob(f"mysql-recovery-*.{tool}.*")}


def test_a_container_is_held_to_its_limits(asked: list[str], tmp_path: Path) -> None:
    assert run([*asked, "--runs", "1", *LIMITS]) == 0
    (only,) = stored(tmp_path)["runs"]
    assert only["verdict"] == "measured", only["reason"]
    assert only["read_requests"] > TABLES
    assert 0 < only["reads_per_s"] <= 1.5 * READ_IOPS + 100
    assert groups_of(os.getpid()) == set()


@pytest.mark.on_demand("large")
def test_memory_bites_and_the_cache_is_in_it(asked: list[str], tmp_path: Path) -> None:
    """As for local processes."""
    warm = ["warm-recovery", *asked[1:], "--runs", "1", "--tables", str(MANY)]
    assert run([*warm, "--memory", str(MEMORY)]) == 0
    (held,) = stored(tmp_path)["runs"]
    assert held["verdict"] == "measured", held["reason"]
    assert 0 < held["group_memory_bytes"] <= MEMORY
    assert groups_of(os.getpid()) == set()


def test_a_killed_run_leaves_neither_a_group_nor_a_container(asked: list[str], client: docker.DockerClient) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "recovery", *asked, "--runs", "50", *LOOSE],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert any("[1/50]" in line for line in process.stderr)
    process.kill()
    process.communicate(timeout=60)
    assert groups_of(process.pid)
    assert run([*asked, "--runs", "1"]) == 0
    assert groups_of(process.pid) == set()
    assert containers_of(client, process.pid) == []
