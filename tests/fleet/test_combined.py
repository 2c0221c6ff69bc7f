"""Sessions of several hosts are combined into one, which knows what came from which of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from recovery.analysis.combined import CombinedSession, combine
from recovery.analysis.effective_options import server_of_cell
from recovery.analysis.summary import summarise, variant_ratios
from recovery.analysis.warm import warm_evidence
from recovery.analysis.warnings import server_of
from recovery.model import Session
from recovery.report.load_tables import creation_table, durations_table
from recovery.storage.sessions import load_session

KEPT = "2026-11-21-four-versions"
INSTANCES = "2026-11-26-table-cache"
METADATA = "2026-11-26-experiments-metadata"


@pytest.fixture
def session(kept_sessions: Path) -> Session:
    return load_session(kept_sessions / KEPT)


def of_two_hosts(session: Session) -> CombinedSession:
    """Two sessions of the first host and one of the second; the runs of all have the same numbers."""
    return combine([("one", session), ("one", session), ("two", session)])


def test_runs_are_told_apart_by_part_and_number(session: Session) -> None:
    combined = of_two_hosts(session)
    assert len({(run.part, run.number) for part in combined.parts for run in part.runs}) == len(combined.runs)
    assert len(set(combined.runs)) == 3 * len(session.runs)


def test_changed_runs_still_belong_to_their_session(session: Session) -> None:
    combined = of_two_hosts(session)
    changed = replace(combined, runs=tuple(replace(run, log=None) for run in combined.runs))
    found = changed.by_session(changed.runs)
    assert [len(runs) for _, runs in found] == [len(session.runs)] * 3
    assert summarise(changed) == summarise(combined)


# --- Facts about servers are those of the host of a variant


def with_facts(session: Session, **facts: str) -> Session:
    """The session of a host whose servers have other facts."""
    return replace(session, servers={name: {**known, **facts} for name, known in session.servers.items()})


def test_no_host_has_the_facts_of_another(session: Session) -> None:
    second = with_facts(session, data_bytes="7")
    combined = combine([("one", session), ("two", second)])
    assert len(combined.servers) == 2 * len(session.servers)
    for variant in session.variant_names:
        for host, of_host in (("one", session), ("two", second)):
            name = f"{host} {variant}"
            assert server_of(combined, "5.7.22", name) == of_host.servers["5.7.22"]
            assert server_of_cell(combined, "5.7.22", name) == server_of_cell(of_host, "5.7.22", variant)


def test_several_sessions_of_a_host_have_the_servers_of_all(session: Session) -> None:
    parts = [replace(session, versions=(name,), servers={name: session.servers[name]}) for name in session.versions]
    combined = combine([("one", part) for part in parts])
    assert combined.servers_of("one cold") == session.servers


def test_a_warm_start_is_judged_by_the_data_of_its_own_host(session: Session) -> None:
    sessions = [(host, with_facts(session, data_bytes=size)) for host, size in (("one", "5"), ("two", "7"))]
    found = {
        (evidence.run.variant.partition(" ")[0], evidence.data_bytes) for evidence in warm_evidence(combine(sessions))
    }
    assert found == {("one", 5.0), ("two", 7.0)}


def test_values_of_an_option_are_compared_on_the_host_where_they_are_in_effect(kept_sessions: Path) -> None:
    """On the second host all values of the option have the same effect, so that it compares none of them."""
    first = load_session(kept_sessions / INSTANCES)
    second = with_facts(first, **{"@table_open_cache_instances": "16"})
    for hosts in ((("one", first), ("two", second)), (("two", second), ("one", first))):
        combined = combine(hosts)
        (axis,) = (axis for axis in combined.axes if axis.name == "table_open_cache_instances")
        assert {combined.value_of(ratio.variant, "host") for ratio in variant_ratios(combined, axis)} == {"one"}


def test_tables_were_created_on_each_host_by_itself(kept_sessions: Path) -> None:
    first = load_session(kept_sessions / METADATA)
    combined = combine([("one", first), ("two", with_facts(first, tables="30000", build_s="60"))])
    created = creation_table(combined)
    assert created is not None
    assert created.headers[:4] == ("version", "host", "tables", "fast, s")
    assert [row[:4] for row in created.rows] == [
        ("5.7.22", "one", "20,000", "7.24"), ("5.7.22", "two", "30,000", "60.00"),
        ("8.0.31", "one", "20,000", "21.10"), ("8.0.31", "two", "30,000", "60.00"),
    ]  # fmt: skip
    durations = durations_table(combined)
    assert durations is not None
    rows = {row[0]: row[1:3] for row in durations.rows}
    assert rows["creating all 20,000, fast, one"] == ("7.24", "21.10")
    assert rows["creating all 30,000, fast, two"] == ("60.00", "60.00")
    assert {"creating all 20,000 one by one, one", "creating all 30,000 one by one, two"} <= rows.keys()
    assert len(rows) == len(durations.rows), "no row has the name of another"


def test_tables_of_one_host_name_no_host(kept_sessions: Path) -> None:
    session = load_session(kept_sessions / METADATA)
    assert creation_table(combine([("one", session)])) == creation_table(session)
