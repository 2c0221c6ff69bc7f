"""Inspects a mysqld on this host: where it is, whether it can run here, its version and options, and the libraries it
lacks."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from recovery.builds import packages
from recovery.builds.download import NoAnswerError, Say, program_output
from recovery.errors import HostUnfitError, RecoveryError, StorageFailedError, UsageError
from recovery.linux import cleanup
from recovery.linux.files import create_readable_folder, data_extents, libraries_dir, open_regular, why_not_trusted
from recovery.linux.packages import install_advice, libraries_advice
from recovery.model import Build, Flavor, Version

_MYSQLD_PLACES = tuple(
    f"{folder}{name}"
    for folder in ("bin/", "sbin/", "libexec/", "", "server/", "usr/sbin/", "usr/libexec/")
    for name in ("mysqld", "mariadbd")
)
_MACHINES = {3: "i386", 20: "ppc", 21: "ppc64le", 22: "s390x", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_EXECUTABLE_TYPES = (2, 3)  # fixed address, position independent
_VERSION = re.compile(
    r"\bVer (?P<text>(\d{1,3})\.(\d{1,3})\.(\d{1,4})(?:\.(?P<update>\d{1,4}))?(?!\d)\S{0,100})", re.ASCII
)
VERSION_OPTIONS = ("--no-defaults", "--loose-version-with-update", "--version")
"""Make a server print its version and exit: MySQL since 9.7.4 with the number of the update, others without."""
_OPTION = re.compile(r"^  (?:-., )?--([\w-]+)", re.MULTILINE)
MAX_OPTIONS_BYTES = 4 << 20
"""Most bytes of a server's list of options; 200 kB are usual."""


def find_mysqld(folder: Path) -> Path:
    """Returns the executable in an unpacked tarball: at one of its usual places, or one folder further down. Raises
    UsageError if there is none."""
    inner = sorted(path for path in folder.iterdir() if path.is_dir())
    for base in (folder, *inner):
        for place in _MYSQLD_PLACES:
            if (base / place).is_file():
                return base / place
    raise UsageError(
        f"there is no mysqld in {folder}", "a server's folder holds bin/mysqld, sbin/mysqld or bin/mariadbd"
    )


SHARE_FOLDERS = ("share", "share/mysql", "share/mariadb", "share/mysql-*")
"""Patterns of the folders, below a basedir, that can hold a server's messages. Some packages name the folder after the
series: share/mysql-8.0."""


def _share_folders(basedir: Path) -> list[Path]:
    return [folder for pattern in SHARE_FOLDERS for folder in sorted(basedir.glob(pattern))]


def basedir_of(mysqld: Path) -> Path:
    """Returns the folder that has the server's messages in its share/; the folder above the executable's if none
    has."""
    above = mysqld.parent.parent if mysqld.parent.name in ("bin", "sbin", "libexec") else mysqld.parent
    return next((base for base in (above, mysqld.parent, mysqld.parent.parent) if messages_in(base)), above)


def messages_in(basedir: Path) -> Path | None:
    """Returns the folder that holds english/errmsg.sys; None if there is none."""
    folders = _share_folders(basedir)
    return next((folder for folder in folders if (folder / "english" / "errmsg.sys").is_file()), None)


def scripts_in(basedir: Path) -> tuple[Path, ...]:
    """Returns the folders that hold SQL statements for a new data directory."""
    folders = (*_share_folders(basedir), basedir / "scripts")
    return tuple(folder for folder in folders if next(folder.glob("*.sql"), None) is not None)


def check_elf(path: Path) -> None:
    """Raises an error unless the file is an executable program for this host's CPU. The header is read before anything
    runs the file, because a script, a text or a program for another CPU gives an obscure error."""
    with open_regular(path) as file:
        header = file.read(20)
    if len(header) < 20 or header[:4] != b"\x7fELF":
        raise UsageError(f"{path} is not a mysqld: it is not a Linux program (ELF)", _MYSQLD_HINT)
    order = "little" if header[5] == 1 else "big"
    kind, machine = (int.from_bytes(header[at : at + 2], order) for at in (16, 18))  # type: ignore[arg-type]
    built_for = _MACHINES.get(machine, f"machine {machine}")
    if built_for != platform.machine():
        raise HostUnfitError(
            f"{path.name} was built for {built_for}, this host is {platform.machine()}",
            f"get the {platform.machine()} build of this version, and give it as --mysqld",
        )
    if kind not in _EXECUTABLE_TYPES:
        raise UsageError(f"{path} is not a mysqld: it is not a program", _MYSQLD_HINT)
    if not os.access(path, os.X_OK):
        raise UsageError(f"{path} may not be run", f"allow it: chmod +x {path}")


