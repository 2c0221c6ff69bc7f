"""Finds out which server is in an image, by one script that is run in a container of it."""

from __future__ import annotations

import binascii
import json
import re
import shutil
from base64 import b64decode
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError
from docker.types import LogConfig, Mount

from recovery.builds.executable import (
    MAX_OPTIONS_BYTES,
    SHARE_FOLDERS,
    find_eatmydata,
    list_options_command,
    parse_option_names,
    parse_version_output,
)
from recovery.errors import HostUnfitError, UsageError
from recovery.linux.docker_engine import ENGINE_ERRORS, temporary_container
from recovery.linux.files import create_readable_folder, images_dir, read_memo, write_atomically
from recovery.model import Build, Version, can

_RUN_TIMEOUT_S = 120
LOG_CONFIG = LogConfig(type=LogConfig.types.JSON, config={"max-size": "256m"})
"""The output is read from the container's log, which the engine's own settings could limit or turn off."""
_MAX_OUTPUT_BYTES = 64 << 20
_IMAGE_HINT = "take an image of this host's CPU that holds a MySQL, MariaDB or Percona server"

# --- Running something in an image


def run_in_image(
    client: docker.DockerClient, image: str, command: list[str], *, longest: int = _MAX_OUTPUT_BYTES, **more: Any
) -> tuple[int, bytes, bytes]:
    """Runs a command in a temporary container, in place of the image's entrypoint, which would begin by creating a data
    directory. Returns its exit code and what it printed: its output, cut off after `longest` bytes, and its errors."""
    with temporary_container(
        client, image, "look", entrypoint=command, command=[], user="0", log_config=LOG_CONFIG,
        cap_drop=["ALL"], security_opt=["no-new-privileges"], **more,
    ) as container:  # fmt: skip
        container.start()
        code = int(container.wait(timeout=_RUN_TIMEOUT_S)["StatusCode"])
        output = b""
        for chunk in container.logs(stderr=False, stream=True):
            output += chunk
            if len(output) > longest:
                break
        return code, output, container.logs(stdout=False, tail=100)


# --- Inspecting the server in an image

_MYSQLD_FOLDERS = (
    "/usr/sbin", "/usr/local/mysql/bin", "/usr/bin", "/usr/libexec", "/opt/mysqld/bin", "/opt/mysqld",
    "/opt/bitnami/mysql/bin", "/opt/bitnami/mariadb/sbin", "/usr/local/sbin", "/usr/local/bin",
)  # fmt: skip

# Arguments: the executable, or nothing if it is to be searched for; folders to search after those of PATH, separated by
# colons; patterns of the folders that hold a server's messages; Debian packages. Prints blocks: a line with the name,
# the content in base64, an empty line. The base folders are those of executable.basedir_of(), the
# options those of executable.VERSION_OPTIONS.
_SCRIPT = r"""
mysqld=$1
[ -f "$mysqld" ] || mysqld=
IFS=:
for folder in $PATH $2; do
    for name in mysqld mariadbd; do
        case $folder in /*) [ -n "$mysqld" ] || [ ! -f "$folder/$name" ] || mysqld=$folder/$name ;; esac
    done
done
unset IFS
[ -n "$mysqld" ] || exit 0
block() { echo "$1"; base64; echo; }
mysqld=$(readlink -f "$mysqld")
folder=${mysqld%/*}
case ${folder##*/} in bin | sbin | libexec) above=${folder%/*} ;; *) above=$folder ;; esac
basedir=$above messages=
for base in "$above" "$folder" "${folder%/*}"; do
    for pattern in $3; do
        for share in "$base"/$pattern; do
            if [ -f "$share/english/errmsg.sys" ]; then
                basedir=$base messages=$share
                break 3
            fi
        done
    done
done
printf %s "$mysqld" | block mysqld
printf %s "${basedir:-/}" | block basedir
printf %s "$messages" | block messages
sha256sum "$mysqld" | block sha256
"$mysqld" --no-defaults --loose-version-with-update --version 2>&1 | block version_output
for file in /usr/lib/*-linux-gnu*/libeatmydata.so /usr/lib64/libeatmydata.so /usr/lib/libeatmydata.so; do
    [ ! -f "$file" ] || { printf %s "$file" | block eatmydata; break; }
done
for file in "${messages:-$basedir/share/mysql}"/*.sql "$basedir"/share/mariadb/*.sql "$basedir"/scripts/*.sql; do
    [ ! -f "$file" ] || block "sql ${file##*/}" <"$file"
done
[ -z "$4" ] || dpkg-query -W -f='${Package} ${Version}\n' $4 | block packages
exit 0
"""


_SQL_FILE = re.compile(r"sql (\w[\w.-]*\.sql)", re.ASCII)


@dataclass(frozen=True)
class ImageInspection:
    """What is stored about an image, so that it is inspected only once."""

    mysqld: str
    basedir: str
    messages: str
    """The folder of the error messages; empty if there is none."""
    fingerprint: str
    version_output: str
    """The output of mysqld --version."""
    eatmydata: str
    """Path of libeatmydata in the image; empty if it has none."""


def version_of(inspection: ImageInspection) -> Version:
    version = parse_version_output(inspection.version_output)
    if version is None:
        last = inspection.version_output.splitlines()[-1][:200] if inspection.version_output else "nothing"
        raise HostUnfitError(f"{inspection.mysqld} of the image, asked for its version, says: {last}", _IMAGE_HINT)
    return version


