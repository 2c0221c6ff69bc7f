"""Which exact texts are private, as this session and this host tell? Found before anything is masked. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import PurePath

from recovery.bundle.patterns import ACCOUNTS, NAMES, SENSITIVE, is_public, is_system
from recovery.measured import Phase
from recovery.phases import ORDER
from recovery.stored import Run, Session

Literal = tuple[str, str]
"""What it is, and how it is spelled."""

NAMING = frozenset({"user", "host"})
"""Kinds that are words among words."""
LEAST_LETTERS = 3
LEAST_SECRET = 5
"""A shorter value of a secret option is masked where it is said to be one, and nowhere else."""
_SECRET_OPTION = re.compile(
    rf"(?i)@?(?:loose_)?(?:{SENSITIVE}|init_(?:connect|file|slave|replica)|report_\w+|keyring_\w+|\w*_keyring\w*)"
)
_NO_SECRETS = frozenset({"false", "default", "system", "statement", "mixed"})
_IDENTITY = re.compile(r"(?:device_)?serial|ebs_volume|.*(?:_serial|_uuid|_id|hostname|instance_id|account)")
_KINDS = {"device_serial": "serial", "ebs_volume": "volume", "hostname": "host"}
_NAMING_OPTIONS = {"report_host": "host", "report_user": "user"}
"""Secret as an option's value; elsewhere they are names like others."""
_PLACES = ("template", "insert_template", "mysqld", "results")
_PLACE_WORDS = ("--template", "--insert-template", "--mysqld", "--results")
_NO_PRIVATE_WORD = frozenset(
    {"root", "mysql", "mysqld", "mariadb", "mariadbd", "percona", "recovery", "localhost", "unknown", "nobody", "none"}
    | {"linux", "debian", "ubuntu", "docker", "server", "client", "host", "data", "test", "user", "admin", "cold"}
    | {"warm", "binlog", "tables", "system", "files", "process", "database", "discovery", "local", "general", "amd"}
    | {"intel", "amazon", "slow", "error", "from", "for", "the", "and", "does", "could", "true", "false", "null"}
    | {"secret", "path", "home", "build", "url", "registry", "repository", "account", "address", "serial", "volume"}
    | {"instance", "uuid", "mac", "arn", "mail", "smtp", "www", "web", "app", "dev", "prod", "internal", "second"}
    | {"master", "slave", "source", "replica", "replication", "primary", "backup", "monitor", "cluster", "event"}
    | {"event_scheduler", "info", "note", "warning", "support", "bugs", "bug", "git", "github", "cache", "disk", "log"}
    | {"start", "time", "page", "redo", "undo", "innodb", "engine", "image", "version", "cloud", "example", "mirror"}
    | {"query", "running", "finished", "interrupted", "aborted", "signal", "exit", "perf", "gdb", "inotify"}
    | {field.name for noun in (Session, Run, Phase) for field in fields(noun)}
    | {word for name in ORDER for word in name.split()}
)
"""Masking one of these would hide what the report is about; and it names nobody."""


def is_secret_option(name: str) -> bool:
    return _SECRET_OPTION.fullmatch(name.strip().lstrip("-").replace("-", "_")) is not None


def _kind_of_option(name: str) -> str:
    bare = name.strip().lstrip("-@").replace("-", "_").lower().removeprefix("loose_")
    return _NAMING_OPTIONS.get(bare, "secret")


def identity_kind(key: str) -> str | None:
    """Of a fact that tells this machine from all others; None for other facts."""
    name = key.removeprefix("@")
    return _KINDS.get(name, "id") if _IDENTITY.fullmatch(name) else None


def words_of(text: object) -> list[str]:
    """As a shell would part them."""
    try:
        return shlex.split(str(text or ""))
    except ValueError:
        return str(text).split()


