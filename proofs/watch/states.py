"""Data directories as a crash leaves them. They are kept as copies, so that each start can be recorded from the same
state."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from recovery.errors import RecoveryError
from recovery.model import Build, Schema
from recovery.mysqld import client
from recovery.mysqld.datadir import DataDir, DataDirs
from recovery.mysqld.launcher import Launcher
from recovery.mysqld.options import REDO_CAPACITY, adapt_redo_capacity, experiment_settings
from recovery.mysqld.redo_log import redo_span
from recovery.mysqld.server import Server, ServerConfig
from recovery.workload.build import DatadirBuilder, prepare_datadir
from recovery.workload.inserts import execute_inserts, insert_statements, tables_of
from watch.loads import LOAD, Load

if TYPE_CHECKING:
    from recovery.linux.cgroups import LimitGroup

FEW, REDO, ROLLBACK = "few", "redo", "rollback"
STATES = (FEW, REDO, ROLLBACK)
"""A hundred inserts; a large redo log over random pages; an open transaction."""
_ROW_BYTES = 1000
_CHUNK_ROWS = 10_000
_SEED_ROWS = 1000
_SLOW_FLUSH = {
    "innodb_io_capacity": "100",
    "innodb_adaptive_flushing": "OFF",
    "innodb_max_dirty_pages_pct": "99",
    "innodb_flush_log_at_trx_commit": "2",
}
"""Options under which modified pages stay in memory, so that the checkpoint stays where it is."""


@dataclass(frozen=True)
class Sizes:
    tables: int = 20_000
    redo_bytes: int = 500 << 20
    rows: int = 1_000_000
    """Of the open transaction."""

    @property
    def load_rows(self) -> int:
        """Rows of the table whose updates make redo: each writes its new and its old value."""
        return max(_CHUNK_ROWS, self.redo_bytes // (2 * _ROW_BYTES))


def is_load(state: str) -> bool:
    return state.startswith(f"{LOAD}-")


class CrashedData:
    """The data directory of one server, and the copy of its state after the last crash."""

    def __init__(self, folder: Path, build: Build, launcher: Launcher, sizes: Sizes) -> None:
        self.build, self.sizes = build, sizes
        self.schema = Schema(sizes.tables)
        self._folder, self._launcher = folder, launcher
        self._copy = folder / "crashed"
        self._logs = folder / "logs"
        self._logs.mkdir()
        self.target: DataDir = DataDirs(folder).acquire("recorded")
        self._inserts = insert_statements(self.schema, count=min(100, sizes.tables))

    @property
    def datadir(self) -> Path:
        return self.target.mysql

    def settings(self, state: str) -> dict[str, str]:
        settings = experiment_settings(self.build.version) | {
            "innodb_buffer_pool_size": str(1 << 30),
            "loose_" + REDO_CAPACITY: str(1 << 30),
        }
        if state != FEW:
            settings["innodb_flush_method"] = "O_DIRECT"
        if is_load(state):
            settings["innodb_buffer_pool_size"] = str(Load.of(state).pool_bytes)
        return adapt_redo_capacity(self.build.version, settings)

    def server(self, state: str, group: LimitGroup | None = None) -> Server:
        config = ServerConfig(self._launcher, self.build, self._logs, self.settings(state), group=group)
        return Server(replace(config, logdir=self._new_logs()), self.datadir)

    def _new_logs(self) -> Path:
        folder = self._logs / str(time.monotonic_ns())
        folder.mkdir()
        return folder

    def make(self) -> None:
        """Builds the tables, and shuts the server down cleanly."""
        builder = DatadirBuilder(self.build, self.schema, self.target, launcher=self._launcher, say=lambda _: None)
        prepare_datadir(builder, progress=lambda *_: None)
        with self.server(FEW) as server:
            server.start()
            with closing(server.connect()) as connection, connection.cursor() as cursor:
                cursor.execute("create database watch")
                for name, columns in (("seed", ""), ("grow", ", v int"), ("fill", f", pad varchar({_ROW_BYTES})")):
                    cursor.execute(
                        f"create table watch.{name} (id int primary key auto_increment{columns}) engine=innodb"
                    )
                values = ",".join(["(null)"] * _SEED_ROWS)
                cursor.execute(f"insert into watch.seed values {values}")
                done = 0
                while done < self.sizes.load_rows:
                    cursor.execute(
                        f"insert into watch.fill (pad) select repeat('a', {_ROW_BYTES}) from watch.seed a, "
                        f"watch.seed b limit {_CHUNK_ROWS}"
                    )
                    cursor.execute("commit")
                    done += _CHUNK_ROWS
            server.stop()

    def crash(self, state: str) -> None:
        """Crashes the server in this state, and keeps a copy. Before, the data directory was shut down cleanly."""
        loads: dict[str, Callable[[Server], None]] = {
            FEW: self.insert_and_kill,
            REDO: self._update,
            ROLLBACK: self._modify,
        }
        if is_load(state):
            with self.server(state) as server:
                server.start(settings=_SLOW_FLUSH)
                Load.of(state).prepare(server)
                server.stop()
        with self.server(state) as server:
            server.start(settings={} if state == FEW else _SLOW_FLUSH)
            (Load.of(state).run if is_load(state) else loads[state])(server)
        self._save()

    def insert_and_kill(self, server: Server) -> None:
        """Crashes a server in the state `few`."""
        with closing(server.connect()) as connection:
            execute_inserts(connection, self._inserts)
        server.kill()

    def _update(self, server: Server) -> None:
        with closing(server.connect()) as connection, connection.cursor() as cursor:
            for number in range(1000):
                # Another part of the table each time, so that redo touches pages all over it.
                cursor.execute(
                    f"update watch.fill set pad = repeat('{chr(98 + number % 20)}', {_ROW_BYTES}) "
                    f"where id % 25 = {number * 7 % 25}"
                )
                cursor.execute("commit")
                if number % 4 == 3:
                    span = redo_span(self.datadir)
                    if span is None or span.bytes >= self.sizes.redo_bytes:
                        break
            else:
                raise RecoveryError("the redo log does not grow", "this server flushes too early: see _SLOW_FLUSH")
        server.kill()

    def _modify(self, server: Server) -> None:
        with closing(server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("start transaction")
            left = self.sizes.rows
            while left > 0:
                rows = min(left, _SEED_ROWS * _SEED_ROWS)
                cursor.execute(f"insert into watch.grow (v) select a.id from watch.seed a, watch.seed b limit {rows}")
                left -= rows
            with closing(server.connect()) as other:
                execute_inserts(other, self._inserts[:1])
            time.sleep(2.0)  # the log is written once a second
            server.kill()

    def restore(self) -> None:
        """Puts the state after the crash back."""
        for path in self._changing():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        for name in self._tables():
            (self.datadir / name).unlink()
        _copy(sorted(self._copy.iterdir()), self.datadir)
        os.sync()  # otherwise the next start would wait for these writes

    def _save(self) -> None:
        shutil.rmtree(self._copy, ignore_errors=True)
        self._copy.mkdir()
        _copy(self._changing(), self._copy)
        for name in self._tables():
            (self._copy / name).parent.mkdir(exist_ok=True)
            _copy([self.datadir / name], (self._copy / name).parent)

    def _changing(self) -> Sequence[Path]:
        """Returns what a start changes, apart from tables: all but the folders of the tables."""
        return [path for path in sorted(self.datadir.iterdir()) if path.name not in self.schema.database_names]

    def _tables(self) -> Sequence[str]:
        """Returns the tables' files that the inserts change."""
        return [f"{name.replace('.', '/')}.ibd" for name in tables_of(self._inserts)]

    def close(self) -> None:
        self.target.release()


def _copy(paths: Sequence[Path], target: Path) -> None:
    subprocess.run(["cp", "-a", "--", *map(str, paths), str(target)], check=True)


def rows_to_undo(server: Server) -> int:
    """Returns the rows that the rollback after ready has still to undo."""
    statement = "select sum(trx_rows_modified) from information_schema.innodb_trx where trx_mysql_thread_id = 0"
    with closing(client.connect(server.socket)) as connection:
        found = client.scalar(connection, statement)
    return int(str(found or 0))
