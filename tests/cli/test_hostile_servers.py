"""A server that is hostile or broken ends `recovery estimate` with one line of error, or changes nothing in it: no
traceback, no full memory, no hang, no absurd figure, and no password for somebody else."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from estimates import assert_not_available
from hostile_server import (
    ANSWERS,
    GREETING,
    LOGIN,
    NATIVE,
    STAGES,
    STATUS,
    Attack,
    Peer,
    hostile_server,
    lenenc,
    serving,
)
from otherusers import SOMEBODY, as_user, needs_root

from recovery.cli import estimate as command
from recovery.cli import watch
from recovery.cli.main import run
from recovery.errors import RecoveryError, ServerFailedError, UsageError
from recovery.mysqld import client, running_server
from recovery.mysqld.client import connect_as_user, explain, read_login

_SEED, _ATTACKS = 61, 260
_ANSWER_S = 0.06
_MOST_SENT = 12 << 20
_YEAR_S = 366 * 86_400.0
PASSWORD = b"v3ry-s3cret"


# --- Attacks


_VALUES = (
    None, "", "-1", "-9223372036854775808", "1e308", "-1e308", "NaN", "inf", "1.5", "0x10", "2026-11-29",
    "2026-11-29 10:00:00", "9" * 18, "9" * 19, "9" * 20, "9" * 5000, "\u0661\u0662", "1 2", "abc", b"\xff\xfe\x80",
    b"1\x00", "\x1b]0;owned\x07", "\u202e12", "99.99.99", "5.7.22-" + "x" * 3000, "x" * 70_000,
)  # fmt: skip
_KINDS = (0, 1, 3, 4, 5, 7, 8, 10, 11, 12, 13, 16, 245, 246, 252, 253, 254, 255)
"""Types of columns: numbers, dates and times, bits, JSON, texts."""
_ERRORS = (0, 1040, 1045, 1053, 1064, 1142, 1146, 1193, 1227, 2006, 2013, 2059, 4031, 65535)
_PLUGINS = (
    NATIVE, b"mysql_clear_password", b"dialog", b"mysql_old_password", b"sha256_password", b"caching_sha2_password",
    b"client_ed25519", b"auth_gssapi_client", b"authentication_windows_client", b"unknown", b"", b"\xff\xfe",
)  # fmt: skip
_STATUSES = (
    "", "Log sequence number 1", "Log sequence number " + "9" * 40 + "\nLast checkpoint at 1",
    "Log sequence number " + "9" * 19 + "\nLast checkpoint at 0", "Log sequence number 1\nLast checkpoint at 9",
    STATUS + "\n---TRANSACTION 9, ACTIVE (PREPARED)" * 20_000,
)  # fmt: skip


def chance(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - no secret


def other_value(stage: str, random: Random) -> Attack:
    """The right answer with another value in one place."""
    rows = [list(row) for row in ANSWERS[stage]] or [[1]]
    row = random.choice(rows)
    row[random.randrange(len(row))] = random.choice(_STATUSES if "engine" in stage else _VALUES)
    kind, charset = random.choice(_KINDS), random.choice((33, 63, 255))
    return lambda peer: serve_on(peer, lambda: peer.rows(rows, kind, charset))


def other_columns(stage: str, random: Random) -> Attack:
    rows = [random.choices((1, "2", None), k=random.choice((1, 2, 3, 7, 250))) for _ in range(random.randint(1, 3))]
    rows = [row[: len(rows[0])] + [1] * (len(rows[0]) - len(row)) for row in rows]
    return lambda peer: serve_on(peer, lambda: peer.rows(rows))


def uneven_rows(_: str, random: Random) -> Attack:
    widths = [random.choice((0, 1, 2, 3, 9)) for _ in range(3)]

    def attack(peer: Peer) -> None:
        peer.columns(2)
        for width in widths:
            peer.row(["1"] * width or [b"\xfd" * 9])
        peer.end()
        serve_on(peer, lambda: None)

    return attack


def many_columns(_: str, random: Random) -> Attack:
    said = random.choice((b"\xfe" + b"\xff" * 8, b"\xfd\xff\xff\xff", b"\xfc\xff\xff"))

    def attack(peer: Peer) -> None:
        peer.packet(said)
        while True:
            peer.column()

    return attack


def endless_rows(_: str, random: Random) -> Attack:
    text = random.choice((b"", b"1", b"x" * 200, b"x" * 60_000))

    def attack(peer: Peer) -> None:
        peer.columns(1)
        start, packet = peer.number, lenenc(text)
        for first in count(start, 256):  # in large pieces, since Python sends small ones slowly
            numbers = (number % 256 for number in range(first, first + 256))
            peer.raw(b"".join(len(packet).to_bytes(3, "little") + bytes([number]) + packet for number in numbers))

    return attack


def endless_results(_: str, __: Random) -> Attack:
    def attack(peer: Peer) -> None:
        while True:
            peer.rows([["1", "2"]], more=True)

    return attack


def huge_packets(_: str, random: Random) -> Attack:
    first = random.choice((b"\x01", b"\0", b"x", b"\xfe"))

    def attack(peer: Peer) -> None:
        while True:
            peer.packet(b"", length=0xFFFFFF)
            for _ in range(255):
                peer.raw(first * 65_793)

    return attack


def wrong_length(stage: str, random: Random) -> Attack:
    content = right_packet(stage)
    length = random.choice((0, 1, len(content) - 1, len(content) + 1, 500, 0xFFFFFF))
    goes_on = random.random() < 0.3

    def attack(peer: Peer) -> None:
        peer.packet(content, length=max(0, length))
        if goes_on:
            peer.silence()

    return attack


def truncated(stage: str, random: Random) -> Attack:
    content = right_packet(stage)
    cut = content[: random.randrange(len(content))]
    return lambda peer: serve_on(peer, lambda: peer.packet(cut))


def wrong_number(stage: str, random: Random) -> Attack:
    number = random.choice((0, 3, 7, 255))

    def attack(peer: Peer) -> None:
        peer.number = number
        peer.packet(right_packet(stage))

    return attack


def noise(_: str, random: Random) -> Attack:
    data = random.randbytes(random.choice((1, 3, 4, 5, 40, 3000)))

    def attack(peer: Peer) -> None:
        if random.random() < 0.5:
            peer.packet(data)
        else:
            peer.raw(data)

    return attack


def error_packet(_: str, random: Random) -> Attack:
    number = random.choice(_ERRORS)
    text = random.choice((b"", b"#", b"#42000", b"#HY000\x1b[2Jgone\nerror: x", b"no state", b"\xff" * 3000))
    return lambda peer: peer.error(number, text)


def silence(_: str, __: Random) -> Attack:
    return Peer.silence


def drip(stage: str, _: Random) -> Attack:
    content = right_packet(stage)
    return lambda peer: peer.drip(len(content).to_bytes(3, "little") + bytes([peer.number % 256]) + content)


def end(_: str, __: Random) -> Attack:
    return lambda _: None


def local_infile(_: str, random: Random) -> Attack:
    name = random.choice((b"/etc/passwd", b"", b"\xff"))

    def attack(peer: Peer) -> None:
        peer.packet(b"\xfb" + name)
        peer.silence()

    return attack


def redirect(_: str, __: Random) -> Attack:
    address = b"mysql://eve@10.255.255.1:3306/"
    tracked = lenenc(b"redirect_url") + lenenc(address)
    return lambda peer: serve_on(
        peer, lambda: peer.ok(lenenc(b"Location: " + address) + lenenc(b"\0" + lenenc(tracked)))
    )


def switch(_: str, random: Random) -> Attack:
    plugin, times = random.choice(_PLUGINS), random.choice((1, 1, 2, 1000))
    more = random.choice((b"", b"12345678901234567890\0", b"\x04Password: ", b"x" * 100))
    after = random.choice((b"\x01\x04", b"\x01\x03", b"\x01", b"\x01key", b"\xfe", b"", b"\0"))

    def attack(peer: Peer) -> None:
        for _ in range(times):
            peer.packet(b"\xfe" + plugin + b"\0" + more)
            if peer.read() is None:
                return
            peer.packet(after)
            if peer.read() is None:
                return

    return attack


def other_greeting(_: str, random: Random) -> Attack:
    version = random.choice((b"", b"4.0", b"8.0.31", b"x", b"9" * 5000, b"\xff.1", b"8" * 10 + b".1", b"-1.0"))
    plugin, more = random.choice(_PLUGINS), random.choice((0, 0x800))

    def attack(peer: Peer) -> None:
        peer.greeting(version, plugin, more)
        peer.read()
        peer.silence()

    return attack


_ANYWHERE = (
    wrong_length, truncated, wrong_number, noise, error_packet, silence, drip, end, huge_packets, redirect,
)  # fmt: skip
_IN_ANSWERS = (
    other_value, other_value, other_value, other_columns, uneven_rows, many_columns, endless_rows, endless_results,
    local_infile,
)  # fmt: skip


def right_packet(stage: str) -> bytes:
    """The first packet of the right answer at a stage."""
    if stage == GREETING:
        kept = Kept()
        Peer(kept, threading.Event()).greeting()  # type: ignore[arg-type]
        return bytes(kept.data[4:])
    return b"\0\0\0\2\0\0\0" if stage in (LOGIN, "set") else bytes([len((ANSWERS[stage] or [[1]])[0])])


class Kept:
    """In place of a socket: keeps what is sent."""

    def __init__(self) -> None:
        self.data = bytearray()

    def sendall(self, data: bytes) -> None:
        self.data += data


def serve_on(peer: Peer, answer: Callable[[], None]) -> None:
    """Answers so, and all other statements as a server does."""
    answer()
    with suppress(OSError):
        while (packet := peer.read()) is not None and packet[:1] == b"\x03":
            text = " ".join(packet[1:].decode("utf-8", "replace").lower().split())
            known = next((pattern for pattern in ANSWERS if re.match(pattern, text)), None)
            if known in (None, "set"):
                peer.ok()
            else:
                peer.rows(ANSWERS[str(known)])


def attacks(random: Random) -> Iterator[tuple[str, str, Attack]]:
    """Yields stage, name and attack, without an end. Each attack comes at each stage before chance decides."""
    kinds = [(stage, kind) for stage in STAGES for kind in kinds_at(stage)]
    random.shuffle(kinds)
    while True:
        for stage, kind in kinds:
            yield stage, kind.__name__, kind(stage, random)
        random.shuffle(kinds)


def kinds_at(stage: str) -> tuple[Callable[[str, Random], Attack], ...]:
    if stage == GREETING:
        return (*_ANYWHERE, other_greeting)
    return (*_ANYWHERE, switch, switch) if stage == LOGIN else (*_ANYWHERE, *(_IN_ANSWERS if stage != "set" else ()))


@pytest.fixture(autouse=True)
def _not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "busy_host", lambda _: "")


def test_no_attack_is_more_than_one_line_of_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each ends in two lines or in a plausible estimate, whatever the server does at whatever point."""
    monkeypatch.setattr(command, "_ANSWER_S", _ANSWER_S)
    option_file, metrics, path = tmp_path / "my.cnf", tmp_path / "estimate.prom", tmp_path / "s"
    option_file.write_bytes(b"[client]\nuser=seer\npassword=" + PASSWORD + b"\n")
    words = ["estimate", "--socket", str(path), "--defaults-file", str(option_file), "--reads", "2000", "--json", "-"]
    errors = 0
    for (stage, name, attack), number in zip(attacks(chance(_SEED)), range(_ATTACKS), strict=False):
        where = f"attack {number}: {name} at {stage}"
        with hostile_server(path, stage, attack) as server:
            code = run([*words, "--openmetrics", str(metrics)])
        out, err = capsys.readouterr()
        assert server.most_sent <= _MOST_SENT, where
        found = json.loads(out)
        if code:
            errors += 1
            assert re.fullmatch(r"error: [^\n]+\nhint:  [^\n]+\n", err), (where, err)
            assert len(err) < 4000, where
            assert_not_available(metrics, str(path))
        else:
            seconds = [found["low_seconds"], found["seconds"], found["high_seconds"], found["locked_seconds"]]
            assert min(seconds) >= 0, where
            assert max(seconds) <= _YEAR_S, where
            assert seconds[0] <= seconds[1] <= seconds[2], where
            assert "recovery_estimate_available{" in metrics.read_text()
    assert _ATTACKS / 2 < errors < _ATTACKS


