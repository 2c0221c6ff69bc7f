"""A data directory of the user's own: what its files say, what is refused, and how it is copied."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from otherusers import as_user, needs_root

from recovery.cli.measure import request_from_arguments
from recovery.cli.parse import own_data_notes
from recovery.errors import HostUnfitError, OptionConflictError, RecoveryError, UsageError
from recovery.experiments.experiment import OwnDataOptions
from recovery.model import OwnData, parse_version
from recovery.mysqld.own_data import check_server, copy_own_data, examine, keeps_redo_log
from recovery.mysqld.tablespace_names import TablespaceName, tablespace_names

PAGE = 16384


def page(*, pages: int = 0, flags: int = 0, version: int = 0, shutdown_lsn: int = 0) -> bytes:
    """The first page of a tablespace with so many pages."""
    head = bytearray(PAGE)
    head[8:12] = version.to_bytes(4)
    head[26:34] = shutdown_lsn.to_bytes(8)
    head[46:50] = pages.to_bytes(4)
    head[54:58] = flags.to_bytes(4)
    return bytes(head)


def redo(creator: str) -> bytes:
    return (bytes(16) + creator.encode()).ljust(PAGE, b"\0")


@pytest.fixture
def datadir(tmp_path: Path) -> Path:
    """As 5.7 leaves it after a crash, with two tables of the user's."""
    data = tmp_path / "user"
    for folder in ("mysql", "performance_schema", "shop@002deu", "empty"):
        (data / folder).mkdir(parents=True)
    (data / "ibdata1").write_bytes(page() * 2)
    (data / "ib_logfile0").write_bytes(redo("MySQL 5.7.22"))
    (data / "ib_logfile1").write_bytes(bytes(PAGE))
    (data / "mysql/plugin.ibd").write_bytes(page(pages=2) * 2)
    for name in ("orders.ibd", "people.ibd", "#sql-12.ibd"):
        (data / "shop@002deu" / name).write_bytes(page(pages=2) * 2)
    (data / "host.pid").touch()
    return data


def looked_at(data: Path, given: Mapping[str, str] | None = None, *, as_is: bool = False) -> OwnData:
    return examine(data, given or {}, as_is=as_is)


def test_what_the_files_say(datadir: Path) -> None:
    own = looked_at(datadir)
    assert (str(own.version), own.is_exact, own.schemas, own.table_files) == ("5.7.22", False, 1, 2)
    assert own.bytes > 0
    settings = dict(own.settings)
    assert settings["innodb_page_size"] == "16384"
    assert settings["innodb_log_file_size"] == "16384"
    assert settings["skip_grant_tables"] == ""
    assert "log_bin" not in settings


@pytest.mark.parametrize(
    ("creator", "upgraded", "version"),
    [
        ("MariaDB 10.11.5", None, "mariadb-10.11.5"),
        ("MariaDB 10.11.5", "10.11.18-MariaDB", "mariadb-10.11.18"),
        ("MySQL 5.7.20", "5.7.22", "5.7.22"),
        ("Backup 10.2.11-MariaDB", None, "mariadb-10.2.11"),
        ("xtrabkup 240101 12:00:00", None, "None"),
        ("", "5.6.24", "5.6.24"),
    ],
)
def test_the_version_is_in_the_redo_log_or_in_the_note_of_an_upgrade(
    creator: str, upgraded: str | None, version: str, datadir: Path
) -> None:
    (datadir / "ib_logfile0").write_bytes(redo(creator))
    if upgraded is not None:
        (datadir / "mysql_upgrade_info").write_text(upgraded)
    assert str(looked_at(datadir).version) == version


def redo_with_end(creator: str, *, checkpoint: int, used: int) -> bytes:
    """A log whose last checkpoint lies in its first block, of which so many bytes are used."""
    head = bytearray(redo(creator))
    head[3] = 1
    head[512 + 8 : 512 + 24] = checkpoint.to_bytes(8) + (2048 + checkpoint % 512).to_bytes(8)
    head[2048 + 4 : 2048 + 6] = used.to_bytes(2)
    return bytes(head)


END = 512 * 9 + 300


@pytest.mark.parametrize(
    ("used", "shutdown_lsn", "was_shut_down"),
    [(300, END, True), (400, END, False), (512, END, False), (300, END - 512, False)],
    ids=["clean", "log-after-checkpoint", "full-block", "killed-when-idle"],
)
def test_the_files_say_whether_the_server_was_shut_down(
    used: int, shutdown_lsn: int, was_shut_down: bool, datadir: Path
) -> None:
    (datadir / "ib_logfile0").write_bytes(redo_with_end("MySQL 5.7.22", checkpoint=END, used=used))
    (datadir / "ibdata1").write_bytes(page(shutdown_lsn=shutdown_lsn))
    own = looked_at(datadir)
    assert own.was_shut_down is was_shut_down
    assert ("AS_IS=1 times that recovery" in " ".join(own_data_notes(own))) is not was_shut_down
    if was_shut_down:
        with pytest.raises(UsageError, match="shut down cleanly: there is nothing to recover"):
            looked_at(datadir, as_is=True)
    else:
        assert looked_at(datadir, as_is=True).as_is


