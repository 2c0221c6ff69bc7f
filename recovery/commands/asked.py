"""What do the options of a measuring command ask for, once every layer and the newest session have had their say?"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from recovery.builds.catalog import DEFAULT_VERSION
from recovery.builds.resolve import known_wanted
from recovery.commands.options import repeat_command
from recovery.errors import RecoveryError, UsageError
from recovery.limited import parse_limits, repeated
from recovery.model import Cache, Layout, Schema
from recovery.paths import DEFAULT_RESULTS, default_data_dir
from recovery.request import (
    DEFAULT_INSERTS,
    DEFAULT_RUNS,
    DEFAULT_TABLES,
    MOST_INSERTS,
    MOST_RUNS,
    MOST_SCHEMAS,
    MOST_TABLES,
    Request,
    check_layouts,
    identifier,
    parse_layout,
    parse_notes,
    parse_points,
    parse_settings,
    parse_share,
    parse_variants,
    positive,
    split_versions,
    variant_text,
)
from recovery.scenarios import find_scenario
from recovery.scenarios.scale import SCALE
from recovery.server.options import shaping
from recovery.store import find, load

Given = Mapping[str, Any]
"""Options by the names of click's parameters; None or empty is one that nobody gave."""


def newest(results: Path) -> Path | None:
    """The newest session's folder, where there is one."""
    try:
        return find(results, None).resolve()
    except (RecoveryError, OSError):
        return None


def make_request(scenario: str, given: Given) -> Request:
    given = _gone_on_with(given) if scenario == "warm-recovery" else given
    versions = split_versions(given["versions"])
    if given["mysqld"] and len(versions) > 1:
        raise UsageError("MYSQLD is one server, VERSION names several", "name one version, or none: it is asked")
    if given["image"] and len(versions) > 1:
        raise UsageError("IMAGE is one server, VERSION names several", "name one version, or none: it is asked")
    if not versions and not given["mysqld"] and not given["image"]:
        versions = (DEFAULT_VERSION,)
    if math.isnan(given["stall_s"]):
        raise UsageError("--stall nan makes no sense", "give seconds, like --stall 300")
    points = parse_points(given["tables"]) if scenario == SCALE.name else ()
    request = Request(
        scenario=scenario,
        versions=_each_once(versions),
        schema=asked_schema({**given, "tables": str(points[-1])} if points else given),
        points=points,
        predict=positive("--predict", given["predict"], MOST_TABLES) if given.get("predict") else None,
        variants=parse_variants(given["variants"]),
        runs=positive("RUNS", given["runs"] or DEFAULT_RUNS, MOST_RUNS),
        data=_path(given["data"] or default_data_dir()),
        results=_path(given["results"]),
        settings=parse_settings(given["settings"]),
        insert_template=given["insert_template"] and _path(given["insert_template"]),
        mysqld=_place(given["mysqld"]),
        archive=given["archive"],
        engine=_engine(given),
        image=given["image"],
        registry=given["registry"],
        inserts=_count("--inserts", given["inserts"] or str(DEFAULT_INSERTS), most=MOST_INSERTS),
        as_published=given["as_published"],
        trace=given["trace"],
        stacks=given["stacks"],
        baseline=_baseline(given["baseline"], versions),
        fail_over=None if given["fail_over"] is None else parse_share("--fail-over", given["fail_over"]),
        floor=given["floor"],
        allow_drop=not given["no_drop_caches"],
        keep=given["keep"],
        offline=given["offline"],
        stall_s=given["stall_s"],
        limits=parse_limits(given["read_iops"], given["read_bps"], given["memory"], given["cpus"]),
        note=parse_notes(given["notes"]),
        probe=not given["no_probe"],
    )
    _check_together(request)
    return replace(request, command=_repeat(request))


def _check_together(request: Request) -> None:
    """What is fine by itself, but not with the rest."""
    if request.floor and Cache.COLD not in find_scenario(request.scenario).caches:
        raise UsageError(f"--floor is held against cold starts, and {request.scenario} has none", "leave --floor out")
    if request.fail_over is not None and len(request.versions) < 2:
        raise UsageError(
            "--fail-over holds versions against each other, and here is one",
            "name two (VERSION), or hold two sessions against each other: recovery compare A B --fail-over 10%",
        )
    check_layouts(request)
    every = (request.settings, *(variant.settings for variant in request.variants))
    if request.trace and any(("innodb_fast_shutdown", "2") in settings for settings in every):
        raise UsageError(
            "--trace looks into the files after a shutdown, and innodb_fast_shutdown=2 leaves changes out of them",
            "leave one of them out",
        )


def _engine(given: Given) -> str:
    for name in ("image", "registry"):
        if given[name] and given["engine"] == "local":
            raise UsageError(f"{name.upper()} is for containers, but ENGINE says local", "leave one of them out")
    for other in ("mysqld", "archive"):
        if given["image"] and given[other]:
            raise UsageError(f"IMAGE and {other.upper()} name two servers", "leave one of them out")
    if given["image"] and given["registry"]:
        raise UsageError(
            "REGISTRY does not hold for IMAGE", "write it into the image's name: localhost:5000/my/server:1"
        )
    return given["engine"] or "auto"


