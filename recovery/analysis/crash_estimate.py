"""Estimates how long a running server would take to start if it were killed now (pure).

The start is a sum of parts: the process itself, the files it reads, the dirty pages it recovers, the redo that it
applies to them, and prepared transactions, which it rolls back before it is ready. Dirty pages decide after most loads,
bytes of redo only where few pages have much of it. Rows of an open transaction stay locked after the start."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from recovery.analysis.host_figures import READS_16, host_figures
from recovery.errors import RecoveryError, UsageError
from recovery.model import Flavor, Session, Verdict, Version, parse_version

# --- What a start costs


@dataclass(frozen=True)
class Constants:
    """What a start costs in the servers of a series. Requests are divided by the storage's reads a second."""

    process_s: float
    """Of a start with nothing pending and hardly any files."""
    requests_per_file: float
    file_s: float
    """Least time for each file, on storage that is faster than the server."""
    requests_per_page: float
    """Reads and writes for each dirty page."""
    page_s: float
    """Least time for each dirty page, on storage that is faster than the server."""
    redo_s_per_byte: float
    """Time to apply redo."""
    rows_per_s: float
    """Rows of an open transaction that are rolled back in a second."""
    prepared_rows_per_s: float
    error: float
    """Between 1 / (1 + this) and 1 + this times the estimate are meant to be 90 % of all starts."""
    reads_per_s: tuple[float, float] = (750.0, 110_000.0)
    """The storage that they were measured on: its fewest and its most reads a second."""
    writes_per_page: float = 0.0
    """Those of the requests that are writes, which other storage may not count."""

    @property
    def is_possible(self) -> bool:
        """Returns whether no time is negative, and none is zero that every start takes."""
        least = (self.requests_per_file, self.file_s, self.page_s, self.redo_s_per_byte, self.writes_per_page)
        needed = (self.process_s, self.requests_per_page, self.rows_per_s, self.prepared_rows_per_s, self.error)
        numbers = (*least, *needed, *self.reads_per_s)
        return all(map(math.isfinite, numbers)) and min(least) >= 0 and min(needed) > 0


_MARIADB = Constants(0.3, 0.0, 0.000024, 1.0, 0.00006, 3.2e-9, 130_000, 690_000, 0.8)
CONSTANTS: Mapping[str, Constants] = {
    "mysql-5.7": Constants(0.85, 2.1, 0.0002, 1.04, 0.00012, 5.9e-9, 160_000, 490_000, 0.8),
    "mysql-8.0": Constants(1.25, 3.0, 0.00028, 2.94, 0.00025, 8e-9, 120_000, 450_000, 0.8, writes_per_page=1.8),
    "mariadb-10.11": _MARIADB,
    "mariadb-11.4": _MARIADB,
}
"""By series. Of process, pages and redo: fitted to 68 kills each of 5.7.22, 8.0.31 and mariadb-10.11.5, with 1,500 and
4,000 reads a second; the least time for a page and the requests without writes are from kept sessions of pending-work.
The constants of files are from kept sessions with 1,000 to a million tables, those of prepared transactions from one
with 200,000 rows. For mariadb-11.4 those of 10.11 held in three sessions."""
_FILE_ERROR = 0.8
"""By so much sessions with 10,000 to a million tables differ from their mean."""
_ROW_ERROR = 0.5
"""Of the time that a rollback takes."""
_REDO_SHARE = 1 / 3
"""Of the buffer pool: more redo is applied in turns, and each turn may read the same pages again."""
_LEAST_READ_SHARE = 1 / 32
"""A server asks for up to 32 neighbouring pages at once, which the kernel may read by one request."""
_OTHER_STORAGE_FACTOR = 2.0
_Range = tuple[float, float]
_ONCE: _Range = (1.0, 1.0)
_BUSY: _Range = (1.0, 2.0)
"""By so much more time, at least and at most, a server takes for what needs CPUs, beside processes that use them."""
_BUSY_WRITING: _Range = (1.0, 12.0)
"""For pages that a start also writes, by one thread after another: 3 starts of 8.0.31 beside two CPU loops took about
ten times as long for a page."""
_TURN_POWERS: _Range = (0.75, 1.25)
"""Pages that are recovered in four turns took 3.8 to 4.2 times as long, in four starts."""
_TLS_KEY_S = {"wolfssl": (2.5, 12.0, 46.0), "openssl": (0.4, 1.0, 2.0)}
"""Least, likely and most time to make a key by the server's library. 16 starts of 11.4.5 with WolfSSL took 2.7 to 46 s;
`openssl genrsa 4096` took 0.5 to 1.4 s, 12 times."""
_MOST_S = 366 * 86_400.0
_STORAGE_MARGIN = 2.0
"""Own constants hold for storage with half or twice the reads a second of that they were measured on."""


