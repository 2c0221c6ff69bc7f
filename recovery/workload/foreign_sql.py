"""Refuses statements of templates and query files that rights cannot stop.

A template or query file is not trusted. Its statements run as a database user who may write to the schemas of
the test and nowhere else (`create_limited_user`). Some ways to other files need no right, or no database user."""

from __future__ import annotations

import re

from recovery.errors import UsageError
from recovery.model import Version, can
from recovery.workload.inserts import shorten

_READ_BY_CLIENT = re.compile(r"\binfile\b", re.IGNORECASE)
"""`LOAD DATA LOCAL INFILE` has the client send a file of its own user. The server asks for the others by a right."""
_PLACES = re.compile(r"\b(?:directory|federated|prepare|immediate)\b", re.IGNORECASE)
"""Words of a table in another folder or on another server, and of statements that could spell these in parts.

They are searched in strings and comments too: servers execute some comments."""
_READS = re.compile(r"[\s(]*(?:select|show|describe|desc|with|table|values)\b", re.IGNORECASE)
_WRITES = re.compile(r"\b(?:outfile|dumpfile|load_file|update|delete)\b", re.IGNORECASE)


def check_access(statement: str, version: Version) -> str:
    """Returns the statement. Raises UsageError if it could reach files or servers outside of the test."""
    match = _READ_BY_CLIENT.search(statement)
    if match is None and not can(version, "directory_needs_right"):
        match = _PLACES.search(statement)
    if match is not None:
        raise UsageError(
            f"'{match[0]}' in '{shorten(statement)}' may reach files or servers outside of the test, and {version} has "
            "no right that prevents it",
            "leave the word out of templates and query files, also in names, strings and comments",
        )
    return statement


def check_reads_only(name: str, statement: str) -> None:
    """Raises UsageError unless the query only reads tables. A server without grant tables restricts nobody."""
    if _READS.match(statement) is None or _WRITES.search(statement) is not None:
        raise UsageError(
            f"the query '{name}' does more than read tables: '{shorten(statement)}'",
            "over --datadir, begin queries with SELECT, SHOW, DESCRIBE, WITH, TABLE or VALUES, and leave out the words "
            "OUTFILE, DUMPFILE, LOAD_FILE, UPDATE and DELETE",
        )
