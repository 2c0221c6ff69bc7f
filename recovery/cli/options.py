"""Contains the option table, with one row for each option of the commands that measure.

A row defines the option of the command line, the variable of make and of the environment, the key in recovery.toml, and
the option in the command that repeats a session. No other place defines these options.
"""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from recovery.cli import completion, values
from recovery.cli.output import STANDARD_OUTPUT, check_json_target
from recovery.cli.values import Converter
from recovery.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from recovery.experiments.experiment import ExperimentOptions, OwnDataOptions, QueryOptions, StartOptions
    from recovery.session.request import Request

PREFIX = "RECOVERY_"
DEFAULT_RESULTS = Path("results")
AUTO = "auto"


class _PathType(click.Path):
    """The type of path options, which expands `~`. Most is checked later, where the error can say what to do."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from recovery.linux.files import expand_path

        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        try:
            return expand_path(path)
        except UsageError as error:
            self.fail(error.message, param, ctx)


PATH_TYPE = _PathType(path_type=Path, readable=False)


_ANY = re.compile(r".*", re.DOTALL)
_PLAIN = re.compile(r"[\w.,:%+~ -]*")
"""Numbers and names, with neither a slash nor an equals sign."""


class Kind(Enum):
    """The kind of an option's value. In recovery.toml the value must have a matching type."""

    TEXT = auto()
    SENTENCE = auto()
    """Text that is a single value in the environment even if it contains blanks."""
    OWN_SERVER = auto()
    """A path, in which blanks may occur, with a name before it."""
    COMMAND = auto()
    """A program, which may be a path, and its arguments."""
    WHOLE = auto()
    NUMBER = auto()
    SECONDS = auto()
    PATH = auto()
    FLAG = auto()


class FieldPath:
    """The path of a field, written as the field itself: `REQUEST.sizes.runs`. Type checkers see the field's class, and
    at runtime none is imported: every command has the option table, and few have the experiments."""

    def __init__(self, text: str = "") -> None:
        self._text = text

    def __getattr__(self, name: str) -> FieldPath:
        if name.startswith("_"):  # such as those that copying asks for
            raise AttributeError(name)
        return FieldPath(f"{self._text}.{name}".removeprefix("."))

    def __str__(self) -> str:
        return self._text


REQUEST = cast("Request", FieldPath())
_ALL = cast("ExperimentOptions", FieldPath("ExperimentOptions"))
_STARTS = cast("StartOptions", FieldPath("StartOptions"))
_OWN_DATA = cast("OwnDataOptions", FieldPath("OwnDataOptions"))
_QUERIES = cast("QueryOptions", FieldPath("QueryOptions"))
# Those of loads and crash tests, which only the list of experiments names. A test compares the fields.
_WORKLOADS, _LOADS, _METADATA, _INTERFERENCE, _CRASHES, _MATRIX, _PENDING = (
    cast("Any", FieldPath(f"{name}Options"))
    for name in ("Workload", "Load", "Metadata", "Interference", "Crash", "CrashMatrix", "Pending")
)


class Group(Enum):
    """The groups of options in the help, which `make help` has, too."""

    WHAT = "What"
    OWN = "Of this experiment"
    YOURS = "Yours"
    WHY = "Why"
    LIMITS = "Limits"
    HOW = "How"


