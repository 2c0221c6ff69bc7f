"""Makes the bundle of a stored session: a bug report that contains nothing private.

The result is a text for the bug tracker of one product, a script that repeats the test, and a .tar.gz archive to
attach. The session is reduced first (`reduction.py`), and all files of the archive are made from the reduced session,
but the logs: they go in if nothing that the servers were given was left out, without folders of this host. No symbolic
link of the session is followed, and the same session always gives the same archive."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import os
import re
import shlex
import stat
import tarfile
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path, PurePath

from recovery.analysis.stacks import folded_text, parse_folded
from recovery.analysis.summary import Summary, summarise
from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.linux import cleanup, locks
from recovery.linux.files import find_replaceable, open_folder, replace_in
from recovery.model import Flavor, Run, Session, parse_version
from recovery.report.json_report import to_json
from recovery.report.summary_text import mean_text, slowest_flavor
from recovery.report.tables import setup_tables
from recovery.report.text import render_table
from recovery.report.write import write_reports
from recovery.sharing.bug_finding import find_difference, slowest_run
from recovery.sharing.bug_report import LogLines, render_bug_report
from recovery.sharing.reduction import NOT_SHARED, Reduced, reduce_name, reduce_session, reduce_stacks
from recovery.sharing.scripts import REPRO_SCRIPT, options_file, repro_script, sql_scripts
from recovery.sharing.stored_options import split_words
from recovery.storage.format import json_bytes
from recovery.storage.sessions import LOCK_FILE, REPORT_FILE, STACKS_FOLDER, load_session

# --- Copying the files of a session, and packing them into an archive

MANIFEST = "MANIFEST"
_LOGS_FOLDER = "logs"
_LATEST_OF_GZIP = (1 << 32) - 1
_FOLDERS = {"runs": (".json",), _LOGS_FOLDER: (".err", ".log", ".txt"), STACKS_FOLDER: (".folded",)}
"""Folders of a session that are copied, with the suffixes of the copied files."""


def copy_session_files(folder: Path, to: Path) -> None:
    """Copies the regular files of a session to the folder `to`, but not the targets of symbolic links.

    Raises RecoveryError if the report file of the session is not a regular file."""
    report = _read_regular_file(folder / REPORT_FILE)
    if report is None:
        raise RecoveryError(f"{folder / REPORT_FILE} is not a regular file", "name the folder of the session itself")
    (to / REPORT_FILE).write_bytes(report)
    for name, endings in _FOLDERS.items():
        (to / name).mkdir()
        for path in _sorted_entries(folder / name):
            content = _read_regular_file(path) if path.suffix in endings else None
            if content is not None:
                (to / name / path.name).write_bytes(content)
    lock = folder / LOCK_FILE
    if lock.is_file() and not lock.is_symlink() and locks.lock_holder(lock) is None:
        # A lock file without a holder marks a session that was killed; the copy must show that as well.
        (to / LOCK_FILE).touch()


def _sorted_entries(folder: Path) -> list[Path]:
    """Returns the sorted entries of a folder; none if it is missing or a symbolic link."""
    with suppress(OSError):
        if stat.S_ISDIR(folder.lstat().st_mode):
            return sorted(folder.iterdir())
    return []


def _read_regular_file(path: Path) -> bytes | None:
    """Returns the content of a regular file, or None for anything else, such as a symbolic link or a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            return None
        raise
    with open(descriptor, "rb") as file:  # noqa: PTH123 - of a descriptor
        return file.read() if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def add_manifest(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Returns the files and a manifest of their checksums, in the format of `sha256sum -c MANIFEST`."""
    sums = (f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(files.items()))
    return {**files, MANIFEST: "".join(sums).encode()}


def build_archive(name: str, files: Mapping[str, bytes], *, started_at: str) -> bytes:
    """Returns a .tar.gz archive of one folder, `name`, that contains these files.

    Every timestamp is the start of the session and no owner is stored, so the same files give the same archive."""
    when = _epoch_seconds(started_at)
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=when) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path, content in sorted(files.items()):
            member = tarfile.TarInfo(f"{name}/{path}")
            member.size, member.mtime, member.mode = len(content), when, 0o644
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def read_texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Yields the logs and the stack traces, each with its path in the session."""
    for name in (_LOGS_FOLDER, STACKS_FOLDER):
        for path in _sorted_entries(folder / name):
            if path.suffix in _FOLDERS[name]:
                yield f"{name}/{path.name}", path.read_text(encoding="utf-8", errors="replace")


def _epoch_seconds(started_at: str) -> int:
    """Returns the timestamp in seconds since 1970, or 0 if the text cannot be parsed or gzip cannot store it."""
    try:
        when = int(datetime.fromisoformat(started_at).timestamp())
    except (ValueError, OverflowError, OSError):
        return 0
    return when if 0 <= when <= _LATEST_OF_GZIP else 0


# --- One product for each bundle


def products(session: Session) -> dict[Flavor, tuple[str, ...]]:
    """Returns the versions of a session by product, as the servers named themselves."""
    found: dict[Flavor, tuple[str, ...]] = {}
    for version in session.versions:
        product = _product(session, version)
        found[product] = (*found.get(product, ()), version)
    return found


def _product(session: Session, version: str) -> Flavor:
    flavor = next((run.flavor for run in session.runs if run.version == version), None)
    with suppress(ValueError):
        return Flavor(flavor) if flavor is not None else parse_version(version).flavor
    return Flavor.MYSQL


def choose_product(session: Session, product: str | None) -> Flavor:
    """Returns the product of the bundle. Raises UsageError if the session has no server of it, or if none is named and
    there are several."""
    found = products(session)
    if product is None and len(found) == 1:
        return next(iter(found))
    if product not in found:
        what = "has servers of several products" if product is None else f"has no server of {product}"
        slow = slowest_flavor(session)
        ranked = sorted(found, key=lambda name: name != slow)
        named = [f"--for {name}{', of the slowest start,' if name == slow else ''}" for name in ranked]
        raise UsageError(f"the session {what}", f"choose with {' or '.join(named)}")
    return Flavor(product)


def keep_versions(session: Session, versions: Sequence[str]) -> Session:
    """Returns the session with these versions only, also in the command that repeats it."""
    if len(versions) == len(session.versions):
        return session
    runs = tuple(run for run in session.runs if run.version in versions)
    others = {run.variant for run in session.runs} - {run.variant for run in runs}
    dropped = set(session.versions) - set(versions)
    settings = dict(session.settings)
    if "version" in settings:
        settings["version"] = " ".join(versions)
    if settings.get("baseline") not in versions:
        settings.pop("baseline", None)
    if len(versions) == 1:
        settings.pop("fail_over", None)
    return replace(
        session,
        versions=tuple(versions),
        variants=tuple(variant for variant in session.variants if variant.name not in others),
        planned_runs=session.planned_runs * len(versions) // len(session.versions),
        servers={name: facts for name, facts in session.servers.items() if name.partition(" ")[0] in versions},
        notes=tuple(note for note in session.notes if not any(_names(note, version) for version in dropped)),
        floors=tuple(floor for floor in session.floors if floor.version in versions),
        runs=runs,
        settings=settings,
        command=_command_for(session.command, versions),
    )


def _names(note: str, version: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(version)}(?![\w-]|\.\d)", note) is not None


def _command_for(command: str, versions: Sequence[str]) -> str:
    """Returns the command with these versions only: `--version` may be repeated, and may name several. One version is
    compared with none."""
    words: list[str] = []
    named = False
    given = iter(split_words(command))
    for word in given:
        if word not in ("--version", "--baseline", "--fail-over"):
            words.append(word)
            continue
        value = next(given, "")
        if word == "--version" and not named:
            words += [word, " ".join(versions)]
            named = True
        elif (word == "--baseline" and value in versions) or (word == "--fail-over" and len(versions) > 1):
            words += [word, value]
    return shlex.join(words)


# --- Making a bundle: the session is reduced, then rendered

TEXT_FILE = "bug.txt"
_LEFT_OUT_FILE = "left-out.txt"
_SERVER_OPTIONS = "server options"
_INSIDE = "inside: tables, figures, phases, versions, facts about host and settings by name"


@dataclass(frozen=True)
class BundledFile:
    """A file of the archive, for the listing that the user sees."""

    name: str
    size_bytes: int


@dataclass(frozen=True)
class Bundle:
    """A bug report made from a session."""

    name: str
    """Name of the session."""
    text: bytes
    """The text to paste into a bug tracker."""
    script: bytes | None
    """The script that repeats the test; None if there is none for this kind of session."""
    archive: bytes
    """The content of the .tar.gz archive."""
    files: tuple[BundledFile, ...]
    """The files of the archive, in its order."""
    summary: tuple[str, ...]
    """Lines that say what is inside and what was left out."""
    names: dict[str, str]
    """The names that the user gave, by those that stand for them in the bundle."""


def make_bundle(folder: Path, product: str | None = None) -> Bundle:
    """Makes a bundle of the session stored in the folder, which is not changed.

    Of a session with servers of several products the bundle has those of `product`."""
    with cleanup.temp_folder() as made:
        raw, clean = made / "raw", made / "clean"
        raw.mkdir()
        clean.mkdir()
        copy_session_files(folder, raw)
        try:
            session = load_session(raw)
        except RecoveryError as error:
            # The error names the temporary copy, which no longer exists when the user reads the message.
            here, there = str(raw), str(folder)
            raise type(error)(error.message.replace(here, there), error.hint.replace(here, there)) from error
        texts = dict(read_texts(raw))
        return _bundle_session(folder.name, session, product, texts=texts, clean=clean)


def output_paths(bundle: Bundle, output: Path | None) -> tuple[Path, Path, Path]:
    """Returns the paths of the archive, and of the text and the script next to it.

    `output` is a folder, or the path of the archive if it ends with .tar.gz or .tgz. Raises UsageError if the files
    would be in the folder of a session."""
    place = output or Path(f"{bundle.name}-bundle")
    if place.name.endswith((".tar.gz", ".tgz")):
        bare = place.name.removesuffix(".tgz").removesuffix(".tar.gz")
        packed, text, script = place, place.with_name(f"{bare}.txt"), place.with_name(f"{bare}.sh")
    else:
        packed, text, script = (place / name for name in (f"{bundle.name}.tar.gz", TEXT_FILE, REPRO_SCRIPT))
    if (packed.parent / REPORT_FILE).exists():
        raise UsageError(f"{packed.parent} is the folder of a session", "give --output another folder")
    return packed, text, script


def write_bundle(bundle: Bundle, packed: Path, text: Path, script: Path) -> None:
    """Writes the archive, the text and the script, which are in one folder. Raises HostUnfitError if they cannot be
    written."""
    files = {packed: bundle.archive, text: bundle.text}
    if bundle.script is not None:
        files[script] = bundle.script
    try:
        with open_folder(packed.parent, create=True, links_until=packed.parent.absolute().parent) as folder:
            for path in files:
                find_replaceable(folder, path)
            for path, content in files.items():
                replace_in(folder, path, content)
    except OSError as error:
        raise HostUnfitError(
            f"cannot write to {packed.parent}: {error.strerror or error}", "give --output a folder that can be written"
        ) from error


def _bundle_session(
    name: str, session: Session, product: str | None, *, texts: Mapping[str, str], clean: Path
) -> Bundle:
    reduced = reduce_session(session)
    flavor = choose_product(reduced.session, product)
    kept = keep_versions(reduced.session, products(reduced.session)[flavor])
    numbers = {run.number for run in kept.runs}
    runs = [run for run in session.runs if run.number in numbers]
    logs = _files_of_runs({run.number: run.log for run in runs}, _LOGS_FOLDER, texts)
    stacks = _files_of_runs({run.number: run.stacks.file for run in runs}, STACKS_FOLDER, texts)
    name = reduce_name(name, session)
    name = name if kept is reduced.session else f"{name}-{flavor}"

    left_out = dict(reduced.left_out)
    if not has_own_logs(session, reduced):
        left_out["error logs"], logs = len(logs), {}
    files = {_stacks_path(number): _reduced_stacks(text) for number, text in stacks.items()}
    files |= {_log_path(number): without_folders(text, session).encode() for number, text in logs.items()}
    kept = replace(kept, runs=tuple(_with_files(run, files) for run in kept.runs))
    files |= {path: text.encode() for path, text in sql_scripts(kept).items()}
    files |= _render_reports(kept, clean)
    kept = load_session(clean)
    files |= {
        file: options_file(server, kept.servers[server]["options"]).encode()
        for server, file in _options_file_names(kept).items()
    }
    files["host.txt"] = "\n\n".join(map(render_table, setup_tables(kept))).encode() + b"\n"
    left_out_versions = tuple(version for version in reduced.session.versions if version not in kept.versions)
    slow, finding = find_difference(kept, left_out=left_out_versions)
    script = repro_script(kept, name, slow, finding) if slow is not None else None
    if script is not None:
        files[REPRO_SCRIPT] = script.encode()
    run = slowest_run(kept, slow)
    log_path = "" if run is None else _log_path(run.number)
    files[TEXT_FILE] = render_bug_report(
        kept,
        flavor,
        slow,
        finding,
        script=script and REPRO_SCRIPT,
        log=LogLines(log_path, files[log_path].decode()) if log_path in files else None,
        compared=None if slow is None else _other_product(reduced.session, kept, slow),
    ).encode()
    summary = tuple(_summary(left_out, logs=len(logs)))
    files[_LEFT_OUT_FILE] = "".join(f"{line}\n" for line in summary).encode()
    files = add_manifest(files)
    listing = tuple(BundledFile(path, len(content)) for path, content in sorted(files.items()))
    archive = build_archive(name, files, started_at=kept.started_at)
    return Bundle(name, files[TEXT_FILE], files.get(REPRO_SCRIPT), archive, listing, summary, reduced.names)


def _summary(left_out: Mapping[str, int], *, logs: int) -> Iterator[str]:
    """Yields the lines that say what is inside and what was left out."""
    yield f"{_INSIDE}; {logs:,} error logs, without folders" if logs else _INSIDE
    counted = ", ".join(f"{kind} ({count:,})" for kind, count in left_out.items() if count)
    yield f"left out: {counted or 'nothing'}"


def _other_product(session: Session, kept: Session, slow: Summary) -> str | None:
    """Returns one line with the shortest time of the products that the bundle leaves out; None if there is none."""
    others = [
        cell
        for cell in summarise(session)
        if cell.count and cell.variant == slow.variant and cell.version not in kept.versions
    ]
    if not others:
        return None
    fast = min(others, key=lambda cell: cell.mean or 0.0)
    return f"For comparison, on this host: {fast.version} takes {mean_text(fast)} {fast.variant}."


# --- Logs and stacks of runs


def _files_of_runs(files: Mapping[int, str | None], folder: str, texts: Mapping[str, str]) -> dict[int, str]:
    """Returns the contents of the logs or the stacks of runs, by the number of the run."""
    paths = {number: f"{folder}/{PurePath(path or '').name}" for number, path in files.items()}
    return {number: texts[path] for number, path in paths.items() if path in texts}


def _reduced_stacks(text: str) -> bytes:
    return folded_text(reduce_stacks(parse_folded(text))).encode()


def _log_path(number: int) -> str:
    return f"{_LOGS_FOLDER}/{number:03d}.err"


def _stacks_path(number: int) -> str:
    return f"{STACKS_FOLDER}/{number:03d}.folded"


def _with_files(run: Run, files: Container[str]) -> Run:
    """Returns a reduced run with the paths of its files that are in the archive."""
    log, stacks = _log_path(run.number), _stacks_path(run.number)
    samples = replace(run.stacks, file=stacks if stacks in files else None)
    return replace(run, log=log if log in files else None, stacks=samples)


_SOURCES = frozenset({"mysqld", "archive", "image", "registry"})
"""Settings that say where a server comes from. Its log has its path at most."""


def has_own_logs(session: Session, reduced: Reduced) -> bool:
    """Returns whether a log can name only what this tool made: nothing that was given to the servers of the session,
    such as data, a template, a query or an option, was left out. A path of the user's with a blank in it could not be
    told from other words."""
    given = {name for name, value in reduced.session.settings.items() if value == NOT_SHARED}
    paths = str(session.settings.get("mysqld") or "").split()
    return (
        given <= _SOURCES
        and _SERVER_OPTIONS not in reduced.left_out
        and all(re.match(r"(?:[\w.-]+=)?[~./]", path) for path in paths)
    )


_PLACE = re.compile(
    r"https?://[^\s'\"]*|(?<![\w.])~?/[^\s'\",;()]+"
    r"|[\w.+-]+@(?!localhost\b|plt\b|GLIBC|CXXABI)[\w.-]+"
)
"""A URL, a path, or a user of a host, as in the name of a kernel that somebody built."""
_SERVER_FILE = re.compile(
    r"mysqld(?:\.(?:sock|pid))?|mariadbd|ib[\w#]+|undo_\d+|[\w#]+\.(?:ibd|ibu|ibt|cc|h|pem)|lib[\w.+-]+\.so[.\d]*",
    re.ASCII,
)
_VENDORS = re.compile(r"https?://(?:[\w-]+\.)*(?:mysql\.com|mariadb\.(?:org|com)|percona\.com|oracle\.com)(?:/|\Z)")


def without_folders(log: str, session: Session) -> str:
    """Returns a log without hosts, in which paths are cut to the names of a server's own files."""
    data = str(session.settings.get("data") or "")
    return _PLACE.sub(_bare_place, log.replace(data, "/") if len(data) > 1 else log)


def _bare_place(found: re.Match[str]) -> str:
    if found[0].startswith("http"):
        return found[0] if _VENDORS.match(found[0]) else NOT_SHARED
    if "/" not in found[0]:
        return NOT_SHARED
    path = found[0].rstrip(".:")
    name = PurePath(path).name
    return f"{name if _SERVER_FILE.fullmatch(name) else '(folder)'}{found[0][len(path) :]}"


# --- The session


def sharing_for_site() -> Callable[[str, Session], tuple[str, Session]]:
    """Returns what returns the name and the session as a bundle has them. A name that the user gave is the same in all
    sessions of the site, which compares them."""
    names: dict[str, str] = {}
    return lambda name, session: (reduce_name(name, session), reduce_session(session, names).session)


def _render_reports(session: Session, clean: Path) -> dict[str, bytes]:
    """Returns the reports in all formats and a JSON file for each run, all made from a reduced session."""
    (clean / REPORT_FILE).write_bytes(to_json(session))
    paths = (clean / REPORT_FILE, *write_reports(clean, load_session(clean)))
    made = {str(path.relative_to(clean)): path.read_bytes() for path in paths}
    stored = json.loads(made[REPORT_FILE])
    for run in stored["runs"]:
        made[f"runs/{run['number']:03d}.json"] = json_bytes({"format": stored["format"], **run})
    return made


def _options_file_names(session: Session) -> dict[str, str]:
    """Returns the names of the options files by server: my.cnf if there is only one server with known options."""
    known = [name for name, server in session.servers.items() if server.get("options")]
    if len(known) == 1:
        return {known[0]: "my.cnf"}
    return {name: re.sub(r"[^\w.+\[\]@-]", "_", f"my-{name}.cnf", flags=re.ASCII) for name in known}
