"""Measures the read floor: how fast the storage can read the first page of every table's file once, with one thread and
with many, and how fast the files can merely be opened.

The files are read by a separate process, so that it can get the same limits as the server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from recovery.errors import RecoveryError
from recovery.linux.cgroups import LimitGroup
from recovery.mysqld.table_files import TableFiles

_PACKAGE_PARENT = Path(__file__).parent.parent.parent
"""The folder that contains this package: in another working directory Python might find a package of the same name."""
MANY_THREADS = 16
"""Number of threads: the most that the newest servers use."""
_REPEATS = 2
_BATCH_FILES = 64
"""Number of files that a thread takes at a time."""


@dataclass(frozen=True)
class FloorTimes:
    files: int
    one_thread_s: float
    many_threads_s: float
    threads: int
    open_s: float
    times: int
    """How often each time was measured; the shortest one is reported."""


def measure_read_floor(
    files: TableFiles, page_bytes: int, make_cold: Callable[[], object], group: LimitGroup | None
) -> FloorTimes:
    """Measures the read floor. Every measurement begins with cold files and is made twice. The shorter time counts,
    because other users of a disk can make it slower, but never faster."""

    def shortest(threads: int, read_bytes: int) -> tuple[int, float]:
        results = []
        for _ in range(_REPEATS):
            make_cold()
            results.append(_measure_in_subprocess(files, threads, read_bytes, group))
        return min(results, key=lambda result: result[1])

    count, one_thread_s = shortest(1, page_bytes)
    _, many_threads_s = shortest(MANY_THREADS, page_bytes)
    _, open_s = shortest(1, 0)
    return FloorTimes(count, one_thread_s, many_threads_s, MANY_THREADS, open_s, _REPEATS)


def _measure_in_subprocess(
    files: TableFiles, threads: int, page_bytes: int, group: LimitGroup | None
) -> tuple[int, float]:
    process = subprocess.Popen(
        [sys.executable, "-m", "recovery.mysqld.read_floor"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True, cwd=_PACKAGE_PARENT,
    )  # fmt: skip
    try:
        if group is not None:
            group.add(process.pid)
        folders = [str(folder) for folder in files.folders]
        output, _ = process.communicate(json.dumps([folders, files.name, threads, page_bytes]))
    except BaseException:
        process.kill()
        process.wait()
        raise
    result = json.loads(output) if process.returncode == 0 else {}
    if "files" not in result:
        why = result.get("wrong", f"the reader ended with {process.returncode}")
        raise RecoveryError(f"the files could not be read for the floor: {why}", "leave --floor out")
    return int(result["files"]), float(result["seconds"])


def read_all(files: TableFiles, threads: int, page_bytes: int) -> int:
    """Opens all files and reads the first `page_bytes` bytes of each, and no more. Returns the number of files."""
    names, taking = files.paths(), threading.Lock()

    def work(_: int) -> int:
        count = 0
        while True:
            with taking:
                paths = list(islice(names, _BATCH_FILES))
            if not paths:
                return count
            for path in paths:
                _read_start(path, page_bytes)
            count += len(paths)

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(work, range(threads)))


def _read_start(path: str, page_bytes: int) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if page_bytes:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead
            os.pread(descriptor, page_bytes, 0)
    finally:
        os.close(descriptor)


def _main() -> None:
    folders, name, threads, page_bytes = json.loads(sys.stdin.read())
    files = TableFiles(tuple(map(Path, folders)), name)
    began = time.monotonic()
    try:
        count = read_all(files, threads, page_bytes)
    except OSError as error:
        json.dump({"wrong": error.strerror}, sys.stdout)  # stored, so without the name of a table
    else:
        json.dump({"files": count, "seconds": time.monotonic() - began}, sys.stdout)


if __name__ == "__main__":
    _main()
