"""Compares the build of a data directory (`stage`) with the plain way: one client, one durable statement at a time."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import psutil

from bench.site import Site
from recovery.errors import HostUnfitError
from recovery.model import Build, Schema
from recovery.workload.schema import script_statements

_BYTES_OF_A_TABLE = 400 << 10
"""Memory of the page cache and the server for each table, generously."""


@dataclass(frozen=True)
class Built:
    """One build, from an empty folder to a server that was shut down with all tables on the disk."""

    version: str
    tables: int
    way: str
    """`plain` or `stage`."""
    statements_s: float
    whole_s: float
    """For a stage with its proof: started again with the settings of a test, counted, shut down."""


def compare(site: Site, build: Build, tables: int, *, count: int) -> Iterator[Built]:
    """The order within a pair alternates. Nothing is removed in between: ext4 avoids inodes deleted lately."""
    for number in range(count):
        for way in ("plain", "stage") if number % 2 == 0 else ("stage", "plain"):
            _settle(tables)
            began = time.monotonic()
            statements_s = (_plain if way == "plain" else _stage)(site, build, tables, f"{way}-{number}")
            yield Built(str(build.version), tables, way, statements_s, time.monotonic() - began)


def _plain(site: Site, build: Build, tables: int, name: str) -> float:
    """With the server's default durability."""
    with site.server(build, site.empty_datadir(build, name)) as server:
        server.start()
        with closing(server.connect()) as connection, connection.cursor() as cursor:
            began = time.monotonic()
            for statement in script_statements(Schema(tables)):
                cursor.execute(statement)
            took_s = time.monotonic() - began
        server.stop()
    return took_s


def _stage(site: Site, build: Build, tables: int, name: str) -> float:
    with site.staged(build, tables, name) as stage:
        if stage.state.build_s is None:
            raise HostUnfitError("the machine stood still during a build", "run it again")
        return stage.state.build_s


def _settle(tables: int) -> None:
    """Syncs the disk and allocates memory once, so that each build begins in the same state.

    A virtual machine returns free memory to its host, and getting a gigabyte back can take two seconds."""
    os.sync()
    size = min(tables * _BYTES_OF_A_TABLE, psutil.virtual_memory().available // 3)
    mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()
