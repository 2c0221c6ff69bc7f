"""Defines the options that servers are started with, checks those of the user, writes them in the form of my.cnf, and
calculates how many tables and clients the open-files limit allows.

Versions are not compared here: the code asks by name what a version can do (`can`)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from pathlib import Path

import jinja2

from recovery.errors import UsageError
from recovery.model import Version, can

KEY_FILE = "keyfile"
"""The key file of encrypted tables, in a folder next to the server's data directory. MariaDB reads it; MySQL ignores it
and writes a keyring into the same folder."""

Settings = dict[str, str]
FLAG = ""
"""The value of an option that takes no value."""

RESERVED_OPTIONS: frozenset[str] = frozenset(
    {"basedir", "bind_address", "bootstrap", "daemonize", "datadir", "defaults_file", "initialize"}
    | {"initialize_insecure", "innodb_data_file_path", "innodb_data_home_dir", "innodb_file_per_table"}
    | {"innodb_log_group_home_dir", "innodb_undo_directory", "lc_messages", "lc_messages_dir", "log_error"}
    | {"log_timestamps", "mysqlx", "open_files_limit", "pid_file", "port", "skip_networking", "socket", "tmpdir"}
    | {"user", "admin_address", "admin_port", "create_admin_listener_thread", "extra_port", "mysqlx_bind_address"}
    | {"mysqlx_port", "mysqlx_socket", "wsrep_on", "wsrep_provider", "chroot", "feedback", "help"}
    | {"innodb", "keyring_migration_destination", "language", "log_error_services", "silent_startup"}
    | {"validate_config", "verbose", "wsrep_recover", "skip_grant_tables"}
)
"""Options that a user may not set: those that the tool must decide, or it could not find, watch or kill its own server
or prove its files; those that would make the server use the network, or give every user all rights; those that make it
print something and exit."""

TIMED_ONLY_OPTIONS = frozenset({"innodb_force_recovery"})
"""Options that are used in timed starts only: a server accepts no inserts with them, and no clean start needs them."""

DATADIR_OPTIONS: frozenset[str] = frozenset(
    {"innodb_page_size", "lower_case_table_names", "innodb_checksum_algorithm", "innodb_undo_tablespaces"}
    | {"innodb_file_format", "innodb_default_row_format", "character_set_server", "collation_server"}
)


_LOOSE = "loose_"
_SWITCHES = ("skip_", "disable_", "enable_")
"""Prefixes that servers accept before the name of an option."""
_PREFIXES = (_LOOSE, *_SWITCHES, "maximum_", "autoset_")
"""All prefixes; servers accept any number of them before one name."""
_MAX_VALUE_CHARS = 4096
_FORMER_NAMES = {"table_cache": "table_open_cache"}
"""Former names of options: MariaDB 10.11 still accepts this one."""
REDO_CAPACITY = "innodb_redo_log_capacity"
REDO_FILE_SIZE, REDO_FILE_COUNT = "innodb_log_file_size", "innodb_log_files_in_group"
REDO_FILE_OPTIONS = frozenset({REDO_FILE_SIZE, REDO_FILE_COUNT})
ENCRYPTED_REDO = "innodb_encrypt_log"
_MONITOR_OPTION = "innodb_monitor_enable"
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}

FIRST_START_OPTIONS = frozenset({"plugin_dir"})
"""Options needed from the first start on: without its plugins a server cannot create encrypted tables."""


def base_settings(version: Version, *, rundir: Path) -> Settings:
    """Returns the options that every start needs. The launcher adds those that only it knows: basedir, datadir,
    user."""
    settings = {
        "socket": str(rundir / "mysqld.sock"),
        "pid_file": str(rundir / "mysqld.pid"),
        "tmpdir": str(rundir),
        "skip_networking": FLAG,
        # Up to 5.7 and in MariaDB the ready line is translated.
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
        # MariaDB 11.4 generates a TLS key at every start. That takes seconds of CPU time, a different number each time.
        "ssl_off": ("ssl", "OFF"),
    }
    return settings | _supported_settings(version, optional)


def experiment_settings(version: Version) -> Settings:
    """Returns the options for an experiment. With them no start depends on what happened before it."""
    settings = {"performance_schema": "OFF"}
    if can(version, "buffer_pool_dump"):
        settings |= {"innodb_buffer_pool_dump_at_shutdown": "OFF", "innodb_buffer_pool_load_at_startup": "OFF"}
    return settings


def build_settings(version: Version, *, statistics: bool = False) -> Settings:
    """Returns the options for building tables, which give up durability for speed. A clean shutdown and a start with
    other settings follow the build."""
    settings = experiment_settings(version) | {
        "innodb_flush_log_at_trx_commit": "0",
        "innodb_doublewrite": "OFF",
        "innodb_buffer_pool_size": str(256 << 20),
        "innodb_io_capacity": "20000",
        "innodb_adaptive_hash_index": "OFF",
        # Small on purpose: with the default the server's memory would grow with every table created.
        "table_open_cache": "400",
        "table_definition_cache": "400",
        "max_allowed_packet": str(64 << 20),
    }
    optional = {
        "sync_frm": ("sync_frm", "OFF"),
        "flush_method_nosync": ("innodb_flush_method", "nosync"),
        # With a small buffer pool and a deep LRU scan, the page cleaners take the second core from the connections.
        "lru_scan_depth": ("innodb_lru_scan_depth", "128"),
        "io_capacity_max": ("innodb_io_capacity_max", "40000"),
    }
    if not statistics:
        optional["stats_persistent"] = ("innodb_stats_persistent", "OFF")
    return settings | _supported_settings(version, optional) | _build_redo(version)


def key_settings(version: Version, keys: Path) -> Settings:
    """Returns the options that make a server use the folder `keys` for the keys of encrypted tables."""
    if can(version, "file_key_management"):
        return {"plugin_load_add": "file_key_management", "file_key_management_filename": str(keys / KEY_FILE)}
    return {"early_plugin_load": "keyring_file.so", "keyring_file_data": str(keys / "keyring")}


def compressed_settings(version: Version) -> Settings:
    """Returns the options for compressed tables. Without them 5.6 only warns, and creates uncompressed tables."""
    settings = {"innodb_strict_mode": "ON", "loose_innodb_read_only_compressed": "OFF"}
    return settings | _supported_settings(version, {"file_format": ("innodb_file_format", "Barracuda")})


def wait_counting_settings(settings: Mapping[str, str]) -> Settings:
    """Returns options, to be added to `settings`, that make a server count all waits of its threads, as far as it can.

    Thread instrumentation is off. Without it no statement is instrumented, which would cost more than counting the
    waits. A value of innodb_monitor_enable in `settings` is kept."""
    monitored = next(
        (settings[name] for name in (_LOOSE + _MONITOR_OPTION, _MONITOR_OPTION) if settings.get(name)), None
    )
    return {
        "performance_schema": "ON",
        f"{_LOOSE}performance_schema_instrument": "wait/synch/%=ON",
        f"{_LOOSE}performance_schema_consumer_thread_instrumentation": "OFF",
        _LOOSE + _MONITOR_OPTION: f"{monitored},latch" if monitored else "latch",
    }


def adapt_redo_capacity(version: Version, settings: Mapping[str, str]) -> Settings:
    """Returns the settings with the redo log capacity in the form that this version knows: as a capacity, or as the
    size of the log files.

    If the user also sets the options of the log files, these decide, and the capacity is dropped. It is kept only if it
    is set without `loose_` and the version knows it. Without a capacity 8.0.31 makes its log as large as the options of
    the files specify; with one it ignores them."""
    name = REDO_CAPACITY if REDO_CAPACITY in settings else _LOOSE + REDO_CAPACITY
    knows = can(version, "redo_log_capacity")
    rest = {option: value for option, value in settings.items() if option != name}
    if REDO_FILE_OPTIONS & set(map(base_name, rest)):
        return dict(settings) if knows and name == REDO_CAPACITY else rest
    capacity = parse_size(settings.get(name, ""))
    if capacity is None or knows:
        return dict(settings)
    files = 1 if can(version, "one_redo_file") else 2
    return rest | {"innodb_log_file_size": str(capacity // files)}


def parse_size(size: str) -> int | None:
    """Returns the number of bytes in a size such as `1073741824` or `1G`, or None if it is not a size."""
    number, unit = (size[:-1], size[-1].lower()) if size[-1:].lower() in _UNITS else (size, "")
    return int(number) * _UNITS.get(unit, 1) if number.isdecimal() and not _HUGE_NUMBER.fullmatch(number) else None


def _build_redo(version: Version) -> Settings:
    """Returns the redo log options for building tables. The log is larger than the default, so that checkpoints are
    rarely urgent; a gigabyte would take longer to write than it saves."""
    if can(version, "redo_log_capacity"):
        return {"innodb_redo_log_capacity": str(256 << 20)}
    if can(version, "redo_resizes_itself"):
        # After a clean shutdown, a start with another size creates new log files automatically.
        return {"innodb_log_file_size": str(128 << 20)}
    return {}


def _supported_settings(version: Version, optional: Mapping[str, tuple[str, str]]) -> Settings:
    return {name: value for capability, (name, value) in optional.items() if can(version, capability)}


def merge(*layers: Mapping[str, str]) -> Settings:
    """Merges layers of options. Later layers win, however an option is spelled in them: `skip_ssl` replaces `ssl`.
    Names have underscores in the result."""
    merged: Settings = {}
    for layer in layers:
        for name, value in layer.items():
            meant = base_name(name)
            for spelled in [spelled for spelled in merged if base_name(spelled) == meant]:
                del merged[spelled]
            merged[canonical_name(name)] = value
    return merged


def canonical_name(name: str) -> str:
    """Returns the normal spelling of an option name: `--Innodb-Log-File-Size` becomes `innodb_log_file_size`."""
    return name.strip().lstrip("-").replace("-", "_").lower()


def base_name(name: str) -> str:
    """Returns the option name without prefixes, and with its present name: `loose_skip_innodb_doublewrite` becomes
    `innodb_doublewrite`."""
    base = canonical_name(name)
    while base.startswith(_PREFIXES):
        base = base.partition("_")[2]
    return _FORMER_NAMES.get(base, base)


def datadir_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings that shape the data files. They are needed from the first initialisation on, and a data
    directory made with other values is a different data directory."""
    return {name: value for name, value in settings.items() if name.removeprefix(_LOOSE) in DATADIR_OPTIONS}


