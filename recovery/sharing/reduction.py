"""Decides what of a stored session is shared, by one rule on its JSON.

Numbers and flags pass, and texts that are a number, a time, a version or a hash. Any other text passes if its key is
one that this tool, the kernel or a server writes, and if it looks as they write it. All else is left out and counted.
Names that the user gave, to variants and builds, become `name-1`, `name-2`: tables compare them. All functions are
pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any

from recovery.analysis.history import SETTING_ROLES
from recovery.analysis.stacks import Folded
from recovery.errors import RecoveryError
from recovery.experiments import EXPERIMENTS, find_experiment
from recovery.metrics import METRICS
from recovery.model import (
    Cache,
    ExtraRun,
    Flavor,
    Layout,
    NamedSettings,
    Session,
    Status,
    Verdict,
    parse_version,
)
from recovery.phase_table import ORDER
from recovery.sharing.stored_options import is_init_option, named_settings, split_options, split_words
from recovery.storage.format import session_fields, session_from_fields

NOT_SHARED = "(not shared)"
"""In place of a text that is left out, where a reader has to know that there was one."""

Rule = Callable[[str], str | None]
"""Returns what is shared of a text; None to leave it out."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def form(pattern: str) -> Rule:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: text if compiled.fullmatch(text) else None


def _each(rule: Rule, separator: str) -> Rule:
    """Returns the rule for a list: its parts that follow `rule` are shared."""
    return lambda text: separator.join(filter(None, map(rule, text.split(separator)))) or None


# --- What passes whatever its key is

_VERSION = r"\d{1,4}\.\d{1,4}(?:\.\d{1,5})?(?:\.?(?:dev|rc|a|b|post)\d+)?"
_PLAIN = re.compile(
    r"[+-]?\d{1,25}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?[kKmMgGtT]?%?"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)?"
    rf"|(?:sha256:)?[0-9a-f]{{12,64}}|{_VERSION}",
    re.ASCII,
)
"""A number, a size, a time, a hash or a version."""


def is_plain(text: str) -> bool:
    return _PLAIN.fullmatch(text) is not None


# --- What this tool writes: its own words

