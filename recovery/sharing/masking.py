"""Masking of raw logs and of names that the user gave: private texts are replaced by placeholders, the same text always
by the same placeholder. All else of a bundle is chosen by the allow-list.

Private are texts that this host and the session name: hosts, users, paths, ids, and values of options that may hold a
secret. They are replaced wherever they occur. In addition a few forms are replaced that cannot be anything else:
addresses, ids of a cloud, home folders, and a value next to a word such as `password`. Other words stay as they are: a
host's name in a log is masked only if this host or the session knows it."""

from __future__ import annotations

import ipaddress
import os
import platform
import pwd
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from recovery.model import Session
from recovery.phase_table import ORDER
from recovery.sharing.stored_options import is_init_option, split_options, split_words

Literal = tuple[str, str]
"""The kind of a private text, such as `host`, and the text."""

PLACEHOLDER = r"\[[a-z]+(?:-\d+)?\]"

# --- Names of options and facts whose values are private

_SENSITIVE_NAME = (
    r"[\w-]*(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential"
    r"|authorization)s?[\w-]*|[\w-]*pwd"
)
_SECRET_OPTION = re.compile(
    rf"(?:{_SENSITIVE_NAME}|init_(?:connect|file|slave|replica)|report_\w+|keyring_\w+|\w*_keyring\w*)"
)
_PRIVATE_FACTS = (
    (re.compile(r"report_host|hostname"), "host"),
    (re.compile(r"report_user"), "user"),
    (_SECRET_OPTION, "secret"),
    (re.compile(r"(?:.*_)?serial"), "serial"),
    (re.compile(r"ebs_volume"), "volume"),
    (re.compile(r"(?!server_id).*_(?:uuid|id)|account"), "id"),
)


def kind_of_fact(name: str) -> str | None:
    """Returns the kind of the value of an option, a server's variable or a fact about the host. None: not private."""
    bare = name.strip().lstrip("-@").replace("-", "_").lower().removeprefix("loose_")
    return next((kind for pattern, kind in _PRIVATE_FACTS if pattern.fullmatch(bare)), None)


# --- Private texts of the session

_COMMANDS = ("before_start", "before_kill")
_PATH_SETTINGS = (
    "data",
    "template",
    "insert_template",
    "mysqld",
    "results",
    *_COMMANDS,
    "datadir",
    "defaults_file",
)
_SERVER_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,30}="
_NEXT_SERVER = re.compile(rf"\s+(?=(?:{_SERVER_NAME})?(?:[~/]|\.\.?/|https?://))")
"""Separates the servers of `base=/a b/mysqld patched=/c/mysqld`, where a path may contain blanks."""
_SITE_SETTINGS = ("registry", "image", "archive", "mysqld")
_PUBLIC_SITES = ("mysql.com", "mariadb.org", "mariadb.com", "percona.com", "oracle.com", "github.com", "docker.io")
_SYSTEM_PATH = re.compile(
    r"/(?:s?bin|lib\w*|dev|proc|sys|usr/(?:s?bin|lib\w*|share|local/mysql)|etc/mysql|opt/server"
    r"|var/(?:lib|log|run)/mysqld?|run/(?:mysqld|docker\.sock))(?:/|\Z)|/(?:tmp|usr|etc|var|run|home|opt|mnt)/?\Z"
)
"""Matches paths that many machines have. `/opt/server` is in the images of this tool."""


def session_literals(session: Session) -> Iterator[Literal]:
    """Yields the private texts in the settings, the command and the facts of a session."""
    command = split_words(session.command)
    for name in _PATH_SETTINGS:
        for place in _setting_values(session, command, name):
            if "/" in place and "://" not in place:
                yield from _path_literals("data" if name == "data" else "path", place)
                if name == "mysqld" and len(PurePath(place).parts) > 3:  # /srv/server/bin/mysqld
                    yield "path", str(PurePath(place).parent.parent)
    for name in _SITE_SETTINGS:
        for place in _setting_values(session, command, name):
            yield from _site_literals(name, place)
    yield from _site_literals("engine", str(session.environment.get("engine") or ""))
    for name, value in (*_given_options(session, command), *_facts(session)):
        yield from _fact_literals(name, value)