def known_constants(series: str) -> Constants:
    """Returns the constants of a series or, if it was not measured, those of the newest one of its flavor."""
    of_flavor = [name for name in CONSTANTS if name.partition("-")[0] == series.partition("-")[0]]
    return CONSTANTS[series if series in CONSTANTS else of_flavor[-1]]


def series_of(version: Version) -> str:
    """Returns the key of a version's constants, such as `mysql-8.0`. Percona Server has those of MySQL."""
    flavor = Flavor.MARIADB if version.flavor is Flavor.MARIADB else Flavor.MYSQL
    return f"{flavor}-{version.numbers[0]}.{version.numbers[1]}"


# --- The estimate


@dataclass(frozen=True)
class ServerState:
    """What a running server would leave behind. None is what its user may not see."""

    version: Version
    dirty_pages: int
    """Without those that no start reads, if they are known."""
    reads_per_s: float = 0.0
    """Of the storage, with many small reads at random in flight; 0 if it is not known."""
    reads_from: str = ""
    """Where they come from, such as `measured for 2 s`."""
    read_share: float | None = 1.0
    """Reads for each dirty page: fewer than 1 where neighbours are read together, through the page cache, or where
    MariaDB makes pages anew; more if pages were written since the checkpoint; None if it is not known which pages are
    neighbours."""
    writes_share_limit: bool | None = None
    """Whether as few writes a second are allowed as reads; None if that is not known."""
    busy: str = ""
    """What keeps the host busy, such as `other processes`; empty if nothing does."""
    files: int | None = 0
    """Of tablespaces that a start opens."""
    redo_bytes: int | None = 0
    """Since the last checkpoint."""
    transactions: int | None = 0
    """Open ones that have changed rows."""
    uncommitted_rows: int | None = 0
    """Changed by open transactions."""
    prepared_rows: int | None = 0
    """Changed by transactions whose COMMIT is writing the binary log."""
    pool_bytes: int | None = None
    tls_library: str = ""
    """That makes a TLS key at each start, `wolfssl` or `openssl`; empty if the server makes none."""
    datadir: str = ""
    notes: tuple[str, ...] = ()
    """What its user may not see, and what comes after the start."""


@dataclass(frozen=True)
class Part:
    name: str
    seconds: float
    low_s: float
    high_s: float
    lever: str
    """What would make it shorter."""

    @property
    def text(self) -> str:
        return f"{_figure(self.seconds)} s ({_figure(self.low_s)} to {_figure(self.high_s)})"


