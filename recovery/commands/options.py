"""Which options does a measuring command take, and which layer set them? Line, environment, recovery.toml, default."""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from recovery.errors import UsageError
from recovery.files import read_limited
from recovery.ownership import why_not_trusted
from recovery.paths import DEFAULT_RESULTS
from recovery.rootsteps import ALL, OPTION, RootStep
from recovery.server.watcher import DEFAULT_STALL_S
from recovery.stacks.programs import AUTO, PROGRAMS

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
