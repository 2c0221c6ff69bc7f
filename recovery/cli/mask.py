"""Masking: private texts of a session are replaced by placeholders, the same text always by the same placeholder.

A reader of the masked session therefore still sees which parts belong together. Private texts are those that the
session and this host reveal (names of users and hosts, paths, secrets), and those that have a private form (addresses,
UUIDs, accounts). Everything is pure except `of_host`, which reads the users and the hosts file of this machine."""

from __future__ import annotations

import ipaddress
import os
import platform
import pwd
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePath
from typing import Any

from recovery.analysis.phase_names import ORDER
from recovery.model import Phase, Run, Session

# --- Texts that are private because of their form

PUBLIC_SITES = ("mysql.com", "mariadb.org", "mariadb.com", "percona.com", "oracle.com", "github.com", "w3.org")
"""Sites with names and addresses that are not private."""
# Accounts that every server has.
_BUILTIN_ACCOUNTS = frozenset({"root", "mysql", "mysql.sys", "mysql.session", "mysql.infoschema", "mariadb.sys"})
_SYSTEM_PATHS = (
    r"/(?:bin|sbin|lib|lib32|lib64|proc|sys)",
    r"/dev(?!/(?:shm|disk|mapper)/)",
    r"/usr(?:/local)?/(?:bin|sbin|lib|lib32|lib64|libexec|share)",
    r"/usr/local/mysql",
    r"/etc/(?:mysql|my\.cnf|my\.cnf\.d|ssl|hosts|resolv\.conf)",
    r"/var/(?:lib|log|run)/(?:mysql|mysqld|mariadb)",
    r"/(?:var/)?run/(?:docker\.sock|mysqld|recovery|test)",
    r"/tmp/recovery-\w+",  # noqa: S108 - a name that is looked for
    # The server folder in the images of this tool.
    r"/opt/server",
)
# These folders themselves reveal nothing either, unlike what is below them.
_SYSTEM_FOLDERS = (
    r"/(?:usr|etc|var|var/lib|var/log|run|var/run|tmp|var/tmp|home|opt|mnt|usr/local|usr/sbin|etc/mysql)/?"
)
_SYSTEM_PATH = re.compile(rf"(?:{'|'.join(_SYSTEM_PATHS)})(?![\w-])|{_SYSTEM_FOLDERS}\Z")
_SOURCE_FILE = re.compile(
    r".*?(/(?:storage|sql|mysys|extra|libmysqld|include|plugin|strings|vio)/[\w./+-]+\.(?:cc|cpp|c|ic|hh?|hpp))\Z"
)
"""Servers log source files with the path that they had on the build machine."""

