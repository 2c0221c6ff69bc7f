"""What is pending at a kill is read from the server, and the variants of pending-work are planned from the options."""

from __future__ import annotations

import pytest

from recovery.crash.pending_work import (
    Growth,
    Pending,
    PendingOptions,
    PendingWork,
    dirty_temporary_pages,
    load_pages,
    pages_recovered,
    parse_pending,
    server_options,
    variant_specs,
)
from recovery.errors import TrialVoidError, UsageError
from recovery.experiments.experiment import HostCapacity
from recovery.model import Schema, parse_version

STATUS = """
LOG
---
Log sequence number          4511321098
Last checkpoint at           4500000000
----------------------
BUFFER POOL AND MEMORY
Modified db pages  1234
INDIVIDUAL BUFFER POOL INFO
Modified db pages  617
"""
HOST = HostCapacity(cpus=2, memory_bytes=8 << 30)
SCHEMA = Schema(4, rows=100_000, database="sbtest")


def names(**given: tuple[int, ...] | tuple[str, ...]) -> list[str]:
    return [spec.name for spec in variant_specs(PendingOptions(**given), SCHEMA, HOST)]  # type: ignore[arg-type]


def test_pending_work_is_read_from_the_status_of_all_buffer_pool_instances_together() -> None:
    assert parse_pending(STATUS) == Pending(dirty_pages=1234, redo_bytes=11321098)


def test_a_status_without_a_checkpoint_makes_the_run_void() -> None:
    with pytest.raises(TrialVoidError, match="does not show"):
        parse_pending(STATUS.replace("Last checkpoint", "Other"))


def test_a_state_is_reached_with_all_its_parts() -> None:
    task = PendingWork(dirty_pages=100, redo_bytes=1000)
    assert Pending(100, 1000).has_reached(task)
    assert not Pending(100, 999).has_reached(task)
    assert not Pending(99, 1000).has_reached(task)


def test_growth_ends_when_a_figure_gains_nothing_for_half_a_minute() -> None:
    growth = Growth(1000, now_s=0)
    assert not growth.has_ended(500, now_s=20)
    assert not growth.has_ended(505, now_s=49)
    assert growth.has_ended(505, now_s=51)
    growth = Growth(1000, now_s=0)
    assert not any(growth.has_ended(value, now_s=value) for value in range(10, 1000, 10))


def test_the_pages_of_each_batch_are_added_and_those_of_mariadb_decrease() -> None:
    batches = ["InnoDB: Applying a batch of 700 redo log records ...", "Applying a batch of 300 redo log records ..."]
    assert pages_recovered(batches) == 1000
    assert pages_recovered(["InnoDB: To recover: 900 pages", "InnoDB: To recover: 100 pages"]) == 900
    assert pages_recovered(["InnoDB: Apply batch completed"]) is None


@pytest.mark.parametrize(
    ("version", "text"), [("mariadb-10.11.5", "4294967294"), ("8.0.31", "4294967293"), ("5.7.22", "innodb_temporary")]
)
def test_pages_of_the_temporary_tablespace_are_those_of_its_number(version: str, text: str) -> None:
    assert text in dirty_temporary_pages(parse_version(version))


def test_each_state_is_compared_with_a_server_that_has_nothing_pending() -> None:
    assert names(dirty=(100, 500)) == ["nothing-pending", "dirty-100", "dirty-500"]
    assert names(redo=(64 << 20,)) == ["nothing-pending", "redo-64m"]
    assert names(uncommitted=(1000,), state=("open", "xa")) == [
        "nothing-pending",
        "transaction-1000-open",
        "transaction-1000-xa",
    ]


def test_redo_is_crossed_with_the_same_dirty_pages() -> None:
    assert names(dirty=(100,), redo=(1 << 26, 1 << 30)) == [
        "nothing-pending",
        "dirty-100",
        "dirty-100-redo-64m",
        "dirty-100-redo-1g",
    ]


def test_without_options_the_sizes_follow_from_the_tables() -> None:
    pages = load_pages(SCHEMA)
    assert names() == ["nothing-pending", f"dirty-{pages // 8}", f"dirty-{pages // 2}", "transaction-50000-open"]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"dirty": (10**6,)}, "can have about 3,"),
        ({"uncommitted": (100_000,)}, "needs a table of more rows than 100,000"),
        ({"state": ("committed",)}, "STATE=committed"),
        ({"workloads": ("read-write", "write-only")}, "runs one load"),
    ],
)
def test_what_cannot_be_reached_is_refused(given: dict[str, tuple[int, ...]], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        names(**given)


def test_only_a_prepared_transaction_needs_a_binary_log() -> None:
    specs = variant_specs(PendingOptions(uncommitted=(1000,), state=("open", "prepared")), SCHEMA, HOST)
    assert {spec.name: "log_bin" in dict(spec.settings) for spec in specs} == {
        "nothing-pending": False,
        "transaction-1000-open": False,
        "transaction-1000-prepared": True,
    }


def test_the_redo_log_has_room_for_the_largest_redo() -> None:
    options = server_options(PendingOptions(redo=(2 << 30,)), SCHEMA, HOST)
    assert int(options["loose_innodb_redo_log_capacity"]) == 4 << 30
