"""What lies in a directory: schemas and tables as a stranger may have made them, and what is true of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pymysql

from strangers.servers import Build, Server

SYSTEM = ("mysql", "sys", "performance_schema", "information_schema")
_PLAIN = "abcdefghijklmnopqrstuvwxyz0123456789_"
_ODD = "ab9_$ #-.'\"`@/\\?*:;äÖßñéЖЯ日本語"
_WIDE = "日本語表"
# What the server writes for one of _WIDE in a file's name, such as @65e5.
_WIDE_BYTES = 5


@dataclass(frozen=True)
class Truth:
    """What the server itself, and the disk, say of the directory."""

    tables: int
    # that have a table
    schemas: int
    files: int
    top_files: int


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


class Maker:
    """Runs statements; what this server does not have, or refuses, is left out."""

    def __init__(self, server: Server, rng: random.Random, size: int) -> None:
        self.build: Build = server.build
        self.rng = rng
        self.size = size
        self.cursor = server.connect().cursor()
        self.refused: list[str] = []

    def run(self, statement: str) -> bool:
        try:
            self.cursor.execute(statement)
        except pymysql.Error as error:
            self.refused.append(f"{error.args[0]}: {statement[:80]}")
            return False
        return True

    def schema(self, name: str) -> str:
        self.run(f"create database if not exists {quoted(name)} character set utf8mb4")
        return quoted(name)

    def word(self, letters: str, longest: int = 64) -> str:
        length = self.rng.choice((1, 2, 3, self.rng.randint(1, longest), self.rng.randint(1, longest), longest))
        return "".join(self.rng.choice(letters) for _ in range(length)).rstrip(" ") or "x"

    def table(self, name: str, extra: str = "", rows: int = 1) -> None:
        if self.run(f"create table {name} (id int primary key auto_increment, v varchar(80)) {extra}"):
            for _ in range(rows):
                self.run(f"insert into {name} (v) values ('{self.rng.random()}')")


def names(make: Maker) -> None:
    """Names of 1 to 64 letters: quoted, non-ASCII, with # and blanks."""
    make.schema("one")
    for _ in range(max(2, make.size // 12)):
        schema = make.schema(make.word(_ODD, make.rng.choice((8, 30, 64))))
        for _ in range(6):
            make.table(f"{schema}.{quoted(make.word(_ODD, make.rng.choice((8, 24, 64))))}")
            make.table(f"one.{quoted(make.word(make.rng.choice((_PLAIN, _ODD))))}")


def _of_length(rng: random.Random, length: int) -> str | None:
    """A name whose file name has so many bytes."""
    wide = max(0, -(-(length - 64) // (_WIDE_BYTES - 1))) if length > 64 else 0
    plain = length - wide * _WIDE_BYTES
    if length < 1 or plain < 0 or plain + wide > 64:
        return None
    return "".join(rng.choice(_PLAIN[:26]) for _ in range(plain)) + "".join(rng.choice(_WIDE) for _ in range(wide))


def paths(make: Maker) -> None:
    """`./schema/table.ibd` of each length: several tables of a length lie side by side in the dictionary."""
    lengths = list(range(9, 151))
    make.rng.shuffle(lengths)
    for length in lengths[: max(8, make.size // 3)]:
        schema = _of_length(make.rng, make.rng.randint(1, min(64, length - 8)))
        assert schema is not None
        table_bytes = length - 7 - len(schema)
        where = make.schema(schema)
        for _ in range(3):
            name = _of_length(make.rng, table_bytes)
            if name is not None:
                make.table(f"{where}.{quoted(name)}")


def shapes(make: Maker) -> None:
    """Partitions, tablespaces, FULLTEXT, foreign keys, compressed rows, generated columns, views, triggers."""
    for schema in ("shapes", "Shapes two", "p#p"):
        at = make.schema(schema)
        _shapes_in(make, at)
        for number in range(max(1, make.size // 30)):
            parts = make.rng.choice((2, 7, 30))
            make.table(f"{at}.by_key_{number}", f"partition by key (id) partitions {parts}", rows=3)
            make.run(
                f"create table {at}.{quoted(f'Sub #{number}')} (id int primary key, v int) partition by range (id)"
                f" subpartition by hash (id) subpartitions {parts}"
                " (partition p0 values less than (10), partition `P two` values less than maxvalue)"
            )


def _shapes_in(make: Maker, at: str) -> None:
    space = "ts_" + at.strip("`").replace(" ", "_").replace("#", "_").lower()
    if not make.build.mariadb and make.run(f"create tablespace {space} add datafile '{space}.ibd'"):
        for number in range(4):
            make.table(f"{at}.general_{number}", f"tablespace {space}")
    make.run(f"create table {at}.ft (id int primary key, a text, b text, fulltext (a), fulltext (a, b))")
    make.run(f"insert into {at}.ft values (1, 'crash recovery', 'of a server'), (2, 'redo', 'apply')")
    make.run(f"create table {at}.parent (id int primary key) engine=innodb")
    make.run(
        f"create table {at}.child (id int primary key, p int, foreign key (p) references {at}.parent (id)"
        " on delete cascade)"
    )
    make.run(f"insert into {at}.parent values (1), (2)")
    make.run(f"insert into {at}.child values (1, 1), (2, 2)")
    for block in (1, 2, 4, 8):
        make.table(f"{at}.compressed_{block}", f"row_format=compressed key_block_size={block}", rows=4)
    make.table(f"{at}.redundant", "row_format=redundant")
    make.run(
        f"create table {at}.virtual (a int primary key, b int as (a + 1) virtual, c int as (a + 2) stored, key (b))"
    )
    make.run(f"create table {at}.place (id int primary key, g point not null, spatial index (g))")
    make.run(f"create view {at}.seen as select * from {at}.parent")
    make.run(f"create trigger {at}.fired after insert on {at}.parent for each row set @x = new.id")
    make.run(f"create table {at}.outside (id int primary key) tablespace innodb_system")


def engines(make: Maker) -> None:
    """Other engines beside InnoDB; tables that were dropped, renamed, truncated, or moved to another schema."""
    at = make.schema("engines")
    other = make.schema("engines-2")
    for engine in ("MyISAM", "CSV", "MEMORY", "ARCHIVE", "BLACKHOLE", "Aria", "MERGE", "InnoDB"):
        for number in range(2):
            null = "" if engine != "CSV" else "not null"
            key = "primary key" if engine not in ("CSV", "ARCHIVE", "MERGE") else ""
            if make.run(
                f"create table {at}.{engine.lower()}_{number} (id int not null {key}, v int {null}) engine={engine}"
            ):
                make.run(f"insert into {at}.{engine.lower()}_{number} values ({number}, 1)")
    for number in range(max(6, make.size // 6)):
        make.table(f"{at}.t{number}")
        make.run(
            make.rng.choice(
                (
                    f"drop table {at}.t{number}",
                    f"rename table {at}.t{number} to {other}.{quoted(f'moved {number}')}",
                    f"rename table {at}.t{number} to {at}.{quoted(f'T#{number}')}",
                    f"truncate table {at}.t{number}",
                    f"alter table {at}.t{number} engine=MyISAM",
                    f"alter table {at}.t{number} add column w int, force",
                )
            )
        )
    gone = make.schema("dropped")
    make.table(f"{gone}.t")
    make.run("drop database dropped")


def many(make: Maker) -> None:
    """Very many small tables, in one schema or in several."""
    schemas = [make.schema(f"many_{number}") for number in range(make.rng.choice((1, 1, 3, 20)))]
    for number in range(make.size):
        make.run(
            f"create table {schemas[number % len(schemas)]}.small_{number} (id int primary key auto_increment, v int)"
        )


KINDS: dict[str, Callable[[Maker], None]] = {
    "names": names,
    "paths": paths,
    "shapes": shapes,
    "engines": engines,
    "many": many,
}


def _own_files(datadir: Path) -> Iterator[Path]:
    for path in datadir.rglob("*.ibd"):
        if path.relative_to(datadir).parts[0] not in (*SYSTEM, "mysql.ibd", "#innodb_temp"):
            yield path


def truth_of(server: Server) -> Truth:
    """Ask the running server, and count the files on the disk."""
    cursor = server.connect().cursor()
    cursor.execute("select table_schema, table_name from information_schema.tables where table_type = 'BASE TABLE'")
    tables = [row for row in cursor.fetchall() if row[0].lower() not in SYSTEM]
    files = []
    with suppress(FileNotFoundError):
        files = list(_own_files(server.datadir))
    top = sum(path.parent == server.datadir for path in files)
    return Truth(len(tables), len({row[0] for row in tables}), len(files), top)


def files_of(datadir: Path) -> tuple[int, int]:
    """Files of tables in the directory of a server that has ended: in schemas, and beside them."""
    files = list(_own_files(datadir))
    top = sum(path.parent == datadir for path in files)
    return len(files) - top, top
