"""Which server is this, and what can it do? Capabilities are asked for by name; the table says since and until when."""

from __future__ import annotations

import re
from dataclasses import dataclass

from recovery.errors import UsageError
from recovery.model import Flavor, Version

_RELEASE = re.compile(
    r"^(?:(?P<flavor>mysql|mariadb|percona)[-:])?(?P<a>\d{1,3})\.(?P<b>\d{1,3})\.(?P<c>\d{1,4})"
    r"(?P<rest>[-+~_A-Za-z][-+~_.:A-Za-z0-9]*)?$",
    re.ASCII,
)


def parse_version(text: str) -> Version:
    """`5.7.22`, `mariadb-10.11.5`, `8.0.39-30` (Percona), `10.11.19-MariaDB-0+deb12u1`, `5.6.27-log`."""
    match = _RELEASE.match(text.strip())
    if match is None:
        raise UsageError(
            f"'{text}' is no server version", "write it like 5.7.22 or mariadb-10.11.5; `recovery versions` lists them"
        )
    rest = match["rest"] or ""
    if match["flavor"]:
        flavor = Flavor(match["flavor"])
    elif "mariadb" in rest.lower():
        flavor = Flavor.MARIADB
    elif re.match(r"-\d+(\.\d+)?(-log|-debug)?$", rest):
        flavor = Flavor.PERCONA
    else:
        flavor = Flavor.MYSQL
    return Version(flavor, (int(match["a"]), int(match["b"]), int(match["c"])), text.strip())


@dataclass(frozen=True)
class _Span:
    """From `since` (in) to `until` (out); None is open. MySQL's numbers hold for Percona too."""

    mysql: tuple[tuple[int, ...] | None, tuple[int, ...] | None] | None
    mariadb: tuple[tuple[int, ...] | None, tuple[int, ...] | None] | None


_ALWAYS = (None, None)

CAPABILITIES: dict[str, _Span] = {
    # how a data directory is made: by itself, or fed the statements of MariaDB's or of MySQL's install script
    "initialize": _Span(((5, 7, 6), None), None),
    "install_db": _Span(None, _ALWAYS),
    "bootstrap_sql": _Span((None, (5, 7, 6)), None),
    # options that exist
    "mysqlx": _Span(((8, 0, 11), None), None),
    "binlog_on_by_default": _Span(((8, 0, 1), None), None),
    "log_error_verbosity": _Span(((5, 7, 2), None), None),
    "secure_file_priv_null": _Span(((5, 6, 34), None), None),
    "partition_engine_check": _Span(((5, 7, 17), (8, 0, 0)), None),
    "sync_frm": _Span((None, (8, 0, 0)), (None, (10, 7, 0))),
    "frm_files": _Span((None, (8, 0, 0)), _ALWAYS),
    "stats_persistent": _Span(((5, 6, 2), None), ((10, 0, 0), None)),
    "buffer_pool_dump": _Span(((5, 6, 3), None), ((10, 0, 0), None)),
    "redo_log_capacity": _Span(((8, 0, 30), None), None),
    "redo_resizes_itself": _Span(((5, 6, 8), None), ((10, 0, 0), None)),
    "one_redo_file": _Span(None, ((10, 5, 0), None)),
    "file_format": _Span((None, (8, 0, 0)), (None, (10, 3, 0))),
    "lru_scan_depth": _Span(((5, 6, 3), None), ((10, 0, 0), None)),
    "io_capacity_max": _Span(((5, 6, 6), None), ((10, 0, 0), None)),
    "log_timestamps": _Span(((5, 7, 2), None), None),
    "flush_method_nosync": _Span((None, (8, 0, 0)), _ALWAYS),
    # MariaDB alone has one that switches TLS off as it starts; since 11.4 it makes a key at every start without one
    "ssl_off": _Span(None, _ALWAYS),
    # what can be done while building
    "disable_redo": _Span(((8, 0, 21), None), None),
    "ddl_scales_with_connections": _Span(((8, 0, 0), None), ((10, 6, 0), None)),
    # how tables may lie in files
    "general_tablespaces": _Span(((5, 7, 6), None), None),
    "keyring_file": _Span(((5, 7, 11), (8, 4, 0)), None),
    "file_key_management": _Span(None, ((10, 1, 3), None)),
    "par_files": _Span((None, (5, 7, 6)), _ALWAYS),
    # files of compressed tables take less of the disk than their length
    "sparse_files": _Span(((5, 7, 0), None), None),
    # what can be switched under load
    "redo_spinning": _Span(((8, 0, 11), None), None),
    "lock_schedule": _Span(None, ((10, 2, 3), (10, 6, 0))),
    # from where on the table cache is divided, each part for some of the connections, unless it is told otherwise
    "divided_table_cache": _Span(((5, 7, 8), None), None),
    # SHOW STATUS is answered from tables
    "status_tables": _Span(((5, 7, 6), None), None),
    # how definitions are changed, and where they are listed
    "atomic_definitions": _Span(((8, 0, 11), None), ((10, 6, 1), None)),
    "drops_all_or_none": _Span(((8, 0, 11), None), None),
    "innodb_views_renamed": _Span(((8, 0, 3), None), None),
    # the redo log names the files that were modified: no other need be opened before it is applied (WL#7142)
    "redo_names_files": _Span(((5, 7, 5), None), ((10, 2, 2), None)),
    # how the log is written
    "microsecond_stamps": _Span(((5, 7, 2), None), None),
}
# Withdrawn releases: they die on a restart with more than 8,000 tables.
DIES_OVER_8000_TABLES = frozenset({(8, 0, 38), (8, 4, 1), (9, 0, 0)})


def can(version: Version, capability: str) -> bool:
    """Does this server have the capability? An unknown name is a mistake of ours, and raises KeyError."""
    span = CAPABILITIES[capability]
    range_ = span.mariadb if version.flavor is Flavor.MARIADB else span.mysql
    if range_ is None:
        return False
    since, until = range_
    return (since is None or version.numbers >= since) and (until is None or version.numbers < until)


def who_can(capability: str) -> str:
    """In words: `MySQL 8.0.11 or later`."""
    span = CAPABILITIES[capability]
    both = (("MySQL", span.mysql), ("MariaDB", span.mariadb))
    return " or ".join(f"{name}{_words(*range_)}" for name, range_ in both if range_ is not None)


def _words(since: tuple[int, ...] | None, until: tuple[int, ...] | None) -> str:
    first, last = (".".join(map(str, numbers or ())) for numbers in (since, until))
    if not last:
        return f" {first} or later" if first else ""
    return f" {first} or later, before {last}" if first else f" before {last}"


def dies_with(version: Version, tables: int) -> bool:
    return tables > 8000 and version.flavor is not Flavor.MARIADB and version.numbers in DIES_OVER_8000_TABLES
