"""Which options does a measuring command take, and which layer set them? Line, environment, recovery.toml, default."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from recovery.errors import UsageError
from recovery.experiments.experiment import Asked, Experiment, Scenario
from recovery.linux.files import DEFAULT_RESULTS, read_limited, why_not_trusted
from recovery.linux.privileges import ALL, OPTION, RootStep
from recovery.mysqld.startup import DEFAULT_STALL_S
from recovery.profiling.samplers import AUTO, PROGRAMS
from recovery.workload.schema import split

# Which questions of the user's own are asked? A file of SQL statements, each under a name that nothing else has.

_NAME = re.compile(r"^--\s+(\S.*?)\s*$", re.MULTILINE)
_MOST_QUERY_BYTES = 1_000_000
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,30}")


def read_queries(path: Path, taken: Collection[str]) -> Iterator[tuple[str, str]]:
    """Each statement under the name in the comment right above it, or under its number. `taken` are the names of what
    is asked anyway: two of one name would be told as one."""
    text = _text(path)
    found = list(split([text]))
    if not found:
        raise UsageError(f"{path} holds no statement", "write SQL with a semicolon behind each statement")
    lines = dict.fromkeys((name.casefold() for name in taken), 0)
    at = 0
    for number, statement in enumerate(found, 1):
        here = text.index(statement, at)
        named = list(_NAME.finditer(text, at, here))
        name = named[-1][1] if named else f"query-{number}"
        line = 1 + text.count("\n", 0, named[-1].start() if named else here)
        if not _PLAIN.fullmatch(name):
            raise UsageError(
                f"{path}, line {line}: '{name}' is no name of a question",
                "use letters, digits, dots and dashes, 31 at most",
            )
        if (before := lines.setdefault(name.casefold(), line)) != line:
            what = f"line {before} has one of this name" if before else "the experiment has one of this name itself"
            raise UsageError(f"{path}, line {line}: '{name}' is the name of two questions: {what}", "call it otherwise")
        at = here + len(statement)
        yield name, statement


def _text(path: Path) -> str:
    try:
        text = read_limited(path, _MOST_QUERY_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"QUERIES: {path} is not UTF-8 text", "save it as UTF-8") from error
    except OSError as error:
        raise UsageError(f"QUERIES: {path} cannot be read: {error.strerror}", "check the path") from error
    if "\0" in text:
        raise UsageError(f"QUERIES: {path} is no text", "give a file of SQL statements")
    return text


PREFIX = "RECOVERY_"
CONFIG = "recovery.toml"
_MOST_BYTES = 65_536

# Settings of the tool itself, which are no options of a command.
_OWN = ("CACHE", "CONFIG", "HOST_LOCK")

_FLAGS = (
    "as_published", "trace", "floor", "no_drop_caches", "no_probe", "keep", "offline", "quiet", "profile", "waits",
)  # fmt: skip
_SEVERAL = ("version", "variant", "note", "option")
"""May be given again and again."""
_WHOLE = (
    *("tables", "schemas", "columns", "rows", "runs", "inserts", "read_iops", "read_bps", "memory"),
    *("seconds", "warmup", "threads", "load_tables", "pollers", "published_build", "budget", "seed", "depth", "only"),
)
_YES = "1"
"""STACKS=1, as one says it to make."""
_ALONE = {"stacks": AUTO, "no_root_steps": ALL}
"""What is meant by an option that may have a value and has none."""
FOLDER = click.Path(path_type=Path, readable=False)
"""What a folder is good for is looked at later, where it can be said what to do."""


class _Whole(click.types.StringParamType):
    """From the environment one value, blanks and all, where click would see a list."""

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        return (rv,)


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

NO_ROOT_STEPS: Decorator = click.option(
    OPTION, "no_root_steps", is_flag=False, flag_value=ALL, metavar="[STEP,...]", envvar=PREFIX + "NO_ROOT_STEPS",
    help=f"Take none of the steps that need root, or not these: {', '.join(RootStep)}.",
)  # fmt: skip

OPTIONS: tuple[Decorator, ...] = (
    click.option(
        "--version", "versions", multiple=True, metavar="VERSION", envvar=PREFIX + "VERSION",
        help="Servers, like 5.7.22 or mariadb-10.11.5; several separated by spaces.",
    ),
    click.option("--tables", metavar="N", envvar=PREFIX + "TABLES", help="Tables in each schema. [default: 200000]"),
    click.option("--schemas", metavar="N", envvar=PREFIX + "SCHEMAS", help="Number of schemas. [default: 1]"),
    click.option(
        "--layout", metavar="NAME", envvar=PREFIX + "LAYOUT",
        help="How tables lie: files, general (all in one file), partitioned or encrypted. [default: files]"
    ),
    click.option("--columns", metavar="N", envvar=PREFIX + "COLUMNS", help="Columns beside the key. [default: 0]"),
    click.option("--rows", metavar="N", envvar=PREFIX + "ROWS", help="Rows in each table. [default: 0]"),
    click.option("--database", metavar="NAME", envvar=PREFIX + "DATABASE", help="Schema's name. [default: discovery]"),
    click.option("--runs", metavar="N", envvar=PREFIX + "RUNS", help="Runs of every variant. [default: 5]"),
    click.option(
        "--data", type=FOLDER, envvar=PREFIX + "DATA",
        help="Where data directories live: a folder on the volume under test.",
    ),
    click.option(
        "--results", type=FOLDER, envvar=PREFIX + "RESULTS", default=DEFAULT_RESULTS,
        show_default=True, help="Where sessions are stored.",
    ),
    click.option(
        "--mysqld", metavar="PATH", envvar=PREFIX + "MYSQLD",
        help="Your own server: an executable, an unpacked tarball's folder, or a tarball's path or URL.",
    ),
    click.option("--archive", metavar="URL", envvar=PREFIX + "ARCHIVE", help="A mirror of the vendor's archive."),
    click.option(
        "--offline", is_flag=True, envvar=PREFIX + "OFFLINE", help="Fetch nothing: take what is in the cache."
    ),
    click.option(
        "--engine", type=click.Choice(["auto", "docker", "local"]), envvar=PREFIX + "ENGINE",
        help="What runs the servers: containers, or local processes. [default: auto, Docker where an engine answers]",
    ),
    click.option(
        "--image", metavar="NAME", envvar=PREFIX + "IMAGE", help="An image of your own that holds the server."
    ),
    click.option(
        "--registry", metavar="HOST", envvar=PREFIX + "REGISTRY",
        help="Where images are pulled from, in place of the engine's default."
    ),
    click.option(
        "--read-iops", metavar="N", envvar=PREFIX + "READ_IOPS",
        help="Hold the measured server to so many reads a second of the disk under the data.",
    ),
    click.option(
        "--read-bps", metavar="BYTES", envvar=PREFIX + "READ_BPS",
        help="And to so many bytes a second, like 100m (k, m and g are powers of 1024).",
    ),
    click.option(
        "--memory", metavar="BYTES", envvar=PREFIX + "MEMORY",
        help="And to so much memory, like 2g, its page cache included.",
    ),
    click.option("--cpus", metavar="N", envvar=PREFIX + "CPUS", help="And to so many CPUs, like 1.5."),
    click.option(
        "--set", "settings", multiple=True, metavar="NAME=VALUE", envvar=PREFIX + "SET",
        help="A mysqld option; may be repeated.",
    ),
    click.option(
        "--variant", "variants", multiple=True, metavar="NAME:OPTION=VALUE,...", envvar=PREFIX + "VARIANT",
        help="Settings to compare under a name, layout=NAME and schemas=N among them; repeated for each. NAME: alone "
        "is the server as it is.",
    ),
    click.option(
        "--template", type=click.Path(path_type=Path), envvar=PREFIX + "TEMPLATE", help="Your own schema template."
    ),
    click.option(
        "--insert-template", type=click.Path(path_type=Path), envvar=PREFIX + "INSERT_TEMPLATE",
        help="Your own insert script's template.",
    ),
    click.option(
        "--inserts", metavar="N", envvar=PREFIX + "INSERTS",
        help="Single-row inserts before the crash, each into the next table; 0 for none. [default: 100]",
    ),
    click.option(
        "--trace", is_flag=True, envvar=PREFIX + "TRACE",
        help="Find out which tables' files every timed start opens, and which had been modified."
    ),
    click.option(
        "--stacks", type=click.Choice([AUTO, *PROGRAMS, _YES]), is_flag=False, flag_value=AUTO, metavar="[PROGRAM]",
        envvar=PREFIX + "STACKS", callback=lambda _, __, given: AUTO if given == _YES else given,
        help=f"One more run of every variant, in no mean, with the server's stacks taken by {', '.join(PROGRAMS)}: "
        "the first of them that is here, or the one named.",
    ),
    click.option(
        "--floor", is_flag=True, envvar=PREFIX + "FLOOR",
        help="Read every table's first page with a plain program too: what the storage allows."
    ),
    click.option(
        "--baseline", metavar="VERSION", envvar=PREFIX + "BASELINE",
        help="The version that the others are compared with. [default: the first]",
    ),
    click.option(
        "--fail-over", metavar="PERCENT", envvar=PREFIX + "FAIL_OVER",
        help="Exit with 4 where a version is slower than the baseline by more than that, and significantly."
    ),
    click.option(
        "--as-published", is_flag=True, envvar=PREFIX + "AS_PUBLISHED",
        help="Leave in the cache what the insert script warmed, as was published."
    ),
    click.option(
        "--no-drop-caches", is_flag=True, envvar=PREFIX + "NO_DROP_CACHES",
        help=f"Never drop the whole host's caches: evict the files one by one. As {OPTION}={RootStep.DROP_CACHES}.",
    ),
    NO_ROOT_STEPS,
    click.option(
        "--no-probe", is_flag=True, envvar=PREFIX + "NO_PROBE",
        help="Do not try beforehand how fast the storage is at small reads."
    ),
    click.option(
        "--note", "notes", multiple=True, type=_Whole(), metavar="TEXT", envvar=PREFIX + "NOTE",
        help='Your own words for what no host tells, like "io2, 5000 IOPS"; may be repeated.',
    ),
    click.option(
        "--keep", is_flag=True, envvar=PREFIX + "KEEP",
        help="Never remove a data directory to make room for the next version.",
    ),
    click.option(
        "--stall", "stall_s", metavar="SECONDS", default=DEFAULT_STALL_S, type=click.FloatRange(1, 1e6),
        show_default=True, envvar=PREFIX + "STALL",
        help="A start is given up when neither log, CPU nor I/O has moved for so long.",
    ),
    click.option(
        "--quiet", is_flag=True, envvar=PREFIX + "QUIET", help="Nothing on standard error but errors and warnings."
    ),
    click.option("--dry-run", is_flag=True, help="Tell what would be run, and the disk, inodes and time it takes."),
    click.option("--json", "json_to", metavar="FILE", help="Write report.json there as well; - is standard output."),
)  # fmt: skip


FROM_ENVIRONMENT = (
    "VERSION", "TABLES", "SCHEMAS", "LAYOUT", "COLUMNS", "ROWS", "DATABASE", "RUNS", "DATA", "RESULTS", "MYSQLD",
    "ARCHIVE", "ENGINE", "IMAGE", "REGISTRY", "SET", "VARIANT", "TEMPLATE", "INSERT_TEMPLATE", "AS_PUBLISHED",
    "NO_DROP_CACHES", "KEEP", "STALL", "OFFLINE", "INSERTS", "TRACE", "STACKS", "FLOOR", "BASELINE", "FAIL_OVER",
    "READ_IOPS", "READ_BPS", "MEMORY", "CPUS", "NO_PROBE", "NOTE", "QUIET", "NO_ROOT_STEPS",
    # Of the experiments that put a server to work.
    "SECONDS", "WARMUP", "THREADS", "WORKLOAD", "LOAD_TABLES", "MEMORY_RATIO", "OPTION", "QUERIES", "POLLERS", "EVERY",
    "QUESTION", "PUBLISHED_BUILD", "SEED", "DEPTH", "ONLY", "PROFILE", "WAITS",
    # Of all experiments together.
    "BUDGET",
)  # fmt: skip


def measuring_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def refuse_empty_and_unknown(environment: Mapping[str, str]) -> None:
    """A variable that is set but empty is a slip of the caller's script, never a wish for the default."""
    for name, value in sorted(environment.items()):
        if not name.startswith(PREFIX):
            continue
        short = name.removeprefix(PREFIX)
        if not value.strip():
            raise UsageError(f"{short} is set but empty", f"give it a value, or unset {short} (and {name})")
        if short not in (*_OWN, *FROM_ENVIRONMENT):
            raise UsageError(f"{name} is no setting", "there are: " + ", ".join(FROM_ENVIRONMENT))


