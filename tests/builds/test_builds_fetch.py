"""Servers are fetched by their own clients, verified, and kept in a cache. The clients are scripts on PATH."""

import hashlib
import json
import os
import platform
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar

import pytest
from fakes import shell_script
from websites import serving

from recovery.builds import catalog, install
from recovery.builds.download import download_progress
from recovery.builds.install import InstalledServer, InstallJob, Origin, ensure_installed
from recovery.builds.resolve import Sources, available_servers, locate_server, parse_release, resolve_server
from recovery.cli.main import run
from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.linux.files import servers_dir

pytestmark = pytest.mark.usefixtures("own_cache")


def fake_maven(body: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell_script(folder / "bin/mvn", body)
    monkeypatch.setenv("PATH", f"{folder}/bin:/usr/bin:/bin")


def refusal(version: str, sources: Sources = Sources()) -> RecoveryError:  # noqa: B008  # frozen
    with pytest.raises(RecoveryError) as caught:
        resolve_server(version, sources, lambda _: None)
    assert "\n" not in caught.value.message
    assert caught.value.hint
    assert install.installed_servers() == ()
    if servers_dir().is_dir():
        assert [path.name for path in servers_dir().iterdir() if not path.name.startswith(".lock")] == []
    return caught.value


def pinned(version: str = "5.7.22") -> catalog.PinnedServer:
    return next(row for row in catalog.pinned_servers() if str(row.version) == version)


def test_a_missing_client_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for version, package in (("5.7.22", "maven"), ("5.6.24", "npm")):
        for manager in ("dnf", "apt-get"):  # the second comes first where there are both
            shell_script(tmp_path / manager, "exit 1")
            error = refusal(version)
            assert isinstance(error, HostUnfitError)
            assert error.hint == f"install it: {manager} install {package}"
        (tmp_path / "apt-get").unlink()


def test_the_reason_of_an_offline_client_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "[ERROR] Could not transfer artifact a:b:jar:1 from/to central (https://repo.host.test/m2): unknown host"
    fake_maven(f"echo '{reason}'\necho '[ERROR]'\necho '[ERROR] [Help 1]'\nexit 1", tmp_path, monkeypatch)
    message = refusal("5.7.22").message
    assert message.startswith("mvn could not fetch 5.7.22: Could not transfer artifact")
    assert "host.test" not in message


def test_a_file_with_a_wrong_checksum_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writes_wrong = 'for a; do case $a in -DoutputDirectory=*) echo wrong >"${a#*=}/server.jar";; esac; done'
    fake_maven(writes_wrong, tmp_path, monkeypatch)
    error = refusal("5.7.22")
    assert pinned().sha256 in error.message
    assert hashlib.sha256(b"wrong\n").hexdigest() in error.message


def test_the_catalog_is_tried_after_a_mirror_that_is_down(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    lines: list[str] = []
    mirror = Sources(archive="http://127.0.0.1:9")
    with pytest.raises(HostUnfitError, match="mvn is missing"):
        resolve_server("5.7.22", mirror, lines.append)
    assert lines[0].startswith("5.7.22 would come from the archive, but 127.0.0.1:9 cannot be reached")
    assert lines[0].endswith(": trying the next source")
    error = refusal("5.7.9", mirror)
    assert isinstance(error, HostUnfitError)
    assert "5.7.22" in error.hint


@pytest.mark.parametrize("version", ["5.7.22", "5.7.9"])
def test_nothing_is_fetched_offline(version: str) -> None:
    assert "offline" in refusal(version, Sources(offline=True)).message


class Archive(BaseHTTPRequestHandler):
    """Answers with these pages, and keeps the forms that it got."""

    pages: ClassVar[dict[str, bytes]] = {}
    forms: ClassVar[list[bytes]] = []

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:  # the base class names it so
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_POST(self) -> None:
        self.forms.append(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        body = self.pages.get(self.path)
        self.send_response(200 if body is not None else 404)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        if with_body and body is not None:
            self.wfile.write(body)


MARIADB_FOLDER = "/mariadb-11.8.2/bintar-linux-systemd-x86_64"
MARIADB_NAME = "mariadb-11.8.2-linux-systemd-x86_64.tar.gz"
PERCONA_FOLDER = "/Percona-Server-8.0/Percona-Server-8.0.36-28/binary/tarball"
PERCONA_NAME = "Percona-Server-8.0.36-28-Linux.x86_64.glibc2.28-minimal.tar.gz"


@pytest.fixture
def vendors(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """The pages of an archive on loopback that stands for those of MariaDB and Percona. Its tarballs hold no server."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    pages = {
        "/": b'<a href="mariadb-11.8.2/"><a href="mariadb-11.8.1/"><a href="mariadb-11.4.8/">',
        f"{MARIADB_FOLDER}/{MARIADB_NAME}": b"no tarball",
        "/products": b'<option value="Percona-Server-8.0.36-28|x"><option value="Percona-Server-8.0.35-27|x">',
        f"{PERCONA_FOLDER}/{PERCONA_NAME}": b"no tarball",
    }
    monkeypatch.setattr(Archive, "pages", pages)
    monkeypatch.setattr(Archive, "forms", [])
    with serving(Archive) as base:
        monkeypatch.setattr(catalog, "MARIADB_URL", base)
        monkeypatch.setattr(catalog, "PERCONA_URL", base)
        monkeypatch.setattr(catalog, "PERCONA_LIST_URL", f"{base}/products")
        yield pages


@pytest.mark.parametrize(
    ("version", "path", "said"),
    [
        ("mariadb-11.8.2", f"{MARIADB_FOLDER}/{MARIADB_NAME}", ()),
        ("mariadb-11.8", f"{MARIADB_FOLDER}/{MARIADB_NAME}", ("mariadb-11.8 is mariadb-11.8.2, the newest in",)),
        ("percona-8.0.36-28", f"{PERCONA_FOLDER}/{PERCONA_NAME}", ()),
        ("percona-8.0.36", f"{PERCONA_FOLDER}/{PERCONA_NAME}", ()),
        ("percona-8.0", f"{PERCONA_FOLDER}/{PERCONA_NAME}", ("percona-8.0 is percona-8.0.36-28, the newest in",)),
    ],
)
def test_a_release_or_the_newest_of_a_series_comes_from_its_vendor(
    version: str, path: str, said: tuple[str, ...], vendors: dict[str, bytes]
) -> None:
    lines: list[str] = []
    with pytest.raises(RecoveryError, match="no archive"):
        resolve_server(version, Sources(), lines.append)
    assert [line.startswith(begin) for line, begin in zip(lines, said, strict=False)] == [True] * len(said)
    assert lines[len(said)] == f"downloading {catalog.MARIADB_URL}{path}"
    assert Archive.forms == ([b"version=Percona-Server-8.0"] if version in ("percona-8.0.36", "percona-8.0") else [])


# -- where a server would come from, without fetching it


def located(version: str | None, sources: Sources = Sources()) -> str | RecoveryError:  # noqa: B008  # frozen
    """Returns what a dry run says; nothing may be in the cache afterwards."""
    try:
        return locate_server(version, sources, lambda _: None)
    except RecoveryError as error:
        return error
    finally:
        assert not servers_dir().exists()


@pytest.mark.usefixtures("vendors")
def test_a_dry_run_names_the_address_of_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    away = Sources(archive=catalog.MARIADB_URL)
    for version, sources in (("mariadb-11.8.2", Sources()), ("11.8", Sources()), ("mariadb-11.8.2", away)):
        place = f"{catalog.MARIADB_URL}{MARIADB_FOLDER}/{MARIADB_NAME}"
        assert located(version, sources) == f"to be fetched from {place}"
    own = f"{catalog.MARIADB_URL}/products"
    assert located(None, Sources(mysqld=own)) == f"to be fetched from {own}"
    fake_maven("exit 1", Path(os.environ["RECOVERY_CACHE"]).parent, monkeypatch)
    assert located("5.7.22") == "to be fetched with mvn"


@pytest.mark.usefixtures("vendors")
@pytest.mark.parametrize(
    ("version", "sources"),
    [
        ("mariadb-11.8.9", Sources()),
        ("mariadb-11.9", Sources()),
        ("mariadb-11.8.2", Sources(archive="http://127.0.0.1:9")),
        ("percona-8.0", Sources(archive="http://127.0.0.1:9")),
        ("26.7.0", Sources(archive="http://127.0.0.1:9")),
        ("5.7.22", Sources(archive="http://127.0.0.1:9")),
        ("5.7.22", Sources(offline=True)),
        ("26.7.0", Sources(offline=True)),
        ("innovation", Sources()),
        (None, Sources(mysqld="http://127.0.0.1:9/mysql.tar.gz")),
        (None, Sources(mysqld="http://127.0.0.1:9/mysql.tar.gz", offline=True)),
    ],
)
def test_a_dry_run_ends_with_the_error_of_the_session(
    version: str | None, sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    before = located(version, sources)
    with pytest.raises(RecoveryError) as caught:
        resolve_server(version, sources, lambda _: None)
    assert isinstance(before, RecoveryError)
    assert (type(before), before.message, before.hint) == (type(caught.value), caught.value.message, caught.value.hint)


@pytest.mark.usefixtures("vendors", "asked_sources")
def test_a_dry_run_exits_as_the_session_would(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    dry_run = ["cold-recovery", "--dry-run", "--tables", "5", "--runs", "1", "--data", str(tmp_path / "data")]
    assert run([*dry_run, "--version", "mariadb-11.8.2"]) == 0
    assert f"  mariadb-11.8.2: server to be fetched from {catalog.MARIADB_URL}/" in capsys.readouterr().out
    assert run([*dry_run, "--version", "mariadb-11.8.2 26.7.0", "--archive", "http://127.0.0.1:9"]) == 3
    printed = capsys.readouterr()
    assert "  26.7.0: server cannot be had here; 5 tables" in printed.out
    assert "error: mariadb-11.8.2 would come from the archive, but 127.0.0.1:9 cannot be reached" in printed.err
    assert run([*dry_run, "--version", "26.7.0", "--offline"]) == 2
    assert "error: 26.7.0 is not in the cache" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("mariadb-11.9", "the archive of the vendor lists no release of mariadb-11.9"),
        ("percona-8.1", "the archive of the vendor lists no release of percona-8.1"),
        ("mariadb-11.8.9", "mariadb-11.8.9 is neither in the catalog nor in the archive of the vendor for x86_64"),
        ("percona-8.0.37", "percona-8.0.37 is neither in the catalog nor in the archive of the vendor for x86_64"),
        (
            "percona-8.0.36-27",
            "percona-8.0.36-27 is neither in the catalog nor in the archive of the vendor for x86_64",
        ),
    ],
)
@pytest.mark.usefixtures("vendors")
def test_a_release_that_the_archive_does_not_have_is_refused(version: str, message: str) -> None:
    error = refusal(version)
    assert isinstance(error, UsageError)
    assert error.message == message
    assert "the nearest" in error.hint


@pytest.mark.usefixtures("vendors")
def test_a_release_without_a_tarball_for_this_cpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert refusal("mariadb-11.8").message.endswith("nor in the archive of the vendor for aarch64")


@pytest.mark.parametrize(
    ("version", "checksums", "content"),
    [
        ("mariadb-11.8.2", f"{MARIADB_FOLDER}/sha256sums.txt", f"{'0' * 64}  {MARIADB_NAME}\n"),
        ("mariadb-11.8.2", f"{MARIADB_FOLDER}/sha256sums.txt", f"{'1' * 64}  x.deb\n{'0' * 64}  ./{MARIADB_NAME}\n"),
        ("percona-8.0.36-28", f"{PERCONA_FOLDER}/{PERCONA_NAME}.sha256sum", f"{'0' * 64}  {PERCONA_NAME}\n"),
    ],
)
def test_the_checksum_that_the_vendor_publishes_is_compared(
    version: str, checksums: str, content: str, vendors: dict[str, bytes]
) -> None:
    vendors[checksums] = content.encode()
    error = refusal(version)
    assert error.message.endswith(f"but {'0' * 64} was expected")
    assert error.hint == f"its publisher says otherwise in {catalog.MARIADB_URL}{checksums}"


def test_a_series_is_looked_for_on_this_host_if_the_archive_may_not_be_asked_or_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    away = Sources(archive="http://127.0.0.1:9")
    lines: list[str] = []
    with pytest.raises(HostUnfitError, match="mvn is missing"):
        resolve_server("mariadb-10.11", away, lines.append)
    assert "127.0.0.1:9 cannot be reached" in lines[0]
    assert lines[0].endswith("mariadb-10.11 is mariadb-10.11.5, the newest that is known on this host")
    assert "127.0.0.1:9 cannot be reached" in refusal("percona-8.0", away).message
    assert "127.0.0.1:9 cannot be reached" in refusal("percona-8.0.36", away).message
    assert "known on this host" in refusal("percona-8.0", Sources(offline=True)).message
    assert "mariadb-11.4.5 is not in the cache" in refusal("mariadb-11.4", Sources(offline=True)).message


@pytest.mark.parametrize(
    ("version", "offered"), [("5.5", "5.6.24"), ("lts", "8.0.31"), ("", "5.7.22"), ("../5.7.22", "5.7.22")]
)
def test_an_invalid_version_is_refused(version: str, offered: str) -> None:
    error = refusal(version)
    assert isinstance(error, UsageError)
    assert offered in error.hint


@pytest.mark.parametrize("archive", ["", "mirror", "file:///srv", "ftp://mirror.test"])
def test_an_archive_that_is_no_address_is_refused(archive: str) -> None:
    assert isinstance(refusal("5.7.9", Sources(archive=archive)), UsageError)


def test_a_cache_that_cannot_be_created_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RECOVERY_CACHE", str(tmp_path / "file"))
    with pytest.raises(HostUnfitError, match="could not be put in place"):
        resolve_server("5.7.22", Sources(), lambda _: None)


def test_every_server_of_the_catalog_is_pinned() -> None:
    versions = [str(row.version) for row in catalog.pinned_servers()]
    assert catalog.DEFAULT_VERSION in versions
    assert all(len(row.sha256) == 64 and row.bytes > 1_000_000 for row in catalog.pinned_servers())
    assert [(offer.version, offer.cached) for offer in available_servers()] == [(one, False) for one in versions]


# -- the cache


def fill(part: Path) -> Origin:
    (part / "tree/bin").mkdir(parents=True)
    (part / "tree/bin/mysqld").write_text("x")
    (part / "tree/share").mkdir(parents=True)
    (part / "tree/share/a.sql").write_text("statements")
    (part / "tree/share/b.sql").symlink_to("a.sql")
    return Origin("file", "", "own x", "x", "ab" * 32, 1, "bin/mysqld")


def fill_pinned(part: Path) -> Origin:
    fill(part)
    row = pinned()
    return Origin("catalog", "5.7.22", row.source, row.artifact, row.sha256, row.bytes, "bin/mysqld")


JOB = InstallJob("x", lambda origin: origin.where == "x", fill)
PINNED_JOB = InstallJob("x", lambda _: True, fill_pinned)


def install_server(job: InstallJob = JOB) -> InstalledServer:
    return ensure_installed(job, lambda _: None)


def test_two_processes_fetch_a_server_once() -> None:
    fills: list[int] = []
    gate = threading.Barrier(2)

    def fill_once(part: Path) -> Origin:
        fills.append(1)
        return fill(part)

    def work() -> None:
        gate.wait()
        install_server(InstallJob("x", JOB.accept, fill_once))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fills) == 1
    assert len(install.installed_servers()) == 1


def test_a_folder_of_a_killed_process_is_no_server() -> None:
    half = servers_dir() / ".part-x-abcdef"
    fill(half)
    (servers_dir() / "file-abababab/tree/bin").mkdir(parents=True)
    (servers_dir() / "file-abababab/tree/bin/mysqld").touch()
    assert install.installed_servers() == ()
    server = install_server()
    assert server.mysqld.read_text() == "x"
    assert not half.exists()
    (server.folder / "server.json").write_text("{")
    assert install.installed_servers() == ()


def cut_short(tree: Path) -> None:
    os.truncate(tree / "bin/mysqld", 0)


def keep_size_and_time(tree: Path) -> None:
    before = (tree / "bin/mysqld").stat()
    (tree / "bin/mysqld").write_text("y")
    os.utime(tree / "bin/mysqld", ns=(before.st_atime_ns, before.st_mtime_ns))


def remove(tree: Path) -> None:
    (tree / "share/a.sql").unlink()


def add(tree: Path) -> None:
    (tree / "bin/libaio.so.1").touch()


def change_link(tree: Path) -> None:
    (tree / "share/b.sql").unlink()
    (tree / "share/b.sql").symlink_to("../bin/mysqld")


def make_pipe(tree: Path) -> None:
    remove(tree)
    os.mkfifo(tree / "share/a.sql")


changes = pytest.mark.parametrize("change", [cut_short, keep_size_and_time, remove, add, change_link, make_pipe])


@changes
def test_a_changed_server_is_fetched_again(change: Callable[[Path], None]) -> None:
    lines: list[str] = []
    server = ensure_installed(JOB, lines.append)
    assert ensure_installed(JOB, lines.append) == server
    assert lines == []
    change(server.folder / "tree")
    assert install.installed_servers() == ()
    assert ensure_installed(JOB, lines.append) == server
    assert lines == [f"{server.folder} is not used: its files were changed after it was installed"]
    assert server.mysqld.read_text() == "x"
    assert install.installed_servers() == (server,)


def test_a_server_without_a_checksum_of_its_tree_is_not_used() -> None:
    server = install_server()
    record = server.folder / "server.json"
    values = json.loads(record.read_text())
    record.write_text(json.dumps(values | {"more": 1}))
    assert install.find_installed(lambda _: True) == server
    del values["tree_sha256"]
    record.write_text(json.dumps(values))
    assert install.find_installed(lambda _: True) is None


def test_a_changed_server_is_not_used_offline() -> None:
    server = install_server(PINNED_JOB)
    cut_short(server.folder / "tree")
    assert not next(offer.cached for offer in available_servers() if offer.version == "5.7.22")
    with pytest.raises(HostUnfitError, match=r"5\.7\.22 was changed in the cache") as caught:
        resolve_server("5.7.22", Sources(offline=True), lambda _: None)
    assert "--offline" in caught.value.hint
    assert str(server.folder) in caught.value.message


def test_a_cached_server_that_does_not_run_can_be_removed() -> None:
    server = install_server(PINNED_JOB)
    with pytest.raises(HostUnfitError, match="the server in the cache cannot be used") as caught:
        resolve_server("5.7.22", Sources(offline=True), lambda _: None)
    assert caught.value.hint == f"remove it, and it is fetched again: rm -r {server.folder}"


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("8.0", "8.0.31"),
        ("5.7", "5.7.22"),
        ("latest", "8.0.31"),
        ("mariadb-lts", "mariadb-11.4.5"),
        ("5.7.9", "5.7.9"),
        ("10.11", "mariadb-10.11.5"),
        ("26.7.0", "26.7.0"),
    ],
)
def test_a_local_server_is_the_newest_that_is_known(text: str, release: str) -> None:
    assert str(parse_release(text)) == release


def test_a_download_says_how_much_has_come_and_how_long_the_rest_takes() -> None:
    assert download_progress(10 << 20, 50 << 20, 5.0) == "10 MB of 50 MB, about 20 s left"
    assert download_progress(1 << 20, 601 << 20, 1.0) == "1 MB of 601 MB, about 10 min left"
    assert download_progress(3 << 20, None, 1.0) == "3 MB"
