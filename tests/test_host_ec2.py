"""Which instance is this? By a real HTTP server that answers as the metadata service does, or does not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from waiting import DEADLINE_S

from recovery.linux.host_facts import Ec2Instance, ec2_instance, is_xen_guest, looks_like_ec2

TOKEN = "t0ken=="  # noqa: S105  # of nobody


class Service(BaseHTTPRequestHandler):
    """Version 2: no token, no answer."""

    told: ClassVar = {
        "/latest/meta-data/instance-type": "m5.large",
        "/latest/meta-data/placement/availability-zone": "eu-west-1a",
    }
    asked: ClassVar[list[str]] = []

    def do_PUT(self) -> None:
        given = self.headers["X-aws-ec2-metadata-token-ttl-seconds"]
        self.answer(200 if given and self.path == "/latest/api/token" else 400, TOKEN)

    def do_GET(self) -> None:
        allowed = self.headers["X-aws-ec2-metadata-token"] == TOKEN
        self.answer(200 if allowed else 401, self.told[self.path])

    def answer(self, status: int, text: str) -> None:
        self.asked.append(f"{self.command} {status}")
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(handler: type[Service]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def amazon(tmp_path: Path) -> Path:
    """The firmware of one of its machines."""
    (tmp_path / "sys_vendor").write_text("Amazon EC2\n")
    return tmp_path


def ask(address: str, dmi: Path, limit_s: float = DEADLINE_S) -> Ec2Instance:
    return ec2_instance(address, limit_s=limit_s, dmi=dmi, hypervisor=dmi / "none")


def test_type_and_zone_by_a_token(amazon: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with served(Service) as address:
        assert ask(address, amazon) == Ec2Instance("m5.large", "eu-west-1a")


def test_what_is_no_name_of_a_type_is_none(amazon: Path) -> None:
    class Odd(Service):
        told: ClassVar = dict.fromkeys(Service.told, "<h1>log in</h1>")

    with served(Odd) as address:
        assert ask(address, amazon) == Ec2Instance()


def test_a_service_that_refuses(amazon: Path) -> None:
    class Refusing(Service):
        def do_PUT(self) -> None:
            self.answer(403, "no")

    with served(Refusing) as address:
        assert ask(address, amazon) == Ec2Instance()


def test_nobody_there(amazon: Path) -> None:
    with socket.socket() as silent:  # bound, but it does not listen
        silent.bind(("127.0.0.1", 0))
        assert ask(f"http://127.0.0.1:{silent.getsockname()[1]}", amazon) == Ec2Instance()


@pytest.mark.parametrize("every_s", [60.0, 0.1])
def test_one_that_hangs_or_drips_is_given_up(amazon: Path, every_s: float) -> None:
    """A byte now and then keeps a socket's time-out from ever coming: its answer would take many minutes."""
    over = threading.Event()

    class Slow(Service):
        def do_PUT(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            while not over.wait(every_s):
                self.wfile.write(b"x")

    with served(Slow) as address:
        try:
            assert ask(address, amazon, limit_s=0.3) == Ec2Instance()
        finally:
            over.set()


def test_elsewhere_nobody_is_asked(tmp_path: Path) -> None:
    Service.asked.clear()
    with served(Service) as address:
        assert ask(address, tmp_path) == Ec2Instance()
    assert Service.asked == []


@pytest.mark.parametrize(
    ("file", "text", "amazons"),
    [
        ("sys_vendor", "Amazon EC2", True),
        ("bios_version", "4.11.amazon", True),
        ("product_uuid", "EC2A1B2C-0000", True),
        ("uuid", "ec2a1b2c-1234", True),
        ("sys_vendor", "QEMU", False),
        ("uuid", "00000000-1234", False),
    ],
)
def test_what_an_ec2_host_looks_like(file: str, text: str, amazons: bool, tmp_path: Path) -> None:
    assert not looks_like_ec2(tmp_path, tmp_path)
    (tmp_path / file).write_text(text + "\n")
    assert looks_like_ec2(tmp_path, tmp_path) is amazons


def test_xen_says_so(tmp_path: Path) -> None:
    assert not is_xen_guest(tmp_path)
    (tmp_path / "type").write_text("xen\n")
    assert is_xen_guest(tmp_path)