def _setting_values(session: Session, command: list[str], name: str) -> Iterator[str]:
    """Yields the values of a setting, as stored and as spelled in the command: `--name value` or `--name=value`."""
    values = [str(stored)] if (stored := session.settings.get(name)) else []
    option = f"--{name.replace('_', '-')}"
    for word, following in zip(command, [*command[1:], ""], strict=True):
        if word == option:
            values.append(following)
        elif word.startswith(f"{option}="):
            values.append(word.partition("=")[2])
    if name in _COMMANDS:
        values = [word for value in values for word in split_words(value)]
    for value in values:
        servers = _NEXT_SERVER.split(value.strip()) if name == "mysqld" else [value]
        yield from (re.sub(rf"\A{_SERVER_NAME}", "", place) for place in servers)


def _facts(session: Session) -> Iterator[tuple[str, str]]:
    facts: Iterable[Mapping[str, object]] = (session.settings, session.environment, *session.servers.values())
    yield from ((name, value) for known in facts for name, value in known.items() if isinstance(value, str))


def _given_options(session: Session, command: list[str]) -> Iterator[tuple[str, str]]:
    """Yields the names and values of all server options that the session names."""
    words = [*split_words(session.settings.get("set")), *command]
    for variant in split_words(session.settings.get("variants")):
        words += variant.partition(":")[2].split(",")
    for server in session.servers.values():
        # Where the SQL of an init option ends is not known.
        options = split_options(server.get("options") or "")
        words += [option for option in options if not is_init_option(option)]
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            yield name, value


def _fact_literals(name: str, value: str) -> Iterator[Literal]:
    kind = kind_of_fact(name)
    if kind is not None:
        yield kind, value
    elif value.startswith("/") and ":" not in value:
        yield from _path_literals("path", value)


def _path_literals(kind: str, place: str) -> Iterator[Literal]:
    """Yields a path, and the user in whose home folder it is."""
    yield kind, place
    if home := re.match(r"/(?:home|Users)/([\w.-]+)", place):
        yield "home", home[0]
        yield "user", home[1]


def _site_literals(setting: str, place: str) -> Iterator[Literal]:
    """Yields the host in a URL or in the name of a registry or an image, with its folder there and its credentials."""
    scheme, separator, rest = place.rpartition("://")
    authority, _, path = re.split(r"[\s,?#]", rest)[0].rstrip("/").partition("/")
    folder = path if setting == "registry" else path.rpartition("/")[0]
    # The first part of `mysql/mysql-server:8.0` is not a host.
    names_host = setting == "registry" or (setting == "image" and path and re.search(r"[.:]", authority))
    if not (separator or names_host) or scheme.endswith(("unix", "file")):
        return
    account, _, host = authority.rpartition("@")
    name = host.partition(":")[0]
    if account:
        yield "secret", account
        yield "secret", account.partition(":")[2]
    if name == "localhost" or any(name == site or name.endswith(f".{site}") for site in _PUBLIC_SITES):
        return
    yield "host", host
    yield "host", name
    if names_host and folder:
        yield "host", f"{host}/{folder}"


# --- Private texts of this host

_HOSTS_FILE = Path("/etc/hosts")
_USER_VARIABLES = ("USER", "LOGNAME", "SUDO_USER")
_SECRET_VARIABLE = re.compile(rf"(?i){_SENSITIVE_NAME}")
_FOLDER_VARIABLES = ("PWD", "OLDPWD")


def host_literals(environment: Mapping[str, str], hosts: Path = _HOSTS_FILE) -> Iterator[Literal]:
    """Yields the names of this host and its user, their folders, and secrets in the environment."""
    yield from (("host", name) for name in _host_names(environment, hosts))
    yield from (("user", environment.get(name, "")) for name in _USER_VARIABLES)
    yield "home", environment.get("HOME", "")
    yield from (("path", environment.get(name, "")) for name in _FOLDER_VARIABLES)
    for number in {os.getuid(), os.geteuid()}:
        with suppress(KeyError):
            user = pwd.getpwuid(number)
            yield "user", user.pw_name
            yield "user", user.pw_gecos.partition(",")[0]
            yield "home", user.pw_dir
    for name, value in environment.items():
        if _SECRET_VARIABLE.fullmatch(name) and name not in _FOLDER_VARIABLES:
            yield "secret", value


def _host_names(environment: Mapping[str, str], hosts: Path) -> Iterator[str]:
    """Yields the names of this host and its other names in the hosts file. No name server is queried."""
    own = {platform.node(), environment.get("HOSTNAME", "")} - {""}
    with suppress(OSError):
        for line in hosts.read_text(encoding="utf-8", errors="replace").splitlines():
            _, *names = line.partition("#")[0].split() or [""]
            if own & set(names):
                yield from names
    for name in own:
        yield name
        yield name.partition(".")[0]


# --- Which of these texts are masked

