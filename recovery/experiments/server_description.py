"""Describes servers for the report: where they are from, their tables, and the options in effect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile
from pathlib import Path

from recovery.analysis.effective_options import same_effective_options
from recovery.errors import TrialVoidError
from recovery.linux.storage import device_of
from recovery.model import Build, Schema
from recovery.mysqld.datadir import State
from recovery.mysqld.options import base_settings, merge
from recovery.mysqld.server import Server

EFFECTIVE_VARIABLES = (
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
"""Variables with values that are read from the running server: they may differ from the requested ones."""


def describe_build(build: Build, schema: Schema, state: State) -> dict[str, str]:
    """Returns what is known of a server and its tables before it is started, without values that are unknown."""
    # A start also reads the program, possibly from another disk than the data.
    device = device_of(build.basedir) if build.image is None else None
    known = {
        "source": build.source,
        "sha256": build.fingerprint,
        "image": build.image or None,
        "program_device": (device.device or device.filesystem or None) if device else None,
        "warnings": "; ".join(build.warnings) or None,
        "tables": state.tables or schema.all_tables,
        "schemas": schema.own.schemas if schema.own else schema.databases,
        "layout": None if schema.own else schema.layout,
        "ibd_files": state.ibd_files,
        "data_bytes": state.bytes,
        "rows": schema.rows or None,
        "build_s": None if state.build_s is None else f"{state.build_s:.6g}",
    }
    return {name: str(value) for name, value in known.items() if value is not None}


def describe_options(server: Server, given: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of the timed start and, under `@name`, each value in effect.

    The options are the server's own and those `given` for this start. The values in effect show which options a server
    ignores."""
    build = server.build
    options = merge(base_settings(build.version, rundir=Path("RUNDIR")), server.settings, given)
    command_line = " ".join(f"{name}={value}" if value else name for name, value in sorted(options.items()))
    requested = (name.removeprefix("loose_") for name in (*server.settings, *given))
    effective = {f"@{name}": value for name, value in server.variables((*EFFECTIVE_VARIABLES, *requested)).items()}
    return {"options": command_line, **effective}


def check_differs(label: str, described: Mapping[str, Mapping[str, str]], labels: Iterable[str]) -> None:
    """Raises TrialVoidError if the values in effect equal those of a variant that is measured and comes before this one
    in the order of the report, whichever was measured first. `labels` has this order."""
    mine = described[label]
    for other in takewhile(lambda name: name != label, labels):
        if other in described and (same := same_effective_options(mine, described[other])):
            raise TrialVoidError(
                f"{' and '.join(map(str, same))}, as in {other or 'the variant without options'}, which is measured "
                "already",
                f"give values that the server does not change; it may open {mine.get('@open_files_limit', 'few')} "
                "files (--open-files)",
            )
