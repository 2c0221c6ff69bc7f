"""Prints lines and tables whose text may come from outside the tool, and writes JSON where `--json` says."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recovery.cli.values import absolute_path
from recovery.errors import LimitExceededError, RecoveryError, UsageError, escape_control

if TYPE_CHECKING:
    from rich.table import Table as Grid
    from rich.text import Text

    from recovery.analysis.compare import LimitResult
    from recovery.report.console import ReportConsole

STANDARD_OUTPUT = "-"
_STANDARD_FILES = ("/dev/stdin", "/dev/stdout", "/dev/stderr")
_STREAM_FLAGS = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NAME_A_FILE = "name another file, in an existing folder that only you may write to"


def duration_words(value: float) -> str:
    if value < 99.5:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.1f} hours"


def print_line(line: str, *, err: bool = False) -> None:
    """Prints one line, with each control character replaced by `?`."""
    click.echo(escape_control(line), err=err)


def refuse_over(result: LimitResult, hint: str, where: str = "") -> None:
    """Raises LimitExceededError if a limit is exceeded; otherwise prints of which cells that is not known."""
    if result.exceeded:
        raise LimitExceededError(f"{where}{'; '.join(result.exceeded)}", hint)
    for text in result.undecided:
        print_line(f"--fail-over: {where}{text}", err=True)


def escaped_text(text: str) -> Text:
    """Returns the text with each control character replaced by `?`, as a rich text that is not parsed as markup."""
    from rich.text import Text

    return Text(escape_control(text))


def check_json_target(target: str | None) -> str | None:
    """Returns the target. Raises UsageError, before hours of measuring, if JSON could not be written to this file."""
    check_output("--json", target)
    return target


def check_output(option: str, target: str | None) -> None:
    """Raises UsageError if nothing could be written to the file that the option names."""
    if target in (None, STANDARD_OUTPUT):
        return
    from recovery.linux.files import find_replaceable, open_folder

    path = absolute_path(target)
    try:
        if (number := _open_file_of(path)) is not None:
            os.fstat(number)
            return
        with open_folder(path.parent) as folder:
            about = find_replaceable(folder, path)
            is_replaced = about is None or stat.S_ISREG(about.st_mode)
            if about is not None and not is_replaced:
                _refuse_no_stream(about, path)
            needed = [path.name] * (about is not None) + ["."] * is_replaced
            if not all(os.access(name, os.W_OK, dir_fd=folder) for name in needed):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise UsageError(f"{option}={target} cannot be written: {error.strerror or error}", _NAME_A_FILE) from error


def write_json(target: str | None, content: str | Any, *, append: bool = False) -> bool:
    """Writes a JSON text, or a value as JSON, to the file, or to standard output if `target` is `-`. With `append`, the
    file keeps what it has.

    Returns whether it went to standard output, where nothing else may be printed then. Without a target, does nothing.
    """
    if target is None:
        return False
    text = content if isinstance(content, str) else json.dumps(content, indent=2) + "\n"
    data = text.encode("utf-8", errors="replace")  # a file's name may not be valid UTF-8
    if target == STANDARD_OUTPUT:
        sys.stdout.write(data.decode("utf-8"))
        sys.stdout.flush()
        return True
    try:
        _write(absolute_path(target), data, append=append)
    except OSError as error:
        raise RecoveryError(
            f"{target} cannot be written: {error.strerror or error}",
            f"{_NAME_A_FILE}; a session that was measured is stored all the same",
        ) from error
    return False


def _write(path: Path, data: bytes, *, append: bool) -> None:
    """Replaces the file, or appends to it; a pipe, a device or an open file (/dev/stdout) is written to."""
    from recovery.linux.files import find_replaceable, open_folder, replace_in

    if (number := _open_file_of(path)) is not None:
        sys.stdout.flush()  # or what was printed before would follow
        with open(number, "wb", closefd=False) as file:
            file.write(data)
        return
    with open_folder(path.parent) as folder:
        about = find_replaceable(folder, path)
        if append and about is not None and stat.S_ISREG(about.st_mode):
            _append(folder, path, data)
        elif about is None or stat.S_ISREG(about.st_mode):
            replace_in(folder, path, data)
        else:
            _refuse_no_stream(about, path)
            _write_stream(folder, path, data)


def _append(folder: int, path: Path, data: bytes) -> None:
    opened = os.open(path.name, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(opened, "ab") as file:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise OSError(errno.EINVAL, f"{path} is no file any more")
        file.write(data)


def _write_stream(folder: int, path: Path, data: bytes) -> None:
    """Writes to a pipe or a device. Raises OSError if nobody reads the pipe, where opening it would wait for ever."""
    try:
        opened = os.open(path.name, _STREAM_FLAGS, dir_fd=folder)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        raise OSError(errno.ENXIO, f"nobody reads {path}: start its reader first") from error
    with os.fdopen(opened, "wb") as file:
        _refuse_no_stream(os.fstat(opened), path)
        os.set_blocking(opened, True)
        file.write(data)


def _refuse_no_stream(about: os.stat_result, path: Path) -> None:
    if not (stat.S_ISFIFO(about.st_mode) or stat.S_ISCHR(about.st_mode)):
        raise OSError(errno.EINVAL, f"{path} is not a file, a pipe or a terminal")


def remove_json(target: str | None) -> None:
    """Removes the file that `write_json` has written. A link, a device, a pipe or an open file stays."""
    from recovery.linux.files import find_replaceable, open_folder

    if target in (None, STANDARD_OUTPUT) or _open_file_of(path := absolute_path(target)) is not None:
        return
    with suppress(OSError), open_folder(path.parent) as folder:
        about = find_replaceable(folder, path)
        if about is not None and stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid():
            os.unlink(path.name, dir_fd=folder)


def _open_file_of(path: Path) -> int | None:
    """Returns the number of the open file that a path such as /dev/stdout names. Opening it by its path would empty a
    file that standard output goes to."""
    if (name := str(path)) in _STANDARD_FILES:
        return _STANDARD_FILES.index(name)
    found = re.fullmatch(rf"(?:/dev/fd|/proc/(?:self|{os.getpid()})/fd)/([0-9]{{1,9}})", name)
    return None if found is None else int(found[1])


# --- Lists

LIST_FORMAT = 1
"""Format of the JSON of lists."""


def make_grid(*headers: str) -> Grid:
    from rich.table import Table as Grid

    grid = Grid(box=None, pad_edge=False, show_edge=False, header_style="bold")
    for header in headers:
        grid.add_column(header, justify="right" if header == "size" else "left", overflow="fold")
    return grid


def wide_console() -> ReportConsole:
    """Returns a console as wide as the terminal. In a pipe it has 250 columns, so that each row is one line."""
    from recovery.report.console import ReportConsole

    return ReportConsole(width=None if sys.stdout.isatty() else 250)


def size_text(count: int | None) -> str:
    return "-" if count is None else f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"


def refuse_json_before_subcommand(context: click.Context, json_to: str | None) -> None:
    if json_to is not None:
        what = f"recovery {context.info_name} {context.invoked_subcommand}"
        raise UsageError(
            f"--json has no effect before {context.invoked_subcommand}", f"`{what} --help` has its options"
        )
