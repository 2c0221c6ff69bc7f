"""Measures how fast this storage is at small random reads, with one and with many in flight, and whether something
below this host caches.

The speed is measured on a freshly written file. A cache below this host (a virtual disk's, a RAID controller's) may
still contain it, and a volume made from a snapshot may have to fetch blocks that nobody has read yet, which this file
does not have. So the data of a cold start may be slower to read than measured here, but never faster. The storage
itself is measured: the limits of the session do not apply. A cache below this host is detected by reading blocks twice,
if possible of kept tables' files: the second read is then faster."""

from __future__ import annotations

import math
import mmap
import os
import random
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice, repeat
from pathlib import Path
from statistics import median

from recovery.linux.files import open_descriptor
from recovery.linux.storage import IN_MEMORY, device_of, free_space, nearest_existing
from recovery.model import MIN_PROBED_BLOCKS

# Measured ratios of the first to the second read: 1.1 to 1.6 for blocks that a hypervisor had in its cache both times
# (26 tries on a busy host), 2.6 to 3.1 for files that nobody had read for a long time (6 tries). With only a few blocks
# the ratio is arbitrary; therefore at least MIN_PROBED_BLOCKS are needed.

_MIB = 1 << 20
SIZES = {"4k": 4096, "16k": 16384}
READS_IN_FLIGHT = (1, 16)
_SEED = 20_260_101
"""Chooses the same places in the file each time."""
_MAX_BLOCKS, _MAX_S = 256, 1.0
"""Limits for the blocks that are read twice: their number, and the seconds for all of them. Slow storage takes the full
time, even if the other reads are brief."""
_ONE_FILE_IN = 100
"""One in this many of the kept tables' files is read. The state in which a cold start has left the other files is not
changed by that."""
_MAX_LISTED = 50_000
"""Limit on the number of these files that are listed; listing a million takes seconds."""
_UNTRUSTED = os.O_NOFOLLOW | os.O_NONBLOCK
_DIRECT = os.O_RDONLY | os.O_DIRECT


@dataclass(frozen=True)
class ProbeEffort:
    """What a probe may cost."""

    file_bytes: int
    seconds: float
    """For each of the four combinations of size and number in flight."""


FULL_EFFORT = ProbeEffort(128 * _MIB, 1.0)
SHORT_EFFORT = ProbeEffort(16 * _MIB, 0.25)
BRIEF_EFFORT = ProbeEffort(16 * _MIB, 0.1)


@dataclass(frozen=True)
class ReadSpeed:
    """Result for one size and one number of reads in flight."""

    iops: int
    mean_ms: float
    p99_ms: float


@dataclass(frozen=True)
class RereadTimes:
    """Result for blocks that are read twice in a row, so that other load on the host slows both reads alike."""

    over: str
    """Which files were read. A file that was just written may be in a cache below this host, and then both reads take
    the same time."""
    blocks: int
    first_ms: float
    """Median duration of the first read."""
    again_ms: float
    times_faster: float
    """Median over all blocks of the ratio of the first to the second read."""


@dataclass(frozen=True)
class ReadProbe:
    effort: ProbeEffort
    speeds: dict[str, ReadSpeed]
    """By size and number in flight: `4k_1`, `4k_16`, `16k_1`, `16k_16`. Empty if nothing was measured."""
    why_not: str | None = None
    again: RereadTimes | None = None

    def facts(self) -> dict[str, str | int | float | None]:
        """Returns the results for the report, with one flat name for each value."""
        if not self.speeds:
            return {"probe": f"none: {self.why_not}"}
        facts: dict[str, str | int | float | None] = {
            "probe": "O_DIRECT reads at random of a file just written, by 1 and by 16 threads, without limits",
            "probe_file_bytes": self.effort.file_bytes,
            "probe_seconds_each": self.effort.seconds,
        }
        for name, speed in self.speeds.items():
            facts |= {f"probe_{name}_{figure}": value for figure, value in vars(speed).items()}
        if self.again is not None:
            facts |= {
                "probe_again_over": self.again.over,
                "probe_again_blocks": self.again.blocks,
                "probe_first_read_ms": self.again.first_ms,
                "probe_read_again_ms": self.again.again_ms,
                "probe_again_times_faster": self.again.times_faster,
            }
        return facts


NOT_PROBED = ReadProbe(SHORT_EFFORT, {}, "left out, as asked")


def effort_for(tables: int) -> ProbeEffort:
    """Returns the effort for a session with this many tables. A session of one minute must not begin with a probe of
    five seconds."""
    if tables < 1000:
        return BRIEF_EFFORT
    return SHORT_EFFORT if tables < 10_000 else FULL_EFFORT


def probe_reads(folder: Path, effort: ProbeEffort, kept_files: Iterable[str] = ()) -> ReadProbe:
    """Measures the storage of the folder; `kept_files` yields the tables' files from earlier sessions there. Never
    raises an error: if the storage cannot be measured, the result contains the reason."""
    place = nearest_existing(folder)
    filesystem = device_of(place).filesystem
    if filesystem in IN_MEMORY:
        return ReadProbe(effort, {}, f"{filesystem} is in memory")
    try:
        if free_space(place).bytes < 2 * effort.file_bytes:
            return ReadProbe(effort, {}, f"no room for a file of {effort.file_bytes // _MIB} MiB")
        with _temporary_file(place, effort.file_bytes) as file, _direct_descriptor(file) as descriptor:
            places = _spread_places(descriptor, effort.file_bytes)
            again = _reread_kept_files(kept_files) or _measure_reread("the file just written", places)
            speeds = _measure_speeds(descriptor, SIZES, effort)
    except OSError as error:
        return ReadProbe(effort, {}, error.strerror or str(error))
    return ReadProbe(effort, speeds, again=again)


