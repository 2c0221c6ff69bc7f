"""Server options from a user's my.cnf and the files that it includes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from asking import asked, refused
from otherusers import as_user, needs_root

from recovery.errors import UsageError
from recovery.model import Flavor
from recovery.mysqld.defaults_file import ServerKind, read_defaults_file, used_options

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
partial_revokes=ON
loose_ssl_ca=ca.pem
innodb_force_recovery=1
what is this=1
[server]
table_open_cache=400
"""
LEFT_OUT = (
    "datadir", "skip_grant_tables", "slow_query_log_file", "super_read_only", "partial_revokes", "loose_ssl_ca",
    "innodb_force_recovery", "a line that is no option",
)  # fmt: skip
VALUES = [
    ('"x#y" # c', "x#y"), ("x#y", "x"), (r"x\ty\\z\sq\qr", "x\ty\\z q\\qr"), (r'"x\"#y"', 'x"#y'), ('ab"c#d', 'ab"c#d'),
    ('"a" b', '"a" b'), ("""'it"s' """, 'it"s'), ('"x', '"x'), (r"a\#b", "a\\"), ('"', '"'), ("''", ""), ("x\\", "x\\"),
]  # fmt: skip
"""As 5.7.22, 8.0.31 and mariadb-10.11.5 read them."""
DEBIAN = {
    "my.cnf": "!includedir {folder}/conf.d/\n!includedir {folder}/mysql.conf.d/\n",
    "conf.d/mysql.cnf": "[mysql]\n",
    "conf.d/mysqldump.cnf": "[mysqldump]\nquick\nmax_allowed_packet = 16M\n",
    "mysql.conf.d/mysql.cnf": "[mysql]\n",
    "mysql.conf.d/mysqld.cnf": "[mysqld]\nuser = mysql\nbind-address = 127.0.0.1\nkey_buffer_size = 16M\n"
    "myisam-recover-options = BACKUP\nlog_error = /var/log/mysql/error.log\nmax_binlog_size = 100M\n",
}
DEBIAN_MARIADB = {
    "my.cnf": "[client-server]\nsocket = /run/mysqld/mysqld.sock\n!includedir {folder}/conf.d/\n"
    "!includedir {folder}/mariadb.conf.d/\n",
    "conf.d/mysql.cnf": "[mysql]\n",
    "mariadb.conf.d/50-server.cnf": "[server]\n[mysqld]\npid-file = /run/mysqld/mysqld.pid\nbasedir = /usr\n"
    "expire_logs_days = 10\ncharacter-set-server = utf8mb4\n[embedded]\n[mariadb]\n[mariadb-10.11]\n",
    "mariadb.conf.d/60-galera.cnf": "[galera]\n#wsrep_on = ON\n",
}


def written(folder: Path, files: dict[str, str]) -> Path:
    """Returns the path of my.cnf, after writing these files."""
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text.format(folder=folder))
    return folder / "my.cnf"


def settings_of(file: Path, *servers: ServerKind) -> dict[str, str]:
    return used_options(read_defaults_file(file), lambda: servers).settings


def kind(text: str) -> ServerKind:
    flavor, _, series = text.partition("-")
    first, second = map(int, series.split("."))
    return ServerKind(text, Flavor(flavor), (first, second))


# -- one file


def test_options_of_servers_are_taken_and_harmful_ones_are_named(tmp_path: Path) -> None:
    used = used_options(read_defaults_file(written(tmp_path, {"my.cnf": FILE})), list)
    assert used.settings == {
        "innodb_buffer_pool_size": "1G", "innodb_io_capacity": "2000", "skip_name_resolve": "",
        "sql_mode": "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION", "table_open_cache": "400",
    }  # fmt: skip
    assert used.left_out == LEFT_OUT


def test_options_that_name_schemas_are_not_stored(tmp_path: Path) -> None:
    text = "[mysqld]\nbinlog-do-db=salaries\nbinlog_ignore_db=salaries\nreplicate-do-db=salaries\n"
    used = used_options(read_defaults_file(written(tmp_path, {"my.cnf": text})), list)
    assert (used.settings, used.left_out) == ({}, ("binlog_do_db", "binlog_ignore_db", "replicate_do_db"))