_MORE_WORDS = """
    1m a aarch64 abs added again ahead algorithm all already also alternate although always amazon an answer answers
    architecture are argument ascii asked at auto available b back base batch be because become behind beside bfq
    bhyve big binary blkio block blocks bring btrfs built but by cannot ceph cgroup cgroupfs cgroups checkpoints
    choice chosen cifs cleanly clients cls code combined come committed compare compression connection
    conservative container controllers copy could count cpuacct cpufreq cpuset crashes damon databases db deadline
    default defaults definition delete devices did died dies direct directories disk docker does doing doublewrite
    down driver dumps each earlier ec2 else end ended error eu event events exit expected ext2 ext3 ext4 f2fs
    fadvise fails fanotify fast faster fcfs filesystem filtered final fingerprint fixed flipped flush for force
    foreign found free freezer from fs full function functions fuse gb gdb gib given gone google governor groups h
    had hangs has here histogram hot hours how hugetlb hung hwm i686 ib ibd ibdata idle if implemented in index
    inode inodes inotify instead interval intervals into invalid io isolation it its itself journal just kb keep
    kept keys kubernetes kvm kyber large larger last latch later latin latin1 left less level libraries limit
    limited limits line local locks logfiles long longer loss lsn lts lustre lwm lxc machine madvise main make makes
    many mariadbd marks match means message mib microsoft min misc model moments more most mount mounted mq much
    mysqldump name narrow near needs net never new newest nfs nokey non none noop normally not nothing nspawn
    number numbers o off old oltp on ondemand one ones only openvz operation or oracle original other out overlay
    overlay2 overlayfs own page pageout parallels parse part partly parts pass past patched pct percentile perf
    performance permitted pids ping plain plugins podman point power powersave powervm ppc64le prepared present
    printed prio probe product program progressed purge python q qemu question quota rand random rdma reach
    reached recover refuses repeatable replication report reporting reports riscv64 room root rotational run s390x
    same sbtest scanned schedule scheduler schedutil schema second select sequence serial serializable servers
    session sessions settings sha256 shared should show shows shut signal sigstop size skip slow small somebody
    something source speaks spinning ssl stable stack started starting starts statement statements status stay stays
    still stock stopped storage sum swappiness sync sysbench systemd tablespace tablespaces takes task temporary than
    that the them then there these this those thp thread time times tmpfs told too took tool traced transactions
    truncated trx two type under uniform unknown unlimited unmounted until up update use used user users userspace
    utf8 utf8mb3 utf8mb4 validate variant vats vendor verbosity versions vfs virtiofs virtual virtualisation
    vmware was watches were what when whereas whether which while wider with within without workload works would
    writable wrote wsl x86 xa xen xfs yes zfs zram zvm
"""
_VALUE_WORDS = _words(
    """
    on off yes no true false null none default auto auto_only all system o_direct o_direct_no_fsync o_dsync fsync
    fdatasync nosync littlesync crc32 strict_crc32 innodb strict_innodb full_crc32 strict_full_crc32 detect_only
    detect_and_recover inserts deletes changes purges aborting fcfs vats log_lsn_checkpoint_age latch
    repeatable-read read-committed read-uncommitted serializable row statement mixed full minimal noblob
    one-thread-per-connection pool-of-threads no-threads antelope barracuda dynamic compact compressed redundant
    zlib lz4 zstd latest binlog wait/synch/%/innodb/%=on nulls_equal nulls_unequal nulls_ignored writesonly tcp utc
    file table partitioned backup force
    """
)
"""Words among the values of server options, in lower case."""
_NAMES_OF_TOOL = (
    *METRICS, *ORDER, *SETTING_ROLES, *EXPERIMENTS, *Flavor, *Layout, *Cache, *Verdict, *Status, *ExtraRun,
)  # fmt: skip
_TOKENS = re.compile(r"[^\W_]+", re.ASCII)
_WORDS = frozenset(_TOKENS.findall(" ".join((_MORE_WORDS, *_VALUE_WORDS, *_NAMES_OF_TOOL)).lower()))
_NUMBERED = re.compile(r"[a-z]?\d{1,20}[kmgt]?", re.ASCII)
_SIGNS = re.compile(r"[\w .,:;=+%'()\[\]-]{1,200}", re.ASCII)
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d", re.ASCII)
_FOUR_NUMBERS = r"(?:9|2\d)\.\d{1,2}\.\d{1,2}\.\d"
"""The version of an update of MySQL, such as 9.7.4.1. Other numbers of four parts may be addresses."""


def own_words(text: str) -> str | None:
    """Returns a text of words that this tool uses, and of numbers."""
    if _SIGNS.fullmatch(text) is None or _ADDRESS.search(text):
        return None
    known = all(word in _WORDS or _NUMBERED.fullmatch(word) for word in _TOKENS.findall(text.lower()))
    return text if known else None


def _plain_or_own_words(text: str) -> str | None:
    return text if is_plain(text) else own_words(text)


def _nothing(_: str) -> None:
    return None


def _reason(text: str) -> str | None:
    """Returns the beginning of a sentence of own words: behind a colon or a semicolon this tool quotes others."""
    parts = re.split(r"(: |; )", text)
    return "".join(takewhile(lambda part: "[" not in part and own_words(part), parts)).rstrip(":; ") or None


_SECRET = re.compile(
    r".*(?:passw(?:or)?d|passphrase|secret|token|api_?key|access_?key|private_?key|credential|authorization|pwd).*"
    r"|(?:loose_)?(?:init_(?:connect|file|slave|replica)|report_\w+|\w*keyring\w*)"
    r"|.*(?:uuid|serial|account|hostname|volume)|(?!server_id).*_id",
    re.ASCII,
)
"""Names of options and facts that hold secrets, or tell one machine from others."""


def _known_key(name: str) -> bool:
    return own_words(name) is not None and not _is_private(name)


