"""How are all looks at a server kept? As CSV, gzipped, a look a row, a counter a column."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Sequence
from pathlib import Path

from recovery.errors import RecoveryError
from recovery.files import write_atomically
from recovery.load.counters import number
from recovery.load.sample import Sample

_AT = "at_s"


def write_raw(path: Path, samples: Sequence[Sample]) -> None:
    """The same looks make the same bytes. A figure that a look has not is an empty cell."""
    columns = tuple(dict.fromkeys(name for sample in samples for name in sample.figures))
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((_AT, *columns))
    writer.writerows((sample.at_s, *(sample.figures.get(name) for name in columns)) for sample in samples)
    write_atomically(path, gzip.compress(text.getvalue().encode(), mtime=0))


def read_raw(path: Path) -> tuple[Sample, ...]:
    try:
        rows = csv.reader(io.StringIO(gzip.decompress(path.read_bytes()).decode(), newline=""))
        _, *columns = next(rows)
        return tuple(
            Sample(float(at_s), {name: number(cell) for name, cell in zip(columns, cells, strict=True) if cell})
            for at_s, *cells in rows
        )
    except (OSError, EOFError, ValueError, StopIteration, zlib.error, csv.Error) as error:
        raise RecoveryError(
            f"cannot read the looks in {path}: {error}", "restore the file, or measure again"
        ) from error
