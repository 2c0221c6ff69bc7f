"""Which names does a wanted server have, and what do the engines' refusals mean?"""

from __future__ import annotations

import pytest

from recovery.builds.image_pull import RETRY_ELSEWHERE, PullFailure, classify_pull_error
from recovery.builds.resolve import check_registry, own_image_name, parse_request, registry_names
from recovery.errors import UsageError
from recovery.model import parse_version


@pytest.mark.parametrize(
    ("text", "registry", "names"),
    [
        ("5.7.22", None, ("mysql:5.7.22",)),
        ("mysql-8.0.31", None, ("mysql:8.0.31",)),
        ("5.6.27-log", None, ("mysql:5.6.27",)),
        ("9.7", None, ("mysql:9.7",)),
        ("mariadb-10.11.5", "localhost:5000", ("localhost:5000/mariadb:10.11.5",)),
        ("10.11.19-MariaDB-0+deb12u1", "mirror.test/hub/", ("mirror.test/hub/mariadb:10.11.19",)),
        ("mariadb-10.11", None, ("mariadb:10.11",)),
        ("8.0.39-30", None, ("percona:8.0.39-30", "percona/percona-server:8.0.39-30")),
        ("percona-5.7.22", None, ("percona:5.7.22", "percona/percona-server:5.7.22")),
        ("debian-sid", "localhost:5000", ()),
    ],
)
def test_names_in_a_registry(text: str, registry: str | None, names: tuple[str, ...]) -> None:
    assert registry_names(parse_request(text), registry) == names


@pytest.mark.parametrize("text", ["", "9", "9.7.4.1", "debian", "latest", "percona-9", "5.7.x"])
def test_what_names_no_server(text: str) -> None:
    with pytest.raises(UsageError, match="is not a server version"):
        parse_request(text)


@pytest.mark.parametrize("registry", ["", "https://localhost:5000", "a b", "host/Name", "host//x"])
def test_what_is_no_registry(registry: str) -> None:
    with pytest.raises(UsageError, match="is not a registry"):
        check_registry(registry)


@pytest.mark.parametrize(
    ("wanted", "found", "fits"),
    [
        ("5.7.22", "5.7.22", True),
        ("5.7.22", "5.7.22-log", True),
        ("5.7.22", "5.7.23", False),
        ("9.7.4", "9.7.4-2", True),
        ("9.7", "9.7.4", True),
        ("9.7", "9.8.0", False),
        ("9.7", "mariadb-9.7.4", False),
        ("10.11.5", "10.11.5-MariaDB", False),
        ("mariadb-10.11", "10.11.19-MariaDB-0+deb12u1", True),
        ("debian-sid", "26.7.0", True),
    ],
)
def test_what_fits(wanted: str, found: str, fits: bool) -> None:
    assert parse_request(wanted).fits(parse_version(found)) is fits


def test_two_builds_of_one_release_have_two_names() -> None:
    version = parse_version("10.11.5-MariaDB")
    assert own_image_name(version, "d7d9699f" + 56 * "0") == "recovery-tester/mariadb:10.11.5-d7d9699f"
    assert own_image_name(version, 64 * "0") != own_image_name(version, 64 * "1")


# As the engines print them; the names of hosts are made up.
REFUSALS = [
    (
        PullFailure.OLD_FORMAT,
        "[DEPRECATION NOTICE] Docker Image Format v1 and Docker Image manifest version 2, schema 1 support is disabled "
        "by default and will be removed in an upcoming release. Suggest the author of hub.test/library/mysql:5.7.9 to "
        "upgrade the image to the OCI Format or Docker Image manifest v2, schema 2.",
    ),
    (
        PullFailure.OLD_FORMAT,
        'not implemented: media type "application/vnd.docker.distribution.manifest.v1+prettyjws" is no longer '
        'supported since containerd v2.1, please rebuild the image as '
        '"application/vnd.docker.distribution.manifest.v2+json"',
    ),
    (PullFailure.OLD_FORMAT, "application/vnd.docker.distribution.manifest.v1+prettyjws not supported"),
    (
        PullFailure.OLD_FORMAT,
        "Docker Image Format v1 and Docker Image manifest version 2, schema 1 support "
        "has been removed",
    ),
    (PullFailure.OLD_FORMAT, "unsupported manifest: schema version 1 is not supported"),
    (PullFailure.ABSENT, "manifest for localhost:5000/mysql:5.7.99 not found: manifest unknown: manifest unknown"),
    (
        PullFailure.ABSENT,
        'failed to resolve reference "localhost:5000/mysql:5.7.99": '
        'localhost:5000/mysql:5.7.99: not found',
    ),
    (PullFailure.ABSENT, "name unknown: repository name not known to registry"),
    (PullFailure.ABSENT, "no matching manifest for linux/arm64/v8 in the manifest list entries"),
    (
        PullFailure.REFUSED,
        "pull access denied for mysql5, repository does not exist or may require 'docker login': denied: requested "
        "access to the resource is denied",
    ),
    (PullFailure.REFUSED, 'Get "https://localhost:5000/v2/mysql/manifests/5.7.9": no basic auth credentials'),
    (PullFailure.REFUSED, "Head \"https://hub.test/v2/x/manifests/1\": unauthorized: authentication required"),
    (PullFailure.LIMITED, "toomanyrequests: You have reached your pull rate limit."),
    (PullFailure.UNREACHABLE, 'Get "https://hub.test/v2/": dial tcp: lookup hub.test on 10.0.0.1:53: no such host'),
    (PullFailure.UNREACHABLE, 'Get "http://127.0.0.1:1/v2/": dial tcp 127.0.0.1:1: connect: connection refused'),
    (
        PullFailure.UNREACHABLE,
        'Get "https://hub.test/v2/": net/http: request canceled while waiting for connection (Client.Timeout exceeded '
        "while awaiting headers)",
    ),
    (PullFailure.UNREACHABLE, 'Get "https://mirror.test/v2/": http: server gave HTTP response to HTTPS client'),
    (PullFailure.UNREACHABLE, 'Get "https://mirror.test/v2/": x509: certificate signed by unknown authority'),
    (PullFailure.UNREACHABLE, "received unexpected HTTP status: 503 Service Unavailable"),
    (PullFailure.NO_SUCH_NAME, "invalid reference format: repository name must be lowercase"),
    (PullFailure.OTHER, "failed to register layer: write /usr/sbin/mysqld: no space left on device"),
]  # fmt: skip


@pytest.mark.parametrize(("why", "said"), REFUSALS)
def test_what_a_refusal_means(why: PullFailure, said: str) -> None:
    assert classify_pull_error(said) is why


def test_a_full_disk_is_no_reason_to_try_another_way() -> None:
    assert PullFailure.OTHER not in RETRY_ELSEWHERE
    assert PullFailure.NO_SUCH_NAME not in RETRY_ELSEWHERE
