"""A server whose container somebody pauses while it is timed: is no figure made of it, and is it said?"""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import docker
import pytest
from docker.models.containers import Container
from loopback import NOBODY, containers_of
from sessions import stored
from waiting import until

from recovery.cli.main import run
from recovery.linux import docker_engine

pytestmark = pytest.mark.containers
TABLES, SHARES_DATA = 300, True
MEASURE = ["cold-recovery", "--engine", "docker", "--registry", NOBODY, "--version", "5.7.22"]


def pause_next(client: docker.DockerClient, tool: int, *, for_ever: bool) -> None:
    """The container of the next server that this process starts."""
    before = {one.id for one in servers_of(client, tool)}

    def is_paused() -> bool:
        for one in servers_of(client, tool):
            if one.id not in before:
                with suppress(docker.errors.APIError):  # it has not begun yet
                    one.pause()
                    if not for_ever:
                        one.unpause()
                    return True
        return False

    until(is_paused, "the next server")


def servers_of(client: docker.DockerClient, tool: int) -> list[Container]:
    return [one for one in containers_of(client, tool) if one.labels[docker_engine.PURPOSE] == "server"]


@pytest.mark.parametrize(("for_ever", "more"), [(False, ""), (True, "the server hangs: nothing moved for ")])
def test_a_run_in_which_it_was_paused_is_void(
    for_ever: bool, more: str, at: list[str], tmp_path: Path, client: docker.DockerClient
) -> None:
    """Going on measures it again."""
    command = [sys.executable, "-m", "recovery", *MEASURE, "--runs", "2", "--stall", "15", *at]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as program:
        assert program.stderr is not None
        for line in program.stderr:
            if "cold run 1: " in line:
                pauser = threading.Thread(target=pause_next, args=(client, program.pid), kwargs={"for_ever": for_ever})
                pauser.start()
        assert program.wait() == 1
        pauser.join()
    report = stored(tmp_path)
    assert [one["verdict"] for one in report["runs"]] == ["measured", "void"]
    reason = report["runs"][1]["reason"]
    assert reason.startswith("somebody paused the server's container meanwhile (`docker pause`)")
    assert more in reason
    assert servers_of(client, program.pid) == []
    assert run(["run", "--resume", "--results", str(tmp_path / "results")]) == 0
    assert [one["verdict"] for one in stored(tmp_path)["runs"]] == ["measured", "measured"]
