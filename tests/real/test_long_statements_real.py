"""A signal ends the tool while a statement of the user's takes long, on real servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from datadirs import running, shared_empty_datadir
from waiting import BUILDING_S, until

from recovery.linux.cleanup import servers_in
from recovery.mysqld.client import run_to_last_row, scalar

pytestmark = pytest.mark.real
TABLES = 3
CREATE = """
{%- for database in databases %}
create schema {{ database }};
{% for number in range(1, tables + 1) %}
create table {{ database }}.table_{{ number }} (id int primary key auto_increment);
{% endfor %}
{% endfor %}
"""


def test_a_signal_ends_a_build_in_a_statement_that_takes_long(at: list[str], data: Path, tmp_path: Path) -> None:
    template = tmp_path / "schema.sql.j2"
    template.write_text(f"{CREATE}create table discovery.begun (id int); do sleep(3600); drop table discovery.begun;")
    at[at.index("--tables") + 1] = "4"
    template.write_text(template.read_text().replace("tables + 1", "tables"))
    words = [sys.executable, "-m", "recovery", "cold-recovery", "--version", "5.7.22", "--template", str(template), *at]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as tool:
        until(
            lambda: list(data.glob("5.7.22-discovery-4-*/mysql/discovery/begun.ibd")),
            "the last statement",
            within_s=BUILDING_S,
        )
        (folder,) = data.glob("5.7.22-discovery-4-*/mysql")
        tool.send_signal(signal.SIGTERM)
        assert tool.stderr is not None
        printed = tool.stderr.read()
        assert tool.wait() == 130
    assert "a statement did not end within" in printed
    assert not folder.exists()
    assert list(servers_in(folder, "mysqld")) == []


def test_a_signal_ends_a_query_whose_rows_take_long(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Its first row, too large to be held back, arrives at once, and the last after hours."""
    query = "select repeat('x', 1000000), sleep(seconds) from (select 0 as seconds union all select 3600) as two"
    asked = "select id from information_schema.processlist where info like 'select repeat%%' and state = 'User sleep'"
    with (
        running(*shared_empty_datadir("5.7.22", tmp_path_factory), tmp_path / "logs") as server,
        closing(server.connect()) as admin,
        closing(server.connect()) as connection,
    ):

        def interrupt() -> None:
            until(lambda: scalar(admin, asked), "the query")
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            run_to_last_row(connection, query)
        thread.join()
        assert scalar(admin, asked) is not None, "it still runs, and nobody waits for it"
