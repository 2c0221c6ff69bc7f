"""`recovery estimate` refuses what is no server in two lines, and `recovery calibrate` what says nothing of kills.
Real servers are asked in tests/real."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from estimates import AVAILABLE, assert_not_available

from recovery.analysis.crash_estimate import CONSTANTS, Kill, ServerState, estimate_start
from recovery.cli import estimate as command
from recovery.cli.main import run
from recovery.errors import UsageError
from recovery.model import parse_version
from recovery.mysqld.client import NotAnsweringError
from recovery.storage.sessions import load_session

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
    assert "cannot be read" in refused(capsys, "estimate", "--defaults-file", str(tmp_path / "none"))
    refused(capsys, "estimate", "--socket", str(file), "--reads", "0")


def test_a_prediction_is_about_a_recovery_that_is_ahead(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--predicted / PREDICTED: it is about" in refused(
        capsys, "cold-recovery", "--version", "8.0.31", "--predicted", "19"
    )


@pytest.mark.parametrize("name", ["estimate", "watch"])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"user=nobody\n", "line 1 of my.cnf is an option without a group"),
        (b"[client\n", "line 1 of my.cnf has no closing bracket"),
        (b"[client]\n!includedir /nowhere\n", "No such file"),
        (b"[client]\nport=many\n", "port=many"),
        (b"[mysqld]\nport=1\n", "has no login in the group [client]"),
    ],
)
def test_an_option_file_that_clients_refuse_is_refused(
    name: str, text: bytes, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, log = tmp_path / "my.cnf", tmp_path / "log"
    file.write_bytes(text)
    log.touch()
    assert why in refused(
        capsys, name, *(["--follow-log", str(log)] if name == "watch" else []), "--defaults-file", str(file)
    )


# --- More than one estimate


STATE = ServerState(parse_version("8.0.31"), 1000, 2000.0, notes=("it is read-only",))
ESTIMATED, LOST = (STATE, estimate_start(STATE)), NotAnsweringError("it is gone", "wait")


class Server:
    """A server that is estimated with these outcomes, one after the other, until Ctrl-C is pressed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *outcomes: object) -> None:
        self._outcomes, self.connections, self.seen = iter(outcomes), 0, list[str]()
        monkeypatch.setattr(command, "_connected", self._connected)
        monkeypatch.setattr(command._Server, "use_connection", lambda *_: None)
        monkeypatch.setattr(command._Server, "estimate", lambda _: self._next())
        monkeypatch.setattr(time, "sleep", self._sleep)
        self.metrics: Path | None = None

    @contextmanager
    def _connected(self, *_: object) -> Iterator[None]:
        self.connections += 1
        yield

    def _next(self) -> object:
        outcome = next(self._outcomes)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def _sleep(self, _: float) -> None:
        lines = self.metrics.read_text().splitlines() if self.metrics else []
        self.seen += [line.rsplit(" ", 1)[1] for line in lines if line.startswith(AVAILABLE)]


def test_notes_and_errors_of_the_server_are_printed_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Server(monkeypatch, ESTIMATED, ESTIMATED, *[LOST] * 4, ESTIMATED, KeyboardInterrupt())
    assert run(["estimate", "--socket", "/run/s", "--watch"]) == 130
    printed = [re.sub(r"^\d\d:\d\d:\d\d |:.*", "", line) for line in capsys.readouterr().out.splitlines()]
    silence = "it is gone; it is asked again every minute."
    assert printed == ["killed now", "Note", "Note", "killed now", silence, "killed now"]