def inspect_image(client: docker.DockerClient, image: str, source: str, mysqld: str = "") -> Build:
    """Returns the server in an image, with a libeatmydata for its container if there is one. The server is searched for
    unless its executable is named. The image is inspected only once, because an image never changes under its id.

    If the server cannot initialize itself, its install scripts are copied out of the image: the host then passes them
    to the server."""
    memo = _memo_path(image)
    try:
        inspection = ImageInspection(**read_memo(memo))
        version = version_of(inspection)
    except (OSError, ValueError, TypeError, HostUnfitError):  # not stored yet, or damaged: inspect it
        inspection, scripts, _ = run_inspection(client, image, mysqld)
        version = version_of(inspection)
        create_readable_folder(memo.parent)
        if not can(version, "initialize"):
            create_readable_folder(memo.with_suffix(".scripts"))
            for name, content in scripts.items():
                write_atomically(memo.with_suffix(".scripts") / name, content)
        write_atomically(memo, json.dumps(asdict(inspection)).encode())
    return _with_host_eatmydata(
        client,
        Build(
            version,
            Path(inspection.mysqld),
            Path(inspection.basedir),
            inspection.fingerprint,
            source,
            messages=Path(inspection.messages) if inspection.messages else None,
            scripts=() if can(version, "initialize") else (memo.with_suffix(".scripts"),),
            eatmydata=Path(inspection.eatmydata) if inspection.eatmydata else None,
            image=image,
        ),
    )


def _memo_path(image: str) -> Path:
    return images_dir() / f"{image.removeprefix('sha256:')}.json"


def run_inspection(
    client: docker.DockerClient, image: str, mysqld: str = "", packages: tuple[str, ...] = ()
) -> tuple[ImageInspection, dict[str, bytes], dict[str, str]]:
    """Runs the script in the image. Returns what it found, the SQL files in the server's share folder by name, and the
    installed versions of these Debian packages.

    Raises UsageError if there is no server in the image, and HostUnfitError if it does not run or gives no version."""
    arguments = [mysqld, ":".join(_MYSQLD_FOLDERS), " ".join(SHARE_FOLDERS), " ".join(packages)]
    try:
        code, output, errors = run_in_image(client, image, ["/bin/sh", "-c", _SCRIPT, "inspect", *arguments])
    except APIError as error:
        raise HostUnfitError(f"no shell runs in the image: {error.explanation}", _IMAGE_HINT) from None
    if code != 0:
        last = errors.decode(errors="replace").strip().rpartition("\n")[2][:200]
        raise HostUnfitError(f"the server in the image cannot be inspected: {last or f'code {code}'}", _IMAGE_HINT)
    return parse_inspection(output, image)


def parse_inspection(output: bytes, image: str) -> tuple[ImageInspection, dict[str, bytes], dict[str, str]]:
    blocks: dict[str, bytes] = {}
    for block in output.decode(errors="replace").split("\n\n"):
        name, _, content = block.partition("\n")
        with suppress(binascii.Error):  # cut off
            blocks[name] = b64decode(content)
    if "mysqld" not in blocks:
        raise UsageError(f"there is no mysqld in the image {image[:19]}", _IMAGE_HINT)
    text = {name: content.decode(errors="replace").strip() for name, content in blocks.items()}
    fingerprint = text.get("sha256", "").partition(" ")[0]
    if not re.fullmatch(r"[0-9a-f]{64}", fingerprint):
        raise HostUnfitError("the image lacks sha256sum, base64 or readlink, which inspect the server", _IMAGE_HINT)
    others = {name: text.get(name, "") for name in ("mysqld", "basedir", "messages", "version_output", "eatmydata")}
    inspection = ImageInspection(fingerprint=fingerprint, **others)
    version_of(inspection)
    # The output is the image's word: no name of it may lead out of the folder that the files are written to.
    scripts = {match[1]: blocks[name] for name in blocks if (match := _SQL_FILE.fullmatch(name)) is not None}
    packages = dict(line.split(" ", 1) for line in text.get("packages", "").splitlines() if " " in line)
    return inspection, scripts, packages


def query_image_options(client: docker.DockerClient, build: Build) -> frozenset[str]:
    """Returns the names of all options that the server in an image lists; empty if it does not answer."""
    with suppress(*ENGINE_ERRORS):
        command = list(list_options_command(build))
        _, output, _ = run_in_image(client, str(build.image), command, longest=MAX_OPTIONS_BYTES)
        return parse_option_names(output.decode(errors="replace"))
    return frozenset()


def _with_host_eatmydata(client: docker.DockerClient, build: Build) -> Build:
    """Returns the build with a libeatmydata; unchanged if there is none. If the image has none, like the images of the
    vendors, the host's library is mounted into the container, provided that the image's C library can load it: if the
    loader cannot, it either ends the program or prints a message and continues without the library."""
    if build.eatmydata is not None or (library := find_eatmydata()) is None:
        return build
    mount = Mount(str(library), str(library), type="bind", read_only=True)
    command = [str(build.mysqld), "--no-defaults", "--version"]
    with suppress(APIError):  # an engine that cannot see this file of the host
        code, output, errors = run_in_image(
            client, str(build.image), command, environment={"LD_PRELOAD": str(library)}, mounts=[mount]
        )
        if code == 0 and b"ld.so" not in output + errors:
            return replace(build, eatmydata=library, mounted=(library,))
    return build


def delete_memo(image: str) -> None:
    """Deletes what is stored about an image that was removed."""
    memo = _memo_path(image)
    with suppress(OSError):
        memo.unlink()
    shutil.rmtree(memo.with_suffix(".scripts"), ignore_errors=True)