@pytest.mark.parametrize("beginning", [bytes(4), b"Phys"])
def test_some_logs_do_not_say_whether_the_server_was_shut_down(beginning: bytes, datadir: Path) -> None:
    (datadir / "ib_logfile0").write_bytes(beginning + redo("MariaDB 11.4.5")[4:])
    assert looked_at(datadir).was_shut_down is None


@pytest.mark.parametrize("folder", [".", "#innodb_redo"])
def test_a_damaged_log_does_not_pass_for_that_of_a_clean_shutdown(folder: str, datadir: Path) -> None:
    (datadir / folder).mkdir(exist_ok=True)
    name = "ib_logfile0" if folder == "." else "#ib_redo7"
    for damaged in (b"\xff" * PAGE, b"\xff" * 10, b"\0\0\0\6" + bytes(511) + b"\xff" * PAGE, b""):
        (datadir / folder / name).write_bytes(damaged)
        assert not looked_at(datadir).was_shut_down


def test_tables_are_counted_apart_from_their_files(datadir: Path) -> None:
    """Partitions and full-text indexes have files of their own, tables of other engines none of InnoDB's."""
    schema = datadir / "shop@002deu"
    of_innodb, of_myisam = b"\xfe\x01\x0a\x0c", b"\xfe\x01\x0a\x09"
    for name, text in {"orders": of_innodb, "people": of_innodb, "parts": of_innodb, "old": of_myisam}.items():
        (schema / f"{name}.frm").write_bytes(text)
    for name in ("parts#P#p0", "parts#P#p1", "FTS_0000000000000030_BEING_DELETED"):
        (schema / f"{name}.ibd").write_bytes(page(pages=1))
    own = looked_at(datadir)
    assert (own.tables, own.table_files) == (4, 5)
    for file in schema.glob("*.frm"):
        file.unlink()
    (schema / "old_361.sdi").touch()
    (datadir / "performance_schema/accounts_145.sdi").touch()
    assert (looked_at(datadir).tables, looked_at(datadir).table_files) == (4, 5), "as 8.0 leaves them"
    assert any("4 tables in 1 schema, with 5 .ibd files" in note for note in own_data_notes(own))


def test_definitions_without_a_file_are_counted(datadir: Path) -> None:
    schema = datadir / "shop@002deu"
    of_innodb, of_myisam = b"\xfe\x01\x0a\x0c", b"\xfe\x01\x0a\x09"
    for name, text in {
        "orders": of_innodb, "parts": of_innodb, "gone": of_innodb, "#sql-7": of_innodb, "old": of_myisam,
        "names": b"TYPE=VIEW\n",
    }.items():  # fmt: skip
        (schema / f"{name}.frm").write_bytes(text)
    (schema / "parts#P#p0.ibd").write_bytes(page(pages=1))
    own = looked_at(datadir)
    assert own.without_file == 1
    assert any(note.startswith("InnoDB tables with a definition and no file: 1.") for note in own_data_notes(own))


def as_of_80(data: Path, number: int = 80031) -> None:
    (data / "mysql.ibd").write_bytes(page(pages=2, version=number) * 2)
    (data / "ib_logfile0").unlink()
    (data / "#innodb_redo").mkdir()
    for number in (7, 8):
        (data / f"#innodb_redo/#ib_redo{number}").write_bytes(bytes(1 << 20))
    (data / "#innodb_redo/#ib_redo9_tmp").write_bytes(bytes(1 << 20))


def test_since_80_the_version_is_in_the_dictionary(datadir: Path) -> None:
    as_of_80(datadir, 80031)
    own = looked_at(datadir)
    assert (str(own.version), own.is_exact) == ("8.0.31", True)
    assert dict(own.settings)["innodb_redo_log_capacity"] == str(32 << 20)