def refuse_empty_words(arguments: Sequence[str]) -> None:
    """`--tables ""` is the same slip, made on the command line."""
    for option, word in pairwise(("", *arguments)):
        name, equals, value = word.partition("=")
        if name.startswith("--") and equals and not value.strip():
            raise UsageError(f"{name} is set but empty", "give it a value, or leave it out")
        if not word.strip():
            raise UsageError(f"{option or 'an argument'} is set but empty", "give it a value, or leave it out")


def load_config(path: Path | None = None) -> dict[str, Any]:
    """recovery.toml of this folder (or RECOVERY_CONFIG): the layer under the environment."""
    named = os.environ.get(PREFIX + "CONFIG")
    path = path or Path(named or CONFIG)
    if not path.is_file():
        if named:
            raise UsageError(f"there is no file {path}", "RECOVERY_CONFIG names it; correct it or unset it")
        return {}
    if not named and (why := why_not_trusted(path)):  # it may name a server
        raise UsageError(f"{path} is not read: {why}", "go to another folder, or name the file in RECOVERY_CONFIG")
    try:
        return _as_defaults(tomllib.loads(read_limited(path, _MOST_BYTES).decode("utf-8")), path)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no valid TOML: {_reason(error)}", "correct it, or move it away") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", "see its permissions, or move it away") from error


