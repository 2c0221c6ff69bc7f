"""How much faster is the fast build than the published one: one client, a statement at a time, fully durable?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice

from recovery.host.datadir import DataDir, DataDirs
from recovery.load.ground import Ground
from recovery.load.schema import statements
from recovery.load.stage import prepare_stage
from recovery.model import Build, Schema
from recovery.selfbench.site import Site, quiet, settle
from recovery.server.local import LocalLauncher


@dataclass(frozen=True)
class Rate:
    tables: int
    seconds: float

    @property
    def per_s(self) -> float:
        return self.tables / self.seconds


def published(site: Site, build: Build, tables: int, *, limit_s: float) -> Rate:
    """As the author did it, for at most `limit_s`: the rate over the part that was made."""
    datadir = site.empty_datadir(build, f"published-{build.version}")
    with site.server(build, datadir) as server:
        server.start()
        with closing(server.connect()) as connection, connection.cursor() as cursor:
            script: Iterator[str] = statements(Schema(tables))
            cursor.execute(next(script))
            made, began = 0, time.monotonic()
            for statement in islice(script, tables):
                cursor.execute(statement)
                made += 1
                if time.monotonic() - began > limit_s:
                    break
            return Rate(made, time.monotonic() - began)


def build_stage(build: Build, schema: Schema, target: DataDir) -> tuple[Rate, float]:
    """The tool's way: the rate from the first to the last statement, and the whole stage, initialised and proved."""
    moments: list[float] = []
    began = time.monotonic()
    ground = Ground(build, schema, target, launcher=LocalLauncher(), say=quiet)
    prepare_stage(ground, progress=lambda _done, _total: moments.append(time.monotonic()))
    return Rate(schema.total_tables, moments[-1] - moments[0]), time.monotonic() - began


def compare(site: Site, version: str, tables: int, *, limit_s: float) -> tuple[str, ...]:
    """One row: version, both rates (from the first statement to the last answer), their ratio, and the whole stage's
    time. Neither pays for what was done before it."""
    settle(tables)
    build = site.build(version)
    slow = published(site, build, tables, limit_s=limit_s)
    settle(tables)
    with DataDirs(site.folder).acquire(f"fast-{version}") as target:
        quick, whole_s = build_stage(build, Schema(tables), target)
    return (
        version,
        f"{slow.per_s:,.0f}",
        f"{slow.tables:,} in {slow.seconds:.0f} s",
        f"{quick.per_s:,.0f}",
        f"{quick.per_s / slow.per_s:.1f}",
        f"{whole_s:.1f}",
    )


HEADERS = ("version", "published, tables/s", "measured over", "fast, tables/s", "ratio", "whole stage, s")