@dataclass(frozen=True)
class Estimate:
    parts: tuple[Part, ...]
    locked_s: float
    """Seconds for which rows of open transactions stay locked after the start, at most."""
    transactions: int | None = None
    """Number of these transactions."""
    notes: tuple[str, ...] = ()
    """Why its range is wider than usual, what it leaves out, and what comes after the start."""
    is_partial: bool = False
    """True if its user may not see all that a start has to do."""

    @property
    def seconds(self) -> float:
        return sum(part.seconds for part in self.parts)

    @property
    def low_s(self) -> float:
        return sum(part.low_s for part in self.parts)

    @property
    def high_s(self) -> float:
        """The end of the 90 % range."""
        return sum(part.high_s for part in self.parts)

    @property
    def text(self) -> str:
        """The estimate in words: `19 s (10 to 38): pages 12, files 6, process 1; then rows of 1 open transaction stay
        locked for up to 40 s`."""
        parts = ", ".join(f"{part.name} {_figure(part.seconds)}" for part in self.shown_parts)
        return f"{self.whole_text}: {parts}{f'; then {self.locked_text}' if self.locked_text else ''}"

    @property
    def whole_text(self) -> str:
        """The whole of it: `19 s (10 to 38)`."""
        low, high = _figure(self.low_s), _figure(self.high_s)
        return f"{'at least ' * self.is_partial}{_figure(self.seconds)} s ({low} to {high})"

    @property
    def shown_parts(self) -> tuple[Part, ...]:
        """The parts that take any time, the longest first."""
        largest_first = sorted(self.parts, key=lambda part: -part.seconds)
        return tuple(part for part in largest_first if part.seconds >= _SHOWN_S)

    @property
    def locked_text(self) -> str:
        """For how long rows stay locked after the start; empty if none do."""
        count, several = self.transactions or 0, "" if self.transactions == 1 else "s"
        whose = f" of {count:,} open transaction{several}" if count else ""
        return f"rows{whose} stay locked for up to {_figure(self.locked_s)} s" if self.locked_s >= _SHOWN_S else ""

    @property
    def lever(self) -> str:
        """The largest part that can be made shorter, and how."""
        largest = max((part for part in self.parts if part.lever), key=lambda part: part.seconds)
        if largest.seconds < _SHOWN_S:
            return "none: nearly all of it is the start of the process"
        return f"{largest.name}, {_figure(largest.seconds)} of {_figure(self.seconds)} s: {largest.lever}"


_SHOWN_S = 0.1


def _figure(seconds: float) -> str:
    return f"{seconds:.2g}" if seconds < 99.5 else f"{seconds:,.0f}"


def constants_for(version: Version, constants: Mapping[str, Constants]) -> Constants:
    """Returns the constants of a version. Raises UsageError for a series that was not measured."""
    found = constants.get(series_of(version))
    if found is None:
        raise UsageError(
            f"what a start of {version} costs was not measured; there are {', '.join(constants)}",
            "measure it here: `recovery pending-work` with this server, then `recovery calibrate`",
        )
    return found


def estimate_start(state: ServerState, constants: Mapping[str, Constants] = CONSTANTS) -> Estimate:
    """Returns the estimate. Raises UsageError for a series that was not measured, and without the storage's speed, and
    RecoveryError for a state that no server is in."""
    found = constants_for(state.version, constants)
    if state.reads_per_s <= 0:
        raise UsageError("the reads a second of the storage are unknown", "give --reads")
    rows = state.uncommitted_rows or 0
    estimate = Estimate(
        tuple(_parts(state, found)),
        rows / found.rows_per_s * (1 + _ROW_ERROR),
        state.transactions,
        tuple(_notes(state, found)),
        is_partial=None in (state.files, state.redo_bytes, state.prepared_rows),
    )
    counted = (state.dirty_pages, state.files, state.redo_bytes, state.uncommitted_rows, state.prepared_rows)
    if min(number or 0 for number in counted) < 0 or not estimate.high_s + estimate.locked_s <= _MOST_S:
        raise RecoveryError(
            f"the server says that it has {state.dirty_pages:,} dirty pages, {state.files or 0:,} files, "
            f"{state.redo_bytes or 0:,} bytes of redo and {rows + (state.prepared_rows or 0):,} uncommitted rows: with "
            f"{state.reads_per_s:,.0f} reads a second a start would take more than a year, or less than no time",
            "check --reads, and that the server is one of MySQL or MariaDB, and not damaged",
        )
    return estimate


