"""New bytes only, partial lines at once, and an inotify descriptor that wakes."""

from __future__ import annotations

import select
from pathlib import Path

from recovery.mysqld.log_tail import LogTail, last_lines


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as log:
        log.write(data)


def seen(tail: LogTail) -> list[tuple[str, bool]]:
    return [(line.text, line.complete) for line in tail.read()]


def test_lines_written_before_it_looked_are_there(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, b"one\ntwo\n")
    with LogTail(log) as tail:
        assert seen(tail) == [("one", True), ("two", True)]
        assert seen(tail) == []


def test_a_partial_line_is_shown_as_it_grows_and_once_when_complete(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    with LogTail(log) as tail:
        append(log, b"percent: 1")
        assert seen(tail) == [("percent: 1", False)]
        assert seen(tail) == []
        append(log, b" 2")
        assert seen(tail) == [("percent: 1 2", False)]
        append(log, b"\nnext\n")
        assert seen(tail) == [("percent: 1 2", True), ("next", True)]


def test_its_descriptor_polls_readable_when_the_log_grows(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    with LogTail(log) as tail:
        poller = select.poll()
        poller.register(tail.fd, select.POLLIN)
        assert poller.poll(0) == []
        append(log, b"x\n")
        assert poller.poll(1000)
        tail.read()
        assert poller.poll(0) == []


def test_bytes_that_are_no_text_and_other_line_ends(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, b"\xff\xfe bad\r\n")
    with LogTail(log) as tail:
        assert seen(tail) == [("\ufffd\ufffd bad", True)]


def test_a_character_cut_by_the_end_of_the_file_is_whole_in_the_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, "gr\u00fc".encode()[:-1])
    with LogTail(log) as tail:
        tail.read()
        append(log, "\u00fc\n".encode()[1:])
        assert seen(tail) == [("gr\u00fc", True)]


def test_a_big_log_is_read_once_and_in_pieces(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, b"a line of forty characters, more or less\n" * 300_000)
    with LogTail(log) as tail:
        pieces = [len(tail.read())]
        while tail.behind:
            pieces.append(len(tail.read()))
        assert sum(pieces) == 300_000
        assert max(pieces) < 150_000
        append(log, b"last\n")
        before = tail.bytes_read
        assert seen(tail) == [("last", True)]
        assert tail.bytes_read - before == 5


def test_a_partial_line_is_shown_also_where_a_piece_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * (1 << 18))
    with LogTail(path) as tail:
        (line,) = tail.read()
        assert (len(line.text), line.complete) == (1 << 18, False)
        assert tail.read() == []


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, b"x" * (3 << 20))
    with LogTail(log) as tail:
        assert max(len(line.text) for line in tail.read()) <= 2 << 20


def test_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, b"".join(b"%d\n" % number for number in range(100)))
    assert last_lines(log, 2) == ("98", "99")
    assert last_lines(tmp_path / "none") == ()
