"""Is any command line a session that can be measured, or refused? One that can is repeated by the command that it tells
of itself."""

from __future__ import annotations

import io
import math
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, redirect_stdout
from dataclasses import replace
from typing import Any
from unittest import mock

import click

from fuzzing.target import Target, a_folder, text_of
from recovery.cli.commands import MeasuringCommand
from recovery.cli.parse import make_request
from recovery.cli.settings import refuse_empty_words
from recovery.errors import RecoveryError
from recovery.experiments import EXPERIMENTS
from recovery.linux.privileges import EVERY_STEP, refuse_steps
from recovery.session.request import Request

_COMMANDS = {name: MeasuringCommand(name) for name in EXPERIMENTS}
_USUAL = "cold-recovery"
_READS_A_FILE = "--queries"
"""Any file: also one that has no end."""
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


def check(data: bytes) -> None:
    """The first line is the command, each of the others a word of it."""
    name, *words = text_of(data).replace("\0", "").split("\n")
    name = name if name in _COMMANDS else _USUAL
    if any(word.startswith(_READS_A_FILE) for word in words):
        return
    with _nowhere():
        try:
            request = _request(name, words)
        except (RecoveryError, click.ClickException, click.exceptions.Exit):
            return
        begun, again, *rest = shlex.split(request.command)
        assert (begun, again) == ("recovery", name)
        assert _same(_request(name, rest), request)


def _request(name: str, words: Sequence[str]) -> Request:
    refuse_empty_words(words)
    return make_request(name, _given(name, words))


def _given(name: str, words: Sequence[str]) -> Mapping[str, Any]:
    # --help is printed.
    with redirect_stdout(io.StringIO()), _COMMANDS[name].make_context(name, list(words)) as context:
        given = dict(context.params)
    return {key: value for key, value in given.items() if key not in ("dry_run", "json_to", "quiet")}


def _same(one: Request, other: Request) -> bool:
    """A percentage is told with twelve figures."""
    alike = replace(one, fail_over=None, command="") == replace(other, fail_over=None, command="")
    return alike and math.isclose(one.fail_over or 0.0, other.fail_over or 0.0, rel_tol=1e-9)


@contextmanager
def _nowhere() -> Iterator[None]:
    """Where nothing was measured, nobody has set anything, and nothing is mounted to see whether it can be."""
    kept = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    with (
        a_folder() as folder,
        chdir(folder),
        mock.patch.dict(os.environ, {**kept, "RECOVERY_CACHE": str(folder)}, clear=True),
        refuse_steps(EVERY_STEP),
    ):
        yield


def _seeds() -> Iterator[bytes]:
    for line in _LINES.strip().split("\n"):
        yield "\n".join(shlex.split(line)).encode()


TARGET = Target(
    "commands",
    check,
    _seeds,
    words=(
        *_COMMANDS,
        *(option for command in _COMMANDS.values() for one in command.params for option in one.opts),
        "\n", "=", ",", "~", "layout=", "schemas=", "loose_", "table_open_cache_instances",
    ),
    most_bytes=512,
    share=10,
)  # fmt: skip
