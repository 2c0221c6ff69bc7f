"""Files are replaced as a whole, the files of tables are found, and every open of one is traced."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path

import pytest
from otherusers import child_process
from pydantic import TypeAdapter
from waiting import until

from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.linux import file_opens
from recovery.linux.file_opens import OpenTrace
from recovery.linux.files import (
    clone_or_copy,
    copy_atomically,
    data_extents,
    draft_path,
    empty_folder,
    numbered_names,
    read_limited,
    read_stored,
    rename_to_free_name,
    walk_files,
)
from recovery.model import Layout, Schema
from recovery.mysqld.table_files import TableFiles, table_files


def test_a_copy_is_whole_or_not_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 3_000_000)
    copy_atomically(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == b"x" * 3_000_000
    with pytest.raises(FileNotFoundError):
        copy_atomically(tmp_path / "missing", tmp_path / "b")
    assert (tmp_path / "b").stat().st_size == 3_000_000
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize("special", ["/dev/zero", "pipe"])
def test_only_regular_files_are_read(tmp_path: Path, special: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="is not a regular file"):
        read_limited(tmp_path / special, 10)
    with pytest.raises(IsADirectoryError):
        read_limited(tmp_path, 10)


def test_a_name_that_is_taken_gets_a_number(tmp_path: Path) -> None:
    for expected in ("session", "session-2", "session-3"):
        draft = draft_path(tmp_path / "session")
        draft.mkdir()
        (draft / "inside").touch()
        assert rename_to_free_name(draft, numbered_names("session")) == tmp_path / expected
        assert not draft.exists()


@pytest.mark.parametrize("number", ["true", "null", '"1"', "1.0"])
def test_a_format_that_is_no_whole_number_is_damage(number: str, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(f'{{"format": {number}}}')
    with pytest.raises(RecoveryError, match="is damaged: it has no format number"):
        read_stored(tmp_path / "report.json", TypeAdapter(dict[str, object]))


def test_walking_sees_every_file_once(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    names = [*map(str, range(2000)), "top"]
    for name in names[:-1]:
        (tmp_path / "a/b" / name).touch()
    (tmp_path / "top").touch()
    assert sorted(name for _, name in walk_files(tmp_path)) == sorted(names)
    empty_folder(tmp_path)
    assert list(tmp_path.iterdir()) == []


def copied(source: Path, target: Path) -> bytes:
    with source.open("rb") as opened, target.open("xb") as written:
        clone_or_copy(opened.fileno(), written.fileno())
    return target.read_bytes()


@pytest.mark.parametrize("changed_bytes", [0, 100, 1 << 20, (4 << 20) + 1])
def test_a_file_that_changes_its_size_while_it_is_copied_is_an_error(
    changed_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the rest of a file that was cut short would never end."""
    (tmp_path / "a").write_bytes(b"x" * (4 << 20))
    calls, sendfile = list[int](), os.sendfile

    def cut(target: int, source: int, start: int, count: int) -> int:
        os.truncate(tmp_path / "a", changed_bytes)
        calls.append(start)
        assert len(calls) < 100, "the copy does not end"
        return sendfile(target, source, start, min(count, 1 << 20))

    monkeypatch.setattr(os, "sendfile", cut)
    with pytest.raises(HostUnfitError, match="changed its size while it was copied"):
        copied(tmp_path / "a", tmp_path / "b")


def test_holes_are_neither_read_nor_copied(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate(10 << 40)
        file.seek(1 << 40)
        file.write(b"x" * 4096)
    with (tmp_path / "a").open("rb") as file, (tmp_path / "b").open("xb") as target:
        assert list(data_extents(file.fileno())) == [(1 << 40, (1 << 40) + 4096)]
        clone_or_copy(file.fileno(), target.fileno())
    assert (tmp_path / "b").stat().st_size == 10 << 40
    assert (tmp_path / "b").stat().st_blocks <= 16


def test_the_parts_of_a_file_that_becomes_shorter_end(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(100_000))
    with (tmp_path / "a").open("rb+") as file:
        extents = data_extents(file.fileno())
        file.truncate(0)
        assert list(extents) == []


# --- The files of tables


def test_tables_are_counted_in_the_folders_that_the_server_names(tmp_path: Path) -> None:
    for folder in ("discovery", "my@002ddb_1"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "t.ibd").touch()
        (tmp_path / folder / "t.frm").touch()
    assert table_files(tmp_path, Schema(1)).count() == 1
    assert table_files(tmp_path, Schema(1, database="my-db", databases=2)).count() == 1, "the second is missing"


def test_the_single_file_of_all_tables_is_beside_the_files_of_the_server(tmp_path: Path) -> None:
    general = table_files(tmp_path, Schema(1, layout=Layout.GENERAL))
    (tmp_path / "mysql.ibd").touch()
    assert general.count() == 0
    (tmp_path / "all_tables.ibd").touch()
    assert general.count() == 1
    assert not general.holds("mysql.ibd")


# --- Which files a process opens


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, ...]:
    found = tuple(tmp_path / name for name in ("one", "two"))
    for folder in found:
        folder.mkdir()
        for number in range(10):
            (folder / f"table_{number}.ibd").write_bytes(b"page")
        (folder / "db.opt").touch()
    return found


