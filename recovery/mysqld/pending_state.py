"""Reads from a running server what it would have to recover if it were killed now.

All statements only read. A user without rights gets an answer with less in it. What changes fastest is read last."""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pymysql

from recovery.analysis.crash_estimate import ServerState
from recovery.errors import RecoveryError, UsageError
from recovery.model import Flavor, Version, can, parse_version
from recovery.mysqld.client import NO_RIGHT, malformed, named_values, scalar, shortened, variables, whole_number

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor

Row = tuple[object, ...]
_SYNTAX = 1064
_HAS_SLAVE_MONITOR = (10, 5)
"""MariaDB from here on has this right in place of REPLICATION CLIENT."""
_LSN, _CHECKPOINT = re.compile(r"Log sequence number\s+(\d+)"), re.compile(r"Last checkpoint at\s+(\d+)")
_LARGE_POOL_BYTES = 4 << 30
"""To count pages by their kind the server lists its whole buffer pool, which is not asked of a larger one."""
_MARIADB_TEMPORARY, _MARIADB_UNDO = "space = 4294967294", "page_type = 'UNDO_LOG'"
_MYSQL_TEMPORARY = "(space = 4294967293 or space between 4243367291 and 4243767290)"
"""The temporary tablespace, and those of sessions."""
_OLD_TEMPORARY = "space in (select file_id from information_schema.files where tablespace_name = 'innodb_temporary')"
_MAKES_UNDO = (10, 11)
"""The oldest series of MariaDB known to count no pages of temporary tables, and to make those of undo logs anew."""
_AFTER_XA_PREPARE = "trx_query is null and trx_id in ({prepared})"
_COMMITTING = "trx_query is not null and (trx_id in ({prepared}) or lower(trx_query) like 'commit%')"
"""With autocommit the query is any. Of a transaction without a query nobody has asked for a COMMIT."""
_TRANSACTIONS = f"""
    select count(*), coalesce(sum(trx_rows_modified), 0),
        coalesce(sum({_COMMITTING}), 0), coalesce(sum(if({_COMMITTING}, trx_rows_modified, 0)), 0),
        coalesce(sum({_AFTER_XA_PREPARE}), 0), coalesce(sum(if({_AFTER_XA_PREPARE}, trx_rows_modified, 0)), 0)
    from information_schema.innodb_trx where trx_rows_modified > 0
"""  # noqa: S608 - of ours
_PAGES_WITH_REDO = """
    select coalesce(sum(dirty), 0), coalesce(sum(unread), 0), coalesce(sum(bit_count(bits)), 0),
        coalesce(sum(bit_count(bits & ~(bits << 1))), 0)
    from (
        select sum(dirty) as dirty, sum(dirty and unread) as unread,
            bit_or(if(unread, 0, 1 << (page_number mod {together}))) as bits
        from (
            select space, page_number, ({unread}) as unread, oldest_modification > 2 as dirty
            from information_schema.innodb_buffer_page
            where oldest_modification > 2 or newest_modification > {checkpoint}
        ) as pages
        group by space, page_number div {together}
    ) as areas
"""
"""Pages, and how often one of them has no page before it. They are dirty, or were written since the checkpoint: a start
reads both. What MariaDB does not count has the number 2 as its oldest modification, and not one of the redo log."""
_LEAST_READ = 0.1
"""Of the pages with redo MariaDB reads at least so many, as far as is known."""
UNREAD_PAGES = "select count(*) from information_schema.innodb_buffer_page where oldest_modification > 2 and {unread}"
_AREA_PAGES = 32
"""As many neighbouring pages a server asks for at once in a recovery."""
_USUAL_READ_AHEAD_BYTES = 128 << 10
_PREPARED = re.compile(r"^---TRANSACTION (\d+), ACTIVE \(PREPARED\)", re.MULTILINE)
_PEER = struct.Struct("3i")
_MOST_CHARS = 10_000
"""Of a variable."""
_NO_LSN = (1 << 63) - 1
_MOST_REDO_BYTES = 1 << 40
"""No server has a redo log of more."""
_LEAST_PAGE_BYTES, _MOST_PAGE_BYTES = 1024, 64 << 10
_READ_APART_BYTES = 1 << 20
"""Of redo that may be written and saved between the server's looks at both numbers."""


def count_columns(columns: int) -> str:
    return f"{columns} column{'' if columns == 1 else 's'}"