def test_a_server_that_does_not_attack_is_estimated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Else the attacks would say nothing."""
    with hostile_server(tmp_path / "s"):
        assert run(["estimate", "--socket", str(tmp_path / "s"), "--reads", "2000"]) == 0
    assert re.match(r"If it were killed now: \d", capsys.readouterr().out)


# --- The password


def login_to(path: Path, *lines: str) -> dict[str, Any]:
    option_file = path.with_name("my.cnf")
    option_file.write_text("\n".join(("[client]", "user=seer", f"password={PASSWORD.decode()}", *lines, "")))
    return read_login(path, option_file)


@needs_root
def test_the_password_is_not_sent_to_another_user(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Such as one who listens in /tmp while the server is down. His user is the one who listens."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        with as_user(SOMEBODY):
            listening.listen()
        with serving(listening) as server:
            login = login_to(path)
            with pytest.raises(UsageError, match="neither root nor the user of the server") as refused:
                connect_as_user(login, answer_s=10.0)
            assert f"user {SOMEBODY}" in refused.value.message
            assert server.received == b"", "not even the name of the user, nor a hash of the password"
            assert run(["estimate", "--socket", str(path), "--defaults-file", str(path.with_name("my.cnf"))]) == 2
            assert "the password was not sent" in capsys.readouterr().err
            connect_as_user(login_to(path, "[mysqld]", f"user={SOMEBODY}"), answer_s=10.0).close()
            connect_as_user(read_login(path, None) | {"user": "seer"}, answer_s=10.0).close()  # has no password
    assert PASSWORD not in server.received


@pytest.mark.parametrize("plugin", [b"mysql_clear_password", b"dialog", b"mysql_old_password"])
def test_the_password_is_not_sent_in_clear_text(plugin: bytes, tmp_path: Path) -> None:
    """A server may ask for any way to log in, and PyMySQL would follow."""

    def attack(peer: Peer) -> None:
        peer.packet(b"\xfe" + plugin + b"\0" + b"\x04Password: ")
        peer.silence()

    with (
        hostile_server(tmp_path / "s", LOGIN, attack) as server,
        pytest.raises(client.BROKEN_ANSWER, match="in clear text") as refused,
    ):
        connect_as_user(login_to(tmp_path / "s"), answer_s=10.0)
    assert b"seer" in server.received
    assert PASSWORD not in server.received
    assert explain(refused.value, "s").exit_code == 2


def sha256(peer: Peer) -> None:
    peer.packet(b"\xfesha256_password\0" + b"12345678901234567890\0")
    peer.silence()


def caching_sha2(peer: Peer) -> None:
    """Asks for the password after the hash of it."""
    peer.packet(b"\xfecaching_sha2_password\0" + b"12345678901234567890\0")
    peer.read()
    peer.packet(b"\x01\x04")
    peer.silence()


@pytest.mark.parametrize("attack", [sha256, caching_sha2])
def test_over_tcp_the_password_is_not_encrypted_for_whoever_asks(attack: Attack, tmp_path: Path) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        login = login_to(tmp_path / "s", "host=127.0.0.1", f"port={listening.getsockname()[1]}") | {"unix_socket": None}
        with (
            serving(listening, LOGIN, attack) as server,
            pytest.raises(client.BROKEN_ANSWER, match="no certificate proves") as refused,
        ):
            connect_as_user(login | {"ssl_disabled": True}, answer_s=10.0)
    assert PASSWORD not in server.received
    assert "the login failed" in explain(refused.value, "s").message


@pytest.mark.parametrize("attack", [sha256, caching_sha2])
def test_over_the_socket_of_the_server_the_password_may_be_sent(attack: Attack, tmp_path: Path) -> None:
    """As clients do, and as the page says. This process is the peer, and of this user."""
    with hostile_server(tmp_path / "s", LOGIN, attack) as server, pytest.raises(client.BROKEN_ANSWER):
        connect_as_user(login_to(tmp_path / "s"), answer_s=_ANSWER_S)
    assert PASSWORD in server.received
    page = (Path(__file__).parents[2] / "docs" / "estimate.md").read_text()
    assert "as it is if they ask (`caching_sha2_password`, `sha256_password`), as MySQL's clients send it" in page


def test_over_tls_without_a_certificate_the_password_is_not_sent(tmp_path: Path) -> None:
    """PyMySQL would send it in its first packet: TLS hides it from all but the server, which may be anybody."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl here to make a certificate")
    pem = tmp_path / "server.pem"
    subject = ("-subj", "/CN=eve", "-days", "2", "-keyout", str(pem), "-out", str(tmp_path / "cert.pem"))
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject], check=True, capture_output=True
    )
    pem.write_bytes(pem.read_bytes() + (tmp_path / "cert.pem").read_bytes())

    def attack(peer: Peer) -> None:
        peer.greeting(plugin=b"sha256_password", more_capabilities=0x800)
        assert peer.read() is not None  # it asks for TLS
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        with context.wrap_socket(peer.client, server_side=True) as peer.client:
            peer.read()
            sha256(peer)

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        login = login_to(tmp_path / "s", "host=127.0.0.1", f"port={listening.getsockname()[1]}") | {"unix_socket": None}
        with serving(listening, GREETING, attack) as server:
            with pytest.raises(client.BROKEN_ANSWER, match="no certificate proves"):
                connect_as_user(login | {"ssl_disabled": False}, answer_s=10.0)
            assert b"seer" in server.received
            with_ca = login_to(tmp_path / "s", f"ssl-ca={tmp_path / 'cert.pem'}") | {"unix_socket": None}
            with_ca |= {"port": login["port"], "ssl_disabled": False}
            with_ca["ssl"]["check_hostname"] = False
            with pytest.raises(client.BROKEN_ANSWER):
                connect_as_user(with_ca, answer_s=1.0)
    assert PASSWORD not in bytes(server.peers[0].received)
    assert PASSWORD in bytes(server.peers[1].received), "a certificate has proved whose server it is"


