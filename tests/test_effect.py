"""Is an option told that is not in effect, and are two experiments that are one?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from at_work import write_scaling

from recovery.analysis.effective_options import changed_options, same_effective_options, same_value, server_of_cell
from recovery.cli.parse import possible_cache_instances
from recovery.errors import TrialVoidError, UsageError
from recovery.experiments import find_scenario
from recovery.experiments.bench import check_differs
from recovery.experiments.experiment import ExperimentRequest, HostCapacity
from recovery.experiments.interference import INTERFERENCE
from recovery.model import Schema, Variant, VariantSpec, parse_version
from recovery.mysqld.options import (
    max_clients,
    max_open_tables,
    needed_cache_entries,
    needed_connections,
    needed_open_files,
    table_cache_instances,
)
from recovery.session.prepare import check_table_open_cache
from recovery.session.request import Request

LIMIT = 20_000


def known(option: str, effective: str) -> dict[str, str]:
    name = option.partition("=")[0]
    return {"options": f"max_connections=1000 {option}", f"@{name}": effective, "@max_connections": "1000"}


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [("16k", "16384", True), ("ON", "1", True), ("fcfs", "FCFS", True), ("READ-COMMITTED", "read_committed", True),
     ("1g", "1024M", True), ("400", "4000", False), ("on", "off", False), ("", "1", False)],
)  # fmt: skip
def test_values_that_are_spelled_otherwise_are_the_same(one: str, other: str, *, alike: bool) -> None:
    assert same_value(one, other) is alike


def test_what_is_not_in_effect_is_told_with_both_values() -> None:
    (found,) = changed_options(known("table_open_cache=16000", "9495"))
    assert str(found) == "table_open_cache=16000 was requested, 9495 is in effect"
    assert list(changed_options(known("loose_innodb_page_size=16k", "16384"))) == []
    assert list(changed_options({"options": "loose_no_such_option=5"})) == [], "one that the server does not have"


def test_two_of_the_same_effect_are_one_experiment() -> None:
    first, second = known("table_open_cache=16000", "9495"), known("table_open_cache=32000", "9495")
    assert [one.requested for one in same_effective_options(first, second)] == ["16000"]
    assert same_effective_options(first, known("table_open_cache=400", "400")) == ()
    assert same_effective_options(first, first) == (), "nothing else was asked for"
    assert same_effective_options({}, {}) == ()
    untold = {"options": "a=1"}, {"options": "a=2"}
    assert same_effective_options(*untold) == (), "of which the server says nothing"
    at_its_default = {"options": "max_connections=1000", "@table_open_cache": "2000", "@max_connections": "1000"}
    assert same_effective_options(known("table_open_cache=2000", "2000"), at_its_default) == (), "another load, maybe"


def test_the_later_of_two_that_are_one_is_void() -> None:
    described = {"a": known("table_open_cache=16000", "9495"), "b": known("table_open_cache=32000", "9495")}
    check_differs("a", described)
    with pytest.raises(TrialVoidError, match="32000 was requested, 9495 is in effect, as in a") as error:
        check_differs("b", described)
    assert "ulimit -n" in error.value.hint


def test_the_server_of_a_cell_is_the_one_with_its_options() -> None:
    session = write_scaling()
    flush = "innodb_flush_log_at_trx_commit"
    servers = {"5.7.22": {"which": "plain"}, f"5.7.22 {flush}=0": {"which": "lazy", "options": f"{flush}=0"}}
    session = replace(session, servers=servers)
    of = {
        cell.get(flush): server_of_cell(session, "5.7.22", variant)["which"]
        for variant, cell in session.cells.items()
    }  # fmt: skip
    assert (of["0"], of["2"], of[None]) == ("lazy", "plain", "plain")
    assert server_of_cell(session, "8.0.31", session.variants[0]) == {}


def test_as_many_tables_stay_open_as_files_allow() -> None:
    """As 10.11.5 says it; 5.7.22 and 8.0.31 say ten more."""
    assert max_open_tables(LIMIT, connections=1000) == 9485
    assert max_open_tables(4096, connections=1000) == 1533
    assert max_open_tables(1024, connections=1000) == 400
    assert needed_open_files(9485, connections=1000) == LIMIT


def request(tmp_path_factory: pytest.TempPathFactory, *values: str) -> Request:
    folder = tmp_path_factory.mktemp("request")
    own = (("max_connections", "1000"),)
    asked = ExperimentRequest(options=(("table_open_cache", values),))
    assert INTERFERENCE.experiment is not None
    works = INTERFERENCE.experiment.works(asked, Schema(100, rows=10), HostCapacity(2, 8 << 30, open_files=LIMIT))
    found = Request("interference", works, ("5.7.22",), Schema(100), 1, folder, folder, settings=own)
    assert all(isinstance(one, Variant) for one in found.measured)
    return found


def test_a_cache_that_cannot_be_is_told_at_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    said: list[str] = []
    check_table_open_cache(request(tmp_path_factory, "2000", "9000"), say=said.append, open_files=LIMIT)
    assert said == []
    check_table_open_cache(request(tmp_path_factory, "2000", "16000"), say=said.append, open_files=LIMIT)
    (line,) = said
    assert "table_open_cache=16000 will not be in effect" in line
    assert "about 9,485" in line
    assert "33,030 files" in line


def test_two_caches_that_would_be_one_are_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(UsageError, match="table_open_cache=16000 and 32000 would be measured as the same value"):
        check_table_open_cache(
            request(tmp_path_factory, "2000", "16000", "32000"), say=lambda _: None, open_files=LIMIT
        )
    said: list[str] = []
    older = replace(request(tmp_path_factory, "16000", "32000"), versions=("5.7.22", "mariadb-10.2.11"))
    check_table_open_cache(older, say=said.append, open_files=LIMIT)
    assert ["most servers" in line for line in said] == [True, True], "one of them leaves it as it is"


@pytest.mark.parametrize(("files", "threads"), [(LIMIT, 10), (LIMIT, 1), (LIMIT, 64), (5000, 10), (1024, 10)])
def test_the_usual_caches_of_interference_are_one_too_small_and_one_that_can_be(files: int, threads: int) -> None:
    experiment = INTERFERENCE.experiment
    assert experiment is not None
    works = experiment.works(
        ExperimentRequest(threads=(threads,)), experiment.schema, HostCapacity(2, 8 << 30, open_files=files)
    )
    fewer, more = (int(value) for value in dict.fromkeys(dict(work.axes)["table_open_cache"] for work in works))
    (tables,) = {int(dict(work.axes)["tables"]) for work in works}
    assert fewer < tables * 16, "too few for each instance to hold them once"
    assert (
        needed_cache_entries(tables, threads=threads, instances=16) <= more <= max_open_tables(files, connections=1000)
    )


def test_among_how_many_instances_the_entries_are_divided() -> None:
    versions = ("5.6.24", "5.7.22", "8.0.31", "mariadb-10.2.11", "mariadb-10.11.5")
    assert [table_cache_instances(parse_version(one)) for one in versions] == [(1,), (16,), (16,), (1,), (1,)]
    assert [table_cache_instances(parse_version(one), (1, 8)) for one in versions] == [
        (1, 8),
        (1, 8),
        (1, 8),
        (1,),
        (1,),
    ]
    assert possible_cache_instances(ExperimentRequest(), ("5.6.24", "8.0.31"), ()) == (1, 16)
    assert possible_cache_instances(ExperimentRequest(), (), ()) == (16,), "who knows what the user's own server does"
    assert possible_cache_instances(ExperimentRequest(), ("5.7.22",), ("table_open_cache_instances=4",)) == (4,)
    varied = ExperimentRequest(options=(("table_open_cache_instances", ("1", "16")),))
    assert possible_cache_instances(varied, ("5.7.22", "mariadb-10.11.5"), ()) == (1, 16)


@pytest.mark.parametrize(
    ("instances", "caches", "most"), [((16,), ("2000", "9000"), 592), ((1,), ("250", "5625"), 948)]
)
def test_where_all_entries_are_in_one_instance_fewer_are_needed(
    instances: tuple[int, ...], caches: tuple[str, str], most: int
) -> None:
    """So a load may use more tables; and a cache that holds them once is not too small."""
    experiment = INTERFERENCE.experiment
    assert experiment is not None
    host = HostCapacity(2, 8 << 30, open_files=LIMIT, instances=instances)
    works = experiment.works(ExperimentRequest(), experiment.schema, host)
    assert tuple(dict.fromkeys(dict(work.axes)["table_open_cache"] for work in works)) == caches
    assert experiment.works(ExperimentRequest(load_tables=(most,)), experiment.schema, host)
    with pytest.raises(UsageError, match="entries in the table cache"):
        experiment.works(ExperimentRequest(load_tables=(most + 1,)), experiment.schema, host)


def test_interference_over_more_tables_than_a_cache_can_hold_is_refused_with_what_fits() -> None:
    experiment = INTERFERENCE.experiment
    assert experiment is not None
    host = HostCapacity(2, 8 << 30, open_files=LIMIT)
    with pytest.raises(UsageError, match="16,000 entries in the table cache") as error:
        experiment.works(ExperimentRequest(load_tables=(1000,)), experiment.schema, host)
    assert "OPTION=table_open_cache=2371,9485" in error.value.hint
    chosen = ExperimentRequest(load_tables=(1000,), options=(("table_open_cache", ("400",)),))
    assert len(experiment.works(chosen, experiment.schema, host)) == 2, "who names the values gets them"


def laid_out(**asked: object) -> tuple[tuple[VariantSpec, ...], dict[str, str]]:
    """What interference asks of a host with the usual number of files."""
    experiment, host = INTERFERENCE.experiment, HostCapacity(2, 8 << 30, open_files=LIMIT)
    assert experiment is not None
    work = ExperimentRequest(**asked)  # type: ignore[arg-type]
    return experiment.works(work, experiment.schema, host), dict(experiment.settings(work, experiment.schema, host))


def test_as_many_may_connect_as_there_are_clients() -> None:
    assert laid_out()[1]["max_connections"] == "1000"
    assert laid_out(threads=(10, 1100), pollers=2)[1]["max_connections"] == "1118"
    for name, cpus in (("table-cache", 256), ("write-scaling", 512)):
        experiment, host = find_scenario(name).experiment, HostCapacity(cpus, 512 << 30, open_files=LIMIT)
        assert experiment is not None
        settings = experiment.settings(ExperimentRequest(), experiment.schema, host)
        assert settings["max_connections"] == str(4 * cpus + 16)


def test_what_clients_have_open_is_no_tables() -> None:
    works, settings = laid_out(threads=(4000,))
    most = max_open_tables(LIMIT, connections=int(settings["max_connections"]))
    assert most == (LIMIT - 30 - 4017) // 2
    assert {dict(work.axes)["tables"] for work in works} == {"1"}
    assert max(int(dict(work.axes)["table_open_cache"]) for work in works) <= most


def test_more_clients_than_files_suffice_for_are_refused_with_what_fits() -> None:
    with pytest.raises(UsageError, match="10,000 clients over 1 table need 10,000 entries in the table") as error:
        laid_out(threads=(10_000,))
    most = int(error.value.hint.split("THREADS=")[1].split()[0])
    assert laid_out(threads=(most,))
    with pytest.raises(UsageError, match="entries in the table cache"):
        laid_out(threads=(most + 1,))
    with pytest.raises(UsageError, match="80 clients over 500 tables need 40,000") as error:
        laid_out(threads=(80,), load_tables=(500,))
    assert laid_out(threads=(80,), load_tables=(int(error.value.hint.split("=")[1].split()[0]),))
    with pytest.raises(UsageError, match=r"19,200 clients at once .* the limit is 19,154 clients") as error:
        laid_out(threads=(9200,), pollers=10_000, options=(("table_open_cache", ("400",)),))
    assert "THREADS=" in error.value.hint
    assert max_clients(LIMIT) == 19_154
    assert needed_connections(19_154) + needed_open_files(400, connections=0) == LIMIT
