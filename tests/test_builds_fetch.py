"""What does the user see when a client is missing, offline, or brings the wrong file? The clients here are scripts on
PATH: an environment in which mvn fails, not a stand-in for our own code."""

import hashlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from recovery.builds import catalog, install
from recovery.builds.download import cached_sha256, failure_reason
from recovery.builds.install import InstalledServer, InstallJob, Origin, ensure_installed
from recovery.builds.resolve import Sources, available_servers, resolve_server
from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.linux.files import servers_dir


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_CACHE", str(tmp_path / "cache"))


def _mvn(folder: Path, body: str) -> str:
    folder.mkdir()
    (folder / "mvn").write_text(f"#!/bin/sh\n{body}\n")
    (folder / "mvn").chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def _refused(version: str, sources: Sources = Sources()) -> RecoveryError:  # noqa: B008  # frozen
    with pytest.raises(RecoveryError) as caught:
        resolve_server(version, sources, lambda _: None)
    assert "\n" not in caught.value.message
    assert caught.value.hint
    assert install.installed_servers() == ()
    if servers_dir().is_dir():
        assert [path.name for path in servers_dir().iterdir() if not path.name.startswith(".lock")] == []
    return caught.value


def test_a_missing_client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    error = _refused("5.7.22")
    assert isinstance(error, HostUnfitError)
    assert "apt-get install maven" in error.hint
    assert "apt-get install npm" in _refused("5.6.24").hint


def test_a_client_that_is_offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = "[ERROR] Could not transfer artifact a:b:jar:1 from/to central (https://repo.host.test/m2): unknown host"
    monkeypatch.setenv(
        "PATH", _mvn(tmp_path / "bin", f"echo '{said}'\necho '[ERROR]'\necho '[ERROR] [Help 1]'\nexit 1")
    )
    message = _refused("5.7.22").message
    assert message.startswith("mvn could not fetch 5.7.22: Could not transfer artifact")
    assert "host.test" not in message


def test_a_wrong_checksum(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    body = 'for a; do case $a in -DoutputDirectory=*) echo wrong >"${a#*=}/server.jar";; esac; done'
    monkeypatch.setenv("PATH", _mvn(tmp_path / "bin", body))
    error = _refused("5.7.22")
    row = next(row for row in catalog.pinned_servers() if str(row.version) == "5.7.22")
    assert row.sha256 in error.message
    assert hashlib.sha256(b"wrong\n").hexdigest() in error.message


def test_a_mirror_that_is_down_leaves_the_catalog(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    lines: list[str] = []
    with pytest.raises(HostUnfitError, match="mvn is missing"):
        resolve_server("5.7.22", Sources(archive="http://127.0.0.1:9"), lines.append)
    assert lines[0].startswith("5.7.22 would come from the archive, but 127.0.0.1:9 cannot be reached")
    assert lines[0].endswith(": trying the next source")


def test_a_mirror_that_is_down_is_not_a_usage_error() -> None:
    error = _refused("5.7.9", Sources(archive="http://127.0.0.1:9"))
    assert isinstance(error, HostUnfitError)
    assert "5.7.22" in error.hint


def test_offline_by_request() -> None:
    assert "offline" in _refused("5.7.22", Sources(offline=True)).message
    assert "offline" in _refused("5.7.9", Sources(offline=True)).message


@pytest.mark.parametrize("version", ["mariadb-10.6.1", "percona-8.0.39"])
def test_a_flavor_without_an_archive(version: str) -> None:
    error = _refused(version)
    assert "not in the catalog" in error.message
    assert "mariadb-10.11.5" in error.hint


@pytest.mark.parametrize("version", ["5.7", "latest", "", "../5.7.22"])
def test_no_version(version: str) -> None:
    error = _refused(version)
    assert isinstance(error, UsageError)
    assert "5.7.22" in error.hint


@pytest.mark.parametrize("archive", ["", "mirror", "file:///srv", "ftp://mirror.test"])
def test_an_archive_that_is_no_address(archive: str) -> None:
    assert isinstance(_refused("5.7.9", Sources(archive=archive)), UsageError)


def test_a_cache_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RECOVERY_CACHE", str(tmp_path / "file"))
    with pytest.raises(HostUnfitError, match="could not be put in place"):
        resolve_server("5.7.22", Sources(), lambda _: None)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("npm ERR! code X\nnpm ERR! request to https://r.test/x failed\n\nnpm ERR!\n", "request to its host failed"),
        ("npm error A complete log of this run can be found in: /x/_logs/1\n", "it gave no reason"),
        ("\x1b[1m[ERROR] gone -> [Help 1]\x1b[0m\n[ERROR] Re-run Maven using\n", "gone"),
        ("getaddrinfo ENOTFOUND registry.host.org\n", "getaddrinfo ENOTFOUND its host"),
        ("[ERROR] com.facebook.presto:mysql:jar:0.6 is absent", "com.facebook.presto:mysql:jar:0.6 is absent"),
        ("", "it gave no reason"),
    ],
)
def test_the_reason_of_a_client(output: str, expected: str) -> None:
    assert failure_reason(output) == expected


def test_the_catalog_is_pinned() -> None:
    assert catalog.DEFAULT_VERSION in {str(row.version) for row in catalog.pinned_servers()}
    assert all(len(row.sha256) == 64 and row.bytes > 1_000_000 for row in catalog.pinned_servers())
    assert [offer.version for offer in available_servers()] == [str(row.version) for row in catalog.pinned_servers()]
    assert not any(offer.cached for offer in available_servers())


