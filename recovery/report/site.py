"""Writes the site of a results folder: an index, a page for each question and each session, and the published
experiments. The pages are files that need no server."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.linux.files import (
    find_replaceable,
    make_folder,
    numbered_names,
    open_descriptor,
    open_folder,
    write_atomically,
)
from recovery.model import Session
from recovery.report.html.page import GENERATOR, render
from recovery.report.html.parts import Part
from recovery.report.html.site_pages import (
    CSV_FILE,
    INDEX,
    JSON_FILE,
    PUBLISHED_PAGE,
    Site,
    SiteSession,
    main_charts,
    question_page_name,
    session_links,
    site_pages,
    site_session,
)
from recovery.storage.sessions import REPORT_FILE, load_session, session_names

_SESSIONS = "sessions"
"""Folder of the sessions' own pages."""
_HEAD_BYTES = 4096
"""What a page begins with has its generator."""
_CSV_BEGIN = b"session,server,cache,tables,"
"""Of the data as CSV, which has no generator."""
_MAX_NAME_BYTES = 200
_REPLACED_HINT = "name another folder with --out, or remove the file"
_MAX_RUNS = 2_000
"""Of more, a page has over 30 MB, which browsers do not show."""


@dataclass(frozen=True)
class WrittenSite:
    index: Path
    sessions: int
    left_out: tuple[str, ...]
    """One line for each session that cannot be read."""


Share = Callable[[str, Session], tuple[str, Session]]
"""Reduces the name and the session to what others may see."""


def write_site(
    results: Path,
    out: Path,
    questions: Mapping[str, str],
    share: Share = lambda name, session: (name, session),
    *,
    is_public: bool = False,
) -> WrittenSite:
    """Writes the pages of all sessions in a results folder. `questions` has the question of each experiment, in the
    order in which they are shown. Search engines are asked not to list the pages, unless the site is public. One
    session at a time is in memory. Pages of an earlier site in the folder, of sessions that are not there any more, are
    removed."""
    names = _checked_names(results)
    with _writing(out):
        _refuse_foreign_page(out / INDEX)
        make_folder(out / _SESSIONS, links_until=out.absolute().parent)
    found: list[SiteSession] = []
    left_out: list[str] = []
    folders: dict[str, str] = {}
    for name in names:
        try:
            session = load_session(results / name)
            _refuse_long(session)
            shown, shared = share(name, session)
            shown = _free_name(shown, folders)
            # The id of the host tells sessions of one host from others, and is not shown.
            with_host = replace(shared, environment={**shared.environment, "host_id": session.host_id})
            reduced = site_session(shown, f"{_SESSIONS}/{quote(os.fsencode(shown))}.html", with_host)
            links = session_links(reduced, questions, is_public=is_public)
            page = render(shared, site=links)
        except RecoveryError as error:
            left_out.append(f"{name} is left out: {error.message.replace(f'{results / name}/', '')}")
            continue
        except Exception as error:  # a damaged session must not keep the others from their pages
            left_out.append(f"{name} is left out: it is damaged: {type(error).__name__}: {error}")
            continue
        _write(out, f"{_SESSIONS}/{shown}.html", page)
        folders[shown] = name
        found.append(reduced)
    if not found:
        raise RecoveryError(f"no session in {results} can be read", left_out[0])
    ordered = tuple(sorted(found, key=lambda session: (session.started_at, session.name)))
    site = Site(ordered, questions, {}, _note(len(left_out)), is_public)
    quoted = {site.with_most_runs(page).name for page in site.asked}

    def charts_of(name: str) -> tuple[Part, ...]:
        folder = folders[name]
        return main_charts(share(folder, load_session(results / folder))[1])

    site = replace(site, charts={name: charts_of(name) for name in quoted})
    pages, before = dict(site_pages(site)), _earlier_pages(out, questions)
    with _writing(out):
        for name in pages:
            _refuse_foreign_page(out / name)
    for name, content in pages.items():
        _write(out, name, content)
    _remove_pages(out, before - pages.keys() - {f"{_SESSIONS}/{name}.html" for name in folders})
    return WrittenSite(out / INDEX, len(found), tuple(left_out))


def _note(left_out: int) -> tuple[str, ...]:
    """Returns the line about sessions that cannot be read. Their names are not shown: the user may have given them."""
    return (f"Sessions that cannot be read, and are left out: {left_out:,}.",) if left_out else ()


def _free_name(name: str, taken: Container[str]) -> str:
    """Returns the name, with a number where another session has it, such as two that were renamed."""
    short = os.fsdecode(os.fsencode(name)[:_MAX_NAME_BYTES])  # its page and the draft of it have longer names
    return next(one for one in numbered_names(short) if one not in taken)


def _refuse_long(session: Session) -> None:
    if len(session.runs) > _MAX_RUNS:
        raise RecoveryError(
            f"it has {len(session.runs):,} runs, and a page of the site at most {_MAX_RUNS:,}",
            "`recovery report SESSION` has its report",
        )


def _write(out: Path, name: str, content: str) -> None:
    path = out / name
    with _writing(out):
        _refuse_foreign_page(path)
        write_atomically(path, content.encode("utf-8", errors="replace"), links_until=out.absolute().parent)


def _earlier_pages(out: Path, questions: Mapping[str, str]) -> set[str]:
    """Returns the pages that the site had which is in the folder, by the sessions in its data."""
    try:
        with open_descriptor(out / JSON_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK) as file:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                return set()
            with open(file, "rb", closefd=False) as stored:
                rows = [(str(row["session"]), str(row["experiment"])) for row in json.load(stored)["results"]]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return set()
    sessions = {f"{_SESSIONS}/{name}.html" for name, _ in rows if "/" not in name}
    return {*sessions, PUBLISHED_PAGE, *(question_page_name(experiment, questions) for _, experiment in rows)}


def _remove_pages(out: Path, names: Iterable[str]) -> None:
    """Removes pages that this tool has written, and nothing else of the same name."""
    for path in (out / name for name in names):
        with (
            _writing(out),
            suppress(FileNotFoundError, UsageError, PermissionError, IsADirectoryError),
            open_folder(path.parent, links_until=out.absolute().parent) as folder,
        ):
            _refuse_foreign_page(path)
            find_replaceable(folder, path)
            os.unlink(path.name, dir_fd=folder)


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


def _refuse_foreign_page(path: Path) -> None:
    """Raises UsageError if the file is there and is not a page that this tool wrote."""
    try:
        with open_descriptor(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK) as file:
            head = os.read(file, _HEAD_BYTES) if stat.S_ISREG(os.fstat(file).st_mode) else b""
            is_own = GENERATOR.encode() in head or (path.name == CSV_FILE and head.startswith(_CSV_BEGIN))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError:  # a link, a socket, or a file that cannot be read
        is_own = False
    if not is_own:
        raise UsageError(f"{path} is not a page of this tool, and is not replaced", _REPLACED_HINT)


@contextmanager
def _writing(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HostUnfitError(
            f"cannot write the site to {out}: {error.strerror or error}", "name another folder with --out"
        ) from error
