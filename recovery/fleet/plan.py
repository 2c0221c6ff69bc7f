"""Reads the plan of `recovery fleet run`: hosts with their facts, and the sessions that each of them measures."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from recovery.errors import UsageError, did_you_mean
from recovery.experiments import EXPERIMENTS
from recovery.fleet.hosts import PRICE, Fact
from recovery.session.request import Request

FACTS: Mapping[str, tuple[type, ...]] = {
    "instance_type": (str,),
    "volume": (str,),
    "filesystem": (str,),
    PRICE: (int, float),
}
"""Facts about a host that the plan may state, with their types."""
_PLAN_KEYS: Mapping[str, tuple[type, ...]] = {
    "hosts": (dict,), "inventory": (str,), "sessions": (list,), "poll_s": (int,), "keep": (bool,),
}  # fmt: skip
_HOST_KEYS: Mapping[str, tuple[type, ...]] = {"ssh": (str,), "become": (bool,), "recovery_dir": (str,), **FACTS}
_TYPE_TEXTS = {dict: "a table", str: "a text", list: "a list of texts", int: "a number", bool: "true or false"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_SSH = re.compile(r"(?:([A-Za-z0-9_][A-Za-z0-9._-]*)@)?([A-Za-z0-9][A-Za-z0-9.:_-]*)")
_PATH = re.compile(r"(/[A-Za-z0-9_+][A-Za-z0-9._+-]*)+")
_TEMPLATE = re.compile(r"\{\{|\{%|\{#")
_DEFAULT_POLL_S = 300
_MOST_DIGITS = 9
_MAX_PRICE = 1e6
_REFUSED = {
    **dict.fromkeys(("--results", "--data", "--offline", "--engine", "--json"), "is not for fleets"),
    **dict.fromkeys(("--dry-run", "--help"), "measures nothing"),
}
"""Options that sessions of a fleet cannot have, and why."""
FLEET_OPTIONS = ("--offline", "--engine", "local", "--yes")
"""Options of every session of a fleet."""


@dataclass(frozen=True)
class FleetSession:
    """Represents a line of `sessions`: a measuring command with its options."""

    name: str
    words: tuple[str, ...]

    @property
    def line(self) -> str:
        return shlex.join((self.name, *self.words))

    @property
    def key(self) -> str:
        """Returns the name of its folder on a host, which is the same in every call."""
        return f"{self.name}-{hashlib.sha256(self.line.encode()).hexdigest()[:8]}"

    @property
    def times(self) -> int:
        """Returns how often it is measured."""
        found = self._value("--repeat")
        return int(found) if found and found.isdecimal() and len(found) <= _MOST_DIGITS else 1

    @property
    def repeat_words(self) -> tuple[str, ...]:
        """Returns the options of `recovery repeat` that measure what is missing."""
        every = self._value("--repeat-every")
        return ("--times", str(self.times), *(("--every", every) if every is not None else ()))

    def _value(self, flag: str) -> str | None:
        """Returns the value that the line has for an option, or None."""
        found = None
        for before, word in pairwise(("", *self.words)):
            name, equals, value = word.partition("=")
            if before == flag:
                found = word
            elif name == flag and equals:
                found = value
        return found

    @property
    def has_own_data(self) -> bool:
        return any(word.partition("=")[0] == "--datadir" for word in self.words)


@dataclass(frozen=True)
class PlannedSession(FleetSession):
    """Represents a session of a plan, with the request that a host would make of its line."""

    request: Request = field(compare=False)


MakeRequest = Callable[[FleetSession], Request]
"""Makes the request of a session, or raises UsageError if its options are invalid."""


@dataclass(frozen=True)
class FleetHost:
    name: str
    user: str | None
    address: str | None
    """None: the inventory has it."""
    become: bool
    recovery_dir: str | None
    """The folder on the host in which everything is kept while it measures; None is the home folder."""
    facts: Mapping[str, str | int | float]


@dataclass(frozen=True)
class FleetPlan:
    hosts: tuple[FleetHost, ...]
    inventory: Path | None
    sessions: tuple[PlannedSession, ...]
    poll_s: int = _DEFAULT_POLL_S
    keep: bool = False


def parse_plan(stored: Mapping[str, Any], path: Path, make_request: MakeRequest) -> FleetPlan:
    """Returns the plan with this content of a file. Raises UsageError that names the first mistake in it."""
    _check_keys(stored, _PLAN_KEYS, str(path))
    inventory = Path(stored["inventory"]) if "inventory" in stored else None
    if inventory is not None:
        inventory = path.absolute().parent / inventory
        if not inventory.exists():
            raise UsageError(f"the inventory {inventory} does not exist", "its path is relative to the plan's folder")
    hosts = tuple(
        _parse_host(name, about, in_inventory=inventory is not None) for name, about in stored.get("hosts", {}).items()
    )
    if not hosts and inventory is None:
        raise UsageError(f"{path} names no host", 'add one: [hosts.a] ssh = "user@host", or inventory = "FILE"')
    sessions = tuple(_parse_session(line, make_request) for line in stored.get("sessions", ()))
    if not sessions:
        raise UsageError(f"{path} names no session", 'add them: sessions = ["cold-recovery --version 5.7.22"]')
    for number, session in enumerate(sessions):
        if session in sessions[:number]:
            raise UsageError(
                f"session `{session.line}` is in the plan twice", "leave one of them out; --repeat measures several"
            )
    poll_s = stored.get("poll_s", _DEFAULT_POLL_S)
    if poll_s < 1:
        raise UsageError(f"poll_s = {poll_s} is not valid", "give the seconds between two looks at a host: 1 or more")
    return FleetPlan(hosts, inventory, sessions, poll_s, stored.get("keep", False))


def _check_keys(stored: Mapping[str, Any], known: Mapping[str, tuple[type, ...]], where: str) -> None:
    for key, value in stored.items():
        if key not in known:
            hint = did_you_mean(key, list(known), otherwise=f"known keys: {', '.join(known)}")
            raise UsageError(f"{where}: unknown key {key}", hint)
        if type(value) not in known[key]:
            raise UsageError(f"{where}: {key} has the wrong type", f"give {_TYPE_TEXTS[known[key][0]]}")


_RESERVED_NAMES = ("ansible", "localhost", "127.0.0.1", "all", "ungrouped", "recovery_fleet")


def check_host_name(name: str) -> str:
    if name in _RESERVED_NAMES:
        raise UsageError(f"host name {name} has another meaning here", "choose another name; ssh = has the address")
    if not _NAME.fullmatch(name):
        raise UsageError(f"host name {name!r} is not valid", "use letters, digits, dots, - and _")
    return name


def _parse_host(name: str, about: Any, *, in_inventory: bool) -> FleetHost:
    where = f"host {check_host_name(name)}"
    if not isinstance(about, dict):
        raise UsageError(f"{where} has no settings", f'write [hosts.{name}] and ssh = "user@host" below it')
    _check_keys(about, _HOST_KEYS, where)
    found = _SSH.fullmatch(about.get("ssh", ""))
    if "ssh" in about and found is None:
        hint = 'give "user@host" or a name of your ssh configuration, which has ports, keys and jump hosts'
        raise UsageError(f"{where}: ssh = {about['ssh']!r} is not an address", hint)
    if "ssh" not in about and not in_inventory:
        raise UsageError(f"{where} has no address", 'give ssh = "user@host"')
    folder = about.get("recovery_dir")
    if folder is not None and not _PATH.fullmatch(folder):
        hint = "give the absolute path of a folder on the host, of letters, digits and . _ + - /"
        raise UsageError(f"{where}: recovery_dir = {folder!r} is not valid", hint)
    user, address = (found[1], found[2]) if found else (None, None)
    facts = {key: about[key] for key in FACTS if key in about}
    check_price(facts.get(PRICE), name)
    return FleetHost(name, user, address, about.get("become", False), folder, facts)


def _parse_session(line: Any, make_request: MakeRequest) -> PlannedSession:
    if not isinstance(line, str):
        raise UsageError(f"session {line!r} is not a text", 'give a command line: "cold-recovery --version 5.7.22"')
    try:
        name, *words = shlex.split(line)
    except ValueError as error:
        reason = "it is empty" if not line.strip() else str(error)
        raise UsageError(f"session `{line}` is not valid: {reason}", "check its quotes") from None
    if name not in EXPERIMENTS:
        hint = did_you_mean(name, list(EXPERIMENTS), otherwise=f"measuring commands: {', '.join(EXPERIMENTS)}")
        raise UsageError(f"session `{line}`: {name} is not a measuring command", hint)
    for word in words:
        if (flag := word.partition("=")[0]) in _REFUSED:
            raise UsageError(f"session `{line}`: {flag} {_REFUSED[flag]}", "leave it out")
    return PlannedSession(name, tuple(words), make_request(FleetSession(name, tuple(words))))


def check_price(price: Fact | None, host: str) -> None:
    """Raises UsageError if the price per hour of a host is not a number that can be compared, such as nan."""
    if price is not None and (isinstance(price, bool | str) or not 0 <= price <= _MAX_PRICE):
        raise UsageError(f"the {PRICE} of {host} is {price!r}", "give a number, such as 0.192")


def refuse_templates(values: Any) -> None:
    """Raises UsageError if a text in these nested values would be evaluated by Ansible."""
    if isinstance(values, str) and _TEMPLATE.search(values):
        raise UsageError(f"{values!r} has {{{{, {{% or {{#, which Ansible would evaluate", "use another name or path")
    for value in values.values() if isinstance(values, dict) else values if isinstance(values, list | tuple) else ():
        refuse_templates(value)
