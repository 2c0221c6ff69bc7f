"""The engine that runs servers in containers. Imported only if containers are used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial

import docker

from recovery.builds import image_inspect
from recovery.builds.image_resolve import resolve_image
from recovery.builds.option_lists import listed_options
from recovery.builds.resolve import Sources
from recovery.linux import docker_engine
from recovery.linux.docker_engine import DockerCacheDropper
from recovery.linux.page_cache import CacheDropper, direct_cache_dropper
from recovery.model import Build
from recovery.mysqld.container import ContainerLauncher
from recovery.session.engine import DOCKER, Engine, Say


def container_engine(
    sources: Sources, say: Say, client: docker.DockerClient, at: docker_engine.Endpoint, *, open_files: int | None
) -> Engine:

    def dropper(builds: Sequence[Build]) -> CacheDropper | None:
        image = next((build.image for build in builds if build.image), None)
        return direct_cache_dropper() or (DockerCacheDropper(client, image) if image else None)

    return Engine(
        DOCKER,
        lambda version, own: resolve_image(version, replace(sources, mysqld=own), say, client),
        ContainerLauncher(at.url, open_files),
        dropper,
        cache(lambda build: listed_options(build, partial(image_inspect.query_image_options, client))),
        docker_engine.engine_facts(client, at),
    )