def test_a_setting_of_the_command_line_takes_precedence(tmp_path: Path) -> None:
    file = written(tmp_path, {"my.cnf": FILE})
    request = asked("metadata", defaults_file=file, settings=("innodb_io_capacity=4000",))
    settings = dict(request.servers.options)
    assert (settings["innodb_io_capacity"], settings["table_open_cache"]) == ("4000", "400")
    assert "--set table_open_cache=400" in request.command
    assert "my.cnf --" not in request.command, "the command repeats the session without the file"
    assert "Used of my.cnf: 4 options." in request.unavailable
    assert f"Not used of my.cnf: {', '.join(LEFT_OUT)}." in request.unavailable


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_a_value_has_quotes_escapes_and_comments(text: str, value: str, tmp_path: Path) -> None:
    (found,) = read_defaults_file(written(tmp_path, {"my.cnf": f"[client]\npassword={text}\n"})).options
    assert found.value == value


def test_a_comment_may_follow_an_option_without_a_value(tmp_path: Path) -> None:
    file = written(tmp_path, {"my.cnf": "[mysqld]\nskip-name-resolve # back_log=5\n"})
    assert settings_of(file) == {"skip_name_resolve": ""}


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_file_that_cannot_be_read_is_refused(is_folder: bool, tmp_path: Path) -> None:
    file = tmp_path / "my.cnf"
    if is_folder:
        file.mkdir()
    assert "cannot be read" in refused("interference", defaults_file=file).message


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it has no group of a server, like [mysqld]"),
        ("[client]\nport=1\n", "it has no group of a server, like [mysqld]"),
        ("[mysqld]\ndatadir=/var/lib/mysql\nport=3306\n", "it has only datadir, port"),
        ("[mariadb]\nback_log=100\n", "it has only [mariadb]"),
        ("!include gone\n", "it has only gone (No such file or directory)"),
    ],
)
def test_a_file_of_which_nothing_is_used_is_refused(text: str, why: str, tmp_path: Path) -> None:
    error = refused("interference", defaults_file=written(tmp_path, {"my.cnf": text}))
    assert error.message == f"--defaults-file / DEFAULTS_FILE: no option of {tmp_path}/my.cnf is used: {why}"


def test_the_last_spelling_of_an_option_counts(tmp_path: Path) -> None:
    file = written(tmp_path, {"my.cnf": "[mysqld]\nloose_back_log=1\nback-log=2\n"})
    assert settings_of(file) == {"back_log": "2"}


# -- included files


def test_the_files_of_debian_are_found(tmp_path: Path) -> None:
    request = asked("interference", defaults_file=written(tmp_path, DEBIAN))
    settings = {"key_buffer_size": "16M", "myisam_recover_options": "BACKUP", "max_binlog_size": "100M"}
    assert dict(request.servers.options) == settings
    assert request.unavailable[-2:] == (
        "Used of my.cnf with 4 included files: 3 options.", "Not used of my.cnf: user, bind_address, log_error.",
    )  # fmt: skip


def test_the_files_of_debian_for_mariadb_are_found(tmp_path: Path) -> None:
    request = asked("interference", defaults_file=written(tmp_path, DEBIAN_MARIADB), versions=("mariadb-10.11.5",))
    assert dict(request.servers.options) == {"expire_logs_days": "10", "character_set_server": "utf8mb4"}


def test_a_folder_is_read_in_the_order_of_bytes_where_it_is_included(tmp_path: Path) -> None:
    names = ("b.cnf", "a.cnf", "Z.cnf", "10.cnf", ".cnf", "x.bak.cnf")
    files = {f"d/{name}": f"[mysqld]\nlc_time_names={name}\n" for name in (*names, "y.cnf.bak", "y.ini", "cnf")}
    (tmp_path / "d/folder.cnf").mkdir(parents=True)
    file = written(tmp_path, {"my.cnf": "[client]\n!includedir {folder}/d\n[mysqld]\nback_log=9\n", **files})
    found = read_defaults_file(file)
    assert [one.value for one in found.options] == [".cnf", "10.cnf", "Z.cnf", "a.cnf", "b.cnf", "x.bak.cnf", "9"]
    assert found.skipped == ("folder.cnf (Is a directory)",)


