"""What must lie ready before a server's process can begin: its options file, and a log of its own."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from recovery.errors import RecoveryError, UsageError
from recovery.ownership import made_private
from recovery.paths import template_dir
from recovery.server.launcher import Launch
from recovery.server.options import Settings, key_settings, merge, render_cnf

_SOCKET_PATH_BYTES = 107
"""What sockaddr_un holds, without the closing NUL."""
_OPEN_FILES = 20_000
"""More, or "unlimited", makes 5.6 and 5.7 allocate gigabytes and close a billion descriptors one by one."""


def write_options(launch: Launch, *, open_files: int, uid: int | None = None) -> Path:
    """my.cnf in the run folder, which is made for it; for a server that runs as the user of the tool, or as `uid`."""
    _check_socket_path(launch.socket)
    try:
        launch.rundir.mkdir(mode=0o700, parents=True)
        options_file = launch.rundir / "my.cnf"
        template = (template_dir() / "my.cnf.j2").read_text(encoding="utf-8")
        options_file.write_text(
            render_cnf(merge(_places(launch, open_files, uid), launch.settings), template), encoding="utf-8"
        )
    except OSError as error:
        raise RecoveryError(
            f"can't prepare the server's run folder: {error}", "see that the folder for temporary files is writable"
        ) from error
    return options_file


def _places(launch: Launch, open_files: int, uid: int | None) -> Settings:
    """The options that say where things are."""
    build = launch.build
    settings = {
        "basedir": str(build.basedir),
        "datadir": str(launch.datadir),
        "open_files_limit": str(open_files),
    }
    if build.messages is not None:
        settings["lc_messages_dir"] = str(build.messages)
    if (os.geteuid() if uid is None else uid) == 0:
        # mysqld refuses to run as root unless it is told to.
        settings["user"] = "root"
    return settings | (key_settings(build.version, launch.keys) if launch.keys else {})


def environment(launch: Launch) -> dict[str, str]:
    """Nothing of the caller's own: neither language nor time zone may change what a log says."""
    variables = {"PATH": os.defpath, "TZ": "UTC", "LC_ALL": "C", "HOME": str(launch.rundir)}
    if launch.build.library_dirs:
        variables["LD_LIBRARY_PATH"] = ":".join(map(str, launch.build.library_dirs))
    if launch.preload:
        variables["LD_PRELOAD"] = ":".join(map(str, launch.preload))
    return variables


def open_files_limit() -> int:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)


def _check_socket_path(socket: Path) -> None:
    length = len(os.fsencode(socket))
    if length > _SOCKET_PATH_BYTES:
        raise UsageError(
            f"the server's socket path has {length} bytes, {_SOCKET_PATH_BYTES} are allowed: {socket}",
            "set TMPDIR to a folder with a shorter name",
        )


def new_log(path: Path) -> int:
    """A log of this Life alone: an earlier one is never appended to."""
    try:
        made_private(path.parent)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise RecoveryError(
            f"there is a log of another start already: {path}", "each start needs a log of its own"
        ) from error
    except OSError as error:
        raise RecoveryError(
            f"can't write the server's log: {error}", "see that the folder for temporary files (TMPDIR) is writable"
        ) from error