def unread_dirty_pages(version: Version) -> tuple[str, str]:
    """Returns what kind of dirty pages a server counts, and no start reads, and the condition that finds them."""
    if version.flavor is Flavor.MARIADB and version.numbers >= _MAKES_UNDO:
        return "undo logs", _MARIADB_UNDO
    if version.flavor is Flavor.MARIADB:
        return "temporary tables", _MARIADB_TEMPORARY
    return "temporary tables", _MYSQL_TEMPORARY if can(version, "data_dictionary") else _OLD_TEMPORARY


def _lsns(status: str) -> tuple[int, int] | None:
    """Returns the log sequence number, and that of the last checkpoint; None if they are not there."""
    lsn, checkpoint = (pattern.search(status) for pattern in (_LSN, _CHECKPOINT))
    if lsn is None or checkpoint is None:
        return None
    written, saved = (whole_number(found[1], "bytes of redo") for found in (lsn, checkpoint))
    if saved > written + _READ_APART_BYTES:
        raise malformed(f"its last checkpoint, {saved}, is after the end of its redo log, {written}")
    return written, saved


def redo_since_checkpoint(status: str) -> int | None:
    """Returns the bytes of redo since the last checkpoint according to SHOW ENGINE INNODB STATUS."""
    lsns = _lsns(status)
    if lsns is None:
        return None
    written, saved = lsns
    return whole_number(max(0, written - saved), "bytes of redo", most=_MOST_REDO_BYTES)


@dataclass(frozen=True)
class _Counted:
    """What is pending."""

    dirty_pages: int
    redo_bytes: int | None
    """Since the last checkpoint; None if its user may not see them."""
    new_pages: int
    """Made since the last checkpoint: a start of MariaDB writes them anew by the redo, and does not read them."""


