"""How does one image come into being, whole or not at all, and by one process at a time?"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, Any

import docker
from docker.errors import APIError, ImageNotFound

from recovery.builds.alone import alone
from recovery.builds.image_files import labels_of_a_look
from recovery.errors import HostUnfitError
from recovery.host.engine import MADE, NAME, OWNER
from recovery.host.signals import held_back
from recovery.ownership import made_readable
from recovery.paths import images_dir

Say = Callable[[str], None]
_LATE_SWEEPS = 15
_BETWEEN_SWEEPS_S = 0.2


@contextmanager
def making(client: docker.DockerClient, name: str, say: Say) -> Iterator[None]:
    """Nobody else makes this image meanwhile; parts of it that an attempt left behind are gone before and after."""
    waiting = f"waiting for another process that makes {name}"
    with alone(images_dir() / f".lock-{plain(name)}", lambda: say(waiting)):
        _sweep(client, name)
        try:
            yield
        except KeyboardInterrupt:
            # The engine ends the step that it is at, and keeps what came of it.
            for _ in range(_LATE_SWEEPS):
                time.sleep(_BETWEEN_SWEEPS_S)
                _sweep(client, name)
            raise
        finally:
            _sweep(client, name)


def plain(name: str) -> str:
    """An image's name as part of a file's."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", name)


def _sweep(client: docker.DockerClient, name: str) -> None:
    for image in client.api.images(quiet=True, filters={"label": [f"{NAME}={name}"], "dangling": True}):
        with suppress(APIError):  # a container uses it, or it has gone already
            client.images.remove(image)


def build(client: docker.DockerClient, dockerfile: str, context: IO[bytes], arguments: Mapping[str, str]) -> str:
    """Run a Dockerfile; the new image's id. It has no name yet, and the label of a part."""
    context.seek(0)
    events = client.api.build(
        fileobj=context, custom_context=True, dockerfile=dockerfile, buildargs=dict(arguments), decode=True,
        rm=True, forcerm=True, timeout=None, network_mode="host",
    )  # fmt: skip
    last, image = "", ""
    for event in events:
        if "error" in event:
            raise HostUnfitError(f"the image could not be built: {event['error'].strip()} ({last})", _BUILD_HINT)
        last = str(event.get("stream", "")).strip() or last
        image = str((event.get("aux") or {}).get("ID", image))
    if not image:
        raise HostUnfitError(f"the engine built no image: {last}", _BUILD_HINT)
    return image


_BUILD_HINT = "see the engine's log and its space (`docker system df`)"


def import_tree(client: docker.DockerClient, tar: IO[bytes], name: str) -> str:
    """A root filesystem becomes an image; its id."""
    changes = [f"LABEL {MADE}=part {NAME}={name}", 'CMD ["/bin/sh"]']
    answer: Any = client.api.import_image_from_data(tar, changes=changes)
    found = re.search(r"sha256:[0-9a-f]{64}", str(answer))
    if found is None:
        raise HostUnfitError(f"the engine imported no image: {str(answer).strip()[:200]}", _BUILD_HINT)
    return found[0]


def finish(client: docker.DockerClient, image: str, name: str, labels: Mapping[str, str]) -> str:
    """Only now it gets its name, and the labels that say what it is: those of the container would stay otherwise, with
    a mark of this process on all that is ever made of the image."""
    repository, _, tag = name.rpartition(":")
    all_labels = {**labels, MADE: "image", NAME: name, OWNER: ""}
    written = [f'LABEL {key}="{_escaped(value)}"' for key, value in all_labels.items()]
    with ExitStack() as undo:
        with held_back():
            container = client.containers.create(image, ["/bin/sh"], network_mode="none", labels=labels_of_a_look())
            undo.callback(container.remove, v=True, force=True)
        answer = client.api.commit(str(container.id), repository=repository, tag=tag, changes="\n".join(written))
    return str(answer["Id"])


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("\n", " ")


def id_of(client: docker.DockerClient, name: str) -> str | None:
    """Of an image on this host."""
    try:
        return str(client.images.get(name).id)
    except ImageNotFound:
        return None
    except APIError as error:
        if error.status_code == 400:  # no name of an image
            return None
        raise


def scratch_file() -> IO[bytes]:
    return tempfile.TemporaryFile(dir=made_readable(images_dir()))
