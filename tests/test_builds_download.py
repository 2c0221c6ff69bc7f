"""Does a web server that misbehaves end in one line, and never in a file that is taken for the right one?"""

import http.client
import http.server
import io
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from recovery.builds import download as download_module
from recovery.builds.download import UnreachableError, download_file, fetch_text, url_exists
from recovery.errors import HostUnfitError, RecoveryError


class _Handler(http.server.BaseHTTPRequestHandler):
    """/status/CODE answers so; /html is a page; /short breaks off; /file is a file; /away leads to a local file."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class names it so
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
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_address[1]}"
        httpd.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("path", "there"),
    [("/file", True), ("/nohead", True), ("/html", False), ("/status/404", False), ("/status/403", False)],
)
def test_what_is_there(base: str, path: str, there: bool) -> None:
    assert url_exists(base + path) is there


@pytest.mark.parametrize("path", ["/status/500", "/status/503", "/away"])
def test_a_server_that_fails(base: str, path: str) -> None:
    with pytest.raises(UnreachableError) as caught:
        url_exists(base + path)
    assert "\n" not in caught.value.message


def test_a_small_text(base: str) -> None:
    assert fetch_text(base + "/file", limit_bytes=8) == "texttext"
    assert fetch_text(base + "/status/404") is None


def test_a_download(base: str, tmp_path: Path) -> None:
    download_file(base + "/file", tmp_path / "file", lambda _: None)
    assert (tmp_path / "file").read_bytes() == b"text" * 100


def test_a_download_of_what_is_not_there(base: str, tmp_path: Path) -> None:
    with pytest.raises(HostUnfitError, match=r"there is no file at .*/status/404: 404") as caught:
        download_file(base + "/status/404", tmp_path / "file", lambda _: None)
    assert caught.value.hint == "check the address"
    assert not (tmp_path / "file").exists()


def test_a_download_that_breaks_off(base: str, tmp_path: Path) -> None:
    with pytest.raises(RecoveryError, match="400 of 800 bytes"):
        download_file(base + "/short", tmp_path / "file", lambda _: None)
    assert not (tmp_path / "file").exists()


def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:9 cannot be reached"):
        download_file("http://127.0.0.1:9/x", tmp_path / "file", lambda _: None)


def test_no_way_leads_from_https_to_http() -> None:
    """What comes over http anybody on the way may change."""
    redirects, headers = download_module._SafeRedirectHandler(), http.client.HTTPMessage()
    for start, end, goes in (("https", "http", False), ("https", "https", True), ("http", "http", True)):
        request = urllib.request.Request(f"{start}://a.test/x")  # noqa: S310 - of the web, and never opened
        arguments = (request, io.BytesIO(), 302, "Found", headers, f"{end}://b.test/x")
        if goes:
            assert redirects.redirect_request(*arguments) is not None
        else:
            with pytest.raises(urllib.error.URLError, match="from https to http"):
                redirects.redirect_request(*arguments)
