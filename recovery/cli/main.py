"""Runs the `recovery` command line: checks the settings, calls the command and determines the exit code.

This is the only place that prints errors and ends the process."""

from __future__ import annotations

import io
import os
import shlex
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, redirect_stderr, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import click

import recovery
from recovery.cli.commands import MEASURING_COMMANDS, RecoveryGroup
from recovery.cli.completion import COMPLETE_VARIABLE
from recovery.cli.options import BY_NAME, OPTIONS, PREFIX, SETTING_NAMES, option_of
from recovery.cli.output import print_line
from recovery.cli.settings import (
    CONFIG_FILE,
    load_config,
    refuse_address_with_user,
    refuse_empty_and_unknown,
    refuse_empty_words,
    unused_by_make,
    words_of_make,
)
from recovery.errors import (
    HostUnfitError,
    InterruptedByUserError,
    RecoveryError,
    UsageError,
    escape_control,
    option_names,
)
from recovery.linux.privileges import refuse_steps, refused_steps
from recovery.linux.signals import (
    count_resumes,
    ignore_signals,
    raise_interrupt_on_signals,
    repeat_lost_interrupts,
)


def refuse_credentials(environment: Mapping[str, str], arguments: Sequence[str], config: Mapping[str, object]) -> None:
    """Raises UsageError if a variable, an argument or a setting contains an address with a user name.

    The check comes before any of them is printed."""
    for name, value in _all_values(environment, arguments, config):
        refuse_address_with_user(name, value)


def _all_values(
    environment: Mapping[str, str], arguments: Sequence[str], config: Mapping[str, object]
) -> Iterator[tuple[str, str]]:
    yield from (
        (name.removeprefix(PREFIX), value) for name, value in sorted(environment.items()) if name.startswith(PREFIX)
    )
    for option, word in pairwise(("", *arguments)):
        name, equals, value = word.partition("=")
        yield (name, value) if name.startswith("--") and equals else (option or "an argument", word)
    for name, stored in config.items():
        for part in stored if isinstance(stored, tuple) else (stored,):
            yield f"'{name}' in {CONFIG_FILE}", str(part)


# --- The entry point and its errors

_STDERR_FD = 2
LOG_LINES = 10
_MOST_SIZE_DIGITS = 5
_FLAGS = {option.flag for option in OPTIONS}
_MAX_LINE_LENGTH = 2000
"""Maximum length of a line of an error message, in characters."""


_BEGIN = "Begin with `recovery doctor` and `recovery cold-recovery --tables 20k`. Options: `recovery COMMAND --help`."


def _print_version(context: click.Context, _: click.Parameter, value: bool) -> None:
    if not value or context.resilient_parsing:
        return
    from recovery.linux.files import tool_commit

    commit = tool_commit()
    print_line(f"recovery, version {recovery.__version__}{f' (commit {commit})' if commit else ''}")
    context.exit()


@click.group(cls=RecoveryGroup, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_BEGIN)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version,
    help="Show the version, with the commit if it is known, and exit.",
)  # fmt: skip
def cli() -> None:
    """How long does this MySQL server take to come back after a crash, on this storage, in this version, and why?"""


def main() -> NoReturn:
    _open_closed_standard_streams()
    _unset_invalid_size()
    if COMPLETE_VARIABLE in os.environ:
        _complete_words()
    raise_interrupt_on_signals()
    repeat_lost_interrupts()
    count_resumes()
    _restrict_umask()
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # a second one, while the first was being reported
        code = InterruptedByUserError.exit_code
    ignore_signals()
    sys.exit(code)


def _complete_words() -> NoReturn:
    """Prints the completions of a half-typed command line, and ends the process. The user must see no error."""
    with suppress(Exception), redirect_stderr(io.StringIO()):
        defaults = dict.fromkeys(cli.list_commands(click.Context(cli)), load_config())
        cli.main([], prog_name="recovery", complete_var=COMPLETE_VARIABLE, default_map=defaults)
    sys.exit(1)


def _open_closed_standard_streams() -> None:
    """Opens /dev/null in place of each standard stream that the caller has closed (`>&-`).

    Otherwise the next file to be opened would get its number, and this process and its children would write to it."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STDERR_FD:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until this process ends


def _unset_invalid_size() -> None:
    """Unsets COLUMNS and LINES where they are no number that Python reads, or that no terminal has: the library of the
    tables takes what other languages call a digit, such as a superscript, and fails."""
    for name in ("COLUMNS", "LINES"):
        if name in os.environ and not (os.environ[name].isdecimal() and len(os.environ[name]) <= _MOST_SIZE_DIGITS):
            del os.environ[name]


def _restrict_umask() -> None:
    """Sets the umask so that other users cannot write to new files.

    Stored files are trusted later, and may name the server to run. The caller's umask decides about the group."""
    os.umask(os.umask(stat.S_IRWXG | stat.S_IRWXO) | stat.S_IWOTH)


def run(arguments: list[str]) -> int:
    """Runs the command that the arguments name, and returns the exit code.

    Every error that a user can cause is caught here, and printed as two lines: what is wrong, and what to do."""
    try:
        arguments = [*arguments, *words_of_make(os.environ)]
        command = _find_command(arguments)
        with getattr(command, "words_checked", nullcontext)(arguments):
            refuse_empty_and_unknown(os.environ)
            refuse_empty_words(arguments)
            config = load_config()
            refuse_credentials(os.environ, arguments, config)
        _print_make_command(arguments)
        with refuse_steps(refused_steps(unprivileged=_is_unprivileged(config))):
            defaults = _default_map(command, config)
            result = _invoke(arguments, defaults)
            sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except (RecoveryError, click.ClickException, click.Abort, OSError, KeyboardInterrupt) as error:
        return _report_error(error, arguments)