# Matches names of options, settings and variables that hold secrets.
SENSITIVE_NAMES = (
    r"[\w-]*(?:passw(?:or)?d|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential"
    r"|authorization)s?[\w-]*|[\w-]*pwd"
)
_QUOTED = r"""'(?:[^'\n]|'')*'|"[^"\n]*\""""
_PLACEHOLDER_TEXT = r"\[[a-z]+(?:-\d+)?\]"
"""Matches a placeholder that is already there."""
# Words after "password is" that describe the password and are not the password.
_ACCOUNT_STATES = r"(?:generated|deprecated|expired|empty|set|not|required|too|invalid|wrong|missing|stored)\b"
_SECRET_VALUES = (
    rf"(?i)((?<![\w-])(?:{SENSITIVE_NAMES})[\"'`]?\s*(?::=|=>|[=:])\s*(?:bearer\s+|basic\s+)?)"
    rf"(?!YES\b|NO\b)({_PLACEHOLDER_TEXT}|{_QUOTED}|[^\s,;'\"\])]+)",
    rf"(?i)(\btemporary password is generated for \S+\s+)({_PLACEHOLDER_TEXT}|\S+)",
    rf"(?i)(\b(?:password|passphrase|token|secret)\s+is\s+(?!{_ACCOUNT_STATES}))({_PLACEHOLDER_TEXT}|{_QUOTED}|\S+)",
    rf"(?i)(\binit_(?:connect|file|slave|replica)\s*=\s*)({_PLACEHOLDER_TEXT}|{_QUOTED}|\S+)",
    rf"(--password\s+|\b(?:mysql|mysqladmin|mysqldump|mariadb)\b[^\n]*\s-p)({_PLACEHOLDER_TEXT}|\S{{3,}})",
    rf"(\s(?:-u|--user)[\s=]+[^\s:]+:)({_PLACEHOLDER_TEXT}|\S+)",
    rf"(?i)(\bidentified\s+(?:with\s+\S+\s+)?(?:by|as)\s+(?:password\s+)?)({_QUOTED})",
    rf"(?i)(\bpassword\s*\(\s*)({_QUOTED})",
    r"(?i)(\b(?:bearer|basic)\s+)([A-Za-z0-9+/._~-]{16,}=*)",
)
_SECRETS_BY_FORM = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:.|\n)*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*",
    r"\b(?:gh[pousr]_|github_pat_|glpat-|xox[abpr]-|sk-)[\w-]{16,}",
)
_PATH_CHARACTER = rf"""(?:[^\s'"`,;:()<>|{{}}\\=\[\]]|{_PLACEHOLDER_TEXT})"""
_PATH = rf"/+(?=[\w.@%+~\[-]){_PATH_CHARACTER}+"
_FOLDERS = r"[\w.-]+(?:/[\w.-]+)*"
_TOP_DOMAINS = "com|net|org|edu|gov|io|cloud|eu|example"
_COUNTRY_DOMAIN = r"(?<![\w.\]@-])(?:[a-z][a-z0-9-]*\.){2,}(?!cc|hh|so|in|pl|py)[a-z]{2}(?![\w-]|\.\w)"
_INTERNAL_DOMAINS = r"internal|local|corp|lan|intranet|localdomain|home\.arpa|compute\.amazonaws\.com"


@dataclass(frozen=True)
class Pattern:
    """A form of private text."""

    kind: str
    """Kind of the placeholder, such as `path`."""
    found: re.Pattern[str]
    """The last group is the private text; without groups it is the whole match."""
    private: Callable[[str], bool] = bool
    """Returns whether a matched text is really private."""


def is_system_path(path: str) -> bool:
    """Returns whether the path exists on every machine, and therefore is not private."""
    return ".." not in path and _SYSTEM_PATH.match(re.sub(r"/+", "/", path)) is not None


def source_file(path: str) -> str | None:
    """Returns the part of a path that belongs to the source tree of a server, such as
    `/storage/innobase/log/log0recv.cc`, without the folder in which it was built. None for other paths."""
    found = _SOURCE_FILE.fullmatch(path)
    return found and found[1]


def is_public_site(host: str) -> bool:
    return any(host == site or host.endswith(f".{site}") for site in PUBLIC_SITES)


def is_private_url(url: str) -> bool:
    """Returns whether a URL is private: its site is not public, it has a query or a user, or it is a private path."""
    scheme, _, rest = url.partition("://")
    if scheme in ("unix", "file"):
        return not is_system_path(rest)
    host = re.split(r"[/?#]", rest)[0]
    return not is_public_site(host) or "?" in rest or "@" in rest


