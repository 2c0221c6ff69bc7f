"""Prints lines whose text may come from outside the tool, and writes JSON where `--json` says."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recovery.cli.values import absolute_path
from recovery.errors import LimitExceededError, RecoveryError, UsageError, escape_control

if TYPE_CHECKING:
    from rich.text import Text

    from recovery.analysis.compare import LimitResult

STANDARD_OUTPUT = "-"


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
    if target in (None, STANDARD_OUTPUT):
        return target
    path = absolute_path(target)
    _refuse_foreign_link(path)
    needed = [path] if path.exists() or not _is_replaced(path) else []
    needed += [path.resolve().parent] if _is_replaced(path) else []
    if path.is_dir() or not all(os.access(folder, os.W_OK) for folder in needed):
        raise UsageError(f"--json={target} cannot be written", "name a file that you may write, in an existing folder")
    return target


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
    from recovery.linux.files import write_atomically

    path = absolute_path(target)
    _refuse_foreign_link(path)
    try:
        if append:
            with path.open("ab") as file:
                file.write(data)
        elif _is_replaced(path):
            write_atomically(path.resolve(), data)
        else:
            path.write_bytes(data)
    except OSError as error:
        raise RecoveryError(
            f"{target} cannot be written: {error.strerror or error}",
            "name another file; a session that was measured is stored all the same",
        ) from error
    return False


def remove_json(target: str | None) -> None:
    """Removes the file that `write_json` has written. A device, a pipe or an open file stays."""
    if target not in (None, STANDARD_OUTPUT) and _is_replaced(path := absolute_path(target)):
        with suppress(OSError):
            path.resolve().unlink()


def _refuse_foreign_link(path: Path) -> None:
    """Raises UsageError if a link on the way to the file belongs to another user, who could have any file of this user
    replaced."""
    from recovery.linux.files import foreign_link

    if (link := foreign_link(path)) is not None:
        raise UsageError(f"{link} is a link of another user, and is not followed", "name another file")


def _is_replaced(path: Path) -> bool:
    """Returns whether a new file takes the place of this one: not of a device, a pipe or an open file (/dev/stdout)."""
    return path.parts[1:2] not in (("dev",), ("proc",)) and (path.is_file() or not path.exists())