def _is_private(name: str) -> bool:
    return _SECRET.fullmatch(name.lstrip("-@").replace("-", "_").lower()) is not None


# --- What servers write

_SIZE = r"[+-]?\d{1,25}(?:\.\d{1,20})?(?:[kKmMgGtTpPeE])?"
_CHARACTER_SET = r"(?:latin1|ascii|binary|utf8|utf8mb3|utf8mb4)(?:_[a-z0-9]{1,10}){0,5}"
_VALUE = re.compile(
    rf"{_SIZE}(?:,{_SIZE})*|{_CHARACTER_SET}|[a-z]{{2}}_[A-Z]{{2}}|RUNDIR(?:/mysqld\.(?:sock|pid))?"
    r"|ib(?:data|tmp)\d:\d{1,9}[kKmMgG]?(?::autoextend(?::max:\d{1,9}[kKmMgG]?)?)?|",
    re.ASCII,
)
_OPTION_NAME = re.compile(r"(?:loose_)?[a-z][a-z0-9_]{1,63}", re.ASCII)
_FLAG_NAME = re.compile(r"(?:loose_)?(?:skip|disable|enable|innodb)_[a-z0-9_]{1,60}", re.ASCII)
"""An option without a value. Other words may belong to the value before them."""


def server_option(name: str, value: str) -> bool:
    """Returns whether an option of a server is shared: its name is not one of a secret, and its value names no file, no
    host and nothing else that the user chose."""
    bare = name.replace("-", "_")
    if _OPTION_NAME.fullmatch(bare) is None or _is_private(bare):
        return False
    return _VALUE.fullmatch(value) is not None or value.lower() in _VALUE_WORDS


def option_text(option: str) -> str | None:
    """Returns an option of the form `name=value`, or of a flag, if it is shared."""
    name, equals, value = option.partition("=")
    if not equals:
        return option if _FLAG_NAME.fullmatch(name.replace("-", "_")) else None
    return option if server_option(name, value) else None


_PACKAGE = r"(?:mysql|mariadb|percona)[a-z0-9.-]{1,30} (?:\d:)?[\d.]{1,20}[\w.+-]{0,40}"
_SITES = r"(?:(?:downloads|dev|cdn|archive)\.(?:mysql|mariadb|percona)\.(?:com|org)|archive\.mariadb\.org)"
_PUBLIC_SOURCE = form(
    r"catalog \((?:\d[\w.-]{1,40}|(?:maven|npm) [\w.:@-]{1,100})\)"
    rf"|built from Debian [a-z]{{3,12}} by debootstrap: {_PACKAGE}(?:, {_PACKAGE})*"
    rf"|debian [a-z]{{3,12}} \({_PACKAGE}(?:, {_PACKAGE})*; debootstrap\)"
    rf"|archive https?://{_SITES}/[\w./+-]{{1,200}}"
)


def _source(text: str) -> str | None:
    """Returns where a server comes from, or only the kind of this place if it is not a public one."""
    kind = text.partition(" ")[0]
    kinds = {"own", "archive", "image", "built", "catalog", "debian", "path"}
    return _PUBLIC_SOURCE(text) or (kind if kind in kinds else None)


_FUNCTION = form(r"\[\?\]|\[(?:mysqld|mariadbd|libc|lib[a-z0-9_+-]{1,30})(?:\.so[.\d]*|-[\d.]+\.so)?\]"
                 r"|[A-Za-z_~][\w:~<>,&*() \[\]=+-]{0,300}")  # fmt: skip


def function_name(name: str) -> str:
    """Returns the name of a function of a server or a library, or a mark in its place if it has a path in it."""
    return _FUNCTION(name) or "[?]"


_LOG_PREFIX = re.compile(
    r"(?:\d{4}-\d\d-\d\d[T ] ?[\d:.]{7,15}(?:Z|[+-]\d\d:\d\d)? +|\d{6} {1,2}[\d:]{7,8} +)?(?:\d{1,20} )?"
    r"(?:\[(?:Note|Warning|ERROR|System)\] )?(?:\[MY-\d{6}\] )?(?:\[InnoDB\] |InnoDB: )?",
    re.ASCII,
)