def _origin(part: Path) -> Origin:
    (part / "tree/bin").mkdir(parents=True)
    (part / "tree/bin/mysqld").write_text("x")
    return Origin("file", "", "own x", "x", "ab" * 32, 1, "bin/mysqld")


def test_two_at_once_fill_once() -> None:
    fills: list[int] = []
    gate = threading.Barrier(2)

    def fill(part: Path) -> Origin:
        fills.append(1)
        return _origin(part)

    def work() -> None:
        gate.wait()
        ensure_installed(InstallJob("x", lambda origin: origin.where == "x", fill), lambda _: None)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fills) == 1
    assert len(install.installed_servers()) == 1


def test_what_a_killed_process_left_is_no_server() -> None:
    half = servers_dir() / ".part-x-abcdef"
    _origin(half)
    (servers_dir() / "file-abababab/tree/bin").mkdir(parents=True)
    (servers_dir() / "file-abababab/tree/bin/mysqld").touch()
    assert install.installed_servers() == ()
    server = ensure_installed(InstallJob("x", lambda origin: origin.where == "x", _origin), lambda _: None)
    assert server.mysqld.read_text() == "x"
    assert not half.exists()
    (server.folder / "server.json").write_text("{")
    assert install.installed_servers() == ()


def _tree(part: Path) -> Origin:
    (part / "tree/share").mkdir(parents=True)
    (part / "tree/share/a.sql").write_text("statements")
    (part / "tree/share/b.sql").symlink_to("a.sql")
    return _origin(part)


def _pinned(part: Path) -> Origin:
    _tree(part)
    row = next(row for row in catalog.pinned_servers() if str(row.version) == "5.7.22")
    return Origin("catalog", "5.7.22", row.source, row.artifact, row.sha256, row.bytes, "bin/mysqld")


def _cut_short(tree: Path) -> None:
    os.truncate(tree / "bin/mysqld", 0)


def _same_size_and_time(tree: Path) -> None:
    before = (tree / "bin/mysqld").stat()
    (tree / "bin/mysqld").write_text("y")
    os.utime(tree / "bin/mysqld", ns=(before.st_atime_ns, before.st_mtime_ns))


def _removed(tree: Path) -> None:
    (tree / "share/a.sql").unlink()


def _added(tree: Path) -> None:
    (tree / "bin/libaio.so.1").touch()


def _another_link(tree: Path) -> None:
    (tree / "share/b.sql").unlink()
    (tree / "share/b.sql").symlink_to("../bin/mysqld")


def _a_pipe(tree: Path) -> None:
    (tree / "share/a.sql").unlink()
    os.mkfifo(tree / "share/a.sql")


changes = pytest.mark.parametrize("change", [_cut_short, _same_size_and_time, _removed, _added, _another_link, _a_pipe])


@changes
def test_a_server_that_was_changed_is_fetched_again(change: Callable[[Path], None]) -> None:
    said: list[str] = []
    job = InstallJob("x", lambda origin: origin.where == "x", _tree)
    server = ensure_installed(job, said.append)
    assert ensure_installed(job, said.append) == server
    assert said == []
    change(server.folder / "tree")
    assert install.installed_servers() == ()
    assert ensure_installed(job, said.append) == server
    assert said == [f"{server.folder} is not used: its files were changed after it was installed"]
    assert server.mysqld.read_text() == "x"
    assert install.installed_servers() == (server,)


def test_a_server_that_was_changed_is_not_run_offline() -> None:
    server = ensure_installed(InstallJob("x", lambda _: True, _pinned), lambda _: None)
    _cut_short(server.folder / "tree")
    assert not next(offer.cached for offer in available_servers() if offer.version == "5.7.22")
    with pytest.raises(HostUnfitError, match=r"5\.7\.22 was changed in the cache") as caught:
        resolve_server("5.7.22", Sources(offline=True), lambda _: None)
    assert "--offline" in caught.value.hint
    assert str(server.folder) in caught.value.message


def _forget_sum(server: InstalledServer) -> None:
    """As an earlier version of the tool wrote the record."""
    record = server.folder / "server.json"
    told = json.loads(record.read_text())
    del told["tree_sha256"]
    record.write_text(json.dumps(told | {"more": 1}))


@changes
def test_a_server_of_an_earlier_version_must_not_change_any_more(change: Callable[[Path], None]) -> None:
    server = ensure_installed(InstallJob("x", lambda _: True, _tree), lambda _: None)
    _forget_sum(server)
    assert install.find_installed(lambda _: True) == server
    assert json.loads((server.folder / "server.json").read_text())["more"] == 1
    change(server.folder / "tree")
    assert install.find_installed(lambda _: True) is None


def test_a_cached_server_that_does_not_run_can_be_removed() -> None:
    server = ensure_installed(InstallJob("x", lambda _: True, _pinned), lambda _: None)
    with pytest.raises(HostUnfitError, match="the server in the cache cannot be used") as caught:
        resolve_server("5.7.22", Sources(offline=True), lambda _: None)
    assert caught.value.hint == f"remove it, and it is fetched again: rm -r {server.folder}"


def test_a_file_that_keeps_its_size_and_time_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/mysqld").write_text("x")
    cached_sha256(tmp_path / "bin/mysqld", tmp_path / "memo.json")
    _same_size_and_time(tmp_path)
    assert cached_sha256(tmp_path / "bin/mysqld", tmp_path / "memo.json") == hashlib.sha256(b"y").hexdigest()