_PATH_KINDS = frozenset({"data", "path", "home"})
MIN_LENGTH = 3
"""Minimum length of a private text other than a secret."""
MIN_SECRET_LENGTH = 5
"""Minimum length of a secret. A shorter value is masked only as the value of its option, and nowhere else."""
_COMMON_VALUES = frozenset({"false", "default", "system", "statement", "mixed"})
_COMMON_NAMES = frozenset(
    {"root", "mysql", "mysqld", "mariadb", "percona", "recovery", "localhost", "nobody", "admin", "user", "ec2-user"}
    | {"linux", "debian", "ubuntu", "docker", "server", "client", "host", "data", "test", "cold", "warm", "second"}
    | {"start", "finished", "running", "interrupted", "aborted", "discovery", "innodb", "unknown", "none", "local"}
    | {"the", "and", "for", "from", "log", "disk", "cache", "backup", "system", "database", "cloud", "dev", "prod"}
    | {"path", "home", "secret", "address", "serial", "volume", "mac", "loopback", "ip6-localhost", "ip6-loopback"}
    | {word for name in ORDER for word in name.split()}
)
"""Names that identify nobody, and that the tool and its reports use as words."""


def distinct_literals(literals: Iterable[Literal]) -> tuple[Literal, ...]:
    """Returns each private text once, without those that are too short or identify nobody.

    The longest come first, so that a text is not cut by one that is part of it."""
    found: dict[str, str] = {}
    for kind, text in literals:
        text = text.strip().rstrip("/") if kind in _PATH_KINDS else text.strip()
        if len(text) >= (MIN_SECRET_LENGTH if kind == "secret" else MIN_LENGTH) and not _is_common(kind, text):
            found.setdefault(_normalised(kind, text), kind)
    longest_first = sorted(found, key=lambda text: (-len(text), text))
    return tuple((found[text], text) for text in longest_first)


def _is_common(kind: str, text: str) -> bool:
    if kind == "path":
        return ".." not in text and _SYSTEM_PATH.match(text) is not None
    if kind in ("user", "host"):
        return text.lower() in _COMMON_NAMES or not re.search(r"[A-Za-z]", text)
    return text.lower() in _COMMON_VALUES


def _normalised(kind: str, text: str) -> str:
    """Returns the text in the form by which equal texts are recognised: hosts are compared without case."""
    return text.lower() if kind == "host" else text


# --- Forms that are always private

_QUOTED = r"""'(?:[^'\n]|'')*'|"[^"\n]*\""""
_VALUE = rf"{PLACEHOLDER}|{_QUOTED}|[^\s,;'\"\])]+"
_ACCOUNT_STATES = r"(?:generated|deprecated|expired|empty|set|not|required|too|invalid|wrong|missing|stored)\b"
"""Words after "password is" that describe the password and are not the password."""


