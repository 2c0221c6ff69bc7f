"""Is the ready line seen as fast at the end of a large log? A writer in another process stamps what it writes."""

from __future__ import annotations

import select
import statistics
import subprocess
import sys
from pathlib import Path

from recovery.server.logtail import Line, LogTail

WRITER = """
import sys, time
with open(sys.argv[1], "ab", buffering=0) as log:
    block = b"".join(b"2026-01-01T00:00:00.000000Z 0 [Note] InnoDB: line %d of many\\n" % n for n in range(10000))
    for _ in range(int(sys.argv[2]) * 1000000 // len(block)):
        log.write(block)
    log.write(b"the last of many\\n")
    sys.stdin.readline()
    for _ in range(50):
        time.sleep(0.02)
        log.write(b"ready at %d\\n" % time.monotonic_ns())
"""


def lag_ms(folder: Path, *, megabytes: int) -> float:
    """Median over 50 lines that follow so many megabytes of log."""
    log = folder / f"big-{megabytes}.err"
    log.touch()
    lags: list[float] = []
    with (
        LogTail(log) as tail,
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(log), str(megabytes)], stdin=subprocess.PIPE, text=True
        ) as writer,
    ):
        poller = select.poll()
        poller.register(tail.fd, select.POLLIN)
        while len(lags) < 50:
            assert writer.poll() in (None, 0), "the writer died"
            for line in tail.read():
                if line.text == "the last of many":
                    # Caught up: a server that logs a gigabyte takes longer to write it than we take to read it.
                    assert writer.stdin is not None
                    writer.stdin.write("go\n")
                    writer.stdin.flush()
                elif line.complete and line.text.startswith("ready at "):
                    lags.append(_lag_ms(line))
            poller.poll(0 if tail.behind else 1000)
    log.unlink()
    return statistics.median(lags)


def _lag_ms(line: Line) -> float:
    return 1000 * (line.arrived_s - int(line.text.split()[-1]) / 1e9)
