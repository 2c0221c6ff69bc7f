"""Plans a session: its trials, the data directories under them, and the disk space and time that they take.

Problems are reported at this point, not after an hour of building or measuring."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from recovery.builds.catalog import DEFAULT_VERSION
from recovery.builds.resolve import Sources, parse_release, parse_version_option, resolve_server
from recovery.errors import HostUnfitError, UsageError
from recovery.linux.procfs import memory_bytes
from recovery.linux.storage import MAX_USED_SHARE, NO_SPACE, SPACE_HINT, DiskSpace, free_space
from recovery.model import Build, Version
from recovery.mysqld.datadir import DataDirInfo, DataDirs, folders_with_copy
from recovery.mysqld.options import base_name, datadir_settings, merge
from recovery.session.engine import LOCAL
from recovery.session.estimate import build_seconds, trial_seconds
from recovery.session.option_checks import check_versions
from recovery.session.plan import (
    DatadirSpec,
    Plan,
    PlannedDatadir,
    are_warm_starts_only,
    combined_need,
    datadir_spec,
    datadir_specs,
    is_supported_by,
    needs_first_read,
    plan_trials,
    unsupported_questions,
    variants_by_datadir,
)
from recovery.session.request import Request
from recovery.workload.schema import disk_need, script_size, template_text

if TYPE_CHECKING:
    from recovery.session.resume import ResumedSession

_SMALLER_HINT = 'choose a smaller SCALE, fewer experiments (--only "…"), or another disk (--data)'
_NO_NAMES: Mapping[Version, str] = {}


def plan_ahead(request: Request) -> Plan:
    """Returns the plan of a session whose servers are not fetched yet; nothing is downloaded, built or started.

    For versions that are determined at the start, a similar release or the default version is assumed."""
    names: dict[Version, str] = {}
    wanted = [parse_version_option(text) for text in request.servers.versions]
    if request.servers.mysqld:
        like = wanted[0].like if wanted else parse_release(DEFAULT_VERSION)
        found = {own: own_server_version(own.place) for own in request.servers.mysqld}
        versions = [replace(version or like, build=own.name) for own, version in found.items()]
        names = {replace(like, build=own.name): str(own) for own, version in found.items() if version is None}
    elif not wanted:
        versions = [parse_release(DEFAULT_VERSION)]
        names = {versions[0]: str(request.servers.image)}
    else:
        from_archive = [server for server in wanted if server.is_listed and not request.servers.offline]
        unknown = [
            server
            for server in wanted
            if server.release is None and (server in from_archive or request.servers.engine != LOCAL)
        ]
        versions = [server.like if server in unknown else parse_release(server.text) for server in wanted]
        names = {server.like: server.text for server in unknown}
    return plan_session(request, versions, names=names)


def own_server_version(mysqld: str) -> Version | None:
    """Returns the version of a server of the user's own (MYSQLD), or None if it cannot be determined yet.

    The server must be unpacked on this host, and must run without libraries that would have to be fetched."""
    if "://" in mysqld:
        return None
    if not Path(mysqld).exists():
        raise UsageError(
            f"{mysqld}: there is no such file or folder", "give the server's executable or tarball", option="mysqld"
        )
    if not (Path(mysqld).is_dir() or os.access(mysqld, os.X_OK)):
        return None
    try:
        return resolve_server(None, Sources(mysqld=mysqld, offline=True), lambda _: None).version
    except HostUnfitError:
        return None


def plan_session(
    request: Request,
    versions: Sequence[Version],
    *,
    builds: Sequence[Build] = (),
    names: Mapping[Version, str] = _NO_NAMES,
    resumed: ResumedSession | None = None,
) -> Plan:
    """Returns the plan of a session over these versions, and refuses what is impossible.

    `builds` are the servers, once they are fetched. `names` has what the user wrote for versions that are only
    assumed."""
    known = [version for version in versions if version not in names]
    if repeated := next((version for version in known if known.count(version) > 1), None):
        raise UsageError(f"two of the names mean {repeated}", "name each server once", option="version")
    check_versions(request, known, assumed=tuple(names))
    variants, servers = request.all_variants, {build.version: build for build in builds}
    kept = {info.key: info for info in DataDirs(request.output.data).list()}
    datadirs = tuple(
        _plan_datadir(request, spec, servers.get(spec.version), kept) for spec in datadir_specs(versions, variants)
    )
    room = free_space(request.output.data)
    alternating = _can_alternate(request, datadirs, room) if resumed is None else resumed.planned.alternating
    settings, read_iops = request.lasting_settings, request.servers.limits.read_iops
    load_s = request.experiment_options.load_before_kill_s
    trial_s = {
        (str(version), variant.name): load_s
        + trial_seconds(
            version,
            datadir_spec(version, variant).schema(request.sizes.schema),
            variant,
            read_iops=read_iops,
            settings=settings,
        )
        for version in versions
        for variant in variants
        if is_supported_by(variant, version)
    }
    trials = plan_trials(
        versions,
        variants,
        repeats=request.sizes.repeats,
        alternating=alternating,
        extras=request.method.extras,
        first=request.experiment_options.first_run,
        first_reads={datadir.spec for datadir in datadirs if needs_first_read(datadir.schema)},
        seed=request.experiment_options.seed,
    )
    return Plan(
        trials,
        alternating,
        tuple(versions),
        variants_by_datadir(versions, variants),
        names=names,
        unavailable=(*request.unavailable, *unsupported_questions(known, variants)),
        datadirs=datadirs,
        room=room,
        trial_s=trial_s,
        servers=servers,
        done=resumed.store.session.done if resumed else frozenset(),
        built=frozenset(resumed.planned.built if resumed else ()),
    )


def _can_alternate(request: Request, datadirs: Sequence[PlannedDatadir], room: DiskSpace) -> bool:
    """Returns whether the data directories can alternate: they must fit on the disk together.

    Those of `scale` cannot, because each number of tables grows out of the smaller one. If all starts are warm, they
    must also fit into the memory together: otherwise each start would need its files to be read again first. Beside
    cold starts this costs nothing, because a cold start leaves the files of its directory in the cache."""
    need = sum((datadir.need for datadir in datadirs), NO_SPACE)
    if request.sizes.points or not need.fits(room, share=MAX_USED_SHARE):
        return False
    if len(datadirs) < 2 or not are_warm_starts_only(request.all_variants):
        return True
    memory = min(memory_bytes(), request.servers.limits.memory_bytes or memory_bytes())
    return sum(datadir.size.bytes for datadir in datadirs) <= memory


def _plan_datadir(
    request: Request, spec: DatadirSpec, build: Build | None, kept: Mapping[str, DataDirInfo]
) -> PlannedDatadir:
    schema = spec.schema(request.sizes.schema)
    settings = datadir_settings(merge(dict(request.servers.options), dict(spec.settings)))
    if schema.own is not None:
        given = set(map(base_name, request.lasting_settings))
        needed = {name: value for name, value in schema.own.settings if base_name(name) not in given}
        settings = merge(needed, settings)
    size = disk_need(script_size(schema), spec.version, schema, settings, request.output.data)
    directories, text = DataDirs(request.output.data), template_text(schema)
    if build is None:
        there = directories.find(spec.version, schema, template_text=text, options=settings)
        key = "" if there is None else there.key
    else:
        key = directories.key_for(build, schema, template_text=text, options=settings)
        there = kept.get(key)
    whole = there is not None and there.is_complete
    # A partial build is either continued, or removed first, which frees the space it takes.
    share = min(1.0, (there.bytes or 0) / size.bytes) if there else 0.0
    need = NO_SPACE if whole else size.remaining(share)
    if whole and schema.own is not None and schema.own.as_is:
        need = size.remaining(0.5)  # each run works on another copy
    return PlannedDatadir(spec, schema, settings, key, whole, size, need, build_seconds(spec.version, schema))


def check_space_ahead(requests: Sequence[Request], plans: Sequence[Plan]) -> None:
    """Raises HostUnfitError if sessions whose servers are not fetched yet cannot fit on the disk.

    Only what is certain is refused: not while a version is assumed, whose data directory may be there, and not while
    there are copies of killed runs, which the session removes first."""
    if any(plan.names for plan in plans) or folders_with_copy(requests[0].output.data):
        return
    if len(plans) == 1:
        check_space(plans[0], keep=requests[0].output.keep)
    else:
        check_combined_space(plans)


def check_combined_space(plans: Sequence[Plan]) -> None:
    """Raises HostUnfitError if the data directories of several experiments do not fit together."""
    need, room = combined_need(plans), plans[0].room
    if not need.fits(room):
        raise HostUnfitError(f"the experiments need {need} of disk, and {room} are free", _SMALLER_HINT)


def check_space(plan: Plan, *, keep: bool) -> None:
    """Raises HostUnfitError if one of the data directories will not fit, before an hour of building shows it.

    Alternating directories are all needed at once. Others come one after the other: one that this session built and no
    longer needs makes room for the next one, unless --keep is set."""
    room = plan.room
    if plan.alternating:
        need = sum((datadir.need for datadir in plan.needed), NO_SPACE)
        if not need.fits(room):
            raise HostUnfitError(f"the data directories that are missing need {need}, and {room} are free", SPACE_HINT)
        return
    built = [replace(datadir, need=datadir.size) for datadir in plan.no_longer_needed]
    for datadir in plan.needed:
        if datadir.whole:
            continue
        if built and built[-1].spec.grows_into(datadir.spec):
            room += built.pop().need
        while built and not datadir.need.fits(room) and not keep:
            room += built.pop(0).need
        if not datadir.need.fits(room):
            beside = " beside those before it, which --keep keeps" if keep and built else ""
            raise HostUnfitError(
                f"the data directory of {datadir.spec.version} needs {datadir.need} and does not fit{beside}: {room} "
                "are free",
                SPACE_HINT,
            )
        room -= datadir.need
        built.append(datadir)
