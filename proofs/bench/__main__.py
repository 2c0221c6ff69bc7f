"""`make bench`: measures the tool itself; prints Markdown for docs/reliability.md, and keeps every figure."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click

from bench import building, starts
from bench.building import Built
from bench.page import PARTS, Found, head, section
from bench.site import quiet, scratch
from bench.starts import BARE, CONTAINER, TOOL, TRACED, Start
from recovery import __version__
from recovery.builds import catalog
from recovery.builds.catalog import DEFAULT_VERSION
from recovery.builds.resolve import Sources, resolve_server
from recovery.cli.main import cli, main
from recovery.cli.options import DEFAULT_RESULTS
from recovery.cli.values import split_versions
from recovery.errors import HostUnfitError, UsageError
from recovery.linux import docker_engine
from recovery.linux.files import default_data_dir, expand_path, parse_json, write_atomically
from recovery.linux.host_facts import collect_host_facts
from recovery.linux.locks import host_lock
from recovery.model import Build, Cache
from recovery.session.store import check_results_folder
from recovery.storage.sessions import writing_results

_LONG = 5
"""Factor on the tables if watching is measured: longer starts vary less."""


@click.command()
@click.option("--data", type=click.Path(path_type=Path), envvar="RECOVERY_DATA", help="A folder on the volume to use.")
@click.option(
    "--version", "versions", multiple=True, envvar="RECOVERY_VERSION", help="Servers to build with. [default: all]"
)
@click.option("--tables", default=20_000, show_default=True, type=click.IntRange(100), envvar="RECOVERY_TABLES")
@click.option("--pairs", default=60, show_default=True, type=click.IntRange(1), help="Of starts.")
@click.option("--builds", default=3, show_default=True, type=click.IntRange(1), help="Pairs of builds.")
@click.option("--rest", "rest_s", default=60.0, help="Seconds of rest first: ext4 avoids inodes deleted lately.")
@click.option("--only", type=click.Choice(PARTS), help="One part.")
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    envvar="RECOVERY_RESULTS",
    default=DEFAULT_RESULTS,
    show_default=True,
    help="Gets a folder with bench.json.",
)
@click.option("--show", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Print a bench.json again.")
def bench(
    data: Path | None,
    versions: tuple[str, ...],
    tables: int,
    pairs: int,
    builds: int,
    rest_s: float,
    only: str | None,
    results: Path,
    show: Path | None,
) -> None:
    """How fast is this tool? Measured side by side, as Markdown."""
    if show is not None:
        click.echo(_shown(show))
        return
    data = expand_path(data or default_data_dir()).absolute()
    results = expand_path(results)
    check_results_folder(results)
    began = datetime.now(UTC)
    file = results / f"{began:%Y%m%dT%H%M%SZ}-bench" / "bench.json"
    with host_lock():
        found: Found = {
            "measured_at": f"{began:%Y-%m-%d %H:%M} UTC",
            "tool_version": __version__,
            "environment": collect_host_facts(data),
        }
        click.echo(head(found))
        chosen = split_versions(versions) or tuple(str(row.version) for row in catalog.pinned_servers())
        rows: dict[str, Iterator[Built] | Iterator[Start]] = {
            "building": _building(data, chosen, tables, builds, rest_s),
            "watching": _starts(data, _LONG * tables, (BARE, TOOL), (Cache.WARM,), pairs),
            "tracing": _starts(data, _LONG * tables, (TOOL, TRACED), (Cache.WARM,), pairs),
            "engines": _starts(data, tables, (TOOL, CONTAINER), tuple(Cache), pairs),
        }
        for part in PARTS if only is None else (only,):
            if part == "engines" and (why_not := _no_engine()):
                click.echo(f"Containers are not measured: {why_not}\n")
                continue
            found[part] = []
            for row in rows[part]:
                found[part].append(asdict(row))
                _keep(file, found)
            click.echo(section(part, found[part]))
    click.echo(f"stored in {file}", err=True)


def _building(data: Path, versions: tuple[str, ...], tables: int, count: int, rest_s: float) -> Iterator[Built]:
    for version in versions:
        time.sleep(rest_s)
        with scratch(data) as site:
            yield from building.compare(site, _build(version), tables, count=count)


def _starts(data: Path, tables: int, ways: tuple[str, str], caches: tuple[Cache, ...], count: int) -> Iterator[Start]:
    with scratch(data) as site:
        for cache in caches:
            yield from starts.compare(site, _build(DEFAULT_VERSION), tables, ways, cache=cache, count=count)


def _build(version: str) -> Build:
    return resolve_server(version, Sources(), quiet)


def _no_engine() -> str | None:
    try:
        docker_engine.connect().close()
    except HostUnfitError as error:
        return error.message
    return None


def _keep(file: Path, found: Found) -> None:
    with writing_results(file.parent):
        file.parent.mkdir(exist_ok=True)
        write_atomically(file, json.dumps(found, indent=1).encode() + b"\n")


def _shown(file: Path) -> str:
    try:
        found = parse_json(file.read_bytes())
        return "\n".join([head(found), *(section(part, found[part]) for part in PARTS if found.get(part))])
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise UsageError(f"{file} cannot be read as a bench.json", "give a file that `make bench` wrote") from error


if __name__ == "__main__":
    # As one more command of the tool: errors, settings and signals are handled alike.
    cli.add_command(bench)
    sys.argv.insert(1, "bench")
    main()