def test_files_in_other_places_come_into_the_copy(datadir: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "log"
    elsewhere.mkdir()
    for name in ("ib_logfile0", "ib_logfile1"):
        (datadir / name).rename(elsewhere / name)
    (elsewhere / "of somebody else").touch()
    (datadir / "undo").mkdir()
    (datadir / "undo/undo001").write_bytes(page())
    (datadir / "ibdata2").write_bytes(page())
    files = "ibdata1:32K;ibdata2:16K:autoextend"
    given = {
        "innodb_log_group_home_dir": str(elsewhere), "innodb_undo_directory": "./undo", "innodb_data_file_path": files,
    }  # fmt: skip
    own = looked_at(datadir, given)
    copy_own_data(own, tmp_path / "copy", on_progress=lambda *_: None)
    found = {path.name for path in (tmp_path / "copy").iterdir()}
    assert {"ib_logfile0", "undo001", "ibdata1", "ibdata2"} <= found
    assert not {"of somebody else", "host.pid"} & found
    settings = dict(own.settings)
    assert settings["innodb_data_file_path"] == files
    assert settings["innodb_undo_tablespaces"] == "1"
    assert "innodb_undo_directory" not in settings


def test_the_newest_binary_log_alone_comes_into_the_copy(datadir: Path, tmp_path: Path) -> None:
    """A server needs it to finish its transactions; Aria's log has a number, too, and no index."""
    for name in ("binlog.000009", "binlog.000010", "host-relay-bin.000003", "aria_log.00000001"):
        (datadir / name).touch()
    (datadir / "binlog.index").write_text("./binlog.000009\n./binlog.000010\n")
    (datadir / "host-relay-bin.index").write_text("./host-relay-bin.000003\n")
    own = looked_at(datadir)
    copy_own_data(own, tmp_path / "copy", on_progress=lambda *_: None)
    assert (tmp_path / "copy/binlog.index").read_text() == "./binlog.000010\n"
    there = {path.name for path in (tmp_path / "copy").iterdir()}
    assert {"binlog.000010", "aria_log.00000001"} <= there
    assert not {"binlog.000009", "host-relay-bin.000003"} & there
    assert dict(own.settings)["log_bin"] == "binlog"


def test_persisted_options_and_components_are_named_and_left_out(datadir: Path, tmp_path: Path) -> None:
    for name in ("mysqld-auto.cnf", "mysqld.my", "component_keyring_file.cnf"):
        (datadir / name).touch()
    own = looked_at(datadir)
    assert own.left_out == ("component_keyring_file.cnf", "mysqld-auto.cnf", "mysqld.my")
    copy_own_data(own, tmp_path / "copy", on_progress=lambda *_: None)
    assert not any((tmp_path / "copy" / name).exists() for name in own.left_out)


def test_holes_stay_holes(datadir: Path, tmp_path: Path) -> None:
    table = datadir / "shop@002deu/orders.ibd"
    with table.open("r+b") as file:
        file.truncate(64 << 20)
        file.seek(32 << 20)
        file.write(b"x" * PAGE)
    own = looked_at(datadir)
    copy_own_data(own, tmp_path / "copy", on_progress=lambda *_: None)
    copied = tmp_path / "copy/shop@002deu/orders.ibd"
    assert copied.read_bytes() == table.read_bytes()
    assert copied.stat().st_blocks <= 2 * table.stat().st_blocks


def without_log(data: Path) -> None:
    (data / "ib_logfile0").unlink()
    (data / "ib_logfile1").unlink()


def with_link(data: Path) -> None:
    (data / "moved").symlink_to(data.parent)


def archive_log(data: Path) -> None:
    without_log(data)
    (data / "ib_0000000000003000.log").write_bytes(bytes(PAGE))


REFUSED: Mapping[str, tuple[Callable[[Path], object], str]] = {
    "no redo log": (without_log, "has no redo log"),
    "part of the redo log": (lambda data: (data / "ib_logfile1").unlink(), "has no ib_logfile1"),
    "no system tablespace": (lambda data: (data / "ibdata1").unlink(), "has no ibdata1"),
    "no system schema": (lambda data: (data / "mysql").rename(data / "other"), "has no folder `mysql`"),
    "sizes in my.cnf": (lambda data: (data / "ibdata2").touch(), "has several files ibdata"),
    "link": (with_link, "moved leads to another place"),
    "data directory": (lambda data: (data / "empty/t.isl").write_text("/elsewhere/t.ibd"), "t.isl leads to another"),
    "cut off": (lambda data: os.truncate(data / "shop@002deu/orders.ibd", PAGE), "orders.ibd is cut off"),
    "cut off within a page": (lambda data: os.truncate(data / "shop@002deu/orders.ibd", 99), "orders.ibd is cut off"),
    "archived redo log": (
        lambda data: (data / "ib_0000000000344ff0.log").write_bytes(bytes(PAGE)),
        r"ib_0000000000344ff0.log is an archived redo log \(innodb_log_archive=ON, MariaDB 13.0\)",
    ),
    "archived redo log alone": (
        archive_log,
        "ib_0000000000003000.log is an archived redo log",
    ),
    "binary log inside InnoDB": (
        lambda data: (data / "binlog-000000.ibb").write_bytes(bytes(PAGE)),
        r"binlog-000000.ibb is a binary log inside InnoDB \(binlog_storage_engine=innodb, MariaDB 12.3\)",
    ),
    "encrypted": (
        lambda data: (data / "shop@002deu/orders.ibd").write_bytes(page(pages=1, flags=1 << 13)),
        "orders.ibd is encrypted",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, datadir: Path) -> None:
    change, message = REFUSED[name]
    change(datadir)
    with pytest.raises(UsageError, match=message) as caught:
        looked_at(datadir)
    assert caught.value.hint


def page_of_names(*names: str, deleted: str = "", level: int = 0) -> bytes:
    """A page of the index of file names: each record right behind the one before, as a server fills it."""
    made, at, last, begin = bytearray(PAGE), 120, 99, 120
    made[24:26] = (0x45BF).to_bytes(2)
    made[42:44] = (0x8000 | len(names) + 2).to_bytes(2)
    made[64:66] = level.to_bytes(2)
    for number, name in enumerate(names, 1):
        text = name.encode()
        length = bytes([len(text)]) if len(text) < 128 else bytes([len(text) & 0xFF, 0x80 | len(text) >> 8])
        begin = at + len(length) + 5
        made[at:begin] = length + bytes([0x20 if name == deleted else 0, 0, number << 3, 0, 0])
        made[last - 2 : last] = ((begin - last) % 65536).to_bytes(2)
        rest = number.to_bytes(8) + (1).to_bytes(4)
        made[begin : begin + len(text) + 12] = text + rest
        last, at = begin, begin + len(text) + 12
    made[last - 2 : last] = ((112 - last) % 65536).to_bytes(2)
    return bytes(made)


def with_names(data: Path, *pages: bytes, free: bool = False) -> None:
    """Makes a dictionary with these pages behind the first one."""
    as_of_80(data)
    first = bytearray(page(pages=1 + len(pages), version=80031))
    first[150 + 24 : 150 + 40] = bytes([0xFF if free else 0]) * 16
    (data / "mysql.ibd").write_bytes(bytes(first) + b"".join(pages))


@pytest.mark.parametrize("length", range(9, 151))
def test_names_of_every_length_are_read_as_the_records_say(length: int, datadir: Path) -> None:
    """Where two records of one length lie beside each other, the byte before the name is their distance: "/" for 29."""
    names = [f"./{letter}/{'t' * (length - 8)}.ibd" for letter in "ab"]
    with_names(datadir, page_of_names(*names))
    assert list(tablespace_names(datadir / "mysql.ibd")) == [TablespaceName(name, True) for name in names]
    if length == 29:
        assert b"/./a/" in (datadir / "mysql.ibd").read_bytes()
    assert looked_at(datadir).tables == 2
    outside = f"/{'o' * (length - 5)}.ibd"
    (datadir / "mysql.ibd").unlink()
    shutil.rmtree(datadir / "#innodb_redo")
    (datadir / "ib_logfile0").touch()
    with_names(datadir, page_of_names(names[0], outside))
    with pytest.raises(UsageError, match=f"names {outside}, a tablespace outside"):
        looked_at(datadir)


@pytest.mark.parametrize("name", ["/elsewhere/shop/people.ibd", "../moved/all.ibd", "./../undo.ibu", "/\u00fc/t.ibd"])
def test_a_tablespace_outside_is_found_in_the_dictionary(name: str, datadir: Path) -> None:
    with_names(datadir, page_of_names("./shop/orders.ibd", name, "mysql.ibd"))
    with pytest.raises(UsageError, match=f"names {re.escape(name)}, a tablespace outside"):
        looked_at(datadir)


@pytest.mark.parametrize("is_free", [False, True], ids=["marked-as-deleted", "on-a-free-page"])
def test_a_dropped_tablespace_outside_counts_while_its_file_is_there(
    is_free: bool, datadir: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.ibd"
    with_names(datadir, page_of_names("./shop/orders.ibd", str(outside), deleted=str(outside)), free=is_free)
    assert looked_at(datadir).tables == 2
    outside.touch()
    with pytest.raises(UsageError, match=r"outside\.ibd, a tablespace outside"):
        looked_at(datadir)


def test_pages_that_are_none_of_the_index_have_no_names(datadir: Path) -> None:
    """Encrypted, damaged, an inner page, and one with a path in a text."""
    name = page_of_names("/elsewhere/t.ibd")
    text = bytearray(name)
    text[text.index(b".ibd") + 4 + 8] = 0x7F
    noise = name[:90] + os.urandom(PAGE - 90)
    with_names(
        datadir, b"\xff" * PAGE, page_of_names("/elsewhere/t.ibd", level=1), bytes(text), noise, name[: PAGE // 2]
    )
    assert [one for one in tablespace_names(datadir / "mysql.ibd") if "else" in one.name] == []


def described(kind: int, number: int, text: bytes, *, is_deleted: bool = False, elsewhere: int = 0) -> bytes:
    """A record that describes a table, with its header before it; the rest of its text may be on another page."""
    packed = zlib.compress(text)
    local = packed if not elsewhere else packed[:20] + bytes(4) + elsewhere.to_bytes(4) + bytes(12)
    size = bytes([len(local) & 0xFF, 0x80 | (0x40 if elsewhere else 0) | len(local) >> 8])
    header = bytes([0x20 if is_deleted else 0, 0, 0, 0, 0])
    key = kind.to_bytes(4) + number.to_bytes(8)
    return size + header + key + bytes(13) + len(text).to_bytes(4) + len(packed).to_bytes(4) + local


def table_text(schema: str, name: str, hidden: int = 1) -> bytes:
    return json.dumps({"dd_object": {"name": name, "hidden": hidden, "schema_ref": schema}}).encode()


def page_of_descriptions(*records: bytes, next_page: int = 0xFFFFFFFF, level: int = 0) -> bytes:
    made, last, at = bytearray(PAGE), 99, 120
    made[12:16] = next_page.to_bytes(4)
    made[24:26] = (0x45BD).to_bytes(2)
    made[64:66] = level.to_bytes(2)
    for record in records:
        begin = at + (5 if level else 7)
        made[at : at + len(record)] = record
        made[last - 2 : last] = ((begin - last) % 65536).to_bytes(2)
        last, at = begin, at + len(record)
    made[last - 2 : last] = ((112 - last) % 65536).to_bytes(2)
    return bytes(made)


def tablespace(*pages: bytes) -> bytes:
    """The first page names page 3 as the root of the descriptions."""
    first = bytearray(page())
    first[10505:10513] = (1).to_bytes(4) + (3).to_bytes(4)
    return bytes(first) + page() * 2 + b"".join(pages)


def test_tables_in_shared_tablespaces_are_counted(datadir: Path) -> None:
    as_of_80(datadir)
    for folder in ("alone", "caf@1y"):
        (datadir / folder).mkdir()
    text = table_text("alone", "long")
    node = bytes(5) + (1).to_bytes(4) + bytes(8) + (4).to_bytes(4)
    leaf = page_of_descriptions(
        described(1, 1, table_text("shop-eu", "a")),
        described(1, 2, table_text("shop-eu", "dropped"), is_deleted=True),
        described(1, 3, table_text("shop-eu", "index of a full text", hidden=2)),
        next_page=5,
    )
    last = page_of_descriptions(
        described(1, 4, text, elsewhere=6), described(1, 5, table_text("mysql", "user")), described(2, 9, b"{}")
    )
    rest = bytearray(PAGE)
    rest[24:26] = (0x12).to_bytes(2)
    more = zlib.compress(text)[20:]
    rest[38:46] = len(more).to_bytes(4) + b"\xff" * 4
    rest[46 : 46 + len(more)] = more
    pages = page_of_descriptions(node, level=1), leaf, last, bytes(rest)
    (datadir / "ts.ibd").write_bytes(tablespace(*pages))
    (datadir / "ibdata1").write_bytes(tablespace(page_of_descriptions(described(1, 7, table_text("caf\u00e9", "b")))))
    own = looked_at(datadir)
    # Two tables have files, the others are in ts.ibd and in ibdata1.
    assert (own.tables, own.schemas, own.table_files, own.general_tablespaces) == (5, 3, 2, 1)
    assert (own.in_shared_files, own.not_counted) == (3, 0)
    notes = " ".join(own_data_notes(own))
    assert "5 tables in 3 schemas, with 2 .ibd files and 1 general tablespace," in notes
    assert "those are counted that are in the file" in notes


@pytest.mark.parametrize(
    "pages",
    [
        (bytes(PAGE),),
        (page_of_descriptions(described(1, 1, b"[]")),),
        (page_of_descriptions(described(1, 1, b"no text of JSON")),),
        (page_of_descriptions(described(1, 1, table_text("a", "b"), elsewhere=9)),),
        (page_of_descriptions(next_page=3),),
        (page_of_descriptions(level=1),),
        (),
    ],
    ids=["not-written", "list", "text", "cut-off", "circle", "no-leaf", "no-root"],
)
def test_tablespaces_whose_tables_are_not_counted_are_named(pages: tuple[bytes, ...], datadir: Path) -> None:
    as_of_80(datadir)
    (datadir / "ts.ibd").write_bytes(tablespace(*pages))
    own = looked_at(datadir)
    assert (own.tables, own.not_counted, own.general_tablespaces) == (2, 2, 1), "ts.ibd, and the empty ibdata1"
    assert "Tablespaces whose tables are not counted: 2." in " ".join(own_data_notes(own))


def test_before_80_general_tablespaces_are_counted_and_not_read(datadir: Path) -> None:
    (datadir / "ts.ibd").write_bytes(page(pages=1))
    (datadir / "shop@002deu/inside.frm").write_bytes(b"\xfe\x01\x0a\x0c")
    own = looked_at(datadir)
    assert (own.tables, own.general_tablespaces, own.in_shared_files, own.not_counted) == (1, 1, None, 0)
    assert "with 2 .ibd files and 1 general tablespace" in " ".join(own_data_notes(own))


def test_a_system_file_outside_is_refused(datadir: Path) -> None:
    with pytest.raises(UsageError, match="a file outside the data directory"):
        looked_at(datadir, {"innodb_data_file_path": "/elsewhere/ibdata1:12M"})


@needs_root
def test_files_that_this_user_cannot_read_are_refused(datadir: Path) -> None:
    (datadir / "shop@002deu/people.ibd").chmod(0o600)
    with tempfile.TemporaryDirectory() as folder:  # where another user comes to
        Path(folder).chmod(0o755)
        moved = Path(shutil.move(datadir, folder))
        with as_user(), pytest.raises(UsageError, match=r"people\.ibd cannot be read by this user"):
            looked_at(moved)


@pytest.mark.parametrize("option", ["data", "results"])
def test_nothing_is_written_into_the_original(option: str, datadir: Path, tmp_path: Path) -> None:
    """Also if a link or `..` leads there."""
    (tmp_path / "link").symlink_to(datadir)
    given = {"datadir": tmp_path / "user/../link", option: datadir / "mysql/../inside"}
    words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    with pytest.raises(UsageError, match=f"{option.upper()}: .* is inside --datadir "):
        request_from_arguments("cold-recovery", words)


@pytest.mark.parametrize("name", ["before-kill", "before-start"])
@pytest.mark.parametrize(
    ("command", "sign"),
    [
        ("echo $HOME", "$HOME"), ("echo ${X}", "${"), ("echo $(id)", "$("), ("echo `id`", "`"), ("ls ~/x", "~"),
        ("ls | wc", "|"), ("ls > x", ">"), ("ls 2>&1", "2>&1"), ("ls && ls", "&&"), ("ls; ls", ";"),
        ("ls *.sql", "*.sql"),
    ],
)  # fmt: skip
def test_what_needs_a_shell_is_said_before_the_copy(name: str, command: str, sign: str, datadir: Path) -> None:
    words = ["--datadir", str(datadir), f"--{name}", command]
    with pytest.raises(UsageError, match=re.escape(f"which alone gives {sign} a meaning")) as caught:
        request_from_arguments("cold-recovery", words)
    assert "script" in caught.value.hint


@pytest.mark.parametrize("command", ["sh -c 'echo $HOME | wc'", "sudo sh -c 'ls > /dev/null'", "awk '{print $1}' x"])
def test_a_command_that_needs_no_shell_or_names_one_is_taken(command: str, datadir: Path) -> None:
    request_from_arguments("cold-recovery", ["--datadir", str(datadir), "--before-start", command])


def test_its_first_queries_are_the_users_own_program(datadir: Path, tmp_path: Path) -> None:
    queries = tmp_path / "queries.sql"
    queries.write_text("-- size\nselect count(*) from shop.orders; set global general_log = 1;")
    words = ["--datadir", str(datadir), "--first-queries", str(queries)]
    asked: Any = request_from_arguments("cold-recovery", words).experiment_options
    assert [statement for _, statement in asked.first_queries][1] == "set global general_log = 1"


def test_a_way_with_dots_leads_to_the_same_directory(datadir: Path) -> None:
    words = ["--datadir", str(datadir / "../user/mysql/..")]
    own = request_from_arguments("cold-recovery", words).sizes.schema.own
    assert own is not None
    assert (own.path, own.digest) == (datadir, looked_at(datadir).digest)


def test_a_change_during_the_copy_is_noticed(datadir: Path, tmp_path: Path) -> None:
    own = looked_at(datadir)
    changed = datadir / "shop@002deu/orders.ibd"

    def on_progress(*_: int) -> None:
        os.utime(changed)

    with pytest.raises(HostUnfitError, match="changed while it was copied"):
        copy_own_data(own, tmp_path / "copy", on_progress=on_progress)


@pytest.mark.parametrize(
    ("wrote", "exact", "server", "why"),
    [
        ("8.0.31", True, "8.0.31", None),
        ("8.0.31", True, "8.0.31+patched", None),
        ("8.0.31", True, "8.0.36", "would upgrade it"),
        ("8.0.31", True, "8.0.15", "a downgrade"),
        ("5.7.22", False, "5.7.44", None),
        ("5.7.22", False, "5.7.9", "a downgrade"),
        ("5.7.22", False, "8.0.31", "would upgrade it"),
        ("mariadb-10.11.5", False, "8.0.31", "another product"),
        ("8.0.31", True, "8.0.31-22", None),
        (None, False, "5.6.24", None),
    ],
)
def test_which_servers_may_be_started(
    wrote: str | None, exact: bool, server: str, why: str | None, datadir: Path
) -> None:
    own = replace(looked_at(datadir), version=parse_version(wrote) if wrote else None, is_exact=exact)
    if why is None:
        check_server(own, parse_version(server))
        return
    with pytest.raises(RecoveryError, match=re.escape(why)):
        check_server(own, parse_version(server))


# --- What others may have put there, and what changes during the copy


def replace_by_pipe(file: Path) -> None:
    file.unlink(missing_ok=True)
    os.mkfifo(file)


@pytest.mark.parametrize(
    "name",
    ["ib_logfile0", "mysql.ibd", "ibdata1", "shop@002deu/orders.ibd", "shop@002deu/orders.frm", "shop@002deu/more"],
)
def test_a_pipe_is_refused_and_not_waited_for(name: str, datadir: Path) -> None:
    replace_by_pipe(datadir / name)
    with pytest.raises(UsageError):
        looked_at(datadir)


def test_a_device_behind_the_name_of_the_dictionary_is_refused(datadir: Path) -> None:
    (datadir / "mysql.ibd").symlink_to("/dev/zero")
    with pytest.raises(UsageError):
        looked_at(datadir)


def test_the_socket_of_a_server_that_has_ended_is_left_out(datadir: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(datadir / "left"))
    assert looked_at(datadir).tables == 2


def test_folders_in_folders_are_refused(datadir: Path) -> None:
    here = os.open(datadir, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("f", dir_fd=here)
        below = os.open("f", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    with pytest.raises(UsageError, match="is in 9 folders"):
        looked_at(datadir)
    subprocess.run(("rm", "-r", str(datadir)), check=True)


@pytest.mark.parametrize("number", [0, 1, 0xFFFFFFFF])
def test_a_dictionary_with_an_impossible_version_says_none(number: int, datadir: Path) -> None:
    (datadir / "mysql.ibd").write_bytes(page(version=number))
    assert looked_at(datadir).version is None


@pytest.mark.parametrize("text", ["MySQL 99999.1.1", "MySQL 5.7.123456", "MySQL \xb2.7.1", "MariaDB 1.1.11111"])
def test_a_log_with_an_impossible_version_says_none(text: str, datadir: Path) -> None:
    (datadir / "ib_logfile0").write_bytes((bytes(16) + text.encode("latin-1")).ljust(PAGE, b"\0"))
    assert looked_at(datadir).version is None


def test_a_dictionary_of_ten_terabytes_of_nothing_is_not_read(datadir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (datadir / "mysql.ibd").open("wb") as file:
        file.write(page(version=80031))
        file.truncate(10 << 40)
    asked, pread = list[int](), os.pread

    def counted(file: int, size: int, at: int) -> bytes:
        asked.append(size)
        return pread(file, size, at)

    monkeypatch.setattr(os, "pread", counted)
    assert str(looked_at(datadir).version) == "8.0.31"
    assert sum(asked) < 1 << 27


def test_a_table_that_vanishes_when_it_is_about_to_be_copied(datadir: Path, tmp_path: Path) -> None:
    own, table = looked_at(datadir), datadir / "shop@002deu/people.ibd"

    def on_progress(done: int, _: int) -> None:
        if done and (tmp_path / "copy/shop@002deu/orders.ibd").exists():
            table.unlink(missing_ok=True)

    with pytest.raises(HostUnfitError, match=r"user changed while it was copied: a file vanished$"):
        copy_own_data(own, tmp_path / "copy", on_progress=on_progress)


def changed_when_copied(datadir: Path, target: Path, change: Callable[[Path], None]) -> str:
    """The message of a copy during which a table's file changes."""
    own, table, changed = looked_at(datadir), datadir / "shop@002deu/people.ibd", list[Path]()

    def on_progress(*_: int) -> None:
        if not changed:
            changed.append(table)
            change(table)

    with pytest.raises(HostUnfitError) as caught:
        copy_own_data(own, target, on_progress=on_progress)
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (Path.unlink, "it had 7 files and has 6"),
        (lambda table: os.truncate(table, 1), "a file was written or renamed"),
        (replace_by_pipe, "a file was replaced by something else"),
        (lambda table: shutil.rmtree(table.parent), "a file vanished"),
    ],
)
def test_what_happened_during_the_copy_is_said_without_the_name_of_a_table(
    change: Callable[[Path], None], what: str, datadir: Path, tmp_path: Path
) -> None:
    message = changed_when_copied(datadir, tmp_path / "copy", change)
    assert message == f"{datadir} changed while it was copied: {what}"


# -- the shape of the redo log, which AS_IS recovers as it is

REDO_OF = {
    "5.7.22": (("innodb_log_file_size", "268435456"),),
    "5.6.24": (("innodb_log_file_size", "50331648"), ("innodb_log_files_in_group", "3")),
    "8.0.31": (("innodb_redo_log_capacity", "1073741824"),),
    "mariadb-10.11.5": (("innodb_log_file_size", "100663296"),),
}


def own_with_redo(version: str) -> OwnData:
    settings = (("innodb_page_size", "16384"), *REDO_OF[version])
    return OwnData(Path("/snap"), True, parse_version(version), True, 1, 9, 9, 99, 999, "", settings)


@pytest.mark.parametrize(
    ("version", "options", "is_kept"),
    [
        ("5.7.22", "innodb_log_file_size=256M", True),
        ("5.7.22", "innodb_log_file_size=268440000", True),
        ("5.7.22", "innodb_log_file_size=48M", False),
        ("5.7.22", "loose-innodb-log-file-size=512M", False),
        ("5.7.22", "innodb_log_file_size=256M innodb_log_files_in_group=3", False),
        ("5.7.22", "innodb_redo_log_capacity=512M", True),
        ("5.7.22", "innodb_redo_log_capacity=1G", False),
        ("5.7.22", "innodb_log_buffer_size=64M", True),
        ("5.6.24", "innodb_log_file_size=48M", True),
        ("5.6.24", "innodb_log_files_in_group=3", True),
        ("5.6.24", "innodb_log_files_in_group=2", False),
        ("8.0.31", "innodb_redo_log_capacity=1G", True),
        ("8.0.31", "innodb_redo_log_capacity=2G", False),
        ("8.0.31", "innodb_log_file_size=512M", True),
        ("8.0.31", "innodb_log_file_size=48M", False),
        ("8.0.31", "innodb_redo_log_capacity=1G innodb_log_file_size=48M", True),
        ("mariadb-10.11.5", "innodb_log_file_size=96M innodb_log_files_in_group=2", True),
        ("mariadb-10.11.5", "innodb_log_file_size=1G", False),
        ("mariadb-10.11.5", "innodb_encrypt_log=ON", False),
        ("mariadb-10.11.5", "innodb_encrypt_log=0", True),
    ],
)
def test_options_that_describe_the_redo_log_keep_it(version: str, options: str, is_kept: bool) -> None:
    settings = {name: value for name, _, value in (option.partition("=") for option in options.split())}
    assert keeps_redo_log(own_with_redo(version), settings) is is_kept


@pytest.mark.parametrize("as_is", [False, True])
@pytest.mark.parametrize(
    "given",
    [
        ["--variant", "plain:", "--variant", "redo48:innodb_log_file_size=48M"],
        ["--variant", "plain:", "--variant", "same:innodb_log_file_size=256M"],
        ["--set", "innodb_log_files_in_group=4"],
        ["--set", "innodb_redo_log_capacity=100M"],
    ],
)
def test_another_shape_of_the_redo_log_is_refused_where_it_is_recovered_as_it_is(
    given: list[str], as_is: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without AS_IS the crash is made with such a log."""
    own = replace(own_with_redo("5.7.22"), as_is=as_is)
    monkeypatch.setattr("recovery.cli.parse.examine", lambda *_, **__: own)
    words = ["--datadir", "/snap", *(["--as-is"] if as_is else []), *given]
    if not as_is:
        request_from_arguments("crash-recovery", words)
        return
    with pytest.raises(OptionConflictError, match="does not change the redo that --as-is recovers") as caught:
        request_from_arguments("crash-recovery", words)
    assert "give what /snap has: innodb_log_file_size=268435456" in caught.value.hint


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["cold-recovery"], "BEFORE_KILL: it is about a data directory of your own"),
        (["cold-recovery", "--datadir", "/snap", "--as-is"], "BEFORE_KILL: it does not apply to --as-is"),
        (["clean-start", "--datadir", "/snap"], "BEFORE_KILL: it is about a crash, and clean-start has none"),
    ],
)
def test_nothing_is_done_before_a_kill_where_the_tool_kills_no_server(
    words: list[str], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recovery.cli.parse.examine", lambda *_, **__: own_with_redo("5.7.22"))
    name, *others = words
    with pytest.raises(UsageError, match=text):
        request_from_arguments(name, [*others, "--before-kill", "load"])


def test_a_load_before_each_kill_is_in_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recovery.cli.parse.examine", lambda *_, **__: own_with_redo("5.7.22"))
    options = [
        request_from_arguments("cold-recovery", ["--datadir", "/snap", "--before-kill", command]).experiment_options
        for command in ("load", "true")
    ]
    assert [(one.before_kill, one.load_before_kill_s) for one in options if isinstance(one, OwnDataOptions)] == [
        (("load",), 30),
        (("true",), 0),
    ]


def test_the_options_of_the_servers_own_file_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recovery.cli.parse.examine", lambda *_, **__: own_with_redo("5.7.22"))
    file = tmp_path / "my.cnf"
    file.write_text("[mysqld]\ninnodb_log_file_size=256M\n")
    words = ["--datadir", "/snap", "--as-is", "--defaults-file", str(file)]
    assert dict(request_from_arguments("crash-recovery", words).servers.options) == {"innodb_log_file_size": "256M"}
