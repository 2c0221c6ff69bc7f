"""Can whatever is read back as a session be shown: every format, its page, and beside another one?"""

from __future__ import annotations

import io
import shlex
from collections.abc import Iterator
from contextlib import suppress
from functools import cache

from rich.console import Console

from fuzzing import report
from fuzzing.target import FIXTURES, Target, a_folder
from recovery.analysis.compare import compare, worse_pairs
from recovery.errors import RecoveryError
from recovery.model import Session
from recovery.report import console
from recovery.report.compare import comparison_tables
from recovery.report.exports import FORMATS, render_as
from recovery.report.stored_session import load_session
from recovery.report.text import WIDTH, render_table
from recovery.report.write import write_reports

_ALLOWED = 0.1


def check(data: bytes) -> None:
    with a_folder() as folder, suppress(RecoveryError):
        report.write(folder, data)
        session = load_session(folder)
        write_reports(folder)
        for name in FORMATS:
            _check_page(name, render_as(folder, name))
        console.render(session, Console(file=io.StringIO(), width=80))
        for one, other in ((session, _recorded()), (_recorded(), session), (session, session)):
            found = compare([one], [other])
            worse_pairs(found, _ALLOWED)
            for table in comparison_tables(found, (["one"], ["other"])):
                assert max(map(len, render_table(table).split("\n"))) <= WIDTH


def _check_page(name: str, page: str) -> None:
    if name == "text":
        assert page.isascii()
        assert all(len(line) <= WIDTH or _is_word(line) for line in page.split("\n"))
    if name == "html":
        assert "<script" not in page


def _is_word(line: str) -> bool:
    """One of the command that repeats it: broken, it would be another."""
    return len(shlex.split(line.removesuffix("\\"))) == 1


@cache
def _recorded() -> Session:
    return load_session(FIXTURES / "sessions" / "three-versions")


def _seeds() -> Iterator[bytes]:
    yield from report.TARGET.seeds()


TARGET = Target("pages", check, _seeds, most_bytes=12_000, share=2, mutate=report.mutate)
