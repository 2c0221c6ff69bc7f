"""The allow-list of a bundle: names of settings, facts and options, and the texts that they may have.

A name or a text that is not listed here is left out. Numbers and flags of a listed name are shared as they are. So is a
text that can only be a number, a size, a date, or a word that servers, kernels and this tool themselves use."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from recovery.metrics import METRICS
from recovery.model import Flavor, Layout, Schema
from recovery.phase_table import JOIN, ORDER
from recovery.sharing.masking import kind_of_fact

Rule = Callable[[str], str | None]
"""Returns what is shared of a text, or None to leave it out."""

NOT_SHARED = "(not shared)"
"""In place of a text that the user wrote, where a reader has to know that there was one."""


def words(*known: str) -> Rule:
    return lambda text: text if text in known else None


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def form(pattern: str) -> Rule:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: text if compiled.fullmatch(text) else None


def each_of(rule: Rule, separator: str) -> Rule:
    """Returns the rule for a list: its parts that follow `rule` are shared."""
    return lambda text: separator.join(filter(None, map(rule, text.split(separator)))) or None


def that_it_was_given(_: str) -> str:
    return NOT_SHARED


TIME = form(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)?")
NUMBER = form(r"[+-]?\d{1,25}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?")
NUMBERS = form(r"[\d ,.%-]{1,300}")
SIZES = form(r"[\d ,.]{1,60}[kKmMgGtT]?%?")
HEX = form(r"(?:sha256:)?[0-9a-f]{12,64}")
TOOL_VERSION = form(r"\d+(?:\.\d+)*(?:\.?(?:dev|rc|a|b|post)\d+)?")

# --- Values of server options and variables

_SIZE = r"[+-]?\d{1,25}(?:\.\d{1,20})?(?:[kKmMgGtTpPeE])?"
_CHARACTER_SET = r"(?:latin1|ascii|binary|utf8|utf8mb3|utf8mb4)(?:_[a-z0-9]{1,10}){0,5}"
_VALUE_WORDS = names(
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
    if _OPTION_NAME.fullmatch(bare) is None or kind_of_fact(bare) is not None:
        return False
    return _VALUE.fullmatch(value) is not None or value.lower() in _VALUE_WORDS


def option_text(option: str) -> str | None:
    """Returns an option of the form `name=value`, or of a flag, if it is shared."""
    name, equals, value = option.partition("=")
    if not equals:
        return option if _FLAG_NAME.fullmatch(name.replace("-", "_")) else None
    return option if server_option(name, value) else None


# --- Facts about the host

_DEVICE = form(
    r"(?:/dev/)?(?:[hsv]d[a-z]{1,2}\d{0,3}|xvd[a-z]{1,2}\d{0,3}|nvme\d+n\d+(?:p\d+)?|mmcblk\d+(?:p\d+)?|md\d+(?:p\d+)?"
    r"|dm-\d+|loop\d+|zram\d+|pmem\d+|nbd\d+|rbd\d+|overlay|tmpfs)"
)
_FILESYSTEM = words(
    *names("ext2 ext3 ext4 xfs btrfs zfs f2fs overlay overlayfs tmpfs nfs nfs4 cifs 9p virtiofs ceph lustre fuse")
)
_HARDWARE = form(r"(?:[\w ().,+/-]| @ ){1,100}")
_MOUNT_OPTION = form(
    r"(?:rw|ro|(?:no|rel|lazy|strict)?atime|nodiratime|nosuid|nodev|noexec|sync|async|(?:no)?discard|(?:no)?barrier"
    r"|resv_strict|inode64|attr2|noquota|largeio|swalloc|nobh|dax|delalloc|space_cache|ssd|data=[a-z]{2,10}"
    r"|errors=[a-z-]{2,12}|compress(?:-force)?=(?:zstd|lzo|zlib)(?::\d+)?|[a-z_]{1,20}=\d{1,20})"
)
_CONTROLLERS = "blkio|cpu|cpuacct|cpuset|devices|freezer|hugetlb|io|memory|misc|perf_event|pids|rdma|net_cls|net_prio"
_VIRTUAL = (
    "kvm|qemu|xen|microsoft|vmware|oracle|amazon|google|bhyve|parallels|powervm|zvm|none|docker|podman|lxc|wsl|openvz"
    "|systemd-nspawn|kubernetes|container|virtual machine|container-other|vm-other"
)


def _engine(text: str) -> str | None:
    """Returns the name and the version of the container engine, without its address."""
    found = re.match(r"(?:Docker|Podman) [\d.]{1,20}", text, re.ASCII)
    return found[0] if found else None


HOST_NUMBERS = names(
    """
    cgroup_version cpu_quota cpus fanotify_groups fanotify_marks filesystem_free_bytes filesystem_size_bytes
    inodes_free inotify_instances inotify_watches load_1m memory_available_bytes memory_bytes open_files_limit
    other_servers read_ahead_kb rotational swappiness tool_peak_memory_bytes probe_file_bytes probe_seconds_each
    probe_again_blocks probe_again_times_faster probe_first_read_ms probe_read_again_ms
    probe_4k_1_iops probe_4k_1_mean_ms probe_4k_1_p99_ms probe_4k_16_iops probe_4k_16_mean_ms probe_4k_16_p99_ms
    probe_16k_1_iops probe_16k_1_mean_ms probe_16k_1_p99_ms probe_16k_16_iops probe_16k_16_mean_ms probe_16k_16_p99_ms
    """
)
"""Facts about the host that are numbers. Not here, as all that identifies a machine: serial numbers, ids of volumes."""
HOST_TEXTS: Mapping[str, Rule] = {
    "architecture": words("x86_64", "aarch64", "ppc64le", "s390x", "riscv64", "i686"),
    "cgroup_controllers": form(rf"(?:(?:; )?v[12]:(?: (?:{_CONTROLLERS}))+)+"),
    "cold_means": words("drop_caches", "fadvise"),
    "cpu_governor": words("performance", "powersave", "ondemand", "conservative", "schedutil", "userspace"),
    "cpu_model": _HARDWARE,
    "device": _DEVICE,
    "device_model": _HARDWARE,
    "ec2_instance_type": form(r"[a-z][a-z0-9-]{1,15}\.[a-z0-9-]{1,20}"),
    "engine": _engine,
    "engine_cgroups": form(r"v[12], driver (?:cgroupfs|systemd)"),
    "engine_storage": words("overlay2", "overlayfs", "fuse-overlayfs", "btrfs", "zfs", "vfs", "devicemapper", "aufs"),
    "fanotify": words("works", "Operation not permitted", "Function not implemented", "Invalid argument"),
    "filesystem": _FILESYSTEM,
    "free_page_reporting": words("yes", "no"),
    "idle_pageout": form(r"DAMON pages out (?:idle memory|what is idle for \d{1,9} s)"),
    "kernel": form(r"\d+\.\d+[\w.+~-]{0,60}"),
    "machine_product": _HARDWARE,
    "machine_vendor": _HARDWARE,
    "mount_options": each_of(_MOUNT_OPTION, ","),
    "os": _HARDWARE,
    "probe": words(
        "O_DIRECT reads at random of a file just written, by 1 and by 16 threads, without limits",
        "none: left out, as asked",
    ),
    "probe_again_over": words("tables' files kept here", "the file just written"),
    "program_device": _DEVICE,
    "python": TOOL_VERSION,
    "root": words("yes", "no"),
    "scheduler": words("none", "mq-deadline", "kyber", "bfq", "noop", "deadline", "cfq"),
    "temporary_device": _DEVICE,
    "temporary_filesystem": _FILESYSTEM,
    "thp": words("always", "madvise", "never"),
    "tool": TOOL_VERSION,
    "tool_device": _DEVICE,
    "tool_filesystem": _FILESYSTEM,
    "virtualisation": form(rf"(?:{_VIRTUAL})(?: in (?:{_VIRTUAL}))*"),
}

# --- Facts about servers. Their variables, `@name`, follow the rule of server options.

_VERSION_NUMBERS = r"\d{1,3}\.\d{1,3}\.\d{1,4}(?:\.\d{1,4})?"
_PACKAGE_VERSION = r"(?:\d:)?[\d.]{1,20}(?:\+ds)?(?:-[\d.]{1,12})?(?:\+deb\d+u\d+|\+b\d+|\+dfsg\d*)*"
_PACKAGES = rf"(?:(?:mysql|mariadb|percona)[a-z0-9.-]{{1,30}} {_PACKAGE_VERSION}(?:, )?)+"
_PUBLIC_SOURCES = r"(?:downloads|dev|cdn|archive)\.(?:mysql|mariadb|percona)\.(?:com|org)|archive\.mariadb\.org"
_SOURCE = re.compile(
    r"catalog \((?:\d[\w.-]{1,40}|(?:maven|npm) [\w.:@-]{1,100})\)"
    rf"|built from Debian [a-z]{{3,12}} by debootstrap: {_PACKAGES}"
    rf"|debian [a-z]{{3,12}} \({_PACKAGES}; debootstrap\)"
    rf"|archive https?://(?:{_PUBLIC_SOURCES})/[\w./+-]{{1,200}}",
    re.ASCII,
)
_KINDS_OF_SOURCES = frozenset({"own", "archive", "image", "built", "catalog", "debian", "path"})


def source(text: str) -> str | None:
    """Returns where a server comes from, or only the kind of this place if it is not a public one."""
    kind = text.partition(" ")[0]
    return text if _SOURCE.fullmatch(text) else kind if kind in _KINDS_OF_SOURCES else None


SERVER_TEXTS: Mapping[str, Rule] = {
    **dict.fromkeys(("build_s", "data_bytes", "ibd_files", "rows", "schemas", "tables"), NUMBER),
    "source": source,
    "sha256": HEX,
    "fingerprint": HEX,
    "image": HEX,
    "layout": words(*Layout),
    "program_device": _DEVICE,
    "@version": form(
        rf"{_VERSION_NUMBERS}(?:-(?:\d+(?:\.\d+)*|MariaDB|log|debug|commercial|enterprise|\d[\w.+]*deb\d+u\d+)){{0,5}}"
        r"(?: from Debian)?"
    ),
    "@version_comment": form(
        r"MySQL (?:Community|Enterprise) Server(?: - (?:GPL|Commercial)| \(GPL\)| \(Commercial\))?(?: - Debug)?"
        r"|MariaDB Server|mariadb\.org binary distribution|Source distribution|\(Debian\)|Debian \d\d|\(Ubuntu\)"
        r"|Percona Server \(GPL\)(?:, Release [\d.]+)?(?:, Revision [0-9a-f]{1,12})?(?: - debug)?"
        r"|-- Please help get to 10k stars at https://github\.com/MariaDB/Server"
    ),
}

# --- Settings, and the same options in the command that repeats a session

SETTING_NUMBERS = names(
    """
    as_is as_published columns cpus depth dump_schemas every_s fail_over floor inserts max_runs max_startup
    memory_bytes memory_ratio no_drop_caches open_files pollers precision predict predicted published_build read_bps
    read_iops rows runs schemas seconds seed statistics tables trace unprivileged waits warmup_s
    """
)
"""Settings that are numbers or flags."""
_CPUS = form(r"\d[\d,-]{0,100}")
_DATABASES = words(Schema.database, "s", "sbtest")
"""Names of the schemas that the tool's own experiments and pages use."""
SETTING_TEXTS: Mapping[str, Rule] = {
    "charset": each_of(form(_CHARACTER_SET), " "),
    "client_cpus": _CPUS,
    "cpu_set": _CPUS,
    "database": _DATABASES,
    "engine": words("auto", "docker", "local"),
    "first_queries": lambda text: "default" if text == "default" else NOT_SHARED,
    "layout": words(*Layout),
    "order": words(
        "one version", "one after the other",
        *(f"{what} {how}" for what in ("versions", "data directories")
          for how in ("alternate, block by block", "run one after the other")),
    ),
    "points": NUMBERS,
    "server_cpus": _CPUS,
    "stacks": words("auto", "eu-stack", "perf", "gdb"),
    **dict.fromkeys(
        (
            "insert_template", "datadir", "before_start", "before_kill", "queries", "mysqld", "image", "registry",
            "archive",
        ),
        that_it_was_given,
    ),
}  # fmt: skip
COMMAND_FLAGS = names(
    """
    as-is as-published floor keep no-drop-caches no-probe offline profile quiet trace unprivileged verbose waits yes
    """
)
_COMMAND_NUMBERS = names(
    """
    columns cpus depth dirty dump-schemas every fail-over inserts load-tables max-runs max-startup memory
    memory-ratio only open-files pollers precision predict predicted published-build read-bps read-iops rows runs
    schemas seconds seed stall tables threads uncommitted warmup
    """
)
COMMAND_TEXTS: Mapping[str, Rule] = {
    **dict.fromkeys(_COMMAND_NUMBERS, SIZES),
    "charset": SETTING_TEXTS["charset"],
    "cpu-set": _CPUS,
    "database": _DATABASES,
    "engine": SETTING_TEXTS["engine"],
    "first-queries": words("default"),
    "layout": words(*Layout),
    "redo": each_of(SIZES, " "),
    "scale": words("quick", "standard", "published"),
    "stacks": SETTING_TEXTS["stacks"],
    "state": each_of(words("open", "prepared", "xa"), " "),
    "statistics": words("on", "off"),
}

