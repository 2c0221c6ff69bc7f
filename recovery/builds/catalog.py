"""Which servers are pinned, and where does each come from? One row of catalog.toml each."""

from __future__ import annotations

import platform
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from recovery.model import Version
from recovery.versions import parse_version

DEFAULT_VERSION = "5.7.22"


@dataclass(frozen=True)
class Row:
    """One pinned server. The fields are explained in catalog.toml."""

    version: Version
    client: str
    """`maven` or `npm`."""
    artifact: str
    sha256: str
    bytes: int
    inner: str | None = None
    root: str = ""
    drop: tuple[str, ...] = ()
    cpu: str = "x86_64"

    @property
    def folder_name(self) -> str:
        return f"{self.version}-{self.sha256[:8]}"

    @property
    def source(self) -> str:
        return f"catalog ({self.client} {self.artifact})"


@cache
def rows() -> tuple[Row, ...]:
    """Those that this host's CPU can run."""
    text = resources.files(__package__).joinpath("catalog.toml").read_text(encoding="utf-8")
    every = (_row(entry) for entry in tomllib.loads(text)["server"])
    return tuple(row for row in every if row.cpu == platform.machine())


def find(version: Version) -> Row | None:
    return next((row for row in rows() if row.version == version), None)


def _row(entry: dict[str, object]) -> Row:
    fields = dict(entry)
    client = "maven" if "maven" in fields else "npm"
    return Row(
        version=parse_version(str(fields.pop("version"))),
        client=client,
        artifact=str(fields.pop(client)),
        drop=tuple(fields.pop("drop", ())),  # type: ignore[arg-type]  # a list, by the file's own rules
        **fields,  # type: ignore[arg-type]  # a row with an unknown field must not load
    )
