"""Is every open told, of the right process alone, and by either means?"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import until

from recovery.errors import HostUnfitError
from recovery.linux import file_opens
from recovery.linux.file_opens import OpenTrace
from recovery.linux.files import TableFiles

OPEN = "import os, sys\nfor name in sys.argv[1:]: os.close(os.open(name, os.O_RDONLY))"
READ = "import os, sys\nfor name in sys.argv[1:]: os.pread(os.open(name, os.O_RDONLY), 4, 0)"
OPEN_AND_AGAIN = f"{OPEN}\nprint(flush=True)\nsys.stdin.readline()\nos.close(os.open(sys.argv[1], os.O_RDONLY))"


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, ...]:
    found = tuple(tmp_path / name for name in ("one", "two"))
    for folder in found:
        folder.mkdir()
        for number in range(50):
            (folder / f"table_{number}.ibd").write_bytes(b"page")
        (folder / "db.opt").touch()
    return found


@pytest.fixture(params=["fanotify", "inotify"])
def means(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    def refused(_: Path) -> int:
        raise PermissionError(1, "Operation not permitted")

    if request.param == "inotify":
        monkeypatch.setattr(file_opens, "open_fanotify", refused)
    else:
        try:
            os.close(file_opens.open_fanotify(tmp_path))
        except OSError as error:
            pytest.skip(f"no fanotify: {error}")
    return str(request.param)


def opened_by_another(*files: Path, program: str = OPEN) -> int:
    process = subprocess.Popen([sys.executable, "-c", program, *map(str, files)])
    assert process.wait(60) == 0
    return process.pid


def opened_and_again(trace: OpenTrace, *files: Path) -> int:
    """The first of them once more, after word of the others was taken: until then the kernel may merge the two."""
    process = subprocess.Popen(
        [sys.executable, "-c", OPEN_AND_AGAIN, *map(str, files)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        untold = select.poll()
        untold.register(trace._source.fd, select.POLLIN)
        until(lambda: not untold.poll(0), "word of the others")
        process.stdin.write(b"\n")
    assert process.returncode == 0
    return process.pid


def test_each_file_once_and_each_open(means: str, folders: tuple[Path, ...], tmp_path: Path) -> None:
    (tmp_path / "three").mkdir()
    elsewhere = tmp_path / "three" / "table_1.ibd"
    elsewhere.touch()
    files = [folders[0] / "table_1.ibd", folders[1] / "table_1.ibd", folders[0] / "table_2.ibd"]
    with OpenTrace(TableFiles(folders)) as trace:
        pid = opened_and_again(trace, *files, folders[0] / "db.opt", elsewhere)
        found = trace.of(pid)
    assert found.files == {"one/table_1.ibd", "one/table_2.ibd", "two/table_1.ibd"}
    assert found.count == 4
    assert found.means == means
    assert found.read == frozenset(), "opened, and nothing more"


def test_the_only_file_of_all_tables(means: str, folders: tuple[Path, ...]) -> None:
    with OpenTrace(TableFiles(folders[:1], "table_1.ibd")) as trace:
        pid = opened_by_another(folders[0] / "table_1.ibd", folders[0] / "table_2.ibd")
        assert trace.of(pid).files == {"one/table_1.ibd"}


def test_what_is_read_is_told_apart(means: str, folders: tuple[Path, ...]) -> None:
    with OpenTrace(TableFiles(folders)) as trace:
        pid = opened_by_another(folders[0] / "table_1.ibd", folders[1] / "table_2.ibd", program=READ)
        found = trace.of(pid)
    assert found.read == found.files == {"one/table_1.ibd", "two/table_2.ibd"}
    assert found.means == means


def test_what_others_open_does_not_count(folders: tuple[Path, ...], tmp_path: Path) -> None:
    try:
        os.close(file_opens.open_fanotify(tmp_path))
    except OSError as error:
        pytest.skip(f"no fanotify: {error}")
    with OpenTrace(TableFiles(folders)) as trace:
        opened_by_another(folders[0] / "table_7.ibd")
        pid = opened_by_another(folders[0] / "table_8.ibd")
        assert trace.of(pid).files == {"one/table_8.ibd"}


def test_what_comes_later_does_not_count(means: str, folders: tuple[Path, ...]) -> None:
    with OpenTrace(TableFiles(folders)) as trace:
        trace.stop()
        pid = opened_by_another(folders[0] / "table_1.ibd")
        assert trace.of(pid).files == frozenset()


def test_more_than_the_kernel_keeps_word_of(
    folders: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is lost is told, and never taken for nothing."""
    queue = tmp_path / "max_queued_events"
    queue.write_text("16384\n")
    monkeypatch.setattr(file_opens, "_QUEUE", queue)
    source = file_opens._ByInotify(TableFiles(folders))
    overflow = b"\xff\xff\xff\xff" + (0x4000).to_bytes(4, "little") + bytes(8)
    try:
        with pytest.raises(HostUnfitError, match=r"more files .* \(16384\)"):
            list(source.touched(overflow))
    finally:
        source.close()


def test_a_count_with_holes_is_none(folders: tuple[Path, ...]) -> None:
    """The disk under the temporary folder is full, say."""
    trace = OpenTrace(TableFiles(folders))
    trace._spool.close()
    trace._spool = Path("/dev/full").open("wb", buffering=0)  # noqa: SIM115  # closed with the trace
    with trace:
        pid = opened_by_another(folders[0] / "table_1.ibd")
        with pytest.raises(HostUnfitError, match="could not be written: No space left"):
            trace.of(pid)
