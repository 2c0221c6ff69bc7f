"""Lines of a server's log without the names of the user's schemas and tables."""

from __future__ import annotations

import dataclasses
import signal
from pathlib import Path

import pytest
from checkout import ROOT
from fakes import CRASHED, FakeLauncher, fake_launch

from recovery.errors import ServerFailedError
from recovery.linux.storage import as_storage_error
from recovery.logs.error_log import classify, error_text, log_counters, milestone_of, progress_of
from recovery.model import parse_version
from recovery.mysqld.known_lines import hide_names
from recovery.mysqld.startup import wait_until_ready

MYSQLD = "/opt/server/bin/mysqld"
STAMP_57, STAMP_56 = "2026-11-27T17:29:27.019026Z 1", "2026-11-27 17:29:41 0"
HIDDEN = "(hidden: it may name a schema or a table"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            f"{STAMP_57} [Warning] [MY-012351] [InnoDB] Tablespace 26, name 'bank/my salary', "
            "file './bank/my@0020salary.ibd' is missing!",
            f"{STAMP_57} [Warning] [MY-012351] [InnoDB] Tablespace 26, name '...', file '...' is missing!",
        ),
        (
            f"{STAMP_57} [ERROR] InnoDB: Cannot open datafile for read-only: './bank/it@0027s.ibd' OS error: 71",
            f"{STAMP_57} [ERROR] InnoDB: Cannot open datafile for read-only: '...' OS error: 71",
        ),
        (
            f"{STAMP_56} [Warning] InnoDB: Ignoring tablespace for bank/my@0020salary because it could not be opened.",
            f"{STAMP_56} [Warning] InnoDB: Ignoring tablespace...because it could not be opened.",
        ),
        (
            f"{STAMP_56} [ERROR] InnoDB: Write to file ./bank/salary.ibd failed, Error number 28, 'salary'",
            f"{STAMP_56} [ERROR] InnoDB: {HIDDEN}, error number 28)",
        ),
        (
            f"{STAMP_57} [ERROR] [MY-012224] [InnoDB] Checksum mismatch in datafile: ./bank/salary.ibd, Space ID:7, "
            "Flags: 33. Please refer to http://dev.mysql.com/doc/",
            f"{STAMP_57} [ERROR] [MY-012224] [InnoDB] Checksum mismatch in datafile:..., Space ID:7, Flags: 33....",
        ),
        (
            f"{STAMP_57} [ERROR] [MY-012221] [InnoDB] Datafile './bank/salary.ibd' is corrupted. Cannot determine the "
            "space ID from the first 64 pages.",
            f"{STAMP_57} [ERROR] [MY-012221] [InnoDB] Datafile '...' is corrupted. Cannot determine the space ID from "
            "the first 64 pages.",
        ),
        (
            f"{STAMP_56} [ERROR] InnoDB: Database page corruption on disk or a failed file read of page [page id: "
            "space=5, page number=3]. You may have to recover from a backup.",
            f"{STAMP_56} [ERROR] InnoDB: Database page corruption on disk or a failed file read of page [page id: "
            "space=5, page number=3]...",
        ),
        (
            f"{STAMP_56} [ERROR] InnoDB: Tablespace 26 was not found at ./bank/salary.ibd.",
            f"{STAMP_56} [ERROR] InnoDB: Tablespace 26 was not found at...",
        ),
        (f"{STAMP_56} [ERROR] mysqld: Table './bank/salary' is marked as crashed", f"{STAMP_56} [ERROR] {HIDDEN})"),
        ("salary", f"{HIDDEN})"),
        ("Version: 'salary'", f"{HIDDEN})"),
        (f"{STAMP_56} [Note] /home/salary/mysqld: ready for connections.", f"{STAMP_56} [Note] {HIDDEN})"),
        (f"{STAMP_57} [Note] [MY-010733] [salary] Binlog end", f"{STAMP_57} [Note] {HIDDEN})"),
        (
            f"{STAMP_56} [Note] InnoDB: To recover: salary pages",
            f"{STAMP_56} [Note] InnoDB: {HIDDEN})",
        ),
        ("", ""),
    ],
)
def test_names_are_hidden(line: str, shown: str) -> None:
    assert hide_names(line, MYSQLD) == shown
    assert hide_names(shown, MYSQLD) == shown


@pytest.mark.parametrize("log", sorted((ROOT / "fixtures/errorlogs").glob("*.err")), ids=lambda log: log.stem)
def test_what_a_log_shows_of_a_start_stays(log: Path) -> None:
    """Milestones, figures and proofs are read from hidden lines as from others."""
    text = log.read_text()
    programs = ("/opt/server/bin/mysqld", "/opt/server/bin/mariadbd", "/usr/sbin/mysqld", "/usr/sbin/mariadbd")
    hidden = hide_names(text, next(program for program in programs if program in text))

    def facts(line: str) -> object:
        event = classify(line)
        return milestone_of(line), event and event.kind, tuple(log_counters(line)), progress_of(line)

    assert list(map(facts, hidden.split("\n"))) == list(map(facts, text.split("\n")))


@pytest.mark.parametrize(
    "text",
    [
        "Cannot continue operation.",
        "Plugin initialization aborted with error Generic error.",
        "Set innodb_force_recovery=1 to ignore this and to permanently lose all changes to the tablespace.",
    ],
)
def test_reasons_of_a_failed_start_are_shown(text: str) -> None:
    assert hide_names(f"{STAMP_57} [ERROR] InnoDB: {text}", MYSQLD) == f"{STAMP_57} [ERROR] InnoDB: {text}"


def test_progress_shows_figures_only() -> None:
    assert progress_of("InnoDB: To recover: 'bank salary'") is None
    assert progress_of("InnoDB: scanned up to log sequence number 12 salary") == "scanned up to log sequence number 12"
    assert progress_of("InnoDB: To recover: LSN 12/34; 56 pages") == "To recover: LSN 12/34; 56 pages"


def failed_start(folder: Path, *steps: str) -> ServerFailedError:
    launch = dataclasses.replace(fake_launch(folder), is_private=True)
    process = FakeLauncher([list(steps)]).launch(launch)
    try:
        with pytest.raises(ServerFailedError) as caught:
            wait_until_ready(process, version=parse_version("5.7.22"))
    finally:
        process.signal(signal.SIGKILL)
        process.wait(60)
    return caught.value


def test_the_reason_of_a_failed_start_has_no_names(tmp_path: Path) -> None:
    broken = f"{STAMP_56} [ERROR] InnoDB: Tablespace bank/salary is broken\n"
    error = failed_start(tmp_path, CRASHED, broken, f"{STAMP_56} [ERROR] Aborting\n", "exit 1")
    assert "salary" not in "".join((error.message, error.hint, *error.log_tail))
    assert error.message.endswith(f"[ERROR] InnoDB: {HIDDEN})")
    assert error_text(error.log_tail[-1]) == "[ERROR] Aborting"


def test_a_full_disk_is_recognised_without_names(tmp_path: Path) -> None:
    full = f"{STAMP_56} [ERROR] InnoDB: Write to file ./bank/salary.ibd failed: Error number 28 means 'No space left'\n"
    error = failed_start(tmp_path, full, "exit 1")
    storage = as_storage_error(error)
    assert storage is not None
    assert storage.message.startswith("a disk was full")
    assert "salary" not in str(storage)