_MYSQLD_HINT = "give the server's own executable, its unpacked folder or its tarball"


def query_version(mysqld: Path, library_dirs: Iterable[Path]) -> Version:
    """Returns the version that the server prints. Raises UsageError if the file is not a server."""
    try:
        output = program_output(mysqld, *VERSION_OPTIONS, environment=loader_environment(library_dirs))
    except NoAnswerError as error:
        raise UsageError(f"{mysqld} is not a mysqld: asked for its version, {error.message}", _MYSQLD_HINT) from None
    version = parse_version_output(output)
    if version is None or not _is_server(mysqld):
        first_line = output.partition("\n")[0][:160] or "nothing"
        raise UsageError(f"{mysqld} is not a mysqld: asked for its version it says: {first_line}", _MYSQLD_HINT)
    return version


def parse_version_output(text: str) -> Version | None:
    """Parses the output of --version, such as
    `mysqld  Ver 10.11.5-MariaDB for linux-systemd on x86_64 (MariaDB Server)`. Returns None if it holds no version."""
    match = _VERSION.search(text)
    if match is None:
        return None
    flavor = Flavor.MYSQL
    for other in (Flavor.MARIADB, Flavor.PERCONA):
        if other.value in text[match.start() :].lower():
            flavor = other
    update = int(match["update"] or 0)
    numbers = (int(match[2]), int(match[3]), int(match[4]), *((update,) if update else ()))
    return Version(flavor, numbers, match["text"])


def query_options(build: Build) -> frozenset[str]:
    """Returns the names of all options that the server lists; empty if it does not answer."""
    try:
        with cleanup.temp_folder() as folder:
            output = program_output(
                *list_options_command(build), f"--datadir={folder}", environment=loader_environment(build.library_dirs),
                folder=folder, longest=MAX_OPTIONS_BYTES, errors=subprocess.DEVNULL,
            )  # fmt: skip
            return parse_option_names(output)
    except (NoAnswerError, OSError):
        return frozenset()


def list_options_command(build: Build) -> tuple[str, ...]:
    """Returns the command that makes a server list its options and exit. MariaDB 10.2 does not answer without its
    messages."""
    messages = () if build.messages is None else (f"--lc-messages-dir={build.messages}",)
    return (str(build.mysqld), "--no-defaults", "--user=root", *messages, "--verbose", "--help")


def parse_option_names(output: str) -> frozenset[str]:
    """Returns the names of the options in the output of --verbose --help, with underscores; empty if the output is cut
    off. A line of dashes ends the options; the values of variables follow it."""
    options, line, _ = output.partition("\n-----")
    return frozenset(name.replace("-", "_").lower() for name in _OPTION.findall(options)) if line else frozenset()


def _is_server(path: Path) -> bool:
    """Returns whether the program contains the name of the system tablespace. The clients print the same words for
    --version, but only the server has this name."""
    with open_regular(path) as file:
        for start, end in data_extents(file.fileno()):
            tail = b""
            while start < end and (chunk := os.pread(file.fileno(), min(1 << 22, end - start), start)):
                if b"ibdata1" in tail + chunk:
                    return True
                start, tail = start + len(chunk), chunk[-16:]
    return False


def loader_environment(library_dirs: Iterable[Path]) -> dict[str, str]:
    """Returns the caller's environment with English messages, and with these folders alone for the loader. A library
    that is found only by the caller's own LD_LIBRARY_PATH would be missing when the server is started."""
    known = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    if folders := ":".join(map(str, library_dirs)):
        known["LD_LIBRARY_PATH"] = folders
    return known | {"LC_ALL": "C"}


# --- Shared libraries that the server needs and this host lacks

