"""Who asks something else beside a load, again and again? A sysbench of its own, with a script of ours."""

from __future__ import annotations

from pathlib import Path

from recovery.load.sysbench import calling
from recovery.paths import template_dir
from recovery.work import Poll

FOREIGN_KEYS = """\
SELECT fk.referenced_table_name AS to_table, fk.referenced_column_name AS primary_key, fk.column_name AS from_column,
       fk.constraint_name AS name, rc.update_rule AS on_update, rc.delete_rule AS on_delete
FROM information_schema.referential_constraints rc
JOIN information_schema.key_column_usage fk
  ON fk.constraint_schema = rc.constraint_schema AND fk.constraint_name = rc.constraint_name
WHERE fk.referenced_column_name IS NOT NULL
  AND fk.table_schema = '{database}' AND fk.table_name = '{table}' AND rc.constraint_schema = '{database}'"""
"""What an object-relational mapper asks of each table that it meets. A server without a dictionary opens tables to
answer: for the one view that which is named, for the other, which is held to the schema alone, all that are in it."""


def write_statements(poll: Poll, folder: Path) -> Path:
    """The file that the command below reads: on a command line not all that a user writes would survive."""
    path = folder / "poll.statements"
    path.write_bytes(b"".join(statement.encode() + b"\0" for statement in poll.statements))
    return path


def command(
    poll: Poll, *, program: Path, statements: Path, socket: Path, database: str, tables: int, seconds: int
) -> list[str]:
    """`tables` are those that are asked about: sbtest1 and so on. Its report is read by `read_report`: its transactions
    are the answers."""
    script = str(template_dir() / "poll.lua")
    return [
        *calling(script, program=program, socket=socket, database=database, threads=poll.clients),
        f"--time={seconds}", f"--statements={statements}", f"--every={poll.every_s}", f"--tables={tables}",
        f"--schema={database}", "run",
    ]  # fmt: skip
