"""Resolves VERSION, IMAGE, ARCHIVE and MYSQLD to an image of the server: found on this host, pulled, or built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import docker

from recovery.builds import catalog, image_build, image_list
from recovery.builds.download import Say
from recovery.builds.image_inspect import inspect_image
from recovery.builds.image_list import image_id
from recovery.builds.image_pull import RETRY_ELSEWHERE, NotPulledError, PullFailure, look_up_image, pull_image
from recovery.builds.resolve import (
    DEBIAN_NAMES,
    ServerRequest,
    Sources,
    check_registry,
    locate_server,
    nearest_release,
    parse_version_option,
    registry_names,
    resolve_server,
)
from recovery.errors import HostUnfitError, RecoveryError, UsageError
from recovery.linux import docker_engine
from recovery.model import Build, Flavor, can


@docker_engine.engine_errors()
def resolve_image(version: str | None, sources: Sources, say: Say, client: docker.DockerClient) -> Build:
    """Returns the requested server in an image of this host's engine, and reports each step in one line."""
    if sources.registry is not None:
        check_registry(sources.registry)
    request = None if version is None else parse_version_option(version)
    if sources.image is not None:
        return _use_own_image(request, sources, say, client)
    from_archive = sources.archive is not None and request is not None and (request.release or request.is_listed)
    if sources.mysqld is not None or from_archive:
        # The user has chosen the source of the server, so no registry is asked.
        local = resolve_server(None if request is None else request.text, sources, say)
        return image_build.server_image(client, local, sources, say)
    if request is None:
        raise UsageError("no server was named", "give --version, --image, or your own with --mysqld")
    return _find_on_host(request, sources, say, client) or _pull_or_build(request, sources, say, client)


@docker_engine.engine_errors()
def locate_image(version: str | None, sources: Sources, say: Say, client: docker.DockerClient) -> str:
    """Returns where the server's image is or would come from, as text. Nothing is pulled, fetched or built. Raises what
    `resolve_image` would, as far as that is known without them."""
    if sources.registry is not None:
        check_registry(sources.registry)
    request = None if version is None else parse_version_option(version)
    if sources.image is not None:
        if image_id(client, sources.image) is None:
            _refuse_absent_offline(sources, sources.image)
            look_up_image(client, sources.image)
            return f"the image {sources.image}, to be pulled"
        return "in an image of this host"
    from_archive = sources.archive is not None and request is not None and (request.release or request.is_listed)
    if sources.mysqld is not None or from_archive or request is None:
        return f"in an image of the server {locate_server(version, sources, say)}"
    if image_on_host(request, sources, client) is not None:
        return "in an image of this host"
    return _locate_elsewhere(request, registry_names(request, sources.registry), sources, say, client)


def image_on_host(request: ServerRequest, sources: Sources, client: docker.DockerClient) -> str | None:
    """Returns the id of the image on this host that has the requested server; None if there is none."""
    for name in registry_names(request, sources.registry):
        if (image := image_id(client, name)) is not None:
            return image
    own = image_list.find_own_image(client, request)
    return None if own is None else str(own.id)


def _locate_elsewhere(
    request: ServerRequest, names: Sequence[str], sources: Sources, say: Say, client: docker.DockerClient
) -> str:
    pulled: NotPulledError | None = None
    for name in () if sources.offline else names:
        try:
            look_up_image(client, name)
        except NotPulledError as error:
            if error.why not in RETRY_ELSEWHERE:
                raise
            if error.why in _REGISTRY_PROBLEMS:
                pulled = error
                break
        else:
            return f"the image {name}, to be pulled"
    try:
        if (release := _version_without_image(request)) is None:
            raise _no_image(request)
        return f"in an image of the server {locate_server(release, sources, say)}"
    except RecoveryError as error:
        suite = request.debian or _suite_for(request)
        if suite is None or sources.offline:
            raise _with_registry_problem(pulled, error) from None
    return f"in an image of {suite}{'' if request.debian else ', if that carries it now'}"


_REGISTRY_PROBLEMS = (PullFailure.UNREACHABLE, PullFailure.LIMITED)


def _with_registry_problem(pulled: NotPulledError | None, problem: RecoveryError) -> RecoveryError:
    """Returns the error of a server that no source has. If the registry could not be asked, it may have the server, so
    this is not a usage error."""
    if pulled is None:
        return problem
    return HostUnfitError(f"{pulled.message}; elsewhere {problem.message}", f"{pulled.hint}; {problem.hint}")


def _no_image(request: ServerRequest) -> UsageError:
    return UsageError(
        f"no image of {request.text} was found",
        f"{nearest_release(request.like)}; or {', '.join(DEBIAN_NAMES)}; or give your own --image",
    )


def _refuse_absent_offline(sources: Sources, name: str) -> None:
    if sources.offline:
        raise UsageError(f"{name} is not on this host, and nothing may be fetched while offline", "pull it")


