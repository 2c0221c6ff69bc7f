"""A server that speaks the protocol of MySQL as far as a client needs it, and attacks at one place of it."""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

Row = Sequence[object]
Attack = Callable[["Peer"], None]
"""Sends something in place of the right answer. The connection is closed when it returns."""

GREETING, LOGIN = "greeting", "login"
STATUS = "LOG\n---\nLog sequence number          5000\nLast checkpoint at           4200\n"
ANSWERS: Mapping[str, Sequence[Row]] = {
    "set": (),
    "show global variables": (
        ("version", "8.0.31"), ("datadir", "/nowhere"), ("innodb_buffer_pool_size", "134217728"), ("log_bin", "ON"),
    ),
    ".*innodb_tablespaces": ((7,),),
    ".*innodb_trx": ((3, 20, 0, 0, 0, 0),),
    ".*innodb_buffer_page": ((100, 30, 70, 35),),
    "show engine innodb status": (("InnoDB", "", STATUS),),
    "show global status": (("Innodb_buffer_pool_pages_dirty", "100"),),
    "show replica status": (),
}  # fmt: skip
"""The right answers, by patterns of statements."""
STAGES = (GREETING, LOGIN, *ANSWERS)
NATIVE, TEXT, DECIMAL = b"mysql_native_password", 253, 246
_AUTOCOMMIT, _MORE = 2, 8
_CAPABILITIES = 0x00_8F_F7_FF & ~0x800  # all of 5.7 but TLS
_WAIT_S = 0.005


class Peer:
    """One connection, from the side of the server."""

    def __init__(self, client: socket.socket, ended: threading.Event) -> None:
        self.client, self.ended = client, ended
        self.number, self.sent, self.received = 0, 0, bytearray()

    def raw(self, data: bytes) -> None:
        self.client.sendall(data)
        self.sent += len(data)

    def packet(self, content: bytes, *, length: int | None = None) -> None:
        size = len(content) if length is None else length
        self.raw(size.to_bytes(3, "little") + bytes([self.number % 256]) + content)
        self.number += 1

    def read(self) -> bytes | None:
        """Returns the next packet of the client, or None at its end."""
        head = self._exactly(4)
        if head is None:
            return None
        self.number = head[3] + 1
        return self._exactly(int.from_bytes(head[:3], "little"))

    def _exactly(self, size: int) -> bytes | None:
        found = b""
        while len(found) < size:
            part = self.client.recv(size - len(found))
            if not part:
                return None
            self.received += part
            found += part
        return found

    def greeting(self, version: bytes = b"8.0.31", plugin: bytes = NATIVE, more_capabilities: int = 0) -> None:
        capabilities = _CAPABILITIES | more_capabilities
        self.packet(
            b"\x0a" + version + b"\0" + struct.pack("<I", 1) + b"12345678\0"
            + struct.pack("<HBHH", capabilities & 0xFFFF, 33, _AUTOCOMMIT, capabilities >> 16)
            + bytes([21]) + bytes(10) + b"123456789012\0" + plugin + b"\0"
        )  # fmt: skip

    def ok(self, more: bytes = b"") -> None:
        self.packet(b"\0\0\0" + struct.pack("<HH", _AUTOCOMMIT, 0) + more)

    def error(self, number: int, text: bytes = b"#HY000no") -> None:
        self.packet(b"\xff" + struct.pack("<H", number) + text)

    def column(self, kind: int = TEXT, charset: int = 33, name: bytes = b"c") -> None:
        names = b"".join(map(lenenc, (b"def", b"", b"", b"", name, b"")))
        self.packet(names + b"\x0c" + struct.pack("<HIBHB", charset, 255, kind, 0, 0) + b"\0\0")

    def columns(self, count: int, kind: int = TEXT, charset: int = 33) -> None:
        self.packet(bytes([count]))
        for _ in range(count):
            self.column(kind, charset)
        self.end()

    def row(self, row: Row) -> None:
        self.packet(b"".join(b"\xfb" if one is None else lenenc(as_bytes(one)) for one in row))

    def end(self, flags: int = 0) -> None:
        self.packet(b"\xfe" + struct.pack("<HH", 0, flags))

    def rows(self, rows: Sequence[Row], kind: int = TEXT, charset: int = 33, *, more: bool = False) -> None:
        self.columns(len(rows[0]) if rows else 1, kind, charset)
        for row in rows:
            self.row(row)
        self.end(_MORE if more else 0)

    def drip(self, data: bytes) -> None:
        """Sends a byte now and then, until the client has enough of it."""
        for at in range(len(data)):
            self.raw(data[at : at + 1])
            if self.ended.wait(_WAIT_S):
                return
        self.silence()

    def silence(self) -> None:
        """Waits until the client closes the connection."""
        with suppress(OSError):
            while part := self.client.recv(4096):
                self.received += part


def lenenc(text: bytes) -> bytes:
    if len(text) < 251:
        return bytes([len(text)]) + text
    if len(text) < 1 << 16:
        return b"\xfc" + struct.pack("<H", len(text)) + text
    return b"\xfd" + len(text).to_bytes(3, "little") + text


def as_bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


class HostileServer:
    """Answers as a server does, but where it attacks."""

    def __init__(self, listening: socket.socket, stage: str, attack: Attack | None) -> None:
        self._listening, self._stage, self._attack = listening, stage, attack
        self.peers: list[Peer] = []
        self.ended = threading.Event()

    @property
    def received(self) -> bytes:
        return b"".join(bytes(peer.received) for peer in self.peers)

    @property
    def most_sent(self) -> int:
        return max((peer.sent for peer in self.peers), default=0)

    def serve(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if self.ended.is_set():
                client.close()
                return
            with client, suppress(OSError):
                peer = Peer(client, self.ended)
                self.peers.append(peer)
                self._talk(peer)

    def _talk(self, peer: Peer) -> None:
        if self._attacks(peer, GREETING):
            return
        peer.greeting()
        if peer.read() is None or self._attacks(peer, LOGIN):
            return
        peer.ok()
        while (packet := peer.read()) is not None and packet[:1] == b"\x03":
            text = " ".join(packet[1:].decode("utf-8", "replace").lower().split())
            known = next((pattern for pattern in ANSWERS if re.match(pattern, text)), None)
            if known is None:
                peer.error(1064)
            elif self._attacks(peer, known):
                return
            elif known == "set":
                peer.ok()
            else:
                peer.rows(ANSWERS[known])

    def _attacks(self, peer: Peer, stage: str) -> bool:
        if stage != self._stage or self._attack is None:
            return False
        self._attack(peer)
        return True


@contextmanager
def hostile_server(path: Path, stage: str = "", attack: Attack | None = None) -> Iterator[HostileServer]:
    """Yields a server that listens on a socket, and attacks at a stage."""
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        with serving(listening, stage, attack) as server:
            yield server


@contextmanager
def serving(listening: socket.socket, stage: str = "", attack: Attack | None = None) -> Iterator[HostileServer]:
    server = HostileServer(listening, stage, attack)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.ended.set()
        with suppress(OSError), socket.socket(listening.family) as last:  # ends accept()
            last.connect(listening.getsockname())
        thread.join(10)
        assert not thread.is_alive(), "the client has not closed its connection"