def _forms(*rows: tuple[str, str]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((kind, re.compile(pattern)) for kind, pattern in rows)


_FORMS = _forms(
    ("secret", r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:.|\n)*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
    ("secret", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"),
    ("secret", r"\b(?:gh[pousr]_|github_pat_|glpat-|xox[abpr]-|sk-)[\w-]{16,}"),
    (
        "secret",
        rf"(?i)((?<![\w-])(?:{_SENSITIVE_NAME})[\"'`]?\s*(?::=|=>|[=:])\s*(?:bearer\s+|basic\s+)?)"
        rf"(?!YES\b|NO\b)({_VALUE})",
    ),
    ("secret", rf"(?i)(\btemporary password is generated for \S+\s+)({PLACEHOLDER}|\S+)"),
    ("secret", rf"(?i)(\b(?:password|passphrase|token|secret)\s+is\s+(?!{_ACCOUNT_STATES}))({_VALUE})"),
    ("secret", rf"(?i)(\binit_(?:connect|file|slave|replica)\s*=\s*)({PLACEHOLDER}|{_QUOTED}|\S+)"),
    (
        "secret",
        rf"(--password\s+|\b(?:mysql|mysqladmin|mysqldump|mariadb)\b[^\n]{{0,500}}\s-p)({PLACEHOLDER}|\S{{3,}})",
    ),
    ("secret", rf"(\s(?:-u|--user)[\s=]+[^\s:]+:)({PLACEHOLDER}|\S+)"),
    ("secret", rf"(?i)(\bidentified\s+(?:with\s+\S+\s+)?(?:by|as)\s+(?:password\s+)?)({_QUOTED})"),
    ("secret", rf"(?i)(\bpassword\s*\(\s*)({_QUOTED})"),
    ("secret", r"(?i)(\b(?:bearer|basic)\s+)([A-Za-z0-9+/._~-]{16,}=*)"),
    ("secret", r"(?:(?<=://)|(?<![\w/]))([\w.+-]+:[^\s:@/'\"]+)(?=@[\w.\[-]+)"),
    ("home", r"/(?:home|Users)/[\w.-]*[\w-]"),
    ("id", r"\b(?:vol|snap|i|eni)-[0-9a-f]{8,17}\b|\bvol[0-9a-f]{17}\b|\barn:aws[\w-]*:[^\s'\",]+"),
    ("host", r"\bip-\d+-\d+-\d+-\d+\b(?:\.[\w-]+)*"),
    ("mac", r"(?<![\w:])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![\w:])"),
    ("address", r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\d|-MariaDB|-log|-\d+')"),
    ("address", r"(?i)(?<![\w:.])(?:fe80|f[cd][0-9a-f]{2}|[23][0-9a-f]{3}):[0-9a-f:]*[0-9a-f](?![\w:])"),
)
"""The last group of a pattern is the private text; without groups it is the whole match."""


def _is_private_address(text: str) -> bool:
    """Returns whether a text is an IP address, other than loopback, unspecified and 255.255.255.255."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified or text == "255.255.255.255")


# --- Replacing private texts by placeholders

_DOMAIN = (
    r"(?:\.(?!(?:err|log|pid|sock|cnf|ini|txt|json|md|csv|svg|html|folded|sql|sh|pem|index|tar|gz)(?![\w-]))[\w-]+)*"
)
"""Matches the domain after the name of a host, which is private as well, but not the suffix of a file name."""


@dataclass
class Masker:
    """Replaces private texts by placeholders, such as `[host]` for the first host and `[host-2]` for the second."""

    literals: tuple[Literal, ...]
    versions: frozenset[str] = frozenset()
    """Versions of servers: 9.7.4.1 looks like an address."""
    placeholders: dict[tuple[str, str], str] = field(default_factory=dict)
    """The placeholders used so far, by kind and private text. All secrets have the same one."""
    _numbers: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._kinds = {text: kind for kind, text in self.literals}
        # Without literals the pattern must match nothing.
        self._known = re.compile("|".join(_literal_pattern(kind, text) for kind, text in self.literals) or r"(?!)")

    def text(self, text: str) -> str:
        return self._replace_forms(_FORMS, self._known.sub(self._replace_known, text))

    def name(self, name: str) -> str:
        """Returns a masked file name that contains only characters safe for an archive and a list of checksums."""
        return re.sub(r"[^\w.+\[\]@-]", "_", self.text(name), flags=re.ASCII)

    def _replace_known(self, found: re.Match[str]) -> str:
        known = found[0] if found[0] in self._kinds else found[0].lower()
        while known and known not in self._kinds:
            # The match may include a domain after the known name.
            known = known.rpartition(".")[0]
        return self._put(self._kinds.get(known, "secret"), found[0])

    def _replace_forms(self, forms: Iterable[tuple[str, re.Pattern[str]]], text: str) -> str:
        for kind, pattern in forms:
            text = pattern.sub(lambda found, kind=kind: self._replace_form(kind, found), text)  # type: ignore[misc]
        return text

    def _replace_form(self, kind: str, found: re.Match[str]) -> str:
        private = found[found.re.groups]
        if kind == "address" and (private in self.versions or not _is_private_address(private)):
            return found[0]
        start, end = found.span(found.re.groups)
        start, end = start - found.start(), end - found.start()
        return found[0][:start] + self._put(kind, private) + found[0][end:]

    def _put(self, kind: str, text: str) -> str:
        if re.fullmatch(PLACEHOLDER, text):
            return text
        same = (kind, "" if kind == "secret" else _normalised(kind, text))
        if same not in self.placeholders:
            self._numbers[kind] += 1
            number = self._numbers[kind]
            self.placeholders[same] = f"[{kind}-{number}]" if number > 1 else f"[{kind}]"
        return self.placeholders[same]


def _literal_pattern(kind: str, text: str) -> str:
    """Returns a pattern for a private text, with the boundaries that its kind needs."""
    exact = re.escape(text)
    if kind == "user":
        return rf"(?<![A-Za-z0-9_]){exact}(?![A-Za-z0-9_])"
    if kind == "host":
        return rf"(?i:(?<![A-Za-z0-9_]){exact}{_DOMAIN}(?![A-Za-z0-9_]))"
    # `/home/joe2` is the home folder of another user.
    return rf"{exact}(?![\w-])" if kind == "home" else exact
