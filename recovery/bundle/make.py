"""How does a stored session become an archive that can be handed to anybody? Masked first, and rendered from that."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from recovery.bundle import literals, members, sql, steps
from recovery.bundle.known import of_host
from recovery.bundle.masking import Mask, told
from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.files import write_atomically
from recovery.host import tempfolders
from recovery.readback import FORMAT
from recovery.report.tables import figures_of, tables
from recovery.report.text import render_table
from recovery.report.write import write_reports
from recovery.store import REPORT, STACKS, load, to_json
from recovery.stored import Session

TEXT = "report.txt"
_MOST_LITERALS = 1_000
_NAMES = "(names of files)"
_PLAIN_NAME = re.compile(r"[\w.-]{1,120}", re.ASCII)


@dataclass(frozen=True)
class Bundle:
    name: str
    """Of the session, with nothing private in it."""
    text: bytes
    """For pasting into a tracker."""
    archive: bytes
    masked: int
    """How many different texts."""


def make(folder: Path) -> Bundle:
    with tempfolders.folder() as made:
        raw, clean = made / "raw", made / "clean"
        raw.mkdir()
        clean.mkdir()
        members.stage(folder, raw)
        try:
            session = load(raw)
        except RecoveryError as error:
            # The copy is gone by the time that this is read.
            here, there = str(raw), str(folder)
            raise type(error)(error.message.replace(here, there), error.hint.replace(here, there)) from error
        return _bundled(folder.name, session, raw=raw, clean=clean)


def write(bundle: Bundle, output: Path | None) -> tuple[Path, Path]:
    """The archive, and the text beside it: in a folder, or where a name that ends like an archive's says."""
    place = output or Path(f"{bundle.name}-bundle")
    if place.name.endswith((".tar.gz", ".tgz")):
        packed = place
        text = place.with_name(f"{place.name.removesuffix('.tgz').removesuffix('.tar.gz')}.txt")
    else:
        packed, text = place / f"{bundle.name}.tar.gz", place / TEXT
    if (packed.parent / REPORT).exists():
        raise UsageError(f"{packed.parent} is the folder of a session", "give --output another one")
    try:
        packed.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(packed, bundle.archive)
        write_atomically(text, bundle.text)
    except OSError as error:
        raise HostUnfitError(
            f"cannot write to {packed.parent}: {error.strerror or error}", "give --output a folder that can be written"
        ) from error
    return packed, text


def _bundled(name: str, session: Session, *, raw: Path, clean: Path) -> Bundle:
    texts = dict(members.read_texts(raw))
    scripts = sql.scripts(session)
    mask = Mask(_literals(session, [name, *texts, *texts.values(), *scripts.values()]))
    masked = _masked_session(session, mask, clean)
    mask.file = _NAMES
    name = mask.name(name)
    name = name if _PLAIN_NAME.fullmatch(name) else "session"
    files = {path: content.encode() for path, content in _masked_texts({**texts, **scripts}, mask).items()}
    files |= _rendered(clean, files)
    options = _options(masked)
    files |= {
        file: sql.options_file(server, masked.servers[server]["options"]).encode() for server, file in options.items()
    }
    files["host.txt"] = "\n\n".join(map(render_table, tables(masked)[len(figures_of(masked)) :])).encode() + b"\n"
    text = _text(masked, session, mask, steps.Scripts(f"{name}.tar.gz", (), (), options)).encode()
    files[TEXT] = text
    files["masked.txt"] = told(mask).encode()
    packed = members.archive(name, members.with_manifest(files), started_at=session.started_at)
    return Bundle(name, text, packed, len(mask.counts))


def _literals(session: Session, texts: list[str]) -> tuple[literals.Literal, ...]:
    """A name that is seen once, in a path or in a log, is private wherever it stands."""
    found = (*of_host(os.environ), *literals.of_session(session))
    kept = literals.kept((*found, *literals.of_names((*_strings(json.loads(to_json(session))), *texts))))
    if len(kept) > _MOST_LITERALS:
        raise RecoveryError(
            f"the session names {len(kept):,} users, hosts and secrets; {_MOST_LITERALS:,} can be masked",
            "that is not normal: look into its logs",
        )
    return kept


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for one in inner for text in _strings(one)] + (list(value) if isinstance(value, dict) else [])


def _masked_session(session: Session, mask: Mask, clean: Path) -> Session:
    """Summaries and findings are made anew from it, as they always are."""
    stored = json.loads(to_json(session))
    mask.file = REPORT
    masked = mask.value({key: value for key, value in stored.items() if key not in ("summaries", "fits", "findings")})
    mask.file = _NAMES
    for run in masked["runs"]:
        run["log"] = run["log"] and _file(run["log"], mask)
        run["stacks"] = run["stacks"] and _file(run["stacks"], mask)
    (clean / REPORT).write_bytes(json.dumps(masked).encode("utf-8", errors="replace"))
    made = load(clean)
    (clean / REPORT).write_bytes(to_json(made))
    return made


def _file(path: str, mask: Mask) -> str:
    """Whatever a session calls its files, in the archive they lie in its own folders."""
    folder = STACKS if path.startswith(f"{STACKS}/") else "logs"
    return f"{folder}/{mask.name(PurePath(path).name)}"


def _masked_texts(texts: dict[str, str], mask: Mask) -> dict[str, str]:
    found = {}
    for path, content in sorted(texts.items()):
        mask.file = _NAMES
        folder, slash, name = path.rpartition("/")
        put = f"{folder}{slash}{mask.name(name)}"
        mask.file = put
        found[put] = mask.text(content)
    return found


def _rendered(clean: Path, files: dict[str, bytes]) -> dict[str, bytes]:
    """The report in its formats and the pictures, made of what is masked; the runs one by one as well."""
    (clean / STACKS).mkdir()
    for path, content in files.items():
        if path.startswith(f"{STACKS}/"):
            (clean / path).write_bytes(content)
    made = {str(path.relative_to(clean)): path.read_bytes() for path in (clean / REPORT, *write_reports(clean))}
    stored = json.loads(made[REPORT])
    for run in stored["runs"]:
        text = json.dumps({"format": FORMAT, **run}, indent=2, ensure_ascii=False) + "\n"
        made[f"runs/{run['number']:03d}.json"] = text.encode()
    return made


def _options(masked: Session) -> dict[str, str]:
    """Names of options files by server: my.cnf where there is one."""
    known = [name for name, said in masked.servers.items() if said.get("options")]
    if len(known) == 1:
        return {known[0]: "my.cnf"}
    return {name: re.sub(r"[^\w.+\[\]@-]", "_", f"my-{name}.cnf", flags=re.ASCII) for name in known}


def _text(masked: Session, session: Session, mask: Mask, scripts: steps.Scripts) -> str:
    mask.file = TEXT
    first = tuple(map(mask.text, sql.first_statements(session)))
    try:
        fired = tuple(map(mask.text, sql.inserts(session)[:2]))
    except RecoveryError:
        fired = ()
    return steps.render(masked, replace(scripts, tables=first, inserts=fired))
