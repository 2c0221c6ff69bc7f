"""A fake mysqld: a process with a data directory, an error log and a socket that speaks enough of MySQL's protocol for
the tool. It keeps files, tables and rows in its data directory, so that they survive a SIGKILL.

A launcher starts it as `fake_mysqld.py --defaults-file=FILE`. It initialises a data directory, or serves it. With the
option fake_loses_rows its crash recovery loses the last two inserts."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socketserver
import struct
import sys
import threading
import time
from collections import Counter
from pathlib import Path

_CLIENT_FLAGS = 0x00_0F_F7_DF  # everything but TLS, compression and its like
_MORE_RESULTS, _AUTOCOMMIT = 0x08, 0x02
_NAME = r"`?([\w$#-]+)`?"
_TABLE = rf"{_NAME}\.{_NAME}"
_FILE_BYTES = 16_384
VERSION = os.environ.get("FAKE_MYSQLD_VERSION", "5.7.22")


def read_settings(path: str) -> dict[str, str]:
    lines = (line.strip() for line in Path(path).read_text().splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith(("#", "[")))
    return {name.strip().replace("-", "_"): value.strip().strip('"') for name, _, value in pairs}


def log(text: str) -> None:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    os.write(2, f"{stamp}.{time.time_ns() // 1000 % 1_000_000:06d}Z 0 {text}\n".encode())


class Data:
    """The data directory: a folder for each schema, a file for each table, and a journal of all inserted rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = folder / "rows.journal"
        self._lock = threading.Lock()
        self.rows: Counter[str] = Counter()
        for line in self.journal.read_text().splitlines():
            table, _, rows = line.partition(" ")
            self.rows[table] += int(rows)

    def insert(self, table: str, rows: int) -> int:
        with self._lock, self.journal.open("a") as file:
            file.write(f"{table} {rows}\n")
            self.rows[table] += rows
        return rows

    def create_table(self, schema: str, table: str) -> None:
        (self.folder / schema / f"{table}.frm").write_bytes(b"definition")
        (self.folder / schema / f"{table}.ibd").write_bytes(bytes(_FILE_BYTES))

    def tables(self, schema: str) -> list[str]:
        return sorted(path.stem for path in (self.folder / schema).glob("*.ibd"))