def of_session(session: Session) -> Iterator[Literal]:
    settings = session.settings
    command = words_of(session.command)
    yield from (
        ("data", place) for place in (*_texts(settings, ("data",)), *_after(command, ("--data",))) if _deep(place)
    )
    places = (*_texts(settings, _PLACES), *_after(command, _PLACE_WORDS))
    yield from (("path", place) for place in places if _deep(place) and not is_system(place))
    for registry in (*_texts(settings, ("registry",)), *_after(command, ("--registry",))):
        if "/" in (place := re.sub(r"^(?:\w+://)?(?:[^/@]*@)?", "", registry).rstrip("/")):
            # A folder of it: images lie below.
            yield "registry", place
        yield from _host_of(registry)
    for image in (*_texts(settings, ("image",)), *_after(command, ("--image",))):
        if "/" in image and re.search(r"[.:]", image.split("/")[0].rpartition("@")[2]):
            yield from _host_of(image)
    given = [*words_of(settings.get("set")), *command, *_of_variants(settings.get("variants"))]
    for pair in given:
        name, equals, value = pair.partition("=")
        if equals and is_secret_option(name):
            yield _kind_of_option(name), value
    for known in (settings, session.environment):
        yield from _of_facts(known)
    for said in session.servers.values():
        yield from _of_facts(said)


def of_names(texts: Iterable[str]) -> Iterator[Literal]:
    """Names that any of these texts gives away."""
    for text in texts:
        for pattern in NAMES:
            for found in pattern.found.finditer(text):
                name = next(filter(None, found.groups()))
                yield pattern.kind, name
                if pattern.kind == "host":
                    yield "host", name.partition(".")[0]
        for pattern in ACCOUNTS:
            for found in pattern.found.finditer(text):
                if pattern.private(found[0]) and text[max(0, found.start() - 1) : found.start()] != ":":
                    yield from _of_account(found[0])


def _of_account(account: str) -> Iterator[Literal]:
    """`'repl'@'db8.acme.com'`: both are private elsewhere too, unless it is a public site's, or a unit of systemd's."""
    user, _, host = account.replace("'", "").partition("@")
    if is_public(host) or host.endswith((".service", ".socket", ".target", ".slice")):
        return
    yield "user", user
    host = host.removeprefix("%.")
    if "%" not in host:
        yield "host", host
        yield "host", host.partition(".")[0]


def kept(literals: Iterable[Literal]) -> tuple[Literal, ...]:
    """Each once, the longest first, so that none is cut by a part of it; without words that name nobody."""
    found: dict[str, str] = {}
    for kind, text in literals:
        text = text.strip().rstrip("/") if kind in ("data", "path", "home") else text.strip()
        least = LEAST_SECRET if kind == "secret" else LEAST_LETTERS
        if len(text) >= least and not (kind in NAMING and _names_nobody(text)) and text.lower() not in _NO_SECRETS:
            found.setdefault(text, kind)
    return tuple(sorted(((kind, text) for text, kind in found.items()), key=lambda one: (-len(one[1]), one[1])))


def _names_nobody(text: str) -> bool:
    return text.lower() in _NO_PRIVATE_WORD or not re.search(r"[A-Za-z]", text)


def _deep(place: str) -> bool:
    return place.startswith("/") and len(PurePath(place).parts) > 1


def _texts(facts: Mapping[str, object], names: Iterable[str]) -> Iterator[str]:
    yield from (value for name in names if isinstance(value := facts.get(name), str) and value)


def _after(command: list[str], names: Iterable[str]) -> Iterator[str]:
    for word, following in zip(command, [*command[1:], ""], strict=True):
        for name in names:
            if word == name:
                yield following
            elif word.startswith(f"{name}="):
                yield word.partition("=")[2]


def _of_variants(variants: object) -> Iterator[str]:
    for variant in words_of(variants):
        yield from variant.partition(":")[2].split(",")


def _host_of(place: str) -> Iterator[Literal]:
    """The registry's host, and whom it knows."""
    bare = re.sub(r"^\w+://", "", place).split("/")[0]
    account, _, host = bare.rpartition("@")
    if account:
        yield "secret", account
        yield "secret", account.partition(":")[2]
    if re.sub(r":\d+$", "", host) not in ("localhost", "127.0.0.1", ""):
        yield "registry", host


def _of_facts(facts: Mapping[str, object]) -> Iterator[Literal]:
    for key, value in facts.items():
        if isinstance(value, str) and value:
            if is_secret_option(key):
                yield _kind_of_option(key), value
            elif kind := identity_kind(key):
                yield kind, value