_MISSING = re.compile(r"^\s*(\S+) => not found", re.MULTILINE)
_TOO_OLD = re.compile(r"version `([^']+)' not found")
_BUNDLED_LIBRARY_FOLDERS = ("", "lib", "lib/private", "libs", "lib64", "lib/mysql/private", "lib64/mysql/private")
_HOST_LIBRARY_FOLDERS = tuple(map(Path, ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib")))
_MAX_ROUNDS = 8
"""A fetched library can lack another one; no server needs a chain of this length."""


def provide_libraries(mysqld: Path, basedir: Path, *, offline: bool, say: Say) -> tuple[Path, ...]:
    """Returns folders that together hold every library that the host lacks, and fetches libraries if necessary. Raises
    HostUnfitError if one cannot be obtained."""
    folders: list[Path] = []
    for _ in range(_MAX_ROUNDS):
        missing = missing_libraries(mysqld, folders)
        if not missing:
            return tuple(folders)
        obtained = [folder for name in missing if (folder := _find_offline(name, mysqld, basedir, folders)) is not None]
        if not obtained:
            obtained = [_fetch_library(name, missing, offline=offline, say=say) for name in missing]
        folders += [folder for folder in dict.fromkeys(obtained) if folder not in folders]
    raise _missing_libraries_error(missing_libraries(mysqld, folders), "what was fetched for it does not fit")


def missing_libraries(mysqld: Path, folders: Iterable[Path]) -> tuple[str, ...]:
    """Returns the names of the libraries that the loader does not find, such as libaio.so.1."""
    try:
        output = program_output("ldd", mysqld, environment=loader_environment(folders))
    except NoAnswerError as error:
        raise HostUnfitError(
            f"ldd does not list the libraries of {mysqld}: {error.message}", "give another build of this version"
        ) from None
    except FileNotFoundError:
        raise HostUnfitError("ldd is missing, which lists a server's libraries", install_advice("libc-bin")) from None
    if (old := _TOO_OLD.search(output)) is not None:
        raise HostUnfitError(
            f"{mysqld.name} needs {old[1]}, which this host's libraries are too old for",
            "use a newer distribution, or another build of this version",
        )
    return tuple(dict.fromkeys(_MISSING.findall(output)))


def _find_offline(name: str, mysqld: Path, basedir: Path, tried: list[Path]) -> Path | None:
    """Returns a folder that has the library without network access; None if there is none. The library may be near the
    executable or in the basedir, fetched earlier, or the host's own under its new name."""
    for base in (mysqld.parent, basedir):
        for place in _BUNDLED_LIBRARY_FOLDERS:
            if (base / place / name).is_file() and base / place not in tried:
                return base / place
    for package in packages.packages_with(name):
        held = packages.find_unpacked(package, name)
        if held is not None and held.parent not in tried:
            return held.parent
    renamed = _find_on_host(f"{name}t64")
    return None if renamed is None else _link_renamed_library(name, renamed)


def _link_renamed_library(name: str, library: Path) -> Path:
    """Links the library under its old name and returns the folder of the link. Newer distributions renamed libaio.so.1
    to libaio.so.1t64; on 64 bits it is the same library."""
    folder = create_readable_folder(libraries_dir() / "renamed")
    if any(map(why_not_trusted, (folder, *folder.iterdir()))):
        shutil.rmtree(folder)
        create_readable_folder(folder)
    link = folder / name
    if not link.is_symlink() or link.readlink() != library:
        link.unlink(missing_ok=True)
        link.symlink_to(library)
    return folder


def _fetch_library(name: str, missing: tuple[str, ...], *, offline: bool, say: Say) -> Path:
    """Returns the folder of a library fetched from the first package that has it."""
    if offline:
        raise _missing_libraries_error(missing, "nothing may be fetched while offline")
    failures = []
    for package in packages.packages_with(name):
        try:
            say(f"fetching {name} (package {package})")
            return packages.fetch_file(package, name).parent
        except StorageFailedError:
            raise
        except RecoveryError as error:
            failures.append(error.message)
    raise _missing_libraries_error(missing, failures[0] if failures else f"no package is known for {name}")


def _missing_libraries_error(missing: tuple[str, ...], why: str) -> HostUnfitError:
    known = dict.fromkeys(first[0] for name in missing if (first := packages.packages_with(name)))
    return HostUnfitError(
        f"the server needs {', '.join(missing)}, which this host lacks ({why})", libraries_advice(missing, known)
    )


def find_eatmydata() -> Path | None:
    """Returns the library that makes fsync free while a temporary data directory is built; None if it cannot be
    obtained."""
    return fetch_package_file("libeatmydata1", "libeatmydata.so")


def fetch_package_file(package: str, filename: str) -> Path | None:
    """Returns a file of a package, from the host if it is installed there, else from the fetched package; None if
    neither is possible."""
    file = _find_on_host(filename) or packages.find_unpacked(package, filename)
    if file is not None:
        return file
    try:
        return packages.fetch_file(package, filename)
    except (RecoveryError, OSError):
        return None


def _find_on_host(filename: str) -> Path | None:
    for folder in _HOST_LIBRARY_FOLDERS:
        for path in (folder / filename, *folder.glob(f"*-linux-gnu*/{filename}"), *folder.glob(f"*/*/{filename}")):
            if path.is_file():
                return path
    return None
