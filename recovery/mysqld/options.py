"""Which options is a server started with? No version comparison stands here, only names of what a version can."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import jinja2

from recovery.errors import UsageError
from recovery.model import Flavor, Version, can

# Where do the keys of encrypted tables come from? From a folder beside the server's own, made for it alone.

KEY_FILE = "keyfile"
"""For MariaDB, which reads it; MySQL writes a keyring of its own into the folder."""

Settings = dict[str, str]
FLAG = ""
"""The value of an option that takes none."""

RESERVED: frozenset[str] = frozenset(
    {"basedir", "bind_address", "bootstrap", "daemonize", "datadir", "defaults_file", "initialize"}
    | {"initialize_insecure", "innodb_data_file_path", "innodb_data_home_dir", "innodb_file_per_table"}
    | {"innodb_log_group_home_dir", "innodb_undo_directory", "lc_messages", "lc_messages_dir", "log_error"}
    | {"log_timestamps", "mysqlx", "open_files_limit", "pid_file", "port", "skip_networking", "socket", "tmpdir"}
    | {"user", "admin_address", "admin_port", "create_admin_listener_thread", "extra_port", "mysqlx_bind_address"}
    | {"mysqlx_port", "mysqlx_socket", "wsrep_on", "wsrep_provider", "chroot", "feedback", "help"}
    | {"innodb", "keyring_migration_destination", "language", "log_error_services", "silent_startup"}
    | {"validate_config", "verbose", "wsrep_recover"}
)
"""What the tool must decide itself, or it could not find, watch or kill its own server, nor prove its files; what would
have the server use the network; and what makes a server print something and exit."""

TIMED_ONLY = frozenset({"innodb_force_recovery"})
"""A server that runs under them takes no inserts, and no clean start is wanted with them."""

SHAPING: frozenset[str] = frozenset(
    {"innodb_page_size", "lower_case_table_names", "innodb_checksum_algorithm", "innodb_undo_tablespaces"}
    | {"innodb_file_format", "innodb_default_row_format", "character_set_server", "collation_server"}
)


_LOOSE = "loose_"
_SWITCHES = ("skip_", "disable_", "enable_")
"""Servers accept these before the name of an option."""
_PREFIXES = (_LOOSE, *_SWITCHES, "maximum_", "autoset_")
"""Servers accept any number of these."""
_MOST_VALUE = 4096
_ONCE_CALLED = {"table_cache": "table_open_cache"}
"""MariaDB 10.11 still knows it by that name."""
REDO = "innodb_redo_log_capacity"
REDO_FILES = frozenset({"innodb_log_file_size", "innodb_log_files_in_group"})
_MONITOR = "innodb_monitor_enable"
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}

FROM_THE_FIRST = frozenset({"plugin_dir"})
"""Without its plugins it cannot make encrypted tables."""


def base_settings(version: Version, *, rundir: Path) -> Settings:
    """What every start needs, whatever it is for. The launcher adds what it alone knows: basedir, datadir, user."""
    settings = {
        "socket": str(rundir / "mysqld.sock"),
        "pid_file": str(rundir / "mysqld.pid"),
        "tmpdir": str(rundir),
        "skip_networking": FLAG,
        # The ready line is translated in 5.7, before it and in MariaDB.
        "lc_messages": "en_US",
        "innodb_file_per_table": "ON",
    }
    optional = {
        "mysqlx": ("mysqlx", "OFF"),
        "binlog_on_by_default": ("skip_log_bin", FLAG),
        "log_error_verbosity": ("log_error_verbosity", "3"),
        "log_timestamps": ("log_timestamps", "UTC"),
        "secure_file_priv_null": ("secure_file_priv", "NULL"),
        "partition_engine_check": ("disable_partition_engine_check", FLAG),
        # MariaDB 11.4 makes a TLS key at every start, which takes seconds of CPU time, each time other ones.
        "ssl_off": ("ssl", "OFF"),
    }
    return settings | _where_known(version, optional)


def test_settings(version: Version) -> Settings:
    """The experiment's own: nothing that makes one start differ from the next by what happened before it."""
    settings = {"performance_schema": "OFF"}
    if can(version, "buffer_pool_dump"):
        settings |= {"innodb_buffer_pool_dump_at_shutdown": "OFF", "innodb_buffer_pool_load_at_startup": "OFF"}
    return settings


