"""Is this file a mysqld that can run here, and which one is it?"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from recovery.builds.programs import NoAnswerError, answer
from recovery.errors import HostUnfitError, UsageError
from recovery.host import tempfolders
from recovery.model import Build, Flavor, Version

_PLACES = tuple(
    f"{folder}{name}"
    for folder in ("bin/", "sbin/", "libexec/", "", "server/", "usr/sbin/", "usr/libexec/")
    for name in ("mysqld", "mariadbd")
)
_MACHINES = {3: "i386", 20: "ppc", 21: "ppc64le", 22: "s390x", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_EXECUTABLE_TYPES = (2, 3)  # fixed address, position independent
_VERSION = re.compile(r"\bVer (?P<text>(\d+)\.(\d+)\.(\d+)\S*)")
_OPTION = re.compile(r"^  (?:-., )?--([\w-]+)", re.MULTILINE)
MOST_LISTED = 4 << 20
"""Bytes of a server's list of options: 200 kB are usual."""


def find_mysqld(folder: Path) -> Path:
    """In an unpacked tarball: at its usual places, or one folder further down."""
    inner = sorted(path for path in folder.iterdir() if path.is_dir())
    for base in (folder, *inner):
        for place in _PLACES:
            if (base / place).is_file():
                return base / place
    raise UsageError(
        f"there is no mysqld in {folder}", "a server's folder holds bin/mysqld, sbin/mysqld or bin/mariadbd"
    )


_SHARES = ("share", "share/mysql", "share/mariadb")


def basedir_of(mysqld: Path) -> Path:
    """The folder whose share/ holds the server's messages."""
    above = mysqld.parent.parent if mysqld.parent.name in ("bin", "sbin", "libexec") else mysqld.parent
    return next((base for base in (above, mysqld.parent, mysqld.parent.parent) if messages_in(base)), above)


def messages_in(basedir: Path) -> Path | None:
    """The folder that holds english/errmsg.sys."""
    folders = (basedir / share for share in _SHARES)
    return next((folder for folder in folders if (folder / "english" / "errmsg.sys").is_file()), None)


def scripts_in(basedir: Path) -> tuple[Path, ...]:
    """Folders that hold statements for a new data directory."""
    folders = (basedir / share for share in (*_SHARES, "scripts"))
    return tuple(folder for folder in folders if next(folder.glob("*.sql"), None) is not None)


def check_elf(path: Path) -> None:
    """Read the header before anything runs it: a script, a text or a foreign CPU's program gives an obscure error."""
    with path.open("rb") as file:
        header = file.read(20)
    if len(header) < 20 or header[:4] != b"\x7fELF":
        raise UsageError(f"{path} is no mysqld: it is not a Linux program (ELF)", _GIVE)
    order = "little" if header[5] == 1 else "big"
    kind, machine = (int.from_bytes(header[at : at + 2], order) for at in (16, 18))  # type: ignore[arg-type]
    built_for = _MACHINES.get(machine, f"machine {machine}")
    if built_for != platform.machine():
        raise HostUnfitError(
            f"{path.name} was built for {built_for}, this host is {platform.machine()}",
            f"get the {platform.machine()} build of this version, and give it as MYSQLD=",
        )
    if kind not in _EXECUTABLE_TYPES:
        raise UsageError(f"{path} is no mysqld: it is not a program", _GIVE)
    if not os.access(path, os.X_OK):
        raise UsageError(f"{path} may not be run", f"allow it: chmod +x {path}")


_GIVE = "give the server's own executable, its unpacked folder or its tarball"


def ask_version(mysqld: Path, library_dirs: Iterable[Path]) -> Version:
    """What the server says of itself."""
    try:
        said = answer(mysqld, "--no-defaults", "--version", environment=environment(library_dirs))
    except NoAnswerError as error:
        raise UsageError(f"{mysqld} is no mysqld: asked for its version, {error.message}", _GIVE) from None
    version = version_said(said)
    if version is None or not _is_server(mysqld):
        first_line = said.partition("\n")[0][:160] or "nothing"
        raise UsageError(f"{mysqld} is no mysqld: asked for its version it says: {first_line}", _GIVE)
    return version


def version_said(text: str) -> Version | None:
    """From the answer to --version: `mysqld  Ver 10.11.5-MariaDB for linux-systemd on x86_64 (MariaDB Server)`."""
    match = _VERSION.search(text)
    if match is None:
        return None
    flavor = Flavor.MYSQL
    for other in (Flavor.MARIADB, Flavor.PERCONA):
        if other.value in text[match.start() :].lower():
            flavor = other
    return Version(flavor, (int(match[2]), int(match[3]), int(match[4])), match["text"])


def ask_options(build: Build) -> frozenset[str]:
    """The names of all options that the server lists; none if it does not answer."""
    try:
        with tempfolders.folder() as folder:
            words, known = (*listing_command(build), f"--datadir={folder}"), environment(build.library_dirs)
            return options_said(
                answer(*words, environment=known, folder=folder, longest=MOST_LISTED, errors=subprocess.DEVNULL)
            )
    except (NoAnswerError, OSError):
        return frozenset()


def listing_command(build: Build) -> tuple[str, ...]:
    """What makes a server list its options and exit. MariaDB 10.2 does not answer without its messages."""
    messages = () if build.messages is None else (f"--lc-messages-dir={build.messages}",)
    return (str(build.mysqld), "--no-defaults", "--user=root", *messages, "--verbose", "--help")


def options_said(said: str) -> frozenset[str]:
    """The names of options from the answer to --verbose --help, with underscores; none if the answer is cut off. A
    line of dashes ends them; the values of variables come after it."""
    options, line, _ = said.partition("\n-----")
    return frozenset(name.replace("-", "_").lower() for name in _OPTION.findall(options)) if line else frozenset()


def _is_server(path: Path) -> bool:
    """The clients answer with the same words; only the server knows its system tablespace."""
    with path.open("rb") as file:
        tail = b""
        while chunk := file.read(1 << 22):
            if b"ibdata1" in tail + chunk:
                return True
            tail = chunk[-16:]
    return False


def environment(library_dirs: Iterable[Path]) -> dict[str, str]:
    """The caller's environment with English messages, and for the loader these folders alone: a library that only the
    caller's own LD_LIBRARY_PATH finds would be missing when the server is started."""
    known = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    if folders := ":".join(map(str, library_dirs)):
        known["LD_LIBRARY_PATH"] = folders
    return known | {"LC_ALL": "C"}