def _reason(error: Exception) -> str:
    if isinstance(error, tomllib.TOMLDecodeError | UnicodeDecodeError):
        return str(error)
    return "it is nested too deeply" if isinstance(error, RecursionError) else "a number in it has too many digits"


def _as_defaults(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """By the names of click's parameters. The names in the file are those of the environment, in small letters."""
    parameters = {
        "version": "versions", "stall": "stall_s", "set": "settings", "variant": "variants", "note": "notes",
        "option": "options", "question": "parts",
    }  # fmt: skip
    defaults: dict[str, Any] = {}
    for name, value in content.items():
        key = name.replace("-", "_")
        if key.upper() not in FROM_ENVIRONMENT:
            known = ", ".join(one.lower() for one in FROM_ENVIRONMENT)
            raise UsageError(f"{path} has an unknown setting '{name}'", f"known are: {known}")
        defaults[parameters.get(key, key)] = _value(key, value, path)
    return defaults


def _value(key: str, value: object, path: Path) -> object:
    if key == "set":
        if not isinstance(value, dict):
            raise UsageError(f"{path}: 'set' is no table", "write [set], and below it lines like name = value")
        return tuple(f"{option}={setting}" for option, setting in value.items())
    if key in _SEVERAL and isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(value)
    if key in _ALONE and value is True:
        return _ALONE[key]
    wanted = {**dict.fromkeys(_FLAGS, bool), "stall": int | float}.get(key, str)
    if key in _WHOLE:
        wanted = int | str
    if key in ("cpus", "every", "memory_ratio"):
        wanted = int | float | str
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        raise UsageError(f"{path}: '{key}' cannot be {value!r}", 'text stands in quotes, like version = "5.7.22"')
    if isinstance(value, str) and not value.strip():
        raise UsageError(f"{path}: '{key}' is set but empty", "give it a value, or remove the line")
    if key in _SEVERAL:
        return (value,)
    return str(value) if isinstance(value, int | float) and wanted is not bool and key != "stall" else value


def repeat_command(name: str, given: Sequence[tuple[str, object]]) -> str:
    """The command that repeats this session, whatever layer its settings came from."""
    words = ["recovery", name]
    for option, value in given:
        if value is True:
            words.append(option)
        elif value not in (None, False):
            words += [option, str(value)]
    return shlex.join(words)


# Which options do the experiments take that put a server to work, and which are for starts alone?

ONLY_STARTS = frozenset(
    ("layout", "columns", "database", "template", "insert_template", "inserts", "trace", "stacks", "floor", "fail_over",
     "as_published")
)  # fmt: skip

_OPTION = click.option(
    "--option", "options", multiple=True, metavar="NAME=VALUE,...", envvar=PREFIX + "OPTION",
    help="An option of the server, and the values to measure it at: table_open_cache=400,4000; may be repeated.",
)  # fmt: skip
_LOADS: tuple[Decorator, ...] = (
    click.option(
        "--seconds", metavar="N", envvar=PREFIX + "SECONDS", help="Of each measured load. [default: 60]"
    ),
    click.option(
        "--warmup", metavar="N", envvar=PREFIX + "WARMUP", help="Seconds of the same load before it. [default: 10]"
    ),
    click.option(
        "--threads", metavar="N...", envvar=PREFIX + "THREADS", help='Clients of the load at a time; several: "1 4 16".'
    ),
    click.option(
        "--workload", metavar="NAME...", envvar=PREFIX + "WORKLOAD",
        help="What they do: point-select, read-only, read-write, update-nokey …, or a script of your own for sysbench.",
    ),
    click.option(
        "--load-tables", metavar="N...", envvar=PREFIX + "LOAD_TABLES", help="How many of the tables the load uses."
    ),
    click.option(
        "--memory-ratio", metavar="X", envvar=PREFIX + "MEMORY_RATIO",
        help="Data so many times as large as the buffer pool: 0.5, or 4. [default: it fits]",
    ),
    _OPTION,
)  # fmt: skip
_QUERIES = click.option(
    "--queries", type=click.Path(path_type=Path), envvar=PREFIX + "QUERIES",
    help="A file of your own questions, SQL statements with a semicolon each; `-- NAME` above one names it.",
)  # fmt: skip
_POLLS: tuple[Decorator, ...] = (
    click.option(
        "--pollers", metavar="N", envvar=PREFIX + "POLLERS", help="Clients that ask beside the load. [default: 1]"
    ),
    click.option(
        "--every", metavar="SECONDS", envvar=PREFIX + "EVERY",
        help="Pause between an answer and the next question. [default: 0]",
    ),
)  # fmt: skip
_PARTS = click.option(
    "--question", "parts", metavar="NAME...", envvar=PREFIX + "QUESTION", help="Ask these alone, of all there are."
)
_PUBLISHED = click.option(
    "--published-build", metavar="N", envvar=PREFIX + "PUBLISHED_BUILD",
    help="Make N tables as was published, too: one client, one by one. What all would take is told from them.",
)  # fmt: skip
_PROFILE = click.option(
    "--profile", is_flag=True, envvar=PREFIX + "PROFILE",
    help="One more run of every variant, in no mean, with a profile of the server by perf.",
)  # fmt: skip
_WAITS = click.option(
    "--waits", is_flag=True, envvar=PREFIX + "WAITS",
    help="One more run of every variant, in no mean, in which the server counts its waits for every mutex and lock.",
)  # fmt: skip
_EXTRAS = (_PROFILE, _WAITS)
_DEPTH = click.option(
    "--depth", metavar="N", envvar=PREFIX + "DEPTH",
    help="Kill a recovery so many times, at most, before it may come to its end. [default: 3]",
)  # fmt: skip
_CHANCE: tuple[Decorator, ...] = (
    click.option(
        "--seed", metavar="N", envvar=PREFIX + "SEED",
        help="Of all that is left to chance: the same one brings the same moments again. [default: 1]",
    ),
    click.option(
        "--only", metavar="N", envvar=PREFIX + "ONLY",
        help="Of all runs of each cell that of this number alone: one that failed, again.",
    ),
)  # fmt: skip

OWN: dict[str, tuple[Decorator, ...]] = {
    "metadata": (_QUERIES, _PUBLISHED, *_EXTRAS),
    "interference": (*_LOADS, _QUERIES, *_POLLS, *_EXTRAS),
    "table-cache": (*_LOADS, *_EXTRAS),
    "write-scaling": (*_LOADS, _PARTS, *_EXTRAS),
    "crash-matrix": (_OPTION, _PARTS, *_CHANCE, _DEPTH),
    "damage": (_PARTS, *_CHANCE),
}
"""By scenario."""
_DEFAULT = re.compile(r" \[default: [^]]*\]$")
_COMPARED = "Settings to compare under a name; repeated for each. NAME: alone is the server as it is."
"""Of loads: their tables lie in one way alone."""


def working_options(scenario: Scenario) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Those that all measuring commands share, and its own, with the defaults that hold for it."""
    experiment = scenario.experiment
    assert experiment is not None, "it times starts"
    loads = experiment.template is not None
    foreign = ONLY_STARTS | ({"schemas"} if loads else set())
    shared = zip(OPTIONS, parameters_of(OPTIONS), strict=True)
    chosen = (*(option for option, known in shared if known.name not in foreign), *OWN[scenario.name])

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(chosen):
            command = option(command)
        if loads:
            known = _put_on(command)
            known["tables"].help = "Tables, all in one schema."
            known["variants"].help = _COMPARED
        return with_defaults(command, _usual(experiment))

    return decorated


def _usual(experiment: Experiment) -> Mapping[str, str]:
    schema = experiment.schema
    nouns = {
        "tables": schema.tables,
        "schemas": schema.databases,
        "rows": schema.rows,
        "runs": experiment.runs,
        "seconds": experiment.seconds,
        "warmup": Asked.warmup_s,
    }
    return {name: str(value) for name, value in nouns.items()} | dict(experiment.usual)


def with_defaults(command: Callable[..., Any], usual: Mapping[str, str]) -> Callable[..., Any]:
    """Its help tells these; what stands there is what holds for starts."""
    for name, option in _put_on(command).items():
        if name in usual:
            option.help = f"{_DEFAULT.sub('', option.help or '')} [default: {usual[name]}]"
    return command


def _put_on(command: Callable[..., Any]) -> dict[str, click.Option]:
    """By name."""
    given: list[click.Parameter] = command.__click_params__  # type: ignore[attr-defined]
    return {str(one.name): one for one in given if isinstance(one, click.Option)}


def refuse_foreign(environment: Mapping[str, str], command: click.Command) -> None:
    """A variable that is for another command would be silently ignored, and something else measured than was meant."""
    known = {str(parameter.envvar) for parameter in command.params if isinstance(parameter, click.Option)}
    for short in FROM_ENVIRONMENT:
        if PREFIX + short in environment and PREFIX + short not in known:
            raise UsageError(
                f"{short}={environment[PREFIX + short]} says nothing to {command.name}",
                f"leave {short} out; `recovery {command.name} --help` has what it takes",
            )


def repeated_work(scenario: str, given: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """What was given of an experiment's own options, as it was given."""
    for parameter in parameters_of(OWN[scenario]):
        value = given.get(str(parameter.name))
        values = value if isinstance(value, tuple) else (value,)
        yield from ((parameter.opts[0], one) for one in values)


def parameters_of(options: tuple[Decorator, ...]) -> list[click.Parameter]:
    def nothing() -> None: ...

    for option in reversed(options):
        option(nothing)
    found: list[click.Parameter] = nothing.__click_params__  # type: ignore[attr-defined]
    return found[::-1]