def _each_once(versions: tuple[str, ...]) -> tuple[str, ...]:
    """Two spellings of one release are one server."""
    found: dict[object, str] = {}
    for text in versions:
        wanted = known_wanted(text)
        found.setdefault(wanted.release or wanted, text)
    return tuple(found.values())


def asked_schema(given: Given) -> Schema:
    return Schema(
        tables=positive("TABLES", given["tables"] or DEFAULT_TABLES, MOST_TABLES),
        databases=positive("SCHEMAS", given["schemas"] or 1, MOST_SCHEMAS),
        columns=_count("--columns", given["columns"], most=1000),
        rows=_count("--rows", given["rows"], most=10_000_000),
        database=identifier("--database", given["database"] or "discovery"),
        template=given["template"] and _path(given["template"]),
        layout=parse_layout(given["layout"] or Layout.FILES),
    )


def _baseline(named: str | None, versions: tuple[str, ...]) -> str | None:
    """As the version was named: two spellings of one release are one server."""
    if named is None:
        return None
    for version in _each_once(versions):
        if named == version or (known_wanted(named).release or named) == known_wanted(version).release:
            return version
    there = " ".join(versions) or "nothing"
    raise UsageError(f"the baseline {named} is not measured", f"name one of VERSION's: {there}")


def _count(name: str, text: str | None, *, most: int) -> int:
    return 0 if text in (None, "0") else positive(name, str(text), most)


def _path(path: Path) -> Path:
    """What is stored must mean the same from another folder."""
    return path.expanduser().absolute()


def _place(place: str | None) -> str | None:
    return place if place is None or "://" in place else str(_path(Path(place)))


def _gone_on_with(given: Given) -> Given:
    """A warm measurement for which no server is named goes on where the newest session left off: its servers over its
    data directories, under its limits. What is given all the same wins."""
    folder = None if given["versions"] or given["mysqld"] or given["image"] else newest(_path(given["results"]))
    if folder is None:
        return given
    try:
        session = load(folder)
    except RecoveryError as error:
        raise UsageError(
            f"the newest session is no guide: {error.message}", f"give VERSION=, or {error.hint}"
        ) from None
    asked = {name: str(value) for name, value in session.settings.items() if value not in (None, "")}
    stored: dict[str, Any] = {
        name: asked.get(name)
        for name in (
            *("tables", "schemas", "columns", "rows", "database", "layout"),
            *("mysqld", "archive", "engine", "image", "registry"),
            *("read_iops", "read_bps", "cpus"),
        )
    }
    stored["memory"] = asked.get("memory_bytes")
    stored |= {name: Path(asked[name]) for name in ("data", "template", "insert_template") if name in asked}
    # A server of the user's own is asked for its version again; others are taken as they were asked for: an image's tag
    # may say more than the release that was found in it.
    named = () if "mysqld" in asked or "image" in asked else (asked.get("version") or " ".join(session.versions),)
    stored["versions"] = split_versions(named)
    shape = shaping(dict(parse_settings(tuple(shlex.split(asked.get("set", ""))))))
    stored["settings"] = tuple(f"{name}={value}" for name, value in shape.items())
    stored["notes"] = (asked["note"],) if "note" in asked else ()
    stored["variants"] = tuple(shlex.split(asked.get("variants", "")))
    return {**given, **{name: value for name, value in stored.items() if value and not given[name]}}


def _repeat(request: Request) -> str:
    schema = request.schema
    options: list[tuple[str, object]] = [
        ("--version", " ".join(request.versions) or None),
        ("--tables", " ".join(map(str, request.points)) or schema.tables),
        ("--schemas", schema.databases if schema.databases > 1 else None),
        ("--layout", schema.layout.value if schema.layout is not Layout.FILES else None),
        ("--columns", schema.columns or None),
        ("--rows", schema.rows or None),
        ("--database", schema.database if schema.database != "discovery" else None),
        ("--runs", request.runs),
        ("--results", request.results if request.results != _path(DEFAULT_RESULTS) else None),
        ("--data", request.data if request.data != default_data_dir() else None),
        ("--mysqld", request.mysqld),
        ("--archive", request.archive),
        ("--engine", request.engine if request.engine != "auto" else None),
        ("--image", request.image),
        ("--registry", request.registry),
        ("--template", schema.template),
        ("--insert-template", request.insert_template),
        *(("--set", f"{name}={value}" if value else name) for name, value in request.settings),
        *(("--variant", variant_text(variant)) for variant in request.variants),
        ("--predict", request.predict),
        *repeated(request.limits),
        ("--inserts", str(request.inserts) if request.inserts != DEFAULT_INSERTS else None),
        ("--as-published", request.as_published),
        ("--trace", request.trace),
        ("--stacks", request.stacks),
        ("--floor", request.floor),
        ("--baseline", request.baseline),
        ("--fail-over", None if request.fail_over is None else f"{100 * request.fail_over:g}%"),
        ("--no-drop-caches", not request.allow_drop),
        ("--keep", request.keep),
        ("--offline", request.offline),
        ("--no-probe", not request.probe),
        ("--note", request.note),
        ("--stall", f"{request.stall_s:g}" if request.stall_s != Request.stall_s else None),
    ]
    return repeat_command(request.scenario, options)