# --- Texts of runs

FLAVOR = words(*Flavor)
COLD_MEANS = HOST_TEXTS["cold_means"]
PREVIOUS_EXIT = form(r"(?:signal|exit) \d{1,3}|SIG[A-Z]{2,5}")
TRACING_PROGRAM = words("fanotify", "inotify")
SAMPLING_PROGRAM = words("eu-stack", "perf", "gdb")
THREAD = words("main thread", "other threads")
WAIT_SOURCE = words("innodb mutex", "performance schema", "status")
WAIT_NAME = form(
    r"(?:combined |sum )?(?:(?:rw)?lock: |mutex: )?[a-z0-9_]{1,30}\.(?:cc|h|ic|c):\d{1,6}"
    r"|wait/(?:synch|io|lock)/[a-z]{1,20}(?:/[\w:]{1,60}){1,3}|[A-Z][A-Z0-9_]{1,40}|row locks|table locks"
)
FUNCTION = form(r"\[\?\]|\[(?:mysqld|mariadbd|libc|lib[a-z0-9_+-]{1,30})(?:\.so[.\d]*|-[\d.]+\.so)?\]"
                r"|[A-Za-z_~][\w:~<>,&*() \[\]=+-]{0,300}")  # fmt: skip
"""Function names of servers and libraries, which have no path."""
_PHASES = frozenset({*ORDER, "size query", "table queries"})
_METRIC = re.compile(r"[a-z][a-z0-9_]{1,60}_(?:s|ms|bytes|per_s|per_query|per_commit)", re.ASCII)


