"""Contains `recovery images`, which lists, builds and removes images of servers."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from itertools import product

import click

from recovery.builds import image_list
from recovery.builds.image_resolve import resolve_image
from recovery.builds.resolve import Sources
from recovery.cli.completion import complete_version
from recovery.cli.options import BY_NAME, table_option
from recovery.cli.output import (
    LIST_FORMAT,
    escaped_text,
    make_grid,
    print_line,
    refuse_json_before_subcommand,
    size_text,
    wide_console,
    write_json,
)
from recovery.cli.values import parse_own_servers, split_versions
from recovery.errors import UsageError
from recovery.linux.docker_engine import connect, endpoint
from recovery.linux.privileges import refuse_steps, refused_steps


@click.group(invoke_without_command=True)
@table_option("json")
@click.pass_context
def images(context: click.Context, json_to: str | None) -> int:
    """List the images of servers on this host, their sources, and which were made here."""
    if context.invoked_subcommand is None:
        return _print_images(json_to)
    refuse_json_before_subcommand(context, json_to)
    return 0


def _print_images(json_to: str | None) -> int:
    found = image_list.list_images(connect())
    if write_json(json_to, {"format": LIST_FORMAT, "images": [asdict(row) for row in found]}):
        return 0
    console = wide_console()
    if not found:
        console.print("no images of servers on this host; `recovery images build VERSION` makes one")
        return 0
    grid = make_grid("name", "version", "size", "made here", "source")
    for row in found:
        made = "yes" if row.ours else "no"
        grid.add_row(
            escaped_text(row.name),
            escaped_text(row.version or "-"),
            size_text(row.bytes),
            made,
            escaped_text(row.source),
        )
    console.print(grid)
    console.print("Sizes count the base with every image that stands on it; it is on the disk once.")
    return 0


@images.command("list")
@table_option("json")
def images_list(json_to: str | None) -> int:
    """List the images."""
    return _print_images(json_to)


@images.command("build")
@click.argument("versions", nargs=-1, envvar=BY_NAME["version"].variable, shell_complete=complete_version)
@table_option("mysqld")
@table_option("archive")
@table_option("registry")
@table_option("offline")
@table_option("unprivileged")
def images_build(
    versions: tuple[str, ...],
    mysqld: tuple[str, ...],
    archive: str | None,
    registry: str | None,
    offline: bool,
    unprivileged: bool,
) -> int:
    """Pull or build the image of each VERSION."""
    versions = split_versions(versions)
    if not versions and not mysqld:
        raise UsageError("no server was named", "name one: `recovery images build 5.7.22`")
    if mysqld and len(versions) > 1:
        raise UsageError(
            "a server has one version, but several are named", "name one version, or none: it is asked", option="mysqld"
        )
    at = endpoint()
    client = connect(at)
    print_line(f"the Docker engine at {at}", err=True)
    refused = refused_steps(unprivileged=unprivileged)
    places = [own.place for own in parse_own_servers(mysqld)]
    for version, place in product(versions or (None,), places or (None,)):
        sources = Sources(archive=archive, offline=offline, mysqld=place, registry=registry)
        with refuse_steps(refused):
            build = resolve_image(version, sources, partial(print_line, err=True), client)
        name = next(iter(client.images.get(str(build.image)).tags), str(build.image))
        print_line(f"{name}  {build.version} ({build.version.text})")
    return 0


@images.command("remove")
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All that were made here and are not in use.")
def images_remove(names: tuple[str, ...], everything: bool) -> int:
    """Remove images that were made here.

    They are named by name or version. Other images are never touched."""
    if bool(names) == everything:
        raise UsageError("say which: names, or --all", "`recovery images` lists them")
    client = connect()
    if everything:
        removed, left = image_list.remove_all_images(client)
        for name in removed:
            print_line(f"removed {name}")
        for name in left:
            print_line(f"left {name}: in use")
    for name in names:
        print_line(f"removed {image_list.remove_image(client, name)}")
    return 0