def _invoke(arguments: list[str], defaults: dict[str, object]) -> object:
    """Runs the command as click's own `main` does, which would turn a closed pipe into the exit code 1."""
    try:
        with cli.make_context("recovery", list(arguments), default_map=defaults) as context:
            return cli.invoke(context)
    except click.exceptions.Exit as end:  # --help
        return end.exit_code


def _find_command(arguments: list[str]) -> click.Command | None:
    return cli.get_command(click.Context(cli), arguments[0]) if arguments else None


def _is_unprivileged(config: Mapping[str, Any]) -> bool:
    """Returns whether the environment, or else recovery.toml, refuses the steps that need root. That applies to every
    command, also to those without the option."""
    value = os.environ.get(BY_NAME["unprivileged"].variable, config.get("unprivileged", False))
    try:
        return bool(click.BOOL.convert(value, None, None))
    except click.BadParameter as error:
        raise UsageError(f"{value} is not valid", "give 1 or 0", option="unprivileged") from error


def _report_error(error: BaseException, arguments: Sequence[str]) -> int:
    code = InterruptedByUserError.exit_code
    match error:
        case RecoveryError():
            _print_error(error.message, error.hint, log_tail=getattr(error, "log_tail", ()))
            code = error.exit_code
        case click.exceptions.NoArgsIsHelpError():
            click.echo(error.format_message())
            code = UsageError.exit_code
        case click.NoSuchOption():
            path = _command_path(error, arguments)
            near = () if error.option_name in _FLAGS else error.possibilities  # not of another command's option
            hint = f"did you mean {near[0]}?" if near else f"`{path} --help` lists its options"
            _print_error(f"{path} has no option {error.option_name}", hint)
            code = UsageError.exit_code
        case click.ClickException():
            option = option_of(error.param) if isinstance(error, click.BadParameter) else ""
            text = f"{option_names(option)}: {error.message}" if option else error.format_message()
            _print_error(text, f"see `{_command_path(error, arguments)} --help`")
            code = UsageError.exit_code
        case BrokenPipeError():
            code = _handle_closed_pipe()
        case FileNotFoundError() if not error.filename and _is_working_directory_gone():
            _print_error("the working directory was removed", "change to a folder that exists (`cd`), and try again")
            code = HostUnfitError.exit_code
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            _print_error(
                f"{where}{error.strerror or error}", "check space, permissions and limits; `recovery doctor` helps"
            )
            code = HostUnfitError.exit_code
        case _:
            _print_error("interrupted", "runs that have ended are stored, and no server was left running")
    return code


def _is_working_directory_gone() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _command_path(error: click.ClickException, arguments: Sequence[str]) -> str:
    if (context := getattr(error, "ctx", None)) is not None:
        path: str = context.command_path
        return path
    words = [word for word in arguments[:1] if not word.startswith("-")]  # click names no command in some errors
    return " ".join(["recovery", *words])


def _handle_closed_pipe() -> int:
    """Redirects standard output to /dev/null after its reader has closed the pipe, and returns 0.

    This is not an error, but nothing more can be written there."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _print_make_command(arguments: list[str]) -> None:
    """Prints the command that a make target runs.

    The measuring commands are left out: they print themselves, with every setting resolved."""
    if "MAKELEVEL" not in os.environ or not arguments:
        return
    if arguments[0] in MEASURING_COMMANDS:
        for note in unused_by_make(os.environ):
            print_line(f"note: {note}", err=True)
    else:
        given = [f"{name}={shlex.quote(value)}" for name, value in sorted(os.environ.items()) if _is_setting(name)]
        print_line("$ " + " ".join([*given, "recovery", shlex.join(arguments)]), err=True)


def _is_setting(name: str) -> bool:
    return name.startswith(PREFIX) and name.removeprefix(PREFIX) in SETTING_NAMES


def _default_map(command: click.Command | None, config: dict[str, Any]) -> dict[str, object]:
    """Returns the values of recovery.toml in the form of click's default_map, also for each command of a group."""
    if command is None:
        return {}
    return {str(command.name): config | dict.fromkeys(getattr(command, "commands", ()), config)}


def _single_line(text: str) -> str:
    text = escape_control(" ".join(text.split()))
    return text if len(text) <= _MAX_LINE_LENGTH else f"{text[:_MAX_LINE_LENGTH]}..."


def _print_error(message: str, hint: str, *, log_tail: Sequence[str] = ()) -> None:
    """Prints the error, the end of the server's log if there is one, and the hint.

    Each text stays on its line: line ends and control characters in it, which come from what was typed or read, do not
    reach the terminal."""
    with suppress(OSError):  # if nobody reads standard error any more, the exit code still matters
        click.echo(f"error: {_single_line(message)}", err=True)
        for line in [line for line in log_tail if line.strip()][-LOG_LINES:]:
            click.echo(f"  log: {_single_line(line)}", err=True)
        if hint:
            click.echo(f"hint:  {_single_line(hint)}", err=True)
