"""Chooses what runs the servers of a session: local processes, or containers of the host's Docker engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial

import docker

from recovery.builds import executable
from recovery.builds.option_lists import listed_options
from recovery.builds.resolve import (
    ServerRequest,
    Sources,
    known_release,
    locate_server,
    parse_version_option,
    resolve_server,
)
from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.linux import docker_engine
from recovery.linux.docker_engine import DockerCacheDropper, remove_orphaned_containers
from recovery.linux.page_cache import CacheDropper, direct_cache_dropper
from recovery.model import Build
from recovery.mysqld.launcher import Launcher
from recovery.mysqld.local import LocalLauncher
from recovery.session.request import Request

Say = Callable[[str], None]
LOCAL, DOCKER = "local", "docker"
IN_CONTAINERS = "in containers"


@dataclass(frozen=True)
class Engine:
    """Describes one way to get servers, start them, and drop the host's caches."""

    name: str
    resolve: Callable[[str | None, str | None], Build]
    """Returns the server of a version, or the user's own server at a place."""
    launcher: Launcher
    dropper: Callable[[Sequence[Build]], CacheDropper | None]
    """Returns what can drop the host's caches, given the servers' builds; None if nothing can."""
    options: Callable[[Build], frozenset[str]]
    """Returns the names of all options that a server lists; empty if it does not answer."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts for the report's description of the host."""
    instead_of: str = ""
    """Why containers are not used, with ENGINE=auto. It is said once the servers are there."""


def choose_engine(request: Request, say: Say) -> Engine:
    """Returns the engine that ENGINE names (auto: Docker if it answers), after removing containers of killed runs."""
    if request.servers.engine == LOCAL:
        with (
            suppress(HostUnfitError),
            closing(docker_engine.connect()) as client,
        ):  # without an engine there are no containers of an earlier run
            _remove_containers(client, say)
        return _local_engine(request, say)
    reached = _connect_engine(request)
    if isinstance(reached, docker_engine.NoEngineError):
        return replace(_local_engine(request, say), instead_of=reached.message)
    at, client = reached
    say(f"servers run in containers of the Docker engine at {at}")
    _remove_containers(client, say)
    return _container_engine(request, say, client, at)


def resolve_builds(request: Request, chosen: Engine, say: Say) -> tuple[Engine, tuple[Build, ...]]:
    """Returns the builds of the servers and the engine that runs them.

    With ENGINE=auto, falls back to local processes if an image cannot be had. If that fails too, raises the first
    error."""
    try:
        builds = _resolve_all(request, chosen)
    except HostUnfitError as error:
        if chosen.name == LOCAL or not _allows_local(request):
            raise
        local = replace(_local_engine(request, say), instead_of=error.message)
        try:
            chosen, builds = local, _resolve_all(request, local)
        except RecoveryError:
            raise error from None
    if chosen.instead_of:
        say(f"{chosen.instead_of}: servers run as local processes")
    return chosen, builds


def _resolve_all(request: Request, engine: Engine) -> tuple[Build, ...]:
    """Returns a build of each version, or of each server of the user's own, with its name.

    Raises UsageError if two of the user's own are the same binary: their comparison would say nothing about them."""
    if not request.servers.mysqld:
        return tuple(engine.resolve(version, None) for version in request.servers.versions or (None,))
    version = next(iter(request.servers.versions), None)
    builds: dict[str, Build] = {}
    for own in request.servers.mysqld:
        build = engine.resolve(version, own.place)
        if build.fingerprint in builds:
            same = builds[build.fingerprint].version.build
            raise UsageError(
                f"{same} and {own.name} are the same binary (SHA-256 {build.fingerprint[:12]})",
                "check the paths, or measure one of them",
            )
        builds[build.fingerprint] = replace(build, version=replace(build.version, build=own.name))
    return tuple(builds.values())


def locate_servers(request: Request, say: Say) -> tuple[str | RecoveryError, ...]:
    """Returns for each server where it is or would come from, as text, or why it cannot be had. Nothing is fetched.
    Raises UsageError if two names mean one server, as far as that is known before.

    With ENGINE=auto, an image that cannot be had is replaced by a local server, as in `resolve_builds`."""
    wanted: list[tuple[str | None, str | None]]
    wanted = [(next(iter(request.servers.versions), None), own.place) for own in request.servers.mysqld]
    wanted = wanted or [(version, None) for version in request.servers.versions or (None,)]
    reached = None if request.servers.engine == LOCAL else _connect_engine(request)
    if reached is None or isinstance(reached, docker_engine.NoEngineError):
        _refuse_same_servers(request, known_release)
        return tuple(_locate(request, *server, say) for server in wanted)
    with closing(reached[1]) as client:
        _refuse_same_servers(request, partial(_image_on_host, _sources(request), client))
        found = tuple(_locate(request, *server, say, client) for server in wanted)
    if _allows_local(request) and any(isinstance(place, HostUnfitError) for place in found):
        local = tuple(_locate(request, *server, say) for server in wanted)
        return found if any(isinstance(place, RecoveryError) for place in local) else local
    return found


