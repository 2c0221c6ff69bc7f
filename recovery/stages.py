"""Which data directory does each version need, is it there, and does the rest fit? Before anything is built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recovery.errors import HostUnfitError
from recovery.host.datadir import DataDirs
from recovery.host.space import HINT, MOST_OF_THE_ROOM, NOTHING, Need, need_for
from recovery.load.schema import template_text
from recovery.model import Build, Schema, Version
from recovery.versions import dies_with


@dataclass(frozen=True)
class Stage:
    """One version's data directory: where it will be, whether it is whole already, and what it takes."""

    build: Build
    key: str
    whole: bool
    size: Need
    """Of the whole of it."""
    need: Need
    """Of what is still to be made."""


def survey(builds: Sequence[Build], schema: Schema, data: Path, *, settings: Mapping[str, str]) -> tuple[Stage, ...]:
    directories = DataDirs(data)
    kept = {info.key: info for info in directories.list()}
    stages = []
    for build in builds:
        refuse_withdrawn(build.version, schema.total_tables)
        key = directories.key_for(build, schema, template_text=template_text(schema), options=layout_options(settings))
        size, there = need_for(build.version, schema), kept.get(key)
        if there is not None and there.status in ("whole", "in_use"):
            stages.append(Stage(build, key, whole=True, size=size, need=NOTHING))
            continue
        # What lies there is gone on with, or makes room for itself by being removed.
        done = min(1.0, (there.bytes or 0) / size.bytes) if there else 0.0
        stages.append(Stage(build, key, whole=False, size=size, need=size.part(done)))
    return tuple(stages)


def refuse_withdrawn(version: Version, tables: int) -> None:
    if dies_with(version, tables):
        raise HostUnfitError(
            f"{version} was withdrawn: it dies on a restart with more than 8,000 tables",
            "take the release after it, or TABLES=8000",
        )


LAYOUT_OPTIONS = frozenset(
    {"innodb_page_size", "lower_case_table_names", "innodb_checksum_algorithm",
     "innodb_undo_tablespaces", "innodb_file_format", "innodb_default_row_format",
     "character_set_server", "collation_server"}
)  # fmt: skip


def layout_options(settings: Mapping[str, str]) -> dict[str, str]:
    """Those of the user's settings that shape the files themselves: they are needed from the first initialisation on,
    and a directory made with others is another directory."""
    return {name: value for name, value in settings.items() if name.removeprefix("loose_") in LAYOUT_OPTIONS}


def check_room(stages: Sequence[Stage], room: Need, *, keep: bool) -> None:
    """Before the first of them is built, an hour before the last would fail: versions run one after the other, and
    what this session built makes room for what comes, unless it is to be kept."""
    built: list[Stage] = []
    for stage in stages:
        if stage.whole:
            continue
        while built and not stage.need.fits(room) and not keep:
            room += built.pop(0).need
        if not stage.need.fits(room):
            beside = " beside those before it, which --keep keeps" if keep and built else ""
            raise HostUnfitError(
                f"the data directory of {stage.build.version} needs {stage.need} and does not fit{beside}: "
                f"{room} are free",
                HINT,
            )
        room -= stage.need
        built.append(stage)


def all_fit(needs: Iterable[Need], room: Need) -> bool:
    """Whether every directory that is still to be built fits beside those that are there, and leaves room."""
    return sum(needs, NOTHING).fits(room, share=MOST_OF_THE_ROOM)
