"""First queries after a cold and a warm start of real servers."""

from __future__ import annotations

from pathlib import Path

import pytest
from sessions import stored

from recovery.cli.main import run
from recovery.workload.first_queries import DEFAULT, stored_script

pytestmark = pytest.mark.real
TABLES = 300
LARGE = pytest.mark.on_demand("large")


@pytest.mark.parametrize("version", ["8.0.31", "mariadb-10.11.5", pytest.param("5.7.22", marks=LARGE)])
def test_first_queries_are_phases_after_the_start(version: str, at: list[str], tmp_path: Path) -> None:
    words = ["crash-recovery", "--version", version, "--runs", "1", "--first-queries=default"]
    assert run([*words, *at]) == 0
    runs = stored(tmp_path)["runs"]
    assert len(runs) == 2
    for one in runs:
        after = [phase for phase in one["phases"] if phase["start_s"] >= one["first_query_s"]]
        assert [phase["name"] for phase in after] == ["size query", *["table queries"] * 100]
        assert all(phase["end_s"] > phase["start_s"] for phase in after)


def test_mysql_8_keeps_no_sizes_from_an_earlier_start(at: list[str], tmp_path: Path) -> None:
    first = stored_script(DEFAULT).splitlines()[0]
    own = tmp_path / "own.sql"
    own.write_text(f"{first}\nselect if(@@information_schema_stats_expiry = 0, 1, (select 1 union select 2));")
    words = ["cold-recovery", "--version", "8.0.31", "--runs", "1", f"--first-queries={own}"]
    assert run([*words, *at]) == 0


def test_the_message_of_a_server_that_rejects_a_query_is_the_reason(at: list[str], tmp_path: Path) -> None:
    own = tmp_path / "own.sql"
    own.write_text("select count(*) from discovery.table_1;\n-- wrong\nselect nothing from discovery.table_1;")
    words = ["cold-recovery", "--version", "5.7.22", "--runs", "1", f"--first-queries={own}"]
    assert run([*words, *at]) == 1
    (one,) = stored(tmp_path)["runs"]
    assert one["verdict"] == "failed"
    assert one["reason"] == "the query 'wrong' failed: Unknown column 'nothing' in 'field list' (1054)"
