"""Three targets: names of versions, values of options, and whole command lines.

Each accepted value can be given again in the form in which the tool prints it, and means the same."""

from __future__ import annotations

import io
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, redirect_stdout, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest import mock
from zlib import crc32

import click

from fuzzing.target import Target, temporary_folder, text_of
from recovery.builds import catalog
from recovery.builds.resolve import DEBIAN_NAMES, check_registry, parse_request, registry_names
from recovery.cli.measure import NOT_OF_REQUEST
from recovery.cli.measuring_command import MeasuringCommand
from recovery.cli.options import BY_NAME
from recovery.cli.parse import make_request
from recovery.cli.settings import refuse_empty_words
from recovery.cli.values import (
    MAX_TABLES,
    parse_count,
    parse_identifier,
    parse_layout,
    parse_notes,
    parse_points,
    parse_settings,
    parse_share,
    parse_variants,
    split_versions,
    variant_text,
)
from recovery.errors import RecoveryError
from recovery.experiments import EXPERIMENTS
from recovery.linux.cgroups import format_bytes, limits_text
from recovery.linux.privileges import EVERY_STEP, refuse_steps
from recovery.logs.phases import file_access_of
from recovery.model import CAPABILITIES, Limits, can, crashes_with_tables, limits_from_settings, parse_version
from recovery.mysqld.options import base_settings, canonical_name, merge
from recovery.session.request import Request

# --- Versions

_SLOW_CHECKS = 32
"""One release in so many is checked for all its capabilities, which takes longer than parsing it."""
_SPELLINGS = (
    "5.7.22", "mariadb-10.11.5", "mysql:8.0.31", "percona-8.0.39-30", "8.0.39-30", "8.0.39-30.1-log", "5.6.27-log",
    "10.11.19-MariaDB-0+deb12u1", "10.2.11-MariaDB-log", " 9.7.4 ", "8.4", "percona:8.4", "mariadb-11", "5.7.22 8.0.31",
    "localhost:5000/mirror", "[::1]:5000", "999.999.9999", "05.07.022",
)  # fmt: skip


def check_version(data: bytes) -> None:
    text = text_of(data)
    for one in split_versions((text,)):
        assert one.split() == [one]
    with suppress(RecoveryError):
        registry = check_registry(text)
        assert registry.split() == [registry]
        assert registry.endswith("/")
    with suppress(RecoveryError):
        wanted = parse_request(text)
        assert wanted.fits(wanted.like)
        assert all(name.partition(":")[2] for name in registry_names(wanted, None))
    with suppress(ValueError):
        _check_release(text)


def _check_release(text: str) -> None:
    found = parse_version(text)
    assert parse_version(str(found)) == found
    assert parse_version(found.text) == found
    assert found.text == text.strip()
    file_access_of(found)
    if crc32(text.encode()) % _SLOW_CHECKS:
        return
    crashes_with_tables(found, 8001)
    base_settings(found, rundir=Path("/run"))
    for capability in CAPABILITIES:
        assert can(found, capability) in (True, False)


def _version_seeds() -> Iterator[bytes]:
    for text in (*_SPELLINGS, *DEBIAN_NAMES, *(row.version.text for row in catalog.pinned_servers())):
        yield text.encode()


VERSIONS = Target(
    "versions",
    check_version,
    _version_seeds,
    words=("mysql", "mariadb", "percona", "-log", "-debug", "-MariaDB", "debian-sid", "8.0.", "10.11."),
    max_bytes=64,
    share=6500,
)

# --- Values of options

Texts = tuple[str, ...]


def parse_limits(*given: object) -> Limits:
    """Returns the limits for the values of READ_IOPS, READ_BPS, MEMORY, CPUS and CPU_SET."""
    names = ("read_iops", "read_bps", "memory", "cpus", "cpu_set")
    return Limits(*(BY_NAME[name].value_of(value) for name, value in zip(names, given, strict=False)))


