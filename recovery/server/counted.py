"""What does this line of a start count: files, threads, pages, transactions? And how far does it say it has come?"""

from __future__ import annotations

import re
from collections.abc import Iterator

_COUNTS: tuple[tuple[str, ...], ...] = (
    (r"Found (\d+) '\.ibd'", "files_found"),
    (r"Using (\d+) threads? to scan \d+ tablespace files", "scan_threads"),
    (r"Completed space ID check of (\d+) files", "tablespaces_scanned"),
    (r"(\d+) ?threads? have validated", "validation_threads"),
    (r"Scanned (\d+) tablespaces\. Validated (\d+)", "tablespaces_in_dictionary", "tablespaces_validated"),
    (r"Validated (\d+)/(\d+)  tablespaces", "tablespaces_validated", "tablespaces_in_dictionary"),
    (r"batch to recover\s+(\d+) pages|To recover: (?:LSN \S+ )?(\d+) pages", "pages_to_recover", "pages_to_recover"),
    (r"Applying a batch of (\d+) redo log records", "redo_records"),
    (r"(\d+) transaction\(s\) which must be rolled back", "transactions_to_roll_back"),
    (r"initialize rseg using (\d+) thread", "rollback_segment_threads"),
)
_PATTERNS = tuple((re.compile(pattern, re.ASCII), names) for pattern, *names in _COUNTS)
_PROGRESS = re.compile(
    r"Checked \d+/\d+|Files found so far: \d+|threads? have validated \d+ out of \d+|Validated \d+/\d+ "
    r"|Progress in percents?: [\d ]*\d|scanned up to log sequence number \d+.{0,8}"
    r"|(?:Read|Parsed) redo log up to LSN=\d+|To recover: .{1,40}",
    re.ASCII,
)
_MOST_DIGITS = 18


def counts_of(line: str) -> Iterator[tuple[str, int]]:
    for pattern, names in _PATTERNS:
        match = pattern.search(line)
        if match is not None:
            for name, digits in zip(names, match.groups(), strict=True):
                if digits and len(digits) <= _MOST_DIGITS:
                    yield name, int(digits)


def progress_of(line: str) -> str | None:
    """`Checked 15615/20298`; of percents that grow along their line, the last."""
    match = _PROGRESS.search(line)
    if match is None:
        return None
    found = match.group().strip()
    return f"{found.split()[-1]} %" if found.startswith("Progress") else found
