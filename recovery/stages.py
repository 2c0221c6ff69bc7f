"""Which data directories does a plan need, are they there, and does the rest fit? Before anything is built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from recovery.errors import HostUnfitError, UsageError
from recovery.host.datadir import DataDirs
from recovery.host.space import HINT, MOST_OF_THE_ROOM, NOTHING, Need
from recovery.load.schema import check_template, need_of, template_text
from recovery.model import Build, Layout, Schema, Version
from recovery.plan import Place
from recovery.server.options import merge, shaping
from recovery.versions import can, dies_with


@dataclass(frozen=True)
class Stage:
    """One data directory of the plan: where it will be, whether it is whole already, and what it takes."""

    place: Place
    build: Build
    schema: Schema
    settings: Mapping[str, str]
    """Settings that shape the files."""
    key: str
    whole: bool
    size: Need
    """Of the whole of it."""
    need: Need
    """Of what is still to be made."""

    @property
    def title(self) -> str:
        return " ".join((f"{self.build.version}: {self.schema.total_tables:,} tables", *self.place.words))


def survey(
    places: Sequence[Place], builds: Sequence[Build], *, asked: Schema, data: Path, settings: Mapping[str, str]
) -> tuple[Stage, ...]:
    """In the order of the places; the builds are those of their versions."""
    directories = DataDirs(data)
    kept = {info.key: info for info in directories.list()}
    found = {build.version: build for build in builds}
    stages = []
    for place in places:
        build, schema = found[place.version], place.schema(asked)
        refuse(build.version, schema)
        shape = shaping(merge(settings, dict(place.settings)))
        key = directories.key_for(build, schema, template_text=template_text(schema), options=shape)
        size, there = need_of(check_template(schema), build.version, schema, shape), kept.get(key)
        whole = there is not None and there.status in ("whole", "in_use")
        # What lies there is gone on with, or makes room for itself by being removed.
        done = min(1.0, (there.bytes or 0) / size.bytes) if there else 0.0
        need = NOTHING if whole else size.part(done)
        stages.append(Stage(place, build, schema, shape, key, whole=whole, size=size, need=need))
    return tuple(stages)


def refuse(version: Version, schema: Schema) -> None:
    """What this server is known not to hold."""
    if dies_with(version, schema.total_tables):
        raise HostUnfitError(
            f"{version} was withdrawn: it dies on a restart with more than 8,000 tables",
            "take the release after it, or TABLES=8000",
        )
    if schema.layout is Layout.GENERAL and not can(version, "general_tablespaces"):
        raise UsageError(
            f"{version} has no general tablespaces, in which all tables could lie in one file",
            "ask for MySQL 5.7.6 or later, or leave layout=general out",
        )
    if schema.layout is Layout.ENCRYPTED and not (can(version, "keyring_file") or can(version, "file_key_management")):
        raise UsageError(
            f"{version} has no plugin that takes the keys of encrypted tables from a file",
            "ask for MySQL 5.7.11 to 8.3, or for MariaDB, or leave layout=encrypted out",
        )


def check_room(stages: Sequence[Stage], room: Need, *, keep: bool, done_with: Sequence[Stage] = ()) -> None:
    """Before the first of them is built, an hour before the last would fail: versions run one after the other, and
    what this session built makes room for what comes, unless it is to be kept."""
    built = [replace(stage, need=stage.size) for stage in done_with]
    for stage in stages:
        if stage.whole:
            continue
        if built and built[-1].place.grows_into(stage.place):
            room += built.pop().need
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


def check_beside(stages: Sequence[Stage], room: Need) -> None:
    """Of a session that goes on in the order in which it began."""
    need = sum((stage.need for stage in stages), NOTHING)
    if not need.fits(room):
        raise HostUnfitError(f"the data directories that are missing need {need}, and {room} are free", HINT)


def may_alternate(needs: Iterable[Need], room: Need, *, growing: bool) -> bool:
    """Whether every directory that is still to be built fits beside those that are there, and leaves room. One that
    grows from one number of tables to the next is needed at one of them at a time."""
    return not growing and sum(needs, NOTHING).fits(room, share=MOST_OF_THE_ROOM)