def _crash_proof(line: str) -> str | None:
    """Returns a line of a server's log about a crash recovery, if it has no other text."""
    prefix = _LOG_PREFIX.match(line)
    return line if own_words(line[prefix.end() if prefix else 0 :].rstrip("!")) else None


_CLIENT_VERSION = form(
    r"sysbench [\d.]{1,12}(?:-[0-9a-f]{1,10})?"
    r"|(?:mysqldump|mariadb-dump) +Ver [\d.]{1,12} +(?:Distrib )?[\d.]{1,12}(?:-MariaDB)?"
    r"(?:, for [\w -]{1,40}\([\w-]{1,20}\))?"
)
_CLIENT_OPTION = re.compile(
    r"--([a-z][a-z0-9_-]{1,40})(?:=(?:\d{1,20}(?:\.\d{1,9})?|on|off|mysql|root|uniform|pareto|special))?"
)
_CLIENTS = frozenset({"load", "polls", "dump", "sysbench", "mysqldump", "mariadb-dump"})


def _client(text: str) -> str | None:
    """Returns the version of a client, or its program and its options with plain values."""
    if _CLIENT_VERSION(text):
        return text
    program, *arguments = text.split() or [""]
    name = program.rpartition("/")[2]
    options = [(word, _CLIENT_OPTION.fullmatch(word)) for word in arguments]
    known = [word for word, option in options if own_words(option[1] if option else word) and (option or "_" in word)]
    return " ".join((name, *known)) if name in _CLIENTS else None


# --- What the kernel writes

_DEVICE = form(
    r"(?:/dev/)?(?:[hsv]d[a-z]{1,2}\d{0,3}|xvd[a-z]{1,2}\d{0,3}|nvme\d+n\d+(?:p\d+)?|mmcblk\d+(?:p\d+)?|md\d+(?:p\d+)?"
    r"|dm-\d+|loop\d+|zram\d+|pmem\d+|nbd\d+|rbd\d+|overlay|tmpfs)"
)
_HARDWARE = form(r"(?:[\w ().,+/-]| @ ){1,100}")
_MOUNT_OPTION = form(
    r"(?:rw|ro|(?:no|rel|lazy|strict)?atime|nodiratime|nosuid|nodev|noexec|sync|async|(?:no)?discard|(?:no)?barrier"
    r"|resv_strict|inode64|attr2|noquota|largeio|swalloc|nobh|dax|delalloc|space_cache|ssd|data=[a-z]{2,10}"
    r"|errors=[a-z-]{2,12}|compress(?:-force)?=(?:zstd|lzo|zlib)(?::\d+)?|[a-z_]{1,20}=\d{1,20})"
)


def _engine(text: str) -> str | None:
    """Returns the name and the version of the container engine, without its address."""
    found = re.match(r"(?:Docker|Podman) [\d.]{1,20}", text, re.ASCII)
    return found[0] if found else None


# --- The rule for the text under each key

