"""Runs the `recovery` command line: checks the settings, calls the command and determines the exit code.

This is the only place that prints errors and ends the process."""

from __future__ import annotations

import os
import re
import shlex
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import click

import recovery
from recovery.cli.commands import MEASURING, Commands
from recovery.cli.options import FROM_ENVIRONMENT, PREFIX
from recovery.cli.output import tell
from recovery.cli.settings import CONFIG, load_config, refuse_empty_and_unknown, refuse_empty_words
from recovery.errors import HostUnfitError, RecoveryError, UsageError, escape_control
from recovery.linux.privileges import NO_STEPS, Steps, parse_steps, refuse_steps
from recovery.linux.signals import count_resumes, ignore_signals, raise_interrupt_on_signals

# --- User names and passwords in addresses: they would appear in every report, and in a lock that all users can read

_WITH_A_USER = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#@\s]*@", re.IGNORECASE)


def refuse_credentials(environment: Mapping[str, str], arguments: Sequence[str], config: Mapping[str, object]) -> None:
    """Raises UsageError if a variable, an argument or a setting contains an address with a user name.

    The check comes before any of them is printed, and the error does not repeat the value."""
    for name, value in _given(environment, arguments, config):
        if _WITH_A_USER.search(value):
            raise UsageError(
                f"{name} has a user in its address, who would be named in every report",
                "leave name and password out: fetch the file yourself and give its path, or name a mirror that asks "
                "for none",
            )


def _given(
    environment: Mapping[str, str], arguments: Sequence[str], config: Mapping[str, object]
) -> Iterator[tuple[str, str]]:
    yield from (
        (name.removeprefix(PREFIX), value) for name, value in sorted(environment.items()) if name.startswith(PREFIX)
    )
    for option, word in pairwise(("", *arguments)):
        name, equals, value = word.partition("=")
        yield (name, value) if name.startswith("--") and equals else (option or "an argument", word)
    for name, stored in config.items():
        for one in stored if isinstance(stored, tuple) else (stored,):
            yield f"'{name}' in {CONFIG}", str(one)


# --- The entry point and its errors

INTERRUPTED = 130
_STANDARD_ERROR = 2
LOG_LINES = 10
_MOST_LETTERS = 2000
"""Maximum length of a line of an error message, in characters."""


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(recovery.__version__, prog_name="recovery")
def cli() -> None:
    """How long does this MySQL server take to come back after a crash, on this storage, in this version, and why?"""


def main() -> NoReturn:
    _open_what_is_closed()
    raise_interrupt_on_signals()
    count_resumes()
    _keep_others_from_writing()
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # a second one, while the first was being reported
        code = INTERRUPTED
    ignore_signals()
    sys.exit(code)


def _open_what_is_closed() -> None:
    """Opens /dev/null in place of each standard stream that the caller has closed (`>&-`).

    Otherwise the next file to be opened would get its number, and this process and its children would write to it."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STANDARD_ERROR:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until we end


def _keep_others_from_writing() -> None:
    """Sets the umask so that other users cannot write to new files.

    Stored files are trusted later, and may name the server to run. The caller's umask decides about the group."""
    os.umask(os.umask(stat.S_IRWXG | stat.S_IRWXO) | stat.S_IWOTH)


def run(arguments: list[str]) -> int:
    """Runs the command that the arguments name, and returns the exit code.

    Every error that a user can cause is caught here, and printed as two lines: what is wrong, and what to do."""
    try:
        refuse_empty_and_unknown(os.environ)
        refuse_empty_words(arguments)
        config = load_config()
        refuse_credentials(os.environ, arguments, config)
        _tell_caller_of_make(arguments)
        command = _named(arguments)
        with refuse_steps(_refused_anyway(command, config)):
            defaults = _defaults(command, config)
            result = cli.main(arguments, prog_name="recovery", standalone_mode=False, default_map=defaults)
        return result if isinstance(result, int) else 0
    except (RecoveryError, click.ClickException, click.Abort, OSError, KeyboardInterrupt) as error:
        return _explain(error)


def _named(arguments: list[str]) -> click.Command | None:
    return cli.get_command(click.Context(cli), arguments[0]) if arguments else None


def _refused_anyway(command: click.Command | None, config: Mapping[str, Any]) -> Steps:
    """Returns the root steps that the environment or recovery.toml refuses, if the command has no option for that."""
    if command is not None and any(one.name == "no_root_steps" for one in command.params):
        return NO_STEPS
    return parse_steps(os.environ.get(f"{PREFIX}NO_ROOT_STEPS") or config.get("no_root_steps"))


def _explain(error: BaseException) -> int:
    code = INTERRUPTED
    match error:
        case RecoveryError():
            _complain(error.message, error.hint, log_tail=getattr(error, "log_tail", ()))
            code = error.exit_code
        case click.exceptions.NoArgsIsHelpError():
            click.echo(error.format_message())
            code = UsageError.exit_code
        case click.ClickException():
            _complain(error.format_message(), "recovery --help, or recovery COMMAND --help")
            code = UsageError.exit_code
        case BrokenPipeError():
            code = _reader_has_gone()
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            _complain(f"{where}{error.strerror or error}", "see space, permissions and limits; `recovery doctor` helps")
            code = HostUnfitError.exit_code
        case _:
            _complain("interrupted", "what was finished is kept, and no server was left running")
    return code


def _reader_has_gone() -> int:
    """Redirects standard output to /dev/null after its reader has closed the pipe, and returns 0.

    This is not an error, but nothing more can be written there."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _tell_caller_of_make(arguments: list[str]) -> None:
    """Prints the command that a make target runs.

    The measuring commands are left out: they print themselves, with every setting resolved."""
    if "MAKELEVEL" in os.environ and arguments and arguments[0] not in MEASURING:
        given = [f"{name}={shlex.quote(value)}" for name, value in sorted(os.environ.items()) if _is_setting(name)]
        tell("$ " + " ".join([*given, "recovery", shlex.join(arguments)]), err=True)


def _is_setting(name: str) -> bool:
    return name.startswith(PREFIX) and name.removeprefix(PREFIX) in FROM_ENVIRONMENT


def _defaults(command: click.Command | None, config: dict[str, Any]) -> dict[str, object]:
    """Returns the values of recovery.toml in the form of click's default_map, also for each command of a group."""
    if command is None:
        return {}
    return {str(command.name): config | dict.fromkeys(getattr(command, "commands", ()), config)}


def _line(text: str) -> str:
    text = escape_control(" ".join(text.split()))
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}..."


def _complain(message: str, hint: str, *, log_tail: Sequence[str] = ()) -> None:
    """Prints the error, the end of the server's log if there is one, and the hint.

    Each text stays on its line: line ends and control characters in it, which come from what was typed or read, do not
    reach the terminal."""
    with suppress(OSError):  # if nobody reads standard error any more, the exit code still matters
        click.echo(f"error: {_line(message)}", err=True)
        for line in [line for line in log_tail if line.strip()][-LOG_LINES:]:
            click.echo(f"  log: {_line(line)}", err=True)
        if hint:
            click.echo(f"hint:  {_line(hint)}", err=True)
