"""An option is refused if a cell would then measure something else than its name says, or if a server lacks it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from asking import asked, refused

from recovery.cli.main import run
from recovery.errors import UsageError
from recovery.model import Build, parse_version
from recovery.session.engine import Engine
from recovery.session.option_checks import check_options
from recovery.session.prepare import plan_session
from recovery.session.request import Request

IO = "innodb_io_capacity=500"
BOTH = ("5.7.22", "8.0.31")


def write_scaling(parts: str, **given: Any) -> tuple[str, dict[str, Any]]:
    return "write-scaling", {"parts": parts, "threads": "2", **given}


@pytest.mark.parametrize(
    ("scenario", "given", "what", "to_do"),
    [
        ("interference", {"settings": ("table_open_cache=4000",)},
         "SET: table_open_cache=4000: interference measures at several values of table_open_cache",
         "give the values, like --option table_open_cache=4000,…; or leave it out"),
        ("interference", {"settings": ("loose-Table-Open-Cache=4000",)}, "SET: loose_table_open_cache=4000",
         "--option table_open_cache=4000,…"),
        ("interference", {"settings": ("table_cache=4000",)}, "several values of table_open_cache", "--option"),
        ("interference", {"variants": ("a:table_open_cache=1000", "b:")},
         "VARIANT: a:table_open_cache=1000: interference measures", "--option table_open_cache=1000,…"),
        ("interference", {"options": ("loose_table_open_cache=400,9000",)},
         "OPTION: loose_table_open_cache=400,9000: interference varies table_open_cache itself",
         "write it without a prefix to replace these values: --option table_open_cache="),
        ("interference", {"options": ("table_open_cache=400", "table-open-cache=9000")}, "is named twice",
         "--option table_open_cache=A,B"),
        ("interference", {"options": ("table_open_cache=400,9000",), "settings": ("table_open_cache=4000",)},
         "SET: table_open_cache=4000: --option table_open_cache=400,9000 already gives", "leave out one of the two"),
        ("table-cache", {"options": (IO,), "variants": ("a:innodb-io-capacity=9",)},
         "VARIANT: a:innodb_io_capacity=9: --option innodb_io_capacity=500 already gives", "leave out one of the two"),
        ("table-cache", {"memory_ratio": "2", "settings": ("innodb_buffer_pool_size=1G",)},
         "SET: innodb_buffer_pool_size=1G: --memory-ratio 2 sets the size of the buffer pool", "one of the two"),
        ("table-cache", {"memory_ratio": "2", "settings": ("innodb_buffer_pool_chunk_size=1G",)},
         "--memory-ratio 2 sets the size", "one of the two"),
        ("table-cache", {"variants": ("a:schemas=3", "b:")}, "a load uses tables of one schema", "leave layout="),
        ("table-cache", {"variants": ("a:layout=general", "b:")}, "'a' changes the layout", "and schemas= out"),
        ("metadata", {"variants": ("a:schemas=1", "b:")}, "the variant 'a' has no schema s_1", "more than one"),
        # Of write-scaling not all questions have something against it.
        (*write_scaling("compression scaling", settings=("innodb_page_size=8k",)),
         "SET: innodb_page_size=8k: write-scaling sets innodb_page_size itself in compression",
         'leave it out; or ask --question "scaling" alone'),
        (*write_scaling("larger-than-memory", settings=("innodb_page_size=8k",)),
         "several values of innodb_page_size in larger-than-memory",
         "--option innodb_page_size=8k,…; or leave it out; or ask another --question"),
        (*write_scaling("larger-than-memory compression scaling", settings=("innodb_page_size=8k",)),
         "sets innodb_page_size itself in compression", 'or ask --question "scaling" alone'),
        (*write_scaling("compression", options=("innodb_page_size=16k",)),
         "OPTION: innodb_page_size=16k: write-scaling sets innodb_page_size itself in compression", "leave it out"),
        (*write_scaling("compression larger-than-memory", options=("innodb_page_size=4k",)),
         "sets innodb_page_size itself in compression", 'or ask --question "larger-than-memory" alone'),
        (*write_scaling("larger-than-memory", options=("innodb_buffer_pool_size=1G,2G",)),
         "sets innodb_buffer_pool_size itself in larger-than-memory", "leave it out"),
        (*write_scaling("doublewrite", settings=("skip-innodb-doublewrite",)),
         "SET: skip_innodb_doublewrite: write-scaling measures at several values of innodb_doublewrite in doublewrite",
         "--option innodb_doublewrite=1,0; or leave it out"),
        (*write_scaling("doublewrite one-user", variants=("a:loose_disable_innodb_doublewrite=1",)),
         "several values of innodb_doublewrite in doublewrite", 'or ask --question "one-user" alone'),
        (*write_scaling("scaling", settings=("innodb_flush_log_at_trx_commit=2",)),
         "several values of innodb_flush_log_at_trx_commit in scaling", "--option innodb_flush_log_at_trx_commit=2,…"),
        (*write_scaling("redo-spinning scaling", settings=("innodb_log_wait_for_flush_spin_hwm=400",),
                        versions=("8.0.31",)),
         "sets innodb_log_wait_for_flush_spin_hwm itself in redo-spinning", '--question "scaling"'),
        (*write_scaling("lock-schedule", settings=("innodb_lock_schedule_algorithm=vats",),
                        versions=("mariadb-10.2.11",)),
         "several values of innodb_lock_schedule_algorithm in lock-schedule", "--option"),
    ],
)  # fmt: skip
def test_an_option_that_conflicts_with_the_experiment_is_refused(
    scenario: str, given: dict[str, Any], what: str, to_do: str
) -> None:
    error = refused(scenario, **given)
    assert what in error.message
    assert to_do in error.hint
    assert "\n" not in error.message + error.hint


@pytest.mark.parametrize(
    ("scenario", "given"),
    [
        ("interference", {"options": ("table_open_cache=400,9000",), "settings": ("table_open_cache_instances=1",)}),
        ("table-cache", {"options": ("table_open_cache_instances=1,16",), "settings": ("table_open_cache=4000",)}),
        ("table-cache", {"options": ("table_open_cache=400,4000", "innodb-thread-concurrency=8")}),
        ("table-cache", {"variants": (f"a:{IO}", "b:"), "settings": ("innodb_monitor_enable=latch",)}),
        ("table-cache", {"options": ("innodb_buffer_pool_size=64M,128M", "loose_innodb_nobody_knows=1")}),
        ("metadata", {"settings": ("innodb_buffer_pool_size=64M",), "variants": ("a:table_open_cache=9", "b:")}),
        ("metadata", {"variants": ("few:schemas=10", "b:")}),
        write_scaling("scaling", settings=("innodb_page_size=8k",)),
        write_scaling("scaling larger-than-memory", options=("innodb_page_size=16k,8k",)),
        write_scaling("scaling", workload="point-select", settings=("innodb_flush_log_at_trx_commit=2",)),
        write_scaling("one-user", settings=("innodb_flush_log_at_trx_commit=2", "skip_innodb_doublewrite")),
        write_scaling("doublewrite hot-rows", options=("innodb_doublewrite=1", "transaction_isolation=READ-COMMITTED")),
        write_scaling("scaling", memory_ratio="3"),
        write_scaling("hot-rows", settings=("innodb_lock_schedule_algorithm=vats",), versions=("mariadb-10.2.11",)),
    ],
)
def test_other_options_are_accepted(scenario: str, given: dict[str, Any]) -> None:
    request = asked(scenario, **given)
    for one in request.all_variants:
        given_to_it = {**request.lasting_settings, **dict(one.settings)}
        for axis, value in one.axes:
            if "innodb" in axis and value != "16k":  # an option of the server
                assert given_to_it[axis] == value
    for pair in request.servers.options:
        assert all(pair[0] not in dict(one.settings) for one in request.all_variants)


@pytest.mark.parametrize("name", ["innodb_log_file_size", "loose-innodb-log-file-size", "innodb_log_files_in_group"])
def test_the_size_of_redo_log_files_is_not_varied_where_a_server_ignores_it(name: str) -> None:
    scenario, given = write_scaling("one-user", options=(f"{name}=4,8",))
    for versions in (("8.0.31",), BOTH):
        error = refused(scenario, **given, versions=versions)
        assert "=4,8 has no effect on 8.0.31" in error.message
        assert "vary innodb_redo_log_capacity instead" in error.hint
    assert asked(scenario, **given, versions=("5.7.22", "8.0.15", "mariadb-10.11.5")).variant_specs
    # Without a capacity 8.0.31 makes its log as large as they say.
    assert asked("crash-recovery", **STARTS, versions=BOTH, variants=(f"a:{name}=4", "b:")).servers.named_settings
    capacity = {"versions": BOTH, "variants": (f"a:{name}=4", "b:"), "settings": ("innodb_redo_log_capacity=1G",)}
    assert "has no effect on 8.0.31" in refused("crash-recovery", **STARTS, **capacity).message
    assert asked(scenario, parts="one-user", settings=(f"{name}=4",), versions=BOTH).variant_specs
    assert asked(scenario, parts="one-user", options=("innodb_redo_log_capacity=128M,1G",), versions=BOTH).variant_specs


STARTS: dict[str, Any] = {
    **dict.fromkeys(
        ("layout", "columns", "database", "template", "insert_template", "inserts", "stacks", "fail_over", "tables")
    ),
    **dict.fromkeys(("trace", "floor", "as_published"), False),
}


def test_the_redo_log_is_checked_again_once_the_version_is_known() -> None:
    scenario, given = write_scaling("one-user", options=("innodb_log_file_size=64M,128M",), image="mine")
    request: Request = asked(scenario, **given)
    build = Build(parse_version("8.0.31"), Path("mysqld"), Path(), "f", "own")
    with pytest.raises(UsageError, match="has no effect on 8"):
        plan_session(request, [build.version], builds=[build])


NAMES = {
    "5.7.22": {"innodb_io_capacity", "innodb_log_file_size", "innodb_doublewrite", "table_open_cache"},
    "8.0.31": {"innodb_io_capacity", "innodb_redo_log_capacity", "innodb_doublewrite", "innodb_log_spin_cpu_abs_lwm"},
}


def checked(listed: dict[str, set[str]], scenario: str = "crash-recovery", **given: Any) -> list[str]:
    """Return the messages while the options are checked against those that the servers list."""
    request = asked(scenario, **{**(STARTS if scenario == "crash-recovery" else {}), "versions": BOTH, **given})
    builds = [Build(parse_version(version), Path("mysqld"), Path(), version, "own") for version in listed]
    engine = SimpleNamespace(options=lambda build: frozenset(listed[str(build.version)]))
    messages: list[str] = []
    check_options(request, cast(Engine, engine), builds, messages.append)
    return messages


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"settings": ("innodb-io-capacity=9", "skip_innodb_doublewrite", "loose_log_spin=1")},
        {"settings": ("innodb_redo_log_capacity=128M",)},
        {"variants": ("a:loose_innodb_log_spin_cpu_abs_lwm=4", "b:innodb_redo_log_capacity=1G")},
        {"scenario": "metadata", "options": ("innodb_redo_log_capacity=128M,1G", "innodb_io_capacity=1,2")},
    ],
)
def test_options_that_every_server_lists_are_accepted(given: dict[str, Any]) -> None:
    assert checked(NAMES, **given) == []


@pytest.mark.parametrize(
    ("given", "what", "to_do"),
    [
        ({"settings": ("innodb_io_capcity=9",)},
         "--set / SET: innodb_io_capcity=9: no such option in 5.7.22, 8.0.31", "did you mean innodb_io_capacity"),
        ({"settings": ("innodb_log_spin_cpu_abs_lwm=9",)},
         "--set / SET: innodb_log_spin_cpu_abs_lwm=9: no such option in 5.7.22", "loose_innodb_log_spin_cpu_abs_lwm"),
        ({"variants": ("a:innodb_io_cap=9", "b:")},
         "--variant / VARIANT: a:innodb_io_cap=9: no such option in 5.7.22, 8.0.31",
         "write the full name: innodb_io_capacity"),
        ({"scenario": "metadata", "options": ("loose_innodb_double=1,0",)},
         "--option / OPTION: loose_innodb_double=1,0: no such option in 5.7.22, 8.0.31",
         "the full name: innodb_doublewrite"),
    ],
)  # fmt: skip
def test_an_option_that_a_server_does_not_list_is_refused(given: dict[str, Any], what: str, to_do: str) -> None:
    with pytest.raises(UsageError) as refusal:
        checked(NAMES, **given)
    assert refusal.value.message == what
    assert to_do in refusal.value.hint


def test_a_server_that_lists_nothing_is_not_checked() -> None:
    silent = {**NAMES, "5.7.22": set[str]()}
    assert checked(silent) == []
    (message,) = checked(silent, settings=("innodb_log_spin_cpu_abs_lwm=9",))
    assert message == "warning: 5.7.22 does not list its options: their names are not checked"
    with pytest.raises(UsageError, match="no such option in 8"):
        checked(silent, settings=("table_open_cache=9",))


def test_the_experiments_together_refuse_an_option_that_one_of_them_varies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = ["experiments", "--dry-run", "--data", str(tmp_path), "--set"]
    assert run([*plan, "table_open_cache=4000"]) == 2
    error = capsys.readouterr().err
    assert "interference cannot be measured with --set / SET: table_open_cache=4000: " in error
    assert '--only "crash-recovery metadata table-cache write-scaling"' in error
    # Only the largest scale of write-scaling varies the size of pages.
    large = ["--only", "write-scaling", "--scale", "published"]
    assert run([*plan, "innodb_page_size=8k", "--only", "write-scaling"]) == 0
    capsys.readouterr()
    assert run([*plan, "innodb_page_size=8k", *large]) == 2
    error = capsys.readouterr().err
    assert "write-scaling cannot be measured with --set / SET: innodb_page_size=8k: " in error
    assert "hint:  leave it out" in error
    assert run([*plan, "innodb_io_capacity=500", *large]) == 0
