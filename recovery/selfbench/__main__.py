"""`make bench`: measures the tool and prints Markdown, ready for docs/performance.md."""

from __future__ import annotations

import statistics
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import click

from recovery.builds.catalog import DEFAULT_VERSION
from recovery.builds.listing import offers
from recovery.errors import RecoveryError
from recovery.host.facts import environment
from recovery.host.lock import host_lock
from recovery.paths import default_data_dir
from recovery.selfbench import biglog, building, kept, watching
from recovery.selfbench.site import Site, scratch

LONG_START = "8.0.31"
"""Reads every tablespace at each start, so that a start takes long enough to be compared."""
AT_REST_S = 60
"""ext4 goes round the inodes of files deleted in the last minute."""


@click.command()
@click.option("--data", type=click.Path(path_type=Path), envvar="RECOVERY_DATA", help="A folder on the volume to use.")
@click.option("--version", "versions", multiple=True, help="Servers for the build rates. [default: the catalog]")
@click.option("--tables", default=20_000, show_default=True, type=click.IntRange(100))
@click.option("--pairs", default=60, show_default=True, type=click.IntRange(10))
@click.option("--limit", "limit_s", default=60.0, show_default=True, help="Seconds for each published build.")
@click.option("--only", type=click.Choice(["building", "watching", "kept"]), help="One part.")
def main(
    data: Path | None, versions: tuple[str, ...], tables: int, pairs: int, limit_s: float, only: str | None
) -> None:
    data = (data or default_data_dir()).absolute()
    with host_lock(), scratch(data) as site:
        host = environment(data)
        click.echo(
            f"Measured {datetime.now(UTC):%Y-%m-%d %H:%M} UTC on {host.get('cpu_model')}, {host.get('cpus')} CPUs, "
        )
        click.echo(f"{host.get('filesystem')}, kernel {host.get('kernel')}.\n")
        if only in (None, "building"):
            _building(site, versions or tuple(offer.version for offer in offers()), tables, limit_s)
        if only in (None, "watching"):
            _watching(site, tables, pairs)
        if only in (None, "kept"):
            _kept(data)


def _building(site: Site, versions: tuple[str, ...], tables: int, limit_s: float) -> None:
    click.echo(f"## Building {tables:,} tables\n")
    time.sleep(AT_REST_S)
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
    long = site.build(LONG_START)
    with site.staged(long, tables) as staged:
        found = watching.pairs(site, long, staged, count=pairs)
    mean, upper = watching.overhead(found)
    _line(
        f"startup under the tool against a bare shell loop, {LONG_START}, {tables:,} tables, {pairs} pairs of "
        f"{statistics.mean(pair.bare_s for pair in found):.1f} s",
        f"{mean:+.2%}, 95 % upper bound {upper:+.2%}",
    )
    click.echo()


def _kept(data: Path) -> None:
    click.echo("## Over a kept data directory\n")
    key = kept.largest(data)
    if key is None:
        click.echo("not measured: no data directory is kept here\n")
        return
    found = kept.measure(data, key)
    _line(f"{found.tables:,} tables ({key}): until the first trial begins", f"{found.begin_s:.1f} s")
    _line("making it cold and proving it", f"{found.cold_s:.1f} s, {found.resident_bytes or 0:,} bytes found resident")


def _row(cells: tuple[str, ...]) -> None:
    click.echo("| " + " | ".join(cells) + " |")


def _line(what: str, figure: str) -> None:
    click.echo(f"* {what}: {figure}")


if __name__ == "__main__":
    try:
        main(standalone_mode=False)
    except (RecoveryError, click.ClickException) as error:
        sys.exit(f"error: {error}\nhint:  {getattr(error, 'hint', '') or 'see --help'}")
