"""The options of experiments are checked before anything is changed."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from asking import asked, refused

from recovery.cli.measure import request_from_arguments
from recovery.cli.measuring_command import MeasuringCommand
from recovery.cli.plan_text import print_plan
from recovery.errors import UsageError
from recovery.experiments import EXPERIMENTS, find_experiment
from recovery.model import NO_LIMITS, Build, ExtraRun, parse_version
from recovery.report.console import ReportConsole
from recovery.session.plan import datadir_specs
from recovery.session.prepare import plan_ahead, plan_session
from recovery.session.request import Request
from recovery.session.store import session_from_request

WORK = ("metadata", "interference", "table-cache", "write-scaling")


def work_of(request: Request) -> Any:
    return request.experiment_options


# -- what a request contains


def test_crash_recovery_and_metadata_can_have_the_same_tables() -> None:
    of_metadata = asked("metadata", tables="50", schemas="4")
    same = {"tables": "50", "schemas": "4", "columns": "1", "database": "s", "statistics": "on"}
    recovery = asked("cold-recovery", **same)
    assert recovery.sizes.schema == of_metadata.sizes.schema
    assert dict(recovery.stored_settings)["statistics"] is True
    assert "--statistics on" in recovery.command
    assert not asked("metadata", statistics="off").sizes.schema.statistics
    assert "--statistics" not in asked("cold-recovery").command


def test_character_sets_are_an_axis_with_a_data_directory_each() -> None:
    request = asked("table-cache", charset="latin1 utf8mb4", threads="1", workload="read-only")
    specs = datadir_specs([parse_version("8.0.31")], request.all_variants)
    assert [one.schema(request.sizes.schema).charset for one in specs] == ["latin1", "utf8mb4"]
    assert {dict(one.axes)["charset"] for one in request.all_variants} == {"latin1", "utf8mb4"}
    assert "charset" not in dict(asked("table-cache").all_variants[0].axes)


def test_the_table_cache_is_planned_for_the_files_that_servers_may_open() -> None:
    request = asked("interference", open_files="40000")
    assert "19485" in {
        value for spec in request.variant_specs for name, value in spec.axes if name == "table_open_cache"
    }
    assert "--open-files 40000" in request.command
    assert dict(request.stored_settings)["open_files"] == 40_000


def test_the_published_scale_has_the_published_sizes() -> None:
    request = asked("metadata")
    assert (request.sizes.schema.tables, request.sizes.schema.databases, request.sizes.runs) == (10_000, 100, 3)
    assert request.sizes.schema.database_names[0] == "s_1"
    assert request.sizes.inserts == 0
    assert dict(request.settings_of_experiment)["loose_information_schema_stats_expiry"] == "0"
    request = asked("interference")
    assert (request.sizes.schema.tables, request.sizes.schema.foreign_keys) == (10_000, 20)
    assert (work_of(request).seconds, work_of(request).warmup_s) == (60, 10)
    assert {dict(one.axes)["tables"] for one in request.variant_specs} == {"1000"}
    assert dict(request.settings_of_experiment)["loose_table_open_cache_instances"] == "1"


@pytest.mark.parametrize("scenario", WORK)
def test_without_a_scale_the_sizes_are_the_standard_ones(scenario: str) -> None:
    assert asked(scenario, scale=None) == asked(scenario, scale="standard") != asked(scenario)


def test_given_options_take_precedence_over_the_scale() -> None:
    request = asked("table-cache", scale="quick", seconds="7", threads="2", workload="point-select")
    work = work_of(request)
    assert (work.seconds, work.warmup_s, work.threads, work.workloads) == (7, 2, (2,), ("point-select",))
    assert (request.sizes.schema.tables, request.sizes.schema.rows, request.sizes.runs, work.load_tables) == (
        8,
        10_000,
        1,
        (1,),
    )


def test_a_stored_command_without_a_scale_has_the_standard_sizes() -> None:
    for words in ([], ["--scale", "standard"]):
        found = request_from_arguments("table-cache", words).experiment_options
        assert found == work_of(asked("table-cache", scale=None))


def test_a_dry_run_prints_the_sizes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    print_plan(asked("table-cache", scale="quick", threads="2", data=tmp_path), ReportConsole())
    line = "sizes: 8 tables; 10,000 rows in each; 3 variants, 1 run of each; loads of 5 s after 2 s"
    assert line in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("scale", [None, "quick", "standard", "published"])
@pytest.mark.parametrize("scenario", [name for name in EXPERIMENTS if name != "damage"])
def test_the_command_repeats_the_sizes(scenario: str, scale: str | None) -> None:
    of_starts = dict.fromkeys(("columns", "database", "layout", "template", "insert_template", "inserts", "fail_over"))
    flags = dict.fromkeys(("trace", "floor", "as_published"), False) | {"stacks": None}
    starts = of_starts | flags if "trace" in EXPERIMENTS[scenario].options else {}
    request = asked(scenario, scale=scale, versions=("8.0.31",), **starts)
    name, *words = shlex.split(request.command)[1:]
    assert request_from_arguments(name, words) == replace(request, command=request.command)
    assert plan_ahead(request).seconds < 1800 or scale == "published"


def test_given_options_are_used() -> None:
    request = asked(
        "table-cache", seconds="5", warmup="0", threads="4 1,4", workload="read-only", load_tables="2", rows="77",
        options=("table_open_cache=400,4000", "innodb-thread-concurrency=8"), memory_ratio="0.5",
    )  # fmt: skip
    work = work_of(request)
    assert (work.seconds, work.warmup_s, work.threads, work.load_tables) == (5, 0, (1, 4), (2,))
    assert work.options == (("table_open_cache", ("400", "4000")), ("innodb_thread_concurrency", ("8",)))
    assert (request.sizes.schema.rows, work.memory_ratio) == (77, 0.5)
    assert "--option table_open_cache=400,4000 --option innodb-thread-concurrency=8" in request.command
    assert "--threads '4 1,4'" in request.command
    assert "--template" not in request.command


def test_settings_of_the_user_take_precedence() -> None:
    request = asked("metadata", settings=("innodb_buffer_pool_size=64M",))
    assert request.lasting_settings["innodb_buffer_pool_size"] == "64M"
    assert dict(asked("metadata").settings_of_experiment)["innodb_buffer_pool_size"] != "64M"


def test_limits_scale_the_experiment() -> None:
    small = asked("write-scaling", memory=str(512 << 20), cpus="1", rows="20000")
    assert small.servers.limits != NO_LIMITS
    assert int(dict(small.settings_of_experiment)["innodb_buffer_pool_size"]) <= 256 << 20
    assert max(int(dict(work.axes)["threads"]) for work in small.variant_specs) == 4


@pytest.mark.parametrize("scenario", WORK)
def test_stacks_and_waits_have_separate_runs(scenario: str) -> None:
    assert asked(scenario).method.extras == ()
    both = asked(scenario, profile=True, waits=True)
    assert both.method.extras == (ExtraRun.STACKS, ExtraRun.WAITS)
    assert both.command.endswith("--profile --waits")
    assert asked(scenario, waits=True).method.extras == (ExtraRun.WAITS,)


def test_only_repeats_one_run_of_each_cell() -> None:
    request = asked("crash-matrix", parts="shutdown", runs="20", only="17")
    plan = plan_session(request, [parse_version("8.0.31")])
    assert len(plan.trials) == len(request.all_variants) == 6
    assert {trial.repeat for trial in plan.trials} == {17}
    assert "--runs 1" in request.command
    assert "--only 17" in request.command


# -- queries from a file


def test_queries_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.sql"
    file.write_text("-- one\nselect 1;\nselect ';';\n-- not this\n-- three\nselect 3\n;\n")
    request = asked("metadata", queries=file)
    assert work_of(request).queries == (("one", "select 1"), ("query-2", "select ';'"), ("three", "select 3"))
    # Names of the experiment's own queries are free for polled ones. The file may have a BOM and other line ends.
    file.write_bytes(b"\xef\xbb\xbf-- Q1\r\nselect 1;\r\nselect 2;")
    assert work_of(asked("interference", queries=file)).queries == (("Q1", "select 1"), ("query-2", "select 2"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("-- one\nselect 1;\n\n-- two\nselect 2;\n-- One\nselect 3;", "line 6: 'One' is the name of two"),
        ("select 1;\n-- query-1\nselect 2;", "line 2: 'query-1' is the name of two queries: line 1 has"),
        ("select 0;\n-- Q1\nselect 1;", "line 2: 'Q1' is the name of two queries: the experiment has"),
        ("-- dump\nselect 1;", "line 1: 'dump' is the name of two"),
        ("-- dump-skip-lock-tables\nselect 1;", "line 1: 'dump-skip-lock-tables' is the name of two"),
        ("-- published-build\nselect 1;", "line 1: 'published-build' is the name of two"),
        ("-- a/b\nselect 1;\n", "mine.sql, line 1: 'a/b' is not a valid name"),
    ],
)
def test_an_invalid_or_repeated_name_of_a_query_is_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "mine.sql").write_text(text)
    assert words in refused("metadata", queries=tmp_path / "mine.sql").message


@pytest.mark.parametrize("scenario", ["metadata", "interference"])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file"),
        ("folder", "cannot be read: Is a directory"),
        (b"", "contains no statement"),
        (b"-- nothing\n", "contains no statement"),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
        (b"a\0b;", "is not a text file"),
    ],
)
def test_a_file_without_queries_is_refused(
    scenario: str, content: bytes | str | None, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.sql"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        path.mkdir()
    assert words in refused(scenario, queries=path).message


# -- questions that a version does not support


@pytest.mark.parametrize(("parts", "who"), [("redo-spinning", "MySQL 8.0.11"), ("lock-schedule", "MariaDB 10.2.3")])
def test_a_question_that_no_version_supports_is_refused(parts: str, who: str) -> None:
    error = refused("write-scaling", versions=("5.7.22", "5.6.24"), parts=parts)
    assert error.message == f"5.7.22 and 5.6.24 does not support {parts}, and nothing else was requested"
    assert f"{parts} needs {who} or later" in error.hint
    assert asked("write-scaling", versions=("5.7.22",), parts=f"{parts} scaling").variant_specs
    assert asked("write-scaling", versions=("8.0",), parts="redo-spinning").variant_specs, (
        "which 8.0 it is, is not known yet"
    )


def test_a_version_known_only_later_is_refused_before_anything_is_built() -> None:
    request = asked("write-scaling", image="mine", parts="redo-spinning")
    assert request.servers.versions == ()
    build = Build(parse_version("5.7.22"), Path("mysqld"), Path(), "f", "own")
    with pytest.raises(UsageError, match=r"5\.7\.22 does not support redo-spinning"):
        plan_session(request, [build.version], builds=[build])


def test_two_names_of_one_release_are_refused() -> None:
    """Nothing would be compared, and --fail-over would never be judged."""
    request = asked("cold-recovery", versions=("8.0", "8.0.31"))
    with pytest.raises(UsageError, match=r"two of the names mean 8\.0\.31"):
        plan_session(request, [parse_version("8.0.31")] * 2)


def test_the_baseline_must_be_measured() -> None:
    versions, spinning = ("5.7.22", "8.0.31"), "redo-spinning"
    error = refused("write-scaling", versions=versions, baseline="5.7.22", parts=spinning)
    assert "BASELINE: 5.7.22 has no trial: it does not support redo-spinning" in error.message
    request = asked("write-scaling", versions=versions, baseline="8.0.31", parts=spinning)
    noted = replace(request, unavailable=("Nor is that.",))
    plan = plan_session(noted, [parse_version(one) for one in versions])
    session = session_from_request(noted, find_experiment("write-scaling"), plan, environment={}, engine="local")
    assert (session.settings["baseline"], session.versions) == ("8.0.31", ("8.0.31",))
    assert session.notes == (
        "Nor is that.",
        "redo-spinning is not measured with 5.7.22: it needs MySQL 8.0.11 or later.",
    )


# -- invalid options


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"seconds": "0"}, "SECONDS: 0 is not valid"),
        ({"seconds": "x"}, "SECONDS: x is not valid"),
        ({"warmup": "-1"}, "WARMUP: -1 is not valid"),
        ({"runs": "0"}, "RUNS: 0 is not valid"),
        ({"tables": "0"}, "TABLES: 0 is not valid"),
        ({"rows": "0"}, "ROWS: 0 is not valid"),
        ({"threads": ","}, "THREADS: , has no value"),
        ({"threads": "0"}, "THREADS: 0 is not valid"),
        ({"threads": "many"}, "THREADS: many is not valid"),
        ({"workload": ","}, "WORKLOAD: , has no value"),
        ({"workload": "dance"}, "WORKLOAD: dance: there is no such"),
        ({"workload": "/tmp"}, "there is no script /tmp"),
        ({"workload": "nowhere.lua"}, "there is no script nowhere.lua"),
        ({"load_tables": "0"}, "LOAD_TABLES: 0 is not valid"),
        ({"load_tables": "4"}, "LOAD_TABLES: 4 is more than --tables 3"),
        ({"memory_ratio": "0"}, "MEMORY_RATIO: 0 is not valid"),
        ({"memory_ratio": "-2"}, "MEMORY_RATIO: -2 is not valid"),
        ({"memory_ratio": "nan"}, "MEMORY_RATIO: nan is not valid"),
        ({"options": ("=5",)}, "is not the name of a server option"),
        ({"options": ("table_open_cache",)}, "has no values"),
        ({"options": ("table_open_cache=,",)}, "has no values"),
        ({"options": ('table_open_cache=400,"4',)}, "contains a double quote, which an options file"),
        ({"options": ("table_open_cache_instances=8," + "9" * 300,)}, "larger than any number of a server"),
        ({"options": tuple(f"a{n}=1,2,3,4,5,6,7,8,9,10" for n in range(5))}, "more than 10,000 combinations"),
        ({"options": ("datadir=/x",)}, "is reserved for the tool itself"),
    ],
)
def test_invalid_options_are_refused(given: dict[str, Any], words: str) -> None:
    assert words in refused("table-cache", **given).message


@pytest.mark.parametrize(
    ("scenario", "given", "words"),
    [
        ("interference", {"pollers": "0"}, "POLLERS: 0 is not valid"),
        ("interference", {"every": "-1"}, "EVERY: -1 is not valid"),
        ("interference", {"every": "inf"}, "EVERY: inf is not valid"),
        ("interference", {"tables": "39"}, "is too few for 20 foreign keys"),
        ("metadata", {"published_build": "0"}, "PUBLISHED_BUILD: 0 is not valid"),
        ("metadata", {"schemas": "0"}, "SCHEMAS: 0 is not valid"),
        ("metadata", {"baseline": "5.6.24"}, "BASELINE: 5.6.24 is not measured"),
        (
            "metadata", {"variants": ("skip-lock-tables-x:tmp_table_size=1M", "x:tmp_table_size=2M")},
            "two variants have the name 'dump-skip-lock-tables-x'",
        ),
        ("write-scaling", {"parts": "speed"}, "QUESTION: speed: write-scaling has no such"),
        ("write-scaling", {"parts": ","}, "QUESTION: , has no value"),
        *[("crash-matrix", {"only": only}, "ONLY") for only in ("0", "-1", "all", "1000000")],
    ],
)  # fmt: skip
def test_invalid_options_of_one_experiment_are_refused(scenario: str, given: dict[str, Any], words: str) -> None:
    assert words in refused(scenario, **given).message


# -- the options of each command, and their help


def test_experiments_have_the_common_options_but_none_of_timed_starts() -> None:
    names = {name: {str(parameter.name) for parameter in MeasuringCommand(name).params} for name in EXPERIMENTS}
    assert names["table-cache"] & {"trace", "inserts", "floor", "as_published"} == set()
    assert {"read_iops", "versions", "runs", "settings", "variants"} <= names["table-cache"]
    assert "seconds" not in names["cold-recovery"]
    assert "pollers" not in names["table-cache"]
    assert "pollers" in names["interference"]


def help_of(name: str) -> dict[str, str]:
    command = MeasuringCommand(name)
    command.describe()
    return {str(one.name): str(getattr(one, "help", None)) for one in command.params}


@pytest.mark.parametrize("name", WORK)
def test_the_help_shows_the_defaults_of_an_experiment(name: str) -> None:
    request, text = asked(name, scale=None), help_of(name)
    work = work_of(request)
    usual = {
        "tables": request.sizes.schema.tables, "schemas": request.sizes.schema.databases,
        "rows": request.sizes.schema.rows,
        "runs": request.sizes.runs, "scale": "standard",
    }  # fmt: skip
    fields = {"seconds": "seconds", "warmup": "warmup_s", "pollers": "pollers", "every": "every_s"}
    usual |= {option: f"{getattr(work, field):g}" for option, field in fields.items() if option in text}
    for option in usual.keys() & text.keys():
        assert text[option].endswith(f" [default: {usual[option]}]"), option
    assert ("schemas" in text, "layout=NAME" in text["variants"]) == (name == "metadata",) * 2