def test_an_estimate_is_a_table_of_its_parts_with_the_longest_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = replace(STATE, dirty_pages=20_000, read_share=1.0)
    Server(monkeypatch, (state, estimate_start(state)))
    assert run(["estimate", "--socket", "/run/s"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert re.match(r"If it were killed now: [\d.]+ s \([\d.]+ to [\d.]+\), of which:$", head)
    parts = [line.split("  ")[0] for line in lines[:2]]
    assert parts == ["pages", "process"]
    assert lines[0].count("\u2588") > lines[1].count("\u2588")
    assert "Largest lever: pages, " in "\n".join(lines)
    assert "Note: it is read-only." in lines


def test_a_connection_that_was_closed_while_idle_is_replaced_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server(monkeypatch, ESTIMATED, LOST, ESTIMATED, LOST, ESTIMATED, KeyboardInterrupt())
    assert run(["estimate", "--socket", "/run/s", "--watch"]) == 130
    assert server.connections == 3
    assert "it is gone" not in capsys.readouterr().out


def test_the_figures_of_a_server_that_does_not_answer_are_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server(monkeypatch, ESTIMATED, LOST, LOST, LOST, ESTIMATED, KeyboardInterrupt())
    server.metrics = tmp_path / "estimate.prom"
    words = ["estimate", "--socket", "/run/s", "--openmetrics", str(server.metrics)]
    assert run([*words, "--watch"]) == 130
    assert server.seen == ["1.0", "0.0", "0.0", "1.0"]
    assert not server.metrics.exists(), "nobody replaces it from now on"
    assert capsys.readouterr().out.count("it is gone") == 1


def test_ctrl_c_removes_no_target_of_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics, precious = tmp_path / "estimate.prom", tmp_path / "precious"
    precious.write_text("keep")

    def put_a_link(_: float) -> None:
        metrics.unlink()
        metrics.symlink_to(precious)

    words = ("estimate", "--socket", "/run/s", "--watch", "--openmetrics", str(metrics))
    Server(monkeypatch, ESTIMATED, KeyboardInterrupt())
    monkeypatch.setattr(time, "sleep", put_a_link)
    assert run(list(words)) == 130
    assert precious.read_text() == "keep"
    assert f"--openmetrics={metrics} cannot be written: {metrics} is a link" in refused(capsys, *words)


def test_watch_writes_an_object_a_line_and_keeps_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = tmp_path / "estimates.jsonl"
    lines.write_text("old\n")
    Server(monkeypatch, ESTIMATED, *[LOST] * 2, ESTIMATED, KeyboardInterrupt())
    assert run(["estimate", "--socket", "/run/s", "--watch", "--json", str(lines)]) == 130
    found = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [("seconds" in one, "error" in one) for one in found] == [(True, False), (False, True), (True, False)]


@pytest.mark.parametrize("watch", [(), ("--watch",)])
def test_an_error_that_ends_the_command_leaves_no_old_figures(
    watch: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As when it is called every minute by cron."""
    Server(monkeypatch, LOST)
    metrics = tmp_path / "estimate.prom"
    metrics.write_text("old\n")
    assert "it is gone" in refused(capsys, "estimate", "--socket", "/run/s", "--openmetrics", str(metrics), *watch)
    assert_not_available(metrics, "/run/s")


@pytest.mark.parametrize(
    "words",
    [
        ("--reads", "0"), ("--reads", "x"), ("--rads", "5"), ("more",), ("--defaults-file", ""), ("--defaults-file=",),
        ("--json", "/dev/null/x"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("joined", [True, False])
def test_a_wrong_word_leaves_no_old_figures(words: tuple[str, ...], tmp_path: Path, *, joined: bool) -> None:
    metrics = tmp_path / "estimate.prom"
    metrics.write_text("old\n")
    given = [f"--openmetrics={metrics}"] if joined else ["--openmetrics", str(metrics)]
    assert run(["estimate", "--socket", "/run/s", *given, *words]) == 2
    assert_not_available(metrics, "/run/s")


def test_a_wrong_word_writes_to_no_file_that_is_an_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for last in ("--json", "-"):
        refused(capsys, "estimate", "--reads", "0", "--openmetrics", last)
    refused(capsys, "estimate", "--reads", "0", "--openmetrics")
    assert list(tmp_path.iterdir()) == []


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
    (tmp_path / "estimate-constants.json").write_text('{"format": 2, "hosts": {"here": 5}}')
    with pytest.raises(Exception, match="is damaged"):
        command.constants_of("here")


def test_impossible_constants_are_refused_with_the_file_to_remove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOVERY_CACHE", str(tmp_path))
    path = command.store_constants("here", {"mysql-8.0": replace(CONSTANTS["mysql-8.0"], process_s=-1.0)})
    with pytest.raises(UsageError, match="impossible constants") as raised:
        command.constants_of("here")
    assert f"remove {path}" in raised.value.hint


# --- JSON


def test_json_of_a_calibration_has_what_was_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RECOVERY_CACHE", str(tmp_path))
    session = replace(load_session(FIXTURES / "sessions" / "three-versions"), environment={"host_id": "here"})
    own = replace(CONSTANTS["mysql-8.0"], process_s=2.5)
    states = [replace(STATE, dirty_pages=pages, files=10) for pages in range(0, 12_000, 1000)]
    kills = [Kill(state, estimate_start(state, {"mysql-8.0": own}).seconds) for state in states]
    monkeypatch.setattr(command, "load_session", lambda _: session)
    monkeypatch.setattr(command, "kills_of", lambda _: {"mysql-8.0": kills})
    given = ["calibrate", "three-versions", "--results", str(FIXTURES / "sessions")]
    target = tmp_path / "constants.json"
    assert run([*given, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert run([*given, "--json", str(target)]) == 0
    assert "12 starts" in capsys.readouterr().out
    assert json.loads(target.read_text()) == found
    assert (found["session"], found["file"]) == ("three-versions", str(tmp_path / "estimate-constants.json"))
    one = found["series"]["mysql-8.0"]
    assert one["starts"] == 12
    assert one["range_ratio"] > 1
    stored = command.constants_of("here")["mysql-8.0"]
    known = json.loads(json.dumps(asdict(stored)))
    assert {name: one[name] for name in known} == known
    assert stored.process_s == pytest.approx(2.5, rel=0.2)


def test_json_has_the_range_its_parts_and_where_the_reads_come_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Server(monkeypatch, (replace(STATE, reads_from="given with --reads"), ESTIMATED[1]))
    assert run(["estimate", "--socket", "/run/s", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0 < found["low_seconds"] < found["seconds"] < found["high_seconds"]
    assert sum(part["seconds"] for part in found["parts"].values()) == pytest.approx(found["seconds"])
    assert (found["reads_per_second"], found["reads_from"]) == (2000, "given with --reads")
    assert found["notes"] == ["it is read-only"]


def test_json_of_a_server_that_does_not_answer_has_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Server(monkeypatch, LOST)
    target = tmp_path / "estimate.json"
    assert "it is gone" in refused(capsys, "estimate", "--socket", "/run/s", "--json", str(target))
    assert json.loads(target.read_text())["error"] == "it is gone"


def test_two_formats_do_not_share_the_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert "both print" in refused(capsys, "estimate", "--socket", "/run/s", "--json", "-", "--openmetrics", "-")