def _refuse_same_servers(request: Request, identify: Callable[[ServerRequest], str | None]) -> None:
    found: dict[str, str] = {}
    for text in request.servers.versions if not request.servers.mysqld and not request.servers.archive else ():
        server = identify(parse_version_option(text))
        if server is not None and (first := found.setdefault(server, text)) != text:
            raise UsageError(
                f"two of the names mean one server: {first} and {text}", "name each server once", option="version"
            )


def _image_on_host(sources: Sources, client: docker.DockerClient, request: ServerRequest) -> str | None:
    from recovery.builds.image_resolve import image_on_host

    with docker_engine.engine_errors():
        return image_on_host(request, sources, client)


def _locate(
    request: Request, version: str | None, own: str | None, say: Say, client: docker.DockerClient | None = None
) -> str | RecoveryError:
    sources = replace(_sources(request), mysqld=own)
    try:
        if client is None:
            return locate_server(version, sources, say)
        from recovery.builds.image_resolve import locate_image

        return locate_image(version, sources, say, client)
    except RecoveryError as error:
        return error


def describe_engine(request: Request) -> str:
    """Returns in words where the servers would run, without starting any; raises the same errors as `choose_engine`."""
    if request.servers.engine == LOCAL:
        LocalLauncher(request.servers.open_files)
        return "as local processes"
    reached = _connect_engine(request)
    if isinstance(reached, docker_engine.NoEngineError):
        LocalLauncher(request.servers.open_files)
        return f"as local processes, for {reached.message}"
    at, client = reached
    client.close()
    return f"{IN_CONTAINERS} of the Docker engine at {at}"


def _connect_engine(
    request: Request,
) -> tuple[docker_engine.Endpoint, docker.DockerClient] | docker_engine.NoEngineError:
    """Returns the host's engine, or the error of a missing engine if the request does not require one."""
    try:
        at = docker_engine.endpoint()
        return at, docker_engine.connect(at)
    except docker_engine.NoEngineError as error:
        if not _allows_local(request):
            raise
        return error


def _allows_local(request: Request) -> bool:
    return request.servers.engine != DOCKER and not request.servers.image


def _remove_containers(client: docker.DockerClient, say: Say) -> None:
    for name in remove_orphaned_containers(client):
        say(f"removed the container {name}, which a killed run had left behind")


def _sources(request: Request) -> Sources:
    return Sources(
        archive=request.servers.archive,
        offline=request.servers.offline,
        image=request.servers.image,
        registry=request.servers.registry,
    )


def _local_engine(request: Request, say: Say) -> Engine:
    sources = _sources(request)
    return Engine(
        LOCAL,
        lambda version, own: resolve_server(version, replace(sources, mysqld=own), say),
        LocalLauncher(request.servers.open_files),
        lambda _: direct_cache_dropper() or _container_cache_dropper(),
        cache(lambda build: listed_options(build, executable.query_options)),
    )


def _container_engine(request: Request, say: Say, client: docker.DockerClient, at: docker_engine.Endpoint) -> Engine:
    from recovery.builds import image_inspect
    from recovery.builds.image_resolve import resolve_image
    from recovery.mysqld.container import ContainerLauncher

    sources = _sources(request)

    def dropper(builds: Sequence[Build]) -> CacheDropper | None:
        image = next((build.image for build in builds if build.image), None)
        return direct_cache_dropper() or (DockerCacheDropper(client, image) if image else None)

    return Engine(
        DOCKER,
        lambda version, own: resolve_image(version, replace(sources, mysqld=own), say, client),
        ContainerLauncher(at.url, request.servers.open_files),
        dropper,
        cache(lambda build: listed_options(build, partial(image_inspect.query_image_options, client))),
        docker_engine.engine_facts(client, at),
    )


def _container_cache_dropper() -> CacheDropper | None:
    """Returns a dropper that uses a container, if there is an engine and an image; otherwise None.

    A user with access to an engine may drop the host's caches, wherever the servers run. Images of this tool come
    first, because they have a shell."""
    with suppress(HostUnfitError, *docker_engine.ENGINE_ERRORS):
        client = docker_engine.connect()
        images = sorted(client.images.list(), key=lambda image: docker_engine.PURPOSE not in image.labels)
        return DockerCacheDropper(client, str(images[0].id)) if images else None
    return None
