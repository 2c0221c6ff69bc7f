"""Real servers are fetched, found and recognised. Uses the real cache, and downloads what is not in it."""

import gzip
import hashlib
import http.server
import lzma
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO

import pytest
from sessions import left_out, stored
from websites import serving

from recovery.builds import catalog, download, executable, install
from recovery.builds.executable import loader_environment
from recovery.builds.resolve import Sources, available_servers, resolve_server
from recovery.cli.main import run
from recovery.errors import RecoveryError, UsageError
from recovery.model import Build

pytestmark = pytest.mark.real

TRUE_NAME = "mysql-5.7.22-linux-glibc2.12-x86_64.tar.gz"
FALSE_NAME = "mysql-5.7.9-linux-glibc2.5-x86_64.tar.gz"


def _quiet(_: str) -> None:
    pass


@pytest.fixture(scope="module")
def server() -> Build:
    return resolve_server("5.7.22", Sources(), _quiet)


@pytest.fixture(scope="module")
def tarball(server: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real 5.7.22 in the form in which the vendor ships it."""
    path = tmp_path_factory.mktemp("archive") / TRUE_NAME
    top = TRUE_NAME.removesuffix(".tar.gz")
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        tar.add(server.mysqld, f"{top}/bin/mysqld")
        tar.add(server.basedir / "share" / "english", f"{top}/share/english")
        tar.add(server.basedir / "README", f"{top}/mysql-test/README")
    return path


@dataclass
class Mirror:
    """A web server on loopback; what it was asked for is kept."""

    root: Path
    base: str = ""
    asked: list[str] = field(default_factory=list)

    def publish(self, path: str, file: Path) -> str:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        target.symlink_to(file)
        return f"{self.base}/{path}"


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Mirror]:
    (tmp_path / "www").mkdir()
    mirror = Mirror(tmp_path / "www")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class names it so
            mirror.asked.append(self.requestline)

        def translate_path(self, path: str) -> str:
            return str(mirror.root) + path

    with serving(Handler) as mirror.base:
        yield mirror


@pytest.mark.parametrize("row", catalog.pinned_servers(), ids=lambda row: str(row.version))
def test_every_server_of_the_catalog(row: catalog.PinnedServer) -> None:
    build = resolve_server(str(row.version), Sources(), _quiet)
    assert build.version == row.version
    assert (build.basedir / "share" / "english" / "errmsg.sys").is_file()
    assert executable.missing_libraries(build.mysqld, build.library_dirs) == ()
    assert build.source == row.source
    assert next(offer for offer in available_servers() if offer.version == str(row.version)).cached
    again: list[str] = []
    assert resolve_server(str(row.version), Sources(offline=True), again.append) == build
    assert again == []


def test_the_fingerprint_is_that_of_the_executable(server: Build) -> None:
    assert server.fingerprint == hashlib.sha256(server.mysqld.read_bytes()).hexdigest()


def test_mariadb_comes_with_its_install_script_and_dump_client() -> None:
    build = resolve_server("mariadb-10.2.11", Sources(), _quiet)
    assert os.access(build.basedir / "scripts" / "mysql_install_db", os.X_OK)
    assert os.access(build.basedir / "bin" / "mysqldump", os.X_OK)


def test_a_mirror_is_asked_once(tarball: Path, mirror: Mirror, own_cache: Path) -> None:
    url = mirror.publish(f"archives/mysql-5.7/{TRUE_NAME}", tarball)
    lines: list[str] = []
    build = resolve_server("5.7.22", Sources(archive=mirror.base), lines.append)
    assert build.version.numbers == (5, 7, 22)
    assert build.source == f"archive {url}"
    assert lines[0] == f"downloading {url}"
    assert "recorded" in build.warnings[0]
    assert not (build.basedir / "mysql-test").exists()
    mirror.asked.clear()
    assert resolve_server("5.7.22", Sources(archive=mirror.base), _quiet) == build
    assert mirror.asked == []


@pytest.mark.parametrize(
    ("version", "name", "compressed"),
    [
        ("5.6.24", "mysql-5.6.24-linux-glibc2.5-x86_64.tar.gz", partial(gzip.open, mode="wb", compresslevel=0)),
        pytest.param(
            "8.0.31",
            "mysql-8.0.31-linux-x86_64-minimal.tar.xz",
            partial(lzma.open, mode="wb", preset=0),
            marks=pytest.mark.on_demand("large"),
        ),
    ],
)
def test_a_recovery_with_a_server_of_each_era_from_a_mirror(
    version: str,
    name: str,
    compressed: Callable[[Path], IO[bytes]],
    mirror: Mirror,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = resolve_server(version, Sources(), _quiet)
    top = re.sub(r"\.tar\.\w+$", "", name)
    with compressed(tmp_path / name) as file, tarfile.open(fileobj=file, mode="w") as tar:
        tar.add(whole.mysqld, f"{top}/bin/mysqld")
        for folder in ("share", "lib"):
            if (whole.basedir / folder).is_dir():
                tar.add(whole.basedir / folder, f"{top}/{folder}")
    mirror.publish(name, tmp_path / name)
    monkeypatch.setenv("RECOVERY_CACHE", str(tmp_path / "cache"))
    options = ["--archive", mirror.base, "--version", version, "--tables", "2", "--runs", "1", "--no-probe"]
    folders = ["--data", str(tmp_path / "data"), "--results", str(tmp_path / "results")]
    assert run(["cold-recovery", *options, *folders]) == 0
    report = stored(tmp_path)
    assert report["runs"][0]["verdict"] == "measured"
    assert report["servers"][version]["source"] == f"archive {mirror.base}/{name}"
    assert "recorded" in report["servers"][version]["warnings"]


@dataclass(frozen=True)
class Vendor:
    """How a vendor packs a server of the catalog, and where its archive has the tarball and the checksum."""

    packed: str
    series: str
    older: str
    newest: str
    folder: str
    name: str
    checksums: str
    links: tuple[tuple[str, str], ...] = ()
    renamed: tuple[bytes, bytes] = (b"", b"")


MARIADB = Vendor(
    "mariadb-10.11.5", "mariadb-10.11", "mariadb-10.11.4", "mariadb-10.11.5",
    "mariadb-10.11.5/bintar-linux-systemd-x86_64", "mariadb-10.11.5-linux-systemd-x86_64.tar.gz", "sha256sums.txt",
    links=(("bin/mysqld", "mariadbd"), ("scripts/mysql_install_db", "mariadb-install-db")),
)  # fmt: skip
PERCONA = Vendor(
    "5.7.22", "percona-5.7", "Percona-Server-5.7/Percona-Server-5.7.20-19", "percona-5.7.22-22",
    "Percona-Server-5.7/Percona-Server-5.7.22-22/binary/tarball",
    "Percona-Server-5.7.22-22-Linux.x86_64.glibc2.12-minimal.tar.gz",
    "Percona-Server-5.7.22-22-Linux.x86_64.glibc2.12-minimal.tar.gz.sha256sum",
    # The catalog has no server of Percona: MySQL's stands for it, under its name.
    renamed=(b"MySQL Community Server (GPL)", b"Percona Server (GPL), Rel 22"),
)  # fmt: skip


def _packed_by(vendor: Vendor, folder: Path) -> Path:
    """Returns the tarball of a real server in the vendor's form."""
    whole, top = resolve_server(vendor.packed, Sources(), _quiet), vendor.name.removesuffix(".tar.gz")
    mysqld = folder / "mysqld"
    mysqld.write_bytes(whole.mysqld.read_bytes().replace(*vendor.renamed))
    mysqld.chmod(0o755)
    with tarfile.open(folder / vendor.name, "w:gz", compresslevel=1) as tar:
        tar.add(mysqld, f"{top}/bin/{whole.mysqld.name}")
        for path in sorted(whole.basedir.iterdir()):
            tar.add(
                path, f"{top}/{path.name}", filter=lambda one: None if one.name.endswith(whole.mysqld.name) else one
            )
        for name, target in vendor.links:
            link = tarfile.TarInfo(f"{top}/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
    return folder / vendor.name


@pytest.mark.parametrize("vendor", [MARIADB, PERCONA], ids=lambda vendor: vendor.series)
def test_a_recovery_with_the_newest_of_a_series_from_the_archive_of_another_vendor(
    vendor: Vendor,
    mirror: Mirror,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tarball = _packed_by(vendor, tmp_path)
    url = mirror.publish(f"{vendor.folder}/{vendor.name}", tarball)
    (mirror.root / vendor.older).mkdir(parents=True)
    checksums = tmp_path / "checksums"
    mirror.publish(f"{vendor.folder}/{vendor.checksums}", checksums)
    checksums.write_text(f"{'0' * 64}  {vendor.name}\n")
    monkeypatch.setenv("RECOVERY_CACHE", str(tmp_path / "cache"))
    folders = ["--data", str(tmp_path / "data"), "--results", str(tmp_path / "results")]
    options = ["--archive", mirror.base, "--tables", "2", "--runs", "1", "--no-probe", "--engine", "local", *folders]
    assert run(["cold-recovery", "--version", vendor.series, *options]) == 3
    assert f"but {'0' * 64} was expected" in capsys.readouterr().err
    checksums.write_text(f"{hashlib.sha256(tarball.read_bytes()).hexdigest()}  {vendor.name}\n")
    assert run(["cold-recovery", "--version", vendor.series, *options]) == 0
    report = stored(tmp_path)
    assert report["runs"][0]["verdict"] == "measured"
    (server,) = report["servers"].values()
    assert server["source"] == f"archive {url}"
    assert "it equals the SHA-256 next to it" in server["warnings"]
    assert [offer.version for offer in available_servers() if offer.cached] == [vendor.newest]
    mirror.asked.clear()
    for version in (vendor.newest, vendor.series):
        assert resolve_server(version, Sources(offline=True), _quiet).source == f"archive {url}"
    assert resolve_server(vendor.newest, Sources(archive=mirror.base), _quiet).source == f"archive {url}"
    assert mirror.asked == []


def test_a_proxy_of_the_environment_is_not_asked_for_loopback(
    tarball: Path, mirror: Mirror, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_server(None, Sources(mysqld=str(tarball)), _quiet)  # brings the libraries, for which a proxy does count
    mirror.publish(TRUE_NAME, tarball)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    assert resolve_server("5.7.22", Sources(archive=mirror.base + "/"), _quiet).version.numbers == (5, 7, 22)


@pytest.mark.parametrize("algorithm", ["md5", "sha256"])
def test_a_published_checksum_is_verified(
    tarball: Path, mirror: Mirror, own_cache: Path, tmp_path: Path, algorithm: str
) -> None:
    mirror.publish(TRUE_NAME, tarball)
    published = tmp_path / "sum"
    mirror.publish(f"{TRUE_NAME}.{algorithm}", published)
    right = hashlib.new(algorithm, tarball.read_bytes()).hexdigest()
    wrong = "0" * len(right)
    published.write_text(f"{wrong}  {TRUE_NAME}\n")
    with pytest.raises(RecoveryError, match=f"{right}, but {wrong} was expected"):
        resolve_server("5.7.22", Sources(archive=mirror.base), _quiet)
    assert install.installed_servers() == ()
    published.write_text(f"{right.upper()}  {TRUE_NAME}\n")
    (warning,) = resolve_server("5.7.22", Sources(archive=mirror.base), _quiet).warnings
    assert "not pinned by this tool" in warning
    assert "over http" in warning


def test_a_recorded_checksum_is_verified_later(tarball: Path, mirror: Mirror, own_cache: Path, tmp_path: Path) -> None:
    mirror.publish(TRUE_NAME, tarball)
    resolve_server("5.7.22", Sources(archive=mirror.base), _quiet)
    shutil.rmtree(install.installed_servers()[0].folder)
    other = tmp_path / "other.tar.gz"
    other.write_bytes(tarball.read_bytes() + b"\0")
    mirror.publish(TRUE_NAME, other)
    with pytest.raises(RecoveryError, match="was expected") as caught:
        resolve_server("5.7.22", Sources(archive=mirror.base), _quiet)
    record = re.search(r"remove (\S+)$", caught.value.hint)
    assert record is not None
    Path(record[1]).unlink()
    resolve_server("5.7.22", Sources(archive=mirror.base), _quiet)


def test_a_wrongly_named_server_is_not_installed(tarball: Path, mirror: Mirror, own_cache: Path) -> None:
    mirror.publish(FALSE_NAME, tarball)
    with pytest.raises(RecoveryError, match=r"contains 5\.7\.22 \(5\.7\.22\), not 5\.7\.9"):
        resolve_server("5.7.9", Sources(archive=mirror.base), _quiet)
    assert install.installed_servers() == ()
    assert not list((own_cache / "servers").glob("recorded/*")), "nor is what had the wrong name"


def test_a_mirror_without_the_version_is_named(mirror: Mirror, own_cache: Path) -> None:
    with pytest.raises(RecoveryError, match=r"5\.7\.9 is neither in the catalog nor in http") as caught:
        resolve_server("5.7.9", Sources(archive=mirror.base), _quiet)
    assert "5.7.22" in caught.value.hint
    assert any(FALSE_NAME in line for line in mirror.asked)


def test_a_truncated_download_is_not_installed(tarball: Path, mirror: Mirror, own_cache: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    cut.write_bytes(tarball.read_bytes()[:-100_000])
    mirror.publish(TRUE_NAME, cut)
    with pytest.raises(RecoveryError, match="is cut short"):
        resolve_server("5.7.22", Sources(archive=mirror.base), _quiet)
    assert install.installed_servers() == ()
    assert not list((own_cache / "servers").glob(".part-*"))
    mirror.publish(TRUE_NAME, tarball)
    assert resolve_server("5.7.22", Sources(archive=mirror.base), _quiet), (
        "what was cut short is no measure of what is whole"
    )


def test_an_own_executable_folder_tarball_and_url(
    server: Build, tarball: Path, mirror: Mirror, own_cache: Path
) -> None:
    url = mirror.publish(TRUE_NAME, tarball)
    for own in (str(server.mysqld), str(server.basedir), str(tarball), url):
        build = resolve_server(None, Sources(mysqld=own), _quiet)
        assert (build.version.numbers, build.fingerprint) == (server.version.numbers, server.fingerprint)
        assert build.source == f"own {own}"
        for version in ("5.7.22", "5.7"):
            assert resolve_server(version, Sources(mysqld=own, offline=True), _quiet) == build
    with pytest.raises(UsageError, match=r"it is 5\.7\.22 \(5\.7\.22\), but --version 5\.7\.9"):
        resolve_server("5.7.9", Sources(mysqld=str(server.mysqld)), _quiet)
    with pytest.raises(UsageError):
        resolve_server("mariadb-5.7.22", Sources(mysqld=str(server.mysqld)), _quiet)


def test_a_client_is_not_taken_for_a_server() -> None:
    build = resolve_server("mariadb-10.11.5", Sources(), _quiet)
    with pytest.raises(RecoveryError, match="is not a mysqld"):
        resolve_server(None, Sources(mysqld=str(build.basedir / "bin" / "mariadb-dump")), _quiet)


_WITHOUT_LIBAIO = """
set -e
folder=$1 libraries=/usr/lib/$(uname -m)-linux-gnu
shift
mkdir -m 755 "$folder/upper" "$folder/work"
for file in "$libraries"/libaio.so.1*; do mknod "$folder/upper/${file##*/}" c 0 0; done
mount -t overlay overlay -o "lowerdir=$libraries,upperdir=$folder/upper,workdir=$folder/work" "$libraries"
exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
"""
"""In a mount namespace of its own: the files are whited out, as on a host that never had them."""
_AS_NOBODY = """
import sys
from unittest.mock import MagicMock
sys.path.insert(0, sys.argv[1])
sys.modules |= dict.fromkeys(("platformdirs", "psutil", "pydantic"), MagicMock())  # the host's Python may lack them
from recovery.builds.resolve import Sources, resolve_server
from recovery.errors import HostUnfitError
own = sys.argv[1] + "/mysqld"
try:
    resolve_server(None, Sources(mysqld=own, offline=True), lambda _: None)
except HostUnfitError as error:
    print(error.message, error.hint, sep="; ")
print(*resolve_server(None, Sources(mysqld=own), lambda _: None).library_dirs, sep="\\n")
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A plain user's. Not among pytest's folders: each pytest that begins closes them to others than root."""
    with tempfile.TemporaryDirectory(prefix="nobody-") as folder:
        yield Path(folder)


def test_a_plain_user_with_empty_package_lists_gets_a_missing_library(
    server: Build, home: Path, tmp_path: Path
) -> None:
    """What a fresh machine looks like to somebody who may not refresh the host's lists."""
    if os.geteuid() != 0:
        left_out("only root can hide a library and become somebody else")
    (home / "lists/partial").mkdir(parents=True)
    (home / "apt.conf").write_text(f'Dir::State::Lists "{home}/lists";\n')
    # Only system paths: the checkout, its environment and the cache may be where nobody else can read.
    shutil.copytree(Path(executable.__file__).parent.parent, home / "recovery")
    shutil.copy(server.mysqld, home / "mysqld")
    for path in (home, *home.rglob("*")):
        os.chown(path, 65534, 65534)
    done = subprocess.run(
        (
            "unshare", "--mount", "--propagation", "private", "sh", "-c", _WITHOUT_LIBAIO, "sh", tmp_path,
            "/usr/bin/python3", "-c", _AS_NOBODY, home,
        ),
        cwd=home,
        env={
            "PATH": "/usr/bin:/bin", "HOME": str(home), "APT_CONFIG": str(home / "apt.conf"),
            "RECOVERY_CACHE": str(home / "cache"),
        },
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    refusal, *folders = done.stdout.splitlines()
    assert "nothing may be fetched while offline" in refusal
    assert "apt-get install libaio1" in refusal
    assert folders
    assert all(Path(folder).is_relative_to(home / "cache") for folder in folders)


def test_eatmydata_can_be_preloaded() -> None:
    library = executable.find_eatmydata()
    if library is None:
        pytest.skip("it can't be had here")
    env = loader_environment(()) | {"LD_PRELOAD": str(library)}
    done = subprocess.run(("/bin/true",), env=env, capture_output=True, check=True)
    assert done.stderr == b""


def test_a_pinned_server_without_its_client_comes_from_the_vendor(
    mirror: Mirror, tarball: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror.publish(f"archives/mysql-5.7/{TRUE_NAME}", tarball)
    monkeypatch.setattr(
        catalog, "VENDOR_URLS", (f"{mirror.base}/new", f"{mirror.base}/archives", f"{mirror.base}/downloads")
    )
    monkeypatch.setitem(download._PROGRAMS, "maven", ("no-such-client", "maven"))
    lines: list[str] = []
    build = resolve_server("5.7.22", Sources(), lines.append)
    assert build.source == f"archive {mirror.base}/archives/mysql-5.7/{TRUE_NAME}"
    assert any("no-such-client is missing" in line and line.endswith("trying the next source") for line in lines)
    assert resolve_server("5.7.22", Sources(), lines.append) == build, "and is found the next time"
