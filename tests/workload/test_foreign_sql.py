"""Statements of templates and query files that rights cannot stop are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from asking import asked

from recovery.errors import UsageError
from recovery.model import parse_version
from recovery.mysqld.options import check_user_settings
from recovery.session.option_checks import check_versions
from recovery.workload.foreign_sql import check_access, check_reads_only

OLD = [parse_version(text) for text in ("5.6.24", "5.6.51", "5.7.16", "mariadb-10.2.11", "mariadb-11.8.2")]
NEW = [parse_version(text) for text in ("5.7.17", "8.0.31", "9.7.0", "percona-8.0.36")]


@pytest.mark.parametrize(
    "statement",
    [
        "create table t (a int) data directory '/x'",
        "/*!50000 create table t (a int) Data /**/ DIRECTORY='/x' */",
        "create procedure p() begin prepare x from @y; end",
        "EXECUTE IMMEDIATE concat('create table t (a int) data dir', 'ectory \"/x\"')",
        "create table t (a int) engine=`federated` connection='mysql://u@h/d/t'",
    ],
)
def test_words_that_lead_elsewhere_are_refused_where_no_right_prevents_it(statement: str) -> None:
    for version in OLD:
        with pytest.raises(UsageError, match="may reach files or servers outside of the test"):
            check_access(statement, version)
    for version in NEW:
        assert check_access(statement, version) == statement


def test_a_file_of_the_client_is_sent_to_no_server() -> None:
    for version in (*OLD, *NEW):
        with pytest.raises(UsageError, match="'infile' in 'load data local infile"):
            check_access("load data local infile '/etc/passwd' into table s.t", version)
        check_access("insert into s.directories values ('in file', 'prepared')", version)


def test_they_are_refused_before_anything_is_built(tmp_path: Path) -> None:
    template, queries = tmp_path / "schema.sql.j2", tmp_path / "queries.sql"
    template.write_text("create schema discovery; create table discovery.a (a int) data directory '/x';")
    queries.write_text("create table s.b (a int) data directory '/x';")
    by_template = asked("cold-recovery", tables="1", template=template)
    by_queries = asked("metadata", tables="10", schemas="1", queries=queries)
    by_first_queries = asked("cold-recovery", tables="1", first_queries=queries)
    for request in (by_template, by_queries, by_first_queries):
        assert request.has_foreign_statements
        check_versions(request, NEW[:1])
        with pytest.raises(UsageError, match="'directory' in "):
            check_versions(request, OLD[:1])


def test_statements_of_the_tool_run_as_before() -> None:
    assert not asked("cold-recovery", first_queries=Path("default")).has_foreign_statements
    assert not asked("write-scaling").has_foreign_statements, "its template is the tool's"
    assert asked("cold-recovery", insert_template=Path("own.sql.j2")).has_foreign_statements


READS = [
    "select count(*) from shop.orders", "SHOW TABLES FROM shop", "(select 1) union (select 2)", "desc shop.orders",
    "with t as (select 1) select * from t", "table shop.orders", "select `file`, updated from shop.orders",
]  # fmt: skip
WRITES = [
    "set global general_log = 1", "/*!50000 set global general_log = 1 */", "select 1 into outfile '/x'",
    "select 1 /*!50000 into/**/DUMPFILE '/x' */", "select load_file('/etc/passwd')", "call shop.p()", "do shop.f()",
    "prepare x from 'set global general_log = 1'", "with t as (select 1) delete from shop.orders", "drop schema shop",
    "load data infile '/x' into table shop.orders", "insert into shop.orders values (1)", "install plugin a soname 'a'",
    "analyze update shop.orders set a = 1", "explain analyze delete from shop.orders",
]  # fmt: skip


def test_over_a_directory_of_the_users_own_queries_only_read() -> None:
    for statement in READS:
        check_reads_only("q", statement)
    for statement in WRITES:
        with pytest.raises(UsageError, match="the query 'q' does more than read tables"):
            check_reads_only("q", statement)


def test_a_server_without_grant_tables_is_only_the_tools_own_choice() -> None:
    for name in ("skip_grant_tables", "skip-grant", "loose_skip_grant_tables"):
        with pytest.raises(UsageError, match="is reserved for the tool itself"):
            check_user_settings({name: "1"})
