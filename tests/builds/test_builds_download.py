"""Names of the vendor's archives, and downloads from web servers that misbehave."""

import http.client
import io
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from websites import serving

from recovery.builds import download as download_module
from recovery.builds.catalog import listed_releases, release_lists, tarball_names, tarball_urls
from recovery.builds.download import UnreachableError, download_file, failure_reason, fetch_text, url_exists
from recovery.errors import HostUnfitError
from recovery.model import Flavor, parse_version


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("5.5.62", ("linux-glibc2.12-x86_64.tar.gz", "linux-glibc2.5-x86_64.tar.gz", "linux2.6-x86_64.tar.gz")),
        ("5.6.27", ("linux-glibc2.5-x86_64.tar.gz", "linux-glibc2.12-x86_64.tar.gz", "linux2.6-x86_64.tar.gz")),
        ("5.7.9", ("linux-glibc2.5-x86_64.tar.gz", "linux-glibc2.12-x86_64.tar.gz")),
        ("5.7.44", ("linux-glibc2.12-x86_64.tar.gz", "linux-glibc2.5-x86_64.tar.gz")),
        ("8.0.11", ("linux-glibc2.12-x86_64.tar.gz",)),
        ("8.0.12", ("linux-glibc2.12-x86_64.tar.xz",)),
        ("8.0.16", ("linux-x86_64-minimal.tar.xz",)),
        (
            "8.0.31",
            (
                *("linux-x86_64-minimal.tar.xz", "linux-glibc2.17-x86_64-minimal.tar.xz"),
                *("linux-glibc2.28-x86_64-minimal.tar.xz", "linux-glibc2.12-x86_64.tar.xz"),
            ),
        ),
        ("8.4.6", ("linux-glibc2.28-x86_64-minimal.tar.xz", "linux-glibc2.17-x86_64-minimal.tar.xz")),
        ("26.7.0", ("linux-glibc2.28-x86_64-minimal.tar.xz",)),
        ("9.7.4.1", ("linux-glibc2.28-x86_64-minimal.tar.xz",)),
    ],
)
def test_the_archive_names_of_each_era(version: str, names: tuple[str, ...]) -> None:
    found = tarball_names(parse_version(version), "x86_64")
    assert found[: len(names)] == tuple(f"mysql-{version}-{name}" for name in names)
    assert all("aarch64" in name for name in tarball_names(parse_version(version), "aarch64"))


def test_a_mirror_replaces_the_hosts_of_the_vendor() -> None:
    urls = tarball_urls(parse_version("8.4.6"), None, "x86_64")
    assert urls[0].startswith("https://cdn.mysql.com/Downloads/MySQL-8.4/mysql-8.4.6-")
    assert urls[1].startswith("https://cdn.mysql.com/archives/mysql-8.4/")
    assert urls[2].startswith("https://downloads.mysql.com/archives/get/p/23/file/")
    assert "/archives/" in tarball_urls(parse_version("5.7.9"), None, "x86_64")[0]
    urls = tarball_urls(parse_version("5.7.9"), "http://mirror.test/m/", "x86_64")
    name = "mysql-5.7.9-linux-glibc2.5-x86_64.tar.gz"
    assert urls[:2] == (f"http://mirror.test/m/{name}", f"http://mirror.test/m/mysql-5.7/{name}")
    assert all(url.startswith("http://mirror.test/m/") for url in urls)


PERCONA = "https://downloads.percona.com/downloads"


