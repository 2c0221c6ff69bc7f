"""Writes the site of a results folder: an index, a page for each question and each session, and the published
experiments. The pages are files that need no server."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.linux.files import read_limited, write_atomically
from recovery.report.html.site_pages import (
    GENERATOR,
    INDEX,
    Site,
    SiteSession,
    main_charts,
    session_links,
    site_pages,
    site_session,
)
from recovery.report.write import render_page
from recovery.storage.sessions import REPORT_FILE, load_session, session_names

_SESSIONS = "sessions"
"""Folder of the sessions' own pages."""
_MAX_PAGE_BYTES = 256 << 20


@dataclass(frozen=True)
class WrittenSite:
    index: Path
    sessions: int
    left_out: tuple[str, ...]
    """One line for each session that cannot be read."""


def write_site(results: Path, out: Path, questions: Mapping[str, str], *, is_public: bool = False) -> WrittenSite:
    """Writes the pages of all sessions in a results folder. `questions` has the question of each experiment, in the
    order in which they are shown. Search engines are asked not to list the pages, unless the site is public. One
    session at a time is in memory."""
    names = _checked_names(results)
    with _writing(out):
        _refuse_foreign_folder(out)
        (out / _SESSIONS).mkdir(parents=True, exist_ok=True)
    found: list[SiteSession] = []
    left_out = []
    for name in names:
        try:
            session = load_session(results / name)
            reduced = site_session(name, f"{_SESSIONS}/{quote(os.fsencode(name))}.html", session)
            page = render_page(results / name, session, site=session_links(reduced, questions, is_public=is_public))
        except RecoveryError as error:
            left_out.append(f"{name} is left out: {error.message}")
            continue
        with _writing(out):
            write_atomically(out / _SESSIONS / f"{name}.html", page.encode("utf-8", errors="replace"))
        found.append(reduced)
    if not found:
        raise RecoveryError(f"no session in {results} can be read", left_out[0])
    ordered = tuple(sorted(found, key=lambda session: (session.started_at, session.name)))
    site = Site(ordered, questions, {}, tuple(left_out), is_public)
    quoted = {site.with_most_runs(page).name for page in site.asked}
    site = replace(site, charts={name: main_charts(load_session(results / name)) for name in quoted})
    with _writing(out):
        for name, content in site_pages(site):
            write_atomically(out / name, content.encode("utf-8", errors="replace"))
    return WrittenSite(out / INDEX, len(found), tuple(left_out))


def _checked_names(results: Path) -> list[str]:
    """Returns the names of the sessions. Raises UsageError if there are none."""
    if not results.is_dir():
        raise UsageError(f"there is no folder {results}", "name a results folder, such as `results`")
    if (results / REPORT_FILE).is_file():
        raise UsageError(
            f"{results} is a single session", f"name the folder that it is in: {results.absolute().parent}"
        )
    names = session_names(results)
    if not names:
        raise UsageError(
            f"there is no session in {results}", f"name a results folder: it has a folder with {REPORT_FILE} for each"
        )
    return names


def _refuse_foreign_folder(out: Path) -> None:
    """Raises UsageError if a page of something else would be replaced."""
    index = out / INDEX
    if index.is_file() and GENERATOR.encode() not in read_limited(index, _MAX_PAGE_BYTES)[:4096]:
        raise UsageError(f"{index} is not a page of this tool", "name another folder with --out")


@contextmanager
def _writing(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HostUnfitError(
            f"cannot write the site to {out}: {error.strerror or error}", "name another folder with --out"
        ) from error