def is_private_address(text: str) -> bool:
    """Returns whether a text is an IP address, other than loopback, unspecified and 255.255.255.255."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified or text == "255.255.255.255")


def _is_private_account(text: str) -> bool:
    """Returns whether a text is a private account: not one that every server has, and not a symbol with its version."""
    name, _, host = re.sub("['`]", "", text).partition("@")
    if host in ("localhost", "%", "") and name in _BUILTIN_ACCOUNTS:
        return False
    return host not in ("plt", "sha256", "sha512") and not re.fullmatch(r"[A-Za-z]+_[\w.]+|Base", host)


def _is_private_site(name: str) -> bool:
    return not is_public_site(name)


def _is_private_path(path: str) -> bool:
    return not is_system_path(path)


def _is_card_number(text: str) -> bool:
    """Returns whether the digits are a valid card number, by their check digit (Luhn algorithm)."""
    digits = [int(digit) for digit in reversed(re.sub(r"\D", "", text))]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[1::2]]
    return any(digits) and (sum(digits[::2]) + sum(doubled)) % 10 == 0


def _patterns(kind: str, texts: tuple[str, ...], private: Callable[[str], bool] = bool) -> tuple[Pattern, ...]:
    return tuple(Pattern(kind, re.compile(text), private) for text in texts)


# Applied in this order to every text of a session.
FORM_PATTERNS: tuple[Pattern, ...] = (
    *_patterns("secret", (*_SECRETS_BY_FORM, *_SECRET_VALUES)),
    *_patterns("url", (r"\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s'\"`<>\\)]+",), is_private_url),
    *_patterns("secret", (r"(?<![\w/])([\w.+-]+:[^\s:@/'\"]+)(?=@[\w.\[-]+)",)),
    *_patterns("arn", (r"\barn:aws[\w-]*:[^\s'\",]+",)),
    *_patterns("volume", (r"\bvol-?[0-9a-f]{8,17}\b", r"\bsnap-[0-9a-f]{8,17}\b")),
    *_patterns("instance", (r"\bi-[0-9a-f]{8,17}\b", r"\beni-[0-9a-f]{8,17}\b")),
    *_patterns("uuid", (r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b",)),
    *_patterns("mac", (r"(?<![\w:])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![\w:])",)),
    *_patterns(
        "account",
        (r"(?<![\w/@.])'[^'\s@]+'@'[^'\s]+'", r"(?<![\w/@.+-])[A-Za-z][\w.+-]*@[A-Za-z][\w-]*(?:\.[\w-]+)*(?![\w@(])"),
        _is_private_account,
    ),
    # A quoted path may contain blanks.
    *_patterns(
        "path",
        (r"(?<![\w\])])'(/[^'\n]+)'", r'(?<![\w\])])"(/[^"\n]+)"', r"(?<![\w\])])`(/[^`\n]+)`"),
        _is_private_path,
    ),
    *_patterns("path", (rf"(?<!\])/(?:home|Users)/{_PATH_CHARACTER}+",)),
    # A slash after a letter starts no path (MB/s), unless the letter is a compiler option (-I/usr/include).
    *_patterns("path", (rf"(?<![\w.\]/~*<>)])(?!(?<=:)//)({_PATH})", rf"(?<=\s-[ILB])({_PATH})"), _is_private_path),
    *_patterns("path", (rf"(?<![\w/\]])~[\w-]*/{_PATH_CHARACTER}+",)),
    *_patterns("path", (r"(?<!\w)[A-Za-z]:\\[^\s'\"]+", r"(?<![\w\\])\\\\[\w.-]+\\[^\s'\"]+")),
    *_patterns(
        "host", (rf"(?i)(?<![\w.\]-])(?:[a-z0-9-]+\.)+(?:{_INTERNAL_DOMAINS})(?![\w-]|\.\w)", r"\bip-\d+-\d+-\d+-\d+\b")
    ),
    *_patterns(
        "host",
        (rf"(?i)(?<![\w.\]@-])(?:[a-z0-9-]+\.)+(?:{_TOP_DOMAINS})(?![\w-]|\.\w)", _COUNTRY_DOMAIN),
        _is_private_site,
    ),
    # The part of an image name between the registry and the last component.
    *_patterns(
        "repository",
        (
            rf"(?:\[registry(?:-\d+)?\]|(?<![\w.-])(?:localhost|127\.0\.0\.1):\d+)/({_FOLDERS})(?=/[\w.-])",
            rf"\[host(?:-\d+)?\](?::\d+)?/({_FOLDERS})(?=/[\w.-]+(?::\w|@sha256:))",
        ),
    ),
    *_patterns("serial", (r"(?i)\bserial(?:\s+(?:no|number))?\s*[:=#]?\s+(?=\S*\d)([A-Za-z0-9-]{6,})",)),
    *_patterns("address", (r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\d|-MariaDB|-log|-\d+')",), is_private_address),
    *_patterns(
        "address",
        (r"(?i)(?<![\w:.])(?:fe80|f[cd][0-9a-f]{2}|[23][0-9a-f]{3}):[0-9a-f:]*[0-9a-f](?![\w:])",),
        is_private_address,
    ),
)

_SECRET_VALUE = rf"{_PLACEHOLDER_TEXT}|{_QUOTED}|[^\s,;'\"\])]+"
USER_TEXT_PATTERNS: tuple[Pattern, ...] = (
    *_patterns(
        "host",
        (
            r"(?i)((?<![\w-])host(?:name)?\s*[:=]\s*)([a-z][\w-]*)(?![\w.-])",
            r"(?i)((?<![\w-])(?:host|server|node|machine)\s+)((?=[a-z_]*[\d-])[a-z][\w-]*)(?![\w.-])",
        ),
    ),
    *_patterns(
        "secret",
        (
            rf"(?i)((?<![\w-])(?:pw|pass|pin|api[ _-]?key)['\"]?\s*(?:[:=]\s*|-\s+))({_SECRET_VALUE})",
            rf"(?i)((?<![\w-])(?:pw|pwd|password|passwd)['\"]?\s+(?:is\s+|[:=-]\s*)?)({_SECRET_VALUE})",
        ),
    ),
    *_patterns("secret", (r"(?<![0-9.-])[0-9](?:[ .-]?[0-9]){12,18}(?![\w-]|\.[0-9])",), _is_card_number),
)
"""Forms that are private only in texts that the user wrote.