@pytest.mark.parametrize(
    ("version", "url"),
    [
        (
            "mariadb-11.8.2",
            "https://archive.mariadb.org/mariadb-11.8.2/bintar-linux-systemd-x86_64/mariadb-11.8.2-linux-systemd-x86_64.tar.gz",
        ),
        (
            "mariadb-10.0.38",
            "https://archive.mariadb.org/mariadb-10.0.38/bintar-linux-x86_64/mariadb-10.0.38-linux-x86_64.tar.gz",
        ),
        *(
            (
                version,
                f"{PERCONA}/Percona-Server-8.0/Percona-Server-8.0.36-28/binary/tarball/"
                "Percona-Server-8.0.36-28-Linux.x86_64.glibc2.17-minimal.tar.gz",
            )
            for version in ("percona-8.0.36-28", "8.0.36-28", "percona-8.0.36-28.1")
        ),
        (
            "percona-26.7.0-1",
            f"{PERCONA}/Percona-Server-innovative-release/Percona-Server-26.7.0-1/binary/tarball/"
            "Percona-Server-26.7.0-1-Linux.x86_64.glibc2.28-minimal.tar.gz",
        ),
        (
            "percona-28.4.1-1",
            f"{PERCONA}/Percona-Server-28.4/Percona-Server-28.4.1-1/binary/tarball/"
            "Percona-Server-28.4.1-1-Linux.x86_64.glibc2.28-minimal.tar.gz",
        ),
        (
            "percona-8.3.0-1",
            f"{PERCONA}/Percona-Server-innovative-release/Percona-Server-8.3.0-1/binary/tarball/"
            "Percona-Server-8.3.0-1-Linux.x86_64.glibc2.28-minimal.tar.gz",
        ),
        (
            "percona-5.7.23-23",
            f"{PERCONA}/Percona-Server-5.7/Percona-Server-5.7.23-23/binary/tarball/"
            "Percona-Server-5.7.23-23-Linux.x86_64.ssl102.tar.gz",
        ),
        (
            "percona-5.6.44-86.0",
            f"{PERCONA}/Percona-Server-5.6/Percona-Server-5.6.44-86.0/binary/tarball/"
            "Percona-Server-5.6.44-rel86.0-Linux.x86_64.ssl101.tar.gz",
        ),
    ],
)
def test_the_archives_of_mariadb_and_percona(version: str, url: str) -> None:
    assert url in tarball_urls(parse_version(version), None, "x86_64")
    name = url.rpartition("/")[2]
    at_mirror = tarball_urls(parse_version(version), "http://mirror.test/m/", "x86_64")
    assert f"http://mirror.test/m/{name}" in at_mirror
    assert any(other.startswith("http://mirror.test/m/") and other.endswith(f"/{name}") for other in at_mirror)
    assert all("x86_64" not in other for other in tarball_urls(parse_version(version), None, "aarch64"))


def test_the_releases_that_a_page_names() -> None:
    folders = "".join(
        f'<a href="{name}/">{name}/</a> 2025-06-04\n'
        for name in ("mariadb-11.8", "mariadb-11.8.10", "mariadb-11.8.2", "mariadb-galera-11.8.3", "mariadb-11.4.5")
    )
    assert list(map(str, listed_releases(folders, Flavor.MARIADB))) == [
        *("mariadb-11.4.5", "mariadb-11.8.2", "mariadb-11.8.10")
    ]
    options = "".join(
        f'<option value="{name}|Percona-Server-8.0">{name}</option>'
        for name in ("Percona-Server-8.0.28-20", "Percona-Server-8.0.28-19", "Percona-Server-8.0.36-28", "pmm-2.0.1")
    )
    assert [version.text for version in listed_releases(options, Flavor.PERCONA)] == [
        *("percona-8.0.28-19", "percona-8.0.28-20", "percona-8.0.36-28")
    ]
    files = '<a href="Percona-Server-5.6.44-rel86.0-Linux.x86_64.ssl101.tar.gz">'
    assert [version.text for version in listed_releases(files, Flavor.PERCONA)] == ["percona-5.6.44-86.0"]


def test_where_releases_are_listed() -> None:
    assert release_lists(parse_version("mariadb-11.8.0"), None) == (("https://archive.mariadb.org/", None),)
    assert release_lists(parse_version("percona-8.0.0"), None) == (
        ("https://www.percona.com/products-api.php", "version=Percona-Server-8.0"),
    )
    at_mirror = [url for url, _ in release_lists(parse_version("percona-8.0.0"), "http://mirror.test/")]
    assert at_mirror == ["http://mirror.test/Percona-Server-8.0/", "http://mirror.test/"]