def read_speeds(folder: Path, effort: ProbeEffort, size: str) -> dict[str, ReadSpeed]:
    """Measures reads of one size only. Returns nothing if the storage of the folder cannot be measured."""
    place = nearest_existing(folder)
    if device_of(place).filesystem in IN_MEMORY:
        return {}
    with suppress(OSError):
        if free_space(place).bytes >= 2 * effort.file_bytes:
            with _temporary_file(place, effort.file_bytes) as file, _direct_descriptor(file) as descriptor:
                return _measure_speeds(descriptor, {size: SIZES[size]}, effort)
    return {}


@contextmanager
def _temporary_file(folder: Path, size: int) -> Iterator[int]:
    """Yields a temporary file without a name, so that nothing is left however this tool ends. It contains random bytes,
    which no layer below can compress."""
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(size // _MIB):
            file.write(os.urandom(_MIB))
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        yield file.fileno()


@contextmanager
def _direct_descriptor(file: int) -> Iterator[int]:
    """Yields a descriptor for reads of the same file without the page cache. Raises OSError (EINVAL) if the filesystem
    does not support that."""
    with open_descriptor(f"/proc/self/fd/{file}", _DIRECT) as descriptor:
        with mmap.mmap(-1, max(SIZES.values())) as page:
            os.preadv(descriptor, [page], 0)
        yield descriptor


def _reread_kept_files(kept_files: Iterable[str]) -> RereadTimes | None:
    """Reads the first pages of some of these files twice. Returns None if there are too few files."""
    with suppress(OSError), ExitStack() as stack:
        files = list(islice(kept_files, _MAX_LISTED))
        if (count := len(files) // _ONE_FILE_IN) >= MIN_PROBED_BLOCKS:
            chosen = random.sample(files, min(count, _MAX_BLOCKS))  # different files each time
            opened = (open_descriptor(path, _DIRECT | _UNTRUSTED) for path in chosen)
            return _measure_reread("tables' files kept here", [(stack.enter_context(file), 0) for file in opened])
    return None


def _spread_places(descriptor: int, file_bytes: int) -> list[tuple[int, int]]:
    """Returns places in the file that are far enough apart that reading one does not fetch another."""
    size = SIZES["16k"]
    pages = range(1, file_bytes // size, 8)
    chosen = random.Random(_SEED).sample(pages, min(len(pages), _MAX_BLOCKS))  # noqa: S311  # places, no secrets
    return [(descriptor, size * page) for page in chosen]


def _measure_reread(over: str, places: Iterable[tuple[int, int]]) -> RereadTimes:
    until, pairs = time.monotonic() + _MAX_S, []
    for descriptor, offset in places:
        os.lseek(descriptor, offset, os.SEEK_DATA)  # the block map may have to be read first
        pairs.append(list(_timed_reads(((descriptor, offset),) * 2, SIZES["16k"], math.inf)))
        if time.monotonic() >= until:
            break
    first, again = (1000 * median(taken) for taken in zip(*pairs, strict=True))
    return RereadTimes(over, len(pairs), first, again, median(before / after for before, after in pairs))


def _measure_speeds(descriptor: int, sizes: Mapping[str, int], effort: ProbeEffort) -> dict[str, ReadSpeed]:
    return {
        f"{name}_{threads}": _measure_speed(descriptor, page_bytes, threads=threads, effort=effort)
        for name, page_bytes in sizes.items()
        for threads in READS_IN_FLIGHT
    }


def _measure_speed(descriptor: int, page_bytes: int, *, threads: int, effort: ProbeEffort) -> ReadSpeed:
    began = time.monotonic()

    def work(number: int) -> list[float]:
        chance, pages = random.Random(_SEED + number), effort.file_bytes // page_bytes  # noqa: S311  # places, no secrets
        places = ((descriptor, page_bytes * chance.randrange(pages)) for _ in repeat(None))
        return list(_timed_reads(places, page_bytes, began + effort.seconds))

    with ThreadPoolExecutor(threads) as pool:
        taken = sorted(seconds for part in pool.map(work, range(threads)) for seconds in part)
    elapsed = time.monotonic() - began
    return ReadSpeed(
        iops=round(len(taken) / elapsed),
        mean_ms=1000 * sum(taken) / len(taken),
        p99_ms=1000 * taken[(99 * len(taken) - 1) // 100],
    )


def _timed_reads(places: Iterable[tuple[int, int]], page_bytes: int, until: float) -> Iterator[float]:
    """Yields the seconds that each read took, and reads at least once."""
    with mmap.mmap(-1, page_bytes) as page:  # a mapping is page-aligned, as O_DIRECT requires
        for descriptor, offset in places:
            began = time.perf_counter()
            os.preadv(descriptor, [page], offset)
            yield time.perf_counter() - began
            if time.monotonic() >= until:
                return
