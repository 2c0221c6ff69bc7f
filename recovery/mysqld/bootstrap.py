"""Initialises an empty data directory with the means of the server itself.

Since 5.7.6 a server initialises itself. Before that, and in MariaDB, it is fed the statements that come with it. The
vendors' install scripts do the same, but need programs in addition to the server. Root has no password afterwards."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

from recovery.errors import RecoveryError, ServerFailedError
from recovery.linux.signals import defer_signals
from recovery.logs.error_log import StartErrors, error_text
from recovery.logs.log_tail import last_lines
from recovery.model import Build, can
from recovery.mysqld.launcher import Exit, Launch, Launcher, ServerProcess
from recovery.mysqld.options import FLAG, KEY_FILE, Settings, base_settings, experiment_settings, merge
from recovery.mysqld.startup import DEFAULT_STALL_S, describe_exit, server_failure, wait_for_exit

_KEY_BYTES = 32


def create_key_folder(folder: Path) -> None:
    """Creates the folder with the key file for encrypted tables. Only its owner can read them."""
    folder.mkdir(mode=0o700)
    with os.fdopen(os.open(folder / KEY_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(f"1;{secrets.token_hex(_KEY_BYTES)}\n")


_KILL_TIMEOUT_S = 60.0
_MYSQL_SCRIPTS = ("mysql_system_tables.sql", "mysql_system_tables_data.sql")
# These scripts are optional: 10.2 has no sys schema, and older servers have no performance tables.
_MARIADB_SCRIPTS = ("mysql_performance_tables.sql", "maria_add_gis_sp_bootstrap.sql", "mysql_sys_schema.sql")


def initialise(
    launcher: Launcher,
    build: Build,
    datadir: Path,
    *,
    rundir: Path,
    log: Path,
    settings: Settings | None = None,
    keys: Path | None = None,
    stall_s: float = DEFAULT_STALL_S,
) -> None:
    """Initialises `datadir`, which must be empty or missing. Removes the run folder afterwards, and keeps the log."""
    _ensure_empty(datadir)
    version = build.version
    chosen = merge(base_settings(version, rundir=rundir), experiment_settings(version), settings or {})
    statements: Path | None = None
    if can(version, "initialize"):
        chosen["initialize_insecure"] = FLAG
    else:
        statements = rundir.with_name(rundir.name + ".sql")
        _write_statements(build, statements)
        chosen |= {"bootstrap": FLAG, "max_allowed_packet": str(8 << 20)}
        if can(version, "install_db"):
            chosen["log_warnings"] = "0"
    process: ServerProcess | None = None
    try:
        with defer_signals():
            process = launcher.launch(Launch(build, datadir, chosen, log, rundir, stdin=statements, keys=keys))
        _wait_until_done(process, stall_s)
    finally:
        with defer_signals():
            if process is not None:
                if process.exited() is None:
                    process.signal(signal.SIGKILL)
                    process.wait(_KILL_TIMEOUT_S)
                process.end_detached()
            if statements is not None:
                statements.unlink(missing_ok=True)
            shutil.rmtree(rundir, ignore_errors=True)


def _ensure_empty(datadir: Path) -> None:
    try:
        datadir.mkdir(mode=0o700, parents=True, exist_ok=True)
        occupied = any(datadir.iterdir())
    except OSError as error:
        raise RecoveryError(
            f"cannot make the data directory {datadir}: {error.strerror}", "choose another --data"
        ) from error
    if occupied:
        raise RecoveryError(f"the data directory is not empty: {datadir}", "remove it first")


def _write_statements(build: Build, target: Path) -> None:
    """Writes the statements of all scripts into one file, in the order of the vendors' install scripts."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with target.open("w", encoding="utf-8") as out:
        out.write("create database if not exists mysql;\nuse mysql;\n")
        if can(build.version, "install_db"):
            # Otherwise root could only log in through the plugin that requires the system's root user.
            out.write("set @skip_auth_root_nopasswd=NULL;\nset @auth_root_socket=NULL;\n")
        for script in _scripts(build):
            with script.open(encoding="utf-8", errors="surrogateescape") as lines:
                for line in lines:
                    out.write(line)
            out.write("\n")


def _scripts(build: Build) -> Iterator[Path]:
    tables, data = (_find_script(build, name) for name in _MYSQL_SCRIPTS)
    if tables is None or data is None:
        raise RecoveryError(
            f"{build.basedir} lacks {_MYSQL_SCRIPTS[0]} or {_MYSQL_SCRIPTS[1]}: no data directory can be made with it",
            "take the vendor's whole archive of this version",
        )
    yield tables
    more = [_find_script(build, name) for name in _MARIADB_SCRIPTS] if can(build.version, "install_db") else []
    yield from [script for script in more[:1] if script is not None]
    yield data
    yield from [script for script in more[1:] if script is not None]


def _find_script(build: Build, name: str) -> Path | None:
    # MariaDB has renamed its scripts.
    names = (name, name.replace("mysql_", "mariadb_", 1))
    candidates = (folder / known for known in names for folder in build.scripts)
    return next((path for path in candidates if path.is_file()), None)


def _wait_until_done(process: ServerProcess, stall_s: float) -> None:
    exited = wait_for_exit(process, stall_s)
    if isinstance(exited, str):
        raise _failed(process, f"making a data directory hangs: {exited}")
    if exited != Exit(code=0, signal=None):
        raise _failed(process, f"no data directory could be made: {describe_exit(process, exited)}")


def _failed(process: ServerProcess, what: str) -> ServerFailedError:
    tail = last_lines(process.launch.log)
    errors = StartErrors()
    for line in tail:
        errors.add(line)
    reason = error_text(errors.reason(tail[-1] if tail else ""))
    return server_failure(process, f"{what}: {reason}" if reason else what)