@dataclass(frozen=True)
class Option:
    """Describes one option: a row of the option table."""

    name: str
    """Name in recovery.toml; it is `--name` on the command line, `NAME` for make and `RECOVERY_NAME` in the
    environment."""
    help: str
    metavar: str | None = None
    kind: Kind = Kind.TEXT
    parameter: str = ""
    """Name of click's parameter, if it differs from `name`."""
    several: bool = False
    """Whether the option may be repeated."""
    values: tuple[str, ...] = ()
    """The allowed values. Empty: not restricted to a list."""
    alone: str | None = None
    """The value if the option is given without one. None: a value is required."""
    default: Any = None
    common: bool = True
    """Whether every measuring command has the option. The other options, or their class, are listed with each
    experiment."""
    line_only: bool = False
    """Whether the option exists on the command line only, without a variable and without a key in recovery.toml."""
    short: str | None = None
    """Its short form, such as `-v`."""
    group: Group = Group.WHAT
    field: Any = None
    """The field of the request that has its value. For an option of some experiments, the field of their class of
    options. None: it is not part of the request."""
    convert: Converter | None = None
    """Turns what the user gave into the value of the field. None: they are the same."""
    text: Callable[[Any], Any] | None = None
    """Turns the value into the text that is stored or shown, a tuple also into one text for each of its parts. None:
    they are the same."""
    stored: str = ""
    """Its name among the settings of a stored session. Empty: it is not stored there."""
    plain: re.Pattern[str] | None = None
    """What its values look like if they name no program, file, address or server option: a stored session of somebody
    else may have such a value without a question. None: none does, unless the option is a number, a flag or a choice.
    """

    @property
    def key(self) -> str:
        return self.parameter or self.name

    @property
    def options_class(self) -> str | None:
        """Returns the name of the class of options that has its field, if only some experiments have the option."""
        owner = self.owner.partition(".")[0]
        return owner if owner.endswith("Options") else None

    @property
    def owner(self) -> str:
        """Returns the path of what has its field, such as `sizes.schema`; empty if it has none."""
        return str(self.field or "").rpartition(".")[0]

    @property
    def field_name(self) -> str:
        return str(self.field or "").rpartition(".")[2]

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    def is_plain(self, value: object) -> bool:
        """Returns whether a stored session of somebody else may have this value without a question."""
        has_few = self.kind in (Kind.WHOLE, Kind.NUMBER, Kind.SECONDS, Kind.FLAG) or bool(self.values)
        plain = self.plain or (_PLAIN if has_few else None)
        return plain is not None and plain.fullmatch(str(value)) is not None

    def value_of(self, given: Any) -> Any:
        """Returns the value of the field for what the user gave, or what is stored; None if that is nothing. Raises
        UsageError, which names the option, for a value that is not valid."""
        if given is None or given is False or given == ():
            return None
        try:
            return self.convert(given) if self.convert else given
        except UsageError as error:
            error.option = self.named
            raise

    @property
    def named(self) -> str:
        """Returns its name for an error: its flag alone if it has no variable."""
        return self.flag if self.line_only else self.name

    def to_stored(self, value: Any) -> Any:
        """Returns the value of the field as it is stored with a session."""
        if isinstance(value, tuple):
            texts = self.text(value) if self.text else tuple(map(str, value))
            # Paths of servers may have blanks, and are split before the next name.
            join = " ".join if self.kind is Kind.OWN_SERVER else shlex.join
            return (texts if isinstance(texts, str) else join(texts)) or None
        return str(value) if isinstance(value, Path | str) else value


def _texts(text: Callable[[Any], str]) -> Callable[[Iterable[Any]], tuple[str, ...]]:
    return lambda parsed: tuple(map(text, parsed))