def metric_name(text: str) -> str | None:
    return text if text in METRICS or _METRIC.fullmatch(text) else None


def phase(text: str) -> str | None:
    return text if set(text.split(JOIN)) <= _PHASES else None


PROGRAM_VERSION = form(
    r"sysbench [\d.]{1,12}(?:-[0-9a-f]{1,10})?"
    r"|(?:mysqldump|mariadb-dump) +Ver [\d.]{1,12} +(?:Distrib )?[\w. ()-]{1,60}(?:, for [\w -]{1,40}\([\w-]{1,20}\))?"
)
OBSERVED = ("start", "says", "the table", "the others", "once mended")
"""What is observed of a server with damaged files."""
CLIENTS = frozenset({"load", "polls", "dump", "sysbench", "mysqldump", "mariadb-dump"})
_CLIENT_WORD = re.compile(r"--?[a-z][a-z0-9_-]{1,40}(?:=(?:[\d.]{1,20}|on|off|mysql|root|uniform|pareto|special))?")


def client_command(text: str) -> str | None:
    """Returns the command of a client: the name of its program, and its options with plain values."""
    if PROGRAM_VERSION(text):
        return text
    program, *arguments = text.split()
    name = program.rpartition("/")[2]
    known = [word for word in arguments if _CLIENT_WORD.fullmatch(word) or re.fullmatch(r"oltp_[a-z_]{1,30}", word)]
    return " ".join((name, *known)) if name in CLIENTS else None


