"""`recovery bench`: measures the tool itself and prints Markdown, ready for docs/performance.md."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime
from pathlib import Path

import click

from recovery.builds import catalog
from recovery.builds.catalog import DEFAULT_VERSION
from recovery.errors import HostUnfitError
from recovery.host import engine
from recovery.host.facts import environment
from recovery.host.lock import host_lock
from recovery.model import Cache
from recovery.paths import default_data_dir, expanded
from recovery.request import split_versions
from recovery.selfbench import biglog, building, engines, fullsize, watching
from recovery.selfbench.site import Site, scratch

_LONG = 5
"""Times as many tables where starts are compared: one of some seconds varies less than one of some tenths."""


@click.command()
@click.option("--data", type=click.Path(path_type=Path), envvar="RECOVERY_DATA", help="A folder on the volume to use.")
@click.option(
    "--version", "versions", multiple=True, envvar="RECOVERY_VERSION", help="Servers to build with. [default: all]"
)
@click.option("--tables", default=20_000, show_default=True, type=click.IntRange(100), envvar="RECOVERY_TABLES")
@click.option("--full", default=200_000, show_default=True, type=click.IntRange(100), help="Tables at full size.")
@click.option("--pairs", default=60, show_default=True, type=click.IntRange(10))
@click.option("--limit", "limit_s", default=60.0, show_default=True, help="Seconds for each published build.")
@click.option("--rest", "rest_s", default=60.0, help="Seconds of rest first: ext4 avoids inodes deleted lately.")
@click.option("--only", type=click.Choice(["building", "watching", "tracing", "full", "engines"]), help="One part.")
def bench(
    data: Path | None,
    versions: tuple[str, ...],
    tables: int,
    full: int,
    pairs: int,
    limit_s: float,
    rest_s: float,
    only: str | None,
) -> None:
    """How fast is this tool? Measured side by side, as Markdown."""
    data = expanded(data or default_data_dir()).absolute()
    with host_lock(), scratch(data) as site:
        host = environment(data)
        click.echo(
            f"Measured {datetime.now(UTC):%Y-%m-%d %H:%M} UTC on {host.get('cpu_model')}, {host.get('cpus')} CPUs, "
        )
        click.echo(f"{host.get('filesystem')}, kernel {host.get('kernel')}.\n")
        if only in (None, "building"):
            chosen = split_versions(versions) or tuple(str(row.version) for row in catalog.rows())
            time.sleep(rest_s)
            _building(site, chosen, tables, limit_s)
        if only in (None, "watching"):
            _watching(site, tables, pairs)
        if only in (None, "tracing"):
            _tracing(site, tables, pairs)
        if only in (None, "full"):
            _full_size(site, full)
        if only in (None, "engines"):
            _engines(site, tables, pairs)


def _building(site: Site, versions: tuple[str, ...], tables: int, limit_s: float) -> None:
    click.echo(f"## Building {tables:,} tables\n")
    _row(building.HEADERS)
    _row(("---",) * len(building.HEADERS))
    for version in versions:
        _row(building.compare(site, version, tables, limit_s=limit_s))
    click.echo()


def _watching(site: Site, tables: int, pairs: int) -> None:
    click.echo("## Watching\n")
    build = site.build(DEFAULT_VERSION)
    with site.staged(build, 2000) as staged:
        lags = watching.lags_ms(site, build, staged, starts=20)
        _line(
            f"ready line seen after its stamp, {DEFAULT_VERSION}, 20 starts", f"median {statistics.median(lags):.2f} ms"
        )
        for megabytes in (0, 1000):
            _line(
                f"a line seen after {megabytes} MB of log, 50 lines",
                f"median {biglog.lag_ms(site.folder, megabytes=megabytes):.2f} ms",
            )
        share = watching.waiting_cpu_share(site, build, staged, seconds=20)
        _line("the tool's own CPU while it waits, 20 s", f"{share:.3%} of a core")
    with site.staged(build, _LONG * tables) as staged:
        found = watching.pairs(site, build, staged, count=pairs)
    _overhead("warm crash recovery under the tool against one under a bare shell loop", _LONG * tables, found)
    click.echo()


def _tracing(site: Site, tables: int, pairs: int) -> None:
    click.echo("## Tracing\n")
    build = site.build(DEFAULT_VERSION)
    with site.staged(build, _LONG * tables) as staged:
        found = watching.traced_pairs(site, build, staged, count=pairs)
    _overhead("warm crash recovery with --trace against one without", _LONG * tables, found)
    click.echo()


def _overhead(what: str, tables: int, found: list[watching.Pair]) -> None:
    mean, upper = watching.overhead(found)
    _line(
        f"{what}, {DEFAULT_VERSION}, {tables:,} tables, {len(found)} pairs of "
        f"{statistics.mean(pair.bare_s for pair in found):.1f} s",
        f"{mean:+.2%}, 95 % upper bound {upper:+.2%}",
    )


def _full_size(site: Site, tables: int) -> None:
    click.echo("## At full size\n")
    found = fullsize.measure(site, DEFAULT_VERSION, tables)
    if found is None:
        click.echo(f"not measured: {tables:,} tables of {DEFAULT_VERSION} do not fit here\n")
        return
    _line(
        f"building {tables:,} tables of {DEFAULT_VERSION}",
        f"{found.rate.per_s:,.0f} tables/s; the whole stage, initialised and proved, {found.stage_s:.0f} s",
    )
    _line("making them cold and proving it", f"{found.cold_s:.1f} s, {found.resident_bytes or 0:,} bytes left")
    _line("a second run over them, from its call to its first server", f"{found.begin_s:.1f} s")
    _line("the tool's own memory, at most", f"{found.peak_memory_bytes / 1e6:.0f} MB")


def _engines(site: Site, tables: int, pairs: int) -> None:
    click.echo("## In a container\n")
    build = site.build(DEFAULT_VERSION)
    try:
        engine.connect().close()
    except HostUnfitError as error:
        click.echo(f"not measured: {error.message}\n")
        return
    with site.staged(build, tables) as staged:
        for cache in Cache:
            found = engines.pairs(site, build, staged, cache, count=pairs)
            mean, low, high = engines.difference(found)
            _line(
                f"{cache.value} crash recovery in a container against a local process, {DEFAULT_VERSION}, "
                f"{tables:,} tables, {pairs} pairs of {statistics.mean(pair.local_s for pair in found):.2f} s",
                f"{mean:+.2%}, 95 % interval {low:+.2%} to {high:+.2%}; the engine takes "
                f"{statistics.median(pair.overhead_s for pair in found):.2f} s before the exec (median)",
            )
    click.echo()


def _row(cells: tuple[str, ...]) -> None:
    click.echo("| " + " | ".join(cells) + " |")


def _line(what: str, figure: str) -> None:
    click.echo(f"* {what}: {figure}")