def _parts(state: ServerState, constants: Constants) -> Iterator[Part]:
    storage = _OTHER_STORAGE_FACTOR if _is_other_storage(state, constants) else 1.0
    busy = _BUSY if state.busy else _ONCE
    least, most = (_turns(state) ** power for power in _TURN_POWERS)
    page_s, most_s = _page_s(state, constants)
    limits_files = constants.requests_per_file / state.reads_per_s > constants.file_s
    busy_pages = _ONCE if page_s > constants.page_s else busy
    if state.busy and constants.writes_per_page:
        busy_pages = _BUSY_WRITING
    redo_s = (state.redo_bytes or 0) * constants.redo_s_per_byte
    prepared_s = (state.prepared_rows or 0) / constants.prepared_rows_per_s

    def part(
        name: str, usual_s: float, lever: str, *, slower: _Range = busy, either: float = 1.0, error: float = 0.0
    ) -> Part:
        """Returns a part that is slower than usual by a factor of this range, and may be off by another factor either
        way, beside its error."""
        least, most = slower
        factors = (1 + max(constants.error, error), either, math.sqrt(most / least))
        ratio, likely_s = math.exp(math.hypot(*map(math.log, factors))), usual_s * math.sqrt(least * most)
        return Part(name, likely_s, likely_s / ratio, likely_s * ratio, lever)

    yield part("process", constants.process_s, "")
    if state.tls_library:
        low_s, key_s, high_s = _TLS_KEY_S[state.tls_library]
        lever = "set ssl_cert and ssl_key, or ssl=OFF, since this server makes a TLS key at each start"
        yield Part("TLS key", key_s, low_s, high_s * busy[1], lever)
    yield part(
        "files", _files_s(state, constants), f"fewer tables{', or storage with more reads a second' * limits_files}",
        slower=_ONCE if limits_files else busy, either=storage, error=_FILE_ERROR,
    )  # fmt: skip
    yield part(
        "pages", state.dirty_pages * page_s, "fewer dirty pages (innodb_max_dirty_pages_pct, innodb_io_capacity)",
        slower=_product((least, most), busy_pages),
        either=storage * most_s / page_s if page_s else storage,
    )  # fmt: skip
    yield part("redo", redo_s, "a smaller redo log (innodb_redo_log_capacity, innodb_log_file_size)")
    yield part("prepared transactions", prepared_s, "smaller transactions", error=_ROW_ERROR)


def _product(one: _Range, other: _Range) -> _Range:
    return one[0] * other[0], one[1] * other[1]


def _page_s(state: ServerState, constants: Constants) -> tuple[float, float]:
    """Returns the likely and the most time for a dirty page. Either the storage limits how fast pages are recovered, or
    the server does."""
    shares = (_LEAST_READ_SHARE, 1.0) if state.read_share is None else (state.read_share, state.read_share)
    writes = (0.0, 1.0) if state.writes_share_limit is None else (float(state.writes_share_limit),) * 2
    reads = constants.requests_per_page - constants.writes_per_page
    least, most = (reads * share + constants.writes_per_page * part for share, part in zip(shares, writes, strict=True))
    likely_s, most_s = (
        max(requests / state.reads_per_s, constants.page_s) for requests in (math.sqrt(least * most), most)
    )
    return likely_s, most_s


def _turns(state: ServerState) -> float:
    """Returns in how many turns the redo is applied, as far as the buffer pool has room for it."""
    if not state.pool_bytes:
        return 1.0
    return max(1.0, (state.redo_bytes or 0) / (_REDO_SHARE * state.pool_bytes))


def _seconds(state: ServerState, constants: Constants) -> float:
    return sum(part.seconds for part in _parts(state, constants))


def _files_s(state: ServerState, constants: Constants) -> float:
    """Either the storage limits how fast files are read, or the server does."""
    return (state.files or 0) * max(constants.requests_per_file / state.reads_per_s, constants.file_s)


def _is_other_storage(state: ServerState, constants: Constants) -> bool:
    least, most = constants.reads_per_s
    return not least <= state.reads_per_s <= most


def _notes(state: ServerState, constants: Constants) -> Iterator[str]:
    turns = _turns(state)
    if turns > 1:
        yield (
            f"the buffer pool is smaller than three times the redo, applied in up to {math.ceil(turns)} turns: "
            "pages may be read again in each"
        )
    if state.read_share is None:
        yield (
            "the server reads through the page cache, where one read serves neighbouring pages, and which dirty pages "
            "are neighbours is not seen (with over 4 GiB of buffer pool, or without PROCESS): the range is wider"
        )
    if _is_other_storage(state, constants):
        least, most = constants.reads_per_s
        yield (
            f"this storage has {state.reads_per_s:,.0f} reads a second, and the constants were measured on storage "
            f"with {least:,.0f} to {most:,.0f}: the range is wider"
        )
    if state.busy:
        yield (
            f"the host is busy ({state.busy}): what the server needs its CPUs for may take up to {_BUSY[1]:g} "
            "times as long"
        )
    yield from state.notes


