"""How much redo a start has to read, from the log files of every server generation."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from recovery.errors import UsageError
from recovery.model import RedoSpan
from recovery.mysqld.redo_log import checkpoint_lsn, redo_span, was_shut_down

# --- Logs in blocks of 512 bytes

SIZE, HEADER, BLOCK = 1 << 20, 2048, 512
RING = 2 * (SIZE - HEADER)
MYSQL_5_6, MYSQL_5_7, MYSQL_8_0_30, MARIADB_10_5 = 0, 1, 6, 0x50485953
START = 8192


def block(number: int, used: int = BLOCK) -> bytes:
    return struct.pack(">IH", (number & 0x3FFFFFFF) + 1, used).ljust(BLOCK, b"r")


def blocks_until(end_lsn: int, first: int = START) -> Iterator[tuple[int, bytes]]:
    """The LSN and the content of each block that a server has written."""
    for lsn in range(first, end_lsn + 1, BLOCK):
        yield lsn, block(lsn // BLOCK, min(BLOCK, end_lsn - lsn))


def ring_place(lsn: int) -> int:
    """The offset of an LSN in both files together."""
    index = (lsn - START) % RING
    return index + HEADER * (1 + index // (SIZE - HEADER))


def checkpoint(form: int, lsn: int) -> bytes:
    if form == MYSQL_5_6:
        return struct.pack(">QQII", 1, lsn, ring_place(lsn), 0xFFFF)
    return struct.pack(">QQQ", 1, lsn, ring_place(lsn))


def ring(folder: Path, form: int, *, checkpoint_lsn: int, end_lsn: int, flush_bit: bool = False) -> None:
    """Two files that are written again and again, as before MySQL 8.0.30."""
    whole = bytearray(2 * SIZE)
    struct.pack_into(">IIQ", whole, 0, form, 0, START)
    for at, lsn in ((512, checkpoint_lsn), (1536, max(START, checkpoint_lsn - 1000))):
        text = checkpoint(form, lsn)
        whole[at : at + len(text)] = text
    for lsn, content in blocks_until(end_lsn):
        place = ring_place(lsn)
        whole[place : place + BLOCK] = content
        whole[place] |= 0x80 if flush_bit else 0
    (folder / "ib_logfile0").write_bytes(whole[:SIZE])
    (folder / "ib_logfile1").write_bytes(whole[SIZE:])


@pytest.mark.parametrize("form", [MYSQL_5_6, MYSQL_5_7])
@pytest.mark.parametrize("flush_bit", [False, True])
@pytest.mark.parametrize(
    ("checkpoint_lsn", "end_lsn"),
    [
        (START, START + 12),
        (START + 100, START + 100),
        (START + 700, START + 300_000),
        (START + SIZE - 5000, START + SIZE + 40_000),  # from the first file into the second
        (START + RING - 9000, START + RING + 77_777),  # from the second lap of the ring
        (START + 3 * RING + 1, START + 4 * RING - 2000),  # nearly a whole lap
    ],
)
def test_the_end_of_a_log_in_a_ring(
    form: int, flush_bit: bool, checkpoint_lsn: int, end_lsn: int, tmp_path: Path
) -> None:
    ring(tmp_path, form, checkpoint_lsn=checkpoint_lsn, end_lsn=end_lsn, flush_bit=flush_bit)
    span = redo_span(tmp_path)
    assert span == RedoSpan(checkpoint_lsn, end_lsn)
    assert span.bytes == end_lsn - checkpoint_lsn


@pytest.mark.parametrize(("after", "first_number"), [(0, 7), (3_000_000, 9)])
def test_the_end_of_a_log_in_a_folder_of_files(after: int, first_number: int, tmp_path: Path) -> None:
    """Each file has a range of LSN; the server keeps spare files beside them. `#ib_redo10` comes after `#ib_redo9`."""
    folder = tmp_path / "#innodb_redo"
    folder.mkdir()
    room, checkpoint_lsn, end_lsn = SIZE - HEADER, START + 4000, START + 4000 + after + 321
    for number in range(after // room + 3):
        start = START + number * room
        text = bytearray(SIZE)
        struct.pack_into(">IIQ", text, 0, MYSQL_8_0_30, 0, start)
        struct.pack_into(">QQ", text, 512, 0, checkpoint_lsn if start <= checkpoint_lsn < start + room else 0)
        for lsn, content in blocks_until(min(end_lsn, start + room - 1), start):
            text[HEADER + lsn - start : HEADER + lsn - start + BLOCK] = content
        (folder / f"#ib_redo{first_number + number}").write_bytes(text)
    (folder / "#ib_redo99_tmp").write_bytes(bytes(SIZE))
    assert redo_span(tmp_path) == RedoSpan(checkpoint_lsn, end_lsn)


def test_a_log_of_terabytes_is_searched_in_few_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads, pread = list[int](), os.pread

    def counted(file: int, size: int, at: int) -> bytes:
        reads.append(size)
        return pread(file, size, at)

    ring(tmp_path, MARIADB_10_5, checkpoint_lsn=START, end_lsn=START + 300_000)
    (tmp_path / "ib_logfile1").unlink()
    os.truncate(tmp_path / "ib_logfile0", 10 << 40)
    monkeypatch.setattr(os, "pread", counted)
    assert redo_span(tmp_path) == RedoSpan(START, START + 300_000)
    assert len(reads) < 50
    assert sorted(reads)[-2:] == [6, 12288], "one header of the file, and headers of blocks"


@pytest.mark.parametrize("kept_bytes", [0, 100, 512, 2047, 2048, 12287, 13000])
def test_a_log_that_is_cut_off_has_no_span(kept_bytes: int, tmp_path: Path) -> None:
    ring(tmp_path, MYSQL_5_7, checkpoint_lsn=START + 20_000, end_lsn=START + 30_000)
    for name in ("ib_logfile0", "ib_logfile1"):
        os.truncate(tmp_path / name, kept_bytes)
    assert redo_span(tmp_path) is None
    assert was_shut_down(tmp_path, bytes(64)) is not True


@pytest.mark.parametrize("value", [0, 1, 1 << 40, (1 << 63) - 1, (1 << 64) - 1])
@pytest.mark.parametrize("form", [MYSQL_5_6, MYSQL_5_7, 0x50687973, 6, 0xFFFFFFFF])
def test_a_forged_checkpoint_does_no_harm(form: int, value: int, tmp_path: Path) -> None:
    ring(tmp_path, form, checkpoint_lsn=START, end_lsn=START + 5000)
    with (tmp_path / "ib_logfile0").open("rb+") as file:
        for at in (8, 520, 528, 1544, 4096, 8192):
            file.seek(at)
            file.write(value.to_bytes(8))
    span = redo_span(tmp_path)
    assert span is None or span.bytes >= 0


def test_no_log_has_no_span(tmp_path: Path) -> None:
    assert redo_span(tmp_path) is None


def test_a_pipe_in_place_of_the_log_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ib_logfile0")
    for read in (redo_span, checkpoint_lsn, lambda folder: was_shut_down(folder, bytes(64))):
        with pytest.raises(UsageError, match="is not a regular file"):
            read(tmp_path)


# --- Logs of mini-transactions

MARIADB_10_8, FIRST, ROOM = 0x50687973, 12288, 600_000


def crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def record(size: int) -> bytes:
    """A record of that many bytes, with its length in the form that the server chooses."""
    if size <= 16:
        return bytes((0x30 | size - 1, *([5] * (size - 1))))
    more = size - 16
    if more < 1 << 7:
        length = bytes((more,))
    elif more < (1 << 7) + (1 << 14):
        length = (more - (1 << 7) | 0x8000).to_bytes(2)
    else:
        length = (more - (1 << 7) - (1 << 14) | 0xC00000).to_bytes(3)
    return (bytes((0x30,)) + length).ljust(size, b"\x05")


def log_without_blocks(folder: Path, sizes: list[int], *, checkpoint_at: int) -> RedoSpan:
    """Writes mini-transactions of one record each, over and over the file, with a checkpoint before one of them."""
    ring, lsn, checkpoint_lsn = bytearray(ROOM), FIRST, FIRST
    known: dict[int, tuple[bytes, bytes]] = {}
    for number, size in enumerate(sizes):
        checkpoint_lsn = lsn if number == checkpoint_at else checkpoint_lsn
        if size not in known:
            text = record(size)
            known[size] = text, crc32c(text).to_bytes(4)
        text, checksum = known[size]
        bit = 1 - (lsn + size - FIRST) // ROOM % 2
        for byte in (*text, bit, *checksum):
            ring[(lsn - FIRST) % ROOM] = byte
            lsn += 1
    header = bytearray(FIRST)
    struct.pack_into(">IIQ", header, 0, MARIADB_10_8, 0, FIRST)
    struct.pack_into(">QQ", header, 4096, checkpoint_lsn, checkpoint_lsn)
    (folder / "ib_logfile0").write_bytes(header + ring)
    return RedoSpan(checkpoint_lsn, lsn)


@pytest.mark.parametrize(
    ("sizes", "checkpoint_at"),
    [
        ([16], 0),
        ([40] * 3000, 17),
        ([3, 16, 17, 143, 144, 145, 5000] * 60, 1),
        ([17_000] * 30, 3),  # with lengths of three bytes
        ([100] * 10_000, 7000),  # in the second lap, over bytes of the first
        ([3000, 40, 200] * 450, 900),
        ([20_000] * 80, 60),
    ],
)
def test_the_end_of_a_log_without_blocks(sizes: list[int], checkpoint_at: int, tmp_path: Path) -> None:
    assert log_without_blocks(tmp_path, sizes, checkpoint_at=checkpoint_at) == redo_span(tmp_path)


def test_an_encrypted_log_without_blocks_has_no_span(tmp_path: Path) -> None:
    log_without_blocks(tmp_path, [40] * 30, checkpoint_at=5)
    with (tmp_path / "ib_logfile0").open("rb+") as file:
        file.write(bytes((0xD0,)))
    assert redo_span(tmp_path) is None