def build_settings(version: Version, *, statistics: bool = False) -> Settings:
    """Gives up durability for speed, while tables are made. A clean shutdown and a start with other settings follow."""
    settings = test_settings(version) | {
        "innodb_flush_log_at_trx_commit": "0",
        "innodb_doublewrite": "OFF",
        "innodb_buffer_pool_size": str(256 << 20),
        "innodb_io_capacity": "20000",
        "innodb_adaptive_hash_index": "OFF",
        # Small on purpose: with the default the server's memory would grow with every table made.
        "table_open_cache": "400",
        "table_definition_cache": "400",
        "max_allowed_packet": str(64 << 20),
    }
    optional = {
        "sync_frm": ("sync_frm", "OFF"),
        "flush_method_nosync": ("innodb_flush_method", "nosync"),
        # With a small pool and a deep scan the cleaners take the second core from the connections.
        "lru_scan_depth": ("innodb_lru_scan_depth", "128"),
        "io_capacity_max": ("innodb_io_capacity_max", "40000"),
    }
    if not statistics:
        optional["stats_persistent"] = ("innodb_stats_persistent", "OFF")
    return settings | _where_known(version, optional) | _build_redo(version)


def key_settings(version: Version, keys: Path) -> Settings:
    """What makes a server take the keys of encrypted tables from this folder."""
    if can(version, "file_key_management"):
        return {"plugin_load_add": "file_key_management", "file_key_management_filename": str(keys / KEY_FILE)}
    return {"early_plugin_load": "keyring_file.so", "keyring_file_data": str(keys / "keyring")}


def compressed_settings(version: Version) -> Settings:
    """Without them 5.6 warns, and makes tables that are not compressed."""
    settings = {"innodb_strict_mode": "ON", "loose_innodb_read_only_compressed": "OFF"}
    return settings | _where_known(version, {"file_format": ("innodb_file_format", "Barracuda")})


def counting_settings(settings: Mapping[str, str]) -> Settings:
    """What makes a server count all that its threads wait for, beside these settings: as much of it as it knows. What
    threads do by themselves is asked of none, and without it no statement is followed, which would cost more than the
    waits do."""
    monitored = next((settings[name] for name in (_LOOSE + _MONITOR, _MONITOR) if settings.get(name)), None)
    return {
        "performance_schema": "ON",
        f"{_LOOSE}performance_schema_instrument": "wait/synch/%=ON",
        f"{_LOOSE}performance_schema_consumer_thread_instrumentation": "OFF",
        _LOOSE + _MONITOR: f"{monitored},latch" if monitored else "latch",
    }