class StateReader:
    """Reads what is pending in a server, again and again. Errors of PyMySQL are passed on, except missing rights."""

    def __init__(self, connection: Connection[Cursor]) -> None:
        """Raises UsageError if the server is neither MySQL nor MariaDB."""
        self._connection = connection
        names = (
            "version", "datadir", "innodb_buffer_pool_size", "innodb_page_size", "innodb_flush_method",
            "innodb_data_file_buffering", "log_bin", "read_only", "super_read_only", "innodb_read_only",
            "have_ssl", "ssl_cert", "version_ssl_library",
            "wsrep_on", "wsrep_cluster_address", "group_replication_group_name",
        )  # fmt: skip
        found = variables(connection, names)
        self._variables = {name.lower(): value for name, value in found.items()}
        if long := [name for name, value in self._variables.items() if len(value) > _MOST_CHARS]:
            raise malformed(f"its variable {shortened(long[0])} has {len(self._variables[long[0]]):,} characters")
        pool = self._variables.get("innodb_buffer_pool_size")
        self._pool_bytes = None if pool is None else whole_number(pool, "bytes in its buffer pool")
        text = shortened(self._variables.get("version", ""))
        try:
            self.version = parse_version(text)
        except ValueError:
            raise UsageError(
                f"its version '{text}' is not one of MySQL or MariaDB", "name the socket of such a server"
            ) from None
        self._missing: list[str] = []

    def begin(self) -> None:
        """Reads what stays as it is. Raises UsageError if the server would not survive a kill, and RecoveryError if it
        does not show its dirty pages."""
        self._files = self._tablespaces()
        self._stays = tuple(self._what_stays())
        self._count(self._engine_status())

    @property
    def server_pid(self) -> int | None:
        """The process that listens on the socket; None if it is not seen from here."""
        with suppress(AttributeError, OSError):
            peer = self._connection._sock  # type: ignore[attr-defined]
            if peer.family == socket.AF_UNIX:
                sent = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
                return _PEER.unpack(sent)[0] or None
        return None

    def read(self, reads_per_s: float, *, read_ahead_bytes: int | None = None) -> ServerState:
        """Returns the state now. Files were counted once: that takes a second with 200,000 of them. Raises what `begin`
        does."""
        self._missing = [] if self._files is not None else ["files"]
        engine_status = self._engine_status()
        counted = self._count(engine_status)
        transactions, rows, prepared, notes = self._transactions(engine_status)
        unread, read_share = self._pages_with_redo(
            read_ahead_bytes or _USUAL_READ_AHEAD_BYTES, engine_status, counted, has_open_rows=bool(rows)
        )
        dirty = max(0, counted.dirty_pages - (unread or 0))
        left_out = ", ".join(self._missing)
        missing = [f"this user lacks the privilege PROCESS, so that these are left out: {left_out}"] if left_out else []
        if unread is None:
            kind, _ = unread_dirty_pages(self.version)
            missing.append(f"dirty pages of {kind} are counted, too, although no start reads them")
        return ServerState(
            self.version,
            dirty,
            reads_per_s,
            read_share=read_share,
            files=self._files,
            redo_bytes=counted.redo_bytes,
            transactions=transactions,
            uncommitted_rows=rows,
            prepared_rows=prepared,
            pool_bytes=self._pool_bytes,
            tls_library=self._tls_library(),
            datadir=self._variables.get("datadir", ""),
            notes=(*missing, *notes, *self._stays),
        )

    def _ask(self, statement: str, columns: int, what: str = "") -> Row | None:
        """Returns the only row; None if the user lacks PROCESS, and so misses `what`."""
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(statement)
                row = cursor.fetchone()
        except pymysql.err.Error as error:
            if not error.args or error.args[0] not in NO_RIGHT:
                raise
            if what:
                self._missing.append(what)
            return None
        if row is None or len(row) != columns:
            found = "no row" if row is None else f"a row of {count_columns(len(row))}"
            raise malformed(f"it answers with {found}, in place of {count_columns(columns)}")
        return row

    def _tablespaces(self) -> int | None:
        """Returns the number of tablespaces that a start opens. MariaDB counts those that it has opened since its
        start."""
        # Those with more columns look at every file: 50 s for 20,000 with 800 reads a second.
        table = "innodb_tablespaces_brief" if can(self.version, "data_dictionary") else "innodb_sys_tablespaces"
        row = self._ask(
            f"select count(*) from information_schema.{table} "  # noqa: S608 - of ours
            "where name not in ('innodb_system', 'innodb_temporary')",
            1,
        )
        if row is None:
            return None
        # Modified files are few, and their pages are counted.
        return 0 if can(self.version, "starts_with_modified_files") else whole_number(row[0], "files")

    def _tls_library(self) -> str:
        """Returns with which library a start makes a TLS key; empty if it makes none."""
        has = self._variables
        if not can(self.version, "makes_tls_key") or has.get("have_ssl") != "YES" or has.get("ssl_cert"):
            return ""
        return "wolfssl" if "wolfssl" in has.get("version_ssl_library", "").lower() else "openssl"

    def _transactions(self, engine_status: str) -> tuple[int | None, int | None, int | None, tuple[str, ...]]:
        """Returns open transactions, their rows, rows of those whose COMMIT is under way, and what is to be said."""
        ids = ", ".join(("0", *_PREPARED.findall(engine_status)))
        row = self._ask(_TRANSACTIONS.format(prepared=ids), 6, what="transactions")
        if row is None:
            return None, None, None, ()
        transactions, rows, committing, prepared, waiting, waiting_rows = (
            whole_number(value, "transactions and their rows") for value in row
        )
        if committing + waiting > transactions:
            raise malformed(f"{committing + waiting} of its {transactions} transactions are prepared")
        if prepared + waiting_rows > rows:
            raise malformed(f"{prepared + waiting_rows} of its {rows} uncommitted rows are of prepared transactions")
        # With a binary log, COMMIT prepares a transaction first; then the log decides about it at the start.
        if self._variables.get("log_bin") != "ON":
            committing = prepared = 0
        several = "transactions" if waiting > 1 else "transaction"
        note = (
            f"{waiting:,} {several} after XA PREPARE: their rows, {waiting_rows:,}, stay locked until XA COMMIT or "
            "XA ROLLBACK"
        )
        return (
            transactions - committing - waiting,
            rows - prepared - waiting_rows,
            prepared,
            (note,) if waiting else (),
        )

    def _pages_with_redo(
        self, read_ahead_bytes: int, engine_status: str, counted: _Counted, *, has_open_rows: bool
    ) -> tuple[int | None, float | None]:
        """Returns how many of the dirty pages no start reads, and how many reads each of the others takes; None for
        what is not known."""
        has = self._variables
        is_direct = has.get("innodb_flush_method", "").upper().startswith("O_DIRECT")
        is_direct = is_direct or has.get("innodb_data_file_buffering") == "OFF"
        page_bytes = whole_number(has.get("innodb_page_size", 16384), "bytes in a page")
        if not _LEAST_PAGE_BYTES <= page_bytes <= _MOST_PAGE_BYTES:
            raise malformed(f"its pages have {page_bytes} bytes")
        together = 1 if is_direct else max(1, min(_AREA_PAGES, read_ahead_bytes // page_bytes))
        _, condition = unread_dirty_pages(self.version)
        unknown = None, self._read(counted.dirty_pages, counted) / max(1, counted.dirty_pages) if is_direct else None
        if (self._pool_bytes or 0) > _LARGE_POOL_BYTES:
            return unknown
        lsns = _lsns(engine_status)
        checkpoint = lsns[1] if lsns else _NO_LSN
        row = self._ask(_PAGES_WITH_REDO.format(unread=condition, together=together, checkpoint=checkpoint), 4)
        if row is None:
            return unknown
        dirty, unread, pages, runs = (whole_number(value, "pages") for value in row)
        if unread > dirty or runs > pages:
            raise malformed(
                f"{unread} of its {dirty} listed dirty pages are not read, and {pages} with redo in {runs} reads"
            )
        reads = min(float(runs), self._read(pages + unread, counted, unread))
        if has_open_rows and self.version.flavor is Flavor.MARIADB:
            reads += unread  # undo logs, which the rollback reads while the server starts
        return unread, reads / (dirty - unread) if dirty > unread else 1.0

    def _read(self, pages: int, counted: _Counted, unread: int = 0) -> float:
        """Returns how many of these pages a start reads, among which so many are not read because of their kind."""
        if self.version.flavor is not Flavor.MARIADB:
            return pages - unread
        return max(pages - max(unread, counted.new_pages), _LEAST_READ * (pages - unread))

    def _engine_status(self) -> str:
        row = self._ask("show engine innodb status", 3, what="redo")
        return "" if row is None else str(row[2])

    def _count(self, engine_status: str) -> _Counted:
        with self._connection.cursor() as cursor:
            cursor.execute(
                "show global status where variable_name in "
                "('Innodb_buffer_pool_pages_dirty', 'Innodb_redo_log_enabled', 'Innodb_pages_created', "
                "'Innodb_os_log_written')"
            )
            status = {name.lower(): value for name, value in named_values(cursor.fetchall()).items()}
        if status.get("innodb_redo_log_enabled", "ON").upper() == "OFF":
            raise UsageError(
                "its redo log is off: after a kill it would not start again",
                "turn it on: ALTER INSTANCE ENABLE INNODB REDO_LOG",
            )
        if "innodb_buffer_pool_pages_dirty" not in status:
            raise RecoveryError(
                "the server does not say how many dirty pages it has",
                "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty' must have a row: run mysql_upgrade if not",
            )
        most = None if self._pool_bytes is None else self._pool_bytes // _LEAST_PAGE_BYTES
        counted = status["innodb_buffer_pool_pages_dirty"]
        dirty = (
            whole_number(counted, "dirty pages") if most is None else whole_number(counted, "dirty pages", most=most)
        )
        redo_bytes = redo_since_checkpoint(engine_status)
        created = whole_number(status.get("innodb_pages_created", 0), "pages made")
        written = whole_number(status.get("innodb_os_log_written", 0), "bytes of redo")
        # As many for each byte of redo as since the server has started.
        new_pages = min(created, round(created * (redo_bytes or 0) / max(1, written)))
        return _Counted(dirty, redo_bytes, new_pages)

    def _what_stays(self) -> Iterator[str]:
        """Yields what is true of this server as long as it runs, and is not in the estimate."""
        has = self._variables
        if has.get("wsrep_on") == "ON" and has.get("wsrep_cluster_address"):
            yield "it is a node of a Galera cluster: the state transfer after the start is not included"
        if has.get("log_bin") == "ON":
            yield "it writes a binary log: a start also reads the newest file of it, which is not included"
        if has.get("group_replication_group_name"):
            yield "it is a member of a replication group: its distributed recovery after the start is not included"
        if "ON" in (has.get("read_only"), has.get("super_read_only"), has.get("innodb_read_only")):
            yield "it is read-only: the estimate holds for what is pending now, which grows when it takes writes"
        is_replica = self._is_replica()
        if is_replica:
            yield "it is a replica: what it has to fetch and apply after the start is not included"
        elif is_replica is None:
            renamed = self.version.flavor is Flavor.MARIADB and self.version.numbers >= _HAS_SLAVE_MONITOR
            right = "SLAVE MONITOR" if renamed else "REPLICATION CLIENT"
            yield f"whether it is a replica is not seen, since this user lacks the privilege {right}"

    def _is_replica(self) -> bool | None:
        """Returns whether it has a source; None if the user may not see that."""
        of_mysql = ("show replica status", "show slave status")
        # A source of MariaDB can have a name, and then is not among those.
        for statement in ("show all slaves status",) if self.version.flavor is Flavor.MARIADB else of_mysql:
            try:
                return scalar(self._connection, statement) is not None
            except pymysql.err.Error as error:
                number = error.args[0] if error.args else None
                if number in NO_RIGHT:
                    return None
                if number != _SYNTAX:
                    raise
        return None