# --- Sentences of this tool, with `#` for each figure

_FIGURES = re.compile(r"\d+(?:[.,]\d+)*")
_NOTES = frozenset(
    {
        "The tool was killed or could not write before the session ended. All finished runs are kept.",
        "The server was limited to # reads a second.",
        "The server was limited to CPU #.",
        "The server was limited to CPU #-#.",
        "The server was limited to # CPU.",
        "The server was limited to # CPUs.",
        "The server was limited to # GiB of memory with its page cache.",
        "The server was limited to # MiB of memory with its page cache.",
        *(
            f"No cache stays warm for long on this host: DAMON pages out what is idle for # s. {advice}"
            for advice in ("Compare the bytes read by the warm starts.", "Warm starts that read much are partly cold.")
        ),
        *(
            f"PRECISION=#%: runs are added until every interval is that narrow{where} (# to # runs). To make up for "
            "that choice, all intervals are # % wider than with a fixed number of runs."
            for where in (" in this session", "")  # without it in older sessions
        ),
        "Earlier sessions on this host: only the newest # of # were read.",
    }
)
_NOT_MEASURED = re.compile(
    r"[a-z-]{1,40} is not measured with [\w.+ ,-]{1,200}: it needs (?:(?: or )?(?:MySQL|MariaDB)[\d. ,a-z]{0,60})+\.",
    re.ASCII,
)
_REASONS = frozenset(
    {
        "it does not come back", "the server does not start after the crash", "the server did not start",
        "mysqld ended by itself, with exit code #", "mariadbd ended by itself, with exit code #",
        "mysqld ended with exit # before it was ready", "mariadbd ended with exit # before it was ready",
        "mysqld died of signal #", "mariadbd died of signal #",
        "the log shows no crash recovery", "the log does not show a crash recovery",
        "the log does not show a crash recovery: log_error_verbosity=# would",
        "the log does not show a crash recovery: the server started as after a clean shutdown",
        "# tables more than before the start: something else wrote to this server",
        "# tables after the start, # before", "# of # acknowledged rows are lost",
        "# rows more than were acknowledged: something else wrote to this server",
        "the bytes read by a warm start did not become stable in # starts",
        "the server had shut down before it was to be killed, # s after it was told to",
        "moments are chosen within what its last shutdown took", "more RUNS= bring others",
        *(f"# of # acknowledged {what}{many} lost" for what in ("statement", "transaction") for many in ("", "s")),
        *(
            f"# {what}{many} {how}"
            for what in ("statement", "transaction")
            for many in ("", "s")
            for how in ("present without a commit", "present in part", "lost although later ones are present")
        ),
        "its log speaks of damage", "the error log reports damage", "CHECK TABLE fails", "files are missing",
        "files are left behind", "# definition changed in part", "# definitions changed in part",
        # what a server with damaged files did
        "all of them pass CHECK TABLE", "nothing of it", "the server is gone", "the server dies of it", "exit #",
        "the server crashes", "ready after # s", "# rows", "no answer within # s", "all # transactions there",
        "all # transaction there",
        *(f"# {what} of # transactions" for what in ("lost", "torn", "lost and # torn")),
    }
)  # fmt: skip
"""Parts of the reasons of runs, and of what was observed of damaged files, between colons and semicolons."""


def note(text: str) -> str | None:
    known = _FIGURES.sub("#", text) in _NOTES or _NOT_MEASURED.fullmatch(text)
    return text if known else None


_MAX_PARTS = 12
"""Most parts of a reason, with the separators between them."""


def known_reason(text: str) -> tuple[str, str]:
    """Returns the beginning of a run's reason that consists of texts of this tool, and the rest, which may quote a
    server."""
    parts = re.split(r"(: |; )", text)
    end = 0
    for last in range(1, min(len(parts), 2 * _MAX_PARTS) + 1, 2):
        # A text of the tool may contain a separator itself.
        if any(_FIGURES.sub("#", "".join(parts[first:last])) in _REASONS for first in {0, end and end + 1}):
            end = last
    return "".join(parts[:end]), "".join(parts[end + 1 :])