def test_the_group_of_a_file_ends_with_the_file(tmp_path: Path) -> None:
    file = written(
        tmp_path, {"my.cnf": "[mysqld]\n!include {folder}/other\nback_log=5\n", "other": "[client]\nport=1\n"}
    )
    assert settings_of(file) == {"back_log": "5"}


def test_files_are_included_to_a_depth_of_ten(tmp_path: Path) -> None:
    files = {f"{n}.cnf": f"[mysqld]\nback_log={n}\n!include {{folder}}/{n + 1}.cnf\n" for n in range(13)}
    written(tmp_path, files)
    found = read_defaults_file(tmp_path / "0.cnf")
    assert [one.value for one in found.options] == list(map(str, range(11)))
    assert found.skipped == ("line 3 of 10.cnf (included more than 10 files deep)",)


def test_what_servers_skip_is_skipped_and_named(tmp_path: Path) -> None:
    text = "[mysqld]\nback_log=1\n!include {folder}/gone.cnf\n!include {folder}/open.cnf\n!include /dev/null\n!what\n"
    text += "!include {folder}/wrong\nback_log=2\n"
    files = {"my.cnf": text, "open.cnf": "[mysqld]\nport=1\n", "wrong": "[mysqld]\nflush\n!includedir gone\nx=1\n"}
    file = written(tmp_path, files)
    (tmp_path / "open.cnf").chmod(0o666)
    found = read_defaults_file(file)
    assert [one.name for one in found.options] == ["back_log", "flush", "back_log"]
    assert found.skipped == (
        "gone.cnf (No such file or directory)",
        "open.cnf (is skipped by servers: everybody may write to it)",
        "null (is not a regular file)",
        "the rest of wrong (line 3 of wrong names gone: No such file or directory)",
    )
    assert "Not read of my.cnf: gone.cnf (No such file" in " ".join(asked("scale", defaults_file=file).unavailable)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[mysqld]\n!includedir {folder}/none\n", "line 2 of my.cnf names {folder}/none: No such file or directory"),
        ("[mysqld]\n!includedir {folder}/my.cnf\n", "line 2 of my.cnf names {folder}/my.cnf: Not a directory"),
        ("[mysqld]\n!includedir\n", "line 2 of my.cnf names nothing to include"),
        ("back_log=1\n[mysqld]\n", "line 1 of my.cnf is an option without a group"),
        ("[mysqld\nback_log=1\n", "line 1 of my.cnf has no closing bracket"),
    ],
)
def test_a_file_with_which_no_server_starts_is_refused(text: str, why: str, tmp_path: Path) -> None:
    error = refused("interference", defaults_file=written(tmp_path, {"my.cnf": text}))
    why = why.format(folder=tmp_path)
    assert f"DEFAULTS_FILE: {tmp_path}/my.cnf: {why}: neither server nor client starts with it" in error.message


def test_a_first_file_that_everybody_may_write_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, {"my.cnf": FILE})
    file.chmod(0o666)
    assert "everybody may write to it" in refused("interference", defaults_file=file).message


@pytest.mark.parametrize(
    "files",
    [
        {"my.cnf": "!includedir {folder}\n", "a.cnf": "!includedir {folder}\n"},
        {"my.cnf": "!include {folder}/large\n" * 3, "large": "#" * 400_000},
    ],
    ids=["files that include each other", "bytes"],
)
def test_too_much_to_read_is_refused(files: dict[str, str], tmp_path: Path) -> None:
    error = refused("interference", defaults_file=written(tmp_path, files))
    assert "has more than 1,000,000 bytes or 1,000 files" in error.message


# -- groups of some servers only