# --- Constants from measured starts


@dataclass(frozen=True)
class Kill:
    """A start after a kill, and what was pending at the kill."""

    state: ServerState
    startup_s: float
    rollback_s: float | None = None
    """From ready to the end of the rollback."""


LEAST_KILLS, _ENOUGH_KILLS = 5, 9
_LEAST_ERROR, _MOST_ERROR, _MOST_HUNDREDTHS = 0.5, 1.0, 1000
"""Loads that a calibration did not have were further off than its own. A fit with a range over +-100 % is none."""
_MEASURE_ANEW = "measure again on a quiet host: `recovery pending-work --runs 3`; nothing was stored"
_RIDGE = 0.3
"""Weight of the constants that are known already, against that of one kill."""
_STEPS, _ROUNDS = 500, 6
_USUAL_ERROR = 0.1
"""A start that is further off than this counts for less, so that a few odd ones do not decide."""
_FITTED = (("process_s",), ("requests_per_page", "page_s"), ("redo_s_per_byte",))
"""Each is fitted by one factor: what a page costs is limited by the storage or by the server."""


def fit_constants(kills: Sequence[Kill], known: Constants, *, any_error: bool = False) -> Constants:
    """Returns the constants that fit these starts of one series; what they do not show stays as it is known. Raises
    UsageError if they are too few, or, unless any error will do, if they fit no estimate."""
    if len(kills) < LEAST_KILLS:
        raise UsageError(
            f"{len(kills)} starts after a kill are too few", f"measure at least {LEAST_KILLS}, such as with --runs 3"
        )
    speeds = [kill.state.reads_per_s for kill in kills]
    if any(kill.startup_s <= 0 or kill.state.reads_per_s <= 0 for kill in kills):
        raise UsageError("a start of the session took no time, or its storage had no reads a second", _MEASURE_ANEW)
    with_range = replace(
        known, reads_per_s=(min(speeds) / _STORAGE_MARGIN, max(speeds) * _STORAGE_MARGIN), writes_per_page=0.0
    )
    fitted = _fit(kills, with_range)
    errors = sorted(
        _error(kill, _fit([*kills[:number], *kills[number + 1 :]], with_range)) for number, kill in enumerate(kills)
    )
    # Of fewer than nine, the worst does not bound 90 % of those to come; of more, one odd start does not decide.
    few = 1 + max(0, _ENOUGH_KILLS - len(errors)) / 4
    error = errors[math.ceil(0.9 * len(errors)) - 1] * few
    if not any_error and (fitted.process_s <= 0 or fitted.requests_per_page <= 0):
        what = "the process" if fitted.process_s <= 0 else "a dirty page"
        raise UsageError(f"by these starts {what} takes no time, so that they fit no estimate", _MEASURE_ANEW)
    if not any_error and error > _MOST_ERROR:
        raise UsageError(f"these starts differ by {100 * error:.0f} % from any fit, more than 100 %", _MEASURE_ANEW)
    return replace(fitted, error=max(_LEAST_ERROR, error))


def _error(kill: Kill, constants: Constants) -> float:
    """Returns the smallest error, in steps of 0.01, whose range has the start."""
    for hundredths in range(_MOST_HUNDREDTHS):
        parts = list(_parts(kill.state, replace(constants, error=hundredths / 100)))
        if sum(part.low_s for part in parts) <= kill.startup_s <= sum(part.high_s for part in parts):
            return hundredths / 100
    return _MOST_HUNDREDTHS / 100