def first_start_settings(settings: Mapping[str, str]) -> Settings:
    """Returns the user's settings that a server needs from its first start on although they do not shape the files."""
    return {name: value for name, value in settings.items() if name in FIRST_START_OPTIONS}


def timed_only_settings(settings: Mapping[str, str]) -> Settings:
    return {name: value for name, value in settings.items() if name.removeprefix(_LOOSE) in TIMED_ONLY_OPTIONS}


def every_start_settings(settings: Mapping[str, str]) -> Settings:
    """Returns the settings for every start, without those that are used in timed starts only."""
    return {name: value for name, value in settings.items() if name.removeprefix(_LOOSE) not in TIMED_ONLY_OPTIONS}


_HUGE_NUMBER = re.compile(r"[+-]?\d{21,}(\.\d*)?[kmgtpe]?", re.IGNORECASE)
"""Servers count to 2^64, which has 20 digits."""


def check_user_settings(settings: Mapping[str, str]) -> Settings:
    """Returns the user's options in normal spelling. Raises UsageError for invalid ones and for those that the tool
    decides, however they are spelled. Whether a server knows them is checked by `hint_if_unknown`."""
    checked = merge(settings)
    for name, value in checked.items():
        # A dot is refused: servers ignore the text before it, so that `x.port` means `port`.
        if not re.fullmatch(r"[a-z0-9][a-z0-9_]*", name) or not base_name(name):
            raise UsageError(
                f"'{name}' is not the name of a server option", "write NAME=VALUE, like innodb_io_capacity=2000"
            )
        _refuse_reserved(name)
        switch, rest = _split_switch(name)
        if f"{switch}{rest}".startswith(("maximum_", "autoset_")) or rest.startswith(_PREFIXES):
            raise UsageError(
                f"the option '{name}' has too many prefixes",
                f"write its full name, with at most one of {', '.join(_SWITCHES)} before it, and loose_ before that",
            )
        if len(value) > _MAX_VALUE_CHARS:
            raise UsageError(
                f"the value of '{name}' has {len(value):,} characters", f"give {_MAX_VALUE_CHARS:,} at most"
            )
        if _HUGE_NUMBER.fullmatch(value):
            raise UsageError(f"the value of '{name}' is larger than any number of a server", "give it fewer digits")
        quoted_value(name, value)
    return checked


