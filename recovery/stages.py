"""Which data directory does each version need, is it there, and does the rest fit? Before anything is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recovery.errors import HostUnfitError
from recovery.host.datadir import DataDirs
from recovery.host.space import Need, free, need_for
from recovery.load.schema import template_text
from recovery.model import Build, Schema
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
    status = {info.key: info.status for info in directories.list()}
    stages = []
    for build in builds:
        if dies_with(build.version, schema.total_tables):
            raise HostUnfitError(
                f"{build.version} was withdrawn: it dies on a restart with more than 8,000 tables",
                "take the release after it, or TABLES=8000",
            )
        key = directories.key_for(build, schema, template_text=template_text(schema), options=layout_options(settings))
        whole = status.get(key) in ("whole", "in_use")
        stages.append(Stage(build, key, whole, need_for(build.version, schema.total_tables)))
    return tuple(stages)


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


def all_fit(stages: Sequence[Stage], data: Path) -> bool:
    """Whether every directory that is still to be built fits beside those that are there, and leaves room: a full disk
    is a slow one, and results and logs have to go somewhere."""
    need, room = missing(stages), free(data)
    return need.bytes <= MOST_OF_THE_ROOM * room.bytes and need.inodes <= MOST_OF_THE_ROOM * room.inodes
