"""What went wrong, in one line, and what to do about it, in another: the only errors a user is shown."""

from __future__ import annotations


class RecoveryError(Exception):
    """One line of what, one of what to do. The command line prints both and exits with `exit_code`."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(RecoveryError):
    """The request itself is wrong: nothing was touched."""

    exit_code = 2


class ClashError(UsageError):
    """What the user sets is what an experiment varies, or needs as it is."""


class EndedOnRequestError(RecoveryError):
    """Nothing went wrong: whoever began it has ended it."""

    exit_code = 130


class HostUnfitError(RecoveryError):
    """The request is fine, but this host cannot do it: space, inodes, privileges, a missing program."""

    exit_code = 3


class StorageFailedError(HostUnfitError):
    """A disk is full, read-only or broken: not the server's doing, and nothing can go on over it."""

    def __init__(self, message: str, hint: str = "", *, log_tail: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint)
        self.log_tail = log_tail


class TooSlowError(RecoveryError):
    """All went well, and was measured to be slower than was allowed."""

    exit_code = 4


class TrialVoidError(RecoveryError):
    """The trial measured something else than what was asked: it is stored as VOID, and the session goes on."""


class StoodStillError(TrialVoidError):
    """Something that was timed stood still meanwhile, by nobody's asking: going on measures the trial again."""


class ServerFailedError(RecoveryError):
    """The server did not start, hung or died: the trial is stored as FAILED, with the last lines of its log."""

    def __init__(self, message: str, hint: str = "", *, log_tail: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint)
        self.log_tail = log_tail


class ServerKilledError(ServerFailedError):
    """Somebody else killed the server, most likely the kernel, out of memory, or stopped it: the trial is VOID."""


def harmless(text: str) -> str:
    """Returns the text with each control character as `?`: nothing from a log or a file may steer a terminal."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in text)