def _limits(*given: str | None) -> None:
    found = parse_limits(*given)
    read_bps, memory = (None if size is None else format_bytes(size) for size in (found.read_bps, found.memory_bytes))
    assert parse_limits(found.read_iops, read_bps, memory, found.cpus, found.cpu_set) == found
    assert limits_from_settings(asdict(found)) == found
    assert limits_text(found)


def _set(texts: Texts) -> None:
    found = parse_settings(texts)
    assert parse_settings(tuple(f"{name}={value}" for name, value in found)) == found
    assert merge(dict(found)) == dict(found)
    assert all(canonical_name(name) == name for name, _ in found)


def _variants(texts: Texts) -> None:
    found = parse_variants(texts)
    assert parse_variants(tuple(map(variant_text, found))) == found


def _points(texts: Texts) -> None:
    found = parse_points(texts[0])
    assert list(found) == sorted(set(found))


def _tables(texts: Texts) -> None:
    assert 1 <= parse_count(texts[0], MAX_TABLES) <= MAX_TABLES


def _share(texts: Texts) -> None:
    assert 0 <= parse_share(texts[0]) <= 100


def _note(texts: Texts) -> None:
    found = parse_notes(texts)
    assert found is None or parse_notes((found,)) == found


def _names(texts: Texts) -> None:
    with suppress(RecoveryError):
        assert parse_identifier(texts[0]).isascii()
    parse_layout(texts[0])


_VALUE_CHECKS: Mapping[str, Callable[[Texts], None]] = {
    "read-iops": lambda texts: _limits(texts[0], None, None, None),
    "read-bps": lambda texts: _limits(None, texts[0], None, None),
    "memory": lambda texts: _limits(None, None, texts[0], None),
    "cpus": lambda texts: _limits(None, None, None, texts[0]),
    "cpu-set": lambda texts: _limits(None, None, None, None, texts[0]),
    "set": _set,
    "variant": _variants,
    "tables": _tables,
    "points": _points,
    "fail-over": _share,
    "note": _note,
    "database": _names,
}


def check_setting(data: bytes) -> None:
    """The first line names the option, or else it is any option; each of the others is a value of it."""
    name, *texts = text_of(data).split("\n")
    check = _VALUE_CHECKS.get(name) or tuple(_VALUE_CHECKS.values())[crc32(data) % len(_VALUE_CHECKS)]
    with suppress(RecoveryError):
        check(tuple(texts) or (name,))


_VALUES = (
    "read-iops\n5000", "read-iops\n5_000", "read-bps\n100m", "read-bps\n1.5GiB", "read-bps\n65536", "memory\n2g",
    "memory\n200000001", "memory\n0.5t", "cpus\n1.5", "cpus\n.5", "cpus\n0.1234567",
    "set\ninnodb_io_capacity=2000\n--Skip-Name-Resolve\nloose_innodb-x=a b", "set\ninnodb_force_recovery=1",
    "variant\nsmall:innodb_open_files=300,table_open_cache=100\nusual:",
    "variant\none: layout = general, schemas=10", "tables\n200_000", "points\n1000 10000,50000", "fail-over\n10%",
    "fail-over\n12.5", "note\nio2, 5000 IOPS\nfrom a snapshot", "database\ndiscovery", "database\ngeneral",
)  # fmt: skip

SETTINGS = Target(
    "settings",
    check_setting,
    lambda: (value.encode() for value in _VALUES),
    words=(
        *(f"{name}\n" for name in _VALUE_CHECKS), "loose_", "skip_", "layout=", "schemas=", "innodb_", ":", "GiB", "kb",
    ),
    max_bytes=256,
    share=3100,
)  # fmt: skip

# --- Command lines

_COMMANDS = {name: MeasuringCommand(name) for name in EXPERIMENTS}
_READS_A_FILE = "--queries"
"""It may name any file, also one without an end."""
_KEPT_ENVIRONMENT = ("HOME", "PATH")