def _refuse_reserved(name: str) -> None:
    """Raises UsageError for a reserved option in any spelling, and for any other spelling of
    `innodb_force_recovery`."""
    meant = base_name(name)
    full = next(
        (full for full in sorted(RESERVED_OPTIONS | TIMED_ONLY_OPTIONS) if base_name(full).startswith(meant)), None
    )
    if full is None or (full in TIMED_ONLY_OPTIONS and name.removeprefix(_LOOSE) == full):
        return
    if full in TIMED_ONLY_OPTIONS:
        raise UsageError(f"'{name}' is another spelling of {full}", f"write {full}")
    why = "" if meant == base_name(full) else f": servers read it as {full}"
    raise UsageError(f"the option '{name}' is reserved for the tool itself", f"leave it out{why}")


PLACE_OPTIONS = frozenset(
    {"innodb_data_file_path", "innodb_data_home_dir", "innodb_log_group_home_dir", "innodb_undo_directory"}
    | {"innodb_doublewrite_dir"}
)
"""Options that say where InnoDB's own files are. A copy of a user's data directory has all of them in one folder."""


def hint_if_unknown(name: str, listed: Collection[str]) -> str | None:
    """Returns what to write instead of an option that the server does not list, or None if the option may be used.
    Servers accept abbreviations, so a server may accept an option that it does not list."""
    switch, rest = _split_switch(name)
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