class _Handler(BaseHTTPRequestHandler):
    """/status/CODE answers so; /html is a page; /short breaks off; /file is a file; /away leads to a local file."""

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:  # the base class names it so
        if self.path == "/nohead":
            self.send_error(405)
        else:
            self.do_GET()

    def do_GET(self) -> None:
        body = b"text" * 100
        if self.path.startswith("/status/"):
            self.send_error(int(self.path.rpartition("/")[2]))
            return
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", "file:///etc/hostname")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if self.path == "/html" else "application/gzip")
        self.send_header("Content-Length", str(len(body) * (2 if self.path == "/short" else 1)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with serving(_Handler) as address:
        yield address


@pytest.mark.parametrize(
    ("path", "exists"),
    [("/file", True), ("/nohead", True), ("/html", False), ("/status/404", False), ("/status/403", False)],
)
def test_a_url_exists_unless_the_server_denies_it_or_answers_with_a_page(base: str, path: str, exists: bool) -> None:
    assert url_exists(base + path) is exists


@pytest.mark.parametrize("path", ["/status/500", "/status/503", "/away"])
def test_a_server_that_fails_or_redirects_to_a_file_is_unreachable(base: str, path: str) -> None:
    with pytest.raises(UnreachableError) as caught:
        url_exists(base + path)
    assert "\n" not in caught.value.message


def test_a_small_text_is_read_up_to_its_limit(base: str) -> None:
    assert fetch_text(base + "/file", limit_bytes=8) == "texttext"
    assert fetch_text(base + "/status/404") is None


def test_a_file_is_downloaded_whole(base: str, tmp_path: Path) -> None:
    download_file(base + "/file", tmp_path / "file", lambda _: None)
    assert (tmp_path / "file").read_bytes() == b"text" * 100


@pytest.mark.parametrize(
    ("path", "message"),
    [("/status/404", r"there is no file at .*/status/404: 404"), ("/short", "400 of 800 bytes")],
)
def test_a_failed_download_leaves_no_file(base: str, path: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(HostUnfitError, match=message) as caught:
        download_file(base + path, tmp_path / "file", lambda _: None)
    assert caught.value.hint
    assert not (tmp_path / "file").exists()


def test_a_host_that_does_not_answer_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:9 cannot be reached"):
        download_file("http://127.0.0.1:9/x", tmp_path / "file", lambda _: None)


@pytest.mark.parametrize(("start", "end"), [("https", "http"), ("https", "https"), ("http", "http")])
def test_no_redirect_leads_from_https_to_http(start: str, end: str) -> None:
    request = urllib.request.Request(f"{start}://a.test/x")  # noqa: S310 - of the web, and never opened
    arguments = (request, io.BytesIO(), 302, "Found", http.client.HTTPMessage(), f"{end}://b.test/x")
    handler = download_module._SafeRedirectHandler()
    if (start, end) == ("https", "http"):
        with pytest.raises(urllib.error.URLError, match="from https to http"):
            handler.redirect_request(*arguments)
    else:
        assert handler.redirect_request(*arguments) is not None


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("npm ERR! code X\nnpm ERR! request to https://r.test/x failed\n\nnpm ERR!\n", "request to its host failed"),
        ("npm error A complete log of this run can be found in: /x/_logs/1\n", "it gave no reason"),
        ("\x1b[1m[ERROR] gone -> [Help 1]\x1b[0m\n[ERROR] Re-run Maven using\n", "gone"),
        ("getaddrinfo ENOTFOUND registry.host.org\n", "getaddrinfo ENOTFOUND its host"),
        ("[ERROR] com.facebook.presto:mysql:jar:0.6 is absent", "com.facebook.presto:mysql:jar:0.6 is absent"),
        ("", "it gave no reason"),
    ],
)
def test_the_reason_of_a_failed_client_names_no_host(output: str, reason: str) -> None:
    assert failure_reason(output) == reason