OPTIONS = (
    Option(
        "version", "Servers: 5.7.22, 8.0, mariadb-10.11.5, lts …; several separated by spaces.", "VERSION",
        parameter="versions", several=True,
        field=REQUEST.servers.versions, stored="version", plain=_PLAIN,
    ),
    Option(
        "scale", "All sizes of the experiment at once; options for single sizes win. [default: published]",
        values=("quick", "standard", "published"), common=False,
    ),
    Option(
        "tables", "Tables in each schema, like 20k. [default: 200000]", "N", Kind.WHOLE,
        field=REQUEST.sizes.schema.tables, convert=values.count(values.MAX_TABLES), stored="tables",
    ),
    Option(
        "schemas", "Number of schemas. [default: 1]", "N", Kind.WHOLE, common=False,
        field=REQUEST.sizes.schema.databases, convert=values.count(values.MAX_SCHEMAS), stored="schemas",
    ),
    Option(
        "layout", "Layout of the tables: files, general (all in one file), partitioned or encrypted. [default: files]",
        "NAME", common=False,
        field=REQUEST.sizes.schema.layout, convert=values.parse_layout, stored="layout",
        plain=_PLAIN,
    ),
    Option(
        "columns", "Columns in addition to the key. [default: 0]", "N", Kind.WHOLE, common=False,
        field=REQUEST.sizes.schema.columns, convert=values.count_or_zero(values.MAX_COLUMNS), stored="columns",
    ),
    Option(
        "rows", "Rows in each table. [default: 0]", "N", Kind.WHOLE,
        field=REQUEST.sizes.schema.rows, convert=values.count_or_zero(values.MAX_ROWS), stored="rows",
    ),
    Option(
        "database", "Name of the schema. [default: discovery]", "NAME", common=False,
        field=REQUEST.sizes.schema.database, convert=values.parse_identifier, stored="database", plain=_PLAIN,
    ),
    Option(
        "statistics", "Store persistent statistics of each table as it is built: on or off. [default: off]",
        values=("on", "off"), common=False,
        field=REQUEST.sizes.schema.statistics, convert=values.parse_switch,
        stored="statistics",
    ),
    Option(
        "runs", "Runs of every variant. [default: 5]", "N", Kind.WHOLE,
        field=REQUEST.sizes.runs, convert=values.run_count, stored="runs",
    ),
    Option(
        "precision", "Add runs, 5 to MAX_RUNS, until every mean's 95 % interval in this session is within +- this.",
        "PERCENT", common=False,
        field=REQUEST.sizes.precision, convert=values.parse_precision, stored="precision", plain=_PLAIN,
    ),
    Option(
        "max_runs", "With --precision, at most so many runs. [default: 30]", "N", Kind.WHOLE, common=False,
        field=REQUEST.sizes.max_runs, convert=values.run_count, stored="max_runs",
    ),
    Option(
        "repeat", "Measure so many sessions over the same data directories, and report over all of them.", "N",
        Kind.WHOLE,
        convert=values.count(values.MAX_SESSIONS),
    ),
    Option(
        "repeat_every", "With --repeat, the time from the start of a session to that of the next, like 6h, 30m or 1d. "
        "[default: no wait]", "TIME",
        convert=values.parse_period, text=values.period_text, plain=_PLAIN,
    ),
    Option(
        "data", "Where data directories live: a folder on the volume under test.", kind=Kind.PATH,
        field=REQUEST.output.data, convert=values.absolute_path, stored="data", plain=_ANY,
        group=Group.YOURS,
    ),
    Option(
        "results", "Where sessions are stored.", kind=Kind.PATH, default=DEFAULT_RESULTS,
        field=REQUEST.output.results, convert=values.absolute_path, plain=_ANY,
        group=Group.YOURS,
    ),
    Option(
        "mysqld", "Your own server: an executable, an unpacked tarball's folder, or a tarball's path or URL; repeated "
        "to compare several, such as base=PATH.", "[NAME=]PATH", Kind.OWN_SERVER, several=True,
        field=REQUEST.servers.mysqld, convert=values.parse_own_servers, stored="mysqld",
        group=Group.YOURS,
    ),
    Option(
        "archive", "A mirror of the vendor's archive.", "URL",
        field=REQUEST.servers.archive, stored="archive",
        group=Group.HOW,
    ),
    Option(
        "offline", "Fetch nothing: use what is in the cache.", kind=Kind.FLAG,
        field=REQUEST.servers.offline,
        group=Group.HOW,
    ),
    Option(
        "engine", "What runs the servers: containers or local processes. [default: auto: Docker where one answers]",
        values=(AUTO, "docker", "local"),
        field=REQUEST.servers.engine, stored="engine",
        group=Group.HOW,
    ),
    Option(
        "image", "Your own image of a server.", "NAME",
        field=REQUEST.servers.image, stored="image",
        group=Group.YOURS,
    ),
    Option(
        "registry", "Where images are pulled from, in place of the engine's default.", "HOST",
        field=REQUEST.servers.registry, stored="registry",
        group=Group.HOW,
    ),
    Option(
        "read_iops", "Limit the measured server to so many reads a second of the disk under the data.", "N", Kind.WHOLE,
        field=REQUEST.servers.limits.read_iops, convert=values.limit("parse_read_iops"), stored="read_iops",
        group=Group.LIMITS,
    ),
    Option(
        "read_bps", "Limit its reads to so many bytes a second, like 100m (k, m and g are powers of 1024).", "BYTES",
        Kind.WHOLE,
        field=REQUEST.servers.limits.read_bps, convert=values.limit("parse_read_bps"),
        stored="read_bps",
        group=Group.LIMITS,
    ),
    Option(
        "memory", "Limit its memory, page cache included, like 2g.", "BYTES", Kind.WHOLE,
        field=REQUEST.servers.limits.memory_bytes, convert=values.limit("parse_memory"),
        stored="memory_bytes",
        group=Group.LIMITS,
    ),
    Option(
        "cpus", "Limit its CPU time to so many CPUs, like 1.5.", "N", Kind.NUMBER,
        field=REQUEST.servers.limits.cpus, convert=values.limit("parse_cpus"), stored="cpus",
        group=Group.LIMITS,
    ),
    Option(
        "cpu_set", "Let it use only these CPUs, like 0-63; clients of a load get the others.", "LIST",
        field=REQUEST.servers.limits.cpu_set, convert=values.limit("parse_cpu_set"), stored="cpu_set",
        plain=_PLAIN,
        group=Group.LIMITS,
    ),
    Option(
        "open_files", "Files that every server may open. [default: the host's limit, ulimit -Hn]", "N", Kind.WHOLE,
        field=REQUEST.servers.open_files, convert=values.count(values.MAX_OPEN_FILES, least=values.MIN_OPEN_FILES),
        stored="open_files",
        group=Group.LIMITS,
    ),
    Option(
        "set", "A mysqld option; may be repeated.", "NAME=VALUE", parameter="settings", several=True,
        field=REQUEST.servers.options, convert=values.parse_settings, stored="set", text=values.settings_texts,
        group=Group.YOURS,
    ),
    Option(
        "defaults_file", "Use the server options of this my.cnf, too, except harmful ones. --set takes precedence.",
        kind=Kind.PATH,
        group=Group.YOURS,
    ),
    Option(
        "datadir", "A data directory of your own, of a server that has ended: it is only read, and a copy is measured.",
        kind=Kind.PATH, common=False,
        field=_OWN_DATA.datadir, convert=values.absolute_path, stored="datadir",
        group=Group.YOURS,
    ),
    Option(
        "as_is", "With --datadir, time the recovery that is ahead of it, without inserts and a kill of the tool's own.",
        kind=Kind.FLAG, common=False,
        field=_OWN_DATA.as_is, stored="as_is",
        group=Group.YOURS,
    ),
    Option(
        "predicted", "With --as-is, the seconds that `recovery estimate` predicted: the report compares them.",
        "SECONDS", Kind.NUMBER, common=False,
        field=_OWN_DATA.predicted, convert=values.decimal(0.001, 1e6), stored="predicted",
        group=Group.YOURS,
    ),
    Option(
        "variant", "Server options to compare under a name; repeated for each. layout=NAME and schemas=N are "
        "possible, too. NAME: without options is the server as it is. The others are compared with the first.",
        "NAME:OPTION=VALUE,...",
        parameter="variants", several=True,
        field=REQUEST.servers.named_settings, convert=values.parse_variants, text=_texts(values.variant_text),
        stored="variants",
    ),
    Option(
        "template", "Your own schema template.", kind=Kind.PATH, common=False,
        field=REQUEST.sizes.schema.template, convert=values.absolute_path, stored="template",
        group=Group.YOURS,
    ),
    Option(
        "insert_template", "Your own insert script's template.", kind=Kind.PATH, common=False,
        field=REQUEST.sizes.insert_template, convert=values.absolute_path, stored="insert_template",
        group=Group.YOURS,
    ),
    Option(
        "predict", "Also predict a start with N tables.", "N", common=False, line_only=True,
        field=REQUEST.sizes.predict, convert=values.count(values.MAX_TABLES), stored="predict", plain=_PLAIN,
    ),
    Option(
        "inserts", "Single-row inserts before the crash, each into the next table; 0 for none. [default: 100]", "N",
        Kind.WHOLE, common=False,
        field=REQUEST.sizes.inserts, convert=values.count_or_zero(values.MAX_INSERTS), stored="inserts",
    ),
    Option(
        "before_start", "A command to run before each timed start, once the cache is emptied; not run by a shell.",
        "COMMAND", Kind.COMMAND, common=False,
        field=_STARTS.before_start, convert=values.parse_command, stored="before_start",
        group=Group.WHY,
    ),
    Option(
        "before_kill", "With --datadir, what to do before each kill: `load` updates rows of a table of the tool's own; "
        "or a command, not run by a shell, whose clients use --socket=$MYSQL_UNIX_PORT.", "load|COMMAND",
        Kind.COMMAND, common=False,
        field=_OWN_DATA.before_kill, convert=values.parse_before_kill, stored="before_kill",
        group=Group.YOURS,
    ),
    Option(
        "first_queries", "Also time queries after each timed start: those of an SQL FILE, or `default`: the sizes of "
        "all schemas, and a row of 100 tables.", "[FILE]", Kind.PATH, alone="default", common=False,
        field=_STARTS.first_queries, convert=values.parse_first_queries, stored="first_queries",
        text=lambda queries: "\n".join(f"-- {name}\n{statement};" for name, statement in queries),
        plain=re.compile("default"),
        group=Group.WHY,
    ),
    Option(
        "as_published", "Do not empty the cache after the inserts (as in the published test).", kind=Kind.FLAG,
        common=False,
        field=REQUEST.method.as_published, stored="as_published",
    ),
    Option(
        "trace", "One more run of every variant, not averaged, that records which tables' files the start opens, and "
        "which had been modified.", kind=Kind.FLAG, common=False,
        field=REQUEST.method.trace, stored="trace",
        group=Group.WHY,
    ),
    Option(
        "stacks", "One more run of every variant, not averaged, with stack samples of the server by eu-stack or perf: "
        "the first that is installed, or the one named.", "[PROGRAM]", values=(AUTO, "eu-stack", "perf"), alone=AUTO,
        common=False,
        field=REQUEST.method.stacks, stored="stacks",
        group=Group.WHY,
    ),
    Option(
        "floor", "Also time a plain program that reads every table's first page: what the storage allows.",
        kind=Kind.FLAG, common=False,
        field=REQUEST.method.floor, stored="floor",
        group=Group.WHY,
    ),
    Option(
        "baseline", "The version that the others are compared with. [default: the first]", "VERSION",
        field=REQUEST.servers.baseline, plain=_PLAIN,
    ),
    Option(
        "fail_over", "Exit with 4 if a version is slower than the baseline by more than this, with its whole interval.",
        "PERCENT", common=False,
        field=REQUEST.output.fail_over, convert=values.parse_share, stored="fail_over", plain=_PLAIN,
    ),
    Option(
        "max_startup", "Exit with 4 if a start took longer than this.", "SECONDS", Kind.NUMBER, common=False,
        field=_STARTS.max_startup, convert=values.decimal(0.001, 1e6), stored="max_startup",
    ),
    Option(
        "no_drop_caches", "Never drop the whole host's caches: evict the files one by one.", kind=Kind.FLAG,
        group=Group.HOW,
    ),
    Option("unprivileged", "Take no step that needs root.", kind=Kind.FLAG, group=Group.HOW),
    Option(
        "no_probe", "Do not measure the storage's small reads beforehand.", kind=Kind.FLAG,
        field=REQUEST.method.probe, convert=lambda _: False,
        group=Group.HOW,
    ),
    Option(
        "note", 'A note for the report, like "io2, 5000 IOPS"; may be repeated.', "TEXT",
        Kind.SENTENCE, parameter="notes", several=True,
        field=REQUEST.output.note, convert=values.parse_notes, stored="note", plain=_ANY,
        group=Group.HOW,
    ),
    Option(
        "keep", "Never remove a data directory to make room for the next version.", kind=Kind.FLAG,
        field=REQUEST.output.keep,
        group=Group.HOW,
    ),
    Option(
        "stall", "Give up a start after so long without log, CPU or I/O. [default: 300; damage: 60]", "SECONDS",
        Kind.SECONDS,
        parameter="stall_s",
        field=REQUEST.method.stall_s,
        group=Group.HOW,
    ),
    Option("yes", "Begin long sessions without asking.", kind=Kind.FLAG, line_only=True, short="-y", group=Group.HOW),
    Option("wait", "Wait while another timed run is in progress.", kind=Kind.FLAG, line_only=True, group=Group.HOW),
    Option("verbose", "Print the tables, too.", kind=Kind.FLAG, line_only=True, short="-v", group=Group.HOW),
    Option("quiet", "Nothing on standard error but errors and warnings.", kind=Kind.FLAG, group=Group.HOW),
    Option(
        "dry_run", "Print what would be run, and the disk space and time it needs.", kind=Kind.FLAG, line_only=True,
        group=Group.HOW,
    ),
    Option(
        "json", "Write the result as JSON to FILE, too. Without FILE, or with -, print JSON only.", "[FILE]",
        parameter="json_to", alone=STANDARD_OUTPUT, line_only=True,
        group=Group.HOW,
    ),
    # Options of single experiments.
    Option(
        "seconds", "Measured seconds of each load. [default: 60]", "N", Kind.WHOLE, common=False,
        field=_LOADS.seconds, convert=values.count(values.MAX_SECONDS), stored="seconds",
        group=Group.OWN,
    ),
    Option(
        "warmup", "Seconds of the load before it is measured. [default: 10]", "N", Kind.WHOLE, common=False,
        field=_LOADS.warmup_s, convert=values.count_or_zero(values.MAX_SECONDS), stored="warmup_s",
        group=Group.OWN,
    ),
    Option(
        "threads", 'Clients of the load at a time; several: "1 4 16".', "N...", Kind.WHOLE, common=False,
        field=_WORKLOADS.threads, convert=values.counts(values.MAX_CLIENTS),
        group=Group.OWN,
    ),
    Option(
        "workload", "Statements of the load: point-select, read-only, read-write, update-nokey …, or your own sysbench "
        "script.", "NAME...", common=False,
        field=_WORKLOADS.workloads, convert=values.words, plain=re.compile(r"[a-z_, -]*"),
        group=Group.OWN,
    ),
    Option(
        "load_tables", "Number of tables that the load uses.", "N...", Kind.WHOLE, common=False,
        field=_LOADS.load_tables, convert=values.counts(values.MAX_TABLES),
        group=Group.OWN,
    ),
    Option(
        "charset", "Character sets of the tables to compare: latin1, utf8mb4 (collation utf8mb4_general_ci), or other "
        "collations. [default: latin1]", "NAME...", common=False,
        field=_LOADS.charset, convert=values.charsets, stored="charset", plain=_PLAIN,
        group=Group.OWN,
    ),
    Option(
        "memory_ratio", "Size of the data divided by that of the buffer pool: 0.5, or 4. [default: the data fits]", "X",
        Kind.NUMBER, common=False,
        field=_LOADS.memory_ratio, convert=values.decimal(0.001, 1000), stored="memory_ratio",
        group=Group.OWN,
    ),
    Option(
        "option", "A server option, and the values to measure it at: table_open_cache=400,4000; may be repeated.",
        "NAME=VALUE,...", parameter="options", several=True, common=False,
        field=_ALL.options, convert=lambda texts: tuple(map(values.parse_server_option, texts)),
        text=lambda options: tuple(f"{name}={','.join(found)}" for name, found in options), stored="options",
        group=Group.OWN,
    ),
    Option(
        "question", "Only these of the experiment's questions.", "NAME...", parameter="parts", common=False,
        field=_ALL.parts, convert=values.words, plain=_PLAIN,
        group=Group.OWN,
    ),
    Option(
        "seed", "Seed of all random choices, such as the order within a block: the same seed repeats them. "
        "[default: random; of kills and damage: 1]", "N", Kind.WHOLE,
        field=_ALL.seed, convert=values.count(10**9), stored="seed",
    ),
    Option(
        "only", "Repeat only the N-th run of each cell.", "N", Kind.WHOLE, common=False,
        field=_CRASHES.only, convert=values.run_count,
        group=Group.OWN,
    ),
    Option(
        "depth", "Kill a recovery at most so many times before it may finish. [default: 3]", "N", Kind.WHOLE,
        common=False,
        field=_MATRIX.depth, convert=values.count(100),
        group=Group.OWN,
    ),
    Option(
        "dirty", "Kill the server when it has so many dirty pages.", "N...", Kind.WHOLE, common=False,
        field=_PENDING.dirty, convert=values.counts(values.MAX_ROWS),
        group=Group.OWN,
    ),
    Option(
        "redo", "Kill the server when it has so much redo since its last checkpoint, like 64m.", "BYTES...",
        Kind.WHOLE, common=False,
        field=_PENDING.redo, convert=values.sizes,
        group=Group.OWN,
    ),
    Option(
        "uncommitted", "Kill the server when a transaction has changed so many rows.", "N...", Kind.WHOLE,
        common=False,
        field=_PENDING.uncommitted, convert=values.counts(values.MAX_ROWS),
        group=Group.OWN,
    ),
    Option(
        "state", "What this transaction has reached: open, prepared (COMMIT is writing the binary log), or xa (after "
        "XA PREPARE).", "NAME...", common=False,
        field=_PENDING.state, convert=values.words, plain=_PLAIN,
        group=Group.OWN,
    ),
    Option(
        "queries", "A file of your own queries, each with a semicolon; a line `-- NAME` above one names it.",
        kind=Kind.PATH, common=False,
        field=_QUERIES.queries, stored="queries",
        text=lambda queries: "; ".join(f"{name}: {statement}" for name, statement in queries),
        group=Group.OWN,
    ),
    Option(
        "dump_schemas", "Dump only so many of the schemas.", "N", Kind.WHOLE, common=False,
        field=_METADATA.dump_schemas, convert=values.count(values.MAX_SCHEMAS), stored="dump_schemas",
        group=Group.OWN,
    ),
    Option(
        "published_build", "Also create N tables in the published way, by one client, and extrapolate for all.",
        "N", Kind.WHOLE, common=False,
        field=_METADATA.published_build, convert=values.count(values.MAX_TABLES),
        stored="published_build",
        group=Group.OWN,
    ),
    Option(
        "poll_query", "Queries of these clients, each measured alone: foreign-keys (as published), filtered (by the "
        "table, too: a published remedy), or those of --queries. [default: all of --queries in turn, or foreign-keys]",
        "NAME...", common=False,
        field=_INTERFERENCE.poll_query, convert=values.words, stored="poll_query", plain=_PLAIN,
        group=Group.OWN,
    ),
    Option(
        "pollers", "Clients that query information_schema during the load. [default: 1]", "N", Kind.WHOLE, common=False,
        field=_INTERFERENCE.pollers, convert=values.count(values.MAX_CLIENTS), stored="pollers",
        group=Group.OWN,
    ),
    Option(
        "every", "Such a client begins a query so many seconds after the one before. [default: 0]", "SECONDS",
        Kind.NUMBER, common=False,
        field=_INTERFERENCE.every_s, convert=values.decimal(0, 3600), stored="every_s",
        group=Group.OWN,
    ),
    Option(
        "profile", "One more run of every variant, not averaged, with a profile of the server by perf.", kind=Kind.FLAG,
        common=False,
        field=REQUEST.method.stacks, convert=lambda _: "perf",
        group=Group.WHY,
    ),
    Option(
        "waits", "One more run of every variant, not averaged, in which the server counts waits for mutexes and locks.",
        kind=Kind.FLAG, common=False,
        field=REQUEST.method.waits, stored="waits",
        group=Group.WHY,
    ),
)  # fmt: skip
BY_NAME = {option.name: option for option in OPTIONS}
SETTINGS = tuple(option for option in OPTIONS if not option.line_only)
SETTING_NAMES = tuple(option.name.upper() for option in SETTINGS)


