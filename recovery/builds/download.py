"""What lies at this address? Asking, reading a small text, and streaming a large file, over http and https only."""

from __future__ import annotations

import http.client
import ipaddress
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from recovery.errors import HostUnfitError, RecoveryError, UsageError

_CONNECT_S = 15
_SILENCE_S = 60
_TELL_EVERY_S = 5.0
_CHUNK_BYTES = 1 << 20
_ABSENT = (403, 404, 410)
_NO_HEAD = (405, 501)
_ASK_WITH = {"User-Agent": "mysql-recovery-tester"}


class UnreachableError(RecoveryError):
    """The host did not answer as a web server does: asking it for another name is of no use."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Within the web, and never from https to what anybody on the way can change."""

    def redirect_request(self, *given: Any) -> urllib.request.Request | None:
        request, url = given[0], given[-1]
        if urlsplit(request.full_url).scheme == "https" and urlsplit(url).scheme != "https":
            raise urllib.error.URLError("it leads from https to http")
        return super().redirect_request(*given)


def check_address(url: str, variable: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{variable}={url} is no web address", "it starts with http:// or https://")


def exists(url: str) -> bool:
    """A page of HTML is not the file: some mirrors excuse themselves with one, and the status 200."""
    try:
        with _open(url, "HEAD", _CONNECT_S) as answer:
            return answer.headers.get_content_type() != "text/html"
    except urllib.error.HTTPError as error:
        if error.code in _ABSENT:
            return False
        if error.code not in _NO_HEAD:
            raise _refused(url, error) from None
    return small_text(url, limit_bytes=1) is not None


def small_text(url: str, *, limit_bytes: int = 4096) -> str | None:
    """The start of a small file, None where there is none."""
    try:
        with _open(url, "GET", _CONNECT_S) as answer, _reading(url):
            return answer.read(limit_bytes).decode("ascii", errors="replace")
    except urllib.error.HTTPError as error:
        if error.code in _ABSENT:
            return None
        raise _refused(url, error) from None


def download(url: str, target: Path, say: Callable[[str], None]) -> None:
    """Stream to `target`, and say now and then how far it is."""
    try:
        with _open(url, "GET", _SILENCE_S) as answer, target.open("wb") as file, _reading(url):
            told = answer.headers.get("Content-Length")
            total = int(told) if told and re.fullmatch(r"[0-9]{1,18}", told) else None
            done = _copy(answer, file.write, total, say)
    except urllib.error.HTTPError as error:
        raise _refused(url, error) from None
    if total is not None and done != total:
        target.unlink()
        raise HostUnfitError(f"the download of {url} broke off: {done} of {total} bytes came", "start it again")


def _copy(
    answer: http.client.HTTPResponse,
    write: Callable[[bytes], int],
    total: int | None,
    say: Callable[[str], None],
) -> int:
    done, said_at = 0, time.monotonic()
    while chunk := answer.read(_CHUNK_BYTES):
        write(chunk)
        done += len(chunk)
        if time.monotonic() - said_at >= _TELL_EVERY_S:
            said_at = time.monotonic()
            say(f"{done >> 20} MB" + (f" of {total >> 20} MB" if total else ""))
    return done


@contextmanager
def _open(url: str, method: str, timeout_s: float) -> Iterator[http.client.HTTPResponse]:
    request = urllib.request.Request(url, method=method, headers=_ASK_WITH)  # noqa: S310  # check_address has seen it
    with _reading(url):
        answer = _opener(url).open(request, timeout=timeout_s)
    with answer:
        yield answer


@contextmanager
def _reading(url: str) -> Iterator[None]:
    """Whatever goes wrong on the wire, in one line; a status is left to those who know what they asked."""
    try:
        yield
    except urllib.error.HTTPError:
        raise
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, ValueError) as error:
        why = getattr(error, "reason", None) or error or type(error).__name__
        raise UnreachableError(f"{urlsplit(url).netloc} cannot be reached: {why}", "check the network") from None


def _refused(url: str, error: urllib.error.HTTPError) -> RecoveryError:
    error.close()
    if error.code in _ABSENT:
        return HostUnfitError(f"there is nothing to be had at {url}: {error.code} {error.reason}", "check the address")
    return UnreachableError(f"{url} was refused: {error.code} {error.reason}", "try later, or take another address")


def _opener(url: str) -> urllib.request.OpenerDirector:
    """Only the web's own handlers, no files and no FTP; a mirror on loopback is never asked through a proxy."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler({} if _is_loopback(urlsplit(url).hostname) else None),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        _Redirects(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False
