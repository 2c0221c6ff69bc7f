"""What is asked of an experiment: its options, each checked before anything is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recovery.commands.asked import make_request
from recovery.commands.measure import commands
from recovery.commands.options import FROM_ENVIRONMENT, OPTIONS
from recovery.errors import UsageError
from recovery.model import NO_LIMITS
from recovery.request import Request

EVERY: dict[str, Any] = {
    **dict.fromkeys(
        ("tables", "schemas", "rows", "runs", "data", "mysqld", "archive", "engine", "image", "registry", "read_iops",
         "read_bps", "memory", "cpus", "baseline")
    ),
    **dict.fromkeys(("versions", "settings", "variants", "notes"), ()),
    **dict.fromkeys(("offline", "no_drop_caches", "no_probe", "keep"), False),
    "stall_s": 300.0, "results": Path("results"),
}  # fmt: skip


def asked(scenario: str, **given: Any) -> Request:
    return make_request(scenario, {**EVERY, **given})


def refused(scenario: str, **given: Any) -> UsageError:
    with pytest.raises(UsageError) as error:
        asked(scenario, **given)
    return error.value


def test_without_a_word_it_is_as_published() -> None:
    request = asked("metadata")
    assert (request.schema.tables, request.schema.databases, request.runs) == (10_000, 100, 3)
    assert request.schema.database_names[0] == "s_1"
    assert request.inserts == 0
    assert dict(request.own_settings)["loose_information_schema_stats_expiry"] == "0"
    request = asked("interference")
    assert (request.schema.tables, request.schema.foreign_keys) == (10_000, 20)
    assert request.work is not None
    assert (request.work.seconds, request.work.warmup_s) == (60, 10)


def test_what_is_given_is_taken() -> None:
    request = asked(
        "table-cache", seconds="5", warmup="0", threads="4 1,4", workload="read-only", load_tables="2", rows="77",
        options=("table_open_cache=400,4000", "innodb-thread-concurrency=8"), memory_ratio="0.5",
    )  # fmt: skip
    work = request.work
    assert work is not None
    assert (work.seconds, work.warmup_s, work.threads, work.load_tables) == (5, 0, (1, 4), (2,))
    assert work.options == (("table_open_cache", ("400", "4000")), ("innodb_thread_concurrency", ("8",)))
    assert (request.schema.rows, work.memory_ratio) == (77, 0.5)
    assert "--option table_open_cache=400,4000 --option innodb-thread-concurrency=8" in request.command
    assert "--threads '4 1,4'" in request.command
    assert "--template" not in request.command


def test_the_users_settings_win_over_the_experiments_own() -> None:
    request = asked("metadata", settings=("innodb_buffer_pool_size=64M",))
    assert request.lasting_settings["innodb_buffer_pool_size"] == "64M"
    assert dict(asked("metadata").own_settings)["innodb_buffer_pool_size"] != "64M"


def test_a_file_of_questions(tmp_path: Path) -> None:
    file = tmp_path / "mine.sql"
    file.write_text("-- one\nselect 1;\nselect ';';\n-- not this\n-- three\nselect 3\n;\n")
    request = asked("metadata", queries=file)
    assert request.work is not None
    assert request.work.queries == (("one", "select 1"), ("query-2", "select ';'"), ("three", "select 3"))
    (tmp_path / "empty.sql").write_text("-- nothing\n")
    assert "holds no statement" in refused("metadata", queries=tmp_path / "empty.sql").message
    file.write_text("-- a/b\nselect 1;\n")
    assert "'a/b' is no name" in refused("metadata", queries=file).message
    assert "cannot be read" in refused("metadata", queries=tmp_path / "missing.sql").message


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"seconds": "0"}, "SECONDS=0 makes no sense"),
        ({"seconds": "x"}, "SECONDS=x makes no sense"),
        ({"warmup": "-1"}, "WARMUP=-1 makes no sense"),
        ({"threads": "0"}, "THREADS=0 makes no sense"),
        ({"threads": "many"}, "THREADS=many makes no sense"),
        ({"options": ("table_open_cache",)}, "names no values"),
        ({"options": ("table_open_cache=,",)}, "names no values"),
        ({"options": ("datadir=/x",)}, "is set by the tool itself"),
        ({"memory_ratio": "-2"}, "MEMORY_RATIO=-2 makes no sense"),
        ({"memory_ratio": "nan"}, "MEMORY_RATIO=nan makes no sense"),
        ({"load_tables": "4"}, "LOAD_TABLES=4 is more than there are tables (3)"),
        ({"schemas": "2"}, "SCHEMAS=2: a load uses the tables of one schema"),
        ({"rows": "0"}, "--rows=0 makes no sense"),
        ({"workload": "dance"}, "no workload is called dance"),
    ],
)
def test_nonsense_is_refused(given: dict[str, Any], words: str) -> None:
    assert words in refused("table-cache", **given).message


def test_foreign_keys_need_tables() -> None:
    assert "has no room for 20 foreign keys" in refused("interference", tables="39").message


def test_every_option_of_an_experiment_can_come_from_the_environment() -> None:
    for command in commands():
        for parameter in command.params:
            if parameter.envvar is not None:
                assert str(parameter.envvar).removeprefix("RECOVERY_") in FROM_ENVIRONMENT


def test_experiments_take_what_all_take_and_nothing_of_starts() -> None:
    taken = {command.name: {str(parameter.name) for parameter in command.params} for command in commands()}
    assert taken["table-cache"] & {"trace", "inserts", "floor", "as_published"} == set()
    assert {"read_iops", "versions", "runs", "settings", "variants"} <= taken["table-cache"]
    assert "seconds" not in taken["cold-recovery"]
    assert len(taken["cold-recovery"]) == len(OPTIONS)
    assert "pollers" not in taken["table-cache"]
    assert "pollers" in taken["interference"]


def test_limits_scale_the_experiment() -> None:
    small = asked("write-scaling", memory=str(512 << 20), cpus="1", rows="20000")
    assert small.limits != NO_LIMITS
    assert int(dict(small.own_settings)["innodb_buffer_pool_size"]) <= 256 << 20
    assert max(int(dict(work.axes)["threads"]) for work in small.works) == 4
