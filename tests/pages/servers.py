"""Makes the table of README.md: what a start of each server took, and which files it opened and read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean, geometric_mean

from intervals.cells import SessionCell
from intervals.picture import TABLES, in_order, interval_of, named

from recovery.model import Cache, Session, Table
from recovery.report import fmt
from recovery.report.markdown import table_lines
from recovery.report.tables import all_tables

ONE_SESSION = "2026-11-25-six-servers"
"""It measured all of them, cold and warm."""
TRACED = ("2026-11-26-5.6.24-9.7", "2026-11-28-two-versions", "2026-11-26-what-helps-8.0.31",
          "2026-11-25-mariadb-200000")  # fmt: skip
_HEADERS = ("server", "cold, s", "warm, s", "cold, over sessions, s", "first reads, s", "opens files", "reads files")


def servers_table(session: Callable[[str], Session], cells: Sequence[SessionCell]) -> str:
    """Returns the table in Markdown. First reads are those of all sessions, from the shortest to the longest."""
    seconds = {row[:2]: f"{row[3]} ± {row[4]}" for row in _table(session(ONE_SESSION), "Startup").rows}
    files = {row[0]: (row[3], row[6]) for name in TRACED for row in _cold_files(session(name))}
    rows = []
    for server in in_order({cell.setting.server for cell in cells}):
        cold = [cell for cell in cells if (cell.setting.server, cell.setting.cache) == (server, Cache.COLD)]
        cold = [cell for cell in cold if (cell.setting.tables, cell.setting.others) == (TABLES, "")]
        if not cold or (server, "warm") not in seconds:
            continue
        first = [cell.first_s for cell in cold if cell.first_s is not None]
        rows.append((" ".join(named(server)), seconds[server, "cold"], seconds[server, "warm"], _over_sessions(cold),
                     _range(first), *files[server]))  # fmt: skip
    numeric = (False, *(True for _ in _HEADERS[1:]))
    return "\n".join(list(table_lines(Table("", _HEADERS, tuple(rows), numeric)))[2:])


def _table(session: Session, title: str) -> Table:
    return next(table for table in all_tables(session) if table.title.startswith(title))


def _cold_files(session: Session) -> Iterator[tuple[str, ...]]:
    """Yields the rows of the table of files: version, variant, modified, opened, opens, opened only, read."""
    yield from (row for row in _table(session, "Tables' files").rows if row[1] in ("cold", "cold-plain"))


def _over_sessions(cells: Sequence[SessionCell]) -> str:
    """Returns the mean with its interval, or the means of sessions that are too few for one."""
    means = sorted(fmean(cell.values) for cell in cells)
    if (interval := interval_of(means)) is None:
        return ", ".join(map(fmt.two_digits, means))
    return f"{fmt.two_digits(geometric_mean(means))} ({'-'.join(map(fmt.two_digits, interval))})"


def _range(values: Sequence[float]) -> str:
    return "-".join(dict.fromkeys(fmt.two_digits(value) for value in (min(values), max(values)))) if values else "-"