def options_of(own: Iterable[str]) -> tuple[Option, ...]:
    """Returns the common options and those in `own`, by name or by class, in the order of the table."""
    names = (*own,)
    return tuple(option for option in OPTIONS if option.common or option.name in names or option.options_class in names)


class _WholeText(click.types.StringParamType):
    """A text type that keeps the value of an environment variable whole; click would split it at blanks."""

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        return (rv,)


class _OwnServers(click.types.StringParamType):
    """The type of a list of paths. Click would split the environment variable at every blank."""

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        return values.split_own_servers(rv)


class Choice(click.Choice[str]):
    """The type of an option with a fixed set of values. `1` means `alone`: users of make write STACKS=1."""

    def __init__(self, choices: Iterable[str], alone: str | None = None) -> None:
        super().__init__(tuple(choices))
        self.alone = alone

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if self.alone is not None and value == "1":
            return self.alone
        if value not in self.choices:
            *most, last = self.choices
            hint = did_you_mean(value.lower(), self.choices, otherwise=f"give {', '.join(most)} or {last}")
            option = option_of(param)
            raise UsageError(f"{value if option else repr(value)} is not valid", hint, option=option)
        return super().convert(value, param, ctx)


class _Seconds(click.FloatRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(super().convert(value, param, ctx))
        except click.BadParameter:
            number = math.nan
        if math.isnan(number):
            hint = f"give seconds from {self.min:g} to {self.max:,.0f}"
            raise UsageError(f"{value} is not valid", hint, option=option_of(param))
        return number


def option_of(param: click.Parameter | None) -> str:
    """Returns the name for an error about this parameter of click: empty for an argument."""
    if not isinstance(param, click.Option):
        return ""
    flag = max(param.opts, key=len)
    own = BY_NAME.get(flag.removeprefix("--").replace("-", "_"))
    return flag if own is None or param.envvar is None else own.name


_TYPES = {
    Kind.PATH: PATH_TYPE,
    Kind.SECONDS: _Seconds(1, 1e6),
    Kind.SENTENCE: _WholeText(),
    Kind.OWN_SERVER: _OwnServers(),
}


def click_option(option: Option, *, environment: bool = True, text: str | None = None) -> click.Option:
    """Returns the click option for a row of the table. With `environment=False` it ignores its variable."""
    given: dict[str, Any] = {"help": text or option.help, "metavar": option.metavar, "multiple": option.several}
    names = [option.flag, *filter(None, (option.short,)), option.key]
    if option.name in completion.OF_OPTIONS:
        given["shell_complete"] = completion.OF_OPTIONS[option.name]
    if environment and not option.line_only:
        given["envvar"] = option.variable
    if option.kind is Kind.FLAG:
        return click.Option(names, help=given["help"], envvar=given.get("envvar"), is_flag=True)
    if option.alone is not None:
        given |= {"is_flag": False, "flag_value": option.alone}
    if option.values:
        given["type"] = Choice(option.values, alone=option.alone)
    elif option.kind in _TYPES:
        given["type"] = _TYPES[option.kind]
    elif option.name == "json":
        given["callback"] = lambda _, __, target: check_json_target(target)
    if option.default is not None:
        given |= {"default": option.default, "show_default": True}
    return click.Option(names, **given)


def mark_json_without_file(words: Sequence[str]) -> list[str]:
    """Returns the words of a command line with `--json=-` in place of each `--json` that names no file.

    It is for commands with arguments: in `recovery compare --json A B` the word A is a session. After `--json` only `-`
    and names that end in .json are files; `--json=FILE` can name any file."""
    marked: list[str] = []
    for word, after in pairwise((*words, "")):
        is_file = after == STANDARD_OUTPUT or after.endswith(".json")
        marked.append(f"{word}={STANDARD_OUTPUT}" if word == "--json" and not is_file else word)
    return marked


_Command = TypeVar("_Command", bound=Callable[..., Any])


def table_option(name: str, text: str | None = None) -> Callable[[_Command], _Command]:
    """Returns a decorator that adds an option of the table to a command, with `text` as its help if that is given."""

    def decorated(command: _Command) -> _Command:
        command.__dict__.setdefault("__click_params__", []).append(click_option(BY_NAME[name], text=text))
        return command

    return decorated


def repeat_command(name: str, given: Mapping[str, Any], options: Iterable[Option]) -> str:
    """Returns the command that repeats these values, regardless of the layer of settings that each came from."""
    words = ["recovery", *name.split()]
    for option in options:
        value = given.get(option.key)
        if value in (None, False, ()) or value == option.default:
            continue
        for word in value if isinstance(value, tuple) else (value,):
            if word is True:
                words.append(option.flag)
            elif option.alone is not None:
                words.append(f"{option.flag}={_in_any_folder(option, word)}")
            else:
                words += [option.flag, _in_any_folder(option, word)]
    return shlex.join(words)


def _in_any_folder(option: Option, value: Any) -> str:
    """Returns the value as a text that means the same in every working directory."""
    text = str(value).removesuffix(".0") if isinstance(value, float) else str(value)
    if option.kind is Kind.PATH and text != option.alone:
        return str(values.absolute_path(value))
    if option.kind is Kind.OWN_SERVER:
        return values.absolute_own_server(text)
    return shlex.join(values.split_command(text)) if option.kind is Kind.COMMAND else text


def refuse_unused_variables(environment: Mapping[str, str], command: click.Command) -> None:
    """Raises UsageError for a variable that this command would silently ignore."""
    known = {parameter.envvar for parameter in command.params}
    for option in SETTINGS:
        if option.variable in environment and option.variable not in known:
            hint = f"leave it out; `recovery {command.name} --help` has what it takes"
            if option.name == "every" and BY_NAME["repeat"].variable in environment:
                hint = "the time from the start of a session to that of the next is --repeat-every"
            text = f"{environment[option.variable]} has no effect on {command.name}"
            raise UsageError(text, hint, option=option.name)