TEXTS: Mapping[str, Rule] = {
    # the kernel and the engine
    **dict.fromkeys(
        (f"environment.{name}" for name in ("cpu_model", "device_model", "machine_product", "machine_vendor", "os")),
        _HARDWARE,
    ),
    **dict.fromkeys(
        (f"environment.{name}" for name in ("device", "program_device", "temporary_device", "tool_device")), _DEVICE
    ),
    "environment.ec2_instance_type": form(
        r"[a-z]{1,3}\d{1,2}[a-z-]{0,8}\.(?:(?:\d{0,2}x?large|medium|small|micro|nano)|metal(?:-\d{1,2}xl)?)"
    ),
    "environment.engine": _engine,
    "environment.kernel": form(r"\d+\.\d+[\w.+~-]{0,60}"),
    "environment.mount_options": _each(_MOUNT_OPTION, ","),
    # servers
    "servers.*.program_device": _DEVICE,
    "servers.*.source": _source,
    "servers.*.@version": form(
        rf"(?:{_FOUR_NUMBERS}|\d{{1,3}}\.\d{{1,3}}\.\d{{1,4}})"
        r"(?:-(?:\d+(?:\.\d+)*|MariaDB|log|debug|commercial|enterprise|\d[\w.+]*deb\d+u\d+)){0,5}(?: from Debian)?"
    ),
    "runs.stacks.program": form("eu-stack|perf|gdb"),
    "servers.*.sha256": form("[0-9a-f]{64}"),
    "servers.*.@version_comment": form(
        r"MySQL (?:Community|Enterprise) Server(?: - (?:GPL|Commercial)| \(GPL\)| \(Commercial\))?(?: - Debug)?"
        r"|MariaDB Server|mariadb\.org binary distribution|Source distribution|\(Debian\)|Debian \d\d|\(Ubuntu\)"
        r"|Percona Server \(GPL\)(?:, Release [\d.]+)?(?:, Revision [0-9a-f]{1,12})?(?: - debug)?"
        r"|-- Please help get to 10k stars at https://github\.com/MariaDB/Server"
    ),
    "runs.startup.crash_proof": _crash_proof,
    "runs.stacks.chains.frames": function_name,
    "runs.stacks.hottest.function": function_name,
    "runs.load.clients.*": _client,
    "runs.load.waits.name": form(
        r"(?:combined |sum )?(?:(?:rw)?lock: |mutex: )?[a-z0-9_]{1,30}\.(?:cc|h|ic|c):\d{1,6}"
        r"|wait/(?:synch|io|lock)/[a-z]{1,20}(?:/[\w:]{1,60}){1,3}|[A-Z][A-Z0-9_]{1,40}|row locks|table locks"
    ),
    "runs.reason": _reason,
    "runs.broken_promises": _reason,
    "runs.observations.*": _reason,
    "runs.previous_exit": form(r"(?:signal|exit) \d{1,3}|SIG[A-Z]{2,5}"),
    # this tool
    "earlier.session": form(rf"\d{{8}}T\d{{6}}Z-(?:{'|'.join(EXPERIMENTS)})(?:-\d{{1,3}})?"),
}
"""Those that are no plain text and no words of this tool."""
_OWN_KEYS = _words(
    """
    notes status metric variants.metric runs.flavor runs.verdict runs.extra runs.cold.means runs.opened_files.traced_by
    runs.startup.phases.name runs.startup.background_phases.name runs.stacks.program runs.stacks.chains.phase
    runs.stacks.chains.thread runs.load.waits.source started_at runs.started_at earlier.started_at tool_version
    """
)
"""Keys of texts of this tool's own words, beside the facts about the host and the settings."""
_NAMES = _words(
    """
    variants.name variants.values.* runs.variant floors.variants earlier.variant axes.name axes.values axes.base
    """
)
"""Keys of names that the user may have given."""
_VERSIONS = frozenset({"versions", "runs.version", "floors.version", "earlier.version"})
_ANY_KEY = _words("servers variants.values runs.metrics runs.timeline.columns runs.load.clients runs.observations")
"""Objects whose keys are no names of this tool's, or all of one kind."""
_FACTS = ("environment", "settings", "servers.*")
"""Objects with keys that this tool gives."""
_SET_APART = frozenset({"experiment", "question", "title", "command"})
"""Keys of the session itself that are made anew."""
_METRIC = form(rf"{'|'.join(METRICS)}|[a-z][a-z0-9_]{{1,60}}_(?:s|ms|bytes|per_s|per_query|per_commit)")
_OTHER_KEYS: Mapping[str, Callable[[str], Any]] = {
    "runs.metrics": _METRIC, "runs.timeline.columns": _METRIC, "runs.load.clients": _CLIENTS.__contains__,
    "runs.observations": own_words, "servers.*": lambda name: name.startswith("@") or _known_key(name),
}  # fmt: skip
"""The rules for keys of other objects."""
_OF_USER = _words(
    "first_queries insert_template datadir before_start before_kill queries mysqld image registry archive"
)
"""Settings that are the user's own files, commands and places, if they are not `default`."""
_BY_TOOL = "default"
_PRIVATE_SETTINGS = frozenset({"note", "data"})
"""Settings that say nothing about what was measured. Of others it is shared that there was one."""
_SERIES = re.compile(
    r"(?:(?:mysql|mariadb|percona|debian)[-:])?(?:\d{1,3}(?:\.\d{1,4}){0,2}|lts|innovation|latest|mysql|mariadb(?:-\d+)?)"
)
_STAND_IN = re.compile(r"\bname-\d")
"""What stands for a name of the user's, who may have given such a name, too."""
_FOLDER = re.compile(r"\w[\w.+-]{0,119}", re.ASCII)
_PATHS = frozenset({"runs.log", "runs.stacks.file", "runs.load.raw"})
"""Names of files, which a bundle sets itself."""
_OTHERWISE = {
    "started_at": "", "runs.started_at": None, "earlier.started_at": "", "tool_version": "",
    "status": Status.ABORTED.value, "metric": "unlisted", "runs.flavor": Flavor.MYSQL.value,
    "runs.startup.phases.name": "query", "runs.startup.background_phases.name": "query",
    "runs.stacks.chains.phase": "load", "runs.stacks.chains.thread": "other threads",
}  # fmt: skip
"""What stands in place of a text that is left out, if it is not NOT_SHARED."""
_KINDS = {
    "notes": "notes", "settings": "settings", "environment": "facts about the host", "servers": "facts about servers",
    "earlier": "names of sessions",
}  # fmt: skip
_TITLE_AS_IS = "Recovery of a data directory as it is"
_MAX_PROGRAM_WORDS = 4
"""Words of a command before its options, as in `python -m recovery scale`."""