GROUPS = """
[mysqld]
back_log=1
[mysqld-8.0]
back_log=80
[mariadb]
back_log=2
[mariadbd-10.11]
back_log=1011
[server]
max_connections=9
"""


@pytest.mark.parametrize(
    ("server", "back_log", "others"),
    [
        ("mysql-8.0", "80", {"[mariadb]", "[mariadbd-10.11]"}),
        ("percona-8.0", "80", {"[mariadb]", "[mariadbd-10.11]"}),
        ("mysql-5.7", "1", {"[mysqld-8.0]", "[mariadb]", "[mariadbd-10.11]"}),
        ("mariadb-10.11", "1011", {"[mysqld-8.0]"}),
        ("mariadb-11.4", "2", {"[mysqld-8.0]", "[mariadbd-10.11]"}),
    ],
)
def test_groups_count_for_their_servers_only(server: str, back_log: str, others: set[str], tmp_path: Path) -> None:
    used = used_options(read_defaults_file(written(tmp_path, {"my.cnf": GROUPS})), lambda: [kind(server)])
    assert used.settings == {"back_log": back_log, "max_connections": "9"}
    assert set(used.left_out) == others


@pytest.mark.parametrize("versions", [("8.0.31",), ("8.0",), ("8.0.31 8.0.15",)])
def test_the_version_of_the_session_decides(versions: tuple[str, ...], tmp_path: Path) -> None:
    file = written(tmp_path, {"my.cnf": GROUPS})
    assert dict(asked("interference", defaults_file=file, versions=versions).servers.options)["back_log"] == "80"


def test_a_group_that_only_some_versions_read_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, {"my.cnf": GROUPS})
    error = refused("interference", defaults_file=file, versions=("5.7.22 8.0.31",))
    assert error.message.startswith("my.cnf has the group [mysqld-8.0], which only 8.0.31 reads")


def test_a_group_without_usable_options_does_not_matter(tmp_path: Path) -> None:
    file = written(tmp_path, {"my.cnf": "[mysqld]\nback_log=1\n[mysqld-8.0]\nport=1\n[mariadb]\n"})
    assert settings_of(file, kind("mysql-5.7"), kind("mariadb-10.11")) == {"back_log": "1"}


def test_a_group_is_refused_while_the_version_is_unknown(tmp_path: Path) -> None:
    file = written(tmp_path, {"my.cnf": GROUPS})
    error = refused("interference", defaults_file=file, versions=("lts",))
    assert error.message == "my.cnf has the group [mysqld-8.0], and the version of lts is not known yet"
    with pytest.raises(UsageError, match="the version of my/mysql is not known yet"):
        asked("interference", defaults_file=file, image="my/mysql")


@needs_root
def test_what_this_user_may_not_read_is_named() -> None:
    files = {"my.cnf": "!includedir {folder}/a\n!includedir {folder}/b\n[mysqld]\nback_log=9\n"}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        place.chmod(0o755)
        file = written(place, {**files, "a/x.cnf": "[mysqld]\n", "b/y.cnf": "[mysqld]\n"})
        (place / "a/x.cnf").chmod(0o600)
        (place / "b").chmod(0o700)
        with as_user():
            found = read_defaults_file(file)
    assert (found.included, found.skipped) == (0, ("x.cnf (Permission denied)", "b (Permission denied)"))


@pytest.mark.parametrize("directive", ["include {}/pipe.cnf", "includedir {}"])
def test_an_included_pipe_is_refused_as_every_program_waits_for_it(directive: str, tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    os.mkfifo(tmp_path / "conf" / "pipe.cnf")
    first = tmp_path / "my.cnf"
    first.write_text(f"[client]\nuser=me\n!{directive.format(tmp_path / 'conf')}\n")
    with pytest.raises(UsageError) as raised:
        read_defaults_file(first)
    assert raised.value.message == (
        f"{tmp_path}/conf/pipe.cnf, which {first} includes, is a pipe: servers and clients wait for it"
    )
    assert raised.value.hint == "remove it, or its !include"