class Statements:
    """Answers statements: a number of changed rows, or a list of rows."""

    def __init__(self, data: Data, settings: dict[str, str]) -> None:
        self._data = data
        self._settings = settings
        self.count = 0
        self.changed_rows = 0

    def answer(self, statement: str) -> int | list[tuple[object, ...]] | None:
        """Returns None for a query that this server rejects."""
        self.count += 1
        text = re.sub(r"/\*.*?\*/ ?", "", " ".join(statement.split()))
        for pattern, method in self._RULES:
            if (match := re.match(pattern, text, re.IGNORECASE)) is not None:
                found: int | list[tuple[object, ...]] = method(self, text, *match.groups())
                return found
        return None if text.lower().startswith(("select", "show")) else 0

    def _create_schema(self, _: str, schema: str) -> int:
        (self._data.folder / schema).mkdir()
        return 1

    def _drop_schema(self, _: str, schema: str) -> int:
        shutil.rmtree(self._data.folder / schema, ignore_errors=True)
        return 0

    def _create_table(self, _: str, schema: str, table: str) -> int:
        self._data.create_table(schema, table)
        return 0

    def _insert(self, text: str, schema: str, table: str) -> int:
        if text.rpartition(" order by ")[0]:  # rows that the server makes itself
            limit = re.search(r" < (\d+) order by 1$", text)
            return self._data.insert(f"{schema}.{table}", int(limit[1]) if limit else 1000)
        return self._data.insert(f"{schema}.{table}", text.count("), (") + 1)

    def _count_rows(self, _: str, schema: str, table: str) -> list[tuple[object, ...]]:
        return [(self._data.rows[f"{schema}.{table}"],)]

    def _count_tables(self, _: str, schema: str) -> list[tuple[object, ...]]:
        return [(len(self._data.tables(schema)),)]

    def _list_tables(self, _: str, schema: str) -> list[tuple[object, ...]]:
        return [(table,) for table in self._data.tables(schema)]

    def _list_all_tables(self, _: str) -> list[tuple[object, ...]]:
        return [(path.parent.name, path.stem) for path in self._data.folder.glob("*/*.ibd")]

    def _list_innodb_tables(self, _: str, schema: str) -> list[tuple[object, ...]]:
        return [(f"{schema}/{table}",) for table in self._data.tables(schema)]

    def _check_table(self, _: str, schema: str, table: str) -> list[tuple[object, ...]]:
        return [(f"{schema}.{table}", "check", "status", "OK")]

    def _variables(self, text: str) -> list[tuple[object, ...]]:
        known = {
            "version": VERSION,
            "innodb_flush_log_at_trx_commit": "1",
            "innodb_buffer_pool_size": str(128 << 20),
            **self._settings,
        }
        return [(name, known[name]) for name in re.findall(r"'(\w+)'", text) if name in known]

    def _pool_size(self, _: str) -> list[tuple[object, ...]]:
        return [(128 << 20,)]

    def _status(self, _: str) -> list[tuple[object, ...]]:
        return [("Questions", self.count), ("Uptime", 1)]

    def _metrics(self, _: str) -> list[tuple[object, ...]]:
        return [("log_writes", self.count)]

    def _innodb_status(self, _: str) -> list[tuple[object, ...]]:
        return [("InnoDB", "", "Log sequence number 900\nLast checkpoint at 400\nModified db pages 3")]

    def _changed_rows(self, _: str) -> list[tuple[object, ...]]:
        return [(self.changed_rows,)]

    def _change_rows(self, _: str, count: str) -> int:
        self.changed_rows = int(count)
        return self.changed_rows

    def _one(self, *_: str) -> list[tuple[object, ...]]:
        return [(1,)]

    _RULES = (
        (rf"create (?:schema|database) {_NAME}", _create_schema),
        (rf"drop schema if exists {_NAME}", _drop_schema),
        (rf"create table {_TABLE}", _create_table),
        (rf"insert into {_TABLE}", _insert),
        (r"select count\(\*\) from information_schema\.tables where table_schema = '(.*?)'", _count_tables),
        (rf"select count\(\*\) from {_TABLE}", _count_rows),
        (r"select table_name from information_schema\.tables where table_schema = '(.*?)'", _list_tables),
        (r"select name from information_schema\.innodb_sys_tables where name like '(.*?)/%'", _list_innodb_tables),
        (rf"check table {_TABLE}", _check_table),
        (r"show global variables", _variables),
        (r"select @@innodb_buffer_pool_size", _pool_size),
        (r"show global status", _status),
        (r"show engine innodb status", _innodb_status),
        (r"select max\(trx_rows_modified\)", _changed_rows),
        (r"update .* where id <= (\d+)", _change_rows),
        (r"select .* from information_schema\.innodb_metrics", _metrics),
        (
            r"select table_schema, table_name from information_schema\.tables where table_schema not in",
            _list_all_tables,
        ),
        (rf"select 1 from {_TABLE} limit 1", _one),
        (rf"select max\(id\) from {_TABLE}", _count_rows),
        (r"select 1 from mysql\.user", _one),
        (r"select (?:1$|(?:table_schema, )?sum\()", _one),
    )


