"""Where do tables lie whose making is timed, and what of those that a run has left there because it was killed?"""

from __future__ import annotations

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from recovery.errors import RecoveryError
from recovery.host.datadir import DataDir
from recovery.host.state import removal
from recovery.model import Schema
from recovery.server.client import message_of

SCRATCH = "published_build"
"""A schema of their own."""


def left_behind(datadir: DataDir, schema: Schema) -> bool:
    """Who is asked about all tables would count them, and a start open them."""
    return SCRATCH not in schema.database_names and (datadir.mysql / SCRATCH).is_dir()


def drop_left_behind(datadir: DataDir, connection: Connection[Cursor]) -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"drop schema if exists {SCRATCH}")
    except pymysql.MySQLError as error:
        raise RecoveryError(
            f"the schema {SCRATCH}, which a run has left in {datadir.path}, cannot be dropped: {message_of(error)}",
            removal(datadir.path),
        ) from error