_LINES = """
cold-recovery --version 5.7.22 --tables 20000 --runs 3
cold-recovery --tables 20 --runs 1 --engine local --data /mnt/data --results /mnt/results --no-probe
crash-recovery --version "5.6.24 5.7.22 8.0.31 mariadb-10.11.5" --baseline 5.7.22 --fail-over 10%
warm-recovery --memory 2g --cpus 1.5 --read-iops 5000 --read-bps 100m --schemas 10 --columns 3 --rows 10
clean-start --mysqld ~/mysql/bin/mysqld --set innodb_force_recovery=1 --set skip-name-resolve --stall 60 --keep
cold-recovery --image my/mysql:patched --note "io2, 5000 IOPS" --note "read once" --inserts 0 --as-published
cold-recovery --archive http://mirror/mysql --offline --stacks --trace --floor --no-drop-caches --database t
cold-recovery --template t.sql.j2 --insert-template ~/i.sql.j2 --registry localhost:5000 --engine docker
scale --tables "1000 10000 50000" --predict 1000000 --version 8.0.31 --version 5.7.22
cold-recovery --variant small:innodb_open_files=300,table_open_cache=100 --variant usual: --variant "f:skip_x="
crash-recovery --layout partitioned --variant "g:layout=general" --variant "m:schemas=10" --tables 100
metadata --tables 100 --schemas 10 --published-build 50 --profile --waits
interference --pollers 4 --every 0.5 --seconds 5 --warmup 0 --threads "1 4" --tables 400 --rows 10
table-cache --option table_open_cache_instances=1,8 --load-tables "1 2" --workload "point-select read-only"
write-scaling --question "scaling doublewrite" --memory-ratio 4 --seconds 10 --set sync_binlog=0
crash-matrix --question "load power-loss" --option innodb_doublewrite=0,1 --seed 7 --depth 2 --runs 5
damage --question "missing flipped" --seed 3 --unprivileged --tables 20
"""


def check_command(data: bytes) -> None:
    """The first line is the command, and each of the others a word of it."""
    name, *words = text_of(data).replace("\0", "").split("\n")
    name = name if name in _COMMANDS else "cold-recovery"
    if any(word.startswith(_READS_A_FILE) for word in words):
        return
    with _empty_environment():
        try:
            request = _request(name, words)
        except (RecoveryError, click.ClickException, click.exceptions.Exit):
            return
        program, command, *rest = shlex.split(request.command)
        assert (program, command) == ("recovery", name)
        repeated = _request(name, rest)
        assert repeated == request


def _request(name: str, words: Sequence[str]) -> Request:
    refuse_empty_words(words)
    # --help is printed.
    with redirect_stdout(io.StringIO()), _COMMANDS[name].make_context(name, list(words)) as context:
        given: dict[str, Any] = dict(context.params)
    for beside in NOT_OF_REQUEST:
        given.pop(beside, None)
    return make_request(name, given)


@contextmanager
def _empty_environment() -> Iterator[None]:
    """No stored sessions, no settings, and no step that needs root, such as a trial mount."""
    kept = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    with (
        temporary_folder() as folder,
        chdir(folder),
        mock.patch.dict(os.environ, {**kept, "RECOVERY_CACHE": str(folder)}, clear=True),
        refuse_steps(EVERY_STEP),
    ):
        yield


COMMANDS = Target(
    "commands",
    check_command,
    lambda: ("\n".join(shlex.split(line)).encode() for line in _LINES.strip().split("\n")),
    words=(
        *_COMMANDS,
        *(option for command in _COMMANDS.values() for one in command.params for option in one.opts),
        "\n", "=", ",", "~", "layout=", "schemas=", "loose_", "table_open_cache_instances",
    ),
    max_bytes=512,
    share=10,
)  # fmt: skip
