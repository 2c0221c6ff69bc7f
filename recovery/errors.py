"""The exceptions that a user sees, with a message (what went wrong) and a hint (what to do), and an escape for text
from logs and files."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


class RecoveryError(Exception):
    """Base class of all errors for the user. The command line prints message and hint and exits with `exit_code`.

    An error about one option has its name: `tables`, or a flag that has no variable, `--format`. The message begins
    with it."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "", *, option: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        self.option = option

    @property
    def message(self) -> str:
        text = str(self.args[0])
        return f"{option_names(self.option)}: {text}" if self.option else text

    def __str__(self) -> str:
        return self.message


def option_names(option: str) -> str:
    """Returns how an option is written on the command line, and as a variable: `--tables / TABLES`."""
    return option if option.startswith("--") else f"--{option.replace('_', '-')} / {option.upper()}"


def did_you_mean(typed: str, names: Sequence[str], *, otherwise: str, prefix: str = "") -> str:
    """Returns the hint that offers the nearest of the names, or `otherwise` if none is near."""
    nearest = difflib.get_close_matches(typed, names, n=1)
    return f"did you mean {prefix}{nearest[0]}?" if nearest else otherwise


class UsageError(RecoveryError):
    """The request itself is invalid; nothing was changed."""

    exit_code = 2


class OptionConflictError(UsageError):
    """The user sets an option that an experiment varies, or that must keep a certain value in it."""


class InterruptedByUserError(RecoveryError):
    """The user ended the operation; nothing went wrong."""

    exit_code = 130


class HostUnfitError(RecoveryError):
    """The request is valid, but this host cannot fulfil it: space, inodes, privileges, a missing program."""

    exit_code = 3


class StorageFailedError(HostUnfitError):
    """A disk is full, read-only or broken. The server did not cause this, and no run over that disk can continue."""

    def __init__(self, message: str, hint: str = "", *, option: str = "", log_tail: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint, option=option)
        self.log_tail = log_tail


class LimitExceededError(RecoveryError):
    """Everything was measured, and the result is slower than the allowed limit."""

    exit_code = 4


class TrialVoidError(RecoveryError):
    """The trial measured something other than what was asked. It is stored as VOID, and the session continues."""


class PausedError(TrialVoidError):
    """Something that was timed was paused, which was not requested. Resuming the session repeats the trial."""


class ServerFailedError(RecoveryError):
    """The server did not start, hung or died. The trial is stored as FAILED, with the last lines of the log."""

    def __init__(self, message: str, hint: str = "", *, option: str = "", log_tail: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint, option=option)
        self.log_tail = log_tail


class ServerKilledError(ServerFailedError):
    """The server was stopped or killed from outside, most likely by the kernel, out of memory. The trial is VOID."""


def escape_control(text: str) -> str:
    """Returns the text with each control character replaced by `?`, so that no log or file can control a terminal."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in text)