def _split_switch(name: str) -> tuple[str, str]:
    """Splits an option into its switch and the rest of its name: `loose_skip_ssl` becomes `skip_` and `ssl`."""
    plain = name.removeprefix(_LOOSE)
    switch = next((switch for switch in _SWITCHES if plain.startswith(switch)), "")
    return switch, plain.removeprefix(switch)


def render_cnf(settings: Mapping[str, str], template_text: str) -> str:
    """Returns the text of my.cnf, made with the template. Options are sorted by name, so that two starts can be
    compared."""
    environment = jinja2.Environment(  # noqa: S701 - an options file, not a page
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    quoted = [(name, quoted_value(name, value)) for name, value in sorted(settings.items())]
    try:
        return environment.from_string(template_text).render(settings=quoted)
    except jinja2.TemplateError as error:
        raise UsageError(f"templates/my.cnf.j2: {error}", "correct the template") from error


def quoted_value(name: str, value: str, hint: str = "leave it out") -> str:
    """Returns the value as it is written in an options file. Quotes protect blanks and #. Raises UsageError for a value
    with double quotes, control characters, or bytes that are not UTF-8, which an options file cannot contain."""
    if match := re.search(r"(\")|([\x00-\x1f])|[\ud800-\udfff]", value):
        what = "a double quote" if match[1] else "a control character" if match[2] else "bytes that are not UTF-8"
        raise UsageError(f"the value of '{name}' contains {what}, which an options file cannot have", hint)
    if re.fullmatch(r"[\w./,:=+@%-]*", value, re.ASCII):
        return value
    return '"' + value.replace("\\", "\\\\") + '"'


# --- How many tables and clients the open-files limit allows

RESERVED_FILES = 30
"""Files that MariaDB reserves for itself; MySQL reserves ten."""
FILES_PER_TABLE = 2
"""Files that servers count for each open table, as many as a MyISAM table has."""
_MIN_OPEN_TABLES = 400
"""No server lowers `table_open_cache` below this."""
DEFAULT_CONNECTIONS = 151
_MIN_CONNECTIONS = 1000
"""Smallest value for `max_connections`."""
_TOOL_CONNECTIONS = 16
"""Connections in addition to the clients: for monitoring the server, reading its tables and stopping its statements."""
CACHE_INSTANCES = "table_open_cache_instances"
POOL = "innodb_buffer_pool_size"
POOL_OPTIONS = (POOL, "innodb_buffer_pool_instances", "innodb_buffer_pool_chunk_size")
"""The pool size, and the two options by which servers round it."""


def max_open_tables(files: int, *, connections: int) -> int:
    """Returns the highest `table_open_cache` that this number of files allows. MySQL 5.6 to 8.0 and MariaDB 10.11 lower
    the option to this value or ten more; MariaDB 10.2 does not lower it."""
    return max(_MIN_OPEN_TABLES, (files - RESERVED_FILES - connections) // FILES_PER_TABLE)


def needed_connections(clients: int) -> int:
    """Returns `max_connections` for this number of simultaneous clients, pollers included."""
    return max(_MIN_CONNECTIONS, clients + _TOOL_CONNECTIONS)


def max_clients(files: int) -> int:
    """Returns how many clients, with one file each, can be connected at once. Servers lower `max_connections` to what
    is left after the smallest number of open tables."""
    return files - RESERVED_FILES - FILES_PER_TABLE * _MIN_OPEN_TABLES - _TOOL_CONNECTIONS


def needed_open_files(tables: int, *, connections: int) -> int:
    """Returns the open-files limit that is needed to keep this number of tables open."""
    return tables * FILES_PER_TABLE + connections + RESERVED_FILES