@dataclass(frozen=True)
class Reduced:
    """A session as it is shared, and what was left out of it."""

    session: Session
    left_out: dict[str, int]
    """How many things were left out, by their kind in plural: `settings`, `notes`."""
    names: dict[str, str]
    """The names that the user gave, by those that stand for them."""


def reduce_session(session: Session, names: dict[str, str] | None = None) -> Reduced:
    """Returns what is shared of a session. `names` has what stands for names that the user gave to other sessions, and
    gets those of this one."""
    reduction = _Reduction(session, {} if names is None else names)
    reduced = session_from_fields(reduction.session())
    left_out = {kind: len(found) for kind, found in sorted(reduction.left_out.items())}
    return Reduced(reduced, left_out, reduction.names())


def reduce_name(name: str, session: Session) -> str:
    """Returns the name of a session's folder, or one made from its start and its experiment."""
    if _FOLDER.fullmatch(name) and (own_words(name) is not None or TEXTS["earlier.session"](name)):
        return name
    digits = re.sub(r"\D", "", session.started_at.partition("+")[0])[:14]
    return f"{digits[:8]}T{digits[8:]}Z-{session.experiment}" if session.experiment in EXPERIMENTS else "session"


def reduce_stacks(folded: Folded) -> Folded:
    """Returns sampled stacks with names of phases, threads and functions only."""
    reduced: Folded = Folded()
    for (phase, thread, *frames), count in folded.items():
        known = (own_words(phase) or "load", own_words(thread) or "other threads")
        reduced[(*known, *map(function_name, frames))] += count
    return reduced


