"""`make bench ARGS="--only engines"` measures the same server in both engines."""

from __future__ import annotations

from pathlib import Path

import docker
import pytest
from bench import starts
from bench.site import quiet, scratch

from recovery.builds.resolve import Sources, resolve_server
from recovery.model import Cache

pytestmark = [pytest.mark.containers, pytest.mark.on_demand("bench")]


@pytest.mark.parametrize("cache", list(Cache))
def test_pairs_of_both_engines(cache: Cache, client: docker.DockerClient, tmp_path: Path) -> None:
    build, ways = resolve_server("5.7.22", Sources(), quiet), (starts.TOOL, starts.CONTAINER)
    with scratch(tmp_path / "d") as site:
        found = list(starts.compare(site, build, 100, ways, cache=cache, count=2))
    assert [(start.pair, start.way == starts.CONTAINER) for start in found] == [
        *((1, False), (1, True)),
        *((2, True), (2, False)),
    ]
    assert all(start.ready_s > 0 and start.cache == cache for start in found)
    assert all(((start.engine_s or 0) > 0) == (start.way == starts.CONTAINER) for start in found)
    left = client.containers.list(filters={"label": "recovery-tester.made=server"}, ignore_removed=True)
    assert not [container for container in left if str(tmp_path) in str(container.attrs["Mounts"])]
