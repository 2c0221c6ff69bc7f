"""How far a process has come that opens files in the order of their names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from recovery.linux.file_opens import OpenOrder

SORTED = [*(f"a/t{number}" for number in range(10, 40)), "a#/t1", "b/t1", "b/t1#P#p0", "b/t2", "top"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in SORTED:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        for suffix in (".ibd", ".frm"):
            (tmp_path / f"{name}{suffix}").touch()
    return tmp_path


@pytest.fixture
def order(folder: Path) -> Iterator[OpenOrder]:
    with closing(OpenOrder(folder, ".ibd")) as made:
        yield made


def opened(folder: Path, *names: str, suffix: str = ".ibd") -> None:
    for name in names:
        (folder / f"{name}{suffix}").read_bytes()


def test_the_position_is_the_rank_of_the_last_file_that_was_opened_in_order(folder: Path, order: OpenOrder) -> None:
    names = sorted(SORTED)
    for count in (1, 7, 20, len(names)):
        opened(folder, *names[:count])
        assert order.position() == count
        assert order.position() == count


def test_a_process_that_is_looked_at_late_is_placed_by_the_names(folder: Path, order: OpenOrder) -> None:
    names = sorted(SORTED)
    opened(folder, *names[24:26], names[29])  # three between them are open already
    assert order.position() == 30


def test_other_files_and_opens_out_of_order_are_not_counted(folder: Path, order: OpenOrder) -> None:
    names = sorted(SORTED)
    opened(folder, *names[:5])
    opened(folder, names[30], names[17], names[2])
    opened(folder, *names, suffix=".frm")
    (folder / "a" / "new.ibd").touch()
    assert order.position() == 5


def test_without_an_open_there_is_no_position(order: OpenOrder) -> None:
    assert order.position() is None