class _Reduction:
    def __init__(self, given: Session, names: dict[str, str]) -> None:
        self.given = given
        self.left_out: dict[str, set[object]] = {}
        """What was left out, by kind: each thing once."""
        self._names = names
        settings = given.settings
        try:
            self._labels = [named.label for named in named_settings(settings.get("variants"))]
        except RecoveryError:
            self._labels = []
        varied = filter(self._varied, split_words(settings.get("options")))
        self._axes = frozenset(option.partition("=")[0] for option in varied)
        self._settings: Mapping[str, Rule] = {
            **dict.fromkeys(("version", "baseline"), self._requested_versions),
            **dict.fromkeys(_OF_USER, lambda text: text if text == _BY_TOOL else None),
            "set": self._options_of(option_text),
            "options": self._options_of(self._varied),
            "variants": self._variants,
            "template": self._template,
        }

    def session(self) -> dict[str, Any]:
        shared: dict[str, Any] = self._value("", session_fields(self.given))
        try:
            experiment = find_experiment(self.given.experiment)
            texts = {"experiment": experiment.name, "question": experiment.question, "title": experiment.title}
        except RecoveryError:
            texts = {"experiment": "unknown", "question": "", "title": Session.title}
        if self.given.title == _TITLE_AS_IS:
            texts["title"] = _TITLE_AS_IS
        return {**shared, **texts, "command": self._command(self.given.command)}

    def _value(self, path: str, value: Any) -> Any:
        """Returns what is shared of the value at these keys; None for what is left out."""
        if isinstance(value, dict):
            return dict(self._object(path, value))
        if isinstance(value, list):
            return [
                kept for held in value if (kept := self._value(path, held)) not in (None, NOT_SHARED) or held is None
            ]
        return self._text(path, value) if isinstance(value, str) else value

    def _object(self, path: str, stored: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for name, value in stored.items():
            below = f"{path}.{'*' if path in _ANY_KEY else name}".lstrip(".")
            if below in _SET_APART:
                continue
            key = self._key(path, name)
            if key is None:
                if value not in (None, ""):
                    self._leave_out(path, name)
                continue
            kept = self._value(below, value)
            if kept is not None or value is None or path not in (*_FACTS, *_ANY_KEY):
                yield key, kept

    def _key(self, path: str, name: str) -> str | None:
        """Returns the key as it is shared; None if it is left out with its value."""
        if path == "servers":
            version, blank, label = name.partition(" ")
            return f"{self._version(version)}{blank}{self._name(label) if label else ''}"
        if path == "variants.values":
            return self._name(name)
        return name if _OTHER_KEYS.get(path, _known_key if path in _FACTS else bool)(name) else None

    def _text(self, path: str, text: str) -> str | None:
        if path in _VERSIONS:
            return self._version(text)
        if path in _NAMES:
            return self._name(text)
        if path in _PATHS:
            return None
        kept = self._rule(path)(text)
        if kept != text and text:
            self._leave_out(path, path if path.startswith(("environment", "settings")) else text)
        if kept is not None:
            return kept
        if path.startswith("settings."):
            return None if path.rpartition(".")[2] in _PRIVATE_SETTINGS or not text else NOT_SHARED
        return None if path.startswith(("environment.", "servers.")) else _OTHERWISE.get(path, NOT_SHARED)

    def _rule(self, path: str) -> Rule:
        above, _, name = path.rpartition(".")
        rule = self._settings.get(name) if above == "settings" else TEXTS.get(path)
        if rule is not None:
            return rule
        if path == "servers.*.options":
            return self._server_options
        if above == "servers.*" and name.startswith("@"):
            return lambda value: value if server_option(name[1:], value) else None
        is_own = path in _OWN_KEYS or (above in _FACTS and name not in _PRIVATE_SETTINGS)
        return _plain_or_own_words if is_own else _nothing

    def _leave_out(self, path: str, what: object) -> None:
        self.left_out.setdefault(_KINDS.get(path.partition(".")[0], "texts of runs"), set()).add(what)

    # --- Names that the user gave

    def _name(self, text: str) -> str:
        """Returns a name of this tool, or one that stands for the user's own: equal for equal names."""
        options = [option.partition("=") for option in text.split()]
        is_varied = bool(options) and all(
            name in self._axes and server_option(name, value) for name, _, value in options
        )
        is_own = own_words(text) is not None and _STAND_IN.search(text) is None
        if text in self._axes or is_varied or is_own:
            return text
        for label in sorted(self._labels, key=len, reverse=True):
            if text != label and text.endswith(f"-{label}") and own_words(begin := text.removesuffix(label)):
                return f"{begin}{self._name(label)}"
        if text not in self._names:
            self._names[text] = f"name-{len(self._names) + 1}"
        return self._names[text]

    def names(self) -> dict[str, str]:
        """Returns the names that the user gave, by those that stand for them."""
        return {stands: given for given, stands in self._names.items()}

    def _version(self, text: str) -> str:
        """Returns a version, with another name for its build, and without a suffix of the server's own."""
        try:
            version = parse_version(text)
        except ValueError:
            return self._name(text)
        release = version.full_release
        if _ADDRESS.search(release) and not re.fullmatch(_FOUR_NUMBERS, release):
            return self._name(text)
        return f"{release}+{self._name(version.build)}" if version.build else release

    def _requested_versions(self, text: str) -> str:
        """Returns versions as they were requested, which may be series: `9.7`, `lts`, `debian-mariadb`."""
        words = text.replace(",", " ").split()
        return " ".join(word if _SERIES.fullmatch(word) else self._version(word) for word in words)

    # --- Server options, settings with several values, and the command

    def _options_of(self, rule: Rule) -> Rule:
        return lambda text: self._kept_options(split_words(text), rule)

    def _kept_options(self, options: Iterable[str], rule: Rule) -> str:
        kept = {option: rule(option) for option in options}
        for option, shared in kept.items():
            if shared is None:
                self.left_out.setdefault("server options", set()).add(option)
        return shlex.join(filter(None, kept.values()))

    def _server_options(self, text: str) -> str:
        """Returns the options that are shared. Where the SQL of an init option ends is not known."""
        options = split_options(text)
        end = next((number for number, option in enumerate(options) if is_init_option(option)), len(options))
        return self._kept_options(options[: end + 1], option_text)

    def _varied(self, text: str) -> str | None:
        """Returns an option with all its values, `name=value,value`, if it is shared."""
        name, equals, values = text.partition("=")
        return text if equals and all(server_option(name, value) for value in values.split(",")) else None

    def _variants(self, text: str) -> str | None:
        """Returns the user's variants with the options that are shared; None if they cannot be read."""
        try:
            return shlex.join(map(self._variant, named_settings(text)))
        except RecoveryError:
            return None

    def _variant(self, named: NamedSettings) -> str:
        given = [f"{name}={value}" for name, value in (("layout", named.layout), ("schemas", named.schemas)) if value]
        options = (f"{name}={value}" for name, value in named.settings)
        return f"{self._name(named.label)}:{','.join((*given, *self._kept_options(options, option_text).split()))}"

    def _template(self, text: str) -> str | None:
        """Returns the name of the experiment's template."""
        try:
            own = find_experiment(self.given.experiment).template
        except RecoveryError:
            return None
        name = text.rpartition("/")[2]
        return name if name == own else None

    def _command(self, text: str) -> str:
        """Returns the command with the options that are shared."""
        words = split_words(text)
        shared = ["recovery", *[word for word in words[:_MAX_PROGRAM_WORDS] if word in (*EXPERIMENTS, "run")][:1]]
        for word, following in pairwise((*words, "--")):
            if not word.startswith("--") or word == "--":
                continue
            name, equals, value = word[2:].partition("=")
            value = value if equals else "" if following.startswith("--") else following
            kept = self._command_option(name.replace("-", "_"), value)
            if kept is None:
                self.left_out.setdefault("options of the command", set()).add(name)
            else:
                shared += [f"--{name}", kept] if value else [f"--{name}"]
        return shlex.join(shared)

    def _command_option(self, name: str, value: str) -> str | None:
        """Returns the shared value of an option of the command; empty if it has none."""
        if not _known_key(name) or name in _PRIVATE_SETTINGS:
            return None
        if not value:
            return ""
        if name in ("set", "option"):
            return option_text(value) if name == "set" else self._varied(value)
        if name == "variant":
            return (variants := self._variants(shlex.quote(value))) and split_words(variants)[0]
        return self._rule(f"settings.{name}")(value) or None
