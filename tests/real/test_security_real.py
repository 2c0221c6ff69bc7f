"""Real servers are reached by nobody else, refuse unknown options early, and run without steps that need root."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from datadirs import shared_empty_datadir
from otherusers import NOBODY, needs_root
from sessions import stored

from recovery.builds import catalog
from recovery.builds.executable import query_options
from recovery.builds.resolve import Sources, resolve_server
from recovery.cli.main import run
from recovery.errors import HostUnfitError
from recovery.mysqld.client import scalar
from recovery.mysqld.local import LocalLauncher
from recovery.mysqld.options import RESERVED_OPTIONS, build_settings, check_user_settings, hint_if_unknown
from recovery.mysqld.server import Server, ServerConfig

pytestmark = pytest.mark.real
VERSIONS = ("5.6.24", "8.0.31", "mariadb-10.11.5")
"""One that knows no other listener, one with the X plugin's and an administrator's, one with an extra port."""
TABLES = 20

CONNECT = """
import os, socket, sys
os.setgroups([])
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
for attempt in (lambda: socket.socket(socket.AF_UNIX).connect(sys.argv[2]), lambda: os.listdir(sys.argv[3])):
    try:
        attempt()
        print("came in")
    except PermissionError:
        print("refused")
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_is_reached_by_nobody_else(
    version: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    build, datadir = shared_empty_datadir(version, tmp_path_factory)
    settings = build_settings(build.version)
    with Server(ServerConfig(LocalLauncher(), build, tmp_path / "logs", settings), datadir) as server:
        server.start()
        process = psutil.Process(server.process.pid)
        assert process.net_connections(kind="inet") == [], "it listens to the network"
        assert [word for word in process.cmdline()[1:] if not word.startswith("--defaults-file=")] == []
        with server.session() as connection:
            assert scalar(connection, "SELECT @@skip_networking") == 1
        rundir = server.socket.parent
        for folder in (rundir, rundir.parent, datadir):
            assert stat.S_IMODE(folder.stat().st_mode) & 0o077 == 0, folder
        (log,) = (tmp_path / "logs").iterdir()
        assert stat.S_IMODE(log.stat().st_mode) == 0o600
        if os.geteuid() == 0:
            done = subprocess.run(
                [sys.executable, "-c", CONNECT, str(NOBODY), str(server.socket), str(datadir)],
                cwd="/", capture_output=True, text=True, check=True,
            )  # fmt: skip
            assert done.stdout.split() == ["refused", "refused"]
        server.stop()


@pytest.mark.parametrize(
    ("option", "what"),
    [
        ("skip_skip_networkin=1", "is reserved for the tool itself"),
        ("skip_networkin=0", "is reserved for the tool itself"),
        ("x.port=3306", "is not the name of a server option"),
        ("loose_innodb_io_cap=9", "no such option in 5.6.24, mariadb-10.11.5"),
        ("innodb_io_capcity=9", "did you mean innodb_io_capacity?"),
        ("innodb_redo_log_capcity=9", "no such option in 5.6.24, mariadb-10.11.5"),
    ],
)
def test_an_option_is_refused_before_anything_is_built(
    option: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    servers = ["--version", "5.6.24 mariadb-10.11.5", "--engine", "local", "--set", option]
    kept = ["--tables", "3", "--runs", "1", "--no-probe", "--data", str(data), "--results", str(tmp_path / "results")]
    assert run(["cold-recovery", *servers, *kept]) == 2
    assert what in capsys.readouterr().err
    assert not data.exists() or not list(data.iterdir())


EVERYWHERE = (
    "innodb_buffer_pool_size", "innodb_doublewrite", "innodb_fast_shutdown", "innodb_flush_log_at_trx_commit",
    "innodb_flush_method", "innodb_force_recovery", "innodb_io_capacity", "innodb_log_file_size",
    "innodb_monitor_enable", "innodb_open_files", "innodb_page_size", "innodb_read_io_threads", "init_connect",
    "loose_innodb_log_file_size", "loose_report_host", "loose_table_cache", "loose_table_open_cache",
    "performance_schema", "plugin_dir", "skip-innodb-doublewrite", "skip-name-resolve", "skip_ssl", "sync_binlog",
    "table_definition_cache", "table_open_cache", "table_open_cache_instances", "tmp_table_size",
    "transaction-isolation", "loose_keyring_file_data", "loose_innodb_lock_schedule_algorithm",
    "loose_innodb_redo_log_capacity", "loose_innodb_log_spin_cpu_abs_lwm", "loose_innodb_thread_concurrency",
)  # fmt: skip
"""What the pages of the tool and its tests give to servers."""
SOME = {
    "log_error_verbosity": {"5.7.22", "8.0.15", "8.0.31"},
    "innodb_redo_log_capacity": {"8.0.31"},
    "innodb_log_spin_cpu_abs_lwm": {"8.0.15", "8.0.31"},
    "innodb_log_wait_for_flush_spin_hwm": {"8.0.15", "8.0.31"},
    "innodb_lock_schedule_algorithm": {"mariadb-10.2.11"},
    "innodb_thread_concurrency": {"5.6.24", "5.7.22", "8.0.15", "8.0.31", "mariadb-10.2.11"},
}
"""Who has an option that not every server has."""


@pytest.mark.parametrize("version", [str(row.version) for row in catalog.pinned_servers()])
def test_a_server_lists_its_options(version: str) -> None:
    listed = query_options(resolve_server(version, Sources(), print))
    written = {name: next(iter(check_user_settings({name: "1"}))) for name in (*EVERYWHERE, *SOME)}
    accepted = {name for name, found in written.items() if hint_if_unknown(found, listed) is None}
    assert accepted == {*EVERYWHERE, *(name for name, versions in SOME.items() if version in versions)}
    assert listed >= {"port", "skip_networking"}
    for name in listed - RESERVED_OPTIONS:
        check_user_settings({name: "1"})


@needs_root
def test_root_starts_no_server_over_the_data_of_another_user(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    build, datadir = shared_empty_datadir("5.6.24", tmp_path_factory)
    owner = datadir.stat()
    os.chown(datadir, NOBODY, NOBODY)
    try:
        with (
            Server(ServerConfig(LocalLauncher(), build, tmp_path / "logs"), datadir) as server,
            pytest.raises(HostUnfitError, match=f"{datadir} is not used: it belongs to nobody"),
        ):
            server.start()
    finally:
        os.chown(datadir, owner.st_uid, owner.st_gid)


def test_an_unprivileged_session_takes_no_step_that_needs_root(at: list[str], tmp_path: Path) -> None:
    """The schema is named like a word of SQL."""
    asked = ["--version", "5.6.24", "--runs", "1", "--database", "order", "--trace", "--unprivileged"]
    assert run(["cold-recovery", *asked, *at]) == 0
    report = stored(tmp_path)
    counted, one = report["runs"]
    assert (counted["verdict"], one["verdict"]) == ("measured", "sampled"), one["reason"]
    assert one["means"] == "fadvise"
    assert one["traced_by"] == "inotify"
    assert one["tables_found"] == TABLES
    assert report["settings"]["unprivileged"] is True
    assert report["settings"]["no_drop_caches"] is True
    assert "--unprivileged" in report["command"]
    assert report["environment"]["cold_means"] == "fadvise"
    schema = next((Path(at[at.index("--data") + 1])).glob("5.6.24-order-*/mysql/order"))
    assert len(list(schema.glob("*.ibd"))) == TABLES
    assert stat.S_IMODE(schema.parent.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("given", ["option", "variable"])
def test_an_unprivileged_session_refuses_what_needs_root(
    given: str, at: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The environment variable and the option do the same."""
    if given == "variable":
        monkeypatch.setenv("RECOVERY_UNPRIVILEGED", "1")
    unprivileged = ["--unprivileged"] if given == "option" else []
    asked = ["cold-recovery", "--version", "5.6.24", "--runs", "1", *unprivileged, *at]
    for dry in ([], ["--dry-run"]):
        assert run([*asked, "--memory", "1g", *dry]) == 3
        refused = "--memory / MEMORY: it cannot be set: it needs a control group, refused by --unprivileged"
        assert refused in capsys.readouterr().err
    assert run([*asked, "--dry-run"]) == 0
    assert "--unprivileged" in capsys.readouterr().err, "the command that repeats it"
    assert run(["doctor", "--no-probe", "--json", "--data", str(tmp_path), *unprivileged]) in (0, 3)
    assert "refused by --unprivileged" in capsys.readouterr().out


def test_a_folder_that_no_options_file_can_name_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, results = tmp_path / 'of "tables"', tmp_path / "results"
    words = ["clean-start", "--version", "5.7.22", "--tables", "1", "--data", str(data), "--results", str(results)]
    assert run(words) == 2
    assert "the value of '--data' contains a double quote" in capsys.readouterr().err
    assert not data.exists()