def as_known(version: Version, settings: Mapping[str, str]) -> Settings:
    """The capacity of the redo log that is wanted, as this server is told of it: as one, or by the size of its files.
    Whoever sets these himself has the last word: without a capacity 8.0.31 makes its log as large as they say, with
    one it does not look at them."""
    name = REDO if REDO in settings else _LOOSE + REDO
    knows, rest = can(version, "redo_log_capacity"), {one: settings[one] for one in settings if one != name}
    if REDO_FILES & set(map(bare, rest)):
        return dict(settings) if knows and name == REDO else rest
    capacity = _bytes(settings.get(name, ""))
    if capacity is None or knows:
        return dict(settings)
    files = 1 if can(version, "one_redo_file") else 2
    return rest | {"innodb_log_file_size": str(capacity // files)}


def _bytes(size: str) -> int | None:
    """`1073741824`, or `1G`."""
    number, unit = (size[:-1], size[-1].lower()) if size[-1:].lower() in _UNITS else (size, "")
    return int(number) * _UNITS.get(unit, 1) if number.isdecimal() else None


def _build_redo(version: Version) -> Settings:
    """Larger than the default, so that a checkpoint seldom hurries; a gigabyte takes longer to write than it saves."""
    if can(version, "redo_log_capacity"):
        return {"innodb_redo_log_capacity": str(256 << 20)}
    if can(version, "redo_resizes_itself"):
        # A later start with another size makes new files by itself, after a clean shutdown.
        return {"innodb_log_file_size": str(128 << 20)}
    return {}


def _where_known(version: Version, optional: Mapping[str, tuple[str, str]]) -> Settings:
    return {name: value for capability, (name, value) in optional.items() if can(version, capability)}


def merge(*layers: Mapping[str, str]) -> Settings:
    """Later layers win, however an option is spelled in them: `skip_ssl` takes the place of `ssl`. Names are spelled
    with underscores in the result."""
    merged: Settings = {}
    for layer in layers:
        for name, value in layer.items():
            meant = bare(name)
            for spelled in [spelled for spelled in merged if bare(spelled) == meant]:
                del merged[spelled]
            merged[canonical(name)] = value
    return merged


def canonical(name: str) -> str:
    """`--Innodb-Log-File-Size` and `innodb_log_file_size` are one option."""
    return name.strip().lstrip("-").replace("-", "_").lower()


def bare(name: str) -> str:
    """The option that is meant, however it is spelled: `loose_skip_innodb_doublewrite` is `innodb_doublewrite`."""
    found = canonical(name)
    while found.startswith(_PREFIXES):
        found = found.partition("_")[2]
    return _ONCE_CALLED.get(found, found)


def shaping(settings: Mapping[str, str]) -> dict[str, str]:
    """Those of the user's settings that shape the files themselves: they are needed from the first initialisation on,
    and a directory made with others is another directory."""
    return {name: value for name, value in settings.items() if name.removeprefix("loose_") in SHAPING}


def from_the_first(settings: Mapping[str, str]) -> Settings:
    """Those of the user's that a server needs from its first start on, though they shape no files."""
    return {name: value for name, value in settings.items() if name in FROM_THE_FIRST}


def timed_only(settings: Mapping[str, str]) -> Settings:
    return {name: value for name, value in settings.items() if name.removeprefix("loose_") in TIMED_ONLY}


def lasting(settings: Mapping[str, str]) -> Settings:
    """Of every start."""
    return {name: value for name, value in settings.items() if name.removeprefix("loose_") not in TIMED_ONLY}


def check_user_settings(settings: Mapping[str, str]) -> Settings:
    """A user's own options, or UsageError for those that the tool decides, however they are spelled. Whether a server
    has them, `hint_if_unknown` finds out."""
    wanted = merge(settings)
    for name, value in wanted.items():
        # A dot is refused: servers ignore what stands before it, so that `x.port` is `port`.
        if not re.fullmatch(r"[a-z0-9][a-z0-9_]*", name):
            raise UsageError(
                f"'{name}' is no name of a server option", "write NAME=VALUE, like innodb_io_capacity=2000"
            )
        _refuse_guarded(name)
        switch, rest = _split(name)
        if f"{switch}{rest}".startswith(("maximum_", "autoset_")) or rest.startswith(_PREFIXES):
            raise UsageError(
                f"the option '{name}' has too many prefixes",
                f"write its full name, with at most one of {', '.join(_SWITCHES)} before it, and loose_ before that",
            )
        if len(value) > _MOST_VALUE:
            raise UsageError(f"the value of '{name}' has {len(value):,} characters", f"give {_MOST_VALUE:,} at most")
        quoted_value(name, value)
    return wanted


def _refuse_guarded(name: str) -> None:
    """UsageError for a reserved option, and for every other spelling of one or of `innodb_force_recovery`."""
    if not (meant := bare(name)):
        raise UsageError(f"'{name}' is no name of a server option", "write NAME=VALUE, like innodb_io_capacity=2000")
    full = next((full for full in sorted(RESERVED | TIMED_ONLY) if bare(full).startswith(meant)), None)
    if full is None or (full in TIMED_ONLY and name.removeprefix(_LOOSE) == full):
        return
    if full in TIMED_ONLY:
        raise UsageError(f"'{name}' is another spelling of {full}", f"write {full}")
    why = "" if meant == bare(full) else f": servers read it as {full}"
    raise UsageError(f"the option '{name}' is reserved for the tool itself", f"leave it out{why}")


def hint_if_unknown(name: str, listed: Collection[str]) -> str | None:
    """What to write instead of a user's option that is none of those that the server lists; None if it may be used.
    Servers accept abbreviations, so an option that one of them does not list can still be an option to it."""
    switch, rest = _split(name)
    plain = switch + rest
    longer = sorted({full for full in listed if full != plain and full.startswith(plain)})
    if plain in listed or (rest in listed and not longer):
        return None
    longer += sorted(switch + full for full in listed if switch and full != rest and full.startswith(rest))
    if longer:
        return f"write the full name: {' or '.join(longer[:3])}"
    if name.startswith(_LOOSE):
        return None
    loose = f"write {_LOOSE}{plain} if it belongs to a plugin, or if not every server has it"
    candidates = sorted({*listed, *(switch + full for full in listed)})
    near = difflib.get_close_matches(plain, candidates, n=1, cutoff=0.8)
    return f"did you mean {near[0]}? Or {loose}" if near else loose


def _split(name: str) -> tuple[str, str]:
    """The switch before an option's name, and the name: `loose_skip_ssl` is `skip_` and `ssl`."""
    plain = name.removeprefix(_LOOSE)
    switch = next((switch for switch in _SWITCHES if plain.startswith(switch)), "")
    return switch, plain.removeprefix(switch)


def render_cnf(settings: Mapping[str, str], template_text: str) -> str:
    """my.cnf as the template lays it out; the order is by name, so that two starts can be compared."""
    environment = jinja2.Environment(  # noqa: S701 - an options file, not a page
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    quoted = [(name, quoted_value(name, value)) for name, value in sorted(settings.items())]
    try:
        return environment.from_string(template_text).render(settings=quoted)
    except jinja2.TemplateError as error:
        raise UsageError(f"templates/my.cnf.j2: {error}", "mend the template") from error


def quoted_value(name: str, value: str) -> str:
    """Quotes keep blanks and # in an options file; quotes and line ends themselves can't be kept."""
    if re.search(r"[\x00-\x1f\"]", value):
        raise UsageError(
            f"the value of '{name}' has a quote or a line end in it", "a server's options file can't hold it"
        )
    if re.fullmatch(r"[\w./,:=+@%-]*", value, re.ASCII):
        return value
    return '"' + value.replace("\\", "\\\\") + '"'


# How many tables may a server keep open, and for how many clients, by the files that it may open? Pure.

FILES_OF_ITS_OWN = 30
"""MariaDB keeps so many back, MySQL ten."""
FILES_A_TABLE = 2
"""As many as a table of MyISAM has."""
_LEAST = 400
"""To less no server lowers it."""
DEFAULT_CONNECTIONS = 151
_CONNECTIONS = 1000
"""That are allowed in any case."""
_BESIDE = 16
"""Connections: who looks at the server, who reads its tables, who stops what is under way."""
DIVIDED = 16
"""Instances of the table cache by default, of MySQL from 5.7 on. Each has its share of the entries, and a connection
uses one of them."""


def most_open(files: int, *, connections: int) -> int:
    """To so many, or ten more, `table_open_cache` is lowered by MySQL 5.6 to 8.0 and MariaDB 10.11; 10.2 keeps it."""
    return max(_LEAST, (files - FILES_OF_ITS_OWN - connections) // FILES_A_TABLE)


def connections_for(clients: int) -> int:
    """`max_connections` for so many at once, pollers included."""
    return max(_CONNECTIONS, clients + _BESIDE)


def most_clients(files: int) -> int:
    """At once, each with a file: servers lower `max_connections` to what is left beside the least of tables."""
    return files - FILES_OF_ITS_OWN - FILES_A_TABLE * _LEAST - _BESIDE


def files_for(tables: int, *, connections: int) -> int:
    """That must be allowed, for so many to be kept open."""
    return tables * FILES_A_TABLE + connections + FILES_OF_ITS_OWN


def instances_of(version: Version, named: Sequence[int] = ()) -> tuple[int, ...]:
    """Among so many the entries are divided, where the user names these numbers, or none. In MariaDB each instance has
    as many entries as all have elsewhere, and it begins with one: others join where threads wait."""
    if version.flavor is Flavor.MARIADB:
        return (1,)
    return tuple(named) or (DIVIDED if can(version, "divided_table_cache") else 1,)


def entries_for(tables: int, *, threads: int, instances: int) -> int:
    """For a load whose threads all use all of its tables: each instance must hold the tables once for each thread that
    uses it."""
    each = -(-threads // instances)
    return tables * each * instances
