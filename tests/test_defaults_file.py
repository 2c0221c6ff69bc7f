"""Server options from a user's my.cnf."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_asked_work import asked, refused

from recovery.mysqld.options import parse_defaults_file

FILE = """
[client]
port = 3306
[mysqld]
datadir=/var/lib/mysql
innodb_buffer_pool_size = 1G  # a comment
innodb-io-capacity=2000
skip-name-resolve
skip-grant-tables
sql_mode="STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION"
; another comment
slow_query_log_file=/var/log/slow.log
super-read-only=1
loose_ssl_ca=ca.pem
innodb_force_recovery=1
!includedir /etc/mysql/conf.d
[mysqld-8.0]
table_open_cache=400
"""
LEFT_OUT = (
    "datadir", "skip_grant_tables", "slow_query_log_file", "super_read_only", "loose_ssl_ca", "innodb_force_recovery",
    "!includedir /etc/mysql/conf.d",
)  # fmt: skip


def test_options_of_servers_are_taken_and_harmful_ones_are_named() -> None:
    settings, left_out, _ = parse_defaults_file(FILE)
    assert settings == {
        "innodb_buffer_pool_size": "1G", "innodb_io_capacity": "2000", "skip_name_resolve": "",
        "sql_mode": "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION", "table_open_cache": "400",
    }  # fmt: skip
    assert left_out == LEFT_OUT


def test_a_setting_of_the_command_line_takes_precedence(tmp_path: Path) -> None:
    file = tmp_path / "my.cnf"
    file.write_text(FILE)
    request = asked("metadata", defaults_file=file, settings=("innodb_io_capacity=4000",))
    settings = dict(request.server_options)
    assert (settings["innodb_io_capacity"], settings["table_open_cache"]) == ("4000", "400")
    assert "--set table_open_cache=400" in request.command
    assert "my.cnf --" not in request.command, "the command repeats the session without the file"
    assert f"Not used of my.cnf: {', '.join(LEFT_OUT)}." in request.unavailable


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_file_that_cannot_be_read_is_refused(is_folder: bool, tmp_path: Path) -> None:
    file = tmp_path / "my.cnf"
    if is_folder:
        file.mkdir()
    assert "cannot be read" in refused("interference", defaults_file=file).message