# --- What a connection takes


def test_an_answer_has_a_deadline_as_a_whole(tmp_path: Path) -> None:
    """Each of its bytes comes in time, and it never ends."""

    def never_ending(peer: Peer) -> None:
        peer.drip((50_000).to_bytes(3, "little") + bytes([peer.number]) + bytes(50_000))

    with hostile_server(tmp_path / "s", "set", never_ending), pytest.raises(client.BROKEN_ANSWER) as late:
        connect_as_user(login_to(tmp_path / "s"), answer_s=_ANSWER_S)
    assert "does not answer in time" in explain(late.value, "s").message


@pytest.mark.parametrize("attack", [endless_rows, huge_packets, endless_results, many_columns])
def test_an_answer_has_a_limit_of_its_bytes(
    attack: Callable[[str, Random], Attack], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s"
    with hostile_server(path, "show global variables", attack("show global variables", chance(1))) as server:
        assert run(["estimate", "--socket", str(path), "--reads", "2000"]) == 1
    assert "more than 8 MiB" in capsys.readouterr().err
    assert server.most_sent <= _MOST_SENT


def test_a_file_of_this_host_is_not_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, secret = tmp_path / "s", tmp_path / "secret"
    secret.write_text("of this host")

    def attack(peer: Peer) -> None:
        peer.packet(b"\xfb" + bytes(secret))
        peer.silence()

    with hostile_server(path, "show global variables", attack) as server:
        assert run(["estimate", "--socket", str(path), "--reads", "2000"]) == 1
    assert "asks for a file of this host, which is not sent" in capsys.readouterr().err
    assert b"of this host" not in server.received


@pytest.mark.parametrize("option", ["ca", "cert", "key", "capath"])
def test_a_tls_file_that_is_a_pipe_is_refused(option: str, tmp_path: Path) -> None:
    """Nobody writes to it: reading it would wait without an end, and without a word."""
    pipe, file = tmp_path / "pipe", tmp_path / "my.cnf"
    os.mkfifo(pipe)
    file.write_text(f"[client]\nuser=seer\nssl-{option}={pipe}\n")
    with pytest.raises(UsageError, match=f"ssl-{option}=.* is no f"):
        read_login(None, file)
    file.write_text(f"[client]\nuser=seer\nssl-{option}={tmp_path / 'none'}\n")
    with pytest.raises(UsageError, match=f"ssl-{option}="):
        read_login(None, file)


def test_a_tls_file_without_a_certificate_is_named(tmp_path: Path) -> None:
    file = tmp_path / "my.cnf"
    file.write_text(f"[client]\nuser=seer\nssl-ca={file}\n")
    with pytest.raises(UsageError, match="TLS files of the option file"):
        connect_as_user(read_login(tmp_path / "s", file), answer_s=1.0)


@pytest.mark.parametrize("port", ["9" * 5000, "\u0661", "-1", "1e3", "65536", "0x10"])
def test_a_port_that_is_none_is_one_line(port: str, tmp_path: Path) -> None:
    file = tmp_path / "my.cnf"
    file.write_text(f"[client]\nport={port}\n")
    with pytest.raises(UsageError, match="is no port") as refused:
        read_login(None, file)
    assert len(refused.value.message) < 1000


# --- Figures for Prometheus


@pytest.mark.parametrize("error", [OSError(5, "I/O error"), RecoveryError("no"), ZeroDivisionError(), AssertionError()])
@pytest.mark.parametrize("watch", [(), ("--watch",)])
def test_after_any_error_there_is_no_estimate(
    error: Exception, watch: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr(command._Server, "estimate", fail)
    metrics, path = tmp_path / "estimate.prom", tmp_path / "s"
    metrics.write_text("recovery_estimate_available 1\n")
    with hostile_server(path), suppress(ZeroDivisionError, AssertionError):
        assert run(["estimate", "--socket", str(path), "--openmetrics", str(metrics), *watch]) != 0
    assert_not_available(metrics, str(path))


@pytest.mark.parametrize("text", ["[client]\nport=no\n", "no group\n", None])
def test_after_a_wrong_login_there_is_no_estimate(text: str | None, tmp_path: Path) -> None:
    metrics, file = tmp_path / "estimate.prom", tmp_path / "my.cnf"
    metrics.write_text("recovery_estimate_available 1\n")
    if text is not None:
        file.write_text(text)
    assert run(["estimate", "--defaults-file", str(file), "--openmetrics", str(metrics), "--watch"]) == 2
    assert_not_available(metrics, str(file))


@pytest.mark.parametrize(
    "wrong", [["--reads", "0"], ["--reads=x"], ["--json", "/dev/null/x"], ["--no-such-option"], ["--watch", "more"]]
)
@pytest.mark.parametrize("is_one_word", [False, True])
def test_after_an_error_in_the_options_there_is_no_estimate(
    wrong: list[str], tmp_path: Path, *, is_one_word: bool
) -> None:
    metrics, path = tmp_path / "estimate.prom", tmp_path / "s"
    metrics.write_text("recovery_estimate_available 1\n")
    named = [f"--openmetrics={metrics}"] if is_one_word else ["--openmetrics", str(metrics)]
    assert run(["estimate", "--socket", str(path), *wrong, *named]) == 2
    assert_not_available(metrics, str(path))


def test_an_option_without_its_value_names_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["estimate", "--reads", "0", "--openmetrics", "--watch"]) == 2
    assert list(tmp_path.iterdir()) == []


def test_metrics_that_nobody_reads_are_named_beside_the_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics, path = tmp_path / "estimate.prom", tmp_path / "s"
    os.mkfifo(metrics)
    assert run(["estimate", "--socket", str(path), "--openmetrics", str(metrics)]) == 2
    warning, error, _ = capsys.readouterr().err.splitlines()
    assert f"{metrics} cannot be written: nobody reads" in warning
    assert error.startswith(f"error: {path} cannot be reached")
    assert run(["estimate", "--reads", "0", "--openmetrics", str(metrics)]) == 2
    assert "nobody reads" in capsys.readouterr().err


# --- Neighbours: what else asks a server


class Followed:
    """The progress of a start that is ready, and rolls back."""

    ready_s = 1.0

    def __init__(self) -> None:
        self.rows = list[int]()

    def add_rows_to_undo(self, _: float, rows: int) -> None:
        self.rows.append(rows)


def followed(path: Path) -> Any:
    return watch._Rollback(cast("Any", SimpleNamespace(login=client.read_login(path, None), login_socket=path)))


def server_of(progress: Followed) -> Any:
    return SimpleNamespace(pid=None, log=SimpleNamespace(progress=progress))


def test_a_rollback_is_followed_by_a_sound_answer(tmp_path: Path) -> None:
    """Else the attacks would say nothing."""
    with hostile_server(tmp_path / "s"):
        progress, rollback = Followed(), followed(tmp_path / "s")
        rollback.update(server_of(progress))
        rollback._connection.close()
    assert progress.rows == [3]


@pytest.mark.parametrize("stage", [GREETING, LOGIN, ".*innodb_trx"])
def test_watch_ends_an_attack_with_one_line(stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_ANSWER_S", _ANSWER_S)
    random, path, errors = chance(_SEED), tmp_path / "s", 0
    for kind in kinds_at(stage):
        progress, rollback = Followed(), followed(path)
        with hostile_server(path, stage, kind(stage, random)):
            errors += 1
            with suppress(RecoveryError):
                rollback.update(server_of(progress))
                errors -= 1
            if rollback._connection is not None:
                rollback._connection.close()
        assert all(0 <= rows <= 10**12 for rows in progress.rows), kind.__name__
    assert errors > len(kinds_at(stage)) / 2


@pytest.mark.parametrize("attack", [noise, truncated, wrong_number])
@pytest.mark.parametrize("stage", [GREETING, LOGIN, "set"])
def test_a_server_of_the_tool_that_answers_wrongly_has_failed(
    stage: str, attack: Callable[[str, Random], Attack], tmp_path: Path
) -> None:
    """Its program may be damaged. No connection counts as not listening yet."""
    random = chance(_SEED)
    for _ in range(5):
        with hostile_server(tmp_path / "s", stage, attack(stage, random)), suppress(ServerFailedError):
            assert client.try_query(tmp_path / "s", timeout_s=_ANSWER_S) in (True, False)


@pytest.mark.timeout(30)
def test_the_sockets_of_a_server_have_one_deadline_to_greet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_server, "GREETING_S", 1.0)
    with ExitStack() as stack:
        for number in range(60):
            silent = stack.enter_context(socket.socket(socket.AF_UNIX))
            silent.bind(str(tmp_path / str(number)))
            silent.listen()
        assert running_server.greeting(os.getpid()).hangs
