"""Storage that fails during a session: small filesystems, and the faults that tests cause in them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from recovery.linux import loop_device
from recovery.linux.loop_device import LoopDisk, image_path

INODES = 1700
"""Few, so that tests exhaust them quickly; a session with few tables needs somewhat more than a thousand."""


class Disk:
    """An ext4 that becomes read-only at its first error, as many hosts have it."""

    def __init__(self, place: Path, size_bytes: int) -> None:
        self.place = place
        image = image_path(place)
        with image.open("wb") as file:
            file.truncate(size_bytes)
        made = ("mkfs.ext4", "-q", "-F", "-m", "0", "-N", str(INODES), "-e", "remount-ro", str(image))
        subprocess.run(made, check=True)
        self.loop = LoopDisk(image, place)
        self.loop.mount()

    @property
    def _device(self) -> str:
        asked = ("findmnt", "-no", "SOURCE", str(self.place))
        return Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()).name

    @contextmanager
    def full(self) -> Iterator[None]:
        """Fills the disk and keeps it full: space that a server frees is used at once."""
        over = threading.Event()
        with self.loop.opened() as folder:
            file = os.open("filler", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600, dir_fd=folder)

            def fill() -> None:
                while not over.wait(0.002):
                    _grow(file)

            _grow(file)
            thread = threading.Thread(target=fill)
            thread.start()
            try:
                yield
            finally:
                over.set()
                thread.join()
                os.close(file)
                os.unlink("filler", dir_fd=folder)

    @contextmanager
    def without_inodes(self) -> Iterator[None]:
        self.loop.check_mounted()
        folder = self.place / "many"
        folder.mkdir()
        try:
            with _until_refused():
                for number in range(10 * INODES):
                    (folder / str(number)).touch()
            yield
        finally:
            shutil.rmtree(folder)

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Makes the disk read-only, as after an error that the kernel finds."""
        self.loop.check_mounted()
        Path(f"/sys/fs/ext4/{self._device}/trigger_fs_error").write_text("a test", encoding="ascii")
        try:
            yield
        finally:
            self.loop.replug()

    @contextmanager
    def dead(self) -> Iterator[None]:
        self.loop.lose_power()
        try:
            yield
        finally:
            self.loop.replug()


@contextmanager
def small_disk(place: Path, size_bytes: int) -> Iterator[Disk]:
    """Yield a disk that only the caller and the processes it starts see."""
    with loop_device.private_mount_namespace():
        try:
            yield Disk(place, size_bytes)
        finally:
            loop_device.remove_loop_disk(place)


@contextmanager
def immutable(folder: Path) -> Iterator[None]:
    """Makes a folder immutable, even for root."""
    subprocess.run(("chattr", "+i", str(folder)), check=True)
    try:
        yield
    finally:
        subprocess.run(("chattr", "-i", str(folder)), check=True)


@dataclass(frozen=True)
class Ended:
    code: int
    said: str
    """On standard error."""

    @property
    def error(self) -> str:
        """Returns the line that says what happened and the one that says what to do; there must be one of each."""
        lines = [line for line in self.said.splitlines() if line.startswith(("error:", "hint:"))]
        assert [line.partition(":")[0] for line in lines] == ["error", "hint"], self.said
        assert "Traceback" not in self.said
        return "\n".join(lines)


@contextmanager
def failing(arguments: list[str], fault: Callable[[], AbstractContextManager[None]], *, once: str) -> Iterator[Ended]:
    """Runs the command; the fault begins at the first line with the words `once` and ends with the context."""
    command = [sys.executable, "-m", "recovery", *arguments]
    with (
        ExitStack() as faults,
        subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as program,
    ):
        assert program.stderr is not None
        said, begun = [], False
        for line in program.stderr:
            said.append(line)
            if not begun and once in line:
                begun = True
                faults.enter_context(fault())
        code = program.wait()
        assert begun, "".join(said)
        yield Ended(code, "".join(said))


def _grow(file: int) -> None:
    size = 64 << 20
    while size >= 4096:
        try:
            os.posix_fallocate(file, os.fstat(file).st_size, size)
        except OSError:
            size //= 2


@contextmanager
def _until_refused() -> Iterator[None]:
    try:
        yield
    except OSError:
        return
    raise AssertionError("there is no end of inodes")
