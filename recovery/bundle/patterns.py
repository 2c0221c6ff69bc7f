"""Which texts are private by their form, whoever wrote them, on whatever machine? Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass

PUBLIC_SITES = ("mysql.com", "mariadb.org", "mariadb.com", "percona.com", "oracle.com", "github.com", "w3.org")
_SERVERS_OWN = frozenset({"root", "mysql", "mysql.sys", "mysql.session", "mysql.infoschema", "mariadb.sys"})
_SYSTEM = (
    r"/(?:bin|sbin|lib|lib32|lib64|proc|sys)",
    r"/dev(?!/(?:shm|disk|mapper)/)",
    r"/usr(?:/local)?/(?:bin|sbin|lib|lib32|lib64|libexec|share)",
    r"/usr/local/mysql",
    r"/etc/(?:mysql|my\.cnf|my\.cnf\.d|ssl|hosts|resolv\.conf)",
    r"/var/(?:lib|log|run)/(?:mysql|mysqld|mariadb)",
    r"/(?:var/)?run/(?:docker\.sock|mysqld|recovery|test)",
    r"/tmp/recovery-\w+",  # noqa: S108 - a name that is looked for
    # Where the tool's own images have their server.
    r"/opt/server",
)
# A folder itself tells nothing either.
_SYSTEM_ITSELF = r"/(?:usr|etc|var|var/lib|var/log|run|var/run|tmp|var/tmp|home|opt|mnt|usr/local|usr/sbin|etc/mysql)/?"
_IS_SYSTEM = re.compile(rf"(?:{'|'.join(_SYSTEM)})(?![\w-])|{_SYSTEM_ITSELF}\Z")
_SOURCE_FILE = re.compile(
    r".*?(/(?:storage|sql|mysys|extra|libmysqld|include|plugin|strings|vio)/[\w./+-]+\.(?:cc|cpp|c|ic|hh?|hpp))\Z"
)
"""A server names the line of its own source that complains, by the path that it had where it was built."""

SENSITIVE = (
    r"[\w-]*(?:passw(?:or)?d|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential"
    r"|authorization)s?[\w-]*|[\w-]*pwd"
)
_QUOTED = r"""'(?:[^'\n]|'')*'|"[^"\n]*\""""
_MASKED = r"\[[a-z]+(?:-\d+)?\]"
"""What was masked before."""
_SAID_OF_ONE = r"(?:generated|deprecated|expired|empty|set|not|required|too|invalid|wrong|missing|stored)\b"
_SECRET_VALUES = (
    rf"(?i)((?<![\w-])(?:{SENSITIVE})[\"'`]?\s*(?::=|=>|[=:])\s*(?:bearer\s+|basic\s+)?)"
    rf"(?!YES\b|NO\b)({_MASKED}|{_QUOTED}|[^\s,;'\"\])]+)",
    rf"(?i)(\btemporary password is generated for \S+\s+)({_MASKED}|\S+)",
    rf"(?i)(\b(?:password|passphrase|token|secret)\s+is\s+(?!{_SAID_OF_ONE}))({_MASKED}|{_QUOTED}|\S+)",
    rf"(?i)(\binit_(?:connect|file|slave|replica)\s*=\s*)({_MASKED}|{_QUOTED}|\S+)",
    rf"(--password\s+|\b(?:mysql|mysqladmin|mysqldump|mariadb)\b[^\n]*\s-p)({_MASKED}|\S{{3,}})",
    rf"(\s(?:-u|--user)[\s=]+[^\s:]+:)({_MASKED}|\S+)",
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
_NAME = rf"""(?:[^\s'"`,;:()<>|{{}}\\=\[\]]|{_MASKED})"""
_PATH = rf"/+(?=[\w.@%+~\[-]){_NAME}+"
_FOLDERS = r"[\w.-]+(?:/[\w.-]+)*"
_TOP = "com|net|org|edu|gov|io|cloud|eu|example"
_COUNTRY = r"(?<![\w.\]@-])(?:[a-z][a-z0-9-]*\.){2,}(?!cc|hh|so|in|pl|py)[a-z]{2}(?![\w-]|\.\w)"
_INNER = r"internal|local|corp|lan|intranet|localdomain|home\.arpa|compute\.amazonaws\.com"


@dataclass(frozen=True)
class Pattern:
    kind: str
    found: re.Pattern[str]
    """The last group is what is private; without groups it is all of it."""
    private: Callable[[str], bool] = bool


def is_system(path: str) -> bool:
    """Every machine has it."""
    return ".." not in path and _IS_SYSTEM.match(re.sub(r"/+", "/", path)) is not None


def source_file(path: str) -> str | None:
    """`/storage/innobase/log/log0recv.cc`, of whatever folder it was built in."""
    found = _SOURCE_FILE.fullmatch(path)
    return found and found[1]


def is_public(host: str) -> bool:
    return any(host == site or host.endswith(f".{site}") for site in PUBLIC_SITES)


def is_foreign_url(url: str) -> bool:
    """One of a place that not everybody knows, or that bears more than an address."""
    scheme, _, rest = url.partition("://")
    if scheme in ("unix", "file"):
        return not is_system(rest)
    host = re.split(r"[/?#]", rest)[0]
    return not is_public(host) or "?" in rest or "@" in rest


def is_address(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified or text == "255.255.255.255")


def _is_account(text: str) -> bool:
    """Not the server's own, nor a symbol and its version."""
    name, _, host = re.sub("['`]", "", text).partition("@")
    if host in ("localhost", "%", "") and name in _SERVERS_OWN:
        return False
    return host not in ("plt", "sha256", "sha512") and not re.fullmatch(r"[A-Za-z]+_[\w.]+|Base", host)


def _is_site(name: str) -> bool:
    return not is_public(name)


def _is_path(path: str) -> bool:
    return not is_system(path)


def _is_card(text: str) -> bool:
    """By the check digit that all of them have (Luhn's)."""
    digits = [int(digit) for digit in reversed(re.sub(r"\D", "", text))]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[1::2]]
    return any(digits) and (sum(digits[::2]) + sum(doubled)) % 10 == 0


