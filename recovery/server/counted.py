"""What does this line of a start count: files, threads, pages, transactions? And how far does it say it has come?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from recovery.server.errorlog import LONGEST

# What stands in each such line, for a quick test; the pattern; and what its groups count.
_COUNTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Found ", r"Found (\d+) '\.ibd'", ("files_found",)),
    ("to scan ", r"Using (\d+) threads? to scan \d+ tablespace files", ("scan_threads",)),
    ("space ID check", r"Completed space ID check of (\d+) files", ("tablespaces_scanned",)),
    ("have validated", r"(\d+) ?threads? have validated", ("validation_threads",)),
    (
        "Scanned ",
        r"Scanned (\d+) tablespaces\. Validated (\d+)",
        ("tablespaces_in_dictionary", "tablespaces_validated"),
    ),
    ("Validated ", r"Validated (\d+)/(\d+)  tablespaces", ("tablespaces_validated", "tablespaces_in_dictionary")),
    ("batch to recover", r"batch to recover\s+(\d+) pages", ("pages_to_recover",)),
    ("To recover", r"To recover: (?:LSN \S+ )?(\d+) pages", ("pages_to_recover",)),
    ("Applying a", r"Applying a batch of (\d+) redo log records", ("redo_records",)),
    ("rolled back", r"(\d+) transaction\(s\) which must be rolled back", ("transactions_to_roll_back",)),
    ("rseg using", r"initialize rseg using (\d+) thread", ("rollback_segment_threads",)),
)
_PATTERNS = tuple((hint, re.compile(pattern, re.ASCII), names) for hint, pattern, names in _COUNTS)
_PROGRESS_HINTS = ("Checked ", "so far", "Validated ", "Progress in", "scanned up to", "redo log up to", "To recover")
_PROGRESS = re.compile(
    r"Checked \d+/\d+|Files found so far: \d+|threads? have validated \d+ out of \d+|Validated \d+/\d+ "
    r"|Progress in percents?: [\d ]*\d|scanned up to log sequence number \d+.{0,8}"
    r"|(?:Read|Parsed) redo log up to LSN=\d+|To recover: .{1,40}",
    re.ASCII,
)
_MOST_DIGITS = 18


def counts_of(line: str) -> Iterator[tuple[str, int]]:
    text = line[:LONGEST]
    for hint, pattern, names in _PATTERNS:
        match = pattern.search(text) if hint in text else None
        if match is not None:
            for name, digits in zip(names, match.groups(), strict=True):
                if digits and len(digits) <= _MOST_DIGITS:
                    yield name, int(digits)


def progress_of(line: str) -> str | None:
    """`Checked 15615/20298`; of percents that grow along their line, the last."""
    text = line[:LONGEST]
    match = _PROGRESS.search(text) if any(hint in text for hint in _PROGRESS_HINTS) else None
    if match is None:
        return None
    found = match.group().strip()
    return f"{found.split()[-1]} %" if found.startswith("Progress") else found
