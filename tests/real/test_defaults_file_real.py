"""The options that are read from a my.cnf and its includes are those that real servers print."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from recovery.builds.resolve import Sources, resolve_server
from recovery.mysqld.defaults_file import ServerKind, read_defaults_file
from recovery.mysqld.options import canonical_name

pytestmark = pytest.mark.real

LARGE = pytest.mark.on_demand("large")
GROUPS = (
    "client", "mysqld", "MYSQLD", " mysqld", "mysqld_safe", "server", "mariadb", "mariadbd", "client-server", "galera",
    "mysqld-5.6", "mysqld-5.7", "mysqld-8.0", "mysqld-8.4", "mysqld-9.7", "mysqld-10.2", "mysqld-10.11", "mariadb-10.2",
    "mariadb-10.11", "mariadbd-10.11", "mariadb-11.4", "server-8.0",
)  # fmt: skip


@pytest.mark.parametrize(
    "version",
    [
        "5.7.22",
        "8.0.31",
        "mariadb-10.11.5",
        *(pytest.param(version, marks=LARGE) for version in ("8.0.15", "mariadb-11.4.5")),
    ],
)
def test_the_options_of_a_file_are_those_that_the_server_reads(version: str, tmp_path: Path) -> None:
    included = "".join(f"[{group}]\nback_log={number}\n" for number, group in enumerate(GROUPS, 100))
    files = {
        "my.cnf": f"[client]\nport=1\n!includedir {tmp_path}/d/\n[mysqld]\nmax-connections = 5 # five\n"
        f"!include {tmp_path}/0.cnf\n!include {tmp_path}/gone\n!  include\t {tmp_path}/open.cnf  \n!other\n"
        f"!include {tmp_path}/wrong\n!include {tmp_path}/d\n[ server\t] ; text\nskip-name-resolve # x\n"
        "init_connect='a#b' # c\ninit_file=x\\\\y\\tz\nslow_query_log_file=a\"#b\n",
        "wrong": f"[mysqld]\nwait_timeout=1\n!includedir {tmp_path}/gone\nwait_timeout=2\n",
        "open.cnf": "[mysqld]\nwait_timeout=3\n",
        **{f"{n}.cnf": f"[mysqld]\nlong_query_time={n}\n!include {tmp_path}/{n + 1}.cnf\n" for n in range(13)},
        "d/groups.cnf": included,
        **{
            f"d/{name}": f"[server]\nsort_buffer_size={number}\n"
            for number, name in enumerate(("b.cnf", "a.cnf", "Z.cnf", "10.cnf", ".cnf", "x.bak.cnf", "a.ini", "cnf"))
        },
    }
    (tmp_path / "d/folder.cnf").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "open.cnf").chmod(0o666)
    build = resolve_server(version, Sources(), lambda _: None)
    libraries = {"LD_LIBRARY_PATH": ":".join(map(str, build.library_dirs))} if build.library_dirs else {}
    printed = subprocess.run(
        [build.mysqld, f"--defaults-file={tmp_path}/my.cnf", "--print-defaults"],
        env={**os.environ, **libraries}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    theirs = [word for word in printed.stdout.split() if word.startswith("--")]
    server = ServerKind(version, build.version.flavor, build.version.numbers[:2])
    found = (one for one in read_defaults_file(tmp_path / "my.cnf").options if server.reads(one.group))
    ours = [f"--{one.name}={one.value}" if one.value else f"--{one.name}" for one in found]
    assert ours == [f"--{canonical_name(name)}{equals}{value}" for name, equals, value in map(split_option, theirs)]


def split_option(text: str) -> tuple[str, str, str]:
    return text.partition("=")