def _compiled(kind: str, texts: tuple[str, ...], private: Callable[[str], bool] = bool) -> tuple[Pattern, ...]:
    return tuple(Pattern(kind, re.compile(text), private) for text in texts)


PATTERNS: tuple[Pattern, ...] = (
    *_compiled("secret", (*_SECRETS_BY_FORM, *_SECRET_VALUES)),
    *_compiled("url", (r"\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s'\"`<>\\)]+",), is_foreign_url),
    *_compiled("secret", (r"(?<![\w/])([\w.+-]+:[^\s:@/'\"]+)(?=@[\w.\[-]+)",)),
    *_compiled("arn", (r"\barn:aws[\w-]*:[^\s'\",]+",)),
    *_compiled("volume", (r"\bvol-?[0-9a-f]{8,17}\b", r"\bsnap-[0-9a-f]{8,17}\b")),
    *_compiled("instance", (r"\bi-[0-9a-f]{8,17}\b", r"\beni-[0-9a-f]{8,17}\b")),
    *_compiled("uuid", (r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b",)),
    *_compiled("mac", (r"(?<![\w:])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![\w:])",)),
    *_compiled(
        "account",
        (r"(?<![\w/@.])'[^'\s@]+'@'[^'\s]+'", r"(?<![\w/@.+-])[A-Za-z][\w.+-]*@[A-Za-z][\w-]*(?:\.[\w-]+)*(?![\w@(])"),
        _is_account,
    ),
    # In quotes a path may have blanks in it.
    *_compiled(
        "path", (r"(?<![\w\])])'(/[^'\n]+)'", r'(?<![\w\])])"(/[^"\n]+)"', r"(?<![\w\])])`(/[^`\n]+)`"), _is_path
    ),
    *_compiled("path", (rf"(?<!\])/(?:home|Users)/{_NAME}+",)),
    # What follows a letter is no path (MB/s), unless the letter is a compiler's.
    *_compiled("path", (rf"(?<![\w.\]/~*<>)])(?!(?<=:)//)({_PATH})", rf"(?<=\s-[ILB])({_PATH})"), _is_path),
    *_compiled("path", (rf"(?<![\w/\]])~[\w-]*/{_NAME}+",)),
    *_compiled("path", (r"(?<!\w)[A-Za-z]:\\[^\s'\"]+", r"(?<![\w\\])\\\\[\w.-]+\\[^\s'\"]+")),
    *_compiled("host", (rf"(?i)(?<![\w.\]-])(?:[a-z0-9-]+\.)+(?:{_INNER})(?![\w-]|\.\w)", r"\bip-\d+-\d+-\d+-\d+\b")),
    *_compiled("host", (rf"(?i)(?<![\w.\]@-])(?:[a-z0-9-]+\.)+(?:{_TOP})(?![\w-]|\.\w)", _COUNTRY), _is_site),
    # Of an image, what is between its registry and its own name.
    *_compiled(
        "repository",
        (
            rf"(?:\[registry(?:-\d+)?\]|(?<![\w.-])(?:localhost|127\.0\.0\.1):\d+)/({_FOLDERS})(?=/[\w.-])",
            rf"\[host(?:-\d+)?\](?::\d+)?/({_FOLDERS})(?=/[\w.-]+(?::\w|@sha256:))",
        ),
    ),
    *_compiled("serial", (r"(?i)\bserial(?:\s+(?:no|number))?\s*[:=#]?\s+(?=\S*\d)([A-Za-z0-9-]{6,})",)),
    *_compiled("address", (r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\d|-MariaDB|-log|-\d+')",), is_address),
    *_compiled(
        "address",
        (r"(?i)(?<![\w:.])(?:fe80|f[cd][0-9a-f]{2}|[23][0-9a-f]{3}):[0-9a-f:]*[0-9a-f](?![\w:])",),
        is_address,
    ),
)

_SAID = rf"{_MASKED}|{_QUOTED}|[^\s,;'\"\])]+"
OWN_WORDS: tuple[Pattern, ...] = (
    *_compiled(
        "host",
        (
            r"(?i)((?<![\w-])host(?:name)?\s*[:=]\s*)([a-z][\w-]*)(?![\w.-])",
            r"(?i)((?<![\w-])(?:host|server|node|machine)\s+)((?=[a-z_]*[\d-])[a-z][\w-]*)(?![\w.-])",
        ),
    ),
    *_compiled(
        "secret",
        (
            rf"(?i)((?<![\w-])(?:pw|pass|pin|api[ _-]?key)['\"]?\s*(?:[:=]\s*|-\s+))({_SAID})",
            rf"(?i)((?<![\w-])(?:pw|pwd|password|passwd)['\"]?\s+(?:is\s+|[:=-]\s*)?)({_SAID})",
        ),
    ),
    *_compiled("secret", (r"(?<![0-9.-])[0-9](?:[ .-]?[0-9]){12,18}(?![\w-]|\.[0-9])",), _is_card),
)
"""Private in the user's own words. In a server's log a number of 13 to 19 digits is a position of the redo log, and one
in ten of them looks like a card's."""

ACCOUNTS = tuple(pattern for pattern in PATTERNS if pattern.kind == "account")

# What names a user or a host somewhere, and is then private wherever else it stands.
NAMES: tuple[Pattern, ...] = (
    *_compiled(
        "user",
        (r"[/\\](?:home|Users)[/\\]([\w.-]+)", r"(?i)(?<![\w-])(?:--?)?(?:login|user ?name|logname|user)=([\w.-]+)"),
    ),
    *_compiled(
        "host",
        (
            r"/([\w.-]+)\.pid\b",
            r"(?<![\w./-])([\w.-]+?)-(?:relay-bin|bin|slow)\b(?=[.'\"\s]|$)",
            r"(?i)(?<![\w-])(?:report[_-]host|host ?name|nodename)\s*(?:[=:]\s*'?|')([A-Za-z][\w.-]+)",
            r"(?:--host[= ]|(?<![\w-])host=)([A-Za-z][\w.-]+)",
            r"\(bind-address\): '([\w.-]+)'|'([\w.-]+)' resolves to ",
            rf"(?i)(?<![\w.@-])((?:[a-z0-9-]+\.)+(?:{_INNER}))(?![\w-]|\.\w)",
        ),
    ),
)