def _use_own_image(request: ServerRequest | None, sources: Sources, say: Say, client: docker.DockerClient) -> Build:
    assert sources.image is not None
    if not sources.image.strip():
        raise UsageError("it is set but empty", "leave it out, or give an image's name", option="image")
    image = image_id(client, sources.image)
    if image is None:
        _refuse_absent_offline(sources, sources.image)
        image = pull_image(client, sources.image, say)
    build = _inspect_and_warn(client, sources.image, image)
    if request is not None and not request.fits(build.version):
        raise UsageError(
            f"it is {build.version} ({build.version.text}), but --version {request.text} was asked for",
            f"leave --version out, or say --version {build.version}",
            option="image",
        )
    return build


def _inspect(client: docker.DockerClient, name: str, image: str) -> Build:
    labels = client.images.get(image).labels
    # Not every image with labels of this tool has a server that this tool put into it: it may be built on the base.
    mysqld = labels.get(docker_engine.MYSQLD, "")
    return inspect_image(client, image, labels[docker_engine.SOURCE] if mysqld else f"image {name}", mysqld)


def _inspect_and_warn(client: docker.DockerClient, name: str, image: str) -> Build:
    """Returns the server in the image, with a warning if the name does not pin the image."""
    build = _inspect(client, name, image)
    by_id = image.removeprefix("sha256:").startswith(name.removeprefix("sha256:"))
    if by_id or "@" in name or not (digests := client.images.get(image).attrs.get("RepoDigests")):
        return build
    warning = f"{name} is not pinned: its registry may give another image by that name. This one is {digests[0]}"
    return replace(build, warnings=(*build.warnings, warning))


def _find_on_host(request: ServerRequest, sources: Sources, say: Say, client: docker.DockerClient) -> Build | None:
    for name in dict.fromkeys((*registry_names(request, sources.registry), *registry_names(request, None))):
        image = image_id(client, name)
        if image is not None:
            build = _inspect_and_warn(client, name, image)
            if request.fits_tag(build.version):
                say(f"{request.text}: the image {name} is on this host")
                return build
            say(f"the image {name} of this host holds {build.version}: it is not used")
    own = image_list.find_own_image(client, request)
    if own is None:
        return None
    name = own.labels[docker_engine.IMAGE_NAME]
    say(f"{request.text}: the image {name} is on this host")
    return _inspect(client, name, str(own.id))


def _pull_or_build(request: ServerRequest, sources: Sources, say: Say, client: docker.DockerClient) -> Build:
    pulled = None if sources.offline else _try_pull(request, sources, say, client)
    if isinstance(pulled, Build):
        return pulled
    problem: RecoveryError
    if (version := _version_without_image(request)) is None:
        problem = _no_image(request)
    else:
        try:
            server = resolve_server(version, replace(sources, image=None), say)
        except RecoveryError as error:
            problem = error
        else:
            return image_build.server_image(client, server, sources, say)
    return _from_debian(request, sources, say, client, _with_registry_problem(pulled, problem))


def _version_without_image(request: ServerRequest) -> str | None:
    """Returns the VERSION by which catalog or archive have the server: the requested one or, for a series whose newest
    release the archive does not tell, the newest release that is pinned; None if there is none."""
    if request.release is not None or request.is_listed:
        return request.text
    pinned = [row.version for row in catalog.pinned_servers() if request.debian is None and request.fits(row.version)]
    return str(max(pinned)) if pinned else None


def _try_pull(
    request: ServerRequest, sources: Sources, say: Say, client: docker.DockerClient
) -> Build | NotPulledError | None:
    """Returns the server in the first pulled image that fits. Returns the error if the registry is unreachable or
    limits the pulls, and None if it does not have the server."""
    for name in registry_names(request, sources.registry):
        try:
            image = pull_image(client, name, say)
        except NotPulledError as error:
            if error.why not in RETRY_ELSEWHERE:
                raise
            say(f"{error.message}: {_NEXT_SOURCE}")
            if error.why in _REGISTRY_PROBLEMS:
                return error
            continue
        build = _inspect_and_warn(client, name, image)
        if request.fits_tag(build.version):
            if request.release is None:
                say(f"{request.text} is {build.version}, in {name}")
            return build
        say(f"{name} holds {build.version}, not {request.text}: {_NEXT_SOURCE}")
    return None


_NEXT_SOURCE = "an image from the server's own archive is next"


def _from_debian(
    request: ServerRequest, sources: Sources, say: Say, client: docker.DockerClient, problem: RecoveryError
) -> Build:
    """Returns the server that Debian currently carries, for a version that no registry and no archive has. Raises
    `problem` if no suite can have it or if nothing may be fetched, and UsageError if the suite carries another version
    now."""
    name = request.debian or _suite_for(request)
    if name is None or sources.offline:
        raise problem
    build = _inspect(client, name, image_build.debian_image(client, name, sources, say))
    if request.fits(build.version):
        return build
    raise UsageError(
        f"{problem.message}; {name} carries {build.version} now",
        f"take --version {name}; if its image is old, `recovery images remove {name}` first; {problem.hint}",
    )


def _suite_for(request: ServerRequest) -> str | None:
    if request.alias is not None or request.flavor is Flavor.PERCONA:
        return None
    return next((suite for suite in DEBIAN_NAMES if can(request.like, suite)), None)