class Connection(socketserver.BaseRequestHandler):
    """One client's connection: the handshake, and then one answer for each statement."""

    server: Service

    def handle(self) -> None:
        self._number = 0
        greeting = (
            b"\x0a" + VERSION.encode() + b"\0" + struct.pack("<I", 1) + b"12345678\0"
            + struct.pack("<HBHH", _CLIENT_FLAGS & 0xFFFF, 33, _AUTOCOMMIT, _CLIENT_FLAGS >> 16)
            + b"\x15" + bytes(10) + b"123456789012\0mysql_native_password\0"
        )  # fmt: skip
        self._send(greeting)
        if self._receive() is None:
            return
        self._send_ok()
        while (packet := self._receive()) is not None and packet[:1] != b"\x01":
            if packet[:1] == b"\x03":
                self._run(packet[1:].decode("utf-8", "replace"))
            else:
                self._send_ok()

    def _run(self, text: str) -> None:
        statements = [one for one in re.split(r";\s*(?:\n|$)", text) if one.strip()]
        for left, statement in zip(reversed(range(len(statements))), statements, strict=True):
            flags = _AUTOCOMMIT | (_MORE_RESULTS if left else 0)
            found = self.server.statements.answer(statement)
            if found is None:
                self._send(b"\xff" + struct.pack("<H", 1064) + b"#42000not known to this server")
                return
            if isinstance(found, int):
                self._send_ok(found, flags)
            else:
                self._send_rows(found, flags)

    def _send_rows(self, rows: list[tuple[object, ...]], flags: int) -> None:
        end = b"\xfe" + struct.pack("<HH", 0, flags)
        columns = len(rows[0]) if rows else 1
        self._send(bytes([columns]))
        for column in range(columns):
            whole = rows and isinstance(rows[0][column], int)
            names = b"".join(map(_text, ("def", "", "", "", f"c{column}", "")))
            self._send(names + b"\x0c" + struct.pack("<HIBHB", 33, 255, 8 if whole else 253, 0, 0) + b"\0\0")
        self._send(end)
        for row in rows:
            self._send(b"".join(_text(str(value)) for value in row))
        self._send(end)

    def _send_ok(self, changed: int = 0, flags: int = _AUTOCOMMIT) -> None:
        self._send(b"\0" + _length(changed) + b"\0" + struct.pack("<HH", flags, 0))

    def _send(self, packet: bytes) -> None:
        self.request.sendall(struct.pack("<I", len(packet))[:3] + bytes([self._number % 256]) + packet)
        self._number += 1

    def _receive(self) -> bytes | None:
        head = self._read(4)
        if head is None:
            return None
        self._number = head[3] + 1
        return self._read(int.from_bytes(head[:3], "little"))

    def _read(self, size: int) -> bytes | None:
        found = b""
        while len(found) < size:
            try:
                part = self.request.recv(size - len(found))
            except OSError:
                return None
            if not part:
                return None
            found += part
        return found


def _length(number: int) -> bytes:
    return bytes([number]) if number < 251 else b"\xfc" + struct.pack("<H", number)


def _text(value: str) -> bytes:
    return _length(len(value.encode())) + value.encode()


class Service(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, path: str, statements: Statements) -> None:
        super().__init__(path, Connection)
        self.statements = statements


def initialise(folder: Path) -> None:
    (folder / "mysql").mkdir()
    for name in ("ibdata1", "ib_logfile0", "ib_logfile1"):
        (folder / name).write_bytes(bytes(_FILE_BYTES))
    (folder / "rows.journal").touch()
    (folder / "clean").touch()


def serve(folder: Path, settings: dict[str, str]) -> None:
    log("[Note] InnoDB: Initializing buffer pool, total size = 128M")
    log("[Note] InnoDB: Completed initialization of buffer pool")
    crashed = not (folder / "clean").exists()
    if crashed:
        log("[Note] InnoDB: Log scan progressed past the checkpoint lsn 2525534")
        log("[Note] InnoDB: Database was not shutdown normally!")
        log("[Note] InnoDB: Starting crash recovery.")
        log("[Note] InnoDB: Starting an apply batch of log records to the database...")
        log("[Note] InnoDB: Apply batch completed")
        if "fake_loses_rows" in settings:
            journal = folder / "rows.journal"
            journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:-2]))
    (folder / "clean").unlink(missing_ok=True)
    for path in folder.glob("*/*.ibd"):
        with path.open("rb") as file:
            file.read(_FILE_BYTES)
    log("[Note] InnoDB: Creating shared tablespace for temporary tables")
    log(f"[Note] InnoDB: {VERSION} started; log sequence number 2525553")
    service = Service(settings["socket"], Statements(Data(folder), settings))
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    threading.Thread(target=service.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    log(f"[Note] {sys.argv[0]}: ready for connections.")
    os.write(2, f"Version: '{VERSION}'  socket: '{settings['socket']}'  port: 0  A fake\n".encode())
    while not ended.wait(0.5):
        pass
    (folder / "clean").touch()
    log(f"[Note] {sys.argv[0]}: Shutdown complete")
    os._exit(0)


def main() -> None:
    settings = read_settings(sys.argv[1].removeprefix("--defaults-file="))
    folder = Path(settings["datadir"])
    if "initialize_insecure" in settings:
        initialise(folder)
    else:
        serve(folder, settings)


if __name__ == "__main__":
    main()
