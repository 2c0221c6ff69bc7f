"""Does `recovery bench --only engines` measure the same server both ways?"""

from __future__ import annotations

from pathlib import Path

import docker
import pytest

from recovery.model import Cache
from recovery.selfbench import engines
from recovery.selfbench.site import scratch

pytestmark = [pytest.mark.containers, pytest.mark.on_demand("bench")]


@pytest.mark.parametrize("cache", list(Cache))
def test_pairs_of_both_engines(cache: Cache, client: docker.DockerClient, tmp_path: Path) -> None:
    with scratch(tmp_path / "d") as site:
        build = site.build("5.7.22")
        with site.staged(build, 100) as staged:
            found = engines.pairs(site, build, staged, cache, count=2)
    assert len(found) == 2
    assert all(pair.local_s > 0 and pair.container_s > 0 and pair.overhead_s > 0 for pair in found)
    mean, low, high = engines.difference(found)
    assert low <= mean <= high
    assert not client.containers.list(filters={"label": "recovery-tester.made=server"})
