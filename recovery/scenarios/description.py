"""What does the server say of itself? The values in effect, which need not be those that were asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from recovery.effect import one_experiment
from recovery.errors import TrialVoidError
from recovery.host.storage import device_of
from recovery.model import Build, Schema
from recovery.server.options import base_settings, merge
from recovery.server.server import Server

EFFECTIVE = (
    "version",
    "version_comment",
    "innodb_buffer_pool_size",
    "innodb_doublewrite",
    "innodb_file_per_table",
    "innodb_flush_log_at_trx_commit",
    "innodb_flush_method",
    "innodb_force_recovery",
    "innodb_log_file_size",
    "innodb_log_files_in_group",
    "innodb_open_files",
    "innodb_page_size",
    "innodb_redo_log_capacity",
    "innodb_use_native_aio",
    "innodb_validate_tablespace_paths",
    "log_error_verbosity",
    "log_warnings",
    "open_files_limit",
    "performance_schema",
    "sync_binlog",
    "table_definition_cache",
    "table_open_cache",
    "table_open_cache_instances",
)


def of_build(build: Build) -> dict[str, str]:
    """What is known before it is started."""
    warnings = {"warnings": "; ".join(build.warnings)} if build.warnings else {}
    image = {"image": build.image} if build.image else {}
    return {"source": build.source, "sha256": build.fingerprint, **image, **_lies_on(build), **warnings}


def _lies_on(build: Build) -> dict[str, str]:
    """Of a server of this host: a start reads its program, too, and that from another disk than the data, maybe."""
    device = device_of(build.basedir) if build.image is None else None
    told = device and (device.device or device.filesystem)
    return {"program_device": told} if told else {}


def of_tables(
    schema: Schema, *, files: int | None, size_bytes: int | None, build_s: float | None = None
) -> dict[str, str]:
    """How many of them lie how, how large the data directory is, and how long its statements took."""
    found = {
        "tables": schema.total_tables,
        "schemas": schema.databases,
        "layout": schema.layout,
        "ibd_files": files,
        "data_bytes": size_bytes,
        "rows": schema.rows or None,
        "build_s": None if build_s is None else round(build_s, 2),
    }
    return {name: str(value) for name, value in found.items() if value is not None}


def describe(server: Server, given: Mapping[str, str]) -> dict[str, str]:
    """The options of the timed start, with those that are `given` for it beside the server's own, and under `@name`
    each value in effect: an option that a server ignores is seen by it."""
    build = server.build
    options = merge(base_settings(build.version, rundir=Path("RUNDIR")), server.settings, given)
    told = " ".join(f"{name}={value}" if value else name for name, value in sorted(options.items()))
    wished = (name.removeprefix("loose_") for name in (*server.settings, *given))
    effective = {f"@{name}": value for name, value in server.variables((*EFFECTIVE, *wished)).items()}
    return {"options": told, **effective}


def check_differs(label: str, described: Mapping[str, Mapping[str, str]]) -> None:
    """A variant whose options come out as those of one described before it has been measured already."""
    mine = described[label]
    for other, known in described.items():
        if other == label:
            return
        if alike := one_experiment(mine, known):
            raise TrialVoidError(
                f"{' and '.join(map(str, alike))}, as it is in {other or 'the one without'}: one experiment, not two",
                f"give values that the server does not change; {mine.get('@open_files_limit', 'few')} open files are "
                "allowed it (ulimit -n)",
            )
