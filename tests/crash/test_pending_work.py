"""What is pending at a kill is read from the server, and the variants of pending-work are planned from the options."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from asking import asked

from recovery.crash import pending_work
from recovery.crash.pending_work import (
    Growth,
    Pending,
    PendingOptions,
    PendingWork,
    load_pages,
    pages_recovered,
    parse_pending,
    rows_recovered,
    server_options,
    targets,
    variant_specs,
    wait_until_reached,
)
from recovery.errors import TrialVoidError, UsageError
from recovery.experiments.experiment import HostCapacity
from recovery.model import Schema

if TYPE_CHECKING:
    from recovery.experiments.bench import Bench
    from recovery.loads.sysbench import Client

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
    pending = parse_pending(STATUS)
    assert pending == Pending(dirty_pages=1234, redo_bytes=11321098)
    assert str(pending) == "1,234 dirty pages and 10 MiB of redo"


def test_a_status_without_a_checkpoint_makes_the_run_void() -> None:
    with pytest.raises(TrialVoidError, match="does not show"):
        parse_pending(STATUS.replace("Last checkpoint", "Other"))


def test_the_load_is_to_reach_dirty_pages_first_and_then_redo_for_a_few_of_them() -> None:
    assert list(targets(PendingWork(dirty_pages=100), 5000)) == [(Pending(dirty_pages=100), 5000)]
    assert list(targets(PendingWork(redo_bytes=1000), 5000)) == [(Pending(redo_bytes=1000), 5000)]
    assert list(targets(PendingWork(dirty_pages=100, redo_bytes=1000), 5000)) == [
        (Pending(dirty_pages=100), 5000),
        (Pending(redo_bytes=1000), 100),
    ]
    assert list(targets(PendingWork(rows=10), 5000)) == []
    assert Pending(99, 1000).share_of(Pending(dirty_pages=100)) == 0.99
    assert Pending(99, 1000).share_of(Pending(redo_bytes=1000)) == 1


def test_growth_ends_when_a_share_gains_nothing_for_half_a_minute() -> None:
    growth = Growth(now_s=0)
    assert not growth.has_ended(0.5, now_s=20)
    assert not growth.has_ended(0.505, now_s=49)
    assert growth.has_ended(0.505, now_s=51)
    growth = Growth(now_s=0)
    assert not any(growth.has_ended(second / 1000, now_s=second) for second in range(10, 1000, 10))


class Reaching:
    """A bench and a load whose server stays at 400 dirty pages."""

    def __init__(self) -> None:
        self.run_notes: list[str] = []
        self.steps: list[str] = []
        self.on_step = self.steps.append
        self.server = self

    def session(self) -> AbstractContextManager[None]:
        return nullcontext()

    def has_ended(self, _: float) -> bool:
        return False


@pytest.mark.parametrize(
    ("target", "wanted"),
    [(Pending(dirty_pages=5000), "5,000 dirty pages"), (Pending(redo_bytes=64 << 20), "64 MiB of redo")],
)
def test_a_state_that_is_not_reached_is_measured_and_the_note_says_what_was(
    target: Pending, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server whose redo log is too small, or that writes pages as fast as it can, stays below it."""
    now_s, bench = count(0, 10), Reaching()
    monkeypatch.setattr(pending_work, "time", SimpleNamespace(monotonic=lambda: next(now_s)))
    monkeypatch.setattr(pending_work, "read_pending", lambda _: Pending(400, 20 << 20))
    wait_until_reached(cast("Bench", bench), cast("Client", bench), target)
    assert bench.run_notes == [
        f"the load did not reach {wanted}, because the server writes pages as fast, or its redo log is too small; "
        "it reached 400 dirty pages and 20 MiB of redo"
    ]
    assert bench.steps[0] == "load: 400 dirty pages and 20 MiB of redo"


def test_the_pages_of_each_batch_are_added_and_those_of_mariadb_decrease() -> None:
    batches = ["InnoDB: Applying a batch of 700 redo log records ...", "Applying a batch of 300 redo log records ..."]
    assert pages_recovered(batches) == 1000
    assert pages_recovered(["InnoDB: To recover: 900 pages", "InnoDB: To recover: 100 pages"]) == 900
    assert pages_recovered(["InnoDB: Apply batch completed"]) is None


def test_the_rows_to_roll_back_are_those_of_the_log() -> None:
    lines = ["InnoDB: 1 transaction(s) which must be rolled back or cleaned up in total 200000 row operations to undo"]
    assert rows_recovered(lines) == 200_000
    assert rows_recovered(["InnoDB: in total 7 row operations to undo"]) == 7
    assert rows_recovered(["InnoDB: Apply batch completed"]) is None


def test_each_state_is_compared_with_a_server_that_has_nothing_pending() -> None:
    assert names(dirty=(100, 500)) == ["nothing-pending", "dirty-100", "dirty-500"]
    assert names(redo=(64 << 20,)) == ["nothing-pending", "redo-64m"]
    assert names(uncommitted=(1000,), state=("open", "xa")) == [
        "nothing-pending",
        "transaction-1000-open",
        "transaction-1000-xa",
    ]


def test_what_is_pending_may_be_written_as_large_numbers_are() -> None:
    given = {"dirty": "1000 1e4 20k", "uncommitted": "100k 1m", "redo": "64m 1e9"}
    assert asked("pending-work", rows="2e6", **given).experiment_options == PendingOptions(
        dirty=(1000, 10_000, 20_000), uncommitted=(100_000, 1_000_000), redo=(64 << 20, 10**9)
    )


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
        ({"state": ("committed",)}, "STATE: committed"),
        ({"workloads": ("read-write", "write-only")}, "runs one load"),
    ],
)
def test_what_cannot_be_reached_is_refused(given: dict[str, tuple[int, ...]], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        names(**given)


def test_the_load_and_the_transaction_have_tables_of_their_own() -> None:
    with pytest.raises(UsageError, match="need tables of their own"):
        variant_specs(PendingOptions(), Schema(1, rows=1000, database="sbtest"), HOST)


def test_a_prepared_transaction_needs_a_binary_log_and_all_servers_have_it() -> None:
    assert "log_bin" not in server_options(PendingOptions(state=("open", "xa")), SCHEMA, HOST)
    assert server_options(PendingOptions(state=("open", "prepared")), SCHEMA, HOST)["log_bin"] == "pending-binlog"


def test_each_state_is_measured_at_each_value_of_a_server_option() -> None:
    options = (("innodb_redo_log_capacity", ("128m", "1g")),)
    specs = variant_specs(PendingOptions(dirty=(100,), options=options), SCHEMA, HOST)
    assert {spec.name: spec.settings for spec in specs} == {
        "nothing-pending-capacity-128m": (("innodb_redo_log_capacity", "128m"),),
        "nothing-pending-capacity-1g": (("innodb_redo_log_capacity", "1g"),),
        "dirty-100-capacity-128m": (("innodb_redo_log_capacity", "128m"),),
        "dirty-100-capacity-1g": (("innodb_redo_log_capacity", "1g"),),
    }


def test_the_redo_log_has_room_for_the_largest_redo() -> None:
    options = server_options(PendingOptions(redo=(2 << 30,)), SCHEMA, HOST)
    assert int(options["loose_innodb_redo_log_capacity"]) == 4 << 30