Card numbers are among them: in a server log a number of 13 to 19 digits is a position in the redo log, and one in ten
of those would pass as a card number."""

ACCOUNT_PATTERNS = tuple(pattern for pattern in FORM_PATTERNS if pattern.kind == "account")

# Places where a user or a host is named. The names that are found there are private everywhere else as well.
NAME_PATTERNS: tuple[Pattern, ...] = (
    *_patterns(
        "user",
        (r"[/\\](?:home|Users)[/\\]([\w.-]+)", r"(?i)(?<![\w-])(?:--?)?(?:login|user ?name|logname|user)=([\w.-]+)"),
    ),
    *_patterns(
        "host",
        (
            r"/([\w.-]+)\.pid\b",
            r"(?<![\w./-])([\w.-]+?)-(?:relay-bin|bin|slow)\b(?=[.'\"\s]|$)",
            r"(?i)(?<![\w-])(?:report[_-]host|host ?name|nodename)\s*(?:[=:]\s*'?|')([A-Za-z][\w.-]+)",
            r"(?:--host[= ]|(?<![\w-])host=)([A-Za-z][\w.-]+)",
            r"\(bind-address\): '([\w.-]+)'|'([\w.-]+)' resolves to ",
            rf"(?i)(?<![\w.@-])((?:[a-z0-9-]+\.)+(?:{_INTERNAL_DOMAINS}))(?![\w-]|\.\w)",
        ),
    ),
)


# --- Exact texts that are private, collected from the session before anything is masked

Literal = tuple[str, str]
"""The kind of a private text, and the text."""

NAME_KINDS = frozenset({"user", "host"})
"""Kinds of texts that are ordinary words, and are matched only as whole words."""
MIN_LENGTH = 3
"""Minimum length of a private text other than a secret."""
MIN_SECRET_LENGTH = 5
"""Minimum length of a secret. A shorter value is masked only as the value of its option, and nowhere else."""
_SECRET_OPTION = re.compile(
    rf"(?i)@?(?:loose_)?(?:{SENSITIVE_NAMES}|init_(?:connect|file|slave|replica)|report_\w+|keyring_\w+|\w*_keyring\w*)"
)
# Common values of options, which are never collected as private texts.
_COMMON_VALUES = frozenset({"false", "default", "system", "statement", "mixed"})
_IDENTIFYING_FACT = re.compile(r"(?:device_)?serial|ebs_volume|.*(?:_serial|_uuid|_id|hostname|instance_id|account)")
_IDENTITY_KINDS = {"device_serial": "serial", "ebs_volume": "volume", "hostname": "host"}
_NAMING_OPTIONS = {"report_host": "host", "report_user": "user"}
"""Options that are masked as secrets; outside of the option their values are masked as names."""
# Settings and options that are paths.
_PATH_SETTINGS = ("template", "insert_template", "mysqld", "results")
_PATH_OPTIONS = ("--template", "--insert-template", "--mysqld", "--results")
_PUBLIC_WORDS = frozenset(
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
"""Words that are never masked as a name: they identify nobody, and masking them would make the report unreadable."""


def is_secret_option(name: str) -> bool:
    return _SECRET_OPTION.fullmatch(name.strip().lstrip("-").replace("-", "_")) is not None


def _kind_of_option(name: str) -> str:
    """Returns the kind of the value of a secret option: `host` or `user` for a few options, otherwise `secret`."""
    bare = name.strip().lstrip("-@").replace("-", "_").lower().removeprefix("loose_")
    return _NAMING_OPTIONS.get(bare, "secret")


def identity_kind(key: str) -> str | None:
    """Returns the kind of a fact that identifies this machine, such as a serial number; None for other facts."""
    name = key.removeprefix("@")
    return _IDENTITY_KINDS.get(name, "id") if _IDENTIFYING_FACT.fullmatch(name) else None


def split_words(text: object) -> list[str]:
    """Splits a text into words like a shell, or at blanks if its quotes are not balanced."""
    try:
        return shlex.split(str(text or ""))
    except ValueError:
        return str(text).split()


def session_literals(session: Session) -> Iterator[Literal]:
    """Yields the private texts in the settings, the command and the facts of a session."""
    settings = session.settings
    command = split_words(session.command)
    yield from (
        ("data", place)
        for place in (*_text_values(settings, ("data",)), *_option_values(command, ("--data",)))
        if _is_below_root(place)
    )
    places = (*_text_values(settings, _PATH_SETTINGS), *_option_values(command, _PATH_OPTIONS))
    yield from (("path", place) for place in places if _is_below_root(place) and not is_system_path(place))
    for registry in (*_text_values(settings, ("registry",)), *_option_values(command, ("--registry",))):
        if "/" in (place := re.sub(r"^(?:\w+://)?(?:[^/@]*@)?", "", registry).rstrip("/")):
            # A registry with a path: the images are below it.
            yield "registry", place
        yield from _registry_literals(registry)
    for image in (*_text_values(settings, ("image",)), *_option_values(command, ("--image",))):
        if "/" in image and re.search(r"[.:]", image.split("/")[0].rpartition("@")[2]):
            yield from _registry_literals(image)
    given = [*split_words(settings.get("set")), *command, *_variant_settings(settings.get("variants"))]
    for pair in given:
        name, equals, value = pair.partition("=")
        if equals and is_secret_option(name):
            yield _kind_of_option(name), value
    for known in (settings, session.environment):
        yield from _fact_literals(known)
    for said in session.servers.values():
        yield from _fact_literals(said)


def named_literals(texts: Iterable[str]) -> Iterator[Literal]:
    """Yields the names of users and hosts that occur in recognisable places of these texts."""
    for text in texts:
        for pattern in NAME_PATTERNS:
            for found in pattern.found.finditer(text):
                name = next(filter(None, found.groups()))
                yield pattern.kind, name
                if pattern.kind == "host":
                    yield "host", name.partition(".")[0]
        for pattern in ACCOUNT_PATTERNS:
            for found in pattern.found.finditer(text):
                if pattern.private(found[0]) and text[max(0, found.start() - 1) : found.start()] != ":":
                    yield from _account_literals(found[0])


def _account_literals(account: str) -> Iterator[Literal]:
    """Yields the user and the host of an account such as `'repl'@'db8.acme.com'`.

    Both are private elsewhere too, unless the host is a public site or the text is the name of a systemd unit."""
    user, _, host = account.replace("'", "").partition("@")
    if is_public_site(host) or host.endswith((".service", ".socket", ".target", ".slice")):
        return
    yield "user", user
    host = host.removeprefix("%.")
    if "%" not in host:
        yield "host", host
        yield "host", host.partition(".")[0]


def distinct_literals(literals: Iterable[Literal]) -> tuple[Literal, ...]:
    """Returns each private text once, without those that are too short or identify nobody.

    The longest come first, so that a text is not cut by one that is part of it."""
    found: dict[str, str] = {}
    for kind, text in literals:
        text = text.strip().rstrip("/") if kind in ("data", "path", "home") else text.strip()
        least = MIN_SECRET_LENGTH if kind == "secret" else MIN_LENGTH
        if (
            len(text) >= least
            and not (kind in NAME_KINDS and _is_public_word(text))
            and text.lower() not in _COMMON_VALUES
        ):
            found.setdefault(text, kind)
    return tuple(sorted(((kind, text) for text, kind in found.items()), key=lambda one: (-len(one[1]), one[1])))


def _is_public_word(text: str) -> bool:
    return text.lower() in _PUBLIC_WORDS or not re.search(r"[A-Za-z]", text)


def _is_below_root(place: str) -> bool:
    """Returns whether a text is an absolute path other than the root folder."""
    return place.startswith("/") and len(PurePath(place).parts) > 1


def _text_values(facts: Mapping[str, object], names: Iterable[str]) -> Iterator[str]:
    """Yields the values of these names that are non-empty strings."""
    yield from (value for name in names if isinstance(value := facts.get(name), str) and value)


def _option_values(command: list[str], names: Iterable[str]) -> Iterator[str]:
    """Yields the values of these options in a command, given as `--name value` or `--name=value`."""
    for word, following in zip(command, [*command[1:], ""], strict=True):
        for name in names:
            if word == name:
                yield following
            elif word.startswith(f"{name}="):
                yield word.partition("=")[2]


def _variant_settings(variants: object) -> Iterator[str]:
    """Yields the settings of variants, such as `name=value` of `label:name=value`."""
    for variant in split_words(variants):
        yield from variant.partition(":")[2].split(",")


def _registry_literals(place: str) -> Iterator[Literal]:
    """Yields the host of a registry, and the account and password in its address."""
    bare = re.sub(r"^\w+://", "", place).split("/")[0]
    account, _, host = bare.rpartition("@")
    if account:
        yield "secret", account
        yield "secret", account.partition(":")[2]
    if re.sub(r":\d+$", "", host) not in ("localhost", "127.0.0.1", ""):
        yield "registry", host


def _fact_literals(facts: Mapping[str, object]) -> Iterator[Literal]:
    for key, value in facts.items():
        if isinstance(value, str) and value:
            if is_secret_option(key):
                yield _kind_of_option(key), value
            elif kind := identity_kind(key):
                yield kind, value


# --- Exact texts that are private, collected from this host

_HOSTS_FILE = Path("/etc/hosts")
_USER_VARIABLES = ("USER", "LOGNAME", "SUDO_USER")
_SECRET_VARIABLE = re.compile(rf"(?i){SENSITIVE_NAMES}")


def host_literals(environment: Mapping[str, str], hosts: Path = _HOSTS_FILE) -> Iterator[Literal]:
    """Yields the names of this host and its user, their home folders, and secrets in the environment."""
    yield from (("host", name) for name in _host_names(environment, hosts))
    yield from (("user", environment.get(name, "")) for name in _USER_VARIABLES)
    yield "home", environment.get("HOME", "")
    for number in {os.getuid(), os.geteuid()}:
        with suppress(KeyError):
            user = pwd.getpwuid(number)
            yield "user", user.pw_name
            yield "user", user.pw_gecos.partition(",")[0]
            yield "home", user.pw_dir
    yield from (("secret", value) for name, value in environment.items() if _SECRET_VARIABLE.fullmatch(name))


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


# --- Replacing private texts by placeholders

_NUMBERED_KINDS = frozenset({"path", "url", "account", "address", "uuid"})
"""Kinds of which there are often several: even the first placeholder has a number."""
_UNNUMBERED_KINDS = frozenset({"secret", "build"})
"""Kinds with one placeholder for all texts, which does not reveal whether two of them are equal."""
_PARTS_WITH_FREE_KEYS = frozenset({"environment", "settings", "servers"})
"""Parts of a session with keys that do not all come from this tool, so the keys are masked, too."""
_SHELL_KEYS = frozenset({"command", "set", "variants"})
"""Keys with values that are split into words like a shell command."""
_PLACEHOLDER = re.compile(r"\[[a-z]+(?:-\d+)?\]")
_DOMAIN = (
    r"(?:\.(?!(?:err|log|pid|sock|cnf|ini|txt|json|md|csv|svg|html|folded|sql|sh|pem|index|tar|gz)(?![\w-]))[\w-]+)*"
)
"""Matches the domain after the name of a host, which is private as well, but not the suffix of a file name."""
_HOME_FOLDER = re.compile(r"/(?:home|Users)/[^/]+|/root")


@dataclass
class Masker:
    """Replaces private texts by placeholders, and counts the placeholders by file.

    The counts contain no private text."""

    literals: tuple[Literal, ...]
    file: str = ""
    """Name of the file that is being masked, for the counts."""
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    """Number of replacements, by placeholder and then by file."""
    _given: dict[tuple[str, str], str] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._kinds = {_normalised(kind, text): kind for kind, text in self.literals}
        self._exact = _any_literal([one for one in self.literals if one[0] not in NAME_KINDS])
        self._names = _any_literal([one for one in self.literals if one[0] in NAME_KINDS])

    def text(self, text: str) -> str:
        """Returns the masked text.

        Exact texts are replaced first, the longest before the others, then private forms, and names of users and hosts
        last, because they may be part of a form."""
        text = self._formed(FORM_PATTERNS, self._exact.sub(self._by_spelling, text))
        return self._names.sub(self._by_spelling, text)

    def value(self, value: Any, *keys: str) -> Any:
        """Returns a masked JSON value. `keys` is the path to it from the root of the document."""
        if isinstance(value, dict):
            return {self._key(name, keys): self.value(one, *keys, name) for name, one in value.items()}
        if isinstance(value, list):
            return [self.value(one, *keys) for one in value]
        # A verdict is one of four words; with any other the session could not be loaded again.
        return self._string(value, keys) if isinstance(value, str) and value and keys[-1:] != ("verdict",) else value

    def _string(self, value: str, keys: tuple[str, ...]) -> str:
        key = keys[-1] if keys else ""
        kind = (
            "secret"
            if is_secret_option(key)
            else identity_kind(key)
            if keys and keys[0] in _PARTS_WITH_FREE_KEYS
            else None
        )
        if kind is not None:
            return self._put(kind, value)
        if key in _SHELL_KEYS:
            return shlex.join(self._word(word) for word in split_words(value))
        if keys[:1] == ("settings",):
            value = self._formed(USER_TEXT_PATTERNS, value)
        return self._options(value) if key == "options" else self.text(value)

    def name(self, name: str) -> str:
        """Returns a masked file name that contains only characters safe for an archive and a list of checksums."""
        return re.sub(r"[^\w.+\[\]@-]", "_", self.text(name), flags=re.ASCII)

    def _key(self, name: str, keys: tuple[str, ...]) -> str:
        ours = not keys or keys[0] not in _PARTS_WITH_FREE_KEYS or re.fullmatch(r"@?[a-z_0-9]+", name)
        return name if ours else self.text(name)

    def _word(self, word: str) -> str:
        """Returns a masked word of a command, such as `name=value` or a variant `label:name=value,name=value`."""
        word = self._formed(USER_TEXT_PATTERNS, word)
        label, colon, pairs = word.partition(":")
        if colon and "=" in pairs and not pairs.startswith(" ") and "=" not in label and "/" not in label:
            return self.text(f"{label}:") + ",".join(self._word(pair) for pair in pairs.split(","))
        name, equals, value = word.partition("=")
        if equals and value and is_secret_option(name):
            return f"{name}={self._put('secret', value)}"
        return self.text(word)

    def _options(self, told: str) -> str:
        """Returns masked options of the form `name=value`, separated by blanks. A value may contain blanks itself."""
        parts = []
        for part in re.split(r"\s+(?=[a-z][a-z0-9_.]*=)", told):
            name, equals, value = part.partition("=")
            if equals and value and is_secret_option(name):
                parts.append(f"{name}={self._put('secret', value)}")
                if name.removeprefix("loose_").startswith("init_") and value not in self._kinds:
                    # The value is SQL and its end is unknown, so the rest of the text is dropped.
                    break
            else:
                parts.append(self.text(part))
        return " ".join(parts)

    def _by_spelling(self, found: re.Match[str]) -> str:
        text = known = found[0]
        while known and known not in self._kinds and known.lower() not in self._kinds:
            # The match may include a domain after the known name.
            known = known.rpartition(".")[0]
        return self._put(self._kinds.get(known) or self._kinds.get(known.lower(), "secret"), text)

    def _formed(self, patterns: tuple[Pattern, ...], text: str) -> str:
        for pattern in patterns:
            text = pattern.found.sub(lambda found, one=pattern: self._by_form(one, found), text)  # type: ignore[misc]
        return text

    def _by_form(self, pattern: Pattern, found: re.Match[str]) -> str:
        group = found.re.groups
        text = found[group]
        if pattern.kind == "path":
            text = text.rstrip(".")
        if not pattern.private(text):
            return found[0]
        put = self._path(text) if pattern.kind == "path" else self._put(pattern.kind, text)
        start = found.start(group) - found.start()
        return found[0][:start] + put + found[0][start + len(text) :]

    def _path(self, path: str) -> str:
        if source := source_file(path):
            return self._put("build", path.removesuffix(source)) + source
        bare = path.rstrip("/") or path
        return self._put("home" if _HOME_FOLDER.fullmatch(bare) else "path", bare)

    def _put(self, kind: str, text: str) -> str:
        if _PLACEHOLDER.fullmatch(text):
            return text
        same = (kind, _normalised(kind, text))
        if kind in _UNNUMBERED_KINDS:
            placeholder = f"[{kind}]"
        else:
            placeholder = self._given.get(same) or self._new(kind)
            self._given[same] = placeholder
        in_file = self.counts.setdefault(placeholder, {})
        in_file[self.file] = in_file.get(self.file, 0) + 1
        return placeholder

    def _new(self, kind: str) -> str:
        number = self._numbers.get(kind, 0) + 1
        self._numbers[kind] = number
        return f"[{kind}-{number}]" if number > 1 or kind in _NUMBERED_KINDS else f"[{kind}]"


def placeholder_list(mask: Masker) -> str:
    """Returns a list of the placeholders with their meanings and counts, which contains no private text."""
    lines = [
        "What was masked in this archive: placeholder, how often, and in which files.",
        "The same text has the same placeholder everywhere. The originals are in no file here.",
        "",
    ]
    for placeholder, files in sorted(mask.counts.items()):
        kind = placeholder.strip("[]").rpartition("-")[0] or placeholder.strip("[]")
        lines.append(f"{placeholder}  {_KIND_DESCRIPTIONS.get(kind, kind)}, {sum(files.values())} times")
        lines += [f"    {count} in {name}" for name, count in sorted(files.items())]
    return "\n".join([*lines, *([] if mask.counts else ["nothing"])]) + "\n"


_KIND_DESCRIPTIONS = {
    "secret": "a password, a token, or an option that may hold one",
    "data": "the folder of the data directories",
    "path": "a file or folder of the user's",
    "home": "a home folder",
    "build": "the folder in which the server was built",
    "user": "a user's name",
    "host": "a host's name",
    "url": "an address of a site that not everybody knows",
    "registry": "a registry of images",
    "repository": "where in its registry an image is",
    "account": "a user at a host",
    "address": "an IP address",
    "serial": "the serial number of a device",
    "volume": "the id of a volume",
    "id": "an id of this machine",
    "instance": "the id of an instance",
    "uuid": "a UUID",
    "mac": "a network card's address",
    "arn": "a name in a cloud account",
}


def _any_literal(literals: list[Literal]) -> re.Pattern[str]:
    # Without literals the pattern must match nothing.
    return re.compile("|".join(_literal_pattern(kind, text) for kind, text in literals) or r"(?!)")


def _literal_pattern(kind: str, text: str) -> str:
    """Returns a pattern for a private text, with the boundaries that its kind needs."""
    exact = re.escape(text)
    if kind == "user":
        return rf"(?<![A-Za-z0-9_]){exact}(?![A-Za-z0-9_])"
    if kind in ("host", "registry"):
        return rf"(?i:(?<![A-Za-z0-9_]){exact}{_DOMAIN}(?![A-Za-z0-9_]))"
    if kind == "home":
        # A path below the home folder is masked as a whole, as a path.
        return rf"{exact}(?![\w/.-])"
    return rf"{exact}(?![\w-])" if kind in ("data", "path") else exact


def _normalised(kind: str, text: str) -> str:
    """Returns the text in the form by which equal texts are recognised: hosts are compared without case."""
    return text.lower() if kind in ("host", "registry") else text
