"""The command line: arguments to calls to an exit code. The one place that prints errors and ends the process."""

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
from recovery.cli import measure, report
from recovery.cli.analyze import analyze
from recovery.cli.bundle import bundle
from recovery.cli.compare import compare_command
from recovery.cli.doctor import doctor
from recovery.cli.images import images
from recovery.cli.measure import run_command
from recovery.cli.options import (
    CONFIG,
    FROM_ENVIRONMENT,
    PREFIX,
    load_config,
    refuse_empty_and_unknown,
    refuse_empty_words,
)
from recovery.cli.report import tell
from recovery.cli.status import status
from recovery.cli.suite import experiments
from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.linux.privileges import NO_STEPS, Steps, parse_steps, refusing
from recovery.linux.signals import change_nothing_any_more, count_continuing, end_like_an_interrupt
from recovery.report.format import printable

# Is somebody's name or password in an address? It would be in every report, and in a lock that all users read.

_WITH_A_USER = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#@\s]*@", re.IGNORECASE)


def refuse_credentials(environment: Mapping[str, str], arguments: Sequence[str], config: Mapping[str, object]) -> None:
    """Before anything is told of what was asked. What was found is not repeated."""
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


INTERRUPTED = 130
_STANDARD_ERROR = 2
LOG_LINES = 10
_MOST_LETTERS = 2000
"""Of a line of an error."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(recovery.__version__, prog_name="recovery")
def cli() -> None:
    """How long does this MySQL server take to come back after a crash, on this storage, in this version, and why?"""


for command in (
    *measure.commands(),
    experiments,
    run_command,
    status,
    *report.COMMANDS,
    doctor,
    bundle,
    compare_command,
    analyze,
    images,
):
    cli.add_command(command)


def main() -> NoReturn:
    _open_what_is_closed()
    end_like_an_interrupt()
    count_continuing()
    _keep_others_from_writing()
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # one more, while the first was being told
        code = INTERRUPTED
    change_nothing_any_more()
    sys.exit(code)


def _open_what_is_closed() -> None:
    """By the caller (`>&-`): what is opened next would be taken for our output, by us and by every child."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STANDARD_ERROR:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until we end


def _keep_others_from_writing() -> None:
    """What is stored is believed later, and may name the server that is run then. A group is the caller's to choose."""
    os.umask(os.umask(stat.S_IRWXG | stat.S_IRWXO) | stat.S_IWOTH)


def run(arguments: list[str]) -> int:
    """Every error a user can cause ends here, as one line of what and one of what to do."""
    try:
        refuse_empty_and_unknown(os.environ)
        refuse_empty_words(arguments)
        config = load_config()
        refuse_credentials(os.environ, arguments, config)
        _tell_caller_of_make(arguments)
        with refusing(_refused_anyway(arguments, config)):
            result = cli.main(arguments, prog_name="recovery", standalone_mode=False, default_map=_defaults(config))
        return result if isinstance(result, int) else 0
    except (RecoveryError, click.ClickException, click.Abort, OSError, KeyboardInterrupt) as error:
        return _explain(error)


def _refused_anyway(arguments: list[str], config: Mapping[str, Any]) -> Steps:
    """What environment or file say holds for commands that have no such option, too."""
    command = cli.commands.get(arguments[0]) if arguments else None
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
    """Of our output: nothing is wrong, and nothing more can be said there."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def measuring_commands() -> tuple[str, ...]:
    return tuple(command.name for command in (*measure.commands(), experiments) if command.name)


def _tell_caller_of_make(arguments: list[str]) -> None:
    """A target shows the command that it runs. The measuring ones do it themselves, with every setting resolved."""
    if "MAKELEVEL" in os.environ and arguments and arguments[0] not in measuring_commands():
        given = [f"{name}={shlex.quote(value)}" for name, value in sorted(os.environ.items()) if _is_setting(name)]
        tell("$ " + " ".join([*given, "recovery", shlex.join(arguments)]), err=True)


def _is_setting(name: str) -> bool:
    return name.startswith(PREFIX) and name.removeprefix(PREFIX) in FROM_ENVIRONMENT


def _defaults(config: dict[str, Any]) -> dict[str, object]:
    """Every command, and every command of a group, takes of the file what it has an option for."""
    return {
        name: config | (dict.fromkeys(command.commands, config) if isinstance(command, click.Group) else {})
        for name, command in cli.commands.items()
    }


def _line(text: str) -> str:
    text = printable(text)
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}..."


def _complain(message: str, hint: str, *, log_tail: Sequence[str] = ()) -> None:
    """A line each, whatever was typed or read: a line end in it, or a sign that a terminal obeys, is none of ours."""
    with suppress(OSError):  # nobody reads it any more: the exit code is still ours
        click.echo(f"error: {_line(message)}", err=True)
        for line in [line for line in log_tail if line.strip()][-LOG_LINES:]:
            click.echo(f"  log: {_line(line)}", err=True)
        if hint:
            click.echo(f"hint:  {_line(hint)}", err=True)
