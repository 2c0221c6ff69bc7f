"""Which data directory does each version need, is it there, and does the rest fit? Before anything is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recovery.errors import HostUnfitError
from recovery.host.datadir import DataDirs
from recovery.host.space import Need, free, need_for
from recovery.load.schema import template_text
from recovery.model import Build, Schema, Version
from recovery.versions import dies_with


@dataclass(frozen=True)
class Stage:
    """One version's data directory: where it will be, whether it is whole already, and what it takes."""

    build: Build
    key: str
    whole: bool
    need: Need


def survey(builds: Sequence[Build], schema: Schema, data: Path, *, settings: Mapping[str, str]) -> tuple[Stage, ...]:
    directories = DataDirs(data)
    kept = {info.key: info for info in directories.list()}
    stages = []
    for build in builds:
        refuse_withdrawn(build.version, schema.total_tables)
        key = directories.key_for(build, schema, template_text=template_text(schema), options=layout_options(settings))
        there = kept.get(key)
        need = _plus(need_for(build.version, schema.total_tables), _rows_need(schema))
        if there is None:
            stages.append(Stage(build, key, whole=False, need=need))
            continue
        # What lies there is gone on with, or makes room for itself by being removed.
        left = Need(max(0, need.bytes - (there.bytes or 0)), need.inodes)
        stages.append(Stage(build, key, whole=there.status in ("whole", "in_use"), need=left))
    return tuple(stages)


def _rows_need(schema: Schema) -> Need:
    """A table's first page holds some rows; the rest is counted generously, for pages are never full."""
    row_bytes = 30 + 35 * schema.columns
    return Need(schema.total_tables * max(0, 2 * schema.rows * row_bytes - 8192), 0)


def refuse_withdrawn(version: Version, tables: int) -> None:
    if dies_with(version, tables):
        raise HostUnfitError(
            f"{version} was withdrawn: it dies on a restart with more than 8,000 tables",
            "take the release after it, or TABLES=8000",
        )


LAYOUT_OPTIONS = frozenset(
    {"innodb_page_size", "innodb_file_per_table", "lower_case_table_names", "innodb_checksum_algorithm",
     "innodb_data_file_path", "innodb_undo_tablespaces", "innodb_file_format", "innodb_default_row_format",
     "character_set_server", "collation_server"}
)  # fmt: skip


def layout_options(settings: Mapping[str, str]) -> dict[str, str]:
    """Those of the user's settings that shape the files themselves: they are needed from the first initialisation on,
    and a directory made with others is another directory."""
    return {name: value for name, value in settings.items() if name.removeprefix("loose_") in LAYOUT_OPTIONS}


MOST_OF_THE_ROOM = 0.85


def missing(stages: Sequence[Stage]) -> Need:
    return Need(
        bytes=sum(stage.need.bytes for stage in stages if not stage.whole),
        inodes=sum(stage.need.inodes for stage in stages if not stage.whole),
    )


def check_room(stages: Sequence[Stage], room: Need, *, keep: bool) -> None:
    """Before the first of them is built, an hour before the last would fail: versions run one after the other, and
    what this session built makes room for what comes, unless it is to be kept."""
    built: list[Stage] = []
    for stage in stages:
        if stage.whole:
            continue
        while built and not fits(stage.need, room) and not keep:
            room = _plus(room, built.pop(0).need)
        if not fits(stage.need, room):
            beside = " beside those before it, which --keep keeps" if keep and built else ""
            raise HostUnfitError(
                f"the data directory of {stage.build.version} needs {_told(stage.need)} and does not fit{beside}: "
                f"{_told(room)} are free",
                "ask for fewer tables (TABLES=), remove kept data directories (`recovery datadirs`), or give DATA= "
                "another disk",
            )
        room = _plus(room, Need(-stage.need.bytes, -stage.need.inodes))
        built.append(stage)


def fits(need: Need, room: Need) -> bool:
    return need.bytes <= room.bytes and need.inodes <= room.inodes


def _plus(one: Need, other: Need) -> Need:
    return Need(one.bytes + other.bytes, one.inodes + other.inodes)


def _told(need: Need) -> str:
    return f"{need.bytes / 1e9:.1f} GB and {need.inodes:,} inodes"


def all_fit(stages: Sequence[Stage], data: Path) -> bool:
    """Whether every directory that is still to be built fits beside those that are there, and leaves room: a full disk
    is a slow one, and results and logs have to go somewhere."""
    need, room = missing(stages), free(data)
    return need.bytes <= MOST_OF_THE_ROOM * room.bytes and need.inodes <= MOST_OF_THE_ROOM * room.inodes
