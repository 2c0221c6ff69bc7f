"""`recovery estimate` refuses what is no server in two lines, and `recovery calibrate` what says nothing of kills.
Real servers are asked in tests/real."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from recovery.analysis.crash_estimate import CONSTANTS, ServerState, estimate_start
from recovery.cli import estimate as command
from recovery.cli.main import run
from recovery.model import parse_version

FIXTURES = Path(__file__).parents[2] / "fixtures"


def refused(capsys: pytest.CaptureFixture[str], *words: str, code: int = 2) -> str:
    """The first of the two lines of an error."""
    assert run([*words]) == code
    error = capsys.readouterr().err
    assert re.fullmatch(r"error: .+\nhint:  .+\n", error), error
    return error.splitlines()[0]


@contextmanager
def listening(path: Path, answer: bytes | None) -> Iterator[None]:
    """A socket of something that is no database server: it answers this, and ends the connection."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        if answer is None:  # nobody listens
            yield
            return
        listener.listen()

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                client.sendall(answer)

        server = threading.Thread(target=serve, daemon=True)
        server.start()
        yield
        server.join()


@pytest.mark.parametrize(
    "answer",
    [None, b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x05\x00\x00\x00\x0b\x08\x05\x1a\x00", bytes(200)],
    ids=("nobody listens", "silent", "HTTP", "X protocol", "zeros"),
)
def test_a_socket_of_something_else_is_no_server(
    answer: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s"
    with listening(path, answer):
        assert "no MySQL or MariaDB server answers at" in refused(capsys, "estimate", "--socket", str(path))


def test_what_is_no_login_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "my.cnf"
    file.write_text("user=nobody\n")
    assert "needs a running server" in refused(capsys, "estimate")
    assert "cannot be reached" in refused(capsys, "estimate", "--socket", str(tmp_path / "none"))
    assert "is no socket" in refused(capsys, "estimate", "--socket", str(file))
    assert "is no option file" in refused(capsys, "estimate", "--defaults-file", str(file))
    assert "cannot be read" in refused(capsys, "estimate", "--defaults-file", str(tmp_path / "none"))
    refused(capsys, "estimate", "--socket", str(file), "--reads", "0")


def test_a_prediction_is_about_a_recovery_that_is_ahead(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--predicted is about" in refused(capsys, "cold-recovery", "--version", "8.0.31", "--predicted", "19")


def test_notes_are_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    state = ServerState(parse_version("8.0.31"), 1000, 2000.0, notes=("it is read-only",))
    found, noted = estimate_start(state), None
    for _ in range(2):
        noted = command._print(found, noted, stamped=True)
    assert capsys.readouterr().out.count("Note: it is read-only.") == 1


# --- Calibration


def test_a_calibration_needs_a_session_of_pending_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no session of pending-work" in refused(capsys, "calibrate", "--results", str(tmp_path))
    given = ("calibrate", "three-versions", "--results", str(FIXTURES / "sessions"))
    refused(capsys, *given)


def test_constants_of_a_host_are_stored_and_used_there_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_CACHE", str(tmp_path))
    assert command.constants_of("here") == CONSTANTS
    own = replace(CONSTANTS["mysql-8.0"], process_s=9.0)
    command.store_constants("here", {"mysql-8.0": own})
    command.store_constants("there", {"mysql-5.7": own})
    assert command.constants_of("here") == {**CONSTANTS, "mysql-8.0": own}
    assert command.constants_of(None) == CONSTANTS


def test_a_damaged_file_of_constants_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_CACHE", str(tmp_path))
    (tmp_path / "estimate-constants.json").write_text('{"format": 1, "hosts": {"here": 5}}')
    with pytest.raises(Exception, match="is damaged"):
        command.constants_of("here")