def need_fanotify(folder: Path) -> None:
    try:
        os.close(file_opens.open_fanotify(folder))
    except OSError as error:
        pytest.skip(f"no fanotify: {error}")


@pytest.fixture(params=["fanotify", "inotify"])
def means(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    def refused(_: Path) -> int:
        raise PermissionError(1, "Operation not permitted")

    if request.param == "inotify":
        monkeypatch.setattr(file_opens, "open_fanotify", refused)
    else:
        need_fanotify(tmp_path)
    return str(request.param)


def trace_tables(*folders: Path, name: str | None = None) -> OpenTrace:
    return OpenTrace(folders, TableFiles(folders, name).holds)


def open_in_child(*files: Path, read: bool = False, again_after: OpenTrace | None = None) -> int:
    """Open files in a child process, and return its process id. The first file is opened again once the trace has taken
    the events of all: until then the kernel may merge the two."""

    def open_file(file: Path) -> None:
        descriptor = os.open(file, os.O_RDONLY)
        if read:
            os.pread(descriptor, 4, 0)
        os.close(descriptor)

    def work() -> str:
        for file in files:
            open_file(file)
        if again_after is not None:
            events = select.poll()
            events.register(again_after._source.fd, select.POLLIN)
            until(lambda: not events.poll(0), "the events of all files")
            open_file(files[0])
        return ""

    with child_process(work) as child:
        return child.pid


def test_every_open_of_a_table_file_is_counted(means: str, folders: tuple[Path, ...], tmp_path: Path) -> None:
    (tmp_path / "three").mkdir()
    elsewhere = tmp_path / "three" / "table_1.ibd"
    elsewhere.touch()
    files = [folders[0] / "table_1.ibd", folders[1] / "table_1.ibd", folders[0] / "table_2.ibd"]
    began_s = time.monotonic()
    with trace_tables(*folders) as trace:
        pid = open_in_child(*files, folders[0] / "db.opt", elsewhere, again_after=trace)
        found = trace.of(pid)
    assert found.files == {"one/table_1.ibd", "one/table_2.ibd", "two/table_1.ibd"}
    assert found.count == 4
    assert found.means == means
    assert found.read == frozenset(), "opened, and nothing more"
    assert 1 <= len(found.fetched_s) <= 4
    assert all(began_s <= at_s <= time.monotonic() for at_s in found.fetched_s)


def test_files_that_are_read_are_counted_apart(means: str, folders: tuple[Path, ...]) -> None:
    with trace_tables(*folders) as trace, trace_tables(folders[0], name="table_1.ibd") as only_one:
        pid = open_in_child(folders[0] / "table_1.ibd", folders[1] / "table_2.ibd", read=True)
        found = trace.of(pid)
        later = open_in_child(folders[0] / "table_3.ibd")
        assert "one/table_3.ibd" not in trace.of(later).files, "the trace has ended"
        assert only_one.of(pid).files == {"one/table_1.ibd"}
    assert found.read == found.files == {"one/table_1.ibd", "two/table_2.ibd"}
    assert found.means == means


def test_opens_of_other_processes_are_not_counted(folders: tuple[Path, ...], tmp_path: Path) -> None:
    need_fanotify(tmp_path)
    with trace_tables(*folders) as trace:
        open_in_child(folders[0] / "table_7.ibd")
        pid = open_in_child(folders[0] / "table_8.ibd")
        assert trace.of(pid).files == {"one/table_8.ibd"}


def test_the_end_of_a_trace_fetches_what_the_kernel_has_queued(
    means: str, folders: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_opens, "_FETCH_S", 3600.0)
    files = sorted(file for folder in folders for file in folder.glob("*.ibd"))
    with trace_tables(*folders) as trace:
        found = trace.of(open_in_child(*files, read=True))
        assert len(trace._fetched) < len(files) / 2, "no thread wakes for each event"
    assert found.count == len(found.files) == len(found.read) == len(files)
    assert found.means == means


def test_events_that_the_kernel_lost_are_an_error(
    folders: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    queue = tmp_path / "max_queued_events"
    queue.write_text("16384\n")
    monkeypatch.setattr(file_opens, "_QUEUE", queue)
    source = file_opens._ByInotify(folders, TableFiles(folders).holds)
    overflow = b"\xff\xff\xff\xff" + (0x4000).to_bytes(4, "little") + bytes(8)
    try:
        with pytest.raises(HostUnfitError, match=r"more files .* \(16384\)"):
            list(source.touched(overflow))
    finally:
        source.close()


def test_events_that_could_not_be_written_are_an_error(folders: tuple[Path, ...]) -> None:
    trace = trace_tables(*folders)
    trace._spool.close()
    trace._spool = Path("/dev/full").open("wb", buffering=0)  # noqa: SIM115  # closed with the trace
    with trace:
        pid = open_in_child(folders[0] / "table_1.ibd")
        with pytest.raises(HostUnfitError, match="could not be written: No space left"):
            trace.of(pid)