def _fit(kills: Sequence[Kill], known: Constants) -> Constants:
    """Returns the constants that fit best; the further a start is off, the less it counts (Huber's weights)."""
    counted = [kill for kill in kills if not kill.state.prepared_rows]
    fitted = _least_squares(counted, [1.0] * len(counted), known)
    for _ in range(_ROUNDS):
        errors = (abs(1 - _seconds(kill.state, fitted) / kill.startup_s) for kill in counted)
        fitted = _least_squares(counted, [_USUAL_ERROR / max(error, _USUAL_ERROR) for error in errors], known)
    return replace(
        fitted,
        rows_per_s=_rate(kills, known.rows_per_s, lambda kill: (kill.state.uncommitted_rows, kill.rollback_s)),
        prepared_rows_per_s=_rate(
            kills, known.prepared_rows_per_s,
            lambda kill: (
                kill.state.prepared_rows, kill.startup_s - _seconds(replace(kill.state, prepared_rows=0), fitted)
            ),
        ),
    )  # fmt: skip


def _least_squares(kills: Sequence[Kill], weights: Sequence[float], known: Constants) -> Constants:
    """Returns constants with the least squares of relative errors, none of them negative (ridge regression)."""
    squares, sums = [[0.0] * len(_FITTED) for _ in _FITTED], [0.0] * len(_FITTED)
    for kill, weight in zip(kills, weights, strict=True):
        rest = max(kill.startup_s - _files_s(kill.state, known), 0.0) / kill.startup_s
        shares = [cost_s / kill.startup_s for cost_s in _fitted_costs_s(kill.state, known)]
        for one, share in enumerate(shares):
            sums[one] += weight * share * rest
            squares[one] = [square + weight * share * other for square, other in zip(squares[one], shares, strict=True)]
    factors = [1.0] * len(_FITTED)
    for _ in range(_STEPS):  # coordinate descent
        for one, row in enumerate(squares):
            others = sum(row[other] * factor for other, factor in enumerate(factors) if other != one)
            factors[one] = max(0.0, (sums[one] - others + _RIDGE**2) / (row[one] + _RIDGE**2))
    named = zip(_FITTED, factors, strict=True)
    return replace(known, **{name: factor * getattr(known, name) for names, factor in named for name in names})


def _fitted_costs_s(state: ServerState, constants: Constants) -> tuple[float, ...]:
    """Returns the seconds of a start that each of the fitted constants stands for."""
    page_s, _ = _page_s(state, constants)
    pages_s = state.dirty_pages * page_s * _turns(state)
    return constants.process_s, pages_s, (state.redo_bytes or 0) * constants.redo_s_per_byte


def _rate(
    kills: Sequence[Kill], known: float, rows_and_seconds: Callable[[Kill], tuple[int | None, float | None]]
) -> float:
    """Returns the median of rows a second, or the known one if nothing was rolled back for a tenth of a second."""
    pairs = map(rows_and_seconds, kills)
    rates = [rows / seconds for rows, seconds in pairs if rows and seconds is not None and seconds >= _SHOWN_S]
    return median(rates) if rates else known


def kills_of(session: Session) -> Mapping[str, Sequence[Kill]]:
    """Returns the starts of a session of pending-work by series, and none of another session. Raises UsageError if the
    storage's reads a second were not measured, which a limit of the session would lower."""
    figure, limit = host_figures(session).get(READS_16), session.design.limits.read_iops
    speeds = [speed for speed in (limit, None if figure is None else figure.median) if speed]
    found: dict[str, list[Kill]] = {}
    for run in session.runs:
        if run.verdict is not Verdict.MEASURED or "dirty_pages" not in run.metrics:
            continue
        if not speeds:
            raise UsageError("the session did not measure the reads a second of the storage", "leave --no-probe out")
        metrics, transaction = run.metrics, session.value_of(run.variant, "transaction") or ""
        rows = round(metrics.get("uncommitted_rows", 0.0))
        is_open, is_prepared = transaction.endswith("open"), transaction.endswith("prepared")
        rollback_s = metrics.get("rollback_s")
        version = parse_version(run.version)
        state = ServerState(
            version,
            round(metrics["dirty_pages"]),
            min(speeds),
            files=run.contents.tables_found,
            redo_bytes=round(metrics.get("checkpoint_age_bytes", 0.0)),
            uncommitted_rows=rows if is_open else 0,
            prepared_rows=rows if is_prepared else 0,
        )
        startup_s = metrics["startup_s"]
        kill = Kill(state, startup_s, rollback_s - startup_s if is_open and rollback_s is not None else None)
        found.setdefault(series_of(version), []).append(kill)
    return found
